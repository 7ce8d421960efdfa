"""Routes that read: link (NIF as well), explain, search, entities, KBs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from functools import partial
from io import StringIO
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request, Response
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, JsonValue, ValidationError
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope, Send

from kglink import Document, Entity, EntityId, LinkedDocument, Span, TextInput
from kglink.errors import KglinkError, UsageError
from kglink.sources import Problems, Source, read_records
from kglink.text.printable import printable_json
from kglink.workspace.link import found_shape
from kglink_doors.serve.errors import (
    Real,
    Whole,
    error_shape,
    first_error,
    parsed,
    refuse_many_places,
)
from kglink_doors.serve.guard import Refused, while_there
from kglink_doors.serve.served import Served, known_parameters, served

router = APIRouter(dependencies=[Depends(known_parameters)])
Here = Annotated[Served, Depends(served)]
Names = Annotated[list[str], Query(default_factory=list)]


async def _limited(kbs: Names, types: Names, under: Names, not_under: Names) -> dict[str, Any]:
    """Which entities may be answers, as a query has it."""
    return {"kbs": kbs, "types": types, "under": under, "not_under": not_under}


Limited = Annotated[dict[str, Any], Depends(_limited)]
#: Names in a body; one alone needs no list.
OneOrMore = Annotated[
    list[str], BeforeValidator(lambda given: [given] if isinstance(given, str) else given)
]
#: Lines that are linked together while more of them come.
_LINES = 16
#: Mentions of a text that are given.
_MOST_GIVEN = 2000
_EXAMPLE: JsonValue = {"text": "A heron stood on Skerrow Light.", "kbs": [], "threshold": 0.3}


class Place(BaseModel):
    """A mention that is given: ``text[start:end]``, in code points."""

    start: Whole
    end: Whole


class Text(BaseModel):
    """A text to link, as a line of JSON that `kglink link` reads."""

    model_config = ConfigDict(coerce_numbers_to_str=True)

    text: str
    id: str = ""
    entities: list[Place] | None = Field(None, max_length=_MOST_GIVEN)
    """Its mentions, where they are known; else it is searched."""

    def input(self, number: int | str = "") -> TextInput:
        """What `Workspace.link` takes; a text without an id has its number for one."""
        given = [Span(one.start, one.end) for one in self.entities or ()]
        return TextInput(self.id or str(number), self.text, tuple(given) or None)


class Body(BaseModel):
    """The JSON of a request, in which nothing else may stand."""

    model_config = ConfigDict(extra="forbid")


class Limits(Body):
    """Which entities may be answers, and how probable the least is."""

    kbs: OneOrMore = []
    types: OneOrMore = []
    under: OneOrMore = []
    not_under: OneOrMore = []
    threshold: Real | None = Field(None, ge=0, le=1)

    def limits(self) -> dict[str, Any]:
        """These alone, as methods of `Workspace` take them."""
        return self.model_dump(include=set(Limits.model_fields))


class ToLink(Limits):
    """A text, or several, and how they are linked."""

    model_config = ConfigDict(json_schema_extra={"examples": [_EXAMPLE]})

    text: str | None = None
    entities: list[Place] | None = Field(None, max_length=_MOST_GIVEN)
    texts: list[Text | str] | None = Field(None, max_length=1000)
    explain: bool = False

    def inputs(self) -> list[TextInput]:
        """The texts; one that is alone has no id."""
        if (self.text is None) == (self.texts is None):
            raise UsageError("one text or several are needed", hint='Give "text", or "texts".')
        if self.texts is not None and self.entities is not None:
            hint = 'Give them within each of "texts", or "text".'
            raise UsageError('"entities" are of one text', hint=hint)
        if self.text is not None:
            return [Text(text=self.text, entities=self.entities).input()]
        given = (Text(text=one) if isinstance(one, str) else one for one in self.texts or ())
        return [one.input(number) for number, one in enumerate(given, 1)]


class ToExplain(Limits):
    """A text, and a mention of it: by its words, or by its place; of neither: all."""

    text: str
    surface: str = ""
    start: Whole | None = None
    end: Whole | None = None


class ToResolve(Limits):
    """Names without running text, and what is known of each: columns by their names."""

    names: list[str | None] = Field(min_length=1, max_length=10_000)
    context: dict[str, list[str | None] | str] | list[str | None] = {}


def raw_body(media_type: str) -> dict[str, object]:
    """What describes the body of a route that reads it itself."""
    schema = {"type": "string", "format": "binary"}
    return {"requestBody": {"required": True, "content": {media_type: {"schema": schema}}}}


def json_response(
    value: object, status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    """JSON that every reader takes, without halves of surrogate pairs."""
    return Response(printable_json(value), status, headers, media_type="application/json")


@router.post("/link", tags=["texts"], responses={200: {"model": None}})
async def link(request: Request, body: ToLink, here: Here) -> Response:
    """Link a text, or several: the JSON of `kglink link --json`."""
    found = await while_there(request.receive, _linked(body.inputs(), body.limits(), here))

    def answer() -> Response:  # in a thread: a large one would stop all others meanwhile
        rejected = here.workspace.settings.link.rejected
        shapes = [one.as_json(explain=body.explain, rejected=rejected) for one in found]
        return json_response(shapes if body.text is None else shapes[0])

    return await run_in_threadpool(answer)


@router.post("/link/lines", tags=["texts"], openapi_extra=raw_body("application/x-ndjson"))
async def link_lines(
    request: Request,
    here: Here,
    limited: Limited,
    threshold: Annotated[float | None, Query(ge=0, le=1)] = None,
    *,
    explain: bool = False,
) -> StreamingResponse:
    """Link JSON lines while they come (`application/x-ndjson`): a line of JSON for each.

    A text without an id has the number of its line for one; empty lines have no answer. A line
    that is no text, or cannot be linked, is answered by `{"error", "fix"}`.
    """
    limits = {**limited, "threshold": threshold}
    # What no line can be asked is told once.
    await here.in_time(lambda: here.workspace.link([], **limits, wait=False))
    answers = _line_answers(request, here, limits, explain=explain)
    return _WhileItReads(answers, media_type="application/x-ndjson")


async def _linked(
    texts: list[TextInput], limits: Mapping[str, Any], here: Served, *, patient: bool = False
) -> list[LinkedDocument]:
    found = await here.batches.link(texts, limits, here.limits.seconds, patient=patient)
    here.metrics.linked(len(found), sum(len(one.links) for one in found))
    return found


class _WhileItReads(StreamingResponse):
    """An answer that is sent while the body still comes: nothing else may listen for it."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the parts as they are made."""
        with suppress(ClientDisconnect):
            await self.stream_response(send)


async def _line_answers(
    request: Request, here: Served, limits: Mapping[str, Any], *, explain: bool
) -> AsyncIterator[str]:
    async def of_line(number: int, line: bytes) -> str:
        try:
            texts = [Text.model_validate(parsed(line)).input(number)]
            (found,) = await _linked(texts, limits, here, patient=True)
            rejected = here.workspace.settings.link.rejected
            as_json = partial(found.as_json, explain=explain, rejected=rejected)
            return await run_in_threadpool(lambda: printable_json(as_json()))
        except ValidationError as error:
            fix = 'A line is {"text": ..., "id": ..., "entities": [{"start", "end"}]}.'
            message = f"line {number:,} is no text: {first_error(error)}"
            return printable_json({"error": message, "fix": fix})
        except KglinkError as error:
            shape = error_shape(error)
            return printable_json({**shape, "error": f"line {number:,}: {shape['error']}"})
        except TimeoutError:
            message = f"it took over {here.limits.seconds:g} s"
            return printable_json({"error": message, "fix": "Send a shorter text."})

    try:
        async for lines in _lines(request, int(here.limits.body_mb * 2**20)):
            for one in [asyncio.create_task(of_line(*line)) for line in lines]:
                yield await one + "\n"
    except KglinkError as error:  # the answer has begun: what is wrong is its last line
        yield printable_json(error_shape(error)) + "\n"
    except Refused as refused:  # no more of the body comes
        yield printable_json(refused.shape) + "\n"


async def _lines(request: Request, most: int) -> AsyncIterator[list[tuple[int, bytes]]]:
    """The lines of a body that are not empty, with their numbers, as they come, some at once."""
    rest, done = b"", 0
    async for part in request.stream():
        *whole, rest = (rest + part).split(b"\n")
        if len(rest) > most:
            raise UsageError(f"a line is longer than {most / 2**20:g} MB", hint="Send it in parts.")
        wanted = [(done + at, one) for at, one in enumerate(whole, 1) if one.strip()]
        done += len(whole)
        for first in range(0, len(wanted), _LINES):
            yield wanted[first : first + _LINES]
    if rest.strip():
        yield [(done + 1, rest)]


@router.post("/explain", tags=["texts"])
async def explain(body: ToExplain, here: Here) -> Response:
    """Why mentions are linked as they are: the JSON of `kglink explain --json`."""
    if (body.start is None) != (body.end is None):
        raise UsageError("a place has two ends", hint='Give "start" and "end".')
    span = None if body.start is None or body.end is None else (body.start, body.end)
    surface = body.surface if span is None else ""
    refuse_many_places(body.text, surface, 'Name one by "start" and "end".')

    def answer() -> Response:
        asked = {"span": span, "surface": body.surface, **body.limits()}
        found = here.workspace.explain(body.text, **asked, wait=False)
        return json_response([one.as_json() for one in found])

    return await here.in_time(answer)


@router.post("/resolve", tags=["texts"])
async def resolve(body: ToResolve, here: Here) -> Response:
    """What names mean, such as those of a column: the JSON of `kglink resolve --json`."""

    def answer() -> Response:
        names, context = here.within(body.names), body.context or None
        found = here.workspace.resolve(names, context, **body.limits(), wait=False)
        return json_response([one.as_json() if one else None for one in found])

    return await here.in_time(answer)


@router.get("/search", tags=["entities"])
async def search(
    here: Here,
    q: Annotated[str, Query(min_length=1, max_length=10_000, examples=["wading bird"])],
    limited: Limited,
    k: Annotated[int, Query(ge=1, le=100)] = 10,
) -> Response:
    """The entities that words name or describe, best first."""

    def answer() -> Response:
        found = here.workspace.search(q, k=k, **limited, wait=False)
        entities = here.workspace.store.get_entities([one.id for one in found])
        shapes = found_shape(found, entities)
        for shape, one in zip(shapes, found, strict=True):
            known = entities.get(one.id) or Entity(one.id.key, one.title)
            shape |= {"description": known.description[:400], "type": known.type}
        return json_response(shapes)

    return await here.in_time(answer)


@router.get("/entities/{kb}/{key:path}", tags=["entities"])
def entity(
    here: Here, kb: str, key: str, examples: Annotated[int, Query(ge=0, le=100)] = 3
) -> Response:
    """All that is known of an entity: the JSON of `kglink show --json`."""
    return json_response(here.workspace.entity(EntityId(kb, key), examples=examples).as_json())


@router.get("/kbs", tags=["KBs"])
def kbs_route(here: Here) -> Response:
    """The KBs: the JSON of `kglink kbs --json`."""
    return json_response([one.as_json() for one in here.workspace.kbs()])


@router.get("/kbs/{kb}", tags=["KBs"])
def kb_route(here: Here, kb: str, limit: Annotated[int, Query(ge=1, le=1000)] = 50) -> Response:
    """A KB, and its first entities."""
    shown = here.workspace.entities(kb, limit=limit)
    first = [{"key": one.key, "title": one.title, "type": one.type} for one in shown]
    return json_response({**here.workspace.kb(kb).as_json(), "first": first})


@router.get("/counterparts/{kb}/{key:path}", tags=["entities"])
def counterparts(here: Here, kb: str, key: str) -> Response:
    """The same thing in other KBs."""
    found = here.workspace.entity(EntityId(kb, key), examples=0)
    return json_response([one.as_json() for one in found.counterparts])


_NIF = "kglink/nif"
_TURTLE = "text/turtle"


@router.post("/nif", tags=["texts"], openapi_extra=raw_body(_TURTLE))
async def nif(request: Request, here: Here) -> Response:
    """Link the texts of a NIF document: to all KBs, where no mention is given searched."""
    texts = await run_in_threadpool(_texts, await request.body(), here)
    found = await while_there(request.receive, _linked(texts, Limits().limits(), here))
    out = StringIO()
    exporter = here.workspace.registry.create("exporter", _NIF, {})
    await run_in_threadpool(exporter.export, found, out)
    return Response(out.getvalue(), media_type=_TURTLE)


def _texts(body: bytes, here: Served) -> list[TextInput]:
    adapter = here.workspace.registry.create("kb", _NIF, {"syntax": "turtle"})
    source = Source.from_bytes(body, name="request")
    records = read_records(_NIF, adapter.read, source, Problems("stop"))
    texts = [
        TextInput(one.id, one.text, tuple(Span(m.start, m.end) for m in one.mentions) or None)
        for one in records
        if isinstance(one, Document)
    ]
    if not texts:
        raise UsageError("the body has no nif:Context", hint="Send NIF in Turtle.")
    return texts
