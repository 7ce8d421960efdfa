"""Links ten paragraphs as anybody would write them with an encyclopedic KB, by names alone.

    python benchmarks/paragraphs.py FOLDER

The texts are in `paragraphs.txt`; the KB of 35,754 entities is made in FOLDER, as by `general.py`.
What it prints stands in `docs/benchmarks/paragraphs.md`, where what is wrong was judged by hand.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from general_sets import BY_NAMES, DATA, general_workspace

from kglink.records import LinkedDocument, TextInput
from kglink.workspace import Workspace

TEXTS = Path(__file__).with_name("paragraphs.txt")
SIZE = 35_754


def shown(document: LinkedDocument) -> str:
    """The text with each link behind its words: **London** `London .64`."""
    text, at = "", 0
    for link in document.links:
        if link.chosen is not None:
            told = f"`{link.chosen.title} {link.confidence:.2f}`".replace(" 0.", " .")
            text += f"{document.text[at : link.start]}**{link.surface}** {told}"
            at = link.end
    return text + document.text[at:]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    texts = TEXTS.read_text(encoding="utf-8").strip().split("\n\n")
    place = general_workspace(folder, DATA, SIZE)
    with Workspace.open(place, flags=BY_NAMES) as workspace:
        workspace.build_if_stale(wait=False)
        linker = workspace.linker(("general",))
        inputs = (TextInput(str(at), text) for at, text in enumerate(texts, 1))
        for document in linker.link(inputs):
            print(f"{document.id}. {shown(document)}\n")


if __name__ == "__main__":
    main()
