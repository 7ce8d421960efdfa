"""The tasks S, T and O: mentions and entities, or two entities, are drawn together.

A step draws golds and negatives, encodes the batch, and computes its loss. Before an epoch hard
negatives are mined; after it recall on mentions that were held back is measured.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, cast

import numpy as np
import torch
from torch import Tensor

from kglink.arrays import IntArray
from kglink.errors import ConfigError, PluginError, TrainingError, errors_of
from kglink.models.bi_encoder import BiEncoder, Pair, ViewMode
from kglink.models.hardware import Hardware
from kglink.models.tower import join, scored, split
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
from kglink.training.data import TrainingData, as_ids
from kglink.training.encoded_pool import EncodedPool
from kglink.training.job import Note, Tell
from kglink.training.loop import EpochFigures, Task, advising, seed_of
from kglink.training.negatives import Negatives, Teacher
from kglink.training.processes import PairLoss, Team, Texts, add_gradients
from kglink.training.recipe import LossMode, OverlapSection, SelectionSection, StageSection
from kglink.training.stages import Stage, StepItems, batches_of
from kglink.training.validation import Recalls, judged_mentions, searched_rows, validate

_VIEWS: Mapping[LossMode, ViewMode] = {"both": "both", "only_prime": "transformed", "base": "plain"}


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
    selection: SelectionSection = SelectionSection()
    hardware: Hardware = Hardware("cpu", "fp32", 1)
    folder: Path = Path()
    """Where negatives and vectors of the run lie."""
    tell: Tell = lambda _: None


class PairTask(Task[StageSection | OverlapSection, StepItems]):
    """One stage of a run."""

    def __init__(self, tools: Tools, stage: Stage, number: int) -> None:
        self._tools = tools
        self._stage = stage
        self._number = number
        self._encoded: EncodedPool | None = None
        self.name, section, model = stage.name, stage.section, tools.model
        self.steps_per_epoch = stage.steps_per_epoch
        self.patience = tools.selection.patience
        self._held_back = len(judged_mentions(tools.data, tools.selection))
        self.keeps_best = isinstance(section, StageSection) or section.keep == "best"
        taught = tools.teacher is not None
        self._objective, sampler = _plugins(tools.registry, section, taught=taught)
        entities = isinstance(section, StageSection) and section.freeze_entities
        model.freeze(embeddings=section.freeze_embeddings, entities=entities)
        model.transformation = None
        self._negatives: dict[str, Negatives] = {}
        if isinstance(section, StageSection) and sampler is not None:
            if section.transformation is not None and section.loss_mode != "base":
                domains, seed = tools.data.pool.domain_count, self._seed(0, 0, 0)
                self.ascent = Ascent(
                    model.add_transformation(section.transformation, domains=domains, seed=seed)
                )
            teacher = tools.teacher if _needs_teacher(self._objective) else None
            self._negatives = {
                group.letter: Negatives(tools.data, group, section, sampler, teacher)
                for group in stage.groups
            }
        super().__init__(model, section)

    # ------------------------------------------------------------------------------- an epoch
    def batches(self, epoch: int) -> Sequence[StepItems]:
        """The batches of an epoch."""
        return batches_of(self._stage, epoch, (self._tools.seed, self._number))

    def size(self, batch: StepItems) -> int:
        """Mentions, or pairs."""
        return sum(len(part) for part in batch.parts)

    def prepare(self, epoch: int) -> None:
        """Search hard negatives if the epoch needs new ones; a resumed run finds them on disk."""
        tools = self._tools
        files = self.mined_files(epoch)
        if tools.team.is_first and not all(path.is_file() for path in files.values()):
            for old in tools.folder.glob("negatives-*.npy"):
                old.unlink()
            with advising(_advice_for_searches("the search for hard negatives")):
                for letter, path in files.items():
                    pool, chance = self._pool(), self._chance(epoch, -1)
                    for note in self._negatives[letter].mine(pool, path, chance, tools.tell):
                        tools.tell(Note(note))
        tools.team.wait()
        for letter, path in files.items():
            self._negatives[letter].open(path)

    def mined_files(self, epoch: int) -> dict[str, Path]:
        """Files of an epoch's mined negatives, by the letter of the group."""
        if not isinstance(self.section, StageSection):
            return {}
        refreshed = epoch - epoch % self.section.refresh_epochs
        return {
            letter: self._tools.folder / f"negatives-{self._number}-{refreshed}-{letter}.npy"
            for letter, negatives in self._negatives.items()
            if negatives.are_mined
        }

    def before(self) -> EpochFigures | None:
        """Recall of the model before the first step."""
        return _judged(self._validate()) if self._tools.team.is_first and self._held_back else None

    def judged(self) -> EpochFigures:
        """Recall, computed by the first process and told to all."""
        tools = self._tools
        if not self._held_back:
            return EpochFigures()
        if not tools.team.is_first:
            return EpochFigures(tools.team.agree(None, 1)[0])
        recalls = self._validate()
        figure = tools.team.agree([recalls.chosen(tools.selection)], 1)[0]
        return _judged(recalls)._replace(figure=figure)

    def end(self) -> None:
        """The transformation is not part of the model."""
        self._tools.model.transformation = None

    def _validate(self) -> Recalls:
        tools = self._tools
        with advising(_advice_for_searches("judging the model")):
            if tools.selection.most_entities:
                rows = searched_rows(tools.data, tools.selection).tolist()
                pool = self._encode(tools.folder / "searched", rows)
            else:
                pool = self._pool()
            return validate(tools.data, pool, tools.selection, tools.tell)

    def _pool(self) -> EncodedPool:
        """The pool, encoded with the current model; validation and mining share it."""
        if self._encoded is None:
            self._encoded = self._encode(self._tools.folder)
        return self._encoded

    def _encode(self, folder: Path, rows: Sequence[int] | None = None) -> EncodedPool:
        """Some entities of the pool, or all, as they are encoded now."""
        tools = self._tools
        texts = tools.data.pool.tokens
        return EncodedPool(
            *(tools.model, tools.scorer, tools.hardware, folder, texts, rows, tools.tell)
        )

    # -------------------------------------------------------------------------------- a step
    def gradients(self, batch: StepItems, epoch: int, step: int) -> list[float]:
        """The gradients of a batch; where A climbs several times, it does so first."""
        self._encoded = None
        ascent = self.ascent
        if ascent is None or ascent.steps == 1:
            return self._gradients(batch, epoch, step)
        for parameter in self._theta:
            parameter.requires_grad_(False)
        for _ in range(ascent.steps):
            self._gradients(batch, epoch, step)
            ascent.step()
        for parameter in self._theta:
            parameter.requires_grad_(True)
        return self._gradients(batch, epoch, step)

    def stepped(self) -> None:
        """A's turn, unless it has had it."""
        if self.ascent is not None:
            (self.ascent.step if self.ascent.steps == 1 else self.ascent.stay)()

    def _gradients(self, batch: StepItems, epoch: int, step: int) -> list[float]:
        """Compute the losses and gradients of a batch; repeated calls use the same randomness."""
        tools = self._tools
        torch.manual_seed(self._seed(epoch, step, 1 + tools.team.rank))
        rng = self._chance(epoch, step)
        weight = 1 / len(batch.parts)
        if isinstance(self.section, StageSection):
            parts = [self._mentions(batch, part, rng, weight) for part in batch.parts]
        else:
            parts = [self._overlaps(part, weight) for part in batch.parts]
        tools.team.sum_gradients(tools.model.parameters())
        return [sum(view) for view in zip(*parts, strict=True)]

    def _mentions(
        self, batch: StepItems, part: IntArray, rng: np.random.Generator, weight: float
    ) -> list[float]:
        """Stages S and T."""
        data, negatives = self._tools.data, self._negatives[batch.group.letter]
        golds, excluded = choose_golds(data, batch.group.rows, part, rng)
        drawn = negatives.of(part, golds, excluded, rng)
        if negatives.are_among_mentions:
            whole = batch_among_mentions(part, golds, excluded, drawn, len(data.pool))
        else:
            whole = mention_batch(part, golds, excluded, drawn)
        if whole.others is not None and len(whole.others):
            part = np.concatenate([part, whole.others])
            golds, _ = choose_golds(data, batch.group.rows, part)
        mentions = Texts(as_ids(data.train.tokens.take(part.tolist())), self._domains(golds))
        loss_of = self._loss_of(whole, negatives, rng)
        return self._backward(mentions, whole.entities, loss_of, weight)

    def _loss_of(
        self, batch: MentionBatch, negatives: Negatives, rng: np.random.Generator
    ) -> PairLoss:
        """The loss of encoded texts; both views, plain and transformed, have the same negatives."""
        section, scorer = self.section, self._tools.scorer
        assert isinstance(section, StageSection)  # noqa: S101 - O has a loss of its own
        columns: Columns | None = None
        if not negatives.are_from_batch:
            columns = columns_of(batch, section)

        def loss(pair: Pair) -> Tensor:
            nonlocal columns
            mentions, entities = pair
            assert mentions is not None and entities is not None  # noqa: S101, PT018 - both sides
            if batch.others is not None:
                entities = join([entities, mentions])
                mentions = split(mentions, len(batch.mentions))[0]
            if negatives.are_from_batch:
                mixed = negatives.mixed(batch, scorer, (mentions, entities))
                if mixed is not None:
                    positive = torch.zeros_like(mixed, dtype=torch.bool)
                    positive[:, 0] = True
                    return self._loss(mixed.float(), positive)
            if columns is None:  # the negatives are chosen from the batch, by its scores
                with torch.no_grad():
                    known = scored(scorer, mentions, entities).float().cpu().numpy()
                columns = own_columns(batch, negatives.among(batch, known, rng))
            scores = column_scores(scorer, mentions, entities, columns).float()
            positive = torch.from_numpy(columns.positive).to(scores.device)
            by_teacher = negatives.taught(batch)
            if by_teacher is None:
                return self._loss(scores, positive)
            return self._loss(scores, positive, torch.from_numpy(by_teacher).to(scores.device))

        return loss

    def _loss(self, scores: Tensor, positive: Tensor, *by_teacher: Tensor) -> Tensor:
        """The loss of scores, by an objective which may be anybody's."""
        name = f"objective {self.section.objective!r}"
        objective = cast("TaughtObjective", self._objective)
        with errors_of(name):
            loss: object = objective.loss(scores, positive, *by_teacher)
        if not isinstance(loss, torch.Tensor):
            what = f"of the type {type(loss).__name__}"
        elif loss.ndim:
            what = f"of the shape {tuple(loss.shape)}"
        elif scores.requires_grad > loss.requires_grad:
            what = "without a gradient"
        else:
            return loss
        hint = "A loss is a tensor of one number, from which gradients reach the scores."
        raise PluginError(f"{name} gave a loss {what}", hint=hint)

    def _overlaps(self, part: IntArray, weight: float) -> list[float]:
        """Stage O: both members of a pair through the entity tower (Bosch, eq. 2)."""
        tools = self._tools
        pairs = tools.data.pairs[part]
        masked, right = (
            torch.from_numpy(cells).to(tools.model.device)
            for cells in overlap_masks(pairs, tools.data)
        )

        def loss(pair: Pair) -> Tensor:
            assert pair.entities is not None  # noqa: S101 - entities are all that was encoded
            states, mask = pair.entities
            half = len(pairs)
            lefts, rights = Encoded(states[:half], mask[:half]), Encoded(states[half:], mask[half:])
            scores = scored(tools.scorer, lefts, rights).float()
            return self._loss(scores.masked_fill(masked, -torch.inf), right)

        return self._backward(Texts((), ()), pairs.T.ravel(), loss, weight)

    def _backward(
        self, mentions: Texts, rows: IntArray, loss: PairLoss, weight: float
    ) -> list[float]:
        """Add the gradients of a loss of mentions and entities to the parameters."""
        tools, section = self._tools, self.section
        entities = Texts(as_ids(tools.data.pool.tokens.take(rows.tolist())), self._domains(rows))
        mode = section.loss_mode if isinstance(section, StageSection) else "base"
        return add_gradients(
            *(tools.model, tools.team, (mentions, entities), loss),
            view=_VIEWS[mode] if self.ascent is not None else "plain",
            micro_batch=section.micro_batch,
            weight=weight,
        )

    def _domains(self, rows: IntArray) -> list[int]:
        if self.ascent is None:
            return []
        domains: list[int] = self._tools.data.pool.domains[rows].tolist()
        return domains

    def _seed(self, *place: int) -> int:
        return seed_of(self._tools.seed, self._number, *place)

    def _chance(self, epoch: int, step: int) -> np.random.Generator:
        return np.random.default_rng(self._seed(epoch, step + 1, 0))

    # ------------------------------------------------------------------------------ messages
    def shown(self, batch: StepItems) -> str:
        """Some mentions, or overlaps, of a batch."""
        letter, items = batch.group.letter, np.concatenate(batch.parts).tolist()
        some = ", ".join(map(str, items[:8])) + (", ..." if len(items) > 8 else "")
        return f" ({'overlaps' if letter == 'O' else 'mentions'} {some} of {letter})"

    def too_large(self, begin: str) -> TrainingError:
        """Advice where a step does not fit into memory: a smaller micro batch."""
        section = self.section
        from_pool = any(not one.are_from_batch for one in self._negatives.values())
        own = section.negatives if isinstance(section, StageSection) and from_pool else 0
        texts = -(-section.batch * (2 + own) // self._tools.team.count)
        smaller = max(1, min(section.micro_batch or texts, texts) // 2)
        return TrainingError(
            f"a step of {section.batch} with up to {texts} texts does not fit into memory",
            hint=f"{begin} micro_batch = {smaller}: the same losses, a third more time. Or with "
            "fewer tokens (model.inputs), fewer negatives or a smaller batch.",
        )


def _judged(recalls: Recalls) -> EpochFigures:
    return EpochFigures(None, recalls.mean(), recalls.as_json())


def _advice_for_searches(work: str) -> TrainingError:
    return TrainingError(
        f"{work} does not fit into memory",
        hint="Other programs may have it. Else fewer tokens (model.inputs), a smaller pool, or "
        "vectors in the place of token matrices (model.pooling) take less; --resume goes on from "
        "the last checkpoint.",
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
        _, sampler = _plugins(registry, section, taught=taught)
        if isinstance(section, OverlapSection):
            continue
        if section.transformation is not None:
            for tower in model.towers():
                tower.check_layer(section.transformation.layer)
        if not isinstance(sampler, MentionSampler):
            continue
        compares = f"sampler {section.sampler} compares mentions with each other"
        if section.columns != "own":
            raise ConfigError(
                f"{compares} too, and columns = {section.columns!r} has entities alone",
                hint="Set columns = 'own', and negatives.",
            )
        if model.settings.pooling == "tokens":
            raise ConfigError(
                f"{compares} by one vector of each, and pooling = 'tokens' makes one of every "
                "token",
                hint="Set model.pooling to cls, mean or span, with a scorer that reads such "
                "vectors.",
            )


def _plugins(
    registry: Registry, section: StageSection | OverlapSection, *, taught: bool
) -> tuple[Objective, Sampler | None]:
    """The objective and, of S and T, the sampler; refused where they do not go together."""
    objective = registry.create("objective", section.objective, section.objective_settings)
    needs_teacher = _needs_teacher(objective)
    if needs_teacher and (isinstance(section, OverlapSection) or not taught):
        raise ConfigError(
            f"objective {section.objective} learns from a teacher, and there is none",
            hint="Stages S and T have one where `teacher` names the folder of a reranker; else "
            "take another objective, such as nce.",
        )
    if isinstance(section, OverlapSection):
        return objective, None
    sampler: Sampler = registry.create("sampler", section.sampler, section.sampler_settings)
    in_batch = bool(getattr(sampler, "in_batch", False))
    if in_batch and section.negatives > 0 and section.columns != "own":
        raise ConfigError(
            f"sampler {section.sampler} chooses among the golds of the batch, and columns = "
            f"{section.columns!r} adds other columns",
            hint="Set columns = 'own'; or negatives = 0 and columns = 'in_batch'.",
        )
    searches = bool(getattr(sampler, "by_score", False)) and not in_batch
    finds_entities = searches and not isinstance(sampler, MentionSampler)
    if needs_teacher and (section.columns != "own" or not finds_entities):
        raise ConfigError(
            f"objective {section.objective} learns what a teacher says of the candidates of each "
            f"mention, and sampler {section.sampler} with columns = {section.columns!r} has none "
            "to ask it about",
            hint="Set columns = 'own', sampler = 'hard_in_domain', and negatives.",
        )
    return objective, sampler


def _needs_teacher(objective: Objective) -> bool:
    return bool(getattr(objective, "needs_teacher", False))
