"""The values of OBO tags: quotes, escapes, comments and trailing modifiers."""

from __future__ import annotations

import re

from kglink_kbs.values import BadValue, shortened

_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_ESCAPED = {"n": "\n", "t": "\t", "W": " "}
_QUOTED = re.compile(r'"([^"\\]*(?:\\.[^"\\]*)*)"', re.DOTALL)
_COMMENT = re.compile(r"(?:^|\s)!")
_MODIFIERS = re.compile(r'\s\{\s*[\w:./#-]+\s*=\s*"[^{}]*"\s*\}$')
_LABEL = re.compile(r'\s"')
_SCOPES = frozenset({"exact", "broad", "narrow", "related"})


def unescaped(text: str) -> str:
    r"""``text`` with its escapes undone: ``\n``, ``\t``, ``\W``, and signs such as ``\"``."""
    if "\\" not in text:
        return text
    return _ESCAPE.sub(lambda found: _ESCAPED.get(found[1], found[1]), text)


def bare_text(value: str) -> str:
    """A value without quotes: comment and modifiers cut off, escapes undone."""
    if "!" in value and (comment := _COMMENT.search(value)):
        value = value[: comment.start()].rstrip()
    if value.endswith("}"):
        value = _MODIFIERS.sub("", value)
    return unescaped(value).strip()


def quoted_text(value: str, tag: str) -> tuple[str, str]:
    """The text in quotes that ``value`` begins with, and what follows it."""
    found = _QUOTED.match(value)
    if not found:
        raise BadValue(
            f"no text in quotes behind {tag}: {shortened(value)}",
            f'It is written {tag}: "text" ...; a quote inside is written \\".',
        )
    return unescaped(found[1]), value[found.end() :]


def synonym_of(value: str, scope: str) -> tuple[str, str]:
    """Scope and text of a synonym; one that says no scope is a related one."""
    text, rest = quoted_text(value, "synonym")
    said = rest.split(None, 1)[0].lower() if rest.strip() else ""
    return scope or (said if said in _SCOPES else "related"), text


def xref_text(value: str) -> str:
    """The id of a cross-reference, without the text in quotes that may follow it."""
    if label := _LABEL.search(value):
        value = value[: label.start()]
    return bare_text(value)


def match_target(value: str) -> str:
    """The id that a ``property_value`` calls an exact match; empty for other properties."""
    name, _, rest = value.partition(" ")
    if not name.endswith("exactMatch"):
        return ""
    rest = rest.strip()
    target = quoted_text(rest, name)[0] if rest.startswith('"') else rest.partition(" ")[0]
    return unescaped(target)
