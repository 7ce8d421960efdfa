"""Stage R: a reranker learns which of a mention's candidates is meant.

It learns from what retrieval finds for annotated mentions, and is judged by held-out ones after
each epoch. The right candidate is to be likelier than each wrong one, and than nothing.

reranker/          the reranker (`kglink.models.cross_encoder`)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 - the name that torch's documentation uses
from torch import Tensor

from kglink.errors import ModelError, UsageError
from kglink.models.cross_encoder import CrossEncoder, PairInputs, head_of, pooled, pooler_in
from kglink.models.head_folder import RERANKER, RerankerManifest
from kglink.models.inputs import Inputs
from kglink.models.loading import load_tensors
from kglink.models.packed import PackedTower
from kglink.models.source import ModelSource, rows_of
from kglink.models.tower import pack, pool
from kglink.records import EntityId, Ranking
from kglink.store import Store
from kglink.training.head import HeadReport, HeadTask, Network, run_alone, source_of
from kglink.training.job import FinetuneJob, Tell
from kglink.training.loop import EpochFigures
from kglink.training.recipe import RerankerSection
from kglink.training.run import (
    SOURCES_OF_RERANKER,
    RunSettings,
    TrainingReport,
    read_report,
    write_settings,
)

FOLDER = "reranker"
#: A reranker learns from at least the first number of mentions; at least the second judges it.
LEAST_MENTIONS, LEAST_HELD_OUT = 100, 20


class JudgedRanking(NamedTuple):
    """A mention with its candidates, best first, and which of them are right; none: it is NIL."""

    ranking: Ranking
    right: frozenset[EntityId]

    def ids(self) -> list[str]:
        """What tells it from others."""
        mention = self.ranking.mention
        known = [str(one.id) for one in self.ranking.candidates]
        return [mention.text, str(mention.start), str(mention.end), *known]


class ToRead(NamedTuple):
    """What a reranker learns from, and what judges it."""

    train: Sequence[JudgedRanking]
    held_out: Sequence[JudgedRanking]
    documents: tuple[str, ...]


#: What came of stage R; its figure is the share of held-out mentions that it answers right alone.
RerankerReport = HeadReport[RerankerManifest]


def reranker_run(
    store: Store,
    data_of: Callable[[RunSettings], ToRead],
    job: FinetuneJob,
    folder: Path,
    *,
    tell: Tell = lambda _: None,
) -> tuple[TrainingReport, RerankerReport]:
    """A run of stage R, in ``folder``, from the beginning or where it stopped."""

    def train(settings: RunSettings) -> RerankerReport:
        done = folder / FOLDER
        if (report := read_report(folder)) and RERANKER.is_there(done):
            return RerankerReport(done, RERANKER.read(done), 0, report.stages[0]["figure"] or 0.0)
        section = settings.recipe.reranker
        _opened(settings)  # what it refuses is refused before minutes of work
        data = data_of(settings)
        if len(data.train) < LEAST_MENTIONS or len(data.held_out) < LEAST_HELD_OUT:
            is_set = len(data.train) >= section.most_mentions * section.epochs
            raise UsageError(
                f"no reranker can be trained: {len(data.train):,} annotated mentions to learn "
                f"from and {len(data.held_out):,} held back; {LEAST_MENTIONS} and "
                f"{LEAST_HELD_OUT} are needed",
                hint=f"reranker.most_mentions = {section.most_mentions} lets it read no more: "
                "raise it."
                if is_set
                else "Add annotated documents: `kglink add-kb DOCS FILE --links-to KB`.",
            )
        return train_reranker(
            *(data, settings, folder),
            checkpoint_steps=job.checkpoint_steps,
            tell=tell,
            begin=lambda: None if job.resume else write_settings(folder, settings),
        )

    return run_alone(store, job, folder / FOLDER, SOURCES_OF_RERANKER, train)


def train_reranker(
    data: ToRead,
    settings: RunSettings,
    folder: Path,
    *,
    checkpoint_steps: int = 500,
    tell: Tell = lambda _: None,
    begin: Callable[[], None] = lambda: None,
) -> RerankerReport:
    """Train a reranker in the folder of a run, from the beginning or the last checkpoint.

    ``begin`` is called when nothing refuses it any more.
    """
    done = folder / FOLDER
    task = CandidateTask(data, settings)
    begin()
    ids = [one.ids() for one in (*data.train, *data.held_out)]
    manifest, steps = task.run(done, ids, checkpoint_steps, tell)
    return RerankerReport(done, manifest, steps, task.judged().figures[RIGHT])


def _opened(settings: RunSettings) -> tuple[ModelSource, PairInputs, dict[str, Tensor]]:
    """The encoder to begin with, what it reads, and the head of one that goes on."""
    section = settings.recipe.reranker
    base, own, tags = Path(section.base).expanduser(), dict[str, Tensor](), None
    if section.base and RERANKER.is_there(base):
        manifest, source, own = RERANKER.open(base, 1)
        tags = manifest.tag_ids
    else:
        source = source_of(section.base or settings.recipe.model.base)
    inputs = Inputs(source, section.inputs, rows=rows_of(source), tag_ids=tags)
    return source, PairInputs(inputs), own


#: The name of the share of mentions whose likeliest candidate is right.
RIGHT = "right at first"


class CandidateTask(HeadTask[RerankerSection, JudgedRanking, RerankerManifest]):
    """Learns which of a mention's candidates is meant."""

    def __init__(self, data: ToRead, settings: RunSettings) -> None:
        section = settings.recipe.reranker
        source, self._pairs, own = _opened(settings)
        torch.manual_seed(settings.seed)  # of the head
        self._inputs = self._pairs.inputs
        network = Network(source, 1, settings.hardware, section, rows=self._inputs.rows)
        if section.padded and not isinstance(network.tower, PackedTower):
            raise ModelError(f"{source.name}: reranker.padded is for plain BERT, and this is none")
        if section.head == "pooler":
            files = [*map(load_tensors, source.weights), own]
            weights = {name: value for one in files for name, value in one.items()}
            pooler = pooler_in(weights, source.dim)
            if pooler is None:
                raise ModelError(
                    f"{source.name}: has no pooler, and the reranker is to read what one says",
                    hint="Set reranker.head = cls, or name a model with a pooler, such as BERT.",
                )
            network.pooler = pooler.to(settings.hardware.device)
        if own:
            network.head.load_state_dict({name: own[name] for name in ("weight", "bias")})
        self._documents = data.documents
        dropping = section.model_copy(update={"gold": "drop"})
        self._held_out = [
            one for given in data.held_out if given.right for one in learnable(given, dropping)
        ]
        examples = [one for given in data.train for one in learnable(given, section)]
        if not (examples and self._held_out):
            what = "held-out" if examples else "annotated"
            raise UsageError(
                f"no reranker can be trained: no {what} mention has its gold among the first "
                f"{section.candidates} candidates",
                hint="Raise reranker.candidates, or train what finds candidates first.",
            )
        most = section.most_mentions
        super().__init__(SOURCES_OF_RERANKER, network, section, settings, examples, most)

    def loss(self, batch: Sequence[JudgedRanking]) -> Tensor:
        """The mean over mentions of `candidate_loss`."""
        network, section = self.network, self.section
        device = network.head.weight.device
        ids, seconds = self._pairs.pairs([one.ranking for one in batch])
        at = section.inputs.mention_tokens if section.padded else 0
        packed = pack(ids, device, seconds if section.segments else None, second_at=at)
        firsts = pooled(pool(network.tower(packed), packed, "cls"), network.pooler)
        firsts = F.dropout(firsts, network.dropout, network.training)
        logits = network.head(firsts).squeeze(1)
        counts = [len(one.ranking.candidates) for one in batch]
        losses = [
            candidate_loss(own, right_of(one).to(device), nothing=section.nothing)
            for own, one in zip(logits.split(counts), batch, strict=True)
        ]
        return torch.stack(losses).mean()

    def judged(self) -> EpochFigures:
        """By the loss of held-out mentions: of epochs that answer as many right, by how surely."""
        network, nothing = self.network, self.section.nothing
        head = head_of(network.head.weight, network.head.bias, network.pooler)
        encoder, section = network.encoder("cls"), self.section
        reader = CrossEncoder(self._pairs, encoder, head, section.segments, section.padded)
        answers = reader.logits([one.ranking for one in self._held_out])
        losses, right = [], []
        for one, logits in zip(self._held_out, answers, strict=True):
            losses.append(
                float(candidate_loss(torch.from_numpy(logits), right_of(one), nothing=nothing))
            )
            right.append(one.ranking.candidates[int(np.argmax(logits))].id in one.right)
        return EpochFigures(-float(np.mean(losses)), {RIGHT: float(np.mean(right))})

    def write(self, place: Path, epoch: int) -> RerankerManifest:
        """Write the reranker that the network is now."""
        tower, head = self.network.files()
        manifest = RerankerManifest(
            base=self.network.base,
            documents=self._documents,
            epoch=epoch,
            inputs=self.section.inputs,
            tag_ids=self._inputs.tag_ids,
            segments=self.section.segments,
            padded=self.section.padded,
            libraries=self.settings.libraries,
        )
        return RERANKER.write(place, tower, head, manifest)


def candidate_loss(logits: Tensor, right: Tensor, *, nothing: bool) -> Tensor:
    """-log of the share that a right candidate has among itself and all wrong ones.

    The mean over the right ones: the same thing in two KBs is no rival of itself. ``nothing``
    is one wrong answer more, of logit 0, and the right one where no candidate is.
    """
    wrong = logits[~right]
    if nothing:
        wrong = torch.cat([wrong, wrong.new_zeros(1)])
    if not bool(right.any()):
        return torch.logsumexp(wrong, 0)
    rivals = torch.logsumexp(wrong, 0) if len(wrong) else logits.new_full((), -torch.inf)
    return F.softplus(rivals - logits[right]).mean()


def right_of(one: JudgedRanking) -> Tensor:
    """Which of the candidates are right."""
    return torch.tensor([candidate.id in one.right for candidate in one.ranking.candidates])


def learnable(one: JudgedRanking, section: RerankerSection) -> list[JudgedRanking]:
    """A mention with the candidates that it is learnt from; none where nothing is learnt."""
    first = one.ranking.candidates[: section.candidates]
    if not one.right:
        can = section.nothing and bool(first)
        return [one._replace(ranking=replace(one.ranking, candidates=first))] if can else []
    if not any(candidate.id in one.right for candidate in first):
        behind = one.ranking.candidates[section.candidates :]
        found = [candidate for candidate in behind if candidate.id in one.right][:1]
        if section.gold == "drop" or not found:
            return []
        first = (*(first[:-1] if section.gold == "last" else first), *found)
    return [one._replace(ranking=replace(one.ranking, candidates=first))]
