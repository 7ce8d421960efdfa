"""The tensors of a file that ``torch.save`` wrote, read without unpickling.

What describes the tensors is followed by `kglink.models.pickled`. Every size is compared with the
file's before memory is taken. Both formats are read: the ZIP archive of torch 1.6 and later, and
the older one, a row of pickles with the numbers behind them.
"""

from __future__ import annotations

import io
import struct
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import torch
from torch import Tensor

from kglink.errors import ModelError
from kglink.models.pickled import PickledStorage, PickledTensor, RefusedError, value_of

_LEGACY_MAGIC, _LEGACY_PROTOCOL = 0x1950A86A20F9469CFC6C, 1001
#: Weights of many gigabytes have a megabyte of names.
_MOST_PICKLED = 64 << 20


def read_torch_archive(path: Path) -> dict[str, Tensor]:
    """The named tensors of a file of weights, such as a state dict."""
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            read = _from_zip if zipfile.is_zipfile(file) else _from_pickles
            file.seek(0)
            return read(file, size)
    except OSError as error:
        raise ModelError(f"{path}: cannot be read: {error.strerror or error}") from error
    except (ValueError, EOFError, RuntimeError, struct.error, zipfile.BadZipFile) as error:
        raise ModelError(
            f"{path}: not weights that torch.save has written: {error}",
            hint="Nothing of the file was run. Give a state dict: names and tensors, nothing else.",
        ) from error


# ------------------------------------------------------------------------------- the two formats
def _from_zip(file: BinaryIO, size: int) -> dict[str, Tensor]:
    with zipfile.ZipFile(file) as archive:
        members = {info.filename: info for info in archive.infolist()}
        found = [name for name in members if name.rpartition("/")[2] == "data.pkl"]
        if len(found) != 1:
            raise RefusedError("it holds no data.pkl")
        folder = found[0].removesuffix("data.pkl")

        def read(name: str, most: int) -> bytes:
            info = members.get(folder + name)
            if info is None:
                raise RefusedError(f"{name} is missing")
            if info.compress_type != zipfile.ZIP_STORED or info.file_size != info.compress_size:
                raise RefusedError(f"{name} is compressed")
            if info.file_size > most:
                raise RefusedError(f"{name} has {info.file_size:,} bytes, more than {most:,}")
            return archive.read(info)

        if folder + "byteorder" in members and read("byteorder", 16) != b"little":
            raise RefusedError("its numbers begin with the high byte")
        table = _tensors_of(value_of(io.BytesIO(read("data.pkl", min(size, _MOST_PICKLED)))))

        def content(storage: PickledStorage) -> bytes:
            wanted = storage.size * storage.kind.itemsize
            data = read(f"data/{storage.key}", wanted)
            if len(data) != wanted:
                raise RefusedError(f"data/{storage.key} has {len(data):,} bytes and not {wanted:,}")
            return data

        return _filled(table, content, size)


def _from_pickles(file: BinaryIO, size: int) -> dict[str, Tensor]:
    start = io.BytesIO(file.read(_MOST_PICKLED))
    if value_of(start) != _LEGACY_MAGIC or value_of(start) != _LEGACY_PROTOCOL:
        raise RefusedError("it does not begin as such a file does")
    system = value_of(start)
    if not isinstance(system, dict) or system.get("little_endian") is not True:
        raise RefusedError("its numbers begin with the high byte")
    table = _tensors_of(value_of(start))
    known = {one.storage.key: one.storage for one in table.values()}
    keys = value_of(start)
    if not isinstance(keys, list) or len(keys) > size:
        raise RefusedError("it does not list its numbers")
    places: dict[str, int] = {}
    at = start.tell()
    for key in keys:
        file.seek(at)
        head = file.read(8)
        storage = known.get(key) if isinstance(key, str) else None
        # One that no tensor needs could be anywhere, so nothing behind it could be found.
        if storage is None or len(head) < 8 or struct.unpack("<q", head)[0] != storage.size:
            raise RefusedError("it has numbers that are not those of a tensor")
        places[storage.key] = at + 8
        at += 8 + storage.size * storage.kind.itemsize
        if at > size:
            raise RefusedError(f"it ends within the numbers {storage.key!r}")

    def content(storage: PickledStorage) -> bytes:
        if storage.key not in places:
            raise RefusedError(f"the numbers {storage.key!r} are missing")
        file.seek(places[storage.key])
        return file.read(storage.size * storage.kind.itemsize)

    return _filled(table, content, size)


def _tensors_of(value: Any) -> dict[str, PickledTensor]:
    if not isinstance(value, dict) or not value:
        raise RefusedError("it holds no names with tensors")
    for name, tensor in value.items():
        if not isinstance(name, str) or not isinstance(tensor, PickledTensor):
            raise RefusedError(f"{str(name)[:80]!r} is no tensor")
    return value


def _filled(
    table: Mapping[str, PickledTensor], content: Callable[[PickledStorage], bytes], size: int
) -> dict[str, Tensor]:
    """The tensors with their numbers; together they are not larger than the file."""
    storages: dict[str, PickledStorage] = {}
    total = 0
    for name, one in table.items():
        if storages.setdefault(one.storage.key, one.storage) != one.storage:
            raise RefusedError(f"{name} sees the numbers of another tensor as other numbers")
        total += _checked(name, one) * one.storage.kind.itemsize
    shared = len(table) - len(storages)
    if sum(one.size * one.kind.itemsize for one in storages.values()) > size or (
        shared and total > 2 * size
    ):
        raise RefusedError("its tensors are larger than the file")
    loaded = {
        key: torch.frombuffer(bytearray(content(one)), dtype=one.kind)
        if one.size
        else torch.empty(0, dtype=one.kind)
        for key, one in storages.items()
    }
    return {
        name: loaded[one.storage.key].as_strided(one.shape, one.strides, one.offset).contiguous()
        for name, one in table.items()
    }


def _checked(name: str, tensor: PickledTensor) -> int:
    """How many numbers a tensor has, all of them within its storage and none twice."""
    count = 1
    for length in tensor.shape:
        count *= length
        if count > tensor.storage.size:
            raise RefusedError(f"{name} is larger than its numbers")
    steps = (length - 1 for length in tensor.shape)
    last = tensor.offset + sum(a * b for a, b in zip(steps, tensor.strides, strict=True))
    if count and last >= tensor.storage.size:
        raise RefusedError(f"{name} reaches beyond its numbers")
    return count
