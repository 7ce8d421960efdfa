"""Settings: the order of their sources, and what is said of a bad one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import typer

from kglink.config import (
    LinkSection,
    Settings,
    all_settings,
    env_name,
    load_settings,
    setting_descriptions,
)
from kglink.errors import ConfigError, UnknownNameError
from kglink.linking.scoring import DEFAULT_THRESHOLD
from kglink_cli.main import build_app


def write(folder: Path, text: str) -> Path:
    path = folder / "kglink.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_flag_beats_variable_beats_file_beats_default(tmp_path: Path) -> None:
    config = write(tmp_path, "[link]\ntop_k = 7\nthreshold = 0.2\ncandidates = 50\n")
    resolved = load_settings(
        config, env={"KGLINK_LINK_TOP_K": "8", "KGLINK_LINK_THRESHOLD": "0.3"},
        flags={"link.top_k": 9, "link.window_chars": None},
    )  # fmt: skip
    link = resolved.values.link
    assert (link.top_k, link.threshold, link.candidates, link.window_chars) == (9, 0.3, 50, 256)
    assert resolved.origins == {
        "link.top_k": "flag",
        "link.threshold": "KGLINK_LINK_THRESHOLD",
        "link.candidates": str(config),
    }


def test_lists_and_tables_in_variables() -> None:
    env = {
        "KGLINK_LINK_KBS": "doid, hp",
        "KGLINK_SPACE_ROWS": "text",
        "KGLINK_LINK_DETECTOR_SETTINGS": '{"min_chars": 3}',
    }
    settings = load_settings(env=env).values
    assert settings.link.kbs == ("doid", "hp")
    assert settings.space.rows == ("text",)
    assert settings.link.detector_settings == {"min_chars": 3}


def test_toml_is_written_as_one_would(tmp_path: Path) -> None:
    text = '[link]\nkbs = "doid, hp"\n[link.output_settings]\ntable.colour = "never"\n'
    link = load_settings(write(tmp_path, text), env={}).values.link
    assert link.kbs == ("doid", "hp")
    assert link.output_settings == {"table.colour": "never"}


@pytest.mark.parametrize("setting", ["link.threshold", "link.top_k", "link.output_settings"])
def test_true_is_no_number(setting: str) -> None:
    with pytest.raises(ConfigError, match="should not be true or false"):
        load_settings(env={}, flags={setting: True})


@pytest.mark.parametrize("name", [name for name, _ in all_settings()])
def test_every_setting_has_a_description_a_variable_and_a_toml_key(name: str) -> None:
    section, _, key = name.partition(".")
    assert setting_descriptions(type(getattr(Settings(), section)))[key].endswith(".")
    assert env_name(name) == "KGLINK_" + name.upper().replace(".", "_")


def test_other_kglink_variables_are_no_settings() -> None:
    names = ("KGLINK_WORKSPACE", "KGLINK_PLUGINS", "KGLINK_DEBUG", "KGLINK_TEST_POSTGRES")
    assert load_settings(env=dict.fromkeys(names, "x")).origins == {}


@pytest.mark.parametrize(
    ("text", "error", "said"),
    [
        ("[link]\ntop_kk = 1", UnknownNameError, "Did you mean 'link.top_k'"),
        ("[lnk]\ntop_k = 1", UnknownNameError, "Did you mean 'link'"),
        ("[link]\ntop_k = 0", ConfigError, "link.top_k = 0"),
        ("[link]\ntop_k = 'many'", ConfigError, "link.top_k = 'many'"),
        ("link = 3", ConfigError, "must be a section"),
        ("[link", ConfigError, "TOML"),
        ("[ingest]\non_error = 'ask'", ConfigError, "'stop' or 'skip'"),
        ("[overlap]\nthreshold = 1.5", ConfigError, "less than or equal to 1"),
    ],
)
def test_a_bad_file_says_what_and_where(
    tmp_path: Path, text: str, error: type[Exception], said: str
) -> None:
    config = write(tmp_path, text)
    with pytest.raises(error) as caught:
        load_settings(config, env={})
    assert said in str(caught.value)
    assert str(config) in str(caught.value) or "section" in str(caught.value)


def test_a_file_that_is_not_utf8(tmp_path: Path) -> None:
    config = tmp_path / "kglink.toml"
    config.write_bytes(b"[link]\n# caf\xe9\n")
    with pytest.raises(ConfigError, match="UTF-8"):
        load_settings(config, env={})


def test_an_unknown_variable_names_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match="KGLINK_LINK_TOP_K"):
        load_settings(env={"KGLINK_LINK_TOPK": "3"})


def test_what_is_said_of_the_threshold_is_its_default() -> None:
    link: Any = typer.main.get_command(build_app())
    (flag,) = (one for one in link.commands["link"].params if one.name == "threshold")
    said = f"{DEFAULT_THRESHOLD:.1f}".removeprefix("0")
    assert flag.help.endswith(f" or {said}.")
    assert f"else 0{said}." in setting_descriptions(LinkSection)["threshold"]
