"""Any other encoder: a transformers model over batches padded to their longest text."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from kglink.encoding.models import ModelSource, Pooling
from kglink.errors import ModelError


class PaddedModel:
    """A transformers model and its pooling."""

    def __init__(self, model: Any, dim: int, pooling: Pooling, pad_id: int) -> None:
        self.dim = dim
        self._model = model
        self._pooling = pooling
        self._pad_id = pad_id

    def pool(self, ids: Tensor, lengths: Sequence[int]) -> Tensor:
        """One fp32 vector for each text, from the texts' tokens laid end to end."""
        rows = list(torch.split(ids, list(lengths)))
        padded = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=self._pad_id)
        steps = torch.arange(padded.shape[1], device=ids.device)
        mask = steps < torch.tensor(lengths, device=ids.device).unsqueeze(1)
        output = self._model(input_ids=padded, attention_mask=mask.long())
        states: Tensor = output.last_hidden_state.float()
        if self._pooling == "cls":
            return states[:, 0]
        weights = mask.unsqueeze(-1).float()
        return (states * weights).sum(dim=1) / weights.sum(dim=1)


def load_padded(source: ModelSource, dtype: torch.dtype, device: torch.device) -> PaddedModel:
    """Load a model folder with transformers, from safetensors only and without the network."""
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    from transformers import AutoModel

    try:
        with _no_progress_bar():
            model, report = AutoModel.from_pretrained(
                source.path,
                local_files_only=True,
                use_safetensors=True,
                dtype=dtype,
                output_loading_info=True,
            )
    except (OSError, ValueError, KeyError, RuntimeError) as error:
        raise ModelError(f"{source.path}: the model cannot be loaded: {error}") from error
    # transformers fills what it misses with random numbers; only the unused pooler may be missing.
    missing = sorted(name for name in report["missing_keys"] if "pooler" not in name)
    if missing:
        raise ModelError(
            f"{source.path}: the weights do not fit config.json: {missing[0]} is missing",
            hint="Give weights and configuration of one and the same model.",
        )
    pad_id = getattr(model.config, "pad_token_id", None) or 0
    return PaddedModel(model.eval().to(device), source.dim, source.pooling, pad_id)


@contextmanager
def _no_progress_bar() -> Iterator[None]:
    """Keep transformers from drawing a bar, which would spoil a log."""
    from transformers import utils

    logging: Any = utils.logging
    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()
