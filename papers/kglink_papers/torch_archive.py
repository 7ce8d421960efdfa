"""The tensors of a file that ``torch.save`` wrote, read without unpickling.

A pickle is a program: to load one is to run it. `torch.load(weights_only=True)` runs it with few
functions allowed, and has been broken before. Here nothing runs. The instructions are listed by
`pickletools`, and those few that make numbers, texts, lists and dictionaries are followed. What
imports or calls is compared with the few names that weights need, which are never looked up. Any
other instruction is refused.

Every size is compared with the file's before memory is taken. Both formats are read: the ZIP
archive of torch 1.6 and later, and the older one, a row of pickles with the numbers behind them.
"""

from __future__ import annotations

import io
import pickletools
import struct
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import torch
from torch import Tensor

from kglink.errors import ModelError

_LEGACY_MAGIC, _LEGACY_PROTOCOL = 0x1950A86A20F9469CFC6C, 1001
#: Weights of many gigabytes have a megabyte of names.
_MOST_PICKLED = 64 << 20
_MOST_DIMENSIONS = 8
_TYPES: Mapping[str, torch.dtype] = {
    f"torch {name}Storage": kind
    for name, kind in (
        ("Float", torch.float32),
        ("Half", torch.float16),
        ("BFloat16", torch.bfloat16),
        ("Double", torch.float64),
        ("Long", torch.int64),
        ("Int", torch.int32),
        ("Short", torch.int16),
        ("Char", torch.int8),
        ("Byte", torch.uint8),
        ("Bool", torch.bool),
    )
}


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
            raise _RefusedError("it holds no data.pkl")
        folder = found[0].removesuffix("data.pkl")

        def read(name: str, most: int) -> bytes:
            info = members.get(folder + name)
            if info is None:
                raise _RefusedError(f"{name} is missing")
            if info.compress_type != zipfile.ZIP_STORED or info.file_size != info.compress_size:
                raise _RefusedError(f"{name} is compressed")
            if info.file_size > most:
                raise _RefusedError(f"{name} has {info.file_size:,} bytes, more than {most:,}")
            return archive.read(info)

        if folder + "byteorder" in members and read("byteorder", 16) != b"little":
            raise _RefusedError("its numbers begin with the high byte")
        table = _tensors_of(_value_of(io.BytesIO(read("data.pkl", min(size, _MOST_PICKLED)))))

        def content(storage: _Storage) -> bytes:
            wanted = storage.size * storage.kind.itemsize
            data = read(f"data/{storage.key}", wanted)
            if len(data) != wanted:
                raise _RefusedError(
                    f"data/{storage.key} has {len(data):,} bytes and not {wanted:,}"
                )
            return data

        return _filled(table, content, size)


def _from_pickles(file: BinaryIO, size: int) -> dict[str, Tensor]:
    start = io.BytesIO(file.read(_MOST_PICKLED))
    if _value_of(start) != _LEGACY_MAGIC or _value_of(start) != _LEGACY_PROTOCOL:
        raise _RefusedError("it does not begin as such a file does")
    system = _value_of(start)
    if not isinstance(system, dict) or system.get("little_endian") is not True:
        raise _RefusedError("its numbers begin with the high byte")
    table = _tensors_of(_value_of(start))
    known = {one.storage.key: one.storage for one in table.values()}
    keys = _value_of(start)
    if not isinstance(keys, list) or len(keys) > size:
        raise _RefusedError("it does not list its numbers")
    places: dict[str, int] = {}
    at = start.tell()
    for key in keys:
        file.seek(at)
        head = file.read(8)
        storage = known.get(key) if isinstance(key, str) else None
        # One that no tensor needs could be anywhere, so nothing behind it could be found.
        if storage is None or len(head) < 8 or struct.unpack("<q", head)[0] != storage.size:
            raise _RefusedError("it has numbers that are not those of a tensor")
        places[storage.key] = at + 8
        at += 8 + storage.size * storage.kind.itemsize
        if at > size:
            raise _RefusedError(f"it ends within the numbers {storage.key!r}")

    def content(storage: _Storage) -> bytes:
        if storage.key not in places:
            raise _RefusedError(f"the numbers {storage.key!r} are missing")
        file.seek(places[storage.key])
        return file.read(storage.size * storage.kind.itemsize)

    return _filled(table, content, size)


def _tensors_of(value: Any) -> dict[str, _Tensor]:
    if not isinstance(value, dict) or not value:
        raise _RefusedError("it holds no names with tensors")
    for name, tensor in value.items():
        if not isinstance(name, str) or not isinstance(tensor, _Tensor):
            raise _RefusedError(f"{str(name)[:80]!r} is no tensor")
    return value


def _filled(
    table: Mapping[str, _Tensor], content: Callable[[_Storage], bytes], size: int
) -> dict[str, Tensor]:
    """The tensors with their numbers; together they are not larger than the file."""
    storages: dict[str, _Storage] = {}
    total = 0
    for name, one in table.items():
        if storages.setdefault(one.storage.key, one.storage) != one.storage:
            raise _RefusedError(f"{name} sees the numbers of another tensor as other numbers")
        total += _checked(name, one) * one.storage.kind.itemsize
    shared = len(table) - len(storages)
    if sum(one.size * one.kind.itemsize for one in storages.values()) > size or (
        shared and total > 2 * size
    ):
        raise _RefusedError("its tensors are larger than the file")
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


def _checked(name: str, tensor: _Tensor) -> int:
    """How many numbers a tensor has, all of them within its storage and none twice."""
    count = 1
    for length in sorted(tensor.shape):  # one of 0 first: then it has none
        count *= length
        if count > tensor.storage.size:
            raise _RefusedError(f"{name} is larger than its numbers")
    steps = (length - 1 for length in tensor.shape)
    last = tensor.offset + sum(a * b for a, b in zip(steps, tensor.strides, strict=True))
    if count and last >= tensor.storage.size:
        raise _RefusedError(f"{name} reaches beyond its numbers")
    return count


# --------------------------------------------------------------------- what a pickle describes
class _RefusedError(ValueError):
    """Why a file of weights is not read."""


class _Storage(NamedTuple):
    """Numbers that lie elsewhere in the file."""

    key: str
    kind: torch.dtype
    size: int
    """How many numbers."""


class _Tensor(NamedTuple):
    """A tensor over such numbers; not yet checked to lie within them."""

    storage: _Storage
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


def _value_of(stream: io.BytesIO) -> Any:
    """What the next pickle of a stream describes; the stream stands behind it then."""
    stack: list[Any] = []
    memo: dict[int, Any] = {}
    try:
        for opcode, argument, _ in pickletools.genops(stream):
            if opcode.name == "STOP":
                return stack.pop()
            _follow(opcode.name, argument, stack, memo)
    except _RefusedError:
        raise
    except (ValueError, IndexError, TypeError, KeyError, OverflowError, struct.error) as error:
        raise _RefusedError(f"its description is damaged ({type(error).__name__})") from error
    raise _RefusedError("its description has no end")


class _Name(str):
    """A name that a pickle imports; nothing of that name is ever touched."""

    __slots__ = ()


class _Mark:
    """Where the items of a list or tuple begin on the stack."""


_PLAIN = frozenset(
    {"BININT", "BININT1", "BININT2", "INT", "LONG", "LONG1", "LONG4", "BINFLOAT", "FLOAT"}
    | {"BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8", "UNICODE", "BINSTRING", "SHORT_BINSTRING"}
)
_CONSTANTS: Mapping[str, Callable[[], Any]] = {
    "NONE": lambda: None,
    "NEWTRUE": lambda: True,
    "NEWFALSE": lambda: False,
    "EMPTY_TUPLE": tuple,
    "EMPTY_LIST": list,
    "EMPTY_DICT": dict,
    "MARK": _Mark,
}


def _follow(  # noqa: C901, PLR0912 - a case for each instruction
    name: str, argument: Any, stack: list[Any], memo: dict[int, Any]
) -> None:
    """Do one instruction to the stack on which a value is built, and what is remembered of it."""
    match name:
        case "PROTO" | "FRAME":
            pass
        case _ if name in _PLAIN:
            stack.append(argument)
        case _ if name in _CONSTANTS:
            stack.append(_CONSTANTS[name]())
        case "TUPLE" | "TUPLE1" | "TUPLE2" | "TUPLE3":
            stack.append(tuple(_items(stack, int(name[5:] or 0))))
        case "APPEND" | "APPENDS":
            items = _items(stack, 1 if name == "APPEND" else 0)
            _of(list, stack[-1]).extend(items)
        case "SETITEM" | "SETITEMS":
            items = _items(stack, 2 if name == "SETITEM" else 0)
            # A tuple of tuples of tuples would take for ever to hash.
            if any(type(key) not in (str, int) for key in items[::2]):
                raise _RefusedError("its description has a name that is no text")
            _of(dict, stack[-1]).update(zip(items[::2], items[1::2], strict=True))
        case "BINPUT" | "LONG_BINPUT" | "PUT" | "MEMOIZE":
            memo[len(memo) if argument is None else int(argument)] = stack[-1]
        case "BINGET" | "LONG_BINGET" | "GET":
            stack.append(memo[int(argument)])
        case "GLOBAL":
            stack.append(_Name(argument))
        case "STACK_GLOBAL":
            stack.append(_Name(" ".join(_of(str, part) for part in _items(stack, 2))))
        case "BINPERSID":
            stack.append(_storage_of(stack.pop()))
        case "REDUCE":
            called, given = _items(stack, 2)
            stack.append(_made(called, _of(tuple, given)))
        case "BUILD":
            stack.pop()  # versions of modules, which are no weights
            _of(dict, stack[-1])
        case _:
            raise _RefusedError(f"its description has the instruction {name}")


def _items(stack: list[Any], count: int) -> list[Any]:
    """The last items of a stack, taken off; 0: all above the mark, which goes too."""
    items: list[Any] = []
    while len(items) < count or not count:
        top = stack.pop()
        if not count and isinstance(top, _Mark):
            break
        items.append(top)
    return items[::-1]


def _of(kind: type, value: Any) -> Any:
    if type(value) is not kind:
        raise _RefusedError(f"its description puts a {type(value).__name__} for a {kind.__name__}")
    return value


def _storage_of(described: Any) -> _Storage:
    """``("storage", type, key, device, count)``, and in the older format a view, of which none."""
    parts = _of(tuple, described)
    if len(parts) not in (5, 6) or parts[0] != "storage" or parts[5:] not in ((), (None,)):
        raise _RefusedError("its description names something else than numbers")
    kind = _TYPES.get(parts[1]) if isinstance(parts[1], _Name) else None
    if kind is None:
        named = parts[1][:80] if isinstance(parts[1], str) else "of none"
        raise _RefusedError(f"it has numbers of the type {named!r}")
    key, count = _of(str, parts[2]), _of(int, parts[4])
    if count < 0 or not key.isalnum():
        raise _RefusedError("it has numbers without a name, or fewer than none")
    return _Storage(key, kind, count)


def _made(name: Any, given: tuple[Any, ...]) -> Any:
    """What the few functions make that weights need; none of them is called."""
    if type(name) is not _Name:
        raise _RefusedError("its description calls something without a name")
    if name == "collections OrderedDict" and given in ((), ([],)):
        return {}
    if name == "torch._utils _rebuild_tensor_v2" and len(given) >= 4:
        return _tensor_of(*given[:4])
    if name == "torch._utils _rebuild_parameter" and given and type(given[0]) is _Tensor:
        return given[0]
    raise _RefusedError(f"its description calls {name[:80]!r}")


def _tensor_of(storage: Any, offset: Any, shape: Any, strides: Any) -> _Tensor:
    numbers = [offset, *_of(tuple, shape), *_of(tuple, strides)]
    if type(storage) is not _Storage or len(shape) != len(strides):
        raise _RefusedError("its description has a tensor without numbers")
    if len(shape) > _MOST_DIMENSIONS or any(type(one) is not int or one < 0 for one in numbers):
        raise _RefusedError("its description has a tensor of no possible shape")
    return _Tensor(storage, offset, shape, strides)
