"""A model folder of Hugging Face: checked, described, and named by its content; loads no torch."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

from kglink.errors import ModelError
from kglink.files.atomic import write_atomically
from kglink.files.digest import user_folder
from kglink.files.manifest import ManifestPart
from kglink.models.model_json import INCOMPLETE, check_folder, read_json, shown
from kglink.models.module_chain import ModuleChain, read_chain
from kglink.models.settings import Pooling

#: Plausible ranges in config.json.
_COUNTS = {
    "hidden_size": (1, 1 << 16),
    "dim": (1, 1 << 16),
    "d_model": (1, 1 << 16),
    "embedding_size": (1, 1 << 16),
    "num_attention_heads": (1, 1 << 12),
    "n_heads": (1, 1 << 12),
    "num_hidden_layers": (0, 1 << 10),
    "n_layers": (0, 1 << 10),
    "intermediate_size": (1, 1 << 20),
    "hidden_dim": (1, 1 << 20),
    "vocab_size": (1, 1 << 24),
    "max_position_embeddings": (3, 1 << 24),
    "type_vocab_size": (0, 1 << 16),
    "pad_token_id": (0, 1 << 24),
}
#: What different families call the width of their states.
_WIDTHS = ("hidden_size", "dim", "d_model")
_WORDS = ("model_type", "hidden_act", "position_embedding_type")
_SHARES = ("layer_norm_eps", "hidden_dropout_prob", "attention_probs_dropout_prob")
_PICKLED = ("*.bin", "*.pt", "*.pth", "*.ckpt")
_TOKENIZER_FILES = ("tokenizer.json", "vocab.txt", "sentencepiece.bpe.model", "spiece.model")
#: Hashes are kept for files of this size or more, for this many files, once unchanged for this
#: long: two writes within one tick of the clock look alike.
_HASHES_FILE = "hashes.json"
_LARGE, _MOST_KEPT, _SETTLED_NS = 1 << 20, 200, 60_000_000_000
#: Settings that say how a checkpoint came to be, not what it computes.
HISTORY = frozenset({"_name_or_path", "dtype", "torch_dtype", "transformers_version"})
#: Of a static model, which reads texts of any length.
_ANY_LENGTH = 1 << 20
#: Modules with weights of their own.
_WEIGHED = frozenset({"Dense", "LayerNorm"})
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
    chain: ModuleChain = field(default_factory=ModuleChain)
    """Its modules, where sentence-transformers describes it."""

    @property
    def encoder(self) -> ModelSource:
        """The model of the first module alone."""
        own = self.path / self.chain.first.folder
        weights = tuple(path for path in self.weights if path.parent == own)
        return replace(self, path=own, weights=weights, chain=ModuleChain())


class ModelInfo(ManifestPart):
    """What others record of the model that they were made with."""

    name: str
    fingerprint: str
    dim: int
    path: str = ""
    """Where it is found again: a name, or a folder, from the workspace if it lies in there."""
    precision: Literal["", "int8"] = ""
    """int8 where its vectors are rounded so far that they are of a fingerprint of their own."""


def describe_folder(name: str, folder: Path) -> ModelSource:
    """Check a model folder and read how its vectors are made; nothing in it is ever run."""
    check_folder(folder)
    chain = read_chain(folder)
    own = folder / chain.first.folder
    static = chain.first.kind == "StaticEmbedding"
    config = {} if static else read_config(own)
    weights = list(_weight_files(own))
    for one in chain.modules:
        weights += _weight_files(folder / one.folder) if one.kind in _WEIGHED else ()
    tokenizer = _tokenizer_file(own)
    max_tokens = _ANY_LENGTH if static else _max_tokens(own, config)
    if static:
        width = _table_width(weights[0])
    elif not (width := next(filter(None, map(config.get, _WIDTHS)), 0)):
        raise ModelError(
            f"{own}: config.json has no hidden_size",
            hint="Give the folder of a text encoder such as BERT.",
        )
    facts: list[Any] = [chain.pooling, max_tokens]
    facts += [{k: config[k] for k in config.keys() - HISTORY}]
    facts += [file_sha256(path) for path in (*weights, tokenizer)]
    if chain.by_library or any(chain.prompts):
        facts.append([chain.prompts, chain.truncate_dim, [one[::2] for one in chain.modules]])
    digest = hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()
    return ModelSource(
        name=name,
        path=folder,
        weights=tuple(weights),
        pooling=chain.pooling,
        dim=chain.dim(width),
        max_tokens=max_tokens,
        fingerprint=digest[:16],
        chain=chain,
    )


def read_config(folder: Path) -> dict[str, Any]:
    """Read config.json, and refuse values that no model has."""
    path = folder / "config.json"
    config = read_json(path)
    check_config(path, config)
    return config


def check_config(path: Path, config: Mapping[str, Any]) -> None:
    """Refuse settings of an encoder that no model has."""
    for key, (least, most) in _COUNTS.items():
        value = config.get(key)
        if value is not None and not (type(value) is int and least <= value <= most):
            raise ModelError(
                f"{path}: {key} is {shown(value)}, not a whole number from {least} to {most}",
                hint=INCOMPLETE,
            )
    for key in _WORDS:
        if not isinstance(config.get(key, ""), str):
            raise ModelError(f"{path}: {key} is {shown(config[key])}, not a word", hint=INCOMPLETE)
    for key in _SHARES:
        value = config.get(key, 0)
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1:
            raise ModelError(
                f"{path}: {key} is {shown(value)}, not a number from 0 to 1", hint=INCOMPLETE
            )
    dim, heads = config.get("hidden_size"), config.get("num_attention_heads")
    if dim is not None and heads is not None and dim % heads:
        raise ModelError(
            f"{path}: hidden_size {dim} is no multiple of num_attention_heads {heads}",
            hint=INCOMPLETE,
        )
    if (config.get("pad_token_id") or 0) >= (config.get("vocab_size") or 1 << 24):
        raise ModelError(f"{path}: pad_token_id is beyond vocab_size", hint=INCOMPLETE)


def file_sha256(path: Path) -> str:
    """The SHA-256 of a regular file; read again only after the file has changed."""
    try:
        if path.exists() and not path.is_file():
            raise ModelError(f"{path}: is no regular file", hint=INCOMPLETE)
        stat = path.stat()
        return _file_sha256(path.resolve(), _seen(stat))
    except OSError as error:
        raise ModelError(f"{path}: cannot be read: {error.strerror}") from error


@lru_cache(maxsize=64)
def _file_sha256(path: Path, seen: tuple[int, ...]) -> str:
    """Hash a file, or of a large one that is as it was ``seen`` earlier look the hash up.

    Whoever writes a file changes the last of these, the time that no program can set.
    """
    *_, size, _, changed_ns = seen
    is_settled = time.time_ns() - changed_ns > _SETTLED_NS
    kept = _kept_hashes() if size >= _LARGE else {}
    known = kept.pop(str(path), None)
    if known and known[:-1] == [*seen]:
        return str(known[-1])
    with path.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
        is_settled &= _seen(os.fstat(file.fileno())) == seen
    if size >= _LARGE and is_settled:
        newest = dict([*kept.items(), (str(path), [*seen, found])][-_MOST_KEPT:])
        with suppress(OSError, RuntimeError):  # no home, or one that is read-only
            user_folder().mkdir(parents=True, exist_ok=True)
            write_atomically(user_folder() / _HASHES_FILE, json.dumps(newest))
    return found


def _seen(stat: os.stat_result) -> tuple[int, ...]:
    return stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns


def _kept_hashes() -> dict[str, list[Any]]:
    """The hashes of large files that were read earlier, with what was seen of each."""
    try:
        kept = json.loads((user_folder() / _HASHES_FILE).read_text(encoding="utf-8"))
    except (OSError, RuntimeError, ValueError, RecursionError):
        return {}
    own = kept.items() if isinstance(kept, dict) else ()
    return {path: one for path, one in own if isinstance(one, list) and len(one) == 6}


def _weight_files(folder: Path) -> tuple[Path, ...]:
    """The safetensors files of a folder, shards in order."""
    single = folder / "model.safetensors"
    if single.is_file():
        return (single,)
    index = folder / "model.safetensors.index.json"
    if index.is_file():
        return _shards(index)
    files = tuple(sorted(folder.glob("*.safetensors")))
    if len(files) == 1 and not files[0].is_file():
        raise ModelError(f"{files[0]}: is no regular file", hint=INCOMPLETE)
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
    shards = sorted({str(name) for name in names.values()})
    if outside := [name for name in shards if Path(name).name != name]:
        raise ModelError(f"{index}: names a file elsewhere, {shown(outside[0])}")
    files = tuple(index.parent / name for name in shards)
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


def _table_width(path: Path) -> int:
    """The width of the table of a static model."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, "np") as file:
            (name,) = {"embedding.weight", "embeddings"}.intersection(file.keys())
            _, width = file.get_slice(name).get_shape()
    except (OSError, ValueError, SafetensorError) as error:
        raise ModelError(f"{path}: holds no table of vectors of tokens: {error}") from error
    return int(width)


def rows_of(source: ModelSource) -> int:
    """The rows of a model's word embeddings."""
    rows = read_config(source.path).get("vocab_size")
    if not rows:
        raise ModelError(f"{source.path / 'config.json'}: says no vocab_size", hint=INCOMPLETE)
    return int(rows)


def positions_of(config: Mapping[str, Any]) -> int | None:
    """How many tokens a model has positions for; None: any number."""
    positions: int | None = config.get("max_position_embeddings")
    if positions is not None and config.get("model_type") in _OFFSET_POSITIONS:
        positions -= (config.get("pad_token_id") or 0) + 1
    return positions


def _max_tokens(folder: Path, config: dict[str, Any]) -> int:
    """The longest input: what the model was made for, and never more than it has positions."""
    positions = positions_of(config)
    if positions is not None and positions < 3:
        raise ModelError(f"{folder}: config.json leaves no positions for a text")
    limits: list[Any] = [positions]
    for file, key in (
        ("sentence_bert_config.json", "max_seq_length"),
        ("tokenizer_config.json", "model_max_length"),
    ):
        if (folder / file).is_file():
            limits.append(read_json(folder / file).get(key))
    # transformers writes 1e30 where a tokenizer has no limit.
    usable = [limit for limit in limits if type(limit) is int and 2 < limit < 10**7]
    return min(usable, default=512)
