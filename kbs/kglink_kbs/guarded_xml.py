"""XML from strangers, read piece by piece: it can declare no entities, and cannot be made slow."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, BinaryIO

from kglink.errors import SourceError

if TYPE_CHECKING:
    from pyexpat import XMLParserType

_PIECE = 2**20
#: The XML library reads a tag from its beginning again with every piece that it goes on in...
_LONGEST_TAG = 8 * 2**20
#: ...and keeps every name that it has seen.
_MOST_NAMES = 10_000
#: A longer address of names would be kept once for each of them.
_LONGEST_NAMESPACE = 1000
#: Nothing that we read is nested as deeply.
MOST_DEPTH = 1000


def parse_pieces(
    parser: XMLParserType, stream: BinaryIO, refuse: Callable[[str], SourceError]
) -> Iterator[None]:
    """Parse a stream, with a stop after each piece; ``refuse`` makes the error of a reason."""
    size = 0
    while piece := stream.read(_PIECE):
        parser.Parse(piece)
        size += len(piece)
        if size - parser.CurrentByteIndex > _LONGEST_TAG:
            raise refuse("holds a tag or comment without end")
        if len(parser.intern) > _MOST_NAMES:
            raise refuse(f"holds more than {_MOST_NAMES:,} names")
        yield
    parser.Parse(b"", True)
    yield


def refuse_long_namespaces(parser: XMLParserType, refuse: Callable[[str], SourceError]) -> None:
    """Refuse namespaces of long addresses, which the XML library puts before each name."""

    def declared(prefix: str | None, address: str | None) -> None:
        if len(address or "") > _LONGEST_NAMESPACE:
            raise refuse(f"has an XML namespace of {len(address or ''):,} characters")

    parser.StartNamespaceDeclHandler = declared


def refuse_entities(parser: XMLParserType, refuse: Callable[[str], SourceError]) -> None:
    """Refuse entities; a DOCTYPE that only names a DTD may stand, and nobody fetches it.

    Entities made of other entities double themselves (a bomb), and others read files.
    """

    def declared(name: str, *_: object) -> None:
        raise refuse(f"declares the XML entity {name!r}")

    parser.EntityDeclHandler = declared
