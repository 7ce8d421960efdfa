"""The evidence holds to the contract of all evidence, and weighs as it should."""

from __future__ import annotations

from kglink.records import Entity
from kglink.testing import PairEvidenceContract

ADA = Entity("1", "Ada", "Born in 1815, died in 1852.")


class TestYears(PairEvidenceContract):
    """Run by pytest: every check of the contract."""

    plugin = "myvendor/myplugin"
    proposes = ((ADA, ADA, False),)
    weighs = (
        (ADA, Entity("2", "Lovelace", "1815 to 1852"), {"years": 1.0}),
        (ADA, Entity("3", "Babbage", "1791 to 1871"), {"years": -1.0}),
        (ADA, Entity("4", "Byron", "He left in 1815."), {"years": 0.0}),
        (ADA, Entity("5", "Nobody"), {}),
    )
