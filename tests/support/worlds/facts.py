"""What is true of a thing, and how each KB tells it."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from worlds.chance import long_word, mix, scramble, short_word, spiced
from worlds.lexicon import KINDS, WORDINGS, YEARS, Kind
from worlds.settings import WorldSettings


class Truth(NamedTuple):
    """The facts of a thing, in no wording yet."""

    kind: Kind
    noun: int
    deed: int
    town: str
    year: int

    def parts(self, noun: int, deed: int, year: int) -> dict[str, str]:
        """The facts in the given wordings."""
        return {
            "noun": self.kind.nouns[self.noun][noun],
            "deed": self.kind.deeds[self.deed][deed],
            "town": self.town,
            "year": YEARS[year] % self.year,
        }


class Told(NamedTuple):
    """What one KB says about a thing."""

    type: str
    description: str
    renamed: int
    """0 where the usual name is the title, else the form that is."""
    listed: int
    """A bit for each form: whether it is an alias."""
    has_xrefs: bool

    def title_and_aliases(self, names: tuple[str, ...]) -> tuple[str, list[str]]:
        """The title, and the other names that the KB lists; the usual one is always there."""
        aliases = [
            name
            for form, name in enumerate(names)
            if form != self.renamed and (form == 0 or self.listed >> form & 1)
        ]
        return names[self.renamed], aliases


class Facts:
    """Computes the facts of things and the forms of names from their numbers."""

    def __init__(self, settings: WorldSettings, owner: Callable[[int], int]) -> None:
        self._owner = owner
        key = mix(mix(settings.seed) ^ 0x5EED)
        self._thing_key, self._name_key = mix(key + 1), mix(key + 2)
        self._word_key = mix(key + 3)
        self._kb_keys = [mix(key + 16 + number) for number in range(len(settings.kbs))]
        # Chances are compared with eight random bits each.
        self._renaming = _of_256(settings.renaming)
        self._aliases = _of_256(settings.aliases)
        self._paraphrase = _of_256(settings.paraphrase)
        self._described = _of_256(settings.described)
        self._xrefs = _of_256(settings.xrefs)
        self._unicode = int(settings.unicode * 65536)

    def truth(self, thing: int) -> Truth:
        """The facts of a thing."""
        bits = mix(thing ^ self._thing_key)
        return Truth(
            KINDS[(bits & 0xFFFF) * len(KINDS) >> 16],
            bits >> 16 & 15,
            bits >> 20 & 15,
            short_word(bits >> 24),
            400 + ((bits >> 48) * 1600 >> 16),
        )

    def told_by(self, kb: int, thing: int) -> Told:
        """How a KB tells the facts of a thing."""
        truth = self.truth(thing)
        bits = mix(thing ^ self._kb_keys[kb])
        aliases = self._aliases
        listed = (
            (bits >> 8 & 255 < aliases) << 1
            | (bits >> 16 & 255 < aliases) << 2
            | (bits >> 24 & 255 < aliases) << 3
        )
        renamed = 1 + (bits >> 4) % 3 if bits >> 56 < self._renaming else 0
        more = mix(bits)
        return Told(
            truth.kind.type,
            self._description(kb, truth, more) if more & 255 < self._described else "",
            renamed,
            listed,
            more >> 8 & 255 < self._xrefs,
        )

    def names(self, name: int) -> tuple[str, ...]:
        """The four forms of a name, the usual one first."""
        bits = mix(name ^ self._name_key)
        word = long_word(scramble(name, self._word_key))
        if bits & 0xFFFF < self._unicode:
            word = spiced(word, bits >> 40)
        kind = KINDS[(mix(self._owner(name) ^ self._thing_key) & 0xFFFF) * len(KINDS) >> 16]
        if not kind.heads:
            given = short_word(bits >> 16)
            return (f"{given} {word}", f"{given[0]}. {word}", f"{word}, {given}", word)
        head = kind.heads[bits >> 16 & 7]
        if kind.type in {"event"}:
            return (f"{head} of {word}", f"{word} {head}", f"the {word} {head}", word)
        return (f"{word} {head}", f"{head} of {word}", f"the {word} {head}", word)

    def _description(self, kb: int, truth: Truth, bits: int) -> str:
        # The first KB has the plain wording; the n-th its own, where it says a thing otherwise.
        other = (kb - 1) % (WORDINGS - 1) + 1
        share = self._paraphrase if kb else 0
        noun = other if bits >> 16 & 255 < share else 0
        deed = other if bits >> 24 & 255 < share else 0
        year = other if bits >> 32 & 255 < share else 0
        frame = other if bits >> 40 & 255 < share else 0
        return truth.kind.frames[frame] % truth.parts(noun, deed, year)


def _of_256(share: float) -> int:
    return round(share * 256)
