"""Mentions of what no KB has, put together: each cluster is a thing that may become an entity.

The name of a mention is what its text says that it is short for, else its own words. Names are
compared by their vectors; mentions whose names chain from one to the next are of one thing. The
threshold was chosen by ARI on dev mentions without an entity (`benchmarks/discovery.py`).
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, count, takewhile
from typing import NamedTuple

import numpy as np

from kglink.arrays import FloatArray
from kglink.clusters.clustering import NO_ENTITY, ClusteringChoice, MentionGraph, cluster
from kglink.clusters.neighbours import nearest_others
from kglink.files.digest import text_digest
from kglink.records import EntityId, LinkedDocument, json_number
from kglink.text.abbreviations import long_form_of
from kglink.text.fold import fold
from kglink.text.plain import read_plainly

#: Names at least so alike mean one thing.
LEAST_ALIKE = 0.8
#: How many nearest names each is compared with.
_NEAREST = 8
#: What is shown of a discovery.
MOST_EXAMPLES = 5
MOST_NEAREST = 5
#: The number of nearest entities that decide a mention's type.
_TYPED = 3
_LONGEST_SENTENCE = 300
_SENTENCE_END = re.compile(
    r"(?<!\bDr)(?<!\bMr)(?<!\bMs)(?<!\bSt)(?<!\bMrs)(?<!\bProf)[.!?][\"'”’)]*\s+(?=[\"'“‘(]*[^\W\d_a-zà-ÿ])|[\r\n]+"
)
_CAPITALIZED = re.compile(r"[^\W\d_a-zà-ÿ][\w'’.-]*(?:\s+[^\W\d_a-zà-ÿ][\w'’.-]*)*")


class Near(NamedTuple):
    """What is kept of a candidate: mentions of many texts wait together."""

    id: EntityId
    title: str
    type: str
    score: float


@dataclass(frozen=True, slots=True)
class UnknownMention:
    """A mention of something that probably no KB has."""

    document: str
    start: int
    end: int
    surface: str
    name: str
    """What it is short for in its text, else the surface."""
    sentence: str
    confidence: float
    """Probability that no KB has it."""
    nearest: tuple[Near, ...]


@dataclass(frozen=True, slots=True)
class Example:
    """A sentence that speaks of a discovery, and where it stands."""

    document: str
    start: int
    end: int
    surface: str
    sentence: str

    def as_json(self) -> dict[str, object]:
        """One of the ``examples`` of a discovery."""
        return {
            "document": self.document,
            "start": self.start,
            "end": self.end,
            "text": self.surface,
            "sentence": self.sentence,
        }


@dataclass(frozen=True, slots=True)
class Discovery:
    """Something that texts speak of and no KB has, with all that is proposed for it."""

    id: str
    """It stays the same while one of its names does."""
    title: str
    names: tuple[str, ...]
    """All surfaces and what they are short for, the commonest first."""
    type: str
    """That of most of the entities that come nearest; empty: they have no type in common."""
    confidence: float
    """How probably a mention of it means nothing in any KB, on average."""
    mentions: int
    documents: int
    examples: tuple[Example, ...]
    nearest: tuple[tuple[EntityId, str], ...]
    """The known entities that come nearest, with their titles."""

    def as_json(self) -> dict[str, object]:
        """A plain dictionary, as `kglink discover --json` prints it."""
        return {
            "id": self.id,
            "title": self.title,
            "names": list(self.names),
            "type": self.type,
            "confidence": json_number(self.confidence),
            "mentions": self.mentions,
            "documents": self.documents,
            "examples": [one.as_json() for one in self.examples],
            "nearest": [{**one._asdict(), "title": title} for one, title in self.nearest],
        }


def joined(now: Discovery, before: Discovery) -> Discovery:
    """A discovery as it was judged before, with what other texts say of it now."""
    examples = {one.sentence: one for one in (*before.examples, *now.examples)}
    return replace(
        now,
        title=before.title,
        names=tuple(dict.fromkeys((*before.names, *now.names))),
        type=before.type or now.type,
        examples=tuple(examples.values())[:MOST_EXAMPLES],
    )


def unknown_mentions(document: LinkedDocument, least: float) -> list[UnknownMention]:
    """The mentions of a text that mean nothing in any KB with this probability at least."""
    unknown = [
        UnknownMention(
            document.id,
            link.start,
            link.end,
            link.surface,
            long_form_of(link.surface, document.text) or read_plainly(link.surface).text,
            sentence_of(document.text, link.start, link.end),
            link.confidence,
            tuple(Near(one.id, one.title, one.type, one.score) for one in link.candidates),
        )
        for link in document.links
        if link.chosen is None and link.confidence >= least
    ]
    whole = whole_names({one.name for one in unknown})
    return [replace(one, name=whole.get(one.name, one.name)) for one in unknown]


def whole_names(names: Collection[str]) -> dict[str, str]:
    """Of proper names like "Teague" the one longer name of the text that has its words last."""
    longer: dict[str, list[str]] = defaultdict(list)
    for name in names:
        for space in re.finditer(" ", name):
            if (last := name[space.end() :]) in names:
                longer[last].append(name)
    return {
        name: several[0]
        for name, several in longer.items()
        if len(several) == 1 and _CAPITALIZED.fullmatch(name)
    }


def discoveries(
    mentions: Sequence[UnknownMention],
    encode: Callable[[list[str]], FloatArray],
    known: Mapping[str, str],
    *,
    least_alike: float = LEAST_ALIKE,
) -> list[Discovery]:
    """What the mentions speak of, the most often mentioned first.

    ``encode`` gives vectors of names; ``known`` is the id that a folded name had before.
    """
    if not mentions:
        return []
    mentions = told_elsewhere(mentions)
    names = sorted({fold(one.name) or one.name for one in mentions})
    vectors = np.asarray(encode(names), dtype=np.float32)
    vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-9)
    near = nearest_others(vectors, min(_NEAREST, len(names) - 1))
    alone = np.full(len(names), NO_ENTITY), np.zeros(len(names), np.float32)
    choice = ClusteringChoice("directed", _NEAREST, least_alike)
    labels = dict(zip(names, cluster(MentionGraph(*alone, near), choice).labels, strict=True))
    groups: dict[int, list[UnknownMention]] = defaultdict(list)
    for one in mentions:
        groups[int(labels[fold(one.name) or one.name])].append(one)
    taken: set[str] = set()
    ordered = sorted(groups.values(), key=lambda group: (-len(group), _title(group)))
    return [_discovery(group, known, taken) for group in ordered]


def told_elsewhere(mentions: Sequence[UnknownMention]) -> list[UnknownMention]:
    """The mentions; one text may say what a short form or a last name in another stands for."""
    names_of: dict[str, set[str]] = defaultdict(set)
    for one in mentions:
        if one.name != one.surface:
            names_of[one.surface].add(one.name)
    return [
        replace(one, name=min(names_of[one.surface]))
        if one.name == one.surface and len(names_of.get(one.surface, ())) == 1
        else one
        for one in mentions
    ]


def sentence_of(text: str, start: int, end: int) -> str:
    """The sentence around a mention, or of a very long one what stands nearest."""
    near = max(0, start - 2 * _LONGEST_SENTENCE)
    far = min(len(text), end + 2 * _LONGEST_SENTENCE)
    ends = (one.end() for one in _SENTENCE_END.finditer(text, near, far))
    first = max(takewhile(lambda end: end <= start, ends), default=near)
    found = _SENTENCE_END.search(text, end, far)
    last = found.start() + (text[found.start()] in ".!?") if found else len(text)
    room = max(0, _LONGEST_SENTENCE - (end - start)) // 2
    first, last = max(first, start - room), min(last, end + room)
    return " ".join(text[first:last].split())


def _discovery(
    group: Sequence[UnknownMention], known: Mapping[str, str], taken: set[str]
) -> Discovery:
    title = _title(group)
    counts = Counter(name for one in group for name in {one.surface, one.name})
    names = sorted(counts, key=lambda name: (name != title, -counts[name], name))
    nearest: dict[EntityId, Near] = {}
    for one in group:
        for candidate in one.nearest:
            best = nearest.get(candidate.id)
            if best is None or best.score < candidate.score:
                nearest[candidate.id] = candidate
    types = Counter(near.type for one in group for near in one.nearest[:_TYPED])
    most = max(types, key=lambda name: types[name], default="")
    best_first = sorted(nearest.values(), key=lambda one: (-one.score, str(one.id)))
    examples: dict[str, Example] = {}
    for one in sorted(group, key=lambda one: (one.document, one.start)):
        example = Example(one.document, one.start, one.end, one.surface, one.sentence)
        examples.setdefault(one.sentence, example)
    return Discovery(
        id=_id(title, names, known, taken),
        title=title,
        names=tuple(names),
        # The type that more than half of the mentions' nearest entities have.
        type=most if 2 * types[most] > types.total() else "",
        confidence=sum(one.confidence for one in group) / len(group),
        mentions=len(group),
        documents=len({one.document for one in group}),
        examples=tuple(examples.values())[:MOST_EXAMPLES],
        nearest=tuple((one.id, one.title) for one in best_first[:MOST_NEAREST]),
    )


def _title(group: Sequence[UnknownMention]) -> str:
    """The commonest whole name; of several the longest, then the first by its letters."""
    counts = Counter(one.name for one in group)
    return min(counts, key=lambda name: (-counts[name], -len(name), name))


def _id(title: str, names: Sequence[str], known: Mapping[str, str], taken: set[str]) -> str:
    """The id that one of the names had before, else one made of the title."""
    before = (known[folded] for name in names if (folded := fold(name)) in known)
    key = fold(title) or title
    made = (f"new-{text_digest(key + chr(0) * others, size=4)}" for others in count())
    chosen = next(one for one in chain(before, made) if one not in taken)
    taken.add(chosen)
    return chosen
