"""Cores, instruction sets and the choice of device and precision."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

import pytest
import torch

from kglink import processor
from kglink.errors import ConfigError
from kglink.models import choose_hardware, hardware


@pytest.fixture
def four_cpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine of four logical CPUs on two cores: 0 and 2, 1 and 3 are one each."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2, 3}, raising=False)
    for cpu in range(4):
        folder = tmp_path / "cpu" / f"cpu{cpu}" / "topology"
        folder.mkdir(parents=True)
        (folder / "thread_siblings_list").write_text(f"{cpu % 2},{cpu % 2 + 2}\n")
    return tmp_path


def test_hyperthreads_of_a_core_count_once(four_cpus: Path) -> None:
    assert hardware.usable_cores(four_cpus / "cpu", four_cpus) == 2


def test_without_topology_every_cpu_counts(four_cpus: Path) -> None:
    assert hardware.usable_cores(four_cpus / "elsewhere", four_cpus) == 4


@pytest.mark.parametrize(
    ("quota", "cores"), [("max 100000", 4), ("150000 100000", 2), ("10000 100000", 1)]
)
def test_a_container_has_its_quota(four_cpus: Path, quota: str, cores: int) -> None:
    (four_cpus / "cpu.max").write_text(f"{quota}\n")
    assert hardware.usable_cores(four_cpus / "elsewhere", four_cpus) == cores


def test_cpu_flags(tmp_path: Path) -> None:
    path = tmp_path / "cpuinfo"
    path.write_text("processor\t: 0\nflags\t\t: fpu avx512f avx512_bf16\nbugs\t: none\n")
    assert processor.cpu_flags(path) == {"fpu", "avx512f", "avx512_bf16"}
    assert processor.cpu_flags(tmp_path / "none") == frozenset()


@pytest.mark.parametrize(
    ("flags", "precision"),
    [({"avx512_bf16"}, "bf16"), ({"amx_bf16"}, "bf16"), ({"avx512f"}, "fp32"), (set(), "fp32")],
)
def test_bf16_only_where_the_cpu_multiplies_it(
    flags: set[str], precision: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hardware, "cpu_flags", lambda: frozenset(flags))
    assert choose_hardware("cpu").precision == precision
    assert choose_hardware("cpu", "fp32").precision == "fp32"


def test_threads_are_as_asked() -> None:
    assert choose_hardware("cpu", threads=3).threads == 3
    assert choose_hardware("cpu").threads == hardware.usable_cores()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"device": "tpu"}, "unknown device 'tpu'"),
        ({"device": "cuda:x"}, "unknown device 'cuda:x'"),
        ({"device": "cuda:99"}, "'cuda:99' is not there"),
        ({"precision": "int4"}, "unknown precision 'int4'"),
        ({"device": "cpu", "precision": "fp16"}, "fp16 is for GPUs"),
        ({"threads": -1}, "threads = -1"),
    ],
)
def test_impossible_choices_are_refused(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        choose_hardware(**arguments)  # type: ignore[arg-type] # wrong on purpose


def test_a_gpu_with_a_number_is_that_of_the_whole_process(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen: list[object] = []
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "set_device", chosen.append)
    for device in ("auto", "cuda", "cuda:1"):
        choose_hardware(device, "fp16")
    assert chosen == [1]


AVX2 = {"avx2", "fma"}
AVX512 = AVX2 | {"avx512f", "avx512cd", "avx512bw", "avx512dq", "avx512vl"}


@pytest.mark.parametrize(
    ("flags", "kernel"),
    [(AVX512, "SkylakeX"), (AVX512 - {"avx512bw"}, "Haswell"), (AVX2, "Haswell"), ({"neon"}, "")],
)
def test_faiss_gets_the_fastest_kernel_that_the_processor_has(
    monkeypatch: pytest.MonkeyPatch, flags: set[str], kernel: str
) -> None:
    monkeypatch.setattr(processor, "cpu_flags", lambda: frozenset(flags))
    asked: list[str] = []
    monkeypatch.setattr(
        "importlib.import_module",
        lambda name: asked.append(os.environ.get("OPENBLAS_CORETYPE", "")),
    )
    monkeypatch.delenv("OPENBLAS_CORETYPE", raising=False)
    processor.import_faiss()
    assert "OPENBLAS_CORETYPE" not in os.environ
    monkeypatch.setenv("OPENBLAS_CORETYPE", "Zen")
    processor.import_faiss()
    assert os.environ["OPENBLAS_CORETYPE"] == "Zen"
    assert asked == [kernel, "Zen"]


def test_the_openblas_of_faiss_has_that_kernel() -> None:
    wanted = os.environ.get("OPENBLAS_CORETYPE") or processor.blas_kernel()
    processor.import_faiss()
    maps = Path("/proc/self/maps").read_text(encoding="utf-8").splitlines()
    paths = {line.split()[-1] for line in maps if "faiss_cpu.libs/libopenblas" in line}
    if not paths or not wanted:
        pytest.skip("faiss brings no OpenBLAS here, or it chooses its kernel")
    named = ctypes.CDLL(paths.pop()).openblas_get_corename
    named.restype = ctypes.c_char_p
    assert named().decode() == wanted
