"""Linking on general ground, beside its baselines: raw text and given places, NIL, how sure.

    python benchmarks/general.py WORKSPACE-DIR [--data DATA] [--sizes 5402,35754]
        [--vectors 5402] [--no-learning]

DATA is the folder with ``general`` and ``fandom``. Workspaces are made in WORKSPACE-DIR where they
are missing. Nine sets are linked to a KB of 5,402 entities, and to the whole one of 35,754: by
names alone as kglink comes, with vectors where ``--vectors`` names the size, and after `learn` of
the other sets (sets that share texts are left out together). Golds are compared by id; a link of a
mention that has no gold in the KB is wrong (InKB), and both ends must agree (strict). Of sets that
are annotated in part only the recall is known. All answers are written to WORKSPACE-DIR/answers,
to be looked at; they are never read again. ``--no-learning`` leaves out the baseline MiniLM too.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from answers import given_places, raw
from general_baselines import MOST, Names, given_by
from general_scores import (
    Answer,
    Answers,
    Given,
    Golds,
    System,
    answers_of,
    decimals,
    figures,
    given_counts,
    given_error,
    mean,
    raw_counts,
    raw_error,
    right_places,
    share,
    table,
)
from general_sets import (
    BY_NAMES,
    DATA,
    FAMILIES,
    PARTIAL,
    SETS,
    general_workspace,
    wiki_workspace,
)

from kglink.records import Document, TextInput
from kglink.text.fold import fold
from kglink.workspace import Workspace

#: A space of the vectors of names, which learning and one baseline want; and that of all vectors.
OF_NAMES = {"space.name": "names-encoded", "space.rows": ("alias",)}
OF_ALL = {"space.name": "vectors"}
#: As many candidates as recall is measured for.
DEEP = {"link.top_k": MOST}
WHOLE_SETS = [name for name in SETS if name not in PARTIAL]
BEARERS = ((0, 0), (1, 1), (2, 2), (3, 5), (6, 10**6))

Sources = Mapping[str, Sequence[Document]]


class Bench(NamedTuple):
    """The sets linked to one size of the KB."""

    size: int
    folder: Path
    documents: Sources
    golds: Mapping[str, Sequence[Golds]]
    systems: list[System]
    bearers: Mapping[str, int]
    """How many entities have a name, folded."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--sizes", default="5402,35754")
    parser.add_argument("--vectors", default="", help="sizes that are linked with vectors as well")
    parser.add_argument("--no-learning", action="store_true", help="leave out what is learnt")
    asked = parser.parse_args()
    sizes = [int(one) for one in asked.sizes.split(",")]
    with_vectors = {int(one) for one in asked.vectors.split(",") if one}
    benches = [
        bench(asked.folder, asked.data, size, size in with_vectors, not asked.no_learning)
        for size in sizes
    ]
    show_raw(benches)
    show_given(benches)
    show_bearers(benches)
    show_wiki(asked.folder, asked.data, sizes)


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
    bearers: dict[str, int] = defaultdict(int)
    for one in entities:
        for name in {fold(each) for each in (one.title, *(each.surface for each in one.aliases))}:
            bearers[name] += 1
    made = Bench(size, place, documents, golds, [], bearers)
    given = {name: [names.given(one) for one in own] for name, own in documents.items()}
    made.systems.append(
        System(
            "dictionary",
            {name: [names.raw(one.text) for one in own] for name, own in documents.items()},
            given,
            given,
        )
    )
    surfaces = sorted(
        {each.surface for own in documents.values() for one in own for each in one.mentions
         if each.gold}
    )  # fmt: skip
    found = names.by_spelling(surfaces)
    by_spelling = {name: [given_by(found, one) for one in own] for name, own in documents.items()}
    made.systems.append(System("rapidfuzz", {}, by_spelling, by_spelling))
    made.systems.append(linked("names", made, BY_NAMES))
    if vectors:
        made.systems.append(linked("vectors", made, OF_ALL))
    if learning:
        ways = {"names, learnt": BY_NAMES} | ({"vectors, learnt": OF_ALL} if vectors else {})
        made.systems.append(by_best_name(made))
        made.systems.extend(learnt(ways, made))
    for system in made.systems:
        keep(folder / "answers" / f"{system.name.replace(', ', '-')}-{size}.jsonl", system)
    return made


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
    answers, seconds = ask(made.folder, flags, texts, raw)
    given, _ = ask(made.folder, flags, texts, given_places)
    deep, _ = ask(made.folder, {**flags, **DEEP}, texts, golden_places)
    return System(name, answers, given, deep, sum(map(len, texts.values())) / seconds)


def by_best_name(made: Bench) -> System:
    """The vector of a mention's words alone, and the nearest name: such a system knows no NIL."""
    flags = {**OF_NAMES, **DEEP, "link.evidence": "vectors"}
    with Workspace.open(made.folder, flags=dict(flags)) as workspace:
        workspace.build_if_stale()

    found, _ = ask(made.folder, flags, made.documents, golden_places)
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
    found: dict[str, list[dict[str, Sequence[Sequence[Answer]]]]] = {
        name: [{}, {}, {}] for name in ways
    }
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
            answers, took = ask(made.folder, flags, own, raw)
            given, _ = ask(made.folder, flags, own, given_places)
            deep, _ = ask(made.folder, {**flags, **DEEP}, own, golden_places)
            for all_sets, one in zip(found[name], (answers, given, deep), strict=True):
                all_sets.update(one)
            seconds[name] += took
    for name in ways:
        rate = sum(map(len, made.documents.values())) / seconds[name]
        from_text, at_places, deeply = found[name]
        yield System(name, from_text, at_places, deeply, rate)


def ask(
    folder: Path,
    flags: Mapping[str, Any],
    documents: Sources,
    texts: Callable[[Sequence[Document]], list[TextInput]],
    kbs: Sequence[str] = (),
) -> tuple[Answers, float]:
    """The answers of a workspace, and the seconds that linking took after the first text."""
    print(f"... {folder.name} {flags} {texts.__name__}", file=sys.stderr, flush=True)
    found, seconds = {}, 0.0
    with Workspace.open(folder, flags=dict(flags)) as workspace:
        list(workspace.link("It begins.", kbs, wait=False))
        for name, own in documents.items():
            began = time.monotonic()
            found[name] = [
                answers_of(one) for one in workspace.link(texts(own), kbs, wait=False)
            ]  # fmt: skip
            seconds += time.monotonic() - began
    return found, seconds


def keep(path: Path, system: System) -> None:
    """Write what a system answered."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8") as out:
        for way, answers in (("raw", system.raw), ("given", system.given)):
            for docs, told in answers.items():
                for at, own in enumerate(told):
                    line = {"way": way, "docs": docs, "at": at, "answers": own}
                    out.write(json.dumps(line, ensure_ascii=False) + "\n")


def show_raw(benches: Sequence[Bench]) -> None:
    """Raw text: precision, recall and F1 by set, their means, how sure, and how fast."""
    columns = [(made, one) for made in benches for one in made.systems if one.raw]
    counts = [
        {name: raw_counts(made.golds[name], one.raw[name]) for name in SETS}
        for made, one in columns
    ]  # fmt: skip
    print("\nRaw text, strict: P R F1; of sets annotated in part R.")
    head = ["", *(f"{one.name}, {made.size:,}" for made, one in columns)]

    def rows() -> Iterator[list[str]]:
        for name in SETS:
            yield [name, *(cell(own[name], name in PARTIAL) for own in counts)]
        wholes = [[own[name] for name in WHOLE_SETS] for own in counts]
        yield ["micro, annotated whole", *(cell(added(own)) for own in wholes)]
        yield ["macro F1, annotated whole",
               *(decimals([mean(own, lambda one: one.f1)]) for own in wholes)]  # fmt: skip
        alls = [list(own.values()) for own in counts]
        yield ["micro R, all", *(cell(added(own), partial=True) for own in alls)]
        yield ["macro R, all", *(decimals([mean(own, lambda one: one.recall)]) for own in alls)]
        yield ["ECE of links, annotated whole",
               *(decimals([raw_error(made.golds, {name: one.raw[name] for name in WHOLE_SETS})])
                 for made, one in columns)]  # fmt: skip
        yield ["texts a second", *(f"{one.texts_a_second:.0f}" if one.texts_a_second else "-"
                                   for _, one in columns)]  # fmt: skip

    table(head, rows())


def cell(counts: tuple[int, int, int], partial: bool = False) -> str:
    told = figures(counts)
    return decimals([told.recall] if partial else told)


def added(rows: Sequence[tuple[int, int, int]]) -> tuple[int, int, int]:
    right, found, gold = map(sum, zip(*rows, strict=True))
    return right, found, gold


def show_given(benches: Sequence[Bench]) -> None:
    """Given places: all sets together, then R@1 by set."""
    columns = [(made, one) for made in benches for one in made.systems]
    counts = {
        (made.size, one.name): {
            name: given_counts(made.golds[name], one.given[name], one.deep[name]) for name in SETS
        }
        for made, one in columns
    }
    print("\nGiven places, all sets: of mentions with a gold R@1, R@64, answered right; NIL.")
    table(
        ["", "R@1", "R@64", "right", "macro R@1", "NIL P", "NIL R", "ECE"],
        [
            given_row(f"{one.name}, {made.size:,}", list(counts[made.size, one.name].values()),
                      given_error(made.golds, one.given))
            for made, one in columns
        ],
    )  # fmt: skip
    print("\nGiven places, R@1 / answered right by set")
    head = ["", *(f"{one.name}, {made.size:,}" for made, one in columns)]
    rows = []
    for name in SETS:
        own = [counts[made.size, one.name][name] for made, one in columns]
        rows.append([name, *(f"{share(one.first, one.golds)} {share(one.right, one.golds)}"
                             for one in own)])  # fmt: skip
    table(head, rows)


def given_row(name: str, rows: Sequence[Given], error: float) -> list[str]:
    total = Given.together(rows)
    macro = sum(one.first / one.golds for one in rows) / len(rows)
    knows_nil = total.nil > 0
    return [
        name,
        share(total.first, total.golds),
        share(total.among, total.golds),
        share(total.right, total.golds),
        decimals([macro]),
        share(total.right_nil, total.told_nil) if knows_nil else "-",
        share(total.right_nil, total.nil) if knows_nil else "-",
        decimals([error]) if knows_nil else "-",
    ]


def show_bearers(benches: Sequence[Bench]) -> None:
    """By how many entities bear the mention's words: what is found in raw text, and R@1."""
    print("\nMentions with a gold, by how many entities bear their words: raw recall, R@1 given")
    for made in benches:
        systems = [one for one in made.systems if one.raw]
        rows = []
        for least, most in BEARERS:
            chosen = {
                (name, at): {
                    (one.start, one.end) for one in document.mentions
                    if one.gold and least <= made.bearers.get(fold(one.surface), 0) <= most
                }
                for name in SETS
                for at, document in enumerate(made.documents[name])
            }  # fmt: skip
            count = sum(map(len, chosen.values()))
            cells = []
            for system in systems:
                hits = sum(
                    len(own & right_places(made.golds[name][at], system.raw[name][at]))
                    for (name, at), own in chosen.items()
                )
                first = sum(
                    one.candidates[0] in made.golds[name][at].right[one.start, one.end]
                    for (name, at), own in chosen.items()
                    for one in system.given[name][at]
                    if (one.start, one.end) in own and one.candidates
                )
                cells.append(f"{share(hits, count)} {share(first, count)}")
            label = str(least) if least == most else f"{least} to {most}"
            rows.append([label.replace(f" to {10**6}", " or more"), f"{count:,}", *cells])
        table([f"{made.size:,} entities", "mentions", *(one.name for one in systems)], rows)


def show_wiki(folder: Path, data: Path, sizes: Sequence[int]) -> None:
    """The small wiki alone, and beside the general KB: its links are first mentions, in part."""
    print("\nBeverly Hills Cop, with vectors; the general KB beside it by names")
    rows = []
    for beside in (0, *sizes):
        place = wiki_workspace(folder, data, beside)
        with Workspace.open(place) as workspace:
            documents = {"pages": list(workspace.store.documents("pages"))}
        golds = {"pages": list(map(Golds.of, documents["pages"]))}
        answers, _ = ask(place, {}, documents, raw)
        given, _ = ask(place, {}, documents, given_places)
        deep, _ = ask(place, DEEP, documents, golden_places)
        right, found, gold = raw_counts(golds["pages"], answers["pages"])
        told = given_counts(golds["pages"], given["pages"], deep["pages"])
        links = [one.entity.kb for own in answers["pages"] for one in own if one.entity]
        name = f"beside {beside:,}" if beside else "alone"
        cells = [share(right, gold), str(found), str(links.count("general"))]
        cells += [share(one, told.golds) for one in (told.first, told.among, told.right)]
        rows.append([name, *cells])
    table(["", "raw R", "links", "of them general", "R@1", "R@64", "answered right"], rows)


if __name__ == "__main__":
    main()
