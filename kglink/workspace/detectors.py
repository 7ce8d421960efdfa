"""The detectors of mentions: which ones a run asks, with which settings and for which names."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from kglink.config import AUTO, EncoderSection, LinkSection, all_settings, env_name
from kglink.errors import ConfigError
from kglink.files.digest import digest_of
from kglink.models.head_folder import TAGGER
from kglink.plugins import Detector, NameRow, Names, PluginSettings, Registry
from kglink.plugins.settings import setting_keys
from kglink.space.folder import SpaceFolder
from kglink.space.segment_names import alias_rows
from kglink.space.space import SpaceNames
from kglink.store import Store
from kglink.store.memory import PartOfMemory
from kglink.store.occurrences import Meaning
from kglink.text.fold import fold
from kglink.text.name_words import name_key

DICTIONARY, LEARNED = "kglink/dictionary", "kglink/learned"


class DetectorChoice(NamedTuple):
    """The settings of linking with their detectors by name; ``note`` says where these are from."""

    link: LinkSection
    note: str = ""
    identity: str = ""
    """Differs from one trained detector to another."""


def chosen_detector(
    folder: SpaceFolder, link: LinkSection, encoder: EncoderSection
) -> DetectorChoice:
    """The detectors that the settings name.

    ``auto``: of the dictionary, the trained one and both, what was best where they were compared.
    """
    automatic, note = _automatic(folder) if AUTO in link.detector else ((), "")
    short = LEARNED.rpartition("/")[2]
    named = [name for one in link.detector for name in (automatic if one == AUTO else (one,))]
    names = tuple(dict.fromkeys(LEARNED if name == short else name for name in named))
    settings, identity = link.detector_settings, ""
    if automatic:  # settings of the one that is not asked wait until it is
        unasked = {DICTIONARY, LEARNED}.difference(names)
        prefixes = tuple(f"{name}." for full in unasked for name in (full, full.rpartition("/")[2]))
        settings = {key: one for key, one in settings.items() if not key.startswith(prefixes)}
    if LEARNED in names:
        own: dict[str, str | int | float | bool] = {
            "model": str(folder.detector),
            "device": encoder.device,
            "precision": encoder.precision,
            "threads": encoder.threads,
            "decides": len(names) == 1,
        }
        settings = {**{f"{LEARNED}.{key}": value for key, value in own.items()}, **settings}
        if TAGGER.is_there(folder.detector):
            identity = digest_of(TAGGER.read(folder.detector, check=False).model_dump(mode="json"))
    chosen = link.model_copy(update={"detector": names, "detector_settings": settings})
    return DetectorChoice(chosen, note, identity)


def without_auto(link: LinkSection) -> LinkSection:
    """The settings with the dictionary in the place of ``auto``: it needs no training."""
    names = tuple(DICTIONARY if one == AUTO else one for one in link.detector)
    return link.model_copy(update={"detector": names})


def _automatic(folder: SpaceFolder) -> tuple[tuple[str, ...], str]:
    """The names of the detectors that are asked, and what is said of them."""
    if not TAGGER.is_there(folder.detector):
        return (DICTIONARY,), ""
    manifest = TAGGER.read(folder.detector, check=False)
    trained = f"the detector trained on {', '.join(manifest.documents)}"
    figures = f" (held-out documents: {manifest.figures})" if manifest.figures else ""
    if not manifest.is_better:
        return (DICTIONARY,), f"found by the dictionary; {trained} is worse{figures}"
    worse = manifest.worse_elsewhere
    other = f"; texts like those of {worse} are for `--detector dictionary`" if worse else ""
    if manifest.finds_alone:
        return (LEARNED,), f"found by {trained}{figures}{other}"
    return (DICTIONARY, LEARNED), f"found by the dictionary and {trained}{figures}{other}"


class NamesWithMemory:
    """The names of KBs, and the surfaces that meant their entities in annotated documents."""

    def __init__(self, names: SpaceNames, memory: Store | PartOfMemory, kbs: Sequence[str]) -> None:
        self._names, self._memory, self._kbs = names, memory, frozenset(kbs)
        self._remembers = bool(memory.memory_sources())
        # A part of memory is asked once: its compiled names would push out those of the whole.
        self.cache_dir = None if isinstance(memory, PartOfMemory) else names.cache_dir
        self.fingerprint = names.fingerprint
        if self._remembers:
            self.fingerprint = digest_of([names.fingerprint, memory.memory_state(), *sorted(kbs)])

    @property
    def parts(self) -> list[Names]:
        """The same in parts, of which those that were there before are compiled already."""
        first, *later = self._names.parts
        if not later:
            return [self]
        return [NamesWithMemory(first, self._memory, list(self._kbs)), *later]

    def has(self, folded: str) -> bool:
        """Whether an entity has this folded name, or a text gave it to one."""
        return self._names.has(folded) or (
            self._remembers and bool(self._memory.meanings([name_key(folded)]))
        )

    def __len__(self) -> int:
        return len(self._names) + sum(1 for _ in self._remembered())

    def __iter__(self) -> Iterator[NameRow]:
        yield from self._names
        yield from self._remembered()

    def _remembered(self) -> Iterator[NameRow]:
        meanings = self._memory.all_meanings() if self._remembers else ()
        return remembered_names(
            (one for one in meanings if not self._names.leaves_out(one.entity)), self._kbs
        )


class NamesOfStore:
    """The names of KBs as the store has them, and surfaces that meant their entities.

    They are the names of a space that is built of the store, and need none.
    """

    cache_dir: Path | None = None

    def __init__(
        self, store: Store, kbs: Sequence[str], known: Callable[[], Iterator[Meaning]]
    ) -> None:
        self._store, self._kbs, self._known = store, kbs, known
        revisions = [[kb, str(store.kb(kb).revision)] for kb in kbs]
        self.fingerprint = digest_of([store.identity, revisions, store.memory_state()])

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __iter__(self) -> Iterator[NameRow]:
        for kb in self._kbs:
            for entity, forms in self._store.folded_entities(kb):
                for folded, (surface, count) in alias_rows(entity, forms).items():
                    yield NameRow(surface, folded, kb, count, entity.key)
        yield from remembered_names(self._known(), self._kbs)

    def spellings(self, word: str) -> frozenset[str]:
        """The names that are a word, in whatever case."""
        bearers = (self._store.bearers_of(kb, [fold(word)]) for kb in self._kbs)
        return frozenset(one.surface for some in bearers for one in some)


def remembered_names(meanings: Iterable[Meaning], kbs: Collection[str]) -> Iterator[NameRow]:
    """Surfaces as names of the entities of some KBs that they meant."""
    for one in meanings:
        if one.entity.key and one.entity.kb in kbs:
            times = max(1, round(one.times))
            yield NameRow(one.surface, one.folded, one.entity.kb, times, one.entity.key)


def detectors_for(names: Names, settings: LinkSection, registry: Registry) -> dict[str, Detector]:
    """The detectors that the settings name, for some names."""
    return {
        name: registry.create("detector", name, own, names)
        for name, own in detector_settings(registry, settings).items()
    }


def detector_settings(registry: Registry, settings: LinkSection) -> dict[str, PluginSettings]:
    """The checked settings of each detector, by its full name."""
    plugins = [registry.get("detector", one) for one in settings.detector]
    keys = {plugin.name: setting_keys(plugin.settings) for plugin in plugins}
    raw: dict[str, object] = {}
    if settings.language != "auto":
        raw = {f"{name}.language": settings.language for name in keys if "language" in keys[name]}
    for setting, value in settings.detector_settings.items():
        if setting in dict(all_settings()):
            raise ConfigError(
                f"{setting!r} is a setting of the workspace, not of a detector",
                hint=f"Write it in kglink.toml, or for one command: {env_name(setting)}={value}",
            )
        owners = [name for name in keys if len(keys) == 1 or setting in keys[name]]
        is_named = "." in setting or len(owners) != 1
        key = setting if is_named else f"{owners[0]}.{setting}"
        raw.pop(key, None)  # of two spellings the later one counts
        raw[key] = value
    return registry.settings_of_each("detector", keys, raw, "link.detector_settings")
