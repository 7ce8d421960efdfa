"""Plugins are made with checked settings, and the adapter of a source is guessed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import Field

from fake_distributions import FakeEnvironment, fake_environment
from kglink.config import setting_descriptions
from kglink.errors import ConfigError, PluginError, SourceError, UsageError
from kglink.plugins import Guess, PluginSettings, PluginWarning, load_registry
from kglink.sources import SourceHead


@pytest.fixture
def env(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeEnvironment:
    return fake_environment(tmp_path, monkeypatch)


def make_csv(raw: dict[str, object]) -> Any:
    return load_registry().settings_for("kb", "csv", raw)


def test_settings_are_read_from_values_and_from_text(env: FakeEnvironment) -> None:
    create: Callable[..., Any] = load_registry().create
    name, settings = create("kb", "csv", {"skip": "3", "delimiter": ";"})
    assert (name, settings.skip, settings.delimiter) == ("csv", 3, ";")
    assert create("kb", "csv", settings)[1] is settings


@pytest.mark.parametrize("text", ["id,title", " id , title,", '["id", "title"]'])
def test_a_list_is_read_from_text(env: FakeEnvironment, text: str) -> None:
    assert make_csv({"columns": text}).columns == ("id", "title")


def test_a_table_is_read_from_json_text(env: FakeEnvironment) -> None:
    assert make_csv({"rename": '{"name": "title"}'}).rename == {"name": "title"}


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
    env.install("acme", "1", SNIFFER.replace("SURE", "0.5"))
    env.install("other", "1", SNIFFER.replace("SURE", "0.5").replace("acme/", "other/"))
    with pytest.raises(SourceError) as caught:
        load_registry().guess_kb(head(b"a,b"))
    assert "acme/x and other/x" in str(caught.value)
    assert "--adapter" in caught.value.hint


def test_kglinks_own_adapter_wins_among_equally_sure_ones(env: FakeEnvironment) -> None:
    env.install("acme", "1", SNIFFER.replace("SURE", "0.4"))
    guess = load_registry().guess_kb(head(b"a,b"))
    assert guess == Guess("kglink/csv", 0.4, Guess("acme/x", 0.4))


def test_a_format_that_nobody_knows_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_environment(
        tmp_path, monkeypatch, SNIFFER.replace("SURE", "0").replace("acme/", "kglink/")
    )
    with pytest.raises(SourceError) as caught:
        load_registry(only="builtin").guess_kb(head(b"?"))
    assert "sample: no KB adapter knows this format" in str(caught.value)
    assert "There is: kglink/x." in str(caught.value)
    with pytest.raises(SourceError, match="dumps: no KB adapter knows this folder") as caught:
        load_registry(only="builtin").guess_kb(SourceHead("dumps", b"", tmp_path))
    assert "Name a file in it" in caught.value.hint


@pytest.mark.parametrize("sure", ["2.0", "-1", "float('nan')", "1 / 0", "None"])
def test_a_sniff_that_fails_or_is_out_of_range_is_left_out_with_its_name(
    env: FakeEnvironment, sure: str
) -> None:
    env.install("acme", "1.5", SNIFFER.replace("SURE", sure))
    with pytest.warns(PluginWarning, match=r"'acme/x' of acme 1\.5"):
        assert load_registry().guess_kb(head(b"a,b")).name == "kglink/csv"


class Plain(PluginSettings):
    """Settings described in each way."""

    depth: int = 3
    """How deep it looks;
    no deeper."""
    width: int = Field(4, ge=0, description="How wide it looks.")
    silent: bool = False


class Narrow(Plain):
    """The same, described anew."""

    depth: int = 1
    """One deep."""


def test_the_text_below_a_setting_describes_it() -> None:
    assert setting_descriptions(Plain) == {
        "depth": "How deep it looks; no deeper.",
        "width": "How wide it looks.",
        "silent": "",
    }
    assert setting_descriptions(Narrow)["depth"] == "One deep."
