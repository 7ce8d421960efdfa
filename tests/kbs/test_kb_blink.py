"""BLINK's files: catalogues, mentions, and what their labels may mean."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest
from conftest import Kglink
from hypothesis import example, given, settings
from hypothesis import strategies as st
from test_kb_fuzz import check_document, check_entity, damaged

from kglink.errors import KglinkError, RecordError, SourceError
from kglink.records import Document, Entity, EntityId, Mention, Record
from kglink.sources import Problems, Source, SourceHead
from kglink.testing import KBAdapterContract
from kglink_kbs import jsonl, reddit, tabular, zeshel
from kglink_kbs.blink import BlinkAdapter, BlinkSettings, sniff

Fields = Mapping[str, object]
PAGE = "https://en.wikipedia.org/wiki?curid="


def lines(*records: Fields) -> str:
    return "".join(json.dumps(record) + "\n" for record in records)


def entity(title: str, idx: object, **fields: object) -> Fields:
    return {"text": f" {title} is a word.", "idx": idx, "title": title, "entity": title} | fields


def mention(surface: str, **fields: object) -> Fields:
    return {"context_left": "The", "mention": surface, "context_right": "shines."} | fields


def read(data: str, problems: Problems | None = None, /, **options: object) -> list[Record]:
    adapter = BlinkAdapter(BlinkSettings.model_validate(options))
    with Source.from_bytes(data.encode(), name="train.jsonl") as source:
        return list(adapter.read(source, problems or Problems()))


def golds(*records: Fields, **options: object) -> list[tuple[EntityId, ...] | None]:
    found = read(lines(*records), **options)
    return [m.gold for r in found if isinstance(r, Document) for m in r.mentions]


BENCHMARK = mention(
    "Sun", query_id="msnbc_1", label_id="18974865", Wikipedia_ID=26751, Wikipedia_URL="http://x",
    Wikipedia_title="Sun",
)  # fmt: skip


class TestContract(KBAdapterContract):
    plugin = "kglink/blink"
    source_name = "train.jsonl"
    source_text = lines(
        entity("Sun", PAGE + "26751"),
        entity(" Mars  rock ", "raw id"),
        BENCHMARK,
        mention("Mars", id="train.jsonl:4", label="A rock.", label_id="raw id", label_title="Mars"),
    )
    expected = (
        Entity("26751", "Sun", "Sun is a word.", url=PAGE + "26751"),
        Entity("raw id", "Mars rock", "Mars  rock  is a word."),
        Document(
            "msnbc_1",
            "The Sun shines.",
            (Mention(4, 7, "Sun", (EntityId("", "26751"),)),),
            split="train",
        ),
        Document(
            "train.jsonl:4",
            "The Mars shines.",
            (Mention(4, 8, "Mars", (EntityId("", "raw id"),)),),
            split="train",
        ),
    )
    broken = (
        b"\x00\xff\xfe no record \x80\n",
        lines({"title": "T", "text": "T"}),
        lines({"idx": "1", "text": "T"}),
        lines(mention("")),
        lines(mention("Sun", label_id=[1])),
        "[" + json.dumps(entity("Sun", 1)) + "]",
    )
    foreign = (
        *KBAdapterContract.foreign,
        lines({"id": 1, "title": "T", "text": "D"}),
        lines({"document_id": "AB", "title": "T", "text": "T D"}),
        lines(mention("Sun")),
    )

    def test_compression_and_standard_input_change_nothing(self, tmp_path: Path) -> None:
        """Standard input has no name to take a split from; all else is the same."""
        with Source.from_bytes(self._sample) as source:
            nameless = self.read(source)
        assert [getattr(r, "split", "") for r in nameless] == ["", "", "", ""]
        path = tmp_path / "train.jsonl"
        path.write_bytes(self._sample)
        assert self.read(Source.open_path(path)) == list(self.expected)


def test_rows_are_keys_where_a_setting_says_so() -> None:
    text = lines(entity("Sun", PAGE + "7"), {"title": ""}, entity("Mars", PAGE + "8"))
    problems = Problems("skip")
    found = read(text + lines(mention("Mars", label_id=2, label_title="no")), problems, label="row")
    assert [r.key for r in found if isinstance(r, Entity)] == ["0", "2"]
    assert found[0] == Entity("0", "Sun", "Sun is a word.", url=PAGE + "7")
    (document,) = (r for r in found if isinstance(r, Document))
    assert document.mentions[0].gold == (EntityId("", "2"),)
    assert problems.counts == {"neither an entity nor a mention": 1}


@pytest.mark.parametrize(
    ("label", "fields", "gold"),
    [
        ("auto", {"Wikipedia_ID": 5, "label_id": 9}, "5"),
        ("auto", {"label_id": "9", "label_title": "Sun"}, "9"),
        ("auto", {}, None),
        ("page_id", {"label_id": 9}, "9"),
        ("page_id", {"label_id": 9, "wikipedia_id": "5"}, "5"),
        ("row", {"label_id": 9, "Wikipedia_ID": 5}, "9"),
        ("row", {"label_title": "Sun"}, None),
        (
            "title",
            {"label_id": 9, "label_title": " Star Wars: A New  Hope"},
            "Star Wars: A New Hope",
        ),
        ("title", {"Wikipedia_title": "Sun", "Wikipedia_ID": 5}, "Sun"),
        ("title", {"label_id": 9}, None),
        ("title", {"label_title": "hp:1"}, "hp:1"),
    ],
)
def test_what_a_label_means(label: str, fields: Fields, gold: str | None) -> None:
    expected = None if gold is None else (EntityId("", gold),)
    assert golds(mention("Sun", **fields), label=label) == [expected]


@pytest.mark.parametrize("fields", [{"label_id": 9, "label_title": "Sun"}, {"label_title": "Sun"}])
def test_a_number_that_may_be_a_row_or_a_page_is_not_guessed(fields: Fields) -> None:
    with pytest.raises(SourceError, match=r"train\.jsonl, line 1: .* says what is meant") as caught:
        golds(mention("Sun", **fields))
    assert "--set label=row" in caught.value.hint


def test_worlds() -> None:
    marked = [mention("Sun", world=world, label_id=3) for world in ("lego", "star_trek")]
    assert golds(*marked, label="row") == [
        (EntityId("lego", "3"),),
        (EntityId("star_trek", "3"),),
    ]
    assert golds(*marked, label="row", world="lego") == [(EntityId("", "3"),)]


def test_a_folder_is_read_file_by_file_with_its_splits(tmp_path: Path) -> None:
    names = {"entity": "", "train": "train", "valid": "dev", "test": "test"}
    for name in names:
        content = entity("Sun", 26751) if name == "entity" else mention("Sun", label_id="26751")
        (tmp_path / f"{name}.jsonl").write_text(lines(content), encoding="utf-8")
    (tmp_path / "notes.txt").write_text("no JSON", encoding="utf-8")
    (tmp_path / "empty.jsonl").touch()
    with Source.open_path(tmp_path) as source:
        assert sniff(source.head) == 0.95
        found = list(BlinkAdapter(BlinkSettings()).read(source, Problems()))
    assert [(r.id, r.split) for r in found if isinstance(r, Document)] == [
        (f"{name}.jsonl:1", names[name]) for name in ("test", "train", "valid")
    ]
    assert [r.key for r in found if isinstance(r, Entity)] == ["26751"]


def test_folders_that_are_none_of_blinks(tmp_path: Path) -> None:
    with Source.open_path(tmp_path) as source:
        assert sniff(source.head) == 0
        with pytest.raises(SourceError, match=r"holds no \.jsonl file"):
            list(BlinkAdapter(BlinkSettings()).read(source, Problems()))
    (tmp_path / "train.jsonl").write_text('{"id": 1, "title": "T"}\n', encoding="utf-8")
    with Source.open_path(tmp_path) as source:
        assert sniff(source.head) == 0


@pytest.mark.parametrize("data", [lines(entity("Sun", PAGE + "1")), lines(BENCHMARK)])
def test_only_this_adapter_takes_blinks_files_for_its_own(data: str) -> None:
    head = SourceHead("x.jsonl", data.encode(), None)
    others = (jsonl.sniff_jsonl, jsonl.sniff_documents, zeshel.sniff, reddit.sniff)
    assert sniff(head) > max(other(head) for other in others)
    assert tabular.sniff_csv(head) == tabular.sniff_tsv(head) == 0


def test_messages() -> None:
    with pytest.raises(RecordError) as caught:
        read(lines(entity("Sun", None)))
    assert caught.value.reason == "an entity without idx"
    with pytest.raises(SourceError, match="is one array"):
        read("[]")


def test_the_command_line_links_mentions_to_a_catalogue(kglink: Kglink, tmp_path: Path) -> None:
    catalogue, mentions = tmp_path / "entity.jsonl", tmp_path / "test.jsonl"
    catalogue.write_text(lines(entity("Sun", PAGE + "26751")), encoding="utf-8")
    missing = mention("Moon", label_id="1", label_title="Moon")
    mentions.write_text(lines(BENCHMARK, missing), encoding="utf-8")
    kglink("init", tmp_path)
    kglink("-w", tmp_path, "add-kb", "wikipedia", catalogue)
    added = kglink("-w", tmp_path, "add-kb", "msnbc", mentions, "--links-to", "wikipedia", "--json")
    summary = json.loads(added.out)
    assert (summary["adapter"], summary["mentions"]) == ("kglink/blink", 2)
    assert summary["gold_unresolved"] == 1
    again = lines(entity("Sun", PAGE + "26751"), entity("Sun again", PAGE + "26751"))
    catalogue.write_text(again, encoding="utf-8")
    assert (
        "an id that an earlier record has"
        in kglink("-w", tmp_path, "add-kb", "wikipedia", catalogue, code=1).err
    )


# ---------------------------------------------------------------------------------------- fuzz
names = st.sampled_from([*BENCHMARK, "world", "label_title", "idx", "title", "text", "gold", "nil"])
values = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6)
    | st.sampled_from(["Sun", PAGE + "1", "NIL", "\ud800", "a\0", "wiki:Q1", {}, [1]])
)  # fmt: skip
records = st.lists(
    st.builds(
        lambda base, more: {**base, **more},
        st.sampled_from([BENCHMARK, entity("Sun", 1), {}]),
        st.dictionaries(names, values, max_size=4),
    ),
    max_size=4,
)


@settings(max_examples=100, deadline=None, derandomize=True, database=None)
@given(
    items=records,
    seed=st.none() | st.integers(0, 2**32),
    label=st.sampled_from(["auto", "row", "title"]),
)
@example(items=[], seed=None, label="auto")
def test_arbitrary_records(items: list[Fields], seed: int | None, label: str) -> None:
    data = lines(*items).encode()
    if seed is not None:
        data = damaged(data, seed)
    assert 0 <= sniff(SourceHead("x", data, None)) <= 1
    for problems in (Problems("stop"), Problems("skip")):
        try:
            adapter = BlinkAdapter(BlinkSettings.model_validate({"label": label}))
            with Source.from_bytes(data) as source:
                found = list(adapter.read(source, problems))
        except KglinkError:
            continue
        for record in found:
            if isinstance(record, Entity):
                check_entity(record)
            elif isinstance(record, Document):
                check_document(record)
