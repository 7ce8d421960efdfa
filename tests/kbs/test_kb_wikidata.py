from __future__ import annotations

import json
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import ValidationError

from kb_checks import check_any, claimants, damaged, fuzz, head_of, read_bytes
from kglink.errors import RecordError, SourceError
from kglink.records import Alias, Entity
from kglink.sources import Problems, Source
from kglink.testing import KBAdapterContract
from kglink_kbs.wikidata import WikidataAdapter, WikidataSettings, line_filter, sniff


def adapter(**settings: object) -> WikidataAdapter:
    return WikidataAdapter(WikidataSettings.model_validate(settings))


def read(
    data: str | bytes | dict[str, Any], problems: Problems | None = None, /, **settings: object
) -> list[Entity]:
    raw = dump(data) if isinstance(data, dict) else data
    return read_bytes(adapter(**settings), raw, problems, name="latest-all.json")


def text(language: str, value: str) -> dict[str, Any]:
    return {language: {"language": language, "value": value}}


def claim(number: str, value: object, rank: str = "normal") -> dict[str, Any]:
    """A statement as a dump has it, with all that is not read of it."""
    kind = "wikibase-entityid" if isinstance(value, dict) else "string"
    return {
        "mainsnak": {
            "snaktype": "value",
            "property": number,
            "datavalue": {"value": value, "type": kind},
            "datatype": "external-id",
        },
        "type": "statement",
        "id": "Q1$5627445f-43cb-ed6d-3adb-760e85bd17ee",
        "rank": rank,
        "references": [{"hash": "x", "snaks": {"P248": []}, "snaks-order": ["P248"]}],
    }


def is_a(key: str, rank: str = "normal") -> dict[str, Any]:
    value = {"entity-type": "item", "numeric-id": int(key[1:]), "id": key}
    return claim("P31", value, rank)


def subclass_of(key: str, rank: str = "normal") -> dict[str, Any]:
    return claim("P279", is_a(key)["mainsnak"]["datavalue"]["value"], rank)


def item(key: str = "Q1", label: str = "one", **fields: Any) -> dict[str, Any]:
    """An entity as PHP writes it: what is empty is a list."""
    return {
        "type": "item",
        "id": key,
        "labels": text("en", label),
        "descriptions": [],
        "aliases": [],
        "claims": [],
        "sitelinks": [],
        "pageid": 129,
        "ns": 0,
        "title": key,
        "lastrevid": 2,
        "modified": "2026-01-01T00:00:00Z",
    } | fields


def dump(*entities: dict[str, Any]) -> str:
    lines = [json.dumps(entity, separators=(",", ":")) for entity in entities]
    return "[\n" + ",\n".join(lines) + "\n]\n"


def sites(*names: str) -> dict[str, Any]:
    return {name: {"site": name, "title": "Ä", "badges": []} for name in names}


ASTHMA = item(
    "Q35869",
    labels=text("en", "asthma") | text("de", "Asthma bronchiale") | text("fr", "asthme"),
    descriptions=text("en", " lung disease ") | text("de", "Krankheit"),
    aliases={
        "en": [{"language": "en", "value": value} for value in ("bronchial  asthma", "asthma")],
        "de": [{"language": "de", "value": "Asthma"}],
    },
    claims={
        "P31": [is_a("Q1", "deprecated"), is_a("Q2"), is_a("Q112193867", "preferred")],
        "P699": [claim("P699", "DOID:2841")],
        "P486": [
            claim("P486", "D001249"),
            claim("P486", "D0", "deprecated"),
            {"mainsnak": {"snaktype": "novalue", "property": "P486"}, "rank": "normal"},
        ],
        "P18": [claim("P18", "Asthma.jpg")],
        "P279": [subclass_of("Q12136"), subclass_of("Q3", "deprecated"), subclass_of("Q2")],
    },
    sitelinks=sites("enwiki", "dewiki", "frwiki"),
)
EXPECTED = [
    Entity(
        key="Q35869",
        title="asthma",
        description="lung disease",
        type="Q112193867",
        url="https://www.wikidata.org/wiki/Q35869",
        popularity=3.0,
        language="en",
        aliases=(Alias("bronchial asthma"),),
        xrefs=("DOID:2841", "MESH:D001249"),
        parents=("Q12136", "Q2", "Q112193867"),
    ),
    Entity("Q1", "one", url="https://www.wikidata.org/wiki/Q1", language="en"),
]
PROPERTY = item("P31", "instance of", type="property", datatype="wikibase-item")
LEXEME = {"type": "lexeme", "id": "L1", "lemmas": text("en", "one")}
SAMPLE = dump(ASTHMA, PROPERTY, LEXEME, item("Q9", labels=text("sv", "nio")), item())


class TestContract(KBAdapterContract):
    plugin = "kglink/wikidata"
    source_text = SAMPLE
    source_name = "latest-all.json"
    expected = EXPECTED
    broken = (
        b"\x00\xff\xfe no record \x80\n",
        "[\n]\n",
        SAMPLE[:-3],  # the array does not end
        SAMPLE.replace('"id":"Q1"', '"id":"X1"'),
        SAMPLE.replace('"id":"Q1"', '"id":1'),
        dump(item(labels={"en": "one"})),
        dump(item(label="a\x07")),
        dump(item("Q9", labels=text("sv", "nio"))),
    )


def test_plain_lines_and_other_ways_to_write_the_array() -> None:
    lines = "\n".join(json.dumps(entity) for entity in (ASTHMA, PROPERTY, item()))
    assert read(lines) == read(lines.replace("\n", "\r\n")) == EXPECTED
    assert read("[" + lines.replace("\n", ",\n") + "]") == EXPECTED
    assert read(b"\xef\xbb\xbf" + SAMPLE.encode()) == EXPECTED


def test_a_language_may_be_named_twice() -> None:
    assert WikidataSettings(languages="en,de,en").languages == "en,de"


def test_languages_in_their_order() -> None:
    german = read(SAMPLE, languages="de,en")
    assert german[0].title == "Asthma bronchiale"
    assert german[0].description == "Krankheit"
    assert german[0].aliases == tuple(map(Alias, ("asthma", "Asthma", "bronchial asthma")))
    assert [entity.language for entity in german] == ["de", "en"]
    assert [entity.key for entity in read(SAMPLE, languages="sv")] == ["Q9"]
    many = item(labels=text("mul", "Ada"))
    assert [(e.title, e.language) for e in read(many)] == [("Ada", "mul")]
    assert read(item(labels=text("zh-hans", "一")), languages="zh-hans")[0].title == "一"


@pytest.mark.parametrize(
    ("types", "keys"),
    [("Q2", ["Q3"]), ("Q2,Q5", ["Q3", "Q4"]), ("Q5, Q6", ["Q4"]), ("", ["Q3", "Q4", "Q5"])],
)
def test_only_instances_of_a_class(types: str, keys: list[str]) -> None:
    data = dump(
        item("Q3", claims={"P31": [is_a("Q2")]}),
        item("Q4", claims={"P31": [is_a("Q2", "deprecated"), is_a("Q5", "preferred"), is_a("Q7")]}),
        item("Q5", claims={"P279": [is_a("Q2")]}),  # a subclass, and an id that is a class
    )
    assert [entity.key for entity in read(data, types=types)] == keys


def test_only_items_with_so_many_pages() -> None:
    assert [entity.key for entity in read(SAMPLE, min_sitelinks=1)] == ["Q35869"]
    assert [entity.key for entity in read(SAMPLE, min_sitelinks=3)] == ["Q35869"]
    with pytest.raises(SourceError, match="none of the 5 lines") as caught:
        read(SAMPLE, min_sitelinks=4)
    assert "`min_sitelinks`" in caught.value.hint


def test_xrefs_come_from_the_properties_that_are_set() -> None:
    assert read(SAMPLE, xrefs="P486:mesh, P18:IMG, P31:X")[0].xrefs == (
        "mesh:D001249",
        "IMG:Asthma.jpg",
    )
    assert read(SAMPLE, xrefs="")[0].xrefs == ()


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"types": "human"}, "'human' is not the id of a class such as Q5"),
        ({"languages": "English!"}, "'english!' is not a language code"),
        ({"languages": " "}, "names no language"),
        ({"xrefs": "P486"}, "'P486' is no pair such as P486:MESH"),
        ({"min_sitelinks": -1}, "greater than or equal to 0"),
    ],
)
def test_settings_that_cannot_be(settings: dict[str, object], reason: str) -> None:
    with pytest.raises(ValidationError, match=reason):
        WikidataSettings.model_validate(settings)


# -------------------------------------------------------------------------------- bad input
@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ('{"type":"item","id":"Q2","labels":{"en":{"value":"b"}', "not valid JSON: "),
        ('{"type":"item","labels":{"en":{"value":"b"}}}', "missing required field `id`"),
        ('{"type":"item","id":"Q2","labels":{"en":7}}', "not an entity of Wikidata: Expected `ob"),
        ('{"type":"item","id":"Q0","labels":{"en":{"value":"b"}}}', "an item whose id is 'Q0'"),
        (
            '{"type":"item","id":"Q2","labels":{"en":{"value":"b\\u0000"}}}',
            "control character U+00",
        ),
        ('{"type":"item","id":"Q2","labels":{"en":{"value":"\\ud800"}}}', "not valid JSON: "),
        ('{"type":"item","id":"Q2","x":' + "[" * 100_000 + '"en"', "not usable JSON: it is nested"),
        ("gibberish", "not valid JSON: "),
        ("7", "not an entity of Wikidata: Expected `object`, got `int`"),
    ],
)
def test_a_bad_line_is_told_with_its_number(line: str, reason: str) -> None:
    data = f"[\n{json.dumps(item())},\n{line},\n{json.dumps(item('Q3'))}\n]\n"
    problems = Problems("skip")
    assert [entity.key for entity in read(data, problems)] == ["Q1", "Q3"]
    assert problems.total == 1
    with pytest.raises(RecordError, match=r"latest-all\.json, line 3: ") as caught:
        read(data)
    assert reason in caught.value.reason


def test_a_dump_that_is_cut_off_is_told_after_its_last_line() -> None:
    problems = Problems("skip")
    assert read(SAMPLE.removesuffix("]\n"), problems) == EXPECTED
    assert list(problems.counts) == ["the array does not end: the file may be cut off"]


# -------------------------------------------------------------------------------- the filter
@pytest.mark.parametrize(
    ("settings", "left_out"),
    [
        ({}, {"P31", "L1", "Q9"}),
        ({"types": "Q112193867"}, {"P31", "L1", "Q9", "Q1"}),
        ({"min_sitelinks": 2}, {"P31", "L1", "Q9", "Q1"}),
        ({"languages": "sv"}, {"P31", "L1", "Q35869", "Q1"}),
    ],
)
def test_most_lines_are_left_out_unparsed(settings: dict[str, Any], left_out: set[str]) -> None:
    lines = [line.rstrip(",") for line in SAMPLE.splitlines()[1:-1]]
    leaves_out = line_filter(WikidataSettings.model_validate(settings))
    assert {json.loads(line)["id"] for line in lines if leaves_out(line.encode())} == left_out


@fuzz
@given(
    labels=st.dictionaries(st.sampled_from(["en", "de", "sv"]), st.sampled_from(["a", "Q2"])),
    types=st.lists(st.sampled_from(["Q2", "Q5", "Q22"]), max_size=3),
    links=st.integers(0, 3),
    wanted=st.sampled_from(["", "Q2", "Q5,Q22"]),
    minimum=st.integers(0, 3),
    spaced=st.booleans(),
)
def test_the_filter_leaves_out_nothing_that_is_wanted(
    labels: dict[str, str], types: list[str], links: int, wanted: str, minimum: int, spaced: bool
) -> None:
    entity = item(
        labels={name: {"language": name, "value": value} for name, value in labels.items()},
        claims={"P31": [is_a(key) for key in types]},
        sitelinks=sites(*("enwiki", "dewiki", "svwiki")[:links]),
    )
    line = json.dumps(entity, separators=(", ", ": ") if spaced else (",", ":"))
    found = (
        read(line, Problems(), types=wanted, min_sitelinks=minimum)
        if is_wanted(labels, types, links, wanted, minimum)
        else []
    )
    assert bool(found) == is_wanted(labels, types, links, wanted, minimum)


def is_wanted(
    labels: dict[str, str], types: list[str], links: int, wanted: str, minimum: int
) -> bool:
    """The plain twin of filter and maker."""
    of_type = not wanted or bool(set(types) & set(wanted.split(",")))
    return "en" in labels and of_type and links >= minimum


def test_memory_does_not_grow_with_the_file(tmp_path: Path) -> None:
    path = tmp_path / "big.json"
    filler = {f"l{n}": {"language": f"l{n}", "value": "x" * 20} for n in range(30)}
    with path.open("w", encoding="utf-8") as out:
        for number in range(1, 5001):
            entity = item(f"Q{number}", labels=filler | text("en", "a"))
            out.write(json.dumps(entity) + "\n")
    tracemalloc.start()
    with Source.open_path(path) as source:
        assert sum(1 for _ in adapter().read(source, Problems())) == 5000
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert path.stat().st_size > 8_000_000
    assert peak < 4_000_000


# --------------------------------------------------------------------------------- sniffing
def test_sniffing() -> None:
    assert sniff(head_of(SAMPLE)) == 0.95
    assert sniff(head_of(json.dumps(item()) + "\n")) == 0.95
    assert sniff(head_of(dump(PROPERTY))) == 0.95
    for other in ('{"id": "Q1", "title": "Ada"}', '[{"id": 1, "labels": {}}]', "{}", "Q1", "["):
        assert sniff(head_of(other)) == 0
    assert claimants(head_of(SAMPLE))[0] == "kglink/wikidata"  # each line has id and title
    assert claimants(head_of(json.dumps(ASTHMA) + "\n"))[0] == "kglink/wikidata"


# -------------------------------------------------------------------------------------- fuzz
NAMES = ("id", "type", "labels", "descriptions", "aliases", "claims", "sitelinks", "en", "value")
MORE = ("P31", "P486", "mainsnak", "datavalue", "rank", "snaktype", "language", "numeric-id")
values = st.recursive(
    st.none()
    | st.booleans()
    | st.floats()
    | st.integers()
    | st.text(max_size=6)
    | st.sampled_from(["item", "Q5", "preferred"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(NAMES + MORE), inner, max_size=5)
    ),
    max_leaves=15,
)


@fuzz
@given(data=st.binary(max_size=200))
@example(b"[")
@example(b"[]")
@example(b'{"id":"Q1","labels":{"en":{"value":""}}}')
def test_arbitrary_bytes(data: bytes) -> None:
    check_any(adapter, sniff, data)


@fuzz
@given(fields=st.dictionaries(st.sampled_from(NAMES), values), ascii_only=st.booleans())
def test_arbitrary_entities(fields: dict[str, object], ascii_only: bool) -> None:
    line = json.dumps(item() | fields, ensure_ascii=ascii_only)
    check_any(adapter, sniff, line.encode("utf-8", errors="surrogatepass"))


@fuzz
@given(seed=st.integers(0, 2**32))
def test_damaged_files(seed: int) -> None:
    check_any(lambda: adapter(languages="en,de,sv"), sniff, damaged(SAMPLE.encode(), seed))


def test_a_blank_label_is_none() -> None:
    line = dump(item(labels=text("en", " ") | text("mul", "one")))
    assert [entity.title for entity in read(line)] == ["one"]
    with pytest.raises(SourceError, match="none of the 1 lines"):
        read(json.dumps(item(label=" ")))


def test_lines_may_begin_with_the_comma() -> None:
    data = f"[{json.dumps(item('Q1'))}\n,{json.dumps(item('Q2'))}\n]\n"
    assert [entity.key for entity in read(data)] == ["Q1", "Q2"]


@pytest.mark.parametrize("half", ["\\ud83d", "\\ude00", "\\ud83dx\\ude00"])
def test_half_of_a_pair_is_called_so(half: str) -> None:
    line = json.dumps(item(label="HALF"))
    with pytest.raises(RecordError, match="half of a surrogate pair"):
        read(line.replace("HALF", half))
    assert read(line.replace("HALF", "\\ud83d\\ude00"))[0].title == "\U0001f600"


@pytest.mark.parametrize(
    "data",
    [
        '[{"type":"item","id":"Q1"},{"type":"item","id":"Q2","labels":{"en":"x"}}]',
        '{"entities":{"Q1":{"type":"item","id":"Q1","labels":{"en":{"value":"a"}}}}}',
    ],
)
def test_what_is_not_one_a_line_is_told_how_to_be(data: str) -> None:
    with pytest.raises(RecordError) as caught:
        read(data)
    assert "jq -c" in caught.value.hint
