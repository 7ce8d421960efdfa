"""Stage R: a reranker learns which of a mention's candidates is meant.

It learns from what retrieval finds for annotated mentions, and is judged by held-out ones after
each epoch. The right candidate is to be likelier than each wrong one, and than nothing.

reranker.work/     checkpoints and the best epoch so far, until it is done
reranker/          the reranker (`kglink.models.cross_encoder`)
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 - the name that torch's documentation uses
from torch import Tensor, nn

from kglink.errors import ModelError, UsageError
from kglink.files.digest import digest_of
from kglink.models.cross_encoder import CrossEncoder, PairInputs, head_of, pooled, pooler_in
from kglink.models.hardware import Hardware
from kglink.models.head_folder import RERANKER, RerankerManifest
from kglink.models.inputs import Inputs
from kglink.models.loading import load_tensors
from kglink.models.model_folder import BaseInfo
from kglink.models.runtime import TokenEncoder
from kglink.models.source import ModelSource, read_config
from kglink.models.tower import pack, pool
from kglink.records import EntityId, Ranking
from kglink.store import Store
from kglink.training.checkpoint import saying_what_is_kept
from kglink.training.head import (
    HeadJob,
    HeadTraining,
    Judged,
    Network,
    Stage,
    finished,
    new_settings,
    source_of,
)
from kglink.training.job import FinetuneJob, RerankerNews, Tell
from kglink.training.recipe import RerankerSection
from kglink.training.run import (
    RunSettings,
    TrainingReport,
    alone,
    read_report,
    read_settings,
    write_settings,
)

FOLDER, WORK = "reranker", "reranker.work"
#: What a run of this stage alone has in the place of the stages S, T and O.
SOURCES_OF_RERANKER = "R"
#: A reranker learns from so many mentions at least, and so many more judge it.
LEAST_MENTIONS, LEAST_HELD_OUT = 100, 20

RerankerJob = HeadJob[RerankerSection]


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

    def too_few(self) -> str:
        """Why no reranker can be learnt from them; empty where one can."""
        if len(self.train) >= LEAST_MENTIONS and len(self.held_out) >= LEAST_HELD_OUT:
            return ""
        return (
            f"{len(self.train):,} annotated mentions to learn from and {len(self.held_out):,} held "
            f"back; {LEAST_MENTIONS} and {LEAST_HELD_OUT} are needed"
        )


class RerankerReport(NamedTuple):
    """What came of stage R."""

    folder: Path
    manifest: RerankerManifest
    steps: int
    right: float
    """The share of held-out mentions that the reranker alone answers right."""


def reranker_run(
    store: Store,
    data_of: Callable[[RunSettings], ToRead],
    job: FinetuneJob,
    folder: Path,
    *,
    tell: Tell = lambda _: None,
) -> tuple[TrainingReport, RerankerReport]:
    """A run of stage R, in ``folder``, from the beginning or where it stopped."""
    began = time.monotonic()
    with alone(folder):
        told = (
            read_settings(folder)
            if job.resume
            else new_settings(store, job, folder, SOURCES_OF_RERANKER)
        )
        done = folder / FOLDER
        if (report := read_report(folder)) and RERANKER.is_there(done):
            return report, RerankerReport(done, RERANKER.read(done), 0, report.stages[0]["figure"])
        data = data_of(told)
        if too_few := data.too_few():
            raise UsageError(
                f"no reranker can be trained: {too_few}",
                hint="Add annotated documents: `kglink add-kb DOCS FILE --links-to KB`.",
            )
        if not job.resume:
            write_settings(folder, told)
        section = told.recipe.reranker
        reranker = train_reranker(
            data,
            RerankerJob(
                section=section,
                base=section.base or told.recipe.model.base,
                seed=told.seed,
                hardware=told.hardware,
                checkpoint_steps=job.checkpoint_steps,
                libraries=told.libraries,
            ),
            folder,
            tell=tell,
        )
        stage = Stage(SOURCES_OF_RERANKER, section.epochs, reranker.manifest.epoch)
        report = finished(folder, done, stage, reranker.right, reranker.steps, began)
        return report, reranker


def train_reranker(
    data: ToRead, job: RerankerJob, folder: Path, *, tell: Tell = lambda _: None
) -> RerankerReport:
    """Train a reranker in the folder of a run, from the beginning or the last checkpoint."""
    source = source_of(job.base)
    torch.manual_seed(job.seed)  # of the head
    rows = int(read_config(source.path)["vocab_size"])
    inputs = Inputs(source, job.section.inputs, rows=rows)
    network = Network(source, 1, job.hardware, job.section, rows=inputs.rows)
    if job.section.head == "pooler":
        network.pooler = _pooler_of(source, job.hardware)
    training = _Training(data, job, folder, network, inputs, tell)
    training.run()
    manifest = training.write()
    right = training.held_out_figures().right
    training.clear()
    return RerankerReport(folder / FOLDER, manifest, training.at.total, right)


def _pooler_of(source: ModelSource, hardware: Hardware) -> nn.Linear:
    """The pooler that a model folder brings."""
    weights = {name: value for path in source.weights for name, value in load_tensors(path).items()}
    pooler = pooler_in(weights, source.dim)
    if pooler is None:
        raise ModelError(
            f"{source.name}: has no pooler, and the reranker is to read what one says",
            hint="Set reranker.head = cls, or name a model with a pooler, such as BERT.",
        )
    return pooler.to(hardware.device)


class _HeldOut(NamedTuple):
    """The mean loss of held-out mentions, and the share whose likeliest candidate is right."""

    loss: float
    right: float


class _Training(HeadTraining[RerankerSection, JudgedRanking]):
    """Trains one reranker."""

    stage = SOURCES_OF_RERANKER

    def __init__(
        self,
        data: ToRead,
        job: RerankerJob,
        folder: Path,
        network: Network,
        inputs: Inputs,
        tell: Tell,
    ) -> None:
        self._data = data
        self._folder = folder
        self._inputs = inputs
        self._pairs = PairInputs(inputs)
        dropping = job.section.model_copy(update={"gold": "drop"})
        self.held_out = [
            one for given in data.held_out if given.right for one in learnable(given, dropping)
        ]
        super().__init__(
            network,
            [one for given in data.train for one in learnable(given, job.section)],
            job,
            folder / WORK,
            {
                "recipe": digest_of([job.section.model_dump(mode="json"), job.seed]),
                "base model": network.source.fingerprint,
                "state of the data": digest_of(
                    [one.ids() for one in (*data.train, *data.held_out)]
                ),
            },
            tell,
        )

    @property
    def examples_of_epoch(self) -> int:
        """Of very many mentions each epoch samples others."""
        return min(len(self.examples), self.job.section.most_mentions)

    def loss(self, batch: Sequence[JudgedRanking]) -> Tensor:
        """The mean over mentions of `candidate_loss`."""
        network, section = self.network, self.job.section
        device = network.head.weight.device
        ids, seconds = self._pairs.pairs([one.ranking for one in batch])
        packed = pack(ids, device, seconds if section.segments else None)
        firsts = pooled(pool(network.tower(packed), packed, "cls"), network.pooler)
        firsts = F.dropout(firsts, network.dropout, network.training)
        logits = network.head(firsts).squeeze(1)
        counts = [len(one.ranking.candidates) for one in batch]
        losses = [
            candidate_loss(own, right_of(one).to(device), nothing=section.nothing)
            for own, one in zip(logits.split(counts), batch, strict=True)
        ]
        return torch.stack(losses).mean()

    def judged(self) -> Judged:
        """By the loss of held-out mentions: of epochs that answer as many right, by how surely."""
        told = self.held_out_figures()

        def news(epoch: int, loss: float, seconds: float, is_best: bool) -> RerankerNews:
            epochs = self.job.section.epochs
            return RerankerNews(epoch, epochs, loss, seconds, told.right, is_best)

        return Judged(-told.loss, news)

    def held_out_figures(self) -> _HeldOut:
        """What the network as it is now answers to the mentions that were held back."""
        network, hardware = self.network, self.job.hardware
        encoder = TokenEncoder(
            network.source.name, network.tower.snapshot(hardware), hardware, "cls"
        )
        head = head_of(network.head.weight, network.head.bias, network.pooler)
        reader = CrossEncoder(self._pairs, encoder, head, segments=self.job.section.segments)
        answers = reader.logits([one.ranking for one in self.held_out])
        nothing = self.job.section.nothing
        losses, right = [], []
        for one, logits in zip(self.held_out, answers, strict=True):
            told = candidate_loss(torch.from_numpy(logits), right_of(one), nothing=nothing)
            losses.append(float(told))
            right.append(one.ranking.candidates[int(np.argmax(logits))].id in one.right)
        return _HeldOut(float(np.mean(losses)), float(np.mean(right)))

    def write(self) -> RerankerManifest:
        """Write the reranker that the network is now."""
        source = self.network.source
        tower, head = self.network.files()
        manifest = RerankerManifest(
            base=BaseInfo(name=source.name, fingerprint=source.fingerprint),
            documents=self._data.documents,
            epoch=self.at.best_epoch + 1,
            inputs=self.job.section.inputs,
            tag_ids=self._inputs.tag_ids,
            segments=self.job.section.segments,
            libraries=self.job.libraries,
        )
        place = self._folder / FOLDER
        with saying_what_is_kept(place):
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
