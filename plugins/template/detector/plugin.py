"""Finds the words of a text that begin with a capital.

Use it: set link.detector to myvendor/myplugin, in kglink.toml or as KGLINK_LINK_DETECTOR
"""

from __future__ import annotations

import re

from kglink.plugins import Names, PluginSettings, Register, hookimpl
from kglink.records import Span


class CapitalSettings(PluginSettings):
    """The settings of the detector."""

    least: int = 2
    """A word of fewer letters is passed over."""


class CapitalDetector:
    """Finds words with a capital, whether or not a KB has them among its names."""

    def __init__(self, settings: CapitalSettings, names: Names) -> None:
        self._least = settings.least
        self._names = names

    def detect(self, text: str) -> list[Span]:
        """The words, in reading order."""
        words = (found for found in re.finditer(r"\w+", text) if found[0][0].isupper())
        return [Span(*found.span()) for found in words if len(found[0]) >= self._least]


@hookimpl
def register_detectors(register: Register) -> None:
    """Offer the detector."""
    register(
        "myvendor/myplugin",
        CapitalDetector,
        settings=CapitalSettings,
        summary="Every word that begins with a capital",
    )
