"""Routes of what was trained: spaces, runs, and the pages that report on them."""

from __future__ import annotations

from fastapi import APIRouter, Response

from kglink.errors import UnknownNameError
from kglink.workspace.shapes import run_shape
from kglink_doors.serve.answers import Here, json_response
from kglink_doors.serve.jobs import report_path

router = APIRouter(tags=["training"])
#: A report draws with scripts of its own, and may touch nothing else of this server.
_ALONE = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; "
    "sandbox allow-scripts"
)


@router.get("/spaces")
def spaces(here: Here) -> Response:
    """The spaces: the JSON of `kglink spaces --json`."""
    return json_response([one.as_json() for one in here.workspace.spaces()])


@router.get("/runs")
def runs(here: Here) -> Response:
    """The runs of training, and whether each has a report."""
    found = here.workspace.runs()
    return json_response(
        [
            {**one.as_json(), "report": report_path(here.workspace, one.info.name).is_file()}
            for one in found
        ]
    )


@router.get("/runs/{run}")
def run(run: str, here: Here) -> Response:
    """A run with its settings and its curve: the JSON of `kglink runs NAME --json`."""
    return json_response(run_shape(here.workspace.run(run)))


@router.get("/reports/{run}")
def report(run: str, here: Here) -> Response:
    """The page that a job `report` has made of a run."""
    path = report_path(here.workspace, here.workspace.run(run).info.name)
    if not path.is_file():
        raise UnknownNameError(
            "report", run, None, hint='POST /jobs {"kind": "report", "run": ...}'
        )
    headers = {"content-security-policy": _ALONE}
    return Response(path.read_bytes(), media_type="text/html; charset=utf-8", headers=headers)
