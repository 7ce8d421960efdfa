"""What this processor can do, and faiss told of it."""

from __future__ import annotations

import importlib
import os
from pathlib import Path
from typing import Any

#: The kernels of OpenBLAS by what they need of a processor, fastest first.
_KERNELS = {
    "SkylakeX": frozenset({"avx512f", "avx512cd", "avx512bw", "avx512dq", "avx512vl"}),
    "Haswell": frozenset({"avx2", "fma"}),
}


def cpu_flags(cpuinfo: Path = Path("/proc/cpuinfo")) -> frozenset[str]:
    """The instruction sets that the CPU reports; empty where the system does not say."""
    if not cpuinfo.exists():
        return frozenset()
    with cpuinfo.open(encoding="utf-8", errors="replace") as lines:
        for line in lines:
            name, _, value = line.partition(":")
            if name.strip() in {"flags", "Features"}:
                return frozenset(value.split())
    return frozenset()


def blas_kernel() -> str:
    """The kernel of OpenBLAS that suits this processor; empty: OpenBLAS chooses."""
    return next((name for name, needed in _KERNELS.items() if needed <= cpu_flags()), "")


def import_faiss() -> Any:
    """The module faiss, untyped: its type hints miss classes and arguments that it has.

    The OpenBLAS in its wheels is of 2021. It does not know newer processors, and takes a kernel of
    2004 for them: matrix products took 4 to 6 times as long. OPENBLAS_CORETYPE counts first.
    """
    kernel = "OPENBLAS_CORETYPE" not in os.environ and blas_kernel()
    if not kernel:
        return importlib.import_module("faiss")
    os.environ["OPENBLAS_CORETYPE"] = kernel  # which OpenBLAS reads when it is loaded
    try:
        return importlib.import_module("faiss")
    finally:
        del os.environ["OPENBLAS_CORETYPE"]
