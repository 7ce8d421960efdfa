"""What an index is asked when it is measured: mentions of annotated documents, else rows."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from kglink.linking.reading import Reader
from kglink.records import MentionInText
from kglink.space.recall import IndexQueries, sample_rows, vectors_of

if TYPE_CHECKING:
    from kglink.space.manifest import RowKind
    from kglink.space.space import Space
    from kglink.store import Store

FloatArray = npt.NDArray[np.float32]

#: Mentions are drawn from so many times as many as are wanted.
_DRAWN_FROM = 20


def index_queries(store: Store, space: Space, reader: Reader, count: int) -> IndexQueries:
    """Mentions of the store's documents as linking would ask for them, where there are any.

    Rows of names are asked with the mentions' own words, rows of texts with the mentions in
    their texts. Without documents the queries are rows of the space, each without itself.
    """
    mentions = _mentions(store, count)
    if not mentions:
        rows = sample_rows(space, count)
        vectors = vectors_of(space, rows)
        what = "names" if space.has_rows("alias") else "texts"
        return IndexQueries(
            f"{what} of the space, drawn at random, each less itself",
            _of_rows(space, names=vectors, texts=vectors),
            own=rows,
        )
    surfaces = list(dict.fromkeys(mention.surface for mention in mentions))
    read = reader.read(surfaces, mentions, names=True, contexts=True, tokens=False)
    names = dict(zip(surfaces, read.names if read.names is not None else (), strict=True))
    texts = [
        names[mention.surface] if context is None else context
        for mention, context in zip(mentions, read.contexts, strict=True)
    ]
    return IndexQueries(
        "mentions of annotated documents, drawn at random",
        _of_rows(
            space,
            names=np.stack([names[one.surface] for one in mentions]),
            texts=np.stack(texts),
        ),
    )


def _of_rows(space: Space, *, names: FloatArray, texts: FloatArray) -> dict[RowKind, FloatArray]:
    """The queries of the kinds of rows that the space has."""
    kinds: dict[RowKind, FloatArray] = {"alias": names, "text": texts}
    return {kind: vectors for kind, vectors in kinds.items() if space.has_rows(kind)}


def _mentions(store: Store, count: int) -> Sequence[MentionInText]:
    """Mentions drawn from the first documents of every KB that has any."""
    kbs = [info.name for info in store.kbs() if info.mentions]
    if not kbs:
        return []
    each = max(1, _DRAWN_FROM * count // len(kbs))
    found = [mention for kb in kbs for mention in islice(_all_mentions(store, kb), each)]
    chosen = random.Random(0).sample(range(len(found)), min(count, len(found)))  # noqa: S311 - a sample, no secret
    return [found[at] for at in sorted(chosen)]


def _all_mentions(store: Store, kb: str) -> Iterator[MentionInText]:
    for document in store.documents(kb):
        for mention in document.mentions:
            yield MentionInText(document.text, mention.start, mention.end)
