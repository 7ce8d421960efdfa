"""MediaWiki XML exports as adapters: those of Wikipedia and other wikis, and those of Fandom's."""

from __future__ import annotations

import re
from functools import partial
from typing import Literal

from pydantic import Field

from kglink.plugins import KBAdapter, PluginSettings
from kglink.sources import SourceHead

_ROOT = re.compile(
    rb"\s*+(?:<\?xml[^<>]*+>\s*+)?(?:<!--.{0,4000}?-->\s*+)?<mediawiki[\s>]", re.DOTALL
)
_FANDOM = re.compile(
    rb"<base>[^<]{0,300}(?:\.|//)(?:fandom\.com|wikia\.(?:com|org))[/:<]|<dbname>[^<]{0,100}wikia",
    re.IGNORECASE,
)


class MediaWikiSettings(PluginSettings):
    """What is taken from an export."""

    sentences: int = Field(10, ge=0)
    """Sentences of an article's lead to take as its description."""
    disambiguation: bool = False
    """Keep disambiguation pages; their links count either way."""
    lists: bool = True
    """Keep pages that are lists by their title."""
    categories: bool = False
    """Keep category pages."""
    subpages: Literal["auto", "part", "own"] = "auto"
    """What X/Gallery is if there is a page X: a `part` of X, or an entity of its `own`; `auto`:
    on Fandom a part, if three pages have a Gallery."""
    namespaces: tuple[int, ...] = (0,)
    """Keys of the namespaces whose pages are entities; 0 holds the articles."""
    min_anchor_count: int = Field(1, ge=0)
    """Links that a text must have to be an alias; 0 takes none."""
    documents: int = Field(0, ge=0)
    """Articles to take as annotated documents, drawn by lot; 0 for none."""
    seed: int = 0
    """The seed of that lot."""
    interwiki: tuple[str, ...] = ()
    """More prefixes of links to other wikis, which link to no entity here."""
    language: str = ""
    """The wiki's language; what the dump says if empty."""
    max_page_mb: float = Field(50, gt=0)
    """The largest page to read, in MB of XML."""
    workers: int = Field(0, ge=0)
    """Processes that parse; 0 for one on each processor."""


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
