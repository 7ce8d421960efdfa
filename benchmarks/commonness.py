"""What it is worth to know how often a link's words meant a page: links of pages held out.

    python benchmarks/commonness.py ../shared/data/wiki/smallwiki.xml [--world 200]

A fifth of a wiki's pages at a time is held out: the KB is read from a dump in which these pages
have no links, and their links are then linked. So all links are judged once, and none was counted.
Measured are a KB with titles and redirects alone, one that takes the words of links as names, and
one that counts besides how often they meant each page (evidence `common`): what links bring in all,
and what counting brings. The same for a synthetic wiki in which few pages have most of the links
(Zipf's law), and half of all names are borne by two. Nothing is trained.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from kglink import Workspace
from kglink.files.digest import text_hash
from kglink.linking.fit import Rankings, judged_rankings
from kglink.linking.kinds import Weights
from kglink.records import Document, EntityId
from kglink.sources import Problems, Source
from kglink_kbs.mediawiki.settings import MediaWikiSettings
from kglink_kbs.mediawiki.wikis import make

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "support"))
from worlds import World, WorldSettings, write_mediawiki_xml

BoolArray = npt.NDArray[np.bool_]

FOLDS = 5
ALL = 10**6
_PAGE = re.compile(r"<page>.*?</page>", re.DOTALL)
_ID = re.compile(r"<id>(\d+)</id>")
_LINK = re.compile(r"\[\[(?:[^\[\]|]*\|)?([^\[\]|]*)\]\]")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("dump", type=Path, nargs="*", help="MediaWiki XML exports, not packed")
    parser.add_argument("--world", type=int, default=200, help="pages of the synthetic wiki")
    arguments = parser.parse_args()
    print(f"{'':16}{'links':>7}{'titles':>9}{'+ words':>9}{'+ counts':>9}"
          f"{'several':>9}{'+ words':>9}{'+ counts':>9}")  # fmt: skip
    with tempfile.TemporaryDirectory() as made:
        for dump in arguments.dump:
            measure(dump)
        if arguments.world:
            dump = Path(made) / "synthetic.xml"
            world = World(WorldSettings(kbs=("wiki",), entities=arguments.world, overlap=0.0,
                                        false_friends=0.0, ambiguity=0.5))  # fmt: skip
            with dump.open("w", encoding="utf-8") as out:
                write_mediawiki_xml(out, world)
            measure(dump)


def measure(dump: Path) -> None:
    """Print the shares of right links: of all, and of words that were names of several pages."""
    text = dump.read_text(encoding="utf-8")
    documents = list(documents_of(dump))
    titles, words, counts, several = ([] for _ in range(4))
    for fold in range(FOLDS):
        own = [one for one in documents if _fold(one.id) == fold]
        with tempfile.TemporaryDirectory() as made:
            less = Path(made) / "less.xml"
            less.write_text(without_links(text, fold), encoding="utf-8")
            plain, rankings = ranked(less, own, anchors=0), ranked(less, own, anchors=1)
        weights = rankings.weights
        titles.append(plain.right(weights))
        words.append(rankings.right(Weights({**weights.by_kind, "common": 0.0})))
        counts.append(rankings.right(weights))
        several.append(rankings.several)
    figures = [np.concatenate(one) for one in (titles, words, counts)]
    many = np.concatenate(several)
    print(f"{dump.stem:16}{len(many):7}" + "".join(f"{one.mean():9.3f}" for one in figures)
          + f"{many.sum():9}" + "".join(f"{one[many].mean():9.3f}" for one in figures[1:]),
          flush=True)  # fmt: skip


def documents_of(dump: Path) -> Iterator[Document]:
    """All pages with links, and what these mean in the KB ``wiki``."""
    with Source.open_path(dump) as source:
        for one in make(MediaWikiSettings(documents=ALL)).read(source, Problems("skip")):
            if isinstance(one, Document):
                mentions = tuple(
                    replace(
                        mention, gold=tuple(EntityId("wiki", gold.key) for gold in mention.gold)
                    )
                    for mention in one.mentions
                    if mention.gold
                )
                yield replace(one, mentions=mentions)


def without_links(text: str, fold: int) -> str:
    """A dump in which a fifth of the pages link to nothing."""

    def page(found: re.Match[str]) -> str:
        number = _ID.search(found[0])
        if number is None or _fold(number[1]) != fold or "<redirect" in found[0]:
            return found[0]
        return _LINK.sub(r"\1", found[0])

    return _PAGE.sub(page, text)


def _fold(page: str) -> int:
    return text_hash(page) % FOLDS


class Ranked:
    """The rankings of links, and which of them have words that several pages bear."""

    def __init__(self, rankings: Rankings, weights: Weights) -> None:
        self.rankings = rankings
        self.weights = weights
        exact = rankings.evidence[:, rankings.kinds.index("exact")]
        self.several: BoolArray = np.add.reduceat(exact > 0, rankings.starts, dtype=np.int64) > 1

    def right(self, weights: Weights) -> BoolArray:
        """Which links have the right page first."""
        return self.rankings.first_is_right(weights)


def ranked(dump: Path, documents: list[Document], *, anchors: int) -> Ranked:
    """Link the links of some documents to a wiki, whose names are titles, or also links' words."""
    with (
        tempfile.TemporaryDirectory() as made,
        Workspace.open(made, create=True, flags={"ingest.on_error": "skip"}) as workspace,
    ):
        workspace.add_kb("wiki", dump, options={"min_anchor_count": anchors})
        workspace.build_if_stale()
        search = workspace.link_setup().search(scoring="default")
        rankings = judged_rankings(search, documents, ["wiki"], lambda _: None, most=ALL)
        return Ranked(rankings, search.scoring.weights)


if __name__ == "__main__":
    main()
