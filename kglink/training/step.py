"""One step of a stage: negatives, encoding, scores, loss, and the update of the parameters."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple, cast

import numpy as np
import torch
from torch import Tensor

from kglink.errors import ConfigError, TrainingError
from kglink.files.tables import IntArray
from kglink.models.bi_encoder import BiEncoder, Pair, ViewMode
from kglink.models.tower import join, split
from kglink.models.transformation import Ascent
from kglink.plugins import (
    Encoded,
    MentionSampler,
    Objective,
    Registry,
    Sampler,
    Scorer,
    TaughtObjective,
)
from kglink.records import OnProgress
from kglink.training.batch import (
    Columns,
    MentionBatch,
    batch_among_mentions,
    choose_golds,
    column_scores,
    columns_of,
    mention_batch,
    overlap_masks,
    own_columns,
)
from kglink.training.data import TrainingData
from kglink.training.encoded_pool import EncodedPool
from kglink.training.negatives import Negatives
from kglink.training.pool import as_ids
from kglink.training.processes import Encoding, Team, Texts
from kglink.training.recipe import DescentSection, LossMode, OverlapSection, StageSection
from kglink.training.stages import Batch, Stage
from kglink.training.teacher import Teacher

_VIEWS: Mapping[LossMode, ViewMode] = {
    "both": "both",
    "only_prime": "transformed",
    "base": "plain",
}
_NOBODY = Texts((), ())


class Done(NamedTuple):
    """The result of a step."""

    loss: float
    rate: float
    texts: int
    """Mentions, or pairs, of the batch."""
    views: tuple[float, ...] = ()
    """The loss as it is (L), and as the transformation makes it (L'), where both are learnt."""


class Tools(NamedTuple):
    """What all stages share."""

    model: BiEncoder
    scorer: Scorer
    data: TrainingData
    registry: Registry
    team: Team
    seed: int
    teacher: Teacher | None = None
    """Scores the candidates of objectives that learn from a teacher."""


class Trainer:
    """Trains one stage, a step at a time; each step has its own random seed."""

    def __init__(self, tools: Tools, stage: Stage, number: int) -> None:
        self._tools = tools
        self._stage = stage
        self._number = number
        section = stage.section
        self._objective = _objective(tools.registry, section, tools.teacher is not None)
        model = tools.model
        entities = isinstance(section, StageSection) and section.freeze_entities
        model.freeze(embeddings=section.freeze_embeddings, entities=entities)
        model.transformation = None
        self.ascent = self._adversary(section)
        groups = model.parameter_groups(section.weight_decay)
        self.optimiser = torch.optim.AdamW(groups, lr=section.learning_rate)
        self._theta = [parameter for group in groups for parameter in group["params"]]
        self._negatives = self._make_negatives()

    @property
    def most_texts(self) -> int:
        """Most texts that one process encodes in a step."""
        section = self._stage.section
        from_pool = any(not one.are_from_batch for one in self._negatives.values())
        own = section.negatives if isinstance(section, StageSection) and from_pool else 0
        return -(-section.batch * (2 + own) // self._tools.team.count)

    @property
    def order_seed(self) -> tuple[int, int]:
        """The seed of the batches' order, without the epoch."""
        return self._tools.seed, self._number

    def mined_files(self, folder: Path, epoch: int) -> dict[str, Path]:
        """Files of an epoch's mined negatives, by the letter of the group."""
        section = self._stage.section
        if not isinstance(section, StageSection):
            return {}
        refreshed = epoch - epoch % section.refresh_epochs
        return {
            letter: folder / f"negatives-{self._number}-{refreshed}-{letter}.npy"
            for letter, negatives in self._negatives.items()
            if negatives.are_mined
        }

    def mine(
        self,
        pool: EncodedPool,
        files: Mapping[str, Path],
        epoch: int,
        progress: OnProgress = lambda _: None,
    ) -> list[str]:
        """Search negatives with the current model; returns what the user should know."""
        notes: list[str] = []
        for letter, path in files.items():
            notes += self._negatives[letter].mine(pool, path, self._chance(epoch, -1), progress)
        return notes

    def open_mined(self, files: Mapping[str, Path]) -> None:
        """Use mined negatives."""
        for letter, path in files.items():
            self._negatives[letter].open(path)

    def step(self, batch: Batch, epoch: int, step: int) -> Done:
        """Learn from one batch."""
        tools, section = self._tools, self._stage.section
        tools.model.train()
        climbs_first = self.ascent is not None and self.ascent.steps > 1
        if climbs_first:
            self._climb(batch, epoch, step)
        views = self._gradients(batch, epoch, step)
        loss = sum(views)
        norm = self._clip(section.clip)
        if not (np.isfinite(loss) and bool(torch.isfinite(norm))):
            raise self._no_number(batch, epoch, step, loss)
        done = epoch * self._stage.steps_per_epoch + step
        rate = rate_at(done, self._stage.steps, section)
        for group in self.optimiser.param_groups:
            group["lr"] = rate
        self.optimiser.step()
        self.optimiser.zero_grad(set_to_none=True)
        if self.ascent is not None and climbs_first:
            self.ascent.stay()
        elif self.ascent is not None:
            self.ascent.step()
        both = tuple(views) if len(views) > 1 else ()
        return Done(loss, rate, sum(len(part) for part in batch.parts), both)

    def _gradients(self, batch: Batch, epoch: int, step: int) -> list[float]:
        """Compute the losses and gradients of a batch; repeated calls use the same randomness."""
        tools = self._tools
        torch.manual_seed(self._seed(epoch, step, 1 + tools.team.rank))
        rng = self._chance(epoch, step)
        weight = 1 / len(batch.parts)
        parts = [self._backward(batch, part, rng, weight) for part in batch.parts]
        tools.team.sum_gradients(tools.model.parameters())
        return [sum(view) for view in zip(*parts, strict=True)]

    def _climb(self, batch: Batch, epoch: int, step: int) -> None:
        """Update the transformation on this batch, with frozen towers."""
        assert self.ascent is not None  # noqa: S101 - who calls has asked
        for parameter in self._theta:
            parameter.requires_grad_(False)
        for _ in range(self.ascent.steps):
            self._gradients(batch, epoch, step)
            self.ascent.step()
        for parameter in self._theta:
            parameter.requires_grad_(True)

    def _backward(
        self, batch: Batch, part: IntArray, rng: np.random.Generator, weight: float
    ) -> list[float]:
        section = self._stage.section
        if isinstance(section, OverlapSection):
            return self._overlaps(section, part, weight)
        return self._mentions(section, batch, part, rng, weight)

    def _mentions(
        self,
        section: StageSection,
        batch: Batch,
        part: IntArray,
        rng: np.random.Generator,
        weight: float,
    ) -> list[float]:
        """Stages S and T."""
        tools, data = self._tools, self._tools.data
        negatives = self._negatives[batch.group.letter]
        golds, excluded = choose_golds(data, batch.group.rows, part, rng)
        drawn = negatives.of(part, golds, excluded, rng)
        if negatives.are_among_mentions:
            whole = batch_among_mentions(part, golds, excluded, drawn, len(data.pool))
        else:
            whole = mention_batch(part, golds, excluded, drawn)
        if whole.others is not None and len(whole.others):
            part = np.concatenate([part, whole.others])
            golds, _ = choose_golds(data, batch.group.rows, part)
        rows = ScoreRows(tools.scorer, self._objective, section, negatives, whole, rng)
        view = _VIEWS[section.loss_mode] if self.ascent is not None else "plain"
        encoding = Encoding(tools.model, tools.team, view, section.micro_batch)
        mentions = as_ids(data.train.tokens.take(part.tolist()))
        return encoding.backward(
            Texts(mentions, self._domains(golds)), self._entities(whole.entities), rows.loss, weight
        )

    def _overlaps(self, section: OverlapSection, part: IntArray, weight: float) -> list[float]:
        """Stage O: both members of a pair through the entity tower (Bosch, eq. 2)."""
        tools = self._tools
        pairs = tools.data.pairs[part]
        masked, right = (
            torch.from_numpy(cells).to(tools.model.device)
            for cells in overlap_masks(pairs, tools.data)
        )

        def loss_of(pair: Pair) -> Tensor:
            assert pair.entities is not None  # noqa: S101 - entities are all that was encoded
            states, mask = pair.entities
            half = len(pairs)
            lefts, rights = Encoded(states[:half], mask[:half]), Encoded(states[half:], mask[half:])
            scores = tools.scorer.score(lefts, rights).float()
            return self._objective.loss(scores.masked_fill(masked, -torch.inf), right)

        encoding = Encoding(tools.model, tools.team, "plain", section.micro_batch)
        entities = self._entities(np.concatenate([pairs[:, 0], pairs[:, 1]]))
        return encoding.backward(_NOBODY, entities, loss_of, weight)

    def _entities(self, rows: IntArray) -> Texts:
        return Texts(as_ids(self._tools.data.pool.tokens.take(rows.tolist())), self._domains(rows))

    def _domains(self, rows: IntArray) -> list[int]:
        if self.ascent is None:
            return []
        domains: list[int] = self._tools.data.pool.domains[rows].tolist()
        return domains

    def _adversary(self, section: StageSection | OverlapSection) -> Ascent | None:
        if not isinstance(section, StageSection) or section.transformation is None:
            return None
        if section.loss_mode == "base":
            return None
        domains = self._tools.data.pool.domain_count
        model = self._tools.model
        added = model.add_transformation(
            section.transformation, domains=domains, seed=self._seed(0, 0, 0)
        )
        return Ascent(added)

    def _make_negatives(self) -> dict[str, Negatives]:
        section, tools = self._stage.section, self._tools
        if not isinstance(section, StageSection):
            return {}
        sampler = _sampler(tools.registry, section)
        teacher = tools.teacher if _needs_teacher(self._objective) else None
        return {
            group.letter: Negatives(tools.data, group, section, sampler, teacher)
            for group in self._stage.groups
        }

    def _clip(self, longest: float) -> Tensor:
        norm: Tensor = torch.nn.utils.clip_grad_norm_(self._theta, longest or torch.inf)
        return norm

    def _seed(self, *place: int) -> int:
        facts = [self._tools.seed, self._number, *place]
        return int(np.random.SeedSequence(facts).generate_state(1, np.uint64)[0] >> 1)

    def _chance(self, epoch: int, step: int) -> np.random.Generator:
        return np.random.default_rng(self._seed(epoch, step + 1, 0))

    def _no_number(self, batch: Batch, epoch: int, step: int, loss: float) -> TrainingError:
        kind = "overlaps" if batch.group.letter == "O" else "mentions"
        items = np.concatenate(batch.parts).tolist()
        shown = ", ".join(map(str, items[:8])) + (", ..." if len(items) > 8 else "")
        what = f"the loss is {loss}" if not np.isfinite(loss) else "a gradient is not finite"
        return TrainingError(
            f"stage {self._stage.name}, epoch {epoch + 1}, step {step + 1}: {what} "
            f"({kind} {shown} of {batch.group.letter})",
            hint="The last checkpoint is good, and --resume goes on from it if chance was to blame "
            "(memory, a GPU). Else begin a new run with a lower learning_rate, or with "
            "encoder.precision = fp32, and look at the texts of this batch.",
        )


def check_sections(
    sections: Iterable[StageSection | OverlapSection],
    model: BiEncoder,
    registry: Registry,
    *,
    taught: bool = False,
) -> None:
    """Check the plugins and settings of all stages before the first one starts.

    ``taught``: there is a teacher.
    """
    for section in sections:
        _objective(registry, section, taught)
        if isinstance(section, StageSection):
            _check_mention_sampler(_sampler(registry, section), section, model)
            if section.transformation is not None:
                for tower in model.towers():
                    tower.check_layer(section.transformation.layer)


def _sampler(registry: Registry, section: StageSection) -> Sampler:
    sampler: Sampler = registry.create("sampler", section.sampler, section.sampler_settings)
    from_batch = section.negatives > 0 and bool(getattr(sampler, "in_batch", False))
    if from_batch and section.columns != "own":
        raise ConfigError(
            f"sampler {section.sampler} chooses among the golds of the batch, and columns = "
            f"{section.columns!r} adds other columns",
            hint="Set columns = 'own'; or negatives = 0 and columns = 'in_batch'.",
        )
    return sampler


def _check_mention_sampler(sampler: Sampler, section: StageSection, model: BiEncoder) -> None:
    """A sampler that compares mentions with each other has vectors and columns of its own."""
    if not isinstance(sampler, MentionSampler):
        return
    if section.columns != "own":
        raise ConfigError(
            f"sampler {section.sampler} compares mentions with each other too, and columns = "
            f"{section.columns!r} has entities alone",
            hint="Set columns = 'own', and negatives.",
        )
    if model.settings.pooling == "tokens":
        raise ConfigError(
            f"sampler {section.sampler} compares mentions with each other by one vector of each, "
            "and pooling = 'tokens' makes one of every token",
            hint="Set model.pooling to cls, mean or span, with a scorer that reads such vectors.",
        )


def _objective(
    registry: Registry, section: StageSection | OverlapSection, taught: bool
) -> Objective:
    objective = registry.create("objective", section.objective, section.objective_settings)
    if not _needs_teacher(objective):
        return objective
    if isinstance(section, OverlapSection) or not taught:
        raise ConfigError(
            f"objective {section.objective} learns from a teacher, and there is none",
            hint="Stages S and T have one where `teacher` names the folder of a reranker; else "
            "take another objective, such as nce.",
        )
    sampler = _sampler(registry, section)
    searched = bool(getattr(sampler, "by_score", False)) and not getattr(sampler, "in_batch", False)
    if section.columns != "own" or not searched or isinstance(sampler, MentionSampler):
        raise ConfigError(
            f"objective {section.objective} learns what a teacher says of the candidates of each "
            f"mention, and sampler {section.sampler} with columns = {section.columns!r} has none "
            "to ask it about",
            hint="Set columns = 'own', sampler = 'hard_in_domain', and negatives.",
        )
    return objective


def _needs_teacher(objective: Objective) -> bool:
    return bool(getattr(objective, "needs_teacher", False))


def rate_at(step: int, steps: int, section: DescentSection) -> float:
    """The learning rate of step ``step`` (from 0) of ``steps``."""
    climbing = round(section.warm_up * steps)
    if step < climbing:
        return section.learning_rate * (step + 1) / climbing
    if section.decay == "none":
        return section.learning_rate
    return section.learning_rate * (steps - step) / (steps - climbing)


class ScoreRows:
    """Computes the loss of a batch from its encoded texts.

    Both views of a batch, plain and transformed, have the same negatives.
    """

    def __init__(
        self,
        scorer: Scorer,
        objective: Objective,
        section: StageSection,
        negatives: Negatives,
        batch: MentionBatch,
        rng: np.random.Generator,
    ) -> None:
        self._scorer = scorer
        self._objective = objective
        self._negatives = negatives
        self._batch = batch
        self._rng = rng
        self._columns: Columns | None = None
        if not negatives.are_from_batch:
            self._columns = columns_of(batch, section)

    def loss(self, pair: Pair) -> Tensor:
        """The loss of one view."""
        mentions, entities = _sides(pair)
        if self._batch.others is not None:
            entities = join([entities, mentions])
            mentions = split(mentions, len(self._batch.mentions))[0]
        mixed = self._mixed(mentions, entities)
        if mixed is not None:
            return mixed
        if self._columns is None:
            self._columns = self._chosen(mentions, entities)
        scores = column_scores(self._scorer, mentions, entities, self._columns)
        positive = torch.from_numpy(self._columns.positive).to(scores.device)
        told = self._negatives.told(self._batch)
        if told is None:
            return self._objective.loss(scores.float(), positive)
        teacher = torch.from_numpy(told).to(scores.device)
        taught = cast("TaughtObjective", self._objective)
        return taught.loss(scores.float(), positive, teacher)

    def _mixed(self, mentions: Encoded, entities: Encoded) -> Tensor | None:
        """The loss with mixed negatives (AMH)."""
        if not self._negatives.are_from_batch:
            return None
        scores = self._negatives.mixed(self._batch, self._scorer, (mentions, entities))
        if scores is None:
            return None
        positive = torch.zeros_like(scores, dtype=torch.bool)
        positive[:, 0] = True
        return self._objective.loss(scores.float(), positive)

    def _chosen(self, mentions: Encoded, entities: Encoded) -> Columns:
        """The gold, and negatives from the batch, chosen by its scores."""
        with torch.no_grad():
            scores = self._scorer.score(mentions, entities).float().cpu().numpy()
        drawn = self._negatives.among(self._batch, scores, self._rng)
        return own_columns(self._batch, drawn)


def _sides(pair: Pair) -> tuple[Encoded, Encoded]:
    if pair.mentions is None or pair.entities is None:
        raise ValueError("a batch of mentions encodes both sides")
    return pair.mentions, pair.entities
