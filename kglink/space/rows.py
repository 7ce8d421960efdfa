"""The rows of a segment: what each of them stands for, and how it becomes a vector.

A plain encoder reads an entity as one text. A trained one has a tower for entities, which is
given the entity itself; a name is then an entity of which nothing else is known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar, runtime_checkable

import numpy as np
import numpy.typing as npt

from kglink.files.digest import text_hash
from kglink.records import Entity
from kglink.text.entity_text import entity_text

if TYPE_CHECKING:
    from kglink.models.runtime import TokenMatrices

FloatArray = npt.NDArray[np.float32]
Item = TypeVar("Item")


class TextEncoder(Protocol):
    """What a segment needs of an encoder."""

    @property
    def truncated(self) -> int:
        """How many texts, so far, were longer than the model reads."""
        ...

    def encode(self, texts: list[str]) -> FloatArray:
        """One vector for each text."""
        ...


@runtime_checkable
class EntityEncoder(Protocol):
    """What a trained encoder has beside it."""

    def entity_text(self, entity: Entity) -> str:
        """All that it is told of an entity."""
        ...

    def encode_entities(self, entities: Sequence[Entity]) -> FloatArray:
        """One vector for each entity."""
        ...

    @property
    def has_tokens(self) -> bool:
        """Whether it compares all tokens, and not just one vector of each text."""
        ...

    def entity_matrices(self, entities: Sequence[Entity]) -> TokenMatrices:
        """The vectors of all tokens of each entity."""
        ...


@dataclass(frozen=True, slots=True)
class Rows(Generic[Item]):
    """The rows of one kind, in their order."""

    items: Iterator[Item]
    read: Callable[[Item], str]
    """What the encoder reads of a row: rows that read the same have the same vector."""
    encode: Callable[[list[Item]], FloatArray]

    def hashes(self, items: Sequence[Item]) -> npt.NDArray[np.uint64]:
        """What stands for each row's vector."""
        return np.fromiter((text_hash(self.read(item)) for item in items), np.uint64, len(items))


def name_rows(names: Iterable[str], encoder: TextEncoder) -> Rows[str]:
    """A row for each name."""
    return Rows(iter(names), str, encoder.encode)


def entity_rows(
    entities: Iterable[Entity], encoder: TextEncoder, description_chars: int
) -> Rows[Entity] | Rows[str]:
    """A row for each entity."""
    if isinstance(encoder, EntityEncoder):
        return Rows(iter(entities), encoder.entity_text, encoder.encode_entities)
    texts = (entity_text(entity, description_chars=description_chars) for entity in entities)
    return Rows(texts, str, encoder.encode)
