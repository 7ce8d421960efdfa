"""Third-party plugins that end, stop, hang or disturb a command are named and left out."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import NoReturn

import pytest
from conftest import Kglink, Ran

from fake_distributions import FakeEnvironment
from kglink.errors import errors_of
from kglink.plugins import PluginWarning, load_registry
from kglink.sources import SourceHead
from kglink.workspace import init_workspace

#: What evil does, by what it is called.
DEEDS = {
    "exits": "import sys; sys.exit(0)",
    "exits with a word": "import sys; sys.exit('bye')",
    "interrupts": "raise KeyboardInterrupt",
    "ends at once": "import os; os._exit(0)",
    "fails": "1 / 0",
    "never returns": "import time; time.sleep(600)",
    "never returns and catches all": """
import time
while time:
    try:
        time.sleep(600)
    except BaseException as error:
        if str(error).startswith("it takes more"):
            raise
""",
    "goes too deep": "def deep(): deep()\ndeep()",
}
HOOK = "\n@hookimpl\ndef {hook}({argument}):\n"


def evil_code(place: str, deed: str, hook: str = "register_exporters") -> str:
    """A plugin module that does evil when it is imported, or in its hook."""
    argument = "app" if hook == "register_commands" else "register"
    head = HOOK.format(hook=hook, argument=argument)
    if place == "import":
        return f"{deed}\n{head}    pass\n"
    return head + "".join(f"    {line}\n" for line in deed.splitlines())


def run(site: Path, *arguments: str | Path, cwd: Path | None = None, **variables: str) -> Ran:
    """Run the command line in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "kglink_cli", *map(str, arguments)],
        cwd=cwd or site,
        env=os.environ | {"PYTHONPATH": str(site), "KGLINK_PLUGIN_SECONDS": "1", **variables},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return Ran(done.returncode, done.stdout, done.stderr)


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for distributions; nothing of the environment steers which are loaded."""
    monkeypatch.delenv("KGLINK_PLUGINS", raising=False)
    (tmp_path / "site").mkdir()
    return tmp_path / "site"


def told(ran: Ran) -> str:
    return " ".join(ran.err.split())


@pytest.mark.slow
@pytest.mark.parametrize("place", ["import", "hook"])
def test_each_is_named_and_left_out_and_the_others_work(site: Path, place: str) -> None:
    environment = FakeEnvironment(site)
    evil = {deed: f"evil-{deed.replace(' ', '-')}" for deed in DEEDS}
    for deed, name in evil.items():
        environment.install(name, "1", evil_code(place, DEEDS[deed]))
    good = "@hookimpl\ndef register_exporters(register):\n"
    good += "    register('good/tsv', print, summary='x')"
    environment.install("good", "1", good)
    ran = run(site, "plugins", "--json")
    assert ran.code == 0
    names = {row["name"] for row in json.loads(ran.out)}
    assert {"kglink/jsonl", "kglink/dictionary", "good/tsv"} <= names
    for name in evil.values():
        assert f"{name} 1 ({name.replace('-', '_')}_plugin) is left out" in told(ran)
    assert "kglink --no-plugins" in told(ran)
    assert "Traceback" not in ran.err


@pytest.mark.parametrize("entry", ["no_such_module", "os:no_such_name", "a b!", "os"])
def test_a_distribution_without_metadata_is_named_by_its_module(site: Path, entry: str) -> None:
    info = site / "evil-1.dist-info"
    info.mkdir()
    (info / "entry_points.txt").write_text(f"[kglink]\nevil = {entry}\n")
    ran = run(site, "plugins", "--json")
    assert ran.code == 0
    assert json.loads(ran.out)
    assert f"unknown ? ({entry}) is left out" in told(ran)


@pytest.mark.slow
@pytest.mark.parametrize("deed", ["exits", "interrupts", "never returns"])
@pytest.mark.parametrize("place", ["import", "hook"])
def test_help_goes_on_without_its_commands(site: Path, place: str, deed: str) -> None:
    code = evil_code(place, DEEDS[deed], "register_commands")
    FakeEnvironment(site).install("evil", "1", code, group="kglink.commands")
    ran = run(site, "--help")
    assert ran.code == 0
    assert "finetune" in ran.out
    assert "evil 1 (evil_plugin) is left out" in told(ran)


@pytest.mark.parametrize("place", ["import", "hook"])
def test_what_it_prints_breaks_no_json(site: Path, place: str) -> None:
    code = evil_code(place, "import sys\nprint('hello from evil')\nsys.stdout.write('and more')")
    FakeEnvironment(site).install("evil", "1", code)
    ran = run(site, "plugins", "--json")
    assert json.loads(ran.out)
    assert "hello from evil" in ran.err
    assert "and more" in ran.err


WRITES = {
    "to the descriptor": "import os\nos.write(1, b'hello from evil')",
    "in a program": "import subprocess\nsubprocess.run(['echo', 'hello from evil'], check=True)",
    "to the first stream": "import sys\nsys.__stdout__.write('hello from evil')",
    "in a forked child": (
        "import os\nchild = os.fork()\nif not child:\n"
        "    os.write(1, b'hello from evil')\n    os._exit(0)\nos.waitpid(child, 0)"
    ),
}


@pytest.mark.parametrize("how", WRITES)
def test_what_it_writes_past_python_breaks_no_json(site: Path, how: str) -> None:
    FakeEnvironment(site).install("evil", "1", evil_code("import", WRITES[how]))
    ran = run(site, "plugins", "--json")
    assert ran.code == 0
    assert json.loads(ran.out)
    assert "hello from evil" in ran.err


def test_what_a_factory_and_a_sniff_print_breaks_no_output(
    kglink: Kglink, demo: Path, site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(site)
    code = """
        class Count:
            def __init__(self, settings):
                print("made")

            def export(self, documents, out):
                out.writelines(f"{len(one.links)}\\n" for one in documents)

        @hookimpl
        def register_exporters(register):
            register("evil/count", Count, summary="x")
    """
    FakeEnvironment(site).install("evil", "1", code)
    ran = kglink("link", "-f", "evil/count", "-", stdin="Mercury.")
    assert (ran.out, "made" in ran.err) == ("1\n", True)


USED = """
    import re
    from kglink.records import Document, Entity, Span

    class Notes:
        def __init__(self, settings):
            pass

        def read(self, source, problems):
            print("hello from evil")
            for line in source.lines(problems):
                print("hello again")
                yield Document(str(line.number), line.text)

    class Words:
        def __init__(self, settings, names):
            pass

        def detect(self, text):
            print("hello from the detector")
            {deed}
            return [Span(one.start(), one.end()) for one in re.finditer("[A-Z][a-z]+", text)]

    @hookimpl
    def register_kbs(register):
        register("evil/notes", Notes, summary="x", texts=True, sniff=lambda head: 0.0)

    @hookimpl
    def register_detectors(register):
        register("evil/words", Words, summary="x")
"""


def test_what_it_prints_while_it_is_used_breaks_no_json(
    kglink: Kglink, demo: Path, site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(site)
    FakeEnvironment(site).install("evil", "1", USED.format(deed=""))
    used = "--detector", "evil/words", "--input", "evil/notes"
    ran = kglink("link", "-f", "json", "-", *used, stdin="Mercury.\n")
    assert [one["text"] for one in json.loads(ran.out)[0]["entities"]] == ["Mercury"]
    for word in ("from evil", "again", "from the detector"):
        assert f"hello {word}" in ran.err


def test_a_plugin_that_exits_while_it_is_used_ends_no_command_well(
    kglink: Kglink, demo: Path, site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(site)
    FakeEnvironment(site).install("evil", "1", USED.format(deed="raise SystemExit(0)"))
    ran = kglink("link", "-", "--detector", "evil/words", stdin="Mercury.", code=2)
    assert "detector 'evil/words' failed with SystemExit: 0" in told(ran)


def test_in_a_program_output_and_end_are_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    """The end may be that of a signal, which a plugin's code is in by chance."""

    def is_stopped() -> NoReturn:
        sys.stdout.write("mine\n")
        sys.exit(3)

    with pytest.raises(SystemExit), errors_of("detector 'kglink/dictionary'"):
        is_stopped()
    assert capsys.readouterr().out == "mine\n"


# ------------------------------------------------------------------ imported only when needed
def leaves_a_mark(site: Path, group: str) -> Path:
    """A plugin that writes a file when it is imported; returns the file."""
    mark = site / f"imported-{group}"
    hook = "register_commands(app)" if group == "kglink.commands" else "register_kbs(register)"
    code = f"from pathlib import Path\nPath({str(mark)!r}).touch()\n"
    code += f"@hookimpl\ndef {hook}: pass\n"
    name = f"mark-{group.rpartition('.')[2]}"
    FakeEnvironment(site).install(name, "1", code, group=group)
    return mark


@pytest.mark.parametrize(
    "command",
    ["--version", "--help", "kbs --json", "recipes", "settings", "search mercury", "link --help"],
)
def test_commands_that_need_no_third_party_plugin_import_none(
    kglink: Kglink, demo: Path, site: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.syspath_prepend(site)
    plugins, commands = leaves_a_mark(site, "kglink"), leaves_a_mark(site, "kglink.commands")
    kglink(*command.split())
    assert not plugins.exists()
    # The list of commands shows those of third parties as well.
    assert commands.exists() == (command == "--help")


def test_linking_with_kglinks_own_plugins_imports_no_other(
    kglink: Kglink, demo: Path, site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(site)
    mark = leaves_a_mark(site, "kglink")
    kglink("link", "-", "-o", tmp_path / "linked.jsonl", stdin="Mercury is a planet.")
    assert (tmp_path / "linked.jsonl").read_text()
    assert not mark.exists()


def test_a_guess_asks_third_parties_and_a_named_adapter_does_not(
    kglink: Kglink, site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(site)
    monkeypatch.setenv("KGLINK_WORKSPACE", str(init_workspace(tmp_path / "workspace")))
    mark = leaves_a_mark(site, "kglink")
    (tmp_path / "kb.jsonl").write_text('{"id": "1", "title": "Ada"}\n')
    kglink("add-kb", "named", tmp_path / "kb.jsonl", "--adapter", "jsonl")
    assert not mark.exists()
    kglink("add-kb", "guessed", tmp_path / "kb.jsonl")
    assert mark.exists()


@pytest.mark.slow
def test_no_plugins_leaves_out_third_parties(site: Path) -> None:
    marks = [leaves_a_mark(site, group) for group in ("kglink", "kglink.commands")]
    for arguments in (["plugins", "--json"], ["--help"]):
        ran = run(site, "--no-plugins", *arguments)
        assert (ran.code, ran.err) == (0, "")
        assert "mark-" not in ran.out
    assert not any(mark.exists() for mark in marks)
    assert "mark-commands" in run(site, "plugins", "--json").out
    assert marks[0].exists()


# ---------------------------------------------------------------------------------- its names
def test_kglinks_own_format_wins_the_ending_of_a_file(
    kglink: Kglink, demo: Path, site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(site)
    code = "@hookimpl\ndef register_exporters(register):\n"
    code += "    register('evil/jsonl', print, summary='x')"
    FakeEnvironment(site).install("evil", "1", code)
    kglink("link", "-", "-o", tmp_path / "x.jsonl", stdin="Mercury is a planet.")
    document = json.loads((tmp_path / "x.jsonl").read_text())
    assert document["text"] == "Mercury is a planet."
    assert "evil/jsonl" in {plugin.name for plugin in load_registry().plugins("exporter")}


# --------------------------------------------------------------------------- its other doings
SNIFFS: Mapping[str, str] = {
    "exits": "__import__('sys').exit(0)",
    "interrupts": "(_ for _ in ()).throw(KeyboardInterrupt)",
    "never returns": "__import__('time').sleep(600)",
}


@pytest.mark.parametrize("deed", SNIFFS)
def test_a_sniff_is_not_asked_again(site: Path, monkeypatch: pytest.MonkeyPatch, deed: str) -> None:
    monkeypatch.syspath_prepend(site)
    monkeypatch.setenv("KGLINK_PLUGIN_SECONDS", "1")
    code = "@hookimpl\ndef register_kbs(register):\n"
    code += f"    register('evil/kb', print, summary='x', sniff=lambda head: {SNIFFS[deed]})"
    FakeEnvironment(site).install("evil", "1", code)
    head = SourceHead("a.jsonl", b'{"id": "1", "title": "Ada"}\n', None)
    with pytest.warns(PluginWarning, match="'evil/kb' of evil 1"):
        assert load_registry().guess_kb(head).name == "kglink/jsonl"


def test_a_factory_that_exits_is_an_error(kglink: Kglink, demo: Path, site: Path,
                                          monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    monkeypatch.syspath_prepend(site)
    code = "def make(settings):\n    raise SystemExit(0)\n"
    code += "@hookimpl\ndef register_exporters(register):\n"
    code += "    register('evil/quiet', make, summary='x')"
    FakeEnvironment(site).install("evil", "1", code)
    ran = kglink("link", "-f", "evil/quiet", "-", stdin="Mercury.", code=2)
    assert "exporter 'evil/quiet' cannot be made: SystemExit: 0" in told(ran)


def test_a_space_whose_index_lost_its_plugin_says_how_to_go_on(
    kglink: Kglink, demo_copy: Path
) -> None:
    (manifest,) = demo_copy.glob("spaces/default/versions/*/manifest.json")
    manifest.write_text(manifest.read_text().replace('"kglink/flat"', '"acme/gone"'))
    train = ("finetune", "--sources", "T", "--target-kb", "wiki")
    for command in (("search", "Mercury"), ("build", "--fresh"), train, ("doctor",)):
        ran = kglink(*command, code=1)
        assert "space 'default' has an index of 'acme/gone'" in ran.err + ran.out
        assert "kglink build --index flat" in ran.err + ran.out
    kglink("index", "--exact", "--queries", "0")
    assert "Mercury" in kglink("search", "Mercury").out


def test_ctrl_c_still_stops_a_command_while_a_plugin_is_imported(site: Path) -> None:
    code = f"from pathlib import Path\nPath({str(site / 'here')!r}).touch()\n"
    code += evil_code("import", "import time; time.sleep(600)")
    FakeEnvironment(site).install("slow", "1", code)
    # What runs in the background of a script is deaf to Ctrl-C, unless it says otherwise.
    hearing = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
    command = "import sys; sys.argv[1:] = ['plugins']; from kglink_cli.__main__ import main; main()"
    process = subprocess.Popen(
        [sys.executable, "-c", f"{hearing}; {command}"],
        env=os.environ | {"PYTHONPATH": str(site), "KGLINK_PLUGIN_SECONDS": "60"},
        stderr=subprocess.PIPE,
        text=True,
    )
    while not (site / "here").exists():
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, told_last = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "left out" not in told_last
