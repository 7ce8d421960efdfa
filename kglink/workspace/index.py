"""The index of a workspace's space: changed without encoding, and measured against exact search."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import islice

import numpy as np

from kglink.arrays import FloatArray, IntArray
from kglink.errors import ConfigError, UnknownNameError, UsageError
from kglink.linking.reading import MentionReader
from kglink.plugins import IndexSettings, Registry
from kglink.records import MentionInText, OnProgress
from kglink.space import index as space_index
from kglink.space import recall
from kglink.space.index import DEFAULT_INDEX, IndexChange, IndexChoice, chosen_index, trial_index
from kglink.space.manifest import RowKind, SpaceManifest
from kglink.space.recall import IndexQueries, PartFigures, sample_rows
from kglink.space.space import Space
from kglink.store import Store
from kglink.workspace.joint_space import backend_of
from kglink.workspace.opened import Opened

#: The back end that takes a faiss factory string.
FACTORY_INDEX = "kglink/faiss"
#: Queries of a measurement where nobody says how many.
QUERIES = 256
#: Mentions are drawn from this multiple of what is wanted.
_DRAWN_FROM = 20

Value = str | int | float | bool
OnStep = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class OfferedPreset:
    """A preset and the back end that offers it."""

    index: str
    settings: Mapping[str, Value]
    summary: str


@dataclass(frozen=True, slots=True)
class IndexFigures:
    """The index of a space beside exact search on the same vectors."""

    index: IndexChoice
    bytes: int
    exact_bytes: int
    queries: int
    asked: str
    """What the queries are."""
    parts: tuple[PartFigures, ...]

    def as_json(self) -> dict[str, object]:
        """What `kglink index --json` says of a measurement."""
        return {
            "index": self.index.name,
            "index_settings": dict(self.index.settings),
            "bytes": self.bytes,
            "exact_bytes": self.exact_bytes,
            "queries": self.queries,
            "asked": self.asked,
            "parts": [part.as_json() for part in self.parts],
        }


def index_presets(opened: Opened) -> dict[str, OfferedPreset]:
    """All presets of indexes by name."""
    return presets_of(opened.registry)


def presets_of(registry: Registry) -> dict[str, OfferedPreset]:
    """All presets by name; kglink's own come first, and keep their names."""
    found: dict[str, OfferedPreset] = {}
    plugins = sorted(
        registry.plugins("index"),
        key=lambda one: (not one.provider.builtin, one.name != DEFAULT_INDEX),
    )
    for plugin in plugins:
        if issubclass(plugin.settings, IndexSettings):
            for name, preset in plugin.settings.presets.items():
                offered = OfferedPreset(plugin.name, preset.settings, preset.summary)
                found.setdefault(name, offered)
    return found


# ------------------------------------------------------------------------------------- change
def change_index(
    opened: Opened,
    *,
    preset: str = "",
    factory: str = "",
    settings: Mapping[str, object] | None = None,
    stage: OnStep = lambda text: None,
) -> IndexChange | None:
    """Give the space another index and publish it; None if it already has that one.

    ``preset`` is a name, ``factory`` a faiss factory string; ``settings`` alone change those of the
    present index. ``stage`` gets the name of each step.
    """
    folder, registry = opened.joint_space.folder, opened.registry
    manifest = folder.published_manifest()
    has = IndexChoice(manifest.index, manifest.index_settings)
    wanted = _wanted(registry, has, preset, factory, settings or {})
    changed = _differences(registry, has, wanted)
    whole = folder.has_whole_index()
    if whole and changed == set():
        return None
    _refuse_to_be_undone(opened, manifest, wanted)
    kind = registry.get("index", wanted.name).settings
    keep = (
        whole
        and changed is not None
        and issubclass(kind, IndexSettings)
        and changed <= kind.search_only
    )
    stage(f"{'opening' if keep else 'building'} {index_words(wanted)}")
    return space_index.change_index(folder, wanted, backend_of(registry, folder), keep_file=keep)


def _wanted(
    registry: Registry, has: IndexChoice, preset: str, factory: str, changes: Mapping[str, object]
) -> IndexChoice:
    if preset and factory:
        raise UsageError("a preset and a factory string are two indexes", hint="Name one of them.")
    name, settings = has
    if preset:
        known = presets_of(registry)
        if preset not in known:
            raise UnknownNameError("preset", preset, known)
        name, settings = known[preset].index, known[preset].settings
    elif factory:
        name, settings = FACTORY_INDEX, {"factory": factory}
    raw: dict[str, object] = {**settings, **changes}
    values = registry.settings_for("index", name, raw).model_dump(mode="json")
    return IndexChoice(registry.get("index", name).name, {key: values[key] for key in raw})


def _differences(registry: Registry, left: IndexChoice, right: IndexChoice) -> set[str] | None:
    """The settings in which two choices differ, defaults filled in; None: other back ends."""
    if left.name != right.name:
        return None
    ours, theirs = (
        registry.settings_for("index", one.name, one.settings).model_dump() for one in (left, right)
    )
    return {key for key in ours if ours[key] != theirs[key]}


def _refuse_to_be_undone(opened: Opened, manifest: SpaceManifest, wanted: IndexChoice) -> None:
    """Refuse an index that the next build would replace."""
    after = {"index": wanted.name, "index_settings": dict(wanted.settings)}
    if chosen_index(opened.settings.space, manifest.model_copy(update=after)) == wanted:
        return
    origins = [
        f"{name} ({origin})"
        for name, origin in opened.resolved.origins.items()
        if name in ("space.index", "space.index_settings")
    ]
    raise ConfigError(
        f"the settings want another index for this space: {' and '.join(origins)}",
        hint="Take them back, so that the space keeps the index that it is given, or set them to "
        "what you want and run `kglink build`.",
    )


def index_words(index: IndexChoice) -> str:
    """An index in a line: ``kglink/faiss factory=SQ8``."""
    return " ".join([index.name, *(f"{key}={value}" for key, value in index.settings.items())])


# ------------------------------------------------------------------------------------ measure
def measure_index(
    opened: Opened,
    *,
    queries: int = QUERIES,
    stage: OnStep = lambda text: None,
    progress: OnProgress = lambda _: None,
) -> IndexFigures:
    """Compare the space's index with exact search on the same vectors."""
    if queries < 1:
        raise UsageError(f"{queries} queries measure nothing", hint="--queries 256")
    space = opened.space()
    manifest, index = space.manifest, space.index
    stage("encoding queries")
    reader = MentionReader(opened.encoder, opened.settings.link.window_chars)
    asked = index_queries(opened.store, space, reader, queries)
    if not index.exact:
        stage("building an exact index to compare with")
    choice = IndexChoice(DEFAULT_INDEX, {})
    make = backend_of(opened.registry, space.folder)
    with nullcontext() if index.exact else trial_index(space.folder, choice, make) as exact:
        stage("measuring")
        compared = exact.index if exact else index
        parts = recall.measure_index(space, index, compared, asked, progress=progress)
    return IndexFigures(
        index=IndexChoice(manifest.index, manifest.index_settings),
        bytes=manifest.index_bytes,
        exact_bytes=exact.bytes if exact else manifest.index_bytes,
        queries=asked.count,
        asked=asked.what,
        parts=tuple(parts),
    )


def is_index_asked(opened: Opened) -> bool:
    """Whether searches use the space's index: not if all rows are compared by tokens."""
    from kglink.space.token_rows import BITS_FILE  # which loads torch

    folder = opened.joint_space.folder
    manifest = folder.published_manifest()
    by_tokens = all(
        (folder.segments / name / BITS_FILE).is_file() for name in manifest.segments.values()
    )
    return not by_tokens or any(span.kind != "text" for span in manifest.spans)


def index_queries(store: Store, space: Space, reader: MentionReader, count: int) -> IndexQueries:
    """Mentions of the store's documents as linking would ask for them, where there are any.

    Rows of names are asked with the mentions' own words, rows of texts with the mentions in
    their texts. Without documents the queries are rows of the space, each without itself.
    """

    # Mentions drawn from the first documents of every KB that has any.
    def all_of(kb: str) -> Iterator[MentionInText]:
        for document in store.documents(kb):
            for mention in document.mentions:
                yield MentionInText(document.text, mention.start, mention.end)

    kbs = [info.name for info in store.kbs() if info.mentions]
    each = max(1, _DRAWN_FROM * count // max(1, len(kbs)))
    found = [mention for kb in kbs for mention in islice(all_of(kb), each)]
    chosen = random.Random(0).sample(range(len(found)), min(count, len(found)))  # noqa: S311 - a sample, no secret
    mentions = [found[at] for at in sorted(chosen)]
    rows: IntArray | None = None
    asked: dict[RowKind, FloatArray]
    if mentions:
        what = "mentions of annotated documents, drawn at random"
        surfaces = list(dict.fromkeys(mention.surface for mention in mentions))
        read = reader.read(surfaces, mentions, names=True, contexts=True, tokens=False)
        known = dict(zip(surfaces, read.names if read.names is not None else (), strict=True))
        names = [known[one.surface] for one in mentions]
        texts = [
            name if context is None else context
            for name, context in zip(names, read.contexts, strict=True)
        ]
        asked = {"alias": np.stack(names), "text": np.stack(texts)}
    else:
        kind = "names" if space.has_rows("alias") else "texts"
        what = f"{kind} of the space, drawn at random, each less itself"
        rows = sample_rows(space, count)
        asked = dict.fromkeys(("alias", "text"), space.vectors(rows))
    own = {kind: vectors for kind, vectors in asked.items() if space.has_rows(kind)}
    return IndexQueries(what, own, rows)
