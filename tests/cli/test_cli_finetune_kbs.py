"""KBs that nobody named: `kglink finetune` finds source, targets and overlaps, and says which."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import Kglink

from finetune_support import options
from kglink.errors import UsageError
from kglink.store import Store
from kglink.training.job import FinetuneJob
from kglink.training.run import is_busy, read_settings
from kglink.training.stages import with_kbs
from kglink.workspace import Workspace
from kglink.workspace.opened import Opened
from store_support import entity, job

pytest_plugins = ["finetune_fixtures"]


@pytest.mark.slow
def test_all_stages_as_typed_without_naming_a_kb(kglink: Kglink, here: Path) -> None:
    """Source, targets and overlaps are found, and the command says which and how to change it."""
    with Workspace.open(here) as workspace:
        mentions = workspace.store.count_annotated()
        forget_overlaps(workspace.store)
    richest = max(mentions, key=mentions.__getitem__)
    (other,) = {"atlas", "saga"} - {richest}
    ran = kglink("finetune", "--sources", "TOS", *options(here, **{"overlap.method": "names"}))
    told = " ".join(ran.err.split())
    for said in (
        f"source KB: {richest} ({mentions[richest]} annotated mentions)",
        f"target KB: {other} ({mentions[other]} annotated mentions)",
        "the source is the KB with the most annotated mentions; "
        "choose others with --source-kb and --target-kb",
        f"no overlaps of {richest} and {other} are known: "
        f"`kglink overlap {richest} {other}` runs first",
        "learns O (overlaps)",
    ):
        assert said in told
    kept = read_settings(here / "runs" / "default-1")
    assert (kept.sources, kept.source_kbs, kept.target_kbs) == ("TOS", (richest,), (other,))


def forget_overlaps(store: Store) -> None:
    judged = [(one.left, one.right, None) for one in store.overlaps(judged=True)]
    store.set_verdicts(judged)
    store.save_overlaps("atlas", "saga", (), lambda _: None)


@pytest.fixture
def chosen(here: Path) -> Callable[..., tuple[str, tuple[str, ...], tuple[str, ...], str]]:
    """The stages and KBs of a job in a store of which only ``kbs`` are left, and what was said."""

    def choose(*kbs: str, **job: Any) -> tuple[str, tuple[str, ...], tuple[str, ...], str]:
        said: list[str] = []
        with Store.open(f"sqlite:///{here}/kglink.db") as store:
            for info in store.kbs():
                if info.name not in kbs:
                    store.remove_kb(info.name)
            done = with_kbs(store, FinetuneJob(**job), lambda news: said.append(str(news)))
        return done.stages(), tuple(done.source_kbs), tuple(done.target_kbs), " ".join(said)

    return choose


def test_three_kbs_have_one_source_and_two_targets(chosen: Any, here: Path) -> None:
    with Store.open(f"sqlite:///{here}/kglink.db") as store:
        store.ingest(job("bare", fingerprint="bare"), [entity(f"{n}") for n in range(3)])
        mentions = store.count_annotated()
    first, second = sorted(("atlas", "saga"), key=lambda kb: (-mentions[kb], kb))
    every = ("atlas", "saga", "bare", "docs")
    assert chosen(*every)[:3] == ("TOS", (first,), (second, "bare"))
    assert chosen(*every, sources="S")[1:3] == ((first, second, "bare"), ())
    assert chosen(*every, sources="T")[1:3] == ((), (first, second, "bare"))
    assert chosen(*every, sources="TO", target_kbs=(first,))[1:3] == ((second,), (first,))
    _, sources, targets, said = chosen(*every, sources="SO", source_kbs=(second,))
    assert (sources, targets) == ((second,), (first, "bare"))
    assert "choose others with --target-kb" in said
    assert "the source is" not in said


def test_a_side_that_is_named_or_not_needed_stays_as_it_is(chosen: Any) -> None:
    assert chosen("atlas", "saga", "docs", source_kbs=("saga",)) == ("S", ("saga",), (), "")
    assert chosen("atlas", "saga", "docs", target_kbs=("saga",)) == ("T", (), ("saga",), "")


def test_without_annotated_mentions_the_larger_kb_is_the_source(chosen: Any, here: Path) -> None:
    with Store.open(f"sqlite:///{here}/kglink.db") as store:
        store.ingest(job("bare", fingerprint="bare"), [entity(f"{n}") for n in range(3)])
    _, sources, targets, said = chosen("bare", "saga", sources="O")
    assert (sources, targets) == (("saga",), ("bare",))
    assert "the source is the KB with the most entities" in said


def test_stages_without_mentions_are_left_out_where_nobody_named_kbs(chosen: Any) -> None:
    stages, _, _, said = chosen("atlas", "saga", sources="TOS")
    assert stages == "O"
    assert said.count("is left out: there are no annotated mentions of") == 2


def test_one_kb_alone_learns_from_its_mentions(chosen: Any) -> None:
    stages, sources, targets, said = chosen("saga", "docs")
    assert (stages, sources, targets) == ("T", (), ("saga",))
    assert "there is no second KB: the run learns from annotated mentions alone" in said
    with pytest.raises(UsageError, match="sources TOS need a source and a target KB") as refused:
        chosen("saga", "docs", sources="TOS")
    assert "there is only saga" in refused.value.message
    assert "--sources T." in str(refused.value.hint)
    with pytest.raises(UsageError, match="there is no KB"):
        chosen("docs")


def test_stages_without_mentions_are_refused_before_overlaps_are_looked_for(
    kglink: Kglink, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Workspace.open(here) as workspace:
        workspace.store.remove_kb("docs")
        forget_overlaps(workspace.store)
    kbs = ("--source-kb", "atlas", "--target-kb", "saga")
    ran = kglink("finetune", "--sources", "TOS", *kbs, *options(here), code=2)
    told = " ".join(ran.err.split())
    assert "stage S: there are no annotated mentions of" in told
    assert "Learn from the others alone: --sources O." in told
    assert "kglink add-kb DOCS FILE --links-to" in told
    with Workspace.open(here) as workspace:
        assert workspace.store.overlap_runs() == []


@pytest.mark.slow
def test_overlaps_are_found_where_nobody_has_looked(
    kglink: Kglink, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, ...]] = []

    def find(opened: Opened, *kbs: str, **_: object) -> None:
        asked.append((*kbs, opened.settings.overlap.method))
        # The name of the run is taken while it looks for overlaps: another one gets the next.
        assert is_busy(here / "runs" / f"default-{len(asked)}")

    monkeypatch.setattr("kglink.workspace.finetune.find_overlaps", find)
    with Store.open(f"sqlite:///{here}/kglink.db") as store:
        store.ingest(job("bare", fingerprint="bare"), [entity(f"{n}") for n in range(3)])
    words = ("--source-kb", "atlas,bare", "--target-kb", "saga", *options(here), "--no-publish")
    kglink("finetune", "--sources", "TO", *words)
    kglink("finetune", "--sources", "TO", *words, "--set", "overlap.method=paper")
    assert asked == [("bare", "saga", "full"), ("bare", "saga", "paper")]
