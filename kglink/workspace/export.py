"""A KB written in a format that `add_kb` reads back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from kglink.errors import UsageError
from kglink.plugins import WritesRecords
from kglink.records import Document, OnProgress, Progress, Record
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
    named = (("part", only, PARTS), ("split", split, SPLITS), ("format", form, FORMS))
    for what, value, known in named:
        if value and value not in known:
            there_is = ", ".join(known)
            raise UsageError(f"unknown {what} {value!r}", hint=f"There is: {there_is}.")
    info = opened.store.kb(kb)
    total = info.entities + info.documents + info.mappings
    if isinstance(output, str | Path):
        with whole_file(opened, Path(output)) as out:
            return export(opened, kb, out, only=only, split=split, form=form, progress=progress)
    if not hasattr(output, "write"):
        hint = "Name a file, or give one that is open for writing."
        raise UsageError(f"the output is of the type {type(output).__name__}", hint=hint)
    records: Iterable[Record]
    if form == "nif":
        if only not in ("", "documents"):
            raise UsageError(f"NIF holds no {only}", hint="It holds documents.")
        records, total = _documents(opened, kb, split)
    else:
        records = opened.store.records(kb, (only,) if only else PARTS, split or None)
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


def _documents(opened: Opened, kb: str, split: str) -> tuple[Iterator[Document], int]:
    total = opened.store.count_documents(kb, split or None)
    if not total:
        raise UsageError(f"{kb!r} has no documents" + (f" in the split {split!r}" if split else ""))
    return opened.store.documents(kb, split or None), total
