"""The model of a recipe on one core, for tests of what a step of training does."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from kglink.models import choose_hardware
from kglink.models.bi_encoder import BiEncoder, load_bi_encoder
from kglink.training import Recipe

CPU = choose_hardware("cpu", "fp32", 1)


@contextmanager
def one_thread() -> Iterator[None]:
    """Tiny products on several cores are mostly waiting."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def made(recipe: Recipe) -> BiEncoder:
    return load_bi_encoder(recipe.model.base, settings=recipe.model.settings, hardware=CPU)
