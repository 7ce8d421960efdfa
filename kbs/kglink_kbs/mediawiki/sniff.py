"""Knows an export, and whose it is, by its first bytes."""

from __future__ import annotations

import re
from typing import Literal

from kglink.sources import SourceHead

_ROOT = re.compile(
    rb"\s*+(?:<\?xml[^<>]*+>\s*+)?(?:<!--.{0,4000}?-->\s*+)?<mediawiki[\s>]", re.DOTALL
)
_FANDOM = re.compile(
    rb"<base>[^<]{0,300}(?:\.|//)(?:fandom\.com|wikia\.(?:com|org))[/:<]|<dbname>[^<]{0,100}wikia",
    re.IGNORECASE,
)


def wiki_of(head: SourceHead) -> Literal["", "fandom", "other"]:
    """Whose export the beginning of a source is; empty where it is none."""
    data = head.head.removeprefix(b"\xef\xbb\xbf")
    if not _ROOT.match(data):
        return ""
    return "fandom" if _FANDOM.search(data) else "other"
