"""Routes that change: corrections, new entities, verdicts on overlaps and on discoveries."""

from __future__ import annotations

import heapq
from typing import Literal

from fastapi import APIRouter, Query, Response
from pydantic import Field

from kglink import Alias, Entity, EntityId
from kglink.errors import UsageError
from kglink.records import CORRECTIONS
from kglink_doors.serve.answers import Body, Here, json_response
from kglink_doors.serve.errors import TakenError

router = APIRouter()


class Said(Body):
    """What a place of a text means: an entity, nothing that a KB has, or no mention at all."""

    text: str
    start: int
    end: int
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
    """Correct a place of a text: it is learnt before this answers."""
    done = here.workspace.correct(
        said.text, said.start, said.end, said.entity, is_mention=said.mention
    )
    return json_response(done.as_json(), 201)


@router.get("/corrections", tags=["corrections"])
def corrections(here: Here) -> Response:
    """All corrections."""
    return json_response([one.as_json() for one in here.workspace.corrections()])


@router.delete("/corrections/{correction}", tags=["corrections"])
def take_back(correction: str, here: Here) -> Response:
    """Take a correction back."""
    return json_response(here.workspace.take_back(correction).as_json())


@router.post("/entities/{kb}", tags=["entities"], status_code=201)
def add_entity(kb: str, new: NewEntity, here: Here) -> Response:
    """Add an entity to a KB: the next text that is linked knows it."""
    refuse_corrections(kb)
    if here.workspace.store.get_entities([EntityId(kb, new.key)]):
        raise TakenError(f"{kb} has an entity {new.key!r}", hint="Choose another key.")
    names = tuple(Alias(one) for one in new.aliases)
    entity = Entity(new.key, new.title, new.description, new.type, aliases=names)
    here.workspace.add_entity(kb, entity)
    here.workspace.build_if_stale(wait=False)
    return json_response(here.workspace.entity(EntityId(kb, new.key)).as_json(), 201)


@router.get("/overlaps", tags=["overlaps"])
def overlaps(
    here: Here,
    verdict: Literal["correct", "wrong", "unclear", "unjudged"] = "unjudged",
    limit: int = Query(10, ge=1, le=100),
) -> Response:
    """Pairs of entities that may be one thing, the least sure first."""
    found = here.workspace.overlaps(verdicts=[verdict])
    chosen = heapq.nsmallest(limit, found, key=lambda one: abs(one.probability - 0.5))
    ids = [side for one in chosen for side in (one.left, one.right)]
    known = here.workspace.store.get_entities(ids)

    def side(id_: EntityId) -> dict[str, str]:
        entity = known.get(id_) or Entity(id_.key, id_.key)
        return {"id": str(id_), "title": entity.title, "description": entity.description[:400]}

    return json_response(
        [{**one.as_json(), "left": side(one.left), "right": side(one.right)} for one in chosen]
    )


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
