"""PDF files as text, page by page.

A file may be made to keep its reader busy for ever, so another process reads it, within bounds of
time and memory. A word that is divided at the end of a line is put together.
"""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from importlib import import_module

from pydantic import Field

from kglink.errors import SourceError
from kglink.plugins import PluginSettings
from kglink.records import Document
from kglink.sources import Source, SourceHead
from kglink.sources.values import text_too_long
from kglink_kbs.texts import pdf_pages
from kglink_kbs.texts.plain import OneTextAdapter, document_of_parts

_MAGIC = b"%PDF-"
#: The magic may stand behind some bytes of junk.
_FIRST_BYTES = 1024
_DIVIDED = re.compile(r"(?<=[^\W\d_]{2})[-\u00ad]\n(?=[^\W\d_A-Z]{2})")


class PdfSettings(PluginSettings):
    """Settings of ``kglink/pdf``."""

    seconds: int = Field(60, ge=1)
    """Computing time that a file may take."""
    memory_mb: int = Field(2048, ge=256)
    """Memory that reading a file may take, in MiB."""
    max_mb: int = Field(256, ge=1)
    """Largest file that is read, in MiB."""


def make(settings: PdfSettings) -> OneTextAdapter[PdfSettings]:
    """The adapter; the process that reads needs pypdf, an extra."""
    import_module("pypdf")
    return OneTextAdapter(document, settings)


def document(source: Source, settings: PdfSettings) -> Document:
    """The text of all pages."""
    longest = settings.max_mb * 2**20
    with source.open() as stream:
        data = stream.read(longest + 1)
    if len(data) > longest:
        raise SourceError(
            f"{source.label} is larger than {settings.max_mb} MiB",
            hint="Raise max_mb (--input-set max_mb=...), or cut the file into parts.",
        )
    pages = (json.loads(line) for line in _pages(source, settings, data).splitlines())
    parts = ((f"page {number}", _DIVIDED.sub("", text)) for number, text in enumerate(pages, 1))
    return document_of_parts(source, "pdf", parts)


def _pages(source: Source, settings: PdfSettings, data: bytes) -> bytes:
    seconds, most = settings.seconds, source.limits.max_text_chars
    too_slow = SourceError(
        f"{source.label}: reading it takes more than {seconds} seconds",
        hint="If it is what you expect, raise seconds (--input-set seconds=...).",
    )
    bounds = (seconds, settings.memory_mb * 2**20, most)
    try:
        done = subprocess.run(  # noqa: S603 - our own program, and numbers
            [sys.executable, "-P", "-m", pdf_pages.__name__, *map(str, bounds)],
            input=data,
            capture_output=True,
            timeout=10 * seconds,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise too_slow from error
    if done.returncode == 0:
        return done.stdout
    if done.returncode in (-signal.SIGXCPU, -signal.SIGKILL):
        raise too_slow
    if done.returncode == pdf_pages.TOO_LONG:
        raise text_too_long(source.label, most)
    if done.returncode == pdf_pages.TOO_LARGE:
        raise SourceError(
            f"{source.label}: reading it takes more than {settings.memory_mb} MiB",
            hint="If it is what you expect, raise memory_mb (--input-set memory_mb=...).",
        )
    if done.returncode == pdf_pages.ENCRYPTED:
        raise SourceError(f"{source.label} is encrypted", hint="Save it without a password first.")
    reason = done.stderr.decode(errors="replace").strip().rpartition("\n")[2]
    raise SourceError(
        f"{source.label} cannot be read as a PDF file: {reason or 'it is damaged'}",
        hint="Open it in a viewer and print it to a new file.",
    )


def sniff(head: SourceHead) -> float:
    """Sure of its first bytes."""
    return 1.0 if _MAGIC in head.head[:_FIRST_BYTES] else 0.0
