"""Learning without training: surfaces, corrections by people, weights, how mentions cluster."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache
from itertools import chain
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from kglink.errors import KBBusyError, UnknownNameError, UsageError, naming_missing_right
from kglink.evaluation.annotated import is_annotated_whole, nil_places, with_nil
from kglink.evaluation.retrieval import check_annotated, check_documents
from kglink.files.atomic import file_lock
from kglink.files.digest import text_digest
from kglink.linking.corrected import NOT_A_MENTION, corrected_documents
from kglink.linking.detect import proposals
from kglink.linking.fit_clusterer import (
    ClustererChoice,
    KnownMention,
    choose_settings,
    write_choice,
)
from kglink.linking.pipeline import Linker, whole_documents
from kglink.linking.scoring import Scoring, keeping
from kglink.linking.usual_case import in_usual_case
from kglink.plugins import Detector
from kglink.records import CORRECTIONS, Document, EntityId, Mention, OnProgress, Progress, Ranking
from kglink.store.memory import Places, Unmarked
from kglink.store.occurrences import Meaning
from kglink.text.plain import read_plainly
from kglink.workspace.detectors import NamesOfStore, detectors_for, without_auto
from kglink.workspace.entities import entity as entity_of
from kglink.workspace.folder import CLUSTERER, named
from kglink.workspace.kbs import add_kb, remove_kb
from kglink.workspace.link_setup import clusterer_choice
from kglink.workspace.opened import Opened

if TYPE_CHECKING:
    from kglink.linking.fit import JudgedMention


def learn(
    opened: Opened,
    docs: str | Sequence[str],
    *,
    split: str = "",
    progress: OnProgress = lambda _: None,
) -> int:
    """Remember what surfaces mean in annotated documents; returns how many surfaces are remembered.

    Without ``split`` it takes the split train, or all documents if there is none. Learning the same
    documents again replaces what was remembered of them. The order in which documents are learnt
    changes nothing. A source whose equal words mean unrelated things from text to text is not
    remembered.

    >>> workspace.learn("notes")
    1
    """
    names = named(docs)
    for name in names:
        _check_source(opened, name, split)
    opened.store.learn(dict.fromkeys(names, split or ""), _unmarked_of(opened), progress=progress)
    known = opened.store.memory_sources()
    return sum(known[name] for name in names)


def forget(
    opened: Opened, docs: str | Sequence[str], *, progress: OnProgress = lambda _: None
) -> None:
    """Forget what surfaces meant in the documents of some KBs."""
    opened.store.learn({}, _unmarked_of(opened), forgotten=named(docs), progress=progress)


def fit(
    opened: Opened,
    docs: str | Sequence[str],
    *,
    split: str = "",
    progress: OnProgress = lambda _: None,
) -> Scoring:
    """Fit the weights of evidence and the probabilities to annotated documents.

    What memory has learnt from these documents does not count here. Mentions whose golds no KB has
    are NIL, as in ``kglink.evaluation.annotated``.
    """
    names = named(docs)
    with opened.at_one_moment() as seen:
        documents = judged_documents(seen, names, split)
        return seen.link_setup().fit(documents, progress).scoring


def fit_scoring(
    opened: Opened, documents: Iterable[Document], *, progress: OnProgress = lambda _: None
) -> Scoring:
    """Fit the weights of evidence and the probabilities to documents in memory.

    The space's model must not have been trained on them. What memory has learnt from them does not
    count. The result is kept beside the space, as long as it has this model.
    """
    return opened.link_setup().fit({"": list(documents)}, progress).scoring


def judged_documents(opened: Opened, names: Sequence[str], split: str) -> dict[str, list[Document]]:
    """The documents by source, sorted, whichever was named first; golds that no KB has are NIL."""
    kbs = opened.space().kbs()
    for name in names:
        _check_source(opened, name, split)
    found: dict[str, list[Document]] = {}
    for name in sorted(set(names)):
        documents = opened.store.documents(name, opened.store.learning_split(name, split))
        found[name] = list(with_nil(documents, nil_places(opened.store, name, kbs)))
    return found


def _unmarked_of(opened: Opened) -> Unmarked:
    """Finds the names of KBs that stand in documents and are not annotated there.

    None, where the documents are annotated in part: what is not marked is then unknown. The names
    are those of the store, so that no space is needed, and of the KBs that the documents link to:
    what is not marked says nothing of others.
    """

    @lru_cache(maxsize=2)
    def detectors_of(
        known: Callable[[], Iterator[Meaning]], links_to: tuple[str, ...]
    ) -> tuple[dict[str, Detector], Callable[[str], frozenset[str]]]:
        kbs = [info.name for info in opened.store.kbs() if info.entities]
        names = NamesOfStore(opened.store, [kb for kb in kbs if kb in links_to] or kbs, known)
        detectors = detectors_for(names, without_auto(opened.settings.link), opened.registry)
        return detectors, lru_cache(maxsize=1 << 16)(names.spellings)

    def unmarked(
        source: str, split: str | None, known: Callable[[], Iterator[Meaning]]
    ) -> Places | None:
        if source == CORRECTIONS:
            # The places of a corrected text that somebody said are no mentions.
            return lambda text: (
                (one.start, one.end) for one in text.mentions if one.type == NOT_A_MENTION
            )
        if not is_annotated_whole(source, opened.store.documents(source, split)):
            return None
        detectors, spellings = detectors_of(known, opened.store.kb(source).links_to)

        def places(document: Document) -> Iterator[tuple[int, int]]:
            marked = bytearray(len(document.text))
            for one in document.mentions:
                marked[one.start : one.end] = b"\1" * (one.end - one.start)
            plain = read_plainly(document.text)
            for span in proposals(in_usual_case(plain.text, spellings), detectors):
                place = plain.place(span.start, span.end)
                if marked.find(1, *place) < 0:
                    yield place

        return places

    return unmarked


def _check_source(opened: Opened, name: str, split: str) -> None:
    """Refuse what is no KB of annotated documents, such as a file; and a split that it lacks."""
    if Path(name).exists() and name not in (info.name for info in opened.store.kbs()):
        raise UsageError(
            f"{name!r} is a file, and no name of a KB of annotated documents",
            hint=f"Add it first: `kglink add-kb NAME {shlex.quote(name)} --links-to KB`; its NAME "
            "is then what is learnt from.",
        )
    if split:
        check_documents(opened.store, [name], split)
    else:
        check_annotated(opened.store, name)


def fit_clusterer(
    opened: Opened,
    docs: str | Sequence[str],
    *,
    split: str = "",
    progress: OnProgress = lambda _: None,
) -> ClustererChoice:
    """Choose whether and how mentions of the same thing help each other, and keep that.

    It chooses the settings of the clusterer (of ``link.clusterer``, else ``kglink/mentions``) that
    answer most mentions of annotated documents right. They are kept only if they also help on
    documents that they were not chosen on. What memory has learnt from these does not count.
    """
    from kglink.linking.fit import FOLDS, MOST_MENTIONS, fold_of, judged_mentions

    names = named(docs)
    documents = [*chain.from_iterable(judged_documents(opened, names, split).values())]
    setup = replace(opened.link_setup(), link=without_auto(opened.settings.link))
    space, link = setup.space, setup.link
    with keeping(space.folder.path):
        pass  # what may not be written is told before the work
    alone = setup.changed(clusterer="")
    clustered = setup.changed(clusterer=link.clusterer or CLUSTERER)
    search = setup.search()
    judged = judged_mentions(documents, space.kbs(), MOST_MENTIONS)
    if not any(one.gold for one in judged):
        raise UsageError(
            "no mention of these documents has its answer in the space",
            hint="Give annotated documents that link to its KBs.",
        )
    known: list[KnownMention] = []
    for part in range(FOLDS):
        memory = opened.store.memory_without([one for one in documents if fold_of(one) == part])
        linker = alone.linker(search.with_memory(memory))
        own = [one for one in judged if one.fold == part]
        for one in _known(linker, own, max(link.top_k, link.reorder_top)):
            known.append(one)
            progress(Progress("mentions", len(known), len(judged)))
    helping = clustered.linker(search)

    def answer(ranking: Ranking) -> EntityId | None:
        chosen = helping.decided(ranking).chosen
        return chosen.id if chosen else None

    fingerprint = space.manifest.model.fingerprint
    choice = choose_settings(helping.stages[-1], known, answer, fingerprint, progress)
    write_choice(space.folder.path, choice)
    return choice


def kept_clusterer_choice(opened: Opened) -> ClustererChoice | None:
    """The choice of ``fit_clusterer`` for the clusterer of the settings, if any."""
    return clusterer_choice(opened.settings.link, opened.registry, opened.space().folder)


def _known(linker: Linker, judged: Sequence[JudgedMention], depth: int) -> Iterator[KnownMention]:
    """Mentions with the candidates that a clusterer is given."""
    for batch in whole_documents(judged, lambda one: one.mention.text):
        rankings = linker.described(linker.joint([one.mention for one in batch], limit=depth))
        for stage in linker.stages:
            rankings = stage.rank(rankings)
        for ranking, one in zip(rankings, batch, strict=True):
            yield KnownMention(ranking, one.gold, one.fold)


_WAIT_S = 30.0


class Correction(NamedTuple):
    """A person's correction of the place ``text[start:end]``."""

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
    learnt: bool = True,
) -> Correction:
    """Say what ``text[start:end]`` means: an entity, or None for nothing that a KB has.

    Without ``is_mention`` the place is no mention at all. It replaces corrections of overlapping
    places of the text. It also changes the answers to later texts; without ``learnt`` only to its
    own text until ``learn_corrections``, which is faster for many.

    >>> said = workspace.correct("An osprey fishes.", 3, 9, "birds:o")
    >>> said.surface, [one.id for one in workspace.corrections()] == [said.id]
    ('osprey', True)
    """
    said, _ = correct_and_tell(
        opened, text, start, end, entity, is_mention=is_mention, learnt=learnt
    )
    return said


def correct_and_tell(
    opened: Opened,
    text: str,
    start: int,
    end: int,
    entity: str | EntityId | None,
    *,
    is_mention: bool,
    learnt: bool,
) -> tuple[Correction, tuple[Correction, ...]]:
    """What is said now of a place, and what was said before of the places that it overlaps."""
    if not isinstance(text, str):
        message = f"a text is of the type {type(text).__name__}"
        raise UsageError(message, hint="Decode bytes, and read files.")
    counted = isinstance(start, Integral) and isinstance(end, Integral)
    if not (counted and 0 <= start < end <= len(text) and text[start:end].strip()):
        raise UsageError(
            f"{start} to {end} is no place in a text of {len(text):,} characters",
            hint="Places are half-open character offsets, and hold a word at least.",
        )
    if entity is not None and not is_mention:
        raise UsageError("a place that is no mention means no entity", hint="Say one of the two.")
    gold: tuple[EntityId, ...] | None = () if is_mention else None
    if entity is not None:
        gold = (entity_of(opened, entity, examples=0).id,)
    mention = Mention(
        int(start), int(end), text[start:end], gold, "" if is_mention else NOT_A_MENTION
    )
    key = text_digest(text)
    with _changing(opened):
        found = (one.mentions for one in corrected_documents(opened.store, key))
        before = list(chain.from_iterable(found))
        apart = [one for one in before if one.end <= start or end <= one.start]
        mentions = sorted([*apart, mention], key=lambda one: one.start)
        whole = Document(key, text, tuple(mentions))
        add_kb(opened, CORRECTIONS, [whole], merge=True)
        if learnt:
            learn_corrections(opened)
    replaced = tuple(_said(whole, one) for one in before if one not in apart)
    return _said(whole, mention), replaced


def corrections(opened: Opened) -> list[Correction]:
    """All corrections, by text, in the order of their places."""
    return [
        _said(one, mention) for one in corrected_documents(opened.store) for mention in one.mentions
    ]


def take_back(opened: Opened, correction: str, *, learnt: bool = True) -> Correction:
    """Take a correction back, by its id, and forget what was learnt from it.

    Without ``learnt`` it is forgotten by the next `learn_corrections`.

    >>> workspace.take_back(workspace.corrections()[0].id).surface
    'osprey'
    >>> workspace.corrections()
    []
    """
    with _changing(opened):
        said = {
            _said(one, mention).id: (one, mention)
            for one in corrected_documents(opened.store, str(correction).rsplit("-", 2)[0])
            for mention in one.mentions
        }
        if correction not in said:
            raise UnknownNameError(
                "correction", correction, None, hint="Perhaps it was taken back already."
            )
        changed, mention = said[correction]
        rest = tuple(one for one in changed.mentions if one != mention)
        if rest:
            add_kb(opened, CORRECTIONS, [replace(changed, mentions=rest)], merge=True)
        elif kept := [one for one in corrected_documents(opened.store) if one.id != changed.id]:
            add_kb(opened, CORRECTIONS, kept)
        else:
            remove_kb(opened, CORRECTIONS)
        if learnt:
            learn_corrections(opened)
    return _said(changed, mention)


def learn_corrections(opened: Opened) -> None:
    """Learn the corrections that are kept and not learnt yet, and forget them if all are gone."""
    learnt = {one.source: one.revision for one in opened.store.learnt()}
    # A KB whose first text is not whole has the revision 0.
    kept = {info.name: info.revision for info in opened.store.kbs()}.get(CORRECTIONS, 0)
    if kept and learnt.get(CORRECTIONS) != kept:
        learn(opened, CORRECTIONS)
    elif not kept and CORRECTIONS in learnt:
        forget(opened, CORRECTIONS)


@contextmanager
def _changing(opened: Opened) -> Iterator[None]:
    """Nobody else corrects meanwhile, in this process or another; linkers go on."""
    busy = KBBusyError("another correction is being learnt", hint="Try again.")
    lock = opened.folder / ".corrections.lock"
    with naming_missing_right(f"workspace {opened.folder}"), file_lock(lock, busy, wait=_WAIT_S):
        yield


def _said(document: Document, mention: Mention) -> Correction:
    gold = mention.gold[0] if mention.gold else None
    name = f"{document.id}-{mention.start}-{mention.end}"
    is_mention = mention.type != NOT_A_MENTION
    return Correction(name, document.text, mention.start, mention.end, gold, is_mention)
