"""Capitalized names, whether a KB has them or not: "Alwyn Teague", "Carrick Roads Company"."""

from __future__ import annotations

import re
from collections.abc import Iterator

from kglink.plugins import Names
from kglink.records import Span
from kglink.text.language import function_words, language_of
from kglink_plugins.detectors.dictionary.languages import CALENDAR, FUNCTION_WORDS

_CAPITAL = f"[{''.join(filter(str.isupper, map(chr, range(0x20000))))}]"
#: What stands between the words of a name: blanks, and the end of a line that is long enough to
#: have been wrapped.
_GAP = r"(?:[ \t]|(?<=[^\n]{50})\n)*"
#: A word, or what is written with a full stop in a name: a title, an initial.
_WORD = (
    rf"(?:(?:Dr|Mr|Mrs|Ms|Prof|St|Sgt|Capt|{_CAPITAL})\.(?={_GAP}{_CAPITAL})|{_CAPITAL}[\w'’-]*\w)"
)
_JOINED = r"(?:of|the|(?<!\d[ \t])(?:and|&)|de|du|la|van|von|der)"
#: Capitalized words and the small words between them; no "and" joins what a number ends: "SS-511
#: and SS-590".
_RUN = re.compile(rf"(?<!\w){_WORD}(?:{_GAP}(?<=[\s.])(?:{_JOINED}[ \t]+){{0,2}}{_WORD})*")
_SPACE = re.compile(r"\s")
_FIRST_WORD = re.compile(r"([\w'’-]+)[.]?\s*")
_BEGINS_SENTENCE = re.compile(r"(?:^|[.!?:;\n][\"'”’)\]]*)\s*[\"'“‘(\[]*\Z")
#: In capitals for other reasons: days, months, greetings, adverbs that begin a sentence.
_NO_NAMES = (CALENDAR - {"may"}) | frozenset(
    """
    dear yours thanks hello yes
    again ago already also always another around yesterday today tomorrow tonight earlier
    eventually even ever finally first formerly further hence indeed initially instead last
    lately later likewise maybe meanwhile moreover nearby never nevertheless next now nowadays
    often once originally perhaps presently previously recently second since sometimes soon
    still suddenly then therefore third thus together twice usually
    """.split()  # noqa: SIM905 the words are read and edited as a text
)
#: How probably a run of several words is a name, and a single one.
_SEVERAL, _ONE = 0.99, 0.97


class CapitalsDetector:
    """Finds runs of capitalized words in the middle of sentences, and of several at their start."""

    def __init__(self, names: Names) -> None:
        pass

    def detect(self, text: str) -> list[Span]:
        """The names of a text in reading order."""
        runs = list(_runs(text))
        inside = {word for start, end, begins in runs for word in text[start:end].split()[begins:]}
        return [
            Span(start, end, _SEVERAL if _SPACE.search(text, start, end) else _ONE)
            for start, end, begins in runs
            # A word that begins a sentence is a name if it is one elsewhere in the text.
            if not begins or _SPACE.search(text, start, end) or text[start:end] in inside
        ]


def _runs(text: str) -> Iterator[tuple[int, int, bool]]:
    """Each run without the function words that it begins with, and whether it begins a sentence."""
    language = language_of(text)
    heeded = FUNCTION_WORDS | _NO_NAMES
    if language != "en":
        heeded |= function_words(language)
    for run in _RUN.finditer(text):
        start, end = run.span()
        begins = _BEGINS_SENTENCE.search(text, max(0, start - 20), start) is not None
        while word := _FIRST_WORD.match(text, start, end):
            plain = word[1].replace("’", "'").partition("'")[0].lower()
            if plain not in heeded:
                break
            start = word.end()
            begins = False if start < end else begins
        if text[start:end].endswith(("'s", "’s")):
            end -= 2
        letters = [one for one in text[start:end] if one.isalpha()]
        if len(letters) > 1:
            yield start, end, begins
