"""NIF in, NIF out, as GERBIL asks annotators: a document a request, in Turtle."""

from __future__ import annotations

from io import StringIO

from fastapi import APIRouter, Request, Response
from starlette.concurrency import run_in_threadpool

from kglink import Document, Span, TextInput
from kglink.errors import UsageError
from kglink.sources import Problems, Source, read_records
from kglink_doors.serve.answers import Here
from kglink_doors.serve.batches import LinkOptions
from kglink_doors.serve.served import Served

router = APIRouter()
_NIF = "kglink/nif"
_TURTLE = "text/turtle"


@router.post("/nif", tags=["texts"])
async def nif(request: Request, here: Here) -> Response:
    """Link the texts of a NIF document: to all KBs, where no mention is given searched."""
    texts = await run_in_threadpool(_texts, await request.body(), here)
    found = await here.batches.link(texts, LinkOptions(), here.limits.seconds)
    here.metrics.linked(len(found), sum(len(one.links) for one in found))
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
