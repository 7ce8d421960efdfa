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

from kglink.encoding.bert import PackedBert, is_plain_bert
from kglink.encoding.hardware import Hardware, Precision, choose_hardware
from kglink.encoding.models import DEFAULT_MODEL, ModelSource, read_json, resolve_model
from kglink.encoding.padded import load_padded
from kglink.encoding.tokenise import TextTokenizer, Tokens
from kglink.errors import ModelError, UsageError

FloatArray = npt.NDArray[np.float32]
IntArray = npt.NDArray[np.int64]
#: Called with the number of texts that were finished since the last call.
Progress = Callable[[int], None]

#: Texts that are sorted by length together; bounds the memory of a stream.
CHUNK = 8192
#: Tokens of one batch. It does not depend on the number of threads, so results do not either.
_CPU_TOKENS = 1024
_GPU_TOKENS = 65536

_DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


class PooledModel(Protocol):
    """A model that turns texts, as tokens laid end to end, into one vector each."""

    dim: int

    def pool(self, ids: Tensor, lengths: Sequence[int]) -> Tensor:
        """An fp32 matrix with one row for each text."""
        ...


class _Chunk(NamedTuple):
    """A chunk without its duplicates: text i of the chunk is ``unique[inverse[i]]``."""

    unique: list[str]
    inverse: IntArray
    copies: IntArray


class Encoder:
    """Encodes texts with one model; the same list of texts gives the same bytes every time.

    ``truncated`` counts the texts, so far, that were longer than ``max_tokens`` and lost their
    end. Batches run on single-threaded workers: a batch is large enough to keep a core busy, and
    cores that never wait for each other are faster than cores that share every small product.
    """

    def __init__(self, source: ModelSource, model: PooledModel, hardware: Hardware) -> None:
        self.source = source
        self.hardware = hardware
        self.dim = model.dim
        self.fingerprint = source.fingerprint
        self.max_tokens = source.max_tokens
        self.truncated = 0
        self._model = model
        self._device = torch.device(hardware.device)
        self._tokenizer = TextTokenizer(source)
        self._workers: ThreadPoolExecutor | None = None

    def encode(self, texts: Sequence[str], *, progress: Progress | None = None) -> FloatArray:
        """The L2-normalised vectors of all texts, an (n, dim) matrix."""
        if isinstance(texts, str):
            raise UsageError("encode takes a list of texts, not one text", hint="Use [text].")
        chunks = list(self.encode_stream(texts, progress=progress))
        return np.concatenate(chunks) if chunks else np.empty((0, self.dim), np.float32)

    def encode_stream(
        self, texts: Iterable[str], *, chunk_size: int = CHUNK, progress: Progress | None = None
    ) -> Iterator[FloatArray]:
        """The vectors of any number of texts, one matrix for each chunk, in order."""
        waiting = iter(texts)
        while chunk := list(islice(waiting, chunk_size)):
            yield self._encode_chunk(_unique(chunk), progress or (lambda _: None))

    def count_truncated(self, texts: Sequence[str]) -> int:
        """How many texts are longer than the model reads."""
        return int(self._tokenizer(texts).truncated.sum())

    def token_counts(self, texts: Sequence[str]) -> IntArray:
        """How many tokens of each text the model sees."""
        return self._tokenizer(texts).lengths

    def _encode_chunk(self, chunk: _Chunk, progress: Progress) -> FloatArray:
        tokens = self._tokenizer(chunk.unique)
        self.truncated += int(chunk.copies[tokens.truncated].sum())
        batches = _plan(tokens.lengths, _CPU_TOKENS if self._device.type == "cpu" else _GPU_TOKENS)
        vectors = np.empty((len(chunk.unique), self.dim), np.float32)
        for rows, part in zip(batches, self._run(tokens, batches), strict=True):
            vectors[rows] = part
            progress(int(chunk.copies[rows].sum()))
        return vectors[chunk.inverse]

    def _run(self, tokens: Tokens, batches: Sequence[IntArray]) -> Iterator[FloatArray]:
        if self._workers is None:
            # A GPU takes one batch at a time; more workers would only queue.
            count = self.hardware.threads if self._device.type == "cpu" else 1
            self._workers = _single_threaded_workers(count)
        return self._workers.map(lambda rows: self._encode_batch(tokens, rows), batches)

    def _encode_batch(self, tokens: Tokens, rows: IntArray) -> FloatArray:
        texts = [tokens.ids[row] for row in rows]
        with torch.inference_mode():
            ids = torch.from_numpy(np.concatenate(texts)).to(self._device)
            pooled = self._model.pool(ids, [len(text) for text in texts])
            vectors: FloatArray = torch.nn.functional.normalize(pooled).cpu().numpy()
        if not np.isfinite(vectors).all():
            raise ModelError(
                f"{self.source.name}: the model gives vectors that are not finite",
                hint="Its weights are broken, or too large for this precision: try fp32.",
            )
        return vectors


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
    return Encoder(source, _load_model(source, hardware), hardware)


def _load_model(source: ModelSource, hardware: Hardware) -> PooledModel:
    dtype, device = _DTYPES[hardware.precision], torch.device(hardware.device)
    config = read_json(source.path / "config.json")
    if not is_plain_bert(config):
        return load_padded(source, dtype, device)
    try:
        weights = {k: v for path in source.weights for k, v in load_file(path).items()}
        return PackedBert(config, weights, source.pooling, dtype, device)
    except SafetensorError as error:
        raise ModelError(f"{source.path}: the weights cannot be read: {error}") from error
    except (KeyError, RuntimeError, ValueError) as error:
        raise ModelError(
            f"{source.path}: the weights do not fit config.json: {error}",
            hint="Give weights and configuration of one and the same model.",
        ) from error


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


def _single_threaded_workers(count: int) -> ThreadPoolExecutor:
    """Threads whose torch operations use one core each."""
    before = torch.get_num_threads()
    workers = ThreadPoolExecutor(count, "encode", torch.set_num_threads, (1,))
    everyone = threading.Barrier(count)
    list(workers.map(lambda _: everyone.wait(), range(count)))
    # The calls in the workers also changed what threads of the rest of the program start with.
    torch.set_num_threads(before)
    return workers
