"""Fuzzing of the wikitext cleaner, of every KB adapter, and of the files of a workspace.

    python benchmarks/fuzz.py [READER ...] [--seconds 600] [--seed N] [--data ../shared/data]
                              [--folder F]
    python benchmarks/fuzz.py READER --input FILE

Each reader runs in a process of its own under atheris, from seeds that its tests and the public
data files hold. Nothing but records and a KglinkError may come out of it; a record keeps the
promises of its contract (keys are not empty, ``text[start:end] == surface``); and an input takes
no more CPU time than a bound that is linear in its length. A fifth of the time goes to long
inputs: a stretch of a short one, repeated, which is what a quadratic step shows itself on. What is
found lies in the folder, and the second form runs it again. The corpus is kept there, too: the
next run goes on from it.

``toml``, ``manifest``, ``segments``, ``index``, ``detector`` and ``model`` are files of a workspace
(`fuzz_folders.py`), changed at random and used by the command line.
"""

from __future__ import annotations

import argparse
import bz2
import gzip
import html
import importlib
import json
import logging
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
import zlib
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from fuzz_checks import TooSlow, check_of, time_limit
from fuzz_folders import FOLDERS, fuzz_folder
from fuzz_readers import CLEANER, PART, READERS, Reader

TESTS = Path(__file__).resolve().parent.parent / "tests"
LONGEST, LONG = 8192, 200_000
LONG_SHARE = 0.2
#: A process that answers to no signal for so long is ended by libFuzzer.
HANGS = 300
MOST_FINDINGS = 25


class Report(NamedTuple):
    """What a process has done."""

    executions: int
    seconds: float
    cpu_seconds: float
    findings: list[str]


# ------------------------------------------------------------------------------------ one process
class Fuzzing:
    """One reader under atheris until its time is up."""

    def __init__(self, reader: Reader, folder: Path, seconds: float) -> None:
        self._reader = reader
        self._folder = folder
        self._began = time.monotonic()
        self._seconds = seconds
        self._executions = 0
        self._spent = {False: 0.0, True: 0.0}
        self._findings: dict[str, str] = {}
        self._scratch = Path(tempfile.mkdtemp(prefix="kglink-fuzz-"))

    def run(self) -> None:
        """Never returns: libFuzzer keeps the process until `_end` ends it."""
        import atheris

        seeds = [path.read_bytes() for path in sorted((self._folder / "seeds").iterdir())]
        with atheris.instrument_imports(include=["kglink", "kglink_kbs"]):
            self._check = check_of(self._reader, self._scratch)
            for seed in seeds:  # loads what readers load late
                self._try(seed, long=False)
        arguments = [
            *(sys.argv[0], str(self._folder / "corpus"), str(self._folder / "seeds")),
            *(f"-dict={self._folder / 'tokens'}", f"-artifact_prefix={self._folder}/findings/"),
            *(f"-timeout={HANGS}", f"-report_slow_units={HANGS}", f"-max_len={LONGEST}"),
            *("-rss_limit_mb=4096", "-verbosity=0"),
        ]

        def mutated(data: bytes, size: int, seed: int) -> bytes:
            chance = random.Random(seed)  # noqa: S311 - no secret
            changed = mutated_json(data, chance) if chance.random() < 0.7 else None
            return (changed or bytes(atheris.Mutate(data, size)))[:size]

        extra = {"custom_mutator": mutated} if self._reader.json else {}
        atheris.Setup(arguments, self._one, **extra)
        atheris.Fuzz()

    def _one(self, data: bytes) -> None:
        self._try(data, long=False)
        if self._spent[True] < LONG_SHARE * self._spent[False]:
            self._try(lengthened(data), long=True)
        if time.monotonic() - self._began > self._seconds:
            self._end()

    def _try(self, data: bytes, *, long: bool) -> None:
        began = time.process_time()
        self._executions += 1
        try:
            with time_limit(data):
                self._check(data)
        except (Exception, TooSlow) as error:  # noqa: BLE001 - whatever comes out is a finding
            self._keep(data, error)
        self._spent[long] += time.process_time() - began

    def _keep(self, data: bytes, error: BaseException) -> None:
        """Save the first input for each kind of error at each place."""
        ours = [f for f in traceback.extract_tb(error.__traceback__) if "kglink" in f.filename]
        place = f"{Path(ours[-1].filename).name}:{ours[-1].lineno}" if ours else ""
        what = (
            type(error).__name__
            if isinstance(error, TooSlow)
            else f"{type(error).__name__} {place}"
        )
        if what in self._findings or len(self._findings) >= MOST_FINDINGS:
            return
        path = self._folder / "findings" / f"{len(self._findings):02}-{type(error).__name__}"
        path.write_bytes(data)
        path.with_suffix(".txt").write_text("".join(traceback.format_exception(error)))
        self._findings[what] = str(path)

    def _end(self) -> None:
        seconds = time.monotonic() - self._began
        findings = list(self._findings.values())
        report = Report(self._executions, seconds, time.process_time(), findings)
        (self._folder / "report.json").write_text(json.dumps(report._asdict()))
        shutil.rmtree(self._scratch, ignore_errors=True)
        os._exit(0)


def lengthened(data: bytes) -> bytes:
    """``data`` with a stretch of it repeated; the same for the same data."""
    chance = random.Random(zlib.crc32(data))  # noqa: S311 - no secret
    start = chance.randrange(len(data) + 1)
    piece = data[start : start + chance.choice([1, 2, 4, 8, 32, 256, 4096])] or b"["
    return data[:start] + piece * (LONG // len(piece)) + data[start + len(piece) :]


_ODD: tuple[Any, ...] = (
    *(None, True, 0, -1, 2.5, 2**63, 10**400, float("inf"), "", " ", "a\0", "\ud800", "\u2028"),
    *([], {}, [[]], [None], {"": ""}, "a:b", "x" * 300, 1e308),
)


def mutated_json(data: bytes, chance: random.Random) -> bytes | None:
    """JSON, or one of its lines, with a value changed, moved or gone; None if it is no JSON."""
    lines = data.split(b"\n")
    at = chance.randrange(len(lines))
    for text in (data, lines[at]):
        try:
            value = json.loads(text)
            _change(value, chance)
            changed = json.dumps(value, ensure_ascii=chance.random() < 0.5)
        except (ValueError, RecursionError):
            continue
        raw = changed.encode("utf-8", errors="surrogatepass")
        return raw if text is data else b"\n".join([*lines[:at], raw, *lines[at + 1 :]])
    return None


def _change(value: Any, chance: random.Random) -> None:
    """Change one place of a tree, each as likely as any other."""
    places: list[tuple[Any, Any]] = []
    waiting = [value]
    while waiting:
        node = waiting.pop()
        keys = (
            list(node)
            if isinstance(node, dict)
            else range(len(node) if isinstance(node, list) else 0)
        )
        places += [(node, key) for key in keys]
        waiting += [node[key] for key in keys]
    if not places:
        return
    (node, key), (other, its) = chance.choice(places), chance.choice(places)
    match chance.randrange(5):
        case 0:
            del node[key]
        case 1:
            node[key] = json.loads(json.dumps(other[its]))
        case 2 if isinstance(node[key], str):
            node[key] = node[key][: chance.randrange(9)] + chance.choice(
                ["", "\n", "\t", "é", ":", "|"]
            )
        case 3 if isinstance(node[key], int | float):
            node[key] += chance.choice([-1, 1, 1000])
        case _:
            node[key] = chance.choice(_ODD)


# -------------------------------------------------------------------------------------- the seeds
def seeds_of(reader: Reader, data: Path) -> Iterator[bytes]:
    """Small samples: the contract's, the test module's, and beginnings of public data files."""
    yield b"x"
    if reader.tests:
        module = importlib.import_module(reader.tests)
        for case in vars(module).values():
            if getattr(case, "plugin", "") == f"kglink/{reader.name}":
                for sample in (case.source_text, *case.broken):
                    yield sample.encode() if isinstance(sample, str) else sample
        if reader.parts:
            yield PART.join(part.encode() for part in reader.parts(module))
    for pattern in reader.data:
        for path in islice(sorted(data.glob(pattern)), 4):
            yield from _beginnings(reader, path)


def _beginnings(reader: Reader, path: Path) -> Iterator[bytes]:
    openers: Mapping[str, Callable[..., Any]] = {".gz": gzip.open, ".bz2": bz2.open}
    opener = openers.get(path.suffix, Path.open)
    with opener(path, "rb") as file:
        beginning = file.read(300_000 if reader.name == CLEANER else 3000)
    if reader.name != CLEANER:
        yield beginning[: beginning.rfind(b"\n") + 1] or beginning
        return
    for found in islice(
        re.finditer(r"<text[^>]*>(.*?)</text>", beginning.decode(errors="replace"), re.DOTALL), 12
    ):
        text = html.unescape(found[1])
        for start in range(0, min(len(text), 9000), 1500):
            yield text[start : start + 1500].encode()


def prepare(reader: Reader, folder: Path, data: Path) -> None:
    """Make the folder of one reader ready."""
    for name in ("seeds", "findings"):
        shutil.rmtree(folder / name, ignore_errors=True)
    for name in ("seeds", "findings", "corpus"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate(seeds_of(reader, data)):
        (folder / "seeds" / f"{number:03}").write_bytes(seed)
    tokens = [
        *reader.tokens.split(),
        *reader.more_tokens,
        *([PART.decode()] if reader.files else []),
    ]
    quoted = ["".join(f"\\x{byte:02x}" for byte in token.encode()) for token in tokens]
    (folder / "tokens").write_text("".join(f'"{token}"\n' for token in quoted))
    (folder / "report.json").unlink(missing_ok=True)


# ------------------------------------------------------------------------------------ the program
def fuzz(reader: Reader, folder: Path, data: Path, seconds: float) -> Report:
    """Run one reader in a process of its own."""
    prepare(reader, folder, data)
    in_memory = Path("/dev/shm")  # noqa: S108 - a file system in memory, where there is one
    environment = {**os.environ, **({"TMPDIR": str(in_memory)} if in_memory.is_dir() else {})}
    began = time.monotonic()
    with (folder / "log").open("w") as log:
        arguments = [reader.name, "--seconds", str(seconds), "--folder", str(folder.parent)]
        ended = subprocess.run(
            [sys.executable, __file__, *arguments, "--child"],
            stdout=log,
            stderr=log,
            env=environment,
            check=False,
        )
    report = folder / "report.json"
    if ended.returncode == 0 and report.exists():
        return Report(**json.loads(report.read_text()))
    left = [str(path) for path in (folder / "findings").iterdir() if path.suffix != ".txt"]
    how = f"ended with {ended.returncode}: {folder}/log"
    return Report(0, time.monotonic() - began, 0.0, [*left, how])


def again(reader: Reader, path: Path) -> None:
    """Read one saved input once more; what comes out is shown as it is."""
    data = path.read_bytes()
    with tempfile.TemporaryDirectory() as scratch:
        began = time.process_time()
        with time_limit(data):
            check_of(reader, Path(scratch))(data)
    print(f"nothing found in {time.process_time() - began:.3f} s")


def main() -> int:
    """Fuzz the readers that are named, or all of them; 1 if anything is found."""
    names = [*READERS, *FOLDERS]
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("readers", nargs="*", metavar="READER", help=", ".join(names))
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument(
        "--seed", type=int, default=1, help="what is drawn for files of a workspace"
    )
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "kglink-fuzz")
    parser.add_argument("--data", type=Path, default=TESTS.parent.parent / "shared" / "data")
    parser.add_argument("--input", type=Path, help="a saved input to read once more")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    unknown = set(given.readers) - set(names)
    if unknown:
        parser.error(f"no reader {', '.join(sorted(unknown))}; there is {', '.join(names)}")
    chosen = [READERS[name] for name in given.readers or READERS if name in READERS]
    folders = [name for name in given.readers or FOLDERS if name in FOLDERS]
    logging.disable()  # rdflib tells of every odd address
    if given.input:
        again(chosen[0], given.input)
    elif given.child:
        Fuzzing(chosen[0], given.folder / chosen[0].name, given.seconds).run()
    else:
        return _fuzz_all(chosen, folders, given)
    return 0


def _fuzz_all(chosen: list[Reader], folders: list[str], given: argparse.Namespace) -> int:
    sys.path[:0] = [str(TESTS), str(TESTS / "kbs"), str(TESTS / "support")]
    found = 0
    print(f"{'reader':16}{'executions':>12}{'seconds':>9}{'CPU':>7}{'corpus':>8}{'findings':>10}")
    for reader in chosen:
        folder = given.folder.resolve() / reader.name
        report = fuzz(reader, folder, given.data, given.seconds)
        corpus = sum(1 for _ in (folder / "corpus").iterdir())
        times = f"{report.seconds:9,.0f}{report.cpu_seconds:7,.0f}"
        counts = f"{report.executions:12,}{times}{corpus:8,}{len(report.findings):10}"
        print(f"{reader.name:16}{counts}", flush=True)
        for finding in report.findings:
            print(f"  python {sys.argv[0]} {reader.name} --input {finding}", flush=True)
        found += len(report.findings)
    for name in folders:
        folder = given.folder.resolve() / name
        ends, kept = fuzz_folder(name, folder, given.seconds, given.seed, mutated_json)
        counts = f"{ends.total():12,}{given.seconds:9,.0f}{'':15}{len(kept):10}"
        codes = ", ".join(f"{count} exit {code}" for code, count in sorted(ends.items()))
        print(f"{name:16}{counts}  {codes}", flush=True)
        for finding in kept:
            print(f"  {finding}.txt", flush=True)
        found += len(kept)
    return int(found > 0)


if __name__ == "__main__":
    sys.exit(main())
