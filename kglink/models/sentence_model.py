"""Texts to vectors by sentence-transformers itself: any chain of its modules."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 - the name that torch's documentation uses

from kglink.arrays import FloatArray, IntArray
from kglink.errors import ModelError
from kglink.models.hardware import Hardware
from kglink.models.inputs import MAX_CHARS_PER_TOKEN, readable
from kglink.models.loading import library_errors, load_sentences
from kglink.models.runtime import TextVectors, not_finite, single_threaded_workers
from kglink.models.source import ModelSource
from kglink.models.tower import DTYPES
from kglink.models.towers import no_int8

#: Texts of a batch. It does not depend on the number of threads, so results do not either.
_CPU_TEXTS, _GPU_TEXTS = 32, 1024


class SentenceModel:
    """A model of sentence-transformers; its vectors have length one."""

    def __init__(self, source: ModelSource, hardware: Hardware) -> None:
        self._name, self._max_tokens = source.name, source.max_tokens
        self._static = source.chain.first.kind == "StaticEmbedding"
        if hardware.precision == "int8" and not self._static:
            raise no_int8(source)
        options = {} if self._static else {"model_kwargs": {"dtype": DTYPES[hardware.precision]}}
        self._model = load_sentences("SentenceTransformer", source, hardware.device, **options)
        found = self._model.get_embedding_dimension()
        if found != source.dim:
            raise ModelError(
                f"{source.path}: its modules say {source.dim} numbers a vector, and give {found}",
                hint="Give weights and configuration of one and the same model.",
            )
        self._dim, self._on_cpu = source.dim, hardware.device == "cpu"
        self._threads = hardware.threads if self._on_cpu else 1
        self._workers: ThreadPoolExecutor | None = None
        self._tokenizing = threading.Lock()  # one tokenizer cannot work in two threads

    def __call__(self, texts: Sequence[str], prompt: str) -> TextVectors:
        """Read texts, each behind the prompt."""
        most = self._max_tokens * MAX_CHARS_PER_TOKEN
        short = [readable(text[:most]) for text in texts]
        cut = np.fromiter((len(text) > most for text in texts), np.bool_, len(texts))
        if not self._static and texts:
            with library_errors("the tokenizer cannot read a text", self._name):
                prompted = [prompt + text for text in short]
                ids = self._model.tokenizer(prompted, truncation=False, verbose=False)["input_ids"]
            cut |= np.fromiter((len(one) > self._max_tokens for one in ids), np.bool_, len(ids))
        return cut, self._batches(short, prompt)

    def _batches(self, texts: Sequence[str], prompt: str) -> Iterator[tuple[IntArray, FloatArray]]:
        order = np.argsort([-len(text) for text in texts], kind="stable")
        size = _CPU_TEXTS if self._on_cpu else _GPU_TEXTS
        batches = [order[first : first + size] for first in range(0, len(order), size)]
        if self._workers is None:
            self._workers = single_threaded_workers(self._threads)
        parts = self._workers.map(lambda rows: self._vectors(texts, rows, prompt), batches)
        yield from zip(batches, parts, strict=True)

    def _vectors(self, texts: Sequence[str], rows: IntArray, prompt: str) -> FloatArray:
        device = self._model.device
        with torch.inference_mode(), library_errors("fails on a batch of texts", self._name):
            with self._tokenizing:
                read = self._model.preprocess([texts[row] for row in rows], prompt=prompt or None)
            read = {k: v.to(device) if isinstance(v, torch.Tensor) else v for k, v in read.items()}
            vectors = self._model(read)["sentence_embedding"][:, : self._dim].float()
            found: FloatArray = F.normalize(vectors).cpu().numpy()
        if not np.isfinite(found).all():
            raise not_finite(self._name)
        return found
