"""What each section of a report shows, in a sentence for each run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kglink_cli.console import counted

Shape = Mapping[str, Any]


def lead(section: str, report: Shape) -> list[str]:
    """The sentences of a section; none of runs that it says nothing of."""
    say = _LEADS[section]
    several = len(report["runs"]) > 1
    told = [(run["name"], say(run)) for run in report["runs"]]
    return [f"{name}: {text}" if several else text for name, text in told if text]


def _retrieval(run: Shape) -> str:
    if not run["retrieval"]:
        return ""
    joint, mentions = run["retrieval"]["metrics"]["joint"], run["retrieval"]["mentions"]["joint"]
    return (
        f"Of {counted(mentions, 'mention')} {joint['R@1']:.1%} have a right entity first among all "
        f"KBs together, {joint['R@8']:.1%} among the first 8, {joint['R@64']:.1%} among 64."
    )


def _answers(run: Shape) -> str:
    if not run["end_to_end"]:
        return ""
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
    if not before or not after:
        return ""
    one, other = before["mean"]["R@1"], after["mean"]["R@1"]
    verb = "rose" if other > one else "fell" if other < one else "stayed"
    return (
        f"R@1 of the mentions held back {verb} from {one:.3f} to {other:.3f}, the mean over KBs "
        f"by vectors alone, in {counted(run['steps'], 'step')}."
    )


def _errors(run: Shape) -> str:
    errors = run["errors"]
    if not errors:
        return ""
    wrong = errors["mentions"] - errors["right"]
    most = sorted(errors["reasons"].items(), key=lambda one: -one[1])
    named = ", ".join(f"{reason} {count:,}" for reason, count in most if count)
    return f"{wrong:,} of {counted(errors['mentions'], 'mention')} are answered wrongly" + (
        f": {named}." if named else "."
    )


_LEADS: Mapping[str, Callable[[Shape], str]] = {
    "retrieval": _retrieval,
    "answers": _answers,
    "training": _training,
    "errors": _errors,
}
