"""A linked text for the tests of exporters, what they write, and characters that others obey."""

from __future__ import annotations

import io

from kglink.plugins import Exporter
from kglink.records import Candidate, EntityId, Link, LinkedDocument

TEXT = "Clara Oswald left the Tower of London; the Zygon commander stayed."
CLARA = Candidate(
    EntityId("doctor_who", "Clara_Oswald"),
    "Clara Oswald",
    0.9612345678,
    url="https://who.example/Clara",
    description="A teacher at Coal Hill School.",
    evidence={"exact_name": 1.0, "text_vector": 0.33333333},
    also=(EntityId("wikipedia", "Clara_Oswald"),),
)
TOWER = Candidate(EntityId("wikipedia", "Tower_of_London"), "Tower of London", 0.93)
ZYGON = Candidate(EntityId("doctor_who", "Zygon"), "Zygon", 0.11)


def link(surface: str, *candidates: Candidate, nil: bool = False, sure: float = 0.9) -> Link:
    start = TEXT.index(surface)
    chosen = None if nil or not candidates else candidates[0]
    return Link(start, start + len(surface), surface, candidates, chosen, sure)


EPISODE = LinkedDocument(
    "episode.txt",
    TEXT,
    (
        link("Clara Oswald", CLARA, TOWER, sure=0.97),
        link("the Tower of London", TOWER, sure=0.93),
        link("the Zygon commander", ZYGON, nil=True, sure=0.81),
    ),
    {"seconds": 0.4},
)


def written(exporter: Exporter, *documents: LinkedDocument) -> str:
    out = io.StringIO()
    exporter.export(documents, out)
    return out.getvalue()


def one(text: str, *links: Link, name: str = "d") -> LinkedDocument:
    return LinkedDocument(name, text, links)


#: What a terminal, or a reader of lines, would obey: both sets of control characters, marks that
#: turn the direction, Unicode line breaks, and half of a surrogate pair.
OBEYED = "".join(map(chr, (*range(0x20), *range(0x7F, 0xA0), *range(0x2028, 0x202F))))
OBEYED += "".join(map(chr, range(0x2066, 0x206A))) + "\ud800"


def everywhere(char: str) -> LinkedDocument:
    """A document with a character in everything that is text."""
    evil = f"a{char}b"
    candidate = Candidate(
        EntityId(evil, evil),
        evil,
        0.5,
        url=f"https://x.example/{evil}",
        description=evil,
        type=evil,
        evidence={evil: 0.5},
        aliases=(evil,),
        parents=(evil,),
        also=(EntityId(evil, evil),),
    )
    links = (Link(0, 3, evil, (candidate,), candidate, 0.5), Link(4, 5, "c", (candidate,), None, 1))
    return LinkedDocument(evil, f"{evil} c", links, {"notes": [evil], "truncated": evil})
