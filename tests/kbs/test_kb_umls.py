"""The adapter ``kglink/umls``, on a miniature of a release: the real one needs a licence."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb_checks import claimants, fuzz, head_of
from kglink.errors import KglinkError, RecordError, SourceError
from kglink.records import Alias, Entity
from kglink.sources import OnError, Problems, Source
from kglink.testing import KBAdapterContract
from kglink.testing.contracts.kb import check_record
from kglink_kbs import umls
from kglink_kbs.umls import (
    ST21PV_SOURCES,
    ST21PV_TYPES,
    UmlsAdapter,
    UmlsSettings,
    in_st21pv,
    sniff,
)

URL = "https://uts.nlm.nih.gov/uts/umls/concept/"


def atom(
    cui: str,
    name: str,
    source: str = "MSH",
    code: str = "NOCODE",
    *,
    preferred: str = "S|PF|N",
    aui: str = "A1",
    language: str = "ENG",
    suppress: str = "N",
) -> str:
    """A row of MRCONSO; ``preferred`` holds TS, STT and ISPREF."""
    ts, stt, is_preferred = preferred.split("|")
    cells = [cui, language, ts, "L1", stt, "S1", is_preferred, aui, "", "", "", source, "PT", code]
    return "|".join([*cells, name, "0", suppress, "256"]) + "|\n"


def typed(cui: str, tui: str, tree: str, name: str) -> str:
    """A row of MRSTY."""
    return f"{cui}|{tui}|{tree}|{name}|AT1|256|\n"


def defined(cui: str, aui: str, text: str, suppress: str = "N") -> str:
    """A row of MRDEF."""
    return f"{cui}|{aui}|AT1||MSH|{text}|{suppress}||\n"


BEST = "P|PF|Y"
MRCONSO = (
    atom("C0000005", "131I-MAA", "MSH", "D012711", aui="A5")
    + atom("C0000005", "(131)I-Macroaggregated Albumin", "MSH", "D012711", preferred=BEST)
    + atom("C0000005", "(131)I-MAA", "SNOMEDCT_US", "99", preferred="S|VO|Y")
    + atom("C0000005", "131I-MAA", "MTH")
    + atom("C0000005", "Albúmina macroagregada", "MSHSPA", "D012711", language="SPA", aui="A9")
    + atom("C0000005", "Old name", "MSH", "D012711", suppress="O")
    + atom("C0010674", "Cystic Fibrosis", "MSH", "D003550", preferred=BEST, aui="A7")
    + atom("C0010674", "Cystic  fibrosis ", "OMIM", "219700", aui="A8")
    + atom("C0010674", "Mucoviscidosis", "XYZ", "7", aui="A6")
    + atom("C0020000", "Solo", "HPO", "HP:0000118")
    + atom("C0030000", "Nombre", "MSHSPA", language="SPA")
    + atom("C0040000", "Foreign source", "XYZ", "1", preferred=BEST)
)
MRSTY = (
    typed("C0000001", "T047", "B2.2.1.2.1", "Disease or Syndrome")
    + typed("C0000005", "T116", "A1.4.1.2.1.7", "Amino Acid, Peptide, or Protein")
    + typed("C0000005", "T121", "A1.4.1.1.1", "Pharmacologic Substance")
    + typed("C0010674", "T047", "B2.2.1.2.1", "Disease or Syndrome")
    + typed("C0020000", "T079", "A2.1.1", "Temporal Concept")
    + typed("C0040000", "T047", "B2.2.1.2.1", "Disease or Syndrome")
)
MRDEF = (
    defined("C0000005", "A9", "Una albúmina.")
    + defined("C0010674", "A7", "Suppressed.", suppress="Y")
    + defined("C0010674", "A7", "A genetic disease.")
    + defined("C0010674", "A7", "Another definition.")
)


@pytest.fixture
def release(tmp_path: Path) -> Path:
    """The folder of a release."""
    folder = tmp_path / "2017AA"
    (folder / "META").mkdir(parents=True)
    with gzip.open(folder / "META" / "MRCONSO.RRF.gz", "wb") as out:
        out.write(MRCONSO.encode())
    (folder / "META" / "MRSTY.RRF").write_text(MRSTY)
    (folder / "META" / "MRDEF.RRF").write_text(MRDEF)
    (folder / "META" / "MRREL.RRF").write_text("C0000005|no|concern|of|ours|\n")
    return folder


def read(
    source: Path | bytes | str,
    *,
    on_error: OnError = "stop",
    problems: Problems | None = None,
    **settings: Any,
) -> list[Entity]:
    """The entities of a release or of one file."""
    if isinstance(source, Path):
        opened = Source.open_path(source)
    else:
        data = source.encode() if isinstance(source, str) else source
        opened = Source.from_bytes(data, name="MRCONSO.RRF")
    with opened:
        adapter = UmlsAdapter(UmlsSettings(**settings))
        records = list(adapter.read(opened, problems or Problems(on_error)))
    entities = [record for record in records if isinstance(record, Entity)]
    assert len(entities) == len(records)
    return entities


ALBUMIN = Entity(
    "C0000005",
    "(131)I-Macroaggregated Albumin",
    url=f"{URL}C0000005",
    language="en",
    aliases=(Alias("131I-MAA", "synonym"), Alias("(131)I-MAA", "synonym")),
    xrefs=("MSH:D012711", "SNOMEDCT_US:99"),
)


class TestUmls(KBAdapterContract):
    plugin = "kglink/umls"
    source_name = "MRCONSO.RRF"
    source_text = "".join(MRCONSO.splitlines(keepends=True)[:6]) + atom("C0020000", "Solo", "HPO")
    expected = (
        ALBUMIN,
        Entity("C0020000", "Solo", url=f"{URL}C0020000", language="en"),
    )
    broken = (
        b"\x00\xff\xfe no record \x80\n",
        "C0000005|ENG|P|too short|\n",
        atom("D0000005", "no concept"),
        atom("C0000005", "a control \x07 character"),
        atom("C0000006", "second") + atom("C0000005", "first"),
    )


# -------------------------------------------------------------------------------------- a release
def test_a_release_is_read_side_by_side(release: Path) -> None:
    found = {entity.key: entity for entity in read(release)}
    assert list(found) == ["C0000005", "C0010674", "C0020000", "C0040000"]
    albumin, fibrosis = found["C0000005"], found["C0010674"]
    assert albumin.type == "Amino Acid, Peptide, or Protein, Pharmacologic Substance"
    assert (albumin.title, albumin.aliases) == (ALBUMIN.title, ALBUMIN.aliases)
    assert albumin.description == ""  # the Spanish atom's definition is not for English names
    assert fibrosis.description == "A genetic disease."
    assert [alias.surface for alias in fibrosis.aliases] == ["Cystic fibrosis", "Mucoviscidosis"]
    assert fibrosis.xrefs == ("MSH:D003550", "OMIM:219700", "XYZ:7")
    assert found["C0020000"].title == "Solo"  # no atom is preferred: the first


def test_the_subset_of_medmentions(release: Path) -> None:
    found = {entity.key: entity for entity in read(release, subset="st21pv")}
    assert list(found) == ["C0000005", "C0010674"]
    assert [alias.surface for alias in found["C0010674"].aliases] == ["Cystic fibrosis"]


def test_sources_and_language(release: Path) -> None:
    assert [entity.key for entity in read(release, sources="HPO,XYZ")] == [
        *("C0010674", "C0020000", "C0040000")
    ]
    spanish = read(release, language="SPA")
    assert [(entity.key, entity.title) for entity in spanish] == [
        ("C0000005", "Albúmina macroagregada"),
        ("C0030000", "Nombre"),
    ]
    assert spanish[0].description == "Una albúmina."


def test_the_size_of_the_subset() -> None:
    assert (len(ST21PV_TYPES), len(ST21PV_SOURCES)) == (21, 18)


@pytest.mark.parametrize(
    ("tui", "tree", "inside"),
    [
        ("T103", "", True),
        ("T116", "A1.4.1.2.1.7", True),  # below Chemical
        ("T002", "A1.1.3.3", True),  # Plant, below Eukaryote
        ("T194", "A1.1.1", False),  # Archaeon
        ("T167", "A1.4", False),  # Substance, above Chemical
        ("T999", "A1.40", False),
        ("T096", "A2.9", False),  # Group, above Population Group
    ],
)
def test_what_belongs_to_the_subset(tui: str, tree: str, inside: bool) -> None:
    assert in_st21pv(tui, tree) == inside


def test_a_folder_is_known_by_its_file(release: Path, tmp_path: Path) -> None:
    with Source.open_path(release) as source:
        assert claimants(source.head) == ["kglink/umls"]
    other = tmp_path / "other"
    other.mkdir()
    with Source.open_path(other) as source:
        assert sniff(source.head) == 0


# --------------------------------------------------------------------------------------- mistakes
@pytest.mark.parametrize("name", ["MRCONSO.RRF.gz", "MRSTY.RRF"])
def test_a_file_is_missing(release: Path, name: str) -> None:
    (release / "META" / name).unlink()
    with pytest.raises(SourceError, match=rf"there is no {name.removesuffix('.gz')} in 2017AA"):
        read(release, subset="st21pv")


@pytest.mark.parametrize("name", ["MRSTY.RRF", "MRDEF.RRF"])
def test_a_file_is_not_sorted(release: Path, name: str) -> None:
    path = release / "META" / name
    path.write_text("".join(sorted(path.read_text().splitlines(keepends=True), reverse=True)))
    with pytest.raises(SourceError, match=rf"line \d: {name} is not sorted by concept") as caught:
        read(release)
    assert "LC_ALL=C sort" in caught.value.hint


def test_bad_rows_are_told_and_skipped() -> None:
    problems = Problems("skip")
    data = "C0000001|ENG|\n" + atom("C0000005", "a\x07b") + atom("C0000006", "good")
    assert [entity.key for entity in read(data, problems=problems)] == ["C0000006"]
    assert [told.partition("\n")[0] for told in problems.examples] == [
        "MRCONSO.RRF, line 1: a row of MRCONSO.RRF with 2 columns",
        "MRCONSO.RRF, line 2 (concept C0000005): a name holds the control character U+0007",
    ]


def test_rows_that_ran_into_each_other_are_bad() -> None:
    """The lines of an old Mac end in carriage returns alone: all of them would be one row."""
    data = (atom("C0000005", "one") + atom("C0000006", "two")).replace("\n", "\r")
    with pytest.raises(RecordError, match=r"line 1: a row of MRCONSO\.RRF with 36 columns"):
        read(data)


def test_sources_that_the_release_does_not_have_are_told() -> None:
    with pytest.raises(SourceError, match="holds no concept that is wanted") as caught:
        read(atom("C0000005", "one"), sources="MHS")
    assert "ENG (1), MSH (1)" in caught.value.hint


def test_a_concept_without_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(umls, "MAX_ROWS", 3)
    with pytest.raises(SourceError, match="line 1: C0000005 has more than 3 rows"):
        read(atom("C0000005", "again") * 4)


@given(data=st.binary(max_size=200) | st.text("C0000005|ENGPFYN\n", max_size=200).map(str.encode))
@fuzz
def test_only_our_own_errors_come_out(data: bytes) -> None:
    for text in (data, atom("C0000005", "x").encode() + data, MRCONSO.encode()[:700] + data):
        assert 0 <= sniff(head_of(text)) <= 1
        for problems in (Problems("stop"), Problems("skip")):
            try:
                for entity in read(text, problems=problems):
                    check_record(entity)
            except KglinkError as error:
                str(error).encode()
