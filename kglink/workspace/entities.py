"""The entities of a workspace: looked at, added one by one, removed, and as vectors."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt

from kglink.errors import UnknownNameError, UsageError
from kglink.records import Entity, EntityId, OnProgress, Verdict
from kglink.shown import html_of, linked_name
from kglink.store.database import NEVER_STORED
from kglink.store.document_reader import MentionsOf
from kglink.store.ingest import check_kb_name
from kglink.text.entity_text import shared_names
from kglink.workspace.folder import check_answers
from kglink.workspace.kbs import AddedKB, add_kb
from kglink.workspace.opened import Opened
from kglink.workspace.spaces import build_if_stale


@dataclass(frozen=True, slots=True)
class Counterpart:
    """The same thing in another KB, with the reason."""

    id: EntityId
    title: str
    probability: float
    verdict: Verdict | None
    shared_names: tuple[str, ...]

    def as_json(self) -> dict[str, object]:
        """One of the counterparts of `EntityView.as_json`."""
        return {
            **_named(self.id, self.title),
            "probability": round(self.probability, 6),
            "verdict": self.verdict,
            "shared_names": list(self.shared_names),
        }


@dataclass(frozen=True, slots=True)
class EntityView:
    """Everything that a workspace knows about an entity."""

    id: EntityId
    entity: Entity
    parents: tuple[tuple[EntityId, str], ...]
    """Broader entities and their titles; titles are empty if the KB lacks them."""
    children: tuple[tuple[EntityId, str], ...]
    counterparts: tuple[Counterpart, ...]
    mentions: MentionsOf
    """Its mentions in annotated documents: how many, where, and the first of them."""

    def _repr_html_(self) -> str:
        """What matters of it, as notebooks show it."""
        one, seen = self.entity, self.mentions
        examples = [f"… {said.left}{said.surface}{said.right} …" for said in seen.examples]
        facts = {
            str(self.id): linked_name(one.title, one.url),
            "type": one.type,
            "description": one.description,
            "names": [alias.surface for alias in one.aliases],
            "broader": [title or str(name) for name, title in self.parents],
            "narrower": [title or str(name) for name, title in self.children],
            "in other KBs": [f"{other.id} ({other.title})" for other in self.counterparts],
            f"mentions ({seen.mentions:,})": examples,
        }
        return html_of(facts)

    def as_json(self) -> dict[str, object]:
        """What `kglink show --json` says."""
        entity = self.entity
        return {
            **_named(self.id, entity.title),
            "description": entity.description,
            "type": entity.type,
            "url": entity.url,
            "popularity": entity.popularity,
            "language": entity.language,
            "aliases": [asdict(alias) for alias in entity.aliases],
            "xrefs": list(entity.xrefs),
            "parents": [_named(*one) for one in self.parents],
            "children": [_named(*one) for one in self.children],
            "counterparts": [one.as_json() for one in self.counterparts],
            "mentions": {
                "count": self.mentions.mentions,
                "documents": self.mentions.documents,
                "examples": [one._asdict() for one in self.mentions.examples],
            },
        }


def _named(id_: EntityId, title: str) -> dict[str, object]:
    return {"kb": id_.kb, "key": id_.key, "title": title}


def entities(opened: Opened, name: str, *, limit: int | None = None) -> list[Entity]:
    """The first entities of a KB, or all.

    >>> [entity.title for entity in workspace.entities("birds", limit=1)]
    ['heron']
    """
    if limit:
        check_answers(limit, "limit")
    return list(islice(opened.store.entities(name), limit))


def entity(opened: Opened, name: str | EntityId, *, examples: int = 3) -> EntityView:
    """Everything about an entity: names, place, counterparts, mentions in documents.

    ``name`` is its id, such as ``doid:DOID:1391``; the KB may be left out if only one KB has the
    key. ``examples`` is the number of mentions to show.

    >>> view = workspace.entity("birds:h")
    >>> view.entity.title, view.mentions.mentions
    ('heron', 1)
    >>> [(str(one.id), one.shared_names) for one in view.counterparts]
    [('zoo:7', ('heron',))]
    """
    store = opened.store
    with store.one_state():
        found, known = _found(opened, name)
        overlaps = [one for one in store.overlaps_of(found) if one.is_accepted(0.5)]
        broader = [EntityId(found.kb, key) for key in known.parents]
        others = store.get_entities([*broader, *(one.right for one in overlaps)])
        children, mentions = tuple(store.children(found)), store.mentions_of(found, examples)
    return EntityView(
        id=found,
        entity=known,
        parents=tuple((one, others[one].title if one in others else "") for one in broader),
        children=children,
        counterparts=tuple(
            Counterpart(
                one.right,
                others[one.right].title,
                one.probability,
                one.verdict,
                shared_names(known, others[one.right]),
            )
            for one in overlaps
        ),
        mentions=mentions,
    )


def add_entity(
    opened: Opened, kb: str, entity: Entity, *, progress: OnProgress = lambda _: None
) -> AddedKB:
    """Add an entity to a KB, or replace the one with its key.

    A missing KB is made, unless its name looks like a misspelt one of another KB (``add_kb`` makes
    it in any case). The next ``link`` knows the entity.

    >>> print(workspace.add_entity("birds", Entity("o2", "owl", "It hunts at night.")).summary)
    +1 ~0 -0 =0
    >>> [link.chosen.title for text in workspace.link("An owl!") for link in text.links]
    ['owl']
    """
    check_kb_name(kb)
    known = [info.name for info in opened.store.kbs()]
    if kb not in known and difflib.get_close_matches(kb, known, n=1, cutoff=0.8):
        hint = f"To make a KB of this name: add_kb({kb!r}, [entity])."
        raise UnknownNameError("KB", kb, known, hint=hint)
    return add_kb(opened, kb, [entity], merge=True, progress=progress)


def remove_entity(opened: Opened, name: str | EntityId) -> EntityId:
    """Remove an entity from its KB; verdicts on its overlaps are kept if it comes back.

    >>> workspace.remove_entity("birds:o2")
    EntityId(kb='birds', key='o2')
    """
    found, _ = _found(opened, name)
    opened.store.remove_entities(found.kb, [found.key])
    return found


def vector(opened: Opened, name: str | EntityId) -> npt.NDArray[np.float32]:
    """The vector of one entity, as `vectors` gives it."""
    one: npt.NDArray[np.float32] = vectors(opened, [name])[0]
    return one


def vectors(
    opened: Opened, names: str | EntityId | Iterable[str | EntityId]
) -> npt.NDArray[np.float32]:
    """The vectors of entities in the joint space, a row for each, in their order.

    They are those of title and description, or of the title in a space with rows of names alone. A
    space that is missing or older than the store is built first.

    >>> heron, osprey, same = workspace.vectors(["birds:h", "birds:o", "zoo:7"])
    >>> bool(heron @ same > heron @ osprey)
    True
    """
    build_if_stale(opened)
    space = opened.space()
    rows = []
    is_one = isinstance(names, str | EntityId) or not isinstance(names, Iterable)
    given: Iterable[Any] = [names] if is_one else names
    for name in given:
        found, _ = _found(opened, name)
        segment = space.segments.get(found.kb)
        row = -1 if segment is None else segment.row(found.key)
        if segment is None or row < 0:
            raise UnknownNameError(f"entity of space {space.folder.name!r}", str(found), None)
        if "text" in segment.info.rows:
            rows.append(segment.vectors("text", np.array([row])))
        elif "alias" in segment.info.rows:  # an entity's first name is its title
            rows.append(segment.vectors("alias", segment.alias_starts[row : row + 1]))
        else:
            raise UsageError(f"space {space.folder.name!r} has no vectors of {found.kb}")
    if not rows:
        return np.empty((0, space.manifest.model.dim), np.float32)
    return np.concatenate(rows)


def _found(opened: Opened, name: str | EntityId) -> tuple[EntityId, Entity]:
    """The entity that a name means: an id, or a key that one KB alone has."""
    if not isinstance(name, str | EntityId):
        hint = "Name it as 'kb:key', or as EntityId(kb, key)."
        raise UsageError(f"an entity is named by the type {type(name).__name__}", hint=hint)
    kbs = [info.name for info in opened.store.kbs() if info.entities]
    wanted = EntityId.parse(name) if isinstance(name, str) else name
    known = opened.store.get_entities([wanted])
    if isinstance(name, str) and not known:
        known = opened.store.get_entities(EntityId(kb, name) for kb in kbs)
    if not known:
        if wanted.kb in kbs and not NEVER_STORED.search(wanted.key):
            _refuse_former(opened, wanted)
        hint = f"By a name: kglink search {wanted.key if wanted.kb in kbs else str(name)!r}"
        if wanted.kb not in kbs:
            hint = f"The KBs: {', '.join(kbs) or 'none yet'}. {hint}"
        raise UnknownNameError("entity", str(name), None, hint=hint)
    if len(known) > 1:
        raise UsageError(
            f"{str(name)!r} is a key of several KBs", hint=f"Name one: {', '.join(map(str, known))}"
        )
    return next(iter(known.items()))


def _refuse_former(opened: Opened, gone: EntityId) -> None:
    """Say what became of a key, where the source or the documents tell that there was one."""
    successors = opened.store.successors(gone)
    mentions = opened.store.mentions_of(gone, 0).mentions
    removed = opened.store.removed_in(gone)
    if not removed and not successors and not mentions:
        return
    facts = [f"revision {removed} removed it"] if removed else []
    facts += [f"{how} {gone.kb}:{key}" for key, how in successors]
    if mentions:
        facts.append(f"{mentions:,} mention{'s' * (mentions > 1)} of documents still mean it")
    raise UsageError(
        f"{gone} is no entity in revision {opened.store.kb(gone.kb).revision} of {gone.kb}: "
        f"{'; '.join(facts)}",
        hint=f"kglink show {gone.kb}:{successors[0][0]}"
        if successors
        else f"By a name: kglink search {gone.key!r}",
    )
