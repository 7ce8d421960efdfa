"""What each part of finding and linking brings to raw text: all of it, then each left out alone.

    python benchmarks/parts.py WORKSPACE DOCS [DOCS ...] [--split dev]
    python benchmarks/parts.py --catalogue

WORKSPACE has KBs and, where that is to be measured, a memory; DOCS are annotated documents that are
linked as raw text, to the space of the settings. ``--catalogue`` judges the mails of `catalogue.py`
instead. A part is left out by putting something that does nothing in the place of one function, so
the weights stay what they were fitted to be with it.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

from catalogue import KB, catalogue, mails

from kglink.records import Ranking, Span
from kglink.workspace import Workspace

_VARIANTS = "kglink_plugins.detectors.dictionary.variants"


class Part(NamedTuple):
    """A function that does nothing in the place of another, named by its module."""

    place: str
    instead: Callable[..., Any]


def _longest_first(rankings: Sequence[Ranking], before: Sequence[Ranking]) -> list[Ranking]:
    """Of proposals that overlap the longest, however probable."""
    kept = list(before)
    places = [(one.mention.start, one.mention.end) for one in kept]
    for one in sorted(rankings, key=lambda one: one.mention.start - one.mention.end):
        start, end = one.mention.start, one.mention.end
        if all(end <= other or stop <= start for other, stop in places):
            kept.append(one)
            places.append((start, end))
    return kept


def _as_they_are(hits: Sequence[object], *_: object) -> list[object]:
    return list(hits)


def _nothing(*_: object) -> Iterator[Any]:
    return iter(())


PARTS: Mapping[str, Sequence[Part]] = {
    "nothing": (),
    "names that are written otherwise": [Part(f"{_VARIANTS}.VariantFinder._of_piece", _nothing)],
    "names in other spacing": [
        Part(f"{_VARIANTS}.VariantFinder._pairs", _nothing),
        Part(f"{_VARIANTS}._is_spaced_otherwise", lambda *_: False),
    ],
    "wrong letters": [Part(f"{_VARIANTS}.VariantFinder._corrected_hash", lambda *_: None)],
    "a part of a name beside another number": [
        Part(f"{_VARIANTS}._has_another_number", lambda *_: False)
    ],
    "short forms that the text explains": [
        Part("kglink.linking.detect._short_forms", lambda *_: list[Span]()),
        Part("kglink.linking.reading.long_form_of", lambda *_: ""),
        Part("kglink.linking.pipeline.long_form_of", lambda *_: ""),
        Part("kglink_plugins.evidence.long_form_of", lambda *_: ""),
        Part(f"{_VARIANTS}._with_short_forms", _as_they_are),
    ],
    "of overlapping places the most probable": [
        Part("kglink.linking.judge._most_covering", _longest_first)
    ],
    "the judge's memory of words": [Part("kglink.linking.judge._known", lambda *_: 0.0)],
    "the judge's memory of kinds": [Part("kglink.linking.judge._doubt", lambda *_: 0.0)],
    "sources weighed by likeness": [
        Part(
            "kglink.store.likeness.SourceWords._likeness",
            lambda self, _: tuple((source, 1.0) for source in self._counts),
        )
    ],
}


@contextmanager
def without(parts: Sequence[Part]) -> Iterator[None]:
    """Some parts do nothing."""
    with ExitStack() as patched:
        for part in parts:
            patched.enter_context(mock.patch(part.place, part.instead))
        yield


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("workspace", type=Path, nargs="?")
    parser.add_argument("docs", nargs="*")
    parser.add_argument("--split", default=None)
    parser.add_argument("--catalogue", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder, docs, split = options.workspace, options.docs, options.split
        if options.catalogue:
            folder, docs, split = Path(scratch) / "products", ["mails"], "train"
            with catalogue(folder) as workspace:
                workspace.add_kb("mails", mails(), links_to=[KB])
        print("| without |", " | ".join(f"{one}: P / R / F1 | ECE" for one in docs), "|")
        print("|---" * (1 + 2 * len(docs)), end="|\n")
        for name, parts in PARTS.items():
            with without(parts):
                cells = list(figures(folder, docs, split))
            print(f"| {name} | {' | '.join(cells)} |", flush=True)


def figures(folder: Path, docs: Sequence[str], split: str | None) -> Iterator[str]:
    """Precision, recall, F1 of links, and how far their probabilities are off, of each source."""
    with Workspace.open(folder) as workspace:
        for one in docs:
            judge = partial(workspace.evaluate_end_to_end, one, split=split)
            joint = judge(complete=True, per_kb=False).joint
            shown = [*joint.links["strict"].micro, joint.calibration.ece or 0.0]
            *found, ece = (f"{value:.3f}".lstrip("0") for value in shown)
            yield f"{' / '.join(found)} | {ece}"


if __name__ == "__main__":
    main()
