"""Runs the cells of a notebook without Jupyter.

A cell's output is what its last expression shows: its `_repr_html_`, else its `repr`.
`python tests/support/notebooks.py FILE` runs a notebook and keeps its outputs in it.
"""

from __future__ import annotations

import ast
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any


def cells_of(path: Path) -> list[dict[str, Any]]:
    """The code cells of a notebook."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return [cell for cell in cells if cell["cell_type"] == "code"]


def run_cells(path: Path) -> list[str]:
    """What each code cell shows, run one after the other in the current folder."""
    names: dict[str, Any] = {}
    shown = []
    for number, cell in enumerate(cells_of(path), 1):
        tree = ast.parse("".join(cell["source"]))
        last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
        exec(compile(tree, f"cell {number}", "exec"), names)  # noqa: S102 - our own notebook
        value = None
        if isinstance(last, ast.Expr):
            expression = ast.Expression(last.value)
            value = eval(compile(expression, f"cell {number}", "eval"), names)  # noqa: S307 - ours
        html = getattr(value, "_repr_html_", lambda value=value: repr(value))
        shown.append("" if value is None else html())
    return shown


def main() -> None:
    """Run a notebook in an empty folder and keep what its cells show."""
    path = Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        shown = run_cells(path)
        os.chdir("/")
    notebook = json.loads(path.read_text(encoding="utf-8"))
    codes = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    for number, (cell, html) in enumerate(zip(codes, shown, strict=True), 1):
        data = {"text/html": html.splitlines(keepends=True), "text/plain": ["a table"]}
        output = {"output_type": "execute_result", "execution_count": number, "metadata": {}}
        cell |= {"execution_count": number, "outputs": [output | {"data": data}] if html else []}
    text = json.dumps(notebook, indent=1, ensure_ascii=False)
    path.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
