"""`pytest --kglink-contracts` checks installed plugins; without it the plugin does nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from fake_distributions import ACME, FakeEnvironment, fake_environment

ROOT = Path(__file__).parents[2]

DETECTORS = """
    from kglink.records import Span

    class Nothing:
        def __init__(self, settings, names):
            pass

        def detect(self, text):
            return []

    class TooFar(Nothing):
        def detect(self, text):
            return [Span(0, len(text) + 1)]

    @hookimpl
    def register_detectors(register):
        register("acme/nothing", Nothing, summary="Finds nothing")
        if WITH_WRONG:
            register("acme/too-far", TooFar, summary="Finds too much")
"""


@pytest.fixture
def env(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeEnvironment:
    (tmp_path / "site").mkdir()
    return fake_environment(tmp_path / "site", monkeypatch)


def run_pytest(env: FakeEnvironment, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run pytest in an empty project beside the fake environment."""
    project = env.folder.parent / "project"
    project.mkdir(exist_ok=True)
    (project / "test_own.py").write_text("def test_own(): pass\n")
    path = os.pathsep.join(map(str, (env.folder, ROOT)))
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "kglink.testing.pytest_plugin", *arguments],
        cwd=project,
        env={**os.environ, "PYTHONPATH": path, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        check=False,
    )


def test_without_the_option_nothing_is_added(env: FakeEnvironment) -> None:
    env.install("acme", "1", "raise RuntimeError('never imported')")
    done = run_pytest(env)
    assert done.returncode == 0, done.stdout
    assert "1 passed" in done.stdout
    assert "kglink" not in done.stdout


def test_correct_plugins_pass_and_are_named(env: FakeEnvironment) -> None:
    env.install("acme", "1", DETECTORS.replace("WITH_WRONG", "False"))
    done = run_pytest(env, "--kglink-contracts")
    assert done.returncode == 0, done.stdout
    assert "7 passed" in done.stdout, "our own test and the six checks of the contract"
    assert "detector 'acme/nothing': general checks only" in done.stdout


def test_a_wrong_plugin_fails_with_its_name_and_the_check(env: FakeEnvironment) -> None:
    env.install("acme", "1", DETECTORS.replace("WITH_WRONG", "True"))
    done = run_pytest(env, "--kglink-contracts")
    assert done.returncode == 1
    assert "[detector-acme/too-far-test_spans_hold_for_every_text]" in done.stdout
    assert "1 failed, 12 passed" in done.stdout


def test_a_module_that_cannot_be_loaded_fails_with_its_name(env: FakeEnvironment) -> None:
    env.install("acme", "1", "import no_such_module")
    done = run_pytest(env, "--kglink-contracts")
    assert done.returncode not in (0, 5)
    assert "acme 1 (acme_plugin) is left out" in done.stdout
    assert "no_such_module" in done.stdout


def test_an_adapter_without_a_contract_test_is_told(env: FakeEnvironment) -> None:
    env.install("acme", "1", ACME)
    done = run_pytest(env, "--kglink-contracts")
    assert done.returncode == 0, done.stdout
    assert "KB adapter 'acme/wiki': NOT TESTED: subclass kglink.testing.KBAdapterContract" in (
        done.stdout
    )


def test_no_third_party_plugin_is_told_too(env: FakeEnvironment) -> None:
    done = run_pytest(env, "--kglink-contracts")
    assert done.returncode == 0, done.stdout
    assert "no third-party plugin of kglink is installed here" in done.stdout
