"""Whatever bytes an adapter is given, only our own errors come out, and no broken record."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import random
from collections.abc import Callable, Iterator
from functools import partial

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from kglink.errors import KglinkError
from kglink.plugins import KBAdapter
from kglink.records import Document, Entity, Record
from kglink.sources import OnError, Problems, Source, SourceHead, SourceLimits
from kglink.sources.compression import zstd
from kglink_kbs.jsonl import (
    DocumentsAdapter,
    JsonlAdapter,
    JsonSettings,
    sniff_documents,
    sniff_jsonl,
)
from kglink_kbs.tabular import CsvSettings, TabularAdapter, TsvSettings, sniff_csv, sniff_tsv

# No deadline: the machine may be busy. The examples are the same in every run.
fuzz = settings(
    max_examples=60,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
LIMITS = SourceLimits(max_line_bytes=5000, max_expansion=100, free_expansion=2**20)
ADAPTERS: dict[str, Callable[[], KBAdapter]] = {
    "jsonl": lambda: JsonlAdapter(JsonSettings()),
    "jsonl nested": lambda: JsonlAdapter(JsonSettings(title="names.0.en", separator=",")),
    "documents": lambda: DocumentsAdapter(JsonSettings()),
    "documents utf16": lambda: DocumentsAdapter(
        JsonSettings(offsets="utf16", gold_ids="kb:key", join="")
    ),
    "documents bytes": lambda: DocumentsAdapter(JsonSettings(offsets="bytes", gold="id")),
    "csv": lambda: TabularAdapter(CsvSettings()),
    "csv unquoted": lambda: TabularAdapter(CsvSettings(delimiter=";", quoting="none")),
    "tsv": lambda: TabularAdapter(TsvSettings()),
}
SNIFFS = (sniff_jsonl, sniff_documents, sniff_csv, sniff_tsv)
PACKERS: tuple[Callable[[bytes], bytes], ...] = (
    gzip.compress,
    bz2.compress,
    zstd.compress,
    lzma.compress,
)

NAMES = (
    *("id", "title", "name", "description", "aliases", "type", "url", "popularity", "language"),
    *("xrefs", "names", "text", "entities", "mentions", "context", "start", "end", "mention"),
    *("gold", "context_left", "context_right", "label_id", "label_title", "split", "kb", "key"),
    *("nil", "surface", "kind", "count", "length", "quality", "doc"),
)
texts = st.text(st.characters(), max_size=8) | st.sampled_from(
    ["", "a", "é😀", "\ud800", "\0", "\u2028", "NIL", "kb:x", "a,b", '"', "1e999", "dev", "null"]
)
scalars = (
    st.none()
    | st.booleans()
    | st.integers(-3, 12)
    | st.integers()
    | st.floats()
    | st.sampled_from([10**400, -(10**25)])
    | texts
)
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(NAMES) | texts, inner, max_size=4)
    ),
    max_leaves=12,
)
objects = st.dictionaries(st.sampled_from(NAMES), values, max_size=8)


@st.composite
def entities(draw: st.DrawFn) -> dict[str, object]:
    """Mostly good entities, so that the fuzz gets past the first check."""
    return {"id": draw(st.integers(0, 99) | texts), "title": draw(texts), **draw(objects)}


@st.composite
def documents(draw: st.DrawFn) -> dict[str, object]:
    """Mostly good documents: spans that often lie in the text, surfaces that often fit."""
    text = draw(texts.map(lambda piece: piece * 2 + " x"))
    spans = []
    for _ in range(draw(st.integers(0, 3))):
        start, end = draw(st.integers(0, len(text))), draw(st.integers(0, len(text) + 1))
        span: dict[str, object] = {"start": start, "end": end, "gold": draw(values)}
        if draw(st.booleans()):
            span["text"] = text[start:end]
        spans.append(span | draw(st.just({}) | objects))
    form = draw(st.sampled_from(["listed", "single", "contexts"]))
    extra = draw(st.just({}) | objects)
    if form == "listed":
        return {"id": draw(texts), "text": text, "entities": spans, **extra}
    if form == "single" and spans:
        return {"context": text, "mention": spans[0].get("text"), **spans[0], **extra}
    return {"context_left": draw(texts), "mention": draw(texts), "context_right": text, **extra}


json_records = st.lists(entities() | documents() | objects, min_size=1, max_size=5)
cells = texts | st.integers().map(str) | st.sampled_from(['"', '"a"', "a;b", "\n", "\r", "\t", "|"])
tables = st.tuples(
    st.sampled_from([",", "\t", ";", "|"]),
    st.lists(st.sampled_from(NAMES[:10]) | cells, min_size=1, max_size=5),
    st.lists(st.lists(cells, max_size=6), max_size=6),
)


def encoded(text: str) -> bytes:
    return text.encode("utf-8", errors="surrogatepass")


def table_bytes(table: tuple[str, list[str], list[list[str]]]) -> bytes:
    sign, header, rows = table
    return encoded("\n".join(sign.join(row) for row in (["id", "title", *header], *rows)))


def damaged(data: bytes, seed: int) -> bytes:
    """``data`` with some bytes changed, cut out, doubled or put in."""
    chance = random.Random(seed)
    raw = bytearray(data)
    for _ in range(chance.randrange(1, 5)):
        place, size = chance.randrange(len(raw) + 1), chance.randrange(1, 6)
        junk = chance.choice([b"", bytes([chance.randrange(256)]), b'"', b"\n", b"{", b"]", b"\\u"])
        raw[place : place + chance.choice([0, size])] = junk * chance.choice([1, 1, size])
    return bytes(raw)


def read(adapter: str, data: bytes, on_error: OnError) -> Iterator[Record]:
    """The records of ``data``; an error of ours ends them, any other fails the test."""
    with Source.from_bytes(data, name="fuzz", limits=LIMITS) as source:
        try:
            yield from ADAPTERS[adapter]().read(source, Problems(on_error))
        except KglinkError as error:
            encoded_message = str(error).encode()  # can be printed
            assert encoded_message


def check(adapter: str, data: bytes) -> None:
    """Read ``data`` in both ways; stopping gives the beginning of what skipping gives."""
    head = SourceHead("fuzz", data[: 2**16], None)
    for sniff in SNIFFS:
        assert 0 <= sniff(head) <= 1
    skipping = list(read(adapter, data, "skip"))
    stopping = list(read(adapter, data, "stop"))
    assert repr(stopping) == repr(skipping[: len(stopping)])
    for record in skipping:
        if isinstance(record, Entity):
            check_entity(record)
        else:
            assert isinstance(record, Document)
            check_document(record)


def check_entity(entity: Entity) -> None:
    assert entity.key
    assert entity.title
    assert all(alias.surface and 0 <= alias.count < 2**63 for alias in entity.aliases)
    assert abs(entity.popularity) < float("inf")
    repr(entity).encode()
    "".join([entity.key, entity.title, entity.description, *entity.xrefs]).encode()
    "".join([entity.type, entity.url, *(alias.surface for alias in entity.aliases)]).encode()


def check_document(document: Document) -> None:
    assert document.id
    assert document.split in ("", "train", "dev", "test")
    (document.id + document.title + document.text).encode()
    for mention in document.mentions:
        assert 0 <= mention.start < mention.end <= len(document.text)
        assert document.text[mention.start : mention.end] == mention.surface
        assert mention.gold is None or all(entity.key for entity in mention.gold)
        (mention.type + mention.quality + "".join(map(str, mention.gold or ()))).encode()


@pytest.fixture(params=ADAPTERS)
def adapter(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def each(adapters: str) -> pytest.MarkDecorator:
    """Parametrise with the adapters whose names start so."""
    return pytest.mark.parametrize(
        "adapter", [name for name in ADAPTERS if name.startswith(tuple(adapters.split()))]
    )


@each("jsonl documents csv tsv")
@fuzz
@given(data=st.binary(max_size=200))
@example(b"\xff\xfe")
@example(b"[" * 4000)
@example(b'{"id":' * 800)
@example(b"\x1f\x8b\x08")
@example(b"BZh91AY&SY")
@example(b"\x28\xb5\x2f\xfd")
@example(b"x" * 20_000)
@example(b"id,title\n" + b'1,"' + b"x\n" * 6000)
def test_arbitrary_bytes(adapter: str, data: bytes) -> None:
    check(adapter, data)


@each("jsonl documents")
@fuzz
@given(records=json_records, array=st.booleans(), ascii_only=st.booleans())
def test_arbitrary_json(adapter: str, records: list[object], array: bool, ascii_only: bool) -> None:
    dump = partial(json.dumps, ensure_ascii=ascii_only)
    check(adapter, encoded(dump(records) if array else "\n".join(map(dump, records))))


@each("jsonl documents")
@fuzz
@given(records=json_records, array=st.booleans(), seed=st.integers(0, 2**32))
def test_damaged_json(adapter: str, records: list[object], array: bool, seed: int) -> None:
    text = json.dumps(records) if array else "\n".join(map(json.dumps, records))
    check(adapter, damaged(encoded(text), seed))


@each("csv tsv")
@fuzz
@given(table=tables)
def test_arbitrary_tables(adapter: str, table: tuple[str, list[str], list[list[str]]]) -> None:
    check(adapter, table_bytes(table))


@each("csv tsv")
@fuzz
@given(table=tables, seed=st.integers(0, 2**32))
def test_damaged_tables(
    adapter: str, table: tuple[str, list[str], list[list[str]]], seed: int
) -> None:
    check(adapter, damaged(table_bytes(table), seed))


@pytest.mark.parametrize("pack", PACKERS)
@fuzz
@given(seed=st.integers(0, 2**32), length=st.integers(0, 400))
def test_damaged_archives(pack: Callable[[bytes], bytes], seed: int, length: int) -> None:
    lines = "".join(f'{{"id": {number}, "title": "T{number}"}}\n' for number in range(length))
    check("jsonl", damaged(pack(lines.encode()), seed))
