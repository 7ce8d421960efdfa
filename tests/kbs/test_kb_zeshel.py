"""ZESHEL folders: worlds, inclusive word offsets, splits, and what a damaged release says."""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import Kglink
from hypothesis import example, given, settings
from hypothesis import strategies as st
from test_kb_fuzz import check_document, check_entity, damaged

from kglink.errors import KglinkError, RecordError, SourceError, UnknownNameError
from kglink.records import Document, Entity, EntityId, Mention, Record
from kglink.sources import Problems, Source, SourceHead
from kglink.testing import KBAdapterContract
from kglink_kbs import blink, jsonl, tabular
from kglink_kbs.zeshel import ZeshelAdapter, ZeshelSettings, sniff

Fields = dict[str, object]
SUN: Fields = {
    "title": "Sun ( star )",
    "text": "Sun ( star ) The Sun warms Mars .",
    "document_id": "A1",
}
MARS: Fields = {"title": "Mars", "text": "Mars A red world .", "document_id": "B2"}


def lines(*records: Fields) -> str:
    return "".join(json.dumps(record) + "\n" for record in records)


def mention(first: int, last: int, text: str, **fields: object) -> Fields:
    return {
        "category": "LOW_OVERLAP",
        "text": text,
        "end_index": last,
        "context_document_id": "A1",
        "label_document_id": "B2",
        "mention_id": f"M{first}",
        "corpus": "sky",
        "start_index": first,
    } | fields


THE_SUN = mention(4, 5, "The Sun", label_document_id="A1", category="HIGH_OVERLAP")
MARS_IN_SUN = mention(7, 7, "Mars")


@pytest.fixture
def release(tmp_path: Path) -> Path:
    """A release of two worlds; the page A1 is annotated in three files."""
    folder = tmp_path / "zeshel"
    files = {
        "documents/sky.json": lines(SUN, MARS),
        "documents/sea.json": lines({"title": "Cod", "text": "Cod swims .", "document_id": "C3"}),
        "mentions/train.json": lines(
            MARS_IN_SUN, mention(0, 0, "Cod", corpus="sea", context_document_id="C3"), THE_SUN
        ),
        "mentions/heldout_train_unseen.json": lines(MARS_IN_SUN),
        "mentions/test.json": lines(mention(0, 0, "Mars", context_document_id="B2")),
        "mentions/debug.json": lines(MARS_IN_SUN),
        "tfidf_candidates/train.json": lines({"mention_id": "M7", "tfidf_candidates": ["B2"]}),
    }
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    return folder


def read(path: Path, problems: Problems | None = None, /, **options: object) -> list[Record]:
    adapter = ZeshelAdapter(ZeshelSettings.model_validate(options))
    with Source.open_path(path) as source:
        return list(adapter.read(source, problems or Problems()))


def of(key: str) -> tuple[EntityId, ...]:
    return (EntityId("", key),)


TEXT = "Sun ( star ) The Sun warms Mars ."
SUN_ENTITY = Entity("A1", "Sun ( star )", TEXT, language="en")
MARS_ENTITY = Entity("B2", "Mars", "Mars A red world .", language="en")


class TestContract(KBAdapterContract):
    plugin = "kglink/zeshel"
    source_name = "sky.json"
    source_text = lines(SUN, MARS)
    expected = (SUN_ENTITY, MARS_ENTITY)
    broken = (
        b"\x00\xff\xfe no record \x80\n",
        lines({"title": "T", "text": "T"}),
        lines({"title": " ", "text": "T", "document_id": "A"}),
        lines({"title": "T", "document_id": "A"}),
        lines({"title": "T", "text": ["T"], "document_id": "A"}),
    )
    foreign = (
        *KBAdapterContract.foreign,
        lines({"id": "1", "title": "T", "text": "T is a letter ."}),
        lines({"text": " T", "idx": "http://x.example/?curid=1", "title": "T", "entity": "T"}),
        lines({"context_left": "a", "mention": "b", "context_right": "c", "label_id": 1}),
    )


def test_a_world_is_its_pages_each_followed_by_its_mentions(release: Path) -> None:
    the_sun = Mention(13, 20, "The Sun", of("A1"), "HIGH_OVERLAP")
    mars = Mention(27, 31, "Mars", of("B2"), "LOW_OVERLAP")
    held_out = Mention(27, 31, "Mars", of("B2"), "LOW_OVERLAP", "heldout_train_unseen")
    title = "Sun ( star )"
    assert read(release, world="sky") == [
        SUN_ENTITY,
        Document("train/A1", TEXT, (the_sun, mars), title, "train"),
        Document("heldout_train_unseen/A1", TEXT, (held_out,), title, "dev"),
        MARS_ENTITY,
        Document(
            "test/B2",
            "Mars A red world .",
            (Mention(0, 4, "Mars", of("B2"), "LOW_OVERLAP"),),
            "Mars",
            "test",
        ),
    ]


def test_which_mentions_are_read_and_where_the_held_out_go(release: Path) -> None:
    def splits(**options: object) -> dict[str, str]:
        records = read(release, world="sky", **options)
        return {r.id: r.split for r in records if isinstance(r, Document)}

    assert splits(heldout="test")["heldout_train_unseen/A1"] == "test"
    assert splits(mentions=("debug", "train")) == {"debug/A1": "", "train/A1": "train"}
    assert splits(mentions=()) == {}
    with pytest.raises(UnknownNameError, match="mention file of zeshel 'dev'") as caught:
        read(release, world="sky", mentions=("dev",))
    assert "heldout_train_unseen" in caught.value.hint


def test_a_world_must_be_named_where_there_are_several(release: Path) -> None:
    with pytest.raises(SourceError, match="zeshel holds 2 worlds") as caught:
        read(release)
    assert "--set world=NAME. There is: sea, sky." in caught.value.hint
    with pytest.raises(UnknownNameError, match="unknown world of zeshel 'skye'") as unknown:
        read(release, world="skye")
    assert "Did you mean 'sky'?" in unknown.value.hint
    (release / "documents/sea.json").unlink()
    assert read(release) == read(release, world="sky")


def test_a_folder_without_documents(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"holds no documents/WORLD\.json"):
        read(tmp_path)


def test_packed_and_empty_files_of_a_folder(release: Path) -> None:
    plain = read(release, world="sky")
    for name in ("documents/sky.json", "mentions/train.json"):
        path = release / name
        (release / f"{name}.gz").write_bytes(gzip.compress(path.read_bytes()))
        path.unlink()
    (release / "mentions/val.json").touch()
    assert read(release, world="sky") == plain


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"text": "Mars."}, "the words 7..7 are not the text of the mention"),
        ({"end_index": 8}, "the words 7..8 are not the text of the mention"),
        ({"start_index": 8}, "the words 8..7 do not lie in the context document"),
        ({"start_index": 9, "end_index": 9}, "the words 9..9 do not lie"),
        ({"start_index": -1}, "start_index is the number -1"),
        ({"end_index": "7"}, "end_index is the text '7', not a whole number"),
        ({"text": ""}, "the words 7..7 are not the text of the mention"),
        ({"text": None}, "text is null, not a text"),
        ({"label_document_id": None}, "a mention without label_document_id"),
        ({"context_document_id": "ZZ"}, "the context document is none of documents/sky.json"),
    ],
)
def test_a_mention_that_does_not_fit_is_told_with_its_line(
    release: Path, changed: Fields, reason: str
) -> None:
    wrong = lines(THE_SUN, MARS_IN_SUN | changed)
    (release / "mentions/train.json").write_text(wrong, encoding="utf-8")
    with pytest.raises(RecordError) as caught:
        read(release, world="sky", mentions=("train",))
    assert reason in caught.value.reason
    assert caught.value.where == "mentions/train.json, line 2"
    problems = Problems("skip")
    records = read(release, problems, world="sky", mentions=("train",))
    found = [m.surface for r in records if isinstance(r, Document) for m in r.mentions]
    assert (found, problems.total) == (["The Sun"], 1)


def test_words_are_those_that_splitting_gives(release: Path) -> None:
    text = "Sun  \u00a0( star )\u2028The\x1cSun \t Mars\u3000."
    words = text.split()
    marked = [
        mention(first, last, " ".join(words[first : last + 1]))
        for first in range(len(words))
        for last in range(first, len(words))
    ]
    (release / "documents/sky.json").write_text(lines(SUN | {"text": text}), encoding="utf-8")
    (release / "mentions/train.json").write_text(lines(*marked), encoding="utf-8")
    (document,) = (
        r for r in read(release, world="sky", mentions=("train",)) if isinstance(r, Document)
    )
    assert len(document.mentions) == len(marked) == 36
    assert {" ".join(m.surface.split()) for m in document.mentions} == {m["text"] for m in marked}


def test_long_wrong_spans_are_refused_without_being_read(release: Path) -> None:
    """Two thousand mentions of a whole page of a million words: quadratic work would take hours."""
    text = "Sun " + "w " * 1_000_000
    (release / "documents/sky.json").write_text(lines(SUN | {"text": text}), encoding="utf-8")
    marked = [mention(0, 999_999, "Sun") | {"mention_id": str(n)} for n in range(2000)]
    (release / "mentions/train.json").write_text(lines(*marked), encoding="utf-8")
    problems = Problems("skip")
    read(release, problems, world="sky", mentions=("train",))
    assert problems.total == 2000


# ------------------------------------------------------------------------------------ sniffing
def test_a_folder_is_known_by_its_folders(release: Path, tmp_path: Path) -> None:
    def sure(folder: Path) -> float:
        return sniff(SourceHead(folder.name, b"", folder))

    assert sure(release) == 0.95
    assert sure(release / "documents") == sure(tmp_path) == sure(tmp_path / "none") == 0
    for name in ("mentions", "documents"):
        (release / name).rename(release / f"no-{name}")
        assert sure(release) == 0
        (release / f"no-{name}").rename(release / name)


def test_only_this_adapter_takes_a_documents_file_for_its_own() -> None:
    head = SourceHead("sky.json", lines(SUN, MARS).encode(), None)
    others = (
        jsonl.sniff_jsonl,
        jsonl.sniff_documents,
        tabular.sniff_csv,
        tabular.sniff_tsv,
        blink.sniff,
    )
    assert sniff(head) > max(other(head) for other in others)


# ------------------------------------------------------------------------------------- command
def test_the_command_line_adds_a_world(release: Path, kglink: Kglink, tmp_path: Path) -> None:
    kglink("init", tmp_path)
    told = kglink("-w", tmp_path, "add-kb", "sky", release, code=1)
    assert "holds 2 worlds" in told.err
    assert "Traceback" not in told.err
    ran = kglink("-w", tmp_path, "add-kb", "sky", release, "--set", "world=sky", "--json")
    summary = json.loads(ran.out)
    counts = [summary[name] for name in ("added", "documents", "mentions", "gold_unresolved")]
    assert counts == [2, 3, 4, 0]


# ---------------------------------------------------------------------------------------- fuzz
fields = st.sampled_from([*MARS_IN_SUN, "title", "document_id", "x"])
values = (
    st.none()
    | st.integers(-2, 12)
    | st.sampled_from(["A1", "B2", "sky", "Mars", "The Sun", "", " ", "é😀", "\x1b", "a\0"])
)
records = st.lists(st.dictionaries(fields, values, max_size=8), max_size=4)


@pytest.fixture(scope="module")
def fuzz_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("fuzz")
    for name in ("documents", "mentions"):
        (folder / name).mkdir()
    return folder


def survives(folder: Path, pages: bytes, marked: bytes) -> None:
    (folder / "documents/sky.json").write_bytes(pages)
    (folder / "mentions/train.json").write_bytes(marked)
    make: Callable[..., list[Record]] = read
    for problems in (Problems("stop"), Problems("skip")):
        try:
            found = make(folder, problems, world="sky")
        except KglinkError:
            continue
        for record in found:
            if isinstance(record, Entity):
                check_entity(record)
            elif isinstance(record, Document):
                check_document(record)


@settings(max_examples=60, deadline=None, derandomize=True, database=None)
@given(pages=records, marked=records, seed=st.integers(0, 2**32))
@example(pages=[], marked=[], seed=0)
def test_arbitrary_records(
    fuzz_folder: Path, pages: list[Fields], marked: list[Fields], seed: int
) -> None:
    chance = random.Random(seed)
    whole = [SUN | page for page in pages], [MARS_IN_SUN | item for item in marked]
    survives(fuzz_folder, *(lines(*items).encode() for items in whole))
    survives(fuzz_folder, lines(SUN, *pages).encode(), lines(THE_SUN, *marked).encode())
    pages_bytes, marked_bytes = (lines(SUN, MARS).encode(), lines(THE_SUN, MARS_IN_SUN).encode())
    survives(fuzz_folder, damaged(pages_bytes, seed), damaged(marked_bytes, chance.randrange(99)))


# ----------------------------------------------------------------------------------- real files
@pytest.mark.realdata
def test_the_real_sample_reads_with_every_offset_right(realdata: Path) -> None:
    folder = realdata / "zeshel_sample"
    counts = {"doctor_who": 6, "military": 6, "pro_wrestling": 5, "starwars": 6}
    assert sniff(SourceHead(folder.name, b"", folder)) == 0.95
    raw = [
        json.loads(line)
        for line in (folder / "mentions/train.json").read_text(encoding="utf-8").splitlines()
    ]
    by_world = {item["corpus"]: item for item in raw}
    for world, pages in counts.items():
        found = read(folder, world=world)
        entities = {r.key: r for r in found if isinstance(r, Entity)}
        texts = [r for r in found if isinstance(r, Document)]
        assert (len(entities), len(texts)) == (pages, 5)
        assert [text.split for text in texts] == ["train", "dev", "dev", "dev", "test"]
        item = by_world[world]
        for text in texts:
            (marked,) = text.mentions
            assert text.text[marked.start : marked.end] == marked.surface == item["text"]
            before = text.text[: marked.start].split()
            assert len(before) == item["start_index"]
            assert (marked.gold, marked.type) == (of(item["label_document_id"]), item["category"])
            assert item["label_document_id"] in entities
            assert text.title == entities[item["context_document_id"]].title
