from __future__ import annotations

import gzip
import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from kglink.errors import RecordError
from kglink.records import Document, Entity, EntityId, Mention, Record
from kglink.sources import Problems, Source, SourceHead
from kglink.testing import KBAdapterContract
from kglink_kbs.annotations import Unit, character_offsets
from kglink_kbs.jsonl import DocumentsAdapter, JsonSettings
from kglink_kbs.jsonl import sniff_documents as sniff

Fields = Mapping[str, object]
PAGE = Path(__file__).parents[2] / "docs" / "kbs" / "documents.md"
TEXT = "The Sun warms Mars."


def read(data: str, problems: Problems | None = None, /, **settings: str) -> list[Record]:
    adapter = DocumentsAdapter(JsonSettings.model_validate(settings))
    with Source.from_bytes(data.encode(), name="dev.jsonl") as source:
        return list(adapter.read(source, problems or Problems()))


def read_one(record: Fields, **settings: str) -> Document:
    (document,) = read(json.dumps(record), **settings)
    assert isinstance(document, Document)
    return document


def refusal(record: Fields, **settings: str) -> RecordError:
    with pytest.raises(RecordError) as caught:
        read_one(record, **settings)
    return caught.value


def sun(**fields: object) -> Fields:
    """A document with the mention "Sun" and what is said of it."""
    return {"id": "d", "text": TEXT, "entities": [{"start": 4, "end": 7} | fields]}


SAMPLE = """\
{"id": "m1", "doc": "7", "context": "The Sun warms Mars.", "start": 4, "end": 7, \
"mention": "Sun", "type": "Star", "source_ids": ["S"], \
"gold": {"wiki": ["Q525"], "fan": ["s", "t"]}}
{"context_left": "The", "mention": "Sun", "context_right": "warms Mars.", "label_id": 3, \
"label_title": "The Sun", "split": "valid"}
{"id": "d3", "title": "On  stars", "text": "The Sun warms Mars.", "split": "train", "entities": [\
{"start": 14, "end": 18, "text": "Mars", "gold": []}, \
{"start": 4, "end": 7, "kb": "wiki", "key": "Q:525", "quality": "gold"}]}
{"id": "Q1", "name": "An entity among them"}
{"id": "d4", "text": "Nothing is marked here."}
"""
EXPECTED: list[Entity | Document] = [
    Document(
        "m1",
        TEXT,
        (
            Mention(
                4,
                7,
                "Sun",
                (EntityId("wiki", "Q525"), EntityId("fan", "s"), EntityId("fan", "t")),
                "Star",
            ),
        ),
        title="7",
    ),
    Document("documents.jsonl:2", TEXT, (Mention(4, 7, "Sun", (EntityId("", "3"),)),), split="dev"),
    Document(
        "d3",
        TEXT,
        (
            Mention(4, 7, "Sun", (EntityId("wiki", "Q:525"),), quality="gold"),
            Mention(14, 18, "Mars", ()),
        ),
        title="On stars",
        split="train",
    ),
    Entity("Q1", "An entity among them"),
    Document("d4", "Nothing is marked here."),
]


class TestContract(KBAdapterContract):
    plugin = "kglink/documents"
    source_text = SAMPLE.replace('{"context_left"', '{"id": "documents.jsonl:2", "context_left"')
    source_name = "documents.jsonl"
    expected = EXPECTED
    broken = (
        b"\x00\xff\xfe no record \x80\n",
        '{"id": 1, "text": "a", "entities": [{"start": 0, "end": 2}]}\n',
        '{"id": 1, "text": "a", "entities": [{"start": 0, "end": 1, "text": "b"}]}\n',
        '{"id": 1, "text": "a", "entities": [7]}\n',
        '{"id": 1, "text": 5, "entities": []}\n',
        '{"id": 1, "context": "a", "start": 0, "end": 0, "mention": ""}\n',
        '{"context_left": "a", "mention": "", "context_right": ""}\n',
        '{"id": 1, "text": "a", "split": "other", "entities": []}\n',
    )


def test_a_record_without_an_id_is_named_by_its_line() -> None:
    documents = read('\n{"text": "a", "entities": []}\n')
    assert [document.id for document in documents if isinstance(document, Document)] == [
        "dev.jsonl:2"
    ]


# ------------------------------------------------------------------------- BLINK's contexts
@pytest.mark.parametrize(
    ("left", "mention", "right", "text"),
    [
        ("The", "Sun", "warms", "The Sun warms"),
        ("The ", "Sun", " warms", "The Sun warms"),
        ("The\n", "Sun", "\twarms", "The\nSun\twarms"),
        ("", "Sun", "", "Sun"),
        ("", " Sun ", "x", " Sun x"),
        ("👩‍🚀 e\u0301", "☀️", "！", "👩‍🚀 e\u0301 ☀️ ！"),
    ],
)
def test_contexts_are_joined_with_exact_offsets(
    left: str, mention: str, right: str, text: str
) -> None:
    record = {"context_left": left, "mention": mention, "context_right": right}
    document = read_one(record)
    (found,) = document.mentions
    assert document.text == text
    assert (found.surface, found.gold) == (mention, None)
    assert text[found.start : found.end] == mention


def test_contexts_that_keep_their_own_spaces() -> None:
    record = {"context_left": "«", "mention": "Sun", "context_right": "»"}
    document = read_one(record, join="")
    assert (document.text, document.mentions[0].start) == ("«Sun»", 1)


def test_the_gold_of_contexts_is_the_id_unless_a_setting_says_else() -> None:
    record = {
        "context_left": "The",
        "mention": "Sun",
        "context_right": "",
        "label": "A star.",
        "label_id": 12,
        "label_title": "The Sun",
        "id": "not the gold",
    }
    assert read_one(record).mentions[0].gold == (EntityId("", "12"),)
    assert read_one(record).id == "not the gold"
    assert read_one(record, gold="label_title").mentions[0].gold == (EntityId("", "The Sun"),)
    del record["label_id"]
    assert read_one(record).mentions[0].gold == (EntityId("", "The Sun"),)


# --------------------------------------------------------------------------------- golds
@pytest.mark.parametrize(
    ("fields", "gold"),
    [
        ({}, None),
        ({"gold": None}, None),
        ({"gold": []}, ()),
        ({"gold": {}}, ()),
        ({"gold": {"doid": []}}, ()),
        ({"gold": "NIL"}, ()),
        ({"gold": "--NME--"}, ()),
        ({"nil": True, "kb": None, "key": None}, ()),
        ({"gold": "Q1"}, [("", "Q1")]),
        ({"gold": 5}, [("", "5")]),
        ({"gold": "wiki:Q1"}, [("wiki", "Q1")]),
        ({"gold": "wiki:Q:1"}, [("wiki", "Q:1")]),
        ({"gold": "DOID:7608"}, [("", "DOID:7608")]),
        ({"gold": "https://x.example/a"}, [("", "https://x.example/a")]),
        ({"gold": ["Q1", "wiki:Q2", "Q1"]}, [("", "Q1"), ("wiki", "Q2")]),
        ({"gold": [{"kb": "wiki", "key": "hp:1"}, {"id": "Q2"}]}, [("wiki", "hp:1"), ("", "Q2")]),
        ({"gold": {"kb": "wiki", "id": "Q1"}}, [("wiki", "Q1")]),
        ({"gold": {"doid": ["DOID:1"], "hp": "HP:2"}}, [("doid", "DOID:1"), ("hp", "HP:2")]),
        ({"kb": "hp", "key": "hp:1", "nil": False}, [("hp", "hp:1")]),
        ({"kb": "hp", "entity_id": "1"}, [("hp", "1")]),
        ({"kb": "hp", "gold": ["1", "wiki:2"]}, [("hp", "1"), ("wiki", "2")]),
        ({"id": "Q1"}, [("", "Q1")]),
        ({"entity_id": "Q1", "id": "T1"}, [("", "Q1")]),
        ({"gold": "Q1", "id": "T1", "key": "T2"}, [("", "Q1")]),
    ],
)
def test_every_way_to_say_what_is_meant(
    fields: Fields, gold: list[tuple[str, str]] | tuple[()] | None
) -> None:
    expected = None if gold is None else tuple(EntityId(kb, key) for kb, key in gold)
    assert read_one(sun(**fields)).mentions[0].gold == expected


def test_what_a_gold_text_is_can_be_set() -> None:
    mentions = read_one(sun(gold="wiki:Q1"), gold_ids="key").mentions
    assert mentions[0].gold == (EntityId("", "wiki:Q1"),)
    assert "names no KB" in refusal(sun(gold="Q1"), gold_ids="kb:key").reason


def test_the_output_of_link_reads_back() -> None:
    entity = {
        "start": 4,
        "end": 7,
        "text": "Sun",
        "kb": "wiki",
        "key": "Q525",
        "title": "Sun",
        "url": "",
        "score": 0.9,
        "confidence": 0.8,
        "nil": False,
        "candidates": [{"kb": "wiki", "key": "Q525", "title": "Sun", "score": 0.9}],
        "also": [{"kb": "fan", "key": "s"}],
    }
    nil = entity | {"start": 14, "end": 18, "text": "Mars", "kb": None, "key": None, "nil": True}
    document = read_one({"id": "d", "text": TEXT, "entities": [entity, nil], "meta": {}})
    assert document.mentions == (
        Mention(4, 7, "Sun", (EntityId("wiki", "Q525"),)),
        Mention(14, 18, "Mars", ()),
    )


@pytest.mark.parametrize(
    ("gold", "reason"),
    [
        ("", "a gold is an empty text"),
        (True, "a gold is true, not an id"),
        ([None], "a gold is null, not an id"),
        (1.5, "a gold is the number 1.5"),
        ([["Q1"]], "a gold is a list, not an id"),
        ({"wiki": {"a": ["\ud800"]}}, "a gold holds half of a surrogate pair"),
    ],
)
def test_a_bad_gold_is_told(gold: object, reason: str) -> None:
    error = refusal(sun(gold=gold))
    assert reason in error.reason
    assert error.where == "dev.jsonl, line 1, mention 1"


# ------------------------------------------------------------------------------- offsets
@pytest.mark.parametrize(
    ("start", "end"), [(7, 4), (4, 4), (-1, 3), (0, 20), (19, 20), ("4", 7), (4, None), (True, 7)]
)
def test_spans_must_lie_in_the_text(start: object, end: object) -> None:
    error = refusal(sun(start=start, end=end))
    assert error.where == "dev.jsonl, line 1, mention 1"
    assert "does not lie in the text" in error.reason or "not a whole number" in error.reason


def test_offsets_of_pandas_and_spans_with_a_length() -> None:
    listed = [{"start": 4.0, "end": 7.0}, {"offset": 14, "length": 4}, {"begin": 0, "stop": 3}]
    document = read_one({"id": "d", "text": TEXT, "mentions": listed})
    assert [mention.surface for mention in document.mentions] == ["The", "Sun", "Mars"]
    assert "without start and end" in refusal({"text": TEXT, "spans": [{"start": 3}]}).reason


def test_the_surface_must_stand_at_its_offsets() -> None:
    error = refusal(sun(text="sun"))
    assert error.reason == (
        "the surface does not stand at its offsets: 'sun' is given, 'Sun' stands at 4..7"
    )
    assert "--set offsets=utf16" in error.hint


def test_a_bad_mention_is_left_out_and_the_rest_is_kept() -> None:
    good, bad = {"start": 4, "end": 7}, {"start": 4, "end": 99}
    problems = Problems("skip")
    lines = [{"id": i, "text": TEXT, "entities": e} for i, e in enumerate(([bad, good], [bad], []))]
    lines.append({"id": 3, "context": TEXT, "start": 4, "end": 99, "mention": "Sun"})
    documents = read("\n".join(map(json.dumps, lines)), problems)
    assert [(d.id, len(d.mentions)) for d in documents if isinstance(d, Document)] == [
        ("0", 1),
        ("2", 0),
    ]
    assert [example.split(": ")[0] for example in problems.examples] == [
        "dev.jsonl, line 1, mention 1",
        "dev.jsonl, line 2, mention 1",
        "dev.jsonl, line 4",
    ]


WIDE = "é😀 e\u0301𝔘x"  # lengths by character: é 😀 space e ́ 𝔘 x


@pytest.mark.parametrize("unit", ["characters", "utf16", "bytes"])
def test_offsets_of_other_units_are_converted(unit: Unit) -> None:
    def measure(text: str) -> int:
        if unit == "utf16":
            return len(text.encode("utf-16-le")) // 2
        return len(text.encode()) if unit == "bytes" else len(text)

    places = {measure(WIDE[:place]): place for place in range(len(WIDE) + 1)}
    wanted = range(-1, measure(WIDE) + 2)
    assert character_offsets(WIDE, wanted, unit) == places
    spans = [
        {"start": start, "end": end, "text": WIDE[places[start] : places[end]]}
        for start in places
        for end in places
        if start < end
    ]
    document = read_one({"id": 1, "text": WIDE, "entities": spans}, offsets=unit)
    assert len(document.mentions) == len(spans) == 28
    assert all(WIDE[m.start : m.end] == m.surface for m in document.mentions)


def test_offsets_inside_a_character_are_refused() -> None:
    # In UTF-16 the smiling face is units 1 and 2, in UTF-8 it is bytes 2 to 5.
    for unit, start in (("utf16", 2), ("bytes", 3)):
        record = {"id": 1, "text": WIDE, "entities": [{"start": start, "end": 6}]}
        assert "does not lie in the text" in refusal(record, offsets=unit).reason
    single = {"id": 1, "context": WIDE, "start": 2, "end": 6, "mention": "😀"}
    assert read_one(single, offsets="bytes").mentions[0].start == 1


# -------------------------------------------------------------------- forms, splits, fields
@pytest.mark.parametrize(
    ("name", "split"),
    [
        *((name, "train") for name in ("train", "Training")),
        *((name, "dev") for name in ("dev", "valid", "val", "validation", "development", "DEVEL")),
        *((name, "test") for name in ("test", "testing")),
        *((name, "") for name in ("", None)),
    ],
)
def test_splits(name: str | None, split: str) -> None:
    assert read_one({"id": 1, "text": "a", "entities": [], "split": name}).split == split


def test_an_unknown_split() -> None:
    error = refusal({"id": 1, "text": "a", "entities": [], "split": "fold-3"})
    assert error.reason == "the split 'fold-3' is none of train, dev and test"


def test_fields_are_named_by_settings() -> None:
    record = {
        "id": "no",
        "n": {"id": "yes", "t": "Title"},
        "raw": TEXT,
        "marks": [{"start": 4, "end": 7, "what": {"q": "Q525"}, "id": "no"}],
    }
    document = read_one(
        record, key="n.id", title="n.t", text="raw", mentions="marks", gold="what.q"
    )
    mention = Mention(4, 7, "Sun", (EntityId("", "Q525"),))
    assert document == Document("yes", TEXT, (mention,), title="Title")


def test_texts_are_kept_to_the_character() -> None:
    text = " \ttab\r\n\u2028\x1b 👩‍🚀 "
    assert read_one({"id": 1, "text": text, "entities": []}).text == text
    for bad in ("a\0", "a\ud83d"):
        assert "text holds" in refusal({"id": 1, "text": bad, "entities": []}).reason


def test_null_mentions_are_none() -> None:
    assert read_one({"id": 1, "text": "a", "entities": None}).mentions == ()


def test_a_count_of_mentions_makes_no_document() -> None:
    (entity,) = read('{"id": 1, "name": "N", "definition": "D", "mentions": 7}')
    assert entity == Entity("1", "N", "D")


@pytest.mark.parametrize(
    ("head", "low", "high"),
    [
        (SAMPLE, 0.9, 1),
        ('{"id": 1, "text": "a", "entities": [{"start": 0, "e', 0.9, 1),
        ('{"id": 1, "text": "a"}\n', 0.5, 0.8),
        ('{"id": 1, "text": "a", "mention_id": 4}\n', 0, 0),
        ('{"id": 1, "title": "T", "text": "a"}\n', 0, 0),
        ("id,text\n1,a\n", 0, 0),
        ("<a>\n", 0, 0),
        ("id: X:1\n", 0, 0),
    ],
)
def test_sniffing(head: str, low: float, high: float) -> None:
    assert low <= sniff(SourceHead("x", head.encode(), None)) <= high


def test_the_page_names_every_setting() -> None:
    table = PAGE.read_text(encoding="utf-8").split("## Settings")[1]
    for setting in JsonSettings.model_fields:
        assert f"`{setting}`" in table, setting


# ------------------------------------------------------------------------------ real files
COUNTS = {
    "bc5cdr_dev": (4244, 0),
    "bc5cdr_train": (4182, 0),
    "ncbi_dev": (787, 0),
    "ncbi_train": (5144, 1),
    "st21pv_train": (9637, 0),
}


@pytest.mark.slow
@pytest.mark.realdata
@pytest.mark.parametrize("name", COUNTS)
def test_real_mentions(name: str, realdata: Path) -> None:
    path = realdata / "disease" / "mentions" / f"{name}.jsonl.gz"
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        raw = {record["id"]: record for record in map(json.loads, lines)}
    problems = Problems("skip")
    with Source.open_path(path) as source:
        assert sniff(source.head) == 0.9
        documents = list(DocumentsAdapter(JsonSettings()).read(source, problems))
    assert (len(documents), problems.total) == COUNTS[name]
    for document in documents:
        assert isinstance(document, Document)
        (mention,) = document.mentions
        record = raw[document.id]
        assert (document.title, document.text) == (record["doc"], record["context"])
        assert (mention.start, mention.surface) == (record["start"], record["mention"])
        gold = {(kb, key) for kb, keys in record["gold"].items() for key in keys}
        assert mention.gold is not None
        assert set(mention.gold) == gold
    if problems.total:
        assert "line 2415: the surface does not stand at its offsets" in problems.examples[0]


def test_many_long_mentions_whose_words_are_not_said_are_refused() -> None:
    size = 2**18
    spans = [{"start": at, "end": size, "gold": "k:1"} for at in range(2000)]
    error = refusal({"id": "d", "text": "x" * size, "mentions": spans})
    assert error.reason == f"a mention of {size:,} characters, and 32,768 are the most"
