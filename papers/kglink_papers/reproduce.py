"""A table of a paper, made anew: its recipes are run seed by seed, judged, and put side by side."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from kglink.errors import UnknownNameError, UsageError
from kglink.sources import OnNote
from kglink.training.job import Tell
from kglink.training.recipe_files import load_recipe
from kglink.workspace.opened import Opened
from kglink_papers.data import Column, Training, add_data, check_folder, missing_kbs
from kglink_papers.judge import KS, Judge
from kglink_papers.models import Model, Run
from kglink_papers.protocols import Protocol, Row
from kglink_papers.table import ReproducedTable, Values, deepest, table_of


@dataclass(frozen=True)
class Reproducer:
    """A table that is asked for."""

    opened: Opened
    protocol: Protocol
    rows: Sequence[str] = ()
    """Those that are run; none: all that can be."""
    seeds: int = 3
    changes: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.seeds < 1:
            raise UsageError(f"{self.seeds} seeds", hint="One at least: --seeds 1.")
        if "seed" in self.changes:
            raise UsageError(
                "a table has seeds of its own, 0 and up", hint="--seeds says how many there are."
            )
        for recipe in {row.recipe for row in self._rows}:
            load_recipe(recipe, self.changes)

    @cached_property
    def _rows(self) -> list[Row]:
        """The rows that are run: those named, or that have a part of their name in common."""
        if not self.rows:
            return self.protocol.rows_to_run
        found: dict[str, Row] = {}
        for word in self.rows:
            rows = [row for row in self.protocol.rows if word in (row.name, *row.name.split(", "))]
            if not rows:
                known = [row.name for row in self.protocol.rows_to_run]
                raise UnknownNameError(f"row of {self.protocol.name}", word, known)
            found |= {row.name: row for row in rows if not row.not_run}
            if all(row.not_run for row in rows):
                raise UsageError(
                    f"row {word!r} of {self.protocol.name} cannot be run: {rows[0].not_run}"
                )
        return list(found.values())

    @cached_property
    def _cells(self) -> list[tuple[Row, Column, Training]]:
        """Every cell with what its model learns from; one as it comes is that of S for all."""
        stages = {row.name: "S" if row.untrained else _stages(row) for row in self._rows}
        training = self.protocol.data.training
        columns = self.protocol.columns
        return [
            (row, one, training(one.part, stages[row.name]))
            for row in self._rows
            for one in columns
        ]

    def models(self) -> dict[str, Model]:
        """Every model of the table once, seed by seed: whoever stops has whole seeds."""
        found: dict[str, Model] = {}
        for seed in range(self.seeds):
            for row, _, training in self._cells:
                one = self._model(row, training, seed)
                for each in filter(None, (one.teacher, one)):
                    found.setdefault(each.reader_run or each.name, each)
        return found

    def plan(self, data: Path | None) -> list[Run]:
        """Every training with its state and about how many steps it takes."""
        for model in self.models().values():
            model.check_reader()
        missing = self._checked(data)
        counts: dict[str, int] = {}
        found: dict[str, Run] = {}
        for model in self.models().values():
            mentions: int | None = None
            if not missing:
                for kb in model.training.docs:
                    if kb not in counts:
                        documents = self.opened.store.documents(kb, "train")
                        counts[kb] = sum(len(one.mentions) for one in documents)
                mentions = sum(counts[kb] for kb in model.training.docs)
            found |= {one.name: one for one in model.runs(self.opened, mentions)}
        return list(found.values())

    def run(
        self,
        data: Path | None = None,
        tell: Tell = lambda _: None,
        on_note: OnNote = lambda *_: None,
    ) -> ReproducedTable:
        """Add what is missing, train what is not trained, judge, and make the table."""
        layout, models = self.protocol.data, self.models()
        for model in models.values():
            model.check(self.opened)
        self._checked(data)
        add_data(self.opened, layout, data, tell, on_note)
        for number, model in enumerate(models.values(), 1):
            on_note(f"{number} of {len(models)}", model.name)
            model.train(self.opened, tell, data)
        depth = max([KS[-1], *(deepest(one.metric) for one in self.protocol.columns)])
        judge = Judge(self.opened, layout, data, self.protocol.reranked, depth, tell)
        with closing(judge):
            judged, runs = self._judged(judge)
        table = table_of(self.protocol, judged)
        docs = dict.fromkeys(
            docs
            for row, column, _ in self._cells
            if not column.is_count
            for part in layout.parts_of(column, row.name)
            for docs in part.docs
            if part.split == "test" and not part.documents
        )
        return replace(table, runs=runs, differs=[*self._differences(table)], docs=tuple(docs))

    def _judged(
        self, judge: Judge
    ) -> tuple[dict[tuple[str, str], dict[int, Values]], dict[str, list[str]]]:
        """The values of every cell, seed by seed, and the runs of every row."""
        judged: dict[tuple[str, str], dict[int, Values]] = {}
        runs: dict[str, list[str]] = {}
        for seed in range(self.seeds):
            made = [
                (row, column, self._model(row, training, seed))
                for row, column, training in self._cells
            ]
            others = list({model.name: model for _, _, model in made}.values())
            for row, column, model in made:
                if model.seed != seed:
                    continue  # of a model as it comes there is one
                values = judge.values(model, column, others)
                judged.setdefault((row.name, column.name), {})[seed] = values
                if not row.untrained and model.name not in runs.setdefault(row.name, []):
                    runs[row.name].append(model.name)
        return judged, runs

    def _checked(self, data: Path | None) -> list[str]:
        """The KBs that the workspace lacks; a folder that lacks their files is refused."""
        layout = self.protocol.data
        missing = missing_kbs(self.opened, layout)
        lists = [
            f"{folder}/{stem}.json"
            for folder in dict.fromkeys(row.lists for row in self._rows if row.lists)
            for stem in ("train", "val", "test")
        ]
        check_folder(layout, data, missing, lists)
        return missing

    def _model(self, row: Row, training: Training, seed: int) -> Model:
        alone = row.untrained and not row.reranker
        return Model(row, training, 0 if alone else seed, self.changes)

    # --------------------------------------------------------------------------- what differs
    def _differences(self, table: ReproducedTable) -> Iterator[str]:
        """What a reader must know who compares our figures with the paper's."""
        protocol = self.protocol
        yield from protocol.adapted
        yield from protocol.differs
        yield from changed_values(self._rows, self.changes)
        if self.seeds == 1:
            yield "one seed: nobody knows what another one would have given"
        unread = any(one.reader(self.opened) is None for one in self.models().values())
        if protocol.reranked and unread:
            yield (
                "no cross-encoder orders the ten candidates anew, as the paper's does: AP@1 and "
                "MAP@10 are of the order of the bi-encoder (--set reranker.base=FOLDER, as "
                "`kglink convert` writes it)"
            )
        for column in protocol.columns:
            wanted = 0 if column.is_one_value else protocol.data.mentions(column.part)
            if column.mentions:
                continue
            found = {cell.items for (_, name), cell in table.cells.items() if name == column.name}
            if wanted and found - {wanted}:
                yield f"{column.name}: of {max(found):,} mentions; the paper's data have {wanted:,}"
        left = [row.name for row in protocol.rows_to_run if row.name not in table.seeds]
        if left:
            yield f"rows that were left out: {'; '.join(left)}"


def _stages(row: Row) -> str:
    return row.sources or load_recipe(row.recipe).sources


def changed_values(rows: Sequence[Row], changes: Mapping[str, Any]) -> Iterator[str]:
    """The values that were changed, with those of the recipes; of stages that any row has."""
    found: dict[tuple[str, str], dict[str, list[str]]] = {}

    def walk(recipe: str, before: Any, after: Any, path: str) -> None:
        for key, value in before.items():
            place, other = f"{path}.{key}".lstrip("."), after.get(key)
            if isinstance(value, dict) and isinstance(other, dict):
                walk(recipe, value, other, place)
            elif value != other and not place.startswith(unused):
                found.setdefault((place, str(other)), {}).setdefault(str(value), []).append(recipe)

    recipes = list(dict.fromkeys(row.recipe for row in rows))
    stages = {letter for row in rows for letter in _stages(row)}
    unused = () if "O" in stages else ("overlap.",)
    for recipe in recipes:
        before, after = (load_recipe(recipe, values).model_dump() for values in ({}, changes))
        walk(recipe, before, after, "")
    for (place, value), was in found.items():
        if place.startswith("again.") and (f"train.{place.removeprefix('again.')}", value) in found:
            continue  # it follows the first round
        replaced = [
            f"{old or 'none'} ({', '.join(names)})" if len(names) < len(recipes) else old or "none"
            for old, names in was.items()
        ]
        yield f"{place} = {value}, in place of {'; '.join(replaced)}"
