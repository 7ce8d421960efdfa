"""The settings of the adapters that read MediaWiki exports."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from kglink.plugins import PluginSettings


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
    """Links with this text that make it an alias; 0: no aliases from links."""
    documents: int = Field(0, ge=0)
    """Number of articles, drawn at random, to keep as annotated documents."""
    seed: int = 0
    """Seed of that draw."""
    interwiki: tuple[str, ...] = ()
    """More prefixes of links to other wikis."""
    language: str = ""
    """The wiki's language; empty: as the dump says."""
    max_page_mb: float = Field(50, gt=0)
    """The largest page to read, in MB of XML."""
    workers: int = Field(0, ge=0)
    """Processes that parse; 0 for one on each processor."""
