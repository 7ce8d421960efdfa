"""Runs the examples of a page as its reader would: one folder, from top to bottom.

How a page is written:

- a ``console`` block: lines that start with ``$ `` are run by bash (``> `` goes on with the
  command above); what stands below a command is what it prints;
- a ``python`` block is a program of its own; a ``text`` block with ``title="output"`` below it
  is what it prints;
- any other block with a ``title`` is a file of that name, written and not run;
- ``<!-- no-run: why -->`` on the line above a block: it is shown only;
- ``...`` in an output stands for anything, and spaces are compared as one; the lines of progress
  that a slow machine prints count for nothing.

Blocks of any other language than those of `SHOWN` are refused, so that no command escapes.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from environments import Environment, clean_variables, fresh_environment

SHOWN = frozenset({"text", "json", "jsonl", "toml", "csv", "tsv", "html", "xml", "yaml", "diff"})
RUN = frozenset({"console", "python"})
TIMEOUT_S = 480

_PROGRESS = re.compile(r"^  \S.*, [\d,.]+(?: [kMGT]?B| bytes)?/s(?:, \d.* left)?\n", re.MULTILINE)
_FENCE = re.compile(r"^(?P<indent> *)(?P<ticks>`{3,})(?P<info>[^`]*)$")
_TITLE = re.compile(r'title="([^"]*)"')
_NO_RUN = re.compile(r"<!-- no-run: (.+) -->")


class SnippetError(AssertionError):
    """An example that does not do what its page says."""


@dataclass(frozen=True)
class Block:
    """A fenced block; ``line`` is where it starts, ``no_run`` why it is only shown."""

    page: str
    line: int
    language: str
    title: str
    body: str
    no_run: str

    @property
    def where(self) -> str:
        """The place, as editors read it."""
        return f"{self.page}:{self.line}"


@dataclass(frozen=True)
class Command:
    """One command of a console block and what it must print ("" where the page does not say)."""

    line: int
    text: str
    output: str


def blocks_of(page: Path) -> list[Block]:
    """The fenced blocks of a page, in order."""
    return list(_blocks(page.name, page.read_text(encoding="utf-8").splitlines()))


def check_language(block: Block) -> None:
    """Refuse a block of a language that is neither run nor known as one that is shown."""
    if block.language not in RUN | SHOWN:
        raise SnippetError(
            f"{block.where}: a block of {block.language or 'no language'}; "
            f"write one of {', '.join(sorted(RUN | SHOWN))}"
        )


def _blocks(page: str, lines: list[str]) -> Iterator[Block]:
    above, number = "", 0
    while number < len(lines):
        fence = _FENCE.match(lines[number])
        if fence is None:
            above, number = lines[number] or above, number + 1
            continue
        start, indent = number, len(fence["indent"])
        end = start + 1
        while end < len(lines) and lines[end].strip() != fence["ticks"]:
            end += 1
        if end == len(lines):
            raise SnippetError(f"{page}:{start + 1}: the block is never closed")
        body = "\n".join(line[indent:] for line in lines[start + 1 : end])
        language, _, info = fence["info"].strip().partition(" ")
        title, reason = _TITLE.search(info), _NO_RUN.search(above)
        yield Block(
            page,
            start + 1,
            language,
            title[1] if title else "",
            body,
            reason[1] if reason else "",
        )
        above, number = "", end + 1


def commands_of(block: Block) -> Iterator[Command]:
    """The commands of a console block, each with the output below it."""
    for part in re.split(r"^(?=\$ )", block.body, flags=re.MULTILINE):
        if not part.startswith("$ "):
            if part.strip():
                raise SnippetError(f"{block.where}: output without a command above it")
            continue
        lines = part.removeprefix("$ ").splitlines()
        size = 1
        while size < len(lines) and (
            lines[size].startswith("> ") or lines[size - 1].endswith("\\")
        ):
            size += 1
        text = "\n".join(line.removeprefix("> ") for line in lines[:size])
        line = block.line + 1 + block.body[: block.body.index(part)].count("\n")
        yield Command(line, text, "\n".join(lines[size:]))


def matches(expected: str, actual: str) -> bool:
    """Whether an output is the expected one, ``...`` standing for anything."""
    pattern = ".*?".join(re.escape(_plain(part)) for part in _plain(expected).split("..."))
    return re.fullmatch(pattern, _plain(actual), flags=re.DOTALL) is not None


def _plain(text: str) -> str:
    lines = (re.sub(r"\s+", " ", line).rstrip() for line in text.splitlines())
    return "\n".join(lines).strip("\n")


class PageRunner:
    """Runs the blocks of one page in one folder, in an environment of their own."""

    def __init__(self, folder: Path, *, timeout_s: int = TIMEOUT_S) -> None:
        self._timeout_s = timeout_s
        self._environment: Environment = fresh_environment(folder / "environment")
        self._environment.borrow_everything("kglink", "pip", "pytest")
        self._working = self._home = folder / "work"
        self._home.mkdir()
        self._state = folder / "working-folder"

    def run(self, blocks: list[Block]) -> None:
        """Do what every block says; the first that fails is told with its line."""
        printed = ""
        for block in blocks:
            check_language(block)
            if block.no_run:
                continue
            if block.title == "output":
                _compare(block.where, "the program above", block.body, printed)
            elif block.title:
                self._write(block)
            elif block.language == "console":
                self._run_console(block)
            elif block.language == "python":
                printed = self._run_python(block)

    def _write(self, block: Block) -> None:
        path = self._working / block.title
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(block.body + "\n", encoding="utf-8")

    def _run_console(self, block: Block) -> None:
        for command in commands_of(block):
            where = f"{block.page}:{command.line}"
            script = f"{{ {command.text}\n}} && pwd >{self._state}"
            printed = self._execute(where, ["bash", "-o", "pipefail", "-c", script])
            self._working = Path(self._state.read_text(encoding="utf-8").strip())
            if command.output.strip():
                _compare(where, f"$ {command.text}", command.output, printed)

    def _run_python(self, block: Block) -> str:
        program = self._state.with_name("program.py")
        program.write_text(block.body, encoding="utf-8")
        return self._execute(block.where, [str(self._environment.python), str(program)])

    def _execute(self, where: str, command: list[str]) -> str:
        variables = clean_variables()
        variables |= {
            "PATH": f"{self._environment.bin}:{variables['PATH']}",
            "HOME": str(self._home),
            "COLUMNS": "100",
            "TERM": "dumb",
            "NO_COLOR": "1",
            "PIP_NO_INDEX": "1",
            "PIP_NO_BUILD_ISOLATION": "0",  # pip reads it the other way round
        }
        done = subprocess.run(
            command,
            cwd=self._working,
            env=variables,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=self._timeout_s,
            check=False,
        )
        if done.returncode:
            raise SnippetError(f"{where}: exit code {done.returncode}:\n{done.stdout}")
        return _PROGRESS.sub("", done.stdout)


def _compare(where: str, what: str, expected: str, actual: str) -> None:
    if not matches(expected, actual):
        raise SnippetError(
            f"{where}: {what}\n----- the page says\n{expected}\n----- it printed\n{actual}"
        )
