"""Protocols: what each judges, its baselines, and the figures of a table that was made."""

from __future__ import annotations

import statistics
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pytest

from kglink.errors import UnknownNameError, UsageError
from kglink.evaluation.significance import randomization_test
from kglink.training.recipe_files import list_recipes
from kglink_papers.protocols import MEANINGS, Protocol, find_protocol, protocols, reference_figures
from kglink_papers.reproduce import Reproducer, changed_values
from kglink_papers.table import Judged, table_of, value_of

PROTOCOLS = list(protocols().values())
RECIPES = {info.name for info in list_recipes()}


def test_every_table_and_figure_has_a_protocol() -> None:
    own = [one for one in PROTOCOLS if not one.adapted]
    assert {one.table.name for one in own} == reference_figures().keys()
    # Of data of two kinds, and each row is run by some protocol.
    for name, table in reference_figures().items():
        made = [one for one in own if one.table.name == name]
        run = {row.name for one in made for row in one.rows_to_run}
        assert {row.name for row in table.rows if not row.by} <= run


@pytest.mark.parametrize("protocol", PROTOCOLS, ids=lambda one: one.name)
def test_a_protocol_is_whole(protocol: Protocol) -> None:
    rows = [row for row in protocol.rows if not row.not_run]
    kbs = {kb for source in protocol.data.kbs for kb in source.names}
    assert rows
    for row in rows:
        assert row.recipe in RECIPES
        assert not protocol.row(protocol.baseline_of(row.name)).not_run
        assert not row.reranker or row.reranker in RECIPES
        assert not row.teacher or row.teacher in RECIPES
        for column in protocol.columns:
            if column.is_count:
                assert row.part in kbs
                continue
            parts = protocol.data.parts_of(column._replace(part=row.part or column.part), row.name)
            assert parts
            assert {kb for part in parts for kb in (*part.kbs, *part.docs)} <= kbs
            training = protocol.data.training(column.part, "TOS")
            assert {*training.source_kbs, *training.target_kbs, *training.docs} <= kbs
            if not (column.is_of_overlaps or column.is_of_clusters):
                value_of(column.metric)
    assert ("ADAPTED" in protocol.title) is bool(protocol.adapted)
    for column in protocol.columns:
        begin = next(one for one in MEANINGS if column.metric.startswith(one))
        assert MEANINGS[begin] in protocol.meanings
    if not protocol.adapted:
        table = protocol.table
        assert [row.name for row in protocol.rows] == [row.name for row in table.rows]
        assert {one.name for one in protocol.columns} <= set(table.columns)
        for printed in table.rows:
            row = protocol.row(printed.name)
            kind = printed.recipe.rpartition("-")[0]
            assert row.not_run or row.untrained or row.recipe.startswith(kind[:6])


def test_what_the_papers_judge() -> None:
    amh, t_bi, joint = map(find_protocol, ("amh/table-2", "t-biencoder/table-7", "joint/table-3"))
    column = {one.name: one for one in (*amh.columns, *t_bi.columns, *joint.columns)}
    row = amh.row("DUAL, Hard")
    worlds = amh.data.parts_of(column["test R@64"], row.name)
    assert [(one.docs, one.kbs, one.split) for one in worlds] == [
        ((kb,), (kb,), "test") for kb in ("forgotten_realms", "lego", "star_trek", "yugioh")
    ]
    held_out = t_bi.data.parts_of(column["heldout_train_unseen R@64"], row.name)
    assert len(held_out) == 8
    assert {(one.documents, one.split) for one in held_out} == {("heldout_train_unseen/", "test")}
    training = amh.data.training("test", "S")
    assert (len(training.source_kbs), len(training.target_kbs), len(training.docs)) == (8, 4, 12)
    (target,) = joint.data.parts_of(column["fallout AP@1"], joint.row("TOS, target").name)
    (source,) = joint.data.parts_of(column["fallout AP@1"], joint.row("TOS, source").name)
    assert target.kbs == source.kbs == ("wikipedia", "fallout")
    assert (target.docs, target.gold) == (("fallout",), "fallout")
    assert (source.docs, source.gold) == (("reddit",), "wikipedia")
    assert joint.data.training("fallout", "S") == joint.data.training("doctor_who", "S")
    assert joint.data.training("fallout", "TO").docs == ("reddit", "fallout")
    assert joint.paper(joint.row("TOS, target"), column["fallout AP@1"])[0] == 0.4227
    assert joint.baseline_of("TOS, source") == "BLINK, source"
    assert find_protocol("t-biencoder/table-2").paper(row, column["val R@64"])[0] != 92.43


def test_the_papers_deviations_stand_beside_their_figures() -> None:
    protocol = find_protocol("t-biencoder/table-2")
    assert [one.name for one in protocol.columns] == ["val R@64", "test R@64"]
    row = protocol.row("SOM, Hard-ID")
    assert protocol.paper(row, protocol.columns[1]) == (91.16, 0.14)


def test_cells_hold_the_mean_over_seeds_and_the_test_of_mentions() -> None:
    """By hand: a mention's value is its mean over seeds; four mentions, two seeds."""
    protocol = find_protocol("amh/table-6")
    rng = np.random.default_rng(1)
    base = [rng.integers(0, 2, 200).astype(float) for _ in range(2)]
    better = [np.maximum(one, rng.integers(0, 2, 200)) for one in base]

    def judged(seeds: list[npt.NDArray[np.float64]]) -> Judged:
        return {at: [one[:50], one[50:]] for at, one in enumerate(seeds)}

    table = table_of(
        protocol, {("K = 10", "test R@1"): judged(base), ("K = 2", "test R@1"): judged(better)}
    )
    ours, baseline = table.cells["K = 2", "test R@1"], table.cells["K = 10", "test R@1"]
    each = [100 * one.mean() for one in better]
    assert ours.mean == pytest.approx(statistics.mean(each))
    assert ours.deviation == pytest.approx(statistics.stdev(each))
    assert ours.items == 200
    assert ours.interval is not None
    assert ours.interval[0] < ours.mean < ours.interval[1]
    expected = randomization_test(
        100 * np.mean(better, axis=0), 100 * np.mean(base, axis=0), seed=0
    )
    assert ours.test == expected
    assert expected.difference == pytest.approx(ours.mean - baseline.mean)
    assert ours.significant
    assert baseline.test is None
    assert table.comparisons == 1
    assert (ours.paper, ours.baseline) == (28.89, "K = 10")
    assert table.as_json()["rows"][1]["cells"][0]["significant"] is True


def test_macro_counts_every_kb_alike() -> None:
    protocol = replace(find_protocol("amh/table-6"), average="macro")
    parts = [np.array([1.0, 1.0, 1.0, 0.0]), np.array([0.0, 0.0])]
    none = [np.zeros(4), np.zeros(2)]
    table = table_of(
        protocol,
        {
            ("K = 10", "test R@1"): {0: none},
            ("K = 1", "test R@1"): {0: parts},
        },
    )
    cell = table.cells["K = 1", "test R@1"]
    assert cell.mean == pytest.approx(100 * (0.75 + 0) / 2)
    assert cell.test is not None
    assert cell.test.left == pytest.approx(cell.mean)


def test_a_name_that_is_none_lists_those_there_are() -> None:
    with pytest.raises(UnknownNameError, match="amh/table-9"):
        find_protocol("amh/table-9")
    with pytest.raises(UnknownNameError) as told:
        find_protocol("blink/table-9")
    assert "blink/table-9-tac, blink/table-9-wikilinksned" in told.value.hint


def test_a_table_says_what_was_changed_of_the_second_training() -> None:
    row = replace(PROTOCOLS[0].rows_to_run[0], recipe="blink/zeshel-base-hard")
    changes = {"train": {"batch": 8}, "again": {"negatives": 2}}
    said = list(changed_values([row], changes))
    assert [one.partition(",")[0] for one in said] == ["train.batch = 8", "again.negatives = 2"]


def test_a_table_has_seeds_of_its_own() -> None:
    with pytest.raises(UsageError, match="seeds of its own"):
        Reproducer(None, PROTOCOLS[0], changes={"seed": 5})  # type: ignore[arg-type]  # it is not asked
