"""What the texts of a KB's entities say of a mention in its text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
import numpy.typing as npt

from kglink.errors import DamagedSpaceError
from kglink.linking.measure import Measure, widened
from kglink.space.segment import Segment
from kglink.space.space import Space

if TYPE_CHECKING:
    from kglink.models.runtime import TokenMatrices
    from kglink.space.token_rows import TokenRows
    from kglink.space.token_search import TokenSearch

#: The search in the token matrices of a KB.
TokenSearchOf = Callable[["TokenRows"], "TokenSearch"]

FloatArray = npt.NDArray[np.float32]
IntArray = npt.NDArray[np.int64]


class Contexts(Protocol):
    """A batch of mentions in their texts, compared with the texts of entities."""

    def near(self, kb: str, k: int) -> list[IntArray]:
        """For each mention the entities of one KB that are nearest."""
        ...

    def scores(self, mention: int, entities: IntArray, segment: Segment) -> FloatArray | None:
        """How near some entities are; None of a mention without any text but itself."""
        ...


@dataclass(frozen=True, slots=True)
class PooledContexts:
    """One vector for each mention and each entity."""

    space: Space
    measure: Measure
    vectors: Sequence[FloatArray | None]
    instead: Sequence[FloatArray | None]
    """What looks for entities where a mention has no text but itself: its name."""

    def near(self, kb: str, k: int) -> list[IntArray]:
        """For each mention the entities of one KB that are nearest."""
        queries = [
            own if own is not None else other
            for own, other in zip(self.vectors, self.instead, strict=True)
        ]
        asked = [at for at, query in enumerate(queries) if query is not None]
        found = [np.empty(0, dtype=np.int64)] * len(queries)
        if asked:
            wanted = min(k, self.space.segments[kb].row_count("text"))
            stacked = np.stack([query for query in queries if query is not None])
            _, hits = self.space.nearest(stacked, kb, "text", wanted)
            for at, rows in zip(asked, hits, strict=True):
                found[at] = rows[rows >= 0]
        return found

    def scores(self, mention: int, entities: IntArray, segment: Segment) -> FloatArray | None:
        """How near some entities are."""
        vector = self.vectors[mention]
        if vector is None:
            return None
        products = segment.vectors("text", entities) @ vector
        return self.measure.evidence(products, vector, "text")


@dataclass(frozen=True, slots=True)
class TokenContexts:
    """The vectors of all tokens of each mention and each entity, as the model's scorer has them."""

    space: Space
    measure: Measure
    matrices: TokenMatrices
    search: TokenSearchOf

    def near(self, kb: str, k: int) -> list[IntArray]:
        """For each mention the entities of one KB that are nearest."""
        tokens = tokens_of(self.space.segments[kb])
        _, hits = self.search(tokens).search(self.matrices, min(k, len(tokens)))
        return [rows[rows >= 0] for rows in hits]

    def scores(self, mention: int, entities: IntArray, segment: Segment) -> FloatArray | None:
        """How near some entities are: the mean, over a mention's tokens, of their best products."""
        start, stop = self.matrices.offsets[mention : mention + 2]
        search = self.search(tokens_of(segment))
        sums = search.scores(self.matrices, mention, entities)
        query = widened(self.matrices.bits[start:stop])
        return self.measure.token_evidence(sums, query, cosine=search.cosine)


def tokens_of(segment: Segment) -> TokenRows:
    """The token matrices of a segment, which one of a model that compares tokens has."""
    if segment.tokens is None:
        raise DamagedSpaceError(f"{segment.folder}: has no token matrices")
    return segment.tokens
