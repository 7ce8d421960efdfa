"""Scores of a batch: each mention against its own columns, or all against all."""

from __future__ import annotations

import torch
from torch import Tensor

from kglink.plugins import Encoded, Scorer
from kglink.training.collate import Columns

#: Token matrices of candidates that are laid out for a scorer at once, in numbers.
_MOST_NUMBERS = 1 << 26


def column_scores(scorer: Scorer, mentions: Encoded, entities: Encoded, columns: Columns) -> Tensor:
    """One row of scores for each mention, -inf where a column takes no part."""
    device = mentions.states.device
    places = torch.from_numpy(columns.places).to(device)
    masked = torch.from_numpy(columns.masked).to(device)
    if places.ndim == 1:
        scores = scorer.score(mentions, entities)
        if len(places) != scores.shape[1] or not bool(
            (places == torch.arange(len(places), device=device)).all()
        ):
            scores = scores.index_select(1, places)
    elif mentions.states.shape[1] == entities.states.shape[1] == 1:
        # One vector each: all against all is the cheapest way to the few that are wanted.
        scores = scorer.score(mentions, entities).gather(1, places.clamp(min=0))
    else:
        scores = own_scores(scorer, mentions, take(entities, places.clamp(min=0)))
    return scores.masked_fill(masked, -torch.inf)


def take(entities: Encoded, places: Tensor) -> Encoded:
    """The candidates of each mention, (mentions, candidates, length, dim)."""
    flat = places.reshape(-1)
    states = entities.states.index_select(0, flat)
    mask = entities.mask.index_select(0, flat)
    count, width = places.shape
    return Encoded(
        states.view(count, width, *states.shape[1:]), mask.view(count, width, mask.shape[1])
    )


def own_scores(scorer: Scorer, mentions: Encoded, candidates: Encoded) -> Tensor:
    """Every mention against candidates of its own, (mentions, candidates)."""
    numbers = candidates.states[0].numel() if len(candidates.states) else 1
    chunk = max(1, _MOST_NUMBERS // max(1, numbers))

    def one(states: Tensor, mask: Tensor, others: Tensor, other_mask: Tensor) -> Tensor:
        own = Encoded(states.unsqueeze(0), mask.unsqueeze(0))
        return scorer.score(own, Encoded(others, other_mask)).squeeze(0)

    scored: Tensor = torch.func.vmap(one, chunk_size=chunk)(*mentions, *candidates)
    return scored
