"""Ranks of an evaluation kept mention by mention in a file, and compared with those of another.

A kept file is JSON lines: what was evaluated, then each mention in the order in which documents
are read. Two evaluations are compared line by line, so that neither is ever wholly in memory.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from functools import partial
from pathlib import Path
from typing import Any, TextIO

from kglink.errors import UsageError
from kglink.evaluation.metrics import AP_AT_1, MAP_AT_10, MRR, RERANKED, Rank, hit, reciprocal
from kglink.evaluation.rankings import JSON_KEYS, RankedMention
from kglink.evaluation.significance import ROUNDS, RandomizationTest, randomization_test
from kglink.sources import Problems, Source

FORMAT = 1
KEPT_HINT = "Name a file that `kglink eval --keep` wrote."

#: The value of one mention from its rank, as retrieved (``ranks``) or re-ranked.
_Figure = tuple[str, Callable[[Rank], float]]


def _figures(ks: Sequence[int], depth: int, *, reranked: bool) -> dict[str, _Figure]:
    """What is compared of two evaluations that both ranked ``depth`` candidates."""
    found: dict[str, _Figure] = {
        f"R@{k}": ("ranks", partial(hit, k=k)) for k in sorted({1, *ks}) if k <= depth
    }
    if reranked:  # else AP@1 is R@1
        found[AP_AT_1] = ("reranked", partial(hit, k=1))
    found[MAP_AT_10] = ("reranked", partial(reciprocal, within=RERANKED))
    found[MRR] = ("ranks", partial(reciprocal, within=depth))
    return found


@dataclass(frozen=True, slots=True)
class Evaluated:
    """What was evaluated; evaluations of the same can be compared."""

    docs: tuple[str, ...]
    split: str
    kbs: tuple[str, ...]
    counterparts: bool
    protocol: str = "retrieval"
    """``retrieval``, the mentions' places given, or ``end to end``, raw text in."""
    space: str = ""
    model: str = ""
    evidence: str = ""
    reranker: str = ""
    depth: int = RERANKED
    """How many candidates were ranked."""

    def differences(self, other: Evaluated) -> list[str]:
        """Why the two cannot be compared, empty where they can."""
        found = []
        for name in ("protocol", "docs", "split", "kbs", "counterparts"):
            ours, theirs = getattr(self, name), getattr(other, name)
            # KBs stand in the order in which a store was given them, which changes no rank.
            if ours != theirs and (name != "kbs" or sorted(ours) != sorted(theirs)):
                found.append(f"{name}: {_shown(theirs)} there, {_shown(ours)} here")
        return found


class KeptWriter:
    """Writes the ranks of an evaluation."""

    def __init__(self, out: TextIO, evaluated: Evaluated) -> None:
        self._out = out
        write_line(out, header_record(evaluated))

    def add(self, mention: RankedMention) -> None:
        """Write one mention."""
        record = _identity(mention) | {"ranks": dict(mention.ranks)}
        if mention.reranked is not mention.ranks:
            record["reranked"] = dict(mention.reranked)
        write_line(self._out, record)


class Comparison:
    """This evaluation against a kept one, mention by mention.

    R@k is compared for those of ``ks`` that both ranked so many candidates for, MRR as deep as
    both did.
    """

    def __init__(self, path: Path, evaluated: Evaluated, ks: Sequence[int] = ()) -> None:
        self.path = path
        self._lines = read_lines(path, KEPT_HINT)
        self.kept = read_header(path, next(self._lines, None), evaluated)
        reranked = bool(evaluated.reranker or self.kept.reranker)
        depth = min(evaluated.depth, self.kept.depth)
        self._figures = _figures(ks, depth, reranked=reranked)
        self._ours: dict[tuple[str, str], array[float]] = {}
        self._theirs: dict[tuple[str, str], array[float]] = {}
        self._mentions = 0

    def add(self, mention: RankedMention) -> None:
        """Compare one mention; the kept file must hold the same at this place."""
        self._mentions += 1
        kept = next(self._lines, None)
        if kept is None:
            raise misfit(self.path, f"{self._mentions - 1:,} mentions, and there are more here")
        number, record = kept
        theirs = self._ranks(number, record)
        ours = {"ranks": mention.ranks, "reranked": mention.reranked}
        same = _identity(mention) == {name: record.get(name) for name in _identity(mention)}
        if not same or any(theirs[which].keys() != ours[which].keys() for which in ours):
            raise misfit(
                self.path,
                f"other mentions (its line {number} is not {mention.surface!r} of document "
                f"{mention.document!r} with gold in the same KBs)",
            )
        for metric, (which, value) in self._figures.items():
            for pool in mention.ranks:
                place = pool, metric
                self._ours.setdefault(place, array("d")).append(value(ours[which][pool]))
                self._theirs.setdefault(place, array("d")).append(value(theirs[which][pool]))

    def finish(self) -> None:
        """Say that there are no more mentions; the kept file must be at its end too."""
        if next(self._lines, None) is not None:
            raise misfit(self.path, f"more than the {self._mentions:,} mentions of this one")

    def tests(
        self, *, rounds: int = ROUNDS, seed: int = 0
    ) -> dict[str, dict[str, RandomizationTest]]:
        """The randomization test of each pool and figure; the kept values are on the right."""
        found: dict[str, dict[str, RandomizationTest]] = {}
        for pool, metric in sorted(self._ours, key=lambda place: (place[0] in JSON_KEYS, place[0])):
            values = self._ours[pool, metric], self._theirs[pool, metric]
            test = randomization_test(*values, rounds=rounds, seed=seed)
            found.setdefault(pool, {})[metric] = test
        return found

    def _ranks(self, number: int, record: Mapping[str, Any]) -> dict[str, dict[str, Rank]]:
        """The ranks that a line holds, by pool."""
        retrieved = record.get("ranks")
        ranks: dict[str, Any] = {"ranks": retrieved, "reranked": record.get("reranked", retrieved)}
        for found in ranks.values():
            if not isinstance(found, dict) or not all(map(_is_rank, found.values())):
                raise unreadable(self.path, f"line {number} has no ranks")
        return ranks


def _is_rank(value: object) -> bool:
    return value is None or (type(value) is int and value >= 1)


def _identity(mention: RankedMention) -> dict[str, object]:
    return {
        "docs": mention.docs,
        "document": mention.document,
        "start": mention.start,
        "end": mention.end,
        "surface": mention.surface,
    }


def header_record(evaluated: Evaluated) -> dict[str, object]:
    """The first line of a kept file."""
    return {"format": FORMAT, **asdict(evaluated)}


def write_line(out: TextIO, record: Mapping[str, object]) -> None:
    """Write a record as one line of JSON."""
    out.write(json.dumps(record, ensure_ascii=False) + "\n")


def read_lines(path: Path, hint: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """The records of a file of JSON lines with their numbers; ``hint`` says what else to name."""
    with Source.open_path(path) as source:
        for line in source.lines(Problems("stop")):
            if not line.text.strip():
                continue
            try:
                record = json.loads(line.text)
            except ValueError as error:
                why = f"line {line.number} is not JSON ({error})"
                raise unreadable(path, why, hint) from error
            if not isinstance(record, dict):
                raise unreadable(path, f"line {line.number} is no record", hint)
            yield line.number, record


def read_header(
    path: Path, first: tuple[int, dict[str, Any]] | None, evaluated: Evaluated
) -> Evaluated:
    """What a kept file is of; refuse one that cannot be compared with this evaluation."""
    values = first[1] if first else {}
    told: dict[str, Any] = {field.name: values.get(field.name) for field in fields(Evaluated)}
    lists = {name: tuple(told[name] or ()) for name in ("docs", "kbs")}
    is_ours = values.get("format") == FORMAT and type(told["depth"]) is int
    if not is_ours or None in told.values() or () in lists.values():
        raise unreadable(path, "not what `kglink eval --keep` of this kglink writes")
    kept = Evaluated(**told | lists)
    if differences := evaluated.differences(kept):
        raise misfit(path, f"another evaluation ({'; '.join(differences)})")
    return kept


def misfit(path: Path, why: str) -> UsageError:
    """The error of a kept file that holds something else."""
    return UsageError(
        f"{path} cannot be compared with this evaluation: it holds {why}",
        hint="Keep one of the same documents, split and KBs: `kglink eval ... --keep FILE`.",
    )


def unreadable(path: Path, why: str, hint: str = KEPT_HINT) -> UsageError:
    """The error of a file that is not what it should be."""
    return UsageError(f"cannot read {path}: {why}", hint=hint)


def _shown(value: object) -> str:
    return ",".join(value) if isinstance(value, tuple) else str(value)
