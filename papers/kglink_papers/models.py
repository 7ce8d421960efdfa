"""The models of a table: what trains each, the space that it is searched with, what reads anew."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Literal, NamedTuple

from kglink.errors import TrainingError, UsageError
from kglink.files.digest import digest_of
from kglink.models.head_folder import RERANKER
from kglink.training.job import FinetuneJob, Tell
from kglink.training.recipe import Recipe
from kglink.training.recipe_files import load_recipe, merged
from kglink.training.reranker import FOLDER as RERANKER_FOLDER
from kglink.training.run import MODEL, REPORT, SETTINGS, is_busy
from kglink.workspace import spaces
from kglink.workspace.finetune import find_missing_overlaps, finetune
from kglink.workspace.opened import Opened
from kglink.workspace.training import run_folder
from kglink_papers.data import Training
from kglink_papers.protocols import Row

State = Literal["done", "stopped", "new", "untrained"]


class Run(NamedTuple):
    """A training of a table: of a bi-encoder, or of the cross-encoder that reads after it."""

    name: str
    recipe: str
    state: State
    docs: Sequence[str]
    steps: int | None
    """About how many; None: not known before the data are there."""


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
            parts.append(f"untrained-{row.found_by}")
        elif len(sources) == 1 and len(targets) <= 1:  # a joint space
            parts += [row.sources.lower(), *targets]
        changes = merged(self._changes, {"settings": dict(row.settings)} if row.settings else {})
        if changes:
            parts.append(digest_of(changes, size=3))
        parts += [] if row.untrained else [f"seed-{self.seed}"]
        return "-".join(filter(None, parts))

    @cached_property
    def recipe(self) -> Recipe:
        """The recipe with its changes."""
        return load_recipe(self.row.recipe, self._changes)

    @property
    def _changes(self) -> Mapping[str, Any]:
        return merged(self.changes, self.row.changes)

    @property
    def reader_run(self) -> str:
        """The run that trains its cross-encoder; empty: none is trained."""
        row = self.row
        if not row.reranker:
            return ""
        by = "" if row.reranker == row.recipe else f"-{row.reranker.replace('/', '-')}"
        return f"{self.name}{by}-reranker" + f"-seed-{self.seed}" * row.untrained

    @property
    def teacher(self) -> Model | None:
        """What it learns from, which is trained before."""
        name = self.row.teacher
        if not name:
            return None
        row = Row(name=name, recipe=name, reranked=True, reranker=name)
        return replace(self, row=row)

    def reader(self, opened: Opened) -> Path | None:
        """The folder of the cross-encoder that orders its candidates; None: none does."""
        if self.reader_run:
            return run_folder(opened, self.reader_run) / RERANKER_FOLDER
        base = self.recipe.reranker.base
        folder = Path(base).expanduser()
        return folder.resolve() if base and RERANKER.is_there(folder) else None

    def check_reader(self) -> None:
        """Refuse a cross-encoder that is named and cannot be read."""
        named = str(self.changes.get("reranker", {}).get("base", ""))
        if named and not self.reader_run:
            folder = Path(named).expanduser()
            if not RERANKER.is_there(folder):
                raise UsageError(
                    f"{named}: is no folder of a reranker", hint="`kglink convert` writes one."
                )
            RERANKER.open(folder, 1)

    def check(self, opened: Opened) -> None:
        """Refuse a row that ends with a cross-encoder which is nowhere."""
        self.check_reader()
        if self.row.reranked and self.reader(opened) is None:
            raise UsageError(
                f"{self.row.name} ends with BLINK's released cross-encoder, which nobody trains",
                hint="Convert it (`kglink convert`) and name its folder: --set "
                "reranker.base=FOLDER. Other rows: --rows.",
            )

    # ------------------------------------------------------------------------------- training
    def job(
        self,
        opened: Opened,
        *,
        reader: bool = False,
        resume: bool = False,
        data: Path | None = None,
    ) -> FinetuneJob:
        """What `finetune` is asked: for the bi-encoder, or for the cross-encoder behind it."""
        row, training = self.row, self.training
        job = partial(FinetuneJob, docs=training.docs, resume=resume, publish=False)
        more: dict[str, Any] = {"seed": self.seed}
        if reader:
            lists = {"lists": str((data / row.lists).resolve())} if row.lists and data else {}
            changes = merged(self.changes, {**more, "reranker": lists})
            return job(what="reranker", recipe=row.reranker, changes=changes, run=self.reader_run)
        if self.teacher:
            more["teacher"] = str(self.teacher.reader(opened))
        return job(
            what="linker",
            recipe=row.recipe,
            sources=row.sources,
            source_kbs=training.source_kbs,
            target_kbs=training.target_kbs,
            changes=merged(self._changes, more),
            run=self.name,
        )

    def runs(self, opened: Opened, mentions: int | None) -> Iterator[Run]:
        """Its trainings in their order, with about how many steps each takes."""
        steps: int | None = None
        if self.row.untrained:
            yield Run(self.name, self.row.recipe, "untrained", self.training.docs, None)
        else:
            if mentions is not None:
                steps = sum(mentions * one.epochs // one.batch for one in self.recipe.rounds())
            state = _state(opened, self.name)
            yield Run(self.name, self.row.recipe, state, self.training.docs, steps)
        if self.reader_run:
            section = load_recipe(self.row.reranker, self.changes).reranker
            if mentions is not None:
                steps = min(mentions, section.most_mentions) * section.epochs // section.batch
            state = _state(opened, self.reader_run)
            yield Run(self.reader_run, self.row.reranker, state, self.training.docs, steps)

    def train(self, opened: Opened, tell: Tell, data: Path | None) -> None:
        """Train what is not trained; an interrupted run goes on.

        ``data``: the folder with the lists of candidates that a cross-encoder learns from.
        """
        for reader in (False, True):
            name = self.reader_run if reader else "" if self.row.untrained else self.name
            state = _state(opened, name) if name else "done"
            if state == "done":
                continue
            if is_busy(run_folder(opened, name)):
                raise TrainingError(f"run {name} is in progress", hint="Wait for it, or stop it.")
            job = self.job(opened, reader=reader, resume=state == "stopped", data=data)
            with self.space(opened) as own:
                if reader:
                    self.build(own, (*self.training.source_kbs, *self.training.target_kbs), tell)
                finetune(own, job, tell)

    # ------------------------------------------------------------------------------ searching
    def space(self, opened: Opened) -> Opened:
        """The workspace with the settings that its space is made and asked with; close it."""
        by_words = self.row.found_by in ("bm25", "tfidf")
        return opened.with_settings(
            {
                "space.name": self.name,
                "space.rows": ("text",),
                "space.words": "yes" if by_words else "no",
                "link.found_by": self.row.found_by,
                **self.row.settings,
            }
        )

    def build(self, own: Opened, kbs: Sequence[str], tell: Tell) -> None:
        """Build its space, unless it holds these KBs as they are."""
        manifest = own.joint_space.folder.usable_manifest()
        now = {kb: own.store.kb(kb).revision for kb in kbs}
        if manifest is None or not now.items() <= manifest.revisions.items():
            trained = run_folder(own, self.name) / MODEL
            base = self.recipe.model.base if self.row.found_by == "vectors" else ""  # asks none
            spaces.build(own, model=base if self.row.untrained else str(trained), progress=tell)

    def find_overlaps(self, opened: Opened, source: str, target: str, tell: Tell) -> None:
        """Look for the overlaps of two KBs as its recipe does, unless that was done."""
        job = replace(self.job(opened), source_kbs=(source,), target_kbs=(target,))
        find_missing_overlaps(opened, job, tell)


def _state(opened: Opened, name: str) -> State:
    folder = run_folder(opened, name)
    if not (folder / SETTINGS).is_file():
        return "new"
    return "done" if (folder / REPORT).is_file() else "stopped"
