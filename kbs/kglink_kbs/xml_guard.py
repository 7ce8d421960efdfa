"""An XML parser that fetches nothing and lets no entity grow."""

from __future__ import annotations

from typing import TYPE_CHECKING
from xml.sax.expatreader import ExpatParser
from xml.sax.handler import ContentHandler, feature_namespaces

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
