"""No modules of the project import each other in a circle, in whatever place the imports stand."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = (
    ROOT / "kglink",
    ROOT / "plugins" / "kglink_plugins",
    ROOT / "kbs" / "kglink_kbs",
    ROOT / "cli" / "kglink_cli",
    ROOT / "papers" / "kglink_papers",
    ROOT / "doors" / "kglink_doors",
)


def module_files() -> dict[str, Path]:
    """Every module of the project with its file."""
    found: dict[str, Path] = {}
    for package in PACKAGES:
        for path in package.rglob("*.py"):
            parts = path.relative_to(package.parent).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imported(name: str, path: Path, known: Mapping[str, Path]) -> Iterator[str]:
    """The modules that one names in its imports: at the top, for types, and inside functions.

    A package that is only passed through (``a`` in ``from a.b import c``) is not named.
    """
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom):
            parents = package.split(".")[: len(package.split(".")) - node.level + 1]
            base = ".".join([*(parents if node.level else []), *filter(None, [node.module])])
            for alias in node.names:
                if f"{base}.{alias.name}" in known:
                    yield f"{base}.{alias.name}"
                elif base in known:
                    yield base


def circles(graph: Mapping[str, set[str]]) -> list[tuple[str, ...]]:
    """The groups of modules that reach each other, after Tarjan's algorithm."""
    number: dict[str, int] = {}
    low: dict[str, int] = {}
    open_: list[str] = []
    found: list[tuple[str, ...]] = []

    def visit(name: str) -> None:
        number[name] = low[name] = len(number)
        open_.append(name)
        for other in sorted(graph[name]):
            if other not in number:
                visit(other)
                low[name] = min(low[name], low[other])
            elif other in open_:
                low[name] = min(low[name], number[other])
        if low[name] == number[name]:
            group = [open_.pop()]
            while group[-1] != name:
                group.append(open_.pop())
            if len(group) > 1 or name in graph[name]:
                found.append(tuple(sorted(group)))

    for name in sorted(graph):
        if name not in number:
            visit(name)
    return found


def test_no_modules_import_each_other_in_a_circle() -> None:
    files = module_files()
    assert {"kglink.records", "kglink_plugins.plugin", "kglink_kbs.plugin"} <= files.keys()
    graph = {name: set(imported(name, path, files)) for name, path in files.items()}
    assert "kglink.errors" in graph["kglink.config"]
    found = [" <-> ".join(circle) for circle in circles(graph)]
    assert not found, "modules import each other in a circle: " + "; ".join(found)


def test_a_circle_is_found_and_named() -> None:
    graph = {"a": {"b"}, "b": {"c"}, "c": {"a", "d"}, "d": set(), "e": {"e"}}
    assert circles(graph) == [("a", "b", "c"), ("e",)]
    assert circles({"a": {"b"}, "b": set()}) == []
