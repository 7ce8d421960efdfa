"""MediaWiki XML exports as adapters: those of Wikipedia and other wikis, and those of Fandom's."""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING

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


#: The same with Fandom's ways: its articles have subpages.
make_wikia = partial(make, auto="auto")


def sniff_wikipedia(head: SourceHead, *, is_fandom: bool = False) -> float:
    """Sure of an export that is not Fandom's: its ``<siteinfo>`` names neither Fandom nor Wikia."""
    data = head.head.removeprefix(b"\xef\xbb\xbf")
    return 0.95 if _ROOT.match(data) and bool(_FANDOM.search(data)) is is_fandom else 0.0


sniff_wikia = partial(sniff_wikipedia, is_fandom=True)
