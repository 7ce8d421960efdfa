"""Loading: which tower fits a model folder, for training and for searching."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from safetensors import SafetensorError
from torch import Tensor

from kglink.errors import ModelError
from kglink.models.hardware import Hardware
from kglink.models.loading import load_tensors, load_transformer
from kglink.models.packed import PackedBert, PackedTower, is_plain_bert, modern_name
from kglink.models.padded import PaddedTower
from kglink.models.source import ModelSource, read_config
from kglink.models.static_folder import STATIC, read_table
from kglink.models.tower import DTYPES, LaidTexts, StateModel, Tower, added_rows

#: Families with a decoder that transformers also lists under masked language models.
_WITH_DECODER = frozenset({"bart", "mbart", "mvp", "perceiver", "reformer", "funnel"})


def load_states(source: ModelSource, hardware: Hardware, *, int8: bool = False) -> StateModel:
    """The model of a folder of Hugging Face, or a static one, for searching; ``int8``: rounded."""
    dtype, device = DTYPES[hardware.precision], torch.device(hardware.device)
    if STATIC.is_there(source.path):
        return TokenTable(torch.from_numpy(read_table(source.path)).to(device))
    config = read_config(source.path)
    if not is_plain_bert(config):
        if int8:
            raise no_int8(source)
        model = load_transformer("AutoModel", source, dtype=dtype)
        return PaddedTower(model, config, source.dim, dtype).to(device)
    return PackedBert(_packed_tower(source, config), dtype, device, int8=int8)


def no_int8(source: ModelSource) -> ModelError:
    """The refusal of int8 for a model that only a library runs."""
    return ModelError(
        f"{source.name}: int8 is for BERT encoders with mean or cls pooling",
        hint="Set encoder.precision to auto.",
    )


class TokenTable:
    """A static model: the state of a token is its row of the table, whatever stands beside it."""

    def __init__(self, table: Tensor) -> None:
        self.rows, self.dim = table.shape
        self._table = table

    def states(self, texts: LaidTexts) -> Tensor:
        """One row for each token."""
        return torch.nn.functional.embedding(texts.ids, self._table)


def load_tower(source: ModelSource, hardware: Hardware, *, rows: int = 0) -> Tower:
    """The tower of a model folder, in training mode; ``rows`` of word embeddings at least."""
    config = tower_config(source)
    rows = max(rows, int(config.get("vocab_size") or 0))
    dtype = training_dtype(hardware)
    if not is_plain_bert(config):
        model = load_transformer("AutoModel", source, dtype=torch.float32)
        words = model.get_input_embeddings()
        if rows > len(words.weight):
            table = added_rows(words.weight.detach(), rows)
            model.resize_token_embeddings(rows, mean_resizing=False)
            with torch.no_grad():
                model.get_input_embeddings().weight.copy_(table)
        return PaddedTower(model.train(), config, source.dim, dtype).to(hardware.device)
    return _packed_tower(source, config, rows, dtype).to(hardware.device)


def tower_config(source: ModelSource) -> dict[str, Any]:
    """The config.json of a tower; refused where it is no encoder that sees both sides of a word."""
    if source.chain.by_library:
        raise ModelError(
            f"{source.name}: has modules beside its encoder, which towers cannot have",
            hint="Use it as it is, or train an encoder with mean or cls pooling alone.",
        )
    config = read_config(source.path)
    kind = str(config.get("model_type", ""))
    if is_plain_bert(config):
        return config
    from transformers.models.auto.modeling_auto import MODEL_FOR_MASKED_LM_MAPPING_NAMES

    if (
        config.get("is_decoder")
        or config.get("is_encoder_decoder")
        or kind in _WITH_DECODER
        or kind not in MODEL_FOR_MASKED_LM_MAPPING_NAMES
    ):
        raise ModelError(
            f"{source.name}: is {kind or 'of no named kind'}, and towers are encoders like BERT",
            hint="Give BERT, RoBERTa, DistilBERT, MiniLM or another such encoder.",
        )
    return config


def training_dtype(hardware: Hardware) -> torch.dtype:
    """What products are computed in: bf16 where the hardware gains from it, else fp32.

    Never fp16: gradients would leave its range.
    """
    return torch.bfloat16 if hardware.precision == "bf16" else torch.float32


def _packed_tower(
    source: ModelSource,
    config: Mapping[str, Any],
    rows: int = 0,
    dtype: torch.dtype = torch.float32,
) -> PackedTower:
    """The tower of a plain BERT; without ``rows`` its weights are those of the file, not copied."""
    try:
        weights: dict[str, Tensor] = {}
        for path in source.weights:
            weights |= load_tensors(path)
        tables = {
            modern_name(name): len(own) for name, own in weights.items() if own.ndim and len(own)
        }
        wanted = rows or tables["embeddings.word_embeddings.weight"]
        if rows:
            _check_sizes(config, rows, weights)
        with torch.device("cpu" if rows else "meta"):
            tower = PackedTower(config, wanted, dtype)
        tower.load(weights)
    except SafetensorError as error:
        raise ModelError(f"{source.path}: the weights cannot be read: {error}") from error
    except ModelError as error:
        raise ModelError(f"{source.path}: {error.message}", hint=error.hint) from error
    except (KeyError, TypeError, RuntimeError, ValueError, MemoryError) as error:
        raise ModelError(
            f"{source.path}: the weights do not fit config.json: {error}",
            hint="Give weights and configuration of one and the same model.",
        ) from error
    return tower


def _check_sizes(config: Mapping[str, Any], rows: int, weights: Mapping[str, Tensor]) -> None:
    """Refuse a BERT of far more parameters than it has weights, before memory is taken."""
    dim, inner = int(config["hidden_size"]), int(config["intermediate_size"])
    tables = rows + int(config["max_position_embeddings"])
    wanted = dim * (tables + int(config["num_hidden_layers"]) * (4 * dim + 2 * inner))
    there = sum(value.numel() for value in weights.values())
    if wanted > 2 * there:  # a few rows are added for tags
        raise ValueError(f"it speaks of {wanted:,} numbers, and the files have {there:,}")
