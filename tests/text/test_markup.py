"""Spans marked in a text by double brackets."""

from __future__ import annotations

import contextlib
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kglink.errors import RecordError
from kglink.records import Span
from kglink.text.markup import parse_marked

SLASHES_OR_BRACKET = re.compile(r"\\+|[\[\]]")


def mark(text: str, spans: list[Span]) -> str:
    """The text with its spans marked: what `parse_marked` reads back as the same."""
    if not spans and "[[" not in text:
        return text
    pieces: list[str] = []
    place = 0
    for span in spans:
        inside = escaped(text[span.start : span.end], ahead="]", inside=True)
        pieces += [escaped(text[place : span.start], ahead="["), "[[", inside, "]]"]
        place = span.end
    pieces.append(escaped(text[place:], ahead=""))
    return "".join(pieces)


def escaped(piece: str, ahead: str, *, inside: bool = False) -> str:
    """Escape what `parse_marked` would take for a mark; ``ahead`` is the bracket that follows."""
    whole = piece + ahead

    def escape(found: re.Match[str]) -> str:
        following = whole[found.end() : found.end() + 1]
        if found[0].startswith("\\"):
            return found[0] * 2 if following in {"[", "]"} else found[0]
        mistaken = found[0] == following and (following == "[" or inside)
        return f"\\{found[0]}" if mistaken else found[0]

    return SLASHES_OR_BRACKET.sub(escape, piece)


@pytest.mark.parametrize(
    ("marked", "text", "surfaces"),
    [
        ("Ada met [[Bob]].", "Ada met Bob.", ["Bob"]),
        ("[[Ada]][[Bob]]", "AdaBob", ["Ada", "Bob"]),
        ("no marks, x[y[0]]", "no marks, x[y[0]]", []),
        (r"TeX: \[ x \] \\[", r"TeX: \[ x \] \\[", []),
        (r"a \[[link]] and [[b]]", "a [[link]] and b", ["b"]),
        (r"a path C:\ and \\[[b]]", "a path C:\\ and \\b", ["b"]),
        (r"[[a\]]]", "a]", ["a]"]),
        (r"[[a [1] b]]", "a [1] b", ["a [1] b"]),
        (r"\[[[x]]", "[x", ["x"]),
        ("stray ]] after [[x]]", "stray ]] after x", ["x"]),
        ("👨\u200d👩 [[e\u0301]]\r\n[[ß]]", "👨\u200d👩 e\u0301\r\nß", ["e\u0301", "ß"]),
        ("", "", []),
    ],
)
def test_parse_marked(marked: str, text: str, surfaces: list[str]) -> None:
    clean, spans = parse_marked(marked)
    assert clean == text
    assert [clean[span.start : span.end] for span in spans] == surfaces
    assert parse_marked(mark(clean, spans)) == (clean, spans)


@pytest.mark.parametrize(
    ("marked", "message"),
    [
        ("Ada met [[Bob.", "character 9 (line 1): the mark [[ is never closed by ]]"),
        ("one\nAda met [[Bob\n]]", "character 13 (line 2): the mark [[ is not closed on its line"),
        ("[[Bob\rand]]", "character 1 (line 1): the mark [[ is not closed on its line"),
        ("[[Ada [[Bob]]]]", "character 7 (line 1): [[ inside a mark that is still open"),
        ("a [[]]", "character 3 (line 1): the mark holds no text"),
        ("a [[ \t]]", "character 3 (line 1): the mark holds no text"),
    ],
)
def test_bad_marks_are_refused_with_their_place(marked: str, message: str) -> None:
    with pytest.raises(RecordError) as caught:
        parse_marked(marked)
    assert caught.value.message == message
    assert "[[like this]]" in caught.value.hint


@st.composite
def marked_texts(draw: st.DrawFn) -> tuple[str, list[Span]]:
    """A text with many brackets and backslashes, and spans that may be marked in it."""
    text = draw(st.text(st.sampled_from("[[]]\\\\ab \n"), max_size=30))
    cuts = sorted(draw(st.lists(st.integers(0, len(text)), max_size=8)))
    spans = [Span(start, end) for start, end in zip(cuts[::2], cuts[1::2], strict=False)]
    return text, [
        span
        for span in spans
        if text[span.start : span.end].strip() and "\n" not in text[span.start : span.end]
    ]


@given(marked_texts())
def test_mark_and_parse_are_inverse(sample: tuple[str, list[Span]]) -> None:
    text, spans = sample
    assert parse_marked(mark(text, spans)) == (text, spans)


@given(st.text(st.sampled_from("[]\\a\n")))
def test_any_text_is_parsed_or_refused(text: str) -> None:
    with contextlib.suppress(RecordError):
        clean, spans = parse_marked(text)
        assert parse_marked(mark(clean, spans)) == (clean, spans)
