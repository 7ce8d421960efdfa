"""The ways of linking that `general.py` compares: its baselines, and kglink."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from answers import given_places, raw
from general_baselines import MOST, Names, given_by
from general_scores import Answer, Golds, System, answers_of
from general_sets import BY_NAMES, FAMILIES, SETS, general_workspace

from kglink.files.atomic import write_atomically
from kglink.records import Document, EntityId, TextInput
from kglink.workspace import Workspace

#: A space of the vectors of names, which learning and one baseline want; and that of all vectors.
OF_NAMES = {"space.name": "names-encoded", "space.rows": ("alias",)}
OF_ALL = {"space.name": "vectors"}
#: As many candidates as recall is measured for.
DEEP = {"link.top_k": MOST}

Sources = Mapping[str, Sequence[Document]]
Found = dict[str, list[list[Answer]]]


class Bench(NamedTuple):
    """The sets linked to one size of the KB."""

    size: int
    folder: Path
    kept: Path
    """Where answers are written."""
    documents: Sources
    golds: Mapping[str, Sequence[Golds]]
    systems: list[System]
    bearers: Mapping[str, int]
    """How many entities have a name, folded."""

    def ask(
        self,
        name: str,
        flags: Mapping[str, Any],
        texts: Callable[[Sequence[Document]], list[TextInput]],
        documents: Sources,
    ) -> tuple[Found, float]:
        """The answers of a system for some sets, and the seconds that linking took."""
        return ask(self.kept / name.replace(", ", "-"), self.folder, flags, documents, texts)


def bench(folder: Path, data: Path, size: int, vectors: bool, learning: bool) -> Bench:
    """All systems with one size of the KB."""
    place = general_workspace(folder, data, size)
    with Workspace.open(place) as workspace:
        documents = {name: list(workspace.store.documents(name)) for name in SETS}
        entities = list(workspace.entities("general"))
        for name in workspace.store.memory_sources():
            workspace.forget(name)
    golds = {name: list(map(Golds.of, documents[name])) for name in SETS}
    names = Names("general", entities)
    kept = folder / "answers" / place.name
    made = Bench(size, place, kept, documents, golds, [], names.bearers_by_folded_name())
    for system in systems(made, names, vectors, learning):
        made.systems.append(system)
    return made


def systems(made: Bench, names: Names, vectors: bool, learning: bool) -> Iterator[System]:
    """The baselines, then kglink in all ways that are asked for."""
    own = made.documents
    given = {name: list(map(names.given, texts)) for name, texts in own.items()}
    found = {name: [names.raw(one.text) for one in texts] for name, texts in own.items()}
    yield System("dictionary", found, given, given)
    golden = (each for texts in own.values() for one in texts for each in one.mentions if each.gold)
    spelt = names.by_spelling(sorted({one.surface for one in golden}))
    alike = {name: [given_by(spelt, one) for one in texts] for name, texts in own.items()}
    yield System("rapidfuzz", {}, alike, alike)
    ways: dict[str, Mapping[str, Any]] = {"names": BY_NAMES}
    if vectors:
        ways["vectors"] = OF_ALL
    for name, flags in ways.items():
        yield linked(name, made, flags)
    if learning:
        yield by_best_name(made)
        yield from learnt({f"{name}, learnt": flags for name, flags in ways.items()}, made)


def linked(name: str, made: Bench, flags: Mapping[str, Any]) -> System:
    """What kglink answers as it comes, once the space of some flags is built."""
    texts = made.documents
    if flags is OF_ALL:
        began = time.monotonic()
        with Workspace.open(made.folder, flags=dict(flags)) as workspace:
            workspace.build_if_stale()
        print(
            f"all vectors of {made.size:,} entities: {time.monotonic() - began:.0f} s", flush=True
        )
    answers, seconds = made.ask(name, flags, raw, texts)
    given, _ = made.ask(name, flags, given_places, texts)
    deep, _ = made.ask(name, {**flags, **DEEP}, golden_places, texts)
    return System(name, answers, given, deep, sum(map(len, texts.values())) / seconds)


def by_best_name(made: Bench) -> System:
    """The vector of a mention's words alone, and the nearest name: such a system knows no NIL."""
    flags = {**OF_NAMES, **DEEP, "link.found_by": "vectors"}
    with Workspace.open(made.folder, flags=dict(flags)) as workspace:
        workspace.build_if_stale()
    found, _ = made.ask("best name", flags, golden_places, made.documents)
    first = {
        name: [[one._replace(entity=(*one.candidates, None)[0]) for one in own] for own in told]
        for name, told in found.items()
    }
    return System("MiniLM, best name", {}, first, first)


def golden_places(documents: Sequence[Document]) -> list[TextInput]:
    """Texts with the places of the mentions that have a gold."""
    own = [tuple(one for one in each.mentions if one.gold) for each in documents]
    return given_places(
        replace(one, mentions=golden) for one, golden in zip(documents, own, strict=True)
    )


def learnt(ways: Mapping[str, Mapping[str, Any]], made: Bench) -> Iterator[System]:
    """What it answers after learning: each family with a memory of all the others."""
    raws: dict[str, Found] = {name: {} for name in ways}
    givens: dict[str, Found] = {name: {} for name in ways}
    seconds = dict.fromkeys(ways, 0.0)
    for family in FAMILIES:
        with Workspace.open(made.folder, flags=dict(OF_NAMES)) as workspace:
            for name in workspace.store.memory_sources():
                workspace.forget(name)
            for first, *_ in FAMILIES:
                if first not in family:
                    workspace.learn(first)
        own = {name: made.documents[name] for name in family}
        for name, flags in ways.items():
            answers, took = made.ask(name, flags, raw, own)
            raws[name] |= answers
            seconds[name] += took
            givens[name] |= made.ask(name, flags, given_places, own)[0]
    for name in ways:
        rate = sum(map(len, made.documents.values())) / seconds[name]
        yield System(name, raws[name], givens[name], {}, rate)


def ask(
    kept: Path,
    folder: Path,
    flags: Mapping[str, Any],
    documents: Sources,
    texts: Callable[[Sequence[Document]], list[TextInput]],
) -> tuple[Found, float]:
    """The answers of a workspace, and the seconds that linking took after the first text.

    They are written to a file for each set, and read where it is there.
    """
    kept.mkdir(parents=True, exist_ok=True)
    found, seconds = {}, 0.0
    for name, own in documents.items():
        path = kept / f"{texts.__name__}-{name}.json"
        if not path.exists():
            print(f"... {path}", file=sys.stderr, flush=True)
            with Workspace.open(folder, flags=dict(flags)) as workspace:
                list(workspace.link("It begins.", wait=False))
                began = time.monotonic()
                told = [answers_of(one) for one in workspace.link(texts(own), wait=False)]
                took = time.monotonic() - began
            write_atomically(path, json.dumps({"seconds": took, "answers": told}))
        one = json.loads(path.read_text(encoding="utf-8"))
        found[name] = [list(map(_answer, answers)) for answers in one["answers"]]
        seconds += one["seconds"]
    return found, seconds


def _answer(told: Sequence[Any]) -> Answer:
    start, end, entity, confidence, candidates = told
    ids = tuple(EntityId(*one) for one in candidates)
    return Answer(start, end, EntityId(*entity) if entity else None, confidence, ids)
