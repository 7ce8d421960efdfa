"""A model folder of Hugging Face: checked, described, and named by its content; loads no torch."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from kglink.errors import ModelError
from kglink.files.manifest import ManifestPart
from kglink.models.settings import Pooling

_PICKLED = ("*.bin", "*.pt", "*.pth", "*.ckpt")
_TOKENIZER_FILES = ("tokenizer.json", "vocab.txt", "sentencepiece.bpe.model", "spiece.model")
#: Settings that say how a checkpoint came to be, not what it computes.
HISTORY = frozenset({"_name_or_path", "dtype", "torch_dtype", "transformers_version"})
#: Families whose position ids start behind the padding id, so that two positions are lost.
_OFFSET_POSITIONS = frozenset({"roberta", "xlm-roberta", "camembert", "mpnet", "longformer"})


@dataclass(frozen=True, slots=True)
class ModelSource:
    """A model folder that was checked: what to load, how to pool, and how long a text may be.

    ``fingerprint`` names weights, tokenizer, pooling and length together. Two sources of one
    fingerprint give comparable vectors; precision and device are not part of it.
    """

    name: str
    path: Path
    weights: tuple[Path, ...]
    pooling: Pooling
    dim: int
    max_tokens: int
    fingerprint: str


class ModelInfo(ManifestPart):
    """What others record of the model that they were made with."""

    name: str
    fingerprint: str
    dim: int
    path: str = ""
    """Where it is found again: a name, or a folder, from the workspace if it lies in there."""


def describe_folder(name: str, folder: Path) -> ModelSource:
    """Check a model folder and read how its vectors are made."""
    config = read_json(folder / "config.json")
    weights = _weight_files(folder)
    tokenizer = _tokenizer_file(folder)
    pooling = _pooling(folder)
    max_tokens = _max_tokens(folder, config)
    facts: list[Any] = [pooling, max_tokens, {k: config[k] for k in config.keys() - HISTORY}]
    facts += [file_sha256(path) for path in (*weights, tokenizer)]
    digest = hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()
    return ModelSource(
        name, folder, weights, pooling, _dim(folder, config), max_tokens, digest[:16]
    )


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object of a model folder."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise ModelError(
            f"{path.parent}: {path.name} is missing", hint="Give a complete model folder."
        ) from error
    except (OSError, ValueError) as error:
        raise ModelError(f"{path}: cannot be read as JSON: {error}") from error
    if not isinstance(value, dict):
        raise ModelError(f"{path}: a JSON object was expected, not {type(value).__name__}")
    return value


def file_sha256(path: Path) -> str:
    """The SHA-256 of a file; read again only after the file has changed."""
    try:
        stat = path.stat()
        return _file_sha256(path, stat.st_size, stat.st_mtime_ns)
    except OSError as error:
        raise ModelError(f"{path}: cannot be read: {error.strerror}") from error


@lru_cache(maxsize=64)
def _file_sha256(path: Path, size: int, mtime_ns: int) -> str:
    """Hash a file; size and time are only there to make another cache entry of another file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _weight_files(folder: Path) -> tuple[Path, ...]:
    """The safetensors files of a folder, shards in order."""
    single = folder / "model.safetensors"
    if single.is_file():
        return (single,)
    index = folder / "model.safetensors.index.json"
    if index.is_file():
        return _shards(index)
    files = tuple(sorted(folder.glob("*.safetensors")))
    if len(files) == 1:
        return files
    if files:
        raise ModelError(
            f"{folder}: several .safetensors files and no model.safetensors among them",
            hint="Keep one, or name the right one model.safetensors.",
        )
    pickled = sorted(path.name for pattern in _PICKLED for path in folder.glob(pattern))
    if pickled:
        raise ModelError(
            f"{folder}: only pickled weights ({', '.join(pickled)}), which kglink never opens: "
            "unpickling a file can run any code in it",
            hint="Save the model anew with safetensors: model.save_pretrained(folder).",
        )
    raise ModelError(f"{folder}: no .safetensors file", hint="Give a complete model folder.")


def _shards(index: Path) -> tuple[Path, ...]:
    """The files that a sharded checkpoint's index names, all of them beside the index."""
    names = read_json(index).get("weight_map")
    if not isinstance(names, dict) or not names:
        raise ModelError(f"{index}: has no weight_map")
    files = tuple(index.parent / Path(str(name)).name for name in sorted(set(names.values())))
    missing = [path.name for path in files if not path.is_file()]
    if missing:
        raise ModelError(f"{index.parent}: missing {', '.join(missing)}, which {index.name} names")
    return files


def _tokenizer_file(folder: Path) -> Path:
    for name in _TOKENIZER_FILES:
        if (folder / name).is_file():
            return folder / name
    raise ModelError(
        f"{folder}: no tokenizer ({', '.join(_TOKENIZER_FILES)})",
        hint="Save it beside the weights: tokenizer.save_pretrained(folder).",
    )


def _pooling(folder: Path) -> Pooling:
    """How token states become one vector; a plain encoder without any word on it is averaged."""
    modules = folder / "modules.json"
    if not modules.is_file():
        return "mean"
    try:
        entries = json.loads(modules.read_text(encoding="utf-8"))
        kinds = [(str(entry["type"]).rpartition(".")[2], entry["path"]) for entry in entries]
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise ModelError(f"{modules}: cannot be read as a list of modules: {error}") from error
    unknown = [kind for kind, _ in kinds if kind not in {"Transformer", "Pooling", "Normalize"}]
    if unknown:
        raise ModelError(
            f"{folder}: its module {unknown[0]} is not supported",
            hint="Supported are encoders with Transformer, Pooling and Normalize modules.",
        )
    configs = [folder / path / "config.json" for kind, path in kinds if kind == "Pooling"]
    return _pooling_mode(configs[0]) if configs else "mean"


def _pooling_mode(path: Path) -> Pooling:
    """Read the pooling module's settings, in the old spelling (flags) or the new one."""
    config = read_json(path)
    old = {"pooling_mode_mean_tokens": "mean", "pooling_mode_cls_token": "cls"}
    flags = [key for key, on in config.items() if key.startswith("pooling_mode_") and on is True]
    modes = [old.get(flag, flag) for flag in flags] or [config.get("pooling_mode", "mean")]
    if modes == ["mean"]:
        return "mean"
    if modes == ["cls"]:
        return "cls"
    raise ModelError(
        f"{path}: pooling {', '.join(map(str, modes))} is not supported",
        hint="Supported are mean and cls.",
    )


def _dim(folder: Path, config: dict[str, Any]) -> int:
    """The width of a model's states, under the names that different families have for it."""
    for key in ("hidden_size", "dim", "d_model"):
        value = config.get(key)
        if isinstance(value, int) and value > 0:
            return value
    raise ModelError(
        f"{folder}: config.json has no hidden_size",
        hint="Give the folder of a text encoder such as BERT.",
    )


def _max_tokens(folder: Path, config: dict[str, Any]) -> int:
    """The longest input: what the model was made for, and never more than it has positions."""
    positions = config.get("max_position_embeddings")
    limits: list[Any] = [positions]
    if isinstance(positions, int) and config.get("model_type") in _OFFSET_POSITIONS:
        limits = [positions - int(config.get("pad_token_id") or 0) - 1]
    for file, key in (
        ("sentence_bert_config.json", "max_seq_length"),
        ("tokenizer_config.json", "model_max_length"),
    ):
        if (folder / file).is_file():
            limits.append(read_json(folder / file).get(key))
    usable = [int(limit) for limit in limits if _is_count(limit)]
    return min(usable, default=512)


def _is_count(limit: object) -> bool:
    """Whether a limit is real: transformers writes 1e30 where a tokenizer has none."""
    return isinstance(limit, int) and 2 < limit < 10**7
