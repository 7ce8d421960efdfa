"""The encoding room: models found and checked, texts turned into vectors.

Importing it loads no torch; `load_encoder` does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kglink.models.hardware import Hardware, Precision, choose_hardware
from kglink.models.models import DEFAULT_MODEL, ModelSource, resolve_model

if TYPE_CHECKING:
    from kglink.models.runtime import Encoder

__all__ = [
    "DEFAULT_MODEL",
    "Hardware",
    "ModelSource",
    "Precision",
    "choose_hardware",
    "load_encoder",
    "resolve_model",
]


def load_encoder(
    model: str | ModelSource = DEFAULT_MODEL,
    *,
    precision: Precision = "auto",
    device: str = "auto",
    threads: int = 0,
) -> Encoder:
    """Find, check and load a model; ``threads = 0`` takes every physical core."""
    from kglink.models import runtime

    return runtime.load_encoder(model, precision=precision, device=device, threads=threads)
