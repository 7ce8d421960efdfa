"""Linking in several processes: each opens the workspace for itself, and links a part of the texts.

The answers are those of one process, in the same order. What is worth it is a folder of texts: a
worker takes a few seconds to start, and holds an encoder of its own.
"""

from __future__ import annotations

import os
import signal
import threading
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import cache
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from kglink.errors import SpaceError, UsageError
from kglink.linking.pipeline import text_groups

if TYPE_CHECKING:
    from kglink.config import ResolvedSettings
    from kglink.linking.pipeline import Linker
    from kglink.records import LinkedDocument, TextInput
    from kglink.workspace.opened import Opened

#: How many groups of texts for each worker are read ahead.
_AHEAD = 2
_NO_CTRL_C = (signal.SIG_BLOCK, {signal.SIGINT})


class _Work(NamedTuple):
    """What a worker links with: the workspace, and the version of its space."""

    folder: Path
    resolved: ResolvedSettings
    version: str


class _Waiting(NamedTuple):
    """A group of texts, and what will be its answers."""

    texts: Sequence[TextInput]
    answers: Future[list[LinkedDocument]]


def answers(
    opened: Opened,
    linker: Linker,
    texts: Iterable[TextInput],
    flags: Mapping[str, object] | None = None,
) -> Iterator[LinkedDocument]:
    """The answers to some texts, by this process or by as many as ``link.workers`` says.

    ``flags`` are settings of this run that are not those of the workspace: with them workers make
    the same linker.
    """
    workers = opened.settings.link.workers
    if workers == 1:
        return linker.link(texts)
    if linker.stages:
        names = ", ".join(stage.name for stage in linker.stages)
        raise UsageError(
            f"{names} sees the texts of a run together, and link.workers is {workers}",
            hint="Link with one worker: --workers 1.",
        )
    return _by_workers(opened, workers, texts, flags or {})


def _by_workers(
    opened: Opened, workers: int, texts: Iterable[TextInput], flags: Mapping[str, object]
) -> Iterator[LinkedDocument]:
    cores = opened.settings.encoder.threads or os.cpu_count() or 1
    threads = max(1, cores // workers)
    own = {"encoder.threads": threads, "link.workers": 1}
    resolved = opened.resolved.changed({**flags, **own})
    work = _Work(opened.folder.resolve(), resolved, opened.space().version)
    waiting: deque[_Waiting] = deque()
    context = get_context("spawn")
    # Workers end when our end of this pipe is closed: by us, or because we were killed.
    theirs, ours = context.Pipe(duplex=False)
    pool = ProcessPoolExecutor(
        workers, mp_context=context, initializer=_begin, initargs=(work, threads, theirs)
    )
    # A stop comes to the main thread alone, so that no process is left half started; and a Ctrl-C
    # never to a worker, which cannot leave it to its parent before it has loaded its modules.
    starter = ThreadPoolExecutor(1, "workers", signal.pthread_sigmask, _NO_CTRL_C)
    try:
        for group in text_groups(texts):
            waiting.append(_Waiting(group, starter.submit(pool.submit, _link, group).result()))
            if len(waiting) > _AHEAD * workers:
                yield from waiting[0].answers.result()
                waiting.popleft()
        while waiting:
            yield from waiting[0].answers.result()
            waiting.popleft()
    except BrokenProcessPool as error:
        while waiting and waiting[0].answers.exception() is None:
            yield from waiting.popleft().answers.result()
        at_work = [text.id for one in list(waiting)[:workers] for text in one.texts]
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


#: Of a worker: its work, once it has begun.
_begun: list[_Work] = []


def _begin(work: _Work, threads: int, parent: Connection) -> None:
    """A worker begins: it takes this work, leaves Ctrl-C to its parent, and ends with it."""
    _begun.append(work)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.environ["OMP_NUM_THREADS"] = str(threads)  # of libraries that are loaded from now on
    threading.Thread(target=_end_with, args=[parent], daemon=True).start()


def _end_with(parent: Connection) -> None:
    wait([parent])
    os._exit(1)


@cache
def _linker() -> Linker:
    """The linker of this worker; an error of it reaches the parent with the first answer."""
    from kglink.plugins import load_registry
    from kglink.workspace.opened import Opened

    (work,) = _begun
    opened = Opened(work.folder, work.resolved, load_registry())
    space = opened.space()
    if space.version != work.version:
        raise SpaceError(
            f"space {space.folder.name!r} was published anew while texts were linked",
            hint="Run the same command again.",
        )
    return opened.linker(space=space)


def _link(texts: Sequence[TextInput]) -> list[LinkedDocument]:
    return list(_linker().link(texts))
