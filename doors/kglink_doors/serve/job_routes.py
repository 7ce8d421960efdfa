"""Routes of long work, uploads of KBs and jobs, and of what it made: spaces, runs, reports."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request, Response
from starlette.concurrency import run_in_threadpool

from kglink.errors import UnknownNameError, UsageError
from kglink.files.atomic import sync_file
from kglink.store.ingest import check_kb_name
from kglink_doors.serve.answers import Body, Here, Names, json_response
from kglink_doors.serve.changes import refuse_corrections
from kglink_doors.serve.jobs import Job, report_path

router = APIRouter()
#: What a file that was uploaded may be called: its ending tells what it is.
_NO_NAME = re.compile(r"[^A-Za-z0-9._-]+")


class NewJob(Body):
    """A job that needs no file."""

    kind: Literal["learn", "overlaps", "build", "report"]
    kb: str | None = None
    """Of `learn`: the documents."""
    run: str | None = None
    """Of `report`: the run."""


def _accepted(job: Job) -> Response:
    answer = json_response(job.as_json(), 202)
    answer.headers["location"] = f"/jobs/{job.id}"
    return answer


@router.put("/kbs/{kb}", tags=["KBs"], status_code=202)
async def upload(
    kb: str,
    request: Request,
    here: Here,
    links_to: Names,
    file: Annotated[str, Query(max_length=255, description="The file's name: its ending.")],
    adapter: str = "",
    split: str = "",
    *,
    merge: bool = False,
) -> Response:
    """Add or update a KB from the body, a file as `kglink add-kb` reads it; a job does it."""
    check_kb_name(kb)
    refuse_corrections(kb)
    name = f"file-{_NO_NAME.sub('_', file)[-100:]}"
    folder = here.jobs.draft()
    try:
        await _receive(request.stream(), folder / name)
        options = {"kb": kb, "file": name, "adapter": adapter, "links_to": links_to}
        job = here.jobs.add("add-kb", {**options, "split": split, "merge": merge}, folder)
    except BaseException:
        here.jobs.drop(folder)
        raise
    return _accepted(job)


async def _receive(parts: AsyncIterator[bytes], path: Path) -> None:
    """Write what comes to a file."""
    written = 0
    with await run_in_threadpool(path.open, "wb") as out:
        async for part in parts:
            written += await run_in_threadpool(out.write, part)
    if not written:
        raise UsageError("the body is empty", hint="Send the file as the body.")
    await run_in_threadpool(sync_file, path)


@router.post("/jobs", tags=["jobs"], status_code=202)
def start(new: NewJob, here: Here) -> Response:
    """Begin a job: learn from documents, find overlaps, build the space, report on a run."""
    if new.kind == "learn":
        here.workspace.kb(new.kb or "")
    if new.kind == "report":
        here.workspace.run(new.run or "")
    return _accepted(here.jobs.add(new.kind, {"kb": new.kb, "run": new.run}))


@router.get("/jobs", tags=["jobs"])
def jobs(here: Here) -> Response:
    """All jobs, the newest first."""
    return json_response([one.as_json() for one in here.jobs.all()])


@router.get("/jobs/{job}", tags=["jobs"])
def job(job: str, here: Here) -> Response:
    """How far a job is."""
    return json_response(here.jobs.get(job).as_json())


@router.delete("/jobs/{job}", tags=["jobs"])
def cancel(job: str, here: Here) -> Response:
    """Stop a job at its next step."""
    return json_response(here.jobs.cancel(job).as_json())


#: A report draws with scripts of its own, and may touch nothing else of this server.
_ALONE = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; "
    "sandbox allow-scripts"
)


@router.get("/spaces", tags=["training"])
def spaces(here: Here) -> Response:
    """The spaces: the JSON of `kglink spaces --json`."""
    return json_response([one.as_json() for one in here.workspace.spaces()])


@router.get("/runs", tags=["training"])
def runs(here: Here) -> Response:
    """The runs of training, and whether each has a report."""
    found = here.workspace.runs()
    return json_response(
        [
            {**one.as_json(), "report": report_path(here.workspace, one.info.name).is_file()}
            for one in found
        ]
    )


@router.get("/runs/{run}", tags=["training"])
def run(run: str, here: Here) -> Response:
    """A run with its settings and its curve: the JSON of `kglink runs NAME --json`."""
    return json_response(here.workspace.run(run).whole_as_json())


@router.get("/reports/{run}", tags=["training"])
def report(run: str, here: Here) -> Response:
    """The page that a job `report` has made of a run."""
    path = report_path(here.workspace, here.workspace.run(run).info.name)
    if not path.is_file():
        raise UnknownNameError(
            "report", run, None, hint='POST /jobs {"kind": "report", "run": ...}'
        )
    headers = {"content-security-policy": _ALONE}
    return Response(path.read_bytes(), media_type="text/html; charset=utf-8", headers=headers)
