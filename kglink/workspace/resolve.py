"""`Workspace.resolve`: names without running text, such as a table's column, linked to the KBs."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import islice, repeat
from typing import Any, Literal, NamedTuple, TypeVar

from kglink.errors import UsageError
from kglink.linking.exact import misspelt
from kglink.linking.pipeline import Linker
from kglink.records import Candidate, EntityId, Span, TextInput, json_number
from kglink.workspace.link import LinkerJob, fresh_linker, refuse_columns
from kglink.workspace.opened import Opened

Status = Literal["match", "ambiguous", "new"]
Answer = TypeVar("Answer")
#: What an answer adds to a table: its cells, in the order of `COLUMNS`.
Cells = list[str | float]
#: Gives the answers to batches of rows, in their order.
Ask = Callable[[Iterable[Sequence["Row"]]], Iterator[Mapping["Row", Answer]]]

#: What a table gets, behind the name of its column.
COLUMNS = ("status", "id", "title", "probability", "also", "candidates")

#: The least probability of a match. `benchmarks/resolve.py` measures others on names of diseases
#: and of everyday things.
MATCH = 0.5
#: Less probable than this a name is new, unless an entity bears it: by all evidence, and by names
#: alone. Of the names between this and `MATCH` two in three have the right answer among their
#: candidates.
NEW, NEW_BY_NAMES = 0.25, 0.1
#: Rows that are answered together, and answers that are kept for equal rows that come later.
BATCH = 1024
MOST_KEPT = 10_000
#: More words of context than a model reads around a name.
_MOST_CONTEXT = 1000
#: What speaks for a candidate, by kind of evidence; other kinds are called by their names.
_WHY = {
    "alias": "a name of like meaning",
    "named_context": "its context",
    "context": "its context",
    "expanded": "a longer name in its context",
    "common": "what the name mostly means",
    "memory": "annotated documents",
    "like_memory": "like names in annotated documents",
    "counterpart": "the same thing in another KB",
    "numbers": "its numbers",
}
#: How probably an entity is meant whose id is written where a name is asked for; a bare number so
#: short may count something.
_OF_ID, _MAY_COUNT = 0.9, 4
_UNLIKE = "no KB has a name like it"
#: Evidence of what a name mostly means, and how much of it settles an ambiguous name.
_HABITS, _HABIT = ("common", "memory"), 0.5
#: Kinds that `_named` puts in words, and the least part of a score that is mentioned.
_NAMES = ("name", "similar", "exact", "title", "case")
_LEAST_TOLD = 0.02


@dataclass(frozen=True, slots=True)
class Resolved:
    """The meaning of a name: one entity, one of several, or a new thing."""

    name: str
    status: Status
    """`match`; `ambiguous`: one of `candidates`, which one is not sure; `new`: no KB has it."""
    probability: float
    """That the first candidate is meant; it is compared with the threshold."""
    candidates: tuple[Candidate, ...] = ()
    """Best first; of a new name the nearest."""
    why: tuple[str, ...] = ()
    """The reasons for the first candidate, in words."""

    @property
    def entity(self) -> Candidate | None:
        """The entity that is meant; None unless this is a match."""
        return self.candidates[0] if self.status == "match" else None

    @property
    def also(self) -> tuple[EntityId, ...]:
        """The same thing in other KBs."""
        return self.entity.also if self.entity else ()

    def as_cells(self) -> Cells:
        """The cells that are added to a table; missing values are empty."""
        entity = self.entity
        others = self.candidates if self.status == "ambiguous" else ()
        return [
            self.status,
            str(entity.id) if entity else "",
            entity.title if entity else "",
            round(self.probability, 4),
            "|".join(map(str, self.also)),
            "|".join(str(one.id) for one in others),
        ]

    def as_json(self) -> dict[str, object]:
        """A plain dictionary, as `kglink resolve --json` prints it; missing values are None."""
        entity = self.entity
        return {
            "name": self.name,
            "status": self.status,
            "id": str(entity.id) if entity else None,
            "title": entity.title if entity else None,
            "url": (entity.url or None) if entity else None,
            "probability": json_number(self.probability),
            "why": list(self.why),
            "also": [str(one) for one in self.also],
            "candidates": [
                {"id": str(one.id), "title": one.title, "score": json_number(one.score)}
                for one in self.candidates
            ],
        }


class Row(NamedTuple):
    """A name, empty where it is missing, and what is known of it, in words."""

    name: str
    context: str = ""


def resolve(
    opened: Opened,
    names: object,
    context: object = None,
    *,
    kbs: str | Sequence[str] = (),
    types: str | Sequence[str] = (),
    under: str | Sequence[str] = (),
    not_under: str | Sequence[str] = (),
    threshold: float | None = None,
    wait: bool = True,
) -> list[Resolved | None]:
    """Link names without running text, such as a column of a table, to entities of the space.

    ``names`` are one name, or any iterable of names, such as a column of pandas or polars.
    ``context`` tells more about each: columns by their names (a dictionary, or a data frame), or
    for each name a text or a dictionary. A single text counts for all names.
    The answers are in the order of the names; a missing or empty name has the answer None.

    A match has at least the probability ``threshold`` (default .5); ``wait`` is that of ``link``.

    >>> (heron, dodo) = workspace.resolve(["Heron", "dodo"], kbs=["birds"])
    >>> (heron.status, str(heron.entity.id), heron.why)
    ('match', 'birds:h', ('its title, but for capitals or punctuation',))
    >>> dodo.status
    'new'
    """
    rows = rows_of(names, context)
    linker = fresh_linker(opened, kbs, opened.limits(types, under, not_under), wait=wait)
    return list(resolved_rows(linker, rows, opened.settings.ingest.max_name_chars, threshold))


def resolved_rows(
    linker: Linker, rows: Iterable[Row], longest: int, threshold: float | None = None
) -> Iterator[Resolved | None]:
    """The answers to some rows, as they come; equal rows are answered once."""
    resolver = Resolver(linker, threshold)
    return _answered(rows, longest, partial(map, resolver.answers), _nothing_like)


def resolved_cells(rows: Iterable[Row], longest: int, ask: Ask[Cells]) -> Iterator[Cells | None]:
    """What the same answers add to a table, whoever is asked for them."""
    return _answered(rows, longest, ask, lambda name: _nothing_like(name).as_cells())


@dataclass(frozen=True)
class ResolveJob(LinkerJob):
    """Answers rows of a table in any process that sees the workspace."""

    threshold: float | None

    @cached_property
    def _resolver(self) -> Resolver:
        return Resolver(self.job.kept_linker(), self.threshold)

    def load(self) -> None:
        """Load the linker, with its models."""
        self.do([Row(".")])

    def do(self, rows: Sequence[Row]) -> dict[Row, Cells]:
        """What the answers to some rows add to their table."""
        return self._resolver.cells(rows)


def _answered(
    rows: Iterable[Row], longest: int, ask: Ask[Answer], no_match: Callable[[str], Answer]
) -> Iterator[Answer | None]:
    """The answers to rows, batch by batch: the same batches whoever answers them."""
    waiting: deque[tuple[list[Row], list[Row]]] = deque()

    def batches() -> Iterator[Sequence[Row]]:
        stream, known = iter(rows), dict[Row, None]()
        while batch := list(islice(stream, BATCH)):
            asked = dict.fromkeys(one for one in batch if one.name and one not in known)
            waiting.append((batch, list(asked)))
            _keep(known, asked)
            yield [one for one in asked if len(one.name) <= longest]

    kept: dict[Row, Answer] = {}
    for found in ask(batches()):
        batch, asked = waiting.popleft()
        fresh = {one: found.get(one) or no_match(one.name) for one in asked}
        yield from (kept.get(one) or fresh.get(one) for one in batch)
        _keep(kept, fresh)


def _nothing_like(name: str) -> Resolved:
    return Resolved(name, "new", 0.0, why=(_UNLIKE,))


def _keep(kept: dict[Row, Answer], fresh: Mapping[Row, Answer]) -> None:
    kept.update(fresh)
    while len(kept) > MOST_KEPT:
        del kept[next(iter(kept))]


class Resolver:
    """Answers rows: those whose name one thing alone bears first, the others by all evidence."""

    def __init__(self, linker: Linker, threshold: float | None = None) -> None:
        self._threshold = MATCH if threshold is None else threshold
        self._linker = linker.with_threshold(self._threshold)
        self._exact = self._linker.exact_names()

    def cells(self, rows: Sequence[Row]) -> dict[Row, Cells]:
        """What the answers to some rows add to their table."""
        return {row: answer.as_cells() for row, answer in self.answers(rows).items()}

    def answers(self, rows: Sequence[Row]) -> dict[Row, Resolved]:
        """The answers to some rows."""
        known = self._exact.find([one.name for one in rows]) if self._exact else [None] * len(rows)
        found = {
            row: self._resolved(row, (one.candidate,), one.probability)
            for row, one in zip(rows, known, strict=True)
            if one
        }
        rest = [row for row in rows if row not in found]
        texts = (
            TextInput(str(at), "; ".join(filter(None, row)), (Span(0, len(row.name)),))
            for at, row in enumerate(rest)
        )
        for row, document in zip(rest, self._linker.link(texts), strict=True):
            (link,) = document.links
            found[row] = self._resolved(row, link.candidates, link.probability)
        numbered = (row for row in rest if any(map(str.isdigit, row.name)))
        new = [row for row in numbered if found[row].status == "new"]
        of_id = self._linker.described([self._linker.of_id(row.name) for row in new])
        for row, ranking in zip(new, of_id, strict=True):
            if own := tuple(one for one in ranking.candidates if one.aliases):  # they exist
                is_one = {one.id for one in own[1:]} <= {*own[0].also}
                is_sure = len(row.name) > _MAY_COUNT and self._threshold <= _OF_ID
                status: Status = "match" if is_one and is_sure else "ambiguous"
                found[row] = Resolved(row.name, status, _OF_ID, own, ("its id",))
        return found

    def _resolved(
        self, row: Row, candidates: tuple[Candidate, ...], probability: float
    ) -> Resolved:
        if not candidates:
            return Resolved(row.name, "new", probability, why=(_UNLIKE,))
        first = candidates[0]
        if self._exact and not first.evidence.get("exact"):
            # How probably the name is the first candidate's, misspelt, and as near to no other's.
            sure = misspelt(row.name, first)
            rivals = (one for one in candidates[1:] if sure and one.id not in first.also)
            if any(misspelt(row.name, one) >= sure for one in rivals):
                sure = min(sure, NEW)
            probability = max(probability, sure)
        by_names = first.parts.keys().isdisjoint(("alias", "context"))
        status: Status = "new"
        if probability >= self._threshold and not self._is_ambiguous(row, candidates):
            status = "match"
        elif first.evidence.get("exact") or probability >= (NEW_BY_NAMES if by_names else NEW):
            status = "ambiguous"
        if status == "new":
            alike = max(one.evidence.get("name", 0.0) for one in candidates)
            nearest = f"the nearest name that was found is {alike:.0%} alike" if alike else _UNLIKE
            return Resolved(row.name, status, probability, candidates, (nearest,))
        # What speaks for a candidate: how it bears the name, then what else adds to its score.
        with_context = bool(row.context)
        parts = sorted(first.parts.items(), key=lambda part: -part[1])
        more = (
            _WHY.get(kind, kind.replace("_", " "))
            for kind, part in parts
            if part >= _LEAST_TOLD
            and kind not in _NAMES
            and (with_context or not kind.endswith("context"))
            and not (kind == "alias" and first.evidence.get("exact"))
        )
        why = tuple(dict.fromkeys((*_named(first.evidence), *more)))
        return Resolved(row.name, status, probability, candidates, why)

    def _is_ambiguous(self, row: Row, candidates: Sequence[Candidate]) -> bool:
        """Whether several things bear a name, and nothing is known of it that says which is meant.

        A third of such names mean another than the first candidate.
        """
        first = candidates[0]
        known = row.context or max(first.evidence.get(kind, 0.0) for kind in _HABITS) >= _HABIT
        if known or self._exact is None:
            return False
        bearers = (one for one in candidates if one.evidence.get("exact"))
        return any(one.id != first.id and one.id not in first.also for one in bearers)


def _named(evidence: Mapping[str, float]) -> tuple[str, ...]:
    if evidence.get("exact"):
        what = "its title" if evidence.get("title") else "one of its names"
        return (what if evidence.get("case") else f"{what}, but for capitals or punctuation",)
    if evidence.get("letters off"):
        return ("a name that is one letter off",)
    alike = evidence.get("name", 0.0)
    return (f"a name that is {alike:.0%} alike",) if alike > 0 else ()


# ------------------------------------------------------------------------------------- tables
def rows_of(names: object, context: object = None) -> Iterator[Row]:
    """Names and their contexts as rows; UsageError where these do not fit each other."""
    if isinstance(names, str):
        names, context = [names], [context] if isinstance(context, str) else context
    refuse_columns(names, "name", "resolve")
    if not isinstance(names, Iterable) or isinstance(names, bytes):
        raise UsageError(
            f"names are of the type {type(names).__name__}", hint="Give a text, or a list of texts."
        )
    return _rows(names, _contexts(context))


def _rows(names: Iterable[object], contexts: Iterator[str]) -> Iterator[Row]:
    unequal = UsageError(
        "the names and their contexts are not equally many", hint="Give each name one context."
    )
    for name in names:
        words = next(contexts, None)
        if words is None:
            raise unequal
        yield Row(cell_text(name), words)
    if not isinstance(contexts, repeat) and next(contexts, None) is not None:
        raise unequal


def _contexts(context: object) -> Iterator[str]:
    """For each row what is known of it, as words."""
    if context is None:
        return repeat("")
    frame: Any = context
    names = context.keys() if isinstance(context, Mapping) else getattr(context, "columns", None)
    if names is not None:
        columns = {name: frame[name] for name in names}
        if len(columns) < len(names):
            raise UsageError("two columns of the context have one name", hint="Rename one of them.")
        several = {name for name, one in columns.items() if _is_column(one)}
        if not several:
            return repeat(context_text(columns))
        cells = (one if name in several else repeat(one) for name, one in columns.items())
        return (
            context_text(dict(zip(columns, row, strict=True))) for row in zip(*cells, strict=False)
        )
    if not _is_column(context):
        raise UsageError(
            f"the context is of the type {type(context).__name__}",
            hint='Give columns, such as {"country": [...]}, or a list of texts.',
        )
    return (
        context_text(one) if isinstance(one, Mapping) else cell_text(one)[:_MOST_CONTEXT]
        for one in frame
    )


def _is_column(cells: object) -> bool:
    """Whether this is a cell for each row, or one that holds for all."""
    return isinstance(cells, Iterable) and not isinstance(cells, str | bytes)


def context_text(cells: Mapping[object, object]) -> str:
    """Cells by the names of their columns as words: ``country: Poland; year: 1990``."""
    found = ((column, cell_text(cell)) for column, cell in cells.items())
    return "; ".join(f"{column}: {text}" for column, text in found if text)[:_MOST_CONTEXT]


def cell_text(cell: object) -> str:
    """A cell as words on one line; empty where it is missing (None, NaN, NA, NaT) or blank."""
    if isinstance(cell, bytes):
        raise UsageError("a name is of the type bytes", hint="Decode it first.")
    try:
        is_missing = cell is None or bool(cell != cell)  # noqa: PLR0124 - that is what NaN is
    except (TypeError, ValueError):  # of pandas' NA that cannot be said
        is_missing = True
    if is_missing:
        return ""
    if isinstance(cell, float) and cell.is_integer():
        cell = int(cell)
    return " ".join(str(cell).split())
