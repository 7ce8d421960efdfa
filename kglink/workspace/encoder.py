"""The workspace's encoder, loaded when the first text has to be encoded."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from kglink.config import EncoderSection
from kglink.encoding import ModelSource, load_encoder, resolve_model
from kglink.space.manifest import ModelInfo

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kglink.encoding.runtime import Encoder


class LazyEncoder:
    """An encoder that checks its weights when it is named and loads them when it is used.

    Building a space whose vectors are all there, or asking what a space is made of, takes no
    torch.
    """

    def __init__(self, settings: EncoderSection) -> None:
        self._settings = settings
        self._source: ModelSource | None = None
        self._encoder: Encoder | None = None

    @property
    def source(self) -> ModelSource:
        """The checked model folder."""
        if self._source is None:
            self._source = resolve_model(self._settings.model)
        return self._source

    @property
    def info(self) -> ModelInfo:
        """What a space records of its model."""
        source = self.source
        return ModelInfo(name=source.name, fingerprint=source.fingerprint, dim=source.dim)

    @property
    def loaded(self) -> Encoder:
        """The encoder itself."""
        if self._encoder is None:
            self._encoder = load_encoder(
                self.source, precision=self._settings.precision, device=self._settings.device
            )
        return self._encoder

    @property
    def truncated(self) -> int:
        """How many texts were longer than the model reads."""
        return self._encoder.truncated if self._encoder else 0

    @property
    def max_tokens(self) -> int:
        """The longest text that is read to its end, in tokens."""
        return self.source.max_tokens

    def count_truncated(self, texts: Sequence[str]) -> int:
        """How many of some texts are longer than that."""
        return self.loaded.count_truncated(texts)

    def encode(
        self, texts: Sequence[str], *, progress: Callable[[int], None] | None = None
    ) -> npt.NDArray[np.float32]:
        """One vector of length one for each text."""
        return self.loaded.encode(texts, progress=progress)
