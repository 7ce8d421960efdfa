"""`kglink recipes`: all recipes, or one of them with every value that it has."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Annotated, Any

import typer

from kglink.errors import UsageError
from kglink_cli.console import print_json, print_table, say

COLUMNS = ("paper", "name", "summary", "follows")


def recipes(
    name: Annotated[str, typer.Argument(help="One recipe, or a .toml file: all its values.")] = "",
    paper: Annotated[
        str,
        typer.Option(help="Only of this paper: amh, arboel, blink, joint, t-biencoder or kglink."),
    ] = "",
    table: Annotated[str, typer.Option(help="Only those with a row in this table: 2")] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List the recipes for `kglink finetune`, or show one whole."""
    from kglink.training.recipe import list_recipes, load_recipe

    if name and (paper or table):
        raise UsageError(
            "one recipe, and a paper or table to list", hint="Leave out the name, or the others."
        )
    if name:
        values = load_recipe(name).model_dump(mode="json")
        if as_json:
            print_json({"name": name, **values})
        else:
            # With all values written out it begins with no other recipe.
            values.pop("extends")
            say(*toml_lines(values))
        return
    found = list_recipes(paper, table)
    if as_json:
        print_json([recipe.as_json() for recipe in found])
    else:
        print_table(COLUMNS, found)


def toml_lines(values: Mapping[str, Any], section: str = "") -> Iterator[str]:
    """A recipe as its file would say it with every value written out."""
    plain = {key: value for key, value in values.items() if not _is_section(key, value)}
    for key, value in plain.items():
        if value is not None and value != "":
            yield f"{key} = {_toml(value)}"
    for key, value in values.items():
        if key not in plain:
            inner = f"{section}.{key}".lstrip(".")
            yield ""
            yield f"[{inner}]"
            yield from toml_lines(value, inner)


def _is_section(key: str, value: object) -> bool:
    return isinstance(value, Mapping) and not key.endswith("_settings")


def _toml(value: object) -> str:
    if isinstance(value, Mapping):
        inner = ", ".join(f"{key} = {_toml(item)}" for key, item in value.items())
        return f"{{ {inner} }}" if inner else "{}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(_toml(item) for item in value)}]"
    # Of texts, numbers and truths JSON and TOML say the same.
    return json.dumps(value, ensure_ascii=False)
