"""`kglink export`: what is written reads back to the same KB, whatever its records hold."""

from __future__ import annotations

import bz2
import gzip
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, get_args

import pytest
from conftest import Kglink
from hypothesis import given, settings
from hypothesis import strategies as st

from kglink.errors import RecordError
from kglink.records import (
    Alias,
    AliasKind,
    CodeMapping,
    Document,
    Entity,
    EntityId,
    Mention,
    Record,
    Split,
    Verdict,
)
from kglink.sources import Problems, Source
from kglink.store import IngestJob, Store
from kglink.workspace import Workspace
from kglink_kbs.jsonl import DocumentsAdapter, JsonlAdapter, JsonSettings, record_line

FULL = Entity(
    "Q:525",
    " The  Sun\t",
    "A star.\x1b\u2028Hot.",
    "star,  dwarf",
    "https://x.example/ sun",
    0.1 + 0.2,
    "en",
    (
        Alias(" The  Sun\t", "title", 7),
        Alias("Sol", "redirect", 2**63 - 1),
        Alias("Sol", "anchor", 0),
        Alias(" sol ", "synonym"),
    ),
    ("wd:Q525", "wd:Q525", " x "),
    ("Q:523", " p "),
)
TEXT = "The Sun\r\nwarms\tMars 👩‍🚀 e\u0301 "
ANNOTATED = Document(
    "d 1",
    TEXT,
    (
        Mention(0, 7, "The Sun", (EntityId("kb", "Q:525"),), " a  type ", "gold"),
        Mention(4, 7, "Sun", ()),
        Mention(4, 7, "Sun", (EntityId("", "DOID:7608"), EntityId("other", "a:b"))),
        Mention(15, 19, "Mars", None),
    ),
    " A  title ",
    "dev",
)
MAPPING = CodeMapping("DOID:1485", "MESH:D003550", "skos:broadMatch", 0.1, "correct")


def read(lines: Iterable[str], adapter: Any = None) -> list[Record]:
    adapter = adapter or JsonlAdapter(JsonSettings())
    with Source.from_bytes("".join(lines).encode(), name="kb.jsonl") as source:
        return list(adapter.read(source, Problems()))


def fill(store: Store, kb: str, records: Sequence[Record]) -> None:
    store.ingest(IngestJob(kb, "test", "test", kb), records)


def held(store: Store, kb: str) -> list[str]:
    """All of a KB as lines."""
    records: list[Record] = list(store.entities(kb))
    records += store.documents(kb, unresolved=True)
    records += store.mappings(kb)
    return [record_line(record) for record in records]


# ------------------------------------------------------------------------------------- records
@pytest.mark.parametrize("record", [FULL, ANNOTATED, MAPPING, Entity("k", "t"), Document("d", "")])
def test_a_record_reads_back_to_the_letter(record: Record) -> None:
    line = record_line(record)
    assert len(line.splitlines()) == 1
    assert read([line]) == [record]
    odd = DocumentsAdapter(JsonSettings(key="x", text="y", offsets="bytes", separator="o"))
    assert read([line], odd) == [record]


def test_a_line_is_json_that_people_can_read() -> None:
    assert json.loads(record_line(FULL)) == {
        "kglink": "entity",
        "id": "Q:525",
        "title": " The  Sun\t",
        "description": "A star.\x1b\u2028Hot.",
        "type": "star,  dwarf",
        "url": "https://x.example/ sun",
        "popularity": 0.30000000000000004,
        "language": "en",
        "aliases": [
            {"surface": " The  Sun\t", "kind": "title", "count": 7},
            {"surface": "Sol", "kind": "redirect", "count": 2**63 - 1},
            {"surface": "Sol", "kind": "anchor", "count": 0},
            {"surface": " sol ", "kind": "synonym", "count": 1},
        ],
        "xrefs": ["wd:Q525", "wd:Q525", " x "],
        "parents": ["Q:523", " p "],
    }
    document = json.loads(record_line(ANNOTATED))
    assert [mention.get("gold") for mention in document["mentions"]] == [
        [{"kb": "kb", "key": "Q:525"}],
        [],
        [{"key": "DOID:7608"}, {"kb": "other", "key": "a:b"}],
        None,
    ]
    assert record_line(Entity("k", "t")) == '{"kglink": "entity", "id": "k", "title": "t"}\n'


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        ({"kglink": "entity", "id": "a"}, "an exported entity without id or title"),
        ({"kglink": "entity", "id": 1, "title": "t"}, "id is the number 1, not a text"),
        ({"kglink": "entity", "id": "a", "title": "a\0"}, "title holds the control character"),
        ({"kglink": "entity", "id": "a", "title": "t", "xrefs": "x"}, "xrefs is the text 'x'"),
        ({"kglink": "entity", "id": "a", "title": "t", "aliases": ["x"]}, "an alias is the text"),
        (
            {"kglink": "entity", "id": "a", "title": "t", "aliases": [{"surface": " "}]},
            "an exported alias without a surface",
        ),
        (
            {"kglink": "entity", "id": "a", "title": "t", "aliases": [{"surface": "s", "kind": 1}]},
            "kind is the number 1, none of title, alias",
        ),
        ({"kglink": "document", "text": ""}, "an exported document without id"),
        ({"kglink": "document", "id": "d", "text": "", "split": "no"}, "split is the text 'no'"),
        (
            {"kglink": "document", "id": "d", "text": "ab", "mentions": [{"start": 0, "end": 1}]},
            "the surface of a mention does not stand at 0..1",
        ),
        (
            {
                "kglink": "document",
                "id": "d",
                "text": "a",
                "mentions": [{"start": 0, "end": 1, "text": "a", "gold": [{"kb": "x"}]}],
            },
            "an exported gold without a key",
        ),
        ({"kglink": "mapping", "subject": "a"}, "an exported mapping without subject or object"),
    ],
)
def test_a_changed_export_is_told(record: object, reason: str) -> None:
    with pytest.raises(RecordError) as caught:
        read([json.dumps(record) + "\n"])
    assert reason in caught.value.reason


def test_a_field_of_that_name_in_other_files_changes_nothing() -> None:
    (entity,) = read(['{"kglink": true, "id": 1, "title": " a  b "}\n'])
    assert entity == Entity("1", "a b")


# --------------------------------------------------------------------------------- round trips
def test_a_round_trip_keeps_what_no_kb_answers_to(tmp_path: Path) -> None:
    other = Entity("a:b", "Other")
    with Store.open(f"sqlite:///{tmp_path / 'first.db'}") as first:
        fill(first, "other", [other])
        fill(first, "kb", [FULL, ANNOTATED, MAPPING])
        lines = held(first, "kb")
    with Store.open(f"sqlite:///{tmp_path / 'second.db'}") as second:
        fill(second, "other", [other])
        fill(second, "kb", read(lines))
        assert held(second, "kb") == lines
        (document,) = second.documents("kb")
        assert [mention.gold for mention in document.mentions] == [
            (EntityId("kb", "Q:525"),),
            (),
            (EntityId("other", "a:b"),),  # nobody has DOID:7608
            None,
        ]
    with Store.open(f"sqlite:///{tmp_path / 'third.db'}") as third:
        fill(third, "kb", read(lines))
        kept = [EntityId("", "DOID:7608"), EntityId("", "other:a:b")]
        (document,) = third.documents("kb", unresolved=True)
        assert document.mentions[2].gold == tuple(kept)
        fill(third, "other", [other])
        fill(third, "kb", [FULL, ANNOTATED, MAPPING])
        assert held(third, "kb") == lines


def test_golds_that_were_found_by_other_words_are_named_by_what_was_found(tmp_path: Path) -> None:
    golds = (EntityId("", "The Sun"), EntityId("", "Pluto"))
    document = Document("d", "Sun", (Mention(0, 3, "Sun", golds),))
    with Store.open(f"sqlite:///{tmp_path / 'store.db'}") as store:
        fill(store, "wiki", [Entity("525", "Sun", aliases=(Alias("The Sun", "redirect"),))])
        job = IngestJob("texts", "t", "t", "f", links_to=("wiki",), resolve="title")
        store.ingest(job, [document])
        (found,) = store.documents("texts", unresolved=True)
    assert found.mentions[0].gold == (EntityId("wiki", "525"), EntityId("", "Pluto"))


storable = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=6)
named = storable.filter(lambda text: bool(text.strip()))
counts = st.integers(0, 2**31)
entities = st.builds(
    Entity,
    named,
    named,
    *(storable, storable, storable),
    st.floats(allow_nan=False, allow_infinity=False),
    storable,
    st.lists(st.builds(Alias, named, st.sampled_from(get_args(AliasKind)), counts), max_size=3).map(
        tuple
    ),
    *[st.lists(storable, max_size=3).map(tuple)] * 2,
)
ids = st.builds(EntityId, st.sampled_from(["", "kb", "else"]), named)
golds = st.none() | st.lists(ids, max_size=3, unique=True).map(tuple)


@st.composite
def documents(draw: st.DrawFn) -> Document:
    text = draw(storable) + "x"
    mentions = []
    for _ in range(draw(st.integers(0, 3))):
        start = draw(st.integers(0, len(text) - 1))
        end = draw(st.integers(start + 1, len(text)))
        said = (draw(golds), draw(storable), draw(storable))
        mentions.append(Mention(start, end, text[start:end], *said))
    split = draw(st.sampled_from(get_args(Split)))
    return Document(draw(named), text, tuple(mentions), draw(storable), split)


mappings = st.builds(
    CodeMapping,
    st.sampled_from(["A:1", "DOID:2"]),
    st.sampled_from(["B:1", "MESH:2"]),
    named,
    st.floats(0, 1),
    st.sampled_from([None, *get_args(Verdict)]),
)
anything = settings(max_examples=150, deadline=None, derandomize=True, database=None)


@anything
@given(record=entities | documents() | mappings)
def test_any_record_reads_back_to_the_letter(record: Record) -> None:
    assert read([record_line(record)]) == [record]


names = st.sampled_from(
    (
        *("id", "title", "text", "mentions", "aliases", "xrefs", "parents", "popularity"),
        *("split", "start"),
        *("end", "gold", "kb", "key", "surface", "kind", "count", "subject", "object", "verdict"),
    )
)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(["x", "\ud800", ""]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=4),
    max_leaves=10,
)


@anything
@given(
    base=st.sampled_from([FULL, ANNOTATED, MAPPING]),
    changes=st.dictionaries(names, values, max_size=3),
)
def test_any_changed_line_is_read_or_refused(base: Record, changes: dict[str, object]) -> None:
    line = json.dumps(json.loads(record_line(base)) | changes) + "\n"
    try:
        (record,) = read([line])
    except RecordError:
        return
    assert read([record_line(record)]) == [record]


@pytest.fixture(scope="module")
def two_stores(tmp_path_factory: pytest.TempPathFactory) -> Iterable[tuple[Store, Store]]:
    folder = tmp_path_factory.mktemp("stores")
    with (
        Store.open(f"sqlite:///{folder / 'first.db'}") as first,
        Store.open(f"sqlite:///{folder / 'second.db'}") as second,
    ):
        yield first, second


@pytest.mark.slow
@settings(anything, max_examples=40)
@given(
    records=st.tuples(
        st.lists(entities, min_size=1, max_size=3, unique_by=lambda entity: entity.key),
        st.lists(documents(), max_size=3, unique_by=lambda document: document.id),
        st.lists(mappings, max_size=1),
    )
)
def test_any_kb_survives_the_round_trip(
    two_stores: tuple[Store, Store],
    records: tuple[list[Record], list[Record], list[Record]],
) -> None:
    lines: list[str] = []
    for store in two_stores:
        given = read(lines) if lines else [record for part in records for record in part]
        fill(store, "kb", given)
        assert held(store, "kb") == (lines or held(store, "kb"))
        lines = held(store, "kb")
        store.remove_kb("kb")


# ------------------------------------------------------------------------------------- command
def test_the_demo_survives_the_round_trip(demo: Path, kglink: Kglink, tmp_path: Path) -> None:
    names = ("encyclopedia", "lanternfall", "docs")
    kglink("init", tmp_path / "new")
    for name, file in zip(names, ("a.csv.jsonl", "b.jsonl.gz", "c.jsonl.bz2"), strict=True):
        told = kglink("export", name, "-o", tmp_path / file).err
        assert f"of {name} to {tmp_path / file}" in told
        kglink("-w", tmp_path / "new", "add-kb", name, tmp_path / file)
    assert (tmp_path / "b.jsonl.gz").read_bytes()[:2] == b"\x1f\x8b"
    with Workspace.open(demo) as old, Workspace.open(tmp_path / "new") as new:
        for name in names:
            assert held(new.store, name) == held(old.store, name) != []
            before, after = old.store.kb(name), new.store.kb(name)
            assert (before.aliases, before.mentions) == (after.aliases, after.mentions)
        assert list(new.store.documents("docs")) == list(old.store.documents("docs"))
        assert gzip.decompress((tmp_path / "b.jsonl.gz").read_bytes()).decode() == "".join(
            held(old.store, "lanternfall")
        )
        lines = held(old.store, "docs")
    assert bz2.decompress((tmp_path / "c.jsonl.bz2").read_bytes()).decode() == "".join(lines)


def test_standard_output_holds_the_records_alone(demo: Path, kglink: Kglink) -> None:
    with Workspace.open(demo) as workspace:
        lines = held(workspace.store, "docs")
        splits = {d.id: d.split for d in workspace.store.documents("docs")}
    ran = kglink("export", "docs", "--format", "jsonl")
    assert ran.out == "".join(lines)
    assert f"exported   {len(lines):,} records of docs" in ran.err
    dev = [
        json.loads(line)["id"]
        for line in kglink("export", "docs", "--split", "dev").out.splitlines()
    ]
    assert dev == [id_ for id_, split in splits.items() if split == "dev"] != []


def test_parts_can_be_left_out(kglink: Kglink, tmp_path: Path) -> None:
    folder, source = tmp_path / "work", tmp_path / "kb.jsonl"
    source.write_text(
        "".join(record_line(record) for record in (FULL, ANNOTATED, MAPPING)), encoding="utf-8"
    )
    kglink("init", folder)
    kglink("-w", folder, "add-kb", "kb", source, "--adapter", "jsonl")

    def kinds(*options: str) -> list[str]:
        out = kglink("-w", folder, "export", "kb", *options).out
        return [json.loads(line)["kglink"] for line in out.splitlines()]

    assert kinds() == ["entity", "document", "mapping"]
    assert kinds("--only", "documents", "--split", "dev") == ["document"]
    assert kinds("--only", "mappings") == ["mapping"]
    assert kinds("--split", "train") == ["entity", "mapping"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("docz",), "unknown KB 'docz'"),
        (("docs", "--format", "csv"), "unknown format 'csv'"),
        (("docs", "--format", "sssom"), "kglink overlap --export pairs.sssom.tsv"),
        (("docs", "--split", "val"), "unknown split 'val'"),
        (("docs", "--only", "golds"), "unknown part 'golds'"),
        (("docs", "-o", "docs.csv"), "docs.csv would be no table"),
        (("docs", "-o", "docs.CSV.gz"), "docs.CSV.gz would be no table"),
        (("docs", "-o", "no/such/folder/x.jsonl"), "cannot write no/such/folder/x.jsonl"),
    ],
)
def test_mistakes(demo: Path, kglink: Kglink, options: tuple[str, ...], said: str) -> None:
    assert said in kglink("export", *options, code=2).err


def test_a_file_is_replaced_whole_or_not_at_all(
    demo: Path, kglink: Kglink, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = tmp_path / "docs.jsonl"
    output.write_text("precious", encoding="utf-8")

    def full_disk(record: Record) -> str:
        if isinstance(record, Document) and record.id == "doc-003":
            raise OSError(28, "No space left on device")
        return record_line(record)

    monkeypatch.setattr("kglink_kbs.jsonl.record_line", full_disk)
    assert "No space left" in kglink("export", "docs", "-o", output, code=1).err
    assert output.read_text(encoding="utf-8") == "precious"
    assert [path.name for path in tmp_path.iterdir()] == ["docs.jsonl"]
