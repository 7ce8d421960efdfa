"""A table of a paper, made anew: its recipes are run seed by seed, judged, and put side by side."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from kglink.errors import TrainingError, UnknownNameError, UsageError
from kglink.sources import OnNote
from kglink.training.job import FinetuneJob, Tell
from kglink.training.recipe import Recipe, load_recipe, merged
from kglink.training.run import MODEL, is_busy
from kglink.workspace.finetune import find_missing_overlaps, finetune
from kglink.workspace.folder import REPRODUCED_FOLDER
from kglink.workspace.judging import evaluate
from kglink.workspace.runs import Runs
from kglink_papers.data import Column, Part, Training, add_data, check_folder, missing_kbs
from kglink_papers.protocols import Protocol, Row
from kglink_papers.table import Judged, ReproducedTable, Values, table_of, value_of

if TYPE_CHECKING:
    from kglink.workspace.opened import Opened

#: The ranks that candidates are looked at up to: every figure of the papers is of some of these.
KS = (1, 2, 4, 8, 16, 32, 64)
_HINT = "Name a file that `kglink reproduce` wrote, or delete it."

State = Literal["done", "stopped", "new", "untrained"]


@dataclass(frozen=True)
class Model:
    """One model of a table: a recipe with a seed, or a model as it comes."""

    row: Row
    training: Training
    seed: int
    changes: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def name(self) -> str:
        """The name of its run and of its space: the same for the same recipe, data and changes."""
        row, (sources, targets, _) = self.row, self.training
        parts = [row.recipe.replace("/", "-").replace(".", "_")]
        if row.untrained:
            parts.append(f"untrained-{row.evidence}")
        elif len(sources) == 1 and len(targets) <= 1:  # a joint space
            parts += [row.sources.lower(), *targets]
        if self.changes:
            told = json.dumps(self.changes, sort_keys=True).encode()
            parts.append(hashlib.blake2b(told, digest_size=3).hexdigest())
        parts += [] if row.untrained else [f"seed-{self.seed}"]
        return "-".join(filter(None, parts))

    @property
    def recipe(self) -> Recipe:
        """The recipe with its changes."""
        return load_recipe(self.row.recipe, self.changes)

    def job(self, *, resume: bool = False) -> FinetuneJob:
        """What `finetune` is asked."""
        return FinetuneJob(
            what="linker",
            recipe=self.row.recipe,
            sources=self.row.sources,
            source_kbs=self.training.source_kbs,
            target_kbs=self.training.target_kbs,
            docs=self.training.docs,
            changes=merged(self.changes, {"seed": self.seed}),
            run=self.name,
            resume=resume,
            publish=False,
        )

    def settings(self) -> dict[str, object]:
        """The settings of the workspace that its space is made and asked with."""
        return {
            "space.name": self.name,
            "space.rows": ("text",),
            "space.words": "yes" if self.row.evidence in ("bm25", "tfidf") else "no",
            "link.evidence": self.row.evidence,
        }


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
        told = {row.name: "S" if row.untrained else _stages(row) for row in self._rows}
        training = self.protocol.data.training
        columns = self.protocol.columns
        return [
            (row, one, training(one.part, told[row.name])) for row in self._rows for one in columns
        ]

    def models(self) -> dict[str, Model]:
        """Every model of the table once, seed by seed: whoever stops has whole seeds."""
        found: dict[str, Model] = {}
        for seed in range(self.seeds):
            for row, _, training in self._cells:
                one = self._model(row, training, seed)
                found.setdefault(one.name, one)
        return found

    def state(self, model: Model) -> State:
        """How far a model is."""
        if model.row.untrained:
            return "untrained"
        found = {run.info.name: run for run in Runs(self.opened.folder).all()}.get(model.name)
        if found is None:
            return "new"
        return "done" if found.info.done else "stopped"

    def plan(self, data: Path | None) -> list[tuple[Model, State, int | None]]:
        """Every model with its state and about how many steps it takes; None: not known before."""
        missing = missing_kbs(self.opened, self.protocol.data)
        check_folder(self.protocol.data, data, missing)
        counts: dict[str, int] = {}
        found: list[tuple[Model, State, int | None]] = []
        for model in self.models().values():
            state = self.state(model)
            if model.row.untrained or missing:
                found.append((model, state, None))
                continue
            for kb in model.training.docs:
                if kb not in counts:
                    documents = self.opened.store.documents(kb, "train")
                    counts[kb] = sum(len(one.mentions) for one in documents)
            mentions = sum(counts[kb] for kb in model.training.docs)
            rounds = model.recipe.rounds()
            found.append((model, state, sum(mentions * one.epochs // one.batch for one in rounds)))
        return found

    def run(
        self,
        data: Path | None = None,
        tell: Tell = lambda _: None,
        on_note: OnNote = lambda *_: None,
    ) -> ReproducedTable:
        """Add what is missing, train what is not trained, judge, and make the table."""
        layout = self.protocol.data
        add_data(self.opened, layout, data, tell, on_note)
        judged: dict[tuple[str, str], dict[int, Values]] = {}
        runs: dict[str, list[str]] = {}
        models = self.models()
        for number, model in enumerate(models.values(), 1):
            on_note(f"{number} of {len(models)}", model.name)
            self._train(model, tell)
            with self.opened.with_settings(model.settings()) as own:
                for row, column, training in self._cells:
                    if self._model(row, training, model.seed).name != model.name:
                        continue
                    values = [
                        _of_part(own, model, one, column, tell)
                        for one in layout.parts_of(column, row.name)
                    ]
                    judged.setdefault((row.name, column.name), {})[model.seed] = values
                    if not row.untrained and model.name not in runs.setdefault(row.name, []):
                        runs[row.name].append(model.name)
        made: dict[tuple[str, str], Judged] = {**judged}
        table = table_of(self.protocol, made)
        docs = dict.fromkeys(
            docs
            for row, column, _ in self._cells
            for part in layout.parts_of(column, row.name)
            for docs in part.docs
            if part.split == "test" and not part.documents
        )
        return replace(table, runs=runs, differs=[*self._differences(table)], docs=tuple(docs))

    def _model(self, row: Row, training: Training, seed: int) -> Model:
        return Model(row, training, 0 if row.untrained else seed, self.changes)

    def _train(self, model: Model, tell: Tell) -> None:
        state, folder = self.state(model), Runs(self.opened.folder).path(model.name)
        if state not in ("new", "stopped"):
            return
        if is_busy(folder):
            raise TrainingError(f"run {model.name} is in progress", hint="Wait for it, or stop it.")
        with self.opened.with_settings(model.settings()) as own:
            finetune(own, model.job(resume=state == "stopped"), tell)

    # --------------------------------------------------------------------------- what differs
    def _differences(self, table: ReproducedTable) -> Iterator[str]:
        """What a reader must know who compares our figures with the paper's."""
        protocol = self.protocol
        yield from protocol.adapted
        yield from _changed(self._rows, self.changes)
        if self.seeds == 1:
            yield "one seed: nobody knows what another one would have given"
        if protocol.reranked and not self.opened.settings.link.reranker:
            yield (
                "no cross-encoder orders the ten candidates anew, as the paper's does: AP@1 and "
                "MAP@10 are of the order of the bi-encoder (the setting link.reranker)"
            )
        for column in protocol.columns:
            wanted = protocol.data.mentions(column.part)
            found = {cell.items for (_, name), cell in table.cells.items() if name == column.name}
            if wanted and found - {wanted}:
                yield f"{column.name}: of {max(found):,} mentions; the paper's data have {wanted:,}"
        left = [row.name for row in protocol.rows_to_run if row.name not in table.seeds]
        if left:
            yield f"rows that were left out: {'; '.join(left)}"


def _stages(row: Row) -> str:
    return row.sources or load_recipe(row.recipe).sources


def _changed(rows: Sequence[Row], changes: Mapping[str, Any]) -> Iterator[str]:
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
    unused = ("again.", *(() if "O" in stages else ("overlap.",)))
    for recipe in recipes:
        before, after = (load_recipe(recipe, told).model_dump() for told in ({}, changes))
        walk(recipe, before, after, "")
    for (place, value), was in found.items():
        told = [
            f"{old or 'none'} ({', '.join(names)})" if len(names) < len(recipes) else old or "none"
            for old, names in was.items()
        ]
        yield f"{place} = {value}, in place of {'; '.join(told)}"


# ------------------------------------------------------------------------------ what is judged
def _of_part(own: Opened, model: Model, part: Part, column: Column, tell: Tell) -> Any:
    """The values of a figure of one part: kept ranks are read, missing ones made."""
    if column.is_of_overlaps:
        from kglink.evaluation.measures.overlaps import overlap_values

        source, target = part.kbs
        job = replace(model.job(), source_kbs=(source,), target_kbs=(target,))
        find_missing_overlaps(own, job, tell)
        _build(own, model, part.kbs, tell)
        return overlap_values(own.space(), own.store, queries=target, answers=source)[column.metric]
    from kglink.evaluation.kept import read_lines
    from kglink.evaluation.rankings import JOINT

    _build(own, model, part.kbs, tell)
    which, value = value_of(column.metric)
    pool = part.kbs[0] if len(part.kbs) == 1 else JOINT
    lines = read_lines(_kept(own, part, tell), _HINT)
    next(lines)
    ranks = [
        record.get(which, record["ranks"])[pool]
        for _, record in lines
        if record["document"].startswith(part.documents)
        and (not part.gold or part.gold in record["ranks"])
    ]
    if not ranks:
        raise UsageError(
            f"there is no mention to judge for {column.name}: {', '.join(part.docs)} has none of "
            f"the split {part.split}" + (f" with a gold in {part.gold}" if part.gold else ""),
            hint="The data are others than the protocol is of.",
        )
    return np.array([value(rank) for rank in ranks])


def _kept(own: Opened, part: Part, tell: Tell) -> Path:
    """The file with the ranks of a part's mentions, made where it is not there."""
    from kglink.evaluation.kept import KeptWriter
    from kglink.evaluation.retrieval import Question
    from kglink.files.atomic import atomic_path, sweep_drafts
    from kglink.workspace.judging import evaluated

    manifest = own.space().manifest
    question = Question(part.docs, part.split, part.kbs, KS)
    facts = [
        manifest.model.fingerprint,
        [manifest.segments[kb] for kb in part.kbs],
        [(kb, own.store.kb(kb).revision) for kb in part.docs],
        part.split,
        own.settings.link.model_dump(mode="json"),
    ]
    digest = hashlib.blake2b(json.dumps(facts).encode(), digest_size=8).hexdigest()
    folder = own.folder / REPRODUCED_FOLDER / manifest.name
    path = folder / f"{'+'.join(part.docs)}-{digest}.jsonl"
    if path.is_file():
        return path
    folder.mkdir(parents=True, exist_ok=True)
    sweep_drafts(folder)
    with atomic_path(path) as draft, draft.open("w", encoding="utf-8") as out:
        writer = KeptWriter(out, evaluated(own, question))
        evaluate(own, question, progress=tell, each=writer.add)
    return path


def _build(own: Opened, model: Model, kbs: Sequence[str], tell: Tell) -> None:
    """Build the space of a model, unless it holds these KBs as they are now."""
    from kglink.workspace.spaces import build

    manifest = own.joint_space.folder.usable_manifest()
    now = {kb: own.store.kb(kb).revision for kb in kbs}
    if manifest is None or not now.items() <= manifest.revisions.items():
        trained = Runs(own.folder).path(model.name) / MODEL
        base = model.recipe.model.base if model.row.untrained else str(trained)
        build(own, model=base, progress=tell)
