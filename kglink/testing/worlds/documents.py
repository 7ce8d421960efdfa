"""Documents of a synthetic world: texts with mentions whose gold is known."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from kglink.errors import ConfigError
from kglink.records import Document, EntityId, Mention, Split
from kglink.testing.worlds.chance import Draws, mix
from kglink.testing.worlds.facts import Truth
from kglink.testing.worlds.lexicon import BARE, FILLERS, ODD_FILLERS, TELLING, WORDINGS

if TYPE_CHECKING:
    from kglink.testing.worlds.world import World


@dataclass(frozen=True, kw_only=True, slots=True)
class DocumentSettings:
    """What the documents of a world are like."""

    kbs: tuple[str, ...] = ()
    """The KBs whose entities are mentioned and in the gold; none: all."""
    mentions: int = 5
    """Mentions per document."""
    nil: float = 0.1
    """Share of the mentions that no entity is meant by, met exactly over the documents."""
    aliases: float = 0.3
    """Chance of a mention to use another name than the title."""
    context: float = 0.7
    """Chance of the sentence to tell something about what is meant."""
    splits: tuple[int, int, int] = (8, 1, 1)
    """Documents for train, dev and test out of each so many."""
    first: int = 0
    """The number of the first document: one run may go on where another ended."""

    def __post_init__(self) -> None:
        for name in ("nil", "aliases", "context"):
            if not 0 <= getattr(self, name) <= 1:
                raise ConfigError(f"synthetic documents: {name} is no share from 0 to 1")
        if self.mentions < 0 or self.first < 0 or min(self.splits) < 0 or not sum(self.splits):
            raise ConfigError(
                "synthetic documents: mentions, first and splits cannot be negative",
                hint="At least one of the three splits must be more than 0.",
            )


class _Meant(NamedTuple):
    """A thing to mention, by one of its names."""

    surface: str
    truth: Truth
    gold: tuple[EntityId, ...]
    type: str


def documents(
    world: World, count: int, settings: DocumentSettings | None = None
) -> Iterator[Document]:
    """``count`` documents of a world; see `World.documents`."""
    maker = _Maker(world, settings or DocumentSettings())
    return (maker.document(maker.settings.first + number) for number in range(count))


class _Maker:
    """Writes the documents of one world."""

    def __init__(self, world: World, settings: DocumentSettings) -> None:
        self.settings = settings
        self._world = world
        self._kbs = tuple(world.kb_number(kb) for kb in settings.kbs or world.settings.kbs)
        self._key = mix(mix(world.settings.seed) ^ 0xD0C5)
        self._nil_per_million = round(settings.nil * 1_000_000)
        self._has_unicode = world.settings.unicode > 0

    def document(self, number: int) -> Document:
        """The document of this number."""
        draws = Draws(mix(self._key ^ number))
        text, mentions = "", []
        turn = draws.bits()
        for place in range(self.settings.mentions):
            # Which mention of the document is NIL differs; how many are, does not.
            turned = (place + turn) % self.settings.mentions
            meant = self._meant(number * self.settings.mentions + turned, draws)
            before, after = self._sentence(meant, draws).split("{m}")
            start = len(text) + len(before)
            end = start + len(meant.surface)
            text += before + meant.surface + after + self._between(draws)
            mentions.append(Mention(start, end, meant.surface, meant.gold, meant.type))
        return Document(f"doc{number + 1}", text, tuple(mentions), split=self._split(number))

    def _meant(self, number: int, draws: Draws) -> _Meant:
        share = self._nil_per_million
        if (number + 1) * share // 1_000_000 > number * share // 1_000_000:
            return self._unknown(draws)
        kb = self._kbs[draws.below(len(self._kbs))]
        slot = self._world.slot_of_rank(self._world.zipf.rank(draws))
        thing = self._world.thing(kb, slot)
        told = self._world.facts.told_by(kb, thing)
        title, aliases = told.title_and_aliases(self._world.facts.names(self._world.name(kb, slot)))
        if aliases and draws.chance(self.settings.aliases):
            title = aliases[draws.below(len(aliases))]
        holders = [other for other in self._world.holders(kb, slot) if other in self._kbs]
        gold = tuple(self._world.id_of(other, slot) for other in holders)
        return _Meant(title, self._world.facts.truth(thing), gold, told.type)

    def _unknown(self, draws: Draws) -> _Meant:
        name = self._world.unused_name(draws.bits())
        truth = self._world.facts.truth(name)
        return _Meant(self._world.facts.names(name)[0], truth, (), truth.kind.type)

    def _sentence(self, meant: _Meant, draws: Draws) -> str:
        if not draws.chance(self.settings.context):
            return BARE[draws.below(len(BARE))]
        wording = (draws.below(WORDINGS) for _ in range(3))
        return TELLING[draws.below(len(TELLING))] % meant.truth.parts(*wording)

    def _between(self, draws: Draws) -> str:
        """A space, a line break or another sentence."""
        choice = draws.below(8)
        if choice == 0:
            return "\n\n"
        if choice > 2:
            return " "
        fillers = FILLERS + ODD_FILLERS if self._has_unicode else FILLERS
        return f" {fillers[draws.below(len(fillers))]} "

    def _split(self, number: int) -> Split:
        train, dev, test = self.settings.splits
        place = number % (train + dev + test)
        if place < train:
            return "train"
        return "dev" if place < train + dev else "test"
