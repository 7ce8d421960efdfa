"""The values that walk through kglink: small and frozen; results also say themselves as JSON.

Adapters make `Entity` and `Document` records; the store keeps them; the linker answers with
`Link` records. Nothing here knows a database id, a file format or a tensor.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from math import isfinite
from numbers import Integral, Real
from typing import Any, Literal, NamedTuple

from kglink.shown import Mark, Shown, escaped, linked_name, marked_text, percent, table

AliasKind = Literal["title", "alias", "synonym", "redirect", "anchor"]
Split = Literal["", "train", "dev", "test"]
Verdict = Literal["correct", "wrong", "unclear"]


class EntityId(NamedTuple):
    """The public name of an entity, written ``kb:key``; only the key may have colons."""

    kb: str
    key: str

    def __str__(self) -> str:
        return f"{self.kb}:{self.key}"

    @classmethod
    def parse(cls, text: str) -> EntityId:
        """Read ``kb:key``; a text without a colon is a key without a KB (``kb == ""``)."""
        kb, colon, key = text.partition(":")
        return cls(kb, key) if colon else cls("", text)


#: What a mention means that means nothing in any KB, and what words mean that are no mention.
NIL = EntityId("", "")
NO_MENTION = EntityId("", "-")

#: The KB of texts that people corrected.
CORRECTIONS = "corrections"


@dataclass(frozen=True, slots=True)
class Alias:
    """A name of an entity, the kind of its source, and how often it was seen."""

    surface: str
    kind: AliasKind = "alias"
    count: int = 1


@dataclass(frozen=True, slots=True)
class Entity:
    """One entry of a KB. ``key`` is unique in its KB and stable across updates."""

    key: str
    title: str
    description: str = ""
    type: str = ""
    url: str = ""
    popularity: float = 0.0
    language: str = ""
    aliases: tuple[Alias, ...] = ()
    xrefs: tuple[str, ...] = ()
    parents: tuple[str, ...] = ()
    """Keys of broader entities in the same KB, whether the KB holds them or not."""


@dataclass(frozen=True, slots=True)
class Mention:
    """A half-open character span ``[start, end)`` of a document's text.

    ``gold`` has the right answers: None if unknown, an empty tuple for NIL. An id without a KB
    (``EntityId("", key)``)
    is looked up in the KBs that the document source links to.
    """

    start: int
    end: int
    surface: str
    gold: tuple[EntityId, ...] | None = None
    type: str = ""
    quality: str = ""
    confidence: float | None = None
    """How sure a tool is of its answer; no store keeps it."""
    cluster: str = ""
    """For a tool's NIL: the id of the group that it belongs to; no store keeps it."""
    gone: tuple[EntityId, ...] = ()
    """In documents of a store: right answers that it no longer has. Memory counts them."""


@dataclass(frozen=True, slots=True)
class Document:
    """A text with its mentions."""

    id: str
    text: str
    mentions: tuple[Mention, ...] = ()
    title: str = ""
    split: Split = ""

    @property
    def whole(self) -> str:
        """The name of the whole document: documents with the same title are parts of it."""
        return self.title or self.id

    meta: Mapping[str, object] = field(default_factory=dict)
    """What its adapter says of where the text comes from; no store keeps it."""


@dataclass(frozen=True, slots=True)
class CodeMapping:
    """Two codes that mean the same by a source, such as ``DOID:1485`` and ``MESH:D003550``.

    Without a ``verdict`` it is a cross-reference, which resolves golds. With one it is the source's
    verdict on the overlap of two entities with these codes.
    """

    subject: str
    object: str
    predicate: str = "skos:exactMatch"
    confidence: float = 1.0
    verdict: Verdict | None = None


#: Predicates of a mapping from an obsolete term to what took its place, or may be meant instead.
#: `kglink show` tells it; the two are not one thing, so no gold is resolved through it.
REPLACED_BY, CONSIDER = "IAO:0100001", "oboInOwl:consider"

Record = Entity | Document | CodeMapping

#: Begins the source of a verdict that the mappings of a KB brought.
KB_SOURCE = "kb:"


@dataclass(frozen=True, slots=True)
class Overlap:
    """Two entities of different KBs that are the same thing, with evidence and verdict.

    ``source`` says where the verdict comes from: a review, an imported list, or ``kb:NAME`` for
    the mappings of a KB. A ``stale`` verdict was given before a title or description changed; it
    counts until the pair is judged again.
    """

    left: EntityId
    right: EntityId
    probability: float
    evidence: Mapping[str, float] = field(default_factory=dict)
    verdict: Verdict | None = None
    stale: bool = False
    source: str = ""

    def is_accepted(self, least: float) -> bool:
        """Whether the pair counts as one thing: by its verdict, or else by its probability."""
        if self.verdict in ("correct", "wrong"):
            return self.verdict == "correct"
        return self.probability >= least

    @property
    def was_found(self) -> bool:
        """Whether a search found it, and not only a person or a mapping."""
        return bool(self.evidence.keys() - {"mapping"})

    @property
    def judged_by_kb(self) -> str:
        """The KB whose mappings gave the verdict; empty if none did."""
        return self.source.removeprefix(KB_SOURCE) if self.source.startswith(KB_SOURCE) else ""

    def as_json(self) -> dict[str, object]:
        """A plain dictionary, as `kglink overlap show --json` prints it."""
        return {
            "left": str(self.left),
            "right": str(self.right),
            "probability": self.probability,
            "evidence": dict(self.evidence),
            "verdict": self.verdict,
        }


@dataclass(frozen=True, slots=True)
class Judgement:
    """A verdict, its source, and hashes of the two texts that were judged."""

    verdict: Verdict
    source: str = "review"
    texts: tuple[str, str] | None = None
    """In the order of the KBs' names; None if unknown."""


@dataclass(frozen=True, slots=True)
class OverlapRun:
    """A finished search for the overlaps of two KBs: of which revisions, and how it was done."""

    left: str
    right: str
    method: str
    settings_fingerprint: str
    candidates: int
    kept: int
    left_revision: int
    right_revision: int
    finished_at: str


@dataclass(frozen=True, slots=True)
class Span:
    """A place in a text that a detector proposes; ``score``: the probability of a mention."""

    start: int
    end: int
    score: float = 1.0
    name: str = ""
    """The name that was found, if the text spells it differently."""


@dataclass(frozen=True, slots=True)
class TextInput:
    """A text to link; ``spans`` are its mentions if known, else kglink finds them."""

    id: str
    text: str
    spans: tuple[Span, ...] | None = None
    meta: Mapping[str, object] = field(default_factory=dict)
    """Where the text comes from; goes into the ``meta`` of the linked document."""


@dataclass(frozen=True, slots=True)
class MentionInText:
    """The mention ``text[start:end]`` of a document; ``score``: how probably it is one."""

    text: str
    start: int
    end: int
    document: str = ""
    score: float = 1.0
    given: bool = True
    """Whether the user gave the mention; else a detector proposes it."""
    name: str = ""
    """The name that the detector found, if the text spells it differently."""

    @property
    def surface(self) -> str:
        """The mention's own words."""
        return self.text[self.start : self.end]


@dataclass(frozen=True, slots=True)
class Candidate(Shown):
    """An entity that a mention may mean.

    ``evidence`` has a value for each kind of evidence, ``parts`` what each kind adds to the score:
    the value times its weight.
    """

    id: EntityId
    title: str
    score: float
    popularity: float = 0.0
    url: str = ""
    description: str = ""
    type: str = ""
    evidence: Mapping[str, float] = field(default_factory=dict)
    parts: Mapping[str, float] = field(default_factory=dict)
    aliases: tuple[str, ...] = ()
    """Its other names."""
    parents: tuple[str, ...] = ()
    """Keys of broader entities of its KB."""
    also: tuple[EntityId, ...] = ()
    """The same thing in other KBs."""

    def as_json(self, *, explain: bool = False) -> dict[str, object]:
        """A plain dictionary; ``explain`` adds the evidence and the parts."""
        return {
            **self.id._asdict(),
            "title": self.title,
            "score": json_number(self.score),
            **(
                {"evidence": json_value(self.evidence), "parts": json_value(self.parts)}
                if explain
                else {}
            ),
        }


@dataclass(frozen=True, slots=True)
class Ranking:
    """A mention with its candidates, best first."""

    mention: MentionInText
    candidates: tuple[Candidate, ...]
    note: str = ""
    """Why a stage could not reorder it, if so."""


@dataclass(frozen=True, slots=True)
class KBAnswer:
    """What a mention means in one KB; ``chosen is None`` means nothing there."""

    kb: str
    chosen: Candidate | None
    confidence: float

    def as_json(self) -> dict[str, object]:
        """A plain dictionary, one of the ``per_kb`` of a link; what a NIL lacks is None."""
        return {"kb": self.kb, **_chosen_as_json(self.chosen, self.confidence)}


@dataclass(frozen=True, slots=True)
class Link:
    """A mention, its ranked candidates, and the chosen one; ``chosen is None`` means NIL.

    The chosen candidate is first, the others best first. ``confidence`` is the probability
    that this answer, entity or NIL, is right. NIL is right if no KB has what is meant.
    """

    start: int
    end: int
    surface: str
    candidates: tuple[Candidate, ...]
    chosen: Candidate | None
    confidence: float
    per_kb: tuple[KBAnswer, ...] = ()
    """The answer of each KB for itself, where they are wanted (``link.per_kb``)."""
    probability: float = 0.0
    """Probability that place and best candidate are right; compared with the threshold."""
    cluster: str = ""
    """For NIL: the discovery with its name (``kglink discover``), if any."""

    @property
    def answers(self) -> tuple[KBAnswer, ...]:
        """The answer of each KB if wanted, else the one answer of all."""
        own = KBAnswer(self.chosen.id.kb if self.chosen else "", self.chosen, self.confidence)
        return self.per_kb or (own,)

    def as_json(self, *, explain: bool = False) -> dict[str, object]:
        """A plain dictionary, one of the ``entities`` of a text; what a NIL lacks is None."""
        chosen = self.chosen
        return {
            "start": self.start,
            "end": self.end,
            "text": self.surface,
            "kb": chosen.id.kb if chosen else None,
            **_chosen_as_json(chosen, self.confidence),
            **({"cluster": self.cluster} if self.cluster else {}),
            "candidates": [one.as_json(explain=explain) for one in self.candidates],
            "also": [entity._asdict() for entity in chosen.also] if chosen else [],
            **({"per_kb": [one.as_json() for one in self.per_kb]} if self.per_kb else {}),
        }

    @property
    def _mark(self) -> Mark:
        """How a notebook marks it in its text."""
        chosen, sure = self.chosen, f"{percent(self.confidence)} sure"
        if chosen is None:
            return Mark(self.start, self.end, "", f"no entity (NIL), {sure}")
        title = f"{chosen.id} {chosen.title}, {sure}"
        return Mark(self.start, self.end, chosen.id.kb, title, chosen.url)

    def _repr_html_(self) -> str:
        rows = [
            (linked_name(str(one.id), one.url), one.title, one.score, [*map(str, one.also)])
            for one in self.candidates
        ]
        columns = ("candidate", "title", "score", "also")
        return f"<b>{escaped(self.surface)}</b>: {escaped(self._mark.title)}{table(columns, rows)}"


@dataclass(frozen=True, slots=True)
class Rejected:
    """A place that looked like a mention and was not linked, and why."""

    start: int
    end: int
    surface: str
    candidates: tuple[Candidate, ...]
    mention: float
    """How probably it is a mention."""
    probability: float
    """How probably it is one and its best candidate is right."""
    why: str

    def as_json(self, *, explain: bool = False) -> dict[str, object]:
        """A plain dictionary, one of the ``rejected`` of a text."""
        return {
            "start": self.start,
            "end": self.end,
            "text": self.surface,
            "why": self.why,
            "mention": json_number(self.mention),
            "probability": json_number(self.probability),
            "candidates": [one.as_json(explain=explain) for one in self.candidates],
        }


def _chosen_as_json(chosen: Candidate | None, confidence: float) -> dict[str, object]:
    """The entity that was chosen, and how sure that is; what a NIL lacks is None."""
    return {
        "key": chosen.id.key if chosen else None,
        "title": chosen.title if chosen else None,
        "url": (chosen.url or None) if chosen else None,
        "score": json_number(chosen.score) if chosen else None,
        "confidence": json_number(confidence),
        "nil": chosen is None,
    }


@dataclass(frozen=True, slots=True)
class LinkedDocument:
    """A text and all its links, in reading order; ``meta`` says what was done and what was cut."""

    id: str
    text: str
    links: tuple[Link, ...]
    meta: Mapping[str, object] = field(default_factory=dict)
    rejected: tuple[Rejected, ...] = ()
    """Places that were not linked, in reading order, if wanted (``link.rejected``)."""

    @property
    def in_order(self) -> list[Link]:
        """The links by their start, the longer first."""
        return sorted(self.links, key=lambda link: (link.start, -link.end))

    def as_json(self, *, explain: bool = False, rejected: bool = False) -> dict[str, object]:
        """A plain dictionary, as ``kglink link --format json`` writes it.

        ``explain`` gives every candidate its evidence; ``rejected`` adds what was not linked.
        """
        return {
            "id": json_value(self.id),
            "text": self.text,
            "entities": [link.as_json(explain=explain) for link in self.in_order],
            **(
                {"rejected": [one.as_json(explain=explain) for one in self.rejected]}
                if rejected
                else {}
            ),
            "meta": json_value(self.meta),
        }

    def rows(self) -> list[dict[str, object]]:
        """A plain dictionary for each link, without its candidates: rows of a table."""
        return [
            {
                "document": self.id,
                "start": link.start,
                "end": link.end,
                "text": link.surface,
                "kb": link.chosen.id.kb if link.chosen else None,
                **_chosen_as_json(link.chosen, link.confidence),
                "also": [str(one) for one in link.chosen.also] if link.chosen else [],
            }
            for link in self.in_order
        ]

    def _repr_html_(self) -> str:
        kbs = self.meta.get("kbs")
        names = [kb for kb in kbs if isinstance(kb, str)] if isinstance(kbs, list) else []
        return marked_text(self.text, [link._mark for link in self.links], names)


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of a step: ``done`` of ``total``, which is 0 if unknown."""

    step: str
    done: int = 0
    total: int = 0


OnProgress = Callable[[Progress], None]
#: Has a job done on pieces, each with a name for messages, by the workers of a cluster; gives the
#: answers in the order of the pieces, and lets the workers go when it is closed. The job is a
#: `kglink.workspace.ray_workers.Job`.
Spread = Callable[[Any, Iterable[tuple[str, Any]]], Generator[Any]]


# ---------------------------------------------------------------------------------------- JSON
_DIGITS = 6


def json_number(value: float) -> float | None:
    """``value`` rounded to six digits; None where it is not a finite number."""
    value = float(value)
    return round(value, _DIGITS) if isfinite(value) else None


def json_value(value: object) -> object:
    """``value`` as JSON can hold it: keys as text, sets sorted, numbers finite and rounded."""
    if value is None or isinstance(value, str | bool):
        return value
    if isinstance(value, Real):
        return int(value) if isinstance(value, Integral) else json_number(float(value))
    if isinstance(value, Mapping):
        return {str(key): json_value(item) for key, item in value.items()}
    if isinstance(value, AbstractSet | list | tuple):
        items = [json_value(item) for item in value]
        return sorted(items, key=str) if isinstance(value, AbstractSet) else items
    return str(value)
