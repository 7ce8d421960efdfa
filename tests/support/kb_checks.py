"""What the tests of adapters share: reading bytes, and checking what arbitrary ones lead to."""

from __future__ import annotations

import random
from collections.abc import Callable

from hypothesis import HealthCheck, settings

from kglink.errors import KglinkError
from kglink.plugins import KBAdapter, Sniff, load_registry
from kglink.records import Entity, Record
from kglink.sources import OnError, Problems, Source, SourceHead, SourceLimits
from kglink.testing.contracts.kb import SURE, check_record

# No deadline: the machine may be busy. The examples are the same in every run.
fuzz = settings(
    max_examples=100,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
LIMITS = SourceLimits(max_line_bytes=5000, max_expansion=100, free_expansion=2**20)
MakeAdapter = Callable[[], KBAdapter]


def read_bytes(
    adapter: KBAdapter, data: str | bytes, problems: Problems | None = None, name: str = "sample"
) -> list[Entity]:
    """The entities of ``data``; documents among them fail the test."""
    raw = data.encode() if isinstance(data, str) else data
    with Source.from_bytes(raw, name=name) as source:
        records = list(adapter.read(source, problems or Problems()))
    entities = [record for record in records if isinstance(record, Entity)]
    assert len(entities) == len(records)
    return entities


def head_of(data: str | bytes, name: str = "-") -> SourceHead:
    """The head of a source that holds ``data``."""
    raw = data.encode() if isinstance(data, str) else data
    return SourceHead(name, raw[: 2**16], None)


def claimants(head: SourceHead) -> list[str]:
    """The adapters that take a source for their own, the surest first."""
    plugins = load_registry(only="builtin").plugins("kb")
    sure = {plugin.name: plugin.sniff(head) for plugin in plugins if plugin.sniff}
    return sorted((name for name in sure if sure[name] >= SURE), key=lambda name: -sure[name])


def check_any(make: MakeAdapter, sniff: Sniff, data: bytes) -> None:
    """Only our own errors come out, and stopping gives the beginning of what skipping gives."""
    assert 0 <= sniff(head_of(data)) <= 1
    skipping, stopping = _records(make(), data, "skip"), _records(make(), data, "stop")
    assert repr(stopping) == repr(skipping[: len(stopping)])
    for record in skipping:
        check_record(record)
        assert isinstance(record, Entity)
        assert record.title
        texts = [record.title, record.description, record.type, record.url, *record.xrefs]
        "".join([record.key, *texts, *(alias.surface for alias in record.aliases)]).encode()


def damaged(data: bytes, seed: int) -> bytes:
    """``data`` with some bytes changed, cut out, doubled or put in."""
    chance = random.Random(seed)
    raw = bytearray(data)
    junk = [b"", b'"', b"\n", b"{", b"}", b"[", b"]", b"<", b">", b"\\", b":", b"!", b"\\u", b"&"]
    for _ in range(chance.randrange(1, 5)):
        place, size = chance.randrange(len(raw) + 1), chance.randrange(1, 9)
        piece = chance.choice([*junk, bytes([chance.randrange(256)]), bytes(raw[place:][:30])])
        raw[place : place + chance.choice([0, size])] = piece * chance.choice([1, 1, size])
    return bytes(raw)


def _records(adapter: KBAdapter, data: bytes, on_error: OnError) -> list[Record]:
    records: list[Record] = []
    with Source.from_bytes(data, name="fuzz", limits=LIMITS) as source:
        try:
            for record in adapter.read(source, Problems(on_error)):
                records.append(record)  # noqa: PERF402 - what came before an error counts
        except KglinkError as error:
            str(error).encode()  # can be printed
    return records
