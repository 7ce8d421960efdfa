"""Linking on general ground, beside its baselines: raw text and given places, NIL, how sure.

    python benchmarks/general.py WORKSPACE-DIR [--data DATA] [--sizes 5402,35754]
        [--vectors 5402] [--no-learning] [--resume]

DATA is the folder with ``general`` and ``fandom``. Workspaces are made in WORKSPACE-DIR where they
are missing. Nine sets are linked to a KB of 5,402 entities, and to the whole one of 35,754: by
names alone as kglink comes, with vectors where ``--vectors`` names the size, and after `learn` of
the other sets (sets that share texts are left out together). Golds are compared by id; a link of a
mention that has no gold in the KB is wrong (InKB), and both ends must agree (strict). Of sets that
are annotated in part only the recall is known. ``--no-learning`` leaves out the baseline MiniLM
too. Answers are kept in WORKSPACE-DIR/answers, and taken from there only with ``--resume``: so an
interrupted run of the same code goes on.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from answers import given_places, raw
from general_scores import (
    Given,
    Golds,
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
from general_sets import DATA, PARTIAL, SETS, wiki_workspace
from general_systems import DEEP, Bench, ask, bench, golden_places

from kglink.text.fold import fold
from kglink.workspace import Workspace

WHOLE_SETS = [name for name in SETS if name not in PARTIAL]
BEARERS = ((0, 0), (1, 1), (2, 2), (3, 5), (6, 10**6))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--sizes", default="5402,35754")
    parser.add_argument("--vectors", default="", help="sizes that are linked with vectors as well")
    parser.add_argument("--no-learning", action="store_true", help="leave out what is learnt")
    parser.add_argument("--resume", action="store_true", help="go on with an interrupted run")
    asked = parser.parse_args()
    if not asked.resume:
        shutil.rmtree(asked.folder / "answers", ignore_errors=True)
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
            name: given_counts(made.golds[name], one.given[name], one.deep.get(name))
            for name in SETS
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
        share(total.among, total.golds) if total.among else "-",
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
        kept = folder / "answers" / place.name
        answers, _ = ask(kept, place, {}, documents, raw)
        given, _ = ask(kept, place, {}, documents, given_places)
        deep, _ = ask(kept, place, DEEP, documents, golden_places)
        right, found, gold = raw_counts(golds["pages"], answers["pages"])
        told = given_counts(golds["pages"], given["pages"], deep["pages"])
        links = [one.entity.kb for own in answers["pages"] for one in own if one.entity]
        name = f"beside {beside:,}" if beside else "alone"
        cells = [share(right, gold), str(found), str(links.count("general"))]
        cells += [share(one, told.golds) for one in (told.first, told.among, told.right)]
        rows.append([name, *cells])
    table(["", "raw R", "links", "of them general", "R@1", "R@64", "answered right"], rows)
    rows = [[f"beside {one:,}" if one else "alone", *learnt_half(folder, data, one)]
            for one in (0, *sizes)]  # fmt: skip
    print("\nEach half of its pages, raw R, before and after `kglink learn` of the other half")
    table(["", "before", "after"], rows)


def learnt_half(folder: Path, data: Path, beside: int) -> list[str]:
    """The recall of each half of the wiki's pages, before and after the other one is learnt."""
    place = wiki_workspace(folder, data, beside)
    with Workspace.open(place) as workspace:
        pages = list(workspace.store.documents("pages"))
    counts = {step: [0, 0] for step in ("before", "after")}
    for learnt, judged in ((pages[::2], pages[1::2]), (pages[1::2], pages[::2])):
        with tempfile.TemporaryDirectory() as copy:
            shutil.copytree(place, copy, dirs_exist_ok=True)
            with Workspace.open(Path(copy)) as workspace:
                workspace.add_kb("half", learnt, links_to="bhcop")
                for count in counts.values():
                    told = map(answers_of, workspace.link(raw(judged), wait=False))
                    right, _, gold = raw_counts(list(map(Golds.of, judged)), list(told))
                    count[0] += right
                    count[1] += gold
                    workspace.learn("half")
    return [share(*count) for count in counts.values()]


if __name__ == "__main__":
    main()
