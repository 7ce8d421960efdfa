"""Names without running text: what they mean, in lists and in columns of pandas and polars."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

from kglink.errors import UsageError
from kglink.linking.exact import misspelt
from kglink.records import Candidate, Document, Entity, EntityId, Mention, Span, TextInput
from kglink.workspace import Workspace
from kglink.workspace.resolve import BATCH, Row, context_text, resolved_rows, rows_of

NAMES = ["Heron of Alexandria", None, "Lighthouse", "", "qwxz", float("nan")]
STATUS = ["match", None, "match", None, "new", None]


@pytest.fixture(scope="module")
def workspace(demo_master: Path) -> Iterator[Workspace]:
    with Workspace.open(demo_master) as opened:
        yield opened


def statuses(answers: list[Any]) -> list[str | None]:
    return [one and one.status for one in answers]


def test_a_name_that_one_thing_bears_is_a_match(workspace: Workspace) -> None:
    (found,) = workspace.resolve("Lighthouse")
    assert found
    assert found.entity
    assert (str(found.entity.id), found.entity.title) == ("encyclopedia:lighthouse", "Lighthouse")
    assert found.also == (EntityId("lanternfall", "lighthouse"),)
    assert found.why == ("its title",)
    assert found.probability == 0.93
    told = found.as_json()
    assert (told["id"], told["also"]) == ("encyclopedia:lighthouse", ["lanternfall:lighthouse"])


def test_a_name_of_several_things_is_ambiguous_and_context_decides(workspace: Workspace) -> None:
    bare, stars = workspace.resolve(
        ["Mercury", "Mercury"], context=["", "the smallest planet, nearest to the Sun"]
    )
    assert bare
    assert bare.status == "ambiguous"
    assert bare.entity is None
    assert bare.as_json()["id"] is None
    assert {one.id.key for one in bare.candidates} >= {"mercury_planet", "airship_mercury"}
    assert stars
    assert stars.entity
    assert stars.entity.id.key == "mercury_planet"
    assert "its context" in stars.why
    assert "its context" not in bare.why


@pytest.mark.parametrize(
    "names",
    [
        NAMES,
        tuple(NAMES),
        iter(NAMES),
        np.array(NAMES, dtype=object),
        pd.Series(NAMES),
        pd.Series(NAMES).astype("string"),
        pd.Series(NAMES).astype("category"),
        pl.Series([one if isinstance(one, str) else None for one in NAMES]),
    ],
    ids=["list", "tuple", "iterator", "numpy", "pandas", "pandas-string", "category", "polars"],
)
def test_missing_cells_have_no_answer_and_all_keep_their_places(
    workspace: Workspace, names: object
) -> None:
    assert statuses(workspace.resolve(names)) == STATUS


COLUMNS = {"country": ["x", "Poland"], "year": [1990.0, None]}


@pytest.mark.parametrize(
    "context",
    [
        COLUMNS,
        pd.DataFrame(COLUMNS),
        pl.DataFrame(COLUMNS),
        [{"country": "x", "year": 1990}, {"country": "Poland", "year": pd.NaT}],
        ["country: x; year: 1990", "country: Poland"],
        iter(["country: x; year: 1990", "country: Poland"]),
    ],
    ids=["columns", "pandas", "polars", "rows", "texts", "iterator"],
)
def test_a_context_of_any_shape_says_the_same(workspace: Workspace, context: object) -> None:
    rows = list(rows_of(["heron", "amber"], context))
    assert rows == [Row("heron", "country: x; year: 1990"), Row("amber", "country: Poland")]


def test_one_name_has_one_context(workspace: Workspace) -> None:
    for context in ("country: Poland", {"country": "Poland"}, {"country": ["Poland"]}):
        assert list(rows_of("heron", context)) == [Row("heron", "country: Poland")]
    broadcast = rows_of(["a", "b"], {"country": "Poland"})
    assert [row.context for row in broadcast] == ["country: Poland"] * 2


@pytest.mark.parametrize(
    ("names", "context", "said"),
    [
        (pd.DataFrame({"name": ["a"]}), None, r'is a table.*\n.*resolve\(table\["name"\]\)'),
        ({"city": ["a"]}, None, r"is a table.*\n.*resolve\(table\[COLUMN\]\)"),
        (5, None, "type int"),
        (b"heron", None, "type bytes"),
        ([b"heron"], None, "type bytes"),
        (["a", "b"], ["x"], "not equally many"),
        (["a"], ["x", "y"], "not equally many"),
        (["a"], {"country": ["x", "y"], "year": 5}, "not equally many"),
        (["a"], 5, "type int"),
        (["a", "b"], "x", "type str"),
        (["a"], pd.DataFrame([["x", "y"]], columns=["c", "c"]), "two columns"),
    ],
)
def test_what_cannot_be_meant_is_refused(
    workspace: Workspace, names: object, context: object, said: str
) -> None:
    with pytest.raises(UsageError, match=said):
        workspace.resolve(names, context)


@pytest.mark.parametrize("threshold", [-0.1, 1.1, float("nan")])
def test_a_threshold_is_a_probability(workspace: Workspace, threshold: float) -> None:
    with pytest.raises(UsageError, match="no probability"):
        workspace.resolve("heron", threshold=threshold)


def test_a_threshold_moves_names_between_match_and_ambiguous(workspace: Workspace) -> None:
    (strict,) = workspace.resolve("lighthouse", threshold=0.92)
    (default,) = workspace.resolve("lighthouse")
    assert strict
    assert default
    assert (strict.status, default.status) == ("ambiguous", "match")
    assert strict.probability == default.probability == 0.9
    (loose,) = workspace.resolve("Lighthousse", threshold=0)
    assert loose
    assert loose.entity


def test_kbs_and_branches_limit_the_answers(workspace: Workspace) -> None:
    (found,) = workspace.resolve("Lighthouse", kbs="lanternfall")
    assert found
    assert found.entity
    assert found.entity.id.kb == "lanternfall"


def test_equal_rows_are_answered_once_and_rows_stream(workspace: Workspace) -> None:
    linker = workspace.linker()
    read = 0

    def rows() -> Iterator[Row]:
        nonlocal read
        for at in range(3 * BATCH):
            read += 1
            yield Row("Lighthouse" if at % 2 else "qwxz")

    answers = resolved_rows(linker, rows(), 100)
    first, second, third = next(answers), next(answers), next(answers)
    assert read == BATCH
    assert first is third
    assert first is not second
    assert len(list(answers)) == 3 * BATCH - 3


@pytest.mark.parametrize("name", ["=cmd()", "\ud800", "a\0b", "🌊" * 50, "x" * 40_000, "-", "{}"])
def test_any_name_has_an_answer(workspace: Workspace, name: str) -> None:
    (found,) = workspace.resolve([name])
    assert found
    assert found.status in ("match", "ambiguous", "new")
    assert found.name == name


def test_a_name_that_memory_knows_is_weighed_with_what_it_says(tmp_path: Path) -> None:
    text = "The Heron stands beside the sofa."
    note = Document("1", text, (Mention(4, 9, "Heron", (EntityId("shop", "L1"),)),))
    with Workspace.open(tmp_path / "w", create=True) as workspace:
        workspace.add_kb("shop", [Entity("L1", "Lamp H", "A lamp."), Entity("B", "Heron", "Bird.")])
        workspace.add_kb("notes", [note], links_to=["shop"])
        (before,) = workspace.resolve("Heron")
        workspace.learn("notes")
        (after,) = workspace.resolve("Heron")
    assert before
    assert after
    assert before.why == ("its title",)
    assert {one.id.key for one in after.candidates} == {"L1", "B"}


@pytest.mark.slow
def test_exact_names_are_the_linkers_first_candidates(workspace: Workspace) -> None:
    linker = workspace.linker()
    exact = linker.exact_names()
    assert exact
    names = list(
        dict.fromkeys(
            name
            for kb in ("encyclopedia", "lanternfall")
            for entity in workspace.entities(kb)
            for name in (entity.title, *(alias.surface for alias in entity.aliases))
        )
    )
    known = {name: one for name, one in zip(names, exact.find(names), strict=True) if one}
    assert len(known) > 0.8 * len(names)
    texts = [TextInput(name, name, (Span(0, len(name)),)) for name in known]
    for document in linker.with_threshold(0).link(texts):
        (link,) = document.links
        heads = {one.id.kb: one.id for one in reversed(link.candidates) if one.evidence["exact"]}
        assert known[document.id].candidate.id in heads.values()


@pytest.mark.parametrize(
    ("name", "sure"),
    [
        ("Parkinsons disease", 0.65),
        ("parkinosn's disease", 0.65),
        ("Parkinson disease", 0.25),
        ("prkinsn's disease", 0.25),
        ("tremmor", 0.25),
        ("tremmors", 0.0),
        ("PX", 0.0),
        ("type 2 palsy of hands", 0.0),
        ("types 1 palsy of hands", 0.65),
        ("qwxz", 0.0),
        ("", 0.0),
    ],
)
def test_a_name_that_is_a_few_letters_off_is_misspelt(name: str, sure: float) -> None:
    names = ("Tremor", "PD", "type 1 palsy of hands")
    candidate = Candidate(EntityId("kb", "1"), "Parkinson's disease", 0.0, aliases=names)
    assert misspelt(name, candidate) == sure


def test_a_misspelt_name_is_a_match_unless_another_is_as_near(tmp_path: Path) -> None:
    kept = [
        Entity("1", "Herefordshire"),
        Entity("2", "Gloucestershire"),
        Entity("3", "David Gross"),
    ]
    with Workspace.open(tmp_path / "w", create=True) as workspace:
        workspace.add_kb("places", [*kept, Entity("4", "David Cross")])
        shire, david = workspace.resolve(["Gloucesterhsire", "David Goss"])
    assert shire
    assert shire.entity
    assert shire.entity.id.key == "2"
    assert david
    assert david.status == "match"  # two letters off the other


def test_context_is_words_and_bounded() -> None:
    assert context_text({"a": None, "b": 5.0, "c": " x \n y "}) == "b: 5; c: x y"
    assert len(context_text({"a": "x" * 10**6})) == 1000


def test_neither_pandas_nor_polars_is_imported() -> None:
    code = "import sys, kglink.workspace.resolve; print({'pandas', 'polars'} & sys.modules.keys())"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "set()"


@pytest.mark.realdata
@pytest.mark.slow
def test_disease_names_by_names_alone(realdata: Path, tmp_path: Path) -> None:
    with gzip.open(realdata / "disease/mentions/ncbi_dev.jsonl.gz", "rt") as lines:
        rows = [json.loads(line) for line in lines]
    golds = {one["mention"]: set(one["gold"].get("doid", ())) for one in rows}
    with Workspace.open(tmp_path / "w", create=True) as workspace:
        workspace.add_kb("doid", realdata / "disease/kb/doid.obographs.json.gz")
        workspace.build_if_stale(wait=False)
        answers = list(resolved_rows(workspace.linker(), [Row(name) for name in golds], 100))
    matches = [one for one in answers if one and one.entity]
    right = sum(one.entity.id.key in golds[one.name] for one in matches if one.entity)
    assert len(matches) > 100
    assert right / len(matches) > 0.8
