"""A linker whose rankings are written down, and documents of one mention each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from kglink.linking.kinds import joint_ranking
from kglink.linking.pipeline import Linker
from kglink.linking.stages import Stage
from kglink.records import Candidate, Document, EntityId, Mention, MentionInText, Ranking

KBS = ("a", "b", "c")
#: The candidates of each surface in their order over all KBs.
RANKINGS: Mapping[str, Sequence[str]] = {
    "one": ("b:1", "c:1", "a:1"),
    "two": ("c:9", "a:2", "b:2"),
    "six": ("a:9", "b:9", "c:6"),
}
SAME = {"a:1": ("b:1",), "a:2": ("b:2", "d:2"), "c:6": ("a:9", "d:6"), "a:7": ("b:1",)}


class HandMade(Linker):
    """Ranks as it is told."""

    def __init__(
        self,
        rankings: Mapping[str, Sequence[str]] = RANKINGS,
        stages: Sequence[Stage] = (),
        kbs: Sequence[str] = KBS,
    ) -> None:
        self._rankings = rankings
        self.stages = tuple(stages)
        self._kbs = tuple(kbs)

    def leaves_out(self, entity: EntityId) -> bool:
        """None."""
        return False

    def joint(self, mentions: Sequence[MentionInText], *, limit: int) -> list[Ranking]:
        """The candidates of all KBs."""
        found = (self._of_kbs(one.surface, limit) for one in mentions)
        return [
            Ranking(one, tuple(joint_ranking(by_kb, self._kbs)))
            for one, by_kb in zip(mentions, found, strict=True)
        ]

    def described(self, rankings: Sequence[Ranking]) -> list[Ranking]:
        """As they are."""
        return list(rankings)

    def _of_kbs(self, surface: str, limit: int) -> dict[str, list[Candidate]]:
        by_kb: dict[str, list[Candidate]] = {kb: [] for kb in self._kbs}
        for place, one in enumerate(map(EntityId.parse, self._rankings[surface])):
            by_kb[one.kb].append(Candidate(one, surface, 1 - place / 100))
        return {kb: found[:limit] for kb, found in by_kb.items()}


def same(ids: Iterable[EntityId]) -> dict[EntityId, tuple[EntityId, ...]]:
    """The counterparts in `SAME`."""
    wanted = {str(name): name for name in ids}
    return {
        name: tuple(map(EntityId.parse, SAME[text]))
        for text, name in wanted.items()
        if text in SAME
    }


def document(surface: str, *gold: str, nil: bool = False) -> Document:
    """One mention, which is the whole text."""
    names = tuple(map(EntityId.parse, gold)) if gold or nil else None
    return Document(surface, surface, (Mention(0, len(surface), surface, names),))


DOCUMENTS = [
    document("one", "a:1"),
    document("two", "a:2", "c:2"),
    document("six", "c:6"),
    document("one", "d:1"),  # of a KB that is not ranked: not counted
    document("two", nil=True),
    document("two"),
]
