"""Pieces of the page: text, notes, lists and tables as HTML."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from html import escape
from importlib.resources import files
from string import Template
from typing import Any

from kglink.evaluation.measures.errors import REASONS
from kglink.text.printable import printable_json, printable_line
from kglink_cli.console import Figure, Table, counted
from kglink_cli.report_page.drawing import COLOURS, DARK, LIGHT, Drawing, colours
from kglink_cli.report_page.plots import plots_of
from kglink_cli.report_page.tables import tables_of


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


Shape = Mapping[str, Any]


def _retrieval(run: Shape) -> str:
    joint, mentions = run["retrieval"]["metrics"]["joint"], run["retrieval"]["mentions"]["joint"]
    return (
        f"Of {counted(mentions, 'mention')} {joint['R@1']:.1%} have a right entity first among all "
        f"KBs together, {joint['R@8']:.1%} among the first 8, {joint['R@64']:.1%} among 64."
    )


def _answers(run: Shape) -> str:
    joint = run["end_to_end"]["metrics"]["joint"]
    links, places = joint["links"]["strict"], joint["detection"]["strict"]
    text = (
        f"{places['right']:,} of {counted(places['gold'], 'mention')} were found where they are; "
        f"{links['right']:,} of {links['gold']:,} that an entity is meant by are linked rightly."
    )
    if links["micro"]["precision"] is not None:
        text += (
            f" {links['found'] - links['right']:,} of {counted(links['found'], 'link')} are wrong."
        )
    return text


def _training(run: Shape) -> str:
    before, after = run["before"], run["recalls"]
    if not before:
        return ""
    one, other = before["mean"]["R@1"], after["mean"]["R@1"]
    verb = "rose" if other > one else "fell" if other < one else "stayed"
    return (
        f"R@1 of the mentions held back {verb} from {one:.3f} to {other:.3f}, the mean over KBs "
        f"by vectors alone, in {counted(run['steps'], 'step')}."
    )


def _errors(run: Shape) -> str:
    errors = run["errors"]
    wrong = errors["mentions"] - errors["right"]
    most = sorted(errors["reasons"].items(), key=lambda one: -one[1])
    named = ", ".join(f"{reason} {count:,}" for reason, count in most if count)
    return f"{wrong:,} of {counted(errors['mentions'], 'mention')} are answered wrongly" + (
        f": {named}." if named else "."
    )


#: The key of a section, its heading, and its HTML.
Section = tuple[str, str, str]
#: What a run of one of these stages alone trains.
_HEADS = {"D": "a detector of mentions", "R": "a reranker"}


def page_of(report: Shape, title: str = "", first: Sequence[Section] = ()) -> str:
    """The page; every number on it is from the report, which it holds whole.

    It begins with the sections ``first`` that somebody adds, under a title for all of it.
    """
    style, script = colours() + _part("page.css"), _part("page.js")
    plots = [one for one in plots_of(report) if not one.name.startswith("map-")]
    tables = tables_of(report)
    sections = [*first, *_sections(report, tables, plots)]
    names = ", ".join(run["name"] for run in report["runs"])
    what = "fine-tuning compared" if len(report["runs"]) > 1 else "what it learnt"
    # No HTML parser can take it for a tag, a comment or an entity.
    data = printable_json({**report, "colours": {"light": LIGHT, "dark": DARK}})
    values = {
        "title": text_of(title or f"{names}: {what}"),
        "subtitle": text_of(_subtitle(report)),
        "style": style,
        "style_hash": _csp_hash(style),
        "script": script,
        "script_hash": _csp_hash(script),
        "contents": "".join(
            f'<li><a href="#{key}">{text_of(heading)}</a></li>' for key, heading, _ in sections
        ),
        "sections": "\n".join(
            f'<section id="{key}" aria-labelledby="{key}-h">'
            f'<h2 id="{key}-h">{text_of(heading)}</h2>\n{body}\n</section>'
            for key, heading, body in sections
        ),
        "footer": "Made by kglink report. The JSON of all figures is within this file "
        "(kglink report --json writes it alone).",
        "data": re.sub("[<>&]", lambda match: f"\\u{ord(match[0]):04x}", data),
    }
    return _filled("page.html", **values)


def _subtitle(report: Shape) -> str:
    kbs = ", ".join(
        f"{one['name']} ({counted(one['entities'], 'entity')})" for one in report["kbs"]
    )
    split = f"split {report['split']} of " if report["split"] else ""
    docs = ", ".join(report["docs"])
    nothing = "No space was judged: what is shown is of the mentions held back in training."
    judged = f"Judged on {split}{docs}." if docs else nothing
    return f"Knowledge bases: {kbs}. {judged}"


def _sections(
    report: Shape, tables: Mapping[str, Table], plots: list[Drawing]
) -> Iterator[Section]:
    one = len(report["runs"]) == 1
    drawn = {plot.name: f"<figure>{plot.svg(alone=False)}</figure>" for plot in plots}

    def table(*names: str) -> str:
        return "".join(table_of(tables[name], one=one) for name in names if name in tables)

    def plot(*names: str) -> str:
        return "".join(drawn[name] for name in names if name in drawn)

    several = len(report["runs"]) > 1
    cards = "".join(card for run in report["runs"] for card in _cards_of(run, several))
    yield "summary", "In short", f'<ul class="cards">{cards}</ul>' + _missing(report)
    if "retrieval" in tables:
        body = _lead(_retrieval, report, "retrieval") + plot("recall")
        body += table("retrieval", "seeds", "significance")
        body += plot("kbs", "domains") + table("surfaces")
        yield "retrieval", "How often a right entity is found", body
    if "answers" in tables:
        body = _lead(_answers, report, "end_to_end") + table("answers")
        body += plot("reliability", "thresholds")
        yield "answers", "What links of raw text are worth", body
    body = _lead(_training, report, "recalls") + table("training") + plot("loss", "epochs")
    yield "training", "How it was trained", body or note_of("No curve is kept of it.")
    maps = "".join(_map(at, run) for at, run in enumerate(report["runs"]) if run["map"])
    if maps:
        yield "map", "The joint space as a map", maps
    if "errors" in tables:
        body = _lead(_errors, report, "errors") + list_of(REASONS) + table("errors")
        body += plot(*(one for one in drawn if one.startswith("confusion-")))
        body += _browser(report)
        yield "errors", "Why answers are wrong", body
    yield "settings", "Settings and fingerprints", "".join(map(_facts, report["runs"]))


def _lead(say: Callable[[Shape], str], report: Shape, key: str) -> str:
    """The sentences of a section, of the runs that have what ``key`` names."""
    several = len(report["runs"]) > 1
    sentences = [(run["name"], say(run)) for run in report["runs"] if run[key]]
    shown = [f"{name}: {text}" if several else text for name, text in sentences if text]
    return "".join(f"<p>{text_of(one)}</p>" for one in shown)


def _cards_of(run: Shape, several: bool) -> Iterator[str]:
    where = f"{run['name']}: " if several else ""

    def card(value: str, label: str, more: str = "") -> str:
        return f"<li><b>{text_of(value)}</b><span>{text_of(where + label)}</span>" + (
            f"<small>{text_of(more)}</small></li>" if more else "</li>"
        )

    before, after = run["before"], run["recalls"]
    if before and after:
        values = f"{before['mean']['R@1']:.3f} → {after['mean']['R@1']:.3f}"
        yield card(values, "right at first by vectors alone, before and after training",
                   "R@1 of the mentions held back, mean over KBs")  # fmt: skip
    if run["retrieval"]:
        joint, around = (run["retrieval"][one]["joint"] for one in ("metrics", "intervals"))
        yield card(f"{joint['R@1']:.3f}", "right at first among all KBs",
                   f"{_interval(around['R@1'])}; among 64: {joint['R@64']:.3f}")  # fmt: skip
    if run["end_to_end"]:
        links = run["end_to_end"]["metrics"]["joint"]["links"]["strict"]
        which, name = ("recall", "recall") if links["micro"]["f1"] is None else ("f1", "F1")
        if links["micro"][which] is not None:
            more = _interval(links["intervals"][which]) + "; place and entity right"
            yield card(f"{links['micro'][which]:.3f}", f"{name} of links in raw text", more)
        calibration = run["end_to_end"]["metrics"]["joint"]["calibration"]
        if calibration["ece"] is not None:
            yield card(f"{calibration['ece']:.3f}", "between confidence and share of right answers",
                       f"ECE, {counted(calibration['answers'], 'answer')}; 0 is best")  # fmt: skip
    if run["map"] and run["map"]["before"] and run["map"]["after"]["acs"] is not None:
        values = f"{run['map']['before']['acs']:.3f} → {run['map']['after']['acs']:.3f}"
        count = counted(run["map"]["pair_count"], "overlap")
        yield card(values, "cosine of counterparts in two KBs", f"before and after, {count}")


def _interval(ends: list[float]) -> str:
    return "95% interval {:.3f} to {:.3f}".format(*ends)


def _missing(report: Shape) -> str:
    """What cannot be said of a run, and how it could."""
    notes = [
        f"{run['name']} trained {_HEADS[run['sources']]} and no model of a space, so that only its "
        "training is shown."
        if run["sources"] in _HEADS
        else f"{run['name']} is the model of no space now, so that only its training is shown. "
        f"kglink finetune --resume --run {run['name']} --space NAME gives it one."
        for run in report["runs"]
        if not run["space"]
    ]
    if not report["docs"] and any(run["space"] for run in report["runs"]):
        notes.append(
            "There are no annotated documents to judge on: kglink add-kb DOCS FILE --links-to KB "
            "adds some."
        )
    return "".join(map(note_of, notes))


def _map(at: int, run: Shape) -> str:
    shape = run["map"]
    sides = [side for side in ("before", "after") if shape[side]]
    of = "" if shape["shown"] == shape["entities"] else f" of {shape['entities']:,}"
    how = (
        f"{shape['shown']:,}{of} entities, each by the vector of its text; "
        f"{counted(shape['pair_count'], 'overlap')} as lines: the shorter, the nearer. "
        "Drag to move, wheel or + and − to zoom, arrows to pan, 0 for the whole."
    )
    lost = "" if shape["before"] else note_of("The model before training is not there any more.")
    return _filled(
        "map.html",
        name=text_of(run["name"]),
        how=text_of(how),
        lost=lost,
        at=at,
        shown=f"{shape['shown']:,}",
        sides="".join(
            f'<label><input type="radio" name="side{at}" data-side="{side}"'
            f"{' checked' if side == 'after' else ''}>{side}</label>"
            for side in sides
        ),
        kbs="".join(
            f'<label><input type="checkbox" checked data-kb="{kb}">'
            f"{_swatch(kb)}{text_of(name)} <small>{count:,}</small></label>"
            for kb, (name, count) in enumerate(zip(shape["kbs"], shape["counts"], strict=True))
        ),
        below="".join(
            f'<p class="below" data-of-side="{side}"{" hidden" if side != "after" else ""}>'
            f"{text_of(_about_side(shape, side))}</p>"
            for side in sides
        ),
    )


def _swatch(kb: int) -> str:
    """The shape and colour of a KB on the map, as page.js draws them."""
    shapes = (
        '<circle cx="7" cy="7" r="5"/>',
        '<rect x="2.5" y="2.5" width="9" height="9"/>',
        '<path d="M7 1 12.5 11.5H1.5z"/>',
        '<path d="M7 .5 13.5 7 7 13.5.5 7z"/>',
        '<path d="M7 13 12.5 2.5H1.5z"/>',
    )
    return (
        f'<svg class="swatch f-c{kb % COLOURS}" viewBox="0 0 14 14" aria-hidden="true">'
        f"{shapes[kb % len(shapes)]}</svg>"
    )


def _about_side(shape: Shape, side: str) -> str:
    first, second = shape[side]["variance"]
    text = (
        f"{side.capitalize()} fine-tuning. Axes: the first two principal components "
        f"({first:.1%} and {second:.1%} of the variance)"
    )
    if side == "after" and shape["before"]:
        text += ", turned to lie on the map before as well as they can"
    if shape[side]["acs"] is not None:
        text += f". Mean cosine of counterparts: {shape[side]['acs']:.3f}"
    return text + "."


def _browser(report: Shape) -> str:
    runs = [(at, run) for at, run in enumerate(report["runs"]) if run["errors"]]
    name, first, cases = (runs[0][1][key] for key in ("name", "errors", "cases"))
    wrong = first["mentions"] - first["right"]
    about = f"{wrong:,} of {first['mentions']:,} mentions of {name} are wrong"
    if len(cases) < wrong:
        about += f"; the first {len(cases):,} of them, of each reason some, are here"

    def options(words: Mapping[str, str]) -> str:
        return "".join(
            f'<option value="{text_of(value)}">{text_of(shown)}</option>'
            for value, shown in words.items()
        )

    alone = len(runs) == 1
    reasons = {one: f"{one} ({count:,})" * alone or one for one, count in first["reasons"].items()}
    kbs = [*(kb["name"] for kb in report["kbs"]), "[NIL]"]
    return _filled(
        "cases.html",
        about=text_of(about),
        runs=options({str(at): run["name"] for at, run in runs}),
        reasons=options(reasons),
        kbs=options(dict(zip(kbs, kbs, strict=True))),
    )


def _facts(run: Shape) -> str:
    hardware = run["hardware"]
    facts: dict[str, object] = {
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
        f"{counted(hardware['threads'], 'thread')}, {run['processes']} process(es)",
        "libraries": ", ".join(f"{name} {text}" for name, text in run["libraries"].items()),
        **{f"fingerprint of {name}": one for name, one in run.get("fingerprints", {}).items()},
        **{f"revision of {name}": one for name, one in run.get("revisions", {}).items()},
    }
    notes = "".join(f"<li>{text_of(one)}</li>" for one in run["notes"])
    return (
        f"<h3>{text_of(run['name'])}</h3>{list_of(facts)}"
        + (f"<p>Notes</p><ul>{notes}</ul>" if notes else "")
        + "<details><summary>All settings of the recipe</summary>"
        + f"{list_of(dict(_flat(run['settings'])))}</details>"
    )


def _flat(values: Shape, above: str = "") -> Iterator[tuple[str, object]]:
    for name, value in values.items():
        if isinstance(value, Mapping) and value:
            yield from _flat(value, f"{above}{name}.")
        else:
            yield f"{above}{name}", value


def _filled(template: str, **values: object) -> str:
    return Template(_part(template)).substitute(values)


def _part(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


def _csp_hash(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"
