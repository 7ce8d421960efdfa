"""Settings of rerankers that run a model, apart from the code that loads it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from pydantic import Field

from kglink.plugins import PluginSettings


class CrossEncoderSettings(PluginSettings):
    """Settings of ``kglink/cross_encoder``."""

    outside: ClassVar[Mapping[str, str]] = {"folder": "loads a model from there"}

    folder: Path = Field(
        description="Folder of a sequence-classification model with one label (safetensors)."
    )
    context_chars: int = Field(
        256, ge=0, description="Characters of the mention and its context that the model reads."
    )
    description_chars: int = Field(
        500, ge=0, description="Characters of each candidate's description that it reads."
    )
    weight: float = Field(
        1.0, gt=0, le=10, description="What its answer counts: as much as so many exact names."
    )
