"""MediaWiki XML exports as adapters: those of Wikipedia and other wikis, and those of Fandom's."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal

from kglink.sources import SourceHead
from kglink_kbs.mediawiki.settings import MediaWikiSettings

if TYPE_CHECKING:
    from kglink.plugins import KBAdapter

_ROOT = re.compile(
    rb"\s*+(?:<\?xml[^<>]*+>\s*+)?(?:<!--.{0,4000}?-->\s*+)?<mediawiki[\s>]", re.DOTALL
)
_FANDOM = re.compile(
    rb"<base>[^<]{0,300}(?:\.|//)(?:fandom\.com|wikia\.(?:com|org))[/:<]|<dbname>[^<]{0,100}wikia",
    re.IGNORECASE,
)


def make(settings: MediaWikiSettings, auto: str = "own") -> KBAdapter:
    """The adapter; what it parses with is loaded now and not when plugins are listed."""
    from kglink_kbs.mediawiki.adapter import MediaWikiAdapter

    subpages = auto if settings.subpages == "auto" else settings.subpages
    return MediaWikiAdapter(settings.model_copy(update={"subpages": subpages}))


def make_wikia(settings: MediaWikiSettings) -> KBAdapter:
    """The same with Fandom's ways: its articles have subpages."""
    return make(settings, "auto")


def sniff_wikipedia(head: SourceHead) -> float:
    """Sure of an export that is not Fandom's."""
    return 0.95 if wiki_of(head) == "other" else 0.0


def sniff_wikia(head: SourceHead) -> float:
    """Sure of an export whose ``<siteinfo>`` names Fandom or Wikia."""
    return 0.95 if wiki_of(head) == "fandom" else 0.0


def wiki_of(head: SourceHead) -> Literal["", "fandom", "other"]:
    """Whose export the beginning of a source is; empty where it is none."""
    data = head.head.removeprefix(b"\xef\xbb\xbf")
    if not _ROOT.match(data):
        return ""
    return "fandom" if _FANDOM.search(data) else "other"
