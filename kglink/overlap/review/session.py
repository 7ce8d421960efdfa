"""A review that is under way: which pair comes next, and what an answer does."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from kglink.errors import UsageError, naming_missing_right
from kglink.files.atomic import file_lock
from kglink.overlap.review.journal import (
    Answer,
    Entry,
    Journal,
    Keys,
    ReviewPlan,
    ReviewTable,
    draw,
    journals,
    keys_of,
    lock_path,
    next_journal,
)
from kglink.records import EntityId, Overlap
from kglink.store import Store


class Review:
    """A journal and the pairs that it speaks of, as the store has them now.

    An answer is in the journal before it is in the store. A process that is killed in between has
    its last answer set when the review is opened again, unless the pair was judged meanwhile.
    """

    def __init__(self, journal: Journal, store: Store, *, is_read: bool = False) -> None:
        self.journal = journal
        self.plan = journal.plan
        self.resumed = bool(journal.entries)
        self._store = store
        drawn = journal.drawn
        self._queue = tuple(dict.fromkeys((*drawn.stale, *drawn.pairs)))
        wanted = set(self._queue)
        self._known = {
            keys_of(one): one
            for one in store.overlaps(self.plan.left, self.plan.right)
            if keys_of(one) in wanted
        }
        if not is_read:
            self._finish_last_answer()

    @property
    def pending(self) -> list[Keys]:
        """The pairs that are still to be judged, in the order of the queue."""
        standing = self.journal.standing()
        return [pair for pair in self._queue if self._is_open(pair, standing.get(pair))]

    @property
    def size(self) -> int:
        """How many pairs are shown in all, were nothing judged elsewhere."""
        return len(self._queue)

    @property
    def current(self) -> Overlap | None:
        """The pair that is to be judged next."""
        pending = self.pending
        return self._known[pending[0]] if pending else None

    def answer(self, answer: Answer) -> None:
        """Judge the current pair, or pass over it."""
        pair = self.current
        if pair is None:
            raise UsageError("the review is at its end")
        entry = Entry(keys_of(pair), answer, self._store.judgement(pair.left, pair.right))
        self.journal.add(entry)
        self._carry_out(entry)

    def undo(self) -> bool:
        """Take the last answer back, if there is one; the pair, if it is there, is next."""
        last = self.journal.undo()
        if last is not None:
            self._carry_out(replace(last, undone=True))
        return last is not None

    def table(self) -> ReviewTable:
        """The verdicts on the pairs that were drawn."""
        standing = self.journal.standing()
        drawn = self.journal.drawn
        verdicts = {pair: self._known[pair].verdict for pair in drawn.pairs if pair in self._known}
        open_pairs = {pair for pair in self.pending if pair in verdicts}
        done = {pair: verdict for pair, verdict in verdicts.items() if pair not in open_pairs}
        counts = dict.fromkeys(("correct", "wrong", "unclear", "skipped"), 0)
        before = 0
        for pair, verdict in done.items():
            entry = standing.get(pair)
            counts[verdict or "skipped"] += 1
            before += verdict is not None and (entry is None or entry.undone)
        again = [pair for pair in drawn.stale if pair not in verdicts and pair in standing]
        plan = self.plan
        return ReviewTable(
            left=plan.left,
            right=plan.right,
            order=plan.order,
            seed=plan.seed,
            population=drawn.population,
            drawn=len(drawn.pairs),
            open=len(open_pairs),
            before=before,
            again=len(again),
            **counts,
        )

    def _is_open(self, pair: Keys, entry: Entry | None) -> bool:
        overlap = self._known.get(pair)
        if overlap is None:  # an entity is gone since, or the pair is no longer found
            return False
        if entry and (entry.undone or entry.answer == "skip"):
            return entry.undone
        return overlap.verdict is None or overlap.stale

    def _carry_out(self, entry: Entry) -> None:
        """Do in the store what the journal says, and see what became of the pair."""
        if entry.answer == "skip":
            return
        left, right = self._ids(entry.pair)
        if entry.undone:
            self._store.put_back(left, right, entry.before)
        else:
            self._store.set_verdict(left, right, entry.answer)
        self._known.pop(entry.pair, None)
        self.journal.note_carried_out()
        if now := self._store.overlap(left, right):
            self._known[entry.pair] = now

    def _finish_last_answer(self) -> None:
        """Carry out the last answer where a killed process only wrote it down."""
        last = self.journal.entries[-1] if self.journal.entries else None
        if last is None or self.journal.carried_out:
            return
        if last.pair not in self._known or last.answer == "skip":
            return
        stands = self._store.judgement(*self._ids(last.pair))
        is_undone = last.undone and stands is not None and stands.verdict == last.answer
        if is_undone or (not last.undone and stands == last.before):
            self._carry_out(last)

    def _ids(self, pair: Keys) -> tuple[EntityId, EntityId]:
        return EntityId(self.plan.left, pair[0]), EntityId(self.plan.right, pair[1])


@contextmanager
def open_review(
    folder: Path, store: Store, plan: ReviewPlan, *, undo: bool = False
) -> Iterator[Review]:
    """Go on with the review of this plan in ``folder``, or begin one; nobody else may meanwhile.

    A finished review is begun anew where another draw differs from it, or pairs were passed over.
    ``undo`` takes its last answer back first, and so goes on with it.
    """
    busy = UsageError(
        f"{plan.left} and {plan.right} are being reviewed by another process",
        hint="Finish that review first: it keeps every answer when it is left with q.",
    )
    lock = lock_path(folder, plan.left, plan.right)
    with naming_missing_right(f"folder {folder}"):
        folder.mkdir(exist_ok=True)
        with file_lock(lock, busy):
            yield _opened(folder, store, plan, undo)


def last_review(
    folder: Path, store: Store, plan: ReviewPlan, *, is_read: bool = True
) -> Review | None:
    """The newest review of a plan, to be looked at alone or (not ``is_read``) to go on with.

    Its own plan may have the two KBs in the other order.
    """
    turned = replace(plan, left=plan.right, right=plan.left)
    for path in journals(folder, plan.left, plan.right):
        journal = Journal.open(path, mend=not is_read)
        if journal.plan in (plan, turned):
            return Review(journal, store, is_read=is_read)
    return None


def _opened(folder: Path, store: Store, plan: ReviewPlan, undo: bool) -> Review:
    last = last_review(folder, store, plan, is_read=False)
    plan = last.plan if last else plan
    if last and undo:
        last.undo()
    if last and last.pending:
        return last
    drawn = draw(plan, store.overlaps(plan.left, plan.right))
    if last and last.journal.drawn == drawn and not last.table().skipped:
        return last
    if not drawn.pairs and not drawn.stale:
        unjudged = " that nobody judged" if plan.order == "uncertain" else ""
        raise UsageError(
            f"there are no overlaps of {plan.left} and {plan.right}{unjudged} to review",
            hint=f"Find them: kglink overlap {plan.left} {plan.right}",
        )
    path = next_journal(folder, plan.left, plan.right)
    return Review(Journal.create(path, plan, drawn), store)
