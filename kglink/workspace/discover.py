"""Find things that the KBs lack, let people judge them, and add them as entities."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import get_args

from kglink.errors import UnknownNameError, UsageError
from kglink.linking.discovery import Discovery, discoveries, joined, unknown_mentions
from kglink.records import Alias, Entity, EntityId, OnProgress, Progress, TextInput
from kglink.store.kbs import IN_MEMORY
from kglink.workspace.detectors import DICTIONARY
from kglink.workspace.discoveries import (
    DiscoveryAnswer,
    DiscoveryVerdict,
    changing,
    end_of_merges,
    folded_names,
    read_discoveries,
    write_discoveries,
)
from kglink.workspace.entities import entity as entity_of
from kglink.workspace.folder import LEAST_UNKNOWN, PROMOTED, check_known, check_probability
from kglink.workspace.kbs import add_kb
from kglink.workspace.link import link
from kglink.workspace.opened import Opened
from kglink.workspace.spaces import build_if_stale


@dataclass(frozen=True, slots=True)
class JudgedDiscovery:
    """A discovery and what was said of it."""

    discovery: Discovery
    judged: DiscoveryVerdict | None = None

    def as_json(self) -> dict[str, object]:
        """A plain dictionary, as `kglink discover --json` prints it."""
        said = self.judged
        return {
            **self.discovery.as_json(),
            "answer": said.answer if said else None,
            "into": (said.into or None) if said else None,
        }


@dataclass(frozen=True, slots=True)
class Promoted:
    """What `promote` did."""

    entities: tuple[EntityId, ...]
    """Discoveries that are entities now."""
    renamed: tuple[EntityId, ...]
    """Entities of KBs that have new names now."""
    removed: tuple[EntityId, ...] = ()
    """Discoveries that were entities, and are accepted no longer."""
    lost: tuple[str, ...] = ()
    """Discoveries that are linked to an entity which has gone since."""


def discover(
    opened: Opened,
    texts: str | TextInput | Iterable[TextInput | str],
    kbs: str | Sequence[str] = (),
    *,
    least: float = LEAST_UNKNOWN,
    progress: OnProgress = lambda _: None,
) -> list[JudgedDiscovery]:
    """Find things in texts that no KB has; the result replaces that of the last search.

    Mentions are given with the texts or detected, also capitalized names that no KB has. A mention
    counts if the probability that no KB has it is at least ``least``. Judged discoveries are kept,
    with their ids, titles and names.

    >>> letters = ["Osric Vane saw a heron.", "Later Osric Vane saw another heron."]
    >>> [(one.discovery.title, one.discovery.mentions) for one in workspace.discover(letters)]
    [('Osric Vane', 2)]
    """
    check_probability(least, "least")
    with changing(opened.folder):
        pass  # what may not be written is told before the work
    detector = opened.settings.link.detector
    searching = opened
    if detector == ("auto",):
        build_if_stale(opened)
        if opened.detector().link.detector == (DICTIONARY,):
            searching = opened.with_settings({"link.detector": (DICTIONARY, "kglink/capitals")})
    unknown = []
    for number, document in enumerate(link(searching, texts, kbs), 1):
        unknown += unknown_mentions(document, least)
        progress(Progress("texts", number))
    with changing(opened.folder):
        kept = read_discoveries(opened.folder)
        known = {name: one.id for one in kept.found for name in folded_names(one)}
        found = discoveries(unknown, searching.encoder.encode, known)
        spoken_of = {*kept.answers, *(said.into for said in kept.answers.values())}
        judged = {one.id: one for one in kept.found if one.id in spoken_of}
        found = [joined(one, judged.pop(one.id)) if one.id in judged else one for one in found]
        now = kept.model_copy(update={"found": (*found, *judged.values())})
        write_discoveries(opened.folder, now)
    return [JudgedDiscovery(one, kept.answers.get(one.id)) for one in found]


def discovered(opened: Opened) -> list[JudgedDiscovery]:
    """The discoveries of the last search and all judged ones; the most frequent first.

    >>> [one.discovery.title for one in workspace.discovered()]
    ['Osric Vane']
    """
    kept = read_discoveries(opened.folder)
    return [JudgedDiscovery(one, kept.answers.get(one.id)) for one in kept.found]


def judge_discovery(
    opened: Opened, name: str, answer: DiscoveryAnswer | None, into: str = ""
) -> JudgedDiscovery:
    """Judge a discovery; ``answer`` None takes the judgement back.

    ``into`` is the discovery that it is merged with, or the entity that it is linked to.

    >>> vane = workspace.discovered()[0].discovery.id
    >>> workspace.judge_discovery(vane, "accept").judged.answer
    'accept'
    """
    with changing(opened.folder):
        kept = read_discoveries(opened.folder)
        found = {one.id: one for one in kept.found}
        if name not in found:
            raise UnknownNameError("discovery", name, found, hint=_LIST_HINT)
        answers = {one: said for one, said in kept.answers.items() if one != name}
        judged = None
        if answer is not None:
            into = _checked(opened, name, answer, into, found)
            if answer == "merge" and end_of_merges(into, answers)[0] == name:
                raise UsageError(
                    f"{name} and {into} would be merged with each other",
                    hint="Merge one of them only, and accept the other.",
                )
            judged = answers[name] = DiscoveryVerdict(answer=answer, into=into)
        write_discoveries(opened.folder, kept.model_copy(update={"answers": answers}))
    return JudgedDiscovery(found[name], judged)


def promote(
    opened: Opened, kb: str = PROMOTED, *, progress: OnProgress = lambda _: None
) -> Promoted:
    """Make entities of accepted discoveries, in KB ``kb``, and index them for the next ``link``.

    A merged discovery gives its names to the other one, a linked one to its entity. Promoted
    discoveries stay in their KB until they are accepted no longer. Promoting again changes nothing.

    >>> [one.kb for one in workspace.promote().entities]
    ['discovered']
    >>> (text,) = workspace.link("Osric Vane is here.")
    >>> [link.chosen.title for link in text.links]
    ['Osric Vane']
    """
    with changing(opened.folder):
        kept = read_discoveries(opened.folder)
    found = {one.id: one for one in kept.found}
    own: dict[str, list[Discovery]] = {}
    linked: dict[EntityId, list[str]] = {}
    for name, said in kept.answers.items():
        goal, last = end_of_merges(name, kept.answers)
        if name not in found or last is None or last.answer == "reject":
            continue
        if last.answer == "link":
            linked.setdefault(EntityId.parse(last.into), []).extend(found[name].names)
        else:
            own.setdefault(goal, []).append(found[name])
            if said.answer == "accept":  # its own title stays first
                own[goal].insert(0, own[goal].pop())
    known = opened.store.get_entities([*linked, *map(EntityId.parse, kept.named)])
    linked = {one: names for one, names in linked.items() if one in known}
    links = ((name, said.into) for name, said in kept.answers.items() if said.answer == "link")
    lost = tuple(name for name, into in links if EntityId.parse(into) not in known)
    given = _given_names(linked, known, kept.named)
    # What is about to be done is written down before, so that it can always be undone.
    homes = dict.fromkeys(own, kb) | _places(opened, own, kept.promoted)
    promoted = _together(kept.promoted, {name: (home,) for name, home in homes.items()})
    named = _together(kept.named, given)
    _note(opened, promoted, named)
    made = sorted(EntityId(home, name) for name, home in homes.items())
    for home, those in groupby(made, key=lambda one: one.kb):
        entities = [_entity(name, own[name]) for _, name in those]
        add_kb(opened, home, entities, merge=True, progress=progress)
    places = {**dict.fromkeys(kept.answers, (kb,)), **promoted}
    removed = _without_refused(opened, homes, places)
    renamed = []
    for name, names in named.items():
        entity = EntityId.parse(name)
        gone = set(names) - set(given.get(name, ()))
        if entity not in known:
            continue  # it has gone with its names
        if _renamed(known, entity, linked.get(entity, ()), gone) != known[entity]:
            renamed.append(entity)
            records = _read_renamed(opened, entity, linked.get(entity, ()), gone)
            add_kb(opened, entity.kb, records, merge=True, progress=progress)
    _note(opened, {name: (home,) for name, home in homes.items()}, given)
    build_if_stale(opened)
    return Promoted(tuple(made), tuple(renamed), removed, lost)


def _places(
    opened: Opened, names: Iterable[str], promoted: Mapping[str, Sequence[str]]
) -> dict[str, str]:
    """The KB that each discovery is an entity of already."""
    kbs = {info.name for info in opened.store.kbs()}
    noted = [EntityId(kb, name) for name in names for kb in promoted.get(name, ()) if kb in kbs]
    known = opened.store.get_entities(noted)
    return {one.key: one.kb for one in reversed(noted) if one in known}


def _together(
    one: Mapping[str, Sequence[str]], other: Mapping[str, Sequence[str]]
) -> dict[str, tuple[str, ...]]:
    """All keys of both, each with what both have of it."""
    return {
        key: tuple(dict.fromkeys((*one.get(key, ()), *other.get(key, ()))))
        for key in {**one, **other}
    }


def _note(
    opened: Opened, promoted: Mapping[str, Sequence[str]], named: Mapping[str, Sequence[str]]
) -> None:
    """Write down what was promoted where."""
    with changing(opened.folder):
        kept = read_discoveries(opened.folder)
        update = {"promoted": promoted, "named": named}
        write_discoveries(opened.folder, kept.model_copy(update=update))


def _given_names(
    linked: Mapping[EntityId, Sequence[str]],
    known: Mapping[EntityId, Entity],
    before: Mapping[str, Sequence[str]],
) -> dict[str, tuple[str, ...]]:
    """The names that entities of KBs get, and do not have of their own."""
    given = {}
    for entity, names in linked.items():
        own = {one.surface for one in known[entity].aliases} - set(before.get(str(entity), ()))
        given[str(entity)] = tuple(one for one in dict.fromkeys(names) if one not in own)
    return given


def _without_refused(
    opened: Opened, homes: Mapping[str, str], places: Mapping[str, Sequence[str]]
) -> tuple[EntityId, ...]:
    """Remove the discoveries that are entities in some KBs, and are none there any longer.

    ``homes``: the KB of each that is accepted.
    """
    kbs = {info.name for info in opened.store.kbs()}
    refused = [
        EntityId(kb, one)
        for one, own in places.items()
        for kb in own
        if kb in kbs and homes.get(one) != kb
    ]
    removed = tuple(opened.store.get_entities(refused))
    for kb in dict.fromkeys(one.kb for one in removed):
        opened.store.remove_entities(kb, [one.key for one in removed if one.kb == kb])
        drop_emptied(opened, kb)
    return removed


def drop_emptied(opened: Opened, kb: str) -> None:
    """Remove a KB that no source made, once all that it held was taken back."""
    left = opened.store.kb(kb)
    if left.adapter == IN_MEMORY and not left.entities + left.documents + left.mappings:
        opened.store.remove_kb(kb)


_LIST_HINT = "List them: kglink discover"


def _checked(
    opened: Opened, name: str, answer: DiscoveryAnswer, into: str, found: Mapping[str, Discovery]
) -> str:
    """What an answer speaks of besides the discovery; refused where there is no such thing."""
    check_known("answer", answer, get_args(DiscoveryAnswer))
    if answer == "merge":
        if into not in found or into == name:
            raise UnknownNameError("other discovery", into, found.keys() - {name}, hint=_LIST_HINT)
        return into
    if answer == "link":
        return str(entity_of(opened, into).id)
    if into:
        raise UsageError(f"{answer} takes nothing besides: leave out {into!r}")
    return ""


def _entity(name: str, parts: Sequence[Discovery]) -> Entity:
    """An entity of discoveries that are one thing: its sentences describe it."""
    first = parts[0]
    names = dict.fromkeys(surface for one in parts for surface in one.names)
    names.pop(first.title, None)
    sentences = dict.fromkeys(one.sentence for part in parts for one in part.examples)
    return Entity(
        key=name,
        title=first.title,
        description=" ".join(sentences),
        type=first.type,
        aliases=tuple(Alias(surface) for surface in names),
    )


def _read_renamed(
    opened: Opened, name: EntityId, names: Iterable[str], gone: Collection[str]
) -> Iterator[Entity]:
    """An entity with other names, read when the writer asks: nobody else changes its KB then."""
    yield _renamed(opened.store.get_entities([name]), name, names, gone)


def _renamed(
    entities: Mapping[EntityId, Entity], name: EntityId, names: Iterable[str], gone: Collection[str]
) -> Entity:
    """An entity with more names, and without those that are ``gone``; an error where it is."""
    if name not in entities:
        raise UsageError(
            f"{name} was removed just before it got its names", hint="Try again: kglink promote"
        )
    entity = entities[name]
    stay = tuple(one for one in entity.aliases if one.surface not in gone)
    known = {entity.title, *(one.surface for one in stay)}
    more = tuple(Alias(name) for name in dict.fromkeys(names) if name not in known)
    return replace(entity, aliases=(*stay, *more))
