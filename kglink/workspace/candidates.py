"""Writing the candidates of annotated mentions to a file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from kglink.errors import UsageError
from kglink.records import OnProgress, Progress
from kglink.workspace.build import build_if_stale
from kglink.workspace.named import named
from kglink.workspace.outputs import whole_file

if TYPE_CHECKING:
    from kglink.evaluation.candidate_files import Found
    from kglink.workspace.opened import Opened

FORMS = ("jsonl", "trec")


def write_candidates(
    opened: Opened,
    docs: str | Sequence[str],
    output: str | Path | TextIO,
    *,
    split: str | None = None,
    kbs: str | Sequence[str] = (),
    k: int = 64,
    union: Sequence[str | Path] = (),
    with_gold: bool = False,
    form: str = "jsonl",
    qrels: str | Path | TextIO | None = None,
    progress: OnProgress = lambda _: None,
) -> int:
    """Write the ``k`` best candidates of each KB for every mention with gold in the KBs.

    Returns how many mentions these are. Of no split: the same documents that ``evaluate`` takes.
    ``union`` names files of candidates that are put together instead. ``with_gold`` puts a right
    entity among the candidates where none was found. ``form`` is ``jsonl``, or ``trec``: a run.
    ``qrels`` is where TREC's tools read what is right. ``evaluate`` reads both forms back.
    """
    from kglink.evaluation.candidate_files import line_of
    from kglink.evaluation.retrieval import check_documents, judged_split
    from kglink.evaluation.trec import qrels_lines, run_lines

    if form not in FORMS:
        raise UsageError(f"unknown format {form!r}", hint=f"There is: {', '.join(FORMS)}.")
    names = named(docs)
    split = judged_split(opened.store, names, split)
    check_documents(opened.store, names, split)
    files = [Path(one) for one in union]
    if not files:
        build_if_stale(opened)
    known = tuple(info.name for info in opened.store.kbs() if info.entities)
    asked = named(kbs) or (known if files else opened.linked_kbs(opened.space()))
    given = (
        _united(opened, names, split, asked, known, files)
        if files
        else _found(opened, names, split, asked, k)
    )
    written = 0
    with ExitStack() as stack:

        def opened_file(one: str | Path | TextIO) -> TextIO:
            if isinstance(one, str | Path):
                return stack.enter_context(whole_file(opened, Path(one)))
            return one

        out = opened_file(output)
        golds = None if qrels is None else opened_file(qrels)
        for written, found in enumerate(given, 1):
            gold = [one for one in found.mention.gold or () if one.kb in asked]
            listed = found.listed
            if with_gold:
                listed = listed.with_gold(found.mention.gold or (), asked, in_place=not files)
            if form == "trec":
                out.write(run_lines(found.place, listed.ids))
            else:
                out.write(line_of(found._replace(listed=listed)))
            if golds is not None:
                golds.write(qrels_lines(found.place, gold))
            if written % 256 == 0:
                progress(Progress("mentions", written))
    return written


def _found(
    opened: Opened, names: Sequence[str], split: str, kbs: Sequence[str], k: int
) -> Iterator[Found]:
    """What the published space finds."""
    from kglink.evaluation.candidate_files import found_by

    linker = opened.linker(kbs, candidates=k)
    for name in names:
        yield from found_by(linker, name, opened.store.documents(name, split or None), kbs, k)


def _united(
    opened: Opened,
    names: Sequence[str],
    split: str,
    kbs: Sequence[str],
    known: Sequence[str],
    files: Sequence[Path],
) -> Iterator[Found]:
    """What several files list, as one list for each mention."""
    from kglink.evaluation.candidate_files import Found, judged_mentions, read_candidates, united
    from kglink.evaluation.trec import Place

    documents = {name: list(opened.store.documents(name, split or None)) for name in names}
    existing = opened.store.existing
    lists = [
        read_candidates(path, documents, known=known, kbs=kbs, existing=existing) for path in files
    ]
    for name, some in documents.items():
        for document, one in judged_mentions(some, kbs):
            place = Place(name, document.id, one.start, one.end)
            yield Found(place, one, united([own[place] for own in lists]))
