"""SSSOM: mappings between the entities of KBs, as a table with tabs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Literal

from pydantic import Field

from kglink.plugins import PluginSettings
from kglink.records import CodeMapping, Record, Verdict
from kglink.sources import Problems, Source, SourceHead
from kglink.sources.sssom import NEEDED, SAME, SssomReader, SssomRow, first_columns
from kglink.text.codes import code_of
from kglink_kbs.values import BadValue, checked, good_ones, listed, shortened


class SssomSettings(PluginSettings):
    """Settings of ``kglink/sssom``."""

    use: Literal["xrefs", "overlaps"] = "xrefs"
    """What the mappings become: `xrefs`, through which golds are resolved, or `overlaps` with a
    verdict."""
    predicates: str = ",".join(SAME)
    """Predicates that say that two are the same, separated by commas."""
    min_confidence: float = Field(0.0, ge=0, le=1)
    """Mappings less confident than this are left out."""


class SssomAdapter:
    """Reads the rows of a mapping set; what says nothing of sameness is left out."""

    def __init__(self, settings: SssomSettings) -> None:
        self._settings = settings
        self._predicates = frozenset(listed(settings.predicates))

    def read(self, source: Source, problems: Problems) -> Iterator[Record]:
        """Yield a mapping for each row that joins two codes as the same (or not the same)."""
        reader = SssomReader(source, problems)
        rows = ((row.place, row) for row in reader)
        return good_ones(rows, partial(self._mapping, reader.prefixes), problems)

    def _mapping(self, prefixes: Mapping[str, str], row: SssomRow) -> CodeMapping | None:
        overlaps = self._settings.use == "overlaps"
        if row.joins_nothing or (row.denied and not overlaps):
            return None
        if row.predicate not in self._predicates:
            return None
        if row.confidence < self._settings.min_confidence:
            return None
        ends = _code(row.subject, prefixes), _code(row.object, prefixes)
        for end in ends:
            if not code_of(checked(end, "an id")):
                raise BadValue(
                    f"{shortened(end)} is no code", "Ids are written DOID:1485 or as addresses."
                )
        verdict: Verdict = "wrong" if row.denied else "correct"
        return CodeMapping(*ends, row.predicate, row.confidence, verdict if overlaps else None)


def _code(end: str, prefixes: Mapping[str, str]) -> str:
    """An id, as the address that its prefix makes of it where that is another code."""
    prefix, _, local = end.partition(":")
    address = f"{prefixes[prefix]}{local}" if prefix in prefixes else ""
    return end if code_of(address) in ("", code_of(end)) else address


def sniff(head: SourceHead) -> float:
    """Sure of a header with a subject, a predicate and an object."""
    return 0.95 if first_columns(head) >= set(NEEDED) else 0.0
