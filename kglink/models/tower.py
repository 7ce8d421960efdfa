"""Towers: encoders that are trained, the packed batches that they read, and what scorers get.

The texts of a batch are laid end to end by falling length. Linear layers see one long run of
tokens; attention takes the texts in buckets of nearly equal length, padded to the longest of the
bucket and no further.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F  # noqa: N812 - the name that torch's documentation uses
from torch import Tensor, nn

from kglink.errors import ConfigError, PluginError, UsageError, errors_of
from kglink.models.document_inputs import without_marks
from kglink.models.hardware import Hardware
from kglink.models.inputs import IdArray
from kglink.models.settings import Pooling
from kglink.plugins import Encoded, Scorer

#: What states are held in; with int8 the linear layers alone are rounded.
DTYPES = {
    "fp32": torch.float32,
    "int8": torch.float32,
    "bf16": torch.bfloat16,
    "fp16": torch.float16,
}
#: A bucket takes texts down to this share of its longest: at most a fifth of it is padding.
_SHORTEST = 0.8
#: Changes the states after a layer: the transformation, and any test's own.
Change = Callable[[Tensor], Tensor]


@dataclass(frozen=True, slots=True)
class Bucket:
    """Texts of nearly equal length: their tokens in the batch, padded to (texts, length)."""

    tokens: slice
    texts: int
    length: int
    places: Tensor | None = None
    """Where each token stands in the padded layout; None where nothing is padded."""
    masked: Tensor | None = None
    """(texts, 1, 1, length), true where there is padding."""

    def pad(self, values: Tensor) -> Tensor:
        """Its rows of a (tokens, width) matrix as (texts, length, width), zeros between."""
        rows = values[self.tokens]
        if self.places is not None:
            padded = values.new_zeros(self.texts * self.length, values.shape[1])
            rows = padded.index_copy_(0, self.places, rows)
        return rows.view(self.texts, self.length, -1)

    def unpad(self, padded: Tensor) -> Tensor:
        """The inverse of `pad`."""
        rows = padded.reshape(self.texts * self.length, -1)
        return rows if self.places is None else rows.index_select(0, self.places)


@dataclass(frozen=True, slots=True)
class TokenBatch:
    """Token ids of ``n`` texts end to end, longest first; text i of the caller is ``rows[i]``."""

    ids: Tensor
    steps: Tensor
    """The position of each token in its own text."""
    lengths: Tensor
    """Tokens of each text, in packed order."""
    buckets: tuple[Bucket, ...]
    rows: Tensor
    kinds: Tensor | None = None
    """1 for the tokens of the second of two texts that are read together; None: all are 0."""
    spans: Tensor | None = None
    """Which tokens of each text count where its mention's are pooled, in packed order."""

    def __len__(self) -> int:
        return len(self.rows)

    def texts_of_tokens(self) -> Tensor:
        """For each token the caller's number of its text."""
        order = torch.empty_like(self.rows)
        order[self.rows] = torch.arange(len(self.rows), device=self.rows.device)
        return order.repeat_interleave(self.lengths)


class LaidTexts(NamedTuple):
    """Texts laid end to end, as they are searched with."""

    ids: Tensor
    lengths: Sequence[int]
    kinds: Tensor | None = None
    """1 for the tokens of a second text."""
    steps: Tensor | None = None
    """The position of each token; None: its place in its text."""


class StateModel(Protocol):
    """A model that reads texts laid end to end."""

    dim: int
    rows: int
    """Rows of its vocabulary: a token id is below it."""

    def states(self, texts: LaidTexts) -> Tensor:
        """Its last states, one row for each token."""
        ...


class Tower(nn.Module, ABC):
    """A trainable encoder: packed token ids in, the states of its last layer out."""

    config: Mapping[str, Any]
    """Its config.json, with as many vocabulary rows as it has."""
    dim: int
    depth: int
    """How many layers it has: it can be cut after layer 0 (the embeddings) to ``depth``."""

    @abstractmethod
    def forward(self, batch: TokenBatch) -> Tensor:
        """The last states, (tokens, dim), in packed order."""

    @abstractmethod
    def views(
        self, batch: TokenBatch, layer: int, change: Change, *, plain: bool = True
    ) -> list[Tensor]:
        """The last states, if ``plain``, then those with ``change`` after ``layer``."""

    @abstractmethod
    def weights(self) -> dict[str, Tensor]:
        """Its weights under the names of Hugging Face, fp32 on the CPU."""

    @abstractmethod
    def freeze_embeddings(self, frozen: bool = True) -> None:
        """Leave the embeddings and their norm as they are in training, or train them too."""

    @abstractmethod
    def snapshot(self, hardware: Hardware) -> StateModel:
        """What it is now, for searching: later training does not change it."""

    def check_layer(self, layer: int) -> None:
        """Refuse a layer that it does not have."""
        if not 0 <= layer <= self.depth:
            raise ConfigError(
                f"the transformation stands after layer {layer}, and the model has {self.depth}",
                hint=f"Give a layer from 0 (behind the embeddings) to {self.depth}.",
            )


def pack(
    texts: Sequence[IdArray],
    device: torch.device | str = "cpu",
    seconds: Sequence[int] | None = None,
    *,
    second_at: int = 0,
    marks: tuple[int, int] | None = None,
) -> TokenBatch:
    """Lay the token ids of texts end to end; ``seconds``: where the second text of each begins.

    ``second_at``: the position of its first token, as if padding stood before it; 0: none does.
    With ``marks``, those around a mention, they are taken out, and what stood between them are the
    text's `spans`; all tokens of a text that has none.
    """
    own: list[npt.NDArray[np.bool_]] = []
    if marks:
        read = [without_marks(ids, *marks) for ids in texts]
        texts = [one.ids for one in read]
        for ids, ((start, stop),) in read:
            counts = np.zeros(len(ids), np.bool_)
            counts[start:stop] = True
            own.append(counts)
    lengths = np.fromiter((len(text) for text in texts), np.int64, len(texts))
    if not lengths.size or not lengths.all():
        raise UsageError(
            "a batch of no texts, or with a text of no tokens, cannot be encoded",
            hint="Give at least one text, each with its first and last token ([CLS], [SEP]).",
        )
    order = np.argsort(-lengths, kind="stable")
    rows = np.empty(len(texts), np.int64)
    rows[order] = np.arange(len(texts))
    ranked = lengths[order]
    starts = np.cumsum(ranked) - ranked
    steps = np.arange(ranked.sum()) - np.repeat(starts, ranked)
    ids = np.concatenate([texts[row] for row in order]).astype(np.int64)
    kinds, positions = None, steps
    if seconds is not None:
        begins = np.repeat(np.asarray(seconds, np.int64)[order], ranked)
        kinds = torch.from_numpy((steps >= begins).astype(np.int64)).to(device)
        positions = moved_steps(steps, begins, second_at)
    return TokenBatch(
        ids=torch.from_numpy(ids).to(device),
        steps=torch.from_numpy(positions).to(device),
        lengths=torch.from_numpy(ranked).to(device),
        buckets=tuple(_buckets(ranked, starts, steps, device)),
        rows=torch.from_numpy(rows).to(device),
        kinds=kinds,
        spans=torch.from_numpy(np.concatenate([own[row] for row in order])).to(device)
        if marks
        else None,
    )


def moved_steps(
    steps: npt.NDArray[np.int64], begins: npt.NDArray[np.int64], second_at: int
) -> npt.NDArray[np.int64]:
    """Positions where the token of ``begins``, and those behind it, are moved to ``second_at``."""
    if not second_at:
        return steps
    return steps + np.where(steps >= begins, second_at - begins, 0)


def pool(states: Tensor, batch: TokenBatch, pooling: Pooling) -> Tensor:
    """One fp32 vector for each text, in the caller's order, from states in packed order."""
    if pooling in {"mean", "span"}:
        counted, counts = states.float(), batch.lengths.float()
        if batch.spans is not None:
            own = batch.spans.float()
            counted = counted * own.unsqueeze(1)
            counts = torch.segment_reduce(own, "sum", lengths=batch.lengths)
        sums = torch.segment_reduce(counted, "sum", lengths=batch.lengths, axis=0)
        return (sums / counts.unsqueeze(1)).index_select(0, batch.rows)
    starts = batch.lengths.cumsum(0) - batch.lengths
    return states.index_select(0, starts.index_select(0, batch.rows)).float()


def encoded(
    states: Tensor, batch: TokenBatch, pooling: Pooling, *, cosine: bool = False
) -> Encoded:
    """What scorers read: a matrix of one row for each text if pooled, else of all its tokens.

    With ``cosine`` every row has length one, so that a dot product is a cosine.
    """
    if pooling != "tokens":
        vectors = pool(states, batch, pooling).unsqueeze(1)
        vectors = F.normalize(vectors, dim=-1) if cosine else vectors
        return Encoded(vectors, vectors.new_ones(vectors.shape[:2], dtype=torch.bool))
    tokens = F.normalize(states.float(), dim=-1) if cosine else states.float()
    texts, longest = len(batch), int(batch.lengths[0])
    places = batch.texts_of_tokens() * longest + batch.steps
    padded = tokens.new_zeros(texts * longest, tokens.shape[1]).index_copy(0, places, tokens)
    lengths = batch.lengths.index_select(0, batch.rows).unsqueeze(1)
    mask = torch.arange(longest, device=lengths.device) < lengths
    return Encoded(padded.view(texts, longest, -1), mask)


def scorer_name(scorer: Scorer) -> str:
    """What messages call a scorer."""
    return f"scorer {type(scorer).__module__}.{type(scorer).__name__}"


def scored(scorer: Scorer, mentions: Encoded, entities: Encoded) -> Tensor:
    """The scores of all mentions with all entities, by a scorer which may be anybody's."""
    name = scorer_name(scorer)
    with errors_of(name):
        scores = scorer.score(mentions, entities)
        if not isinstance(scores, torch.Tensor):
            raise TypeError(f"scores are a tensor, not of the type {type(scores).__name__}")
        shape = tuple(scores.shape)
    wanted = len(mentions.states), len(entities.states)
    if shape != wanted:
        raise PluginError(
            f"{name} gave scores of the shape {shape} for {wanted[0]} mentions and "
            f"{wanted[1]} entities",
            hint="A scorer gives a matrix with a row for each mention and a column for each "
            "entity.",
        )
    return scores


def join(parts: Sequence[Encoded]) -> Encoded:
    """Several batches as one, padded to the longest of them."""
    longest = max(part.mask.shape[1] for part in parts)
    spare = [longest - part.mask.shape[1] for part in parts]
    states = [F.pad(part.states, (0, 0, 0, n)) for part, n in zip(parts, spare, strict=True)]
    masks = [F.pad(part.mask, (0, n)) for part, n in zip(parts, spare, strict=True)]
    return Encoded(torch.cat(states), torch.cat(masks))


def split(whole: Encoded, first: int) -> tuple[Encoded, Encoded]:
    """The first texts and the others, each without the padding that only the whole needs."""
    parts = []
    for rows in (slice(first), slice(first, None)):
        mask = whole.mask[rows]
        longest = int(mask.sum(dim=1).max()) if len(mask) else 0
        parts.append(Encoded(whole.states[rows, :longest], mask[:, :longest]))
    return parts[0], parts[1]


def copied(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Tensors in fp32 on the CPU that later training does not change."""
    return {
        name: value.detach().to("cpu", torch.float32, copy=True) for name, value in state.items()
    }


def added_rows(table: Tensor, rows: int) -> Tensor:
    """A table of embeddings with more rows, random, but the same each time and like the others."""
    table = table.to(torch.float32)
    generator = torch.Generator().manual_seed(rows)
    drawn = torch.randn(rows - len(table), table.shape[1], generator=generator)
    return torch.cat([table, table.mean(dim=0) + table.std(dim=0) * drawn])


def _buckets(
    lengths: npt.NDArray[np.int64],
    starts: npt.NDArray[np.int64],
    steps: npt.NDArray[np.int64],
    device: torch.device | str,
) -> Iterator[Bucket]:
    """The runs of texts that are padded to one length; ``lengths`` fall."""
    first = 0
    while first < len(lengths):
        longest = int(lengths[first])
        count = int((lengths[first:] >= _SHORTEST * longest).sum())
        own = lengths[first : first + count]
        begin = int(starts[first])
        tokens = slice(begin, begin + int(own.sum()))
        places = masked = None
        if own[-1] < longest:
            texts = np.repeat(np.arange(count), own)
            places = torch.from_numpy(texts * longest + steps[tokens]).to(device)
            beyond = np.arange(longest) >= own[:, None]
            masked = torch.from_numpy(beyond[:, None, None, :]).to(device)
        yield Bucket(tokens, count, longest, places, masked)
        first += count
