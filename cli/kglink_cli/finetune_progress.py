"""What a fine-tuning is at: a bar that moves, and a line for what is done."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

from kglink.records import Progress
from kglink.training.job import EpochNews, News, Note, Planned, StepNews
from kglink_cli.console import Reached, Show, counted, note, reached

_OF_STAGES = {"S": "S (source KBs)", "T": "T (target KBs)", "O": "O (overlaps)"}
#: Seconds from which something was done at all.
_SEEN = 1e-3


class FinetuneNews:
    """Shows what a run tells: a bar that moves, and a line for what is done."""

    def __init__(self, show: Show, begun: Callable[[], None] = lambda: None) -> None:
        self._show = show
        self._begun = begun
        self._handlers: Mapping[type, Callable[[Any], None]] = {
            Progress: lambda told: show(reached(told)),
            Note: lambda news: note("note", news.text),
            Planned: self._planned,
            StepNews: self._step,
            EpochNews: self._epoch,
        }

    def take(self, news: News) -> None:
        """Take news of the run."""
        if not isinstance(news, Progress | Note):  # those may come before its settings are kept
            self._begun()
        self._handlers[type(news)](news)

    def _planned(self, news: Planned) -> None:
        for letter, pairs in news.groups:
            note("learns", f"{_OF_STAGES[letter]}: {counted(pairs, 'pair')}")
        steps = ", ".join(f"{stage} {counted(count, 'step')}" for stage, count in news.stages)
        note("plan", f"{steps}; judged by {counted(news.valid, 'mention')} held back")
        several = f"{news.processes} processes, each " if news.processes > 1 else ""
        threads = counted(news.threads, "core")
        note("model", f"{news.base} on {news.device}, {several}{threads}, {news.precision}")

    def _step(self, news: StepNews) -> None:
        pace = (
            f"loss {news.loss:.3f}, rate {news.rate:.1e}, {news.pairs_per_second:,.0f} pairs/s, "
            f"{_time(news.seconds_left)} left"
        )
        label = f"stage {news.stage}, epoch {news.epoch}/{news.epochs}"
        self._show(Reached(label, news.step, news.steps, news.step, pace=pace))

    def _epoch(self, news: EpochNews) -> None:
        figures = " ".join(f"{name} {value:.3f}" for name, value in news.figures.items())
        if not news.epoch:
            note("before", figures)
            return
        parts = [f"{news.epoch}/{news.epochs}", f"loss {news.loss:.3f}"]
        if figures:
            parts.append(figures)
        spent = {"mining": news.mining, "validation": news.validation}
        inside = [f"{what} {_time(seconds)}" for what, seconds in spent.items() if seconds > _SEEN]
        parts.append(_time(news.seconds) + (f" ({', '.join(inside)})" if inside else ""))
        if news.is_best:
            parts.append("best so far")
        note(f"stage {news.stage}", "   ".join(parts))


def _time(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.1f} s"
    return str(timedelta(seconds=round(seconds)))
