"""Chunks of work done by workers on a Ray cluster, each of which may be lost at any time."""

from __future__ import annotations

import math
import os
import signal
import socket
import threading
from collections import Counter, deque
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from importlib.metadata import version
from itertools import islice
from typing import Any, Literal, NamedTuple, Protocol, Self

from kglink.errors import SpaceError, UsageError
from kglink.records import Spread
from kglink.sources import OnNote

#: How often a chunk is tried, or a worker started, before it is given up.
TRIES = 3
#: Seconds without any news after which a run says what it waits for.
_PATIENCE = 30
#: Such reports before the run ends: while all nodes are busy, and if none is large enough.
_BUSY, _TOO_SMALL = 120, 4
#: Answers for each worker that wait for one before them.
_MOST_HELD = 4
_LONGEST_ERROR = 300
_SHOWN_FAILURES = 3


class Job(Protocol):
    """What workers do. It can be pickled."""

    @property
    def threads(self) -> int:
        """The cores that a worker takes."""
        ...

    @property
    def device(self) -> str:
        """Where it computes: `cpu` takes no GPU."""
        ...

    def load(self) -> None:
        """Load what it takes; an error where a node cannot do it."""
        ...

    def do(self, given: Any) -> Any:
        """Do what a chunk asks for."""
        ...


class Chunk(NamedTuple):
    """What a worker does at a time; ``number`` is its place in the run."""

    number: int
    given: Any
    name: str

    def __str__(self) -> str:
        return self.name


class Failed(NamedTuple):
    """In the place of an answer: which chunk has none, and why."""

    said: str


def chunks_failed(failed: Sequence[str], hint: str) -> SpaceError:
    """The error of a run in which some chunks have failed, each named with its reason."""
    more = f"; {len(failed) - _SHOWN_FAILURES} more" if len(failed) > _SHOWN_FAILURES else ""
    count = f"{len(failed):,} chunk{'s' * (len(failed) > 1)}"
    return SpaceError(f"{count} failed: {'; '.join(failed[:_SHOWN_FAILURES])}{more}", hint=hint)


def spread_on_ray(most: int, on_note: OnNote) -> Spread:
    """Has pieces of a job done by so many workers; a piece that always fails ends the run."""

    def spread(job: Job, pieces: Iterable[tuple[str, Any]]) -> Generator[Any]:
        chunks = (Chunk(number, given, name) for number, (name, given) in enumerate(pieces))
        with RayWorkers(job, most, on_note) as workers:
            for _, answer in workers.in_order(chunks):
                if isinstance(answer, Failed):
                    hint = "The same command tries it again."
                    raise chunks_failed([answer.said], hint)
                yield answer

    return spread


class RayWorkers:
    """Workers on the cluster of ``RAY_ADDRESS``, else on one that was started on this machine.

    Where there is none, Ray starts here, and ends with them. They start when there is work.
    """

    def __init__(self, job: Job, most: int, on_note: OnNote = lambda label, text: None) -> None:
        self._job, self._most, self._tell = job, most, partial(on_note, "ray")
        self._idle: list[Any] = []
        self._busy: dict[Any, tuple[Any, Literal["check", "load"] | Chunk]] = {}
        self._lost_starts = self._waits = self._held = 0
        self._ray: Any = None
        self._is_ours = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for worker in (*self._idle, *(worker for worker, _ in self._busy.values())):
            with suppress(self._ray.exceptions.RayError):  # the cluster is lost, and they with it
                self._ray.kill(worker)
        if self._is_ours:
            self._ray.shutdown()
            self._ray._private.worker._worker_logs_enabled = True

    def do(self, chunks: Iterator[Chunk]) -> Generator[tuple[Chunk, Any]]:
        """Each chunk with its answer, in the order in which they are ready.

        A chunk that fails, or whose worker is lost, is done again by whichever worker is free;
        after three times it has `Failed`. The run ends with an error where a node has another
        version of kglink or cannot load the job. ``on_note`` hears of every loss, and while no
        worker can be started.
        """
        waiting: deque[Chunk] = deque()

        def take() -> None:
            room = min(self._most - len(waiting), _MOST_HELD * self._most - self._held)
            waiting.extend(islice(chunks, max(0, room)))

        take()
        if waiting and self._ray is None:
            self.start()
        tries: Counter[int] = Counter()
        while waiting or self._is_working:
            with _errors_of(self._ray):
                self._work_at(waiting)
                take()  # the next chunks are made while the workers work
                news = list(self._news())
            for chunk, answer in news:
                tries[chunk.number] += 1
                if isinstance(answer, Failed) and tries[chunk.number] < TRIES:
                    waiting.appendleft(chunk)
                else:
                    del tries[chunk.number]
                    yield chunk, answer
            if not waiting:
                take()

    def in_order(self, chunks: Iterator[Chunk]) -> Generator[tuple[Chunk, Any]]:
        """The same in the order of the chunks, whose numbers begin at 0."""
        ready: dict[int, tuple[Chunk, Any]] = {}
        first = 0
        for chunk, answer in self.do(chunks):
            ready[chunk.number] = chunk, answer
            while first in ready:
                yield ready.pop(first)
                first += 1
            self._held = len(ready)

    def start(self) -> None:
        """Connect to the cluster, and give it the job."""
        try:
            import ray
        except ImportError as error:
            hint = "pip install 'kglink[ray]'"
            raise UsageError("--engine ray needs Ray", hint=hint) from error
        self._is_ours = _connect(ray)
        self._ray = ray
        with _errors_of(ray):
            self._given = ray.put(self._job)
            here = ray.cluster_resources()
        gpus = 0 if self._job.device == "cpu" else int(here.get("GPU", 0))
        share = 1 / math.ceil(self._most / gpus) if gpus else 0  # of a GPU, which they may share
        self._needs = {"CPU": self._job.threads, "GPU": share}
        made = ray.remote(_worker_class())
        self._made = made.options(num_cpus=self._job.threads, num_gpus=share)

    @property
    def _is_working(self) -> bool:
        """Whether some chunk is being worked at."""
        return any(isinstance(step, Chunk) for _, step in self._busy.values())

    def _work_at(self, waiting: deque[Chunk]) -> None:
        """Give chunks to idle workers, and start workers for the others."""
        while self._idle and waiting:
            worker, chunk = self._idle.pop(), waiting.popleft()
            self._busy[worker.do.remote(chunk.given)] = worker, chunk
        starting = sum(not isinstance(step, Chunk) for _, step in self._busy.values())
        for _ in range(min(len(waiting) - starting, self._most - len(self._busy))):
            worker = self._made.remote()
            self._busy[worker.check.remote(version("kglink"))] = worker, "check"

    def _news(self) -> Iterator[tuple[Chunk, Any]]:
        """Wait until some worker is done with its step; chunks among them with their answers."""
        ready, _ = self._ray.wait([*self._busy], num_returns=1, timeout=_PATIENCE)
        if ready or self._is_working:
            self._waits = 0
        else:
            self._wait_on()
        for done in ready:
            worker, step = self._busy.pop(done)
            try:
                answer = self._ray.get(done)
            except self._ray.exceptions.RayError as error:
                self._ray.kill(worker)
                why = _in_short(error)
                if isinstance(step, Chunk):
                    self._tell(f"lost a worker of {step}: {why}")
                    yield step, Failed(f"{step} (its worker was lost: {why})")
                else:
                    self._lost_start(why)
                continue
            if isinstance(step, Chunk):
                self._idle.append(worker)
                found, why = answer
                yield step, Failed(f"{step} ({why})") if why else found
            elif answer:
                raise SpaceError(answer[0], hint=answer[1])
            elif step == "check":
                self._busy[worker.load.remote(self._given)] = worker, "load"
            else:
                self._idle.append(worker)
                self._lost_starts = 0

    def _wait_on(self) -> None:
        """Say what is waited for; an error where it has been too long."""
        nodes = [node["Resources"] for node in self._ray.nodes() if node["Alive"]]
        fits = any(
            all(node.get(name, 0) >= least for name, least in self._needs.items()) for node in nodes
        )
        whole = {name: sum(node.get(name, 0) for node in nodes) for name in self._needs}
        there, needed = (
            f"{of['CPU']:g} CPUs and {of['GPU']:g} GPUs" for of in (whole, self._needs)
        )
        which = "all are busy, or load a model" if fits else "none has room for one"
        what = f"a worker takes {needed}, the nodes that are there have {there}, and {which}"
        self._waits += 1
        if self._waits >= (_BUSY if fits else _TOO_SMALL):
            raise SpaceError(
                f"no worker started in {self._waits * _PATIENCE:g} s: {what}",
                hint="The same command asks the cluster anew, and goes on. `encoder.device = "
                '"cpu"` needs no GPU, `encoder.threads` says how many cores.',
            )
        self._tell(f"waiting for a worker to start: {what} (`ray status` shows more)")

    def _lost_start(self, why: str) -> None:
        self._tell(f"lost a worker that was starting: {why}")
        self._lost_starts += 1
        if self._lost_starts >= TRIES * self._most:
            raise SpaceError(
                f"{self._lost_starts} workers were lost while they started: {why}",
                hint="If memory ran out, use fewer workers (--workers N): each holds an encoder.",
            )


@contextmanager
def _errors_of(ray: Any) -> Generator[None]:
    """Ends the run with a message where the cluster is lost."""
    try:
        yield
    except ray.exceptions.RayError as error:
        raise SpaceError(
            f"the Ray cluster does not answer: {_in_short(error)}",
            hint="The same command asks the cluster anew, and goes on.",
        ) from error


def _in_short(error: Exception) -> str:
    """What Ray says, without the lines in which it says what it calls the worker."""
    said = (line for line in str(error).splitlines() if not line.startswith("\t"))
    return " ".join(said)[:_LONGEST_ERROR].rstrip()


def _worker_class() -> type:
    """The class of workers, which Ray takes to nodes as it is: theirs may be another kglink."""

    class Worker:
        """Does chunks; its job is loaded once."""

        def check(self, version: str) -> tuple[str, str] | None:
            """What is wrong with this node and how to mend it; None: nothing."""
            from importlib import metadata

            try:
                here = f"kglink {metadata.version('kglink')}"
            except metadata.PackageNotFoundError:
                here = "no kglink"
            if here == f"kglink {version}":
                return None
            hint = f"Install kglink {version} on every node, or use one image for all of them."
            return f"node {self.node()} has {here}, and the run kglink {version}", hint

        def load(self, job: Job) -> tuple[str, str] | None:
            """Load the job; why it cannot be loaded, and how to mend it."""
            self.job = job
            try:
                self.job.load()
            except Exception as error:  # noqa: BLE001 - said by the driver, which names the node
                words = getattr(error, "message", f"{type(error).__name__}: {error}")
                return f"node {self.node()}: {words}", getattr(error, "hint", "")
            return None

        def do(self, given: Any) -> tuple[Any, str]:
            """The answer to a chunk, or why it has none."""
            try:
                return self.job.do(given), ""
            except Exception as error:  # noqa: BLE001 - the other chunks go on
                return None, getattr(error, "message", f"{type(error).__name__}: {error}")

        def node(self) -> str:
            """How Ray calls this node."""
            from ray.util import get_node_ip_address

            return str(get_node_ip_address())

    return Worker


def _connect(ray: Any) -> bool:
    """Connect to the cluster; whether that was done here, and not by who calls us."""
    if ray.is_initialized():
        return False
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # else Ray reports its use
    address = os.environ.get("RAY_ADDRESS", "")
    host, _, port = address.rpartition(":")
    before = signal.getsignal(signal.SIGTERM)
    hint = "RAY_ADDRESS names its head, such as 10.0.0.1:6379."
    try:
        if port.isdecimal() and "/" not in host:  # Ray itself would try for minutes
            socket.create_connection((host.strip("[]"), int(port)), _PATIENCE).close()
            hint = (
                "Something answers there. Both sides need one version of Ray. If the cluster has a "
                "token: export RAY_AUTH_MODE=token, and copy ~/.ray/auth_token of its head."
            )
        # Ray has no setting for this: it prints to stdout, into our JSON, that a node is lost.
        ray._private.worker._worker_logs_enabled = False
        ray.init(log_to_driver=False, logging_level="ERROR")
    except (OSError, OverflowError, RuntimeError, ValueError) as error:
        raise UsageError(
            f"cannot connect to the Ray cluster {address}".rstrip() + f": {error}", hint=hint
        ) from error
    finally:
        if before is not None and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, before)  # which Ray takes for itself
    return True
