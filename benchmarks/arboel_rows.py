"""The rows of ArboEL at a small equal budget: in-batch, k-NN, full, 1-NN, 1-Rand, on NCBI Disease.

    python benchmarks/arboel_rows.py ../shared/data/disease --keep FOLDER [--seeds 3] [--layers 6]
        [--train 320] [--entities 1200] [--rows in-batch knn full 1-nn 1-rand]

DOID and HP, all golds of the documents and so many entities in all; documents of NCBI Disease (gold
by cross-references) with so many mentions to learn from, all of its dev documents to judge by. The
encoder is the first layers of MiniLM. Every row sees the same mentions in the same order as often
as any other. A mention is searched in the KB of its gold for R@1 to R@64 (the mean of both KBs; of
R@1 also for mentions of entities that the mentions learnt from mean, and of others), and among all
entities for the accuracy of clusters: mode and k are chosen on one half of the dev documents, ARI's
threshold and k too, and the figures are of the other half. Mention recall@64 is of all of them.
What is in the folder is not made again.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from safetensors.numpy import load_file, save_file

from kglink.clusters.clustering import (
    NO_ENTITY,
    ClusteringChoice,
    Clusters,
    MentionGraph,
    cluster,
)
from kglink.clusters.neighbours import nearest_others
from kglink.evaluation.measures.clusters import adjusted_rand_index, labels_of, neighbour_recall
from kglink.models import choose_hardware, resolve_model
from kglink.models.bi_encoder import BiEncoder, load_bi_encoder
from kglink.plugins import RowRange, load_registry
from kglink.records import Document, Entity
from kglink.training import Recipe, load_recipe
from kglink.training.data import KBChoice, TrainingData, as_ids, prepare
from kglink.training.encoded_pool import EncodedPool
from kglink.training.job import FinetuneJob
from kglink.training.train import train
from kglink.workspace import Workspace
from kglink_kbs.jsonl import record_line
from kglink_papers.clusters import best_choice, threshold_grid

KB_FILES = {"doid": "doid.obographs.json.gz", "hp": "hp.obo.gz"}
CORPORA = {"train": "ncbi_train", "dev": "ncbi_devel"}
TREE = {"sampler": "arborescence"}
ROWS: dict[str, dict[str, Any]] = {
    "zero-shot": {},
    "in-batch": {"sampler": "in_batch", "negatives": 0, "columns": "in_batch", "objective": "nce"},
    "knn": {"sampler": "knn"},
    "full": {**TREE, "sampler_settings": {"positives": "full"}},
    "1-nn": {**TREE, "sampler_settings": {"positives": "nearest"}},
    "1-rand": {**TREE, "sampler_settings": {"positives": "random"}},
}
NEIGHBOURS = (1, 2, 4, 8)
KS = (1, 2, 4, 8, 16, 32, 64)
COLUMNS = (
    *(f"R@{k}" for k in KS), "seen R@1", "unseen R@1",
    "independent", "undirected", "directed", "ARI", "mention R@64",
)  # fmt: skip
IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float32]


class Budget(NamedTuple):
    """How long each row is trained."""

    layers: int
    epochs: int
    negatives: int
    learning_rate: float

    def recipe(self, base: Path, row: str, seed: int) -> Recipe:
        """The recipe of a row."""
        train = {
            "columns": "own", "objective": "pos_neg", "negatives": self.negatives, "names": 0,
            "objective_settings": {"temperature": 0.05}, "epochs": self.epochs, "batch": 16,
            "micro_batch": 0, "learning_rate": self.learning_rate, **ROWS[row],
        }  # fmt: skip
        inputs = {"mention_tokens": 24, "entity_tokens": 16}
        changes = {
            "seed": seed,
            "model": {"base": str(base), "inputs": inputs},
            "train": train,
            # The last epoch is kept: nothing is chosen by what is judged by.
            "selection": {"documents": "held_out", "held_out": 0.0},
        }
        return load_recipe("default", changes)


def main() -> None:
    """Train, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("disease", type=Path)
    parser.add_argument("--keep", type=Path, required=True, help="folder to work in")
    parser.add_argument("--rows", nargs="+", default=list(ROWS), choices=list(ROWS))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--layers", type=int, default=6, help="of MiniLM's six")
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--negatives", type=int, default=4)
    parser.add_argument("--learning-rate", type=float, default=5e-5)
    parser.add_argument("--train", type=int, default=320, help="mentions to learn from")
    parser.add_argument("--entities", type=int, default=1200)
    given = parser.parse_args()
    given.keep.mkdir(parents=True, exist_ok=True)
    budget = Budget(given.layers, given.epochs, given.negatives, given.learning_rate)
    base = first_layers(given.keep / f"minilm-{given.layers}", given.layers)
    with small_world(given.keep, given.disease, given.train, given.entities) as workspace:
        for row in given.rows:
            seeds = range(given.seeds if ROWS[row] else 1)
            found = [measured(workspace, given.keep, base, budget, row, seed) for seed in seeds]
            show(row, found)


def first_layers(folder: Path, layers: int) -> Path:
    """A model of the first layers of MiniLM."""
    if (folder / "config.json").is_file():
        return folder
    source = resolve_model("minilm").path
    folder.mkdir(parents=True)
    weights = load_file(source / "model.safetensors")
    dropped = tuple(f"encoder.layer.{layer}." for layer in range(layers, 12))
    kept = {key: value for key, value in weights.items() if not key.startswith(dropped)}
    save_file(kept, folder / "model.safetensors", {"format": "pt"})
    (folder / "tokenizer.json").write_bytes((source / "tokenizer.json").read_bytes())
    config = json.loads((source / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "num_hidden_layers": layers}))
    return folder


def small_world(keep: Path, disease: Path, mentions: int, entities: int) -> Workspace:
    """A workspace of some documents, the entities that they mean, and some others."""
    folder = keep / f"world-{mentions}-{entities}"
    if (folder / "done").is_file():
        return Workspace.open(folder)
    kbs = tuple(KB_FILES)
    with Workspace.open(keep / "whole", create=True, flags={"ingest.on_error": "skip"}) as whole:
        there = {info.name for info in whole.store.kbs()}
        for kb in kbs:
            if kb not in there:
                whole.add_kb(kb, disease / "kb" / KB_FILES[kb])
        for split, name in CORPORA.items():
            if name not in there:
                file = disease / "corpora" / f"{name}.PubTator.txt.gz"
                whole.add_kb(name, file, links_to=kbs, split=split, resolve="xref")
        documents = [
            *spread(list(whole.store.documents(CORPORA["train"])), mentions),
            *whole.store.documents(CORPORA["dev"]),
        ]
        golds = {
            gold for one in documents for mention in one.mentions for gold in mention.gold or ()
        }
        files = {kb: folder / f"{kb}.jsonl" for kb in (*kbs, "docs")}
        folder.mkdir(parents=True, exist_ok=True)
        for kb in kbs:
            own = list(whole.store.entities(kb))
            share = entities * len(own) // sum(whole.store.kb(name).entities for name in kbs)
            known = {gold.key for gold in golds if gold.kb == kb}
            wanted = known | {own[at * len(own) // share].key for at in range(share)}
            write(files[kb], [one for one in own if one.key in wanted])
        write(files["docs"], documents)
    workspace = Workspace.open(folder, create=True)
    for kb in kbs:
        workspace.add_kb(kb, files[kb])
    workspace.add_kb("docs", files["docs"], links_to=kbs)
    (folder / "done").touch()
    return workspace


def spread(documents: Sequence[Document], mentions: int) -> Iterator[Document]:
    """Whole documents from all places with so many mentions that mean something."""
    counts = [sum(bool(mention.gold) for mention in one.mentions) for one in documents]
    step, taken = max(1, sum(counts) // mentions), 0
    for one, count in list(zip(documents, counts, strict=True))[::step]:
        if taken < mentions:
            yield one
            taken += count


def write(path: Path, records: Sequence[Entity] | Sequence[Document]) -> None:
    """Lines that `add_kb` reads."""
    path.write_text("".join(map(record_line, records)), encoding="utf-8")


def measured(
    workspace: Workspace, keep: Path, base: Path, budget: Budget, row: str, seed: int
) -> dict[str, Any]:
    """The figures of a row; trained where it is not there yet."""
    kept = keep / f"{row}-{seed}-{'-'.join(map(str, budget))}.json"
    if kept.is_file():
        return dict(json.loads(kept.read_text()))
    recipe, kbs = budget.recipe(base, row if ROWS[row] else "in-batch", seed), tuple(KB_FILES)
    began = time.process_time()
    model, steps = base, 0
    if ROWS[row]:
        job = FinetuneJob(
            recipe=recipe, sources="S", source_kbs=kbs, docs=("docs",), precision="fp32", threads=1
        )
        report = train(workspace.store, load_registry(), job, kept.with_suffix(""))
        model, steps = report.model, report.steps
    seconds = time.process_time() - began
    encoder = load_bi_encoder(model, settings=recipe.model.settings)
    by_dev = recipe.selection.model_copy(update={"documents": "dev", "most_mentions": 10_000})
    recipe = recipe.model_copy(update={"selection": by_dev})
    data = prepare(
        *(keep / "data", workspace.store, recipe, KBChoice(kbs, ()), encoder.inputs), docs=("docs",)
    )
    figures = {"steps": steps, "seconds": seconds, **judged(data, recipe, encoder, keep)}
    kept.write_text(json.dumps(figures) + "\n")
    print(row, seed, {name: round(value, 4) for name, value in figures.items()}, flush=True)
    return figures


def judged(data: TrainingData, recipe: Recipe, model: BiEncoder, keep: Path) -> dict[str, Any]:
    """Recall, accuracy with and without clusters, and ARI, on the dev documents."""
    hardware = choose_hardware("cpu", "fp32", 1)
    scorer = load_registry().create("scorer", recipe.model.scorer, recipe.model.scorer_settings)
    pool = EncodedPool(model, scorer, hardware, keep / "data", data.pool.tokens)
    vectors = pool.mention_vectors(as_ids(data.valid.tokens.take(range(len(data.valid)))))
    entities = np.asarray(pool.vectors(data.pool.rows(tuple(KB_FILES))))
    golds = data.valid.gold_sets(list(range(len(data.valid))))
    half = len(golds) // 2
    tuned, told = slice(0, half), slice(half, None)
    graphs = [graph(vectors[part], entities) for part in (tuned, told)]
    learnt = frozenset[int]().union(*data.train.gold_sets(list(range(len(data.train)))))
    kbs = [data.pool.rows((kb,)) for kb in KB_FILES]
    figures = recall(vectors @ entities.T, golds, kbs, learnt)
    for mode in ("independent", "directed", "undirected"):
        choices = [ClusteringChoice(mode, k) for k in NEIGHBOURS]
        chosen = best_choice(graphs[0], choices, lambda found: accuracy(found, golds[tuned]))
        figures[mode] = accuracy(cluster(graphs[1], chosen), golds[told])
    alone = [one._replace(entities=np.full(len(one.entities), NO_ENTITY)) for one in graphs]
    least = threshold_grid(alone[0].neighbours.similarities.ravel())
    cuts = [ClusteringChoice("directed", k, cut) for k, cut in product(NEIGHBOURS, least)]
    chosen = best_choice(
        alone[0], cuts, lambda f: adjusted_rand_index(f.labels.tolist(), golds[tuned])
    )
    labels = cluster(alone[1], chosen).labels.tolist()
    figures["ARI"] = adjusted_rand_index(labels, golds[told])
    near = nearest_others(vectors, max(KS)).numbers
    meant = labels_of([tuple(sorted(one)) for one in golds])
    return {**figures, "mention R@64": neighbour_recall(near, meant) or 0.0}


def recall(
    similar: FloatArray,
    golds: Sequence[frozenset[int]],
    kbs: Sequence[RowRange],
    learnt: frozenset[int],
) -> dict[str, float]:
    """How often a gold is among the first k of its KB, as the mean of the KBs."""
    found: dict[str, list[float]] = {}
    for start, stop in kbs:
        ranks, seen = [], []
        for scores, gold in zip(similar, golds, strict=True):
            if own := [row for row in gold if start <= row < stop]:
                ranks.append(int((scores[start:stop] > scores[own].max()).sum()) + 1)
                seen.append(not learnt.isdisjoint(own))
        rank, known = np.array(ranks), np.array(seen)
        for k in KS:
            found.setdefault(f"R@{k}", []).append(float((rank <= k).mean()))
        found.setdefault("seen R@1", []).append(float((rank[known] == 1).mean()))
        found.setdefault("unseen R@1", []).append(float((rank[~known] == 1).mean()))
    return {name: statistics.mean(values) for name, values in found.items()}


def graph(vectors: FloatArray, entities: FloatArray) -> MentionGraph:
    """Mentions, the nearest entity of each, and its nearest other mentions."""
    similar = vectors @ entities.T
    near = nearest_others(vectors, max(NEIGHBOURS))
    return MentionGraph(similar.argmax(axis=1), similar.max(axis=1), near)


def accuracy(found: Clusters, golds: Sequence[frozenset[int]]) -> float:
    """The share of mentions whose cluster means what they mean."""
    pairs = zip(found.entities.tolist(), golds, strict=True)
    return sum(entity in gold for entity, gold in pairs) / len(golds)


def show(row: str, found: Sequence[dict[str, Any]]) -> None:
    """One line of the table: mean and standard deviation over seeds."""
    cells = []
    for name in COLUMNS:
        values = [one[name] for one in found]
        spread = f" ± {statistics.stdev(values):.3f}" if len(values) > 1 else ""
        cells.append(f"{name} {statistics.mean(values):.3f}{spread}")
    seconds = statistics.mean(one["seconds"] for one in found)
    print(
        f"| {row} | {' | '.join(cells)} | {found[0]['steps']} steps, {seconds:.0f} s |", flush=True
    )


if __name__ == "__main__":
    main()
