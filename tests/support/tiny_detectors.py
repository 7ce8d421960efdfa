"""A detector small enough to train in a test: it learns that two kinds of words are mentions."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np

from kglink.models.hardware import Hardware
from kglink.training import Recipe
from kglink.training.detector import TaggedText, TaggedTexts, train_detector
from kglink.training.run import RunSettings
from tiny_models import bert_weights, write_model

HARDWARE = Hardware("cpu", "fp32", 1)
#: What is marked in all texts; everything else is not.
MENTIONS = ("amber heron", "mercury")
OTHERS = ("planet", "metal", "bird", "river", "of", "the", "a")


def texts_of(count: int, seed: int = 0) -> tuple[TaggedText, ...]:
    """Texts of the tiny model's words, all mentions marked."""
    chance = random.Random(seed)
    return tuple(_text(chance) for _ in range(count))


def _text(chance: random.Random) -> TaggedText:
    text, places = "", []
    for _ in range(12):
        is_mention = chance.random() < 0.3
        word = chance.choice(MENTIONS if is_mention else OTHERS)
        text += " " if text else ""
        if is_mention:
            places.append((len(text), len(text) + len(word)))
        text += word
    return TaggedText(text, tuple(places))


def train_tiny(folder: Path) -> Path:
    """The folder of a detector that finds most of them."""
    texts = tagged(texts_of(90), texts_of(20, seed=1))
    return train_detector(texts, job_of(folder, epochs=3), folder / "run").folder


def tagged(train: Iterable[TaggedText], held_out: Iterable[TaggedText]) -> TaggedTexts:
    """These texts as a run has them."""
    return TaggedTexts(tuple(train), tuple(held_out), ("docs",), ("birds",), (), ())


def job_of(folder: Path, **changes: object) -> RunSettings:
    """The settings of a run that begins with the tiny model."""
    base = folder / "tiny"
    if not base.exists():
        weights = bert_weights()
        for name in weights:  # what a word is stays visible to the head, so that it learns fast
            if ".dense." in name:
                weights[name] *= 0.1
        table = "embeddings.position_embeddings.weight"
        weights[table] = np.tile(weights[table], (2, 1))
        write_model(base, weights, max_position_embeddings=len(weights[table]))
    told = {"tokens": 32, "epochs": 2, "learning_rate": 3e-2, "batch": 4, **changes}
    return settings_of(base, detector=told)


def settings_of(base: Path, **sections: Mapping[str, object]) -> RunSettings:
    """The settings of a run whose recipe has these sections."""
    recipe = Recipe.model_validate({"model": {"base": str(base)}, **sections})
    return RunSettings(recipe, "", "D", (), (), (), HARDWARE)
