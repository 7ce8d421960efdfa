"""A KB as lines of JSON that hold all of it; `kglink_kbs.exported` reads them back."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from kglink.errors import UsageError
from kglink.records import (
    CodeMapping,
    Document,
    Entity,
    Mention,
    OnProgress,
    Progress,
    Record,
)
from kglink.text.printable import printable_json
from kglink.workspace.outputs import whole_file

if TYPE_CHECKING:
    from kglink.workspace.opened import Opened

Fields = dict[str, object]


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
    if form == "nif":
        if only not in ("", "documents"):
            raise UsageError(f"NIF holds no {only}", hint="It holds documents.")
        return _nif(opened, kb, output, split, progress)
    parts = (only,) if only else PARTS
    records = opened.store.records(kb, parts, split or None)
    written = 0
    for written, record in enumerate(records, 1):
        output.write(record_line(record))
        if written % 1000 == 0:
            progress(Progress("exporting", written, total))
    return written


def _nif(opened: Opened, kb: str, output: TextIO, split: str, progress: OnProgress) -> int:
    from kglink.evaluation.nif import PREFIXES, gold_phrases, nif_text

    total = opened.store.count_documents(kb, split or None)
    if not total:
        raise UsageError(f"{kb!r} has no documents" + (f" in the split {split!r}" if split else ""))
    output.write(PREFIXES)
    written = 0
    for written, document in enumerate(opened.store.documents(kb, split or None), 1):
        golds = {gold for mention in document.mentions for gold in mention.gold or ()}
        known = opened.store.get_entities(golds)
        output.write(nif_text(document.id, document.text, gold_phrases(document, known)))
        progress(Progress("exporting", written, total))
    return written


def record_line(record: Record) -> str:
    """One line for one record; fields that say nothing are left out."""
    match record:
        case Entity():
            fields = _entity(record)
        case Document():
            fields = _document(record)
        case CodeMapping():
            fields = _mapping(record)
    return printable_json(fields) + "\n"


def _entity(entity: Entity) -> Fields:
    return {"kglink": "entity", "id": entity.key, "title": entity.title} | _said(
        {
            "description": entity.description,
            "type": entity.type,
            "url": entity.url,
            "popularity": entity.popularity,
            "language": entity.language,
            "aliases": [
                {"surface": alias.surface, "kind": alias.kind, "count": alias.count}
                for alias in entity.aliases
            ],
            "xrefs": list(entity.xrefs),
            "parents": list(entity.parents),
        }
    )


def _document(document: Document) -> Fields:
    head: Fields = {"kglink": "document", "id": document.id}
    head |= _said({"title": document.title, "split": document.split})
    mentions = [_mention(mention) for mention in document.mentions]
    return head | {"text": document.text, "mentions": mentions}


def _mention(mention: Mention) -> Fields:
    fields: Fields = {"start": mention.start, "end": mention.end, "text": mention.surface}
    if mention.gold is not None:  # an empty list says that no entity is meant
        fields["gold"] = [
            {"kb": gold.kb, "key": gold.key} if gold.kb else {"key": gold.key}
            for gold in mention.gold
        ]
    return fields | _said({"type": mention.type, "quality": mention.quality})


def _mapping(mapping: CodeMapping) -> Fields:
    return {
        "kglink": "mapping",
        "subject": mapping.subject,
        "predicate": mapping.predicate,
        "object": mapping.object,
        "confidence": mapping.confidence,
    } | _said({"verdict": mapping.verdict})


def _said(fields: Mapping[str, object]) -> Fields:
    return {name: value for name, value in fields.items() if value}
