"""What a server bears: how much of everything, and who may ask."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

#: The route whose body has no end.
_LINES = "/link/lines"


@dataclass(frozen=True, slots=True)
class Limits:
    """How much one request may bring and take, how many may wait, and who may ask."""

    body_mb: float = 2.0
    """Of a request; of JSON lines that are streamed: of each line."""
    upload_mb: float = 1000.0
    seconds: float = 60.0
    """For the body to come, and for the answer to be made."""
    waiting: int = 64
    """Requests that are answered or wait, and texts that wait; more are sent away."""
    token: str = ""
    """Whoever asks must know it; empty: only this machine can ask."""
    origins: Collection[str] = ()
    """Sites whose pages may ask the reconciliation service, besides those of this machine."""
    read_only: bool = False

    def bytes_of(self, path: str) -> int:
        """The most bytes of a body; 0: no limit as a whole."""
        if path == _LINES:
            return 0
        return int((self.upload_mb if path.startswith("/kbs/") else self.body_mb) * 2**20)

    def is_streamed(self, path: str) -> bool:
        """Whether a body is worked on while it comes, and may come for long."""
        return path == _LINES or path.startswith("/kbs/")
