"""A person reviews links one by one; what is said of each is a correction, kept at once."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Literal, NamedTuple, get_args
from unicodedata import normalize

from pydantic import BaseModel, ValidationError

from kglink.errors import UsageError
from kglink.evaluation.predictions import unknown_entities, unknown_kb
from kglink.files.digest import text_digest
from kglink.linking.corrected import corrected_texts
from kglink.records import Entity, EntityId, Span, TextInput
from kglink.sources import Problems
from kglink.text.fold import fold
from kglink.workspace.discover import drop_emptied
from kglink.workspace.entities import add_entity, remove_entity
from kglink.workspace.folder import PROMOTED, check_known
from kglink.workspace.memory import (
    Correction,
    correct,
    correct_and_tell,
    learn_corrections,
    take_back,
)
from kglink.workspace.opened import Opened

#: ``text``: as they stand in the file; ``unsure``: the least sure first.
ReviewOrder = Literal["text", "unsure"]
#: What can be said of a link: it is right, it means another entity, it ends elsewhere, no KB has
#: what it means, it is no mention, or it means an entity that the review made.
Said = Literal["accepted", "other entity", "other border", "NIL", "no mention", "new entity"]
_AGAIN = "Make the file again: kglink link TEXTS --format jsonl -o LINKS"


@dataclass(frozen=True, slots=True)
class LinkToReview:
    """A link of a file: its place in its text, its answer, and other candidates."""

    document: str
    text: str
    start: int
    end: int
    entity: EntityId | None
    """None: no entity (NIL)."""
    confidence: float
    candidates: tuple[EntityId, ...]

    @property
    def surface(self) -> str:
        """The words of the place."""
        return self.text[self.start : self.end]


@dataclass(frozen=True, slots=True)
class ReviewedLinks:
    """The state of a review: the answers since it was opened, and what is left."""

    links: int
    before: int
    """Links whose places were corrected before this review was opened."""
    said: Mapping[str, int]
    """How often each `Said`."""
    skipped: int
    open: int
    corrections: tuple[Correction, ...]
    """What was said since the review was opened."""

    def as_json(self) -> dict[str, object]:
        """A plain dictionary, as `kglink review --json` prints it."""
        return {
            "links": self.links,
            "before": self.before,
            **{name.replace(" ", "_"): self.said.get(name, 0) for name in get_args(Said)},
            "skipped": self.skipped,
            "open": self.open,
            "corrections": [one.as_json() for one in self.corrections],
        }


class _Answered(NamedTuple):
    """An answer as it is taken back: the link, and what was changed for it."""

    at: int
    said: Said | None
    """None: the link was skipped."""
    correction: Correction | None = None
    replaced: tuple[Correction, ...] = ()
    made: EntityId | None = None
    """The entity that was added."""


class LinkReview:
    """A review that is under way.

    A link is open until its place, or a part of it, is corrected. So a later review goes on with
    the open links, also those that were skipped.
    """

    def __init__(self, opened: Opened, links: Sequence[LinkToReview]) -> None:
        self.links = tuple(links)
        self._opened = opened
        self._keys = [text_digest(one.text) for one in links]
        self._places = {
            key: [(one.start, one.end) for one in mentions]
            for key, mentions in corrected_texts(opened.store).items()
        }
        self._answers: list[_Answered] = []
        self._skipped: set[int] = set()
        self._at = 0
        self._moved: LinkToReview | None = None
        self.before = sum(not self._is_open(at) for at in range(len(links)))

    @property
    def current(self) -> LinkToReview | None:
        """The next link, at the place it was moved to; None: none is left."""
        while self._at < len(self.links):
            if self._at not in self._skipped and self._is_open(self._at):
                return self._moved or self.links[self._at]
            self._at, self._moved = self._at + 1, None
        return None

    @property
    def number(self) -> int:
        """The number of the current link in the review, from 1."""
        return self._at + 1

    def accept(self) -> Correction:
        """Say that the current link is right, at its present place."""
        return self._say(self._link().entity)

    def choose(self, entity: EntityId | None) -> Correction:
        """Say what the current link means: an entity, or None for nothing that a KB has."""
        return self._say(entity)

    def no_mention(self) -> Correction:
        """Say that the place of the current link is no mention."""
        return self._say(None, is_mention=False)

    def new_entity(self, title: str, kb: str = PROMOTED) -> Correction:
        """Add an entity to a KB, and say that the current link means it."""
        key = fold(title).replace(" ", "_")
        if not key:
            raise UsageError(f"{title!r} is no title: it has no letter", hint="Type a name.")
        known, number = EntityId(kb, key), 1
        while self._opened.store.get_entities([known]):
            number += 1
            known = EntityId(kb, f"{key}-{number}")
        add_entity(self._opened, kb, Entity(known.key, title))
        return self._say(known, made=known)

    def move(self, words: str) -> LinkToReview:
        """Move the current link to words that overlap it; nothing is saved yet.

        Its candidates are those for the new place, then the former ones.
        """
        link = self._link()
        # Where the words stand so that they overlap the link: the nearest place. A keyboard gives
        # an accented letter as one sign, many a text as two.
        forms = dict.fromkeys((words, *(normalize(form, words) for form in ("NFC", "NFD"))))
        near: list[tuple[int, int]] = []
        for flags, form in product((re.NOFLAG, re.IGNORECASE), forms):
            parts = form.split()
            pattern = r"\s+".join(map(re.escape, parts))
            spans = (one.span() for one in re.finditer(pattern, link.text, flags) if parts)
            near = near or [one for one in spans if one[0] < link.end and link.start < one[1]]
        if not near:
            raise UsageError(
                f"{words!r} does not stand in the text where {link.surface!r} does",
                hint="Type the words of the mention as the text has them, some of them in the "
                "link.",
            )
        start, end = min(near, key=lambda place: abs(place[0] - link.start))
        (linked,) = self._opened.linker().link(
            [TextInput(link.document, link.text, (Span(start, end),))]
        )
        found = [one.id for answer in linked.links for one in answer.candidates]
        candidates = tuple(dict.fromkeys([*found, *link.candidates]))
        self._moved = replace(link, start=start, end=end, candidates=candidates)
        return self._moved

    def skip(self) -> None:
        """Say nothing of the current link; the next review shows it again."""
        self._link()
        self._answers.append(_Answered(self._at, None))
        self._skipped.add(self._at)
        self._moved = None

    def undo(self) -> LinkToReview | None:
        """Take the last answer of this review back; its link is the current one again."""
        self._moved = None
        if not self._answers:
            return None
        last = self._answers.pop()
        if last.correction is not None:
            for one in last.replaced:  # each takes the place of what was said
                correct(
                    self._opened, one.text, one.start, one.end, one.entity,
                    is_mention=one.is_mention, learnt=False,
                )  # fmt: skip
            if not last.replaced:
                take_back(self._opened, last.correction.id, learnt=False)
            places = self._places[self._keys[last.at]]
            places.remove((last.correction.start, last.correction.end))
            places += [(one.start, one.end) for one in last.replaced]
        if last.made is not None:
            remove_entity(self._opened, last.made)
            drop_emptied(self._opened, last.made.kb)
        self._skipped.discard(last.at)
        self._at = last.at
        return self.links[last.at]

    def result(self) -> ReviewedLinks:
        """The answers so far, and what is left."""
        return ReviewedLinks(
            len(self.links),
            self.before,
            Counter(one.said for one in self._answers if one.said is not None),
            len(self._skipped),
            sum(self._is_open(at) for at in range(len(self.links))),
            tuple(one.correction for one in self._answers if one.correction is not None),
        )

    def _link(self) -> LinkToReview:
        link = self.current
        if link is None:
            raise UsageError("the review is at its end")
        return link

    def _is_open(self, at: int) -> bool:
        link = self.links[at]
        return not any(
            link.start < end and start < link.end
            for start, end in self._places.get(self._keys[at], ())
        )

    def _say(
        self, entity: EntityId | None, *, is_mention: bool = True, made: EntityId | None = None
    ) -> Correction:
        link, before = self._link(), self.links[self._at]
        places = self._places.setdefault(self._keys[self._at], [])
        met = [one for one in places if link.start < one[1] and one[0] < link.end]
        said, replaced = correct_and_tell(
            self._opened, link.text, link.start, link.end, entity,
            is_mention=is_mention, learnt=False,
        )  # fmt: skip
        places[:] = [one for one in places if one not in met]
        places.append((link.start, link.end))
        kind: Said = "accepted"
        if not is_mention:
            kind = "no mention"
        elif made is not None:
            kind = "new entity"
        elif (link.start, link.end) != (before.start, before.end):
            kind = "other border"
        elif entity != before.entity:
            kind = "other entity" if entity else "NIL"
        self._answers.append(_Answered(self._at, kind, said, replaced, made))
        self._moved = None
        return said


@contextmanager
def review_links(
    opened: Opened, path: str | Path, *, order: ReviewOrder = "text"
) -> Iterator[LinkReview]:
    """Review the links of a file that `kglink link` wrote as JSON or JSON lines.

    Every answer is saved at once as a correction (``correct``); they are learnt when the review
    ends, or, if it was killed, when the next one begins.

    >>> import json, pathlib, tempfile
    >>> links = pathlib.Path(tempfile.mkdtemp()) / "links.jsonl"
    >>> (text,) = workspace.link("A heron fishes.", ["birds"])
    >>> _ = links.write_text(json.dumps(text.as_json()))
    >>> with workspace.review_links(links) as review:
    ...     said = review.accept()
    >>> said.surface, str(said.entity), review.result().open
    ('heron', 'birds:h', 0)
    >>> _ = workspace.take_back(said.id)
    """
    check_known("order", order, get_args(ReviewOrder))
    links = list(_read(opened, path))
    if not links:
        raise UsageError(
            f"{path} has no link: nothing was found in its texts",
            hint="`kglink link --threshold 0.1` finds more, with more wrong ones.",
        )
    entities = {one.entity for one in links if one.entity}
    # Some may be gone since; a file of which nothing is known is of another workspace.
    if entities and not opened.store.existing(entities):
        kbs = [info.name for info in opened.store.kbs() if info.entities]
        first = min(entities)
        if first.kb not in kbs:
            raise unknown_kb(str(path), first, kbs)
        raise unknown_entities(str(path), entities)
    if order == "unsure":
        links.sort(key=lambda one: one.confidence)
    learn_corrections(opened)
    try:
        yield LinkReview(opened, links)
    finally:
        learn_corrections(opened)


# --------------------------------------------------------------------------------- the file
class _Candidate(BaseModel):
    kb: str
    key: str


class _Link(BaseModel):
    start: int
    end: int
    text: str
    kb: str | None
    key: str | None
    confidence: float | None
    candidates: list[_Candidate]


class _Record(BaseModel):
    id: str
    text: str
    entities: list[_Link]


def _read(opened: Opened, path: str | Path) -> Iterator[LinkToReview]:
    is_list, last = False, ""
    with opened.open_source(path) as source:
        if source.is_folder:
            raise UsageError(f"{path} is a folder, and no file of links", hint=_AGAIN)
        for line in source.lines(Problems("stop")):
            text = line.text.strip()
            is_list = is_list or (not last and text == "[")
            last = text or last
            if is_list:
                text = text.strip(",")
            if text and not (is_list and text in "[]"):
                yield from _links(source.where(line.number), text)
        if is_list and last != "]":
            raise UsageError(f"{source.label} is cut off: its list has no end", hint=_AGAIN)


def _links(where: str, line: str) -> Iterator[LinkToReview]:
    """The links of a text, by its line of the file."""
    try:
        record = _Record.model_validate(json.loads(line))
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(map(str, first["loc"])) or "the record"
        raise UsageError(
            f"{where}: these are no links of `kglink link`: {field}: {first['msg']}", hint=_AGAIN
        ) from error
    except (ValueError, RecursionError) as error:
        why = "the line is cut off" if line.startswith("{") else "this is no JSON"
        raise UsageError(f"{where}: {why}", hint=_AGAIN) from error
    for one in record.entities:
        if not 0 <= one.start < one.end <= len(record.text) or (
            record.text[one.start : one.end] != one.text
        ):
            stands = record.text[max(0, one.start) : max(0, one.end)]
            raise UsageError(
                f"{where}: {one.text!r} does not stand at {one.start} to {one.end} of the text "
                f"{record.id!r}: there is {stands!r}",
                hint="The text was changed after it was linked, or is another one. " + _AGAIN,
            )
        candidates = tuple(EntityId(other.kb, other.key) for other in one.candidates)
        entity = EntityId(one.kb, one.key) if one.kb and one.key else None
        yield LinkToReview(
            record.id, record.text, one.start, one.end, entity, one.confidence or 0.0, candidates
        )
