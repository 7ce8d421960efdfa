"""Mentions by a spaCy pipeline, from a folder of the user's.

A pipeline may name any function that an installed package registers with spaCy, so loading one
trusts the packages of the environment, and none that the folder brings. Pickled parts are refused:
to open them could run any code that stands in them. Pipelines with a transformer have such parts.
"""

from __future__ import annotations

import mmap
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import spacy

from kglink.errors import ModelError
from kglink.models.loading import library_errors, load_spacy
from kglink.models.model_json import shown
from kglink.plugins import Names
from kglink.records import Span
from kglink_plugins.detectors.models.pieces import spans_of_pieces
from kglink_plugins.plugin import SpacySettings

#: Words that are read at once, and those that two such pieces have in common.
_WORDS, _COMMON = 20_000, 200
#: What a file of pickled tensors has as its first member.
_TORCH = b"/data.pkl"
_PICKLE = 0x80
#: Settings that load from elsewhere, and which values of them do not.
_ELSEWHERE: Mapping[str, Callable[[Any], bool]] = {
    "source": lambda value: value is None,
    "@callbacks": lambda value: value != "spacy.copy_from_base_model.v1",
    "trust_remote_code": lambda value: value is False,
}
_PROTOCOLS = range(2, 6)


class SpacyDetector:
    """Runs a pipeline."""

    def __init__(self, settings: SpacySettings, names: Names) -> None:
        folder = settings.folder.expanduser()
        if not (folder / "config.cfg").is_file():
            raise ModelError(
                f"{folder}: is no spaCy pipeline: it has no config.cfg",
                hint="Name the folder that nlp.to_disk wrote; packages are not loaded by name.",
            )
        _refuse_pickles(folder)
        _refuse_other_pipelines(folder / "config.cfg")
        self._pipeline = load_spacy(folder)
        self._types = frozenset(settings.types)
        self._group = settings.spans

    def detect(self, text: str) -> list[Span]:
        """The entities of the pipeline, or the spans of a group with their scores."""
        return spans_of_pieces(text, _WORDS, _COMMON, self._spans)

    def _spans(self, piece: str) -> Iterator[Span]:
        found = self._pipeline(piece)
        group: Any = found.spans.get(self._group, ()) if self._group else found.ents
        scores = getattr(group, "attrs", {}).get("scores")
        for at, span in enumerate(group):
            if not self._types or span.label_ in self._types:
                score = 1.0 if scores is None else float(scores[at])
                yield Span(span.start_char, span.end_char, score)


def _refuse_other_pipelines(path: Path) -> None:
    """Refuse settings that load a pipeline or a model from elsewhere, where nothing was checked."""
    with library_errors("spaCy cannot read it", path):
        config = spacy.util.load_config(path, interpolate=False)
    waiting: list[Any] = [config.get("nlp"), config.get("components")]
    while waiting:
        one = waiting.pop()
        if not isinstance(one, dict):
            continue
        waiting += one.values()
        for key, allowed in _ELSEWHERE.items():
            if key in one and not allowed(one[key]):
                raise ModelError(
                    f"{path}: {key} = {shown(one[key])} loads what lies elsewhere",
                    hint="Load the pipeline with spaCy, and save it whole: nlp.to_disk(folder).",
                )


def _refuse_pickles(folder: Path) -> None:
    """Refuse a folder with a pickle, or with a file that holds pickled tensors."""
    for path in sorted(folder.rglob("*")):
        if not path.is_file() or not path.stat().st_size:
            continue
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            marked = len(data) > 2 and data[0] == _PICKLE and data[1] in _PROTOCOLS
            pickled = (marked and data[-1:] == b".") or data.find(_TORCH) >= 0
        if pickled:
            raise ModelError(
                f"{path}: is pickled, and kglink never opens such a file: unpickling can run any "
                "code in it",
                hint="Of a transformer give its own folder to the detector kglink/huggingface.",
            )
