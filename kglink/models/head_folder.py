"""The folder of an encoder with a head of its own: a manifest, the encoder, the head; no torch.

MANIFEST           what it learnt from, digests of its files
encoder/           config.json, model.safetensors and the tokenizer, as Hugging Face has them
head.safetensors   the layer that turns states into answers
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from pydantic import Field

from kglink.errors import DamagedFileError, ModelError
from kglink.files.atomic import atomic_folder, recover_folder
from kglink.files.manifest import FileInfo, ManifestPart, check_files, file_info, read_manifest
from kglink.models.model_folder import BaseInfo, TowerFiles, write_tower

ENCODER, HEAD = "encoder", "head.safetensors"


class HeadManifest(ManifestPart):
    """What the manifest of every such folder says."""

    base: BaseInfo
    documents: tuple[str, ...]
    """The KBs whose documents it learnt from."""
    epoch: int = 0
    """The epoch that was kept, from 1."""
    files: dict[str, FileInfo] = Field(default_factory=dict)
    libraries: dict[str, str] = Field(default_factory=dict)


Manifest = TypeVar("Manifest", bound=HeadManifest)


@dataclass(frozen=True, slots=True)
class HeadFolder(Generic[Manifest]):
    """How folders of one kind are read and written."""

    name: str
    """The file of the manifest."""
    kind: type[Manifest]
    newest: int
    damaged: str
    """What to do about a damaged one."""

    def is_there(self, folder: Path) -> bool:
        """Whether one lies there; one that was half replaced is put back."""
        recover_folder(folder)
        return (folder / self.name).is_file()

    def read(self, folder: Path, *, check: bool = True) -> Manifest:
        """What a folder says of itself; with ``check`` its files are compared with it."""
        recover_folder(folder)
        try:
            manifest = read_manifest(self.kind, folder / self.name, newest=self.newest)
            if check:
                check_files(folder, manifest.files)
        except DamagedFileError as error:
            raise ModelError(error.message, hint=self.damaged) from error
        return manifest

    def write(
        self,
        folder: Path,
        tower: TowerFiles,
        head: Mapping[str, Any],
        manifest: Manifest,
        more: Callable[[Path], None] = lambda draft: None,
    ) -> Manifest:
        """Write a folder, whole or not at all; the files of ``manifest`` are filled in.

        ``more`` may write other files of it.
        """
        from safetensors.torch import save_file

        with atomic_folder(folder) as draft:
            write_tower(draft / ENCODER, tower)
            save_file(dict(head), draft / HEAD)
            more(draft)
            files = sorted(path for path in draft.rglob("*") if path.is_file())
            infos = {path.relative_to(draft).as_posix(): file_info(path) for path in files}
            written = manifest.model_copy(update={"files": infos})
            self._write_manifest(draft, written)
        return written

    def publish(self, source: Path, folder: Path, manifest: Manifest) -> None:
        """Put a copy, with another manifest, in the place of ``folder``."""
        with atomic_folder(folder) as draft:
            for name in manifest.files:
                (draft / name).parent.mkdir(parents=True, exist_ok=True)
                try:
                    os.link(source / name, draft / name)  # no file of such a folder is ever changed
                except OSError:
                    shutil.copyfile(source / name, draft / name)
            self._write_manifest(draft, manifest)

    def _write_manifest(self, folder: Path, manifest: Manifest) -> None:
        text = json.dumps(manifest.model_dump(mode="json"), indent=1, ensure_ascii=False)
        (folder / self.name).write_text(text, encoding="utf-8")
