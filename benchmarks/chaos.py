"""Chaos: kills, full disks, little memory and read-only folders, several commands at once.

Run: python benchmarks/chaos.py [--seconds 3600] [--seed N] [--entities 400] [--changed 3]
    [--keep FOLDER]

With ``--entities 2100 --changed 60`` so little changes between the two sources of a KB that each
change becomes a layer on the segment below it.

A workspace of two KBs is filled, linked and exported undisturbed, and what it answers is kept.
Then, in a copy of it, commands run for the given time, one to three at once: add-kb with the newer
and with the older source, build, build --fresh, index, overlap, link, export, doctor. Each is
disturbed in a way that is drawn: killed (-9) when it has used a random share of the processor time
that it needs undisturbed, which is measured first; with a limit on the size of files (as on a disk
that is full) or on memory; with the workspace mounted read-only; or not at all. Linux only.
After each round the workspace must open; nothing may end by a signal of its own, in a
traceback or in an "unexpected error"; `link` must answer what it answers in one of the states that
the KBs can be in. In the end all sources are added undisturbed, and links, export and a check by
`doctor` must be equal to those of the undisturbed workspace.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

KGLINK = Path(sys.executable).with_name("kglink")
KBS = ("sky", "sea")
PRESETS = ("flat", "sq8", "hnsw-fast")
TEXT = "Name 3 met Name 17 near Alias 21, and Newcomer 5 saw Name 40."
#: Bytes that a file may have on the "full disk", and memory that a process may have.
DISK = (1_000, 20_000, 200_000, 2_000_000)
MEMORY_MIB = (240, 300, 600, 850, 1200, 1700)
LONGEST = 120.0
MOST_AT_ONCE = 3
#: Kills come at up to this share of a command's time: some commands end before theirs.
LATEST_KILL = 1.1
#: How often the processor time of running commands is read, in seconds.
EVERY = 0.01


class Way(NamedTuple):
    """A way of disturbing a command, and how it is set up in the child."""

    name: str
    limit: float = 0

    def prepare(self) -> None:
        """Run in the child before the command."""
        if self.name == "disk":
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (int(self.limit), int(self.limit)))
        if self.name == "memory":
            size = int(self.limit) << 20
            resource.setrlimit(resource.RLIMIT_AS, (size, size))


@dataclass
class Tally:
    """What was done, and what was wrong with it."""

    runs: Counter[str] = field(default_factory=Counter)
    ends: Counter[str] = field(default_factory=Counter)
    kills: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    def tell(self, what: str) -> None:
        """Print and keep something that must not happen."""
        print(f"WRONG: {what}", flush=True)
        self.wrong.append(what)


def write_source(path: Path, kb: str, entities: int, changed: int, *, newer: bool) -> None:
    """A KB; in the newer one every so many-th description is another, and entities come and go."""
    with path.open("w", encoding="utf-8") as out:
        for at in range(entities):
            if newer and at % (3 * changed + 1) == 9:
                continue
            text = f"{'New' if newer and at % changed == 0 else 'Old'} text {at} of {kb}."
            names = [{"surface": f"Alias {at}"}]
            line = {"key": f"{kb}{at:05}", "title": f"Name {at}", "description": text}
            out.write(json.dumps({**line, "aliases": names}) + "\n")
        for at in range(20 if newer else 0):
            out.write(json.dumps({"key": f"{kb}n{at}", "title": f"Newcomer {at}"}) + "\n")


class House:
    """A workspace and its two sources of each KB."""

    def __init__(self, folder: Path, sources: Path) -> None:
        self.folder, self.sources = folder, sources

    def command(self, *args: object) -> list[str]:
        """A command line for this workspace."""
        return [str(KGLINK), "--workspace", str(self.folder), *map(str, args)]

    def run(self, *args: object, stdin: str = "") -> str:
        """Run a command undisturbed; what it prints."""
        ran = subprocess.run(
            self.command(*args), input=stdin, capture_output=True, text=True, check=False
        )
        if ran.returncode:
            raise SystemExit(f"{args}: {ran.returncode}\n{ran.stdout}\n{ran.stderr}")
        return ran.stdout

    def source(self, kb: str, *, newer: bool) -> Path:
        """A source file."""
        return self.sources / f"{kb}-{'new' if newer else 'old'}.jsonl"

    def add_all(self, *, newer: bool) -> None:
        """Add both KBs from their sources of one age, and build."""
        for kb in KBS:
            self.run("add-kb", kb, self.source(kb, newer=newer))
        self.run("build")

    def state(self) -> dict[str, str]:
        """Everything that a user can see of it, but for times and revisions."""
        exported = {kb: self.run("export", kb) for kb in KBS}
        links = self.run("link", "-", "-f", "jsonl", stdin=TEXT)
        return {**exported, "links": meant(links)}


def meant(links: str) -> str:
    """What the mentions of linked documents mean, without scores: they hang on the index."""
    lines = [json.loads(line) for line in links.splitlines()]
    return json.dumps(
        [[(one["start"], one["kb"], one["key"]) for one in line["entities"]] for line in lines]
    )


def jobs(house: House, rng: random.Random, out: Path) -> list[str]:
    """A command that is drawn."""
    kb, newer = rng.choice(KBS), rng.random() < 0.5
    drawn: Sequence[Sequence[object]] = [
        ("add-kb", kb, house.source(kb, newer=newer)),
        ("add-kb", kb, house.source(kb, newer=newer)),
        ("build",),
        ("build",),
        ("build", "--fresh"),
        ("index", "--preset", rng.choice(PRESETS)),
        ("overlap", *KBS),
        ("link", out / "text.txt", "-f", "jsonl", "-o", out / f"links{rng.randrange(2)}.jsonl"),
        ("export", kb, "-o", out / f"{kb}.jsonl"),
        ("doctor",),
    ]
    return house.command(*rng.choice(drawn))


def shape(command: Sequence[str]) -> str:
    """What kind of command it is, for its time."""
    return "build --fresh" if "--fresh" in command else command[3]


def undisturbed(house: House, out: Path) -> dict[str, float]:
    """Seconds of processor time that each kind of command needs with all its work to do."""
    longest: dict[str, float] = {}
    for args in (
        *(("add-kb", kb, house.source(kb, newer=newer)) for newer in (False, True) for kb in KBS),
        ("build",),
        ("build", "--fresh"),
        *(("index", "--preset", preset) for preset in PRESETS),
        ("overlap", *KBS),
        ("link", out / "text.txt", "-f", "jsonl", "-o", out / "links.jsonl"),
        ("export", KBS[0], "-o", out / "export.jsonl"),
        ("doctor",),
    ):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        house.run(*args)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        took = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        kind = shape(house.command(*args))
        longest[kind] = max(took, longest.get(kind, 0.0))
    return longest


def way(rng: random.Random, needs: float) -> Way:
    """A disturbance that is drawn, for a command that needs so much processor time."""
    name = rng.choice(["kill", "kill", "kill", "disk", "memory", "read-only", "none"])
    if name == "kill":
        return Way(name, rng.uniform(0, LATEST_KILL) * needs)
    limits = {"disk": DISK, "memory": MEMORY_MIB}
    return Way(name, rng.choice(limits[name]) if name in limits else 0)


def used(child: subprocess.Popen[str]) -> float:
    """Seconds of processor time that a running process has used."""
    after_name = Path(f"/proc/{child.pid}/stat").read_text(encoding="utf-8").rpartition(")")[2]
    user, system = after_name.split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def mounted_read_only(folder: Path, command: Sequence[str]) -> list[str]:
    """A command that sees a folder on a mount that nobody can write to."""
    mounts = f"mount --bind '{folder}' '{folder}' && mount -o remount,ro,bind '{folder}'"
    unshare = ["unshare", "-m"] if os.geteuid() == 0 else ["unshare", "-rm"]
    return [*unshare, "sh", "-c", f'{mounts} && exec "$@"', "sh", *command]


def judged(tally: Tally, how: Way, command: Sequence[str], code: int, told: str) -> None:
    """Count how a command ended."""
    shown = f"{' '.join(command[3:])} [{how.name} {how.limit:.4g}]"
    verb = command[3]
    tally.runs[f"{verb} / {how.name}"] += 1
    tally.ends["killed" if code == -signal.SIGKILL else f"exit {code}"] += 1
    if code < 0 and code != -signal.SIGKILL:
        tally.tell(f"{shown}: ended by signal {-code}: {told[-300:]}")
    elif "Traceback" in told or "unexpected error" in told:
        tally.tell(f"{shown}: {told[-600:]}")


def round_of(
    house: House, rng: random.Random, out: Path, tally: Tally, needs: dict[str, float]
) -> None:
    """Some commands at once, each disturbed in its way."""
    running: list[tuple[Way, list[str], subprocess.Popen[str]]] = []
    for _ in range(rng.randint(1, MOST_AT_ONCE)):
        command = jobs(house, rng, out)
        how = way(rng, needs[shape(command)])
        shown = mounted_read_only(house.folder, command) if how.name == "read-only" else command
        child = subprocess.Popen(
            shown, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True, preexec_fn=how.prepare,  # noqa: PLW1509 - this program has no threads
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )  # fmt: skip
        running.append((how, command, child))
    until = time.monotonic() + LONGEST
    waiting = list(running)
    while waiting:
        time.sleep(EVERY)
        late = time.monotonic() > until
        for one in list(waiting):
            how, command, child = one
            if child.poll() is not None:
                waiting.remove(one)
            elif late or (how.name == "kill" and used(child) >= how.limit):
                child.kill()
                waiting.remove(one)
                share = how.limit / needs[shape(command)]
                tally.kills["too long" if late else f"{min(9, int(10 * share)) / 10:.1f}"] += 1
    for how, command, child in running:
        told, _ = child.communicate()
        judged(tally, how, command, child.returncode, told)


def checked(house: House, tally: Tally, answers: set[str]) -> None:
    """The workspace lists its KBs, and links as one of the states that it may be in."""
    for args in (("kbs", "--json"), ("link", "-", "-f", "jsonl")):
        ran = subprocess.run(
            house.command(*args), input=TEXT, capture_output=True, text=True, check=False
        )
        told = ran.stdout + ran.stderr
        if ran.returncode < 0 or "Traceback" in told or "unexpected error" in told:
            tally.tell(f"{args}: {ran.returncode} {told[-500:]}")
        elif args[0] == "kbs" and ran.returncode:
            tally.tell(f"kbs: {told[-300:]}")
        elif args[0] == "link" and not ran.returncode and meant(ran.stdout) not in answers:
            tally.tell(f"link answers what no state answers: {meant(ran.stdout)}")


def main() -> int:
    """Build the undisturbed workspace, disturb its copy, compare."""
    parser = argparse.ArgumentParser(description="Kills, full disks, little memory, read-only.")
    parser.add_argument("--seconds", type=float, default=3600)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--entities", type=int, default=400)
    parser.add_argument("--changed", type=int, default=3, help="one of so many is changed")
    parser.add_argument("--keep", type=Path)
    options = parser.parse_args()
    rng = random.Random(options.seed)  # noqa: S311 - a drawn order, not a secret
    root = options.keep or Path(tempfile.mkdtemp(prefix="kglink-chaos-"))
    root.mkdir(parents=True, exist_ok=True)
    for kb in KBS:
        for newer in (False, True):
            path = root / f"{kb}-{'new' if newer else 'old'}.jsonl"
            write_source(path, kb, options.entities, options.changed, newer=newer)
    (root / "out").mkdir(exist_ok=True)
    (root / "out" / "text.txt").write_text(TEXT, encoding="utf-8")

    calm = House(root / "calm", root)
    subprocess.run([KGLINK, "init", calm.folder], check=True, capture_output=True)
    answers = states(calm)
    wanted = calm.state()
    house = House(root / "chaos", root)
    shutil.copytree(calm.folder, house.folder)

    needs = undisturbed(house, root / "out")
    print("seconds undisturbed:", {kind: round(took, 2) for kind, took in needs.items()})

    tally, rounds = Tally(), 0
    stop = time.monotonic() + options.seconds
    while time.monotonic() < stop:
        round_of(house, rng, root / "out", tally, needs)
        checked(house, tally, answers)
        rounds += 1
    house.add_all(newer=True)
    for what, value in house.state().items():
        if value != wanted[what]:
            tally.tell(f"{what} is not that of the undisturbed workspace")
    house.run("doctor")
    left = [str(path) for path in house.folder.rglob(".*.kglink-*")]
    print(f"{rounds} rounds, {sum(tally.runs.values())} commands, {len(tally.wrong)} wrong")
    print("ends:", dict(tally.ends))
    print("kills at each tenth of a command's time:", dict(sorted(tally.kills.items())))
    for what, count in sorted(tally.runs.items()):
        print(f"  {what}: {count}")
    print(f"drafts left: {len(left)}")
    if not options.keep and not tally.wrong:
        shutil.rmtree(root)
    return bool(tally.wrong)


def states(calm: House) -> set[str]:
    """What `link` answers in each state that the KBs can be in; the last one is new and new."""
    answers = set()
    for ages in ((False, False), (False, True), (True, False), (True, True)):
        for kb, newer in zip(KBS, ages, strict=True):
            calm.run("add-kb", kb, calm.source(kb, newer=newer))
        calm.run("build")
        answers.add(meant(calm.run("link", "-", "-f", "jsonl", stdin=TEXT)))
    return answers


if __name__ == "__main__":
    raise SystemExit(main())
