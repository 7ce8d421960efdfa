"""Pairs of entities that share a name, found from the smaller KB's side.

The names of the smaller KB are looked up in the larger one's index of folded names, a page at a
time, those with signs in them (AT&T) also as tokenised texts write them (AT & T). Names that are
equal under the settings have one of these folded forms in common, so the strict comparison is a
filter on what the index gives. Only titles without their disambiguator are not in the index:
those of the smaller KB are looked up as well, those of the larger one are scanned for the few
that the smaller KB has.
"""

from __future__ import annotations

import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, groupby, islice
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from kglink.files.digest import text_hash
from kglink.records import Entity, OnProgress, Progress
from kglink.text.fold import fold
from kglink.text.printable import MOST_SHOWN, printable

if TYPE_CHECKING:
    from kglink.store import Store  # which loads SQLAlchemy; evidence needs none

#: Entities of the smaller KB whose names are looked up together.
PAGE = 2000
#: Names that are shown of those that were passed over.
MOST_EXAMPLES = 3

_SIGN = re.compile(r"(?:(?<!\s)\s++)?([^\w\s])\s*+")
_DISAMBIGUATOR = re.compile(r"(.*\S)\s*\([^()]*\)\s*")

Match = Literal["strict", "caseless", "folded"]


@dataclass(frozen=True, slots=True)
class NameRules:
    """Which names count and when two are the same."""

    match: Match = "strict"
    kinds: tuple[str, ...] = ()
    strip_disambiguator: bool = True
    strip_both: bool = True
    """Both titles of a pair may lose their brackets: `River Song (singer)` and `(doctor)`."""
    max_pairs: int = 10_000

    def form(self, surface: str) -> str:
        """What two names must have in common to be the same."""
        plain = paper_name(surface)
        if self.match == "folded":
            return fold(plain)
        return plain.casefold() if self.match == "caseless" else plain

    def takes(self, kind: str) -> bool:
        """Whether names of this kind are compared."""
        return not self.kinds or kind in self.kinds


class NamedPair(NamedTuple):
    """Two entities and the names, as the rules compare them, that both bear."""

    left: str
    right: str
    names: tuple[str, ...]


class _Form(NamedTuple):
    """A name of an entity: what it is looked up by, and what must be equal."""

    folded: str
    form: str


def paper_name(surface: str) -> str:
    """A title as the paper compares it: NFC, spaces for underscores, tokenisation undone.

    ZESHEL puts spaces around every sign (``A . J . Green``, ``AT & T``), so none beside one counts.
    """
    text = unicodedata.normalize("NFC", surface).replace("_", " ")
    return " ".join(_SIGN.sub(r"\1", text).split())


def _looked_up(surface: str, folded: str) -> Iterator[str]:
    """The folded forms of a name: as it is, and with its signs close by and apart."""
    yield folded
    # Folding drops most signs; those that it keeps it does not move.
    if _SIGN.search(folded):
        yield from {fold(_SIGN.sub(put, surface)) for put in (r"\1", r" \1 ")} - {folded, ""}


def without_disambiguator(title: str) -> str:
    """``Clara Oswald`` of ``Clara Oswald (Immortals)``; empty for a title that has none."""
    found = _DISAMBIGUATOR.fullmatch(title.replace("_", " "))
    return found[1] if found else ""


def folded_names(entity: Entity, most: int | None = None) -> list[str]:
    """The distinct folded names of an entity, the most frequent first.

    The title comes before the aliases, with and without what it has in brackets.
    """
    aliases = sorted(entity.aliases, key=lambda alias: -alias.count)
    surfaces = [entity.title, without_disambiguator(entity.title)]
    surfaces += [alias.surface for alias in aliases]
    names = dict.fromkeys(fold(surface) for surface in surfaces)
    names.pop("", None)
    return list(names)[:most]


class NameJoin:
    """The join of two KBs' names; ``passed_over`` is known once it was read to its end."""

    def __init__(
        self,
        store: Store,
        left: str,
        right: str,
        rules: NameRules,
        progress: OnProgress = lambda _: None,
    ) -> None:
        self._store = store
        self._rules = rules
        self._progress = progress
        self._turned = store.kb(right).aliases < store.kb(left).aliases
        self._small, self._large = (right, left) if self._turned else (left, right)
        self.passed_over: dict[str, int] = {}
        """Names that too many entities bear on both sides, each with the pairs that it makes."""

    def note(self) -> str:
        """What a report says of the names that were passed over; empty where there is none."""
        if not self.passed_over:
            return ""
        count, pairs = len(self.passed_over), sum(self.passed_over.values())
        examples = islice(self.passed_over, MOST_EXAMPLES)
        shown = ", ".join(f"'{printable(name, MOST_SHOWN)}'" for name in examples)
        more = ", ..." if count > MOST_EXAMPLES else ""
        return (
            f"{count:,} name{'s' * (count > 1)} that too many entities bear: passed over "
            f"({shown}{more}; {pairs:,} pairs): overlap.max_name_pairs"
        )

    def __iter__(self) -> Iterator[NamedPair]:
        """Each pair once; all pairs of an entity of the smaller KB together, in order of keys."""
        self.passed_over = {}
        # Hashes of the smaller KB's names, sorted, and how many entities bear each.
        names = ({text_hash(form.folded) for form in forms} for _, forms in self._entities())
        hashes = np.fromiter(chain.from_iterable(names), dtype=np.uint64)
        known, counts = np.unique(hashes, return_counts=True)
        stripped = self._stripped_titles(known)
        refused: dict[str, bool] = {}
        entities = self._entities()
        done, total = 0, self._store.kb(self._small).entities
        while page := list(islice(entities, PAGE)):
            wanted = dict.fromkeys(form.folded for _, forms in page for form in forms)
            found = self._store.count_bearers(self._large, wanted)
            for name in wanted:
                others = found.get(name, 0) + len(stripped.get(name, ()))
                if others and name not in refused:
                    pairs = others * int(counts[np.searchsorted(known, text_hash(name))])
                    refused[name] = pairs > self._rules.max_pairs
                    if refused[name]:
                        self.passed_over[name] = pairs
            yield from self._joined(page, [n for n in wanted if refused.get(n) is False], stripped)
            done += len(page)
            self._progress(Progress("comparing names", done, total))

    def _joined(
        self,
        page: Sequence[tuple[str, dict[_Form, bool]]],
        names: Sequence[str],
        stripped: dict[str, list[tuple[str, str]]],
    ) -> Iterator[NamedPair]:
        bearers: dict[_Form, list[tuple[str, bool]]] = defaultdict(list)
        for bearer in self._store.bearers_of(self._large, names):
            if self._rules.takes(bearer.kind):
                form = self._rules.form(bearer.surface)
                bearers[_Form(bearer.folded, form)].append((bearer.key, False))
        for name in names:
            for key, form in stripped.get(name, ()):
                bearers[_Form(name, form)].append((key, True))
        for mine, forms in page:
            shared: dict[str, set[str]] = defaultdict(set)
            for name_form, shortened in forms.items():
                for other, also in bearers.get(name_form, ()):
                    if self._rules.strip_both or not (shortened and also):
                        shared[other].add(name_form.form)
            for other in sorted(shared):
                pair = (other, mine) if self._turned else (mine, other)
                yield NamedPair(*pair, tuple(sorted(shared[other])))

    def _entities(self) -> Iterator[tuple[str, dict[_Form, bool]]]:
        """The entities of the smaller KB with their names, and which are titles cut short."""
        for key, names in groupby(self._store.aliases_of(self._small), key=lambda row: row.key):
            forms: dict[_Form, bool] = {}
            for name in names:
                if name.folded and self._rules.takes(name.kind):
                    form = self._rules.form(name.surface)
                    for folded in _looked_up(name.surface, name.folded):
                        forms[_Form(folded, form)] = False
                if name.kind == "title":
                    for short in self._stripped(name.surface):
                        forms.setdefault(short, True)
            yield key, forms

    def _stripped(self, title: str) -> Iterator[_Form]:
        if not self._rules.strip_disambiguator or not self._rules.takes("title"):
            return
        short = without_disambiguator(title)
        if folded := fold(short):
            for one in _looked_up(short, folded):
                yield _Form(one, self._rules.form(short))

    def _stripped_titles(self, known: npt.NDArray[np.uint64]) -> dict[str, list[tuple[str, str]]]:
        """Shortened titles of the larger KB that the smaller one has: key and form of each."""
        found: dict[str, list[tuple[str, str]]] = defaultdict(list)
        if not self._rules.strip_disambiguator or not len(known):
            return found
        for key, title in self._store.bracketed_titles(self._large):
            for form in self._stripped(title):
                wanted = np.uint64(text_hash(form.folded))
                at = int(np.searchsorted(known, wanted))
                if at < len(known) and known[at] == wanted:
                    found[form.folded].append((key, form.form))
        return found
