"""Reading sources: KB adapters."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol

from kglink.records import Record
from kglink.sources import Problems, Source, SourceHead


class KBAdapter(Protocol):
    """Reads one source format as a stream of records, in the same order on every read.

    An adapter whose golds are no keys may say so in an attribute ``resolve`` (``"xref"`` or
    ``"title"``); it counts where the user says nothing else and names KBs to link to.
    """

    def read(self, source: Source, problems: Problems) -> Iterator[Record]:
        """Yield the records; report a bad one to ``problems``, which raises or counts it.

        Whatever the source holds, nothing but a `KglinkError` comes out. Entity keys are not
        empty, and ``text[start:end] == surface`` for every mention of a document.
        """
        ...


#: Says how sure an adapter is (0 to 1) that a source's beginning is of its format.
#: From 0.5 on it takes the source for its own; it never raises, whatever it is shown.
Sniff = Callable[[SourceHead], float]
