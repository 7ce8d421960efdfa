"""The contract of KB adapters: the right records, the same each time, and no traceback."""

from __future__ import annotations

import bz2
import gzip
import math
import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from kglink.errors import KglinkError, RecordError
from kglink.plugins import Sniff
from kglink.records import CodeMapping, Document, Entity, Record
from kglink.sources import Problems, Source, SourceHead
from kglink.sources.compression import zstd
from kglink.testing.contracts.base import PluginContract, installed_plugins
from kglink.text.codes import code_of

#: From here on an adapter takes a source for its own.
SURE = 0.5

#: Beginnings of files that are of no KB's format.
FOREIGN: tuple[bytes, ...] = (
    b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 4,
    b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n1 0 obj\n",
    b"It was a dark night. Nobody was out.\n\nThe lantern went out too.\n" * 5,
    b"\x7fELF\x02\x01\x01" + bytes(64),
)
GARBAGE = b"\x00\xff\xfe no record \x80\n"


class KBAdapterContract(PluginContract):
    """An adapter reads its format into the expected records and survives everything else."""

    kind = "kb"
    source_text: str | bytes
    """A small source of the format, as complete as it gets."""
    source_name: str = "sample.txt"
    """The file name that such a source has."""
    expected: Sequence[Record]
    """What must be read from it, in this order."""
    broken: Sequence[str | bytes] = (GARBAGE,)
    """Sources with at least one bad record, or that are bad as a whole."""
    foreign: Sequence[str | bytes] = FOREIGN
    """Sources of other formats, which the adapter must not take for its own."""
    sniffs: bool = True
    """Whether it is registered with a sniff."""

    def sniff(self) -> Sniff | None:
        """The function by which its format is guessed."""
        return installed_plugins().get("kb", self.plugin).sniff

    def test_reads_the_expected_records(self, tmp_path: Path) -> None:
        assert self.read(self._file(tmp_path)) == list(self.expected)

    def test_reads_the_same_again(self, tmp_path: Path) -> None:
        source, adapter = self._file(tmp_path), self.make()
        first, second = (list(adapter.read(source, Problems())) for _ in range(2))
        assert first == second == self.read(source)

    def test_yields_records_one_by_one(self, tmp_path: Path) -> None:
        records = self.make().read(self._file(tmp_path), Problems())
        assert iter(records) is records, "read must yield, not return a list"
        assert next(records) == self.expected[0]

    def test_records_are_well_formed(self, tmp_path: Path) -> None:
        records = self.read(self._file(tmp_path))
        for record in records:
            check_record(record)
        for kind, count in Counter(map(_identity, records)).items():
            assert count == 1, f"{kind} comes twice"

    def test_compression_and_standard_input_change_nothing(self, tmp_path: Path) -> None:
        packers: dict[str, Callable[[bytes], bytes]] = {
            ".gz": gzip.compress,
            ".bz2": bz2.compress,
            ".zst": zstd.compress,
        }
        expected = _unnamed(self.expected, self._file(tmp_path))
        for suffix, pack in packers.items():
            path = tmp_path / (self.source_name + suffix)
            path.write_bytes(pack(self._sample))
            with Source.open_path(path) as source:
                assert _unnamed(self.read(source), source) == expected, suffix
        with Source.from_bytes(self._sample) as source:
            assert _unnamed(self.read(source), source) == expected, "standard input"

    def test_knows_its_own_format(self, tmp_path: Path) -> None:
        sniff = self.sniff()
        assert (sniff is not None) == self.sniffs, "sniffs says whether it has a sniff"
        if sniff is not None:
            assert sniff(self._file(tmp_path).head) >= SURE

    def test_refuses_foreign_formats(self) -> None:
        sniff = self.sniff()
        if sniff is None:
            return
        for sample in self.foreign:
            head = SourceHead("sample.bin", _bytes(sample), None)
            assert 0 <= sniff(head) < SURE, f"takes {sample[:20]!r} for its own"

    def test_sniffing_never_fails(self) -> None:
        sniff = self.sniff()
        if sniff is None:
            return
        for data in (b"", *mangled(self._sample)):
            for name in (self.source_name, "-"):
                assert 0 <= sniff(SourceHead(name, data, None)) <= 1

    def test_a_broken_source_is_told(self) -> None:
        for sample in self.broken:
            with Source.from_bytes(_bytes(sample), name=self.source_name) as source:
                assert self._refused(source), f"{sample[:60]!r} was read as if nothing were wrong"

    def test_a_broken_source_is_skipped_and_counted(self) -> None:
        for sample in self.broken:
            with Source.from_bytes(_bytes(sample), name=self.source_name) as source:
                problems = Problems("skip")
                known = self._refused(source, problems) or problems.counts.total() > 0
                assert known, f"{sample[:60]!r}: nothing was counted"

    def test_damage_never_ends_in_a_traceback(self) -> None:
        for data in mangled(self._sample):
            with Source.from_bytes(data, name=self.source_name) as source:
                self._refused(source)
                self._refused(source, Problems("skip"))

    def read(self, source: Source) -> list[Record]:
        """All records of a source without a bad one."""
        return list(self.make().read(source, Problems()))

    def _refused(self, source: Source, problems: Problems | None = None) -> bool:
        """Whether reading ends with an error; only one of ours may end it."""
        problems = problems or Problems()
        try:
            for record in self.make().read(source, problems):
                check_record(record)
        except RecordError as error:
            if problems.on_error == "skip":
                raise AssertionError(
                    f"a bad record must be reported, not raised: {error}"
                ) from error
            return True
        except KglinkError:
            return True
        return False

    @property
    def _sample(self) -> bytes:
        return _bytes(self.source_text)

    def _file(self, folder: Path) -> Source:
        path = folder / self.source_name
        path.write_bytes(self._sample)
        return Source.open_path(path)


def check_record(record: Record) -> None:
    """Assert what holds for every record of every adapter."""
    if isinstance(record, Entity):
        assert record.key, f"{record!r} has no key"
        assert math.isfinite(record.popularity), f"{record!r}: popularity is not finite"
        for alias in record.aliases:
            assert alias.surface.strip(), f"{record!r} has an empty alias"
            assert alias.count >= 0
        assert isinstance(record.aliases, tuple)
        assert isinstance(record.xrefs, tuple)
    elif isinstance(record, CodeMapping):
        assert code_of(record.subject), f"{record!r} has no code for its subject"
        assert code_of(record.object), f"{record!r} has no code for its object"
        assert 0 <= record.confidence <= 1, f"{record!r}"
    else:
        assert isinstance(record, Document), f"{record!r} is no record"
        assert record.id, f"{record!r} has no id"
        assert record.split in ("", "train", "dev", "test")
        for mention in record.mentions:
            assert 0 <= mention.start < mention.end <= len(record.text), f"{mention!r}"
            assert record.text[mention.start : mention.end] == mention.surface, f"{mention!r}"
            gold = mention.gold
            assert gold is None or (isinstance(gold, tuple) and all(entity.key for entity in gold))
            assert gold is None or len(gold) == len(set(gold)), f"{mention!r} names an answer twice"


def mangled(sample: bytes) -> Iterator[bytes]:
    """Damaged copies of a sample: cut, with flipped, inserted and repeated bytes."""
    chance = random.Random(1)  # noqa: S311 - no secret, only reproducible damage
    size = len(sample)
    for eighth in range(1, 8):
        yield sample[: size * eighth // 8]
    for junk in (b"\x00", b"\xff", b'"', b"{", b"\n\n", b"\t", b"|", b"\xe2\x80\xa8", b"1e999"):
        for _ in range(3):
            cut = chance.randrange(size + 1)
            yield sample[:cut] + junk + sample[cut:]
    for _ in range(20):
        damaged = bytearray(sample)
        damaged[chance.randrange(size)] = chance.randrange(256)
        yield bytes(damaged)
    yield sample + sample
    yield GARBAGE


def _unnamed(records: Iterable[Record], source: Source) -> list[Record]:
    """The records, a document that is called as its source is without that name."""
    return [
        replace(one, id="") if isinstance(one, Document) and one.id == source.name else one
        for one in records
    ]


def _identity(record: Record) -> str:
    if isinstance(record, CodeMapping):
        return f"mapping of {record.subject} and {record.object} ({record.predicate})"
    return f"entity {record.key!r}" if isinstance(record, Entity) else f"document {record.id!r}"


def _bytes(sample: str | bytes) -> bytes:
    return sample.encode("utf-8") if isinstance(sample, str) else sample
