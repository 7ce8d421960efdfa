"""`Workspace.link`, `explain` and `search`; texts are linked by this process or by several.

`LinkJob` is what a process needs to link some of the texts, on whatever machine it is.
"""

from __future__ import annotations

import io
import os
import re
import signal
import threading
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kglink.config import CONFIG_FILE, ResolvedSettings
from kglink.errors import SpaceError, UsageError
from kglink.linking.candidates import CandidateSearch
from kglink.linking.explain import Explanation
from kglink.linking.kinds import joint_ranking
from kglink.linking.pipeline import Linker, text_groups
from kglink.linking.reading import MentionReader
from kglink.linking.scoring import SEARCH_SCORING
from kglink.plugins import Exporter, load_registry
from kglink.records import (
    Candidate,
    Entity,
    EntityId,
    LinkedDocument,
    MentionInText,
    Span,
    TextInput,
)
from kglink.shown import ShownList
from kglink.workspace.folder import check_answers, named
from kglink.workspace.link_setup import Limits, check_plugins, token_search_of
from kglink.workspace.opened import Opened, make_room
from kglink.workspace.outputs import export_links
from kglink.workspace.spaces import answers, build_if_stale

if TYPE_CHECKING:
    from concurrent.futures import Future
    from multiprocessing.connection import Connection


def link(
    opened: Opened,
    texts: str | TextInput | Iterable[TextInput | str],
    kbs: str | Sequence[str] = (),
    *,
    types: str | Sequence[str] = (),
    under: str | Sequence[str] = (),
    not_under: str | Sequence[str] = (),
    threshold: float | None = None,
    wait: bool = True,
) -> Iterator[LinkedDocument]:
    """Link a text, or several, to the space; plain strings are numbered.

    ``types`` are the types of entities that may be answers; ``under`` and ``not_under`` are
    branches of KBs, such as ``doid:DOID:4``, that they must and must not be in. ``threshold`` is
    the least probability of a link, instead of that of the settings. Corrections of a text
    (``correct``) take precedence.

    A space that is missing or older than the store is built first. Without ``wait``, or if
    ``link.found_by`` is names, a new KB answers by its names alone until ``build`` has made its
    vectors: ``meta["names_alone"]`` of each answer names such KBs, and counts their vectors.

    With the setting ``link.workers`` several processes link side by side; a script must then have
    its code under ``if __name__ == "__main__":``, because each process imports it.

    >>> (text,) = workspace.link("The heron and the osprey fish.", ["birds"])
    >>> [(link.surface, str(link.chosen.id)) for link in text.links if link.chosen]
    [('heron', 'birds:h'), ('osprey', 'birds:o')]
    >>> text.as_json()["entities"][0]["key"]
    'h'
    """
    refuse_columns(texts)
    is_one = isinstance(texts, str | bytes | TextInput) or not isinstance(texts, Iterable)
    given: Any = [texts] if is_one else texts
    inputs = (_text_input(number, text) for number, text in enumerate(given, 1))
    kbs, types, under, not_under = map(named, (kbs, types, under, not_under))
    linker = fresh_linker(opened, kbs, opened.limits(types, under, not_under), wait=wait)
    asked = {"kbs": kbs, "types": types, "under": under, "not_under": not_under}
    flags: dict[str, object] = {f"link.{name}": value for name, value in asked.items() if value}
    if threshold is not None:
        linker = linker.with_threshold(threshold)
        flags["link.threshold"] = linker.threshold
    return linked_by_workers(opened, linker, inputs, flags)


def fresh_linker(
    opened: Opened,
    kbs: str | Sequence[str] = (),
    limits: Limits | None = None,
    *,
    wait: bool = True,
) -> Linker:
    """A linker to the space, which is built first where it is missing or older than the store.

    The one before is kept for as long as nothing changes that it was made of.
    """
    limits = limits or opened.limits()
    asked = named(kbs), limits, wait
    with opened.lock:
        state = opened.state()
        if asked in opened.fresh_linkers:
            before, linker = opened.fresh_linkers[asked]
            if state == before:
                return linker
    wait = opened.waits_for_vectors(wait)
    check_plugins(opened.detector().link, opened.registry)
    build_if_stale(opened, wait=wait)
    with opened.lock:
        linker = opened.linker(kbs, limits=limits)
        if answers(opened, wait=wait):  # else another process is building it
            make_room(opened.fresh_linkers)
            opened.fresh_linkers[asked] = state, linker
        return linker


def refuse_columns(texts: object, what: str = "text", verb: str = "link") -> None:
    """Refuse a table, which as an iterable would give the names of its columns."""
    names = texts.keys() if isinstance(texts, Mapping) else getattr(texts, "columns", None)
    if names is None:
        return
    shown = [name for name in names if isinstance(name, str)] if isinstance(names, Iterable) else []
    of = f" with the columns {', '.join(shown[:10])}" if shown else ""
    column = "COLUMN" if shown and what not in shown else f'"{what}"'
    raise UsageError(
        f"a {type(texts).__name__}{of} is a table, not a list of {what}s",
        hint=f"Give its column of {what}s: workspace.{verb}(table[{column}]).",
    )


def _text_input(number: int, text: object) -> TextInput:
    if isinstance(text, str):
        return TextInput(str(number), text)
    if not isinstance(text, TextInput):
        hint = "Texts are str or TextInput: decode bytes, and read files first."
        if text is None or isinstance(text, float):
            hint = "Leave out cells without a text."
        elif isinstance(text, Iterable) and not isinstance(text, bytes):
            hint = "Give the texts of one column, as one list."
        raise UsageError(f"text {number:,} is of the type {type(text).__name__}", hint=hint)
    if not isinstance(text.text, str):
        what = f"the text of TextInput {text.id!r} is of the type {type(text.text).__name__}"
        raise UsageError(what, hint="Decode bytes, and leave out what has no text.")
    return text


def search(
    opened: Opened,
    text: str,
    *,
    k: int = 10,
    kbs: str | Sequence[str] = (),
    types: str | Sequence[str] = (),
    under: str | Sequence[str] = (),
    not_under: str | Sequence[str] = (),
    wait: bool = True,
) -> list[Candidate]:
    """The entities of the space that a text names or describes, best first.

    Types and branches limit them as in ``link``. A space that is missing or older than
    the store is built first; while another process is building it, or without ``wait``, new KBs are
    searched by names alone: ``workspace.space().manifest.names_alone`` says which.

    >>> [str(one.id) for one in workspace.search("a wading bird", k=1, kbs=["birds"])]
    ['birds:h']
    """
    check_answers(k)
    if not isinstance(text, str) or not any(one.isprintable() and one != " " for one in text):
        raise UsageError("a search needs a text", hint="A name, or a description in words.")
    build_if_stale(opened, wait=wait)
    space, encoder = opened.space(), opened.encoder  # once: another may be published meanwhile
    names = opened.linked_kbs(space, kbs)
    candidates = CandidateSearch(
        opened.limited(space, names, opened.limits(types, under, not_under)),
        MentionReader(encoder, 0, repeat_alone=True),
        candidates=k,
        scoring=SEARCH_SCORING,
        token_search=token_search_of(encoder, opened.registry),
    )
    found = candidates.find([MentionInText(text, 0, len(text))], names)
    return ShownList(joint_ranking(found[0], names)[:k])


def found_shape(
    found: Iterable[Candidate], entities: Mapping[EntityId, Entity]
) -> list[dict[str, Any]]:
    """What a search found, as JSON; ``entities`` are those of it that the store still has."""
    return [
        {
            **one.id._asdict(),
            "title": one.title,
            "score": round(one.score, 5),
            "url": entities[one.id].url if one.id in entities else "",
            "evidence": one.evidence,
        }
        for one in found
    ]


def explain(
    opened: Opened,
    text: str,
    *,
    surface: str = "",
    span: tuple[int, int] | None = None,
    kbs: str | Sequence[str] = (),
    types: str | Sequence[str] = (),
    under: str | Sequence[str] = (),
    not_under: str | Sequence[str] = (),
    threshold: float | None = None,
    wait: bool = True,
) -> list[Explanation]:
    """Explain why mentions of a text are linked as they are.

    The mention is at ``span``, or wherever the text has ``surface``; without both, all mentions
    that the detector finds. Other places count as given mentions. The rest is as in ``link``.
    """
    if not isinstance(text, str) or not isinstance(surface, str):
        raise UsageError("a text and its surface are str", hint="Decode bytes, and read files.")
    if span is not None and not (isinstance(span, Sequence) and len(span) == 2):
        raise UsageError(f"{span!r} is no place of a text", hint="A place is (start, end).")
    stands = re.finditer(re.escape(surface), text) if surface else ()
    places = [(span[0], span[1])] if span else [one.span() for one in stands]
    if surface and not places:
        raise UsageError(
            f"{surface!r} does not stand in the text", hint="A surface is written as in the text."
        )
    linker = fresh_linker(opened, kbs, opened.limits(types, under, not_under), wait=wait)
    if threshold is not None:
        linker = linker.with_threshold(threshold)
    (document,) = linker.link([TextInput("", text)])
    found = {(one.start, one.end): one for one in document.links}
    links = dict(found)
    if missed := tuple(Span(*place) for place in places if place not in found):
        (given,) = linker.link([TextInput("", text, missed)])
        links |= {(one.start, one.end): one for one in given.links}
    if places:
        links = {place: links[place] for place in places}
    return ShownList(
        Explanation(link, linker.scoring, linker.threshold, found=place in found)
        for place, link in links.items()
    )


#: How many groups of texts for each worker are read ahead.
_AHEAD = 2
_NO_CTRL_C = (signal.SIG_BLOCK, {signal.SIGINT})


def linked_by_workers(
    opened: Opened,
    linker: Linker,
    texts: Iterable[TextInput],
    flags: Mapping[str, object] | None = None,
) -> Iterator[LinkedDocument]:
    """The answers to some texts, by this process or as many as the setting ``link.workers`` says.

    What one worker would read together is linked by this process. ``flags`` are settings of this
    run that are not those of the workspace: with them workers make the same linker.
    """
    workers = opened.settings.link.workers
    if workers == 1:
        return linker.link(texts)
    refuse_stages(linker, f"link.workers is {workers}", "Link with one worker: --workers 1.")
    return _by_workers(opened, linker, texts, flags or {})


def refuse_stages(linker: Linker, but: str, hint: str) -> None:
    """Refuse stages where each process sees a part of the texts alone."""
    if linker.stages:
        names = ", ".join(stage.name for stage in linker.stages)
        raise UsageError(f"{names} sees the texts of a run together, and {but}", hint=hint)


def _by_workers(
    opened: Opened, linker: Linker, texts: Iterable[TextInput], flags: Mapping[str, object]
) -> Iterator[LinkedDocument]:
    groups = text_groups(texts)
    first = next(groups)
    second = next(groups, None)
    if not second:
        yield from linker.link(first)
        return

    from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
    from concurrent.futures.process import BrokenProcessPool
    from multiprocessing import get_context

    workers = opened.settings.link.workers
    cores = opened.settings.encoder.threads or os.cpu_count() or 1
    threads = max(1, cores // workers)
    job = job_of(opened, {**flags, "encoder.threads": threads})
    waiting: deque[tuple[Sequence[TextInput], Future[list[LinkedDocument]]]] = deque()
    context = get_context("spawn")
    # Workers end when our end of this pipe is closed: by us, or because we were killed.
    theirs, ours = context.Pipe(duplex=False)
    pool = ProcessPoolExecutor(
        workers, mp_context=context, initializer=_begin, initargs=(threads, theirs)
    )
    # A stop comes to the main thread alone, so that no process is left half started; and a Ctrl-C
    # never to a worker, which cannot leave it to its parent before it has loaded its modules.
    starter = ThreadPoolExecutor(1, "workers", signal.pthread_sigmask, _NO_CTRL_C)
    try:
        for group in chain((first, second), groups):
            waiting.append((group, starter.submit(pool.submit, job.link, group).result()))
            if len(waiting) > _AHEAD * workers:
                yield from waiting[0][1].result()
                waiting.popleft()
        while waiting:
            yield from waiting[0][1].result()
            waiting.popleft()
    except BrokenProcessPool as error:
        while waiting and waiting[0][1].exception() is None:
            yield from waiting.popleft()[1].result()
        at_work = [text.id for texts, _ in list(waiting)[:workers] for text in texts]
        named = f" while it linked texts {at_work[0]!r} to {at_work[-1]!r}" if at_work else ""
        raise SpaceError(
            f"a worker process was killed{named}",
            hint="If memory ran out, use fewer workers (--workers N): each holds an encoder. With "
            "-o FILE.jsonl, the same command goes on where it stopped.",
        ) from error
    finally:
        starter.shutdown()
        ours.close()
        pool.shutdown(wait=True, cancel_futures=True)
        theirs.close()


def _begin(threads: int, parent: Connection) -> None:
    """A worker begins: it leaves Ctrl-C to its parent, and ends with it."""
    from multiprocessing.connection import wait

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.environ["OMP_NUM_THREADS"] = str(threads)  # of libraries that are loaded from now on

    def end_with_parent() -> None:
        wait([parent])
        os._exit(1)

    threading.Thread(target=end_with_parent, daemon=True).start()


# --------------------------------------------------------------------- some texts of a run
@dataclass(frozen=True, slots=True)
class LinkJob:
    """Links texts in other processes: a workspace and the settings of a run.

    It can be pickled. Any process that sees the workspace at the same path gives the same answers.
    """

    folder: Path
    resolved: ResolvedSettings
    made_of: tuple[object, ...]
    """The versions of the space, of the memory and of the overlaps."""

    def link(self, texts: Sequence[TextInput]) -> list[LinkedDocument]:
        """Link a chunk of texts; each process makes its linker once."""
        return list(self.kept_linker().link(texts))

    def kept_linker(self) -> Linker:
        """The linker of this process."""
        if _kept and _kept[0][0] == self:
            return _kept[0][1]
        if not (self.folder / CONFIG_FILE).is_file():
            raise SpaceError(
                f"there is no workspace at {self.folder}",
                hint="Mount the folder at this path on every machine that links, or copy it there.",
            )
        opened = Opened(self.folder, self.resolved, load_registry())
        if made_of(opened) != self.made_of:
            raise SpaceError(
                f"the workspace at {self.folder} is not as it was when the run began",
                hint="If somebody built, learnt or reviewed meanwhile, run the same command again; "
                "if it is a copy on another machine, copy it anew.",
            )
        linker = opened.linker()
        _kept[:] = [(self, linker)]
        return linker


@dataclass(frozen=True)
class LinkerJob:
    """What workers of a cluster do with a linker."""

    job: LinkJob

    @property
    def threads(self) -> int:
        """The cores that a process of it takes."""
        return self.job.resolved.values.encoder.threads

    @property
    def device(self) -> str:
        """Where it computes."""
        return self.job.resolved.values.encoder.device


@dataclass(frozen=True)
class LinesJob(LinkerJob):
    """Links chunks of texts, and writes the answers by an exporter whose lines stand alone."""

    exporter: Exporter

    def load(self) -> None:
        """Load the linker, with its detectors and models."""
        self.job.link([TextInput("", ".")])

    def do(self, texts: Sequence[TextInput]) -> tuple[bytes, int]:
        """The answers to a chunk of texts, as they are written, and how many mentions they have."""
        documents = self.job.link(texts)
        out = io.StringIO(newline="\n")
        export_links(self.exporter, documents, out)
        mentions = sum(len(document.links) for document in documents)
        return out.getvalue().encode(), mentions


#: The job that this process worked at last, and its linker.
_kept: list[tuple[LinkJob, Linker]] = []


def made_of(opened: Opened) -> tuple[object, ...]:
    """What the answers of a workspace depend on, apart from its settings."""
    space, store = opened.space(), opened.store
    segments = tuple(space.manifest.segments.items())
    return space.version, segments, store.memory_state(), store.overlap_state()


def job_of(opened: Opened, flags: Mapping[str, object] | None = None) -> LinkJob:
    """The job of linking to the published space as this workspace does, with some settings changed.

    A process uses one core, unless ``encoder.threads`` says more.
    """
    threads = opened.settings.encoder.threads or 1
    own = {"encoder.threads": threads, **(flags or {}), "link.workers": 1}
    # The settings were checked when the workspace was opened, and are not read again.
    resolved = replace(opened.resolved.changed(own), trusted=True)
    return LinkJob(opened.folder.resolve(), resolved, made_of(opened))


def link_job(opened: Opened) -> LinkJob:
    """A value that links texts as this workspace does, in any process that sees its folder.

    A space that is missing or older than the store is built first. Each process uses one core,
    unless ``encoder.threads`` says more.

    >>> job = workspace.link_job()
    >>> (text,) = job.link([TextInput("1", "A grey heron stood there.")])
    >>> str(text.links[0].chosen.id)
    'birds:h'
    """
    build_if_stale(opened, wait=opened.waits_for_vectors(True))
    return job_of(opened)
