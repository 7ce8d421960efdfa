"""What a fine-tuning is at: a bar that moves, and a line for what is done."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from kglink.training.progress import (
    BeforeNews,
    EpochNews,
    News,
    Note,
    Planned,
    Reading,
    StepNews,
)
from kglink_cli.console import Reached, counted, note

if TYPE_CHECKING:
    from kglink.overlap.steps import SearchStep
    from kglink.training.validation import Recalls

_OF_STAGES = {"S": "S (source KBs)", "T": "T (target KBs)", "O": "O (overlaps)"}
#: Seconds from which something was done at all.
_SEEN = 1e-3
_READING = {
    "texts": "reading texts",
    "vectors": "encoding the pool",
    "mining": "looking for hard negatives of mentions",
    "validation": "judging by mentions",
}


class FinetuneProgress:
    """Takes the news of a run; `reached` says what to show now."""

    def __init__(self, rows: int) -> None:
        self._rows = rows
        self._now = Reached("beginning", 0)
        self._handlers: Mapping[type, Callable[[Any], None]] = {
            Note: lambda news: note("note", news.text),
            Reading: self._reading,
            Planned: self._planned,
            BeforeNews: self._before,
            StepNews: self._step,
            EpochNews: self._epoch,
        }

    def reached(self) -> Reached:
        """What the work is at."""
        return self._now

    def training(self, news: News) -> None:
        """Take news of the training."""
        self._handlers[type(news)](news)

    def searching(self, step: SearchStep) -> None:
        """Take what a search for overlaps is at."""
        label = f"overlaps: {step.name}"
        self._now = Reached(label, step.done, step.total or None, step.done)

    def building(self, kb: str, rows: int) -> None:
        """Take rows of the space that are encoded."""
        self._add("building the space", rows, self._rows)

    def fitting(self, documents: int) -> None:
        """Take documents that the scoring is fitted on."""
        self._add("fitting the scoring", documents)

    def _reading(self, news: Reading) -> None:
        self._add(_READING[news.what], news.items, news.total or None)

    def _planned(self, news: Planned) -> None:
        for letter, pairs in news.groups:
            note("learns", f"{_OF_STAGES[letter]}: {counted(pairs, 'pair')}")
        steps = ", ".join(f"{stage} {counted(count, 'step')}" for stage, count in news.stages)
        note("plan", f"{steps}; judged by {counted(news.valid, 'mention')} held back")
        several = f"{news.processes} processes, each " if news.processes > 1 else ""
        threads = counted(news.threads, "core")
        note("model", f"{news.base} on {news.device}, {several}{threads}, {news.precision}")

    def _before(self, news: BeforeNews) -> None:
        note("before", recalls_text(news.recalls))

    def _step(self, news: StepNews) -> None:
        pace = (
            f"loss {news.loss:.3f}, rate {news.rate:.1e}, {news.pairs_per_second:,.0f} pairs/s, "
            f"{_time(news.seconds_left)} left"
        )
        label = f"stage {news.stage}, epoch {news.epoch}/{news.epochs}"
        self._now = Reached(label, news.step, news.steps, news.step, pace=pace)

    def _epoch(self, news: EpochNews) -> None:
        parts = [f"{news.epoch}/{news.epochs}", f"loss {news.loss:.3f}"]
        if news.recalls is not None:
            parts.append(recalls_text(news.recalls))
        spent = {"mining": news.mining, "validation": news.validation}
        inside = [f"{what} {_time(seconds)}" for what, seconds in spent.items() if seconds > _SEEN]
        parts.append(_time(news.seconds) + (f" ({', '.join(inside)})" if inside else ""))
        if news.is_best:
            parts.append("best so far")
        note(f"stage {news.stage}", "   ".join(parts))

    def _add(self, label: str, count: int, total: int | None = None) -> None:
        if label != self._now.label:
            self._now = Reached(label, 0, total)
        done = self._now.done + count
        self._now = Reached(label, done, self._now.total, int(done))


def recalls_text(recalls: Recalls) -> str:
    """``R@1 .41 R@64 .88``: the mean over KBs."""
    shares = [(f"R@{k}", recalls.mean_over_kbs(f"R@{k}")) for k in recalls.ks]
    return " ".join(f"{name} {share:.3f}" for name, share in shares)


def _time(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.1f} s"
    return str(timedelta(seconds=round(seconds)))
