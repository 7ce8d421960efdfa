"""Where records come from: a file, a folder or standard input, decompressed on the fly."""

from kglink.sources.encoding import check_text
from kglink.sources.reading import read_records
from kglink.sources.source import Source
from kglink.sources.values import Line, OnError, OnNote, Problems, SourceHead, SourceLimits, Step

__all__ = [
    "Line",
    "OnError",
    "OnNote",
    "Problems",
    "Source",
    "SourceHead",
    "SourceLimits",
    "Step",
    "check_text",
    "read_records",
]
