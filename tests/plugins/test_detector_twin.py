"""The dictionary detector against a plain twin, in pieces, and in threads."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import unicodedata
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import alias_names
from alias_names import Names
from kglink.records import Span
from kglink.text.fold import Folded, fold, fold_with_map
from kglink.text.words import PREFIXES, cuts_initials, in_one_line, is_unspaced
from kglink_plugins.detectors.dictionary.compiled import compile_lexicon, guard_of
from kglink_plugins.detectors.dictionary.finder import (
    DictionaryDetector,
    Match,
    dictionary_detector,
)
from kglink_plugins.detectors.dictionary.guard import in_context
from kglink_plugins.plugin import DictionarySettings

ALPHABET = "aAbßé\u0301 東京한국وم+#-.1\n\u200d👩½"
SURFACES = st.lists(st.text(st.sampled_from(ALPHABET), min_size=1, max_size=4), max_size=6)


@st.composite
def texts_with_names(draw: st.DrawFn) -> tuple[str, list[str]]:
    """Names, and a text that is made of them and of single characters."""
    surfaces = draw(SURFACES)
    parts = st.sampled_from([*surfaces, *map(str.upper, surfaces), *ALPHABET])
    return "".join(draw(st.lists(parts, max_size=25))), surfaces


def twin(text: str, surfaces: Sequence[str], settings: DictionarySettings) -> list[Span]:
    """The same answer by looking at every part of the folded text."""
    folded = fold_with_map(text)
    guard = guard_of(settings)
    lexicon = compile_lexicon(Names(surfaces), settings)
    keys = set(lexicon.keys)
    matches = []
    for begin in range(len(folded.text)):
        for end in range(begin + 1, len(folded.text) + 1):
            key = folded.text[begin:end]
            if key not in keys or cut(folded, begin, starting=True) or cut(folded, end):
                continue
            span = folded.span(begin, end)
            if any(cuts_initials(text, edge) for edge in span):  # initials are one word
                continue
            start, stop = widest(text, *span, surfaces)
            surface = text[start:stop]
            shape = int(lexicon.shapes[lexicon.keys.key_id(key)])
            exact = not {surface, in_one_line(surface)}.isdisjoint(surfaces)
            verdict = guard.verdict(key, shape, surface, exact=exact)
            if in_context(verdict, text, start, stop):
                usual = in_context(verdict, text, start, stop)
                matches.append(Match(start, stop, len(key), surfaces_of(key, surfaces), usual))
    matches.sort(key=lambda match: (-match.size, -match.frequency, match.start, match.end))
    kept: list[Match] = []
    for match in matches:
        if all(match.end <= other.start or other.end <= match.start for other in kept):
            kept.append(match)
    return [Span(match.start, match.end, match.score) for match in sorted(kept)]


def surfaces_of(key: str, surfaces: Sequence[str]) -> int:
    return sum(fold(surface) == key for surface in surfaces)


def cut(folded: Folded, place: int, *, starting: bool = False) -> bool:
    """Whether a name may not begin or end there."""
    text, starts = folded.text, folded.starts
    if place in (0, len(text)):
        return False
    left, right = text[place - 1], text[place]
    if starts[place] == starts[place - 1]:
        return True
    glued = unicodedata.category(left)[0] in "LMN" and not borderless(left)
    if glued and right in "+#" and not cut(folded, place - 1):
        return True
    if starting and "가" <= left <= "힣" and "가" <= right <= "힣":
        return True
    behind = [unicodedata.category(one)[0] in "LMN" and not borderless(one)
              for one in text[place : place + 4]]  # fmt: skip
    sizes = range(1, min(place, 2) + 1) if starting and sum(behind) == 4 else ()
    if any(
        set(text[place - n : place]) <= {*PREFIXES} and not cut(folded, place - n) for n in sizes
    ):
        return False
    return glued and unicodedata.category(right)[0] in "LMN" and not borderless(right)


def borderless(character: str) -> bool:
    return is_unspaced(character) or "가" <= character <= "힣"


def widest(text: str, start: int, end: int, surfaces: Sequence[str]) -> tuple[int, int]:
    """The span with up to three signs on each side, where that is an alias as written."""
    options = [
        (first, last)
        for first in range(max(0, start - 3), start + 1)
        for last in range(end, min(len(text), end + 3) + 1)
        if not any(map(str.isalnum, text[first:start] + text[end:last]))
        and not any(map(str.isspace, text[first:start] + text[end:last]))
        and text[first:last] in surfaces
    ]
    return min(options, key=lambda span: (span[0] - span[1], span[0]), default=(start, end))


@given(texts_with_names(), st.sampled_from([1, 2]))
@example(("½ a", ["1", "2 a"]), 1)
@example(("AAA+", ["a+", "AA"]), 1)
@example(("1\u200d 1\n2", ["1", "1 2"]), 1)
@example(("A.A.A.A.", ["A.A."]), 1)
def test_the_twin_finds_the_same(sample: tuple[str, list[str]], min_chars: int) -> None:
    text, surfaces = sample
    settings = DictionarySettings(min_chars=min_chars, numbers=True, stop_words=("ab",))
    detector = dictionary_detector(settings, Names(surfaces))
    assert detector.detect(text) == twin(text, surfaces, settings)


@given(texts_with_names(), st.text(), st.integers(1, 30))
def test_pieces_change_nothing(sample: tuple[str, list[str]], more: str, piece: int) -> None:
    text, surfaces = sample[0] + more + sample[0], sample[1]
    settings = DictionarySettings(min_chars=1, numbers=True)
    lexicon, guard = compile_lexicon(Names(surfaces), settings), guard_of(settings)
    whole = DictionaryDetector(lexicon, guard).detect(text)
    assert DictionaryDetector(lexicon, guard, piece).detect(text) == whole


@pytest.mark.parametrize("piece", [*range(1, 40), 200])
def test_no_cut_between_pieces_loses_or_shortens_a_name(piece: int) -> None:
    settings = DictionarySettings()
    lexicon = compile_lexicon(Names(["york", "new york city", "東京都庁", "ガラス"]), settings)
    text = "In New York  City, 東京都庁 ｶﾞﾗｽ. " * 5
    spans = DictionaryDetector(lexicon, guard_of(settings), piece).detect(text)
    assert [text[span.start : span.end] for span in spans] == [
        "New York  City",
        "東京都庁",
        "ｶﾞﾗｽ",
    ] * 5


def test_a_long_text_is_searched_to_its_end() -> None:
    text = "Ada met nobody at Lantern  Bay. " * 20_000
    spans = dictionary_detector(DictionarySettings(), Names(["Ada", "Lantern Bay"])).detect(text)
    assert len(spans) == 40_000
    assert {text[span.start : span.end] for span in spans} == {"Ada", "Lantern  Bay"}


def test_a_word_longer_than_a_piece() -> None:
    settings = DictionarySettings()
    lexicon = compile_lexicon(Names(["Ada"]), settings)
    text = "Ada" + "x" * 1000 + " Ada " + "\u200b" * 1000 + "Ada"
    spans = DictionaryDetector(lexicon, guard_of(settings), 16).detect(text)
    assert [span.start for span in spans] == [1004, 2008]


@pytest.mark.parametrize(
    ("between", "found"),
    [
        ("x" * 1000, 2),
        ("x" * 1000 + " ", 3),
        (" " + "x" * 1000, 3),
        ("\ufdfa" * 200, 2),
        (" " + "\ufdfa" * 200 + " ", 4),
        ("\n" * 1000, 4),
        (" \u200b" * 500, 4),
        ("." * 1000, 4),
        ("\u0e01" + "\u0e48" * 1000 + " ", 4),
    ],
)
@pytest.mark.parametrize("piece", [1, 16, 61])
def test_what_is_longer_than_all_that_is_folded_at_once(
    between: str, found: int, piece: int
) -> None:
    """Names on both sides of it are found, and none where a word is cut."""
    settings = DictionarySettings()
    lexicon = compile_lexicon(Names(["Ada", "xx", "xxx"]), settings)
    text = f"Ada Ada{between}Ada Ada"
    spans = DictionaryDetector(lexicon, guard_of(settings), piece, 64).detect(text)
    assert [text[span.start : span.end] for span in spans] == ["Ada"] * found
    assert spans == DictionaryDetector(lexicon, guard_of(settings)).detect(text)


IN_LITTLE_MEMORY = """
import resource, sys, time
import alias_names
from alias_names import Names
from kglink_plugins.detectors.dictionary.finder import dictionary_detector
from kglink_plugins.plugin import DictionarySettings
detector = dictionary_detector(DictionarySettings(), Names(["Ada Lovelace", "Ada", "a b", "b a"]))
detector.detect("Ada")
used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
text = eval(sys.argv[1])
started = time.monotonic()
spans = detector.detect(text)
grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - used
print(len(spans), grown // 1024 - len(text) * 4 // 2**20, time.monotonic() - started)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("'Ada ' + 'x' * 8_000_000 + ' Ada'", 2),
        ("'Ada ' + '\\ufdfa' * 400_000 + ' Ada'", 2),
        ("'Ada ' + '\\u0e48\\u0e38' * 300_000 + ' Ada'", 2),
        ("'Ada ' + '\\u200b' * 1_000_000 + ' Ada'", 2),
        ("'a b ' * 100_000", 100_000),
    ],
    ids=["word", "ligatures", "marks", "unseen", "overlaps"],
)
def test_hostile_text_takes_little_time_and_memory(text: str, names: int) -> None:
    folder = str(Path(alias_names.__file__).parent)
    ran = subprocess.run(
        [sys.executable, "-c", IN_LITTLE_MEMORY, text],
        env=os.environ | {"PYTHONPATH": folder},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    found, grown, seconds = ran.stdout.split()
    assert int(found) == names
    assert int(grown) < 700
    assert float(seconds) < 60


def test_threads_get_the_same_answers() -> None:
    detector = dictionary_detector(DictionarySettings(), Names(["Ada", "Bob", "東京"]))
    texts = [f"Ada {number} met Bob in 東京 {'é' * number}" for number in range(40)]
    answers: dict[int, list[Span]] = {}

    def work(first: int) -> None:
        for number in range(first, len(texts), 4):
            answers[number] = detector.detect(texts[number])

    threads = [threading.Thread(target=work, args=(first,)) for first in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [answers[number] for number in range(40)] == [detector.detect(text) for text in texts]
