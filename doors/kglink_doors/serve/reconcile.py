"""The W3C's Reconciliation Service API, version 0.2: what OpenRefine asks of a column's cells.

``/reconcile`` asks all KBs, and names entities ``kb:key``; ``/reconcile/KB`` asks one, and names
them by key. A cell is linked as a given mention, the row's other columns as the words around it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from html import escape
from typing import Annotated, Any
from urllib.parse import parse_qs, quote

from fastapi import APIRouter, Depends, Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, model_validator
from starlette.concurrency import run_in_threadpool

from kglink import Candidate, Entity, EntityId, LinkedDocument, Span, TextInput
from kglink.errors import UnknownNameError, UsageError
from kglink.linking.scoring import Scoring
from kglink.workspace.link import fresh_linker
from kglink_doors.serve.answers import Here, json_response
from kglink_doors.serve.batches import BATCH_TEXTS
from kglink_doors.serve.errors import Whole, first_error, parsed

router = APIRouter(tags=["reconciliation"])
VERSION = "0.2"
#: Cells of one request, and what is shown of an entity.
_MOST_QUERIES = 1000
_SHOWN = 300
#: What may be fetched of entities: the names of columns, and how they read.
PROPERTIES = {
    "title": "Title",
    "description": "Description",
    "type": "Type",
    "url": "Web address",
    "aliases": "Other names",
    "parents": "Broader",
    "counterparts": "In other KBs",
}


class Property(BaseModel):
    """What another column says of a cell."""

    pid: str
    v: Any


class Cell(BaseModel):
    """A cell that is asked for."""

    model_config = ConfigDict(extra="ignore", coerce_numbers_to_str=True)

    query: str = Field("", max_length=10_000)
    type: str | list[str] | None = None
    limit: Whole = Field(5, ge=0)
    properties: list[Property] = Field([], max_length=100)

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, given: object) -> object:
        if isinstance(given, Mapping):
            return {key: value for key, value in given.items() if value is not None}
        return given

    @property
    def types(self) -> tuple[str, ...]:
        """The types that an answer may be of."""
        return (self.type,) if isinstance(self.type, str) else tuple(self.type or ())

    def input(self) -> TextInput:
        """The cell as a mention, and what other columns say behind it."""
        said = [f"{one.pid}: {words}" for one in self.properties if (words := _words(one.v))]
        text = "; ".join([self.query, *said])
        return TextInput("", text, (Span(0, len(self.query)),))


#: Stands for all KBs in addresses: no KB has such a name.
ALL_KBS = "_"
_CELLS = TypeAdapter(dict[str, Cell])


class _Extend(BaseModel):
    ids: list[str] = Field(max_length=_MOST_QUERIES)
    properties: list[dict[str, Any]] = Field(max_length=100)


class NamedKB:
    """The KB that a path names, or all, and how its entities are named there."""

    def __init__(self, request: Request, here: Here, kb: str = "") -> None:
        self.here = here
        self.kb = here.workspace.kb(kb).name if kb not in ("", ALL_KBS) else ""
        self.server = str(request.base_url).rstrip("/")
        self.service = f"{self.server}/reconcile/{self.kb or ALL_KBS}"
        token = request.query_params.get("token")
        self.more = f"token={quote(token, safe='')}" if token else ""
        """What goes behind the ``?`` of every address: table editors send no headers."""

    @property
    def kbs(self) -> tuple[str, ...]:
        """The KBs that are asked, else those of the settings; empty: all."""
        return (self.kb,) if self.kb else self.here.workspace.settings.link.kbs

    def name_of(self, entity: EntityId) -> str:
        """What an entity is called here."""
        return entity.key if self.kb else str(entity)

    def entity_of(self, name: str) -> EntityId:
        """The entity that is called so."""
        return EntityId(self.kb, name) if self.kb else EntityId.parse(name)

    def entities(self, names: Iterable[str]) -> dict[str, Entity]:
        """What is known of entities, by what they are called."""
        ids = {self.entity_of(name): name for name in names}
        return {ids[id_]: one for id_, one in self.here.workspace.store.get_entities(ids).items()}


Service = Annotated[NamedKB, Depends(NamedKB)]


@router.options("/reconcile")
@router.options("/reconcile/", include_in_schema=False)
@router.options("/reconcile/{rest:path}")
async def options(rest: str = "") -> Response:
    """Answer a browser's CORS preflight request."""
    return Response(status_code=204)


@router.get("/reconcile/{kb}/suggest/{kind}")
def suggest(kind: str, service: Service, prefix: str = "", cursor: int = 0) -> Response:
    """Entities, types or properties that begin like this, while somebody types."""
    if kind == "property":
        found = _named(PROPERTIES)
    elif kind == "type":
        found = _named(_types(service))
    elif kind == "entity":
        found = _entities_like(service, prefix) if prefix.strip() else []
    else:
        raise UnknownNameError("kind of suggestion", kind, ("entity", "property", "type"))
    if kind != "entity":
        found = [one for one in found if prefix.casefold() in one["name"].casefold()]
    return json_response({"result": found[cursor : cursor + 20]})


@router.get("/reconcile/{kb}/preview")
def preview(service: Service, id: Annotated[str, Query(max_length=2000)]) -> Response:  # noqa: A002 - the API's word
    """An entity at a glance, as a small page."""
    known = service.entities([id])
    if id not in known:
        raise UnknownNameError("entity", id, None)
    one = known[id]
    lines = [f"<strong>{escape(one.title)}</strong>", f"<small>{escape(id)}</small>"]
    lines += [f"<em>{escape(one.type)}</em>"] if one.type else []
    page = (
        "<!doctype html><meta charset=utf-8><title>entity</title><style>"
        "body{font:14px/1.4 system-ui,sans-serif;margin:8px}small{color:#555}</style>"
        f"<p>{'<br>'.join(lines)}</p><p>{escape(one.description[:_SHOWN])}</p>"
    )
    return Response(page, media_type="text/html; charset=utf-8")


@router.get("/reconcile/{kb}/properties")
def propose(service: Service, type: str = "") -> Response:  # noqa: A002 - the API's word
    """What may be fetched of entities that cells were matched with."""
    return json_response({"type": type, "properties": _named(PROPERTIES)})


@router.get("/reconcile")
@router.get("/reconcile/", include_in_schema=False)
@router.get("/reconcile/{kb}")
@router.get("/reconcile/{kb}/", include_in_schema=False)
async def reconcile(
    service: Service, queries: str | None = None, extend: str | None = None
) -> Response:
    """The manifest, or the answers to ``queries``, or the columns of ``extend``."""
    return await _answer(service, queries, extend)


@router.post("/reconcile")
@router.post("/reconcile/", include_in_schema=False)
@router.post("/reconcile/{kb}")
@router.post("/reconcile/{kb}/", include_in_schema=False)
async def reconcile_form(request: Request, service: Service) -> Response:
    """The same, asked by a form."""
    try:
        body = await request.body()
        form = parse_qs(body.decode("utf-8"), max_num_fields=20)
    except ValueError as error:
        raise UsageError(f"the form cannot be read: {error}", hint="Send queries=JSON.") from error
    fields = {key: values[0] for key, values in form.items()}
    if body and not fields.keys() & {"queries", "extend"}:
        hint = "Send queries=JSON as application/x-www-form-urlencoded."
        raise UsageError('the form has neither "queries" nor "extend"', hint=hint)
    return await _answer(service, fields.get("queries"), fields.get("extend"))


async def _answer(service: NamedKB, queries: str | None, extend: str | None) -> Response:
    if queries is not None:
        return json_response(await _reconciled(service, queries))
    if extend is not None:
        return json_response(await run_in_threadpool(_extended, service, extend))
    return json_response(_manifest(service))


def _manifest(service: NamedKB) -> dict[str, object]:
    def at(path: str) -> dict[str, str]:
        more = f"?{service.more}" if service.more else ""
        return {"service_url": service.service, "service_path": f"{path}{more}"}

    more = f"&{service.more}" if service.more else ""
    shown = f"{service.service}/preview?id={{{{id}}}}{more}"
    return {
        "versions": [VERSION],
        "name": f"kglink: {service.kb or 'all KBs'}",
        "identifierSpace": f"{service.server}/entities/{service.kb}",
        "schemaSpace": f"{service.server}/types",
        "defaultTypes": _named(_types(service))[:10],
        "view": {"url": shown},
        "preview": {"url": shown, "width": 400, "height": 160},
        "suggest": {kind: at(f"/suggest/{kind}") for kind in ("entity", "type", "property")},
        "extend": {"propose_properties": at("/properties"), "property_settings": []},
    }


def _types(service: NamedKB) -> dict[str, str]:
    store = service.here.workspace.store
    kbs = service.kbs or tuple(one.name for one in store.kbs() if one.entities)
    return {one: one for one in sorted({one for kb in kbs for one in store.types_of(kb)} - {""})}


def _named(names: Mapping[str, str]) -> list[dict[str, Any]]:
    return [{"id": key, "name": name} for key, name in names.items()]


async def _reconciled(service: NamedKB, queries: str) -> dict[str, object]:
    """The candidates of each cell."""
    try:
        cells = _CELLS.validate_python(parsed(queries))
    except ValidationError as error:
        hint = 'queries={"q0": {"query": "a name"}}'
        raise UsageError(first_error(error, "queries"), hint=hint) from error
    if len(cells) > _MOST_QUERIES:
        raise UsageError(f"{len(cells):,} queries", hint=f"Ask {_MOST_QUERIES:,} at once at most.")
    answers: dict[str, object] = {name: {"result": []} for name in cells}  # of an empty cell too
    linker = partial(fresh_linker, service.here.workspace, service.kbs, wait=False)
    scoring = (await run_in_threadpool(linker)).scoring
    full = {name: one for name, one in cells.items() if one.query.strip()}
    has_types = any(one.types for one in full.values())
    known = await run_in_threadpool(_types, service) if has_types else {}
    folded = {one.casefold() for one in known}
    for asked in dict.fromkeys(one.types for one in full.values()):
        types = tuple(one for one in asked if one.casefold() in folded)
        if asked and not types:
            continue  # nothing is of a type that no entity has
        cells_of_type = {name: one for name, one in full.items() if one.types == asked}
        texts, found = [one.input() for one in cells_of_type.values()], list[LinkedDocument]()
        here, limits = service.here, {"kbs": service.kbs, "types": types}
        for start in range(0, len(texts), BATCH_TEXTS):
            part = texts[start : start + BATCH_TEXTS]
            found += await here.batches.link(part, limits, here.limits.seconds, patient=True)
        for (name, cell), document in zip(cells_of_type.items(), found, strict=True):
            answers[name] = {"result": _results(service, document, scoring)[: cell.limit]}
    return answers


def _results(
    service: NamedKB, document: LinkedDocument, scoring: Scoring
) -> list[dict[str, object]]:
    """The candidates of a cell, each with how probably it is right, in percent.

    None is more probable than the first, and of what a person said nothing else is probable.
    """
    (link,) = document.links
    best = link.candidates[0].score if link.candidates else 0.0
    most = 0.0 if link.probability == 1 else link.probability

    def probability(other: Candidate) -> float:
        return min(most, scoring.probability(other, other.score - best))

    return [
        {
            "id": service.name_of(one.id),
            "name": one.title,
            "description": one.description[:_SHOWN],
            "type": [{"id": one.type, "name": one.type}] if one.type else [],
            "score": round(100 * (probability(one) if place else link.probability), 2),
            "match": not place and link.chosen is not None,
        }
        for place, one in enumerate(link.candidates)
    ]


def _entities_like(service: NamedKB, prefix: str) -> list[dict[str, Any]]:
    """Those with a name that begins so, then what a search finds."""
    workspace, asked = service.here.workspace, prefix[:1000]
    searched = workspace.search(asked, k=20, kbs=service.kbs, wait=False)
    begun = workspace.store.named_like_this(asked, service.kbs)
    found = dict.fromkeys([*begun, *(one.id for one in searched)])
    known = workspace.store.get_entities(found)
    return [
        {"id": service.name_of(id_), "name": one.title, "description": one.description[:_SHOWN]}
        for id_ in found
        if (one := known.get(id_))
    ]


def _extended(service: NamedKB, extend: str) -> dict[str, object]:
    try:
        asked = _Extend.model_validate(parsed(extend))
    except ValidationError as error:
        hint = 'extend={"ids": ["a"], "properties": [{"id": "title"}]}'
        raise UsageError(f"extend: {first_error(error)}", hint=hint) from error
    wanted = list(dict.fromkeys(str(one.get("id", "")) for one in asked.properties))
    for one in wanted:
        if one not in PROPERTIES:
            raise UnknownNameError("property", one, PROPERTIES)
    known = service.entities(asked.ids)
    store = service.here.workspace.store
    same = store.counterparts([service.entity_of(name) for name in known])
    rows: dict[str, dict[str, list[dict[str, str]]]] = {}
    for name in asked.ids:
        entity = known.get(name) or Entity(name, "")
        lists: Mapping[str, Sequence[str]] = {
            "aliases": [one.surface for one in entity.aliases],
            "parents": entity.parents,
            "counterparts": [str(one) for one in same.get(service.entity_of(name), ())],
        }
        values = {key: lists.get(key, (getattr(entity, key, ""),)) for key in wanted}
        rows[name] = {key: [{"str": one} for one in own if one] for key, own in values.items()}
    return {"meta": [{"id": key, "name": PROPERTIES[key]} for key in wanted], "rows": rows}


def _words(value: object) -> str:
    """What a column says, in words; a matched cell says its name."""
    if isinstance(value, Mapping):
        return str(value.get("name") or value.get("id") or "")
    if isinstance(value, list):
        return ", ".join(filter(None, map(_words, value)))
    return "" if value is None else str(value)[:1000]
