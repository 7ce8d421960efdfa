"""What a source was read with is kept with its KB, and used when it is added again."""

from __future__ import annotations

import json
import sqlite3
import sys
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent
from types import ModuleType

import pytest
from conftest import Kglink
from pydantic import Field, SecretStr

from fake_distributions import FakeEnvironment
from kglink.errors import KglinkError
from kglink.plugins import (
    PluginModule,
    PluginSettings,
    Provider,
    Register,
    Registry,
    find_modules,
    hookimpl,
)
from kglink.records import Entity, Record
from kglink.sources import Problems, Source
from kglink.workspace import Workspace, init_workspace

TABLE = "EAN;Artikel-Nr.;Name\n4006381333931;KM-200;Mühle\n4006381333948;KM-300;Säge\nbad\n"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(init_workspace(tmp_path / "w"))
    monkeypatch.delenv("KGLINK_WORKSPACE", raising=False)
    Path("t.csv").write_bytes(TABLE.encode("cp1252"))
    return Path.cwd()


def told(text: str) -> str:
    return " ".join(text.split())


def options(kglink: Kglink) -> object:
    (info,) = json.loads(kglink("kbs", "--json").out)
    return info["options"]


FIRST = ("--set", "key=EAN", "--on-error", "skip", "--encoding", "cp1252")


def test_an_update_is_read_as_the_last_time(kglink: Kglink, here: Path) -> None:
    kglink("add-kb", "k", "t.csv", *FIRST)
    kept = {"--encoding": "cp1252", "--on-error": "skip", "key": "EAN"}
    assert options(kglink) == kept
    typed = "--encoding cp1252 --on-error skip --set key=EAN"
    assert f"options {typed}" in told(kglink("kbs", "show", "k").out)
    assert json.loads(kglink("kbs", "show", "k", "--json").out)["options"] == kept
    again = kglink("add-kb", "k", "t.csv")
    assert "k +0 ~0 -0 =2" in again.out
    assert f"kept {typed} (as the last time; --defaults leaves them out)" in told(again.err)
    with Workspace.open(here) as workspace:
        added = workspace.add_kb("k", "t.csv")
        assert added.summary.unchanged == 2
        assert workspace.kb("k").options == kept


def test_the_encoding_may_be_given_each_time(kglink: Kglink, here: Path) -> None:
    kglink("add-kb", "k", "t.csv", *FIRST)
    again = kglink("add-kb", "k", "t.csv", *FIRST)
    assert "k +0 ~0 -0 =2" in again.out
    assert "left out" not in told(again.err)


def test_other_options_are_told_and_defaults_leave_all_out(kglink: Kglink, here: Path) -> None:
    kglink("add-kb", "k", "t.csv", *FIRST)
    changed = kglink("add-kb", "k", "t.csv", "--set", "key=Artikel-Nr.", "--set", "codes=-")
    line = "changed --set key=Artikel-Nr., was 'EAN'; --set codes=- is new"
    assert line in told(changed.err)
    assert "k +2 ~0 -2 =0" in changed.out
    back = kglink("add-kb", "k", "t.csv", "--set", "key=")
    assert "--set key=, was 'Artikel-Nr.'" in told(back.err)
    assert options(kglink) == {"--encoding": "cp1252", "--on-error": "skip", "codes": "-"}
    Path("t.csv").write_text(TABLE.replace("bad\n", ""), encoding="utf-8")
    utf8 = kglink("add-kb", "k", "t.csv")  # the encoding of before would spoil its names
    assert "--encoding cp1252 is left out: the source is UTF-8 now" in told(utf8.err)
    fresh = kglink("add-kb", "k", "t.csv", "--defaults")
    assert "left out: --on-error skip --set codes=-" in told(fresh.err)
    assert options(kglink) == {}
    with Workspace.open(here) as workspace:
        assert [one.title for one in workspace.entities("k")] == ["Mühle", "Säge"]


def test_the_adapter_and_the_links_are_kept(kglink: Kglink, here: Path) -> None:
    Path("a.txt").write_text("id,name\n1,One\n", encoding="utf-8")
    kglink("add-kb", "a", "a.txt", "--adapter", "csv")
    record = {"text": "One.", "entities": [{"start": 0, "end": 3, "gold": "One"}]}
    Path("d.jsonl").write_text(json.dumps(record) + "\n", encoding="utf-8")
    flags = ("--links-to", "a", "--resolve", "title", "--split", "dev")
    kglink("add-kb", "d", "d.jsonl", *flags)
    kglink("add-kb", "d", "d.jsonl")
    with Workspace.open(here) as workspace:
        info = workspace.kb("d")
        assert (info.links_to, info.mentions) == (("a",), 1)
        assert [one.split for one in workspace.store.documents("d")] == ["dev"]
        Path("e.jsonl").write_text(json.dumps(record | {"id": "e"}) + "\n", encoding="utf-8")
        workspace.add_kb("d", "e.jsonl", merge=True)  # another source, of no split
        assert sorted(one.split for one in workspace.store.documents("d")) == ["", "dev"]
        assert workspace.store.count_gone_golds("d") == 0
        assert workspace.kb("a").options == {"--adapter": "kglink/csv"}
        workspace.add_kb("a", "a.txt")
        assert workspace.kb("a").adapter == "kglink/csv"


def test_an_interrupted_run_resumes_with_another_on_error(kglink: Kglink, here: Path) -> None:
    rows = "".join(f"{at},T{at}\n" for at in range(30))
    Path("r.csv").write_text(f"id,name\n{rows}bad\n", encoding="utf-8")
    flags = {"ingest.batch_size": 10}
    with Workspace.open(here, flags=flags) as workspace, pytest.raises(KglinkError):
        workspace.add_kb("r", "r.csv")
    ran = kglink("add-kb", "r", "r.csv", "--on-error", "skip")
    assert "resumed after 30 records" in told(ran.err)


TITLE = """
def title(text, number):
    return text[: 9 // (number < 3)]
"""
ADAPTER = """
    from kglink.records import Entity

    class Lines:
        def __init__(self, settings):
            pass

        def read(self, source, problems):
            for line in source.lines(problems):
                yield Entity(line.text, title(line.text, line.number))

    @hookimpl
    def register_kbs(register):
        register("acme/lines", Lines, summary="A title on each line")
"""


@pytest.mark.parametrize("is_package", [False, True])
def test_a_mended_adapter_reads_from_the_beginning(
    kglink: Kglink, here: Path, monkeypatch: pytest.MonkeyPatch, is_package: bool
) -> None:
    monkeypatch.syspath_prepend(here)
    monkeypatch.setenv("KGLINK_INGEST_BATCH_SIZE", "2")
    Path("birds.txt").write_text("owl\nwren\nheron\n", encoding="utf-8")
    code = dedent(ADAPTER)
    module = FakeEnvironment(here).install("acme", "1", code if is_package else TITLE + code)
    mended = here / f"{module}.py"
    if is_package:
        package = here / module
        (package / "a_folder.py").mkdir(parents=True)
        (package / ".#titles.py").symlink_to("nothing")  # of an editor
        init = f"from {module}.titles import title\n{mended.read_text()}"
        (package / "__init__.py").write_text(init, encoding="utf-8")
        mended.unlink()
        mended = package / "titles.py"
        mended.write_text(TITLE, encoding="utf-8")
    adding = ("add-kb", "birds", "birds.txt", "--adapter", "acme/lines")
    assert "behind record 2" in kglink(*adding, code=1).err
    mended.write_text(mended.read_text().replace("[: 9 // (number < 3)]", ".upper()"))
    for name in (module, f"{module}.titles"):
        sys.modules.pop(name, None)
    kglink(*adding)
    with Workspace.open(here) as workspace:
        titles = {one.title for one in workspace.store.entities("birds")}
        assert titles == {"OWL", "WREN", "HERON"}


def change_options(folder: Path, kept: object) -> None:
    with sqlite3.connect(folder / "kglink.db") as database:
        database.execute("UPDATE kbs SET settings = ?", (json.dumps(kept),))
    database.close()


def test_what_no_longer_fits_is_left_out_and_told(kglink: Kglink, here: Path) -> None:
    kglink("add-kb", "k", "t.csv", *FIRST)
    flags = {"--on-error": "skip", "--encoding": "cp1252"}
    gone = {"--adapter": "acme/gone", "sepparator": ";", "key": "EAN", "quoting": "maybe"}
    change_options(here, {"options": {**flags, **gone}})
    err = told(kglink("add-kb", "k", "t.csv").err)
    assert "--adapter acme/gone is left out" in err
    assert "has no setting 'sepparator' any more: it is left out" in err
    assert "left out, they no longer fit: --set key=EAN --set quoting=maybe" in err
    assert options(kglink) == flags
    # A store of an older kglink holds all settings, with the secrets that there were.
    change_options(here, {"key": "EAN", "separator": "auto", "delimiter": ""})
    assert options(kglink) == {}
    change_options(here, [])
    assert "the store is damaged" in kglink("kbs", code=1).err


class Secrets(PluginSettings):
    key: str = ""
    url: str = ""
    api_key: str = ""
    own: SecretStr = SecretStr("")
    more: dict[str, str] = Field(default_factory=dict)
    plain: str = ""


class Database:
    def __init__(self, settings: Secrets) -> None:
        pass

    def read(self, source: Source, problems: Problems) -> Iterator[Record]:
        yield Entity("1", "One")


@hookimpl
def register_kbs(register: Register) -> None:
    register("acme/db", Database, settings=Secrets, summary="A table of a database")


def test_secrets_are_never_kept(here: Path) -> None:
    acme = ModuleType("acme")
    vars(acme)["register_kbs"] = register_kbs
    third_party = PluginModule(Provider("acme", "1", "acme", builtin=False), lambda: acme)
    registry = Registry([*find_modules(only="builtin"), third_party])
    given = {
        "url": "postgresql://me:hunter2@db/x",
        "api_key": "hunter2",
        "own": "hunter2",
        "more": {"password": "hunter2"},
        "key": "SKU",
        "plain": "https://db.example/x",
    }
    notes: dict[str, str] = {}
    with Workspace.open(here, registry=registry) as workspace:
        workspace.add_kb("k", "t.csv", adapter="acme/db", options=given, on_note=notes.__setitem__)
        kept = workspace.kb("k").options
    assert kept == {"--adapter": "acme/db", "key": "SKU", "plain": "https://db.example/x"}
    assert notes["not kept"].startswith("url, api_key, more, own: a secret")
    assert b"hunter2" not in b"".join(path.read_bytes() for path in here.glob("kglink.db*"))
