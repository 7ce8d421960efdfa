"""What a pickle of tensors describes, without unpickling it.

A pickle is a program: to load one is to run it. `torch.load(weights_only=True)` runs it with few
functions allowed, and has been broken before. Here nothing runs. The instructions are listed by
`pickletools`, and those few that make numbers, texts, lists and dictionaries are followed. What
imports or calls is compared with the few names that weights need, which are never looked up. Any
other instruction is refused.
"""

from __future__ import annotations

import io
import pickletools
import struct
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import torch

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


class RefusedError(ValueError):
    """Why a file of weights is not read."""


class PickledStorage(NamedTuple):
    """Numbers that lie elsewhere in the file."""

    key: str
    kind: torch.dtype
    size: int
    """How many numbers."""


class PickledTensor(NamedTuple):
    """A tensor over such numbers; not yet checked to lie within them."""

    storage: PickledStorage
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


def value_of(stream: io.BytesIO) -> Any:
    """What the next pickle of a stream describes; the stream stands behind it then."""
    machine = _Machine()
    try:
        for opcode, argument, _ in pickletools.genops(stream):
            if opcode.name == "STOP":
                return machine.stack.pop()
            machine.follow(opcode.name, argument)
    except RefusedError:
        raise
    except (ValueError, IndexError, TypeError, KeyError, OverflowError, struct.error) as error:
        raise RefusedError(f"its description is damaged ({type(error).__name__})") from error
    raise RefusedError("its description has no end")


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


class _Machine:
    """The stack on which a value is built, and what is remembered of it."""

    def __init__(self) -> None:
        self.stack: list[Any] = []
        self._memo: dict[int, Any] = {}

    def follow(self, name: str, argument: Any) -> None:
        """Follow one instruction."""
        if name in _PLAIN:
            self.stack.append(argument)
        elif name in _CONSTANTS:
            self.stack.append(_CONSTANTS[name]())
        elif name in _STEPS:
            _STEPS[name](self, argument)
        else:
            raise RefusedError(f"its description has the instruction {name}")

    def above_mark(self) -> list[Any]:
        """Take off what was put on since the last mark."""
        items: list[Any] = []
        while not isinstance(top := self.stack.pop(), _Mark):
            items.append(top)
        return items[::-1]

    def tie(self, items: list[Any]) -> None:
        """Put on a tuple."""
        self.stack.append(tuple(items))

    def last(self, count: int) -> list[Any]:
        """Take off so many values."""
        return [self.stack.pop() for _ in range(count)][::-1]

    def extend(self, items: list[Any]) -> None:
        """Add to the list on top."""
        _of(list, self.stack[-1]).extend(items)

    def update(self, items: list[Any]) -> None:
        """Add keys and values to the dictionary on top."""
        keys = items[::2]
        # A tuple of tuples of tuples would take for ever to hash.
        if any(type(key) not in (str, int) for key in keys):
            raise RefusedError("its description has a name that is no text")
        _of(dict, self.stack[-1]).update(zip(keys, items[1::2], strict=True))

    def remember(self, place: Any) -> None:
        """Remember what is on top."""
        self._memo[len(self._memo) if place is None else int(place)] = self.stack[-1]

    def recall(self, place: Any) -> None:
        """Put on what was remembered."""
        self.stack.append(self._memo[int(place)])

    def call(self) -> None:
        """Put on what a function would make."""
        name, given = self.last(2)
        self.stack.append(_made(name, _of(tuple, given)))

    def set_state(self) -> None:
        """Drop the state of a dictionary: versions of modules, which are no weights."""
        self.stack.pop()
        _of(dict, self.stack[-1])


_STEPS: Mapping[str, Callable[[_Machine, Any], None]] = {
    "PROTO": lambda machine, _: None,
    "FRAME": lambda machine, _: None,
    "TUPLE": lambda machine, _: machine.tie(machine.above_mark()),
    "TUPLE1": lambda machine, _: machine.tie(machine.last(1)),
    "TUPLE2": lambda machine, _: machine.tie(machine.last(2)),
    "TUPLE3": lambda machine, _: machine.tie(machine.last(3)),
    "APPEND": lambda machine, _: machine.extend(machine.last(1)),
    "APPENDS": lambda machine, _: machine.extend(machine.above_mark()),
    "SETITEM": lambda machine, _: machine.update(machine.last(2)),
    "SETITEMS": lambda machine, _: machine.update(machine.above_mark()),
    **dict.fromkeys(("BINPUT", "LONG_BINPUT", "PUT", "MEMOIZE"), _Machine.remember),
    **dict.fromkeys(("BINGET", "LONG_BINGET", "GET"), _Machine.recall),
    "GLOBAL": lambda machine, named: machine.stack.append(_Name(named)),
    "STACK_GLOBAL": lambda machine, _: machine.stack.append(
        _Name(" ".join(_of(str, part) for part in machine.last(2)))
    ),
    "BINPERSID": lambda machine, _: machine.stack.append(_storage_of(machine.stack.pop())),
    "REDUCE": lambda machine, _: machine.call(),
    "BUILD": lambda machine, _: machine.set_state(),
}


def _of(kind: type, value: Any) -> Any:
    if type(value) is not kind:
        raise RefusedError(f"its description puts a {type(value).__name__} for a {kind.__name__}")
    return value


def _storage_of(described: Any) -> PickledStorage:
    """``("storage", type, key, device, count)``, and in the older format a view, of which none."""
    parts = _of(tuple, described)
    if len(parts) not in (5, 6) or parts[0] != "storage" or parts[5:] not in ((), (None,)):
        raise RefusedError("its description names something else than numbers")
    kind = _TYPES.get(parts[1]) if isinstance(parts[1], _Name) else None
    if kind is None:
        named = parts[1][:80] if isinstance(parts[1], str) else "of none"
        raise RefusedError(f"it has numbers of the type {named!r}")
    key, count = _of(str, parts[2]), _of(int, parts[4])
    if count < 0 or not key.isalnum():
        raise RefusedError("it has numbers without a name, or fewer than none")
    return PickledStorage(key, kind, count)


def _made(name: Any, given: tuple[Any, ...]) -> Any:
    """What the few functions make that weights need; none of them is called."""
    if type(name) is not _Name:
        raise RefusedError("its description calls something without a name")
    if name == "collections OrderedDict" and given in ((), ([],)):
        return {}
    if name == "torch._utils _rebuild_tensor_v2" and len(given) >= 4:
        return _tensor_of(*given[:4])
    if name == "torch._utils _rebuild_parameter" and given and type(given[0]) is PickledTensor:
        return given[0]
    raise RefusedError(f"its description calls {name[:80]!r}")


def _tensor_of(storage: Any, offset: Any, shape: Any, strides: Any) -> PickledTensor:
    numbers = [offset, *_of(tuple, shape), *_of(tuple, strides)]
    if type(storage) is not PickledStorage or len(shape) != len(strides):
        raise RefusedError("its description has a tensor without numbers")
    if len(shape) > _MOST_DIMENSIONS or any(type(one) is not int or one < 0 for one in numbers):
        raise RefusedError("its description has a tensor of no possible shape")
    return PickledTensor(storage, offset, shape, strides)
