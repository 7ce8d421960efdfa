"""What a figure of a table is made of: a value of every mention, or one of all of them.

Candidates of a part's mentions, and the ranks of right ones, are kept in `reproduced/` of the
workspace, and read again as long as model, KBs and settings are the same.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from kglink.errors import UsageError
from kglink.evaluation.candidate_files import (
    Listed,
    ListedRanker,
    Place,
    judged_places,
    line_of,
    listed_by,
    read_candidates,
    united,
)
from kglink.evaluation.comparison import KeptWriter, read_lines, unreadable
from kglink.evaluation.measures.overlaps import overlap_values
from kglink.evaluation.rankings import JOINT, rank_mentions
from kglink.evaluation.retrieval import Question, check_documents
from kglink.files.atomic import atomic_path, sweep_drafts
from kglink.files.digest import text_digest
from kglink.linking.read_together import ReadOrder, ReadTogether
from kglink.linking.stages import Stage
from kglink.models.head_folder import RERANKER
from kglink.records import Document, EntityId
from kglink.training.job import Tell
from kglink.workspace.folder import REPRODUCED_FOLDER
from kglink.workspace.judging import evaluated, judge_rankings
from kglink.workspace.opened import Opened
from kglink_papers.clusters import OTHER_DATA, cluster_values
from kglink_papers.data import Column, Layout, Part
from kglink_papers.models import Model
from kglink_papers.table import Values, value_of

#: Ranks k that are always counted; a deeper figure adds its own.
KS = (1, 2, 4, 8, 16, 32, 64)
_HINT = "Name a file that `kglink reproduce` wrote, or delete it."


@dataclass
class Judge:
    """Judges the models of one table; `close` it."""

    opened: Opened
    layout: Layout
    folder: Path | None
    """The folder of the data, for the candidates that come with them."""
    reranked: int
    """How many candidates a cross-encoder orders anew that nobody trains; 0: none."""
    depth: int
    """How many candidates are found."""
    tell: Tell
    _held: tuple[str, Opened] | None = None
    """The last model whose space was asked for, so that it is loaded once for all its cells."""
    _closing: ExitStack = field(default_factory=ExitStack)

    def close(self) -> None:
        """Close what is open."""
        self._closing.close()

    def _space(self, model: Model, kbs: Sequence[str]) -> Opened:
        """The workspace with the space of a model, which holds these KBs."""
        if self._held is None or self._held[0] != model.name:
            self._closing.close()
            self._held = model.name, self._closing.enter_context(model.space(self.opened))
        model.build(self._held[1], kbs, self.tell)
        return self._held[1]

    def values(self, model: Model, column: Column, others: Sequence[Model]) -> Values:
        """The values of a cell, part by part; ``others``: the models of all rows with this seed."""
        if column.is_count:
            return [np.array([float(self._count(model, column))])]
        row = model.row
        parts = self.layout.parts_of(column._replace(part=row.part or column.part), row.name)
        if column.is_of_overlaps:
            return [self._overlaps(model, part, column) for part in parts]
        if column.is_of_clusters:  # settings: the best on validation
            validation = self.layout.parts_of(column._replace(part="val"), row.name)
            own = self._space(model, [kb for part in (*validation, *parts) for kb in part.kbs])
            return cluster_values(own, column, validation, parts, self._seen(model))
        seen = self._seen(model) if column.mentions else frozenset[EntityId]()
        return [self._part(model, one, column, seen, others) for one in parts]

    # ------------------------------------------------------------------ numbers and overlaps
    def _count(self, model: Model, column: Column) -> int:
        """How many mentions a split has, or how many pairs a search for overlaps looked at."""
        store, named = self.opened.store, model.row.part
        if column.metric == "mentions":
            return sum(len(one.mentions) for one in store.documents(named, column.part))
        pair = self.layout.source, self.layout.targets[named]
        model.find_overlaps(self.opened, *pair, self.tell)
        runs = {frozenset((one.left, one.right)): one for one in store.overlap_runs()}
        run = runs[frozenset(pair)]
        return run.candidates if column.metric == "pairs" else run.kept

    def _overlaps(self, model: Model, part: Part, column: Column) -> Any:
        source, target = part.kbs
        model.find_overlaps(self.opened, source, target, self.tell)
        own = self._space(model, part.kbs)
        found = overlap_values(own.space(), own.store, queries=target, answers=source)
        return found[column.metric]

    def _seen(self, model: Model) -> frozenset[EntityId]:
        documents = (
            one
            for docs in model.training.docs
            for one in self.opened.store.documents(docs, "train")
        )
        mentions = (mention for one in documents for mention in one.mentions)
        return frozenset(gold for mention in mentions for gold in mention.gold or ())

    # ---------------------------------------------------------------------------------- ranks
    def _part(
        self,
        model: Model,
        part: Part,
        column: Column,
        seen: frozenset[EntityId],
        others: Sequence[Model],
    ) -> Any:
        """The values of the mentions of one part: kept ranks are read, missing ones made."""
        which, value, _ = value_of(column.metric)
        reader = model.reader(self.opened) if which == "reranked" else None
        own = self._space(model, part.kbs)
        if reader is None and not model.row.lists:
            path = self._ranks(own, part)
        else:
            depth = column.depth or self.reranked or model.recipe.reranker.candidates
            path = self._read_anew(model, part, column, depth, reader, others)
        wanted = None
        if column.mentions:  # those whose entity training has seen, or has not
            documents = {docs: own.store.documents(docs, part.split) for docs in part.docs}
            wanted = {
                place
                for place, _, one in judged_places(documents, part.kbs)
                if seen.isdisjoint(one.gold or ()) is (column.mentions == "unseen")
            }
        pool = part.kbs[0] if len(part.kbs) == 1 else JOINT
        lines = read_lines(path, _HINT)
        next(lines, None)
        try:
            found = [
                (record["ranks"][pool], record.get(which, record["ranks"])[pool])
                for _, record in lines
                if record["document"].startswith(part.documents)
                and (not part.gold or part.gold in record["ranks"])
                and (wanted is None or Place(*(record[name] for name in Place._fields)) in wanted)
            ]
        except (LookupError, TypeError, AttributeError) as error:
            raise unreadable(path, "a line says no ranks", _HINT) from error
        if column.metric.startswith("normalised"):
            found = [one for one in found if one[0] is not None]
        if not found:
            raise UsageError(
                f"there is no mention to judge for {column.name}: {', '.join(part.docs)} has none "
                f"of the split {part.split}"
                + (f" with a gold in {part.gold}" if part.gold else "")
                + (f" whose entity is {column.mentions}" if column.mentions else ""),
                hint=OTHER_DATA,
            )
        return np.array([value(rank) for _, rank in found])

    def _ranks(self, own: Opened, part: Part) -> Path:
        """The file with the ranks of a part's mentions by the search of the space."""
        question = Question(part.docs, part.split, part.kbs, (*KS, self.depth))
        deeper = [self.depth] if self.depth > KS[-1] else []

        def write(out: TextIO) -> None:
            writer = KeptWriter(out, evaluated(own, question))
            judge_rankings(own, question, progress=self.tell, each=writer.add_ranked)

        return self._kept(own, part, deeper, write)

    def _listed(self, own: Opened, model: Model, part: Part, depth: int) -> Path:
        """The file with the candidates of a part's mentions: of the space, or of the data."""
        if model.row.lists:
            stem = {"dev": "val"}.get(part.split, part.split)
            return (self.folder or Path()) / model.row.lists / f"{stem}.json"
        check_documents(own.store, part.docs, part.split)

        def write(out: TextIO) -> None:
            linker = own.linker(part.kbs, candidates=depth)
            documents = {docs: own.store.documents(docs, part.split) for docs in part.docs}
            out.writelines(map(line_of, listed_by(linker, documents, part.kbs, depth)))

        return self._kept(own, part, ["candidates", depth], write)

    def _read_anew(
        self,
        model: Model,
        part: Part,
        column: Column,
        depth: int,
        reader: Path | None,
        others: Sequence[Model],
    ) -> Path:
        """The file with the ranks of a part's mentions after the cross-encoder has read them."""
        variant = column.metric if column.metric.startswith("oracle") else ""
        asked = [*others] if variant == "oracle union" else [model]
        most_found = max(depth, self.depth)
        paths = [self._listed(self._space(one, part.kbs), one, part, most_found) for one in asked]
        own = self._space(model, part.kbs)
        digest = RERANKER.read(reader).files if reader else {}
        facts = [variant, depth, [one.name for one in paths], [str(one.parent) for one in paths]]
        stated = json.dumps([facts, {name: one.blake2b for name, one in digest.items()}])

        def write(out: TextIO) -> None:
            documents = {docs: list(own.store.documents(docs, part.split)) for docs in part.docs}
            each = [read_candidates(path, documents, part.kbs, own.store) for path in paths]
            lists = dict(lists_to_read(each, documents, part.kbs, variant, depth))
            most = max((len(one.ids) for one in lists.values()), default=1)
            read = max(most, 1) if variant == "oracle union" else depth
            stages = []
            if reader:
                order = ReadOrder(ReadTogether(reader, own.encoder.hardware, read))
                stages = [Stage("the cross-encoder", order, read)]
            ranker = ListedRanker(lists, documents, own.store, stages)
            question = Question(part.docs, part.split, part.kbs, KS)
            writer = KeptWriter(out, replace(evaluated(own, question), reranker=str(reader)))
            for docs, some in documents.items():
                for mention in rank_mentions(ranker, some, part.kbs, max(read, most), docs=docs):
                    writer.add_ranked(mention)

        return self._kept(own, part, [stated], write)

    def _kept(
        self, own: Opened, part: Part, more: list[Any], write: Callable[[TextIO], None]
    ) -> Path:
        """A file of a part in a space, written where it is not there."""
        manifest = own.space().manifest
        facts = [
            manifest.model.fingerprint,
            [manifest.segments[kb] for kb in part.kbs],
            [(kb, own.store.kb(kb).revision) for kb in part.docs],
            part.split,
            own.settings.link.model_dump(mode="json"),
            *more,
        ]
        digest = text_digest(json.dumps(facts), size=8)
        folder = own.folder / REPRODUCED_FOLDER / manifest.name
        path = folder / f"{'+'.join(part.docs)}-{digest}.jsonl"
        if not path.is_file():
            folder.mkdir(parents=True, exist_ok=True)
            sweep_drafts(folder)
            with atomic_path(path) as draft, draft.open("w", encoding="utf-8") as out:
                write(out)
        return path


def lists_to_read(
    each: Sequence[dict[Place, Listed]],
    documents: dict[str, list[Document]],
    kbs: Sequence[str],
    variant: str,
    depth: int,
) -> Iterator[tuple[Place, Listed]]:
    """The lists that are read: as they are, or with the gold (ArboEL's oracles)."""
    for place, _, one in judged_places(documents, kbs):
        lists = [Listed(lists[place].ids[:depth]) for lists in each]
        listed = united(lists) if variant == "oracle union" else lists[0]
        if variant:
            in_place = variant == "oracle self"
            listed = listed.with_gold(one.gold or (), kbs, in_place=in_place)
        yield place, listed
