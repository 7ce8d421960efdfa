"""A synthetic Zeshel-like world in a store, and a tiny BERT that knows its words."""

from __future__ import annotations

import collections
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import tokenizers
from safetensors.numpy import save_file
from tokenizers import models, normalizers, pre_tokenizers, processors

from kglink.store import Store
from kglink.training import Recipe, load_recipe
from kglink.training.recipe_files import merged
from store_support import job
from tiny_models import HIDDEN, bert_config, bert_weights
from worlds import DocumentSettings, World, WorldSettings

KBS = ("atlas", "saga")
POSITIONS = 48
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "[unused0]", "[unused1]", "[unused2]"]

#: What makes any recipe small enough for a test.
SMALL: dict[str, Any] = {
    "model": {"inputs": {"mention_tokens": 16, "entity_tokens": 16}},
    "train": {"epochs": 1, "batch": 8, "micro_batch": 0},
    "overlap": {"epochs": 1, "batch": 8},
    "selection": {"most_mentions": 40},
}


def world_of(seed: int = 3, entities: int = 40) -> World:
    settings = WorldSettings(seed=seed, kbs=KBS, entities=entities, overlap=0.4, unicode=0.0)
    return World(settings)


def fill(url: str, world: World, documents: int = 24) -> Store:
    """The world's KBs, its overlaps, and its documents as a KB of their own."""
    store = Store.open(url)
    for kb in KBS:
        store.ingest(job(kb, fingerprint=kb), world.entities(kb))
    settings = DocumentSettings(mentions=4, nil=0.0)
    store.ingest(
        job("docs", fingerprint="docs", links_to=KBS), world.documents(documents, settings)
    )
    store.save_overlaps(*KBS, world.overlaps())
    return store


def write_world_model(folder: Path, world: World, *, dropout: float = 0.1) -> Path:
    """A BERT of two layers whose vocabulary holds the world's commonest words, and all letters."""
    words = [word for word, _ in collections.Counter(_words(world)).most_common(300)]
    letters = sorted({letter for word in _words(world) for letter in word})
    vocab = list(dict.fromkeys([*SPECIAL, *words, *letters, *(f"##{one}" for one in letters)]))
    rng = np.random.default_rng(1)
    weights = bert_weights()
    for table, rows in (("word", len(vocab)), ("position", POSITIONS)):
        values = rng.normal(0, 1, (rows, HIDDEN)).astype(np.float32)
        weights[f"embeddings.{table}_embeddings.weight"] = values
    config = bert_config(
        vocab_size=len(vocab),
        max_position_embeddings=POSITIONS,
        hidden_dropout_prob=dropout,
        attention_probs_dropout_prob=dropout,
    )
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    _tokenizer(vocab).save(str(folder / "tokenizer.json"))
    return folder


def small(name: str, base: Path, changes: Mapping[str, Any] | None = None) -> Recipe:
    """A recipe cut down to the tiny model: few tokens, small batches, one epoch."""
    recipe = load_recipe(name, merged(SMALL, {"model": {"base": str(base)}}))
    whole = recipe.model_dump()
    for part in ("train", "again"):
        section = whole[part]
        if section is None:
            continue
        section.update({"epochs": 1, "batch": 8, "micro_batch": 0})
        if section["negatives"]:
            section["negatives"] = min(3, section["negatives"])
        if section["transformation"]:
            # The tiny model has two layers.
            section["transformation"]["layer"] = min(1, section["transformation"]["layer"])
    return Recipe.model_validate(merged(whole, changes or {}))


def _words(world: World) -> Iterator[str]:
    for kb in KBS:
        for entity in world.entities(kb):
            yield from re.findall(r"\w+|[^\w\s]", f"{entity.title} {entity.description}".lower())


def _tokenizer(vocab: list[str]) -> tokenizers.Tokenizer:
    numbers = {token: number for number, token in enumerate(vocab)}
    tokenizer = tokenizers.Tokenizer(models.WordPiece(numbers, unk_token="[UNK]"))  # noqa: S106 - not a password
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    return tokenizer
