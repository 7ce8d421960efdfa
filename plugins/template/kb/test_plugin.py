"""The adapter holds to the contract of all KB adapters, and to what its own format promises."""

from __future__ import annotations

import pytest
from kglink_myplugin.plugin import LineAdapter, LineSettings, parse

from kglink.records import Alias, Entity
from kglink.sources import Problems, Source
from kglink.testing import KBAdapterContract

SAMPLE = """\
# The lanterns of the bay.
L:1 = Old Lantern | Lantern One : It stands at the mouth of the bay.
L:2 = Čapek's Light

L:3 = Third Lantern | the third | No. 3
"""


class TestLineAdapter(KBAdapterContract):
    """Run by pytest: every check of the contract, with this sample."""

    plugin = "myvendor/myplugin"
    source_name = "lanterns.txt"
    source_text = SAMPLE
    expected = (
        Entity(
            "L:1",
            "Old Lantern",
            "It stands at the mouth of the bay.",
            aliases=(Alias("Lantern One", "synonym"),),
        ),
        Entity("L:2", "Čapek's Light"),
        Entity(
            "L:3",
            "Third Lantern",
            aliases=(Alias("the third", "synonym"), Alias("No. 3", "synonym")),
        ),
    )
    broken = (
        "no separator\n",
        "L:1 = Old Lantern\nL:2 =\n",
        b"L:1 = Old Lantern\nL:2 = \xff\n",
    )
    foreign = (*KBAdapterContract.foreign, b'{"id": "L:1", "title": "x"}\n', b"id,title\n1,x\n")


@pytest.mark.parametrize("line", ["", "a", "a = ", " = b", "a=b", "a b = c"])
def test_a_line_without_key_and_title_is_no_entity(line: str) -> None:
    """Each of these misses one of the two."""
    assert parse(line) is None


def test_another_sign_of_comments() -> None:
    """The setting ``comment`` replaces ``#``."""
    with Source.from_bytes(b"; comment\n# = Number sign\n") as source:
        records = list(LineAdapter(LineSettings(comment=";")).read(source, Problems()))
    assert records == [Entity("#", "Number sign")]
