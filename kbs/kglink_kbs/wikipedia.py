"""MediaWiki XML exports: the dumps of Wikipedia and of any other wiki but Fandom's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kglink.sources import SourceHead
from kglink_kbs.mediawiki.settings import MediaWikiSettings
from kglink_kbs.mediawiki.sniff import wiki_of

if TYPE_CHECKING:
    from kglink.plugins import KBAdapter


class WikipediaSettings(MediaWikiSettings):
    """Settings of ``kglink/wikipedia``."""


def make(settings: WikipediaSettings) -> KBAdapter:
    """The adapter; what it parses with is loaded now and not when plugins are listed."""
    from kglink_kbs.mediawiki.adapter import MediaWikiAdapter

    return MediaWikiAdapter(settings)


def sniff(head: SourceHead) -> float:
    """Sure of an export that is not Fandom's."""
    return 0.95 if wiki_of(head) == "other" else 0.0
