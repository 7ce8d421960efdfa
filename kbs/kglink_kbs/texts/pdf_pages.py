"""A program of its own that reads a PDF file from standard input and prints its pages.

``python -m kglink_kbs.texts.pdf_pages SECONDS BYTES CHARACTERS`` prints a JSON text for each page,
one on each line. The system ends it where it computes for longer or takes more memory.
"""

from __future__ import annotations

import io
import json
import logging
import sys
from collections.abc import Sequence

from kglink.text.plain import raised

#: The program's exit codes beside 0: what is wrong with the file.
DAMAGED, ENCRYPTED, TOO_LONG, TOO_LARGE = 3, 4, 5, 6


def main() -> int:
    """Print the pages; what is wrong goes to standard error, its kind is the exit code."""
    seconds, size, characters = map(int, sys.argv[1:])
    if sys.platform != "win32":
        import resource

        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
        resource.setrlimit(resource.RLIMIT_AS, (size, size))
    logging.disable()  # pypdf tells all that it mends in a file
    try:
        return _print_pages(sys.stdin.buffer.read(), characters)
    except MemoryError:
        return TOO_LARGE
    except Exception as error:  # noqa: BLE001 - whatever a damaged file makes the library raise
        sys.stderr.write(f"{type(error).__name__}: {error}"[:300])
        return DAMAGED


class _Pieces(list[str]):
    """The pieces of a page's text; small ones above the line are written so."""

    def __init__(self) -> None:
        super().__init__()
        self._size = self._line = 0.0

    def add(
        self, text: str, page: Sequence[float], matrix: Sequence[float], _: object, size: float
    ) -> None:
        """Take the next piece: two matrices say where it stands on the page, and how large."""
        height = abs(size * matrix[3] * page[3])
        line = matrix[4] * page[1] + matrix[5] * page[3] + page[5]
        within = bool(self) and not self[-1][-1:].isspace()
        if (
            within
            and 0 < height < 0.9 * self._size
            and 0.1 < (line - self._line) / self._size < 0.8
        ):
            text = raised(text)
        elif text.strip():
            self._size, self._line = height, line
        if text:
            self.append(text)


def _print_pages(data: bytes, characters: int) -> int:
    from pypdf import PdfReader
    from pypdf.errors import DependencyError, FileNotDecryptedError

    try:
        for page in PdfReader(io.BytesIO(data)).pages:
            pieces = _Pieces()
            page.extract_text(visitor_text=pieces.add)
            text = "".join(pieces)
            characters -= len(text)
            if characters < 0:
                return TOO_LONG
            sys.stdout.write(json.dumps(text) + "\n")
    except (DependencyError, FileNotDecryptedError):
        return ENCRYPTED
    return 0


if __name__ == "__main__":
    sys.exit(main())
