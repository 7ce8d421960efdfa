"""Candidates as TREC has them: a run of ranked entities for each mention, and qrels with the golds.

A mention is the query ``docs/document/start-end``, an entity the document ``kb:key``; what white
space, or one of these signs, would be in a name is written in percents, as in a web address.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote, unquote

from kglink.errors import UsageError
from kglink.records import EntityId
from kglink.sources import Problems, Source

RUN_HINT = (
    "A TREC run has six fields in a line, best first: docs/document/start-end Q0 kb:key RANK "
    "SCORE TAG, as `kglink candidates --format trec` writes them."
)
TAG = "kglink"
#: Stands in a run for the entities of a mention that has none, which a run cannot say otherwise.
NONE = "-"

_QUERY = re.compile(r"([^/\s]+)/([^/\s]*)/([0-9]{1,12})-([0-9]{1,12})")


class Place(NamedTuple):
    """Which mention it is; as text, a query."""

    docs: str
    document: str
    start: int
    end: int

    def __str__(self) -> str:
        names = "/".join(quote(name, safe="") for name in (self.docs, self.document))
        return f"{names}/{self.start}-{self.end}"

    @classmethod
    def parse(cls, text: str) -> Place | None:
        """Read a query; None where it is none."""
        found = _QUERY.fullmatch(text)
        if found is None:
            return None
        return cls(unquote(found[1]), unquote(found[2]), int(found[3]), int(found[4]))


def run_lines(place: Place, ids: Sequence[EntityId]) -> str:
    """The lines of one mention.

    The score is that of the place, so that tools which order by score keep the order.
    """
    names = [_document(one) for one in ids] or [NONE]
    return "".join(
        f"{place} Q0 {name} {rank} {len(names) + 1 - rank} {TAG}\n"
        for rank, name in enumerate(names, 1)
    )


def qrels_lines(place: Place, gold: Collection[EntityId]) -> str:
    """The lines that say what is right for one mention."""
    return "".join(f"{place} 0 {_document(one)} 1\n" for one in sorted(gold))


def is_run(line: str) -> bool:
    """Whether a line is one of a run."""
    fields = line.split()
    return len(fields) == 6 and fields[1].upper() == "Q0"


def read_run(path: Path) -> Iterator[tuple[int, Place, list[EntityId], list[float]]]:
    """The first line's number, the mention, its entities and their scores, for each query.

    As TREC's tools have it, entities are ordered by their scores; equal ones by rank.
    """
    first: dict[Place, int] = {}
    found: dict[Place, list[tuple[float, int, EntityId | None]]] = {}
    with Source.open_path(path) as source:
        for line in source.lines(Problems("stop")):
            if line.text.strip():
                place, ranked = _run_line(path, line.number, line.text)
                first.setdefault(place, line.number)
                found.setdefault(place, []).append(ranked)
    for place, lines in found.items():
        lines.sort(key=lambda one: one[:2])
        some = [(entity, -score) for score, _, entity in lines if entity is not None]
        yield first[place], place, [entity for entity, _ in some], [score for _, score in some]


def _document(entity: EntityId) -> str:
    return f"{quote(entity.kb, safe='')}:{quote(entity.key, safe='')}"


def _run_line(
    path: Path, number: int, text: str
) -> tuple[Place, tuple[float, int, EntityId | None]]:
    """The mention of a line; less its score, the rank, and the entity: None where it has none."""
    if not is_run(text):
        raise _refused(path, number, f"is no line of a TREC run: {text.strip()[:80]!r}")
    query, _, name, rank, score, _ = text.split()
    place = Place.parse(query)
    if place is None:
        raise _refused(path, number, f"has the query {query[:80]!r}, which names no mention")
    try:
        value = float(score)
    except ValueError:
        value = math.nan
    if not math.isfinite(value) or not re.fullmatch("[0-9]{1,9}", rank):
        raise _refused(path, number, f"has the rank {rank[:80]!r} and the score {score[:80]!r}")
    kb, colon, key = name.partition(":")
    if not (colon and key) and name != NONE:
        raise _refused(path, number, f"has the document {name[:80]!r}, which is no entity")
    entity = EntityId(unquote(kb), unquote(key)) if colon else None
    return place, (-value, int(rank), entity)


def _refused(path: Path, number: int, why: str) -> UsageError:
    return UsageError(f"cannot read {path}: line {number} {why}", hint=RUN_HINT)
