"""What an article's description is: its lead, else the prose that stands in templates or below.

Many wikis write the text of a page into the parameters of a template, under names of their own.
So prose is known by its length and its words, whatever the parameter is called.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from kglink_kbs.mediawiki.kinds import is_list
from kglink_kbs.mediawiki.markup import brace_regions

#: A description needs no more of a text than this, whatever stands before it.
LONGEST_LEAD = 50_000
_SHORT_TEXT, _LONG_TEXT = 20_000, 100_000
#: Letters of a value of a template that may be the description, and of one that surely is.
_SHORT, _LONG = 30, 100
#: Lines of prose have this many words, or letters in scripts without spaces.
_WORDS, _LETTERS = 5, 16
#: Without a stop at its end a line has more words.
_WORDS_WITHOUT_STOP = 10
#: Words that begin with a small letter, or with one that has no case: lists of names have few.
_LEAST_SMALL = 0.4
#: The same for what is no sentence, and how many words it has at least.
_LEAST_SMALL_OF_FEW, _FEW_WORDS = 0.15, 3
_LIST_MARK = re.compile(r"(?m)^[ \t]*+[*#]++[:;]*+[ \t]*+")
#: Stands before an item of a list while a text is made plain: XML cannot hold it.
_ITEM = "\x07"
_STOP = re.compile(r"[.!?…。！？؟।][\"'”’»)\]」』）]*+$")
_WORD = re.compile(r"[^\W\d_][\w'’-]*+")
#: Links and calls in a value, whose bars divide nothing; calls are taken out before.
_LINK = re.compile(r"\[\[[^\[\]\n]*+\]\]")
_NAME = re.compile(r"[^=\[\]{}<>\n]{0,80}=")
#: A title with such a letter is described by a value of a template that has mostly such letters.
_LATIN = re.compile(r"[A-Za-z\u00c0-\u024f]")


def description_of(title: str, text: str, lead: str, clean: Callable[[str], str]) -> str:
    """The prose that describes the subject of a page, a paragraph a line; empty if there is none.

    ``lead`` is the text before the first heading; ``clean`` makes wikitext plain. Of lists only
    items that are sentences count.
    """
    lead = lead[:LONGEST_LEAD]
    if is_list(title):
        return clean(lead) or clean(text[:_SHORT_TEXT])
    return next(filter(None, _descriptions(title, text, lead, clean)), "")


def _descriptions(title: str, text: str, lead: str, clean: Callable[[str], str]) -> Iterator[str]:
    """What may describe a page, the best first; some are empty."""
    words = clean(_marked(lead))
    yield _from_first_sentence(title, words)
    yield _said_in_templates(title, lead, clean)
    below = clean(_marked(text[:_SHORT_TEXT])) if len(lead) < len(text) else words
    yield prose_of(below)
    if len(text) > _SHORT_TEXT:
        yield prose_of(clean(_marked(text[:_LONG_TEXT])))
    yield _said_in_templates(title, text[len(lead) : _LONG_TEXT], clean)
    yield from filter(_tells, (one.replace(_ITEM, "") for one in (words, below)))


def prose_of(words: str) -> str:
    """The lines of a text that are prose, items of lists too."""
    lines = (line.removeprefix(_ITEM) for line in words.split("\n"))
    return "\n".join(line for line in lines if is_prose(line))


def _from_first_sentence(title: str, words: str) -> str:
    """A lead without what stands before its first sentence; empty if it has none."""
    lines = words.split("\n")
    name = title.partition(" (")[0].lower()
    for number, line in enumerate(lines):
        named = name in line.lower() and len(line) > len(name) and _STOP.search(line)
        if line[:1] != _ITEM and (named or is_prose(line)):
            if number and ":" not in lines[number - 1] and _tells(lines[number - 1]):
                number -= 1  # noqa: PLW2901 - a sentence that is broken over two lines
            rest = (one.removeprefix(_ITEM) for one in lines[number:] if _is_text(one))
            return "\n".join(rest)
    return prose_of(words)


def _is_text(line: str) -> bool:
    """Whether a line is no item of a list, or one that is a sentence."""
    return line[:1] != _ITEM or is_prose(line)


def _tells(words: str) -> bool:
    """Whether a text that has no long sentence has a short one, or some words that are no names."""
    if _STOP.search(words):
        return True
    found = _WORD.findall(words)
    small = sum(not word[0].isupper() for word in found)
    return len(found) >= _FEW_WORDS and small >= _LEAST_SMALL_OF_FEW * len(found)


def is_prose(line: str) -> bool:
    """Whether a line reads like a sentence: by its words, their capitals and its end."""
    if len(line) < _LETTERS:
        return False
    words = _WORD.findall(line)
    letters = sum(map(len, words))
    spaceless = letters >= _LETTERS and letters > 8 * len(words)
    stops = bool(_STOP.search(line))
    if len(words) < (_WORDS if stops else _WORDS_WITHOUT_STOP) and not (spaceless and stops):
        return False
    small = sum(not word[0].isupper() for word in words)
    return small >= _LEAST_SMALL * len(words)


def _marked(text: str) -> str:
    """``text`` with a mark before each item of a list, which the cleaner leaves there."""
    return _LIST_MARK.sub(_ITEM, text) if "*" in text or "#" in text else text


def _said_in_templates(title: str, text: str, clean: Callable[[str], str]) -> str:
    """The first value of a template that is long prose in the title's script, else the longest."""
    best = ""
    for value in template_values(text) if "{{" in text else ():
        if len(value) < max(_SHORT, len(best)) or (
            value.isascii() and value.count(" ") < _WORDS - 1
        ):
            continue
        lines = clean(_marked(value)).split("\n")
        found = "\n".join(one for one in lines if one[:1] != _ITEM and is_prose(one))
        if found and _LATIN.search(title) and len(_LATIN.findall(found)) * 2 < len(found):
            continue
        if len(found) >= _LONG:
            return found
        best = max(best, found, key=len)
    return best


def template_values(text: str) -> Iterator[str]:
    """The long values of the outermost templates of a text, named and unnamed, in their order."""
    for start, end in brace_regions(text):
        if end - start < _SHORT or text[start : start + 2] != "{{":
            continue
        inner = text[start + 2 : end - 2]
        at = 0
        for number, value in enumerate(_hidden(inner).split("|")):
            if number and len(value) >= _SHORT:
                name = _NAME.match(inner, at, at + len(value))
                yield inner[name.end() if name else at : at + len(value)].strip()
            at += len(value) + 1


def _hidden(inner: str) -> str:
    """The inside of a template, with calls and links in it made blank; of the same length."""
    pieces: list[str] = []
    at = 0
    for start, end in brace_regions(inner):
        if start >= at:
            pieces += (inner[at:start], " " * (end - start))
            at = end
    hidden = "".join((*pieces, inner[at:]))
    return _LINK.sub(lambda link: " " * len(link[0]), hidden)
