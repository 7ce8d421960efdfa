"""The settings of the detector that learns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from pydantic import Field

from kglink.models.hardware import Precision
from kglink.plugins import PluginSettings


class LearnedSettings(PluginSettings):
    """Settings of the detector ``kglink/learned``."""

    outside: ClassVar[Mapping[str, str]] = {"model": "loads a model from there"}

    model: str = Field("", description="Folder of a trained detector; empty: the one of the space.")
    recall: float = Field(
        0,
        ge=0,
        lt=1,
        description="Find at least this share of mentions, as measured on held-out documents; 0: "
        "as many as give the best F1 there.",
    )
    decides: bool = Field(
        True,
        description="What it finds from its threshold on is a mention; else it proposes more, and "
        "kglink judges that with what other detectors propose.",
    )
    foreign: bool = Field(
        False,
        description="Read texts of another kind than it has learnt from too; else the dictionary "
        "reads them.",
    )
    device: str = Field("auto", description="cpu, cuda, cuda:N or auto.")
    precision: Precision = Field("auto", description="fp32, bf16, fp16 or auto.")
    threads: int = Field(0, ge=0, description="Cores to use; 0: all.")
