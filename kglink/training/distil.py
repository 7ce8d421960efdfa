"""Teaching a static model: the table of token vectors whose means are most like a model's vectors.

A text's vector is the mean of its tokens' rows. The rows that bring these means nearest to the
teacher's vectors, in least squares, solve one linear system, and nothing is left to chance.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import tokenizers
from scipy import sparse

from kglink.arrays import FloatArray
from kglink.models.inputs import IdArray
from kglink.records import OnProgress, Progress

if TYPE_CHECKING:
    from kglink.models import Encoder


#: How strongly the teacher's vector of a token alone draws its row: as much as this many texts.
PULL = 0.15
#: Steps after which little changed any more on 100,000 names.
ROUNDS = 12
#: Least part of the first residual that is worth another step.
_SMALL = 1e-4
#: A word gets a row of its own if this many names have it; at most this many words do.
LEAST_NAMES = 5
MOST_WORDS = 50_000


#: One text in this many is held out, to measure how like its teacher the model is.
_HELD_OUT = 50

#: Texts with the teacher's vectors of them, batch by batch.
Taught = Callable[[], Iterable[tuple[Sequence[str], FloatArray]]]


class Distilled(NamedTuple):
    """A static model, and how like its teacher it is."""

    table: FloatArray
    tokenizer: bytes
    names: int
    """How many it learnt from."""
    texts: int
    names_like: float | None
    """Mean cosine to the teacher's vectors of names that were held out; None: there were none."""
    texts_like: float | None
    """The same of longer texts."""


class Lesson(NamedTuple):
    """Some texts as token ids, and the teacher's vectors of them."""

    ids: Sequence[IdArray]
    vectors: FloatArray


def distilled(
    teacher: Encoder,
    tokenizer: bytes,
    names: Taught,
    texts: Taught,
    *,
    progress: OnProgress = lambda _: None,
) -> Distilled:
    """A static model of names and longer texts whose vectors are known; its tokens are encoded."""
    extended = with_words(tokenizer, (name for batch, _ in names() for name in batch))
    start = teacher.encode(token_texts(extended), progress=progress)
    reader = tokenizers.Tokenizer.from_str(extended.decode())
    reader.no_padding()
    reader.enable_truncation(teacher.max_tokens)
    start[reader.encode("").ids] = 0  # what stands around every text says nothing by itself
    lessons: list[Lesson] = []
    held_out: list[list[Lesson]] = []
    counts = []
    for taught in (names, texts):
        learnt = len(lessons)
        held_out.append([])
        for batch, vectors in taught():
            ids = [np.array(one.ids, np.int32) for one in reader.encode_batch_fast(list(batch))]
            kept = np.arange(len(ids)) % _HELD_OUT != _HELD_OUT - 1
            for chosen, target in ((kept, lessons), (~kept, held_out[-1])):
                rows = np.flatnonzero(chosen)
                target.append(Lesson([ids[row] for row in rows.tolist()], vectors[rows]))
            progress(Progress("reading names and texts", sum(len(one.ids) for one in lessons)))
        counts.append(sum(len(one.ids) for one in lessons[learnt:]))
    table = fit_table(start, lessons, progress=progress)
    likes = [_likeness(table, part) for part in held_out]
    return Distilled(table, extended, counts[0], counts[1], likes[0], likes[1])


def _likeness(table: FloatArray, lessons: Sequence[Lesson]) -> float | None:
    """The mean cosine of what the table says of texts to their vectors."""
    found = []
    for lesson in lessons:
        if lesson.ids:
            own = means(lesson.ids, len(table)) @ table
            lengths = np.linalg.norm(own, axis=1) * np.linalg.norm(lesson.vectors, axis=1)
            found += ((own * lesson.vectors).sum(axis=1) / np.maximum(lengths, 1e-12)).tolist()
    return round(float(np.mean(found)), 4) if found else None


def fit_table(
    start: FloatArray,
    lessons: Iterable[Lesson],
    *,
    pull: float = PULL,
    progress: OnProgress = lambda _: None,
) -> FloatArray:
    """The table that is nearest to all lessons, and to ``start`` where they say little.

    It minimises the squared distances of the means to the vectors, and ``pull`` times that of the
    table to ``start``, by conjugate gradients. Memory: six tables, and the ids of the lessons.
    """
    readings: list[sparse.csr_matrix] = []
    residual = np.zeros_like(start)
    weights = np.full(len(start), pull, np.float32)
    for lesson in lessons:
        if not lesson.ids:
            continue
        reading = means(lesson.ids, len(start))
        readings.append(reading)
        residual += reading.T @ (lesson.vectors - reading @ start)
        weights += np.asarray(reading.multiply(reading).sum(axis=0)).ravel()
    change = np.zeros_like(start)
    scaled = residual / weights[:, None]
    direction = scaled.copy()
    size = first = (residual * scaled).sum(axis=0)
    for step in range(ROUNDS):
        progress(Progress("fitting the table", step + 1, ROUNDS))
        image = pull * direction
        for reading in readings:
            image += reading.T @ (reading @ direction)
        length = size / np.maximum((direction * image).sum(axis=0), 1e-30)
        change += length * direction
        residual -= length * image
        scaled = residual / weights[:, None]
        before, size = size, (residual * scaled).sum(axis=0)
        if (size <= _SMALL**2 * first).all():
            break
        direction = scaled + size / np.maximum(before, 1e-30) * direction
    table: FloatArray = start + change
    return table


def means(ids: Sequence[IdArray], rows: int) -> sparse.csr_matrix:
    """The matrix that makes the mean of each text's tokens, of a table with ``rows`` rows."""
    lengths = np.fromiter((len(one) for one in ids), np.int64, len(ids))
    shares = np.repeat(1 / np.maximum(lengths, 1), lengths).astype(np.float32)
    starts = np.concatenate([[0], np.cumsum(lengths)])
    found = sparse.csr_matrix((shares, np.concatenate(ids), starts), shape=(len(ids), rows))
    found.sum_duplicates()
    return found


def with_words(tokenizer: bytes, names: Iterable[str]) -> bytes:
    """A tokenizer (tokenizer.json) that knows the words which many names have as one token each.

    Only one of word pieces can have them; another is given back as it is.
    """
    spec = json.loads(tokenizer)
    if spec["model"].get("type") != "WordPiece":
        return tokenizer
    reader, known = tokenizers.Tokenizer.from_str(tokenizer.decode()), spec["model"]["vocab"]
    counts: Counter[str] = Counter()
    for name in names:
        plain = reader.normalizer.normalize_str(name) if reader.normalizer else name
        counts.update({word for word, _ in reader.pre_tokenizer.pre_tokenize_str(plain)})
    often = [word for word, count in counts.items() if count >= LEAST_NAMES and word not in known]
    often.sort(key=lambda word: (-counts[word], word))
    last = max([*known.values(), *(one["id"] for one in spec.get("added_tokens", ()))])
    for row, word in enumerate(often[:MOST_WORDS], last + 1):
        known[word] = row
    return json.dumps(spec, ensure_ascii=False).encode()


def token_texts(tokenizer: bytes) -> list[str]:
    """What stands for each row of a vocabulary when the teacher is asked for it alone."""
    reader = tokenizers.Tokenizer.from_str(tokenizer.decode())
    rows = max(reader.get_vocab().values()) + 1
    decoded = (reader.decode([row], skip_special_tokens=False) for row in range(rows))
    return [text.removeprefix("##") for text in decoded]
