"""The encoder: texts in, unit vectors out, in the order they came and at the machine's speed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from kglink.errors import ModelError, UsageError
from kglink.models.bert import PackedBert, is_plain_bert, pool_states
from kglink.models.hardware import Hardware, Precision, choose_hardware
from kglink.models.model_folder import is_model_folder
from kglink.models.models import DEFAULT_MODEL, ModelSource, Pooling, read_json, resolve_model
from kglink.models.padded import load_padded
from kglink.models.tokenise import IdArray, TextTokenizer, Tokens
from kglink.records import OnProgress, Progress

FloatArray = npt.NDArray[np.float32]
IntArray = npt.NDArray[np.int64]

#: Texts that are sorted by length together; bounds the memory of a stream.
CHUNK = 8192
#: Tokens of one batch. It does not depend on the number of threads, so results do not either.
_CPU_TOKENS = 1024
_GPU_TOKENS = 65536

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


class StateModel(Protocol):
    """A model that reads texts as tokens laid end to end."""

    dim: int

    def states(self, ids: Tensor, lengths: Sequence[int]) -> Tensor:
        """Its last states, one row for each token."""
        ...


class _Chunk(NamedTuple):
    """A chunk without its duplicates: text i of the chunk is ``unique[inverse[i]]``."""

    unique: list[str]
    inverse: IntArray
    copies: IntArray


class TokenMatrices(NamedTuple):
    """All token vectors of n texts end to end; text i has rows ``offsets[i]:offsets[i + 1]``.

    ``bits`` are bf16 numbers, which NumPy has no type for; `as_bf16` makes a tensor of them.
    """

    bits: npt.NDArray[np.int16]
    offsets: IntArray


def as_bf16(bits: npt.NDArray[np.int16]) -> Tensor:
    """The bf16 tensor on the memory of an array of bits."""
    return torch.from_numpy(bits).view(torch.bfloat16)


class TokenEncoder:
    """Turns token ids into vectors with one model; the same list gives the same bytes every time.

    Batches run on single-threaded workers: a batch is large enough to keep a core busy, and
    cores that never wait for each other are faster than cores that share every small product.
    """

    def __init__(
        self,
        name: str,
        model: StateModel,
        hardware: Hardware,
        pooling: Pooling,
        *,
        cosine: bool = True,
    ) -> None:
        self.dim = model.dim
        self._name = name
        self._model = model
        self._hardware = hardware
        self._pooling = pooling
        self._cosine = cosine
        self._device = torch.device(hardware.device)
        self._workers: ThreadPoolExecutor | None = None

    def vectors(self, ids: Sequence[IdArray]) -> FloatArray:
        """One pooled vector for each text, an (n, dim) matrix."""
        vectors = np.empty((len(ids), self.dim), np.float32)
        for rows, part in self.batches(ids):
            vectors[rows] = part
        return vectors

    def batches(self, ids: Sequence[IdArray]) -> Iterator[tuple[IntArray, FloatArray]]:
        """The same batch by batch: the numbers of some texts, and their vectors."""
        return ((rows, part.numpy()) for rows, part in self._run(ids, self._pool))

    def matrices(self, ids: Sequence[IdArray]) -> TokenMatrices:
        """The vectors of all tokens of each text."""
        lengths = _lengths(ids)
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        bits = np.empty((int(offsets[-1]), self.dim), np.int16)
        for rows, part in self._run(ids, self._all):
            values = part.view(torch.int16).numpy()
            stops = np.cumsum(lengths[rows])
            for row, stop in zip(rows.tolist(), stops.tolist(), strict=True):
                bits[offsets[row] : offsets[row + 1]] = values[stop - lengths[row] : stop]
        return TokenMatrices(bits, offsets)

    def _pool(self, states: Tensor, lengths: Sequence[int]) -> Tensor:
        pooled = pool_states(states, lengths, self._pooling)
        return torch.nn.functional.normalize(pooled) if self._cosine else pooled

    def _all(self, states: Tensor, _: Sequence[int]) -> Tensor:
        tokens = states.float()
        tokens = torch.nn.functional.normalize(tokens, dim=-1) if self._cosine else tokens
        return tokens.to(torch.bfloat16)

    def _run(
        self, ids: Sequence[IdArray], finish: Callable[[Tensor, Sequence[int]], Tensor]
    ) -> Iterator[tuple[IntArray, Tensor]]:
        if not len(ids):
            return
        batches = _plan(_lengths(ids), _CPU_TOKENS if self._device.type == "cpu" else _GPU_TOKENS)
        if self._workers is None:
            # A GPU takes one batch at a time; more workers would only queue.
            count = self._hardware.threads if self._device.type == "cpu" else 1
            self._workers = single_threaded_workers(count)
        parts = self._workers.map(lambda rows: self._encode_batch(ids, rows, finish), batches)
        yield from zip(batches, parts, strict=True)

    def _encode_batch(
        self,
        ids: Sequence[IdArray],
        rows: IntArray,
        finish: Callable[[Tensor, Sequence[int]], Tensor],
    ) -> Tensor:
        texts = [ids[row] for row in rows]
        lengths = [len(text) for text in texts]
        with torch.inference_mode():
            packed = torch.from_numpy(np.concatenate(texts)).to(self._device)
            values = finish(self._model.states(packed, lengths), lengths).cpu()
            finite = bool(torch.isfinite(values).all())
        if not finite:
            raise ModelError(
                f"{self._name}: the model gives vectors that are not finite",
                hint="Its weights are broken, or too large for this precision: try fp32.",
            )
        return values


class Encoder:
    """Encodes texts with one model; the same list of texts gives the same bytes every time.

    ``truncated`` counts the texts, so far, that were longer than ``max_tokens`` and lost their
    end.
    """

    def __init__(
        self,
        source: ModelSource,
        model: StateModel,
        hardware: Hardware,
        *,
        tokenizer: Callable[[Sequence[str]], Tokens] | None = None,
        pooling: Pooling | None = None,
        cosine: bool = True,
    ) -> None:
        self.source = source
        self.hardware = hardware
        self.dim = model.dim
        self.fingerprint = source.fingerprint
        self.max_tokens = source.max_tokens
        self.truncated = 0
        self._tokenizer = tokenizer or TextTokenizer(source)
        self._encoder = TokenEncoder(
            source.name, model, hardware, pooling or source.pooling, cosine=cosine
        )

    def encode(self, texts: Sequence[str], *, progress: OnProgress = lambda _: None) -> FloatArray:
        """The vectors of all texts, an (n, dim) matrix; of length one but for a dot product."""
        if isinstance(texts, str):
            raise UsageError("encode takes a list of texts, not one text", hint="Use [text].")
        done, chunks = 0, []
        for first in range(0, len(texts), CHUNK):
            chunk = _unique(texts[first : first + CHUNK])
            vectors = np.empty((len(chunk.unique), self.dim), np.float32)
            for rows, part in self._encode_chunk(chunk):
                vectors[rows] = part
                done += int(chunk.copies[rows].sum())
                progress(Progress("encoding", done, len(texts)))
            chunks.append(vectors[chunk.inverse])
        return np.concatenate(chunks) if chunks else np.empty((0, self.dim), np.float32)

    def encode_stream(
        self, texts: Iterable[str], *, chunk_size: int = CHUNK
    ) -> Iterator[FloatArray]:
        """The vectors of any number of texts, one matrix for each chunk, in order."""
        waiting = iter(texts)
        while chunk := list(islice(waiting, chunk_size)):
            yield self.encode(chunk)

    def encode_ids(self, ids: Sequence[IdArray]) -> FloatArray:
        """The vectors of texts that are token ids already, [CLS] and [SEP] included."""
        return self._encoder.vectors(ids)

    def count_truncated(self, texts: Sequence[str]) -> int:
        """How many texts are longer than the model reads."""
        return int(self._tokenizer(texts).truncated.sum())

    def token_counts(self, texts: Sequence[str]) -> IntArray:
        """How many tokens of each text the model sees."""
        return self._tokenizer(texts).lengths

    def _encode_chunk(self, chunk: _Chunk) -> Iterator[tuple[IntArray, FloatArray]]:
        tokens = self._tokenizer(chunk.unique)
        self.truncated += int(chunk.copies[tokens.truncated].sum())
        return self._encoder.batches(tokens.ids)


def load_encoder(
    model: str | ModelSource = DEFAULT_MODEL,
    *,
    precision: Precision = "auto",
    device: str = "auto",
    threads: int = 0,
) -> Encoder:
    """Find, check and load a model; ``threads = 0`` takes every physical core."""
    source = resolve_model(model) if isinstance(model, str) else model
    hardware = choose_hardware(device, precision, threads)
    if is_model_folder(source.path):
        from kglink.models.two_towers import load_two_towers

        return load_two_towers(source, hardware)
    return Encoder(source, load_states(source, hardware), hardware)


def load_states(source: ModelSource, hardware: Hardware) -> StateModel:
    """The model of a folder of Hugging Face, for searching."""
    dtype, device = DTYPES[hardware.precision], torch.device(hardware.device)
    config = read_json(source.path / "config.json")
    if not is_plain_bert(config):
        return load_padded(source, dtype, device)
    try:
        return PackedBert(config, read_weights(source), dtype, device)
    except (KeyError, RuntimeError, ValueError) as error:
        raise ModelError(
            f"{source.path}: the weights do not fit config.json: {error}",
            hint="Give weights and configuration of one and the same model.",
        ) from error


def read_weights(source: ModelSource) -> dict[str, Tensor]:
    """All tensors of a model folder."""
    try:
        return {name: value for path in source.weights for name, value in load_file(path).items()}
    except SafetensorError as error:
        raise ModelError(f"{source.path}: the weights cannot be read: {error}") from error


def _lengths(ids: Sequence[IdArray]) -> IntArray:
    return np.fromiter((len(text) for text in ids), np.int64, len(ids))


def _unique(texts: Sequence[str]) -> _Chunk:
    """Each text once, in order of first appearance."""
    places: dict[str, int] = {}
    inverse = np.fromiter((places.setdefault(t, len(places)) for t in texts), np.int64, len(texts))
    return _Chunk(list(places), inverse, np.bincount(inverse, minlength=len(places)))


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
