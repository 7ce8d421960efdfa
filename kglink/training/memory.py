"""Advice where a batch does not fit into memory."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch

from kglink.errors import TrainingError
from kglink.training.recipe import OverlapSection, StageSection

#: How torch says on a CPU that there is no more memory.
_ON_CPU = ("can't allocate memory", "not enough memory")


@contextlib.contextmanager
def advising(section: StageSection | OverlapSection, done: int) -> Iterator[None]:
    """Say what to do where a step needs more memory than there is."""
    try:
        yield
    except (MemoryError, torch.OutOfMemoryError) as error:
        raise _advice(section, done) from error
    except RuntimeError as error:
        if any(words in str(error) for words in _ON_CPU):
            raise _advice(section, done) from error
        raise


def _advice(section: StageSection | OverlapSection, done: int) -> TrainingError:
    negatives = section.negatives if isinstance(section, StageSection) else 1
    texts = section.batch * (2 + negatives)
    smaller = max(1, (section.micro_batch or texts) // 2)
    begin = "Begin again with" if not done else "The last checkpoint is good. Begin a run with"
    return TrainingError(
        f"a step of {section.batch} with up to {texts} texts does not fit into memory",
        hint=f"{begin} micro_batch = {smaller}: the same losses, a third more time. Or with "
        "fewer tokens (model.inputs), fewer negatives or a smaller batch.",
    )
