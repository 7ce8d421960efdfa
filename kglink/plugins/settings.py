"""Reading a plugin's settings, and saying what is wrong with them in words."""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from kglink.errors import ConfigError
from kglink.plugins.protocols import PluginSettings

_LISTS = frozenset({"list_type", "tuple_type", "set_type", "frozen_set_type"})
_TABLES = frozenset({"dict_type", "mapping_type", "model_type"})


def read_settings(
    title: str, settings: type[PluginSettings], raw: Mapping[str, object]
) -> PluginSettings:
    """The settings of a plugin from values or from text, as ``--set key=value`` gives it.

    Text stands for a list as ``a,b`` or JSON, for a table as JSON.
    """
    try:
        return settings.model_validate(dict(raw))
    except ValidationError as first:
        # Read the texts that stand where a list or a table is wanted.
        unpacked = dict(raw)
        for problem in first.errors(include_url=False, include_context=False):
            kind, value = problem["type"], problem["input"]
            if len(problem["loc"]) == 1 and isinstance(value, str) and kind in _LISTS | _TABLES:
                unpacked[str(problem["loc"][0])] = _unpacked(value, kind)
        if unpacked == raw:
            raise _settings_error(title, settings, first) from first
    try:
        return settings.model_validate(unpacked)
    except ValidationError as second:
        raise _settings_error(title, settings, second) from second


def setting_keys(settings: type[PluginSettings]) -> list[str]:
    """The names of all settings, in the order of the class."""
    return [field.alias or name for name, field in settings.model_fields.items()]


def _unpacked(text: str, kind: str) -> object:
    if kind in _TABLES or text.lstrip().startswith("["):
        try:
            return json.loads(text)
        except json.JSONDecodeError:
            return text
    return [part.strip() for part in text.split(",") if part.strip()]


def _settings_error(
    title: str, settings: type[PluginSettings], error: ValidationError
) -> ConfigError:
    keys = setting_keys(settings)
    problems = [_problem(title, keys, problem) for problem in error.errors(include_url=False)]
    known = f"Its settings: {', '.join(keys)}." if keys else "It has no settings."
    return ConfigError("; ".join(problems), hint=known)


def _problem(title: str, keys: list[str], problem: Mapping[str, Any]) -> str:
    key = ".".join(str(part) for part in problem["loc"])
    reason = problem["msg"].removeprefix("Value error, ")
    if problem["type"] == "extra_forbidden":
        near = difflib.get_close_matches(key, keys, n=1)
        guess = f" (did you mean {near[0]!r}?)" if near else ""
        return f"{title} has no setting {key!r}{guess}"
    if problem["type"] == "missing":
        return f"{title} needs the setting {key!r}"
    if not key:
        return f"{title}: {reason}"
    return f"{title}: setting {key} = {problem['input']!r}: {reason}"
