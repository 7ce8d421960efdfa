"""Finding and making workspace folders."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable, Sequence
from numbers import Integral, Real
from pathlib import Path
from typing import TypeVar

from kglink.config import CONFIG_FILE
from kglink.errors import ConfigError, UsageError
from kglink.records import EntityId
from kglink.workspace.trust import expanded, is_own_or_allowed, trust_command

Known = TypeVar("Known", bound=str)

WORKSPACE_VARIABLE = "KGLINK_WORKSPACE"

#: What lies in a workspace beside its settings and its store.
SPACES_FOLDER = "spaces"
RUNS_FOLDER = "runs"
#: The journals of reviews.
REVIEWS_FOLDER = "reviews"
#: Where adapters keep what must outlive an interruption; a folder for each unfinished job.
SCRATCH_FOLDER = ".scratch"
#: What lies in it of servers: jobs that they go on with.
JOBS_FOLDER = "jobs"
#: Vectors of texts that overlaps were looked for with, a file for each encoder.
VECTORS_FOLDER = "vectors"
#: Ranks of mentions that tables of papers are made of, a folder for each space.
REPRODUCED_FOLDER = "reproduced"

#: Discoveries: things that no KB has, and people's verdicts on them.
DISCOVERIES_FILE = "discoveries.json"
#: The KB that accepted discoveries go to.
PROMOTED = "discovered"
#: The clusterer of `kglink link --cluster`.
CLUSTERER = "kglink/mentions"
#: A mention is unknown if no KB has it more probably than not.
LEAST_UNKNOWN = 0.5
#: Entities that a map shows unless more are asked for: encoded before fine-tuning in a minute.
MAP_ENTITIES = 5000
#: The model that was trained on this workspace's verdicts.
OVERLAP_MODEL_FILE = "overlap_model.json"
#: All that a workspace lives from, but for its store.
OWNED = (
    CONFIG_FILE,
    SPACES_FOLDER,
    RUNS_FOLDER,
    REVIEWS_FOLDER,
    SCRATCH_FOLDER,
    VECTORS_FOLDER,
    REPRODUCED_FOLDER,
    DISCOVERIES_FILE,
    OVERLAP_MODEL_FILE,
)

_NEW_CONFIG = """\
# Settings of this kglink workspace. Every key is also a variable (link.top_k: KGLINK_LINK_TOP_K)
# and most are flags; `kglink settings` lists them all with their values and origins.

[store]
url = "sqlite:///kglink.db"
"""


def find_workspace(*, named: Path | None = None) -> Path | None:
    """The workspace to use: ``named``, else ``KGLINK_WORKSPACE``, else upward from here.

    One that is found upward and belongs to somebody else is refused until its user allows it.
    """
    folder = named_workspace(named)
    if folder is not None:
        if not (folder / CONFIG_FILE).is_file():
            raise ConfigError(
                f"{folder} is no workspace: it has no {CONFIG_FILE}",
                hint=f"Make one there with `kglink init {shlex.quote(str(folder))}`.",
            )
        return folder
    here = Path.cwd().resolve()
    for folder in (here, *here.parents):
        if (folder / CONFIG_FILE).is_file():
            if not is_own_or_allowed(folder):
                raise ConfigError(
                    f"{folder / CONFIG_FILE} belongs to somebody else, and says what kglink does",
                    hint=f"If you trust it, name it (--workspace {shlex.quote(str(folder))}), or "
                    f"allow it for good: {trust_command(folder)}",
                )
            return folder
    return None


def init_workspace(folder: Path) -> Path:
    """Make ``folder`` a workspace; one that exists already is an error."""
    folder = expanded(folder)
    config = folder / CONFIG_FILE
    if config.exists():
        raise UsageError(f"{folder} is a workspace already", hint=f"Its settings: {config}")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with config.open("x", encoding="utf-8") as out:
            out.write(_NEW_CONFIG)
    except OSError as error:
        raise UsageError(
            f"cannot make a workspace in {folder}: {error.strerror}",
            hint="Name a folder that is new, or in which you may write.",
        ) from error
    return folder


def folder_size(folder: Path) -> tuple[int, float]:
    """The bytes in a folder and when the last of it was written; files may go meanwhile."""
    size, changed = 0, 0.0
    for path in (folder, *folder.rglob("*")):
        try:
            status = path.stat()
        except FileNotFoundError:  # whoever writes there has just replaced it
            continue
        size += 0 if path.is_dir() else status.st_size
        changed = max(changed, status.st_mtime)
    return size, changed


def named_workspace(named: Path | None) -> Path | None:
    """The folder ``named``, else that of ``KGLINK_WORKSPACE``, whole; None where neither is."""
    value = os.environ.get(WORKSPACE_VARIABLE, "")
    chosen = named or (Path(value) if value else None)
    return expanded(chosen) if chosen else None


def named(names: str | EntityId | Iterable[str | EntityId]) -> tuple[str, ...]:
    """The names that were given, each once; a bare string is one name, not its letters."""
    is_one = isinstance(names, str | bytes | EntityId) or not isinstance(names, Iterable)
    each: Iterable[object] = [names] if is_one else names
    found = dict[str, None]()
    for one in each:
        if not isinstance(one, str | EntityId):
            hint = "One name is a str, several are a list of them; leave it out for the default."
            raise UsageError(f"names are given by the type {type(one).__name__}", hint=hint)
        found[str(one)] = None
    return tuple(found)


def check_answers(k: object, what: str = "k") -> None:
    """Refuse what is no number of answers."""
    if isinstance(k, bool) or not isinstance(k, Integral) or k < 1:
        raise UsageError(f"{what} = {k!r}: there is at least one answer", hint="Give a number.")


def check_probability(value: float, what: str) -> None:
    """Refuse what is no probability."""
    if isinstance(value, bool) or not isinstance(value, Real) or not 0 <= value <= 1:
        raise UsageError(f"{what} = {value}: a probability is from 0 to 1")


def check_known(what: str, value: str, known: Sequence[Known], *, hint: str = "") -> Known:
    """The value; refused where it is none of those that there are."""
    if value not in known:
        there = f"There is: {', '.join(filter(None, known))}."
        raise UsageError(f"unknown {what} {value!r}", hint=f"{there} {hint}".rstrip())
    return known[known.index(value)]
