"""The losses: by the papers' formulas, by hand, without overflow."""

from __future__ import annotations

import math
from types import MappingProxyType

import pytest
import torch
from torch import Tensor

from kglink.errors import UsageError
from kglink.plugins import Objective
from kglink.testing import ObjectiveContract
from kglink_plugins.objectives import Bce, Distillation, Nce, OverlapLoss, PosNeg
from kglink_plugins.plugin import (
    DistillationSettings,
    NceSettings,
    ObjectiveSettings,
    OverlapLossSettings,
)

Scores = list[list[float]]
Right = list[list[bool]]
MASKED = -math.inf
#: log(1 + exp(-x)): what a lead of x costs in a softmax of two, and a score of x in BCE.
LEAD = {x: math.log1p(math.exp(-x)) for x in (-1, 0, 1, 2, 3)}


def softmax_loss(scores: Scores, positive: Right, mean: bool = False) -> float:
    losses = []
    for row, right in zip(scores, positive, strict=True):
        whole = sum(math.exp(score) for score in row)
        held = [math.exp(score) / whole for score, yes in zip(row, right, strict=True) if yes]
        held = [share for share in held if share]
        if held:
            logs = [math.log(share) for share in held]
            losses.append(-sum(logs) / len(logs) if mean else -math.log(sum(held)))
    return sum(losses) / len(losses)


def loss_against_others(scores: Scores, positive: Right, mean: bool = False) -> float:
    losses = []
    for row, right in zip(scores, positive, strict=True):
        left = [score for score in row if score != MASKED]
        kept = [yes for score, yes in zip(row, right, strict=True) if score != MASKED]
        golds = [score for score, yes in zip(left, kept, strict=True) if yes]
        others = [math.exp(score) for score, yes in zip(left, kept, strict=True) if not yes]
        if golds and others:
            lead = sum(golds) / len(golds) if mean else math.log(sum(map(math.exp, golds)))
            losses.append(math.log(sum(others)) - lead)
    return sum(losses) / len(losses)


def binary_loss(scores: Scores, positive: Right) -> float:
    def sigma(score: float) -> float:
        return 1 / (1 + math.exp(-score))

    losses = [
        sum(
            -math.log(sigma(score) if yes else 1 - sigma(score))
            for score, yes in zip(row, right, strict=True)
            if score != MASKED
        )
        for row, right in zip(scores, positive, strict=True)
    ]
    return sum(losses) / len(losses)


class TestNce(ObjectiveContract):
    plugin = "kglink/nce"

    def expected_loss(self, scores: Scores, positive: Right) -> float:
        return softmax_loss(scores, positive)


class TestNceOfEachAnswer(ObjectiveContract):
    plugin = "kglink/nce"
    settings = MappingProxyType({"several": "mean"})

    def expected_loss(self, scores: Scores, positive: Right) -> float:
        return softmax_loss(scores, positive, mean=True)


class TestNceWithoutGoldInTheSum(ObjectiveContract):
    plugin = "kglink/nce"
    settings = MappingProxyType({"include_gold": False})

    def expected_loss(self, scores: Scores, positive: Right) -> float:
        return loss_against_others(scores, positive)


class TestNceOfEachAnswerWithoutGoldInTheSum(ObjectiveContract):
    plugin = "kglink/nce"
    settings = MappingProxyType({"include_gold": False, "several": "mean"})

    def expected_loss(self, scores: Scores, positive: Right) -> float:
        return loss_against_others(scores, positive, mean=True)


class TestNceWithTemperatureAndMargin(ObjectiveContract):
    plugin = "kglink/nce"
    settings = MappingProxyType({"temperature": 0.5, "margin": 0.25})

    def expected_loss(self, scores: Scores, positive: Right) -> float:
        changed = [
            [(score - 0.25 * yes) / 0.5 for score, yes in zip(*pair, strict=True)]
            for pair in zip(scores, positive, strict=True)
        ]
        return softmax_loss(changed, positive)


def pos_neg_loss(scores: Scores, positive: Right) -> float:
    losses = []
    for row, right in zip(scores, positive, strict=True):
        whole = sum(math.exp(score) for score in row)
        shares = [math.exp(score) / whole for score in row]
        held = sum(share for share, yes in zip(shares, right, strict=True) if yes)
        if held:
            rest = [math.log(1 - one) for one, yes in zip(shares, right, strict=True) if not yes]
            losses.append(-math.log(held) - sum(rest))
    return sum(losses) / len(losses)


class TestPosNeg(ObjectiveContract):
    plugin = "kglink/pos_neg"

    def expected_loss(self, scores: Scores, positive: Right) -> float:
        return pos_neg_loss(scores, positive)


def test_pos_neg_by_hand() -> None:
    """Shares of 1/2, 1/4 and 1/4: -log 1/2 - 2 log 3/4."""
    scores = torch.tensor([[math.log(2), 0.0, 0.0, MASKED]])
    right = torch.tensor([[True, False, False, False]])
    expected = math.log(2) - 2 * math.log(0.75)
    assert PosNeg().loss(scores, right).item() == pytest.approx(expected, rel=1e-6)


def test_pos_neg_has_the_gradient_of_its_formula() -> None:
    torch.manual_seed(3)
    scores = torch.randn(4, 6, dtype=torch.float64, requires_grad=True)
    right = torch.zeros(4, 6, dtype=torch.bool)
    right[torch.arange(4), torch.tensor([0, 2, 5, 5])] = True
    assert torch.autograd.gradcheck(lambda one: PosNeg().loss(one, right), (scores,))


def test_pos_neg_is_finite_where_a_wrong_answer_has_all_of_the_softmax() -> None:
    """exp(-200) is no float32: what is left of the wrong column's share is added up."""
    scores = torch.tensor([[0.0, 200.0, 0.0]], requires_grad=True)
    got = PosNeg().loss(scores, torch.tensor([[True, False, False]]))
    got.backward()  # type: ignore[no-untyped-call]  # torch does not type it
    assert got.item() == pytest.approx(200 + 200 - math.log(2), rel=1e-6)
    assert scores.grad is not None
    assert torch.isfinite(scores.grad).all()


class TestBce(ObjectiveContract):
    plugin = "kglink/bce"

    def expected_loss(self, scores: Scores, positive: Right) -> float:
        return binary_loss(scores, positive)


class TestOverlap(ObjectiveContract):
    plugin = "kglink/overlap"

    def expected_loss(self, scores: Scores, positive: Right) -> float:
        columns = [list(column) for column in zip(*scores, strict=True)]
        right = [list(column) for column in zip(*positive, strict=True)]
        return softmax_loss(scores, positive) + softmax_loss(columns, right)


class TestDistillationOfAPerfectTeacher(ObjectiveContract):
    """With a teacher that always agrees with the right answers, it is an objective like others."""

    def make(self) -> Objective:
        distillation = Distillation()

        class Taught:
            def loss(self, scores: Tensor, positive: Tensor) -> Tensor:
                return distillation.loss(scores, positive, 100.0 * positive)

        return Taught()


def loss(objective: Objective, scores: Scores, right: list[int] | None = None) -> float:
    """The loss where row i's right answer is column ``right[i]``: the diagonal."""
    matrix = torch.tensor(scores)
    positive = torch.zeros(matrix.shape, dtype=torch.bool)
    positive[range(len(matrix)), right or list(range(len(matrix)))] = True
    return float(objective.loss(matrix, positive))


def close(value: float) -> object:
    return pytest.approx(value, abs=1e-6)


def test_in_batch_loss_by_hand() -> None:
    assert loss(Nce(), [[2, 0], [1, 3]]) == close(LEAD[2])
    assert loss(Nce(), [[0, 1], [1, 3]]) == close((LEAD[-1] + LEAD[2]) / 2)


def test_without_gold_in_the_sum_the_loss_falls_without_end() -> None:
    """Bosch, eq. 1, read to the letter: a lead of x costs -x."""
    literal = Nce(NceSettings(include_gold=False))
    assert loss(literal, [[2, 0], [1, 3]]) == close(-2)
    assert loss(literal, [[200, 0], [0, 200]]) == close(-200)
    # A row that nothing stands against says nothing.
    assert loss(literal, [[2, 0], [MASKED, 3]]) == close(-2)
    assert loss(literal, [[2, MASKED], [MASKED, 3]]) == 0


def test_a_masked_duplicate_of_gold_is_no_negative() -> None:
    # Mentions 0 and 1 have one gold: without the mask each would push the other's away.
    faithful = [[2.0, 2.0, 1.0], [3.0, 3.0, 0.0], [0.0, 0.0, 0.0]]
    masked = [[2.0, MASKED, 1.0], [MASKED, 3.0, 0.0], [0.0, 0.0, 0.0]]
    assert loss(Nce(), masked) == close((LEAD[1] + LEAD[3] + math.log(3)) / 3)
    assert loss(Nce(), faithful) == close(softmax_loss(faithful, torch.eye(3).bool().tolist()))


def test_own_negatives_by_hand() -> None:
    """T-Biencoder, eq. 6: the gold first, then 15 negatives; here 2."""
    assert loss(Nce(), [[0, 0, 0], [math.log(2), 0, 0]], [0, 0]) == close(
        (math.log(3) + math.log(2)) / 2
    )


def test_several_right_answers_by_hand() -> None:
    scores, positive = torch.zeros(1, 3), torch.tensor([[True, True, False]])
    assert float(Nce().loss(scores, positive)) == close(-math.log(2 / 3))
    each = Nce(NceSettings(several="mean"))
    assert float(each.loss(scores, positive)) == close(math.log(3))
    # Where one of both is well ahead, the sum is content and the mean is not.
    ahead = torch.tensor([[9.0, -9.0, 0.0]])
    assert float(Nce().loss(ahead, positive)) < 0.001
    assert float(each.loss(ahead, positive)) > 9


def test_temperature_and_margin_by_hand() -> None:
    assert loss(Nce(NceSettings(temperature=0.5)), [[1, 0]], [0]) == close(LEAD[2])
    assert loss(Nce(NceSettings(margin=2)), [[3, 0]], [0]) == close(LEAD[1])
    assert loss(Nce(NceSettings(margin=1, temperature=0.5)), [[1.5, 0]], [0]) == close(LEAD[1])
    assert loss(Bce(ObjectiveSettings(temperature=0.5, margin=1)), [[2, -1]], [0]) == close(
        LEAD[2] + LEAD[2]
    )


def test_bce_by_hand() -> None:
    """AMH, eq. 11: terms of a mention are added up, mentions averaged."""
    assert loss(Bce(), [[2, -1, -3]], [0]) == close(LEAD[2] + LEAD[1] + LEAD[3])
    assert loss(Bce(), [[2, -1, -3], [0, MASKED, 1]], [0, 0]) == close(
        (LEAD[2] + LEAD[1] + LEAD[3] + LEAD[0] + LEAD[-1]) / 2
    )


def test_bce_counts_a_mention_without_an_answer() -> None:
    nobody = torch.zeros(1, 2, dtype=torch.bool)
    assert float(Bce().loss(torch.tensor([[-1.0, -3.0]]), nobody)) == close(LEAD[1] + LEAD[3])


def test_overlap_loss_by_hand() -> None:
    # Rows lead by 1 and 3, columns by 2 and 2.
    expected = (LEAD[1] + LEAD[3]) / 2 + (LEAD[2] + LEAD[2]) / 2
    assert loss(OverlapLoss(), [[2, 1], [0, 3]]) == close(expected)
    assert loss(OverlapLoss(), [[2, 0], [1, 3]]) == close(expected), "both directions count alike"


def test_overlap_loss_is_the_formula_of_a_pair() -> None:
    """-2 s + lse(row) + lse(column), the diagonal kept; averaged over pairs."""
    scores = torch.randn(5, 5, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    pairs = -2 * scores.diag() + scores.logsumexp(1) + scores.logsumexp(0)
    got = OverlapLoss().loss(scores, torch.eye(5, dtype=torch.bool))
    assert float(got) == close(float(pairs.mean()))


def test_a_counterpart_is_no_negative_of_an_overlap() -> None:
    # The cell (0, 1) is itself an overlap: neither row 0 nor column 1 is pushed away.
    assert loss(OverlapLoss(), [[2, MASKED], [0, 3]]) == close((LEAD[3] + LEAD[2]) / 2)


def test_overlaps_without_the_diagonal_by_hand() -> None:
    """Equation 2 to the letter: each pair is divided by the other cells of its row and column."""
    without = OverlapLoss(OverlapLossSettings(include_gold=False))
    # Rows: 1 - 2 and 0 - 3; columns: 0 - 2 and 1 - 3; the mean over two pairs of both directions.
    assert loss(without, [[2, 1], [0, 3]]) == close((1 - 2 + 0 - 3) / 2 + (0 - 2 + 1 - 3) / 2)


def test_distillation_by_hand() -> None:
    student, teacher = torch.tensor([[1.0, 0.0]]), torch.tensor([[2 * math.log(3), 0.0]])
    right = torch.tensor([[True, False]])
    half = math.log1p(math.exp(-0.5))
    # The teacher at T = 2 holds three quarters for the right one, the student leads by a half.
    listened = 0.75 * half + 0.25 * (half + 0.5)
    assert float(Distillation().loss(student, right, teacher)) == close((LEAD[1] + listened) / 2)
    alone = Distillation(DistillationSettings(alpha=1))
    assert float(alone.loss(student, right, teacher)) == close(LEAD[1])
    obedient = Distillation(DistillationSettings(alpha=0))
    assert float(obedient.loss(student, right, teacher)) == close(listened)


def test_a_student_that_equals_its_teacher_has_no_gradient() -> None:
    scores = torch.randn(3, 4, generator=torch.Generator().manual_seed(2))
    scores[0, 3] = MASKED
    teacher = scores.clone().requires_grad_()
    student = scores.clone().requires_grad_()
    positive = torch.eye(3, 4, dtype=torch.bool)
    got = Distillation(DistillationSettings(alpha=0)).loss(student, positive, teacher)
    got.backward()  # type: ignore[no-untyped-call]  # torch does not type it
    assert student.grad is not None
    torch.testing.assert_close(student.grad, torch.zeros(3, 4), rtol=0, atol=1e-6)
    assert teacher.grad is None, "the teacher learns"


def test_distillation_says_that_it_needs_a_teacher() -> None:
    assert Distillation.needs_teacher
    with pytest.raises(UsageError, match="needs a teacher's scores"):
        Distillation().loss(torch.zeros(1, 2), torch.tensor([[True, False]]))


@pytest.mark.parametrize("objective", [Nce(), Bce(), OverlapLoss()], ids=lambda o: type(o).__name__)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_raw_products_of_a_thousand_neither_overflow_nor_lose_digits(
    objective: Objective, dtype: torch.dtype
) -> None:
    scores = torch.tensor([[1000.0, -1000.0], [1000.0, 1000.0]], dtype=dtype, requires_grad=True)
    got = objective.loss(scores, torch.eye(2, dtype=torch.bool))
    got.backward()  # type: ignore[no-untyped-call]  # torch does not type it
    assert scores.grad is not None
    assert torch.isfinite(scores.grad).all()
    wanted = {"Nce": math.log(2) / 2, "Bce": 500.0, "OverlapLoss": math.log(2)}
    assert got.dtype == torch.float32
    assert got.item() == close(wanted[type(objective).__name__])


@pytest.mark.parametrize(
    "objective", [Nce(), Bce(), OverlapLoss(), PosNeg()], ids=lambda o: type(o).__name__
)
def test_nothing_to_learn_is_a_loss_of_zero_with_a_gradient(objective: Objective) -> None:
    for shape in ((2, 3), (0, 3)):
        scores = torch.full(shape, MASKED, requires_grad=True)
        got = objective.loss(scores, torch.zeros(shape, dtype=torch.bool))
        got.backward()  # type: ignore[no-untyped-call]  # torch does not type it
        assert got.item() == 0
        assert scores.grad is not None
        assert (scores.grad == 0).all()
