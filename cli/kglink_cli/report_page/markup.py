"""Pieces of the page: text, notes, lists and tables as HTML."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape

from kglink.text.printable import printable_line
from kglink_cli.tables import Figure, Table


def note_of(text: str) -> str:
    """A sentence that nobody should pass over."""
    return f'<p class="note">{text_of(text)}</p>'


def table_of(table: Table, *, one: bool) -> str:
    """A table for the page; of ``one`` run it does not say which in each row."""
    if one and table.columns[0] == "run":
        rows = [row[1:] for row in table.rows]
        table = table._replace(columns=table.columns[1:], rows=rows, figures=table.figures - 1)

    def cell(value: object, at: int, row: bool) -> str:
        numeric = at >= table.figures
        inner = text_of(str(value))
        if isinstance(value, Figure):
            inner = f"{value.value:.{value.digits}f}"
            if value.interval is not None:
                low, high = (f"{end:.{value.digits}f}" for end in value.interval)
                inner += f"<small>{low}–{high}</small>"
        elif isinstance(value, int):
            inner = f"{value:,}"
        kind = ' class="n"' if numeric else ""
        return f'<th scope="row"{kind}>{inner}</th>' if row else f"<td{kind}>{inner}</td>"

    head = "".join(
        f'<th scope="col"{" class=n" if at >= table.figures else ""}>{text_of(str(one))}</th>'
        for at, one in enumerate(table.columns)
    )
    body = "\n".join(
        f"<tr>{''.join(cell(one, at, at == 0) for at, one in enumerate(row))}</tr>"
        for row in table.rows
    )
    below = "".join(f'<p class="below">{text_of(line)}</p>' for line in table.below if line)
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{text_of(table.title)}">'
        f"<table><caption>{text_of(table.title)}</caption><thead><tr>{head}</tr></thead>"
        f"<tbody>{body}</tbody></table></div>{below}"
    )


def list_of(facts: Mapping[str, object]) -> str:
    """Names with their values."""
    rows = "".join(
        f"<dt>{text_of(name)}</dt><dd>{text_of(str(value))}</dd>" for name, value in facts.items()
    )
    return f'<dl class="facts">{rows}</dl>'


def text_of(text: str) -> str:
    """Any text, shown as it is and never read as HTML."""
    return escape(printable_line(text), quote=True)
