"""The papers' figures, and that each of their rows has a recipe that names it."""

from __future__ import annotations

import math
import re
from fnmatch import fnmatch

import pytest

from kglink.training.recipe_files import RecipeInfo, list_recipes
from kglink_papers.protocols import ReferenceTable, Row, reference_figures

#: Rows that no recipe trains yet, and why. A recipe that lands takes its row from here.
WITHOUT_RECIPE = {
    "blink/table-4: without fine-tuning": "a cross-encoder of a million mentions of Wikipedia",
    "blink/table-6: Wikipedia": "the same",
}

#: Recipes of the papers' folders that follow no row of a table, and why.
BESIDE_THE_TABLES = {
    "amh/dual-amh-complement": "future work",
    "amh/dual-amh-transfer": "future work",
    "amh/dual-amh-types": "future work",
    "amh/dual-amh-w-grad": "the other reading of W",
    "amh/mean-amh-w-grad": "the other reading of W",
    "amh/som-amh-w-grad": "the other reading of W",
    "arboel/zeshel-distilled": "future work",
    "blink/wikipedia-hard": "the paper has hard negatives on ZESHEL alone",
    "blink/zeshel-base-faithful": "the released code",
    "blink/zeshel-base-hard-frozen": "ELQ's variant",
    "blink/zeshel-large": "first of two trainings",
    "joint/base": "what the others extend",
    "joint/kg-negatives": "the other reading of equation 1",
    "joint/to-without-diagonal": "the other reading of equation 2",
    "t-biencoder/plain-som-hard-cd": "the table cites it from others",
    "t-biencoder/plain-som-hard-id": "in the method alone",
    "t-biencoder/som-random-id-ascents-3": "a variant of ours",
    "t-biencoder/som-random-id-per-domain": "future work",
}

TABLES = reference_figures()
ROWS = [(table, row) for table in TABLES.values() for row in table.rows]
RECIPES = {info.name: info for info in list_recipes()}


def figure_of(table: ReferenceTable, row: str, column: str) -> float:
    """What a paper prints in a row and a column."""
    (figures,) = (one.figures for one in table.rows if one.name == row)
    return figures[table.columns.index(column)]


def rows_of(recipe: str) -> list[tuple[ReferenceTable, Row]]:
    return [(table, row) for table, row in ROWS if recipe in (row.recipe, row.reranker)]


def test_every_row_of_the_papers_has_a_recipe_or_stands_in_the_list() -> None:
    lacking = {
        f"{table.name}: {row.name}"
        for table, row in ROWS
        if not (row.by or (row.reranker if row.reranked else row.recipe))
    }
    unexplained = {name for name in lacking if not any(fnmatch(name, at) for at in WITHOUT_RECIPE)}
    stale = {at for at in WITHOUT_RECIPE if not any(fnmatch(name, at) for name in lacking)}
    assert not unexplained
    assert not stale, "these rows have recipes now: take them from the list"


def test_every_recipe_of_a_row_exists_and_every_other_one_says_why() -> None:
    named = {name for _, row in ROWS for name in (row.recipe, row.reranker) if name}
    assert named <= set(RECIPES)
    of_papers = {name for name, info in RECIPES.items() if info.paper != "kglink"}
    assert of_papers - named == set(BESIDE_THE_TABLES)


@pytest.mark.parametrize("info", [info for info in RECIPES.values() if rows_of(info.name)], ids=str)
def test_a_recipe_quotes_its_row(info: RecipeInfo) -> None:
    head, _, rest = info.source.partition(": ")
    told = re.fullmatch(r"(.+?)(?:, what retrieves)?(?: \(([\d.]+) on test.*\))?", rest)
    assert told is not None
    name, figure = told.groups()
    own = [
        (table, row)
        for table, row in rows_of(info.name)
        if row.name == name or row.name.startswith(f"{name}, ")
        if not info.tables or set(info.tables) & set(re.findall(r"\d+", table.source))
    ]
    assert own, f"{info.source} is no row of {info.name}"
    paper, _, numbers = head.partition(", ")
    known = {part for table, _ in own for part in table.source.split(", ")[1:]}
    if info.tables:
        assert set(info.tables) <= {digit for at in known for digit in re.findall(r"\d+", at)}
    else:
        assert numbers in known
    assert {table.source.split(", ")[0] for table, _ in own} == {paper}
    cited = {figure_of(table, row.name, table.cited) for table, row in own if table.cited}
    known_figures = {value for value in cited if not math.isnan(value)}
    assert known_figures == ({float(figure)} if figure else set())


def test_figures_fill_their_tables_and_are_what_the_papers_print() -> None:
    for table, row in ROWS:
        assert len(row.figures) == len(table.columns), f"{table.name}: {row.name}"
        assert all(math.isnan(value) or value >= 0 for value in row.figures)
        assert not (row.reranker and not row.reranked)
    assert all(table.cited in ("", *table.columns) for table in TABLES.values())
    blink = TABLES["blink/table-1"]
    best = "BERT-base with hard negatives"
    assert [figure_of(blink, best, f"{split} R@64") for split in ("train", "val", "test")] == [
        93.12,
        91.44,
        82.06,
    ]
    amh = TABLES["amh/table-6"]
    assert [figure_of(amh, f"K = {k}", "test R@64") for k in (12, 14)] == [83.83, 83.28]


def test_the_means_of_worlds_agree_with_the_totals() -> None:
    """Micro over mentions: worlds weighted by their mentions give the total of the paper."""
    mentions = {"forgotten_realms": 1200, "lego": 1199, "star_trek": 4227, "yugioh": 3374}
    for by_world, total, within in (
        (("amh/table-3", "DUAL, each world"), ("amh/table-2", "DUAL, Adaptive_mixup_hard"), 0.01),
        (("amh/table-3", "Mean, each world"), ("amh/table-2", "Mean, Adaptive_mixup_hard"), 0.01),
        (("amh/table-3", "SOM, each world"), ("amh/table-6", "K = 16"), 0.01),
        (
            ("t-biencoder/table-4", "DUAL, transformed, each world"),
            ("t-biencoder/table-2", "DUAL, Random-ID"),
            0.25,
        ),
        (
            ("t-biencoder/table-4", "SOM, transformed, each world"),
            ("t-biencoder/table-2", "SOM, Random-ID"),
            0.25,
        ),
    ):
        worlds, whole = TABLES[by_world[0]], TABLES[total[0]]
        of_worlds = (figure_of(worlds, by_world[1], one) * n for one, n in mentions.items())
        mean = sum(of_worlds) / 10_000
        assert mean == pytest.approx(figure_of(whole, total[1], "test R@64"), abs=within)
