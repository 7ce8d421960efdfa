"""Precision, recall, F1 and calibration, from counts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

Interval = tuple[float, float]

#: Bins of confidence, of equal width.
BINS = 10


class PrecisionRecall(NamedTuple):
    """Precision, recall and F1; where there is nothing to find and nothing was found all are 1."""

    precision: float
    recall: float
    f1: float

    @classmethod
    def of(cls, right: int, found: int, gold: int) -> PrecisionRecall:
        """From how many answers are right, how many there are, and how many mentions."""
        if not found and not gold:
            return cls(1.0, 1.0, 1.0)
        return cls(
            right / found if found else 0.0,
            right / gold if gold else 0.0,
            2 * right / (found + gold),
        )


class Score:
    """Counts over texts, and each text's own figures."""

    def __init__(self) -> None:
        self.right = self.found = self.gold = 0
        self._texts: list[PrecisionRecall] = []
        self._with_gold: list[PrecisionRecall] = []
        self._counts: list[tuple[int, int, int]] = []

    def add(self, right: int, found: int, gold: int) -> None:
        """Count one text."""
        self.right += right
        self.found += found
        self.gold += gold
        self._counts.append((right, found, gold))
        own = PrecisionRecall.of(right, found, gold)
        self._texts.append(own)
        if gold:
            self._with_gold.append(own)

    @property
    def micro(self) -> PrecisionRecall:
        """The figures of all mentions together."""
        return PrecisionRecall.of(self.right, self.found, self.gold)

    def intervals(self) -> tuple[Interval, Interval, Interval]:
        """The 95% intervals of `micro`."""
        from kglink.evaluation.intervals import text_intervals

        return text_intervals(self._counts)

    def macro(self, *, complete: bool) -> PrecisionRecall:
        """The mean of the texts' figures; where annotated in part, of texts with a mention."""
        texts = self._texts if complete else self._with_gold
        if not texts:
            return PrecisionRecall(0.0, 0.0, 0.0)
        return PrecisionRecall(*(sum(each) / len(texts) for each in zip(*texts, strict=True)))

    def as_json(self, *, complete: bool) -> dict[str, object]:
        """Counts and figures in the shape of ``kglink eval --json``.

        Where there is nothing to find no figure is known.
        """
        fields = PrecisionRecall._fields
        known = {name for name in fields if self.gold and (complete or name == "recall")}

        def told(values: Iterable[object]) -> dict[str, object]:
            named = zip(fields, values, strict=True)
            return {name: value if name in known else None for name, value in named}

        return {
            "gold": self.gold,
            "found": self.found,
            "right": self.right,
            "micro": told(self.micro),
            "intervals": told(map(list, self.intervals())),
            "macro": told(self.macro(complete=complete)),
        }


class Calibration:
    """Whether answers are right as often as they say."""

    def __init__(self) -> None:
        self._answers = [0] * BINS
        self._right = [0] * BINS
        self._confidence = [0.0] * BINS
        self._squares = 0.0

    def add(self, confidence: float, *, right: bool) -> None:
        """Count an answer."""
        at = min(int(confidence * BINS), BINS - 1)
        self._answers[at] += 1
        self._right[at] += right
        self._confidence[at] += confidence
        self._squares += (confidence - right) ** 2

    @property
    def answers(self) -> int:
        """How many there are."""
        return sum(self._answers)

    @property
    def ece(self) -> float | None:
        """Expected calibration error: how far confidence is from the share of right answers.

        The mean over all answers of the difference in their bin; None without answers.
        """
        if not self.answers:
            return None
        bins = zip(self._right, self._confidence, strict=True)
        return sum(abs(right - confidence) for right, confidence in bins) / self.answers

    @property
    def brier(self) -> float | None:
        """The mean square of the difference between confidence and 1 (right) or 0 (wrong)."""
        return self._squares / self.answers if self.answers else None

    def as_json(self) -> dict[str, object]:
        """The errors, and the bins of the reliability curve; means of an empty bin are null."""
        counts = zip(self._answers, self._right, self._confidence, strict=True)
        bins = [
            {
                "from": at / BINS,
                "to": (at + 1) / BINS,
                "answers": answers,
                "confidence": confidence / answers if answers else None,
                "right": right / answers if answers else None,
            }
            for at, (answers, right, confidence) in enumerate(counts)
        ]
        return {"answers": self.answers, "ece": self.ece, "brier": self.brier, "bins": bins}
