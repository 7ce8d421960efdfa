"""Fitting weights and probabilities on rankings that can be checked by hand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from kglink.errors import SpaceError
from kglink.linking.fit import (
    LEAST_NIL,
    Rankings,
    conditional_logit,
    fit_rankings,
    fit_weights,
)
from kglink.linking.fit_probability import Foretold, fit_calibration, is_gain
from kglink.linking.kinds import RETRIEVED, Weights
from kglink.linking.scoring import PLAIN_SCORING, TRAINED_SCORING, Scoring
from kglink.records import Candidate, Document, EntityId, Mention
from kglink.workspace import Workspace
from kglink.workspace.memory import judged_documents
from rights import as_a_plain_user

EVIDENCE = tuple(one.name for one in RETRIEVED)
PLACE = {kind: at for at, kind in enumerate(EVIDENCE)}
TRAINED_WEIGHTS = TRAINED_SCORING.weights


def row(**values: float) -> tuple[float, ...]:
    return tuple(values.get(kind, 0.0) for kind in EVIDENCE)


def rankings(*given: tuple[list[tuple[float, ...]], list[int]]) -> Rankings:
    counts = [len(evidence) for evidence, _ in given]
    right = [at in golds for evidence, golds in given for at in range(len(evidence))]
    return Rankings(
        EVIDENCE,
        np.array([one for evidence, _ in given for one in evidence], dtype=np.float64),
        np.array(right),
        (np.cumsum(counts) - counts).astype(np.int64),
        np.arange(len(given)) % 5,
        ("",),
        np.zeros(len(given), dtype=np.int64),
        np.ones(len(given), dtype=np.bool_),
        np.arange(len(given)),
    )


def random_rankings(seed: int, count: int, names: float = 0.0, memory: float = 0.0) -> Rankings:
    """The context and so much of names and memory tell the right one, and there is some noise."""
    rng = np.random.default_rng(seed)
    made = []
    for _ in range(count):
        rows = np.zeros((6, len(EVIDENCE)))
        for kind in ("similar", "alias", "context", "memory"):
            rows[:, PLACE[kind]] = rng.uniform(0, 1, 6)
        told = rows[:, PLACE["context"]] + names * rows[:, PLACE["similar"]]
        told = told + memory * rows[:, PLACE["memory"]]
        right = int(np.argmax(told + rng.normal(0, 0.05, 6)))
        made.append(([tuple(one) for one in rows], [right]))
    return rankings(*made)


def test_the_first_of_the_best_counts() -> None:
    near, far = row(context=0.8), row(context=0.3)
    some = rankings(
        ([far, near], [1]),
        ([near, far], [1]),
        ([near, near], [0]),
        ([near, near], [1]),
        ([far], []),
    )
    right = some.first_is_right(TRAINED_WEIGHTS)
    assert right.tolist() == [True, False, True, False, False]
    assert some.part(np.array([False, True, True, False, False])).first_is_right(
        TRAINED_WEIGHTS
    ).tolist() == [False, True]  # fmt: skip


@pytest.mark.parametrize(("names", "memory"), [(0.0, 0.0), (0.3, 0.0), (0.6, 0.5), (0.0, 2.0)])
def test_evidence_counts_as_much_as_it_tells(names: float, memory: float) -> None:
    some = random_rankings(4, 1500, names, memory)
    weights, before, after = fit_weights(some, TRAINED_WEIGHTS)
    assert after > before  # memory, which tells other than it is taken for by default
    assert weights["similar"] / weights["context"] == pytest.approx(names, abs=0.06)
    assert weights["memory"] / weights["context"] == pytest.approx(memory, abs=0.06)


def test_the_logit_is_where_its_gradient_says() -> None:
    """At the fitted weights no small step makes right candidates more probable."""
    some = random_rankings(7, 400, 0.3, 0.5)
    weights = conditional_logit(some, TRAINED_WEIGHTS)

    def loss(**changes: float) -> float:
        told = dict(zip(EVIDENCE, some.evidence.T, strict=True))
        total = sum((weights[kind] + changes.get(kind, 0)) * told[kind] for kind in EVIDENCE)
        right = some.right.reshape(-1, 6)

        def at(sharp: float) -> float:
            logits = sharp * np.asarray(total).reshape(-1, 6)
            return float((np.log(np.exp(logits).sum(1)) - logits[right]).sum())

        return float(minimize_scalar(at, bounds=(1, 100), method="bounded").fun)

    for term in ("similar", "context", "memory"):
        for step in (-0.05, 0.05):
            assert loss(**{term: step}) > loss() - 1.0


def test_few_mentions_change_nothing() -> None:
    some = random_rankings(5, 3, 0.6)
    weights, before, after = fit_weights(some, TRAINED_WEIGHTS)
    assert weights == TRAINED_WEIGHTS
    assert before == after
    nothing = rankings(([row()] * 2, []))
    assert fit_weights(nothing, TRAINED_WEIGHTS) == (TRAINED_WEIGHTS, 0.0, 0.0)
    assert conditional_logit(nothing, TRAINED_WEIGHTS) == TRAINED_WEIGHTS


def test_weights_are_judged_by_documents_that_they_were_not_fitted_to() -> None:
    """Evidence that tells the answers of one part alone is no gain elsewhere."""
    some = random_rankings(8, 200)
    evidence = some.evidence.copy()
    inside = np.repeat(some.folds == 0, 6)
    evidence[inside, PLACE["memory"]] = some.right[inside]
    learnt = replace(some, evidence=evidence)
    _, _, after = fit_weights(learnt, TRAINED_WEIGHTS)
    by_heart = learnt.first_is_right(conditional_logit(learnt, TRAINED_WEIGHTS)).mean()
    assert after <= by_heart + 1e-9


def test_probabilities_are_as_often_right_as_they_say() -> None:
    some = random_rankings(6, 600)
    scoring = fit_rankings(some, TRAINED_SCORING)
    said = probabilities(some, scoring)
    assert np.mean(said) == pytest.approx(some.decisions(scoring.weights)[1].mean(), abs=0.02)
    # A small lead is less sure than a large one, and is so said.
    first = Candidate(EntityId("k", "1"), "", 0.8, evidence={"nil": 0.0})
    assert scoring.probability(first, 0.3) > scoring.probability(first, 0.0)


def some_mean_nothing(seed: int, count: int) -> Rankings:
    """A third means nothing and scores half as much; of the others the best is often wrong."""
    some = random_rankings(seed, count)
    nothing = np.arange(count) % 3 == 0
    evidence = some.evidence.copy()
    evidence[np.repeat(nothing, 6)] *= 0.5
    wrong = np.repeat(np.arange(count) % 2 == 0, 6)
    # The right one is another than the best.
    right = np.where(wrong, np.roll(some.right.reshape(-1, 6), 1, axis=1).ravel(), some.right)
    return replace(
        some,
        evidence=evidence,
        right=right & ~np.repeat(nothing, 6),
        answered=~nothing,
        of_kb=np.zeros(count, dtype=np.int64),
        kbs=("k",),
    )


def test_nil_is_how_likely_the_kb_has_nothing_and_not_that_the_best_is_wrong() -> None:
    some = some_mean_nothing(12, 600)
    scoring = fit_rankings(some, TRAINED_SCORING)
    facts, right = some.decisions(scoring.weights)
    present = np.array(
        [scoring.presence_in("k").probability(score, lead, -nil) for score, lead, nil, _ in facts]
    )
    answered = some.answered
    assert present[answered].mean() > 0.85
    assert present[~answered].mean() < 0.3
    assert present.mean() == pytest.approx(2 / 3, abs=0.04)
    # Two in five of the best candidates are right: what that leaves is no probability of NIL.
    assert right.mean() < 0.45


def test_where_no_mention_means_nothing_nil_stays_as_it_was() -> None:
    some = random_rankings(13, 300)
    everything_found = replace(some, answered=np.ones(300, dtype=np.bool_))
    # A few words that mean nothing, however often, tell no more.
    hardly = replace(some, answered=some.words % 40 != 0)
    assert 0 < len(np.unique(hardly.words[~hardly.answered])) < LEAST_NIL
    for one in (some, everything_found, hardly):
        scoring = fit_rankings(one, PLAIN_SCORING)
        assert scoring.presence == PLAIN_SCORING.presence
        assert scoring.presence_by_kb == {}


def test_mentions_that_are_all_right_make_no_foreign_name_an_answer() -> None:
    """They do not show how weak the evidence of a wrong answer is, a score of .3 here."""
    facts = np.column_stack([np.full(60, 0.9), np.full(60, 0.5), np.zeros(60), np.ones(60)])
    words = np.arange(60)
    some = Foretold(facts, np.ones(60), words % 5, words)
    start = PLAIN_SCORING.calibration
    fitted = fit_calibration(some, start)
    assert fitted.probability(0.9, 0.5, 0.0) > start.probability(0.9, 0.5, 0.0) + 0.05
    assert fitted.bias <= start.bias
    assert fitted.probability(0.3, 0.0, 0.0) < 2 * start.probability(0.3, 0.0, 0.0) < 0.5


def test_few_mentions_make_good_probabilities_no_worse() -> None:
    """Probabilities that many mentions taught, fitted to ten more: others are foretold as well."""
    taught = fit_rankings(some_mean_nothing(14, 2000), PLAIN_SCORING)
    worse = [loss_of_others(seed, taught) for seed in range(20, 40)]
    assert max(worse) < 0.03
    assert np.mean(worse) < 0.003


def loss_of_others(seed: int, taught: Scoring) -> float:
    """By how much a fit to ten mentions makes the probabilities of 300 others worse."""
    some = some_mean_nothing(seed, 310)
    few = np.arange(310) < 10
    fitted = fit_rankings(some.part(few), taught)
    rest = some.part(~few)
    told = Foretold(*rest.decisions(taught.weights), rest.folds, rest.words)
    own = fitted.calibration_by_kb.get("k", fitted.calibration)
    return float((told.loss(own) - told.loss(taught.calibration)).mean())


def test_mentions_of_the_same_words_are_one_witness() -> None:
    """What one name alone says a hundred times is no more than chance; a hundred names are not."""
    some = some_mean_nothing(16, 300)
    facts, right = some.decisions(PLAIN_SCORING.weights)
    wrong = Foretold(facts, 1 - right, some.folds, some.words)
    assert fit_calibration(wrong, PLAIN_SCORING.calibration) != PLAIN_SCORING.calibration
    one = wrong._replace(words=np.zeros(300, dtype=np.int64))
    assert fit_calibration(one, PLAIN_SCORING.calibration) == PLAIN_SCORING.calibration
    gain = np.array([1.0, 1.0, -1.0, 2.0])
    words = np.array([5, 5, 7, 8])  # the standard error is 3: 2² + 1² + 2²
    assert is_gain(gain, words, errors=0.99)
    assert not is_gain(gain, words, errors=1)


def test_evidence_for_one_name_changes_no_weights() -> None:
    some = random_rankings(4, 300, 0.6, 0.5)
    assert fit_weights(some, TRAINED_WEIGHTS)[0] != TRAINED_WEIGHTS
    same = replace(some, words=np.zeros(300, dtype=np.int64))
    assert fit_weights(same, TRAINED_WEIGHTS)[0] == TRAINED_WEIGHTS


def test_of_one_document_nothing_can_be_held_out() -> None:
    one = replace(random_rankings(15, 200), folds=np.zeros(200, dtype=np.int64))
    assert fit_rankings(one, PLAIN_SCORING).calibration == PLAIN_SCORING.calibration


def probabilities(some: Rankings, scoring: Scoring) -> list[float]:
    facts, _ = some.decisions(scoring.weights)
    return [scoring.calibration.probability(score, lead, -nil) for score, lead, nil, _ in facts]


def test_decisions_by_hand() -> None:
    some = rankings(
        ([row(context=0.5), row(context=0.9, nil=0.25)], [1]),
        ([row(context=0.4)], []),
    )
    facts, right = some.decisions(Weights.of(context=1.0))
    assert facts == pytest.approx(np.array([[0.9, 0.4, -0.25, 1], [0.4, 0.4, 0, 1]]))
    assert right.tolist() == [1, 0]


def test_mentions_that_mean_nothing_make_probabilities_smaller() -> None:
    """A third means nothing: their best candidates score and lead less, as the fit finds out."""
    some = random_rankings(9, 600)
    nothing = np.arange(600) % 3 == 0
    rows = np.repeat(nothing, 6)
    evidence = some.evidence.copy()
    evidence[rows] *= 0.5
    with_nil = replace(
        some,
        evidence=evidence,
        right=some.right & ~rows,
        answered=~nothing,
        of_kb=np.zeros(600, dtype=np.int64),
        kbs=("k",),
    )
    scoring = fit_rankings(with_nil, TRAINED_SCORING)
    said = np.array(probabilities(with_nil, scoring))
    assert said[nothing].mean() < 0.35
    assert said[~nothing].mean() > 0.75
    # 40 mentions that the first probability foretold count beside these 600.
    assert said.mean() == pytest.approx(with_nil.decisions(scoring.weights)[1].mean(), abs=0.03)
    # R@1 is of mentions that mean something alone.
    assert (
        scoring.recall[0] == with_nil.part(with_nil.answered).first_is_right(TRAINED_WEIGHTS).mean()
    )


def test_a_kb_has_weights_of_its_own_where_these_are_better() -> None:
    """In one KB memory tells the answers, in the other it is noise."""
    told, noise = random_rankings(10, 600, memory=1.0), random_rankings(11, 600)
    counts = len(told.right)
    both = Rankings(
        EVIDENCE,
        np.concatenate([told.evidence, noise.evidence]),
        np.concatenate([told.right, noise.right]),
        np.concatenate([told.starts, noise.starts + counts]),
        np.concatenate([told.folds, noise.folds]),
        ("told", "noise"),
        np.repeat([0, 1], 600),
        np.ones(1200, dtype=np.bool_),
        np.arange(1200),
    )
    scoring = fit_rankings(both, TRAINED_SCORING)
    assert scoring.weights_in("told")["memory"] > 2 * scoring.weights_in("noise")["memory"]
    right = noise.first_is_right(scoring.weights_in("noise")).mean()
    assert right > noise.first_is_right(scoring.weights).mean()
    # No KB comes first in a list of all because its own weights are larger.
    for kb, some in (("told", told), ("noise", noise)):
        own, common = (some.decisions(one)[0] for one in (scoring.weights_in(kb), scoring.weights))
        assert own[:, 0].mean() == pytest.approx(common[:, 0].mean(), abs=1e-3)


@pytest.mark.parametrize("fit", ["fit", "fit_clusterer"])
def test_a_space_that_may_not_be_written_is_told_before_the_work(demo_copy: Path, fit: str) -> None:
    def fitted() -> None:
        with Workspace.open(demo_copy) as workspace:
            getattr(workspace, fit)("docs", progress=lambda told: pytest.fail(str(told)))

    folder = demo_copy / "spaces" / "default"
    folder.chmod(0o500)
    with pytest.raises(SpaceError, match=f"folder {folder} may not be written: "):
        as_a_plain_user(fitted)
    folder.chmod(0o700)


def test_the_order_in_which_sources_are_named_changes_no_fit(demo_copy: Path) -> None:
    with Workspace.open(demo_copy) as workspace:
        for kb, texts in (("a", ["Halley", "Orion"]), ("b", ["Bell"])):
            marked = [(text, Mention(0, len(text), text, ())) for text in texts]
            workspace.add_kb(kb, [Document(text, text, (one,)) for text, one in marked])
        one, other = (judged_documents(workspace, names, "") for names in (["b", "a"], ["a", "b"]))
    assert list(one.items()) == list(other.items())
    read = {kb: [document.text for document in own] for kb, own in one.items()}
    assert read == {"a": ["Halley", "Orion"], "b": ["Bell"]}
