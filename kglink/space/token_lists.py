"""Which entities of a large KB are worth comparing with a mention token by token.

The vectors of all tokens are gathered around centroids (k-means), and each centroid lists the
entities that have a token near it. A token of a mention looks into the lists of its nearest
centroids: an entity there gains by how much nearer that centroid is than the first one that was
left out (as in WARP). The entities that gain most are then compared by their own tokens.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Self

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 - the name that torch's documentation uses
from torch import Tensor

from kglink.arrays import IntArray
from kglink.files.atomic import atomic_file
from kglink.files.tables import ColumnWriter, map_array, map_column, map_offsets
from kglink.models.hardware import BF16_FLAGS
from kglink.models.runtime import TokenMatrices, as_bf16, maxima
from kglink.processor import cpu_flags
from kglink.space.manifest import space_errors
from kglink.space.token_rows import TokenRows

#: KBs with fewer tokens are compared whole.
LEAST_TOKENS = 10_000_000
CENTROIDS_FILE = "token_centroids.npy"
_STARTS_FILE, _ENTITIES_FILE = "token_list_starts.npy", "token_list_entities.npy"
#: The centroid of each token, as far as they are found; not needed any more when lists are there.
_NEAREST_FILE = "tokens.nearest"
#: Centroids: this times the root of the tokens, a multiple of the second, at most the third.
_PER_ROOT, _BLOCK, _MOST_CENTROIDS = 4, 128, 16_384
#: Tokens for each centroid that k-means reads, and how often.
_SAMPLE, _ROUNDS = 48, 6
#: Tokens that find their centroid at once, that are written at once, and entries sorted at once.
_TOGETHER, _WRITTEN, _SORTED = 256, 1 << 16, 1 << 24
#: Most lists that a token reads, and most entries; the first list is always read.
_LISTS, _ENTRIES = 32, 50_000
#: Least gain of an entity that stands in a list that is read.
_FOUND = 1e-6


class TokenLists:
    """The lists of a KB, memory-mapped."""

    def __init__(self, tokens: TokenRows) -> None:
        folder = tokens.folder
        with space_errors():
            entries = len(map_array(folder / _ENTITIES_FILE))
            starts = map_offsets(folder / _STARTS_FILE, entries)
            self._entities = map_column(folder / _ENTITIES_FILE, np.int32, (entries,))
            shape = (len(starts) - 1, tokens.dim)
            centroids = map_column(folder / CENTROIDS_FILE, np.float32, shape)
        # Of equal centroids one alone has entities.
        full = np.flatnonzero(np.diff(starts))
        self._starts, self._stops = starts[full], starts[full + 1]
        self._centroids = torch.from_numpy(centroids[full])
        self._count = len(tokens)

    @classmethod
    def of(cls, tokens: TokenRows) -> Self | None:
        """The lists of a KB; None of one that is compared whole."""
        return cls(tokens) if (tokens.folder / CENTROIDS_FILE).is_file() else None

    def nearest(
        self, mention: TokenMatrices, *, cosine: bool, count: int, rows: IntArray
    ) -> IntArray:
        """About the ``count`` of some entities that are nearest to a mention's tokens, in order."""
        states = as_bf16(mention.bits).float()
        if cosine:
            states = F.normalize(states, dim=1)
        gains = np.zeros(self._count, np.float32)
        gain = np.empty_like(gains)
        best, centroids = (states @ self._centroids.T).topk(min(_LISTS + 1, len(self._centroids)))
        for scores, numbers in zip(best.numpy(), centroids.numpy(), strict=True):
            starts, stops = self._starts[numbers], self._stops[numbers]
            fit = int(np.searchsorted(np.cumsum(stops - starts), _ENTRIES, side="right"))
            lists = [self._entities[slice(*ends)] for ends in zip(starts, stops, strict=True)]
            looked_into = range(min(max(1, fit), _LISTS, len(lists)))
            least = scores[min(looked_into.stop, len(lists) - 1)]
            for at in reversed(looked_into):  # of the lists of an entity the best one counts
                gain[lists[at]] = scores[at] - least + _FOUND
            found = np.concatenate([lists[at] for at in looked_into])
            gains[found] = gains[found] + gain[found]
        there = rows[gains[rows] > 0]
        if len(there) > count:  # of equals the first
            own = gains[there]
            bar = np.partition(own, -count)[-count]
            best, equal = there[own > bar], there[own == bar]
            there = np.sort(np.concatenate([best, equal[: count - len(best)]]))
        return there


def write_token_lists(tokens: TokenRows) -> Iterator[int]:
    """Write the lists of a large KB; yields how many tokens have found their centroid.

    After kill -9 it goes on from there.
    """
    folder = tokens.folder
    path = folder / _NEAREST_FILE
    if tokens.tokens < LEAST_TOKENS or (folder / _STARTS_FILE).is_file():
        path.unlink(missing_ok=True)
        return
    if not (folder / CENTROIDS_FILE).is_file():
        yield 0
        with atomic_file(folder / CENTROIDS_FILE) as out:
            np.save(out, _means(tokens).numpy())
    centroids = torch.from_numpy(np.load(folder / CENTROIDS_FILE))
    with path.open("ab") as out:
        done = out.tell() // 4 if out.tell() <= 4 * tokens.tokens else 0
        out.truncate(done * 4)
        while done < tokens.tokens:
            places = np.arange(done, min(done + _WRITTEN, tokens.tokens))
            out.write(_nearest(_states(tokens, places), centroids).int().numpy().data)
            out.flush()
            os.fsync(out.fileno())
            done += len(places)
            yield done
    _write_lists(tokens, np.memmap(path, np.int32, "r"), len(centroids))
    path.unlink()


def _write_lists(tokens: TokenRows, nearest: IntArray, count: int) -> None:
    """Write which entities have a token near each centroid, some centroids at a time."""
    parts = [(at, nearest[at : at + _SORTED]) for at in range(0, len(nearest), _SORTED)]
    ends = np.cumsum(sum(np.bincount(part, minlength=count) for _, part in parts))
    lengths = np.zeros(count, np.int64)
    first = 0
    with ColumnWriter(tokens.folder / _ENTITIES_FILE, np.int32) as out:
        while first < count:
            most = (ends[first - 1] if first else 0) + _SORTED
            stop = max(first + 1, int(np.searchsorted(ends, most, side="right")))
            places = np.concatenate(
                [at + np.flatnonzero((part >= first) & (part < stop)) for at, part in parts]
            )
            owners = np.searchsorted(tokens.starts, places, side="right") - 1
            pairs = np.unique(nearest[places].astype(np.int64) << 32 | owners)
            lengths[first:stop] = np.bincount((pairs >> 32) - first, minlength=stop - first)
            out.add((pairs & 0xFFFF_FFFF).astype(np.int32))
            first = stop
    with atomic_file(tokens.folder / _STARTS_FILE) as starts:
        np.save(starts, np.concatenate([[0], np.cumsum(lengths)]))


def _means(tokens: TokenRows) -> Tensor:
    """The centroids that k-means finds, by tokens from all places."""
    wanted = min(_MOST_CENTROIDS, int(_PER_ROOT * tokens.tokens**0.5))
    count = max(1, wanted // _BLOCK) * _BLOCK
    size = min(tokens.tokens, _SAMPLE * count)
    sample = _states(tokens, np.arange(size) * tokens.tokens // size)
    found = sample[torch.arange(count) * size // count].float()
    for _ in range(_ROUNDS):
        nearest = _nearest(sample, found)
        sums = torch.zeros_like(found)
        for own, part in zip(
            torch.split(nearest, _WRITTEN), torch.split(sample, _WRITTEN), strict=True
        ):
            sums.index_add_(0, own, part.float())
        sizes = torch.bincount(nearest, minlength=count)[:, None]
        found = torch.where(sizes > 0, sums / sizes.clamp(min=1), found)
    return found


def _states(tokens: TokenRows, places: IntArray) -> Tensor:
    """Some vectors, as the processor multiplies them fastest."""
    states = as_bf16(tokens.vectors(places))
    return states if BF16_FLAGS & cpu_flags() else states.float()


def _nearest(states: Tensor, centroids: Tensor) -> Tensor:
    """The number of the centroid at the least distance from each token.

    The greatest of each block of centroids is found first: several times faster than the place of
    the greatest of all.
    """
    weights = centroids.to(states.dtype)
    less = (centroids.square().sum(dim=1) / -2).to(states.dtype)
    numbers = []
    for part in torch.split(states, _TOGETHER):
        blocks = F.linear(part, weights, less).view(len(part), _BLOCK, -1)
        column = maxima(blocks).argmax(dim=1)
        row = blocks[torch.arange(len(part)), :, column].argmax(dim=1)
        numbers.append(row * blocks.shape[2] + column)
    return torch.cat(numbers)
