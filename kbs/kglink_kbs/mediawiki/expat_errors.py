"""What every XML parser of this package refuses, and how it says what is wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn
from xml.parsers import expat

from kglink.errors import SourceError

if TYPE_CHECKING:
    from xml.parsers.expat import XMLParserType


def refuse_declarations(parser: XMLParserType, label: str) -> None:
    """Stop at a document type: an export has none, and entities can be bombs."""

    def refuse(*_: Any) -> NoReturn:
        raise SourceError(
            f"{label} declares a document type or entities (line "
            f"{parser.CurrentLineNumber:,}), which no MediaWiki export does",
            hint="It may be an entity-expansion bomb; kglink does not read such files.",
        )

    parser.StartDoctypeDeclHandler = refuse
    parser.EntityDeclHandler = refuse


def what_expat_says(error: expat.ExpatError) -> str:
    """The words for an error code."""
    return expat.ErrorString(error.code) or "unknown error"
