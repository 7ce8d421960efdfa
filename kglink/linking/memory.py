"""What memory says of surfaces: of their own words, and of words like them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cache
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

from kglink.linking.names import Surface
from kglink.records import CORRECTIONS, NIL, EntityId
from kglink.space.remembered import LikeSurface, RememberedVectors
from kglink.space.segment import Segment

if TYPE_CHECKING:
    from kglink.store.kinds import Kind
    from kglink.store.likeness import Likeness
    from kglink.store.occurrences import Meaning

#: Uses of a name that make memory half believed, for each further thing the name may mean.
_DOUBT = 20
#: Weight of meanings seen with capitals, for a surface in small letters in a text with
#: capitals: "cormorant" is seldom the ship of that name.
_CAPITAL_AS_SMALL = 0.25


class Memory(Protocol):
    """What surfaces meant in annotated documents."""

    def likeness(self, texts: Iterable[str]) -> Sequence[Likeness]:
        """For each text the weights of the sources."""
        ...

    def kinds(self, entities: Iterable[tuple[str, str]]) -> Sequence[Sequence[Kind]]:
        """For entities, each by its KB and title, how often things of their kind are marked."""
        ...

    def meanings(self, keys: Iterable[str]) -> Mapping[str, Sequence[Meaning]]:
        """All meanings of surfaces, by one key for all inflections of a surface."""
        ...


class Weighed(NamedTuple):
    """A surface meant an entity so often, as a text weighs the sources that say so."""

    folded: str
    entity: EntityId
    times: float


def weighed(
    meanings: Sequence[Meaning], likeness: Likeness, *, is_small: bool = False
) -> list[Weighed]:
    """The meanings of one surface for a text; ``is_small``: it stands there in small letters.

    What a person corrected counts however it is written.

    The most alike of the sources that know the surface counts as it is, and the others count as
    much less as they are less alike: a foreign source speaks where no other does.
    """
    weights = dict(likeness)
    most = max((weights.get(one.source, 1.0) for one in meanings), default=0.0)
    summed: dict[tuple[str, EntityId], float] = {}
    for one in meanings:
        share = weights.get(one.source, 1.0) / most if most else 1.0
        what = one.folded, one.entity
        times = one.times
        if is_small and one.source != CORRECTIONS:
            times = one.small + _CAPITAL_AS_SMALL * (one.times - one.small)
        summed[what] = summed.get(what, 0.0) + times * share
    return [Weighed(*what, times) for what, times in summed.items() if times]


def remembered(meanings: Sequence[Weighed], folded: str, kb: str) -> dict[str, float]:
    """For each entity of a KB, by its key, how sure memory is that a surface means it, 0 to 1.

    The empty key is NIL.

    The share of its mentions that meant the entity, of those in documents that are annotated with
    this KB: what meant something in another KB alone speaks against all of this one. One mention
    more is added that meant what all inflections of the surface meant, and to these one that meant
    nothing. So a surface that was seen once is half sure, and one that was never seen as it is
    written learns from its plural.
    """
    own = [one for one in meanings if one.entity.kb == kb or one.entity == NIL]
    same = [one for one in own if one.folded == folded]
    all_forms = 1 + sum(one.times for one in own)
    this_form = 1 + sum(one.times for one in same)
    sure: dict[str, float] = {}
    for one in own:
        sure[one.entity.key] = sure.get(one.entity.key, 0) + one.times / all_forms / this_form
    for one in same:
        sure[one.entity.key] += one.times / this_form
    return sure


class Said(NamedTuple):
    """What memory says of a mention in one KB: by rows of its segment how sure it is."""

    own: dict[int, float]
    """What the mention's words meant."""
    like: dict[int, float]
    """What words like them meant, times how like they are, and how far such words are trusted."""
    nil: float
    """How sure it is that the words mean nothing in the KB."""


class Recalled:
    """What memory knows of the surfaces of a batch."""

    def __init__(
        self,
        meanings: Mapping[str, Sequence[Meaning]] | None = None,
        like: Mapping[str, Sequence[LikeSurface]] | None = None,
        trust_in_like: float = 1.0,
    ) -> None:
        self._meanings = meanings or {}
        self._like = like or {}
        self._trust_in_like = trust_in_like
        self._weighed = cache(
            lambda key, of, is_small: weighed(self._meanings.get(key, ()), of, is_small=is_small)
        )

    @classmethod
    def of(
        cls, memory: Memory, vectors: RememberedVectors | None, surfaces: Collection[Surface]
    ) -> Recalled:
        """All that memory knows of some surfaces; without vectors of their own words alone."""
        like: dict[str, Sequence[LikeSurface]] = {}
        read = [one for one in surfaces if one.vector is not None]
        if vectors is not None and read:
            queries = np.stack([one.vector for one in read if one.vector is not None])
            found = vectors.like([one.key for one in read], queries)
            like = {one.text: near for one, near in zip(read, found, strict=True)}
        keys = {one.key for one in surfaces}
        keys.update(one.remembered.key for near in like.values() for one in near)
        return cls(memory.meanings(keys), like, vectors.trust if vectors else 1.0)

    def said(
        self, surfaces: Iterable[Surface], segment: Segment, likeness: Likeness, *, cased: bool
    ) -> Said:
        """What it says in a KB of a mention: of its words, and of what they are short for.

        ``cased``: the mention's text has capitals.
        """
        said = Said({}, {}, 0.0)
        for surface in surfaces:
            is_small = cased and surface.text.islower()
            meant = self._weighed(surface.key, likeness, is_small)
            own = remembered(meant, surface.folded, segment.kb)
            _keep_best(said.own, own, segment, 1.0)
            said = said._replace(nil=max(said.nil, own.get("", 0.0)))
            for one in self._like.get(surface.text, ()):
                near = one.remembered
                meant = self._weighed(near.key, likeness, is_small)
                meanings = remembered(meant, near.folded, segment.kb)
                _keep_best(said.like, meanings, segment, one.cosine * self._trust_in_like)
        return said

    def is_corrected_to_nil(self, surfaces: Iterable[Surface]) -> bool:
        """Whether people said of one of some surfaces that it means nothing."""
        keys = {one.key for one in surfaces}
        meanings = chain.from_iterable(self._meanings.get(key, ()) for key in keys)
        return any(one.source == CORRECTIONS and one.entity == NIL for one in meanings)

    def trust(self, surfaces: Iterable[Surface], meant: int, likeness: Likeness) -> float:
        """Trust in memory, from 0 to 1, for a name that may mean ``meant`` things.

        It rises with the uses of the name's best-known form, and falls with ``meant``.
        """
        keys = {one.key for one in surfaces}
        uses = max(
            (sum(one.times for one in self._weighed(key, likeness, False)) for key in keys),
            default=0.0,
        )
        return uses / (uses + _DOUBT * (meant - 1)) if uses else float(meant == 1)


def _keep_best(
    best: dict[int, float], meanings: Mapping[str, float], segment: Segment, share: float
) -> None:
    for key, value in meanings.items():
        row = segment.row(key) if key else -1
        if row >= 0:
            best[row] = max(best.get(row, 0.0), value * share)
