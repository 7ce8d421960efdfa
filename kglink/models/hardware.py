"""What this machine offers for encoding: device, precision and threads, without loading torch."""

from __future__ import annotations

import os
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from kglink.errors import ConfigError
from kglink.processor import cpu_flags

Precision = Literal["auto", "fp32", "bf16", "fp16", "int8"]

#: Instruction sets with which a bf16 matrix product is several times faster than an fp32 one.
BF16_FLAGS = frozenset({"avx512_bf16", "amx_bf16"})

#: Compiled matrix products that torch and oneDNN keep.
_KERNELS = 32


@dataclass(frozen=True, slots=True)
class Hardware:
    """Where and how a model runs; ``precision`` is settled, never ``auto``."""

    device: str
    precision: Precision
    threads: int


def usable_cores(
    topology: Path = Path("/sys/devices/system/cpu"), cgroup: Path = Path("/sys/fs/cgroup")
) -> int:
    """Physical cores that this process may use: two hyperthreads of one core count once."""
    some = hasattr(os, "sched_getaffinity")
    cpus: AbstractSet[int] = os.sched_getaffinity(0) if some else set(range(os.cpu_count() or 1))
    shared = [topology / f"cpu{cpu}" / "topology" / "thread_siblings_list" for cpu in cpus]
    cores = {path.read_text("ascii").strip() if path.exists() else str(path) for path in shared}
    path = cgroup / "cpu.max"  # what a container may use (cgroup v2)
    quota, _, period = (path.read_text("ascii") if path.exists() else "").strip().partition(" ")
    if quota.isdecimal() and period:
        return max(1, min(len(cores), round(int(quota) / int(period)) or 1))
    return max(1, len(cores))


def choose_hardware(
    device: str = "auto", precision: Precision = "auto", threads: int = 0
) -> Hardware:
    """Settle device, precision and threads; ``auto`` and 0 mean the best of this machine."""
    if threads < 0:
        raise ConfigError(f"threads = {threads}", hint="Give a positive number, or 0 for auto.")
    if precision not in get_args(Precision):
        hint = "There is: auto, bf16, fp32, int8."
        raise ConfigError(f"unknown precision {precision!r}", hint=hint)
    chosen = _choose_device(device)
    if chosen == "cpu" and precision == "fp16":
        raise ConfigError("precision fp16 is for GPUs", hint="Use bf16 or fp32 on a CPU.")
    if chosen != "cpu" and precision == "int8":
        raise ConfigError("precision int8 is for CPUs", hint="Use device = cpu, or auto on a GPU.")
    if chosen == "cpu":
        # torch and oneDNN each keep the last 1,024 compiled products, one for each shape of matrix,
        # and batches of packed texts have new shapes all the time: 5 GiB after a few hundred steps.
        # Making them anew costs 3% of the time. Both are asked once, at the first product.
        for variable in ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY"):
            os.environ.setdefault(variable, str(_KERNELS))
    if precision == "auto":  # the fastest whose results are good enough to search with
        if chosen == "cpu":
            precision = "fp32" if BF16_FLAGS.isdisjoint(cpu_flags()) else "bf16"
        else:
            import torch

            has_bf16 = torch.cuda.is_bf16_supported(including_emulation=False)
            precision = "bf16" if has_bf16 else "fp16"
    return Hardware(chosen, precision, threads or usable_cores())


def _choose_device(device: str) -> str:
    """Check a device name against what torch finds."""
    if device == "cpu":
        return device
    import torch

    if device == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    kind, _, number = device.partition(":")
    if kind != "cuda" or not (number.isdecimal() or not number):
        raise ConfigError(f"unknown device {device!r}", hint="There is: auto, cpu, cuda, cuda:N.")
    if int(number or 0) >= torch.cuda.device_count():
        raise ConfigError(
            f"device {device!r} is not there: torch finds {torch.cuda.device_count()} CUDA devices",
            hint="Use device = auto, or install a torch build for this GPU.",
        )
    if number:
        torch.cuda.set_device(int(number))  # indexes are searched on the same one
    return device
