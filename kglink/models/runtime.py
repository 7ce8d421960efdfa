"""Token ids to vectors, at the machine's speed and the same bytes every time."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from kglink.arrays import BitArray, FloatArray, IntArray
from kglink.errors import ModelError
from kglink.models.document_inputs import MentionTokens
from kglink.models.hardware import Hardware
from kglink.models.inputs import IdArray
from kglink.models.packed import pool_states
from kglink.models.settings import Pooling
from kglink.models.tower import LaidTexts, StateModel, moved_steps

#: Which of some texts were cut, and their vectors batch by batch, with the texts' numbers.
TextVectors = tuple[npt.NDArray[np.bool_], Iterator[tuple[IntArray, FloatArray]]]

#: Tokens of one batch. It does not depend on the number of threads, so results do not either.
_CPU_TOKENS = 1024
_GPU_TOKENS = 65536


class TokenMatrices(NamedTuple):
    """All token vectors of n texts end to end; text i has rows ``offsets[i]:offsets[i + 1]``.

    ``bits`` are bf16 numbers, which NumPy has no type for; `as_bf16` makes a tensor of them.
    """

    bits: BitArray
    offsets: IntArray


class SecondTexts(NamedTuple):
    """Texts that are read together with others that stand before them."""

    begins: Sequence[int]
    """Where each begins."""
    at: int = 0
    """The position of its first token, as if padding stood before it; 0: none does."""


def as_bf16(bits: BitArray) -> Tensor:
    """The bf16 tensor on the memory of an array of bits."""
    return torch.from_numpy(bits).view(torch.bfloat16)


@dataclass(eq=False)
class TokenEncoder:
    """Turns token ids into vectors with one model; the same list gives the same bytes every time.

    Batches run on single-threaded workers: a batch is large enough to keep a core busy, and
    cores that never wait for each other are faster than cores that share every small product.
    """

    name: str
    model: StateModel
    hardware: Hardware
    pooling: Pooling
    cosine: bool = field(default=True, kw_only=True)

    def __post_init__(self) -> None:
        self.dim = self.model.dim
        self._device = torch.device(self.hardware.device)
        self._workers: ThreadPoolExecutor | None = None

    def vectors(self, ids: Sequence[IdArray]) -> FloatArray:
        """One pooled vector for each text, an (n, dim) matrix."""
        vectors = np.empty((len(ids), self.dim), np.float32)
        for rows, part in self.batches(ids):
            vectors[rows] = part
        return vectors

    def span_vectors(self, texts: Sequence[MentionTokens]) -> FloatArray:
        """One vector for each mention of the texts, one after the other."""
        if not texts:
            return np.empty((0, self.dim), np.float32)
        states = self.tokens([text.ids for text in texts], lambda states: states)
        vectors = np.stack(
            [
                of_text[start:stop].mean(axis=0)
                for text, of_text in zip(texts, states, strict=True)
                for start, stop in text.spans
            ]
        )
        if self.cosine:
            vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
        return vectors

    def batches(self, ids: Sequence[IdArray]) -> Iterator[tuple[IntArray, FloatArray]]:
        """The same batch by batch: the numbers of some texts, and their vectors."""
        return ((rows, part.numpy()) for rows, part in self._run(ids, self._pool))

    def matrices(self, ids: Sequence[IdArray]) -> TokenMatrices:
        """The vectors of all tokens of each text."""
        offsets = np.concatenate([[0], np.cumsum(_lengths(ids))])
        bits = np.empty((int(offsets[-1]), self.dim), np.int16)
        for row, values in self._texts(ids, self._all):
            bits[offsets[row] : offsets[row + 1]] = values.view(torch.int16).numpy()
        return TokenMatrices(bits, offsets)

    def tokens(self, ids: Sequence[IdArray], head: Callable[[Tensor], Tensor]) -> list[FloatArray]:
        """What ``head`` makes of the states of all tokens, (tokens, n) for each text."""
        found = [np.empty((0, 0), np.float32)] * len(ids)
        for row, values in self._texts(ids, lambda states, _: head(states.float())):
            found[row] = values.numpy()
        return found

    def firsts(
        self,
        ids: Sequence[IdArray],
        head: Callable[[Tensor], Tensor],
        seconds: SecondTexts | None = None,
    ) -> FloatArray:
        """What ``head`` makes of the state of each text's first token, (texts, n) in fp32."""
        found = [np.empty(0, np.float32)] * len(ids)
        for rows, part in self._run(
            ids, lambda states, lengths: head(pool_states(states, lengths, "cls")), seconds
        ):
            for row, values in zip(rows.tolist(), part.numpy(), strict=True):
                found[row] = values
        return np.stack(found) if found else np.empty((0, 0), np.float32)

    def _texts(
        self, ids: Sequence[IdArray], finish: Callable[[Tensor, Sequence[int]], Tensor]
    ) -> Iterator[tuple[int, Tensor]]:
        """The number of each text, and what ``finish`` makes of its tokens."""
        for rows, part in self._run(ids, finish):
            parts = torch.split_with_sizes(part, [len(ids[row]) for row in rows])
            yield from zip(rows.tolist(), parts, strict=True)

    def _pool(self, states: Tensor, lengths: Sequence[int]) -> Tensor:
        pooled = pool_states(states, lengths, self.pooling)
        return torch.nn.functional.normalize(pooled) if self.cosine else pooled

    def _all(self, states: Tensor, _: Sequence[int]) -> Tensor:
        tokens = states.float()
        tokens = torch.nn.functional.normalize(tokens, dim=-1) if self.cosine else tokens
        return tokens.to(torch.bfloat16)

    def _run(
        self,
        ids: Sequence[IdArray],
        finish: Callable[[Tensor, Sequence[int]], Tensor],
        seconds: SecondTexts | None = None,
    ) -> Iterator[tuple[IntArray, Tensor]]:
        if not len(ids):
            return
        batches = _plan(_lengths(ids), _CPU_TOKENS if self._device.type == "cpu" else _GPU_TOKENS)
        if self._workers is None:
            # A GPU takes one batch at a time; more workers would only queue.
            count = self.hardware.threads if self._device.type == "cpu" else 1
            self._workers = single_threaded_workers(count)
        parts = self._workers.map(
            lambda rows: self._encode_batch(ids, rows, finish, seconds), batches
        )
        yield from zip(batches, parts, strict=True)

    def _encode_batch(
        self,
        ids: Sequence[IdArray],
        rows: IntArray,
        finish: Callable[[Tensor, Sequence[int]], Tensor],
        seconds: SecondTexts | None,
    ) -> Tensor:
        texts = [ids[row] for row in rows]
        lengths = [len(text) for text in texts]
        kinds = steps = None
        if seconds is not None:
            places = np.concatenate([np.arange(length) for length in lengths])
            begins = np.repeat([seconds.begins[row] for row in rows], lengths)
            kinds = torch.from_numpy((places >= begins).astype(np.int64)).to(self._device)
            if seconds.at:
                moved = moved_steps(places, begins, seconds.at)
                steps = torch.from_numpy(moved).to(self._device)
        joined = np.concatenate(texts)
        if joined.min() < 0 or joined.max() >= self.model.rows:
            raise ModelError(
                f"{self.name}: the tokenizer gives token {joined.max()}, and the model has "
                f"{self.model.rows}",
                hint="Give tokenizer and weights of one and the same model.",
            )
        try:
            with torch.inference_mode():
                packed = torch.from_numpy(joined).to(self._device)
                states = self.model.states(LaidTexts(packed, lengths, kinds, steps))
                values = finish(states, lengths).cpu()
                finite = bool(torch.isfinite(values).all())
        except (IndexError, RuntimeError) as error:
            raise ModelError(
                f"{self.name}: fails on a batch of {len(texts)} texts: {error}",
                hint="Where memory is short, free some; else the model's files do not fit.",
            ) from error
        if not finite:
            raise not_finite(self.name)
        return values


def _lengths(ids: Sequence[IdArray]) -> IntArray:
    return np.fromiter((len(text) for text in ids), np.int64, len(ids))


def _plan(lengths: IntArray, budget: int) -> list[IntArray]:
    """Batches of at most ``budget`` tokens (or one text), longest texts first.

    Long first: the last batches are the cheap ones, and no worker is left with a big one.
    """
    order = np.argsort(-lengths, kind="stable")
    batches, start, used = [], 0, 0
    for place, length in enumerate(lengths[order].tolist()):
        if used + length > budget and place > start:
            batches.append(order[start:place])
            start, used = place, 0
        used += length
    return [*batches, order[start:]]


def not_finite(name: str) -> ModelError:
    """The error of a model whose vectors are no numbers."""
    return ModelError(
        f"{name}: the model gives vectors that are not finite",
        hint="Its weights are broken, or too large for this precision: try fp32.",
    )


# In a forked process the threads of torch's products are gone, and waiting for them never ends.
os.register_at_fork(after_in_child=partial(torch.set_num_threads, 1))


def single_threaded_workers(count: int) -> ThreadPoolExecutor:
    """Threads whose torch operations use one core each."""
    before = torch.get_num_threads()
    workers = ThreadPoolExecutor(count, "encode", _use_one_core)
    everyone = threading.Barrier(count)
    list(workers.map(lambda _: everyone.wait(), range(count)))
    # The calls in the workers also changed what threads of the rest of the program start with.
    torch.set_num_threads(before)
    return workers


def _use_one_core() -> None:
    # A thread's first operation gives it the threads of the program; asking does so before we say.
    torch.get_num_threads()
    torch.set_num_threads(1)


def maxima(products: Tensor) -> Tensor:
    """The greatest of the middle axis, by halves: several times faster than torch's `amax`."""
    length = products.shape[1]
    while length > 1:
        half = length // 2
        greater = torch.maximum(products[:, :half], products[:, half : 2 * half])
        if length % 2:
            torch.maximum(greater[:, 0], products[:, length - 1], out=greater[:, 0])
        products, length = greater, half
    return products[:, 0]
