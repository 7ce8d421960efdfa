"""The file of a workspace that holds what was discovered, and what people said of it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from kglink.errors import (
    DamagedFileError,
    KglinkError,
    NewerFileError,
    UsageError,
    naming_missing_right,
)
from kglink.files.atomic import file_lock, write_atomically
from kglink.files.manifest import ManifestPart, read_manifest
from kglink.linking.discovery import Discovery
from kglink.text.fold import fold
from kglink.workspace.folder import DISCOVERIES_FILE

#: ``accept``: it becomes an entity; ``merge``: it is another discovery; ``link``: it is an entity
#: that a KB has already; ``reject``: it is nothing.
DiscoveryAnswer = Literal["accept", "merge", "link", "reject"]
_FORMAT = 1
_WAIT_S = 10.0


class DiscoveryVerdict(ManifestPart):
    """What a person said of a discovery."""

    answer: DiscoveryAnswer
    into: str = ""
    """The discovery that it is merged with, or the entity that it is."""


class KeptDiscoveries(ManifestPart):
    """The file: what was found last, and before that if it was judged."""

    format: int = _FORMAT
    found: tuple[Discovery, ...] = ()
    answers: Mapping[str, DiscoveryVerdict] = {}
    promoted: Mapping[str, tuple[str, ...]] = {}
    """The KBs in which `promote` made an entity of a discovery."""
    named: Mapping[str, tuple[str, ...]] = {}
    """The names that `promote` gave to entities which KBs had already."""


@contextmanager
def changing(folder: Path) -> Iterator[None]:
    """Nobody else changes what was discovered meanwhile."""
    busy = UsageError("another process is changing what was discovered", hint="Try again.")
    lock = folder / f".{DISCOVERIES_FILE}.lock"
    with naming_missing_right(f"workspace {folder}"), file_lock(lock, busy, wait=_WAIT_S):
        yield


def read_discoveries(folder: Path) -> KeptDiscoveries:
    """What was discovered, if anything was."""
    path = folder / DISCOVERIES_FILE
    if not path.exists():
        return KeptDiscoveries()
    try:
        return read_manifest(KeptDiscoveries, path, newest=_FORMAT)
    except NewerFileError as error:
        raise KglinkError(error.message, hint="Upgrade kglink.") from error
    except DamagedFileError as error:
        raise KglinkError(
            error.message, hint="Move it away, and discover again; promoted entities stay."
        ) from error


def write_discoveries(folder: Path, kept: KeptDiscoveries) -> None:
    """Put this in the place of what was discovered before."""
    write_atomically(folder / DISCOVERIES_FILE, kept.model_dump_json(indent=1) + "\n")


def names_of_discoveries(folder: Path) -> dict[str, str]:
    """By folded name the discovery that alone has it; what was rejected is left out."""
    kept = read_discoveries(folder)
    ids: dict[str, set[str]] = defaultdict(set)
    for one in kept.found:
        goal, said = end_of_merges(one.id, kept.answers)
        if said is None or said.answer != "reject":
            for name in folded_names(one):
                ids[name].add(goal)
    return {name: min(several) for name, several in ids.items() if len(several) == 1}


def end_of_merges(
    name: str, answers: Mapping[str, DiscoveryVerdict]
) -> tuple[str, DiscoveryVerdict | None]:
    """The discovery that one is at last merged with, or itself; and what was said of that."""
    said = answers.get(name)
    while said is not None and said.answer == "merge":
        name, said = said.into, answers.get(said.into)
    return name, said


def folded_names(one: Discovery) -> set[str]:
    """The names of a discovery as they are looked up."""
    return {fold(name) or name for name in one.names}
