"""What all contracts share: how the plugin under test is made and how checks are run."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar

from kglink.plugins import Kind, Registry, load_registry


class PluginContract:
    """The checks of one kind of plugin; subclass the contract of a kind, not this one.

    Set ``plugin`` to the name under which the plugin is registered, or override ``make`` (named
    in each contract) to test a class that is not.
    """

    kind: ClassVar[Kind]
    plugin: str = ""
    """The registered name, ``vendor/name``."""
    settings: Mapping[str, object] = MappingProxyType({})
    """The settings to make it with."""
    generic: ClassVar[bool] = False
    """True where nobody described the plugin: checks that need a description are loosened."""

    def make(self, *args: Any, **named: Any) -> Any:
        """The plugin under test; a contract says what it is made with."""
        return self.create(*args)

    def create(self, *args: object) -> Any:
        """Make the registered plugin."""
        create: Any = installed_plugins().create
        return create(self.kind, self.plugin, self.settings, *args)


@functools.cache
def installed_plugins() -> Registry:
    """The plugins of this environment, which does not change while tests run."""
    return load_registry()


def check_names(contract: type[PluginContract]) -> list[str]:
    """The names of a contract's checks."""
    return [name for name in dir(contract) if name.startswith("test_")]


def run_check(contract: type[PluginContract], name: str, tmp_path: Path) -> None:
    """Run one check of a contract as pytest does."""
    check = getattr(contract(), name)
    if "tmp_path" in inspect.signature(check).parameters:
        check(tmp_path)
    else:
        check()


#: Texts on which offsets go wrong in careless code.
NASTY_TEXTS: tuple[str, ...] = (
    "",
    " ",
    "\n\r\n\t",
    "a",
    "Ada met Bob in Lantern Bay, and Ada left.",
    "ADA, ada and Ａｄａ",
    "ends with Ada",
    "Ada\r\nmet\r\nBob\r\n",
    "tabs\tAda\tand\u00a0Bob",
    "e\u0301clair by Zoe\u0308 and Zoë",
    "straße STRASSE Straẞe and İstanbul ısparta",
    "👩\u200d👩\u200d👧 Ada 🏳️\u200d🌈 Bob 🇩🇪",
    "ﬁne oﬃce ﬂow and ½ of ①",
    "soft\u00adhyphen zero\u200bwidth A\u200cd\u200da",
    "\ufeffAda after a byte order mark",
    "ქართული العربية עברית हिन्दी ไทย 日本語 한국어",
    "\u202eadA reversed\u202c Bob",
    "𝔸𝕕𝕒 𝐁𝐨𝐛 \U0010ffff",
    "x" * 5_000 + " Ada " + "y" * 5_000,
    "Ada " * 500,
    "null\x00byte and \x1b[31mcolour",
    "<b>Ada</b> & 'Bob' \"Bob\" </script><!-- --> \\u0041 {{ Ada }}",
)
