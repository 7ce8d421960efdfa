"""The dictionary detector: names as they are written, their variants and parts, each weighed.

How probable a place is a mention is said by a logistic model over facts of its words and of the
names that it was found by (`Facts`). Its weights are a table that people can read, `weights.json`.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, lru_cache
from importlib.resources import files

from kglink.plugins import Names, NamesInParts
from kglink.records import Span
from kglink.text.fold import fold
from kglink.text.full_names import nicknamed
from kglink.text.places import short_places
from kglink.text.sentences import begins_sentence
from kglink.text.words import cuts_initials, cuts_word, is_glued, is_hangul
from kglink_plugins.detectors.dictionary.cache import open_lexicon
from kglink_plugins.detectors.dictionary.compiled import ARTICLE, Lexicon, guard_of, is_text
from kglink_plugins.detectors.dictionary.finder import DictionaryDetector, Has
from kglink_plugins.detectors.dictionary.guard import EXACT, Guard
from kglink_plugins.detectors.dictionary.languages import MONTHS
from kglink_plugins.detectors.dictionary.variants import (
    BRIDGES,
    OF_BEFORE,
    Facts,
    Place,
    VariantFinder,
)
from kglink_plugins.plugin import DictionarySettings

#: What belongs to a name although no KB writes it: "O'" before a name, and the dot of a short form
#: ("Wyo.") where no sentence ends in it.
_PREFIX = re.compile(r"(?<!\w)[DO]['\u2019]\Z")
_SHORT_FORM = re.compile(r"[^\W\d_]{1,5}")
#: A word that only joins a name to others: "[in] America", "London [on]".
_JOIN = f"(?:{'|'.join(sorted(BRIDGES - {'as'}))})"
_JOINS_BEFORE = re.compile(rf"{_JOIN}\s+(?=[A-Z])")
_JOINS_BEHIND = re.compile(rf"\s{_JOIN}\Z")
#: Months, and the numbers before or behind one that make a date of it: "5 May", "Dec. 5".
_MONTH = re.compile(
    rf"(?:{'|'.join(sorted(MONTHS))})"
    r"|(?P<short>jan|feb|mar|apr|jun|jul|aug|sept?|oct|nov|dec)",
    re.IGNORECASE,
)
_DAY_BEFORE = re.compile(r"\b\d{1,2}(?:st|nd|rd|th)?(?: of)? \Z")
_BEHIND = r" \d{1,2}\b|,? \d{4}\b"
_DATE_BEHIND, _DATE_BEHIND_SHORT = re.compile(_BEHIND), re.compile(rf"\.?(?:{_BEHIND})")
_DOT = re.compile(r"\.(?=[,;:]|[ \t]+[a-z])")
#: What a company's name ends in, where the KB may leave it out: "Home Depot [Inc.]".
_LEGAL = "Inc|Corp|Ltd|LLC|PLC|plc|GmbH"
_LEGAL_BEHIND = re.compile(rf",?[ ](?:{_LEGAL}|Co|Corporation)(?![\w-])(?:{_DOT.pattern})?")
_IS_LEGAL = re.compile(rf"(?:{_LEGAL})\.?")
#: The short word for what a person is, before the name: "[Sen]. Smith".
_RANK = re.compile(
    r"(Adm|Capt|Col|Dr|Gen|Gov|Lt|Maj|Mrs?|Ms|Prof|Rep|Rev|Sen|Sgt)\.[^\S\n][^\W\d_a-zß-öø-ÿ]"
)
#: As many characters before the legal form of a company are looked at.
_FURTHEST = 40
#: A place that is less probably a mention is not proposed.
LEAST_SCORE = 0.12


def name_detector(settings: DictionarySettings, names: Names) -> NameDetector | PartsDetector:
    """Open the compiled names, compiling them where that was not done yet."""
    parts = names.parts if isinstance(names, NamesInParts) else [names]
    guard, weights = guard_of(settings), default_weights()
    lexicons = [open_lexicon(part, settings) for part in parts]
    # Of all parts of a KB together: the names of a small part are no fewer.
    words: Counter[str] = Counter()
    for one in lexicons:
        words.update(one.kbs)
    has: Has = None
    if isinstance(names, NamesInParts) and len(lexicons) > 1:
        has = lru_cache(maxsize=1 << 16)(names.has)
    language = settings.language
    detectors = [NameDetector(one, guard, weights, language, words, has) for one in lexicons]
    return PartsDetector(detectors) if has else detectors[0]


class PartsDetector:
    """Finds names that were compiled in parts: all places that any of them proposes."""

    def __init__(self, parts: Sequence[NameDetector]) -> None:
        self._parts = parts

    def detect(self, text: str) -> list[Span]:
        """The places that may be mentions, in reading order; some overlap."""
        best: dict[tuple[int, int], Span] = {}
        for part in self._parts:
            for span in part.detect(text):
                place = span.start, span.end
                if place not in best or span.score > best[place].score:
                    best[place] = span
        return [best[place] for place in sorted(best)]


@cache
def default_weights() -> Mapping[str, float]:
    """The weight of each fact, fitted by `benchmarks/detection_fit.py`."""
    table = files("kglink_plugins.detectors.dictionary").joinpath("weights.json")
    weights: Mapping[str, float] = json.loads(table.read_text(encoding="utf-8"))
    return weights


class NameDetector:
    """Finds names in texts, and says how probable each place is a mention."""

    def __init__(
        self,
        lexicon: Lexicon,
        guard: Guard,
        weights: Mapping[str, float],
        language: str,
        words: Mapping[str, int],
        has: Has = None,
    ) -> None:
        """``words``: how many the names of each KB have."""
        self._exact = DictionaryDetector(lexicon, guard, has=has)
        own, known = [words[kb] for kb in lexicon.kbs], sum(words.values())
        is_gone = self._is_gone if has else None
        self._variants = VariantFinder(lexicon.variants, language, own, known, is_gone)
        self._names, self._folded, self._has = lexicon.surfaces, lexicon.keys, has
        self._articled = lexicon.articled
        self.weigh(weights)

    def weigh(self, weights: Mapping[str, float]) -> None:
        """Take other weights."""
        self._weights = [weights.get(fact, 0.0) for fact in Facts._fields]
        self._bias = weights["bias"]

    def _bears(self, folded: str) -> bool:
        """Whether a name was compiled, and something has it still."""
        return folded in self._folded and (self._has is None or self._has(folded))

    def _is_gone(self, name: int, surface: str) -> bool:
        """Whether nothing has a compiled name any more, nor the words that stand for it."""
        known = name < 0 or self._bears(fold(self._names.restore_key(name)))
        return not (known or self._bears(fold(surface)))

    def _is_name(self, surface: str) -> bool:
        is_written = is_text(surface) and surface in self._names
        return is_written and (self._has is None or self._has(fold(surface)))

    def places(self, text: str) -> Iterator[Place]:
        """All places that bear a name or a part of one, with what speaks for each."""
        written: dict[tuple[int, int], float] = {}
        for span in self._exact.detect(text):
            whole = span.start, span.end
            bare = self._without_joining(text, *whole)
            written[bare] = span.score if bare == whole else EXACT
        found = list(self._variants.places(text, written))
        spans = {(place.start, place.end) for place in found}
        for place in found:
            if self._exact.refuses(text[place.start : place.end]):
                continue
            bare = self._without_article(text, place.start, place.end), place.end
            if self._is_cut(text, *bare):
                continue
            if bare[0] > place.start and (bare in spans or self._is_name(text[slice(*bare)])):
                own = Place(*bare, place.facts._replace(article=0.0), place.name)
            else:
                own = place
            yield own
            yield from self._with_legal_form(text, own)
        short = ((one.start, one.end, one.place) for one in short_places(text))
        long = ((one.start, one.end, name) for one in nicknamed(text) for name in one.names)
        for start, end, name in (*short, *long):
            if self._is_name(name):
                facts = self._variants.facts_as_written(text, start, end)
                yield Place(start, end, facts, self._names.key_id(name))

    def detect(self, text: str) -> list[Span]:
        """The places that may be mentions, in reading order; some overlap."""
        best: dict[tuple[int, int], tuple[float, Place]] = {}
        for place in self.places(text):
            span = _with_signs(text, place.start, place.end)
            odds = sum(map(float.__mul__, self._weights, place.facts), self._bias)
            score = 1 / (1 + math.exp(-odds))
            if score >= LEAST_SCORE and (span not in best or score > best[span][0]):
                best[span] = score, place
        return [Span(*span, best[span][0], self._name_meant(text, best[span][1]))
                for span in sorted(best)]  # fmt: skip

    def _with_legal_form(self, text: str, place: Place) -> Iterator[Place]:
        """A place of a company once more, with its legal form: "[Home Depot Inc.]"."""
        legal = _LEGAL_BEHIND.match(text, place.end)
        if not (legal and place.facts.capital):
            return
        of = OF_BEFORE.search(text, max(0, place.start - _FURTHEST), place.start)
        if of and not begins_sentence(text, of.start()):  # "Pacific Sunwear of [Ohio Inc.]"
            return
        name, bare = place.name, text[place.start : place.end]
        if name < 0 and self._is_name(bare):
            name = self._names.key_id(bare)
        facts = place.facts._replace(after=0.0, capital_after=0.0)
        yield Place(place.start, legal.end(), facts, name)

    def _is_cut(self, text: str, start: int, end: int) -> bool:
        """Whether a place cuts a word, a date, a person's or a company's name, or joins others."""
        if (
            (cuts_word(text, start) and not is_glued(text, start))
            or (cuts_word(text, end) and not is_hangul(text[end]))
            or any(cuts_initials(text, edge) for edge in (start, end))
        ):
            return True
        if _IS_LEGAL.fullmatch(text, start, end) and _ends_in_name(
            text[max(0, start - _FURTHEST) : start]
        ):
            return True
        rank = _RANK.match(text, start)
        return (
            (rank is not None and end <= rank.end(1) + 1)
            or _is_of_date(text, start, end)
            or self._without_joining(text, start, end) != (start, end)
        )

    def _without_joining(self, text: str, start: int, end: int) -> tuple[int, int]:
        """A place without the word that joins it to others, where that leaves a name."""
        surface = text[start:end]
        if surface.islower() or self._is_name(surface):
            return start, end
        if joining := _JOINS_BEFORE.match(surface):
            bare = start + joining.end(), end
        elif joining := _JOINS_BEHIND.search(surface):
            bare = start, start + joining.start()
        else:
            return start, end
        return bare if self._is_name(text[slice(*bare)]) else (start, end)

    def _without_article(self, text: str, start: int, end: int) -> int:
        """Where a place begins without its article: "the [United States]".

        An article is part of the name where it has a capital of its own, "watched [The View]", or
        where what has the name does not go without it.
        """
        article = ARTICLE.match(text, start, end)
        if article is None or fold(text[start:end]) in self._articled:
            return start
        own_capital = article[0][0].isupper() and not begins_sentence(text, start)
        return start if own_capital else article.end()

    def _name_meant(self, text: str, place: Place) -> str:
        """The name that a place is taken for, unless it is a name itself, in whatever case."""
        if place.name < 0 or self._bears(fold(text[place.start : place.end])):
            return ""
        known: str = self._names.restore_key(place.name)
        return known


def _ends_in_name(before: str) -> bool:
    """Whether a text ends in a word with a capital, and a space: "Home Depot, "."""
    word = before[:-1].rpartition(" ")[2]
    return before.endswith(" ") and (word[:1].isupper() or word[:1].isdigit())


def _is_of_date(text: str, start: int, end: int) -> bool:
    """Whether a place is the month of a date."""
    surface = text[start:end]
    month = None if surface.isupper() else _MONTH.fullmatch(surface)
    if month is None:
        return False
    behind = _DATE_BEHIND_SHORT if month["short"] else _DATE_BEHIND
    return bool(behind.match(text, end) or _DAY_BEFORE.search(text, max(0, start - 8), start))


def _with_signs(text: str, start: int, end: int) -> tuple[int, int]:
    """A place with the signs that belong to it."""
    surface = text[start:end]
    if surface[:1].isupper():
        start -= 2 * bool(_PREFIX.search(text, max(0, start - 3), start))
        # "Wyo. is", but not "in AML. p53".
        may_have_dot = _SHORT_FORM.fullmatch(surface) and (
            len(surface) == 1 or not surface.isupper()
        )
        end += bool(may_have_dot and _DOT.match(text, end))
    return start, end
