"""Chunks of texts linked by workers on a Ray cluster, each of which may be lost at any time."""

from __future__ import annotations

import math
import os
import signal
import socket
import threading
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterator, Sequence
from itertools import islice
from typing import Any, Literal, NamedTuple

import kglink
from kglink.errors import SpaceError, UsageError
from kglink.plugins import Exporter
from kglink.records import TextInput
from kglink.workspace.link import ChunkLines, Failed, LinkJob

#: How often a chunk is linked, or a worker started, before it is given up.
TRIES = 3
#: Seconds without any news after which a run says what it waits for.
_PATIENCE = 30
_LONGEST_ERROR = 300


class Chunk(NamedTuple):
    """Some texts of a run that are linked together; ``number`` is its place in the run."""

    number: int
    texts: Sequence[TextInput]

    def __str__(self) -> str:
        first, last = self.texts[0].id, self.texts[-1].id
        return f"text {first!r}" if len(self.texts) == 1 else f"texts {first!r} to {last!r}"


Answer = ChunkLines | Failed


def linked_by_ray(
    job: LinkJob,
    exporter: Exporter,
    chunks: Iterator[Chunk],
    workers: int,
    tell: Callable[[str], None] = lambda line: None,
) -> Generator[tuple[Chunk, Answer]]:
    """Each chunk with its answers, in the order in which they are ready.

    The cluster is that of ``RAY_ADDRESS``, else one that was started on this machine, else one of
    this machine that ends with the run. A chunk that fails, or whose worker is lost, is linked
    again by whichever worker is free; after three times it has `Failed`. The run ends with an error
    where a node has another version of kglink or does not see the workspace. ``tell`` gets a line
    for every loss, and while no worker can be started.
    """
    waiting = deque(islice(chunks, workers))
    if not waiting:
        return
    try:
        import ray
    except ImportError as error:
        raise UsageError("--engine ray needs Ray", hint="pip install 'kglink[ray]'") from error
    is_ours = _connect(ray)
    pool = _Workers(ray, job, exporter, workers, tell)
    tries: Counter[int] = Counter()
    try:
        while waiting or pool.is_linking:
            pool.work_at(waiting)
            # The next chunks are read while the workers work.
            waiting.extend(islice(chunks, max(0, workers - len(waiting))))
            for chunk, answer in pool.news():
                tries[chunk.number] += 1
                if isinstance(answer, Failed) and tries[chunk.number] < TRIES:
                    waiting.appendleft(chunk)
                else:
                    del tries[chunk.number]
                    yield chunk, answer
    finally:
        pool.stop()
        if is_ours:
            ray.shutdown()


class _Workers:
    """The workers of a run, each of which does one thing at a time."""

    def __init__(
        self,
        ray: Any,
        job: LinkJob,
        exporter: Exporter,
        most: int,
        tell: Callable[[str], None],
    ) -> None:
        self._ray, self._most, self._tell = ray, most, tell
        self._given = ray.put(job), ray.put(exporter)
        encoder = job.resolved.values.encoder
        gpus = 0 if encoder.device == "cpu" else int(ray.cluster_resources().get("GPU", 0))
        share = 1 / math.ceil(most / gpus) if gpus else 0  # of a GPU, which workers may share
        self._made = ray.remote(_worker_class()).options(num_cpus=encoder.threads, num_gpus=share)
        self._idle: list[Any] = []
        self._busy: dict[Any, tuple[Any, Literal["check", "load"] | Chunk]] = {}
        self._lost_starts = 0

    @property
    def is_linking(self) -> bool:
        """Whether some chunk is being linked."""
        return any(isinstance(step, Chunk) for _, step in self._busy.values())

    def work_at(self, waiting: deque[Chunk]) -> None:
        """Give chunks to idle workers, and start workers for the others."""
        while self._idle and waiting:
            worker, chunk = self._idle.pop(), waiting.popleft()
            self._busy[worker.lines.remote(chunk.texts)] = worker, chunk
        starting = sum(not isinstance(step, Chunk) for _, step in self._busy.values())
        for _ in range(min(len(waiting) - starting, self._most - len(self._busy))):
            worker = self._made.remote()
            self._busy[worker.check.remote(kglink.__version__)] = worker, "check"

    def news(self) -> Iterator[tuple[Chunk, Answer]]:
        """Wait until some worker is done with its step; chunks among them with their answers."""
        ready, _ = self._ray.wait([*self._busy], num_returns=1, timeout=_PATIENCE)
        if not ready and not self.is_linking:
            has = self._ray.cluster_resources()
            self._tell(
                f"waiting for a worker to start: the cluster has {has.get('CPU', 0):g} CPUs and "
                f"{has.get('GPU', 0):g} GPUs (`ray status` shows who uses them)"
            )
        for done in ready:
            worker, step = self._busy.pop(done)
            try:
                answer = self._ray.get(done)
            except self._ray.exceptions.RayError as error:
                self._ray.kill(worker)
                # Without the lines in which Ray says what it calls the worker.
                said = (line for line in str(error).splitlines() if not line.startswith("\t"))
                why = " ".join(said)[:_LONGEST_ERROR].rstrip()
                if isinstance(step, Chunk):
                    self._tell(f"lost a worker that linked {step}: {why}")
                    yield step, Failed(f"its worker was lost: {why}")
                else:
                    self._lost_start(why)
                continue
            if isinstance(step, Chunk):
                self._idle.append(worker)
                yield step, answer
            elif answer:
                raise SpaceError(answer[0], hint=answer[1])
            elif step == "check":
                self._busy[worker.load.remote(*self._given)] = worker, "load"
            else:
                self._idle.append(worker)
                self._lost_starts = 0

    def _lost_start(self, why: str) -> None:
        self._lost_starts += 1
        if self._lost_starts >= TRIES * self._most:
            raise SpaceError(
                f"{self._lost_starts} workers were lost while they started: {why}",
                hint="If memory ran out, use fewer workers (--workers N): each holds an encoder.",
            )

    def stop(self) -> None:
        """End all workers."""
        for worker in (*self._idle, *(worker for worker, _ in self._busy.values())):
            self._ray.kill(worker)


def _worker_class() -> type:
    """The class of workers, which Ray takes to nodes as it is: theirs may be another kglink."""

    class Worker:
        """Links chunks; its linker is loaded once."""

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

        def load(self, job: LinkJob, exporter: Exporter) -> tuple[str, str] | None:
            """Load the linker; why it cannot be loaded, and how to mend it."""
            self.job, self.exporter = job, exporter
            try:
                self.job.link([TextInput("", ".")])  # detectors and models as well
            except Exception as error:  # noqa: BLE001 - said by the driver, which names the node
                words = getattr(error, "message", f"{type(error).__name__}: {error}")
                return f"node {self.node()}: {words}", getattr(error, "hint", "")
            return None

        def lines(self, texts: Sequence[TextInput]) -> Answer:
            """The answers to the texts of a chunk."""
            from kglink.workspace.link import Failed  # of the node

            try:
                return self.job.lines(texts, self.exporter)
            except Exception as error:  # noqa: BLE001 - the other chunks go on
                return Failed(f"{type(error).__name__}: {error}")

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
    try:
        if port.isdecimal() and "/" not in host:  # Ray itself would try for minutes
            socket.create_connection((host.strip("[]"), int(port)), _PATIENCE).close()
        ray.init(log_to_driver=False, logging_level="ERROR")
    except (OSError, RuntimeError, ValueError) as error:
        raise UsageError(
            f"cannot connect to the Ray cluster {address}".rstrip() + f": {error}",
            hint="RAY_ADDRESS names its head, such as 10.0.0.1:6379.",
        ) from error
    finally:
        if before is not None and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, before)  # which Ray takes for itself
    return True
