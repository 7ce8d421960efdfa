"""Corrections: what people say a place of a text means, learnt at once and taken back at once.

They are documents of a KB of their own, one for each text, so that they are exported, learnt and
forgotten as other annotated documents are. Such a text is annotated in part: what nobody corrected
says nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from kglink.errors import UnknownNameError, UsageError
from kglink.files.atomic import file_lock
from kglink.files.digest import text_digest
from kglink.linking.corrected import NOT_A_MENTION, corrected_documents, corrected_texts
from kglink.records import CORRECTIONS, Document, EntityId, Mention
from kglink.workspace.entities import entity as entity_of
from kglink.workspace.kbs import add_kb, remove_kb
from kglink.workspace.memory import forget, learn

if TYPE_CHECKING:
    from kglink.workspace.opened import Opened

_WAIT_S = 30.0


class Correction(NamedTuple):
    """What somebody said of the place ``text[start:end]``."""

    id: str
    text: str
    start: int
    end: int
    entity: EntityId | None
    """What it means; None: nothing that a KB has."""
    is_mention: bool
    """False: the place is no mention of anything."""

    @property
    def surface(self) -> str:
        """The words of the place."""
        return self.text[self.start : self.end]

    def as_json(self) -> dict[str, object]:
        """A plain dictionary."""
        return {
            "id": self.id,
            "text": self.text,
            "start": self.start,
            "end": self.end,
            "surface": self.surface,
            "entity": str(self.entity) if self.entity else None,
            "mention": self.is_mention,
        }


def correct(
    opened: Opened,
    text: str,
    start: int,
    end: int,
    entity: str | EntityId | None,
    *,
    is_mention: bool = True,
) -> Correction:
    """Say what ``text[start:end]`` means: an entity, or None for nothing that a KB has.

    Without ``is_mention`` the place is no mention at all. It takes the place of what was said
    before of overlapping places of the text. Texts that are linked from now on know it.

    >>> said = workspace.correct("An osprey fishes.", 3, 9, "birds:o")
    >>> said.surface, [one.id for one in workspace.corrections()] == [said.id]
    ('osprey', True)
    """
    if not 0 <= start < end <= len(text) or not text[start:end].strip():
        raise UsageError(
            f"{start} to {end} is no place in a text of {len(text):,} characters",
            hint="Places are half-open character offsets, and hold a word at least.",
        )
    if entity is not None and not is_mention:
        raise UsageError("a place that is no mention means no entity", hint="Say one of the two.")
    gold: tuple[EntityId, ...] | None = () if is_mention else None
    if entity is not None:
        gold = (entity_of(opened, entity, examples=0).id,)
    mention = Mention(start, end, text[start:end], gold, "" if is_mention else NOT_A_MENTION)
    key = text_digest(text)
    with _changing(opened):
        before = corrected_texts(opened.store).get(key, ())
        apart = (one for one in before if one.end <= start or end <= one.start)
        mentions = sorted([*apart, mention], key=lambda one: one.start)
        add_kb(opened, CORRECTIONS, [Document(key, text, tuple(mentions))], merge=True)
        learn(opened, CORRECTIONS)
    return _said(Document(key, text), mention)


def corrections(opened: Opened) -> list[Correction]:
    """All that was said, by texts, and in the order of each."""
    return [
        _said(one, mention) for one in corrected_documents(opened.store) for mention in one.mentions
    ]


def take_back(opened: Opened, correction: str) -> Correction:
    """Take a correction back, by its id: what was learnt from it is forgotten.

    >>> workspace.take_back(workspace.corrections()[0].id).surface
    'osprey'
    >>> workspace.corrections()
    []
    """
    with _changing(opened):
        documents = list(corrected_documents(opened.store))
        said = {
            _said(one, mention).id: (one, mention) for one in documents for mention in one.mentions
        }
        if correction not in said:
            raise UnknownNameError("correction", correction, None, hint="It may be taken back.")
        changed, mention = said[correction]
        rest = tuple(one for one in changed.mentions if one != mention)
        kept = [replace(one, mentions=rest) if one == changed else one for one in documents]
        if kept := [one for one in kept if one.mentions]:
            add_kb(opened, CORRECTIONS, kept)
            learn(opened, CORRECTIONS)
        else:
            if CORRECTIONS in opened.store.memory_sources():
                forget(opened, CORRECTIONS)
            remove_kb(opened, CORRECTIONS)
    return _said(changed, mention)


def learn_corrections(opened: Opened) -> None:
    """Learn corrections that a stop left unlearnt."""
    learnt = {one.source: one.revision for one in opened.store.learnt()}
    infos = {info.name: info for info in opened.store.kbs()}
    if CORRECTIONS in infos and learnt.get(CORRECTIONS) != infos[CORRECTIONS].revision:
        learn(opened, CORRECTIONS)


@contextmanager
def _changing(opened: Opened) -> Iterator[None]:
    """Nobody else corrects meanwhile: no thread, and no other process."""
    busy = UsageError("another process is correcting", hint="Try again.")
    with file_lock(opened.folder / ".corrections.lock", busy, wait=_WAIT_S), opened.lock:
        yield


def _said(document: Document, mention: Mention) -> Correction:
    gold = mention.gold[0] if mention.gold else None
    return Correction(
        f"{document.id}-{mention.start}-{mention.end}",
        document.text,
        mention.start,
        mention.end,
        gold,
        mention.type != NOT_A_MENTION,
    )
