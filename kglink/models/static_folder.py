"""The folder of a static model: one vector for each token, and no transformer; no torch.

static.json         which model taught it, and digests of its files
config.json         how many tokens there are, as other tools look for it
model.safetensors   the table: a row for each token
tokenizer.json      the teacher's tokenizer, whole words added where it can have them
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import Field, field_validator

from kglink.errors import ModelError
from kglink.files.atomic import atomic_folder
from kglink.files.manifest import FileInfo, file_info, library_versions
from kglink.models.loading import keeping_interrupts
from kglink.models.model_folder import FilesManifest, ManifestFolder
from kglink.models.source import ModelInfo, ModelSource

if TYPE_CHECKING:
    from kglink.arrays import FloatArray


TABLE = "table"
_FILES = ("config.json", "model.safetensors", "tokenizer.json")


class StaticManifest(FilesManifest):
    """What ``static.json`` says."""

    teacher: ModelInfo
    """The model whose vectors it imitates."""
    max_tokens: int = Field(ge=3)
    rows: int = Field(ge=1)
    """Tokens that have a vector."""
    files: dict[str, FileInfo]

    @field_validator("files")
    @classmethod
    def _is_whole(cls, files: dict[str, FileInfo]) -> dict[str, FileInfo]:
        if set(files) != set(_FILES):
            raise ValueError(f"its files are not {', '.join(_FILES)}")
        return files

    @property
    def fingerprint(self) -> str:
        """A name for all that its vectors depend on."""
        facts = [self.max_tokens, *(self.files[name].blake2b for name in _FILES)]
        return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:16]


#: The folder of a static model.
STATIC = ManifestFolder("static.json", StaticManifest, "Make it again: `kglink distill`.")


def describe_static(name: str, folder: Path) -> ModelSource:
    """Check the folder of a static model and say what searching needs to know."""
    manifest = STATIC.read(folder)
    return ModelSource(
        name=name,
        path=folder,
        weights=(folder / "model.safetensors",),
        pooling="mean",
        dim=manifest.teacher.dim,
        max_tokens=manifest.max_tokens,
        fingerprint=manifest.fingerprint,
    )


def read_table(folder: Path) -> FloatArray:
    """The vectors of all tokens, (tokens, dim), as its manifest promises them."""
    import numpy as np
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    manifest, path = STATIC.read(folder), folder / "model.safetensors"
    try:
        with keeping_interrupts():
            found = load_file(path)
    except (SafetensorError, OSError) as error:
        raise ModelError(
            f"{path}: the table cannot be read: {error}", hint=STATIC.damaged
        ) from error
    table = found.get(TABLE)
    wanted = (manifest.rows, manifest.teacher.dim)
    if table is None or table.dtype != np.float16 or table.shape != wanted:
        raise ModelError(
            f"{path}: no table of {wanted[0]} tokens x {wanted[1]} numbers in fp16",
            hint=STATIC.damaged,
        )
    return table.astype(np.float32)


def write_static(folder: Path, table: FloatArray, tokenizer: bytes, teacher: ModelSource) -> None:
    """Write a static model whole, in the place of what was there, or not at all."""
    import numpy as np
    from safetensors.numpy import save_file

    rows, dim = table.shape
    with atomic_folder(folder) as draft:
        config = {"model_type": "kglink_static", "vocab_size": rows, "hidden_size": dim}
        (draft / "config.json").write_text(json.dumps(config), encoding="utf-8")
        (draft / "tokenizer.json").write_bytes(tokenizer)
        save_file({TABLE: np.ascontiguousarray(table, np.float16)}, draft / "model.safetensors")
        taught = ModelInfo(name=teacher.name, fingerprint=teacher.fingerprint, dim=dim)
        manifest = StaticManifest(
            teacher=taught,
            max_tokens=teacher.max_tokens,
            rows=rows,
            files={name: file_info(draft / name) for name in _FILES},
            libraries=library_versions(),
        )
        STATIC.write_manifest(draft, manifest)
