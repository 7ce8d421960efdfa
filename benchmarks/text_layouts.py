"""How many links differ where a text has the same words in another layout.

    python benchmarks/text_layouts.py WORKSPACE DOCS... [--texts 40] [--longest 6000] [--show 3]

The documents of KBs are linked as they are, and once more in each layout: lines that are wrapped,
indented or quoted, other blanks and hyphens, soft hyphens, letters in parts or of another case.
Places are compared where they stand in the document; none should differ.
"""

from __future__ import annotations

import argparse
import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice

from kglink.records import TextInput
from kglink.workspace import Workspace

#: The longest line of a wrapped text.
WIDTH = 72
#: A text in a layout, piece by piece: what stands in the place of each character.
Layout = Callable[[str], Iterator[str]]
#: The link of each place: the entity's id, empty for none.
Links = Mapping[tuple[str, int, int], str]


def wrapped(end: str) -> Layout:
    """Lines of a common width that end so."""

    def lay(text: str) -> Iterator[str]:
        width = 0
        for at, sign in enumerate(text):
            width += 1
            word = text.find(" ", at + 1)
            if sign == " " and width + (word if word >= 0 else len(text)) - at > WIDTH:
                width = 0
                yield end
            else:
                width = 0 if sign == "\n" else width
                yield sign

    return lay


def instead(old: str, new: str) -> Layout:
    """Another sign in the place of one."""
    return lambda text: (new if sign == old else sign for sign in text)


def soft_hyphens(text: str) -> Iterator[str]:
    """A soft hyphen within some words."""
    for at, sign in enumerate(text):
        is_within = at % 9 == 0 and text[max(0, at - 1) : at + 2].isalpha()
        yield f"{sign}\u00ad" if is_within and 0 < at < len(text) - 1 else sign


def letters(case: Callable[[str], str]) -> Layout:
    """All letters in a case, where that leaves their number."""

    def lay(text: str) -> Iterator[str]:
        other = case(text)
        return iter(other if len(other) == len(text) else text)

    return lay


def headline(text: str) -> str:
    """Each word with a capital."""
    return re.sub(r"(?<![\w'\u2019])[^\W\d_]", lambda first: first[0].upper(), text)


LAYOUTS: Mapping[str, Layout] = {
    "lines wrapped": wrapped("\n"),
    "lines wrapped, as Windows does": wrapped("\r\n"),
    "lines indented": wrapped("\n  "),
    "lines quoted": wrapped("\n> "),
    "non-breaking spaces": instead(" ", "\u00a0"),
    "three spaces": instead(" ", "   "),
    "non-breaking hyphens": instead("-", "\u2011"),
    "curly apostrophes": instead("'", "\u2019"),
    "soft hyphens": soft_hyphens,
    "all capitals": letters(str.upper),
    "all in lower case": letters(str.lower),
    "Each Word With a Capital": letters(headline),
    "letters in parts (NFD)": lambda text: (unicodedata.normalize("NFD", one) for one in text),
}


def links(workspace: Workspace, texts: Mapping[str, str], layout: Layout) -> Links:
    """The links of texts in a layout, at their places in the texts as they are."""
    laid, places = [], {}
    for name, text in texts.items():
        pieces = list(layout(text))
        laid.append(TextInput(name, "".join(pieces)))
        places[name] = [at for at, piece in enumerate(pieces) for _ in piece] + [len(text)]
    return {
        (one.id, places[one.id][link.start], places[one.id][link.end]): str(
            link.chosen.id if link.chosen else ""
        )
        for one in workspace.link(laid)
        for link in one.links
    }


def show(texts: Mapping[str, str], places: Sequence[tuple[str, int, int]], what: str) -> None:
    """Print some places with the words around them."""
    for name, start, end in places:
        text = texts[name]
        around = text[max(0, start - 25) : start], text[start:end], text[end : end + 25]
        print(f"    {what}: {'{}[{}]{}'.format(*around)!r}")


def main() -> None:
    """Print a row for each layout."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("workspace")
    parser.add_argument("docs", nargs="+")
    parser.add_argument("--texts", type=int, default=40, help="Documents of each source.")
    parser.add_argument("--longest", type=int, default=6000, help="Longer ones are left out.")
    parser.add_argument("--show", type=int, default=0, help="Examples of each kind.")
    options = parser.parse_args()
    with Workspace.open(options.workspace) as workspace:
        texts = {
            f"{docs} {at}": document.text
            for docs in options.docs
            for at, document in enumerate(islice(workspace.store.documents(docs), options.texts))
            if len(document.text) <= options.longest
        }
        before = links(workspace, texts, iter)
        print(f"{len(texts)} texts, {len(before):,} links")
        print("| layout | lost | new | other entity |\n|---|---|---|---|")
        for name, layout in LAYOUTS.items():
            after = links(workspace, texts, layout)
            lost, new = sorted(before.keys() - after.keys()), sorted(after.keys() - before.keys())
            other = [one for one in before.keys() & after.keys() if before[one] != after[one]]
            print(f"| {name} | {len(lost)} | {len(new)} | {len(other)} |", flush=True)
            for places, what in ((lost, "lost"), (new, "new"), (other, "other")):
                show(texts, places[: options.show], what)


if __name__ == "__main__":
    main()
