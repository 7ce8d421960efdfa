"""BERT over packed texts, without transformers: as it is trained, and faster for searching.

Every linear layer is one matrix product over all tokens of a batch. The weights are read from
the checkpoint itself, which spares the import of transformers.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import groupby
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F  # noqa: N812 - the name that torch's documentation uses
from torch import Tensor, nn

from kglink.errors import ModelError
from kglink.models.hardware import Hardware
from kglink.models.int8 import int8_linear
from kglink.models.kernels import add_norm, attend, dot_product_attention, dropout
from kglink.models.settings import Pooling
from kglink.models.tower import (
    DTYPES,
    Bucket,
    Change,
    LaidTexts,
    StateModel,
    TokenBatch,
    Tower,
    added_rows,
    copied,
)

#: From this length on, torch's fused CPU kernel is faster than two products: by 60% at 256. How
#: many texts there are must not choose: a text's vector is the same whatever it is encoded with.
_FUSED_FROM = 96
#: Batches have a multiple of this number of rows, small ones of fewer.
_ROWS, _FEW_TOKENS, _FEW_ROWS = 128, 512, 16
#: Weight and bias.
_Pair = tuple[Tensor, Tensor]
_Linear = Callable[[Tensor], Tensor]
ACTIVATIONS = {"gelu": "none", "gelu_new": "tanh", "gelu_pytorch_tanh": "tanh"}


class _Layer(NamedTuple):
    """The weights of one transformer layer; query, key and value stand in one matrix."""

    qkv: _Linear
    attended: _Linear
    attended_norm: _Pair
    up: _Linear
    down: _Linear
    output_norm: _Pair


def is_plain_bert(config: Mapping[str, Any]) -> bool:
    """Whether a configuration describes the architecture that `PackedBert` computes."""
    return (
        config.get("model_type") == "bert"
        and config.get("hidden_act", "gelu") in ACTIVATIONS
        and config.get("position_embedding_type", "absolute") == "absolute"
        and not config.get("is_decoder", False)
    )


class PackedBert:
    """A BERT encoder over batches without padding, for searching.

    A batch is a run of texts sorted by length; attention takes the texts of one length at a
    time, so nothing is padded and nothing masked. With ``int8`` its linear layers are rounded.
    """

    def __init__(
        self,
        tower: PackedTower,
        dtype: torch.dtype,
        device: torch.device,
        *,
        int8: bool = False,
    ) -> None:
        def held(part: Iterable[Tensor], dtype: torch.dtype = dtype) -> _Pair:
            weight, bias = (one.detach().to(device, dtype) for one in part)
            return weight, bias

        def linear(part: Iterable[Tensor], norm: _Pair | None = None) -> _Linear:
            weight, bias = held(part)
            if int8:
                return int8_linear(weight, bias, norm)
            return partial(F.linear, weight=weight, bias=bias)

        self.dim, self.rows = tower.dim, int(tower.config["vocab_size"])
        self._heads, self._eps, self._gelu = tower._heads, tower._eps, tower._gelu
        self._dtype, self._device = dtype, device
        parts: Any = tower.embeddings
        # Embeddings stay in fp32: they are looked up, not multiplied, and cost no time.
        self._words, positions, kinds = (
            parts[f"{name}_embeddings"].weight.detach().to(device)
            for name in ("word", "position", "token_type")
        )
        self._positions = positions + kinds[0]
        #: What a token of a second text has besides; nothing where the model knows but one kind.
        self._second = kinds[1] - kinds[0] if len(kinds) > 1 else None
        # The norm of the embeddings is computed in fp32, those of the layers in `dtype`.
        self._norm = held(parts["LayerNorm"].parameters(), torch.float32)
        self._layers: list[_Layer] = []
        before = self._norm
        for layer in tower._layers:
            attention, output = layer["attention"], layer["output"]
            attended_norm = held(attention["output"]["LayerNorm"].parameters())
            output_norm = held(output["LayerNorm"].parameters())
            self._layers.append(
                _Layer(
                    qkv=linear(_qkv(attention["self"], self._heads), before),
                    attended=linear(attention["output"]["dense"].parameters()),
                    attended_norm=attended_norm,
                    up=linear(layer["intermediate"]["dense"].parameters(), attended_norm),
                    down=linear(output["dense"].parameters()),
                    output_norm=output_norm,
                )
            )
            before = output_norm

    def states(self, texts: LaidTexts) -> Tensor:
        """The last states, (tokens, dim)."""
        groups, tokens = group_lengths(texts.lengths), len(texts.ids)
        states = self._embed(texts, groups)
        if self._device.type == "cpu":
            # It compiles its products for each size of a matrix, and keeps few of them.
            spare = -tokens % (_ROWS if tokens > _FEW_TOKENS else _FEW_ROWS)
            states = F.pad(states, (0, 0, 0, spare))
        for layer in self._layers:
            states = self._run(layer, states, groups)
        return states[:tokens]

    def _embed(self, texts: LaidTexts, groups: Sequence[Bucket]) -> Tensor:
        if texts.steps is None:
            own = [self._positions[: group.length].repeat(group.texts, 1) for group in groups]
            summed = F.embedding(texts.ids, self._words) + torch.cat(own)
        else:
            positions = F.embedding(texts.steps, self._positions)
            summed = F.embedding(texts.ids, self._words) + positions
        if texts.kinds is not None and self._second is not None:
            summed += texts.kinds.unsqueeze(1) * self._second
        return F.layer_norm(summed, (self.dim,), *self._norm, self._eps).to(self._dtype)

    def _run(self, layer: _Layer, states: Tensor, groups: Sequence[Bucket]) -> Tensor:
        attended = layer.attended(self._attend(layer.qkv(states), groups))
        states = F.layer_norm(states + attended, (self.dim,), *layer.attended_norm, self._eps)
        hidden = F.gelu(layer.up(states), approximate=self._gelu)
        output = layer.down(hidden)
        return F.layer_norm(states + output, (self.dim,), *layer.output_norm, self._eps)

    def _attend(self, qkv: Tensor, groups: Sequence[Bucket]) -> Tensor:
        """Self-attention of each group; the query weights already hold the scale."""
        out = qkv.new_zeros(len(qkv), self.dim)
        for group in groups:
            shape = (group.texts, group.length, 3, self._heads, -1)
            query, key, value = qkv[group.tokens].view(shape).permute(2, 0, 3, 1, 4)
            if qkv.is_cuda or group.length >= _FUSED_FROM:
                mixed = dot_product_attention(query, key, value)
            else:
                mixed = torch.softmax(query @ key.transpose(-1, -2), dim=-1) @ value
            mixed = mixed.transpose(1, 2)
            out[group.tokens].view(mixed.shape).copy_(mixed)
        return out


class PackedTower(Tower):
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
        positions, kinds = int(config["max_position_embeddings"]), config.get("type_vocab_size", 2)
        self.embeddings = _parts(
            word_embeddings=_embedding(rows, self.dim),
            position_embeddings=_embedding(positions, self.dim),
            token_type_embeddings=_embedding(int(kinds), self.dim),
            LayerNorm=nn.LayerNorm(self.dim, eps=self._eps),
        )
        inner = int(config["intermediate_size"])
        layers = [_layer(self.dim, inner, self._eps) for _ in range(self.depth)]
        self.encoder = _parts(layer=nn.ModuleList(layers))

    def forward(self, batch: TokenBatch) -> Tensor:
        """The last states, (tokens, dim), in packed order."""
        return self._run(self._embed(batch), batch, self._layers)

    def views(
        self, batch: TokenBatch, layer: int, change: Change, *, plain: bool = True
    ) -> list[Tensor]:
        """The last states, if ``plain``, then those with ``change``; lower layers run once."""
        self.check_layer(layer)
        below = self._run(self._embed(batch), batch, self._layers[:layer])
        upper = self._layers[layer:]
        states = [self._run(below, batch, upper)] if plain else []
        return [*states, self._run(change(below), batch, upper)]

    def weights(self) -> dict[str, Tensor]:
        """Its weights under the names of Hugging Face, fp32 on the CPU."""
        return copied(self.state_dict())

    def snapshot(self, hardware: Hardware) -> StateModel:
        """What it is now, for searching: later training does not change it."""
        dtype, device = DTYPES[hardware.precision], torch.device(hardware.device)
        return PackedBert(copy.deepcopy(self), dtype, device)

    def freeze_embeddings(self, frozen: bool = True) -> None:
        """Leave the embeddings and their norm as they are in training, or train them too."""
        self.embeddings.requires_grad_(not frozen)

    def load(self, weights: Mapping[str, Tensor]) -> list[str]:
        """Take the weights of a checkpoint, and make the rows that its vocabulary lacks.

        A tower on the device ``meta`` takes the tensors themselves, others copy them. Returns the
        names that were taken, as the checkpoint has them.
        """
        own = self.state_dict()
        given = {modern_name(name): value for name, value in weights.items()}
        words = "embeddings.word_embeddings.weight"
        if words in given and len(given[words]) < len(own[words]):
            given[words] = added_rows(given[words], len(own[words]))
        for name, value in own.items():
            found = given.get(name)
            if found is None or value.shape != found.shape:
                why = "missing" if found is None else f"{(*found.shape,)} and not {(*value.shape,)}"
                raise ModelError(
                    f"the weights do not fit config.json: {name} is {why}",
                    hint="Give weights and configuration of one and the same model.",
                )
        taken = {name: given[name].to(torch.float32) for name in own}
        self.load_state_dict(taken, assign=next(self.parameters()).is_meta)
        return [name for name in weights if modern_name(name) in own]

    @property
    def _layers(self) -> Sequence[Any]:
        layers: Any = self.encoder["layer"]
        return list(layers)

    def _embed(self, batch: TokenBatch) -> Tensor:
        part: Any = self.embeddings
        kinds = part["token_type_embeddings"].weight
        positions = F.embedding(batch.steps, part["position_embeddings"].weight + kinds[0])
        summed = part["word_embeddings"](batch.ids) + positions
        if batch.kinds is not None and len(kinds) > 1:
            summed = summed + F.embedding(batch.kinds, kinds - kinds[0])
        states: Tensor = part["LayerNorm"](summed).to(self.dtype)
        return dropout(states, self._chance(self._hidden_dropout))

    def _run(self, states: Tensor, batch: TokenBatch, layers: Sequence[Any]) -> Tensor:
        hidden, chance = map(self._chance, (self._hidden_dropout, self._attention_dropout))

        def added(part: Any, values: Tensor, states: Tensor) -> Tensor:
            norm = part["LayerNorm"]
            new = self._linear(part["dense"], values)
            return add_norm(new, states, norm.weight, norm.bias, self._eps, hidden)

        for layer in layers:
            attention = layer["attention"]
            weight, bias = (one.to(self.dtype) for one in _qkv(attention["self"], self._heads))
            qkv = F.linear(states, weight, bias)
            attended = attend(qkv, batch.buckets, self._heads, chance)
            states = added(attention["output"], attended, states)
            inner = self._linear(layer["intermediate"]["dense"], states)
            states = added(layer["output"], F.gelu(inner, approximate=self._gelu), states)
        return states

    def _linear(self, part: Any, values: Tensor) -> Tensor:
        return F.linear(values, part.weight.to(self.dtype), part.bias.to(self.dtype))

    def _chance(self, dropout_rate: float) -> float:
        return dropout_rate if self.training else 0.0


def _embedding(rows: int, dim: int) -> nn.Embedding:
    weight = torch.empty(rows, dim)  # to fill it on `meta`, torch would load its compiler
    return nn.Embedding(rows, dim, _weight=weight if weight.is_meta else None)


def _qkv(part: Any, heads: int) -> _Pair:
    """One product for queries, keys and values; the queries' weights hold the scale."""
    query, others = part["query"], (part["key"], part["value"])
    scale = (len(query.bias) // heads) ** -0.5
    weights = [query.weight * scale, *(other.weight for other in others)]
    biases = [query.bias * scale, *(other.bias for other in others)]
    return torch.cat(weights), torch.cat(biases)


def pool_states(states: Tensor, lengths: Sequence[int], pooling: Pooling) -> Tensor:
    """One fp32 vector for each text, from the states of texts laid end to end."""
    parts = []
    for group in group_lengths(lengths):
        texts = states[group.tokens].view(group.texts, group.length, -1)
        parts.append(texts[:, 0].float() if pooling == "cls" else texts.float().mean(dim=1))
    return torch.cat(parts)


def group_lengths(lengths: Sequence[int]) -> list[Bucket]:
    """The runs of equal length in a batch, in order."""
    groups, start = [], 0
    for length, run in groupby(lengths):
        texts = sum(1 for _ in run)
        groups.append(Bucket(slice(start, start + texts * length), texts, length))
        start += texts * length
    return groups


def modern_name(name: str) -> str:
    """Drop the prefix of a model with a head; the first BERT files say gamma and beta."""
    name = name.removeprefix("bert.")
    return name.replace("LayerNorm.gamma", "LayerNorm.weight").replace(
        "LayerNorm.beta", "LayerNorm.bias"
    )


def _layer(dim: int, inner: int, eps: float) -> nn.ModuleDict:
    """The parameters of one layer, under the names of Hugging Face."""
    query, key, value, attended = (nn.Linear(dim, dim) for _ in range(4))
    up, down = nn.Linear(dim, inner), nn.Linear(inner, dim)
    norms = [nn.LayerNorm(dim, eps=eps) for _ in range(2)]
    return _parts(
        attention=_parts(
            self=_parts(query=query, key=key, value=value),
            output=_parts(dense=attended, LayerNorm=norms[0]),
        ),
        intermediate=_parts(dense=up),
        output=_parts(dense=down, LayerNorm=norms[1]),
    )


def _parts(**parts: nn.Module) -> nn.ModuleDict:
    return nn.ModuleDict(parts)
