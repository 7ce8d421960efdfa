"""Settings of detectors that run a model, apart from the code that loads it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from pydantic import Field

from kglink.plugins import PluginSettings


class HuggingFaceSettings(PluginSettings):
    """Settings of the detector ``kglink/huggingface``."""

    outside: ClassVar[Mapping[str, str]] = {"folder": "loads a model from there"}

    folder: Path = Field(description="Folder of a token-classification model (safetensors).")
    types: tuple[str, ...] = Field(
        (), description="Types of mentions that are kept, such as `Disease`; none named: all."
    )
    threshold: float = Field(
        0.5, ge=0, le=1, description="Mentions that are less probable than this are left out."
    )


class SpacySettings(PluginSettings):
    """Settings of the detector ``kglink/spacy``."""

    outside: ClassVar[Mapping[str, str]] = {"folder": "loads a model from there"}

    folder: Path = Field(description="Folder of a pipeline, as `nlp.to_disk` writes it.")
    types: tuple[str, ...] = Field(
        (), description="Types of mentions that are kept, such as `PERSON`; none named: all."
    )
    spans: str = Field(
        "", description="Group of spans that is read (`doc.spans`); empty: the entities."
    )


class GlinerSettings(PluginSettings):
    """Settings of the detector ``kglink/gliner``."""

    outside: ClassVar[Mapping[str, str]] = {"folder": "loads a model from there"}

    folder: Path = Field(description="Folder of a model, as `model.save_pretrained` writes it.")
    labels: tuple[str, ...] = Field(
        min_length=1, description="What is looked for, in words: `disease,drug`."
    )
    threshold: float = Field(
        0.5, ge=0, le=1, description="Mentions that are less probable than this are left out."
    )
