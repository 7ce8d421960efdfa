"""Doing something as a user to whom the rights of files apply, even where tests run as root."""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Item = TypeVar("Item")
_VERSION_3 = 0x20080522


def as_a_plain_user(act: Callable[[], Item]) -> Item:
    """What ``act`` returns in a thread without the capabilities of root."""

    def acted() -> Item:
        if os.geteuid() == 0:
            header = struct.pack("Ii", _VERSION_3, 0)
            assert ctypes.CDLL(None).capset(header, bytes(24)) == 0
        return act()

    with ThreadPoolExecutor(1) as pool:
        return pool.submit(acted).result()
