"""A cross-encoder: it reads a mention in its text and a candidate together, and says if they fit.

The input is BLINK's: the window of the mention, then the entity without its [CLS]. BLINK's released
models have padding between the two, which is masked and moves the positions of the entity's tokens:
where a model is ``padded``, they are moved alike. The answer is a logit beside that of "nothing
here", which is 0.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from kglink.arrays import FloatArray
from kglink.errors import ConfigError
from kglink.models.hardware import Hardware
from kglink.models.head_folder import RERANKER
from kglink.models.inputs import IdArray, Inputs
from kglink.models.runtime import SecondTexts, TokenEncoder
from kglink.models.source import positions_of, read_config
from kglink.models.towers import load_states
from kglink.records import Alias, Candidate, Entity, Ranking

#: Entities whose token ids are kept; then they are written anew.
_KEPT_ENTITIES = 100_000


class PairInputs:
    """Writes mentions with each of their candidates."""

    def __init__(self, inputs: Inputs) -> None:
        longest = inputs.settings.mention_tokens + inputs.settings.entity_tokens - 1
        positions = positions_of(read_config(inputs.source.path))
        if positions and longest > positions:
            raise ConfigError(
                f"mention_tokens and entity_tokens make {longest} tokens together, and "
                f"{inputs.source.name} has positions for {positions}",
                hint="Give less of one of them.",
            )
        self.inputs = inputs
        #: By the hash of all that is read of an entity, which an update of its KB may change.
        self._entities: dict[int, IdArray] = {}

    def pairs(self, rankings: Sequence[Ranking]) -> tuple[list[IdArray], list[int]]:
        """The token ids of all pairs, mention by mention, and where each candidate begins."""
        windows = self.inputs.mentions([one.mention for one in rankings])
        entities = [_entity(candidate) for one in rankings for candidate in one.candidates]
        numbers = list(map(hash, entities))
        wanted = dict(zip(numbers, entities, strict=True))
        if len(self._entities) + len(wanted) > _KEPT_ENTITIES:
            self._entities.clear()
        new = {number: one for number, one in wanted.items() if number not in self._entities}
        self._entities.update(zip(new, self.inputs.entities(new.values()), strict=True))
        before = [
            window for window, one in zip(windows, rankings, strict=True) for _ in one.candidates
        ]
        read = (self._entities[number] for number in numbers)
        return list(map(written_pair, before, read)), list(map(len, before))


def written_pair(window: IdArray, entity: IdArray) -> IdArray:
    """The token ids of a mention in its text, then those of a candidate."""
    return np.concatenate([window, entity[1:]])


@dataclass(frozen=True, slots=True)
class CrossEncoder:
    """Says of each candidate how well it fits its mention."""

    reader: PairInputs
    encoder: TokenEncoder
    head: Callable[[Tensor], Tensor]
    segments: bool
    padded: bool = False
    """Whether candidates begin where the longest mention would end."""

    @property
    def inputs(self) -> Inputs:
        """How it reads mentions and entities."""
        return self.reader.inputs

    def logits(self, rankings: Sequence[Ranking]) -> list[FloatArray]:
        """For each mention the logits of its candidates."""
        logits = self.logits_of(*self.reader.pairs(rankings))
        stops = np.cumsum([len(one.candidates) for one in rankings])
        return np.split(logits, stops[:-1]) if rankings else []

    def logits_of(self, pairs: Sequence[IdArray], seconds: Sequence[int]) -> FloatArray:
        """The logits of written pairs; ``seconds``: where the candidate begins in each."""
        at = self.inputs.settings.mention_tokens if self.padded else 0
        logits = self.encoder.firsts(
            pairs, self.head, SecondTexts(seconds, at) if self.segments else None
        )
        return logits.reshape(len(pairs))


def open_cross_encoder(folder: Path, hardware: Hardware) -> CrossEncoder:
    """The cross-encoder of a folder, its files checked."""
    manifest, source, head = RERANKER.open(folder, 1, hardware.device)
    answer = head_of(head["weight"], head["bias"], pooler_in(head, source.dim))
    states = load_states(source, hardware)
    inputs = Inputs(source, manifest.inputs, rows=states.rows, tag_ids=manifest.tag_ids)
    encoder = TokenEncoder(source.name, states, hardware, "cls")
    return CrossEncoder(
        *(PairInputs(inputs), encoder, answer),
        segments=manifest.segments,
        padded=manifest.padded,
    )


def pooler_in(weights: Mapping[str, Tensor], dim: int) -> nn.Linear | None:
    """The layer of these weights that BERT puts behind the state of the first token, if any."""
    found = {
        part: value
        for name, value in weights.items()
        for part in ("weight", "bias")
        if name.endswith(f"pooler.dense.{part}")
    }
    shapes = {part: tuple(value.shape) for part, value in found.items()}
    if shapes != {"weight": (dim, dim), "bias": (dim,)}:
        return None
    layer = nn.Linear(dim, dim, device=found["weight"].device).requires_grad_(requires_grad=False)
    layer.load_state_dict({part: value.float() for part, value in found.items()})
    return layer


def head_of(
    weight: Tensor, bias: Tensor, pooler: nn.Linear | None = None
) -> Callable[[Tensor], Tensor]:
    """Turns the states of first tokens into logits."""
    weight, bias = weight.detach().float(), bias.detach().float()
    return lambda states: pooled(states, pooler) @ weight.T + bias


def pooled(states: Tensor, pooler: nn.Linear | None) -> Tensor:
    """What a pooler makes of the states of first tokens; without one they are what is read."""
    return states if pooler is None else torch.tanh(pooler(states))


def _entity(candidate: Candidate) -> Entity:
    return Entity(
        key=candidate.id.key,
        title=candidate.title,
        description=candidate.description,
        type=candidate.type,
        aliases=tuple(Alias(surface) for surface in candidate.aliases),
    )
