"""Making towers: which kind fits a model folder, which precision it trains in."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import torch

from kglink.errors import ModelError
from kglink.models.bert import PackedBert, is_plain_bert
from kglink.models.hardware import Hardware
from kglink.models.models import ModelSource, read_json
from kglink.models.runtime import DTYPES, StateModel, read_weights
from kglink.models.tower import BertTower, Tower

#: Families with a decoder that transformers also lists under masked language models.
_WITH_DECODER = frozenset({"bart", "mbart", "mvp", "perceiver", "reformer", "funnel"})


def load_tower(source: ModelSource, hardware: Hardware, *, rows: int = 0) -> Tower:
    """The tower of a model folder, in training mode; ``rows`` of word embeddings at least."""
    config = read_json(source.path / "config.json")
    check_bert_like(source.name, config)
    rows = max(rows, int(config.get("vocab_size", 0)))
    dtype = training_dtype(hardware)
    if not is_plain_bert(config):
        from kglink.models.padded import load_padded_tower

        return load_padded_tower(source, rows, dtype).to(hardware.device)
    try:
        tower = BertTower(config, rows, dtype)
        tower.load(read_weights(source))
    except (KeyError, RuntimeError, ValueError) as error:
        raise ModelError(
            f"{source.path}: the weights do not fit config.json: {error}",
            hint="Give weights and configuration of one and the same model.",
        ) from error
    return tower.to(hardware.device)


def check_bert_like(name: str, config: Mapping[str, Any]) -> None:
    """Refuse what is no encoder that sees both sides of a word, such as GPT or T5."""
    kind = str(config.get("model_type", ""))
    if is_plain_bert(config):
        return
    from transformers.models.auto.modeling_auto import MODEL_FOR_MASKED_LM_MAPPING_NAMES

    if (
        config.get("is_decoder")
        or config.get("is_encoder_decoder")
        or kind in _WITH_DECODER
        or kind not in MODEL_FOR_MASKED_LM_MAPPING_NAMES
    ):
        raise ModelError(
            f"{name}: is {kind or 'of no named kind'}, and towers are encoders like BERT",
            hint="Give BERT, RoBERTa, DistilBERT, MiniLM or another such encoder.",
        )


def snapshot(tower: Tower, hardware: Hardware) -> StateModel:
    """What a tower is now, for searching: later training does not change it."""
    device, dtype = torch.device(hardware.device), DTYPES[hardware.precision]
    if isinstance(tower, BertTower):
        return PackedBert(tower.config, tower.weights(), dtype, device)
    from kglink.models.padded import PaddedTower, padded_model

    if not isinstance(tower, PaddedTower):
        raise ModelError(f"{type(tower).__name__} is no tower that kglink can search with")
    return padded_model(copy.deepcopy(tower.model).to(dtype), tower.dim, device)


def training_dtype(hardware: Hardware) -> torch.dtype:
    """What products are computed in: bf16 where the hardware gains from it, else fp32.

    Never fp16: gradients would leave its range.
    """
    return torch.bfloat16 if hardware.precision == "bf16" else torch.float32
