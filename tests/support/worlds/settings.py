"""What a synthetic world is like."""

from __future__ import annotations

import re
from dataclasses import dataclass, fields

from kglink.errors import ConfigError

#: The most entities that all KBs of a world may have together: names are 28 bits wide.
MOST_ENTITIES = 1 << 27

_KB_NAME = re.compile(r"[a-z0-9][a-z0-9_-]*")


@dataclass(frozen=True, kw_only=True, slots=True)
class WorldSettings:
    """The size of a world and the shares of what makes linking hard, each from 0 to 1.

    `overlap`, `nameless`, `ambiguity` and `false_friends` are met exactly (rounded down to whole
    entities); `renaming`, `aliases`, `paraphrase`, `described`, `xrefs` and `unicode` are the
    chances with which each entity is drawn.
    """

    seed: int = 0
    kbs: tuple[str, ...] = ("atlas", "saga")
    entities: int = 1000
    """Entities per KB."""
    overlap: float = 0.3
    """Share of a KB's entities that all other KBs hold as well."""
    nameless: float = 0.0
    """Share of the overlap that has no name in common across KBs: only meaning tells."""
    ambiguity: float = 0.1
    """Share of a KB's entities whose name is carried by another entity of the same KB."""
    false_friends: float = 0.05
    """Share of a KB's entities whose name means something else in every other KB."""
    renaming: float = 0.2
    """Chance that a KB's title is not the usual name (which is then an alias)."""
    aliases: float = 0.5
    """Chance of each further form of the name to be listed."""
    paraphrase: float = 0.5
    """Chance of each part of a description to be worded otherwise than in the first KB."""
    described: float = 1.0
    """Chance of an entity to have a description."""
    xrefs: float = 0.0
    """Chance of a shared entity to name its counterparts in the other KBs."""
    unicode: float = 0.02
    """Chance of a name to hold accents, combining marks, other scripts or emoji."""
    skew: float = 1.0
    """Zipf's exponent of the popularity; 0 makes all entities equally popular."""

    def __post_init__(self) -> None:
        self._check_kbs()
        if not 1 <= self.entities <= MOST_ENTITIES // (len(self.kbs) + 2):
            most = MOST_ENTITIES // (len(self.kbs) + 2)
            raise _off("entities", self.entities, f"a number from 1 to {most:,}")
        if not 0 <= self.skew <= 4:
            raise _off("skew", self.skew, "a number from 0 to 4")
        for item in fields(self):
            value = getattr(self, item.name)
            if item.type == "float" and item.name != "skew" and not 0 <= value <= 1:
                raise _off(item.name, value, "a share from 0 to 1")
        self._check_room()

    def _check_kbs(self) -> None:
        if not self.kbs or len(set(self.kbs)) < len(self.kbs):
            raise _off("kbs", self.kbs, "one or more different names")
        for kb in self.kbs:
            if not _KB_NAME.fullmatch(kb):
                raise _off("kbs", kb, "names of small letters, digits, - and _")

    def _check_room(self) -> None:
        taken = self.shared + self.false_friend_names + self.copies
        if taken > self.entities:
            raise ConfigError(
                "synthetic world: overlap, false_friends and half the ambiguity are more than 1",
                hint=f"They take {taken:,} of {self.entities:,} entities. Lower one of them.",
            )

    # ------------------------------------------------------------------ shares as numbers
    @property
    def shared(self) -> int:
        """The entities that every two KBs have in common."""
        return _whole(self.overlap * self.entities)

    @property
    def nameless_shared(self) -> int:
        """Those of them that have no name in common."""
        return _whole(self.nameless * self.shared)

    @property
    def false_friend_names(self) -> int:
        """The names that mean another thing in each KB."""
        return _whole(self.false_friends * self.entities)

    @property
    def copies(self) -> int:
        """The entities of a KB that carry the name of another one in it."""
        return _whole(self.ambiguity * self.entities / 2)


def _whole(value: float) -> int:
    # A share such as .29 of 100 is 28.999999999999996 in binary; nobody means 28.
    return int(value + 1e-9)


def _off(name: str, value: object, meant: str) -> ConfigError:
    return ConfigError(f"synthetic world: {name} is {value!r}", hint=f"Give {meant}.")
