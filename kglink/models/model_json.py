"""JSON of a model folder: read strictly, and refused where it names code or files elsewhere."""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

from kglink.errors import ModelError
from kglink.models.tokenizer_check import check_tokenizer

INCOMPLETE = "Give a complete model folder."
#: The largest of these files that are published have a few megabytes.
LARGEST = 64 << 20
#: Files and folders of a model folder; a folder of more was named by mistake.
_MOST_FILES = 100_000
#: Characters of a value that a message shows.
_SHOWN = 40
_OTHER_FILE = "names a file to read in the place of the one that was checked"
#: Keys that make a library run code of the folder, or read a file that nobody has looked at.
_REFUSED = {
    "auto_map": "asks for code of its own (auto_map), which kglink never runs",
    "trust_remote_code": "asks for code of its own (trust_remote_code), which kglink never runs",
    "attribute_map": "renames settings (attribute_map), which can hide code of its own",
    "configuration_files": f"{_OTHER_FILE} (configuration_files)",
    "fast_tokenizer_files": f"{_OTHER_FILE} (fast_tokenizer_files)",
    "quantization_config": "has quantised weights (quantization_config), which may need code that "
    "is fetched and run",
}
_PLAIN_MODEL = "Give a model of an architecture that transformers has itself, in plain weights."
#: What transformers computes itself; other names may be those of packages on the hub.
_COMPUTED = (None, "eager", "sdpa", "flex_attention", "batched_mm", "grouped_mm")
_IMPLEMENTATION = re.compile(r"_?(attn|experts)_implementation(_internal)?")
#: A tokenizer may be of these classes; others load whole models, or ask for code themselves.
_TOKENIZER = re.compile(r"(?!Auto|Rag)\w*(Tokenizer|TokenizerFast|Backend)")


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object of a model folder."""
    value = read_any_json(path)
    if not isinstance(value, dict):
        raise ModelError(f"{path}: a JSON object was expected, not {type(value).__name__}")
    return value


def read_any_json(path: Path) -> Any:
    """Read a regular file of bounded size as JSON that names no code."""
    return parsed_json(path, read_small(path))


def read_small(path: Path) -> bytes:
    """Read a regular file of bounded size."""
    try:
        if path.exists() and not path.is_file():
            raise ModelError(f"{path}: is no regular file", hint=INCOMPLETE)
        with path.open("rb") as stream:
            raw = stream.read(LARGEST + 1)
    except FileNotFoundError as error:
        raise ModelError(f"{path.parent}: {path.name} is missing", hint=INCOMPLETE) from error
    except OSError as error:
        raise ModelError(f"{path}: cannot be read: {error.strerror}") from error
    if len(raw) > LARGEST:
        raise ModelError(f"{path}: larger than any settings of a model", hint=INCOMPLETE)
    return raw


def parsed_json(path: Path, raw: bytes) -> Any:
    """The value of a file's bytes; refused where it names code, or is made to exhaust memory."""
    try:
        value = json.loads(raw.decode(), object_pairs_hook=_unique)
    except RecursionError as error:
        raise ModelError(f"{path}: cannot be read as JSON: nested too deeply") from error
    except ValueError as error:
        raise ModelError(f"{path}: cannot be read as JSON: {error}") from error
    _refuse_code(path, value)
    if path.name.lower() == "tokenizer.json":
        check_tokenizer(path, value)
    return value


def check_folder(folder: Path) -> None:
    """Check all JSON of a model folder and of the folders in it, whatever case their names have."""
    for path in _json_files(folder):
        if path.name.lower() == "adapter_config.json":
            raise ModelError(
                f"{path}: names a model elsewhere, which is not fetched",
                hint="Merge the adapter into its model, and save that.",
            )
        try:
            stat = path.stat()
        except OSError as error:
            raise ModelError(f"{path}: cannot be read: {error.strerror}") from error
        _check_once(path, stat.st_ino, stat.st_size, stat.st_mtime_ns)


@lru_cache(maxsize=256)
def _check_once(path: Path, inode: int, size: int, mtime_ns: int) -> None:
    """Check a file; its number, size and time make another cache entry of another file."""
    read_any_json(path)


def _json_files(folder: Path) -> Iterator[Path]:
    seen = 0
    for place, folders, names in os.walk(folder):
        seen += len(folders) + len(names)
        if seen > _MOST_FILES:
            raise ModelError(f"{folder}: has more than {_MOST_FILES:,} files", hint=INCOMPLETE)
        lower: dict[str, str] = {}
        for name in sorted(names):
            if not name.lower().endswith(".json"):
                continue
            if twin := lower.get(name.lower()):
                raise ModelError(
                    f"{Path(place, name)}: differs from {twin} by case alone",
                    hint="Keep one of the two files.",
                )
            lower[name.lower()] = name
            yield Path(place, name)


def shown(value: object) -> str:
    """A value as a message shows it, however long it is."""
    text = repr(value) if isinstance(value, str | int | float | bool) else type(value).__name__
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object; readers differ in which value they take of a key that stands twice."""
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = Counter(key for key, _ in pairs).most_common(1)[0][0]
        raise ValueError(f"the key {shown(twice)} stands twice")
    return found


def _refuse_code(path: Path, value: Any) -> None:
    """Refuse settings, at any depth, that make a library run code or read other files."""
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict):
            for key in one.keys() & _REFUSED.keys():
                # A vocabulary may have such a word; its value is a number.
                if one[key] is not None and (one[key] is True or not isinstance(one[key], int)):
                    raise ModelError(f"{path}: {_REFUSED[key]}", hint=_PLAIN_MODEL)
            for key, own in one.items():
                if isinstance(own, dict | list):
                    waiting.append(own)
                if not isinstance(own, int):
                    _refuse_value(path, key, own)
        elif isinstance(one, list):
            waiting += (own for own in one if isinstance(own, dict | list))


def _refuse_value(path: Path, key: str, value: Any) -> None:
    if _IMPLEMENTATION.fullmatch(key) and value not in _COMPUTED:
        raise ModelError(
            f"{path}: {key} is {shown(value)}, which may be code that is fetched and run",
            hint=f"Take {key} out of {path.name}.",
        )
    if key == "tokenizer_class" and not (
        value is None or (isinstance(value, str) and _TOKENIZER.fullmatch(value))
    ):
        raise ModelError(
            f"{path}: tokenizer_class is {shown(value)}, which is no tokenizer", hint=_PLAIN_MODEL
        )
