"""The spaces of a workspace: built, described, compared and deleted."""

from __future__ import annotations

import re
import secrets
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import NamedTuple

from kglink.errors import (
    DamagedSpaceError,
    KBChangedError,
    KglinkError,
    SpaceBusyError,
    SpaceError,
    UnknownNameError,
    UsageError,
    why_unwritten,
)
from kglink.evaluation.comparison import Comparison, KeptWriter
from kglink.evaluation.measures.retrieval import RetrievalReport
from kglink.evaluation.rankings import JSON_KEYS
from kglink.evaluation.retrieval import Question, judged_split
from kglink.evaluation.significance import RandomizationTest
from kglink.models.static_folder import STATIC
from kglink.records import OnProgress
from kglink.shown import Shown, ShownList
from kglink.sources import OnNote
from kglink.space.build import BuildReport
from kglink.space.folder import SpaceFolder, space_names
from kglink.space.manifest import SegmentInfo, read_part
from kglink.space.segment import INFO_FILE
from kglink.space.segment_vectors import Block, Encoded
from kglink.workspace.folder import SPACES_FOLDER, folder_size, named
from kglink.workspace.joint_space import WorkspaceSpace
from kglink.workspace.judging import evaluated, judge_rankings
from kglink.workspace.opened import Opened
from kglink.workspace.ray_workers import Chunk, Failed, RayWorkers, chunks_failed


def build(
    opened: Opened,
    *,
    model: str | Path = "",
    fresh: bool = False,
    ray_workers: int = 0,
    progress: OnProgress = lambda _: None,
    on_note: OnNote = lambda label, text: None,
) -> BuildReport:
    """Build and publish the joint space of all KBs; only what changed is encoded.

    ``model``, a name or a folder, replaces the model of the space; ``fresh`` encodes everything
    again. ``ray_workers`` is the number of workers on a Ray cluster that encode; ``on_note`` gets
    news of lost ones.
    """
    with opened.building:
        joint = opened.joint_space
        space = joint.with_model(str(model)) if model else joint
        if ray_workers:
            report = _build_on_ray(space, fresh, ray_workers, progress, on_note)
        else:
            report = space.job(fresh=fresh, progress=progress).build()
        opened.joint_space = space
    return report


def _build_on_ray(
    space: WorkspaceSpace, fresh: bool, most: int, progress: OnProgress, on_note: OnNote
) -> BuildReport:
    def chunks(blocks: Iterator[Block]) -> Iterator[Chunk]:
        for number, one in enumerate(blocks):
            what = "entities' tokens" if one.kind == "tokens" else f"{one.kind} rows"
            yield Chunk(number, one, f"{len(one.items):,} {what} from {one.first:,} on")

    with RayWorkers(space.encode_job(), most, on_note) as workers:
        workers.start()

        def encode_blocks(blocks: Iterator[Block]) -> Iterator[tuple[Block, Encoded]]:
            failed = []
            for chunk, answer in workers.in_order(chunks(blocks)):
                if isinstance(answer, Failed):
                    failed.append(answer.said)
                    on_note("failed", answer.said)
                    if chunk.given.kind == "tokens":  # what stands behind it cannot be written
                        hint = "The chunks before it are kept: run the same command again."
                        raise chunks_failed(failed, hint)
                else:
                    yield chunk.given, answer
            if failed:
                hint = "The others are encoded and kept: the same command tries these again."
                raise chunks_failed(failed, hint)

        return space.job(fresh=fresh, progress=progress, encode_blocks=encode_blocks).build()


def build_if_stale(
    opened: Opened, *, wait: bool = True, progress: OnProgress = lambda _: None
) -> BuildReport | None:
    """Build the space if it is missing or older than the store.

    Without ``wait`` a large new KB is published with its names alone, and ``build`` makes its
    vectors. The version before is used while another process builds the space or changes a KB, and
    without ``wait`` also while another thread builds it or if it cannot be written.
    """
    if answers(opened, wait=wait):
        return None
    may_use_old = not wait and opened.joint_space.is_published()
    rests = may_use_old and time.monotonic() < opened.no_build_before
    if rests or not opened.building.acquire(timeout=_MOMENT_S if may_use_old else -1):
        return None  # it could not be written, or another thread is building it
    try:
        is_done = answers(opened, wait=wait)  # another thread has built it meanwhile
        if is_done or (not wait and opened.joint_space.job(progress=progress).publish_names()):
            return None
        return build(opened, progress=progress)
    except SpaceError as error:
        passes = isinstance(error, SpaceBusyError | KBChangedError)
        if may_use_old and is_of_writing(error):
            opened.no_build_before, opened.no_build_why = time.monotonic() + _AGAIN_S, error.message
        elif not passes or not opened.joint_space.is_published():
            raise
        return None
    finally:
        opened.building.release()


def answers(opened: Opened, *, wait: bool = True) -> bool:
    """Whether the space holds what the store holds; without ``wait`` all names are enough."""
    job = opened.joint_space.job()
    return job.is_current() or (not wait and job.answers_by_names())


def is_of_writing(error: SpaceError) -> bool:
    """Whether a space is sound, and cannot be written: the version before goes on to answer."""
    return not isinstance(error, DamagedSpaceError) and bool(why_unwritten(error.__cause__))


#: How long a thread that need not wait for vectors waits for another one to publish names.
_MOMENT_S = 2.0
#: How long a space that could not be written is not tried again by who may use the old one.
_AGAIN_S = 30.0
#: Below the spaces, so that what lies in it is none: a deleted space until it is gone.
_TRASH = ".trash"
_RUN_MODEL = re.compile(r"runs/([^/]+)/model")


@dataclass(frozen=True, slots=True)
class KBShare:
    """What a space has of one KB."""

    kb: str
    revision: int
    entities: int
    rows: int


@dataclass(frozen=True, slots=True)
class SpaceSummary(Shown):
    """What a published space is; where it is ``damaged``, what can be said all the same."""

    name: str
    used: bool
    """Whether the settings name it."""
    bytes: int
    """Everything in its folder."""
    kbs: tuple[KBShare, ...] = ()
    rows: int = 0
    kinds: tuple[str, ...] = ()
    model: str = ""
    fingerprint: str = ""
    dim: int = 0
    static: bool = False
    """Whether mentions are read by a static model, which `kglink distill` made."""
    run: str = ""
    """The run that made its model; empty for an untrained one."""
    index: str = ""
    index_settings: Mapping[str, str | int | float | bool] | None = None
    index_bytes: int = 0
    created: str = ""
    version: str = ""
    current: bool | None = None
    """Whether a build would leave it as it is; None where nobody can say."""
    problem: str = ""
    """Why it cannot be read, or why nobody can say whether it is current."""

    @property
    def entities(self) -> int:
        """Of all KBs together."""
        return sum(share.entities for share in self.kbs)

    def as_json(self) -> dict[str, object]:
        """A plain dictionary for machine-readable output."""
        return {**asdict(self), "entities": self.entities}


def spaces(opened: Opened) -> list[SpaceSummary]:
    """All published spaces by name."""
    root = opened.folder / SPACES_FOLDER
    return ShownList(_summary(opened, SpaceFolder(root, name)) for name in space_names(root))


def space_summary(opened: Opened, name: str) -> SpaceSummary:
    """A summary of one published space."""
    return _summary(opened, folder_of(opened, name))


def delete_space(opened: Opened, name: str) -> None:
    """Remove a space; processes that have it open can still use it.

    It cannot be removed while it is built or its index is changed.
    """
    folder = folder_of(opened, name)
    trash = opened.folder / SPACES_FOLDER / _TRASH
    with folder.writing():
        trash.mkdir(exist_ok=True)
        folder.path.rename(trash / f"{name}-{secrets.token_hex(4)}")
    # What an earlier deletion did not come to remove goes as well.
    shutil.rmtree(trash)


def folder_of(opened: Opened, name: str) -> SpaceFolder:
    """The folder of a published space; a name that none has is refused."""
    root = opened.folder / SPACES_FOLDER
    if name not in (known := space_names(root)):
        raise UnknownNameError("space", name, known, hint="`kglink spaces` lists all of them.")
    return SpaceFolder(root, name)


def _summary(opened: Opened, folder: SpaceFolder) -> SpaceSummary:
    name = folder.name
    summary = SpaceSummary(name, name == opened.settings.space.name, folder_size(folder.path)[0])
    shares = []
    try:
        version, manifest = folder.published()
        for kb in manifest.kbs:
            info = read_part(SegmentInfo, folder.segments / manifest.segments[kb] / INFO_FILE)
            shares.append(KBShare(kb, manifest.revisions[kb], info.entities, info.row_total))
    except SpaceError as error:
        return replace(summary, problem=error.message)
    try:
        current: bool | None = opened.with_settings({"space.name": name}).joint_space.is_current()
        problem = ""
    except KglinkError as error:  # its model may be gone, and the list must show it all the same
        current, problem = None, error.message
    run = _RUN_MODEL.fullmatch(manifest.model.path)
    known = opened.registry.plugins("index")
    found = [one.name for one in known if manifest.index in (one.name, one.short_name)]
    return replace(
        summary,
        kbs=tuple(shares),
        rows=sum(share.rows for share in shares),
        kinds=tuple(dict.fromkeys(span.kind for span in manifest.spans)),
        model=manifest.model.name,
        fingerprint=manifest.model.fingerprint,
        dim=manifest.model.dim,
        static=STATIC.is_there(folder.student),
        run=run.group(1) if run else "",
        index=(found[0] if len(found) == 1 else manifest.index),
        index_settings=manifest.index_settings,
        index_bytes=manifest.index_bytes,
        created=manifest.created,
        version=version.name,
        current=current,
        problem=problem,
    )


# ------------------------------------------------------------------------------------ compare
class Difference(NamedTuple):
    """One thing that two spaces do not have in common."""

    what: str
    left: object
    right: object


@dataclass(frozen=True, slots=True)
class RecallComparison:
    """The same evaluation of two spaces; the tests have the right space on their left side."""

    docs: tuple[str, ...]
    split: str
    kbs: tuple[str, ...]
    left: RetrievalReport
    right: RetrievalReport
    tests: Mapping[str, Mapping[str, RandomizationTest]]

    def as_json(self) -> dict[str, object]:
        """What `kglink spaces --compare --json` says of it."""
        return {
            "docs": list(self.docs),
            "split": self.split,
            "kbs": list(self.kbs),
            "mentions": self.left.counts_as_json(),
            "left": self.left.as_json(),
            "right": self.right.as_json(),
            "tests": {
                JSON_KEYS.get(pool, pool): {
                    figure: {
                        "left": test.right, "right": test.left, "difference": test.difference,
                        "p": test.p, "significant": test.is_significant(),
                    }
                    for figure, test in tests.items()
                }
                for pool, tests in self.tests.items()
            },
        }  # fmt: skip


def compare_spaces(opened: Opened, left: str, right: str) -> list[Difference]:
    """The differences between two spaces."""
    if left == right:
        raise UsageError(f"space {left!r} compared with itself", hint="Name two spaces.")
    sides = space_summary(opened, left), space_summary(opened, right)
    for side in sides:
        if not side.created:
            raise UsageError(f"space {side.name!r} cannot be compared: {side.problem}")
    ours, theirs = map(_facts, sides)
    return [
        Difference(what, ours.get(what), theirs.get(what))
        for what in dict.fromkeys([*ours, *theirs])
        if ours.get(what) != theirs.get(what)
    ]


def compare_recalls(
    opened: Opened,
    left: str,
    right: str,
    docs: str | Sequence[str],
    *,
    split: str | None = None,
    ks: Sequence[int] = (1, 10, 64),
    progress: OnProgress = lambda _: None,
) -> RecallComparison:
    """Evaluate both spaces on the same documents and KBs, and test the differences."""
    theirs = {share.kb for share in space_summary(opened, right).kbs}
    ours = [share.kb for share in space_summary(opened, left).kbs]
    kbs = tuple(kb for kb in ours if kb in theirs)
    if not kbs:
        raise UsageError(f"spaces {left!r} and {right!r} have no KB in common to evaluate")
    names = named(docs)
    split = judged_split(opened.store, names, split)
    asked = Question(names, split, kbs, tuple(ks))
    one, other = (opened.with_settings({"space.name": name}) for name in (left, right))
    with tempfile.TemporaryDirectory(prefix="kglink-compare-") as scratch:
        kept = Path(scratch) / "ranks.jsonl"
        with kept.open("w", encoding="utf-8") as out:
            writer = KeptWriter(out, evaluated(one, asked))
            first = judge_rankings(one, asked, progress=progress, each=writer.add_ranked)
        comparison = Comparison(kept, evaluated(other, asked), asked.ks)
        second = judge_rankings(other, asked, progress=progress, each=comparison.add_ranked)
        comparison.finish()
    return RecallComparison(names, split, kbs, first, second, comparison.tests())


def _facts(space: SpaceSummary) -> dict[str, object]:
    facts: dict[str, object] = {
        "model": space.model,
        "fingerprint": space.fingerprint,
        "dimension": space.dim,
        "kinds of rows": ", ".join(space.kinds),
    }
    for share in space.kbs:
        for what in ("revision", "entities", "rows"):
            facts[f"{share.kb}: {what}"] = getattr(share, what)
    settings = {f"index: {name}": one for name, one in (space.index_settings or {}).items()}
    facts |= {"entities": space.entities, "rows": space.rows, "index": space.index, **settings}
    names = {"index bytes": space.index_bytes, "bytes": space.bytes, "current": space.current}
    return facts | names
