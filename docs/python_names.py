"""The reference of the Python interface: every public name, from its own docstring."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import re
import textwrap
from collections.abc import Iterator
from typing import Any

import kglink
from kglink import Workspace
from kglink.store import IngestSummary, KBInfo
from kglink.store.document_reader import MentionsOf, Snippet
from kglink.workspace.entities import Counterpart, EntityView
from kglink.workspace.kbs import AddedKB
from kglink.workspace.link import LinkJob
from kglink.workspace.memory import Correction
from kglink.workspace.resolve import Resolved
from kglink.workspace.review import LinkReview, LinkToReview, ReviewedLinks

START = (
    "Every public name of `kglink`, and every method of `Workspace`: each command of the command "
    "line is one. [kglink in Python](../python.md) shows how they go together. The examples are "
    "run by the tests, in a workspace whose KB `birds` holds a heron and an osprey, whose KB "
    "`zoo` holds a heron too, and whose `notes` are one annotated text."
)
MARK = "Marks a function as a hook; [Writing a plugin](../plugins.md) shows where it stands."
OPENING = ("open", "close", "with_settings")
GIVEN_BACK = (
    AddedKB,
    IngestSummary,
    KBInfo,
    EntityView,
    Counterpart,
    MentionsOf,
    Snippet,
    Correction,
    LinkJob,
    LinkReview,
    LinkToReview,
    ReviewedLinks,
    Resolved,
)
HELD = ("settings", "store", "space", "encoder", "linker")


def python_page() -> Iterator[str]:
    """The page."""
    yield "# Python"
    yield START
    yield "## `Workspace`"
    yield text_of(Workspace)
    for name in (*OPENING, *workspace_verbs(), *HELD):
        yield from _member(f"Workspace.{name}", inspect.getattr_static(Workspace, name), "###")
    for name in kglink.__all__:
        value = getattr(kglink, name)
        if name not in ("Workspace", "__version__"):
            yield from _member(name, value, "##")
    yield "## `__version__`"
    yield "The version of kglink, as text."
    yield "## What methods give back"
    for given in GIVEN_BACK:
        yield from _member(given.__name__, given, "###")


def workspace_verbs() -> list[str]:
    """The methods of `Workspace`, by topic as the class lists them."""
    return [name for name, value in vars(Workspace).items() if inspect.isfunction(value)]


def _member(name: str, value: Any, heading: str) -> Iterator[str]:
    if isinstance(value, classmethod):
        value = value.__func__
    yield f"{heading} `{name}`"
    if isinstance(value, type):
        yield from _class(name, value)
        return
    function = getattr(value, "fget", None) or getattr(value, "func", value)
    if inspect.isfunction(function):
        call = f"{name}: {_result(function)}"
        if function is value:
            call = _call(name, function, skip="." in name)
        yield f"```text\n{call}\n```"
        yield text_of(function)
    else:
        yield MARK


def _class(name: str, value: type) -> Iterator[str]:
    fields = list(_fields(value))
    if fields:
        lines = [
            f"{field}: {kind}" + (f" = {default}" if default else "")
            for field, kind, default, _ in fields
        ]
        yield "```text\n" + f"{name}(\n" + "".join(f"    {line},\n" for line in lines) + ")\n```"
    yield text_of(value)
    if told := [f"- `{field}`: {_one_line(meaning)}" for field, _, _, meaning in fields if meaning]:
        yield "\n".join(told)
    for member, function in vars(value).items():
        shown = getattr(function, "__func__", None) or getattr(function, "fget", None) or function
        if not member.startswith("_") and inspect.isfunction(shown) and shown.__doc__:
            yield f"- `{_call(f'.{member}', shown, skip=True)}`: {_one_line(text_of(shown))}"


def _fields(value: type) -> Iterator[tuple[str, str, str, str]]:
    """Name, type, default and meaning of each field of a record."""
    if not (dataclasses.is_dataclass(value) or hasattr(value, "_fields")):
        return
    tree = ast.parse(textwrap.dedent(inspect.getsource(value)))
    body = [node for one in tree.body if isinstance(one, ast.ClassDef) for node in one.body]
    for at, node in enumerate(body):
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            after = body[at + 1] if at + 1 < len(body) else None
            said = after.value if isinstance(after, ast.Expr) else None
            meaning = said.value if isinstance(said, ast.Constant) else ""
            default = ast.unparse(node.value) if node.value else ""
            shown = {"field(default_factory=dict)": "{}"}.get(default, default)
            yield node.target.id, ast.unparse(node.annotation), shown, str(meaning)


def _call(name: str, function: Any, *, skip: bool) -> str:
    """How a function is called; ``skip`` leaves out its first parameter, the object or class."""
    signature = inspect.signature(function)
    parameters = list(signature.parameters.values())[skip:]
    shown, keyword_only = [], False
    for one in parameters:
        if one.kind is one.KEYWORD_ONLY and not keyword_only:
            keyword_only = True
            shown.append("*")
        default = "" if one.default is one.empty else f" = {_default(one.default)}"
        shown.append(f"{one.name}: {one.annotation}{default}")
    call = f"{name}({', '.join(shown)}) -> {signature.return_annotation}"
    if len(call) <= 96 or name.startswith("."):
        return call
    inner = "".join(f"    {one},\n" for one in shown)
    return f"{name}(\n{inner}) -> {signature.return_annotation}"


def _default(value: object) -> str:
    return "..." if inspect.isfunction(value) else repr(value)


def _result(function: Any) -> str:
    return str(inspect.signature(function).return_annotation)


def text_of(value: Any) -> str:
    """A docstring as Markdown: double backticks become single ones, examples a block of code."""
    text = inspect.getdoc(value) or ""
    text = text.replace("``", "`")
    return re.sub(
        r"^>>> .*(?:\n(?!\n).*)*", lambda found: f"```python\n{found[0]}\n```", text, flags=re.M
    )


def _one_line(text: str) -> str:
    return " ".join(text.replace("``", "`").split())
