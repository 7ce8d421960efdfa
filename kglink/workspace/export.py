"""A KB written in a format that `add_kb` reads back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from kglink.errors import UsageError
from kglink.plugins import WritesRecords
from kglink.records import OnProgress, Progress, Record
from kglink.workspace.outputs import whole_file

if TYPE_CHECKING:
    from kglink.workspace.opened import Opened

PARTS = ("entities", "documents", "mappings")
SPLITS = ("train", "dev", "test")
FORMS = ("jsonl", "nif")


def export(
    opened: Opened,
    kb: str,
    output: str | Path | TextIO,
    *,
    only: str = "",
    split: str = "",
    form: str = "jsonl",
    progress: OnProgress = lambda _: None,
) -> int:
    """Write a KB such that `add_kb` of that file loses nothing; returns how many records it has.

    ``only`` is one of `PARTS`, ``split`` that of the documents; empty: all. A gold names its KB:
    export the KBs that documents link to as well, and add them first. In the ``form`` ``nif`` it is
    the documents alone, as GERBIL reads a data set.
    """
    for what, value, known in (
        ("part", only, ("", *PARTS)),
        ("split", split, ("", *SPLITS)),
        ("format", form, FORMS),
    ):
        if value not in known:
            there_is = ", ".join(filter(None, known))
            raise UsageError(f"unknown {what} {value!r}", hint=f"There is: {there_is}.")
    opened.store.kb(kb)
    if isinstance(output, str | Path):
        with whole_file(opened, Path(output)) as out:
            return export(opened, kb, out, only=only, split=split, form=form, progress=progress)
    if not hasattr(output, "write"):
        hint = "Name a file, or give one that is open for writing."
        raise UsageError(f"the output is of the type {type(output).__name__}", hint=hint)
    records, total = _records(opened, kb, only, split, form)
    written = 0

    def counted() -> Iterator[Record]:
        nonlocal written
        for written, record in enumerate(records, 1):
            yield record
            if written % 1000 == 0:
                progress(Progress("exporting", written, total))

    writer = opened.registry.create("kb", f"kglink/{form}")
    if isinstance(writer, WritesRecords):  # as all of `FORMS` do
        writer.write(counted(), output, opened.store.get_entities)
    return written


def _records(
    opened: Opened, kb: str, only: str, split: str, form: str
) -> tuple[Iterator[Record], int]:
    """What is written, and how many records that is at most."""
    if form != "nif":
        info = opened.store.kb(kb)
        total = info.entities + info.documents + info.mappings
        return opened.store.records(kb, (only,) if only else PARTS, split or None), total
    if only not in ("", "documents"):
        raise UsageError(f"NIF holds no {only}", hint="It holds documents.")
    total = opened.store.count_documents(kb, split or None)
    if not total:
        raise UsageError(f"{kb!r} has no documents" + (f" in the split {split!r}" if split else ""))
    return opened.store.documents(kb, split or None), total
