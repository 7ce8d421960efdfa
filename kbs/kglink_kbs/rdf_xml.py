"""Reads RDF/XML as rdflib does, in time that grows with the text and not with its square."""

from __future__ import annotations

from typing import Any

from rdflib.namespace import RDF
from rdflib.plugins.parsers.rdfxml import RDFXMLHandler
from rdflib.term import Literal

#: Where one of these ends, a new line begins.
_BLOCKS = frozenset({"p", "br", "div", "li", "tr"})


class _Pieces(list[str]):
    """The text of an element as far as it is read."""


class LinearHandler(RDFXMLHandler):
    """rdflib's handler, but that each text is put together once, at its end.

    rdflib copies the whole text for each piece that expat brings, and there is one before and
    behind every reference, comment and tag. Of an XML literal the text is kept, not the markup.
    """

    def reset(self) -> None:
        """Forget what was read."""
        super().reset()
        self._literal: list[str] = []

    def startPrefixMapping(self, prefix: str | None, namespace: str) -> None:  # noqa: N802 - SAX's
        """Do nothing: rdflib copies all prefixes for each level, to write markup with them."""

    def endPrefixMapping(self, prefix: str | None) -> None:  # noqa: N802 - SAX's name
        """Do nothing."""

    def property_element_char(self, data: str) -> None:
        """Add to the text of a property."""
        current = self.current
        if current.data is not None:
            if not isinstance(current.data, _Pieces):
                current.data = _Pieces([current.data])
            current.data.append(data)

    def property_element_end(self, name: Any, qname: Any) -> None:
        """Put the text of a property together."""
        current = self.current
        if isinstance(current.data, _Pieces):
            current.data = "".join(current.data)
        if isinstance(current.object, Literal) and current.object.datatype == RDF.XMLLiteral:
            current.object = Literal("".join(self._literal))
            self._literal.clear()
        super().property_element_end(name, qname)

    def literal_element_start(self, name: Any, qname: Any, attrs: Any) -> None:
        """Go on with the text of the literal."""
        element = self.next
        element.start = self.literal_element_start
        element.char = self.literal_element_char
        element.end = self.literal_element_end

    def literal_element_char(self, data: str) -> None:
        """Add to the text of the literal."""
        self._literal.append(data)

    def literal_element_end(self, name: Any, qname: Any) -> None:
        """Go on with the text of the literal, on a new line behind a block."""
        if name[1].lower() in _BLOCKS:
            self._literal.append("\n")
