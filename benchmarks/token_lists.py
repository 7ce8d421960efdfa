"""Token vectors of a large KB: the lists around centroids beside a comparison with all entities.

    python benchmarks/token_lists.py WORKSPACE TEXTS.txt --copies 1 8 [--keep FOLDER]

The vectors are the states of the workspace's model for the tokens of all its entities, of 36 tokens
at most, as a model with ``sum_of_max`` has them before it is trained. Each copy moves each vector
by noise of .6 of its length, so that the KB is as large as is asked for. The mentions are the lines
of TEXTS.txt, of 64 tokens at most. Milliseconds are those of the processor for each mention.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch

from kglink.arrays import IntArray
from kglink.models.loading import load_tokenizer, load_transformer
from kglink.models.runtime import TokenMatrices, as_bf16
from kglink.space import token_lists, token_search
from kglink.space.token_lists import write_token_lists
from kglink.space.token_rows import TokenRows, TokenRowsWriter, texts_between
from kglink.space.token_search import TokenSearch
from kglink.workspace import Workspace
from kglink_plugins.scorers import SumOfMaxScorer

ENTITY_TOKENS, MENTION_TOKENS, TOGETHER = 36, 64, 4096
KS = (1, 10, 64)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("workspace", type=Path)
    parser.add_argument("texts", type=Path)
    parser.add_argument("--copies", type=int, nargs="+", default=[1])
    parser.add_argument("--mentions", type=int, default=60)
    parser.add_argument("--keep", type=Path, help="a folder for the vectors")
    asked = parser.parse_args()
    lines = asked.texts.read_text(encoding="utf-8").splitlines()[: asked.mentions]
    with ExitStack() as stack:
        folder = asked.keep or Path(stack.enter_context(TemporaryDirectory()))
        workspace = stack.enter_context(Workspace.open(asked.workspace))
        mentions = next(states(workspace, iter(lines), MENTION_TOKENS))
        for copies in asked.copies:
            measure(rows(folder / str(copies), workspace, copies), mentions)


def states(workspace: Workspace, texts: Iterator[str], longest: int) -> Iterator[TokenMatrices]:
    """The states of the model for the tokens of texts, some texts at a time."""
    source = workspace.encoder.source
    tokenizer = load_tokenizer(source)
    model = load_transformer("AutoModel", source).to(torch.bfloat16).eval()
    while some := list(islice(texts, TOGETHER)):
        found: list[torch.Tensor] = [torch.empty(0)] * len(some)
        order = sorted(range(len(some)), key=lambda at: len(some[at]))
        for first in range(0, len(order), 64):
            part = order[first : first + 64]
            told = tokenizer(
                [some[at] for at in part],
                truncation=True,
                max_length=longest,
                padding=True,
                return_tensors="pt",
            )
            with torch.inference_mode():
                hidden = model(**told).last_hidden_state.float()
            hidden = torch.nn.functional.normalize(hidden, dim=-1).bfloat16()
            for at, one, mask in zip(part, hidden, told["attention_mask"].bool(), strict=True):
                found[at] = one[mask]
        lengths = [len(one) for one in found]
        bits = torch.cat(found).view(torch.int16).numpy()
        yield TokenMatrices(bits, np.concatenate([[0], np.cumsum(lengths)]))


def rows(folder: Path, workspace: Workspace, copies: int) -> TokenRows:
    """The vectors of all entities, so many times; they are made if they are missing."""
    folder.mkdir(parents=True, exist_ok=True)
    dim = workspace.encoder.dim
    noise = torch.Generator().manual_seed(0)
    with TokenRowsWriter(folder, dim) as writer:
        if not writer.done:
            for made in states(workspace, entity_texts(workspace), ENTITY_TOKENS):
                writer.add(made)
                for _ in range(copies - 1):
                    vectors = as_bf16(made.bits).float()
                    vectors += 0.6 / dim**0.5 * torch.randn(vectors.shape, generator=noise)
                    vectors = torch.nn.functional.normalize(vectors, dim=1).bfloat16()
                    moved = vectors.view(torch.int16).numpy()
                    writer.add(TokenMatrices(moved, made.offsets))
            writer.finish()
    return TokenRows(folder, dim)


def entity_texts(workspace: Workspace) -> Iterator[str]:
    """What is read of each entity: its names, then its description."""
    for kb in workspace.store.kbs():
        for entity in workspace.store.entities(kb.name):
            names = ", ".join(alias.surface for alias in entity.aliases[:4])
            yield f"{entity.title}; {names}. {entity.description}"


def measure(tokens: TokenRows, mentions: TokenMatrices) -> None:
    """Search with all entities and by lists, and print a line for each."""
    token_lists.LEAST_TOKENS = 0
    began = time.process_time()
    count = len(mentions.offsets) - 1
    print(f"{len(tokens):,} entities with {tokens.tokens:,} tokens; {count} mentions")
    for _ in write_token_lists(tokens):
        pass
    print(f"lists: made in {time.process_time() - began:.0f} s")
    all_rows, spent = searched(tokens, mentions, len(tokens))
    print(f"all entities: {spent:.1f} ms")
    for compared in (1024, 4096, 16_384):
        rows, spent = searched(tokens, mentions, compared)
        recall = [
            np.mean([len(set(one[:k]) & set(other[:k])) / k for one, other in both])
            for k in KS
            for both in [list(zip(rows.tolist(), all_rows.tolist(), strict=True))]
        ]
        told = ", ".join(f"R@{k} {share:.3f}" for k, share in zip(KS, recall, strict=True))
        print(f"lists, {compared} entities compared: {spent:.1f} ms, {told}", flush=True)


def searched(tokens: TokenRows, mentions: TokenMatrices, compared: int) -> tuple[IntArray, float]:
    """The best rows of each mention, and the milliseconds of each."""
    token_search.COMPARED = compared
    search = TokenSearch(tokens, SumOfMaxScorer())
    count = len(mentions.offsets) - 1
    search.search(texts_between(mentions, 0, 2), KS[-1])  # what is read first is in memory then
    began = time.process_time()
    _, found = search.search(mentions, KS[-1])
    return found, 1000 * (time.process_time() - began) / count


if __name__ == "__main__":
    main()
