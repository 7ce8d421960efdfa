"""The folders of what kglink trains beside towers: each with a manifest; no torch.

detector.json, reranker.json   what it learnt from, digests of its files
encoder/                       config.json, model.safetensors and the tokenizer, as Hugging Face
                               has them
head.safetensors               the layer that turns states into answers
words.npy                      of a detector: hashes of the words that it learnt from
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import Field

from kglink.errors import ModelError
from kglink.files.atomic import atomic_folder
from kglink.files.manifest import ManifestPart, file_info
from kglink.models.loading import library_errors, load_tensors
from kglink.models.model_folder import (
    BaseInfo,
    FilesManifest,
    ManifestFolder,
    TowerFiles,
    saying_what_is_kept,
    write_tower,
)
from kglink.models.settings import InputSettings
from kglink.models.source import ModelSource, describe_folder
from kglink.models.tag_spans import SpanCalibration

if TYPE_CHECKING:
    from torch import Tensor

ENCODER, HEAD = "encoder", "head.safetensors"


class HeadManifest(FilesManifest):
    """What it says of an encoder with a head."""

    base: BaseInfo
    documents: tuple[str, ...]
    """The KBs whose documents it learnt from."""
    epoch: int = 0
    """The epoch that was kept, from 1."""


HeadKind = TypeVar("HeadKind", bound=HeadManifest)


class HeadFolder(ManifestFolder[HeadKind]):
    """How folders of an encoder with a head are read and written."""

    def write(
        self,
        folder: Path,
        tower: TowerFiles,
        head: Mapping[str, Any],
        manifest: HeadKind,
        more: Callable[[Path], None] = lambda draft: None,
    ) -> HeadKind:
        """Write a folder, whole or not at all; the files of ``manifest`` are filled in.

        ``more`` may write other files of it.
        """
        from safetensors.torch import save_file

        with saying_what_is_kept(folder), atomic_folder(folder) as draft:
            write_tower(draft / ENCODER, tower)
            save_file(dict(head), draft / HEAD)
            more(draft)
            files = sorted(path for path in draft.rglob("*") if path.is_file())
            infos = {path.relative_to(draft).as_posix(): file_info(path) for path in files}
            written = manifest.model_copy(update={"files": infos})
            self.write_manifest(draft, written)
        return written

    def open(
        self, folder: Path, answers: int, device: str = "cpu"
    ) -> tuple[HeadKind, ModelSource, dict[str, Tensor]]:
        """Manifest, encoder and head of a folder, its files checked."""
        manifest = self.read(folder)
        source = describe_folder(str(folder), folder / ENCODER)
        with library_errors("is no file of tensors", folder / HEAD):
            head = load_tensors(folder / HEAD, device)
        shapes = {name: tuple(one.shape) for name, one in head.items()}
        if (shapes.get("weight"), shapes.get("bias")) != ((answers, source.dim), (answers,)):
            raise ModelError(f"{folder / HEAD}: does not fit the encoder", hint=self.damaged)
        return manifest, source, head

    def publish(self, source: Path, folder: Path, manifest: HeadKind) -> None:
        """Put a copy, with another manifest, in the place of ``folder``."""
        with atomic_folder(folder) as draft:
            for name in manifest.files:
                (draft / name).parent.mkdir(parents=True, exist_ok=True)
                try:
                    os.link(source / name, draft / name)  # no file of such a folder is ever changed
                except OSError:
                    shutil.copyfile(source / name, draft / name)
            self.write_manifest(draft, manifest)


# ------------------------------------------------------------------- detector and reranker
class Comparison(ManifestPart):
    """Strict F1 of answers on held-out documents: by this detector, by the dictionary, by both."""

    learned: float
    dictionary: float
    documents: int
    together: float = 0.0

    def with_it(self, alone: bool) -> float:
        """The figure of this detector, alone or beside the dictionary."""
        return self.learned if alone else self.together

    def is_worse(self, alone: bool) -> bool:
        """Whether the dictionary without it is better, as people read the figures."""
        return round(self.with_it(alone), 2) < round(self.dictionary, 2)

    def as_text(self, alone: bool) -> str:
        """Both figures in words."""
        return f"F1 {self.with_it(alone):.2f}, the dictionary alone {self.dictionary:.2f}"


class TaggerManifest(HeadManifest):
    """What ``detector.json`` says."""

    tokens: int = Field(ge=32)
    """Pieces of one window."""
    kbs: tuple[str, ...]
    """The KBs whose entities their mentions mean."""
    types: tuple[str, ...]
    """The types of these mentions, where the documents have types."""
    calibration: SpanCalibration
    foreign: float
    """Texts with a larger share of words that it has not seen are of another kind."""
    compared: Comparison | None = None
    elsewhere: dict[str, Comparison] = Field(default_factory=dict)
    """The same on documents of sources that it has not learnt from, by their names."""

    @property
    def is_better(self) -> bool:
        """Whether the dictionary alone was no better on held-out documents."""
        return self.compared is None or not self.compared.is_worse(self.finds_alone)

    @property
    def finds_alone(self) -> bool:
        """Whether it was better without the dictionary than with it, in all documents compared."""
        all_compared = [one for one in (self.compared, *self.elsewhere.values()) if one]
        gain = sum(one.documents * (one.learned - one.together) for one in all_compared)
        return self.compared is None or gain > 0

    @property
    def figures(self) -> str:
        """What was compared on held-out documents, in words; may be empty."""
        return self.compared.as_text(self.finds_alone) if self.compared else ""

    @property
    def worse_elsewhere(self) -> str:
        """The sources that it has not learnt from where the dictionary is better; may be empty."""
        alone = self.finds_alone
        return ", ".join(
            f"{name} ({one.as_text(alone)})"
            for name, one in self.elsewhere.items()
            if one.is_worse(alone)
        )


#: The folder of a tagger.
TAGGER = HeadFolder(
    "detector.json",
    TaggerManifest,
    "Train it again: `kglink finetune --what detector`.",
)


class AnswersCompared(ManifestPart):
    """Held-out mentions with a right answer first: without the reranker, and with it."""

    without: float
    with_it: float
    mentions: int


class RerankerManifest(HeadManifest):
    """What ``reranker.json`` says."""

    inputs: InputSettings
    tag_ids: tuple[int, int, int]
    segments: bool
    padded: bool = False
    compared: AnswersCompared | None = None


#: The folder of a reranker.
RERANKER = HeadFolder(
    "reranker.json",
    RerankerManifest,
    "Train it again: `kglink finetune --what reranker`.",
)
