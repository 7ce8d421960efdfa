"""The exporter holds to the contract of all exporters, and writes what it should."""

from __future__ import annotations

import io

from kglink_myplugin.plugin import TsvExporter, TsvSettings

from kglink.records import Candidate, EntityId, Link, LinkedDocument
from kglink.testing import ExporterContract


class TestTsv(ExporterContract):
    """Run by pytest: every check of the contract."""

    plugin = "myvendor/myplugin"


def test_a_line_for_each_mention() -> None:
    """One that means an entity, and one that means none."""
    ada = Candidate(EntityId("people", "1"), "Ada", 0.9)
    links = (Link(0, 3, "Ada", (ada,), ada, 0.9), Link(8, 11, "Bob", (), None, 0.8))
    out = io.StringIO()
    TsvExporter(TsvSettings()).export([LinkedDocument("d", "Ada met Bob", links)], out)
    assert out.getvalue() == "d\t0\t3\tpeople:1\nd\t8\t11\tNIL\n"
