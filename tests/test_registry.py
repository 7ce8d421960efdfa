"""Plugins are found, named with their provider, refused with both sides, and made."""

from __future__ import annotations

import inspect
import json
import os
import subprocess
import sys
import textwrap
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from fake_distributions import FakeEnvironment, fake_environment

from kglink import hookspecs
from kglink.errors import ConfigError, PluginError, SourceError, UnknownNameError, UsageError
from kglink.protocols import PluginSettings
from kglink.registry import HOOK_OF_KIND, KINDS, Guess, Kind, Registry, load_registry
from kglink.registry.hooks import hook_names
from kglink.registry.plugin import WORD_OF_KIND
from kglink.sources import SourceHead

ROOT = Path(__file__).parent.parent

BUILTIN = """
    from kglink.protocols import PluginSettings

    class Columns(PluginSettings):
        delimiter: str = ","
        columns: tuple[str, ...] = ()
        rename: dict[str, str] = {}
        skip: int = 0

    @hookimpl
    def register_kbs(register):
        register("kglink/jsonl", lambda settings: ("jsonl", settings), summary="JSON lines",
                 sniff=lambda head: 0.9 if head.head.startswith(b"{") else 0.0)
        register("kglink/csv", lambda settings: ("csv", settings), settings=Columns,
                 summary="Columns", sniff=lambda head: 0.4)
"""
ACME = """
    @hookimpl
    def register_kbs(register):
        register("acme/wiki", lambda settings: "wiki", summary="A wiki")
"""


@pytest.fixture
def env(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeEnvironment]:
    monkeypatch.delenv("KGLINK_PLUGINS", raising=False)
    monkeypatch.delenv("KGLINK_TRACE_HOOKS", raising=False)
    with fake_environment(tmp_path) as environment:
        environment.install("kglink", "9.9", BUILTIN, module="fake_builtin")
        yield environment


def third_party(registry: Registry) -> list[str]:
    return [plugin.name for plugin in registry.plugins() if not plugin.provider.builtin]


# --------------------------------------------------------------------------------- finding
def test_a_plugin_is_listed_with_what_it_is_and_who_brought_it(env: FakeEnvironment) -> None:
    env.install("acme-kglink", "1.2", ACME)
    registry = load_registry()
    assert registry.names("kb") == ["acme/wiki", "kglink/csv", "kglink/jsonl"]
    wiki = registry.get("kb", "acme/wiki")
    assert (wiki.kind, wiki.summary, wiki.extra, wiki.settings) == (
        "kb", "A wiki", "", PluginSettings,
    )  # fmt: skip
    assert str(wiki.provider) == "acme-kglink 1.2 (acme_kglink_plugin)"
    assert not wiki.provider.builtin
    assert registry.get("kb", "kglink/csv").provider.builtin


def test_providers_are_listed_with_their_hooks_ours_first(env: FakeEnvironment) -> None:
    env.install("aaa", "1", ACME + "\n    @hookimpl\n    def register_commands(app): pass\n")
    providers = load_registry().providers()
    assert [(provider.distribution, provider.hooks) for provider in providers] == [
        ("kglink", ("register_kbs",)),
        ("aaa", ("register_commands", "register_kbs")),
    ]


def test_each_hook_of_each_provider_is_called_once(env: FakeEnvironment) -> None:
    module = env.install(
        "acme",
        "1",
        """
        calls = []

        @hookimpl
        def register_scorers(register):
            calls.append("scorers")

        @hookimpl
        def register_samplers(register):
            calls.append("samplers")
        """,
    )
    registry = load_registry()
    registry.plugins()
    registry.names("scorer")
    assert sorted(sys.modules[module].calls) == ["samplers", "scorers"]


def test_builtins_alone_where_asked(env: FakeEnvironment, monkeypatch: pytest.MonkeyPatch) -> None:
    env.install("acme", "1", "raise RuntimeError('never loaded')")
    assert third_party(load_registry(only="builtin")) == []
    monkeypatch.setenv("KGLINK_PLUGINS", "builtin")
    assert third_party(load_registry()) == []


def test_named_distributions_alone_where_asked(env: FakeEnvironment) -> None:
    env.install("acme", "1", ACME)
    env.install("other-tools", "1", ACME.replace("acme/", "other/"))
    assert third_party(load_registry(only="Other_Tools")) == ["other/wiki"]
    assert third_party(load_registry(only="builtin, acme")) == ["acme/wiki"]
    assert third_party(load_registry(only="")) == ["acme/wiki", "other/wiki"]


def test_an_unknown_distribution_is_refused(env: FakeEnvironment) -> None:
    env.install("acme", "1", ACME)
    with pytest.raises(UnknownNameError) as caught:
        load_registry(only="acmee")
    assert str(caught.value) == (
        "unknown distribution in KGLINK_PLUGINS 'acmee'\n"
        "  Did you mean 'acme'? There is: acme, builtin."
    )


def test_hook_calls_are_traced_on_standard_error(
    env: FakeEnvironment, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    env.install("acme", "1", ACME)
    load_registry()
    assert capsys.readouterr().err == ""
    monkeypatch.setenv("KGLINK_TRACE_HOOKS", "1")
    load_registry()
    assert capsys.readouterr() == (
        "",
        "kglink: hook register_kbs of kglink 9.9 (fake_builtin)\n"
        "kglink: hook register_kbs of acme 1 (acme_plugin)\n",
    )


def test_an_environment_without_our_own_plugins_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kglink.registry.discovery.entry_points", lambda group: [])
    with pytest.raises(PluginError, match="not installed"):
        load_registry()


# ------------------------------------------------------------------------------- refusing
REFUSED = {
    "misspelt hook": (
        "@hookimpl\ndef register_kb(register): pass",
        ["'register_kb'", "Did you mean 'register_kbs'?"],
    ),
    "wrong signature": (
        "@hookimpl\ndef register_kbs(registry): pass",
        ["wrong signature: register_kbs(registry)", "It must be register_kbs(register)."],
    ),
    "no marker": (
        "def register_kbs(register): pass",
        ["'register_kbs' is not marked", "@kglink.hookimpl"],
    ),
    "no hook": ("x = 1", ["implements no hook", "register_exporters"]),
    "import fails": (
        "import no_such_module_here",
        ["cannot be imported", "ModuleNotFoundError", "no_such_module_here", "KGLINK_PLUGINS"],
    ),
    "hook fails": (
        "@hookimpl\ndef register_kbs(register): 1 / 0",
        ["register_kbs of", "ZeroDivisionError", "pip uninstall acme"],
    ),
    "no summary": (
        "@hookimpl\ndef register_kbs(register): register('acme/x', print)",
        ["register_kbs of", "summary"],
    ),
    "empty summary": (
        "@hookimpl\ndef register_kbs(register): register('acme/x', print, summary=' ')",
        ["'acme/x'", "its summary must be one line"],
    ),
    "name without vendor": (
        "@hookimpl\ndef register_kbs(register): register('wiki', print, summary='x')",
        ["'wiki'", "vendor/name"],
    ),
    "upper case": (
        "@hookimpl\ndef register_kbs(register): register('Acme/Wiki', print, summary='x')",
        ["'Acme/Wiki'", "lower-case"],
    ),
    "our vendor": (
        "@hookimpl\ndef register_kbs(register): register('kglink/x', print, summary='x')",
        ["'kglink/x'", "kept for what kglink brings"],
    ),
    "factory is no callable": (
        "@hookimpl\ndef register_kbs(register): register('acme/x', 3, summary='x')",
        ["'acme/x'", "no callable", "3"],
    ),
    "settings of another kind": (
        "@hookimpl\n"
        "def register_kbs(register): register('acme/x', print, settings=dict, summary='x')",
        ["'acme/x'", "subclass of PluginSettings"],
    ),
    "settings that ignore unknown keys": (
        "class S(kglink.PluginSettings, extra='ignore'): pass\n"
        "@hookimpl\n"
        "def register_kbs(register): register('acme/x', print, settings=S, summary='x')",
        ["'acme/x'", "must refuse unknown keys"],
    ),
    "sniff of a scorer": (
        "@hookimpl\n"
        "def register_scorers(register): register('acme/x', print, sniff=print, summary='x')",
        ["'acme/x'", "only a KB adapter has a sniff"],
    ),
    "same name twice": (
        "@hookimpl\n"
        "def register_kbs(register):\n"
        "    register('acme/x', print, summary='x')\n"
        "    register('acme/x', print, summary='x')",
        ["'acme/x' is registered twice"],
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_wrong_plugin_is_refused_with_its_provider_and_the_fix(
    env: FakeEnvironment, case: str
) -> None:
    code, wanted = REFUSED[case]
    env.install("acme", "1.5", code)
    with pytest.raises(PluginError) as caught:
        load_registry()
    message = str(caught.value)
    assert "acme 1.5" in message
    assert "acme_plugin" in message
    for part in wanted:
        assert part in message
    assert caught.value.exit_code == 2


def test_a_duplicate_name_names_both_providers(env: FakeEnvironment) -> None:
    env.install("acme", "1", ACME)
    env.install("acme-fork", "2", ACME)
    with pytest.raises(PluginError) as caught:
        load_registry()
    assert caught.value.message == (
        "KB adapter 'acme/wiki' is registered twice: "
        "by acme 1 (acme_plugin) and by acme-fork 2 (acme_fork_plugin)"
    )


def test_one_module_brought_twice_is_refused(env: FakeEnvironment) -> None:
    env.install("acme", "1", ACME, module="shared")
    env.install("acme-fork", "2", ACME, module="shared")
    with pytest.raises(PluginError, match="bring the same module"):
        load_registry()


def test_the_same_name_may_stand_for_two_kinds(env: FakeEnvironment) -> None:
    env.install("acme", "1", ACME + ACME.replace("register_kbs", "register_exporters"))
    registry = load_registry()
    assert registry.names("exporter") == ["acme/wiki"]
    assert "acme/wiki" in registry.names("kb")


# --------------------------------------------------------------------------------- naming
def test_a_short_name_is_enough_where_one_vendor_has_it(env: FakeEnvironment) -> None:
    assert load_registry().get("kb", "jsonl").name == "kglink/jsonl"


def test_a_short_name_of_two_vendors_is_refused(env: FakeEnvironment) -> None:
    env.install("acme", "1", ACME.replace("wiki", "jsonl"))
    registry = load_registry()
    with pytest.raises(UsageError) as caught:
        registry.get("kb", "jsonl")
    assert "acme/jsonl, kglink/jsonl" in str(caught.value)
    assert registry.get("kb", "kglink/jsonl").name == "kglink/jsonl"


def test_an_unknown_name_lists_what_exists(env: FakeEnvironment) -> None:
    with pytest.raises(UnknownNameError) as caught:
        load_registry().create("kb", "jsnl")
    assert "unknown KB adapter 'jsnl'" in str(caught.value)
    assert "There is: kglink/csv, kglink/jsonl." in str(caught.value)


# --------------------------------------------------------------------------------- making
def make_csv(raw: dict[str, object]) -> object:
    return load_registry().settings_for("kb", "csv", raw)


def test_settings_are_read_from_values_and_from_text(env: FakeEnvironment) -> None:
    registry = load_registry()
    made = registry.create("kb", "csv", {"skip": "3", "delimiter": ";"})
    name, settings = made  # type: ignore[misc] # this factory makes a pair
    assert (name, settings.skip, settings.delimiter) == ("csv", 3, ";")
    again = registry.create("kb", "csv", settings)
    assert again[1] is settings  # type: ignore[index] # as above


@pytest.mark.parametrize("text", ["id,title", " id , title,", '["id", "title"]'])
def test_a_list_is_read_from_text(env: FakeEnvironment, text: str) -> None:
    assert getattr(make_csv({"columns": text}), "columns") == ("id", "title")  # noqa: B009 - typed as object


def test_a_table_is_read_from_json_text(env: FakeEnvironment) -> None:
    settings = make_csv({"rename": '{"name": "title"}'})
    assert getattr(settings, "rename") == {"name": "title"}  # noqa: B009 - typed as object


@pytest.mark.parametrize(
    ("raw", "wanted"),
    [
        ({"skip": "many"}, ["KB adapter 'kglink/csv'", "setting skip = 'many'", "integer"]),
        ({"delimeter": ";"}, ["has no setting 'delimeter'", "did you mean 'delimiter'?"]),
        ({"delimeter": ";"}, ["Its settings: delimiter, columns, rename, skip."]),
        ({"rename": "nonsense"}, ["setting rename = 'nonsense'", "dictionary"]),
        ({"skip": "x", "columns": 3}, ["setting skip = 'x'", "setting columns = 3"]),
    ],
)
def test_a_wrong_setting_names_plugin_key_value_and_expectation(
    env: FakeEnvironment, raw: dict[str, object], wanted: list[str]
) -> None:
    with pytest.raises(ConfigError) as caught:
        make_csv(raw)
    for part in wanted:
        assert part in str(caught.value)


def test_a_plugin_without_settings_says_so(env: FakeEnvironment) -> None:
    with pytest.raises(ConfigError) as caught:
        load_registry().create("kb", "jsonl", {"x": 1})
    assert str(caught.value) == (
        "KB adapter 'kglink/jsonl' has no setting 'x'\n  It has no settings."
    )


def test_settings_of_another_plugin_are_refused(env: FakeEnvironment) -> None:
    with pytest.raises(UsageError, match="takes Columns, not PluginSettings"):
        load_registry().create("kb", "csv", PluginSettings())


def test_a_missing_module_names_the_exact_extra(env: FakeEnvironment) -> None:
    code = """
        def make(settings):
            import no_such_module_here

        @hookimpl
        def register_exporters(register):
            register("VENDOR/a", make, summary="x", extra="pages")
            register("VENDOR/b", make, summary="x")
    """
    env.install("acme", "1", code.replace("VENDOR", "acme"))
    env.install("kglink", "9.9", code.replace("VENDOR", "kglink"), module="fake_exporters",
                entry="exporters")  # fmt: skip
    registry = load_registry()
    hints: dict[str, str] = {}
    for name in registry.names("exporter"):
        with pytest.raises(PluginError, match="needs the module 'no_such_module_here'") as caught:
            registry.create("exporter", name)
        hints[name] = caught.value.hint
    assert hints["kglink/a"] == 'Install it: pip install "kglink[pages]"'
    assert hints["acme/a"] == 'Install it: pip install "acme[pages]"'
    assert "acme" in hints["acme/b"]


def test_arguments_after_the_settings_reach_the_factory(env: FakeEnvironment) -> None:
    env.install(
        "acme",
        "1",
        """
        @hookimpl
        def register_detectors(register):
            register("acme/d", lambda settings, names: names, summary="x")
        """,
    )
    names = object()
    made: object = load_registry().create("detector", "acme/d", {}, names)
    assert made is names


# ------------------------------------------------------------------------------- guessing
def head(data: bytes) -> SourceHead:
    return SourceHead("sample", data, None)


def test_the_surest_adapter_is_guessed_with_its_runner_up(env: FakeEnvironment) -> None:
    guess = load_registry().guess_kb(head(b'{"id": 1}'))
    assert guess == Guess("kglink/jsonl", 0.9, Guess("kglink/csv", 0.4))
    assert load_registry().guess_kb(head(b"a,b")) == Guess("kglink/csv", 0.4, None)


SNIFFER = """
    @hookimpl
    def register_kbs(register):
        register("acme/x", print, summary="x", sniff=lambda head: SURE)
"""


def test_two_equally_sure_adapters_are_no_guess(env: FakeEnvironment) -> None:
    env.install("acme", "1", SNIFFER.replace("SURE", "0.4"))
    with pytest.raises(SourceError) as caught:
        load_registry().guess_kb(head(b"a,b"))
    assert "acme/x and kglink/csv" in str(caught.value)
    assert "--adapter" in caught.value.hint


def test_a_format_that_nobody_knows_is_told(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    with fake_environment(tmp_path_factory.mktemp("site")) as environment:
        environment.install("kglink", "9", SNIFFER.replace("SURE", "0").replace("acme", "kglink"),
                            module="only_kb")  # fmt: skip
        with pytest.raises(SourceError) as caught:
            load_registry(only="builtin").guess_kb(head(b"?"))
    assert "sample: no KB adapter knows this format" in str(caught.value)
    assert "There is: kglink/x." in str(caught.value)


@pytest.mark.parametrize("sure", ["2.0", "-1", "float('nan')", "1 / 0", "None"])
def test_a_sniff_that_fails_or_is_out_of_range_names_its_provider(
    env: FakeEnvironment, sure: str
) -> None:
    env.install("acme", "1.5", SNIFFER.replace("SURE", sure))
    with pytest.raises(PluginError, match=r"'acme/x' of acme 1\.5"):
        load_registry().guess_kb(head(b"a,b"))


# ---------------------------------------------------------------- one test named for each hook
def registered_by(env: FakeEnvironment, kind: Kind) -> None:
    """A plugin that implements the hook of ``kind`` is found, named and made."""
    env.install(
        "acme",
        "1",
        f"""
        class Thing:
            def __init__(self, settings, *args):
                self.settings = settings

        @hookimpl
        def {HOOK_OF_KIND[kind]}(register):
            register("acme/thing", Thing, summary="A thing")
        """,
    )
    registry = load_registry()
    assert "acme/thing" in registry.names(kind)
    assert registry.get(kind, "thing").title == f"{WORD_OF_KIND[kind]} 'acme/thing'"
    create: Callable[..., object] = registry.create
    assert type(create(kind, "acme/thing")).__name__ == "Thing"


def test_register_kbs(env: FakeEnvironment) -> None:
    registered_by(env, "kb")


def test_register_detectors(env: FakeEnvironment) -> None:
    registered_by(env, "detector")


def test_register_scorers(env: FakeEnvironment) -> None:
    registered_by(env, "scorer")


def test_register_samplers(env: FakeEnvironment) -> None:
    registered_by(env, "sampler")


def test_register_objectives(env: FakeEnvironment) -> None:
    registered_by(env, "objective")


def test_register_index_backends(env: FakeEnvironment) -> None:
    registered_by(env, "index")


def test_register_rerankers(env: FakeEnvironment) -> None:
    registered_by(env, "reranker")


def test_register_exporters(env: FakeEnvironment) -> None:
    registered_by(env, "exporter")


def test_register_commands(env: FakeEnvironment) -> None:
    env.install("acme", "1", "@hookimpl\ndef register_commands(app): app.append('command')")
    app: list[str] = []
    load_registry().add_commands(app)
    assert app == ["command"]


def test_register_routes(env: FakeEnvironment) -> None:
    env.install("acme", "1", "@hookimpl\ndef register_routes(app): app.append('page')")
    app: list[str] = []
    load_registry().add_routes(app)
    assert app == ["page"]


def test_every_hook_has_a_test_named_after_it() -> None:
    missing = [name for name in hook_names() if f"test_{name}" not in globals()]
    assert not missing


def test_every_kind_has_a_hook() -> None:
    assert set(hook_names()) == {*HOOK_OF_KIND.values(), "register_commands", "register_routes"}
    assert set(KINDS) == set(WORD_OF_KIND)


def test_every_hook_is_documented_with_its_signature() -> None:
    page = (ROOT / "docs" / "plugins.md").read_text()
    for name in hook_names():
        arguments = ", ".join(inspect.signature(getattr(hookspecs, name)).parameters)
        assert f"### `{name}({arguments})`" in page


# ------------------------------------------------------------------------------- the real ones
def test_listing_the_builtin_plugins_loads_nothing_heavy(tmp_path: Path) -> None:
    entries = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]
    info = tmp_path / "kglink-0.1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: kglink\nVersion: 0.1.0\n")
    lines = [f"{name} = {module}" for name, module in entries["kglink"].items()]
    (info / "entry_points.txt").write_text("\n".join(["[kglink]", *lines]) + "\n")
    roots = [tmp_path, ROOT, ROOT / "plugins", ROOT / "kbs", ROOT / "cli"]
    code = """
        import json, sys
        from kglink.registry import load_registry
        registry = load_registry(only="builtin")
        names = [f"{p.kind} {p.name} {p.summary}" for p in registry.plugins()]
        heavy = ["torch", "faiss", "transformers", "scipy", "sqlalchemy", "numpy", "ray"]
        print(json.dumps({"names": names, "heavy": [m for m in heavy if m in sys.modules]}))
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, roots))},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    listed = json.loads(done.stdout)
    assert listed["heavy"] == []
    assert any(name.startswith("kb kglink/jsonl") for name in listed["names"])
