"""Towers: encoders that are trained, over packed texts, and that can be cut after a layer.

A plain BERT is computed here without padding and in the hardware's fastest precision; its
parameters are fp32 and have the names of Hugging Face. Any other BERT-like model goes through
transformers (`kglink.models.padded`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F  # noqa: N812 - the name that torch's documentation uses
from torch import Tensor, nn

from kglink.errors import ConfigError, ModelError
from kglink.models.bert import ACTIVATIONS, modern_name
from kglink.models.kernels import add_norm, attend, dropout
from kglink.models.packing import TokenBatch

#: Changes the states after a layer: the transformation, and any test's own.
Change = Callable[[Tensor], Tensor]


class Views(NamedTuple):
    """The last states of a batch as they are, and with the states after some layer changed."""

    plain: Tensor | None
    changed: Tensor


class Tower(nn.Module, ABC):
    """A trainable encoder: packed token ids in, the states of its last layer out."""

    config: Mapping[str, Any]
    """Its config.json, with as many vocabulary rows as it has."""
    dim: int
    depth: int
    """How many layers it has: it can be cut after layer 0 (the embeddings) to ``depth``."""

    @abstractmethod
    def forward(self, batch: TokenBatch) -> Tensor:
        """The last states, (tokens, dim), in packed order."""

    @abstractmethod
    def views(self, batch: TokenBatch, layer: int, change: Change, *, plain: bool = True) -> Views:
        """The last states without and with ``change`` after ``layer``; lower layers run once."""

    @abstractmethod
    def weights(self) -> dict[str, Tensor]:
        """Its weights under the names of Hugging Face, fp32 on the CPU."""

    @abstractmethod
    def freeze_embeddings(self, frozen: bool = True) -> None:
        """Leave the embeddings and their norm as they are in training, or train them too."""

    def check_layer(self, layer: int) -> None:
        """Refuse a layer that it does not have."""
        if not 0 <= layer <= self.depth:
            raise ConfigError(
                f"the transformation stands after layer {layer}, and the model has {self.depth}",
                hint=f"Give a layer from 0 (behind the embeddings) to {self.depth}.",
            )


class BertTower(Tower):
    """A BERT over packed texts; ``dtype`` is what its products are computed in."""

    def __init__(
        self, config: Mapping[str, Any], rows: int, dtype: torch.dtype = torch.float32
    ) -> None:
        super().__init__()
        self.config = {**config, "vocab_size": rows}
        self.dim = int(config["hidden_size"])
        self.depth = int(config["num_hidden_layers"])
        self.dtype = dtype
        self._heads = int(config["num_attention_heads"])
        self._eps = float(config.get("layer_norm_eps", 1e-12))
        self._gelu = ACTIVATIONS[config.get("hidden_act", "gelu")]
        self._hidden_dropout = float(config.get("hidden_dropout_prob", 0.1))
        self._attention_dropout = float(config.get("attention_probs_dropout_prob", 0.1))
        self.embeddings = nn.ModuleDict(
            {
                "word_embeddings": nn.Embedding(rows, self.dim),
                "position_embeddings": nn.Embedding(
                    int(config["max_position_embeddings"]), self.dim
                ),
                "token_type_embeddings": nn.Embedding(
                    int(config.get("type_vocab_size", 2)), self.dim
                ),
                "LayerNorm": nn.LayerNorm(self.dim, eps=self._eps),
            }
        )
        inner = int(config["intermediate_size"])
        layers = [_layer(self.dim, inner, self._eps) for _ in range(self.depth)]
        self.encoder = nn.ModuleDict({"layer": nn.ModuleList(layers)})

    def forward(self, batch: TokenBatch) -> Tensor:
        """The last states, (tokens, dim), in packed order."""
        return self._run(self._embed(batch), batch, self._layers)

    def views(self, batch: TokenBatch, layer: int, change: Change, *, plain: bool = True) -> Views:
        """The last states without and with ``change`` after ``layer``; lower layers run once."""
        self.check_layer(layer)
        below = self._run(self._embed(batch), batch, self._layers[:layer])
        upper = self._layers[layer:]
        states = self._run(below, batch, upper) if plain else None
        return Views(states, self._run(change(below), batch, upper))

    def weights(self) -> dict[str, Tensor]:
        """Its weights under the names of Hugging Face, fp32 on the CPU."""
        return copied(self.state_dict())

    def freeze_embeddings(self, frozen: bool = True) -> None:
        """Leave the embeddings and their norm as they are in training, or train them too."""
        self.embeddings.requires_grad_(not frozen)

    def load(self, weights: Mapping[str, Tensor]) -> None:
        """Take the weights of a checkpoint, and make the rows that its vocabulary lacks."""
        own = self.state_dict()
        given = {modern_name(name): value for name, value in weights.items()}
        words = "embeddings.word_embeddings.weight"
        if words in given and len(given[words]) < len(own[words]):
            given[words] = added_rows(given[words], len(own[words]))
        missing = sorted(own.keys() - given.keys())
        if missing:
            raise ModelError(
                f"the weights do not fit config.json: {missing[0]} is missing",
                hint="Give weights and configuration of one and the same model.",
            )
        for name, value in own.items():
            found = given[name]
            if value.shape != found.shape:
                raise ModelError(
                    f"the weights do not fit config.json: {name} is {tuple(found.shape)} "
                    f"and not {tuple(value.shape)}",
                    hint="Give weights and configuration of one and the same model.",
                )
            value.copy_(found)

    @property
    def _layers(self) -> Sequence[Any]:
        layers: Any = self.encoder["layer"]
        return list(layers)

    def _embed(self, batch: TokenBatch) -> Tensor:
        part: Any = self.embeddings
        kind = part["token_type_embeddings"].weight[0]
        positions = F.embedding(batch.steps, part["position_embeddings"].weight + kind)
        summed = part["word_embeddings"](batch.ids) + positions
        states: Tensor = part["LayerNorm"](summed).to(self.dtype)
        return dropout(states, self._chance(self._hidden_dropout))

    def _run(self, states: Tensor, batch: TokenBatch, layers: Sequence[Any]) -> Tensor:
        for layer in layers:
            states = self._one(layer, states, batch)
        return states

    def _one(self, layer: Any, states: Tensor, batch: TokenBatch) -> Tensor:
        attention = layer["attention"]
        hidden, chance = map(self._chance, (self._hidden_dropout, self._attention_dropout))
        qkv = F.linear(states, *self._qkv(attention["self"]))
        attended = attend(qkv, batch.buckets, self._heads, chance)
        output = attention["output"]
        added = self._linear(output["dense"], attended)
        norm = output["LayerNorm"]
        states = add_norm(added, states, norm.weight, norm.bias, self._eps, hidden)
        inner = F.gelu(self._linear(layer["intermediate"]["dense"], states), approximate=self._gelu)
        added = self._linear(layer["output"]["dense"], inner)
        norm = layer["output"]["LayerNorm"]
        return add_norm(added, states, norm.weight, norm.bias, self._eps, hidden)

    def _qkv(self, part: Any) -> tuple[Tensor, Tensor]:
        """One product for queries, keys and values; the queries' weights hold the scale."""
        scale = (self.dim // self._heads) ** -0.5
        query, others = part["query"], (part["key"], part["value"])
        weights = [query.weight * scale, *(other.weight for other in others)]
        biases = [query.bias * scale, *(other.bias for other in others)]
        return torch.cat(weights).to(self.dtype), torch.cat(biases).to(self.dtype)

    def _linear(self, part: Any, values: Tensor) -> Tensor:
        return F.linear(values, part.weight.to(self.dtype), part.bias.to(self.dtype))

    def _chance(self, dropout_rate: float) -> float:
        return dropout_rate if self.training else 0.0


def copied(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Tensors in fp32 on the CPU that later training does not change."""
    return {
        name: value.detach().to("cpu", torch.float32, copy=True) for name, value in state.items()
    }


def added_rows(table: Tensor, rows: int) -> Tensor:
    """A table of embeddings with more rows, random, but the same each time and like the others."""
    table = table.to(torch.float32)
    generator = torch.Generator().manual_seed(rows)
    drawn = torch.randn(rows - len(table), table.shape[1], generator=generator)
    return torch.cat([table, table.mean(dim=0) + table.std(dim=0) * drawn])


def _layer(dim: int, inner: int, eps: float) -> nn.ModuleDict:
    """The parameters of one layer, under the names of Hugging Face."""
    parts = {part: nn.Linear(dim, dim) for part in ("query", "key", "value")}
    attended = {"dense": nn.Linear(dim, dim), "LayerNorm": nn.LayerNorm(dim, eps=eps)}
    return nn.ModuleDict(
        {
            "attention": nn.ModuleDict(
                {"self": nn.ModuleDict(parts), "output": nn.ModuleDict(attended)}
            ),
            "intermediate": nn.ModuleDict({"dense": nn.Linear(dim, inner)}),
            "output": nn.ModuleDict(
                {"dense": nn.Linear(inner, dim), "LayerNorm": nn.LayerNorm(dim, eps=eps)}
            ),
        }
    )
