"""The contract of evidence: correct plugins pass, each wrong one fails the check for it."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from contract_cases import contract_for, failing_checks, failure_of, mutant_id
from kglink.plugins import EntityPair, PairedKBs
from kglink.records import Alias, Entity
from kglink.testing import PairEvidenceContract, PluginContract
from kglink.testing.contracts.base import check_names
from kglink_plugins.overlap_evidence.names import NameEvidence
from kglink_plugins.overlap_evidence.neighbours import DescriptionEvidence
from reference_plugins import ReferencePairEvidence

Values = list[Mapping[str, float]]
ADA, LOVELACE = Entity("a", "Ada Lovelace"), Entity("l", "Augusta Lovelace")
SAME = Entity("s", "Ada Lovelace")


def evidence(evidence: type[ReferencePairEvidence]) -> type[PluginContract]:
    return contract_for(
        PairEvidenceContract,
        evidence,
        proposes=((ADA, SAME, True), (ADA, LOVELACE, False)),
        weighs=((ADA, SAME, {"words": 1.0}), (ADA, LOVELACE, {"words": 1 / 3})),
    )


def test_a_correct_plugin_passes(tmp_path: Path) -> None:
    assert failing_checks(evidence(ReferencePairEvidence), tmp_path) == {}


def test_the_evidence_of_the_paper_passes(tmp_path: Path) -> None:
    also = Entity("l", "Augusta", "Wrote a program.", aliases=(Alias("ADA lovelace"),))
    told = Entity("t", "Ada Lovelace", "Wrote a program.")
    phrase = Entity("p", "Ada", "Capt. of mathematics who wrote the first program.")
    page = Entity("p", "Ada", f"{phrase.description} {'She liked horses and counts. ' * 5}")
    names = contract_for(
        PairEvidenceContract,
        NameEvidence,
        proposes=((ADA, also, True), (ADA, LOVELACE, False)),
        weighs=(
            (ADA, SAME, {"title": 1, "name": 1, "more_names": 0, "name_bearers": 0}),
            (ADA, also, {"title": 0, "name": 1, "more_names": 0, "name_bearers": 0}),
            (ADA, LOVELACE, {"title": 0, "name": 0, "more_names": 0, "name_bearers": 0}),
        ),
    )
    descriptions = contract_for(
        PairEvidenceContract,
        DescriptionEvidence,
        proposes=((told, also, False),),
        weighs=(
            (told, also, {"description": 1, "descriptions_differ": 0}),
            (phrase, page, {"description": 1, "descriptions_differ": 0}),
            (ADA, also, {}),
        ),
    )
    assert failing_checks(names, tmp_path / "names") == {}
    assert failing_checks(descriptions, tmp_path / "descriptions") == {}


class NoPass(ReferencePairEvidence):
    second_pass = 2  # type: ignore[assignment]  # wrong on purpose


class ProposesTitles(ReferencePairEvidence):
    def propose(self, kbs: PairedKBs) -> Iterator[tuple[str, str]]:
        for entity in kbs.entities("left"):
            yield entity.key, entity.title


class ProposesBackwards(ReferencePairEvidence):
    def propose(self, kbs: PairedKBs) -> Iterator[tuple[str, str]]:
        return ((right, left) for left, right in super().propose(kbs))


class ProposesNothing(ReferencePairEvidence):
    def propose(self, kbs: PairedKBs) -> Iterator[tuple[str, str]]:
        return iter(())


class LeavesPairsOut(ReferencePairEvidence):
    def weigh(self, kbs: PairedKBs, pairs: Sequence[EntityPair]) -> Values:
        return [values for values in super().weigh(kbs, pairs) if values["words"]]


class Percent(ReferencePairEvidence):
    def shared(self, pair: EntityPair) -> float:
        return 100 * super().shared(pair)


class NotANumber(ReferencePairEvidence):
    def shared(self, pair: EntityPair) -> float:
        return super().shared(pair) or float("nan")


class Nameless(ReferencePairEvidence):
    def weigh(self, kbs: PairedKBs, pairs: Sequence[EntityPair]) -> Values:
        return [{"": values["words"]} for values in super().weigh(kbs, pairs)]


class CountsLetters(ReferencePairEvidence):
    def shared(self, pair: EntityPair) -> float:
        letters = [set(entity.title) for entity in pair]
        return len(letters[0] & letters[1]) / len(letters[0] | letters[1])


class ComparesWithTheBatch(ReferencePairEvidence):
    def weigh(self, kbs: PairedKBs, pairs: Sequence[EntityPair]) -> Values:
        weighed = super().weigh(kbs, pairs)
        best = max((values["words"] for values in weighed), default=0.0) or 1.0
        return [{"words": values["words"] / best} for values in weighed]


class Forgetful(ReferencePairEvidence):
    calls = 0

    def weigh(self, kbs: PairedKBs, pairs: Sequence[EntityPair]) -> Values:
        self.calls += 1
        return [{"words": values["words"] / self.calls} for values in super().weigh(kbs, pairs)]


class OwnChance(ReferencePairEvidence):
    numbers = itertools.count()

    def propose(self, kbs: PairedKBs) -> Iterator[tuple[str, str]]:
        skipped = next(self.numbers) % 2
        return itertools.islice(super().propose(kbs), skipped, None)


class SortsThePairs(ReferencePairEvidence):
    def weigh(self, kbs: PairedKBs, pairs: Sequence[EntityPair]) -> Values:
        weighed = super().weigh(kbs, pairs)
        assert isinstance(pairs, list)
        pairs.reverse()
        return weighed


class NeedsAPair(ReferencePairEvidence):
    def weigh(self, kbs: PairedKBs, pairs: Sequence[EntityPair]) -> Values:
        first = self.shared(pairs[0])
        return [{"words": first}, *super().weigh(kbs, pairs)[1:]]


class NeedsAnEntity(ReferencePairEvidence):
    def propose(self, kbs: PairedKBs) -> Iterator[tuple[str, str]]:
        next(kbs.entities("left")), next(kbs.entities("right"))
        return super().propose(kbs)


MUTANTS = [
    (evidence(NoPass), "test_says_in_which_pass_it_weighs"),
    (evidence(ProposesTitles), "test_proposes_pairs_that_exist"),
    (evidence(ProposesBackwards), "test_proposes_pairs_that_exist"),
    (evidence(ProposesNothing), "test_proposes_what_it_should"),
    (evidence(LeavesPairsOut), "test_weighs_every_pair_in_order_with_bounded_values"),
    (evidence(Percent), "test_weighs_every_pair_in_order_with_bounded_values"),
    (evidence(NotANumber), "test_weighs_every_pair_in_order_with_bounded_values"),
    (evidence(Nameless), "test_weighs_every_pair_in_order_with_bounded_values"),
    (evidence(CountsLetters), "test_weighs_as_described"),
    (evidence(ComparesWithTheBatch), "test_a_pair_is_weighed_as_if_alone"),
    (evidence(Forgetful), "test_is_repeatable_and_leaves_its_arguments_alone"),
    (evidence(OwnChance), "test_is_repeatable_and_leaves_its_arguments_alone"),
    (evidence(SortsThePairs), "test_is_repeatable_and_leaves_its_arguments_alone"),
    (evidence(NeedsAPair), "test_no_pair_and_an_empty_kb"),
    (evidence(NeedsAnEntity), "test_no_pair_and_an_empty_kb"),
]


@pytest.mark.parametrize("case", MUTANTS, ids=mutant_id)
def test_a_wrong_plugin_fails(case: tuple[type[PluginContract], str], tmp_path: Path) -> None:
    contract, check = case
    assert failure_of(contract, check, tmp_path / "check") is not None


def test_every_check_fails_for_some_wrong_plugin() -> None:
    assert set(check_names(PairEvidenceContract)) == {check for _, check in MUTANTS}
