"""What surfaces meant in annotated documents: counts by surface and entity.

Memory is counted anew from all of its sources whenever one comes or goes: which words are known,
and so which places of a text are no mention, depends on all of them. The order in which sources
were learnt changes nothing. Documents that are in two sources are counted once, for the first by
name. What was learnt from a source that the store has no longer stays as it was counted.

Memory names entities by KB and key, so it survives updates of a KB.
"""

from __future__ import annotations

import secrets
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain, groupby
from typing import Any, NamedTuple, Self

from sqlalchemy import Column, Select, delete, func, insert, select, update
from sqlalchemy.engine import Connection

from kglink.errors import UnknownNameError, UsageError
from kglink.files.digest import digest_of, text_hash
from kglink.records import (
    CORRECTIONS,
    NIL,
    NO_MENTION,
    Document,
    EntityId,
    Mention,
    OnProgress,
    Progress,
)
from kglink.store.database import NEVER_STORED, Database, chunks, pages
from kglink.store.document_reader import count_documents, learning_split, read_annotated
from kglink.store.kbs import kb_ids
from kglink.store.kinds import Kind, count_kinds, kind_of
from kglink.store.likeness import MOST_WORDS, Likeness, SourceWords, words_of
from kglink.store.occurrences import Agreement, Meaning, Occurrences
from kglink.store.schema import documents, memories, source_kinds, source_words, store_state
from kglink.store.schema import kbs as kbs_table
from kglink.store.schema import learnt as learnt_table
from kglink.store.values import json_of
from kglink.store.witnesses import Witnesses
from kglink.text.fold import fold
from kglink.text.name_words import name_key
from kglink.text.plain import read_plainly
from kglink.text.sentences import begins_sentence

_PAGE = 1000
#: A place that people corrected counts so many mentions: who corrects one means all like it.
CORRECTED = 10.0
_BATCH = 2000
_LOOKUP = 500
#: A source is judged by at least so many mentions whose words stand in several of its texts, and by
#: so many words. It is annotated at random where these hardly mean the same again: 0 is chance, 1
#: always.
_JUDGED_MENTIONS, _JUDGED_WORDS, _LEAST_AGREEING = 30, 10, 0.2
#: Less than the smallest part of a mention: what is left of sums that should be zero.
_NOTHING = 1e-6

m = memories.c
#: What a surface meant: the order in which meanings are read.
_PLACE = (m.key, m.folded, m.kb, m.entity)


class Learnt(NamedTuple):
    """A source that memory was learnt from."""

    source: str
    split: str
    """Empty: train, or all documents where there is no such split."""
    revision: int
    """Of the source, when it was counted."""
    surfaces: int
    """How many surfaces it tells; 0: it is annotated at random, and counts nothing."""

    @property
    def command(self) -> str:
        """The command that counts it anew."""
        return f"kglink learn {self.source}" + f" --split {self.split}" * bool(self.split)


#: The places of a document that look like mentions and are not annotated.
Places = Callable[[Document], Iterable[tuple[int, int]]]


#: Takes source, split and known meanings; returns a function that finds a document's `Places`.
#: None: the source is annotated in part.
Unmarked = Callable[[str, str | None, Callable[[], Iterator[Meaning]]], Places | None]


def is_random(agreement: Agreement) -> bool:
    """Whether equal words mean unrelated things in different texts of a source.

    It cannot be told where most mentions mean the same anyway, or have words that stand in one text
    alone: that "he" is somebody else in each text says nothing of names.
    """
    is_decided = (
        agreement.mentions >= max(_JUDGED_MENTIONS, agreement.all_mentions / 2)
        and agreement.words >= _JUDGED_WORDS
        and 2 * agreement.by_chance <= agreement.mentions
    )
    return is_decided and agreement.share < _LEAST_AGREEING


class _Source(NamedTuple):
    """A source as it is counted."""

    name: str
    asked: str
    """The split that was named."""
    split: str | None
    revision: int
    witnesses: Witnesses
    times: float
    """How many mentions each of its places counts."""


def meanings(
    text: str, mention: Mention, kbs: Collection[str] = (), times: float = 1.0
) -> Iterator[Meaning]:
    """What an annotated mention of a text says of its surface; the text is annotated with KBs.

    It counts as so many mentions.
    """
    place = mention.start, mention.end
    # Golds that an update took away may come back with the next one.
    meant = (*(mention.gold or ()), *mention.gone)
    if mention.gold is None and not meant:
        return
    golds = meant or (NIL,)
    in_kb = Counter(one.kb for one in golds)
    for one in golds:
        if one.kb or one == NIL:  # a gold that nobody found names no entity
            yield _meaning(text, place, one, times / in_kb[one.kb])
    for kb in kbs if meant else ():
        if kb not in in_kb:
            yield _meaning(text, place, EntityId(kb, ""), times)


def _meaning(text: str, place: tuple[int, int], entity: EntityId, times: float) -> Meaning:
    start, end = place
    surface = read_plainly(text[start:end]).text  # as it is looked for
    folded = fold(surface) or surface
    # The capital that begins a sentence says nothing, nor do those of a text in capitals.
    begins = begins_sentence(text, start)
    words = surface[:1].lower() + surface[1:] if begins else surface
    is_small = words.islower() or text.isupper()
    return Meaning(name_key(folded), folded, entity, times, surface, times * is_small)


class _SourcesOfMemory(NamedTuple):
    """What is known of all sources of memory, in one of its states."""

    state: str
    words: SourceWords
    kinds: Mapping[tuple[str, str], Sequence[Kind]]
    """By KB and kind."""


class MemoryTable:
    """The memory of a store, as a part of it."""

    _db: Database
    _sources: _SourcesOfMemory | None = None
    _texts: tuple[str, frozenset[int]] | None = None
    """A state of the memory, and hashes of the texts that it learnt from."""

    def learn(
        self,
        sources: Mapping[str, str],
        unmarked: Unmarked = lambda *_: None,
        *,
        forgotten: Collection[str] = (),
        progress: OnProgress = lambda _: None,
    ) -> None:
        """Remember what surfaces mean in the documents of some sources, each of one split.

        An empty split is train, or all where there is none. ``unmarked`` finds what looks like
        mentions and is none. ``forgotten`` are sources of memory that leave it. All others are
        counted anew: the order in which sources come and go changes nothing.
        """
        known = self.memory_sources()
        for source in forgotten:
            if source not in known:
                raise UnknownNameError("source of memory", source, known)
        while not self._learn(sources, unmarked, forgotten, progress):
            pass  # another process has changed the memory meanwhile

    def _learn(
        self,
        learnt: Mapping[str, str],
        unmarked: Unmarked,
        forgotten: Collection[str],
        progress: OnProgress,
    ) -> bool:
        state = self.memory_state()
        wanted = {one.source: one.split for one in self.learnt()} | dict(learnt)
        with Occurrences() as seen:
            with self._db.read() as connection:
                sources = _sources(connection, wanted, learnt, forgotten)
                names = [one.name for one in sources]
                kept = self._query().where(memories.c.source.not_in([*names, *forgotten]))

                def known() -> Iterator[Meaning]:
                    return chain(seen.known(), self._read(kept))

                words = self._count(connection, sources, seen, unmarked, known, progress)
            surfaces = seen.surfaces()
            at_random = {one.name for one in sources if one.name not in words}
            for number, one in enumerate(sources):
                is_counted = surfaces.get(number) or one.name in {CORRECTIONS, *at_random}
                if one.name in learnt and not is_counted:
                    raise UsageError(
                        f"{one.name!r} says of no mention what it means",
                        hint="Golds are found when documents are added: add the KBs first, name "
                        "them with --links-to, and say with --resolve how entities are named: "
                        "key, xref or title.",
                    )
            rows = (
                (
                    *(one.key, one.folded, *one.entity, names[number]),
                    *(one.times, one.surface, one.small),
                )
                for number, one in seen.summed()
            )
            with self._db.write() as connection:
                if connection.scalar(select(store_state.c.memory)) != state:
                    return False
                connection.execute(update(store_state).values(memory=secrets.token_hex(8)))
                for table in (memories, learnt_table, source_words, source_kinds):
                    gone = table.c.source.in_([*names, *forgotten])
                    connection.execute(delete(table).where(gone))
                for batch in chunks(rows, _BATCH):
                    self._db.bulk(connection, insert(memories), batch)
                facts = [
                    (one.name, one.asked, one.revision, surfaces.get(number, 0))
                    for number, one in enumerate(sources)
                ]
                self._db.bulk(connection, insert(learnt_table), facts)
                for name, counts in words.items():
                    frequent = sorted(counts, key=lambda word: (-counts[word], word))[:MOST_WORDS]
                    counted = [(name, word, counts[word]) for word in frequent]
                    self._db.bulk(connection, insert(source_words), counted)
                kinds = list(count_kinds(connection, names, CORRECTED))
                self._db.bulk(connection, insert(source_kinds), kinds)
        return True

    def _count(
        self,
        connection: Connection,
        sources: Sequence[_Source],
        seen: Occurrences,
        unmarked: Unmarked,
        known: Callable[[], Iterator[Meaning]],
        progress: OnProgress,
    ) -> dict[str, Counter[str]]:
        """Note what mentions mean, then which places that look like mentions are none.

        Returns how often each source uses words. What is annotated at random counts nothing, and
        is not among them.
        """
        words: dict[str, Counter[str]] = {one.name: Counter() for one in sources}
        for number, one in enumerate(sources):
            for done, (document, meant) in enumerate(
                read_annotated(connection, one.name, one.split), 1
            ):
                progress(Progress(f"reading {one.name}", done))
                words[one.name].update(words_of(document.text))
                text = text_hash(document.text)
                for mention, rows in zip(document.mentions, meant, strict=True):
                    lacking = one.witnesses.lacking(rows)
                    said = meanings(document.text, mention, lacking, one.times)
                    seen.add(number, text, (mention.start, mention.end), said)
        for number, agreement in seen.agreements().items():
            if is_random(agreement) and sources[number].name != CORRECTIONS:
                seen.leave_out(number)
                del words[sources[number].name]
        progress(Progress("reading the names of KBs"))
        for number, one in enumerate(sources):
            places = unmarked(one.name, one.split, known) if one.name in words else None
            if places is None:
                continue
            annotated = read_annotated(connection, one.name, one.split)
            for done, (document, _) in enumerate(annotated, 1):
                progress(Progress(f"counting {one.name}", done))
                text = text_hash(document.text)
                for place in places(document):
                    none = _meaning(document.text, place, NO_MENTION, one.times)
                    seen.add(number, text, place, [none])
        return words

    def learnt(self) -> list[Learnt]:
        """The sources that memory was learnt from, by their names."""
        query = select(learnt_table).order_by(learnt_table.c.source)
        return [Learnt(*row) for row in self._db.rows(query)]

    def memory_sources(self) -> dict[str, int]:
        """The sources that were learnt from, and how many surfaces each told."""
        return {one.source: one.surfaces for one in self.learnt()}

    def memory_kbs(self) -> dict[str, float]:
        """The KBs whose entities mentions meant, and how many did."""
        query = select(m.kb, func.sum(m.count)).where(m.kb != "", m.entity != "").group_by(m.kb)
        return {str(name): float(number) for name, number in self._db.rows(query)}

    def remembered_surfaces(self, most: int) -> list[tuple[str, str, str]]:
        """The surfaces that most often meant an entity: the key, the folded words, a spelling."""
        query = (
            select(m.key, m.folded, func.min(m.surface))
            .where(m.kb != "", m.entity != "")
            .group_by(m.key, m.folded)
            .order_by(func.sum(m.count).desc(), m.key, m.folded)
            .limit(most)
        )
        return [(str(key), str(folded), str(text)) for key, folded, text in self._db.rows(query)]

    def memory_state(self) -> str:
        """Another text after every change of the memory."""
        return str(self._db.rows(select(store_state.c.memory))[0][0])

    def likeness(self, texts: Iterable[str]) -> list[Likeness]:
        """For each text the weights of the sources of memory, by how like their documents are."""
        return list(map(self._sources_now().words.likeness, texts))

    def kinds(self, entities: Iterable[tuple[str, str]]) -> list[Sequence[Kind]]:
        """For entities, each by its KB and title, how often sources mark things of their kind."""
        kinds = self._sources_now().kinds
        return [kinds.get((kb, kind_of(title)), ()) for kb, title in entities]

    def _sources_now(self) -> _SourcesOfMemory:
        state = self.memory_state()
        if self._sources is None or self._sources.state != state:
            words: dict[str, dict[str, int]] = defaultdict(dict)
            for source, word, count in self._db.rows(select(source_words)):
                if source != CORRECTIONS:  # what people say of their own texts stands everywhere
                    words[source][word] = count
            kinds: dict[tuple[str, str], list[Kind]] = defaultdict(list)
            for source, kb, word, *counts in self._db.rows(select(source_kinds)):
                kinds[kb, word].append(Kind(source, *counts))
            compared = SourceWords(words if len(words) > 1 else {})
            self._sources = _SourcesOfMemory(state, compared, kinds)
        return self._sources

    def meanings(self, keys: Iterable[str]) -> Mapping[str, list[Meaning]]:
        """What surfaces with these keys (`kglink.text.name_words.name_key`) meant, by source."""
        wanted = sorted(key for key in set(keys) if not NEVER_STORED.search(key))
        found: dict[str, list[Meaning]] = defaultdict(list)
        for part in chunks(wanted, _LOOKUP):
            for one in self._read(self._query(m.source).where(m.key.in_(part)), m.source):
                found[one.key].append(one)
        return found

    def all_meanings(self) -> Iterator[Meaning]:
        """Everything that surfaces meant, in the order of the surfaces, a page at a time."""
        for page in pages(self._db, self._query(), _BATCH, *_PLACE):
            yield from map(_read_meaning, page)

    def memory_without(self, documents: Iterable[Document]) -> Self | PartOfMemory:
        """The memory without what documents say, as far as it was learnt from their texts."""
        texts = self._learnt_texts()
        learnt = [one for one in documents if text_hash(one.text) in texts]
        return PartOfMemory(self, learnt) if learnt else self

    def _learnt_texts(self) -> frozenset[int]:
        """The hashes of the texts that memory was learnt from."""
        state = self.memory_state()
        if self._texts is None or self._texts[0] != state:
            found: set[int] = set()
            d = documents.c
            with self._db.read() as connection:
                known = kb_ids(connection)
                for one in self.learnt():
                    if one.source not in known or not one.surfaces or one.source == CORRECTIONS:
                        continue
                    split = learning_split(connection, one.source, one.split)
                    chosen = [] if split is None else [d.split == split]
                    query = select(d.text).where(d.kb_id == known[one.source], *chosen)
                    rows = connection.execute(query.execution_options(yield_per=_PAGE))
                    found.update(text_hash(str(text)) for (text,) in rows)
            self._texts = state, frozenset(found)
        return self._texts[1]

    def _query(self, *source: Column[str]) -> Select[Any]:
        """Meanings: those of each source, or summed over all."""
        counts = func.sum(m.count), func.min(m.surface), func.sum(m.small)
        return select(*_PLACE, *counts, *source).group_by(*_PLACE, *source)

    def _read(self, query: Select[Any], *source: Column[str]) -> list[Meaning]:
        return list(map(_read_meaning, self._db.rows(query.order_by(*_PLACE, *source))))


def _read_meaning(row: Sequence[Any]) -> Meaning:
    key, folded, kb, entity, times, surface, small, *source = row
    return Meaning(key, folded, EntityId(kb, entity), times, surface, small, *source)


def _sources(
    connection: Connection,
    wanted: Mapping[str, str],
    learnt: Collection[str],
    forgotten: Collection[str],
) -> list[_Source]:
    """The sources that the store holds, in an order of their own.

    One that is not learnt now, and has lost its documents, stays as it was counted.
    """
    numbers = kb_ids(connection)
    k = kbs_table.c
    found = []
    for name in sorted(numbers.keys() & (wanted.keys() - set(forgotten))):
        query = select(k.revision, k.links_to).where(k.id == numbers[name])
        revision, links_to = connection.execute(query).one()
        linked = json_of(links_to, list, "kbs.links_to")
        witnesses = Witnesses.of(connection, numbers[name], linked)
        split = learning_split(connection, name, wanted[name])
        if name not in learnt and not count_documents(connection, name, split):
            continue
        times = CORRECTED if name == CORRECTIONS else 1.0
        found.append(_Source(name, wanted[name], split, revision, witnesses, times))
    return found


class PartOfMemory:
    """A memory without what some documents say."""

    def __init__(self, whole: MemoryTable, documents: Iterable[Document]) -> None:
        self._whole = whole
        self.likeness, self.kinds = whole.likeness, whole.kinds
        self.memory_sources = whole.memory_sources
        #: By surface and entity what the documents say, each for the source that it is most like:
        #: how often, and how often in small letters.
        self._less: dict[tuple[str, str, EntityId], dict[str, tuple[float, float]]] = {}
        kbs, known = whole.memory_kbs(), list(documents)
        likenesses = whole.likeness(document.text for document in known)
        for document, likeness in zip(known, likenesses, strict=True):
            source = max(likeness, key=lambda one: one[1])[0] if likeness else ""
            for mention in document.mentions:
                for one in meanings(document.text, mention, kbs):
                    less = self._less.setdefault(one[:3], {})
                    times, small = less.get(source, (0.0, 0.0))
                    less[source] = times + one.times, small + one.small

    def meanings(self, keys: Iterable[str]) -> Mapping[str, Sequence[Meaning]]:
        """What surfaces with these keys meant elsewhere."""
        found = self._whole.meanings(keys)
        return {key: list(self._elsewhere(meanings)) for key, meanings in found.items()}

    def all_meanings(self) -> Iterator[Meaning]:
        """Everything that was told elsewhere."""
        return self._elsewhere(self._whole.all_meanings())

    def memory_state(self) -> str:
        """Another text for every other part."""
        return digest_of([self._whole.memory_state(), repr(sorted(self._less.items()))])

    def _elsewhere(self, meanings: Iterable[Meaning]) -> Iterator[Meaning]:
        for what, group in groupby(meanings, key=lambda one: one[:3]):
            rows, less = list(group), self._less.get(what, {})
            often = _left(
                [(one.source, one.times) for one in rows], {k: n for k, (n, _) in less.items()}
            )
            small = _left(
                [(one.source, one.small) for one in rows], {k: n for k, (_, n) in less.items()}
            )
            for one, times, few in zip(rows, often, small, strict=True):
                if times > _NOTHING:
                    yield one._replace(times=times, small=min(few, times))


def _left(counts: Sequence[tuple[str, float]], less: Mapping[str, float]) -> list[float]:
    """What is left of the counts of some sources, each less its own and then the rest of any."""
    own = [min(count, less.get(source, 0.0)) for source, count in counts]
    rest = sum(less.values()) - sum(own)
    left = []
    for (_, count), taken in zip(counts, own, strict=True):
        more = min(rest, count - taken)
        rest -= more
        left.append(count - taken - more)
    return left
