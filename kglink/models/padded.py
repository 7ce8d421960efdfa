"""Any other encoder: a transformers model over batches padded to their longest text."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from kglink.errors import ModelError
from kglink.models.hardware import Hardware
from kglink.models.tower import (
    DTYPES,
    Change,
    LaidTexts,
    StateModel,
    TokenBatch,
    Tower,
    copied,
)

#: Where families keep their layers.
_LAYERS = ("encoder.layer", "transformer.layer", "encoder.layers", "layers")


class PaddedTower(Tower):
    """A transformers model, in training or as it is searched with."""

    def __init__(self, model: Any, config: Mapping[str, Any], dim: int, dtype: torch.dtype) -> None:
        super().__init__()
        self.rows = len(model.get_input_embeddings().weight)
        self.config = {**config, "vocab_size": self.rows}
        self.dim = dim
        self.dtype = dtype
        self.model = model
        self._layers = _find_layers(model)
        self.depth = len(self._layers or ())
        self._pad_id = getattr(model.config, "pad_token_id", None) or 0

    def forward(self, batch: TokenBatch) -> Tensor:
        """The last states, (tokens, dim), in packed order."""
        with torch.autocast(batch.ids.device.type, self.dtype, enabled=self.dtype != torch.float32):
            return self._states(LaidTexts(batch.ids, batch.lengths.tolist(), batch.kinds))

    def views(
        self, batch: TokenBatch, layer: int, change: Change, *, plain: bool = True
    ) -> list[Tensor]:
        """The last states, if ``plain``, then those with ``change`` after ``layer``.

        The lower layers run twice, since transformers cannot be entered in the middle, but what
        they make the second time is dropped: both views stand on the same lower states.
        """
        self.check_layer(layer)
        if layer == self.depth:
            states = self.forward(batch)
            return [*[states] * plain, change(states)]
        seen: list[Tensor] = []

        def keep(hidden: Tensor) -> Tensor:
            seen.append(hidden)
            return hidden

        states = self._hooked(batch, layer, keep)
        changed = self._hooked(batch, layer, lambda _: self._change_rows(seen[0], batch, change))
        return [*[states] * plain, changed]

    def states(self, texts: LaidTexts) -> Tensor:
        """The last states, (tokens, dim) in fp32."""
        if texts.steps is not None:
            raise ModelError(
                "padding between two texts is for plain BERT, and this model is another",
                hint="Set reranker.padded = false.",
            )
        return self._states(texts).float()

    def snapshot(self, hardware: Hardware) -> StateModel:
        """What it is now, for searching: later training does not change it."""
        dtype = DTYPES[hardware.precision]
        model = copy.deepcopy(self.model).to(dtype).eval()
        return PaddedTower(model, self.config, self.dim, dtype).to(hardware.device)

    def weights(self) -> dict[str, Tensor]:
        """Its weights under the names of Hugging Face, fp32 on the CPU."""
        return copied(self.model.state_dict())

    def freeze_embeddings(self, frozen: bool = True) -> None:
        """Leave the embeddings as they are in training, or train them too."""
        part = getattr(self.model, "embeddings", None)
        words = part if isinstance(part, nn.Module) else self.model.get_input_embeddings()
        words.requires_grad_(not frozen)

    def check_layer(self, layer: int) -> None:
        """Refuse a layer that it does not have, or a model whose layers are not to be found."""
        if self._layers is None:
            raise ModelError(
                f"{type(self.model).__name__} cannot be cut after a layer, and the "
                "transformational encoder needs that",
                hint="Use an encoder whose layers stand in a row, such as BERT or RoBERTa.",
            )
        super().check_layer(layer)

    def _hooked(self, batch: TokenBatch, layer: int, use: Change) -> Tensor:
        """A pass in which ``use`` may replace what ``layer + 1`` is given."""
        layers: Any = self._layers
        handle = layers[layer].register_forward_pre_hook(_replacing(use), with_kwargs=True)
        try:
            return self.forward(batch)
        finally:
            handle.remove()

    def _states(self, texts: LaidTexts) -> Tensor:
        ids, lengths, kinds, _ = texts

        def padded(values: Tensor, padding: int) -> Tensor:
            rows = list(torch.split(values, list(lengths)))
            return nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=padding)

        mask = _mask(torch.tensor(lengths, device=ids.device))
        # A model with a single type of tokens gets none.
        knows = int(self.config.get("type_vocab_size") or 0) > 1
        types = {} if kinds is None or not knows else {"token_type_ids": padded(kinds, 0)}
        output = self.model(
            input_ids=padded(ids, self._pad_id), attention_mask=mask.long(), **types
        )
        found: Tensor = output.last_hidden_state[mask]
        return found

    def _change_rows(self, hidden: Tensor, batch: TokenBatch, change: Change) -> Tensor:
        """Change the tokens of padded states; what stands in the padding stays."""
        flat = hidden.reshape(-1, hidden.shape[-1])
        places = _mask(batch.lengths).flatten().nonzero().squeeze(1)
        return flat.index_copy(0, places, change(flat[places])).view(hidden.shape)


def _mask(lengths: Tensor) -> Tensor:
    """(texts, longest), true where a text has a token."""
    return torch.arange(int(lengths.max()), device=lengths.device) < lengths.unsqueeze(1)


def _find_layers(model: nn.Module) -> nn.ModuleList | None:
    for path in _LAYERS:
        try:
            found = model.get_submodule(path)
        except AttributeError:
            continue
        if isinstance(found, nn.ModuleList):
            return found
    return None


def _replacing(use: Change) -> Callable[..., Any]:
    """A hook that puts ``use(hidden)`` in the place of a layer's hidden states."""

    def hook(_: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if args:
            return (use(args[0]), *args[1:]), kwargs
        return args, {**kwargs, "hidden_states": use(kwargs["hidden_states"])}

    return hook
