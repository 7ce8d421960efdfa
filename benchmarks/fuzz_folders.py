"""What `fuzz.py` does to a workspace and to a model: one file of it is changed, then it is used.

Half of the changed files get new digests in the manifests that name them, as a forger would write
them, so that the readers behind the digests (numpy, faiss, marisa, safetensors, tokenizers) see
them too. Each input is used in a child process by the command line: no signal, no traceback, no
"unexpected error", and no more than a minute of processor time may come of it. The commands have
run once in the parent, on another workspace, so that a child begins with everything imported.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import random
import resource
import shutil
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

CPU_SECONDS = 60
TEXT = "Name 3 met Name 17 near Alias 21."
LINK = ("link", "-", "-f", "jsonl")
Mutate = Callable[[bytes, random.Random], bytes]


class Folder(NamedTuple):
    """Files of a workspace that are changed, and the commands that read them."""

    files: Sequence[str]
    """Patterns of paths within the workspace."""
    commands: Sequence[Sequence[str]] = (LINK, ("search", "Alias 21"), ("doctor",))


#: What is fuzzed, by name.
FOLDERS: Mapping[str, Folder] = {
    "toml": Folder(["kglink.toml"], [("kbs",), LINK, ("settings",)]),
    "manifest": Folder(
        ["spaces/default/CURRENT", "spaces/default/versions/*/manifest.json",
         "spaces/default/versions/*/checked.json", "spaces/default/segments/*/*.json"],
        [LINK, ("spaces",), ("doctor",), ("build",)],
    ),
    "segments": Folder(["spaces/default/segments/*/*"], [LINK, ("search", "Alias 21"), ("build",)]),
    "index": Folder(["spaces/default/versions/*/index.faiss"]),
    "detector": Folder(["spaces/default/cache/*/*"], [LINK]),
    "model": Folder(["model/*", "model/*/*"], [LINK, ("build",)]),
}  # fmt: skip


def make_workspace(folder: Path) -> None:
    """A workspace of two small KBs with a tiny model of its own, built and linked once."""
    from tiny_models import write_model, write_modules

    run(["init", str(folder)])
    write_modules(write_model(folder / "model"), "Transformer", "Pooling", pooling_mode="mean")
    with (folder / "kglink.toml").open("a", encoding="utf-8") as config:
        config.write(f'\n[encoder]\nmodel = "{folder / "model"}"\n')
    for kb in ("sea", "sky"):
        source = folder / f"{kb}.jsonl"
        names = [{"key": f"{kb}{n}", "title": f"Name {n}", "description": f"Text {n} of {kb}.",
                  "aliases": [{"surface": f"Alias {n}"}]} for n in range(40)]  # fmt: skip
        source.write_text("".join(json.dumps(one) + "\n" for one in names), encoding="utf-8")
        run(["--workspace", str(folder), "add-kb", kb, str(source)])
    for command in (("build",), LINK):
        code, told = run(["--workspace", str(folder), *command])
        if code:
            raise SystemExit(f"{command}: {told}")


def warm_up(folder: Path) -> None:
    """Run every command in this process, on a workspace of its own, for what it imports."""
    make_workspace(folder)
    with (folder / "log").open("w", encoding="utf-8") as log:
        for command in {command for fuzzed in FOLDERS.values() for command in fuzzed.commands}:
            shown = sys.stdout, sys.stderr
            sys.stdout = sys.stderr = log
            try:
                ended = command_line(["--workspace", str(folder), *command])
            finally:
                sys.stdout, sys.stderr = shown
            if ended:
                raise SystemExit(f"{command} ended with {ended}: see {log.name}")


def fuzz_folder(
    name: str, folder: Path, seconds: float, seed: int, mutated_json: Callable[..., bytes | None]
) -> tuple[Counter[int], list[str]]:
    """Change and use files until the time is up; how the commands ended, and what was found."""
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "findings").mkdir(parents=True)
    house, spare = folder / "workspace", folder / "spare"
    make_workspace(house)
    shutil.copytree(house, spare)
    warm_up(folder / "warm")
    chance = random.Random(f"{name} {seed}")  # noqa: S311 - a drawn order, no secret
    found: dict[str, str] = {}
    ends: Counter[int] = Counter()
    stop = time.monotonic() + seconds
    while time.monotonic() < stop:
        fuzzed = FOLDERS[name]
        there = (path for one in fuzzed.files for path in house.glob(one))
        path = chance.choice(sorted(path for path in there if path.is_file()))
        data = path.read_bytes()
        changed = mutated(data, chance, mutated_json)
        path.unlink()
        path.write_bytes(changed)
        forged = chance.random() < 0.5
        if forged:
            forge(house, path, data, changed)
        command = chance.choice(fuzzed.commands)
        code, told = run(["--workspace", str(house), *command])
        ends[code] += 1
        wrong = code < 0 or "Traceback" in told or "unexpected error" in told
        what = f"{code} {told.strip().splitlines()[-1][:60] if told.strip() else ''}"
        if wrong and what not in found:
            kept = folder / "findings" / f"{len(found):02}-{path.name}"
            kept.write_bytes(changed)
            how = f"{path.relative_to(house)} forged={forged} {command} ended with {code}\n{told}"
            kept.with_name(f"{kept.name}.txt").write_text(how, encoding="utf-8")
            found[what] = str(kept)
        restore(spare, house)
    return ends, list(found.values())


def mutated(data: bytes, chance: random.Random, mutated_json: Callable[..., bytes | None]) -> bytes:
    """Changed bytes: bits, stretches, numbers, ends, or values where it is JSON."""
    if chance.random() < 0.5 and len(data) < 1 << 16:
        changed = mutated_json(data, chance)
        if changed is not None:
            return changed
    out = bytearray(data or b"x")
    for _ in range(chance.choice([1, 1, 1, 2, 4, 16])):
        # Headers decide more than what follows them.
        at = chance.randrange(min(len(out), chance.choice([64, 512, len(out)])))
        match chance.randrange(6):
            case 0:
                out[at] ^= 1 << chance.randrange(8)
            case 1:
                out[at] = chance.choice([0, 1, 0x7F, 0x80, 0xFF])
            case 2:
                size = chance.choice([4, 8])
                number = chance.choice([0, 1, -1, 2**31 - 1, -(2**31), 1 << 20])
                out[at : at + size] = (number % (1 << 8 * size)).to_bytes(size, "little")
            case 3:
                del out[at : at + chance.choice([1, 8, 64, len(out)])]
            case 4:
                start = chance.randrange(len(out))
                out[at:at] = out[start : start + chance.choice([1, 8, 64])]
            case _:
                size = chance.choice([8, 64])
                out[at : at + size] = chance.randbytes(size)
        if not out:
            break
    return bytes(out)


def forge(house: Path, path: Path, before: bytes, after: bytes) -> None:
    """Write the new sizes and digests wherever a manifest beside or above holds the old ones."""
    for folder in (path.parent, path.parent.parent):
        for manifest in folder.glob("*.json"):
            if manifest == path or house not in manifest.parents:
                continue
            try:
                told: Any = json.loads(manifest.read_text(encoding="utf-8"))
            except ValueError:  # a file of the model that is no manifest
                continue
            if not isinstance(told, dict) or not isinstance(told.get("files", {}), dict):
                continue
            entries = {**told.get("files", {}), "index.faiss": told.get("index_file")}
            entry = entries.get(path.name)
            if isinstance(entry, dict) and "blake2b" in entry:
                entry["bytes"] = len(after)
                entry["blake2b"] = hashlib.blake2b(after, digest_size=16).hexdigest()
                manifest.write_text(json.dumps(told), encoding="utf-8")
    if len(before) == len(after):
        os.utime(path)


def stamp_of(path: Path) -> tuple[int, int]:
    """What tells that a file was written since it was copied."""
    found = path.stat()
    return found.st_size, found.st_mtime_ns


def restore(spare: Path, house: Path) -> None:
    """Put back all files that are not as they were."""
    wanted = {path.relative_to(spare) for path in spare.rglob("*") if path.is_file()}
    for path in [path for path in house.rglob("*") if path.is_file() or path.is_symlink()]:
        name = path.relative_to(house)
        if name not in wanted:
            path.unlink()
    for name in wanted:
        there, good = house / name, spare / name
        if not there.exists() or stamp_of(there) != stamp_of(good):
            there.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(good, there)


def run(arguments: Sequence[str]) -> tuple[int, str]:
    """Run a command line in a child of this process; how it ended and what it said."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.close(reading)
        _child(arguments, writing)
    os.close(writing)
    with os.fdopen(reading, "rb") as stream:
        told = stream.read()
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status), told.decode(errors="replace")


def _child(arguments: Sequence[str], writing: int) -> None:
    """Become the command; never returns."""
    os.dup2(writing, 1)
    os.dup2(writing, 2)
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
    code = 99
    try:
        sys.stdout = os.fdopen(1, "w", encoding="utf-8", closefd=False)
        sys.stderr = os.fdopen(2, "w", encoding="utf-8", closefd=False)
        code = command_line(arguments)
    except BaseException as error:  # noqa: BLE001 - whatever comes out is a finding
        sys.stderr.write(f"Traceback: {error!r}")
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def command_line(arguments: Sequence[str]) -> int:
    """Run a command line in this process; its exit code."""
    from kglink_cli.main import run as run_command

    sys.argv = ["kglink", *arguments]
    sys.stdin = io.TextIOWrapper(io.BytesIO(TEXT.encode()), encoding="utf-8")
    try:
        run_command()
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    return 0
