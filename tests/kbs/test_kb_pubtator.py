"""The adapter ``kglink/pubtator``."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb_checks import claimants, fuzz, head_of
from kglink.errors import KglinkError, SourceError
from kglink.records import Candidate, Document, EntityId, Link, LinkedDocument, Mention
from kglink.sources import OnError, Problems, Source
from kglink.testing import KBAdapterContract
from kglink.testing.contracts.kb import check_record
from kglink_kbs import pubtator
from kglink_kbs.pubtator import PubtatorAdapter, PubtatorExporter, PubtatorSettings, sniff

TITLE = "Naloxone 👩‍🚀 and toxicity."
ABSTRACT = "Ocular and auditory toxicity; no cancer."
TEXT = f"{TITLE} {ABSTRACT}"


def row(id_: str, surface: str, kind: str, *codes: str, text: str = TEXT, nth: int = 0) -> str:
    """An annotation of the ``nth`` place where ``surface`` stands."""
    start = -1
    for _ in range(nth + 1):
        start = text.index(surface, start + 1)
    return "\t".join([id_, str(start), str(start + len(surface)), surface, kind, *codes])


def block(id_: str, *rows: str) -> str:
    """A document with the usual text."""
    return "\n".join([f"{id_}|t|{TITLE}", f"{id_}|a|{ABSTRACT}", *rows]) + "\n"


def mention(surface: str, kind: str, *codes: str, nth: int = 0) -> Mention:
    """The mention that `row` describes."""
    start = int(row("1", surface, kind, nth=nth).split("\t")[1])
    gold = tuple(EntityId("", code) for code in codes) or None
    return Mention(start, start + len(surface), surface, gold, kind)


def read(data: str | bytes, *, on_error: OnError = "stop", **settings: Any) -> list[Document]:
    """The documents of ``data``."""
    documents, _ = read_counted(data, on_error=on_error, **settings)
    return documents


def read_counted(
    data: str | bytes, *, on_error: OnError = "skip", **settings: Any
) -> tuple[list[Document], list[str]]:
    """The documents of ``data``, and what was wrong with it."""
    problems = Problems(on_error)
    raw = data.encode() if isinstance(data, str) else data
    adapter = PubtatorAdapter(PubtatorSettings(**settings))
    with Source.from_bytes(raw, name="x.txt") as source:
        found = list(adapter.read(source, problems))
    documents = [record for record in found if isinstance(record, Document)]
    assert len(documents) == len(found)
    return documents, problems.examples


class TestPubtator(KBAdapterContract):
    plugin = "kglink/pubtator"
    source_name = "corpus.PubTator.txt"
    source_text = (
        "\n"
        + block(
            "1",
            row("1", "toxicity", "Disease", "D064420", nth=1),
            row("1", "Naloxone", "Chemical", "MESH:D009270"),
            row("1", "Ocular and auditory toxicity", "Disease", "D014786|D006311", "Ocular|x"),
            "1\tCID\tD009270\tD064420",
        )
        + "\n\n"
        + block("2", row("2", "cancer", "T191", "UMLS:C0006826"), row("2", "Ocular", "T082"))
        + "\n3|t|A title alone\n3|a|\n"
    )
    expected = (
        Document(
            "1",
            TEXT,
            (
                mention("Naloxone", "Chemical", "D009270"),
                mention("Ocular and auditory toxicity", "Disease", "D014786", "D006311"),
                mention("toxicity", "Disease", "D064420", nth=1),
            ),
            TITLE,
        ),
        Document(
            "2", TEXT, (mention("Ocular", "T082"), mention("cancer", "T191", "C0006826")), TITLE
        ),
        Document("3", "A title alone", (), "A title alone"),
    )
    broken = (
        b"\x00\xff\xfe no record \x80\n",
        "1|a|An abstract alone\n",
        block("1", "1\t0\t8\tCocaine\tChemical\tD003042"),
        block("1", "1\t0\t9999\tNaloxone\tChemical\tD009270"),
        block("1", "1\tzero\t8\tNaloxone\tChemical\tD009270"),
        block("1", "2\t0\t8\tNaloxone\tChemical\tD009270"),
        block("1", "1\t0\t8\n"),
        "1|t|One\n1|a|Two\n1|a|Three\n",
    )


# ------------------------------------------------------------------------------------------ codes
@pytest.mark.parametrize(
    ("written", "codes"),
    [
        ("D003920", ["D003920"]),
        ("MESH:D003920", ["D003920"]),
        (" MSH:C536108 ", ["C536108"]),
        ("UMLS:C0010674", ["C0010674"]),
        ("C0010674", ["C0010674"]),
        ("OMIM:106210 ", ["OMIM:106210"]),
        ("D1|D2", ["D1", "D2"]),
        ("C537710+D058499", ["C537710", "D058499"]),
        ("OMIM:1,OMIM:2", ["OMIM:1", "OMIM:2"]),
        ("D000001|MESH:D000001", ["D000001"]),
        ("D014786|-1", ["D014786"]),
        ("672;675", ["672", "675"]),
    ],
)
def test_codes_in_all_spellings(written: str, codes: list[str]) -> None:
    (document,) = read(block("1", row("1", "cancer", "Disease", written)))
    assert document.mentions[0].gold == tuple(EntityId("", code) for code in codes)


@pytest.mark.parametrize(
    ("cells", "unknown", "nil"), [(["-1"], None, ()), ([""], None, None), ([], None, None)]
)
def test_no_code_is_nil_only_where_the_corpus_says_it_and_the_user_wants_it(
    cells: list[str], unknown: object, nil: object
) -> None:
    data = block("1", row("1", "cancer", "Disease", *cells))
    assert read(data)[0].mentions[0].gold == unknown
    assert read(data, no_code="nil")[0].mentions[0].gold == nil


# ---------------------------------------------------------------------------------------- blocks
def test_types_choose_mentions() -> None:
    data = block(
        "1",
        row("1", "Naloxone", "Chemical", "D1"),
        row("1", "cancer", "T191,T047", "C1"),
        row("1", "toxicity", "Disease", "D2"),
    )
    kinds = [found.type for found in read(data, types="T047, Disease")[0].mentions]
    assert kinds == ["Disease", "T191,T047"]
    assert len(read(data, types="all")[0].mentions) == 3


def test_documents_need_no_blank_line_between_them() -> None:
    data = block("1", row("1", "cancer", "D", "x")) + block("2", row("2", "cancer", "D", "x"))
    assert [(document.id, len(document.mentions)) for document in read(data)] == [
        ("1", 1),
        ("2", 1),
    ]


def test_an_address_may_be_the_id_of_a_text() -> None:
    name = "https://intranet.example/" + "folder/" * 40
    (one,) = read(block(name))
    assert one.id == name
    assert sniff(head_of(block(name))) > 0.5


def test_windows_line_ends_change_nothing() -> None:
    data = block("1", row("1", "cancer", "D", "x"))
    assert read(data.replace("\n", "\r\n")) == read(data)


def test_relations_of_all_kinds_are_passed_over() -> None:
    rows = ("1\tCID\tD1\tD2", "1\tAssociation\tD1\tD2\tNovel", "1\tNegative_Correlation\ta|b\tc|d")
    assert read(block("1", *rows))[0].mentions == ()


def test_lists_of_ids_make_the_splits(tmp_path: Path) -> None:
    (tmp_path / "train.txt").write_text("1\n\n2\r\n")
    (tmp_path / "test.txt").write_text("3\n")
    data = "\n".join(block(id_) for id_ in "1234")
    lists: dict[str, Any] = {
        "train_ids": str(tmp_path / "train.txt"),
        "test_ids": str(tmp_path / "test.txt"),
    }
    splits = [document.split for document in read(data, **lists)]
    assert splits == ["train", "train", "test", ""]
    with pytest.raises(SourceError, match=r"dev\.txt does not exist"):
        read(data, dev_ids=str(tmp_path / "dev.txt"))


# --------------------------------------------------------------------------------------- mistakes
def test_a_bad_mention_is_left_out_and_its_document_stays() -> None:
    data = block("1", "1\t0\t8\tCocaine\tChemical\tD1", row("1", "cancer", "D", "x"))
    (document,), told = read_counted(data)
    assert [found.surface for found in document.mentions] == ["cancer"]
    assert told == [
        "x.txt, line 3: the surface does not stand at its offsets: 'Cocaine' is given, "
        "'Naloxone' stands at 0..8\n  Offsets count characters of the title, one space and the "
        "abstract; --on-error skip leaves such mentions out."
    ]


def test_a_block_without_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pubtator, "MAX_ROWS", 3)
    rows = [row("1", "cancer", "D", "x")] * 4
    with pytest.raises(SourceError, match=r"x.txt, line 6: document 1 has more than 3 rows"):
        read(block("1", *rows))


@given(data=st.binary(max_size=200) | st.text("12|ta\t\n CID:-", max_size=200).map(str.encode))
@fuzz
def test_only_our_own_errors_come_out(data: bytes) -> None:
    for text in (data, block("1").encode() + data, data + b"\n" + block("2").encode()):
        assert 0 <= sniff(head_of(text)) <= 1
        ways: tuple[OnError, ...] = ("stop", "skip")
        for on_error in ways:
            try:
                for document in read_counted(text, on_error=on_error)[0]:
                    check_record(document)
            except KglinkError as error:
                str(error).encode()


@pytest.mark.parametrize("key", ["A+B", "G,1", "http://x.example/y;z", "a|b", "100%2C", "Q:1"])
def test_a_key_with_any_sign_is_read_back(key: str) -> None:
    chosen = Candidate(EntityId("gods", key), "Hera", 1.0)
    link = Link(0, 4, "Hera", (chosen,), chosen, 0.9)
    out = io.StringIO()
    PubtatorExporter(PubtatorSettings()).export([LinkedDocument("1", "Hera met.", (link,))], out)
    (document,) = read(out.getvalue())
    assert [one.gold for one in document.mentions] == [(EntityId("", f"gods:{key}"),)]


# -------------------------------------------------------------------------------------- real data
#: Documents, mentions, and what is wrong: counted in the files with grep.
REAL = {
    "ncbi_train": (593, 5144, 1),
    "ncbi_devel": (100, 787, 0),
    "bc5cdr_training": (500, 9385, 0),
    "bc5cdr_development": (500, 9591, 0),
}


@pytest.mark.realdata
@pytest.mark.parametrize("name", REAL)
def test_the_real_corpora(realdata: Path, name: str) -> None:
    path = realdata / "disease" / "corpora" / f"{name}.PubTator.txt.gz"
    problems = Problems("skip")
    with Source.open_path(path) as source:
        assert claimants(source.head) == ["kglink/pubtator"]
        documents = list(PubtatorAdapter(PubtatorSettings()).read(source, problems))
    mentions = 0
    for document in documents:
        assert isinstance(document, Document)
        check_record(document)
        mentions += len(document.mentions)
    assert (len(documents), mentions, problems.total) == REAL[name]
    if problems.total:
        assert (
            "'generalized epilepsy and febrile seizures \" plus \"  ' is given"
            in (problems.examples[0])
        )
