"""The pipeline that links texts: detect, find candidates, describe, run stages, decide."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from itertools import islice
from typing import NamedTuple

from kglink.config import LinkSection
from kglink.errors import UsageError
from kglink.linking.candidates import CandidateSearch, joint_ranking
from kglink.linking.decide import Decision
from kglink.linking.describe import EntityFacts, described
from kglink.linking.detect import find_mentions
from kglink.linking.scoring import Scoring
from kglink.linking.stages import Stage, run_stages
from kglink.plugins import Detector
from kglink.records import (
    Candidate,
    EntityId,
    LinkedDocument,
    MentionInText,
    Ranking,
    Span,
    TextInput,
)
from kglink.text.language import language_of

#: Mentions are encoded and searched together, across documents, up to about this many.
BATCH_MENTIONS = 256
BATCH_TEXTS = 1024
#: Candidates per KB among which the best rival of the answer is looked for.
LEAST_RIVALS = 4


class _Text(NamedTuple):
    """A text with its mentions."""

    source: TextInput
    mentions: list[MentionInText]


class Linker:
    """Links texts to some KBs of a space."""

    def __init__(
        self,
        search: CandidateSearch,
        detector: Callable[[], Detector],
        facts: EntityFacts,
        kbs: Sequence[str],
        settings: LinkSection,
        *,
        stages: Sequence[Stage] = (),
    ) -> None:
        self._search = search
        self._make_detector = detector
        self._facts = facts
        self._kbs = tuple(kbs)
        self._settings = settings
        self.stages = tuple(stages)
        self._depth = max(settings.top_k, self.stage_depth)

    @property
    def stage_depth(self) -> int:
        """How many first candidates the stages order anew; 0 without stages."""
        return max((stage.depth for stage in self.stages), default=0)

    @property
    def scoring(self) -> Scoring:
        """How evidence is weighed."""
        return self._search.scoring

    def leaves_out(self, entity: EntityId) -> bool:
        """Whether an entity cannot be an answer, because only some of its KB are wanted."""
        return self._search.leaves_out(entity)

    @cached_property
    def detector(self) -> Detector:
        """The mention detector, made when the first text without given mentions comes."""
        return self._make_detector()

    def link(self, texts: Iterable[TextInput]) -> Iterator[LinkedDocument]:
        """Link texts; the answers come in the order of the texts, a few texts behind.

        A stage that sees all mentions of a run makes the first answer wait for the last text.
        """
        waiting: list[list[_Text]] = []

        def ranked() -> Iterator[list[Ranking]]:
            for batch in self._batches(texts):
                waiting.append(batch)
                yield self._ranked([mention for text in batch for mention in text.mentions])

        settings = self._settings
        decision = Decision(self.scoring, self._search.nearness, settings.threshold, settings.top_k)
        for rankings in run_stages(self.stages, ranked()):
            links = map(decision.link, rankings)
            for source, mentions in waiting.pop(0):
                own = tuple(islice(links, len(mentions)))
                yield LinkedDocument(source.id, source.text, own, self._meta(source, mentions))

    def candidates(
        self, mentions: Sequence[MentionInText], *, limit: int
    ) -> list[dict[str, list[Candidate]]]:
        """For each mention and each KB the scored candidates, best first, not yet described."""
        return self._search.find(mentions, self._kbs, limit=limit)

    def described(self, rankings: Sequence[Ranking]) -> list[Ranking]:
        """The rankings with what the store says of their first candidates."""
        return described(self._facts, rankings, self._depth)

    def _batches(self, texts: Iterable[TextInput]) -> Iterator[list[_Text]]:
        batch: list[_Text] = []
        mentions = 0
        for source in texts:
            batch.append(_Text(source, self._mentions(source)))
            mentions += len(batch[-1].mentions)
            if mentions >= BATCH_MENTIONS or len(batch) >= BATCH_TEXTS:
                yield batch
                batch, mentions = [], 0
        yield batch

    def _mentions(self, source: TextInput) -> list[MentionInText]:
        """The mentions of a text in reading order: those that were given, else detected ones."""
        spans: Sequence[Span] = source.spans or ()
        if source.spans is None:
            spans = find_mentions(source.text, self.detector, self._search.memory)
        for span in spans:
            if not 0 <= span.start < span.end <= len(source.text):
                raise UsageError(
                    f"text {source.id!r}: the span {span.start} to {span.end} is not inside the "
                    f"text of {len(source.text)} characters",
                    hint="Spans are half-open character offsets: 0 <= start < end <= length.",
                )
        return [
            MentionInText(source.text, span.start, span.end, source.id, span.score)
            for span in sorted(spans, key=lambda span: (span.start, span.end))
        ]

    def _ranked(self, mentions: Sequence[MentionInText]) -> list[Ranking]:
        """The described candidates of all KBs in one list for each mention."""
        rankings: list[Ranking] = []
        limit = max(self._depth, LEAST_RIVALS)
        for first in range(0, len(mentions), BATCH_MENTIONS):
            batch = mentions[first : first + BATCH_MENTIONS]
            rankings += self.described(
                [
                    Ranking(mention, tuple(joint_ranking(by_kb, self._kbs)))
                    for mention, by_kb in zip(
                        batch, self.candidates(batch, limit=limit), strict=True
                    )
                ]
            )
        return rankings

    def _meta(self, source: TextInput, mentions: Sequence[MentionInText]) -> dict[str, object]:
        """What was done, and how many mentions were longer than the encoder reads."""
        how = "detected" if source.spans is None else "given"
        meta: dict[str, object] = {"kbs": list(self._kbs), "mentions": how}
        if language := self._language(source.text):
            meta["language"] = language
        if source.meta:
            meta["source"] = dict(source.meta)
        if cut := self._search.count_truncated(mentions):
            meta["truncated"] = f"{cut} of the mentions, with their contexts, were read in part"
        return meta

    def _language(self, text: str) -> str:
        """The language of a text, as the settings say or as it seems; empty: nothing tells."""
        said = self._settings.language
        return language_of(text) if said == "auto" else said
