"""A run: its folder, its settings, and its results.

runs/NAME/settings.json    what was asked for: recipe, stages, KBs, seed, hardware, libraries
runs/NAME/data/            entities, mentions and overlaps as they were; data.json, which
                           fingerprints them, is kept when the run is done
runs/NAME/checkpoints/     where to go on from
runs/NAME/curve.jsonl      a line for every few steps and each evaluation; curve.png
runs/NAME/model/           the model folder, when it is done
runs/NAME/report.json      the result, when it is done
"""

from __future__ import annotations

import contextlib
import datetime
import errno
import json
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from kglink.errors import KglinkError, RunWarning, TrainingError, UsageError, why_unwritten
from kglink.files.atomic import file_lock, is_locked, sweep_drafts, write_atomically
from kglink.files.manifest import library_versions
from kglink.models import DEFAULT_MODEL
from kglink.models.hardware import Hardware
from kglink.store import Store
from kglink.training.job import FinetuneJob, read_sources
from kglink.training.recipe import DEFAULT_RECIPE, SPACE, Recipe
from kglink.training.recipe_files import chosen_recipe, read_recipe

FORMAT = 1
#: How settings.json names the folder of the workspace, which may be moved.
WORKSPACE = "{workspace}"
SETTINGS, REPORT, MODEL, DATA, CHECKPOINTS = (
    "settings.json",
    "report.json",
    "model",
    "data",
    "checkpoints",
)
#: Stage letters of a run that trains only a detector, or only a reranker.
SOURCES_OF_DETECTOR, SOURCES_OF_RERANKER = "D", "R"
TRAINED_ALONE = {SOURCES_OF_DETECTOR: "detector", SOURCES_OF_RERANKER: "reranker"}
#: What the data are, in their folder: KBs with their revisions, counts, digests.
DATA_FILE = "data.json"


@dataclass(frozen=True, slots=True)
class RunSettings:
    """The settings of a run, and where it computes."""

    recipe: Recipe
    recipe_name: str
    sources: str
    source_kbs: tuple[str, ...]
    target_kbs: tuple[str, ...]
    docs: tuple[str, ...]
    hardware: Hardware
    processes: int = 1
    detector: bool = True
    """Whether a detector is trained too, where the documents allow it."""
    started: str = field(
        default_factory=lambda: datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    )
    libraries: dict[str, str] = field(default_factory=library_versions)

    @property
    def seed(self) -> int:
        """The seed of all random choices."""
        return self.recipe.seed


@dataclass(frozen=True, slots=True)
class TrainingReport:
    """The result of a run; ``model`` is the folder of the best model."""

    folder: Path
    model: Path
    sources: str
    steps: int
    seconds: float
    stages: tuple[Mapping[str, Any], ...]
    """Name, epochs, the one that was kept, and the recall that it was chosen by."""
    recalls: Mapping[str, Any] | None
    """Recall of the final model on the mentions held back."""
    notes: tuple[str, ...]
    before: Mapping[str, Any] | None = None
    """The same of the model that the run started from."""

    def as_json(self) -> dict[str, Any]:
        """A plain dictionary for machine-readable output."""
        values = asdict(self)
        return values | {"folder": str(self.folder), "model": str(self.model)}


@dataclass(frozen=True, slots=True)
class RunInfo:
    """A summary of a run."""

    folder: Path
    done: bool
    busy: bool
    """Whether a process works on it now."""
    settings: RunSettings
    steps: int
    report: TrainingReport | None
    last_loss: float | None
    recalls: Mapping[str, Any] | None
    """Recall of the final model; before there is one, of the last validation."""

    @property
    def name(self) -> str:
        """What it is called."""
        return self.folder.name

    def as_json(self) -> dict[str, Any]:
        """A plain dictionary for machine-readable output."""
        settings = self.settings
        return {
            "name": self.name,
            "done": self.done,
            "busy": self.busy,
            "recipe": settings.recipe_name,
            "sources": settings.sources,
            "source_kbs": list(settings.source_kbs),
            "target_kbs": list(settings.target_kbs),
            "seed": settings.seed,
            "started": settings.started,
            "steps": self.steps,
            "loss": self.last_loss,
            "recalls": self.recalls,
        }


def new_settings(
    store: Store,
    job: FinetuneJob,
    folder: Path,
    sources: str,
    hardware: Hardware,
    processes: int = 1,
) -> RunSettings:
    """Settings of a new run, whose KBs and documents are there; nothing is written yet."""
    if (folder / SETTINGS).exists():
        raise UsageError(
            f"{folder}: there is a run already",
            hint="Go on with it (--resume), give another name, or delete the folder.",
        )
    for name in job.docs:
        store.kb(name)
    # A detector and a reranker learn from all KBs.
    left, right = (job.source_kbs, job.target_kbs) if job.learns_pairs else ((), ())
    by_name = "" if isinstance(job.recipe, Recipe) else str(job.recipe or DEFAULT_RECIPE)
    return RunSettings(
        recipe=job.chosen_recipe(),
        recipe_name=by_name,
        sources=sources,
        source_kbs=tuple(left),
        target_kbs=tuple(right),
        docs=tuple(job.docs),
        hardware=hardware,
        processes=processes,
        detector=job.what != "linker",
    )


def write_settings(folder: Path, settings: RunSettings) -> None:
    """Create the folder of a run."""
    folder.mkdir(parents=True, exist_ok=True)
    values = {"format": FORMAT, **asdict(settings)}
    values["recipe"] = kept_recipe(settings.recipe, folder)
    write_atomically(folder / SETTINGS, json.dumps(values, indent=1))


def kept_recipe(recipe: Recipe, folder: Path) -> dict[str, Any]:
    """The values of a run's recipe; folders within the workspace are relative to it."""

    def kept(written: str) -> str:
        place = Path(written).expanduser()
        if not place.is_absolute() and (written in (DEFAULT_MODEL, SPACE) or not place.exists()):
            return written
        if workspace not in place.resolve().parents:
            return str(place.absolute())
        return f"{WORKSPACE}/{place.resolve().relative_to(workspace).as_posix()}"

    workspace = folder.resolve().parent.parent
    return _with_places(recipe.model_dump(mode="json"), kept)


def _with_places(recipe: dict[str, Any], change: Callable[[str], str]) -> dict[str, Any]:
    """The values of a recipe, with those changed that may name a folder."""
    for section, key in (
        ("model", "base"), ("detector", "base"), ("reranker", "base"), ("reranker", "lists"),
    ):  # fmt: skip
        values = recipe.get(section) or {}
        if values.get(key):
            recipe = recipe | {section: values | {key: change(values[key])}}
    if teacher := recipe.get("teacher"):
        recipe = recipe | {"teacher": change(teacher)}
    return recipe


def read_settings(folder: Path) -> RunSettings:
    """The settings of a run."""
    values = _read(folder / SETTINGS)
    if values.pop("format", None) != FORMAT:
        raise TrainingError(
            f"{folder / SETTINGS}: of another format than this kglink writes",
            hint="Go on with the kglink that began the run.",
        )

    def found_again(kept: str) -> str:
        first, _, rest = kept.partition("/")
        return str(folder.resolve().parent.parent / rest) if first == WORKSPACE else kept

    recipe = _with_places(values["recipe"], found_again)
    values["recipe"] = read_recipe(recipe, str(folder / SETTINGS))
    for name in ("source_kbs", "target_kbs", "docs"):
        values[name] = tuple(values[name])
    values["hardware"] = Hardware(**values["hardware"])
    return RunSettings(**values)


def recipe_values(recipe: Recipe, folder: Path) -> dict[str, Any]:
    """A recipe's values as a run keeps them, without its descriptions."""
    descriptions = ("summary", "source", "extends")
    return {key: one for key, one in kept_recipe(recipe, folder).items() if key not in descriptions}


def resumed_settings(job: FinetuneJob, folder: Path) -> RunSettings:
    """Settings of the run when it began; a job that contradicts them is refused."""
    began = read_settings(folder)
    trains = TRAINED_ALONE.get(began.sources, "linker")
    if job.what not in ("all", trains):
        raise TrainingError(
            f"run {folder.name} trains a {trains}, and a {job.what} is wanted",
            hint="Leave out --what to go on with it, or begin a new run.",
        )
    # Changes alone are of the run's own recipe.
    recipe = chosen_recipe(began.recipe if job.recipe is None else job.recipe, job.changes)
    sources = read_sources(job.sources) if job.sources else ""
    for what, now, before in (
        ("recipe", recipe_values(recipe, folder), recipe_values(began.recipe, folder)),
        ("list of sources", sources, began.sources),
        ("list of source KBs", tuple(job.source_kbs), began.source_kbs),
        ("list of target KBs", tuple(job.target_kbs), began.target_kbs),
        ("list of documents", tuple(job.docs), began.docs),
    ):
        if now and now != before:
            raise TrainingError(
                f"the run began with another {what}",
                hint="Leave it out to go on as the run began, or begin a new run.",
            )
    return began


def write_report(report: TrainingReport) -> None:
    """Write the report of a finished run."""
    write_atomically(report.folder / REPORT, json.dumps(report.as_json(), indent=1))


def read_report(folder: Path) -> TrainingReport | None:
    """The result of a run; None while it is not done."""
    if not (folder / REPORT).is_file():
        return None
    values = _read(folder / REPORT)
    lists = {name: tuple(values[name]) for name in ("stages", "notes")}
    # The folder may have been moved since.
    return TrainingReport(**{**values, **lists, "folder": folder, "model": folder / MODEL})


def run_of_model(workspace: Path, model: str) -> Path | None:
    """The folder of the run that made a model, of a space or a recipe; None for other models."""
    run = (workspace / model).parent
    return run if Path(model).name == MODEL and (run / SETTINGS).is_file() else None


def recalls_of_epoch(folder: Path, stage: str, epoch: int) -> dict[str, Any] | None:
    """Recall after an epoch; epoch 0: before training."""
    for line in Curve(folder).lines():
        if "mean" in line and (line["stage"], line["epoch"]) == (stage, epoch):
            return _recalls(line)
    return None


def list_runs(folder: Path) -> list[RunInfo]:
    """All runs of a workspace's ``runs`` folder, the oldest first; what cannot be read is told."""
    found = []
    for one in folder.glob("*"):
        if (one / SETTINGS).is_file():
            try:
                found.append(read_run(one))
            except KglinkError as error:
                warnings.warn(f"left out: {error.message}", RunWarning, stacklevel=2)
    return sorted(found, key=lambda run: (run.settings.started, run.name))


def read_run(folder: Path) -> RunInfo:
    """One run."""
    if not (folder / SETTINGS).is_file():
        raise UsageError(f"{folder}: there is no run", hint="`kglink runs` lists those there are.")
    lines = Curve(folder).lines()
    losses = [line["loss"] for line in lines if "loss" in line]
    recalls = [_recalls(line) for line in lines if "mean" in line]
    report = read_report(folder)
    return RunInfo(
        folder=folder,
        done=report is not None,
        busy=is_busy(folder),
        settings=read_settings(folder),
        steps=report.steps if report else max((line["total"] for line in lines), default=0),
        report=report,
        last_loss=losses[-1] if losses else None,
        recalls=report.recalls if report else recalls[-1] if recalls else None,
    )


def _recalls(line: Mapping[str, Any]) -> dict[str, Any]:
    known = ("mean", "judged_joint", "joint", "kb", "mentions")
    return {key: line[key] for key in known if key in line}


def _read(path: Path) -> dict[str, Any]:
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise TrainingError(
            f"{path.parent}: there is no run to go on with", hint="Begin it without --resume."
        ) from error
    except (OSError, ValueError) as error:
        raise TrainingError(f"{path}: cannot be read: {error}") from error
    if not isinstance(values, dict):
        raise TrainingError(f"{path}: is not what a run writes")
    return values


class Curve:
    """Lines of ``curve.jsonl``, in the order of the steps."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._path = folder / "curve.jsonl"

    @property
    def picture(self) -> Path:
        """Where `draw` puts its picture."""
        return self._folder / "curve.png"

    def begin(self, total: int = 0) -> None:
        """Drop lines after a step: a resumed run writes them again."""
        kept = [line for line in self.lines() if line["total"] <= total] if total else []
        write_atomically(self._path, "".join(json.dumps(line) + "\n" for line in kept))

    def add(self, line: Mapping[str, Any]) -> None:
        """Append a line; its ``total`` is the number of steps done."""
        with self._path.open("a", encoding="utf-8") as out:
            out.write(json.dumps(dict(line)) + "\n")

    def lines(self) -> list[dict[str, Any]]:
        """All lines; ignores one that a crash cut short."""
        if not self._path.is_file():
            return []
        found = []
        for text in self._path.read_text(encoding="utf-8").splitlines():
            try:
                found.append(json.loads(text))
            except ValueError:
                break
        return found

    def draw(self) -> Path | None:
        """Draw losses and recalls as a picture; None where matplotlib is not installed."""
        try:
            from matplotlib.figure import Figure
        except ModuleNotFoundError:
            return None
        losses = [line for line in self.lines() if "loss" in line]
        recalls = [line for line in self.lines() if "mean" in line]
        figure = Figure(figsize=(8, 4), layout="constrained")
        left, right = figure.subplots(1, 2)
        for stage in dict.fromkeys(line["stage"] for line in losses):
            own = [(line["total"], line["loss"]) for line in losses if line["stage"] == stage]
            left.plot(*zip(*own, strict=True), label=stage, marker=".")
        for metric in recalls[0]["mean"] if recalls else ():
            own = [(line["total"], line["mean"][metric]) for line in recalls]
            right.plot(*zip(*own, strict=True), label=metric, marker=".")
        for axes, title in ((left, "loss"), (right, "recall, mean over KBs")):
            axes.set(xlabel="step", title=title)
            if axes.lines:
                axes.legend()
        figure.savefig(self.picture, dpi=120)
        return self.picture


_LOCK = ".lock"
#: Seconds to wait for commands that only ask whether a run is locked.
_A_LOOK = 1.0


@contextlib.contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Lock a run against other processes."""
    busy = TrainingError(
        f"{folder}: another process is training here", hint="Wait for it, or stop it."
    )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with file_lock(folder / _LOCK, busy, wait=_A_LOOK):
            sweep_drafts(folder)
            yield
    except OSError as error:
        if not (why_unwritten(error) or error.errno == errno.EIO):
            raise
        raise TrainingError(
            f"{error.filename or folder}: {error.strerror or error}",
            hint="Free some space, or mend what is wrong with this file, and go on with --resume.",
        ) from error


def is_busy(folder: Path) -> bool:
    """Whether a process works on this run now."""
    return is_locked(folder / _LOCK)
