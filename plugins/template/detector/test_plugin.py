"""The detector holds to the contract of all detectors, and finds what it should."""

from __future__ import annotations

from kglink.testing import DetectorContract


class TestCapitals(DetectorContract):
    """Run by pytest: every check of the contract."""

    plugin = "myvendor/myplugin"
    finds = (
        ("Ada met Bob, not charles.", ("Ada", "Bob")),
        ("A I", ()),
        ("", ()),
    )


class TestLongCapitals(DetectorContract):
    """The setting ``least`` passes over short words."""

    plugin = "myvendor/myplugin"
    settings = {"least": 4}
    finds = (("Ada met Charles.", ("Charles",)),)
