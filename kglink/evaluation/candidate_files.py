"""Candidates of mentions in files: written, read back in their order, united, and judged.

A file is JSON lines, one for each mention: ``docs``, ``document``, ``start`` and ``end`` say which,
``mention`` is its surface, ``gold`` its answers (null: nobody said), ``candidates`` are the ids of
entities, best first, and ``scores`` theirs. The lists of ZESHEL (``tfidf_candidates/*.json``) are
read as well; which mention a line is of stands in the folder ``mentions`` beside theirs. So are
runs of TREC, ranked entities for each mention; qrels hold the golds.
"""

from __future__ import annotations

import json
import re
from array import array
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from math import isfinite, nan
from pathlib import Path
from sys import float_info
from typing import Any, Literal, NamedTuple
from urllib.parse import quote, unquote

from kglink.evaluation.annotated import united_mentions
from kglink.evaluation.comparison import read_lines, unreadable
from kglink.evaluation.predictions import MOST_NAMED, unknown_entities, unknown_kb
from kglink.evaluation.rankings import in_text
from kglink.linking.describe import described
from kglink.linking.pipeline import Linker, whole_documents
from kglink.linking.stages import Stage
from kglink.records import Candidate, Document, EntityId, Mention, MentionInText, Ranking
from kglink.sources import Problems, Source
from kglink.store import Store

RUN_HINT = (
    "A TREC run has six fields in a line, best first: docs/document/start-end Q0 kb:key RANK "
    "SCORE TAG, as `kglink candidates --format trec` writes them."
)
TAG = "kglink"
#: Stands in a run for the entities of a mention that has none, which a run cannot say otherwise.
NONE = "-"

_QUERY = re.compile(r"([^/\s]+)/([^/\s]*)/([0-9]{1,12})-([0-9]{1,12})")


class Place(NamedTuple):
    """Which mention it is; as text, a query."""

    docs: str
    document: str
    start: int
    end: int

    def __str__(self) -> str:
        names = "/".join(quote(name, safe="") for name in (self.docs, self.document))
        return f"{names}/{self.start}-{self.end}"

    @classmethod
    def of(cls, docs: str, document: Document, mention: Mention) -> Place:
        """The place of a mention of a document."""
        return cls(docs, document.id, mention.start, mention.end)

    @classmethod
    def parse(cls, text: str) -> Place | None:
        """Read a query; None where it is none."""
        found = _QUERY.fullmatch(text)
        if found is None:
            return None
        return cls(unquote(found[1]), unquote(found[2]), int(found[3]), int(found[4]))


def run_lines(place: Place, ids: Sequence[EntityId]) -> str:
    """The lines of one mention.

    Scores fall with the rank, so that tools which sort by score keep the order.
    """
    names = [_document(one) for one in ids] or [NONE]
    return "".join(
        f"{place} Q0 {name} {rank} {len(names) + 1 - rank} {TAG}\n"
        for rank, name in enumerate(names, 1)
    )


def qrels_lines(place: Place, gold: Collection[EntityId]) -> str:
    """The lines that say what is right for one mention."""
    return "".join(f"{place} 0 {_document(one)} 1\n" for one in sorted(gold))


def is_run(line: str) -> bool:
    """Whether a line is one of a run."""
    fields = line.split()
    return len(fields) == 6 and fields[1].upper() == "Q0"


def read_run(path: Path) -> Iterator[tuple[int, Place, list[EntityId], list[float]]]:
    """The first line's number, the mention, its entities and their scores, for each query.

    Entities are ordered by their scores, equal ones by rank. (trec_eval takes those by name.)
    """
    first: dict[Place, int] = {}
    found: dict[Place, list[tuple[float, int, EntityId | None]]] = {}
    with Source.open_path(path) as source:
        for line in source.lines(Problems("stop")):
            if line.text.strip():
                place, ranked = _run_line(path, line.number, line.text)
                first.setdefault(place, line.number)
                found.setdefault(place, []).append(ranked)
    for place, lines in found.items():
        lines.sort(key=lambda one: one[:2])
        some = [(entity, -score) for score, _, entity in lines if entity is not None]
        yield first[place], place, [entity for entity, _ in some], [score for _, score in some]


def _document(entity: EntityId) -> str:
    return f"{quote(entity.kb, safe='')}:{quote(entity.key, safe='')}"


def _run_line(
    path: Path, number: int, text: str
) -> tuple[Place, tuple[float, int, EntityId | None]]:
    """The mention of a line; less its score, the rank, and the entity: None where it has none."""
    if not is_run(text):
        why = f"is no line of a TREC run: {text.strip()[:80]!r}"
        raise unreadable(path, f"line {number} {why}", RUN_HINT)
    query, _, name, rank, score, _ = text.split()
    place = Place.parse(query)
    kb, colon, key = name.partition(":")
    try:
        value = float(score)
    except ValueError:
        value = nan
    why = ""
    if place is None:
        why = f"the query {query[:80]!r}, which names no mention"
    elif not isfinite(value) or not re.fullmatch("[0-9]{1,9}", rank):
        why = f"the rank {rank[:80]!r} and the score {score[:80]!r}"
    elif not (colon and key) and name != NONE:
        why = f"the document {name[:80]!r}, which is no entity"
    if place is None or why:
        raise unreadable(path, f"line {number} has {why}", RUN_HINT)
    entity = EntityId(unquote(kb), unquote(key)) if colon else None
    return place, (-value, int(rank), entity)


HINT = (
    "A line for each mention, as `kglink candidates` writes them: "
    '{"docs", "document", "start", "end", "candidates": ["kb:key"]}; or a file of ZESHEL\'s folder '
    "tfidf_candidates."
)
ZESHEL_LIST = "tfidf_candidates"
Kind = Literal["candidates", "run", "zeshel"]


class Listed(NamedTuple):
    """The candidates of a mention, best first; no scores where the file has none."""

    ids: tuple[EntityId, ...]
    scores: Sequence[float] = ()

    def with_gold(
        self, gold: Collection[EntityId], kbs: Sequence[str], *, in_place: bool
    ) -> Listed:
        """The list with a right entity in each KB that has one (oracle Self of ArboEL).

        Where none was found it takes the place of the KB's last candidate, or is added behind.
        """
        ids, scores = list(self.ids), [*self.scores]
        for kb in kbs:
            right = sorted(one for one in gold if one.kb == kb)
            if not right or any(one in ids for one in right):
                continue
            places = [at for at, one in enumerate(ids) if one.kb == kb] if in_place else []
            if places:
                ids[places[-1]] = right[0]
            else:
                ids.append(right[0])
                if scores:
                    scores.append(scores[-1])
        return Listed(tuple(ids), tuple(scores))


def united(lists: Sequence[Listed]) -> Listed:
    """Several lists as one (oracle Union of ArboEL): by the best rank, then in their order."""
    best: dict[EntityId, int] = {}
    for one in lists:
        for rank, entity in enumerate(one.ids):
            best[entity] = min(rank, best.get(entity, rank))
    order = list(best)  # those of earlier lists come first where ranks are equal
    return Listed(tuple(sorted(order, key=best.__getitem__)))


# ------------------------------------------------------------------------------------ writing
class Found(NamedTuple):
    """A mention of a document, and its candidates."""

    place: Place
    mention: Mention
    listed: Listed


def judged_places(
    documents: Mapping[str, Iterable[Document]], kbs: Collection[str]
) -> Iterator[tuple[Place, Document, Mention]]:
    """The mentions that an evaluation judges: those with gold in some KBs."""
    for docs, some in documents.items():
        for document in some:
            for one in united_mentions(document):
                if any(gold.kb in kbs for gold in one.gold or ()):
                    yield Place.of(docs, document, one), document, one


def listed_by(
    linker: Linker, documents: Mapping[str, Iterable[Document]], kbs: Collection[str], k: int
) -> Iterator[Found]:
    """The ``k`` best candidates of each KB for every judged mention, all KBs in one list."""
    judged = ((document, one, place) for place, document, one in judged_places(documents, kbs))
    for batch in whole_documents(judged, lambda one: id(one[0])):
        lists = linker.joint([in_text(document, one) for document, one, _ in batch], limit=k)
        for (_, one, place), found in zip(batch, lists, strict=True):
            ids = tuple(candidate.id for candidate in found.candidates)
            scores = tuple(round(candidate.score, 5) for candidate in found.candidates)
            yield Found(place, one, Listed(ids, scores))


def line_of(found: Found) -> str:
    """The line of one mention."""
    place, mention, listed = found
    gold = None if mention.gold is None else [str(one) for one in mention.gold]
    record: dict[str, object] = {
        **place._asdict(),
        "mention": mention.surface,
        "gold": gold,
        "candidates": [str(one) for one in listed.ids],
    }
    if listed.scores:
        record["scores"] = list(listed.scores)
    return json.dumps(record, ensure_ascii=False) + "\n"


# ------------------------------------------------------------------------------------ reading
def read_candidates(
    path: Path, documents: Mapping[str, Sequence[Document]], kbs: Collection[str], store: Store
) -> dict[Place, Listed]:
    """The lists of a file, by mention.

    ``documents`` are those of some ``docs``; lines of other ``docs`` are passed over. Every mention
    with gold in ``kbs`` has a line; candidates may be all entities of the store, and no others.
    """
    known = [info.name for info in store.kbs() if info.entities]
    once: dict[EntityId, EntityId] = {}  # each id once, however often it is listed
    lists: dict[Place, Listed] = {}
    wanted = {
        Place.of(docs, document, one): one.surface
        for docs, some in documents.items()
        for document in some
        for one in document.mentions
    }
    for number, place, ids, scores, said in _lines(path, documents):
        if place.docs not in documents:
            continue
        if place not in wanted:
            where = f"{place.start}-{place.end} of the document {place.document!r}"
            raise unreadable(
                path,
                f"line {number}: {place.docs!r} has no mention at {where} in this split",
                'Name the split that the file was written for with --split ("": all), or write it '
                "again: the documents may have changed.",
            )
        if said not in ("", wanted[place]):
            raise unreadable(
                path,
                f"line {number}: the mention is {said!r}, and {wanted[place]!r} stands there",
                "Write the file again (`kglink candidates`): the documents may have changed.",
            )
        if place in lists:
            raise unreadable(path, f"line {number}: the mention stands there twice", HINT)
        if other := next((one for one in ids if one.kb not in known), None):
            raise unknown_kb(f"{path}, line {number}", other, known)
        if len(set(ids)) < len(ids):
            ((twice, _),) = Counter(ids).most_common(1)
            why = f"the mention of line {number} has the candidate {str(twice)!r} twice"
            raise unreadable(path, why, "Leave out all but the first, as `kglink candidates` does.")
        lists[place] = Listed(tuple(once.setdefault(one, one) for one in ids), array("d", scores))
    judged = [place for place, _, _ in judged_places(documents, kbs)]
    if missing := sorted(place for place in judged if place not in lists):
        first = missing[:MOST_NAMED]
        named = ", ".join(f"{one.docs} {one.document!r} {one.start}-{one.end}" for one in first)
        more = ", ..." * (len(missing) > MOST_NAMED)
        raise unreadable(
            path,
            f"{len(missing):,} of {len(judged):,} mentions have no line: {named}{more}",
            "A mention without candidates has a line with none. `kglink candidates` writes a line "
            "for every mention with gold in the KBs.",
        )
    if gone := once.keys() - store.existing(once.keys()):
        raise unknown_entities(str(path), gone)
    return lists


def _lines(
    path: Path, documents: Mapping[str, Sequence[Document]]
) -> Iterator[tuple[int, Place, list[EntityId], Sequence[float], str]]:
    """The number of each line, its mention, and its candidates with their scores.

    The last item is the mention's words, or an empty text where the line has none.
    """
    kind = kind_of(path)
    if kind == "run":
        for one in read_run(path):
            yield *one, ""
        return
    if kind is None:
        raise unreadable(path, "it holds no rankings of given mentions", HINT)
    places = _zeshel_places(path, documents) if kind == "zeshel" else None
    for number, record in read_lines(path, HINT):
        if places is None:
            for name in Place._fields:
                if not isinstance(record.get(name), int if name in ("start", "end") else str):
                    raise unreadable(path, f"line {number} has no {name}", HINT)
            place = Place(*(record[name] for name in Place._fields))
            names = _named(path, number, record, "candidates")
            if bad := next((one for one in names if not all(EntityId.parse(one))), None):
                raise unreadable(path, f"line {number}: {bad!r} is no entity", HINT)
            ids = list(map(EntityId.parse, names))
            words = record.get("mention")
            said = words if isinstance(words, str) else ""
            yield number, place, ids, _scores(path, number, record, len(ids)), said
        elif listed := places.get(str(record.get("mention_id"))):
            # a world is a KB, and its lists stay in it
            keys = _named(path, number, record, ZESHEL_LIST)
            yield number, listed, [EntityId(listed.docs, one) for one in keys], (), ""


def _named(path: Path, number: int, record: Mapping[str, Any], name: str) -> list[str]:
    given = record.get(name)
    if not isinstance(given, list) or not all(isinstance(one, str) for one in given):
        raise unreadable(path, f"line {number} has no list of candidates", HINT)
    return given


def _scores(path: Path, number: int, record: Mapping[str, Any], count: int) -> Sequence[float]:
    scores = record.get("scores") or ()
    numbers = isinstance(scores, list | tuple) and all(
        type(one) in (int, float) and abs(one) <= float_info.max for one in scores
    )
    if not numbers:
        raise unreadable(path, f"line {number} has scores that are no numbers", HINT)
    if scores and len(scores) != count:
        why = f"line {number} has {count} candidates and {len(scores)} scores"
        raise unreadable(path, why, HINT)
    if any(before < after for before, after in pairwise(scores)):
        why = f"line {number}: candidates stand best first, and their scores rise"
        raise unreadable(
            path,
            why,
            "Order them by their scores, as `kglink candidates` does, or leave the scores out.",
        )
    return scores


def kind_of(path: Path) -> Kind | None:
    """Which rankings a file holds, by its first line of content; None: it holds none."""
    with Source.open_path(path) as source:
        if source.is_folder:
            return None
        lines = (line.text.strip() for line in source.lines(Problems("stop")))
        first = next((line for line in lines if line and not line.startswith("#")), "")
    if is_run(first):
        return "run"
    try:
        record = json.loads(first)
    except (ValueError, RecursionError):
        return None
    if not isinstance(record, dict):
        return None
    if ZESHEL_LIST in record:
        return "zeshel"
    is_ranking = "candidates" in record or record.keys() >= set(Place._fields)
    return "candidates" if is_ranking else None


def _zeshel_places(path: Path, documents: Mapping[str, Sequence[Document]]) -> dict[str, Place]:
    """By the ids of ZESHEL the mentions of documents that were read from its release."""
    mentions = path.parent.parent / "mentions" / path.name
    if not mentions.is_file():
        raise unreadable(
            path,
            f"{mentions} is not there, which says what mentions its lines are of",
            "Leave the file in its place in ZESHEL's folder.",
        )
    stem = path.name.split(".")[0]
    words: dict[tuple[object, ...], Place] = {}  # by the numbers of the first and the last word
    for docs, some in documents.items():
        for document in some:
            for one in document.mentions:
                first = len(document.text[: one.start].split())
                last = first + len(document.text[one.start : one.end].split()) - 1
                words[document.id, first, last] = Place.of(docs, document, one)
    places: dict[str, Place] = {}
    for _, record in read_lines(mentions, HINT):
        id_ = f"{stem}/{record.get('context_document_id')}"
        place = words.get((id_, record.get("start_index"), record.get("end_index")))
        if place is not None:
            places[str(record.get("mention_id"))] = place
    return places


# ------------------------------------------------------------------------------------ judging
class ListedRanker:
    """Ranks the mentions of some documents as a file lists their candidates.

    Stages order these anew.
    """

    def __init__(
        self,
        lists: Mapping[Place, Listed],
        documents: Mapping[str, Iterable[Document]],
        store: Store,
        stages: Iterable[Stage],
    ) -> None:
        self.stages = tuple(stages)
        self._store = store
        self._listed = {
            in_text(document, one): lists[place]
            for docs, some in documents.items()
            for document in some
            for one in document.mentions
            if (place := Place.of(docs, document, one)) in lists
        }

    @property
    def depth(self) -> int:
        """How many candidates the longest list has."""
        return max((len(one.ids) for one in self._listed.values()), default=0)

    @property
    def stage_depth(self) -> int:
        """How many first candidates the stages order anew; 0 without stages."""
        return max((stage.depth for stage in self.stages), default=0)

    def leaves_out(self, entity: EntityId) -> bool:
        """Whether an entity cannot be an answer: a file limits nothing."""
        return False

    def joint(self, mentions: Sequence[MentionInText], *, limit: int) -> list[Ranking]:
        """The candidates of each mention in the order of the file, ``limit`` of each KB at most."""
        found: list[Ranking] = []
        for mention in mentions:
            chosen: list[Candidate] = []
            listed, counts = self._listed[mention], Counter[str]()
            for at, one in enumerate(listed.ids):
                counts[one.kb] += 1
                if counts[one.kb] <= limit:
                    # Where there are no scores, the rank stands for one.
                    score = listed.scores[at] if listed.scores else 1 / (at + 1)
                    chosen.append(Candidate(one, "", score))
            found.append(Ranking(mention, tuple(chosen)))
        return found

    def described(self, rankings: Sequence[Ranking]) -> list[Ranking]:
        """The rankings with what the store says of their first candidates."""
        return described(self._store, rankings, self.stage_depth)
