"""Mentions by a GLiNER model, which looks for what some words name, from a folder of the user's.

The folder must hold all that is loaded: weights as safetensors, the tokenizer, and the settings of
the encoder. A model that names parts elsewhere, or code of its own, is refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kglink.errors import ModelError
from kglink.models.loading import GLINER_CONFIG, library_errors, load_gliner
from kglink.models.model_json import check_folder, read_json
from kglink.models.source import check_config
from kglink.plugins import Names
from kglink.records import Span
from kglink_plugins.detectors.models.pieces import spans_of_pieces
from kglink_plugins.plugin import GlinerSettings

_NEEDED = ("model.safetensors", "tokenizer.json", "tokenizer_config.json")
#: Settings that name a second model, which would be looked for elsewhere.
_ELSEWHERE = ("labels_encoder", "labels_decoder")


class GlinerDetector:
    """Asks a model for the mentions of some labels."""

    def __init__(self, settings: GlinerSettings, names: Names) -> None:
        folder = settings.folder.expanduser()
        config = _checked(folder)
        self._model = load_gliner(folder, config)
        self._name = str(folder)
        self._words = max(8, int(config.get("max_len") or 384))
        self._labels = list(settings.labels)
        self._threshold = settings.threshold

    def detect(self, text: str) -> list[Span]:
        """The mentions with their probabilities."""
        return spans_of_pieces(text, self._words, self._words // 4, self._spans)

    def _spans(self, piece: str) -> Iterator[Span]:
        if not piece.strip():
            return
        with library_errors("GLiNER cannot read a text", self._name):
            found = self._model.predict_entities(piece, self._labels, threshold=self._threshold)
        for one in found:
            yield Span(one["start"], one["end"], float(one["score"]))


def _checked(folder: Path) -> dict[str, Any]:
    """The settings of a model that needs nothing from elsewhere."""
    config = read_json(folder / GLINER_CONFIG)
    for name in _NEEDED:
        if not (folder / name).is_file():
            raise ModelError(
                f"{folder}: {name} is missing; pickled weights are never opened",
                hint="Save it anew: model.save_pretrained(folder, safe_serialization=True).",
            )
    encoder = config.get("encoder_config")
    if not isinstance(encoder, dict) or any(config.get(name) for name in _ELSEWHERE):
        raise ModelError(
            f"{folder / GLINER_CONFIG}: names a model elsewhere, which is not fetched",
            hint="Give a model of one encoder whose encoder_config stands in the file.",
        )
    check_config(folder / GLINER_CONFIG, encoder)
    if config.get("words_splitter_type", "whitespace") != "whitespace":
        raise ModelError(f"{folder / GLINER_CONFIG}: only words between spaces are supported")
    check_folder(folder)
    return config
