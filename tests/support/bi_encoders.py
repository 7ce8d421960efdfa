"""A tiny bi-encoder for tests, what it reads, and what it was saved as."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from kglink.models import choose_hardware
from kglink.models.bi_encoder import BiEncoder, load_bi_encoder
from kglink.models.settings import BiEncoderSettings, InputSettings
from kglink.records import Alias, Entity, MentionInText

FP32 = choose_hardware("cpu", "fp32", 2)
INPUTS = InputSettings(mention_tokens=12, entity_tokens=16)
TEXT = "the bird of the river a heron of amber the metal of a planet"
MENTIONS = [MentionInText(TEXT, 4, 8), MentionInText(TEXT, 24, 29), MentionInText("mercury", 0, 7)]
ENTITIES = [
    Entity("1", "heron", description="a bird of the river"),
    Entity("2", "mercury", type="metal", aliases=(Alias("planet"), Alias("amber"))),
    Entity("3", "amber", description="the " * 30),
]


def make(base: Path, **settings: Any) -> BiEncoder:
    chosen = BiEncoderSettings.model_validate({"inputs": INPUTS, **settings})
    return load_bi_encoder(base, settings=chosen, hardware=FP32).eval()


def shake(model: BiEncoder, by: float = 0.1) -> BiEncoder:
    """Other weights, as after training."""
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(by * torch.randn(parameter.shape, generator=generator))
    return model


def content(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}
