"""A table of a paper, made anew: its recipes are run seed by seed, judged, and put side by side."""

from __future__ import annotations

import hashlib
import json
import math
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
from kglink.workspace.protocol_data import add_data, check_folder, missing_kbs
from kglink.workspace.runs import Runs

if TYPE_CHECKING:
    from kglink.evaluation.protocols import Column, Part, Protocol, Row, Training
    from kglink.evaluation.reproduced import Judged, ReproducedTable
    from kglink.workspace.opened import Opened

#: The ranks that candidates are looked at up to: every figure of the papers is of some of these.
KS = (1, 2, 4, 8, 16, 32, 64)
_HINT = "Name a file that `kglink reproduce` wrote, or delete it."

State = Literal["done", "stopped", "new", "untrained"]


@dataclass(frozen=True, slots=True)
class Reproduction:
    """A table that was made, of which runs, and what differs from the paper."""

    table: ReproducedTable
    runs: Mapping[str, Sequence[str]]
    """The runs of each row that was trained."""
    differs: Sequence[str]
    docs: Sequence[str] = ()
    """The documents of the split test that were judged."""

    def as_json(self) -> dict[str, Any]:
        """What ``kglink reproduce --json`` says."""
        protocol = self.table.protocol
        return {
            "protocol": protocol.name,
            "source": protocol.table.source,
            "title": protocol.title,
            "adapted": bool(protocol.adapted),
            "meanings": list(protocol.meanings),
            "differs": list(self.differs),
            **self.table.as_json(),
            "paper": {
                "columns": list(protocol.table.columns),
                "rows": [
                    {"name": row.name, "figures": [_known(one) for one in row.figures]}
                    for row in protocol.table.rows
                ],
            },
            "runs": {row: list(names) for row, names in self.runs.items()},
        }


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
        parts = [self.row.recipe.replace("/", "-").replace(".", "_")]
        if self.row.untrained:
            parts.append(f"untrained-{self.row.evidence}")
        else:
            parts += [self.row.sources.lower(), *self.training.target_kbs[:1]] * self._is_joint
        if self.changes:
            told = json.dumps(self.changes, sort_keys=True).encode()
            parts.append(hashlib.blake2b(told, digest_size=3).hexdigest())
        parts += [] if self.row.untrained else [f"seed-{self.seed}"]
        return "-".join(filter(None, parts))

    @property
    def recipe(self) -> Recipe:
        """The recipe with its changes."""
        return load_recipe(self.row.recipe, self.changes)

    @property
    def _is_joint(self) -> bool:
        return len(self.training.source_kbs) == 1 and len(self.training.target_kbs) <= 1

    def job(self, *, resume: bool = False) -> FinetuneJob:
        """What `finetune` is told."""
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
            return [row for row in self.protocol.rows if not row.not_run]
        found: dict[str, Row] = {}
        for word in self.rows:
            rows = [row for row in self.protocol.rows if word in (row.name, *row.name.split(", "))]
            if not rows:
                known = [row.name for row in self.protocol.rows if not row.not_run]
                raise UnknownNameError(f"row of {self.protocol.name}", word, known)
            found |= {row.name: row for row in rows if not row.not_run}
            if all(row.not_run for row in rows):
                raise UsageError(
                    f"row {word!r} of {self.protocol.name} cannot be run: {rows[0].not_run}"
                )
        return list(found.values())

    @cached_property
    def _sources(self) -> dict[str, str]:
        """The stages of each row; a model as it comes is one for all columns, as that of S is."""
        own = {row.name: row.sources or load_recipe(row.recipe).sources for row in self._rows}
        return own | {row.name: "S" for row in self._rows if row.untrained}

    def models(self) -> list[Model]:
        """Every model of the table once, seed by seed: whoever stops has whole seeds."""
        found: dict[str, Model] = {}
        for seed in range(self.seeds):
            for row in self._rows:
                for column in self.protocol.columns:
                    one = self._model(row, column, seed)
                    found.setdefault(one.name, one)
        return list(found.values())

    def state(self, model: Model) -> State:
        """How far a model is."""
        if model.row.untrained:
            return "untrained"
        found = {run.info.name: run for run in Runs(self.opened.folder).all()}.get(model.name)
        if found is None:
            return "new"
        return "done" if found.info.done else "stopped"

    def run(
        self, data: Path | None, tell: Tell = lambda _: None, on_note: OnNote = lambda *_: None
    ) -> Reproduction:
        """Add what is missing, train what is not trained, judge, and make the table."""
        from kglink.evaluation.reproduced import Judged, table_of

        layout = self.protocol.data
        add_data(self.opened, layout, data, tell, on_note)
        judged: dict[tuple[str, str], Judged] = {}
        runs: dict[str, list[str]] = {}
        models = self.models()
        for number, model in enumerate(models, 1):
            on_note(f"{number} of {len(models)}", model.name)
            self._train(model, tell)
            for (row, column), values in self._values(model, tell):
                judged.setdefault((row.name, column.name), Judged({})).seeds[model.seed] = values  # type: ignore[index]  # ours
                if not row.untrained and model.name not in runs.setdefault(row.name, []):
                    runs[row.name].append(model.name)
        table = table_of(self.protocol, judged)
        docs = {
            docs: None
            for row in self._rows
            for column in self.protocol.columns
            for part in layout.parts_of(column, row)
            for docs in part.docs
            if part.split == "test" and not part.documents
        }
        return Reproduction(table, runs, [*self._differences(table)], tuple(docs))

    # ------------------------------------------------------------------------------ models
    def _model(self, row: Row, column: Column, seed: int) -> Model:
        training = self.protocol.data.training(column.part, self._sources[row.name])
        return Model(row, training, 0 if row.untrained else seed, self.changes)

    def _train(self, model: Model, tell: Tell) -> None:
        state, folder = self.state(model), Runs(self.opened.folder).path(model.name)
        if state not in ("new", "stopped"):
            return
        if is_busy(folder):
            raise TrainingError(f"run {model.name} is in progress", hint="Wait for it, or stop it.")
        with self.opened.with_settings(model.settings()) as own:
            finetune(own, model.job(resume=state == "stopped"), tell)

    # ------------------------------------------------------------------------------ values
    def _values(self, model: Model, tell: Tell) -> Iterator[tuple[tuple[Row, Column], list[Any]]]:
        """The values of the cells that a model is of."""
        with self.opened.with_settings(model.settings()) as own:
            for row in self._rows:
                for column in self.protocol.columns:
                    if self._model(row, column, model.seed).name != model.name:
                        continue
                    parts = self.protocol.data.parts_of(column, row)
                    yield (row, column), [_of_part(own, model, one, column, tell) for one in parts]

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
        left = [
            row.name for row in protocol.rows if row.name not in table.seeds and not row.not_run
        ]
        if left:
            yield f"rows that were left out: {'; '.join(left)}"


def plan(
    opened: Opened, reproducer: Reproducer, data: Path | None
) -> list[tuple[Model, State, int | None]]:
    """Every model with its state and about how many steps it takes; None: not known before."""
    missing = missing_kbs(opened, reproducer.protocol.data)
    check_folder(reproducer.protocol.data, data, missing)
    counts: dict[str, int] = {}
    found: list[tuple[Model, State, int | None]] = []
    for model in reproducer.models():
        state = reproducer.state(model)
        if model.row.untrained or missing:
            found.append((model, state, None))
            continue
        for kb in model.training.docs:
            if kb not in counts:
                documents = opened.store.documents(kb, "train")
                counts[kb] = sum(len(one.mentions) for one in documents)
        mentions = sum(counts[kb] for kb in model.training.docs)
        rounds = model.recipe.rounds()
        found.append((model, state, sum(mentions * one.epochs // one.batch for one in rounds)))
    return found


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
    stages = {letter for row in rows for letter in row.sources or load_recipe(row.recipe).sources}
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


def _of_part(own: Opened, model: Model, part: Part, column: Column, tell: Tell) -> Any:
    """The values of a figure of one part: kept ranks are read, missing ones made."""
    if column.is_of_overlaps:
        return _of_overlaps(own, model, part, column.metric, tell)
    from kglink.evaluation.kept import read_lines
    from kglink.evaluation.rankings import JOINT
    from kglink.evaluation.reproduced import value_of

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


def _of_overlaps(own: Opened, model: Model, part: Part, metric: str, tell: Tell) -> Any:
    from kglink.evaluation.measures.overlaps import overlap_values

    source, target = part.kbs
    job = replace(model.job(), source_kbs=(source,), target_kbs=(target,))
    find_missing_overlaps(own, job, tell)
    _build(own, model, part.kbs, tell)
    return overlap_values(own.space(), own.store, queries=target, answers=source)[metric]


def _build(own: Opened, model: Model, kbs: Sequence[str], tell: Tell) -> None:
    """Build the space of a model, unless it holds these KBs as they are now."""
    from kglink.workspace.build import build

    manifest = own.joint_space.folder.usable_manifest()
    now = {kb: own.store.kb(kb).revision for kb in kbs}
    if manifest is None or not now.items() <= manifest.revisions.items():
        trained = Runs(own.folder).path(model.name) / MODEL
        base = model.recipe.model.base if model.row.untrained else str(trained)
        build(own, model=base, progress=tell)


def _known(value: float) -> float | None:
    return None if math.isnan(value) else value
