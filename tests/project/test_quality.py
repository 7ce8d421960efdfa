"""What no linter asks: that every exception to a rule says why."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROOTS = ("kglink", "plugins", "kbs", "cli", "papers", "benchmarks", "docs", "tests")

EXCEPTION = re.compile(r"#\s*(noqa|type:\s*ignore|pragma: no cover|pyright:)(.*)$")
WITH_REASON = re.compile(
    r"""
    :\s[A-Z]+[0-9]+(,\s?[A-Z]+[0-9]+)*\s(-\s)?\w+  # noqa: S603 - why
    | \[[a-z-]+(,\s?[a-z-]+)*\]\s{1,2}\#\s\S+   # type: ignore[misc]  # why
    """,
    re.VERBOSE,
)


def unexplained(text: str) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(text.splitlines(), start=1):
        exception = EXCEPTION.search(line)
        if exception and not WITH_REASON.match(exception[2]):
            yield number, line.strip()


@pytest.mark.parametrize(
    ("line", "explained"),
    [
        ("x = 1  # noqa: S603 - our own command", True),
        ("x = 1  # noqa: S603, S607 - our own command", True),
        ("x = 1  # type: ignore[misc]  # the library has no types", True),
        ("x = 1  # noqa", False),
        ("x = 1  # noqa: S603", False),
        ("x = 1  # noqa: S603 our own command", True),
        ("x = 1  # noqa: S603 -", False),
        ("x = 1  # type: ignore", False),
        ("x = 1  # type: ignore[misc]", False),
        ("x = 1  # a comment on noise", True),
    ],
)
def test_a_reason_is_known_when_seen(line: str, explained: bool) -> None:
    assert (not list(unexplained(line))) is explained


def test_every_exception_in_the_code_says_why() -> None:
    files = [file for root in ROOTS for file in (ROOT / root).rglob("*.py")]
    bare = [
        f"{file.relative_to(ROOT)}:{number}: {line}"
        for file in files
        if file != Path(__file__)
        for number, line in unexplained(file.read_text(encoding="utf-8"))
    ]
    assert len(files) > 20
    assert not bare


def test_every_exception_in_pyproject_says_why() -> None:
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    lint = tomllib.loads(text)["tool"]["ruff"]["lint"]
    codes = {
        *lint["ignore"],
        *(code for more in lint["per-file-ignores"].values() for code in more),
    }
    listing = text.partition("\nignore = [")[2].partition("[tool.mypy]")[0].splitlines()
    explained = {
        code for line in listing for code in re.findall(r'"([A-Z]+[0-9]*)"(?=.*#\s\S)', line)
    }
    assert explained == codes
