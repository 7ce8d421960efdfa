"""Mails about a catalogue of products: precision and recall of links, before and after learning.

    python benchmarks/catalogue.py [--keep FOLDER] [--wrong]

Thirty mails in English and German, and 87 products, lie in ``catalogue_data``. Mentions were marked
before the first run: ``[[words|key]]``. Words that several products bear (``[[AquaJet|]]``) mean no
product alone (NIL): no link is right there. Links are right at the right place with the right
product. Each half of the mails is judged after `learn`, and after `fit` as well, of the other half.
``--wrong`` lists what is missed and what is wrong; nothing is trained.
"""

from __future__ import annotations

import argparse
import re
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from kglink.records import Document, EntityId, Mention, TextInput
from kglink.workspace import Workspace, init_workspace

DATA = Path(__file__).parent / "catalogue_data"
KB = "products"
_MARKED = re.compile(r"\[\[(.+?)\|(.*?)\]\]")


class Counts(NamedTuple):
    """Links that are right, links, and mentions that mean a product."""

    right: int = 0
    links: int = 0
    golds: int = 0

    def plus(self, right: int, links: int, golds: int) -> Counts:
        """The same with those of another text."""
        return Counts(self.right + right, self.links + links, self.golds + golds)

    def __str__(self) -> str:
        precision, recall = self.right / max(1, self.links), self.right / max(1, self.golds)
        return f"P {precision:.2f} R {recall:.2f} ({self.right} of {self.links}, {self.golds})"


def mails() -> list[Document]:
    """The mails with what is marked in them."""
    text = (DATA / "mails.txt").read_text(encoding="utf-8")
    return [_mail(f"mail-{at}", one) for at, one in enumerate(text.split("\n---\n"), 1)]


def _mail(name: str, marked: str) -> Document:
    text, mentions, at = "", [], 0
    for found in _MARKED.finditer(marked):
        text += marked[at : found.start()]
        gold = (EntityId(KB, found[2]),) if found[2] else ()
        mentions.append(Mention(len(text), len(text) + len(found[1]), found[1], gold))
        text += found[1]
        at = found.end()
    return Document(name, text + marked[at:], tuple(mentions), split="train")


def judged(workspace: Workspace, documents: Sequence[Document], wrong: bool) -> Counts:
    """What the links of some mails are worth."""
    counts = Counts()
    texts = [TextInput(one.id, one.text) for one in documents]
    for document, linked in zip(documents, workspace.link(texts, KB), strict=True):
        golds = {(one.start, one.end): one.gold[0] for one in document.mentions if one.gold}
        links = {(one.start, one.end): one.chosen for one in linked.links if one.chosen}
        right = sum(chosen.id == golds.get(place) for place, chosen in links.items())
        counts = counts.plus(right, len(links), len(golds))
        if wrong:
            for line in _told(document, golds, {at: one.id for at, one in links.items()}):
                print(line)
    return counts


def _told(
    document: Document,
    golds: dict[tuple[int, int], EntityId],
    links: dict[tuple[int, int], EntityId],
) -> Iterator[str]:
    for place in sorted(golds.keys() | links.keys()):
        gold, found = golds.get(place), links.get(place)
        if gold != found:
            words = document.text[slice(*place)]
            keys = (one.key if one else "-" for one in (gold, found))
            yield f"  {document.id:8} {words!r}: {' wanted, found '.join(keys)}"


def learnt(workspace: Workspace, halves: Iterable[Sequence[Document]], wrong: bool) -> None:
    """Learn from one half of the mails, then from the other, and judge the half that is left."""
    after = {"learn": Counts(), "learn, fit": Counts()}
    one, other = halves
    for known, judging in ((one, other), (other, one)):
        workspace.add_kb("mails", known, links_to=[KB])
        workspace.learn("mails")
        after["learn"] = after["learn"].plus(*judged(workspace, judging, wrong=False))
        workspace.fit("mails")
        after["learn, fit"] = after["learn, fit"].plus(*judged(workspace, judging, wrong))
        (workspace.space().folder.path / "scoring.json").unlink(missing_ok=True)
        workspace.forget("mails")
        workspace.remove_kb("mails")
    for name, counts in after.items():
        print(f"{name:12} {counts}")


@contextmanager
def catalogue(folder: Path) -> Iterator[Workspace]:
    """A new workspace of the products, with their vectors."""
    with Workspace.open(init_workspace(folder)) as workspace:
        names = {"key": "sku", "title": "title", "aliases": "german"}
        workspace.add_kb(KB, DATA / "products.csv", options=names)
        workspace.build()
        yield workspace


def main() -> None:
    """Print precision and recall, untrained and learnt."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--keep", type=Path, help="A folder for the workspace; else a temporary one."
    )
    parser.add_argument("--wrong", action="store_true", help="List what is missed or wrong.")
    options = parser.parse_args()
    documents = mails()
    with (
        tempfile.TemporaryDirectory() as scratch,
        catalogue(options.keep or Path(scratch) / "workspace") as workspace,
    ):
        marked = [one for document in documents for one in document.mentions]
        golds = sum(bool(one.gold) for one in marked)
        print(f"{len(documents)} mails, {len(marked)} mentions, {golds} of a product")
        counts = judged(workspace, documents, options.wrong)
        print(f"{'untrained':12} {counts}")
        learnt(workspace, (documents[::2], documents[1::2]), options.wrong)


if __name__ == "__main__":
    main()
