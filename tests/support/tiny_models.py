"""Model folders small enough to write in a test: a BERT of two layers with random weights."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import numpy.typing as npt
import tokenizers
from safetensors.numpy import save_file
from tokenizers import models, normalizers, pre_tokenizers, processors

WORDS = ["amber", "heron", "mercury", "planet", "metal", "bird", "river", "of", "the", "a"]
HIDDEN, LAYERS, INNER, POSITIONS = 32, 2, 64, 24

Weights = dict[str, npt.NDArray[np.float32]]


def bert_config(**changes: object) -> dict[str, object]:
    """The settings of the tiny BERT."""
    return {
        "model_type": "bert",
        "architectures": ["BertModel"],
        "vocab_size": 5 + len(WORDS),
        "hidden_size": HIDDEN,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": 4,
        "intermediate_size": INNER,
        "max_position_embeddings": POSITIONS,
        "type_vocab_size": 2,
        "hidden_act": "gelu",
        "layer_norm_eps": 1e-12,
        "pad_token_id": 0,
        **changes,
    }


def bert_weights() -> Weights:
    """Random weights, the same each time."""
    rng = np.random.default_rng(7)

    def linear(name: str, outputs: int, inputs: int) -> Weights:
        return {
            f"{name}.weight": rng.normal(0, 0.3, (outputs, inputs)).astype(np.float32),
            f"{name}.bias": rng.normal(0, 0.3, outputs).astype(np.float32),
        }

    def norm(name: str) -> Weights:
        return {
            f"{name}.weight": rng.normal(1, 0.2, HIDDEN).astype(np.float32),
            f"{name}.bias": rng.normal(0, 0.2, HIDDEN).astype(np.float32),
        }

    weights: Weights = {}
    for table, rows in (("word", 5 + len(WORDS)), ("position", POSITIONS), ("token_type", 2)):
        values = rng.normal(0, 1, (rows, HIDDEN)).astype(np.float32)
        weights[f"embeddings.{table}_embeddings.weight"] = values
    weights |= norm("embeddings.LayerNorm")
    for layer in range(LAYERS):
        name = f"encoder.layer.{layer}"
        for part in ("query", "key", "value"):
            weights |= linear(f"{name}.attention.self.{part}", HIDDEN, HIDDEN)
        weights |= linear(f"{name}.attention.output.dense", HIDDEN, HIDDEN)
        weights |= norm(f"{name}.attention.output.LayerNorm")
        weights |= linear(f"{name}.intermediate.dense", INNER, HIDDEN)
        weights |= linear(f"{name}.output.dense", HIDDEN, INNER)
        weights |= norm(f"{name}.output.LayerNorm")
    return weights


def write_tokenizer(path: Path) -> None:
    """A word-level tokenizer of the BERT kind."""
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    vocab = {token: number for number, token in enumerate([*special, *WORDS])}
    tokenizer = tokenizers.Tokenizer(models.WordPiece(vocab, unk_token="[UNK]"))  # noqa: S106 - not a password
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    tokenizer.enable_padding(length=20)  # a leftover of training that must not matter
    tokenizer.save(str(path))


def write_model(folder: Path, weights: Weights | None = None, **config: object) -> Path:
    """A complete model folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(bert_config(**config)))
    write_tokenizer(folder / "tokenizer.json")
    save_file(weights or bert_weights(), folder / "model.safetensors", {"format": "pt"})
    return folder


def write_modules(folder: Path, *kinds: str, **pooling: object) -> None:
    """The files by which sentence-transformers describes what follows the encoder."""
    places = ["" if kind == "Transformer" else f"1_{kind}" for kind in kinds]
    modules = [
        {"type": f"sentence_transformers.models.{kind}", "path": place}
        for kind, place in zip(kinds, places, strict=True)
    ]
    (folder / "modules.json").write_text(json.dumps(modules))
    (folder / "1_Pooling").mkdir(exist_ok=True)
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(pooling))
