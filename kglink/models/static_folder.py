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

from pydantic import Field

from kglink.errors import DamagedFileError, ModelError
from kglink.files.atomic import atomic_folder, recover_folder
from kglink.files.manifest import (
    FileInfo,
    ManifestPart,
    check_files,
    file_info,
    library_versions,
    read_manifest,
)
from kglink.models.loading import keeping_interrupts
from kglink.models.source import ModelInfo, ModelSource

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    FloatArray = npt.NDArray[np.float32]

STATIC_FILE = "static.json"
TABLE = "table"
_FILES = ("config.json", "model.safetensors", "tokenizer.json")
_FORMAT = 1
_DAMAGED = "Make it again: `kglink distill`."


class StaticManifest(ManifestPart):
    """What ``static.json`` says."""

    format: int = _FORMAT
    teacher: ModelInfo
    """The model whose vectors it imitates."""
    max_tokens: int = Field(ge=3)
    rows: int = Field(ge=1)
    """Tokens that have a vector."""
    files: dict[str, FileInfo]
    libraries: dict[str, str] = Field(default_factory=dict)

    @property
    def fingerprint(self) -> str:
        """A name for all that its vectors depend on."""
        facts = [self.max_tokens, *(self.files[name].blake2b for name in _FILES)]
        return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:16]


def is_static_folder(folder: Path) -> bool:
    """Whether a static model lies there; one that was half replaced is put back."""
    recover_folder(folder)
    return (folder / STATIC_FILE).is_file()


def read_static(folder: Path) -> StaticManifest:
    """What a folder says of its model; its files are compared with it."""
    recover_folder(folder)
    path = folder / STATIC_FILE
    try:
        manifest = read_manifest(StaticManifest, path, newest=_FORMAT)
        check_files(folder, manifest.files)
    except DamagedFileError as error:
        raise ModelError(error.message, hint=_DAMAGED) from error
    if set(manifest.files) != set(_FILES):
        raise ModelError(f"{path}: its files are not {', '.join(_FILES)}", hint=_DAMAGED)
    return manifest


def describe_static(name: str, folder: Path) -> ModelSource:
    """Check the folder of a static model and say what searching needs to know."""
    manifest = read_static(folder)
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

    manifest, path = read_static(folder), folder / "model.safetensors"
    try:
        with keeping_interrupts():
            found = load_file(path)
    except (SafetensorError, OSError) as error:
        raise ModelError(f"{path}: the table cannot be read: {error}", hint=_DAMAGED) from error
    table = found.get(TABLE)
    wanted = (manifest.rows, manifest.teacher.dim)
    if table is None or table.dtype != np.float16 or table.shape != wanted:
        raise ModelError(
            f"{path}: no table of {wanted[0]} tokens x {wanted[1]} numbers in fp16", hint=_DAMAGED
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
        (draft / STATIC_FILE).write_text(manifest.model_dump_json(indent=1), encoding="utf-8")
