"""Linking for many who ask at once: what waits is linked together, in one thread.

The encoder reads texts of several requests in one go, which is faster than each for itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple, TypeAlias

from kglink import LinkedDocument, TextInput, Workspace
from kglink_doors.serve.errors import BusyError

#: Texts that are linked in one go.
BATCH_TEXTS = 64
#: After a batch, this share of its time is waited for the same clients to ask again: a batch twice
#: as large takes far less than twice as long.
_GATHERING = 0.25
#: Seconds that this takes at most: who asks after a long batch does not wait for others.
_MOST_GATHERING = 0.1
#: Seconds between two looks for room.
_LOOK = 0.03


_Answer: TypeAlias = "asyncio.Future[list[LinkedDocument]]"


class _Waiting(NamedTuple):
    texts: Sequence[TextInput]
    limits: Mapping[str, Any]
    """Of `Workspace.link`: requests with the same are answered together."""
    answer: _Answer


class Batches:
    """Links texts of all requests in a thread of its own; made in the loop that answers them."""

    def __init__(self, workspace: Workspace, most_waiting: int) -> None:
        self._workspace = workspace
        self._loop = asyncio.get_running_loop()
        self._most = most_waiting
        #: A clusterer compares all texts that are linked together.
        self._alone = bool(workspace.settings.link.clusterer)
        self._waiting: deque[_Waiting] = deque()
        self._changed = threading.Condition()
        self._ending = False
        self._expected_texts = 0
        """Texts to wait for: those of the last batch, and those that waited after it."""
        self._wait_s = 0.0
        """Seconds to wait for these."""
        self._thread = threading.Thread(target=self._run, name="kglink-link", daemon=True)
        self._thread.start()

    def __len__(self) -> int:
        """How many texts somebody waits for."""
        return sum(len(one.texts) for one in tuple(self._waiting) if not one.answer.done())

    async def link(
        self,
        texts: Sequence[TextInput],
        limits: Mapping[str, Any],
        seconds: float,
        *,
        patient: bool = False,
    ) -> list[LinkedDocument]:
        """The answers to some texts; `TimeoutError` where they take longer.

        If ``patient``, wait up to ``seconds`` for room first.
        """
        until = time.monotonic() + seconds
        while patient and self._is_full(texts) and time.monotonic() < until:
            await asyncio.sleep(_LOOK)
        waiting = _Waiting(texts, limits, self._loop.create_future())
        with self._changed:
            if self._is_full(texts):
                raise BusyError(f"{len(self):,} texts wait to be linked", hint="Ask again later.")
            self._waiting.append(waiting)
            self._changed.notify()
        return await asyncio.wait_for(waiting.answer, seconds)

    def _is_full(self, texts: Sequence[TextInput]) -> bool:
        waiting = len(self)
        return bool(waiting) and waiting + len(texts) > self._most

    def close(self) -> None:
        """Answer what waits, and end."""
        with self._changed:
            self._ending = True
            self._changed.notify()
        self._thread.join()

    def _run(self) -> None:
        while batch := self._next():
            began = time.monotonic()
            self._answer(batch)
            self._wait_s = min(_GATHERING * (time.monotonic() - began), _MOST_GATHERING)
            with self._changed:  # those who are answered now, and those who came meanwhile
                linked = sum(len(one.texts) for one in batch)
                self._expected_texts = min(linked + len(self), BATCH_TEXTS)

    def _next(self) -> list[_Waiting]:
        """Requests that ask the same, the oldest first; none: it ends."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._ending)
            self._changed.wait_for(
                lambda: len(self) >= self._expected_texts or self._ending, self._wait_s
            )
            batch: list[_Waiting] = []
            texts = 0
            for one in tuple(self._waiting):
                fits = not batch or (texts + len(one.texts) <= BATCH_TEXTS and not self._alone)
                if fits and (not batch or one.limits == batch[0].limits):
                    batch.append(one)
                    texts += len(one.texts)
                    self._waiting.remove(one)
            return batch

    def _answer(self, batch: Sequence[_Waiting]) -> None:
        batch = [one for one in batch if not one.answer.done()]
        texts = [text for one in batch for text in one.texts]
        if not texts:
            self._give({one.answer: [] for one in batch})
            return
        try:
            linked = list[LinkedDocument]()
            for document in self._workspace.link(texts, **batch[0].limits, wait=False):
                linked.append(document)
                if all(waiting.answer.done() for waiting in batch):
                    return  # nobody waits any more
            found = iter(linked)
        except Exception as error:  # noqa: BLE001 - whoever asked gets it
            if len(batch) == 1:
                self._give({batch[0].answer: error})
            else:
                for one in batch:  # one bad request spoils no other
                    self._answer([one])
            return
        self._give({one.answer: list(islice(found, len(one.texts))) for one in batch})

    def _give(self, answers: Mapping[_Answer, list[LinkedDocument] | Exception]) -> None:
        """Hand answers to those who wait for them, if somebody still does."""

        def give() -> None:
            for waiting, answer in answers.items():
                if waiting.done():
                    continue
                if isinstance(answer, Exception):
                    waiting.set_exception(answer)
                else:
                    waiting.set_result(answer)

        with contextlib.suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(give)
