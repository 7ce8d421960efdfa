"""Plugins are found, named with their provider, refused with both sides, and made."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
import tomllib
from pathlib import Path

import pytest

from fake_distributions import ACME, FakeEnvironment, fake_environment
from kglink.errors import PluginError, UnknownNameError, UsageError
from kglink.plugins import PluginSettings, PluginWarning, Registry, load_registry

ROOT = Path(__file__).parents[2]


@pytest.fixture
def env(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeEnvironment:
    return fake_environment(tmp_path, monkeypatch)


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
    code = ACME + "\n    @hookimpl\n    def register_commands(app): pass\n"
    for group in ("kglink", "kglink.commands"):
        env.install("aaa", "1", code, group=group)
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
    load_registry().plugins()
    assert capsys.readouterr().err == ""
    monkeypatch.setenv("KGLINK_TRACE_HOOKS", "1")
    load_registry().plugins()
    assert capsys.readouterr() == (
        "",
        "kglink: hook register_kbs of kglink 9.9 (fake_builtin)\n"
        "kglink: hook register_kbs of acme 1 (acme_plugin)\n",
    )


def test_an_environment_without_our_own_plugins_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kglink.plugins.loading.entry_points", lambda group: [])
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
    "commands in the group of plugins": (
        "@hookimpl\ndef register_commands(app): pass",
        ["'register_commands' is called only for", "'kglink.commands'", "acme_plugin under"],
    ),
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
    "texts of a scorer": (
        "@hookimpl\n"
        "def register_scorers(register): register('acme/x', print, texts=True, summary='x')",
        ["'acme/x'", "only a KB adapter reads texts"],
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
    registry = load_registry()
    with pytest.warns(PluginWarning) as caught:
        assert third_party(registry) == []
    message = str(caught[0].message)
    assert message.startswith("acme 1.5 (acme_plugin) is left out: ")
    assert "left out: acme 1.5" not in message
    for part in wanted:
        assert part in message
    assert message.startswith(registry.left_out()[0])


def test_a_duplicate_name_names_both_providers(env: FakeEnvironment) -> None:
    env.install("acme", "1", ACME)
    env.install("acme-fork", "2", ACME)
    registry = load_registry()
    with pytest.warns(PluginWarning):
        registry.plugins()
    assert registry.left_out() == (
        "acme-fork 2 (acme_fork_plugin) is left out: KB adapter 'acme/wiki' is registered twice: "
        "by acme 1 (acme_plugin) and by acme-fork 2 (acme_fork_plugin).",
    )


def test_one_module_brought_twice_is_refused(env: FakeEnvironment) -> None:
    env.install("acme", "1", ACME, module="shared")
    env.install("acme-fork", "2", ACME, module="shared")
    with pytest.warns(PluginWarning, match="bring the same module"):
        load_registry().plugins()


def test_the_same_name_may_stand_for_two_kinds(env: FakeEnvironment) -> None:
    env.install("acme", "1", ACME + ACME.replace("register_kbs", "register_exporters"))
    registry = load_registry()
    assert registry.names("exporter") == ["acme/wiki"]
    assert "acme/wiki" in registry.names("kb")


# --------------------------------------------------------------------------------- naming
def test_a_short_name_is_enough_where_one_vendor_has_it(env: FakeEnvironment) -> None:
    assert load_registry().get("kb", "jsonl").name == "kglink/jsonl"


def test_a_short_name_of_two_vendors_is_refused(env: FakeEnvironment) -> None:
    env.install("acme", "1", ACME)
    env.install("other", "1", ACME.replace("acme/", "other/"))
    registry = load_registry()
    with pytest.raises(UsageError) as caught:
        registry.get("kb", "wiki")
    assert "acme/wiki, other/wiki" in str(caught.value)
    assert registry.get("kb", "other/wiki").name == "other/wiki"


def test_kglinks_own_plugin_wins_a_short_name(env: FakeEnvironment) -> None:
    env.install("evil", "1", ACME.replace("acme/wiki", "evil/jsonl"))
    registry = load_registry()
    assert "evil/jsonl" in registry.names("kb")
    assert registry.get("kb", "jsonl").name == "kglink/jsonl"
    assert registry.get("kb", "evil/jsonl").name == "evil/jsonl"


def test_an_unknown_name_lists_what_exists(env: FakeEnvironment) -> None:
    with pytest.raises(UnknownNameError) as caught:
        load_registry().create("kb", "jsnl")
    assert "unknown KB adapter 'jsnl'" in str(caught.value)
    assert "There is: kglink/csv, kglink/jsonl." in str(caught.value)


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
        from kglink.plugins import load_registry
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
