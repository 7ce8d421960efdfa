"""The folder of a tagger, and the words by which texts of another kind are known; no torch.

detector.json      what it learnt from, how sure it is, digests of its files
encoder/           config.json, model.safetensors and the tokenizer, as Hugging Face has them
head.safetensors   the layer that turns a word's state into its answer
words.npy          hashes of the words that it learnt from
"""

from __future__ import annotations

import json
import os
import re
import shutil
import zlib
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from pydantic import Field

from kglink.errors import DamagedFileError, ModelError
from kglink.files.atomic import atomic_folder, recover_folder
from kglink.files.manifest import FileInfo, ManifestPart, check_files, file_info, read_manifest
from kglink.models.model_folder import BaseInfo, TowerFiles, write_tower
from kglink.models.tag_spans import SpanCalibration

HashArray = npt.NDArray[np.uint32]

MANIFEST, ENCODER, HEAD, VOCABULARY = "detector.json", "encoder", "head.safetensors", "words.npy"
FORMAT = 1
DAMAGED = "Train it again: `kglink finetune --what detector`."
#: A text of fewer words is not judged by them, and of a longer one only so many are looked at.
_LEAST_WORDS, _MOST_WORDS = 8, 20_000
_LETTERS = re.compile(r"[^\W\d_]{3,}")


class Comparison(ManifestPart):
    """Strict F1 on held-out documents: of this detector, and of the dictionary."""

    learned: float
    dictionary: float
    documents: int


class TaggerManifest(ManifestPart):
    """What ``detector.json`` says."""

    format: int = FORMAT
    base: BaseInfo
    tokens: int = Field(ge=32)
    """Pieces of one window."""
    documents: tuple[str, ...]
    """The KBs whose documents it learnt from."""
    kbs: tuple[str, ...]
    """The KBs whose entities their mentions mean."""
    types: tuple[str, ...]
    """The types of these mentions, where the documents have types."""
    calibration: SpanCalibration
    epoch: int = 0
    """The epoch that was kept, from 1."""
    foreign: float
    """Texts with a larger share of words that it has not seen are of another kind."""
    compared: Comparison | None = None
    files: dict[str, FileInfo] = Field(default_factory=dict)
    libraries: dict[str, str] = Field(default_factory=dict)

    @property
    def is_better(self) -> bool:
        """Whether it was not worse than the dictionary on held-out documents."""
        return self.compared is None or self.compared.learned >= self.compared.dictionary


def is_tagger_folder(folder: Path) -> bool:
    """Whether a tagger lies there; one that was half replaced is put back."""
    recover_folder(folder)
    return (folder / MANIFEST).is_file()


def read_tagger(folder: Path, *, check: bool = True) -> TaggerManifest:
    """What a folder says of its tagger; with ``check`` its files are compared with it."""
    recover_folder(folder)
    try:
        manifest = read_manifest(TaggerManifest, folder / MANIFEST, newest=FORMAT)
        if check:
            check_files(folder, manifest.files)
    except DamagedFileError as error:
        raise ModelError(error.message, hint=DAMAGED) from error
    return manifest


def write_tagger(
    folder: Path,
    tower: TowerFiles,
    head: Mapping[str, Any],
    known: HashArray,
    manifest: TaggerManifest,
) -> TaggerManifest:
    """Write a tagger's folder, whole or not at all; the files of ``manifest`` are filled in."""
    from safetensors.torch import save_file

    with atomic_folder(folder) as draft:
        write_tower(draft / ENCODER, tower)
        save_file(dict(head), draft / HEAD)
        np.save(draft / VOCABULARY, known)
        files = sorted(path for path in draft.rglob("*") if path.is_file())
        infos = {path.relative_to(draft).as_posix(): file_info(path) for path in files}
        written = manifest.model_copy(update={"files": infos})
        _write_manifest(draft, written)
    return written


def publish_tagger(source: Path, folder: Path, manifest: TaggerManifest) -> None:
    """Put a copy of a tagger, with another manifest, in the place of ``folder``."""
    with atomic_folder(folder) as draft:
        for name in manifest.files:
            (draft / name).parent.mkdir(parents=True, exist_ok=True)
            try:
                os.link(source / name, draft / name)  # no file of a tagger is ever changed
            except OSError:
                shutil.copyfile(source / name, draft / name)
        _write_manifest(draft, manifest)


def read_vocabulary(folder: Path) -> HashArray:
    """Hashes of the words that a folder's tagger has seen."""
    known: HashArray = np.load(folder / VOCABULARY, allow_pickle=False)
    return known


def vocabulary(texts: Iterable[str]) -> HashArray:
    """Hashes of all words of some texts, sorted."""
    hashes = {one for text in texts for one in _hashes(text)}
    return np.sort(np.fromiter(hashes, np.uint32, len(hashes)))


def unknown_share(text: str, known: HashArray) -> float:
    """The share of a text's words whose hashes are not known; 0 where it has too few words."""
    words = np.fromiter(islice(_hashes(text), _MOST_WORDS), np.uint32)
    if len(words) < _LEAST_WORDS or not len(known):
        return 0.0
    places = np.minimum(np.searchsorted(known, words), len(known) - 1)
    return float((known[places] != words).mean())


def _hashes(text: str) -> Iterator[int]:
    for word in _LETTERS.finditer(text):
        yield zlib.crc32(word[0].lower().encode("utf-8", "replace"))


def _write_manifest(folder: Path, manifest: TaggerManifest) -> None:
    text = json.dumps(manifest.model_dump(mode="json"), indent=1, ensure_ascii=False)
    (folder / MANIFEST).write_text(text, encoding="utf-8")
