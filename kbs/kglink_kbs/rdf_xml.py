"""Reads RDF/XML as rdflib does, in time that grows with the text and not with its square."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from xml.sax.expatreader import ExpatParser
from xml.sax.handler import ContentHandler, feature_namespaces

from rdflib.namespace import RDF
from rdflib.plugins.parsers.rdfxml import RDFXMLHandler
from rdflib.term import Literal

if TYPE_CHECKING:
    from pyexpat import XMLParserType

#: Ontologies abbreviate addresses by entities (``&owl;``); nothing longer is meant seriously.
MAX_ENTITY = 500


class Refused(Exception):  # noqa: N818 - a reason; the reader makes the SourceError of it
    """What the document asks for, and will not get."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.hint = hint


class GuardedParser(ExpatParser):
    """A SAX parser for documents from strangers; give it bytes with ``feed`` and ``close``.

    Entities may stand for short texts, as they do in ontologies. Those that come from another
    file, are long or are built from other entities (a bomb doubles itself in this way) are
    refused.
    """

    def __init__(self, handler: ContentHandler) -> None:
        super().__init__()
        self.setFeature(feature_namespaces, True)
        self.setContentHandler(handler)

    def reset(self) -> None:
        """Make a new parser with the guards in place."""
        super().reset()
        parser: XMLParserType = vars(self)["_parser"]
        parser.EntityDeclHandler = self._entity
        parser.ExternalEntityRefHandler = self._external

    def _entity(  # the arguments are those of expat
        self,
        name: str,
        is_parameter: bool,
        value: str | None,
        base: str | None,
        system_id: str | None,
        public_id: str | None,
        notation: str | None,
    ) -> None:
        if value is None:
            self._external(name, base, system_id, public_id)
        elif is_parameter or len(value) > MAX_ENTITY or "&" in value or "%" in value:
            raise Refused(
                f"the XML entity {name!r} is long or made of other entities (an expansion bomb)",
                "Expand it first if you trust the file: xmllint --noent FILE > expanded",
            )

    def _external(
        self, context: str | None, base: str | None, system_id: str | None, public_id: str | None
    ) -> int:
        raise Refused(
            f"XML asks for another file, {system_id or public_id!r}, and kglink fetches none",
            "Remove the reference from the file's DOCTYPE.",
        )


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
