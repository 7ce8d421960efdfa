"""Work that takes long: adding a KB, learning, finding overlaps, building; one after the other.

A job is a folder of the workspace from the moment that it is accepted until it is done: a server
that was killed goes on with it when it starts again.
"""

from __future__ import annotations

import json
import secrets
import shutil
import threading
from collections import OrderedDict
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal

from kglink import Progress, Workspace
from kglink.errors import KglinkError, UnknownNameError
from kglink.files.atomic import LockedError, file_lock, write_atomically
from kglink.workspace.folder import JOBS_FOLDER, RUNS_FOLDER, SCRATCH_FOLDER
from kglink.workspace.kbs import AddedKB
from kglink_cli.report_page.page import page_of
from kglink_doors.serve.errors import BusyError, error_shape, logged_crash, patiently

State = Literal["waiting", "running", "done", "failed", "cancelled"]
KINDS = ("add-kb", "learn", "overlaps", "build", "report")
#: Jobs that may wait, and jobs that are done and still listed.
_MOST_WAITING = 16
_MOST_TOLD = 100
_FILE = "job.json"
#: Seconds that a job has left to come to its next step.
_GRACE = 10


class _StoppedError(Exception):
    """A job stops before its end."""


@dataclass
class Job:
    """A job, and how far it is."""

    id: str
    kind: str
    options: Mapping[str, Any]
    folder: Path
    state: State = "waiting"
    progress: Progress = field(default_factory=lambda: Progress(""))
    answer: object = None
    stop: Literal["", "cancelled", "ending"] = ""
    """Why it stops at its next step: somebody wants it no more, or the server ends."""

    def as_json(self) -> dict[str, object]:
        """How far it is, and what came of it."""
        at = self.progress
        return {
            "id": self.id,
            "kind": self.kind,
            "kb": self.options.get("kb"),
            "run": self.options.get("run"),
            "state": self.state,
            "step": at.step,
            "done": at.done,
            "total": at.total,
            "answer": self.answer,
        }

    def tell(self, progress: Progress) -> None:
        """Note how far it is; this is where it stops once it is cancelled."""
        self.progress = progress
        if self.stop:
            raise _StoppedError


def _work(workspace: Workspace, job: Job) -> object:
    """Do a job; what comes of it is its answer."""
    options = dict(job.options)
    build = partial(workspace.build, progress=job.tell)
    again = partial(patiently, tell=lambda: job.tell(Progress("waiting for another change")))

    match job.kind:
        case "add-kb":
            kb, file = options.pop("kb"), job.folder / options.pop("file")
            encoding = options.pop("encoding", "")  # of jobs that an older server began: none

            def add() -> AddedKB:
                with workspace.open_source(file) as source:
                    if encoding:
                        source.read_as(encoding)
                    return workspace.add_kb(kb, source, **options, progress=job.tell)

            added = again(add)
            again(build)
            return added.as_json()
        case "learn":
            return {"surfaces": workspace.learn(options["kb"], progress=job.tell)}
        case "overlaps":
            found = again(partial(workspace.find_overlaps, progress=job.tell))
            return [{"left": one.left, "right": one.right, "kept": one.kept} for one in found]
        case "build":
            built = again(build)
            return {"encoded_rows": built.encoded_rows, "version": workspace.space().version}

    run = options["run"]
    page = page_of(workspace.report(run, progress=job.tell))
    write_atomically(report_path(workspace, run), page)
    return {"page": f"/reports/{run}"}


def report_path(workspace: Workspace, run: str) -> Path:
    """Where the page that reports on a run lies: it goes with the run."""
    return workspace.folder / RUNS_FOLDER / run / "report.html"


class Jobs:
    """The jobs of a server, done in a thread one after the other."""

    def __init__(self, workspace: Workspace, *, read_only: bool) -> None:
        self._workspace = workspace
        self._folder = workspace.folder / SCRATCH_FOLDER / JOBS_FOLDER
        self._jobs: OrderedDict[str, Job] = OrderedDict()
        self._changed = threading.Condition()
        self._ending = False
        #: The locks of folders that are this server's own: another one leaves them alone.
        self._held: dict[Path, ExitStack] = {}
        if not read_only:
            self._take_up()
        self._thread = threading.Thread(target=self._run, name="kglink-jobs", daemon=True)
        self._thread.start()

    def _take_up(self) -> None:
        """Go on with what a process before this one left; uploads that never became jobs go."""
        found = []
        for folder in self._folder.glob("*"):
            try:
                self._hold(folder)
                accepted = json.loads((folder / _FILE).read_text(encoding="utf-8"))
                kind, options = accepted["kind"], accepted["options"]
                name = str(options.get("file", ""))
            except LockedError:
                continue  # another server's
            except (OSError, ValueError, TypeError, LookupError, AttributeError):
                kind = name = ""
            if kind in KINDS and "/" not in name:
                found.append(Job(folder.name, kind, options, folder))
            else:
                self.drop(folder)
        found.sort(key=lambda job: job.folder.stat().st_mtime)
        self._jobs.update((job.id, job) for job in found)

    def all(self) -> list[Job]:
        """All jobs, the newest first."""
        return [*self._jobs.values()][::-1]

    def get(self, name: str) -> Job:
        """One job."""
        if name not in self._jobs:
            raise UnknownNameError("job", name, None, hint="GET /jobs lists them.")
        return self._jobs[name]

    def draft(self) -> Path:
        """A new folder for what a job needs; it is no job yet."""
        folder = self._folder / secrets.token_hex(8)
        folder.mkdir(parents=True)
        self._hold(folder)
        return folder

    def drop(self, folder: Path) -> None:
        """Remove a folder of this server."""
        shutil.rmtree(folder, ignore_errors=True)
        if held := self._held.pop(folder, None):
            held.close()

    def _hold(self, folder: Path) -> None:
        with ExitStack() as held:
            held.enter_context(file_lock(folder / ".lock"))
            self._held[folder] = held.pop_all()

    def add(self, kind: str, options: Mapping[str, Any], folder: Path | None = None) -> Job:
        """Accept a job: from now on it is done, even if this process dies."""
        folder = folder or self.draft()
        with self._changed, ExitStack() as refused:
            refused.callback(self.drop, folder)
            if sum(one.state == "waiting" for one in self._jobs.values()) >= _MOST_WAITING:
                raise BusyError(f"{_MOST_WAITING} jobs wait", hint="Try again later.")
            write_atomically(folder / _FILE, json.dumps({"kind": kind, "options": dict(options)}))
            job = self._jobs[folder.name] = Job(folder.name, kind, options, folder)
            refused.pop_all()
            self._changed.notify()
        return job

    def cancel(self, name: str) -> Job:
        """Stop a job, at its next step where it runs; what it has done by then is kept."""
        job = self.get(name)
        with self._changed:
            if job.state == "running":
                job.stop = "cancelled"
                write_atomically(job.folder / _FILE, "{}")  # it is no job after a start
            elif job.state == "waiting":
                self._end(job, "cancelled", None)
        return job

    def close(self) -> None:
        """Stop at the next step; what is unfinished is done after the next start."""
        with self._changed:
            self._ending = True
            for job in self._jobs.values():
                job.stop = job.stop or "ending"
            self._changed.notify()
        self._thread.join(timeout=_GRACE)
        for held in self._held.values():
            held.close()

    def _run(self) -> None:
        while job := self._next():
            try:
                self._end(job, "done", _work(self._workspace, job))
            except _StoppedError:
                if job.stop == "ending":
                    return  # its folder stays: it is done after the next start
                self._end(job, "cancelled", None)
            except KglinkError as error:
                self._end(job, "failed", error_shape(error))
            except Exception as error:  # noqa: BLE001 - the next job must run
                _, what, fix = logged_crash(error)
                self._end(job, "failed", {"error": what, "fix": fix})

    def _next(self) -> Job | None:
        def first() -> Job | None:
            return next((one for one in self._jobs.values() if one.state == "waiting"), None)

        with self._changed:
            self._changed.wait_for(lambda: self._ending or first())
            job = None if self._ending else first()
            if job:
                job.state = "running"
            return job

    def _end(self, job: Job, state: State, answer: object) -> None:
        with self._changed:
            job.state, job.answer = state, answer
            self.drop(job.folder)
            live = ("waiting", "running")
            ended = [one.id for one in self._jobs.values() if one.state not in live]
            for name in ended[:-_MOST_TOLD]:
                del self._jobs[name]
