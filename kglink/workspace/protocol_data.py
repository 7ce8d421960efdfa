"""The data of a protocol: a folder is looked at, and its KBs are added where they are missing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kglink.errors import SourceError, UsageError
from kglink.records import OnProgress
from kglink.sources import OnNote
from kglink.workspace.kbs import AddedKB, add_kb
from kglink.workspace.random_split import read_random_split

if TYPE_CHECKING:
    from kglink.evaluation.protocols import Layout, SourceOfKBs
    from kglink.workspace.opened import Opened

_KB = "{kb}"


def missing_kbs(opened: Opened, layout: Layout) -> list[str]:
    """The KBs of a layout that the workspace does not have whole."""
    whole = {info.name for info in opened.store.kbs() if info.complete and not info.updating}
    return [kb for source in layout.kbs for kb in source.names if kb not in whole]


def check_folder(layout: Layout, folder: Path | None, missing: list[str]) -> None:
    """Refuse a folder that does not hold the data, before anything is added."""
    if not missing:
        return
    shape = f"It is {layout.shape}."
    if folder is None:
        some = ", ".join(missing[:3]) + (", ..." if len(missing) > 3 else "")
        raise UsageError(
            f"the workspace does not have {some}: the data are {layout.title}",
            hint=f"Name them: --data DIR. {shape}",
        )
    if not folder.is_dir():
        raise SourceError(f"{folder} is not a folder", hint=f"--data names one. {shape}")
    needs = [
        one.replace(_KB, kb)
        for one in layout.needs
        for kb in (layout.kbs[0].names if _KB in one else ("",))
    ]
    lacking = [one for one in needs if not list(folder.glob(f"{one}*"))]
    if lacking:
        more = f" and {len(lacking) - 1} other files" if len(lacking) > 1 else ""
        raise SourceError(
            f"{folder} does not hold {layout.title}: it lacks {lacking[0]}{more}", hint=shape
        )


def add_data(
    opened: Opened, layout: Layout, folder: Path | None, progress: OnProgress, on_note: OnNote
) -> None:
    """Add the KBs that the workspace does not have; an interrupted one goes on where it was."""
    missing = missing_kbs(opened, layout)
    check_folder(layout, folder, missing)
    if folder is None:
        return
    for source in layout.kbs:
        own = opened.with_settings({"ingest.on_error": "skip"} if source.bad_records else {})
        for kb in source.names:
            if kb in missing:
                path = folder / source.path.replace(_KB, kb)
                added = add_kb(own, kb, path, **_told(source, kb), progress=progress)
                on_note("added", f"{kb}: {', '.join(_counts(added))}")


def _counts(added: AddedKB) -> Iterator[str]:
    """What was added, and what was not."""
    summary = added.summary
    yield f"{summary.added:,} records"
    yield f"{summary.mentions:,} mentions"
    if bad := added.problems.total:
        yield f"{bad:,} bad record{'s' * (bad > 1)} left out"
    if lost := summary.gold_unresolved:
        yield f"{lost:,} golds that these KBs do not have"


def _told(source: SourceOfKBs, kb: str) -> dict[str, Any]:
    """What `add_kb` is told of a KB."""
    options = {
        key: value.replace(_KB, kb) if isinstance(value, str) else value
        for key, value in source.options.items()
    }
    drawn = source.split_random.get(kb)
    return {
        "adapter": source.adapter,
        "options": options,
        "links_to": source.links_to,
        "split": source.split,
        "split_random": read_random_split(drawn) if drawn else None,
    }
