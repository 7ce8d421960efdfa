from __future__ import annotations

import json
import tracemalloc
from collections.abc import Mapping
from pathlib import Path

import pytest

from disease_kbs import disease_entities, write_disease_jsonl
from kglink.errors import RecordError, SourceError
from kglink.plugins import load_registry
from kglink.records import Alias, Document, Entity, EntityId, Mention, Record
from kglink.sources import Problems, Source, SourceHead, SourceLimits
from kglink.testing import KBAdapterContract
from kglink_kbs.jsonl import JsonlAdapter, JsonSettings
from kglink_kbs.jsonl import sniff_jsonl as sniff
from kglink_kbs.spellings import ENTITY

Fields = Mapping[str, object]
PAGE = Path(__file__).parents[2] / "docs" / "kbs" / "jsonl.md"


def read(data: str | bytes, problems: Problems | None = None, /, **settings: str) -> list[Record]:
    raw = data.encode() if isinstance(data, str) else data
    adapter = JsonlAdapter(JsonSettings.model_validate(settings))
    with Source.from_bytes(raw, name="entities.jsonl") as source:
        return list(adapter.read(source, problems or Problems()))


def read_one(record: Fields, **settings: str) -> Entity:
    (entity,) = read(json.dumps(record), **settings)
    assert isinstance(entity, Entity)
    return entity


def test_descriptions_that_are_html_are_read_as_text() -> None:
    problems = Problems()
    html = "<p>A <b>bright</b>&nbsp;lamp.</p>"
    records = [{"id": at, "title": "Lamp", "description": html} for at in range(2)]
    exported = {"kglink": "entity", "id": "x", "title": "x", "description": html}
    found = read("\n".join(map(json.dumps, [*records, exported])), problems)
    texts = [entity.description for entity in found if isinstance(entity, Entity)]
    assert texts == ["A bright lamp.", "A bright lamp.", html]
    assert problems.mended == {"HTML of a description made plain text": 2}
    assert read(json.dumps([*records]))[0] == found[0]


def refusal(record: Fields | str, **settings: str) -> RecordError:
    """How a record on line 2 is refused; with skip it is counted and the others are read."""
    line = record if isinstance(record, str) else json.dumps(record)
    data = f'{{"id": 1, "title": "a"}}\n{line}\n{{"id": 3, "title": "c"}}\n'
    problems = Problems("skip")
    fields = {"key": "id", "title": "title"} | settings if settings else settings
    kept = read(data, problems, **fields)
    assert [entity.key for entity in kept if isinstance(entity, Entity)] == ["1", "3"]
    assert problems.total == 1
    with pytest.raises(RecordError) as caught:
        read(data, **fields)
    assert caught.value.where.startswith("entities.jsonl, line 2")
    return caught.value


SAMPLE = """\
{"id": "Q1", "title": "Universe", "description": "All there is.", "type": "concept", \
"url": "https://x.example/Q1", "popularity": 3.5, "language": "en", "xrefs": ["wd:1", "wd:1"], \
"parents": ["7", " Q0 ", "7"], \
"aliases": ["cosmos", "The  World", "cosmos", ""]}

{"id": 7, "name": " Seven\\u2028of\\tNine ", "synonyms": [{"name": "7", "type": "EXACT", \
"count": 4}, {"surface": "VII", "kind": "redirect"}, "seven"], "text": "A\\nnumber."}
{"id": "d1", "text": "Seven is odd.", "entities": [{"start": 0, "end": 5, "id": "7"}]}
"""
EXPECTED: list[Entity | Document] = [
    Entity(
        key="Q1",
        title="Universe",
        description="All there is.",
        type="concept",
        url="https://x.example/Q1",
        popularity=3.5,
        language="en",
        aliases=(Alias("cosmos"), Alias("The World")),
        xrefs=("wd:1",),
        parents=("7", "Q0"),
    ),
    Entity(
        key="7",
        title="Seven of Nine",
        description="A\nnumber.",
        aliases=(Alias("7", "synonym", 4), Alias("VII", "redirect"), Alias("seven")),
    ),
    Document("d1", "Seven is odd.", (Mention(0, 5, "Seven", (EntityId("", "7"),)),)),
]


class TestContract(KBAdapterContract):
    plugin = "kglink/jsonl"
    source_text = SAMPLE
    source_name = "entities.jsonl"
    expected = EXPECTED
    broken = (
        b"\x00\xff\xfe no record \x80\n",
        '{"id": 1}\n',
        '{"id": 1, "title": ""}\n',
        '{"title": "a"}\n',
        "{}\n",
        "[1, 2]\n",
        "[\n",
        '{"id": 1, "title": "a"\n',
        "\n\n",
    )


@pytest.mark.parametrize(
    ("field", "spelling"), [(field, name) for field, names in ENTITY.items() for name in names]
)
def test_every_spelling_is_read_without_an_option(field: str, spelling: str) -> None:
    plain: dict[str, object] = {"id": "1", "title": "T"}
    plain.pop({"key": "id"}.get(field, field), None)
    lists = ("xrefs", "parents")
    value: object = 2.5 if field == "popularity" else ["V"] if field in lists else "V"
    entity = read_one({spelling: value, **plain})
    found = {
        "aliases": [alias.surface for alias in entity.aliases],
        "xrefs": list(entity.xrefs),
        "parents": list(entity.parents),
    }.get(field, getattr(entity, field))
    assert found in (value, [value])


@pytest.mark.parametrize("name", ["entity_id", "entityId", "Entity ID", "@entity-id", "ENTITYID"])
def test_case_and_signs_do_not_count_in_a_spelling(name: str) -> None:
    assert read_one({name: "1", "Title": "T"}).key == "1"


def test_the_better_known_spelling_wins() -> None:
    blink = {"text": "D", "idx": "https://x.example/1", "title": "T", "entity": "E", "name": "N"}
    assert read_one(blink) == Entity(key="https://x.example/1", title="T", description="D")
    assert read_one({"document_id": "9", "title": "T", "text": "D"}).key == "9"


def test_fields_are_named_by_settings() -> None:
    record = {"id": 1, "title": "no", "label": "yes", "names": {"en": ["x"]}, "a.b": "dotted"}
    entity = read_one(record, title="label", aliases="names.en", description="a.b", key="title")
    assert entity == Entity("no", "yes", "dotted", aliases=(Alias("x"),))
    assert read_one({"i": [{"v": 8}], "name": "n", "url": "u"}, key="i.0.v", url="-") == Entity(
        "8", "n"
    )


def test_a_title_can_be_the_key() -> None:
    assert read_one({"title": "Only"}, key="title") == Entity("Only", "Only")


@pytest.mark.parametrize(
    ("value", "key"),
    [(12, "12"), (12.0, "12"), (10**9, "1000000000"), (" a b ", "a b"), (-1, "-1")],
)
def test_numbers_are_ids(value: object, key: str) -> None:
    assert read_one({"id": value, "title": "T"}).key == key


@pytest.mark.parametrize(
    ("record", "reason", "hint"),
    [
        ({"title": "T", "x": 1}, "no id", "Found: title, x. Name the field that holds it: --set k"),
        ({"id": None, "title": "T"}, "no id", "--set key="),
        ({"id": " ", "title": "T"}, "an empty id", "--set key="),
        ({"id": 1, "desc": "D"}, "no title", "Found: id, desc. Name the field that holds"),
        ({"id": 1, "title": " \n"}, "an empty title", "--set title="),
        ({"id": 1.1, "title": "T"}, "key is the number 1.1, not a text or whole number", "quotes"),
        ({"id": True, "title": "T"}, "key is true, not a text", ""),
        ({"id": ["1"], "title": "T"}, "key is a list, not a text", ""),
        ({"id": "a\tb", "title": "T"}, "key holds a line break or a tab", ""),
        ({"id": 1, "title": {"en": "T"}}, "title is an object, not a text", "--set title=FIELD.en"),
        ({"id": 1, "title": "T", "text": True}, "description is true, not a text", ""),
        ({"id": 1, "title": "T", "aliases": 5}, "aliases is the number 5, not a list of texts", ""),
        ({"id": 1, "title": "T", "aliases": [[]]}, "aliases is a list, not a text", ""),
        ({"id": 1, "title": "T", "aliases": [{"x": "y"}]}, "an alias without a surface", "kind"),
        (
            {"id": 1, "title": "T", "aliases": [{"name": "a", "count": -1}]},
            "the count of an alias is the number -1, not a whole number from 0 on",
            "",
        ),
        (
            {"id": 1, "title": "T", "aliases": [{"name": "a", "count": 2**63}]},
            "the count of an alias is the number 9223372036854775808",
            "",
        ),
        ({"id": 1, "title": "T", "popularity": "big"}, "popularity is the text 'big'", ""),
        ('{"id": 1, "title": "T", "popularity": NaN}', "popularity is the number nan", ""),
        ('{"id": 1, "title": "T", "popularity": 1e999}', "popularity is the number inf", ""),
        ({"id": 1, "title": "T", "popularity": 10**400}, "popularity is the number 1000", ""),
        ({"id": 1, "title": "a\0b"}, "title holds the control character U+0000", "skip"),
        ({"id": 1, "title": "a\x1b[2J"}, "title holds the control character U+001B", "skip"),
        ({"id": 1, "title": "T", "text": "a\ud800"}, "half of a surrogate pair (U+D800)", "skip"),
        ({"id": "\udfff", "title": "T"}, "key holds half of a surrogate pair (U+DFFF)", "skip"),
        ({"id": 1, "title": "T", "aliases": ["a\x07"]}, "aliases holds the control char", "skip"),
        ('{"id": 2, "title": "b"', "not valid JSON: Expecting ',' delimiter (column 23)", ""),
        ("{", "not valid JSON: Expecting property name", "jq -c . FILE"),
        ("nothing", "not valid JSON: Expecting value (column 1)", ""),
        ('{"id": 2, "title": "b\tc"}', "not valid JSON: Invalid control character", ""),
        ('["Q1", "T"]', "found a list where an object is wanted", ""),
        ("7", "found the number 7 where an object is wanted", ""),
        ("[" * 100_000, "not usable JSON: maximum recursion depth", ""),
        ('{"id": ' + "9" * 5000 + "}", "not usable JSON: Exceeds the limit", ""),
    ],
)  # fmt: skip
def test_a_bad_record_says_what_was_found(record: Fields | str, reason: str, hint: str) -> None:
    error = refusal(record)
    assert reason in error.reason
    assert hint in error.hint
    str(error).encode("utf-8")  # can be printed, whatever was in the record


def test_a_settings_name_that_a_record_lacks() -> None:
    with pytest.raises(RecordError) as caught:
        read_one({"id": 1, "label": "a"}, title="labl")
    assert (caught.value.reason, "Found: id, label." in caught.value.hint) == ("no title", True)


def test_absent_and_null_values_are_empty() -> None:
    fields = [field for field in ENTITY if field not in ("key", "title")]
    record = {"id": 1, "title": "T"} | dict.fromkeys(fields)
    assert read_one(record) == read_one({"id": 1, "title": "T"}) == Entity("1", "T")


def test_one_text_of_aliases_is_split_only_where_a_separator_is_set() -> None:
    record = {"id": 1, "title": "T", "aliases": "a; b|c;;d", "xrefs": "x;y"}
    record["is_a"] = "p;q; p"
    assert [alias.surface for alias in read_one(record).aliases] == ["a; b|c;;d"]
    split = read_one(record, separator=";")
    assert [alias.surface for alias in split.aliases] == ["a", "b|c", "d"]
    assert (split.xrefs, split.parents) == (("x", "y"), ("p", "q"))


@pytest.mark.parametrize(
    ("aliases", "told"),
    [
        ("a|b", "'|' stands in 2 of the first values of aliases: --set separator='|' splits them"),
        ("a; b", "';' stands in 2 of the first values of aliases: --set separator=';' splits them"),
        (["a|b"], None),
        ("a", None),
    ],
)
def test_lists_that_are_one_text_are_told(aliases: object, told: str | None) -> None:
    record = {"id": 1, "title": "T", "synonyms": aliases}
    problems, split = Problems(), Problems()
    read(json.dumps([record, record | {"id": 2}, {"id": 3, "title": "U"}]), problems)
    read(json.dumps(record), split, separator="|")
    assert problems.notes.get("not split") == told
    assert "not split" not in split.notes


def test_a_title_that_is_listed_as_an_alias_says_nothing_more() -> None:
    counted = [{"name": "T", "count": 2}, {"name": "T", "kind": "synonym"}]
    record = {"id": 1, "title": "T", "aliases": ["T", "U"]}
    assert read_one(record) == read_one(record | {"aliases": ["U", "U"]})
    assert len(read_one(record | {"aliases": counted}).aliases) == 2


def test_aliases_of_one_surface_and_kind_are_added_up() -> None:
    aliases = [
        {"name": "a", "count": 2},
        {"name": " a ", "count": 3},
        {"name": "a", "kind": "anchor"},
    ]
    entity = read_one({"id": 1, "title": "T", "aliases": aliases})
    assert entity.aliases == (Alias("a", "alias", 5), Alias("a", "anchor", 1))


def test_types_given_as_a_list() -> None:
    assert read_one({"id": 1, "title": "T", "types": ["A", "B"]}).type == "A, B"


def test_unicode_line_breaks_inside_a_text_break_no_line() -> None:
    data = '{"id": 1, "title": "T", "text": "a\u2028b\u0085c"}\r\n{"id": 2, "title": "U"}'
    first, second = read(data)
    assert isinstance(first, Entity)
    assert isinstance(second, Entity)
    assert (first.description, second.key) == ("a\u2028b\u0085c", "2")


# ---------------------------------------------------------------------------------- arrays
@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("count", [0, 1, 3, 5000])
def test_an_array_of_objects_is_read_like_lines(indent: int | None, count: int) -> None:
    records = [{"id": i, "title": f"T{i} ]}},[{{", "text": "é" * (i % 300)} for i in range(count)]
    array = "\ufeff \n" + json.dumps(records, indent=indent, ensure_ascii=False) + "\n"
    if not count:
        with pytest.raises(SourceError, match="holds no record"):
            read(array)
        return
    assert read(array) == read("\n".join(map(json.dumps, records)))


def test_an_item_larger_than_the_window() -> None:
    long = "x" * 3_000_000
    array = json.dumps([{"id": 1, "title": "T", "text": long}, {"id": 2, "title": "U"}])
    first, second = read(array)
    assert isinstance(first, Entity)
    assert isinstance(second, Entity)
    assert (first.description, second.key) == (long, "2")


def test_a_bad_item_of_an_array_is_told_with_its_line() -> None:
    array = '[\n {"id": 1,\n  "title": "T"},\n {"id": 2},\n 5\n]'
    problems = Problems("skip")
    assert read(array, problems) == [Entity("1", "T")]
    assert [example.split("\n")[0] for example in problems.examples] == [
        "entities.jsonl, line 4: no title",
        "entities.jsonl, line 5: found the number 5 where an object is wanted",
    ]


@pytest.mark.parametrize(
    ("array", "message"),
    [
        ('[{"id": 1, "title": "T"},\n{"id": 2 "title"}]', "line 2: not valid JSON: Expecting ','"),
        ('[{"id": 1, "title": "T"}\n', "line 2: not valid JSON: the text ends where ',' or ']'"),
        ('[{"id": 1, "title": "T"},\n\n', "line 3: not valid JSON: the array does not end"),
        ('[{"id": 1, "title": "T"},]', "line 1: not valid JSON: Expecting value"),
        ('[{"id": 1, "title": "T"}]\n7', "line 2: not valid JSON: something follows the end"),
        ('[{"id": 1, "title": "T"} {}]', "line 1: not valid JSON: '{' stands where ',' or ']'"),
        ("[" * 100_000, "line 1: not valid JSON: maximum recursion depth"),
    ],
)
def test_a_broken_array_ends_the_reading(array: str, message: str) -> None:
    with pytest.raises(SourceError) as caught:
        read(array, Problems("skip"))
    assert not isinstance(caught.value, RecordError)
    assert f"entities.jsonl, {message}" in caught.value.message
    assert "jq -c '.[]' FILE" in caught.value.hint


def test_a_wrongly_encoded_array() -> None:
    with pytest.raises(SourceError, match="is not valid UTF-8"):
        read(b'[{"id": 1, "title": "\xe9"}]', Problems("skip"))


def test_an_item_beyond_the_limit_is_refused() -> None:
    data = json.dumps([{"id": 1, "title": "T", "text": "x" * 2_000_000}]).encode()
    adapter = JsonlAdapter(JsonSettings())
    limits = SourceLimits(max_line_bytes=500_000)
    with Source.from_bytes(data, limits=limits) as source, pytest.raises(SourceError):
        list(adapter.read(source, Problems("skip")))


@pytest.mark.slow
@pytest.mark.parametrize("array", [False, True])
def test_memory_does_not_grow_with_the_source(array: bool, tmp_path: Path) -> None:
    def peak(count: int) -> int:
        path = tmp_path / f"{count}.json"
        lines = (f'{{"id": {i}, "title": "T", "text": "{"x" * 1000}"}}' for i in range(count))
        path.write_text(f"[{','.join(lines)}]" if array else "\n".join(lines))
        with Source.open_path(path) as source:
            tracemalloc.start()
            try:
                records = JsonlAdapter(JsonSettings()).read(source, Problems())
                assert sum(1 for _ in records) == count
                return tracemalloc.get_traced_memory()[1]
            finally:
                tracemalloc.stop()

    assert peak(12_000) < 1.5 * peak(3_000)


# -------------------------------------------------------------------------------- guessing
@pytest.mark.parametrize(
    ("head", "low", "high"),
    [
        ('{"id": 1, "title": "T"}\n{"id": 2, "ti', 0.9, 1),
        ('\ufeff\n{"id": 1, "name": "T"}', 0.9, 1),
        ('[\n {"id": 1, "name": "T"},\n {"id": 2', 0.9, 1),
        ('{"id": 1, "title": "T", "text": "a very long first li', 0.9, 1),
        ('[{"id": 1, "title": "T", "text": "a very long first it', 0.9, 1),
        ('{"i": 1, "title": "T"}\n', 0.1, 0.3),
        ('{"i": 1}\n', 0.01, 0.1),
        ('{"id": 1, "text": "T", "entities": []}\n', 0.01, 0.4),
        ('{\n  "graphs": [\n', 0, 0),
        ('{"graphs": [{"nodes": [', 0, 0.1),
        ("[1, 2]\n", 0, 0),
        ("[1, 2", 0, 0),
        ("<mediawiki>\n", 0, 0),
        ("format-version: 1.2\n[Term]\nid: X:1\nname: n\n", 0, 0),
        ("[Term]\nid: X:1\n", 0, 0),
        ("id,title\n1,T\n", 0, 0),
        ("\x89PNG\r\n\x1a\n\0", 0, 0),
        ("[" * 60_000, 0, 0),
        ("", 0, 0),
    ],
)
def test_sniffing(head: str, low: float, high: float) -> None:
    assert low <= sniff(SourceHead("x.jsonl", head.encode(), None)) <= high


def test_a_guess_looks_at_the_first_objects_alone() -> None:
    """A beginning may hold 20,000 of them, and each is looked at more than once."""
    named, nameless = '{"id":1,"title":"a"}\n', "{}\n"
    for first, then, certainty in ((named, nameless, 0.9), (nameless, named, 0.05)):
        head = (first * 500 + then * 2000).encode()
        assert sniff(SourceHead("-", head, None)) == certainty
    assert sniff(SourceHead("-", (named + "{]\n").encode(), None)) == 0.9
    assert sniff(SourceHead("-", ("{]\n" + named).encode(), None)) == 0.0


def test_the_guess_names_what_is_no_text_at_all() -> None:
    with pytest.raises(SourceError, match="is UTF-16, and kglink reads UTF-8"):
        load_registry().guess_kb(SourceHead("a.jsonl", '{"id": 1}\n'.encode("utf-16"), None))


# ------------------------------------------------------------------------------- the page
def test_the_page_names_every_setting_and_spelling() -> None:
    page = PAGE.read_text(encoding="utf-8")
    rows = {line.split("`")[1]: line for line in page.splitlines() if line.startswith("| `")}
    for field, spellings in ENTITY.items():
        row = rows["id" if field == "key" else field]
        assert [part for part in row.split("`")[1::2] if part in spellings] == list(spellings)
    for setting in JsonSettings.model_fields:
        assert f"`{setting}`" in page.split("## Settings")[1], setting


# ------------------------------------------------------------------------------- real files
@pytest.mark.slow
@pytest.mark.realdata
@pytest.mark.parametrize(("kb", "count"), [("doid", 8906), ("ncit", 20385), ("hp", 10972)])
def test_real_ontologies_written_as_jsonl(
    kb: str, count: int, realdata: Path, tmp_path: Path
) -> None:
    expected = list(disease_entities(kb, realdata / "disease"))
    path = write_disease_jsonl(kb, realdata / "disease", tmp_path / f"{kb}.jsonl")
    with Source.open_path(path) as source:
        assert sniff(source.head) == 0.9
        entities = list(JsonlAdapter(JsonSettings()).read(source, Problems()))
    assert len(entities) == count
    for entity, fields in zip(entities, expected, strict=True):
        assert isinstance(entity, Entity)
        assert (entity.key, entity.title) == (fields["id"], " ".join(fields["title"].split()))


def test_a_file_of_bad_lines_alone_is_not_called_blank() -> None:
    problems = Problems("skip")
    assert read(b"caf\xe9\ncaf\xe9\n", problems) == []
    assert problems.counts == {"not valid UTF-8": 2}
