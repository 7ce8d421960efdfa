"""Asks a language model which candidate a mention means; without an answer all stays as it was."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Event, Lock, Thread

from kglink.records import Candidate, Ranking
from kglink_plugins.exporters.summary import counted
from kglink_plugins.plugin import LlmSettings
from kglink_plugins.rerankers.llm.endpoint import Endpoint, NoReplyError
from kglink_plugins.rerankers.llm.prompt import Answers, Prompt, chosen_number

#: After this number of failures in a row the endpoint is left alone for a number of seconds.
MOST_FAILURES = 3
REST = 60.0
#: The kind of evidence of its choice.
EVIDENCE = "llm"
_FILE = "llm-answers.sqlite"


#: The number of a candidate, 0 for none; or why there is no answer.
_Answer = int | str


class LlmReranker:
    """One mention at a time is asked; what was asked before is answered from a file."""

    def __init__(self, settings: LlmSettings) -> None:
        self._settings = settings
        self._endpoint = Endpoint(settings)
        self._prompt = Prompt(settings)
        self._answers: Answers | None = None
        self._lock = Lock()
        self._failures = 0
        self._rests_until = 0.0
        self._counts: Counter[str] = Counter()
        self._problems: Counter[str] = Counter()

    def keep_in(self, folder: Path) -> None:
        """Keep answers in a file of this folder."""
        self._answers = Answers(folder / _FILE)

    def rank(self, rankings: Sequence[Ranking]) -> list[Ranking]:
        """The model's choice first; where it chooses none all scores fall."""
        prompts = [self._prompt.about(one) if one.candidates else "" for one in rankings]
        counts = {
            prompt: len(one.candidates) for prompt, one in zip(prompts, rankings, strict=True)
        }
        counts.pop("", None)
        answers = self._all_answers(counts)
        return [
            self._ranked(one, answers[prompt]) if prompt else one
            for prompt, one in zip(prompts, rankings, strict=True)
        ]

    def told(self) -> list[str]:
        """What was asked, what it cost, and what stayed as it was, since it was told last."""
        with self._lock:
            counts, problems = self._counts, self._problems
            self._counts, self._problems = Counter(), Counter()
        if not counts and not problems:
            return []
        lines = [
            f"{counted(counts['asked'], 'question')} to {self._settings.model}, "
            f"{counts['read']:,} tokens read and {counts['written']:,} written; "
            f"{counted(counts['kept'], 'answer')} kept from before"
        ]
        lines += [
            f"{counted(count, 'question')} without an answer, candidates stay as they were: {why}"
            for why, count in problems.most_common()
        ]
        if self._answers is not None and self._answers.problem:
            lines.append(f"answers are not kept: {self._answers.problem}")
        return lines

    def _all_answers(self, counts: Mapping[str, int]) -> dict[str, _Answer]:
        """The answers to all prompts, some asked at once.

        Whoever stops waiting, by Ctrl-C, need not wait for questions that are open: a pool of
        `concurrent.futures` would.
        """
        waiting: SimpleQueue[tuple[str, int]] = SimpleQueue()
        done: SimpleQueue[tuple[str, _Answer | Exception]] = SimpleQueue()
        for one in counts.items():
            waiting.put(one)
        stopped = Event()

        def work() -> None:
            with suppress(Empty):
                while not stopped.is_set():
                    prompt, count = waiting.get_nowait()
                    try:
                        done.put((prompt, self._answer(prompt, count)))
                    except Exception as error:  # noqa: BLE001 - raised where the answer is wanted
                        done.put((prompt, error))

        for _ in range(min(self._settings.parallel, len(counts))):
            Thread(target=work, daemon=True).start()
        try:
            found = dict(done.get() for _ in counts)
        finally:
            stopped.set()
        answers: dict[str, _Answer] = {}
        for prompt, answer in found.items():
            if isinstance(answer, Exception):
                raise answer
            answers[prompt] = answer
        return answers

    def _answer(self, prompt: str, count: int) -> _Answer:
        try:
            return self._number(prompt, count)
        except NoReplyError as error:
            with self._lock:
                self._problems[str(error)] += 1
            return str(error)

    def _number(self, prompt: str, count: int) -> int:
        model = self._settings.model
        kept = self._answers.get(model, prompt) if self._answers else None
        number = None if kept is None else chosen_number(kept, count)
        if number is not None:
            with self._lock:
                self._counts["kept"] += 1
            return number
        if time.monotonic() < self._rests_until:
            raise NoReplyError(f"{self._endpoint.name} is not asked for a minute: it failed")
        try:
            reply = self._endpoint.ask(prompt)
        except NoReplyError:
            with self._lock:
                self._failures += 1
                if self._failures >= MOST_FAILURES:
                    self._failures = 0
                    self._rests_until = time.monotonic() + REST
            raise
        with self._lock:
            self._failures = 0
            self._counts.update(asked=1, read=reply.read, written=reply.written)
        number = chosen_number(reply.text, count)
        if number is None:
            raise NoReplyError(f"{model} answered nothing that names a candidate")
        if self._answers:
            self._answers.put(model, prompt, number)
        return number

    def _ranked(self, ranking: Ranking, answer: _Answer) -> Ranking:
        if isinstance(answer, str):
            return replace(ranking, note=answer)
        weight, candidates = self._settings.weight, ranking.candidates
        if answer == 0:
            scored = [_scored(one, 0.0, one.score - 2 * weight) for one in candidates]
        else:
            chosen = candidates[answer - 1]
            best = max(one.score for one in candidates)
            scored = [_scored(chosen, 1.0, best + weight)]
            scored += [_scored(one, 0.0, one.score) for one in candidates if one is not chosen]
        return replace(ranking, candidates=tuple(scored))


def _scored(candidate: Candidate, value: float, score: float) -> Candidate:
    evidence = {**candidate.evidence, EVIDENCE: value}
    return replace(candidate, score=score, evidence=evidence)
