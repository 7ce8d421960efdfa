"""Attacks on the command line and on what a workspace trusts, each as it was once run."""

from __future__ import annotations

import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import Kglink, Ran

from kglink.errors import ConfigError
from kglink.workspace import Workspace, find_workspace, init_workspace


# ------------------------------------------------------------------------- planted workspaces
@pytest.fixture
def planted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A workspace above the current folder that belongs to somebody else."""
    folder = init_workspace(tmp_path / "shared")
    (folder / "work").mkdir()
    monkeypatch.chdir(folder / "work")
    monkeypatch.delenv("KGLINK_WORKSPACE", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.delenv("SUDO_UID", raising=False)
    monkeypatch.setattr(os, "geteuid", lambda: folder.stat().st_uid + 1)
    return folder


@pytest.mark.parametrize("command", [["kbs"], ["settings"], ["add-kb", "a", "x"]], ids=" ".join)
def test_a_planted_workspace_is_not_obeyed(
    kglink: Kglink, planted: Path, command: list[str]
) -> None:
    ran = kglink(*command, code=2)
    assert "belongs to somebody else" in ran.err
    assert f"--workspace {planted}" in ran.err
    assert sorted(path.name for path in planted.iterdir()) == ["kglink.toml", "work"]


def test_a_workspace_of_others_that_is_named_is_used(
    kglink: Kglink, planted: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kglink("--workspace", planted, "kbs")
    monkeypatch.setenv("KGLINK_WORKSPACE", str(planted))
    kglink("kbs")
    monkeypatch.delenv("KGLINK_WORKSPACE")
    kglink("kbs", code=2)
    kglink("--workspace", planted, "trust")
    kglink("kbs")
    assert find_workspace() == planted
    with (planted / "kglink.toml").open("a") as config:
        config.write("[link]\ntop_k = 3\n")
    kglink("kbs", code=2)


def test_what_sudo_calls_for_is_the_callers_own(
    planted: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner = planted.stat().st_uid
    monkeypatch.setattr(os, "geteuid", lambda: 0 if owner else 1)
    monkeypatch.setenv("SUDO_UID", str(owner))
    if owner:  # only root acts for others
        assert find_workspace() == planted
    else:
        with pytest.raises(ConfigError, match="somebody else"):
            find_workspace()


def test_settings_that_lie_with_somebody_else_are_not_obeyed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # /tmp belongs to root, and so may the folder in which a stranger plants a file.
    folder = init_workspace(tmp_path / "mine")
    config = folder / "kglink.toml"
    lstat = Path.lstat

    def planted(path: Path) -> os.stat_result:
        found = lstat(path)
        if path != config:
            return found
        return os.stat_result((*found[:4], found.st_uid + 1, *found[5:]))

    monkeypatch.delenv("KGLINK_WORKSPACE", raising=False)
    monkeypatch.chdir(folder)
    assert find_workspace() == folder
    monkeypatch.setattr(Path, "lstat", planted)
    with pytest.raises(ConfigError, match="somebody else"):
        find_workspace()


def test_no_password_goes_to_a_host_that_somebody_else_names(
    kglink: Kglink, planted: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = "postgresql+psycopg://someone@db.example/kglink"
    (planted / "kglink.toml").write_text(f'[store]\nurl = "{url}"\n')
    monkeypatch.setenv("PGPASSWORD", "secret")
    ran = kglink("--workspace", planted, "kbs", code=2)
    assert f'store.url = "{url}" (all that is read is kept there)' in ran.err
    monkeypatch.setenv("KGLINK_STORE_URL", url)
    with Workspace.open(planted) as workspace:
        assert workspace.store_url.host == "db.example"


# ------------------------------------------------------------------------------------ outputs
OWNED = (
    "kglink.toml", "kglink.db", "kglink.db-wal", "kglink.db-shm", "kglink.db-journal",
    "spaces/default/CURRENT", "runs/x.jsonl",
)  # fmt: skip


def identity_of(path: Path) -> tuple[int, bytes] | None:
    """Which file it is, and how it begins; the store itself is written by whoever opens it."""
    return (path.stat().st_ino, path.read_bytes()[:16]) if path.is_file() else None


@pytest.mark.parametrize("target", OWNED)
@pytest.mark.parametrize(
    "command",
    [
        ["export", "encyclopedia", "-o"],
        ["link", "text.txt", "-f", "jsonl", "-o"],
        ["eval", "--docs", "docs", "--keep"],
    ],
    ids=lambda command: command[0],
)
def test_no_output_takes_the_place_of_what_a_workspace_owns(
    kglink: Kglink,
    demo_copy: Path,
    monkeypatch: pytest.MonkeyPatch,
    command: list[str],
    target: str,
) -> None:
    (demo_copy / "runs").mkdir()
    (demo_copy / "text.txt").write_text("Rose saw a heron.")
    path = demo_copy / target
    before = identity_of(path)
    monkeypatch.chdir(demo_copy)
    assert "is no place for an output" in kglink(*command, target, code=2).err
    assert identity_of(path) == before


def test_no_link_leads_an_output_into_a_workspace(kglink: Kglink, demo_copy: Path) -> None:
    link = demo_copy.parent / "out.jsonl"
    link.symlink_to(demo_copy / "kglink.db")
    store = identity_of(demo_copy / "kglink.db")
    assert "is no place for an output" in kglink("export", "docs", "-o", link, code=2).err
    assert link.is_symlink()
    assert identity_of(demo_copy / "kglink.db") == store
    for number, owned in enumerate(("kglink.toml", "kglink.db", "spaces/default/CURRENT")):
        hard = demo_copy.parent / f"hard-{number}.jsonl"
        hard.hardlink_to(demo_copy / owned)
        assert "is no place for an output" in kglink("export", "docs", "-o", hard, code=2).err
    own = demo_copy.parent / "own.jsonl"
    kglink("export", "docs", "-o", own)
    (demo_copy.parent / "twin.jsonl").hardlink_to(own)
    kglink("export", "docs", "-o", own)


def test_no_output_takes_the_place_of_another_database(
    kglink: Kglink, demo: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other.db"
    with sqlite3.connect(other) as connection:
        connection.execute("CREATE TABLE precious (value TEXT)")
    connection.close()
    assert "is no place for an output" in kglink("export", "docs", "-o", other, code=2).err
    journal = tmp_path / "other.db-journal"
    assert "is no place for an output" in kglink("export", "docs", "-o", journal, code=2).err
    overlaps = tmp_path / "x.tsv"
    overlaps.symlink_to(other)
    kglink("overlap", "--export", overlaps, code=2)
    assert other.read_bytes().startswith(b"SQLite format 3")


@pytest.mark.parametrize("what", ["device", "pipe", "folder"])
def test_only_regular_files_are_written(
    kglink: Kglink, demo: Path, tmp_path: Path, what: str
) -> None:
    path = tmp_path / "out.jsonl"
    if what == "device":
        path.symlink_to("/dev/null")
    elif what == "pipe":
        os.mkfifo(path)
    else:
        path.mkdir()
    kglink("export", "docs", "-o", path, code=2)
    text = tmp_path / "text.txt"
    text.write_text("heron")
    kglink("link", text, "-o", path, code=2)
    assert path.exists()


# ----------------------------------------------------------------------------------- printing
ESC, CSI, BIDI = "\x1b[2J\x1b[31m", "\x9b2J", "\u202eTXT"
EVIL = f"evil{ESC}{CSI}{BIDI}\nforged\tline\r"
#: What must not reach a terminal or a reader of lines.
CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


@pytest.fixture
def evil(kglink: Kglink, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A workspace whose KB, licence and source are called as no terminal likes them."""
    folder = init_workspace(tmp_path / "workspace")
    monkeypatch.setenv("KGLINK_WORKSPACE", str(folder))
    source = folder / f"a{ESC}b\nc.jsonl"
    entities = [
        {"id": "k", "title": "heron bird", "aliases": ["heron"]},
        {"id": "b", "title": "owl"},
    ]
    source.write_text("".join(json.dumps(entity) + "\n" for entity in entities))
    kglink("add-kb", "evil", source, "--licence", EVIL)
    # Readers refuse control characters today; a store may come from elsewhere.
    with sqlite3.connect(folder / "kglink.db") as store:
        store.execute("UPDATE entities SET title = ?, description = ? WHERE key = 'k'", [EVIL] * 2)
    store.close()
    return source


def lines_of(text: str) -> list[str]:
    assert not CONTROLS.search(text), ascii(text)
    assert not any(line.startswith(("forged", "c.jsonl")) for line in text.splitlines())
    return text.splitlines()


@pytest.mark.slow
def test_nothing_that_is_printed_commands_a_terminal(kglink: Kglink, evil: Path) -> None:
    for words in (
        ["kbs"], ["kbs", "show", "evil"], ["doctor", "--licences"], ["search", "heron"],
        ["kbs", "--json"], ["kbs", "show", "evil", "--json"], ["doctor", "--licences", "--json"],
        ["search", "heron", "--json"], ["export", "evil"],
    ):  # fmt: skip
        ran = kglink(*words)
        lines_of(ran.out)
        lines_of(ran.err)
    (header, *rows) = lines_of(kglink("doctor", "--licences").out)
    assert all(row.count("\t") == header.count("\t") for row in rows)
    shown = json.loads(kglink("search", "heron", "--json").out)
    assert EVIL in [one["title"] for one in shown]  # escaped, and not lost


def test_no_file_name_in_an_error_commands_a_terminal(kglink: Kglink, evil: Path) -> None:
    missing = evil.with_name(f"none{EVIL}")
    broken = evil.with_name(f"broken{ESC}\nforged.jsonl")
    broken.write_text('{"id": "b", "title": \n')
    for words in (
        ["add-kb", "x", missing], ["add-kb", "x", broken], ["link", missing], ["kbs", EVIL],
        [EVIL], [f"--{EVIL}"], ["kbs", "show", EVIL], ["link", "-", "--format", EVIL],
        ["export", "evil", "-o", missing / "x.jsonl"], ["--workspace", missing, "kbs"],
    ):  # fmt: skip
        ran = run_refused(kglink, *words)
        lines_of(ran.err)
        assert ran.err


def run_refused(kglink: Kglink, *words: str | Path) -> Ran:
    try:
        return kglink(*words, code=2)
    except AssertionError:
        return kglink(*words, code=1)


def test_a_terminal_gets_no_commands_either(
    kglink: Kglink, evil: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    out = kglink("doctor", "--licences").out
    assert "\x1b[2J" not in out
    assert "\x9b" not in out
    assert "\u202e" not in out


def test_commands_print_through_one_door() -> None:
    folder = Path(__file__).parents[2] / "cli" / "kglink_cli"
    doors = re.compile(r"sys\.std(?:out|err)\.write|\bprint\(|typer\.(?:echo|secho)|click\.echo")
    found = [
        f"{path.name}: {line.strip()}"
        for path in sorted(folder.glob("*.py"))
        if path.name != "console.py"
        for line in path.read_text(encoding="utf-8").splitlines()
        if doors.search(line) and "console.print(" not in line
    ]
    assert not found


# ------------------------------------------------------------------------------------ signals
SLOW_END = """
import signal, sys, time, threading
signal.signal(signal.SIGINT, signal.default_int_handler)
from kglink.workspace import Workspace
import kglink_cli.__main__ as start

def kbs(self):
    try:
        sys.stdout.write("working\\n"); sys.stdout.flush()
        time.sleep(60)
    finally:
        sys.stdout.write("closing\\n"); sys.stdout.flush()
        if "slow" in sys.argv[0]:
            time.sleep(60)

Workspace.kbs = kbs
sys.argv = [sys.argv[1], "kbs"]
start.main()
"""


@pytest.mark.slow
@pytest.mark.parametrize("presses", [1, 2])
def test_ctrl_c_is_one_message(demo: Path, presses: int) -> None:
    name = "slow" if presses > 1 else "quick"
    process = subprocess.Popen(
        [sys.executable, "-c", SLOW_END, name],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout
    for word in ("working", "closing")[:presses]:
        assert process.stdout.readline().strip() == word
        process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert err.splitlines() == [
        "error  stopped: what was done stays; run the same command to go on",
    ]


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        ImportError("_core.so: failed to map segment from shared object"),
        RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes"),
        RuntimeError("std::bad_alloc"),
    ],
)
def test_whatever_finds_no_memory_is_told_in_one_sentence(
    kglink: Kglink, demo: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(Workspace, "kbs", fail)
    ran = kglink("kbs", code=1)
    assert "out of memory" in ran.err
    assert "bug" not in ran.err


# ------------------------------------------------------------------------------------ sources
@pytest.mark.slow
def test_a_source_of_one_record_does_not_empty_a_kb(
    kglink: Kglink, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = init_workspace(tmp_path / "workspace")
    monkeypatch.setenv("KGLINK_WORKSPACE", str(folder))
    source = tmp_path / "things.jsonl"

    def write(count: int) -> None:
        things = ({"id": f"t{at}", "title": f"Thing {at}"} for at in range(count))
        source.write_text("".join(json.dumps(thing) + "\n" for thing in things))

    write(3000)
    kglink("add-kb", "things", source)
    write(1)
    ran = kglink("add-kb", "things", source, code=1)
    assert "would remove 2,999 of the 3,000 entities of 'things'" in ran.err
    assert "--allow-shrink" in ran.err
    assert "unfinished" not in kglink("search", "Thing 7").err
    assert "stopped" not in kglink("doctor").out
    (info,) = json.loads(kglink("kbs", "--json").out)
    assert info["entities"] == 3000
    assert len(kglink("export", "things").out.splitlines()) == 3000
    kglink("add-kb", "things", source, "--allow-shrink")
    (info,) = json.loads(kglink("kbs", "--json").out)
    assert info["entities"] == 1
    write(3000)
    kglink("add-kb", "things", source)
    write(1600)
    kglink("add-kb", "things", source)  # the smaller half


# ------------------------------------------------------------------------------------ settings
def test_deeply_nested_settings_end_in_a_sentence(
    kglink: Kglink, demo_copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nested = "[" * 20_000 + "]" * 20_000
    recipe = demo_copy / "r.toml"
    recipe.write_text(f"x = {nested}\n")
    assert "r.toml" in kglink("recipes", recipe, code=2).err
    monkeypatch.setenv("KGLINK_LINK_DETECTOR_SETTINGS", nested)
    assert "link.detector_settings" in kglink("kbs", code=2).err
    monkeypatch.delenv("KGLINK_LINK_DETECTOR_SETTINGS")
    (demo_copy / "kglink.toml").write_text(f"[link]\ntop_k = {nested}\n")
    ran = kglink("kbs", code=2)
    assert "kglink.toml: nested too deeply" in ran.err
    assert "bug" not in ran.err


# ----------------------------------------------------------------------------------- full disk
@pytest.mark.slow
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device that is always full")
@pytest.mark.parametrize("words", [["kbs"], ["export", "docs"], ["search", "heron", "--json"]])
def test_a_disk_that_is_full_at_the_last_flush_is_a_sentence(demo: Path, words: list[str]) -> None:
    buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "kglink_cli", *words],
            stdout=full, stderr=subprocess.PIPE, text=True, check=False, env=buffered,
        )  # fmt: skip
    assert done.returncode == 1
    assert "No space left on device" in done.stderr
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr


# ------------------------------------------------------------------------------- spreadsheets
def test_no_title_is_run_as_a_formula(kglink: Kglink, demo_copy: Path, tmp_path: Path) -> None:
    formula = "=HYPERLINK(evil)"
    with sqlite3.connect(demo_copy / "kglink.db") as store:
        store.execute("UPDATE entities SET title = ?, type = ?", [formula] * 2)
    store.close()
    for name in ("x.tsv", "x.sssom.tsv"):
        table = tmp_path / name
        kglink("overlap", "--export", table)
        lines = table.read_text(encoding="utf-8").splitlines()
        cells = [cell for line in lines for cell in line.split("\t")]
        assert f"'{formula}" in cells
        assert not [cell for cell in cells if cell[:1] in tuple("=+-@")]
    compared = json.loads(kglink("overlap", "--compare", tmp_path / "x.tsv", "--json").out)
    assert compared["figures"]["recall"] == 1


# ----------------------------------------------------------------------------- little memory
UNDER_A_LIMIT = """
import resource, sys
resource.setrlimit(resource.RLIMIT_AS, (int(sys.argv[1]) << 20,) * 2)
sys.argv[1:] = sys.argv[2:]
from kglink_cli.main import run
run()
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mib", "library", "command"),
    [
        (240, "scipy.linalg", ["overlap", "encyclopedia", "lanternfall"]),  # hung for ever
        (300, "faiss", ["link", "-", "-f", "jsonl"]),  # ended by SIGSEGV
        (850, "torch", ["link", "-", "-f", "jsonl"]),  # ended by SIGABRT
        (1680, "torch", ["link", "-", "-f", "jsonl"]),  # ended by SIGSEGV, after the model was read
    ],
    ids=str,
)
def test_a_small_limit_on_memory_is_told_before_a_library_dies_of_it(
    demo_master: Path, mib: int, library: str, command: list[str]
) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", UNDER_A_LIMIT, str(mib), "--workspace", demo_master, *command],
        input="Mercury is far.", capture_output=True, text=True, check=False, timeout=200,
        env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
    )  # fmt: skip
    assert ran.returncode == 1, ran.stderr
    assert f"out of memory: {library} needs" in " ".join(ran.stderr.split())
    assert f"the limit of {mib:,} MiB" in " ".join(ran.stderr.split())
