"""The examples with which every command's help ends: there are some, and the command takes them."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from itertools import takewhile
from typing import Any

import pytest
import typer

from kglink_cli.examples import EXAMPLES
from kglink_cli.main import build_app


@pytest.fixture(scope="module")
def root() -> Any:
    return typer.main.get_command(build_app())


def commands_of(command: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    yield path, command
    for name, child in getattr(command, "commands", {}).items():
        yield from commands_of(child, f"{path} {name}".lstrip())


def parsed(command: Any, words: list[str], parent: Any = None) -> str:
    """The command that ``words`` reach with arguments that it takes."""
    context = command.make_context(words[0], words[1:], parent=parent)
    rest = [*getattr(context, "_protected_args", ()), *context.args]
    if not rest:
        return str(context.command_path)
    name, child, rest = command.resolve_command(context, rest)
    return parsed(child, [name, *rest], context)


def test_every_command_ends_its_help_with_two_examples(root: Any) -> None:
    commands = dict(commands_of(root))
    assert commands.keys() == EXAMPLES.keys()
    for path, command in commands.items():
        assert len(EXAMPLES[path]) >= 2
        assert all(example in command.epilog for example in EXAMPLES[path])


@pytest.mark.parametrize(
    ("path", "example"), [(path, one) for path, several in EXAMPLES.items() for one in several]
)
def test_an_example_is_a_call_that_the_command_takes(root: Any, path: str, example: str) -> None:
    words = list(takewhile(lambda word: word not in ("<", ">", "|"), shlex.split(example)))
    reached = parsed(root, words)
    assert reached.startswith(f"kglink {path}".rstrip())
