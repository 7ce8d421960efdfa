"""What protocols judge beside ranks: clusters by raw scores, and the oracles of cross-encoders."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from kglink.errors import UsageError
from kglink.evaluation.candidate_files import Listed, Place
from kglink.evaluation.measures.clusters import adjusted_rand_index, neighbour_recall
from kglink.records import Document, EntityId, Mention, MentionInText
from kglink_papers.clusters import cluster_values, mention_graph, removed_golds
from kglink_papers.data import Column, Part
from kglink_papers.judge import lists_to_read
from trained_spaces import add_run, entities_of, make_workspace, opened

PARTS = [Part(("docs",), "train", (kb,)) for kb in ("atlas", "saga")]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A space with two towers that are compared by products."""
    folder = make_workspace(tmp_path_factory.mktemp("clusters") / "workspace")
    model = add_run(folder, "raw", shared=False, pooling="cls", metric="dot", scorer="dual")
    with opened(folder) as workspace:
        workspace.build(model=model)
    return folder


def test_the_graph_is_that_of_raw_products_in_each_kb(folder: Path) -> None:
    """Against products of all mentions with all entities, and with each other, one by one."""
    with opened(folder) as workspace:
        found = mention_graph(workspace, PARTS, lambda gold: True)
        without = mention_graph(workspace, PARTS, lambda gold: True, removing=True)
        at = 0
        for part, count in zip(PARTS, found.parts, strict=True):
            (kb,) = part.kbs
            entities = entities_of(workspace, kb)
            known = [
                (MentionInText(one.text, mention.start, mention.end, one.whole), mention.gold or ())
                for one in workspace.store.documents("docs", "train")
                for mention in one.mentions
                if any(gold.kb == kb for gold in mention.gold or ())
            ]
            assert count == len(known) > 10
            vectors = workspace.encoder.encode_mentions([one for one, _ in known])
            texts = workspace.encoder.encode_entities(entities)
            similar = vectors @ texts.astype(np.float16).astype(np.float32).T
            own = slice(at, at + count)
            np.testing.assert_allclose(
                found.graph.similarities[own], similar.max(axis=1), rtol=1e-3, atol=1e-3
            )
            among = vectors @ vectors.T
            np.fill_diagonal(among, -np.inf)
            near = found.graph.neighbours.numbers[own, 0] - at
            best = among.max(axis=1)
            np.testing.assert_allclose(among[np.arange(count), near], best, rtol=1e-5)
            assert found.golds[own] == [frozenset(gold) for _, gold in known]
            # The same without the tenth of the golds that is taken out.
            gone = removed_golds(found.golds[own])
            assert len(gone) == max(
                1, round(len({g for some in found.golds[own] for g in some}) / 10)
            )
            left = np.array([one.key not in gone for one in entities])
            best = np.where(left, similar, -np.inf).max(axis=1)
            np.testing.assert_allclose(without.graph.similarities[own], best, rtol=1e-3, atol=1e-3)
            at += count
        assert without.golds == found.golds


def test_figures_of_clusters(folder: Path) -> None:
    """Chosen on the mentions that are judged, no choice is worse than each mention by itself."""
    with opened(folder) as workspace:
        graph = mention_graph(workspace, PARTS, lambda gold: True)
        alone = [
            float(graph.entities[number] in gold)
            for number, gold in zip(graph.graph.entities.tolist(), graph.golds, strict=True)
        ]
        seen = frozenset(gold for some in graph.golds[:20] for gold in some)

        def figure(metric: str, **more: str) -> list[float]:
            column = Column("x", "test", metric, **more)  # type: ignore[arg-type]  # of literals
            values = cluster_values(workspace, column, PARTS, PARTS, seen)
            return [float(one) for part in values for one in part]

        linked = figure("linked accuracy")
        assert len(linked) == len(graph.golds)
        assert np.mean(linked) >= np.mean(alone)
        known, unknown = (figure("linked accuracy", mentions=one) for one in ("seen", "unseen"))
        assert len(known) + len(unknown) == len(linked)
        assert len(known) == sum(not seen.isdisjoint(gold) for gold in graph.golds)
        (ari,) = figure("ARI")
        each = [str(at) for at in range(len(graph.golds))]
        assert ari >= adjusted_rand_index(each, graph.labels())
        assert -0.5 <= figure("ARI alone", mentions="unseen")[0] <= 1
        assert -0.5 <= figure("discovery ARI")[0] <= 1
        column = Column("x", "test", "ARI alone", mentions="unseen")
        all_seen = frozenset().union(*graph.golds)
        with pytest.raises(UsageError, match="no mention to put together"):
            cluster_values(workspace, column, PARTS, PARTS, all_seen)
        labels = {one: at for at, one in enumerate(graph.labels())}
        golds = np.array([labels[one] for one in graph.labels()])
        (recall,) = figure("mention R@64")
        assert recall == neighbour_recall(graph.graph.neighbours.numbers, golds)


def test_oracles_put_the_gold_among_the_candidates() -> None:
    """By hand: two rows' lists of one mention, of which neither has the gold."""
    a, b, c, d, gold = (EntityId("kb", one) for one in "abcdg")
    mention = Mention(0, 1, "x", (gold,))
    documents = {"docs": [Document("one", "x", mentions=(mention,))]}
    place = Place("docs", "one", 0, 1)
    own, other = {place: Listed((a, b, c))}, {place: Listed((b, d))}

    def found(variant: str, *lists: dict[Place, Listed]) -> tuple[EntityId, ...]:
        ((_, listed),) = lists_to_read(lists, documents, ("kb",), variant, 2)
        return listed.ids

    assert found("", own) == (a, b)
    assert found("oracle self", own) == (a, gold)
    assert found("oracle union", own, other) == (a, b, d, gold)
    assert found("oracle self", {place: Listed((gold, b))}) == (gold, b)
