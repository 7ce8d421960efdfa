"""Training steps a second against a plain fp32 loop of transformers, and peak memory.

    python benchmarks/step_rate.py [--batch 64] [--steps 8] [--threads 0] [--data FOLDER] [--memory]

Both train the same MiniLM on the same mention and entity inputs of 64 tokens: one shared encoder,
mean pooling, cosine, in-batch softmax, AdamW, dropout as the model's settings have it. They take
turns, one step each, and the medians of the steps' ratios are printed: on a machine with other
work the ratio of processor time with ``--threads 1`` says most, since threads that wait for each
other use it too. The plain loop pads each side to its longest text, as a collator does; a
second plain loop leaves the embeddings as they are, as the tower does. ``--memory`` runs each loop
alone in a process of its own and prints its peak. Without the data folder the texts are synthetic.
"""

from __future__ import annotations

import argparse
import gzip
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 - the name that torch's documentation uses
from torch import Tensor

from kglink.models import choose_hardware, resolve_model
from kglink.models.bi_encoder import load_bi_encoder
from kglink.models.inputs import IdArray, Inputs
from kglink.records import Alias, Entity, MentionInText

DATA = Path(__file__).resolve().parents[2] / "shared" / "data" / "disease"
LOOPS = ("tower", "plain", "plain, embeddings frozen")
TEMPERATURE = 0.05


class Pairs(NamedTuple):
    """Mentions and their entities, as token ids."""

    mentions: list[IdArray]
    entities: list[IdArray]


class Cost(NamedTuple):
    """What one step took."""

    wall: float
    cpu: float


Step = Callable[[Pairs], float]


def read_pairs(data: Path, inputs: Inputs, count: int) -> Pairs:
    """Pairs of BC5CDR and the Disease Ontology, or made-up ones of similar lengths."""
    if not data.is_dir():
        return synthetic_pairs(count)
    entities = {entity.key: entity for entity in read_entities(data)}
    mentions, golds = [], []
    with gzip.open(data / "mentions" / "bc5cdr_train.jsonl.gz", "rt", encoding="utf-8") as lines:
        for record in map(json.loads, lines):
            if gold := [key for key in record["gold"].get("doid", []) if key in entities]:
                text = MentionInText(record["context"], record["start"], record["end"])
                mentions.append(text)
                golds.append(entities[gold[0]])
    rows = np.random.default_rng(0).permutation(len(mentions))[:count]
    return Pairs(
        inputs.mentions([mentions[row] for row in rows]),
        inputs.entities([golds[row] for row in rows]),
    )


def read_entities(data: Path) -> Iterator[Entity]:
    """The terms of the Disease Ontology."""
    with gzip.open(data / "kb" / "doid.obographs.json.gz", "rt", encoding="utf-8") as file:
        nodes = json.load(file)["graphs"][0]["nodes"]
    for node in nodes:
        meta: dict[str, Any] = node.get("meta", {})
        if "lbl" in node:
            names = tuple(Alias(synonym["val"]) for synonym in meta.get("synonyms", []))
            key = node["id"].rpartition("/")[2].replace("_", ":")
            text = meta.get("definition", {}).get("val", "")
            yield Entity(key=key, title=node["lbl"], description=text, aliases=names)


def synthetic_pairs(count: int) -> Pairs:
    """Full windows, and entity texts of 6 to 64 tokens."""
    rng = np.random.default_rng(0)
    lengths = np.clip(rng.lognormal(3.6, 0.6, count).astype(int), 6, 64)
    draw = [rng.integers(1000, 30000, size) for size in [*[64] * count, *lengths]]
    ids = [ids.astype(np.int32) for ids in draw]
    return Pairs(ids[:count], ids[count:])


def in_batch_softmax(mentions: Tensor, entities: Tensor) -> Tensor:
    """Each mention against all entities of the batch."""
    scores = F.normalize(mentions, dim=1) @ F.normalize(entities, dim=1).T / TEMPERATURE
    return F.cross_entropy(scores, torch.arange(len(scores)))


def tower_step() -> Step:
    """A step of kglink's tower."""
    model = load_bi_encoder(hardware=choose_hardware("cpu"))
    optimizer = adamw(model)

    def step(pairs: Pairs) -> float:
        mentions, entities = model(pairs.mentions, pairs.entities)[0]
        loss = in_batch_softmax(mentions.states[:, 0], entities.states[:, 0])
        return finish(loss, optimizer)

    return step


def plain_step(*, frozen: bool) -> Step:
    """A step of the loop that one would write with transformers."""
    from transformers import BertModel, utils

    logging: Any = utils.logging
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    model = BertModel.from_pretrained(resolve_model().path, add_pooling_layer=False)
    model.train()
    model.embeddings.requires_grad_(not frozen)
    optimizer = adamw(model)

    def encode(texts: Sequence[IdArray]) -> Tensor:
        rows = [torch.from_numpy(text.astype(np.int64)) for text in texts]
        ids = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)
        mask = (ids != 0).long()
        states = model(input_ids=ids, attention_mask=mask).last_hidden_state
        weights = mask.unsqueeze(-1).float()
        summed: Tensor = (states * weights).sum(dim=1) / weights.sum(dim=1)
        return summed

    def step(pairs: Pairs) -> float:
        loss = in_batch_softmax(encode(pairs.mentions), encode(pairs.entities))
        return finish(loss, optimizer)

    return step


def adamw(model: torch.nn.Module) -> torch.optim.Optimizer:
    """The same optimiser for all."""
    return torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=2e-5)


def finish(loss: Tensor, optimizer: torch.optim.Optimizer) -> float:
    """Gradients and update."""
    optimizer.zero_grad()
    torch.autograd.backward(loss)
    optimizer.step()
    return loss.item()


def make_step(loop: str) -> Step:
    """A loop by its name."""
    if loop == "tower":
        return tower_step()
    return plain_step(frozen="frozen" in loop)


def timed(step: Step, pairs: Pairs) -> Cost:
    """One step's wall clock and processor time."""
    wall, cpu = time.perf_counter(), time.process_time()
    step(pairs)
    return Cost(time.perf_counter() - wall, time.process_time() - cpu)


def batch_of(pairs: Pairs, number: int, size: int) -> Pairs:
    """The given batch, in turn."""
    rows = [(number * size + row) % len(pairs.mentions) for row in range(size)]
    return Pairs([pairs.mentions[row] for row in rows], [pairs.entities[row] for row in rows])


def compare(pairs: Pairs, size: int, rounds: int) -> None:
    steps = {loop: make_step(loop) for loop in LOOPS}
    costs: dict[str, list[Cost]] = {loop: [] for loop in LOOPS}
    for number in range(rounds + 1):
        batch = batch_of(pairs, number, size)
        for loop, step in steps.items():
            cost = timed(step, batch)
            if number:  # the first step sets buffers up
                costs[loop].append(cost)
    ours = costs[LOOPS[0]]
    print(f"{'':26} {'steps/s':>8} {'wall s':>7} {'CPU s':>7}   the first is faster by")
    for loop, theirs in costs.items():
        wall = statistics.median(cost.wall for cost in theirs)
        cpu = statistics.median(cost.cpu for cost in theirs)
        by_wall = statistics.median(t.wall / o.wall for t, o in zip(theirs, ours, strict=True))
        by_cpu = statistics.median(t.cpu / o.cpu for t, o in zip(theirs, ours, strict=True))
        print(
            f"{loop:26} {1 / wall:8.2f} {wall:7.3f} {cpu:7.3f}   {by_wall:.2f} ({by_cpu:.2f} CPU)"
        )


def measure_memory(sizes: Sequence[int], options: argparse.Namespace) -> None:
    print(f"{'peak memory, MB':26} " + " ".join(f"{size:>8}" for size in sizes))
    for loop in LOOPS[:2]:
        peaks = []
        for size in sizes:
            command = [sys.executable, __file__, "--alone", loop, "--batch", str(size)]
            done = subprocess.run(
                [*command, "--data", str(options.data)], capture_output=True, text=True, check=True
            )
            peaks.append(int(done.stdout))
        print(f"{loop:26} " + " ".join(f"{peak:8,}" for peak in peaks))


def run_alone(loop: str, pairs: Pairs, size: int) -> None:
    step = make_step(loop)
    for number in range(2):
        step(batch_of(pairs, number, size))
    print(peak_memory())


def peak_memory() -> int:
    """This process's peak in MB; getrusage would count what it was forked from as well."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    peak = next(line for line in lines if line.startswith("VmHWM:"))
    return int(peak.split()[1]) * 1024 // 1_000_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--steps", type=int, default=8, help="steps of each loop")
    parser.add_argument("--threads", type=int, default=0, help="0: one for each core")
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--memory", action="store_true")
    parser.add_argument("--alone", choices=LOOPS, help=argparse.SUPPRESS)
    options = parser.parse_args()

    source, hardware = resolve_model(), choose_hardware("cpu", threads=options.threads)
    torch.set_num_threads(hardware.threads)
    torch.manual_seed(0)
    pairs = read_pairs(options.data, Inputs(source, rows=30522), options.batch * 4)
    if options.alone:
        run_alone(options.alone, pairs, options.batch)
        return
    tokens = [sum(map(len, side)) / len(side) for side in pairs]
    print(
        f"{hardware}; batch {options.batch}; "
        f"tokens of a mention {tokens[0]:.1f}, of an entity {tokens[1]:.1f}"
    )
    compare(pairs, options.batch, options.steps)
    if options.memory:
        measure_memory((16, 32, 64, 128, 256), options)


if __name__ == "__main__":
    main()
