"""Reads an export in two passes: pages into spill files, then records in the order of the pages."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from itertools import chain
from pathlib import Path
from typing import Any

from kglink.errors import SourceError
from kglink.records import Record
from kglink.sources import Problems, Source, Step
from kglink_kbs.mediawiki.chunk import Lottery
from kglink_kbs.mediawiki.join import TURNS, Emitter, group_of, joined_of
from kglink_kbs.mediawiki.kinds import TypeNames, add_names
from kglink_kbs.mediawiki.pages import Export
from kglink_kbs.mediawiki.plan import ABOUT, Plan, read_section, write_packed, write_sections
from kglink_kbs.mediawiki.settings import MediaWikiSettings
from kglink_kbs.mediawiki.site import Site, read_site
from kglink_kbs.mediawiki.workers import Job, ReadJob, Workers, keeping, processors

#: Bytes of a dump as it lies on disk for each part of the titles, and the most parts.
PART_BYTES = 4 * 2**20
MOST_PARTS = 512
#: The smallest and the largest piece that is parsed at once, unpacked; the size grows with the
#: dump, so that a large one makes thousands of spill files and not hundreds of thousands.
LEAST_PIECE, MOST_PIECE = 2**20, 2**24
PIECES = 2048
MOST_GROUPS = 1024
#: Smaller dumps are read in this process: starting others would take longer.
ALONE_BYTES = 2**18
#: The steps of a reading, as progress names them.
PAGES, NAMES, RECORDS = "1/3 pages", "2/3 names", "3/3 records"
#: Version of the kept files: those of another version are not resumed.
_FORMAT = 6
#: A title ending marks subpages if so many titles have it.
_LEAST_PARENTS = 3
#: How pages are taken that are left out.
_HINTS = {
    "page of other namespaces": "Articles stand in namespace 0; --set namespaces=KEY takes others.",
    "disambiguation page": "--set disambiguation=true takes disambiguation pages.",
    "list page": "--set lists=true takes lists.",
    "redirect": "Redirects lead to pages that are not in this export, or are left out as well.",
}


class MediaWikiAdapter:
    """Reads the articles of a MediaWiki export as entities, and some as annotated documents."""

    #: Workers of a cluster may parse the pieces of a dump: it asks ``Source.spread`` for them.
    spreads = True

    def __init__(self, settings: MediaWikiSettings) -> None:
        self._settings = settings

    def read(self, source: Source, problems: Problems) -> Iterator[Record]:
        """Yield an entity for each article, in the order of the dump.

        Nothing comes before the whole dump has been read once: an article's names stand in the
        links of all others.
        """
        return _Reading(source, self._settings, problems).records()


class _Reading:
    """One reading of one dump."""

    def __init__(self, source: Source, settings: MediaWikiSettings, problems: Problems) -> None:
        self._source = source
        self._settings = settings
        self._problems = problems
        self._lottery = Lottery(settings.documents)

    def records(self) -> Iterator[Record]:
        """All records; the files of a folder are one dump in parts."""
        exports = (self._export(file) for file in self._source.files())
        first = next(exports, None)
        if first is None:
            raise SourceError(
                f"{self._source.label} holds no file",
                hint="Give an export, or a folder of its parts.",
            )
        self._source.step = Step(PAGES)
        plan = self._plan(read_site(first.header(), self._source.label))
        _prepare(plan)
        alone = self._source.bytes_total < ALONE_BYTES
        processes = 0 if alone else self._settings.workers or processors()
        with Workers(plan, processes) as workers:
            chunks = self._read(plan, chain([first], exports), workers)
            groups = min(chunks, MOST_GROUPS)
            if chunks:
                self._between_passes(plan, chunks, groups, workers)
        if chunks:
            types = TypeNames(_about(plan, chunk) for chunk in range(chunks))
            emitter = Emitter(plan, types, self._lottery.largest)
            group, any_record = -1, False
            for chunk in range(chunks):
                self._source.step = Step(RECORDS, chunk, chunks, "parts")
                if group != group_of(chunk, chunks, groups):
                    group = group_of(chunk, chunks, groups)
                    found = joined_of(plan, group)
                for record in emitter.records(chunk, found):
                    any_record = True
                    yield record
            if not any_record:
                self._refuse_empty(_about(plan, chunk) for chunk in range(chunks))
            for what, count in emitter.left_out.items():
                self._problems.pass_over(what, count)

    def _refuse_empty(self, chunks: Iterable[dict[str, Any]]) -> None:
        """Say what the pages are of an export of which none is an article."""
        pages: Counter[str] = Counter()
        for about in chunks:
            pages["page of other namespaces"] += about["elsewhere"]
            pages.update(about["left_out"])
        if found := [f"{count:,} x {what}" for what, count in pages.items() if count]:
            raise SourceError(
                f"{self._source.label} holds no article: {', '.join(found)}",
                hint=" ".join(hint for what, hint in _HINTS.items() if pages[what]),
            )

    def _export(self, file: Source) -> Export:
        file.check_text()
        size = max(LEAST_PIECE, min(self._source.bytes_total // PIECES, MOST_PIECE))
        return Export(
            file.open(),
            file.label,
            piece_bytes=size,
            max_page_bytes=int(self._settings.max_page_mb * 2**20),
            report=lambda page: self._problems.refuse(*page),
        )

    def _plan(self, site: Site) -> Plan:
        settings = self._settings
        parts = 1
        while parts < MOST_PARTS and parts * PART_BYTES < self._source.bytes_total:
            parts *= 2
        # With more processes it is the same plan.
        language = settings.language or site.language
        planned = settings.model_copy(update={"language": language, "workers": 0})
        return Plan(self._source.label, str(self._source.scratch), parts, site, planned)

    # ------------------------------------------------------------------------ the first pass
    def _read(self, plan: Plan, exports: Iterable[Export], workers: Workers) -> int:
        """Read every piece that an earlier run has not; returns how many there are."""
        count = told = 0

        def left() -> Iterator[tuple[Job, bytes]]:
            nonlocal count
            for export in exports:
                with export:
                    for label, offset, data in export.pieces():
                        if not plan.chunk(count).exists():
                            bound = self._lottery.bound if plan.settings.documents else 0
                            job = {"do": "read", "chunk": count, "bound": bound, "label": label}
                            yield job | {"offset": offset}, data
                        count += 1

        if spread := self._source.spread:
            pieces = (
                (f"{job['label']} from byte {job['offset']:,} on", (job, data))
                for job, data in left()
            )
            answers = spread(ReadJob(plan), pieces)
        else:
            answers = workers.do(left())
        with closing(answers):
            for answer in answers:
                number = answer["chunk"]
                if "packed" in answer:
                    with keeping(plan):
                        write_packed(plan.chunk(number), [answer["packed"]])
                for known in range(told, number + 1):
                    self._tell(_about(plan, known))
                told = number + 1
        for known in range(told, count):
            self._tell(_about(plan, known))
        return count

    def _tell(self, about: dict[str, Any]) -> None:
        for page in about["bad"]:
            self._problems.refuse(*page)
        for what, count in about["left_out"].items():
            self._problems.pass_over(what, count)
        self._lottery.add(about["lots"])

    # -------------------------------------------------------------------- between the passes
    def _between_passes(self, plan: Plan, chunks: int, groups: int, workers: Workers) -> None:
        """Join links, redirects and pages."""
        if plan.settings.subpages == "auto":
            tails: Counter[str] = Counter()
            for chunk in range(chunks):
                add_names(tails, _about(plan, chunk)["tails"])
            kept = [one for one, count in tails.items() if one and count >= _LEAST_PARENTS]
            write_sections(plan.tails(), [json.dumps(kept).encode()])

        def jobs(do: str, **more: int) -> list[Job]:
            shared = {"do": do, "chunks": chunks, "groups": groups, **more}
            return [{**shared, "part": part} for part in range(plan.parts)]

        # The steps of `PartResolver`, each for all parts, and the file that each ends with.
        steps: list[tuple[list[Job], Callable[[Job], Path]]] = [
            (jobs("ask"), lambda job: plan.asked(0, job["part"])),
            *(
                (jobs("answer", turn=turn), lambda job: plan.asked(job["turn"] + 1, job["part"]))
                for turn in range(TURNS)
            ),
            (jobs("join"), lambda job: plan.joined(job["part"])),
        ]
        total = sum(len(step) for step, _ in steps)
        done = 0
        for step, made in steps:
            left = [(job, b"") for job in step if not made(job).exists()]
            done += len(step) - len(left)
            answers = workers.do(left)
            for _ in left:
                self._source.step = Step(NAMES, done, total, "parts")
                next(answers)
                done += 1


def _about(plan: Plan, number: int) -> dict[str, Any]:
    about: dict[str, Any] = json.loads(read_section(plan.chunk(number), ABOUT))
    return about


def _prepare(plan: Plan) -> None:
    """Prepare the folder; files of another plan are removed."""
    folder, stated = Path(plan.folder), json.dumps([_FORMAT, plan.as_json()])
    told_in = folder / "plan.json"
    try:
        if told_in.exists() and told_in.read_text(encoding="utf-8") == stated:
            return
        for path in folder.iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        told_in.write_text(stated, encoding="utf-8")
    except OSError as error:
        raise SourceError(f"cannot write to {folder}: {error.strerror or error}") from error
