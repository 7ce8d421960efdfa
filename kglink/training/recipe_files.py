"""Recipes as TOML: read, listed, and changed.

A recipe may begin with another one (``extends = "t-biencoder/som-random-id"``) and say only what
differs. Ours are tables of ``recipes.toml``; plugins bring others, named vendor/name.
"""

from __future__ import annotations

import re
import tomllib
import warnings
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from kglink.errors import ConfigError, KglinkError, PluginError, UnknownNameError
from kglink.plugins import PluginModule, PluginWarning, offered
from kglink.training.recipe import DEFAULT_RECIPE, Recipe, section_of

_SUFFIX = ".toml"
_MOST_PARENTS = 8
#: The end of the key of a plugin's settings, behind the key that names the plugin.
_OF_PLUGIN = "_settings"
_OFFERED = re.compile(r"[a-z0-9][a-z0-9._-]*/[a-z0-9][a-z0-9._-]*")
#: Recipes by name, their values nested as in a file.
Known = Mapping[str, Mapping[str, Any]]


class RecipeInfo(NamedTuple):
    """A recipe of the list."""

    paper: str
    """What its name begins with; `kglink` for ours."""
    name: str
    summary: str
    source: str

    @property
    def tables(self) -> tuple[str, ...]:
        """The tables of the paper with a row of this recipe."""
        named = re.search(r"\bTables? ([\d, and]+)", self.source)
        return tuple(re.findall(r"\d+", named[1])) if named else ()

    def as_json(self) -> dict[str, object]:
        """What `kglink recipes --json` says."""
        return {**self._asdict(), "tables": list(self.tables)}


def list_recipes(paper: str = "", table: str = "") -> list[RecipeInfo]:
    """All recipes, ours first, then paper by paper; of one paper or table where told."""
    known = {**_own(), **_offered()}
    recipes = []
    for name in sorted(known, key=lambda name: ("/" in name, name)):
        try:
            recipe = read_recipe(*_whole(name, (), known))
        except KglinkError as error:
            warnings.warn(f"left out: {error.message}", PluginWarning, stacklevel=2)
            continue
        vendor = name.rpartition("/")[0] or "kglink"
        recipes.append(RecipeInfo(vendor, name, recipe.summary, recipe.source))
    if paper:
        papers = dict.fromkeys(recipe.paper for recipe in recipes)
        if paper not in papers:
            raise UnknownNameError("paper", paper, papers)
        recipes = [recipe for recipe in recipes if recipe.paper == paper]
    if table:
        tables = dict.fromkeys(number for recipe in recipes for number in recipe.tables)
        if table not in tables:
            raise UnknownNameError(f"table of {paper}" if paper else "table", table, tables)
        recipes = [recipe for recipe in recipes if table in recipe.tables]
    return recipes


def load_recipe(
    name: str | Path = DEFAULT_RECIPE, changes: Mapping[str, Any] | None = None
) -> Recipe:
    """A recipe by its name or from a file; ``changes`` are nested as in the file."""
    raw, origin = _whole(str(name), (), _own())
    if changes:
        raw = merged(raw, changes)
    return read_recipe(raw, origin)


def chosen_recipe(recipe: Recipe | str | Path, changes: Mapping[str, Any] | None = None) -> Recipe:
    """A recipe, or the one of this name, with changes."""
    if not isinstance(recipe, Recipe):
        return load_recipe(recipe, changes)
    if not changes:
        return recipe
    whole = recipe.model_dump(mode="json")
    if whole["again"] is not None:
        # Written out in full it would keep what changes of `train` are meant for; what it sets
        # itself stays.
        again, train = whole["again"], whole["train"]
        shared = {
            key: one
            for key, one in changes.get("train", {}).items()
            if again.get(key) == train.get(key)
        }
        whole["again"] = merged(again, shared)
    return read_recipe(merged(whole, changes))


def read_recipe(raw: Mapping[str, Any], origin: str = "recipe") -> Recipe:
    """A recipe from the values of a file, every key checked."""
    values = dict(raw)
    if isinstance(values.get("again"), Mapping):
        values["again"] = merged(values.get("train", {}), values["again"])
    try:
        return Recipe.model_validate(values)
    except ValidationError as error:
        errors = error.errors(include_url=False)
        unknown = (one for one in errors if one["type"] == "extra_forbidden")
        raise _refusal(next(unknown, errors[0]), origin) from error


def _refusal(error: ErrorDetails, origin: str) -> KglinkError:
    """What is wrong with a key or a value of a recipe, with a hint."""
    section: type[BaseModel] | None = Recipe
    place, hint = [str(part) for part in error["loc"]], ""
    for at, part in enumerate(place):
        fields = section.model_fields if section else {}
        if part in fields:
            hint, section = fields[part].description or hint, section_of(fields[part].annotation)
        elif error["type"] == "extra_forbidden":
            where = f" in [{'.'.join(place[:at])}]" if at else ""
            return UnknownNameError(f"key{where} of {origin}", part, fields)
    if place and place[-1] in ("str", "int", "float", "bool"):
        place.pop()  # pydantic's name for one of the types that a value may have
    reason = error["msg"].removeprefix("Value error, ")
    shown = "" if isinstance(error["input"], dict) else f" = {error['input']!r}"
    return ConfigError(f"{origin}: {'.'.join(place)}{shown}: {reason}", hint=hint)


def _whole(name: str, above: tuple[str, ...], known: Known) -> tuple[dict[str, Any], str]:
    """The values of a recipe over those that it extends, and where it comes from."""
    if name in above or len(above) > _MOST_PARENTS:
        through = f" through {' and '.join(above[1:])}" if above[1:] else ""
        raise ConfigError(
            f"recipe {above[0]}: extends itself{through}",
            hint="Name another recipe in extends, or none.",
        )
    path = Path(name).expanduser()
    if path.suffix == _SUFFIX or (name not in known and path.is_file()):
        origin, raw = str(path), _read(path)
    else:
        if name not in known:  # plugins are asked for what is none of ours
            known = {**known, **_offered()}
        if name not in known:
            by = f" (which {above[-1]} extends)" if above else ""
            hint = "`kglink recipes` lists all; or give a .toml file."
            raise UnknownNameError(f"recipe{by}", name, list(known), hint=hint)
        origin, raw = name, dict(known[name])
    parent = raw.get("extends")
    if not isinstance(parent, str) or not parent:
        return raw, origin
    beside = Path(origin).parent / parent
    found = str(beside) if parent.endswith(_SUFFIX) and beside.is_file() else parent
    inherited, _ = _whole(found, (*above, name), known)
    for own in ("summary", "source"):
        inherited.pop(own, None)
    return merged(inherited, raw), origin


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise ConfigError(f"{path}: the recipe cannot be read: {reason}") from error
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise ConfigError(f"{path}: {error}", hint="It must be a UTF-8 TOML file.") from error


def _own() -> Known:
    """What follows no paper."""
    return tomllib.loads((resources.files("kglink.training") / "recipes.toml").read_text("utf-8"))


def _offered() -> Known:
    return offered("kglink.recipes", "recipe", _recipes_of)


def _recipes_of(module: PluginModule) -> Known:
    """The recipes that a plugin brings."""
    found: dict[str, Mapping[str, Any]] = {}

    def register(name: str, values: Mapping[str, Any]) -> None:
        if not isinstance(name, str) or not _OFFERED.fullmatch(name):
            raise PluginError(f"a recipe is named vendor/name, in lower case, and not {name!r}")
        if not isinstance(values, Mapping) or name in found:
            what = "is registered twice" if name in found else "is no table of values"
            raise PluginError(f"the recipe {name!r} {what}")
        found[name] = values

    module.hooks("kglink.recipes").call("register_recipes", register=register)
    return found


def merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Nested values, those of ``above`` before those of ``below``.

    Settings of a plugin are dropped where ``above`` names another plugin than ``below`` does, or
    gives an empty table of settings.
    """
    whole = dict(below)
    for key, value in above.items():
        now, before = (str(name).removeprefix("kglink/") for name in (value, below.get(key, value)))
        if f"{key}{_OF_PLUGIN}" in below and now != before:
            del whole[f"{key}{_OF_PLUGIN}"]
    for key, value in above.items():
        old = whole.get(key)
        both = isinstance(old, Mapping) and isinstance(value, Mapping)
        both = both and bool(value or not key.endswith(_OF_PLUGIN))
        whole[key] = merged(old, value) if both else value  # type: ignore[arg-type]  # just asked
    return whole
