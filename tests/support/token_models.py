"""Models that find mentions, small enough to write in a test: their answers can be foretold."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file

from tiny_models import WORDS, bert_config, write_tokenizer

#: What the token-classification model says of some words; all others are outside.
LABELS = {"heron": "B-Bird", "river": "I-Bird", "metal": "B-Metal"}
_KINDS = ("O", "B-Bird", "I-Bird", "B-Metal", "I-Metal")
_SPECIAL = 5  # ids before those of the words
_HIDDEN = 32


def write_token_classifier(folder: Path) -> Path:
    """A BERT without layers: the label of a word follows from the word alone."""
    folder.mkdir(parents=True, exist_ok=True)
    config = bert_config(
        architectures=["BertForTokenClassification"],
        num_hidden_layers=0,
        id2label=dict(enumerate(_KINDS)),
        label2id={kind: at for at, kind in enumerate(_KINDS)},
    )
    (folder / "config.json").write_text(json.dumps(config))
    write_tokenizer(folder / "tokenizer.json")
    tokenizer = {"tokenizer_class": "PreTrainedTokenizerFast", "pad_token": "[PAD]"}
    (folder / "tokenizer_config.json").write_text(json.dumps(tokenizer))
    rows = _SPECIAL + len(WORDS)
    words = np.zeros((rows, _HIDDEN), np.float32)
    words[np.arange(rows), np.arange(rows)] = 1
    classifier = np.zeros((len(_KINDS), _HIDDEN), np.float32)
    bias = np.zeros(len(_KINDS), np.float32)
    bias[0] = 4
    for word, kind in LABELS.items():
        classifier[_KINDS.index(kind), _SPECIAL + WORDS.index(word)] = 2
    embeddings = "bert.embeddings"
    weights = {
        f"{embeddings}.word_embeddings.weight": words,
        f"{embeddings}.position_embeddings.weight": np.zeros((24, _HIDDEN), np.float32),
        f"{embeddings}.token_type_embeddings.weight": np.zeros((2, _HIDDEN), np.float32),
        f"{embeddings}.LayerNorm.weight": np.ones(_HIDDEN, np.float32),
        f"{embeddings}.LayerNorm.bias": np.zeros(_HIDDEN, np.float32),
        "classifier.weight": classifier,
        "classifier.bias": bias,
    }
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    return folder


def write_spacy_pipeline(folder: Path) -> Path:
    """A blank pipeline whose rules know Ada, Bob and Lantern Bay, as entities and as spans."""
    import spacy

    pipeline = spacy.blank("en")
    patterns = [
        {"label": "PERSON", "pattern": "Ada"},
        {"label": "PERSON", "pattern": "Bob"},
        {"label": "PLACE", "pattern": "Lantern Bay"},
    ]
    entities: Any = pipeline.add_pipe("entity_ruler")
    entities.add_patterns(patterns)
    spans: Any = pipeline.add_pipe("span_ruler")
    spans.add_patterns(patterns[2:])
    pipeline.to_disk(folder)
    return folder


def write_gliner_model(folder: Path) -> Path:
    """A GLiNER model with random weights, the same each time."""
    import torch
    from gliner.config import UniEncoderSpanConfig
    from gliner.model import UniEncoderSpanGLiNER
    from transformers import PreTrainedTokenizerFast

    folder.mkdir(parents=True, exist_ok=True)
    write_tokenizer(folder / "tokenizer.json")
    special = {
        f"{name.lower()}_token": f"[{name}]" for name in ("UNK", "PAD", "CLS", "SEP", "MASK")
    }
    file = str(folder / "tokenizer.json")
    tokenizer = PreTrainedTokenizerFast(tokenizer_file=file, **special)  # type: ignore[no-untyped-call]  # transformers
    config = UniEncoderSpanConfig(
        model_name="tiny",
        encoder_config=bert_config(max_position_embeddings=128),
        hidden_size=_HIDDEN,
        max_len=20,
        max_width=4,
        span_mode="markerV0",
        subtoken_pooling="first",
        dropout=0.0,
    )
    torch.manual_seed(0)
    model = UniEncoderSpanGLiNER(config, tokenizer=tokenizer, backbone_from_pretrained=False)
    UniEncoderSpanGLiNER._resize_token_embeddings(model, config, tokenizer, True)
    model.save_pretrained(folder, safe_serialization=True)
    return folder
