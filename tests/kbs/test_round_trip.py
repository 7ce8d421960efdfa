"""`kglink export` and back: what any adapter reads into a KB survives to the last field."""

from __future__ import annotations

import dataclasses
import functools
import importlib
import re
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest
import test_kb_umls as umls
import test_kb_zeshel as zeshel
from conftest import Kglink

from kglink.plugins import load_registry
from kglink.records import (
    Alias,
    AliasKind,
    CodeMapping,
    Document,
    Entity,
    EntityId,
    Mention,
    Record,
)
from kglink.sources import Problems, Source
from kglink.store import IngestSummary
from kglink.testing import KBAdapterContract
from kglink.workspace import Workspace, init_workspace
from kglink_kbs.jsonl import record_line
from store_support import content_hashes

ADAPTERS = load_registry(only="builtin").names("kb")


class Case(NamedTuple):
    """A small source and how to read it; a folder where it has several files."""

    adapter: str
    files: Mapping[str, str | bytes]
    settings: Mapping[str, object] = MappingProxyType({})

    def source(self, folder: Path) -> Path:
        """The source, written."""
        for name, content in self.files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content.encode() if isinstance(content, str) else content)
        return folder if len(self.files) > 1 else folder / next(iter(self.files))


@functools.cache
def contract_cases() -> dict[str, Case]:
    """The sample of each adapter's contract, which is as complete as it gets."""
    cases = {}
    for file in sorted(Path(__file__).parent.glob("test_kb_*.py")):
        for value in vars(importlib.import_module(file.stem)).values():
            if isinstance(value, type) and issubclass(value, KBAdapterContract) and value.plugin:
                files = {value.source_name: value.source_text}
                cases[value.plugin] = Case(value.plugin, files, value.settings)
    return cases


def filled(record: type[Any], **said: object) -> Any:
    """A record of which each field says something; one of a type that is new here fails."""
    samples: Mapping[str, object] = {
        "str": "said",
        "float": 0.1 + 0.2,
        "int": 7,
        "tuple[str, ...]": ("A:1", "B:2"),
        "tuple[Alias, ...]": (Alias("named", "synonym", 3), Alias(" odd ", "anchor", 0)),
        "AliasKind": "redirect",
        "Split": "dev",
        "Verdict | None": "unclear",
    }
    types = {field.name: str(field.type) for field in dataclasses.fields(record)}
    return record(**{name: samples[of] for name, of in types.items() if name not in said} | said)


GOLDS: tuple[tuple[EntityId, ...] | None, ...] = (
    None,
    (),
    (EntityId("", "said"),),
    (EntityId("target", "T1"), EntityId("", "nobody")),
)
#: What a tool answered is kept by no store, and what has gone by no export.
NOT_KEPT: Mapping[str, object] = {"confidence": None, "cluster": "", "gone": ()}
FULL: tuple[Record, ...] = (
    filled(Entity),
    Entity("plain", "Plain"),
    filled(
        Document,
        text="It is said.",
        meta={},  # where an adapter found the text, which no store keeps
        mentions=tuple(
            filled(Mention, start=6, end=10, surface="said", gold=g, **NOT_KEPT) for g in GOLDS
        ),
    ),
    filled(CodeMapping, subject="A:1", object="B:2"),
)
TARGET = (
    Entity("T1", "Mars", aliases=(Alias("Mars (planet)", "redirect"),), xrefs=("MESH:D003550",)),
    Entity("A1", "Venus (planet)"),
    Entity("B2", "Q405", xrefs=("UMLS:C0010674",)),
)
MORE = {
    "full": Case("kglink/jsonl", {"kb.jsonl": "".join(map(record_line, FULL))}),
    "umls-folder": Case(
        "kglink/umls",
        {"MRCONSO.RRF": umls.MRCONSO, "MRSTY.RRF": umls.MRSTY, "MRDEF.RRF": umls.MRDEF},
    ),
    "zeshel-folder": Case(
        "kglink/zeshel",
        {
            "documents/sky.json": zeshel.lines(zeshel.SUN, zeshel.MARS),
            "mentions/train.json": zeshel.lines(zeshel.MARS_IN_SUN, zeshel.THE_SUN),
        },
    ),
}


VARIED: Mapping[str, tuple[str, Mapping[str, object]]] = {
    "wikipedia-documents": ("kglink/wikipedia", {"documents": 3}),
    "sssom-overlaps": ("kglink/sssom", {"use": "overlaps"}),
}


@functools.cache
def cases() -> dict[str, Case]:
    """All of them, by the names that the tests have."""
    contracts = contract_cases()
    varied = {
        name: contracts[adapter]._replace(settings=settings)
        for name, (adapter, settings) in VARIED.items()
    }
    return {**contracts, **MORE, **varied}


class Held(NamedTuple):
    """All that a workspace holds of a KB."""

    entities: dict[str, Entity]
    hashes: dict[str, str]
    documents: dict[str, Document]
    resolved: dict[str, Document]
    mappings: list[CodeMapping]


def held(folder: Path, kb: str) -> Held:
    with Workspace.open(folder) as workspace:
        store = workspace.store
        return Held(
            {entity.key: entity for entity in store.entities(kb)},
            content_hashes(f"sqlite:///{folder / 'kglink.db'}", kb),
            {document.id: document for document in store.documents(kb, unresolved=True)},
            {document.id: document for document in store.documents(kb)},
            list(store.mappings(kb)),
        )


def add(folder: Path, kb: str, source: Path, adapter: str, **how: Any) -> IngestSummary:
    with Workspace.open(folder, flags={"ingest.on_error": "skip"}) as workspace:
        return workspace.add_kb(kb, source, adapter=adapter, **how).summary


def records_of(case: Case, source: Path) -> list[Record]:
    """What the adapter itself says."""
    adapter = load_registry(only="builtin").create("kb", case.adapter, case.settings)
    with Source.open_path(source) as opened:
        return list(adapter.read(opened, Problems("skip")))


def stored(entity: Entity) -> Entity:
    """An entity as a store holds it: its title is a name, and a name stands once, counted."""
    counts: dict[tuple[str, AliasKind], int] = {(entity.title, "title"): 0}
    for alias in entity.aliases:
        counts[alias.surface, alias.kind] = counts.get((alias.surface, alias.kind), 0) + alias.count
    counts[entity.title, "title"] += not any(alias.kind == "title" for alias in entity.aliases)
    names = (Alias(surface, kind, count) for (surface, kind), count in counts.items())
    return dataclasses.replace(entity, aliases=tuple(names))


def differences(before: Any, after: Any, where: str = "") -> Iterator[str]:
    """The fields in which two records are not the same, down to those of their parts."""
    if isinstance(before, Entity | Document | CodeMapping | Mention | Alias):
        for field in dataclasses.fields(before):
            old, new = getattr(before, field.name), getattr(after, field.name, "nothing")
            yield from differences(old, new, f"{where}.{field.name}")
    elif isinstance(before, dict) and before.keys() == after.keys():
        for key, value in before.items():
            yield from differences(value, after[key], f"{where}[{key!r}]")
    elif type(before) in (list, tuple) and len(before) == len(after):
        for at, value in enumerate(before):
            yield from differences(value, after[at], f"{where}[{at}]")
    elif before != after:
        yield f"{where}: {before!r} became {after!r}"


class Pair(NamedTuple):
    """Two workspaces: what is exported from the old one is read into the new one."""

    old: Path
    new: Path


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Pair:
    """Both hold the KB that annotations link to."""
    folder = tmp_path_factory.mktemp("pair")
    target = folder / "target.jsonl"
    target.write_text("".join(map(record_line, TARGET)), encoding="utf-8")
    made = Pair(init_workspace(folder / "old"), init_workspace(folder / "new"))
    for workspace in made:
        add(workspace, "target", target, "jsonl")
    return made


def round_trip(
    kb: str, source: Path, case: Case, links_to: list[str], pair: Pair, kglink: Kglink
) -> tuple[Held, Held]:
    """What a workspace holds of a source, and what another one holds of its export."""
    add(pair.old, kb, source, case.adapter, options=case.settings, links_to=links_to)
    exported = pair.old / f"{kb} exported.jsonl"
    told = kglink("-w", pair.old, "export", kb, "--format", "jsonl", "-o", exported).err
    (command,) = re.findall(r"^read back +kglink (.+)", told, re.MULTILINE)
    kglink("-w", pair.new, *shlex.split(command))
    again = add(pair.new, kb, exported, "jsonl", links_to=links_to)
    tallies = (again.entity_tally, again.document_tally, again.mapping_tally)
    assert sum(tally.altered for tally in tallies) == 0, "the guessed adapter reads it otherwise"
    return held(pair.old, kb), held(pair.new, kb)


def check_nothing_is_lost(before: Held, after: Held) -> None:
    for part in Held._fields:
        assert not list(differences(getattr(before, part), getattr(after, part), part))


@pytest.mark.parametrize("name", [*ADAPTERS, *MORE, *VARIED])
def test_a_kb_of_any_adapter_survives(
    name: str, pair: Pair, kglink: Kglink, tmp_path: Path
) -> None:
    assert name in cases(), f"{name} has no contract in a tests/test_kb_*.py whose sample is read"
    case = cases()[name]
    source = case.source(tmp_path / "source")
    said = records_of(case, source)
    assert said
    of_entities = any(isinstance(record, Entity) for record in said)
    links_to = [] if of_entities else ["target"]
    kb = f"kb-{name.rpartition('/')[2]}"
    before, after = round_trip(kb, source, case, links_to, pair, kglink)
    check_nothing_is_lost(before, after)
    entities = {record.key: stored(record) for record in said if isinstance(record, Entity)}
    assert not list(differences(entities, before.entities)), "the store has lost something"
    documents = {record.id: record for record in said if isinstance(record, Document)}
    assert documents.keys() == before.documents.keys()
    assert {record for record in said if isinstance(record, CodeMapping)} == set(before.mappings)


def test_the_cases_say_something_in_every_field(tmp_path: Path) -> None:
    """Else a field that is lost would not be missed; what a tool answered is kept by no store."""
    silent = {
        (kind.__name__, field.name)
        for kind in (Entity, Alias, Document, Mention, CodeMapping)
        for field in dataclasses.fields(kind)
    }
    for number, case in enumerate(cases().values()):
        for record in records_of(case, case.source(tmp_path / str(number))):
            parts = [record, *getattr(record, "aliases", ()), *getattr(record, "mentions", ())]
            for part in parts:
                silent -= {
                    (type(part).__name__, field.name)
                    for field in dataclasses.fields(part)
                    if getattr(part, field.name) != field.default
                }
    assert silent <= {("Mention", name) for name in NOT_KEPT}


def test_golds_that_are_found_and_golds_that_are_not_both_survive(
    pair: Pair, kglink: Kglink, tmp_path: Path
) -> None:
    case = MORE["full"]
    before, after = round_trip("linked", case.source(tmp_path), case, ["target"], pair, kglink)
    for held_by in (before, after):
        (document,) = held_by.documents.values()
        assert [mention.gold for mention in document.mentions] == [
            None,
            (),
            (EntityId("", "said"),),
            (EntityId("target", "T1"), EntityId("", "nobody")),
        ]
        (document,) = held_by.resolved.values()
        assert document.mentions[3].gold == (EntityId("target", "T1"),)


@pytest.mark.slow
@pytest.mark.realdata
def test_the_english_wikipedia_survives(pair: Pair, kglink: Kglink, realdata: Path) -> None:
    (dump,) = (realdata / "wiki").glob("enwiki*.bz2")
    case = Case("kglink/wikipedia", {}, {"documents": 200, "disambiguation": True})
    before, after = round_trip("enwiki", dump, case, [], pair, kglink)
    assert len(before.entities) == 106
    assert len(before.documents) > 50  # the others link to none of these pages
    check_nothing_is_lost(before, after)
    aliases = [alias for entity in after.entities.values() for alias in entity.aliases]
    assert {alias.kind for alias in aliases} == {"title", "redirect", "anchor"}
    assert max(alias.count for alias in aliases) > 1
    assert any(mention.gold for d in after.resolved.values() for mention in d.mentions)
