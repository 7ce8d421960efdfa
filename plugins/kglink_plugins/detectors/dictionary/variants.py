"""Where a text names an entity: whole names however they are written, and parts that are unique."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from functools import lru_cache
from itertools import chain, compress
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kglink.files.tables import places_in
from kglink.text.fold import fold
from kglink.text.full_names import NO_FIRST_NAMES, OF, is_part_of_name
from kglink.text.language import language_of
from kglink.text.name_words import one_form
from kglink.text.places import place_words
from kglink.text.sentences import begins_sentence
from kglink_plugins.detectors.dictionary.bags import (
    JOINED,
    LEAST_MISSPELT,
    LEAST_PART,
    MOST_WORDS,
    PAIR,
    PART,
    SHORT,
    WHOLE,
    Agreed,
    Bags,
    deletions,
)
from kglink_plugins.detectors.dictionary.compiled import ARTICLE
from kglink_plugins.detectors.dictionary.languages import (
    ARTICLES,
    CALENDAR,
    function_words_of,
    other_forms,
)
from kglink_plugins.detectors.dictionary.text_words import (
    WORD,
    Form,
    TextWords,
    pieces_of,
    word_hash,
    words_of_text,
)

Hashes = npt.NDArray[np.uint64]

#: A name in a text may have this number of empty words ("cancer of the breast").
_MOST_EMPTY = 2
_SHORT = 5
#: Two words of fewer letters are no word of a name.
_LEAST_PAIR = 4
#: A commoner word owes its capital to the start of a sentence.
_COMMON = 0.3
#: `Place.name` of a place that is a name itself.
_ITSELF = -1
OF_BEFORE = re.compile(rf"\b[^\W\d_a-z]\w*{OF}\Z")
_OF_AFTER = re.compile(rf"{OF}[^\W\d_a-z]")
_SENTENCE = re.compile(r"[.!?;]\s")
_HYPHENS = frozenset("-\u2212")
#: What makes a letter or two a code, "E-2".
_NUMBERED = re.compile(r"[-\u2212]\d")
#: What joins the words of a name to others, "war in Iraq"; "of" and articles may belong to it.
BRIDGES = frozenset(("and", "as", "at", "by", "for", "from", "in", "is", "on", "or", "to", "with"))
#: A KB with a smaller share of the words of all names is judged by its own: a fan wiki's names do
#: not become doubtful where an encyclopedia is added.
_SMALL = 0.1
#: What follows the name of a place, "Atlanta-based".
_OF_A_PLACE = re.compile(r"-(?:based|backed|born|controlled|held|occupied|owned)\b")


#: Whether a name, by its id, and some words that stand for it are of nothing any more; None: none.
IsGone = Callable[[int, str], bool] | None


class Hit(NamedTuple):
    """Words ``[first, stop)`` that name an entity; ``kind`` says how, as in `Bags`."""

    first: int
    stop: int
    bag: int
    kind: int


class Facts(NamedTuple):
    """What speaks for or against a place of a text being a mention; all between -1 and about 2."""

    written: float
    """How near the case is to that of a name, where the letters are a name's; else 0."""
    variant: float
    """It is a whole name in another inflection, spelling or order."""
    part: float
    """It is a part of the names of one thing alone, whatever KBs have it."""
    joined: float
    """It is a name but for a space or hyphen."""
    short: float
    """It is the first or last word of a whole name that stands before it in the text."""
    several: float
    """It has more than one word that counts."""
    words: float
    """How many such words, up to four, as a share of four."""
    common: float
    """How common its word is in English, where it is one and in lower case."""
    common_capital: float
    """The same, where it has a capital that no beginning of a sentence gave it."""
    common_words: float
    """The same, where it is several."""
    spread: float
    """How many names hold its rarest word, in orders of magnitude as a share of all names'."""
    ends: float
    """The share of the names with its last word that end in it."""
    agreed: float
    """It is a name in several KBs; a third, where no other KB is about the same things."""
    capital: float
    """It has a capital; one half, where the beginning of a sentence may have given it."""
    capitals: float
    """It is a short word in capitals."""
    number: float
    """It has a digit."""
    article: float
    """It begins with an article in lower case, or in a sentence's capital before words in lower
    case, and no name is written so."""
    bridged: float
    """It is no name as it is written, and goes over a word such as "in" or "and"."""
    inside: float
    """It lies in a longer place that is a whole name, and not bridged."""
    before: float
    """A word that is no function word stands before it."""
    after: float
    """A word that is no function word stands after it: it may be its modifier."""
    capital_before: float
    """It has a capital, and a word of a name stands before it, a space or an initial apart."""
    capital_after: float
    """The same after it: "[Robert P]. Anderson"."""
    of_before: float
    """It has a capital, and so has the word that "of" joins it to: "University of [Iowa]"; one
    half, where the beginning of a sentence may have given it: "Shares of [Intel]"."""
    of_after: float
    """The same behind it: "[University] of Iowa"."""
    stranger: float
    """It is the last word of a longer name of the text that no KB has, "Evans" of "Neah Evans", and
    the KBs have many names: what a small KB calls Evans may well be she."""
    glued: float
    """A hyphen joins it to another word, but not as in "Atlanta-based"."""
    letters: float
    """How many letters it has, up to twenty, as a share of twenty."""
    few: float
    """It is a whole name, and the KBs have few: from 0 of a million words to 1."""
    few_part: float
    """The same of a part of a name."""
    capital_part: float
    """It is a part of a name, and has a capital."""
    capital_written: float
    """It has a capital, and is written as a name is."""
    several_part: float
    """It is a part of a name, of several words."""
    number_part: float
    """It is a part of a name, and has a digit: a model, or a thing and its size."""
    proper_part: float
    """It is a part of a name, of several words, one of them with a capital: "David Wood"."""


class Place(NamedTuple):
    """A place of a text that may be a mention, with what speaks for it."""

    start: int
    end: int
    facts: Facts
    name: int
    """Id in the trie of surfaces of the name that it stands for; -1: its own words."""


class VariantFinder:
    """Finds the bags of names in texts."""

    def __init__(
        self, bags: Bags, language: str, kb_words: Sequence[int], words: int, is_gone: IsGone
    ) -> None:
        """``kb_words``: how many the names of each KB have; ``words``: those of all KBs."""
        self._bags, self._is_gone = bags, is_gone
        self._language = language
        self._names = max(2.0, words)
        self._few = _few(words)
        self._few_of_kb = [_few(own if own < _SMALL * words else words) for own in kb_words]
        self._corrected = lru_cache(maxsize=1 << 16)(self._corrected_hash)
        self._stem = lru_cache(maxsize=1 << 16)(self._stem_hash)

    def places(self, text: str, exact: Mapping[tuple[int, int], float]) -> Iterator[Place]:
        """All places of a text; ``exact``: those with a name's letters, and how near its case."""
        found: set[tuple[int, int]] = set()
        for words in words_of_text(text):
            for place in self._of_piece(text, words, exact) if words.forms else ():
                found.add((place.start, place.end))
                yield place
        for (start, end), written in exact.items():
            if (start, end) not in found and (written == 1 or _is_one_name(text[start:end])):
                article = ARTICLE.match(text, start, end)
                is_part = is_part_of_name(text, article.end() if article else start, end)
                facts = self.facts_as_written(text, start, end, written)
                yield Place(start, end, facts._replace(capital_after=float(is_part)), _ITSELF)

    def _of_piece(
        self, text: str, words: TextWords, exact: Mapping[tuple[int, int], float]
    ) -> Iterator[Place]:
        language = self._language
        if language == "auto":
            language = language_of(text[words.starts[0] : words.ends[-1]])
        heeded = function_words_of(language)
        foreign = heeded - function_words_of("en")
        hashes, misspelt = self._hashes(text, words, language)
        cased = self._with_articles(words, hashes) if language == "de" else ()
        gone, ids, starts, ends = self._is_gone, self._bags.bag_names, words.starts, words.ends
        hits = [
            hit
            for hit in (*self._runs(words, hashes), *cased, *self._pairs(words, heeded))
            if _says_something(hit, words.forms[hit.first : hit.stop], heeded)
            and not (
                hit.kind & PART == hit.kind
                and foreign & {words.forms[at].folded for at in (hit.first, hit.stop - 1)}
            )
            and not (gone and gone(int(ids[hit.bag]), text[starts[hit.first] : ends[hit.stop - 1]]))
            and not (
                (hit.stop - hit.first == 1 and not hit.kind & (WHOLE | JOINED))
                and misspelt[hit.first]
            )
        ]
        others = [(hit.first, hit.stop) for hit in hits if _has_another_number(hit, words)]
        other = _longest(others, len(words.forms))
        hits = [hit for hit in hits if hit.kind & PART != hit.kind or other[hit.first] < hit.stop]
        longer = (range(hit.first, hit.stop) for hit in hits if hit.stop - hit.first > 1)
        inside = frozenset(chain.from_iterable(longer))
        hits = _with_short_forms(text, hits, words, hashes, inside)
        bridges = np.concatenate([[0], np.cumsum([one.folded in BRIDGES for one in words.forms])])

        def is_bridged(hit: Hit) -> bool:
            written = (words.starts[hit.first], words.ends[hit.stop - 1]) in exact
            return not written and bool(bridges[hit.first] < bridges[hit.stop])

        wholes = [(hit.first, hit.stop) for hit in hits if hit.kind & WHOLE and not is_bridged(hit)]
        longest = _longest(wholes, len(words.forms))
        is_name = _names_of_text(text, words, heeded, language)
        strangers = _strangers(text, words, inside, is_name)
        no_name = [False] * len(is_name)
        for hit in hits:
            start, end = words.starts[hit.first], words.ends[hit.stop - 1]
            yield Place(
                start,
                end,
                self._facts(
                    text, words, hashes, hit, heeded,
                    written=exact.get((start, end), 0.0),
                    bridged=is_bridged(hit),
                    inside=longest[hit.first] >= hit.stop
                    and (
                        longest[hit.first] > hit.stop
                        or (hit.first > 0 and longest[hit.first - 1] >= hit.stop)
                    ),
                    # Nouns have capitals in German.
                    is_name=no_name if language == "de" and hit.kind & WHOLE else is_name,
                    strangers=strangers,
                ),
                int(self._bags.bag_names[hit.bag]),
            )  # fmt: skip

    def _hashes(
        self, text: str, words: TextWords, language: str
    ) -> tuple[Hashes, npt.NDArray[np.bool_]]:
        """Hashes of the words; of an unknown one that of the word meant; the misspelt ones.

        That is the word without an ending of its language or with another, or else without one
        wrong letter. No letter is wrong where all are capitals: WZWW is not WSWW.
        """
        hashes = np.array([form.hash for form in words.forms], dtype=np.uint64)
        unknown = ~places_in(self._bags.words, hashes)[1] & (hashes != 0)
        misspelt = np.zeros(len(hashes), dtype=np.bool_)
        for at in np.flatnonzero(unknown).tolist():
            form = words.forms[at]
            stem = self._stem(form.folded, language)
            if stem is not None:
                hashes[at] = stem
            elif (
                form.common == 0
                and len(form.word) >= LEAST_MISSPELT
                and form.word.isalpha()
                and not text[words.starts[at] : words.ends[at]].isupper()
            ):
                meant = self._corrected(form.word)
                if meant is not None:
                    hashes[at], misspelt[at] = meant, True
        return hashes, misspelt

    def _stem_hash(self, word: str, language: str) -> int | None:
        """The hash of the word of names that a word is with an ending, or with another one."""
        forms = map(one_form, other_forms(word, language, LEAST_PART))
        kept = [form for form in forms if len(form) >= LEAST_MISSPELT]
        if not kept:
            return None
        hashes = _hashes_of(kept)
        found = hashes[places_in(self._bags.words, hashes)[1]]
        places, is_bag = places_in(self._bags.bags, found)
        # Rather a word that is a whole name than one of a longer name.
        whole = found[is_bag & (self._bags.bag_kinds[places] & WHOLE != 0)] if is_bag.any() else ()
        return next(map(int, chain(whole, found)), None)

    def _corrected_hash(self, word: str) -> int | None:
        """The hash of the only word of names that differs by one letter."""
        places, known = places_in(self._bags.deleted, np.array(deletions(word), np.uint64))
        meant = set(self._bags.deleted_from[places[known]].tolist())
        if len(meant) != 1 or (row := meant.pop()) >= len(self._bags.words):
            return None
        return int(self._bags.words[row])

    def _runs(self, words: TextWords, hashes: Hashes) -> Iterator[Hit]:
        """Runs of words whose hashes sum up to a bag."""
        filled = hashes != 0
        known = ~filled | places_in(self._bags.words, hashes)[1]
        for at in np.flatnonzero(~known).tolist():
            parts = words.forms[at].word.split(" ")  # of "7l" two
            known[at] = len(parts) > 1 and places_in(self._bags.words, _hashes_of(parts))[1].all()
        sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(hashes, dtype=np.uint64)])
        # A run goes over no break, and, where it has several words, over no word that no name has.
        breaks = np.concatenate([[0], np.cumsum(~words.joined[:-1])])
        strange = np.concatenate([[0], np.cumsum(~known)])
        for size in range(1, min(MOST_WORDS + _MOST_EMPTY, len(hashes)) + 1):
            first = np.arange(len(hashes) - size + 1)
            last = first + size - 1
            may = filled[first] & filled[last] & (breaks[first] == breaks[last])
            if size > 1:
                may &= strange[first] == strange[last + 1]
            first = first[may]
            places, is_bag = places_in(self._bags.bags, sums[first + size] - sums[first])
            for at, place in zip(first[is_bag].tolist(), places[is_bag].tolist(), strict=True):
                kind = int(self._bags.bag_kinds[place])
                if kind & WHOLE and _is_spaced_otherwise(kind, words.forms[at : at + size]):
                    kind = kind & ~WHOLE | JOINED
                yield Hit(at, at + size, place, kind)

    def _with_articles(self, words: TextWords, hashes: Hashes) -> Iterator[Hit]:
        """Runs that are names but for the case of an article in them, "Friedrich dem Großen"."""
        is_article = np.array([form.folded in ARTICLES for form in words.forms])
        nominative = np.where(is_article, np.uint64(word_hash("der")), hashes)
        for hit in self._runs(words, nominative) if is_article.any() else ():
            if hit.kind & WHOLE and is_article[hit.first + 1 : hit.stop - 1].any():
                yield hit

    def _pairs(self, words: TextWords, heeded: frozenset[str]) -> Iterator[Hit]:
        """Two words that are one word of a name; numbers beside letters are runs as well."""
        forms = words.forms
        pairs = [
            at
            for at in np.flatnonzero(words.joined).tolist()
            if forms[at].hash
            and forms[at + 1].hash
            and len(forms[at].word) + len(forms[at + 1].word) >= _LEAST_PAIR
            and not heeded & {forms[at].folded, forms[at + 1].folded}
            and not _has_digit(forms[at].word + forms[at + 1].word)
        ]
        values = _hashes_of([forms[at].word + forms[at + 1].word for at in pairs])
        places, is_bag = places_in(self._bags.bags, values)
        for at, place in zip(compress(pairs, is_bag), places[is_bag].tolist(), strict=True):
            kind = int(self._bags.bag_kinds[place])
            if kind & (WHOLE | PART):
                yield Hit(at, at + 2, place, JOINED if kind & WHOLE else PART)

    def facts_as_written(self, text: str, start: int, end: int, written: float = 1.0) -> Facts:
        """The facts of a name that stands in a text as it is written, of whatever signs."""
        surface = text[start:end]
        capital = _capital(text, surface, start)
        return Facts(*[0.0] * len(Facts._fields))._replace(
            written=written,
            words=0.25,
            article=float(
                written < 1
                and (surface[0].islower() or (capital < 1 and surface[1:].islower()))
                and ARTICLE.match(surface) is not None
            ),
            ends=1.0,
            agreed=Agreed.NOBODY_ASKED / Agreed.YES,
            capital=capital,
            capitals=_in_capitals(surface),
            letters=min(len(surface), 20) / 20,
            few=self._few,
            capital_written=capital * written,
        )

    def _facts(
        self,
        text: str,
        words: TextWords,
        hashes: Hashes,
        hit: Hit,
        heeded: frozenset[str],
        *,
        written: float,
        bridged: bool,
        inside: bool,
        is_name: Sequence[bool],
        strangers: Set[str],
    ) -> Facts:
        bags = self._bags
        start, end = words.starts[hit.first], words.ends[hit.stop - 1]
        surface = text[start:end]
        counted = [at for at in range(hit.first, hit.stop) if words.forms[at].hash]
        rows, same = places_in(bags.words, hashes[counted])
        names = np.where(same, bags.word_names[rows], 0)
        ends = np.where(same, bags.word_ends[rows], 0)
        common = min(words.forms[at].common for at in counted)
        several = len(counted) > 1
        whole = bool(hit.kind & WHOLE)
        is_part = bool(hit.kind & PART) and not whole
        capital = _capital(text, surface, start)
        few = self._few_of_kb[bags.bag_kbs[hit.bag]]
        close, named = [0.0, 0.0], [0.0, 0.0]
        # The words before it and after it, and the one of two words that the gap to it follows.
        for side, (other, gap) in enumerate(
            ((hit.first - 1, hit.first - 1), (hit.stop, hit.stop - 1))
        ):
            if 0 <= other < len(words.forms):
                joined = words.joined[gap] and words.forms[other].folded not in heeded
                goes_on = _goes_on(text, words.ends[gap], words.starts[gap + 1])
                close[side] = float(joined)
                named[side] = float(capital > 0 and is_name[other] and goes_on)
        is_stranger = (
            capital > 0
            and not (several or named[0] or hit.kind & SHORT)
            and words.forms[hit.first].folded in strangers
        )
        return Facts(
            written=written,
            variant=float(whole and not written),
            part=float(is_part),
            joined=float(hit.kind & JOINED != 0 and not whole and not written),
            short=float(hit.kind & SHORT != 0),
            several=float(several),
            words=min(len(counted), 4) / 4,
            common=0.0 if several else common * (1 - capital),
            common_capital=0.0 if several else common * capital,
            common_words=common if several else 0.0,
            spread=float(np.log(max(1, names.min())) / np.log(self._names)),
            ends=float(ends[-1] / max(1, names[-1])),
            agreed=float(bags.bag_agreed[hit.bag]) / Agreed.YES,
            capital=capital,
            capitals=_in_capitals(surface),
            number=float(_has_digit(surface)),
            article=0.0,
            bridged=float(bridged),
            inside=float(inside),
            before=close[0],
            after=close[1],
            capital_before=named[0],
            capital_after=named[1],
            of_before=_of_before(text, start) if capital > 0 else 0.0,
            of_after=float(capital > 0 and bool(_OF_AFTER.match(text, end))),
            stranger=max(0.0, 1 - 2 * few) if is_stranger else 0.0,
            glued=float(
                not _HYPHENS.isdisjoint((text[start - 1 : start], text[end : end + 1]))
                and not (capital > 0 and _OF_A_PLACE.match(text, end))
            ),
            letters=min(len(surface), 20) / 20,
            few=0.0 if is_part else few,
            few_part=few if is_part else 0.0,
            capital_part=capital if is_part else 0.0,
            capital_written=capital * written,
            several_part=float(is_part and several),
            number_part=float(is_part and _has_digit(surface)),
            proper_part=capital * max(0.0, 1 - 2 * few) if is_part and several else 0.0,
        )


def _says_something(hit: Hit, forms: Sequence[Form], heeded: frozenset[str]) -> bool:
    """Whether it has a word that is no function word, and a part of a name one of some length.

    The letters and the number of a model are one word, "RH 36"; a number and its unit are not.
    """
    words = "".join(form.word for form in forms if form.hash)
    is_model = words[-1:].isdigit() and not _has_digit(words[:1]) and len(words) >= LEAST_PART
    least = 1 if hit.kind & (WHOLE | JOINED) or is_model else LEAST_PART
    return any(
        form.hash and form.folded not in heeded and len(form.word) >= least for form in forms
    )


def _is_spaced_otherwise(kind: int, forms: Sequence[Form]) -> bool:
    """Whether a whole name is this but for a space: "RH 36" for "RH36", "H2" for "H 2"."""
    pieces = [piece for form in forms for piece in pieces_of(form.word)]
    is_mixed = len(pieces) == PAIR and pieces[0].isdigit() != pieces[1].isdigit()
    return is_mixed and bool(kind & JOINED) == (len(forms) == 1)


def _with_short_forms(
    text: str, hits: Sequence[Hit], words: TextWords, hashes: Hashes, inside: Set[int]
) -> list[Hit]:
    """The hits, and words with a capital that are short for a name of several words before them.

    "The Heron" after "Isolde Heron": the name's first or last word, taken for the whole name. Not
    "Cancer" after a heading with "Breast Cancer", where a sentence gives the word its capital and
    the text has it in lower case as well.
    """
    named: dict[int, Hit] = {}
    for hit in hits:
        if hit.kind & WHOLE and hit.stop - hit.first > 1:
            for at in (hit.first, hit.stop - 1):
                named.setdefault(int(hashes[at]), hit)
    if not named:
        return list(hits)
    lower = {value for value, is_capital in zip(hashes.tolist(), words.capital, strict=True)
             if not is_capital}  # fmt: skip
    short: dict[int, Hit] = {}
    for at, value in enumerate(hashes.tolist()):
        full = named.get(value)
        if (
            full
            and at >= full.stop
            and at not in inside
            and words.capital[at]
            and not (value in lower and begins_sentence(text, words.starts[at]))
        ):
            short[at] = Hit(at, at + 1, full.bag, SHORT)
    kept = [hit for hit in hits if not (hit.first in short and hit.kind & PART == hit.kind)]
    return [*kept, *short.values()]


def _names_of_text(
    text: str, words: TextWords, heeded: frozenset[str], language: str
) -> list[bool]:
    """Which words have a capital that says that they are names or parts of names.

    Which words are common is known of English alone.
    """
    is_foreign = language not in {"", "en"}
    return [
        capital
        and form.folded not in heeded
        and form.folded not in CALENDAR
        and not ((is_foreign or form.common > _COMMON) and begins_sentence(text, start))
        and not (end - start <= 2 and _NUMBERED.match(text, end))
        for start, end, capital, form in zip(
            words.starts, words.ends, words.capital, words.forms, strict=True
        )
    ]


def _strangers(text: str, words: TextWords, inside: Set[int], is_name: Sequence[bool]) -> set[str]:
    """The last words of what may be persons whose names no KB has: not of those ``inside`` one."""
    found = set()
    for at in range(1, len(is_name)):
        if is_name[at] and is_name[at - 1] and at not in inside:
            first, last = (text[words.starts[one] : words.ends[one]] for one in (at - 1, at))
            is_person = len(first) > 1 and not (first in NO_FIRST_NAMES or last in place_words())
            is_person = is_person and not last.isupper()  # "Home Depot CEO"
            if is_person and text[words.ends[at - 1] : words.starts[at]] == " ":
                found.add(words.forms[at].folded)
    return found


def _goes_on(text: str, end: int, start: int) -> bool:
    """Whether a space alone is between a word and the next one, or the dot of an initial."""
    between = text[end:start]
    return between == " " or (
        between in (". ", ".") and text[end - 1].isupper() and not text[end - 2 : end - 1].isalnum()
    )


def _has_another_number(hit: Hit, words: TextWords) -> bool:
    """Whether a number stands right behind a part of a name that has none itself.

    "AquaJet" in "AquaJet 5000" is not short for "AquaJet 3000"; with its own number it is whole.
    """
    behind = hit.stop
    if hit.kind & PART != hit.kind or behind >= len(words.forms) or not words.joined[behind - 1]:
        return False
    own = (words.forms[at].word for at in range(hit.first, behind))
    return _has_digit(words.forms[behind].word) and not any(map(_has_digit, own))


def _has_digit(word: str) -> bool:
    return any(map(str.isdigit, word))


def _is_one_name(surface: str) -> bool:
    """Whether no sentence ends in it, and it is not made of function words: "the US" is not."""
    heeded = function_words_of(language_of(surface))
    words = WORD.findall(surface)
    return not _SENTENCE.search(surface) and not all(
        fold(word) in heeded and not _in_capitals(word) for word in words
    )


def _few(words: int) -> float:
    """How few words the names of a KB have: 1 of none to 0 of a million."""
    return max(0.0, 1 - math.log10(max(2, words)) / 6)


def _of_before(text: str, start: int) -> float:
    """How surely "of" joins what begins here to a name; see `Facts.of_before`."""
    before = OF_BEFORE.search(text, max(0, start - 40), start)
    return _capital(text, before[0], before.start()) if before else 0.0


def _in_capitals(surface: str) -> float:
    return float(surface.isupper() and 1 < len(surface) <= _SHORT)


def _capital(text: str, surface: str, start: int) -> float:
    """Whether a surface has a capital; one half where the beginning of a sentence may give it."""
    if surface[1:] != surface[1:].lower():
        return 1.0
    if not surface[:1].isupper():
        return 0.0
    return 0.5 if begins_sentence(text, start) else 1.0


def _hashes_of(words: Sequence[str]) -> Hashes:
    return np.fromiter(map(word_hash, words), np.uint64, len(words))


def _longest(spans: Sequence[tuple[int, int]], size: int) -> list[int]:
    """For each word the furthest end of the spans that begin at it or before it."""
    furthest = [0] * (size + 1)
    for first, stop in spans:
        furthest[first] = max(furthest[first], stop)
    for at in range(1, size + 1):
        furthest[at] = max(furthest[at], furthest[at - 1])
    return furthest
