"""JSON and JSON lines: the documented shape, one line a text, and escapes for what others obey."""

from __future__ import annotations

import json
import math

import pytest

from kglink.records import Candidate, EntityId, Link, json_value
from kglink.text.printable import printable_json
from kglink_plugins.exporters.json_records import JsonExporter, JsonlExporter, JsonSettings
from linked_texts import EPISODE, OBEYED, TEXT, everywhere, link, one, written


def test_jsonl_has_the_documented_shape() -> None:
    line = written(JsonlExporter(JsonSettings()), EPISODE)
    assert line.endswith("\n")
    assert line.count("\n") == 1
    record = json.loads(line)
    assert list(record) == ["id", "text", "entities", "meta"]
    assert record["meta"] == {"seconds": 0.4}
    assert record["entities"][0] == {
        "start": 0,
        "end": 12,
        "text": "Clara Oswald",
        "kb": "doctor_who",
        "key": "Clara_Oswald",
        "title": "Clara Oswald",
        "url": "https://who.example/Clara",
        "score": 0.961235,
        "confidence": 0.97,
        "nil": False,
        "candidates": [
            {
                "kb": "doctor_who",
                "key": "Clara_Oswald",
                "title": "Clara Oswald",
                "score": 0.961235,
            },
            {
                "kb": "wikipedia",
                "key": "Tower_of_London",
                "title": "Tower of London",
                "score": 0.93,
            },
        ],
        "also": [{"kb": "wikipedia", "key": "Clara_Oswald"}],
    }


def test_jsonl_nil_keeps_its_candidates_and_has_null_for_the_rest() -> None:
    nil = json.loads(written(JsonlExporter(JsonSettings()), EPISODE))["entities"][2]
    assert {key: nil[key] for key in ("kb", "key", "title", "url", "score")} == dict.fromkeys(
        ("kb", "key", "title", "url", "score")
    )
    assert nil["nil"] is True
    assert nil["confidence"] == 0.81
    assert [item["key"] for item in nil["candidates"]] == ["Zygon"]
    assert nil["also"] == []


def test_jsonl_explain_adds_the_evidence() -> None:
    record = json.loads(written(JsonlExporter(JsonSettings(explain=True)), EPISODE))
    evidence = record["entities"][0]["candidates"][0]["evidence"]
    assert evidence == {"exact_name": 1.0, "text_vector": 0.333333}


def test_json_is_one_list_of_the_same_records() -> None:
    other = one("nothing here", name="two")
    lines = written(JsonlExporter(JsonSettings()), EPISODE, other).splitlines()
    listed = json.loads(written(JsonExporter(JsonSettings()), EPISODE, other))
    assert listed == [json.loads(line) for line in lines]


def test_json_of_no_documents_is_an_empty_list() -> None:
    assert written(JsonExporter(JsonSettings())) == "[]\n"
    assert written(JsonlExporter(JsonSettings())) == ""


@pytest.mark.parametrize(
    "text",
    [
        "a\u2028b\u2029c\x85d\x0be\x1cf",
        "naïve 東京 👩‍🚀",
        '"\\\n\r\t',
    ],
    ids=["line-breaks", "unicode", "escapes"],
)
def test_jsonl_gives_back_every_text_on_one_encodable_line(text: str) -> None:
    line = written(JsonlExporter(JsonSettings()), one(text))
    assert line.splitlines() == [line[:-1]]
    assert json.loads(line.encode("utf-8"))["text"] == text


def test_jsonl_keeps_offsets_where_two_surrogates_would_melt_into_one_character() -> None:
    assert json.loads(printable_json("\ud83d\ude00 end \ud83d")) == "\ufffd\ufffd end \ufffd"


@pytest.mark.parametrize("exporter", [JsonExporter, JsonlExporter])
@pytest.mark.parametrize(("start", "end"), [(2, 3), (3, 4), (2, 4), (3, 6)])
def test_json_of_a_mention_that_cuts_a_surrogate_pair_says_its_slice_of_the_text(
    exporter: type[JsonExporter] | type[JsonlExporter], start: int, end: int
) -> None:
    text = "a \ud83d\ude00 b"
    document = one(text, Link(start, end, text[start:end], (), None, 0.5))
    output = written(exporter(JsonSettings()), document)
    (back,) = json.loads(output if output.startswith("[") else f"[{output}]")
    (mention,) = back["entities"]
    assert mention["text"] == back["text"][start:end]
    assert len(back["text"]) == len(text)


def test_jsonl_writes_unicode_as_it_is() -> None:
    assert "東京 👩‍🚀" in written(JsonlExporter(JsonSettings()), one("東京 👩‍🚀"))


def test_numbers_without_a_value_become_null() -> None:
    odd = Candidate(EntityId("a", "b"), "t", math.nan)
    record = json.loads(
        written(JsonlExporter(JsonSettings()), one(TEXT, link("Clara", odd, sure=math.inf)))
    )
    assert record["entities"][0]["score"] is None
    assert record["entities"][0]["confidence"] is None


def test_meta_of_any_kind_becomes_json() -> None:
    class Named:
        def __str__(self) -> str:
            return "named"

    meta = {"n": 3, "set": {"b", "a"}, "deep": {1: (0.12345678, None)}, "x": Named(), "yes": True}
    assert json_value(meta) == {
        "n": 3,
        "set": ["a", "b"],
        "deep": {"1": [0.123457, None]},
        "x": "named",
        "yes": True,
    }


@pytest.mark.parametrize("exporter", [JsonExporter, JsonlExporter])
def test_json_holds_such_characters_as_escapes_alone(
    exporter: type[JsonExporter] | type[JsonlExporter],
) -> None:
    for char in OBEYED:
        output = written(exporter(JsonSettings(explain=True)), everywhere(char))
        assert not set(output) & (set(OBEYED) - {"\n"}), f"{char!r} comes through"
        (document,) = json.loads(output if output.startswith("[") else f"[{output}]")
        assert document["id"] == ("a\ufffdb" if char == "\ud800" else f"a{char}b")
