"""The pipeline that links texts: detect, find candidates, judge spans, run stages, decide."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import replace
from functools import cache, lru_cache, partial
from itertools import groupby, islice
from numbers import Integral, Real
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from kglink.config import LinkSection
from kglink.errors import UsageError
from kglink.linking.candidates import CandidateSearch
from kglink.linking.corrected import Corrected, as_corrected
from kglink.linking.decide import Decision
from kglink.linking.describe import described
from kglink.linking.detect import proposals, proposals_of
from kglink.linking.exact import ExactNames
from kglink.linking.judge import SpanJudge, with_scores
from kglink.linking.kinds import joint_ranking
from kglink.linking.memory import Memory
from kglink.linking.scoring import Scoring
from kglink.linking.stages import Stage, run_stages
from kglink.linking.usual_case import in_usual_case
from kglink.plugins import Detector, JudgingDetector, MentionVectors, ReadsMentions
from kglink.records import (
    Candidate,
    EntityId,
    Link,
    LinkedDocument,
    MentionInText,
    Ranking,
    Rejected,
    Span,
    TextInput,
)
from kglink.text.abbreviations import long_form_of
from kglink.text.fold import fold
from kglink.text.language import language_of
from kglink.text.plain import PlainText, read_plainly, with_common_signs

if TYPE_CHECKING:
    from kglink.store import Store

#: Mentions of a group of texts are encoded and searched together, up to about this many.
BATCH_MENTIONS = 256
BATCH_TEXTS = 1024
#: Detectors read texts of about this many characters at once: a group.
GROUP_CHARACTERS = 1 << 15
#: Candidates per KB among which the best rival of the answer is looked for.
LEAST_RIVALS = 4
#: A detected mention that no entity fits is shown as NIL from this probability on.
LEAST_OF_NIL = 0.6
Item = TypeVar("Item")
P = TypeVar("P", Link, Rejected)


class _Text(NamedTuple):
    """A text with its mentions: given ones, or such as are proposed."""

    source: TextInput
    plain: PlainText
    """Where its mentions are."""
    mentions: list[MentionInText]


class _Ranked(NamedTuple):
    """A text with the rankings of its mentions, and if wanted of the places that are none."""

    source: TextInput
    plain: PlainText
    rankings: list[Ranking]
    passed_over: list[tuple[Ranking, str]]
    """Each with why it is no mention."""


class Linker:
    """Links texts to some KBs of a space."""

    def __init__(
        self,
        search: CandidateSearch,
        detectors: Callable[[], Mapping[str, Detector]],
        store: Store,
        kbs: Sequence[str],
        settings: LinkSection,
        *,
        judge: SpanJudge,
        stages: Sequence[Stage] = (),
        preferred: Sequence[str] = (),
        unfinished: Mapping[str, object] | None = None,
        clusters: Mapping[str, str] | None = None,
        not_reranked: Sequence[str] = (),
    ) -> None:
        """``preferred`` are the KBs in the order in which they answer for the same thing.

        ``unfinished`` says, with each answer, what the space still lacks; ``clusters`` gives the
        discovery of each folded name, for NIL mentions of that name;
        ``not_reranked`` says why nothing is read together with its mention.
        """
        self._search = search
        self._make_detectors = cache(detectors)
        self.judge = judge
        self._store = store
        self._kbs = tuple(kbs)
        self._preferred = tuple(preferred or kbs)
        self._settings = settings
        self._unfinished = dict(unfinished or {})
        self._clusters = clusters or {}
        self._corrected: Corrected = {}
        self._not_reranked = tuple(not_reranked)
        self.stages = tuple(stages)
        for stage in self.stages:
            if isinstance(stage.plugin, ReadsMentions):
                stage.plugin.read_with(search.reading.vectors, self._decision().probability)
        self._depth = max(settings.top_k, self.stage_depth)
        self._spellings = lru_cache(maxsize=1 << 16)(partial(search.spellings, kbs=self._kbs))

    @property
    def stage_depth(self) -> int:
        """How many first candidates the stages order anew; 0 without stages."""
        return max((stage.depth for stage in self.stages), default=0)

    @property
    def sees_all(self) -> bool:
        """Whether some stage sees all mentions of a run: texts that are left out change answers."""
        return any(stage.sees_all for stage in self.stages)

    @property
    def scoring(self) -> Scoring:
        """How evidence is weighed."""
        return self._search.scoring

    @property
    def memory(self) -> Memory | None:
        """What surfaces meant in annotated documents."""
        return self._search.memory

    @property
    def threshold(self) -> float:
        """The least probability of a link."""
        return self.judge.threshold

    def with_threshold(self, threshold: float) -> Linker:
        """The same linker with another least probability of a link."""
        is_number = isinstance(threshold, Real) and not isinstance(threshold, bool)
        if not is_number or not 0 <= threshold <= 1:
            raise UsageError(f"the threshold {threshold!r} is no probability", hint="Give 0 to 1.")
        other = copy(self)
        other.judge = replace(self.judge, threshold=float(threshold))
        return other

    def with_corrected(self, corrected: Corrected) -> Linker:
        """The same linker that knows what people said of places of texts."""
        other = copy(self)
        other._corrected = corrected
        return other

    def exact_names(self) -> ExactNames | None:
        """What answers names that one thing alone bears; None where all evidence must be weighed.

        That is so for a trained model, which reads every mention, and where stages, rerankers or
        evidence of other plugins have their say.
        """
        settings, search = self._settings, self._search
        others = self.stages or settings.rerank_top or settings.more_evidence or settings.per_kb
        if others or not search.is_led_by_names:
            return None
        return ExactNames(
            search.space,
            search.sameness,
            self._store,
            search.memory,
            self._kbs,
            self._preferred,
        )

    def leaves_out(self, entity: EntityId) -> bool:
        """Whether an entity cannot be an answer, because only some of its KB are wanted."""
        return self._search.space.leaves_out(entity)

    @property
    def detectors(self) -> Mapping[str, Detector]:
        """The mention detectors, made when the first text without given mentions comes."""
        return self._make_detectors()

    def link(self, texts: Iterable[TextInput]) -> Iterator[LinkedDocument]:
        """Link texts; the answers come in the order of the texts, a few texts behind.

        A stage that sees all mentions of a run makes the first answer wait for the last text.
        """
        waiting: list[list[_Ranked]] = []

        def ranked() -> Iterator[list[Ranking]]:
            for batch in self._batches(texts):
                with self._store.one_state():
                    waiting.append(self._ranked(batch))
                yield [ranking for text in waiting[-1] for ranking in text.rankings]

        for rankings in run_stages(self.stages, ranked()):
            ordered = iter(rankings)
            for source, plain, before, passed_over in waiting.pop(0):
                own = list(islice(ordered, len(before)))
                yield self._document(source, plain, own, passed_over)

    def _document(
        self,
        source: TextInput,
        plain: PlainText,
        rankings: Sequence[Ranking],
        passed_over: Iterable[tuple[Ranking, str]],
    ) -> LinkedDocument:
        """The links of a text, and what was not linked, if it is wanted."""
        decision = self._decision()
        decided = [(decision.link(one), one.mention) for one in rankings]
        # A place that is hardly a mention and that nothing fits is not shown.
        links = [
            self._with_cluster(link, plain.text)
            for link, mention in decided
            if mention.given or link.chosen or mention.score >= LEAST_OF_NIL
        ]
        rejected = []
        if self._settings.rejected:
            nil = [(*one, self._why_nil(one[0])) for one in decided if one[0].chosen is None]
            others = [(decision.link(one), one.mention, why) for one, why in passed_over]
            for link, mention, why in (*others, *nil):
                place = link.start, link.end, link.surface
                facts = link.candidates, mention.score, link.probability
                rejected.append(Rejected(*place, *facts, why))
            rejected.sort(key=lambda one: (one.start, -one.end))
        document = LinkedDocument(
            source.id,
            source.text,
            tuple(_at_own_places(links, plain, source.text)),
            self._meta(source, rankings),
            tuple(_at_own_places(rejected, plain, source.text)),
        )
        return as_corrected(
            document,
            self._corrected,
            self._store,
            lambda entity: entity.kb in self._kbs and not self.leaves_out(entity),
            given=source.spans is not None,
            kbs=self._preferred if self._settings.per_kb else (),
        )

    def _with_cluster(self, link: Link, text: str) -> Link:
        """The link; a NIL whose name was discovered bears the id of that."""
        if link.chosen or not self._clusters:
            return link
        name = fold(long_form_of(link.surface, text) or link.surface)
        return replace(link, cluster=self._clusters.get(name, ""))

    def decided(self, ranking: Ranking) -> Link:
        """What a mention with these candidates means, or NIL."""
        return self._decision().link(ranking)

    def _decision(self) -> Decision:
        """How rankings become links."""
        settings = self._settings
        return Decision(
            self.scoring,
            self._search.sameness.nearness,
            self.threshold,
            settings.top_k,
            self._preferred,
            settings.per_kb,
            settings.prefer,
        )

    def candidates(
        self, mentions: Sequence[MentionInText], *, limit: int
    ) -> list[dict[str, list[Candidate]]]:
        """For each mention and each KB the scored candidates, best first, not yet described."""
        return self._search.find(mentions, self._kbs, limit=limit)

    def joint(self, mentions: Sequence[MentionInText], *, limit: int) -> list[Ranking]:
        """Given mentions, as they are read, with the candidates of all KBs, ``limit`` of each."""
        return self._candidates(self._search.as_read(mentions, self._kbs), limit)

    @property
    def mention_vectors(self) -> MentionVectors:
        """Gives the vectors of mentions as names, and in their texts."""
        return self._search.reading.vectors

    def described(self, rankings: Sequence[Ranking]) -> list[Ranking]:
        """The rankings with what the store says of their first candidates."""
        return described(self._store, rankings, self._depth)

    def of_id(self, name: str) -> Ranking:
        """The entities of the KBs whose id a name is, alone or behind that of its KB."""
        ids = (EntityId(kb, name.removeprefix(f"{kb}:")) for kb in self._kbs)
        some = tuple(Candidate(one, "", 1.0) for one in ids if not self.leaves_out(one))
        return Ranking(MentionInText(name, 0, len(name)), some)

    def read(self, text: str, *, given: bool = False) -> PlainText:
        """A text as it is read; places that were ``given`` stay as they are."""
        plain = PlainText(with_common_signs(text)) if given else read_plainly(text)
        return plain._replace(text=in_usual_case(plain.text, self._spellings))

    def _batches(self, texts: Iterable[TextInput]) -> Iterator[list[_Text]]:
        # Texts of two groups are never read together: a worker that has one of the groups alone
        # gives the same numbers to the last bit.
        for group in text_groups(texts):
            batch: list[_Text] = []
            mentions = 0
            pairs = [(one, self.read(one.text, given=one.spans is not None)) for one in group]
            searched = [plain.text for one, plain in pairs if one.spans is None]
            proposed = iter(proposals_of(searched, self.detectors) if searched else ())
            for source, plain in pairs:
                spans = next(proposed) if source.spans is None else source.spans
                batch.append(_Text(source, plain, self._mentions(source, plain.text, spans)))
                mentions += len(batch[-1].mentions)
                if mentions >= BATCH_MENTIONS:
                    yield batch
                    batch, mentions = [], 0
            if batch:
                yield batch

    def _mentions(self, source: TextInput, text: str, spans: Sequence[Span]) -> list[MentionInText]:
        """The mentions of a text in reading order: those that were given, else proposed ones."""
        given = source.spans is not None
        for span in spans:
            ends = (span.start, span.end) if isinstance(span, Span) else (None,)
            if not all(isinstance(one, Integral) for one in ends):
                raise UsageError(
                    f"text {source.id!r}: {span!r} is no Span of two whole numbers",
                    hint="A mention that is known is a Span(start, end).",
                )
            if not 0 <= span.start < span.end <= len(text):
                raise UsageError(
                    f"text {source.id!r}: the span {span.start} to {span.end} is not inside the "
                    f"text of {len(text)} characters",
                    hint="Spans are half-open character offsets: 0 <= start < end <= length.",
                )
        return [
            MentionInText(
                text, int(span.start), int(span.end), source.id, span.score, given, span.name
            )
            for span in sorted(spans, key=lambda span: (span.start, span.end))
        ]

    def _ranked(self, texts: Sequence[_Text]) -> list[_Ranked]:
        """The mentions of some texts, judged, each with the described candidates of all KBs."""
        ranked = [_Ranked(text.source, text.plain, [], []) for text in texts]
        for part in _parts(texts):
            found = iter(self._candidates([one for _, mentions in part for one in mentions]))
            kept = [self._kept(list(islice(found, len(mentions)))) for _, mentions in part]
            described = iter(self.described([one for own, _ in kept for one in own]))
            for (at, _), (own, passed_over) in zip(part, kept, strict=True):
                ranked[at].rankings.extend(islice(described, len(own)))
                ranked[at].passed_over.extend(passed_over)
        return ranked

    def proposed(self, text: str) -> list[Ranking]:
        """What is proposed in a plain text, with candidates, before it is judged."""
        spans = proposals(text, self.detectors)
        return self._candidates(self._mentions(TextInput("", text), text, spans))

    def _candidates(self, mentions: Sequence[MentionInText], limit: int = 0) -> list[Ranking]:
        """The candidates of all KBs in one list for each mention."""
        found = self.candidates(mentions, limit=limit or max(self._depth, LEAST_RIVALS))
        return [
            Ranking(mention, tuple(joint_ranking(by_kb, self._kbs)))
            for mention, by_kb in zip(mentions, found, strict=True)
        ]

    def _kept(
        self, rankings: Sequence[Ranking]
    ) -> tuple[list[Ranking], Iterable[tuple[Ranking, str]]]:
        """Of a part of one text the rankings of mentions; if wanted the others, each with why."""
        if all(one.mention.given for one in rankings):
            return list(rankings), ()
        judged = self._judged(rankings)
        apart = self.judge.apart(judged)
        likely = self.judge.likely(apart)
        if not self._settings.rejected:
            return likely, ()
        stay = {id(one) for one in apart}
        why = [self._why_none(one.mention, () if id(one) in stay else apart) for one in judged]
        others = self.described([one for one, reason in zip(judged, why, strict=True) if reason])
        return likely, zip(others, filter(None, why), strict=True)

    def _judged(self, rankings: Sequence[Ranking]) -> list[Ranking]:
        """The rankings with how probably each is of a mention."""
        for detector in self.detectors.values():
            scores = detector.judge(rankings) if isinstance(detector, JudgingDetector) else None
            if scores is not None:
                return with_scores(rankings, scores)
        return self.judge.judged(rankings, self._search.memory)

    def _why_none(self, mention: MentionInText, others: Sequence[Ranking]) -> str:
        """Why a place is no mention; empty: it is one."""
        for other in others:
            if other.mention.start < mention.end and mention.start < other.mention.end:
                return f"overlaps {other.mention.surface!r}"
        if mention.given or mention.score >= self.threshold:
            return ""
        return f"probability of a mention {mention.score:.3g}, less than {self.threshold:g}"

    def _why_nil(self, link: Link) -> str:
        if not link.candidates:
            return "no KB has a name like it"
        probability = f"{link.probability:.3g}, less than {self.threshold:g}"
        return f"probability of {link.candidates[0].id} {probability}"

    def _meta(self, source: TextInput, rankings: Sequence[Ranking]) -> dict[str, object]:
        """What was done, and of how many mentions it could not be done wholly."""
        how = "detected" if source.spans is None else "given"
        meta: dict[str, object] = {"kbs": list(self._kbs), "mentions": how, **self._unfinished}
        language = self._settings.language
        if language == "auto":
            language = language_of(source.text)
        if language:
            meta["language"] = language
        if source.meta:
            meta["source"] = dict(source.meta)
        notes = Counter(one.note for one in rankings if one.note)
        of_some = [f"{count} of the mentions: {one}" for one, count in notes.items()]
        if not_reranked := [*self._not_reranked, *of_some]:
            meta["not_reranked"] = not_reranked
        if cut := self._search.reading.count_truncated([one.mention for one in rankings]):
            meta["truncated"] = f"{cut} of the mentions, with their contexts, were read in part"
        return meta


def _at_own_places(places: Iterable[P], plain: PlainText, text: str) -> Iterator[P]:
    """Places of a plain text as places of the text itself."""
    for one in places:
        start, end = plain.place(one.start, one.end)
        yield replace(one, start=start, end=end, surface=text[start:end])


def whole_documents(
    mentions: Iterable[Item], document_of: Callable[[Item], object]
) -> Iterator[list[Item]]:
    """Mentions of whole documents, some hundreds at once: those of a text speak for each other."""
    batch: list[Item] = []
    for _, own in groupby(mentions, key=document_of):
        batch += own
        if len(batch) >= BATCH_MENTIONS:
            yield batch
            batch = []
    if batch:
        yield batch


def text_groups(texts: Iterable[TextInput]) -> Iterator[list[TextInput]]:
    """Texts that are read together: about ``GROUP_CHARACTERS`` characters.

    Of texts whose mentions are given, with about ``BATCH_MENTIONS`` mentions.
    """
    group: list[TextInput] = []
    filled = 0.0
    for text in texts:
        group.append(text)
        if text.spans is None:
            filled += len(text.text) / GROUP_CHARACTERS
        else:
            filled += len(text.spans) / BATCH_MENTIONS
        if filled >= 1 or len(group) >= BATCH_TEXTS:
            yield group
            group, filled = [], 0.0
    yield group


def _parts(texts: Sequence[_Text]) -> Iterator[list[tuple[int, list[MentionInText]]]]:
    """The mentions of some texts, in parts of about ``BATCH_MENTIONS``.

    Mentions of a text speak for each other, so where it is divided is a matter of its own alone,
    and never of the texts beside it. Mentions that overlap are in one part: which of them stays is
    judged there.
    """
    part: list[tuple[int, list[MentionInText]]] = []
    size = 0
    for at, text in enumerate(texts):
        if part and size + len(text.mentions) > BATCH_MENTIONS:
            yield part
            part, size = [], 0
        run: list[MentionInText] = []
        end = 0
        for mention in text.mentions:
            if len(run) >= BATCH_MENTIONS and mention.start >= end:
                yield [*part, (at, run)]
                part, run, size = [], [], 0
            run.append(mention)
            end = max(end, mention.end)
        part.append((at, run))
        size += len(run)
    yield part
