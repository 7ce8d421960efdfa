"""The pages: they build, the generated ones are fresh, their links lead somewhere, they run."""

from __future__ import annotations

import inspect
import os
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from kglink.plugins import HOOKS, KINDS
from kglink.sources import Source
from snippets import PageRunner, blocks_of, check_language

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
FRONT = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")
PAGES = sorted([*DOCS.rglob("*.md"), *(ROOT / name for name in FRONT)])
#: Pages with examples that people wrote.
EXAMPLES = [
    page
    for page in PAGES
    if page.parent.name != "reference" and "```" in page.read_text(encoding="utf-8")
]

LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)|!\[[^\]]*\]\(([^)\s]+)\)")
LOADED = re.compile(r'<(?:script|img|iframe|source)\b[^>]*\bsrc="(https?:)?//|@import|fonts\.g')


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def run(*command: str | Path) -> subprocess.CompletedProcess[str]:
    variables = {key: value for key, value in os.environ.items() if not key.startswith("KGLINK_")}
    return subprocess.run(
        [sys.executable, *command],
        cwd=ROOT,
        env=variables | {"NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    done = run("-m", "mkdocs", "build", "--strict", "--site-dir", folder)
    assert done.returncode == 0, done.stderr
    return folder


def test_the_site_builds_without_a_warning_and_has_every_page(site: Path) -> None:
    built = {page.relative_to(site).with_suffix(".md").as_posix() for page in site.rglob("*.html")}
    assert built - {"404.md"} == {page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md")}
    assert not list(site.rglob("*.py"))


def test_the_site_loads_nothing_from_another_host(site: Path) -> None:
    for page in site.rglob("*.html"):
        assert LOADED.search(page.read_text(encoding="utf-8")) is None, page


def test_the_reference_pages_are_fresh() -> None:
    done = run("docs/generate.py", "--check")
    assert done.returncode == 0, done.stderr


def test_a_stale_or_missing_reference_page_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.syspath_prepend(DOCS)
    monkeypatch.setenv("KGLINK_PLUGINS", "builtin")
    generate = import_module("generate")
    monkeypatch.setattr(generate, "FOLDER", tmp_path)
    made = generate.pages()
    monkeypatch.setattr(generate, "pages", lambda: made)  # which takes seconds each time
    assert generate.main([]) == 0
    assert generate.main(["--check"]) == 0
    (tmp_path / "settings.md").write_text("old")
    (tmp_path / "hooks.md").unlink()
    assert generate.main(["--check"]) == 1
    told = capsys.readouterr().err
    assert "settings.md" in told
    assert "hooks.md" in told
    assert "cli.md" not in told


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_relative_link_leads_to_a_file(page: Path) -> None:
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    targets = [first or second for first, second in LINK.findall(text)]
    dead = [
        target
        for target in targets
        if not target.startswith(("http://", "https://", "#", "mailto:"))
        and not (page.parent / target.partition("#")[0]).exists()
    ]
    assert not dead


@pytest.mark.parametrize("page", EXAMPLES, ids=name_of)
def test_every_block_of_a_page_says_its_language(page: Path) -> None:
    for block in blocks_of(page):
        check_language(block)


@pytest.mark.slow
@pytest.mark.parametrize("page", EXAMPLES, ids=name_of)
def test_the_examples_of_a_page_do_what_it_says(page: Path, tmp_path: Path) -> None:
    PageRunner(tmp_path).run(blocks_of(page))


def test_every_hook_is_explained_in_the_guide_to_plugins() -> None:
    guide = (DOCS / "plugins.md").read_text(encoding="utf-8")
    assert {hook for hook in HOOKS if f"`{hook}`" in guide or f"def {hook}(" in guide} == set(HOOKS)


def test_every_kind_of_plugin_has_a_worked_example_in_the_guide() -> None:
    programs = [
        block.body for block in blocks_of(DOCS / "plugins.md") if block.language == "python"
    ]
    for kind in KINDS.values():
        assert any(f"def {kind.hook}(register):" in program for program in programs), kind.name


def test_the_guide_to_plugins_says_what_a_source_gives() -> None:
    guide = (DOCS / "plugins.md").read_text(encoding="utf-8")
    for call in ("lines", "byte_lines", "text", "open", "files", "is_folder", "where", "label"):
        assert hasattr(Source, call)
        assert f"`source.{call}" in guide


def test_the_reference_of_settings_names_every_variable() -> None:
    from kglink.config import NOT_SETTINGS, all_settings, env_name

    page = (DOCS / "reference" / "settings.md").read_text(encoding="utf-8")
    variables = NOT_SETTINGS | {env_name(name) for name, _ in all_settings()}
    assert {name for name in variables if f"`{name}`" in page} == variables


def test_the_tree_of_errors_in_the_docstring_is_the_real_one() -> None:
    from kglink import errors

    drawn = re.findall(r"^[│├└─ ]*([A-Z]\w+)  ", errors.__doc__ or "", flags=re.M)
    real = [
        name
        for name, value in vars(errors).items()
        if inspect.isclass(value) and value.__module__ == errors.__name__
    ]
    assert sorted(drawn) == sorted(real)


def test_the_files_that_the_architecture_page_names_for_formulas_are_there() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    table = page.partition("## Where to change what")[2]
    files = re.findall(r"`((?:kglink|plugins|kbs)/[\w/]+\.py)`", table)
    assert len(files) > 30
    assert [name for name in files if not (ROOT / name).is_file()] == []


def test_the_rooms_that_the_walks_pass_are_there() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    walks = page.partition("Three of these, step")[2].partition("## A space on disk")[0]
    rooms = "linking|models|space|store|training|workspace|evaluation"
    modules = set(re.findall(rf"\b(?:{rooms})/\w+", walks))
    assert len(modules) > 20
    assert [name for name in sorted(modules) if not _is_there(name)] == []


def _is_there(name: str) -> bool:
    module = ROOT / "kglink" / name
    return module.is_dir() or module.with_suffix(".py").is_file()
