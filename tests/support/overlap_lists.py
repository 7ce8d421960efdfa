"""What the tests of lists of overlaps share: ids, pairs, rows of SSSOM, and lists as texts."""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping

from kglink.overlap.exchange.lists import PairList
from kglink.overlap.exchange.matching import MatchedList
from kglink.overlap.exchange.write import SetInfo, write_sssom
from kglink.records import Entity, EntityId, Overlap, Verdict
from kglink.sources import Source

ABOUT = SetInfo(("doid", "wiki"), "2026-11-21", "0.1.0", author="Ada | Lovelace")
HEAD = "subject_id\tpredicate_id\tpredicate_modifier\tobject_id\tmapping_justification\tconfidence"


class Entities:
    """Entities in memory as a store gives them."""

    def __init__(self, entities: Mapping[EntityId, Entity]) -> None:
        self._entities = entities

    def get_entities(self, ids: Iterable[EntityId]) -> dict[EntityId, Entity]:
        return {name: self._entities[name] for name in ids if name in self._entities}


def name(text: str) -> EntityId:
    return EntityId.parse(text)


def known(*ids: str) -> Entities:
    return Entities({name(one): Entity(name(one).key, f"Title of {one}") for one in ids})


def pair(left: str, right: str, probability: float = 0.9, **evidence: float) -> Overlap:
    return Overlap(name(left), name(right), probability, evidence or {"name": 1.0})


def listed(text: str, file: str = "list.tsv", least: float = 0.0) -> PairList:
    return PairList(Source.from_bytes(text.encode(), name=file), least)


def sssom(*rows: str, head: str = "") -> str:
    return head + HEAD + "\n" + "".join(row + "\n" for row in rows)


def row(
    left: str,
    right: str,
    predicate: str = "skos:exactMatch",
    modifier: str = "",
    justification: str = "",
    confidence: str = "",
) -> str:
    return "\t".join((left, predicate, modifier, right, justification, confidence))


def written(overlaps: list[Overlap], store: Entities, about: SetInfo = ABOUT) -> str:
    out = io.StringIO()
    assert write_sssom(overlaps, store.get_entities, out, about) == len(overlaps)
    return out.getvalue()


def matched(
    correct: Iterable[tuple[str, str]], wrong: Iterable[tuple[str, str]] = ()
) -> MatchedList:
    verdicts: dict[tuple[EntityId, EntityId], Verdict] = {}
    for said, pairs in (("correct", correct), ("wrong", wrong)):
        for left, right in pairs:
            verdicts[name(f"a:{left}"), name(f"b:{right}")] = said  # type: ignore[assignment]  # one of two
    return MatchedList("a", "b", verdicts)
