"""Where sentences begin and end."""

from __future__ import annotations

import re

_ENDS = ".!?:…。！？"
_BEFORE = re.compile(r"[\s\"'“”‘’«»„(\[{*•–—-]*\Z")
#: So many characters before a place are looked at.
_WINDOW = 60
#: A sentence ends at a full stop and its like, with what closes behind it, where the next word
#: begins with no small letter; in scripts without spaces it ends at their own stop.
_END = re.compile(r"(?<![.!?…؟।])[.!?…؟।]++[\"'”’»)\]]*+(?=\s|$)|[。！？]++[」』”）]*+|\n")
_ABBREVIATION = re.compile(
    r"(?:^|[\s(\"“„'’‘«-])(?:[^\W\d_]|[^\W\d_](?:\.[^\W\d_])++|(?:ca|c|cf|ch|co|corp|dr|ed|eds|est"
    r"|etc|fig|fl|fr|gen|gov|inc|jr|lit|lt|ltd|mr|mrs|ms|mt|nr|op|orig|pl|pp|prof|pron|rev|sec|sen"
    r"|sgt|sing|sr|ss|st|sta|ste|vol|vs|bzw|geb|gest|ggf|hl|resp|sog|usw|vgl|zt|ul|др|род|ок|св"
    r"|англ|лат|нем|фр|см|гг|вв))\.$",
    re.IGNORECASE,
)
_LOOK_BACK = 16
#: No abbreviation has this number of letters.
_LONGEST = 6


def begins_sentence(text: str, start: int) -> bool:
    """Whether a sentence, a paragraph or the text begins at ``start``."""
    window = text[max(0, start - _WINDOW) : start]
    before = _BEFORE.search(window)
    gap = before[0] if before else ""
    if len(gap) == len(window):
        return True
    return window[len(window) - len(gap) - 1] in _ENDS or (
        gap.replace("\r\n", "\n").replace("\r", "\n").count("\n") > 1
    )


def first_sentences(text: str, count: int) -> str:
    """The first ``count`` sentences of ``text``; a line break ends a sentence too."""
    if count <= 0:
        return ""
    for found in _END.finditer(text):
        if not _is_end(text, found):
            continue
        count -= 1
        if not count:
            return text[: found.end()].rstrip()
    return text


def _is_end(text: str, found: re.Match[str]) -> bool:
    sign = found[0]
    if sign == "\n":
        return found.start() > 0 and text[found.start() - 1] not in ".!?…؟।。！？\"'”’»)]」』"
    if sign[0] != ".":
        return True
    follows = text[found.end() : found.end() + 2].strip()
    if follows[:1].islower():
        return False
    before = text[max(0, found.start() - _LOOK_BACK) : found.start() + 1]
    if sign != "." or (len(before) > _LONGEST and before[-_LONGEST - 1 : -1].isalpha()):
        return True
    return not _ABBREVIATION.search(before)
