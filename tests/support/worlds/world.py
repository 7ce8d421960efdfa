"""The synthetic world: every entity is computed from the seed, its KB and its number alone.

Each KB has ``n`` *slots*, filled region by region::

    0 .. nameless          shared with all KBs, under names that have nothing in common
      .. shared            shared with all KBs
      .. + false friends   the name means another thing in each KB
      .. n - copies        all its own
      .. n                 copies: things of its own under the name of an earlier slot

A permutation per KB maps the entities' order, and so their keys, to slots. Things and names are
numbers; two entities are the same thing, or have the same name, if and only if the numbers are
equal. Names with different numbers differ in every form (see `chance`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple

from kglink.errors import ConfigError, UnknownNameError
from kglink.records import Alias, Document, Entity, EntityId, Mention, Overlap, Split
from worlds.chance import Draws, Permutation, Zipf, mix
from worlds.facts import Facts, Truth
from worlds.lexicon import BARE, FILLERS, ODD_FILLERS, TELLING, WORDINGS
from worlds.settings import WorldSettings


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


class Counts(NamedTuple):
    """What a world holds, exactly; each number is per KB, and for every other KB alike."""

    entities: int
    shared: int
    """Entities that another given KB holds as well."""
    nameless: int
    """Shared entities without a name in common."""
    ambiguous: int
    """Entities with a name that another entity of the same KB carries."""
    false_friends: int
    """Entities with a name that a different thing carries in another given KB."""


class World:
    """KBs and documents made from a seed."""

    def __init__(self, settings: WorldSettings | None = None) -> None:
        self.settings = settings or WorldSettings()
        self._n = self.settings.entities
        self._shared = self.settings.shared
        self._nameless = self.settings.nameless_shared
        self._same_names = self._shared + self.settings.false_friend_names
        self._originals = self._n - self.settings.copies
        key = mix(self.settings.seed)
        self._orders = [
            Permutation.of(self._n, mix(key ^ mix(number + 1)))
            for number in range(len(self.settings.kbs))
        ]
        self._ranks = Permutation.of(self._n, mix(key ^ mix(0)))
        self.facts = Facts(self.settings, self._owner)
        self.zipf = Zipf(self._n, self.settings.skew)

    # -------------------------------------------------------------------------- the world
    def entities(self, kb: str) -> Iterator[Entity]:
        """All entities of a KB, in the order of their keys."""
        number = self.kb_number(kb)
        return (self.entity(number, index) for index in range(self._n))

    def overlaps(self, left: str = "", right: str = "") -> Iterator[Overlap]:
        """The pairs that are the same thing: of the two given KBs, or of every two."""
        pairs = [(left, right)] if left or right else combinations(self.settings.kbs, 2)
        for one, other in pairs:
            yield from self._pairs(self.kb_number(one), self.kb_number(other))

    def documents(self, count: int, settings: DocumentSettings | None = None) -> Iterator[Document]:
        """``count`` annotated documents, each computed from the seed and its number alone."""
        return documents(self, count, settings)

    @property
    def counts(self) -> Counts:
        """How many entities are shared, ambiguous and false friends."""
        shared_copied = self._copied_below(self._shared) - self._copied_below(self._nameless)
        copied = self._copied_below(self._same_names) - self._copied_below(self._nameless)
        return Counts(
            entities=self._n,
            shared=self._shared,
            nameless=self._nameless,
            ambiguous=2 * self.settings.copies,
            false_friends=self.settings.false_friend_names + shared_copied + copied,
        )

    # ------------------------------------------------------------------------ one by one
    def kb_number(self, kb: str) -> int:
        """The place of a KB in the settings."""
        if kb not in self.settings.kbs:
            raise UnknownNameError("KB of the synthetic world", kb, self.settings.kbs)
        return self.settings.kbs.index(kb)

    def entity(self, kb: int, index: int) -> Entity:
        """Entity ``index`` of KB number ``kb``."""
        slot = self._orders[kb](index)
        thing = self.thing(kb, slot)
        told = self.facts.told_by(kb, thing)
        names = self.facts.names(self.name(kb, slot))
        key = self._key(kb, index)
        popularity = self.zipf.popularity(self._ranks(slot) + 1)
        title, aliases = told.title_and_aliases(names)
        return Entity(
            key,
            title,
            told.description,
            told.type,
            f"https://{self.settings.kbs[kb]}.example/{key}",
            popularity,
            "en",
            tuple(
                Alias(surface, "synonym", 1 + int(popularity) // (2 << place))
                for place, surface in enumerate(aliases)
            ),
            self._xrefs(kb, slot) if told.has_xrefs else (),
        )

    def thing(self, kb: int, slot: int) -> int:
        """The number of the thing that a slot of a KB stands for."""
        return slot if slot < self._shared else self._n * (kb + 1) + slot

    def name(self, kb: int, slot: int) -> int:
        """The number of the name of a slot of a KB."""
        if slot >= self._originals:
            slot = self._copied(slot - self._originals)
        if self._nameless <= slot < self._same_names:
            return slot
        return self._n * (kb + 1) + slot

    def unused_name(self, number: int) -> int:
        """The number of a name that no entity of any KB carries."""
        first = self._n * (len(self.settings.kbs) + 1)
        return first + number % self._n

    def slot_of_rank(self, rank: int) -> int:
        """The slot (the same in every KB) that is the ``rank``-th most popular, from 1."""
        return self._ranks.inverse(rank - 1)

    def holders(self, kb: int, slot: int) -> tuple[int, ...]:
        """The KBs that hold the thing of a slot of a KB."""
        return tuple(range(len(self._orders))) if slot < self._shared else (kb,)

    def id_of(self, kb: int, slot: int) -> EntityId:
        """The entity in a slot of a KB."""
        return EntityId(self.settings.kbs[kb], self._key(kb, self._orders[kb].inverse(slot)))

    # --------------------------------------------------------------------------- the parts
    def _key(self, kb: int, index: int) -> str:
        return f"{self.settings.kbs[kb][0].upper()}{index + 1}"

    def _pairs(self, left: int, right: int) -> Iterator[Overlap]:
        for slot in range(self._shared):
            pair = self.id_of(left, slot), self.id_of(right, slot)
            yield Overlap(*pair, probability=1.0, verdict="correct")

    def _xrefs(self, kb: int, slot: int) -> tuple[str, ...]:
        others = (other for other in self.holders(kb, slot) if other != kb)
        return tuple(str(self.id_of(other, slot)) for other in others)

    def _owner(self, name: int) -> int:
        """The thing that a name was made for, which gives the name its form."""
        if name < self._n:
            return name if name < self._shared else self._n + name
        kb, slot = divmod(name, self._n)
        return slot if slot < self._shared and kb <= len(self._orders) else name

    def _copied(self, copy: int) -> int:
        """The slot whose name a copy carries: spread evenly over all but the copies."""
        return copy * self._originals // self.settings.copies

    def _copied_below(self, slot: int) -> int:
        """How many copies carry the name of a slot below ``slot``."""
        if not self.settings.copies:
            return 0
        # copy * originals // copies < slot  <=>  copy < slot * copies / originals
        return min(self.settings.copies, -(-slot * self.settings.copies // self._originals))


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
