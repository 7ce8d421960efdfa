"""The page of a report, from its JSON: ``page.html`` is filled in."""

from __future__ import annotations

import base64
import functools
import hashlib
import re
from collections.abc import Mapping, Sequence
from importlib.resources import files

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup

from kglink.evaluation.measures.errors import REASONS
from kglink.text.printable import printable_json, printable_line
from kglink_cli.console import Table, counted
from kglink_cli.report_page.drawing import COLOURS, DARK, LIGHT, colours
from kglink_cli.report_page.plots import plots_of
from kglink_cli.report_page.tables import Shape, tables_of

#: The key of a section, its heading, and its HTML.
Section = tuple[str, str, str]


def page_of(report: Shape, title: str = "", first: Sequence[Section] = ()) -> str:
    """The page; every number on it is from the report, which it holds whole.

    It begins with the sections ``first`` that somebody adds, under a title for all of it.
    """
    names = ", ".join(run["name"] for run in report["runs"])
    what = "fine-tuning compared" if len(report["runs"]) > 1 else "what it learnt"
    data = printable_json({**report, "colours": {"light": LIGHT, "dark": DARK}})
    text = (
        _templates()
        .get_template("page.html")
        .render(
            report=report,
            title=title or f"{names}: {what}",
            first=first,
            tables=tables_of(report),
            plots={
                one.name: one.svg(alone=False)
                for one in plots_of(report)
                if not one.name.startswith("map-")
            },
            reasons=REASONS,
            facts=_facts,
            flat=_flat,
            style=colours() + _part("page.css"),
            script=_part("page.js"),
            # No HTML parser can take it for a tag, a comment or an entity.
            data=re.sub("[<>&]", lambda match: f"\\u{ord(match[0]):04x}", data),
        )
    )
    return text.strip() + "\n"


def note_of(text: str) -> str:
    """A sentence that nobody should pass over."""
    return _piece("note", text)


def table_of(table: Table, *, one: bool) -> str:
    """A table for the page; of ``one`` run it does not say which in each row."""
    return _piece("table", table, one)


def list_of(facts: Mapping[str, object]) -> str:
    """Names with their values."""
    return _piece("facts", facts)


def _piece(name: str, *values: object) -> str:
    """HTML as a plain string, which is joined to others as it is."""
    return str(getattr(_templates().get_template("pieces.html").module, name)(*values))


@functools.cache
def _templates() -> Environment:
    environment = Environment(
        loader=FunctionLoader(_part),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
        finalize=lambda one: (
            printable_line(one) if isinstance(one, str) and not isinstance(one, Markup) else one
        ),
    )
    environment.filters["number"] = format
    environment.globals |= {"counted": counted, "colour_count": COLOURS, "csp_hash": _csp_hash}
    return environment


def _facts(run: Shape) -> dict[str, object]:
    hardware = run["hardware"]
    return {
        "state": run["state"],
        "space": run["space"] or "none",
        "recipe": run["recipe"] or "(of a program)",
        "learns from": run["sources"],
        "source KBs": ", ".join(run["source_kbs"]) or "none",
        "target KBs": ", ".join(run["target_kbs"]) or "none",
        "documents": ", ".join(run["docs"]) or "all",
        "seed": run["seed"],
        "began": run["started"],
        "steps": f"{run['steps']:,}",
        "took": "not done" if run["seconds"] is None else f"{run['seconds']:,.0f} s",
        "computed on": f"{hardware['device']}, {hardware['precision']}, "
        f"{counted(hardware['threads'], 'thread')}, {counted(run['processes'], 'process')}",
        "libraries": ", ".join(f"{name} {text}" for name, text in run["libraries"].items()),
        **{f"fingerprint of {name}": one for name, one in run.get("fingerprints", {}).items()},
        **{f"revision of {name}": one for name, one in run.get("revisions", {}).items()},
    }


def _flat(values: Shape, above: str = "") -> dict[str, object]:
    """Values within values, by names with dots."""
    found: dict[str, object] = {}
    for name, value in values.items():
        if isinstance(value, Mapping) and value:
            found |= _flat(value, f"{above}{name}.")
        else:
            found[f"{above}{name}"] = value
    return found


def _part(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


def _csp_hash(text: str) -> Markup:
    digest = hashlib.sha256(text.encode()).digest()
    return Markup(f"'sha256-{base64.b64encode(digest).decode()}'")  # noqa: S704 - of base64
