"""Advice where something does not fit into memory."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch

from kglink.errors import TrainingError
from kglink.training.recipe import OverlapSection, StageSection

#: How torch says on a CPU that there is no more memory.
_ON_CPU = ("can't allocate memory", "not enough memory")


@contextlib.contextmanager
def advising(advice: TrainingError) -> Iterator[None]:
    """Say what to do where there is too little memory."""
    try:
        yield
    except (MemoryError, torch.OutOfMemoryError) as error:
        raise advice from error
    except RuntimeError as error:
        if any(words in str(error) for words in _ON_CPU):
            raise advice from error
        raise


def advice_for_steps(
    section: StageSection | OverlapSection, texts: int, done: int
) -> TrainingError:
    """What helps where a step of so many texts is too large; ``done`` steps were none."""
    smaller = max(1, min(section.micro_batch or texts, texts) // 2)
    begin = "Begin again with" if not done else "The last checkpoint is good. Begin a run with"
    return TrainingError(
        f"a step of {section.batch} with up to {texts} texts does not fit into memory",
        hint=f"{begin} micro_batch = {smaller}: the same losses, a third more time. Or with "
        "fewer tokens (model.inputs), fewer negatives or a smaller batch.",
    )


def advice_for_searches(work: str) -> TrainingError:
    """What helps where the search of the pool is too large."""
    return TrainingError(
        f"{work} does not fit into memory",
        hint="Other programs may have it. Else fewer tokens (model.inputs), a smaller pool, or "
        "vectors in the place of token matrices (model.pooling) take less; --resume goes on from "
        "the last checkpoint.",
    )
