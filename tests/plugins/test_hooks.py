"""Every hook works, has a test named after it, and is documented with its signature."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path

import pytest

from fake_distributions import FakeEnvironment, fake_environment
from kglink.plugins import HOOK_OF_KIND, KINDS, WORD_OF_KIND, Kind, hook_names, load_registry
from kglink.plugins import hooks as hookspecs

ROOT = Path(__file__).parents[2]


@pytest.fixture
def env(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeEnvironment:
    return fake_environment(tmp_path, monkeypatch)


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


def test_register_overlap_evidence(env: FakeEnvironment) -> None:
    registered_by(env, "overlap-evidence")


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


def test_register_clusterers(env: FakeEnvironment) -> None:
    registered_by(env, "clusterer")


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
