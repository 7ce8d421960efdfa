"""Checkpoints: all that a run needs to go on as if nothing had happened.

A checkpoint is a folder of safetensors and JSON, written whole before the file ``CURRENT`` names
it; the one before it is removed afterwards. Chance needs no room in it: every step draws from
seeds made of its own number.

checkpoints/CURRENT           the name of the last whole one
checkpoints/00000120/         model.safetensors, optimiser.safetensors, state.json
"""

from __future__ import annotations

import contextlib
import json
import shutil
import stat
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import NamedTuple

import msgspec
import torch
from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import Tensor

from kglink.errors import TrainingError, reason_of
from kglink.files.atomic import atomic_folder, write_atomically
from kglink.models.loading import load_tensors
from kglink.models.transformation import Ascent

FORMAT = 1
_CURRENT = "CURRENT"
_MODEL, _OPTIMISER, _STATE = "model.safetensors", "optimiser.safetensors", "state.json"


class StageResult(NamedTuple):
    """The result of a stage."""

    name: str
    epochs: int
    """Epochs that were done."""
    kept: int
    """The epoch that was kept, from 1."""
    figure: float | None
    """The recall that it was chosen by; None where the last epoch is kept."""


@dataclass(frozen=True, slots=True)
class Position:
    """How far a run has come, and its best epoch so far."""

    stage: int = 0
    epoch: int = 0
    step: int = 0
    """Steps of the epoch that are done."""
    total: int = 0
    """Steps of all stages that are done."""
    best: float | None = None
    """The best figure of the stage so far."""
    best_epoch: int = -1
    epoch_loss: float = 0.0
    """The sum of the epoch's losses."""
    losses: tuple[float, ...] = ()
    """Losses since the last line of the curve."""
    results: tuple[StageResult, ...] = ()
    """The stages that are done."""

    def stepped(self, loss: float) -> Position:
        """The position after another step."""
        return replace(
            self,
            step=self.step + 1,
            total=self.total + 1,
            epoch_loss=self.epoch_loss + loss,
            losses=(*self.losses, loss),
        )


class Checkpoints:
    """The checkpoints of a run; a run with another ``identity`` cannot resume from them."""

    def __init__(self, folder: Path, identity: Mapping[str, str]) -> None:
        self._folder = folder
        self._identity = dict(identity)

    def exists(self) -> bool:
        """Whether the run has a checkpoint."""
        return (self._folder / _CURRENT).is_file()

    def clear(self) -> None:
        """Remove all checkpoints."""
        shutil.rmtree(self._folder, ignore_errors=True)

    def save(
        self,
        position: Position,
        model: torch.nn.Module,
        optimiser: torch.optim.Optimizer | None,
        ascent: Ascent | None,
    ) -> None:
        """Write a checkpoint; if that fails, the old one stays."""
        name = f"{position.total:08d}-{position.stage}-{position.epoch}"
        if name == self._current():
            return
        facts = {"format": FORMAT, "identity": self._identity, "position": asdict(position)}
        state: dict[str, Tensor] = {}
        if optimiser is not None:
            for where, parameter in _trained(model, optimiser):
                own = optimiser.state.get(parameter, {})
                state |= {f"theta/{where}/{key}": value for key, value in own.items()}
        if ascent is not None:
            for number, own in ascent.state_dict().get("state", {}).items():
                state |= {f"a/{number}/{key}": value for key, value in own.items()}
        with saying_what_is_kept(self._folder):
            self._folder.mkdir(parents=True, exist_ok=True)
            with atomic_folder(self._folder / name) as draft:
                write_tensors(draft / _MODEL, dict(model.named_parameters()))
                write_tensors(draft / _OPTIMISER, state)
                (draft / _STATE).write_text(json.dumps(facts, indent=1), encoding="utf-8")
            write_atomically(self._folder / _CURRENT, name)
        for other in self._folder.iterdir():
            if other.is_dir() and other.name != name:
                shutil.rmtree(other, ignore_errors=True)

    def position(self) -> Position:
        """The position of the last checkpoint, its identity checked."""
        path = self._folder / _CURRENT
        try:
            path = self._folder / path.read_text(encoding="utf-8") / _STATE
            facts = json.loads(path.read_text(encoding="utf-8"))
            if (version := facts["format"]) == FORMAT:
                identity = msgspec.convert(facts["identity"], dict[str, str])
                position = msgspec.convert(facts["position"], Position)
        except (OSError, ValueError, TypeError, KeyError, msgspec.ValidationError) as error:
            raise _damaged(path, error) from error
        if version != FORMAT:
            raise TrainingError(
                f"{self._folder}: a checkpoint of format {version}, and this kglink reads {FORMAT}",
                hint="Go on with the kglink that wrote it.",
            )
        for what, value in self._identity.items():
            if identity.get(what) != value:
                raise TrainingError(
                    f"{self._folder}: the checkpoint is of another {what}",
                    hint="Go on with what the run began with, or begin a new run.",
                )
        return position

    def load_model(self, model: torch.nn.Module) -> None:
        """Give a model the weights of the last checkpoint."""
        load_parameters(self._last() / _MODEL, model)

    def load_optimiser(
        self, model: torch.nn.Module, optimiser: torch.optim.Optimizer, ascent: Ascent | None
    ) -> None:
        """Restore the state of the optimiser and of the transformation's ascent."""
        given = _read_tensors(self._last() / _OPTIMISER)
        for name, parameter in _trained(model, optimiser):
            prefix = f"theta/{name}/"
            state = {key[len(prefix) :]: v for key, v in given.items() if key.startswith(prefix)}
            if state:
                optimiser.state[parameter] = {
                    key: value if key == "step" else value.to(parameter.device)
                    for key, value in state.items()
                }
        if ascent is not None and (whole := ascent.state_dict()):
            own: dict[int, dict[str, Tensor]] = {}
            for name, value in given.items():
                if name.startswith("a/"):
                    _, number, key = name.split("/")
                    own.setdefault(int(number), {})[key] = value
            ascent.load_state_dict({**whole, "state": own})

    def _last(self) -> Path:
        return self._folder / self._current()

    def _current(self) -> str:
        """The name of the last checkpoint; empty: there is none."""
        return (self._folder / _CURRENT).read_text(encoding="utf-8") if self.exists() else ""


def _trained(
    model: torch.nn.Module, optimiser: torch.optim.Optimizer
) -> Iterator[tuple[str, torch.nn.Parameter]]:
    ids = {id(parameter) for group in optimiser.param_groups for parameter in group["params"]}
    return ((name, p) for name, p in model.named_parameters() if id(p) in ids)


def load_parameters(path: Path, model: torch.nn.Module) -> None:
    """Give a model the weights of a file."""
    given = _read_tensors(path)
    own = dict(model.named_parameters())
    if given.keys() != own.keys() or any(
        given[name].shape != value.shape for name, value in own.items()
    ):
        raise TrainingError(
            f"{path}: is of another architecture",
            hint="Go on with the recipe and the model that the run began with.",
        )
    with torch.no_grad():
        for name, value in own.items():
            value.copy_(given[name])


def write_tensors(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write tensors to a file."""
    path.touch()
    mode = stat.S_IMODE(path.stat().st_mode)
    save_file({name: v.detach().cpu().contiguous() for name, v in tensors.items()}, path)
    path.chmod(mode)  # the library writes for its user alone


@contextlib.contextmanager
def saying_what_is_kept(place: Path) -> Iterator[None]:
    """Turn write failures into TrainingError; the old checkpoint stays."""
    try:
        yield
    except (OSError, SafetensorError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise TrainingError(
            f"{place}: cannot be saved: {reason}",
            hint="What was saved before stands. Free some space and go on with --resume.",
        ) from error


def _read_tensors(path: Path) -> dict[str, Tensor]:
    try:
        return load_tensors(path)
    except (OSError, SafetensorError) as error:
        raise _damaged(path, error) from error


def _damaged(path: Path, error: Exception) -> TrainingError:
    why = reason_of(error)
    return TrainingError(f"{path}: the checkpoint is damaged: {why}", hint="Begin a new run.")
