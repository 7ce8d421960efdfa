"""The exports of Fandom's wikis (once Wikia)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kglink.sources import SourceHead
from kglink_kbs.mediawiki.settings import MediaWikiSettings
from kglink_kbs.mediawiki.sniff import wiki_of

if TYPE_CHECKING:
    from kglink.plugins import KBAdapter


class WikiaSettings(MediaWikiSettings):
    """Settings of ``kglink/wikia``."""


def make(settings: WikiaSettings) -> KBAdapter:
    """The adapter; what it parses with is loaded now and not when plugins are listed."""
    from kglink_kbs.mediawiki.adapter import MediaWikiAdapter

    return MediaWikiAdapter(settings)


def sniff(head: SourceHead) -> float:
    """Sure of an export whose ``<siteinfo>`` names Fandom or Wikia."""
    return 0.95 if wiki_of(head) == "fandom" else 0.0
