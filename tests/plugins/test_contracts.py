"""Contracts of what handles text: correct plugins pass, each wrong one fails the check for it."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TextIO

import pytest

from contract_cases import contract_for, failing_checks, failure_of, mutant_id
from kglink.plugins import DefaultWeights
from kglink.records import (
    Candidate,
    EntityId,
    LinkedDocument,
    MentionInText,
    Ranking,
    Span,
)
from kglink.testing import (
    CandidateEvidenceContract,
    ClustererContract,
    DetectorContract,
    ExporterContract,
    PluginContract,
    RerankerContract,
)
from kglink.testing.contracts.base import check_names
from reference_plugins import (
    ReferenceCandidateEvidence,
    ReferenceClusterer,
    ReferenceDetector,
    ReferenceExporter,
    ReferenceReranker,
)

Candidates = tuple[Candidate, ...]


def detector(detector: type[ReferenceDetector]) -> type[PluginContract]:
    finds = (("Ada met Bob.", ("Ada", "Bob")), ("Adam", ()))
    return contract_for(DetectorContract, detector, finds=finds)


def evidence(evidence: type[ReferenceCandidateEvidence]) -> type[PluginContract]:
    return contract_for(CandidateEvidenceContract, evidence, expected=SHORT_TITLES)


def reranker(reranker: type[ReferenceReranker]) -> type[PluginContract]:
    return contract_for(RerankerContract, reranker)


def clusterer(clusterer: type[ReferenceClusterer]) -> type[PluginContract]:
    return contract_for(ClustererContract, clusterer)


def exporter(exporter: type[ReferenceExporter]) -> type[PluginContract]:
    return contract_for(ExporterContract, exporter, output="jsonl")


ADA, LONG = Candidate(EntityId("k", "1"), "Ada", 1), Candidate(EntityId("k", "2"), "Augusta", 1)
SHORT_TITLES = ((Ranking(MentionInText("Ada", 0, 3), (ADA, LONG)), (0.25, 0.125)),)

REFERENCES = {
    "evidence": evidence(ReferenceCandidateEvidence),
    "detector": detector(ReferenceDetector),
    "reranker": reranker(ReferenceReranker),
    "clusterer": clusterer(ReferenceClusterer),
    "exporter": exporter(ReferenceExporter),
}


@pytest.mark.parametrize("kind", REFERENCES)
def test_a_correct_plugin_passes(kind: str, tmp_path: Path) -> None:
    assert failing_checks(REFERENCES[kind], tmp_path) == {}


# ------------------------------------------------------------------------------- detectors
class OneTooFar(ReferenceDetector):
    def detect(self, text: str) -> list[Span]:
        return [replace(span, end=span.end + 1) for span in super().detect(text)]


class Overlapping(ReferenceDetector):
    def detect(self, text: str) -> list[Span]:
        return [span for span in super().detect(text) for _ in range(2)]


class OutOfOrder(ReferenceDetector):
    def detect(self, text: str) -> list[Span]:
        return super().detect(text)[::-1]


class EmptySpans(ReferenceDetector):
    def detect(self, text: str) -> list[Span]:
        return [Span(0, 0), *super().detect(text)]


class NotANumber(ReferenceDetector):
    def detect(self, text: str) -> list[Span]:
        return [replace(span, score=float("nan")) for span in super().detect(text)]


class OffsetsOfTheFolded(ReferenceDetector):
    """Upper case changes the length of ``ß`` and ligatures, so offsets run off the text."""

    def detect(self, text: str) -> list[Span]:
        upper = text.upper()
        return [Span(len(upper) - 1, len(upper))] if upper else []


class RemembersWhatItFound(ReferenceDetector):
    def detect(self, text: str) -> list[Span]:
        found = super().detect(text)
        self.surfaces -= {text[span.start : span.end] for span in found}
        return found


class TrustsTheFirstName(ReferenceDetector):
    def __init__(self, names: Any) -> None:
        self.surfaces = {row.surface for row in itertools.islice(names, 1)}


class TogetherInOneText(ReferenceDetector):
    def detect_all(self, texts: Sequence[str]) -> list[list[Span]]:
        return [self.detect("".join(texts)) for _ in texts]


class StaleCache(ReferenceDetector):
    def __init__(self, names: Any) -> None:
        super().__init__(names)
        if names.cache_dir is not None:
            cache = names.cache_dir / "names"
            if not cache.exists():
                cache.write_text("\n".join(self.surfaces))
            self.surfaces = set(cache.read_text().splitlines())


class WithinWords(ReferenceDetector):
    def detect(self, text: str) -> list[Span]:
        return [Span(found.start(), found.end()) for found in re.finditer("Ada|Bob", text)]


DETECTOR_MUTANTS = [
    (detector(OneTooFar), "test_spans_hold_for_every_text"),
    (detector(Overlapping), "test_spans_hold_for_every_text"),
    (detector(OutOfOrder), "test_spans_hold_for_every_text"),
    (detector(EmptySpans), "test_spans_hold_for_every_text"),
    (detector(NotANumber), "test_spans_hold_for_every_text"),
    (detector(OffsetsOfTheFolded), "test_spans_hold_for_every_text"),
    (detector(RemembersWhatItFound), "test_answers_do_not_depend_on_earlier_ones"),
    (detector(TogetherInOneText), "test_texts_together_are_as_each_alone"),
    (detector(TrustsTheFirstName), "test_order_of_the_names_changes_nothing"),
    (detector(StaleCache), "test_answers_the_same_from_its_cache"),
    (detector(WithinWords), "test_finds_what_it_should"),
]


# -------------------------------------------------------------------------------- evidence
class TooLarge(ReferenceCandidateEvidence):
    def value(self, candidate: Candidate) -> float:
        return 5 * super().value(candidate)


class Unknown(ReferenceCandidateEvidence):
    def value(self, candidate: Candidate) -> float:
        return super().value(candidate) if candidate.title else float("nan")


class AnswersBackwards(ReferenceCandidateEvidence):
    def values(self, mentions: Sequence[Ranking]) -> list[list[float]]:
        return super().values(mentions)[::-1]


class NegativeWeight(ReferenceCandidateEvidence):
    weights = DefaultWeights(untrained=-1.0)


class CountsCalls(ReferenceCandidateEvidence):
    calls = 0

    def value(self, candidate: Candidate) -> float:
        self.calls += 1
        return super().value(candidate) / self.calls


class LooksAtTheFirstOnly(ReferenceCandidateEvidence):
    def values(self, mentions: Sequence[Ranking]) -> list[list[float]]:
        first = len(mentions[0].candidates) if mentions else 1
        return [[value / first for value in values] for values in super().values(mentions)]


class NeedsACandidateToWeigh(ReferenceCandidateEvidence):
    def values(self, mentions: Sequence[Ranking]) -> list[list[float]]:
        return [[self.value(one.candidates[0])] * len(one.candidates) for one in mentions]


class AlwaysAQuarter(ReferenceCandidateEvidence):
    def value(self, candidate: Candidate) -> float:
        return 0.25


EVIDENCE_MUTANTS = [
    (evidence(TooLarge), "test_gives_each_candidate_a_number_from_minus_one_to_one"),
    (evidence(Unknown), "test_nasty_texts"),
    (evidence(AnswersBackwards), "test_gives_each_candidate_a_number_from_minus_one_to_one"),
    (evidence(NegativeWeight), "test_says_what_it_counts_by_default"),
    (evidence(CountsCalls), "test_is_repeatable_and_leaves_its_arguments_alone"),
    (evidence(LooksAtTheFirstOnly), "test_the_order_of_the_mentions_changes_nothing"),
    (evidence(NeedsACandidateToWeigh), "test_no_mention_and_no_candidate"),
    (evidence(AlwaysAQuarter), "test_gives_what_it_should"),
]


# ------------------------------------------------------------------------------- rerankers
class WorstFirst(ReferenceReranker):
    def ranked(self, candidates: Candidates) -> Candidates:
        return super().ranked(candidates)[::-1]


class DropsOne(ReferenceReranker):
    def ranked(self, candidates: Candidates) -> Candidates:
        return super().ranked(candidates)[:2]


class TakesOneTwice(ReferenceReranker):
    def ranked(self, candidates: Candidates) -> Candidates:
        ranked = super().ranked(candidates)
        return (ranked[:1] * len(ranked)) if ranked else ()


class ChangesTitles(ReferenceReranker):
    def ranked(self, candidates: Candidates) -> Candidates:
        made = super().ranked(candidates)
        return tuple(replace(one, title=one.title.lower()) for one in made)


class Infinite(ReferenceReranker):
    def score(self, candidate: Candidate) -> float:
        return float("inf") if not candidate.title else super().score(candidate)


class LearnsFromTheBatch(ReferenceReranker):
    asked = 0

    def rank(self, rankings: Sequence[Ranking]) -> list[Ranking]:
        self.asked = len(rankings)
        return super().rank(rankings)

    def score(self, candidate: Candidate) -> float:
        return super().score(candidate) * self.asked


class Forgetful(ReferenceReranker):
    calls = 0

    def score(self, candidate: Candidate) -> float:
        self.calls += 1
        return super().score(candidate) + self.calls


class WritesIntoEvidence(ReferenceReranker):
    def score(self, candidate: Candidate) -> float:
        candidate.evidence["seen"] = 1.0  # type: ignore[index] # on purpose
        return super().score(candidate)


class NeedsACandidate(ReferenceReranker):
    def ranked(self, candidates: Candidates) -> Candidates:
        return (max(candidates, key=self.score), *super().ranked(candidates)[1:])


RERANKER_MUTANTS = [
    (reranker(WorstFirst), "test_puts_the_best_first_with_finite_scores"),
    (reranker(Infinite), "test_puts_the_best_first_with_finite_scores"),
    (reranker(DropsOne), "test_answers_every_ranking_in_order"),
    (reranker(TakesOneTwice), "test_answers_every_ranking_in_order"),
    (reranker(ChangesTitles), "test_answers_every_ranking_in_order"),
    (reranker(LearnsFromTheBatch), "test_a_ranking_is_answered_as_if_alone"),
    (reranker(Forgetful), "test_is_repeatable_and_leaves_its_arguments_alone"),
    (reranker(WritesIntoEvidence), "test_is_repeatable_and_leaves_its_arguments_alone"),
    (reranker(NeedsACandidate), "test_no_ranking_and_no_candidate"),
]


# ------------------------------------------------------------------------------ clusterers
class AnswersInAnotherOrder(ReferenceClusterer):
    def rank(self, rankings: Sequence[Ranking]) -> list[Ranking]:
        return super().rank(rankings)[::-1]


class LeavesScoresUnsorted(ReferenceClusterer):
    def ranked(self, candidates: Candidates, wanted: Mapping[EntityId, int]) -> Candidates:
        return super().ranked(candidates, wanted)[::-1]


class Remembers(ReferenceClusterer):
    def __init__(self) -> None:
        self.seen = Counter[EntityId]()

    def count(self, rankings: Sequence[Ranking]) -> Counter[EntityId]:
        self.seen += super().count(rankings)
        return self.seen


class FailsWithoutMentions(ReferenceClusterer):
    def count(self, rankings: Sequence[Ranking]) -> Counter[EntityId]:
        counted = super().count(rankings)
        return counted if max(counted.values()) else Counter()


class ReadsFromFirstToLast(ReferenceClusterer):
    """Each mention sees only those before it."""

    def rank(self, rankings: Sequence[Ranking]) -> list[Ranking]:
        return [
            one for end in range(1, len(rankings) + 1) for one in super().rank(rankings[:end])[-1:]
        ]


CLUSTERER_MUTANTS = [
    (clusterer(AnswersInAnotherOrder), "test_answers_every_ranking_in_order"),
    (clusterer(LeavesScoresUnsorted), "test_puts_the_best_first_with_finite_scores"),
    (clusterer(Remembers), "test_is_repeatable_and_leaves_its_arguments_alone"),
    (clusterer(FailsWithoutMentions), "test_no_ranking_and_no_candidate"),
    (clusterer(ReadsFromFirstToLast), "test_the_order_of_the_mentions_changes_nothing"),
]


# ------------------------------------------------------------------------------- exporters
class CollectsFirst(ReferenceExporter):
    def export(self, documents: Iterable[LinkedDocument], out: TextIO) -> None:
        super().export(list(documents), out)


class ByteOffsets(ReferenceExporter):
    def value(self, document: LinkedDocument) -> dict[str, object]:
        def to_bytes(offset: int) -> int:
            return len(document.text[:offset].encode())

        links = tuple(
            replace(link, start=to_bytes(link.start), end=to_bytes(link.end))
            for link in document.links
        )
        return super().value(replace(document, links=links))


class StripsTheText(ReferenceExporter):
    def value(self, document: LinkedDocument) -> dict[str, object]:
        return super().value(replace(document, text=document.text.strip()))


class DropsNil(ReferenceExporter):
    def value(self, document: LinkedDocument) -> dict[str, object]:
        kept = tuple(link for link in document.links if link.chosen)
        return super().value(replace(document, links=kept))


class WritesAHeader(ReferenceExporter):
    def export(self, documents: Iterable[LinkedDocument], out: TextIO) -> None:
        out.write("# linked by kglink\n")
        super().export(documents, out)


class ClosesTheOutput(ReferenceExporter):
    def export(self, documents: Iterable[LinkedDocument], out: TextIO) -> None:
        super().export(documents, out)
        out.close()


class CountsItsCalls(ReferenceExporter):
    calls = 0

    def value(self, document: LinkedDocument) -> dict[str, object]:
        self.calls += 1
        return {**super().value(document), "number": self.calls}


class LoneSurrogates(ReferenceExporter):
    def export(self, documents: Iterable[LinkedDocument], out: TextIO) -> None:
        super().export(documents, out)
        out.write('"\ud83d"\n')


class SaysNothing(ReferenceExporter):
    def value(self, document: LinkedDocument) -> dict[str, object]:
        return {}


class TakesTwo(ReferenceExporter):
    def export(self, documents: Iterable[LinkedDocument], out: TextIO) -> None:
        super().export(itertools.islice(documents, 2), out)


EXPORTER_MUTANTS = [
    (exporter(CollectsFirst), "test_takes_documents_from_a_generator_as_they_come"),
    (exporter(TakesTwo), "test_takes_documents_from_a_generator_as_they_come"),
    (exporter(ByteOffsets), "test_offsets_survive"),
    (exporter(StripsTheText), "test_offsets_survive"),
    (exporter(DropsNil), "test_offsets_survive"),
    (exporter(WritesAHeader), "test_no_document_gives_a_valid_output"),
    (exporter(ClosesTheOutput), "test_leaves_the_output_open_and_encodable"),
    (exporter(LoneSurrogates), "test_leaves_the_output_open_and_encodable"),
    (exporter(CountsItsCalls), "test_same_documents_give_the_same_output"),
    (exporter(SaysNothing), "test_documents_differ_in_the_output"),
]

MUTANTS = [
    *DETECTOR_MUTANTS,
    *EVIDENCE_MUTANTS,
    *RERANKER_MUTANTS,
    *CLUSTERER_MUTANTS,
    *EXPORTER_MUTANTS,
]


@pytest.mark.parametrize("case", MUTANTS, ids=mutant_id)
def test_a_wrong_plugin_fails(case: tuple[type[PluginContract], str], tmp_path: Path) -> None:
    contract, check = case
    assert failure_of(contract, check, tmp_path / "check") is not None


@pytest.mark.parametrize("kind", REFERENCES)
def test_every_check_fails_for_some_wrong_plugin(kind: str) -> None:
    checks = set(check_names(REFERENCES[kind]))
    assert checks == {check for contract, check in MUTANTS if contract.kind == kind}
