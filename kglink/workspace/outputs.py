"""Files that are written whole or not at all."""

from __future__ import annotations

import bz2
import gzip
import io
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, TextIO, cast

from kglink.errors import UsageError
from kglink.files.atomic import atomic_file, sweep_drafts

#: Endings of files that are packed as they are written.
PACKED = (".gz", ".bz2")


@contextmanager
def whole_file(path: Path) -> Iterator[TextIO]:
    """Write to a draft that takes the place of ``path`` at the end; .gz and .bz2 are packed.

    Where the writing fails, what stood at ``path`` still stands there, and nothing else. A link
    is written through: the file that it names is replaced.
    """
    target = path.resolve()
    with ExitStack() as closing:
        try:
            sweep_drafts(target.parent)
            raw = closing.enter_context(atomic_file(target))
        except OSError as error:
            raise cannot_write(path, error) from error
        stream = closing.enter_context(_packed(raw, path.suffix.lower()))
        text = io.TextIOWrapper(stream, encoding="utf-8", newline="\n")
        yield text
        try:
            text.flush()
            text.detach()
            closing.close()
        except OSError as error:
            raise cannot_write(path, error) from error


def cannot_write(path: Path, error: OSError) -> UsageError:
    """The error of a file that cannot be written; it names that file, not its hidden draft."""
    return UsageError(
        f"cannot write {path}: {error.strerror or error}",
        hint="Name a file in a folder that exists and may be written, on a disk with room.",
    )


def _packed(raw: IO[bytes], suffix: str) -> IO[bytes]:
    if suffix == ".gz":  # without a name or time, so that the same records give the same bytes
        return cast("IO[bytes]", gzip.GzipFile("", "wb", fileobj=raw, mtime=0))
    if suffix == ".bz2":
        return cast("IO[bytes]", bz2.BZ2File(raw, "wb"))
    return raw
