"""Routes that change, at once or by a job, and of what jobs made: spaces, runs, reports."""

from __future__ import annotations

import heapq
import re
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

from fastapi import APIRouter, Depends, Query, Request, Response
from pydantic import Field
from starlette.concurrency import run_in_threadpool

from kglink import Alias, Entity, EntityId
from kglink.errors import UnknownNameError, UsageError
from kglink.files.atomic import sync_file
from kglink.records import CORRECTIONS
from kglink.sources.encoding import checked_encoding
from kglink.store.ingest import check_kb_name
from kglink.workspace.kbs import checked_resolve
from kglink.workspace.memory import correct_and_tell
from kglink.workspace.overlaps import VERDICTS
from kglink_cli.session import parse_options
from kglink_doors.serve.answers import Body, Here, Names, json_response, raw_body
from kglink_doors.serve.errors import TakenError, Whole, patiently
from kglink_doors.serve.jobs import Job, report_path
from kglink_doors.serve.served import known_parameters

router = APIRouter(dependencies=[Depends(known_parameters)])
#: Seconds that whoever corrects waits for it to be learnt.
_LEARNING = 3.0


class Said(Body):
    """What a place of a text means: an entity, nothing that a KB has, or no mention at all."""

    text: str
    start: Whole
    end: Whole
    entity: str | None = None
    mention: bool = True


class NewEntity(Body):
    """An entity to add to a KB."""

    key: str = Field(min_length=1, max_length=1000)
    title: str = Field(min_length=1, max_length=1000)
    description: str = Field("", max_length=100_000)
    type: str = Field("", max_length=1000)
    aliases: list[str] = Field([], max_length=1000)


class SaidOfPair(Body):
    """Whether two entities are the same thing; no verdict takes back what was said."""

    left: str
    right: str
    verdict: Literal["correct", "wrong", "unclear"] | None


class SaidOfDiscovery(Body):
    """What a discovery is; no answer takes back what was said."""

    answer: Literal["accept", "reject", "merge", "link"] | None
    into: str = ""


def refuse_corrections(kb: str) -> None:
    """Refuse to change the texts that people corrected otherwise than by corrections."""
    if kb == CORRECTIONS:
        raise UsageError(f"{CORRECTIONS!r} holds what was corrected", hint="POST /corrections")


@router.post("/corrections", tags=["corrections"], status_code=201)
def correct(said: Said, here: Here) -> Response:
    """Correct a place of a text: it holds there at once, and is ``learnt`` for other texts.

    What takes longer than some seconds is learnt after the answer. ``replaced`` is what was said
    before of overlapping places, and holds no more.
    """
    place = said.text, said.start, said.end, said.entity
    do = partial(correct_and_tell, here.workspace, *place, is_mention=said.mention, learnt=False)
    done, before = patiently(do, seconds=here.limits.seconds)
    replaced = [one.as_json() for one in before]
    learnt = here.learner.learn(wait=_LEARNING)
    return json_response({**done.as_json(), "replaced": replaced, "learnt": learnt}, 201)


@router.get("/corrections", tags=["corrections"])
def corrections(here: Here) -> Response:
    """All corrections."""
    return json_response([one.as_json() for one in here.workspace.corrections()])


@router.delete("/corrections/{correction}", tags=["corrections"])
def take_back(correction: str, here: Here) -> Response:
    """Take a correction back."""
    do = partial(here.workspace.take_back, correction, learnt=False)
    done = patiently(do, seconds=here.limits.seconds)
    learnt = here.learner.learn(wait=_LEARNING)
    return json_response({**done.as_json(), "learnt": learnt})


@router.post("/entities/{kb}", tags=["entities"], status_code=201)
def add_entity(kb: str, new: NewEntity, here: Here) -> Response:
    """Add an entity to a KB: the next text that is linked knows it."""
    refuse_corrections(kb)
    names = tuple(Alias(one) for one in new.aliases)
    entity = Entity(new.key, new.title, new.description, new.type, aliases=names)

    def add() -> None:
        if here.workspace.store.get_entities([EntityId(kb, new.key)]):
            raise TakenError(f"{kb} has an entity {new.key!r}", hint="Choose another key.")
        here.workspace.add_entity(kb, entity)

    with here.adding:
        patiently(add, seconds=here.limits.seconds)
        build = partial(here.workspace.build_if_stale, wait=False)
        patiently(build, seconds=here.limits.seconds)
    return json_response(here.workspace.entity(EntityId(kb, new.key)).as_json(), 201)


@router.get("/overlaps", tags=["overlaps"])
def overlaps(
    here: Here,
    verdict: Literal["correct", "wrong", "unclear", "unjudged", "stale"] = "unjudged",
    limit: int = Query(10, ge=1, le=100),
) -> Response:
    """Pairs that may be one thing, the least sure first; `stale`: judged as they were before."""
    stale = verdict == "stale"
    found = here.workspace.overlaps(verdicts=VERDICTS if stale else [verdict], stale=stale)
    chosen = heapq.nsmallest(limit, found, key=lambda one: abs(one.probability - 0.5))
    ids = [side for one in chosen for side in (one.left, one.right)]
    known = here.workspace.store.get_entities(ids)

    def side(id_: EntityId) -> dict[str, str]:
        entity = known.get(id_) or Entity(id_.key, id_.key)
        return {"id": str(id_), "title": entity.title, "description": entity.description[:400]}

    shapes = [{**one.as_json(), "left": side(one.left), "right": side(one.right)} for one in chosen]
    return json_response(shapes)


@router.post("/overlaps", tags=["overlaps"])
def judge_overlap(said: SaidOfPair, here: Here) -> Response:
    """Say whether two entities are the same thing; it counts from the next text on."""
    left, right = (here.workspace.entity(one, examples=0).id for one in (said.left, said.right))
    here.workspace.store.set_verdict(left, right, said.verdict)
    return json_response(said.model_dump())


@router.get("/discoveries", tags=["discoveries"])
def discoveries(here: Here) -> Response:
    """What texts spoke of and no KB has."""
    return json_response([one.as_json() for one in here.workspace.discovered()])


@router.post("/discoveries/{discovery}", tags=["discoveries"])
def judge_discovery(discovery: str, said: SaidOfDiscovery, here: Here) -> Response:
    """Say what a discovery is."""
    done = here.workspace.judge_discovery(discovery, said.answer, said.into)
    return json_response(done.as_json())


# ---------------------------------------------------------------------------------------- jobs
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
    return json_response(job.as_json(), 202, {"location": f"/jobs/{job.id}"})


@router.put("/kbs/{kb}", tags=["KBs"], status_code=202, openapi_extra=raw_body("*/*"))
async def upload(
    kb: str,
    request: Request,
    here: Here,
    links_to: Names,
    file: Annotated[str, Query(max_length=255, description="The file's name: its ending.")],
    adapter: str = "",
    split: str = "",
    resolve: Literal["", "key", "xref", "title"] = "",
    encoding: str = "",
    settings: Annotated[
        list[str] | None, Query(alias="set", description="A setting of the adapter, key=value.")
    ] = None,
    *,
    merge: bool = False,
    allow_shrink: bool = False,
) -> Response:
    """Add or update a KB from the body, a file as `kglink add-kb` reads it; a job does it."""
    check_kb_name(kb)
    checked_encoding(encoding)
    refuse_corrections(kb)
    known = await run_in_threadpool(here.workspace.kbs)
    kept = next((one.links_to for one in known if one.name == kb), ())
    checked_resolve(resolve or "key", links_to or kept)
    of_adapter = parse_options(settings, "set") or None
    name = f"file-{_NO_NAME.sub('_', file)[-100:]}"
    folder = here.jobs.draft()
    try:
        await _receive(request.stream(), folder / name)
        options: dict[str, object] = {"kb": kb, "file": name, "adapter": adapter}
        options |= {"links_to": links_to, "split": split, "resolve": resolve, "encoding": encoding}
        options |= {"options": of_adapter, "merge": merge, "allow_shrink": allow_shrink}
        job = here.jobs.add("add-kb", options, folder)
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
    shapes = [
        {**one.as_json(), "report": report_path(here.workspace, one.info.name).is_file()}
        for one in here.workspace.runs()
    ]
    return json_response(shapes)


@router.get("/runs/{run}", tags=["training"])
def run(run: str, here: Here) -> Response:
    """A run with its settings and its curve: the JSON of `kglink runs NAME --json`."""
    return json_response(here.workspace.run(run).whole_as_json())


@router.get("/reports/{run}", tags=["training"])
def report(run: str, here: Here) -> Response:
    """The page that a job `report` has made of a run."""
    path = report_path(here.workspace, here.workspace.run(run).info.name)
    if not path.is_file():
        hint = 'POST /jobs {"kind": "report", "run": ...}'
        raise UnknownNameError("report", run, None, hint=hint)
    headers = {"content-security-policy": _ALONE}
    return Response(path.read_bytes(), media_type="text/html; charset=utf-8", headers=headers)
