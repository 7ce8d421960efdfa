"""Libraries that would die under a small limit on address space are refused before they load."""

from __future__ import annotations

import resource
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import MappingProxyType, ModuleType

from kglink.errors import KglinkError

#: MiB that each needs from its import to its first result. With less they hang or end by a signal,
#: in their own initialisation or in a thread of theirs, where no exception can be caught. Measured
#: with MiniLM, and a fifth more.
NEEDS = MappingProxyType({"scipy.linalg": 250, "faiss": 450, "torch": 1500})
_STATM = Path("/proc/self/statm")


class _Guard(MetaPathFinder):
    """Finds nothing; refuses what there is no room for."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Refuse one of the libraries where the limit leaves too little for it."""
        if fullname in NEEDS and (left := _mib_left()) < NEEDS[fullname]:
            limit = resource.getrlimit(resource.RLIMIT_AS)[0] >> 20
            raise KglinkError(
                f"out of memory: {fullname} needs {NEEDS[fullname]:,} MiB of address space, and the"
                f" limit of {limit:,} MiB leaves {left:,}",
                hint="Raise the limit of this shell: ulimit -v unlimited",
            )
        return None


def _mib_left() -> int:
    taken = int(_STATM.read_text(encoding="ascii").split()[0]) * resource.getpagesize()
    return max(0, resource.getrlimit(resource.RLIMIT_AS)[0] - taken) >> 20


def guard_imports() -> None:
    """Refuse libraries that the limit on address space (`ulimit -v`) has no room for."""
    limited = resource.getrlimit(resource.RLIMIT_AS)[0] != resource.RLIM_INFINITY
    if limited and _STATM.exists():
        sys.meta_path.insert(0, _Guard())
