"""Linking for many who ask at once: what waits is linked together, in one thread.

The encoder reads texts of several requests in one go, which is faster than each for itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections import deque
from collections.abc import Sequence
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from kglink_doors.serve.errors import BusyError

if TYPE_CHECKING:
    from kglink import LinkedDocument, TextInput, Workspace

#: Texts that are linked in one go.
BATCH_TEXTS = 64
#: Seconds in which those who were answered together may ask again, to be answered together again.
_GATHERING = 0.03


class LinkOptions(NamedTuple):
    """What a request asks of all its texts; requests that ask the same are answered together."""

    kbs: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    under: tuple[str, ...] = ()
    not_under: tuple[str, ...] = ()
    threshold: float | None = None


class _Waiting(NamedTuple):
    texts: Sequence[TextInput]
    options: LinkOptions
    loop: asyncio.AbstractEventLoop
    answer: asyncio.Future[list[LinkedDocument]]

    def give(self, answer: list[LinkedDocument] | BaseException) -> None:
        """Hand the answer to the one who waits for it, if somebody still does."""
        with contextlib.suppress(RuntimeError):  # the loop has ended
            self.loop.call_soon_threadsafe(self._set, answer)

    def _set(self, answer: list[LinkedDocument] | BaseException) -> None:
        if self.answer.done():
            return
        if isinstance(answer, BaseException):
            self.answer.set_exception(answer)
        else:
            self.answer.set_result(answer)


class Batches:
    """Links texts of all requests in a thread of its own."""

    def __init__(self, workspace: Workspace, most_waiting: int) -> None:
        self._workspace = workspace
        self._most = most_waiting
        #: A clusterer compares all texts that are linked together.
        self._alone = bool(workspace.settings.link.clusterer)
        self._waiting: deque[_Waiting] = deque()
        self._changed = threading.Condition()
        self._ending = False
        self._last = 0
        """How many texts were linked together last."""
        self._thread = threading.Thread(target=self._run, name="kglink-link", daemon=True)
        self._thread.start()

    def __len__(self) -> int:
        """How many texts wait."""
        return sum(len(one.texts) for one in tuple(self._waiting))

    async def link(
        self,
        texts: Sequence[TextInput],
        options: LinkOptions,
        seconds: float,
        *,
        patient: bool = False,
    ) -> list[LinkedDocument]:
        """The answers to some texts; `TimeoutError` where they take longer.

        Who is ``patient`` waits for room, and is not sent away.
        """
        until = time.monotonic() + seconds
        while patient and self._is_full(texts) and time.monotonic() < until:
            await asyncio.sleep(_GATHERING)
        loop = asyncio.get_running_loop()
        waiting = _Waiting(texts, options, loop, loop.create_future())
        with self._changed:
            if self._is_full(texts):
                raise BusyError(f"{len(self):,} texts wait to be linked", hint="Ask again later.")
            self._waiting.append(waiting)
            self._changed.notify()
        return await asyncio.wait_for(waiting.answer, seconds)

    def _is_full(self, texts: Sequence[TextInput]) -> bool:
        return bool(self._waiting) and len(self) + len(texts) > self._most

    def close(self) -> None:
        """Answer what waits, and end."""
        with self._changed:
            self._ending = True
            self._changed.notify()
        self._thread.join()

    def _run(self) -> None:
        while batch := self._next():
            self._answer(batch)

    def _next(self) -> list[_Waiting]:
        """Requests that ask the same, the oldest first; none: it ends."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._ending)
            self._changed.wait_for(lambda: len(self) >= self._last or self._ending, _GATHERING)
            batch: list[_Waiting] = []
            texts = 0
            for one in tuple(self._waiting):
                fits = not batch or (texts + len(one.texts) <= BATCH_TEXTS and not self._alone)
                if fits and (not batch or one.options == batch[0].options):
                    batch.append(one)
                    texts += len(one.texts)
                    self._waiting.remove(one)
            self._last = texts
            return batch

    def _answer(self, batch: Sequence[_Waiting]) -> None:
        batch = [one for one in batch if not one.answer.done()]
        texts = [text for one in batch for text in one.texts]
        try:
            found = iter(
                list(self._workspace.link(texts, **batch[0].options._asdict(), wait=False))
                if texts
                else []
            )
        except Exception as error:  # noqa: BLE001 - whoever asked gets it
            if len(batch) == 1:
                batch[0].give(error)
            for one in batch if len(batch) > 1 else ():
                self._answer([one])  # one bad request spoils no other
            return
        for one in batch:
            one.give(list(islice(found, len(one.texts))))
