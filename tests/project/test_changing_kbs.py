"""KBs, memory and spaces that others change while a command reads them."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kglink.errors import SpaceError
from kglink.linking import fit_judge
from kglink.linking.discovery import Discovery
from kglink.models.bi_encoder import load_bi_encoder
from kglink.records import Entity, EntityId
from kglink.space.folder import SpaceFolder
from kglink.store import Store
from kglink.training.data import KBChoice, prepare
from kglink.workspace import Workspace, init_workspace
from kglink.workspace.discoveries import KeptDiscoveries, write_discoveries
from kglink.workspace.publish import take_place
from store_support import job
from tiny_models import write_model
from training_world import fill, small, world_of, write_world_model


@pytest.fixture(scope="module")
def master(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = init_workspace(tmp_path_factory.mktemp("master"))
    fill(f"sqlite:///{folder}/kglink.db", world_of()).close()
    write_world_model(folder / "tiny", world_of())
    write_model(folder / "other")
    return folder


@pytest.fixture
def here(master: Path, tmp_path: Path) -> Path:
    return shutil.copytree(master, tmp_path / "workspace")


def opened(folder: Path) -> Workspace:
    tiny = str(folder / "tiny")
    return Workspace.open(folder, flags={"encoder.model": tiny, "overlap.model": tiny})


def update(folder: Path, kb: str = "saga") -> None:
    """Remove two of three entities, change the rest and add others, as another process would."""
    with Store.open(f"sqlite:///{folder}/kglink.db") as store:
        kept = [replace(one, title=f"{one.title} anew") for one in list(store.entities(kb))[::3]]
        added = [Entity(f"{sign}{n}", f"Added {n}") for sign in "!~" for n in range(9)]
        store.ingest(job(kb, fingerprint="anew", allow_shrink=True), [*kept, *added])


def at(moment: int, act: Callable[[], None]) -> Callable[[object], None]:
    """A progress callback that acts once, at this call."""
    calls = count()
    return lambda _: act() if next(calls) == moment else None


def pairs_of(folder: Path) -> list[tuple[EntityId, EntityId, float]]:
    with opened(folder) as workspace:
        return [(one.left, one.right, one.probability) for one in workspace.overlaps()]


# ---------------------------------------------------------------------------------- overlaps
@pytest.mark.slow
def test_an_overlap_search_sees_one_state_of_its_kbs(here: Path, tmp_path: Path) -> None:
    """Whenever the update comes, the pairs are those of the KBs as they were."""
    told: list[object] = []
    plain = shutil.copytree(here, tmp_path / "plain")
    with opened(plain) as workspace:
        (report,) = workspace.find_overlaps("atlas", "saga", progress=told.append)
    for number, moment in enumerate((0, len(told) // 2, len(told) - 1)):
        folder = shutil.copytree(here, tmp_path / f"at-{number}")
        with opened(folder) as workspace:
            act = at(moment, partial(update, folder))
            (found,) = workspace.find_overlaps("atlas", "saga", progress=act)
            assert (found.candidates, found.kept) == (report.candidates, report.kept), moment
            assert found.notes[0] == (
                "saga has changed while it was searched: the next search does it again"
            )
            assert workspace.store.overlap_runs() == []
            held = {one.key for one in workspace.store.entities("saga")}
        assert pairs_of(folder) == [one for one in pairs_of(plain) if one[1].key in held]


# ---------------------------------------------------------------------------------- training
def test_the_data_of_a_run_are_of_one_state_of_the_store(here: Path, tmp_path: Path) -> None:
    url = f"sqlite:///{here}/kglink.db"
    recipe, kbs = small("default", here / "tiny"), KBChoice(("atlas",), ("saga",))
    model = load_bi_encoder(here / "tiny", settings=recipe.model.settings)
    told: list[object] = []
    with Store.open(url) as store:
        whole = prepare(tmp_path / "a", store, recipe, kbs, model.inputs, progress=told.append)
        steps = at(len(told) // 2, lambda: update(here))
        same = prepare(tmp_path / "b", store, recipe, kbs, model.inputs, progress=steps)
        assert store.kb("saga").revision == 2
    assert same.fingerprints == whole.fingerprints
    assert np.array_equal(same.pairs, whole.pairs)


# ------------------------------------------------------------------------------------ spaces
def test_a_kb_that_changes_while_it_is_encoded_keeps_what_was_encoded(here: Path) -> None:
    steps: list[str] = []
    with opened(here) as workspace:
        workspace.build(progress=lambda progress: steps.append(progress.step))
        encoding = at(steps.index("encoding saga"), lambda: update(here))
        done = workspace.build(fresh=True, progress=encoding)
        assert done.manifest.revisions["saga"] == 1
        assert not workspace.joint_space.is_current()
        again = workspace.build()
        assert again.manifest.revisions["saga"] == 2
        assert again.reused_rows > 0


def test_a_kb_that_changes_before_it_is_read_is_told_of(here: Path) -> None:
    with opened(here) as workspace:
        first = at(0, lambda: update(here))  # while atlas is read, which comes before saga
        with pytest.raises(SpaceError, match="KB 'saga' was changed or removed just before"):
            workspace.build(progress=first)
        workspace.build()


# ------------------------------------------------------------------------------- two writers
@pytest.mark.slow
def test_weights_are_not_kept_for_a_model_that_the_space_has_no_longer(here: Path) -> None:
    with opened(here) as workspace:
        workspace.build()

        def publish() -> None:
            with Workspace.open(here) as other:
                other.build(model=str(here / "other"))

        with pytest.raises(SpaceError, match="got another model while evidence was fitted"):
            workspace.fit("docs", progress=at(0, publish))
        assert not (workspace.joint_space.folder.path / "scoring.json").exists()


def test_a_model_replaces_only_the_one_that_it_was_judged_by(here: Path) -> None:
    with opened(here) as workspace:
        built = workspace.build()
        now = built.manifest.model.fingerprint
        parts = (workspace.joint_space, str(here / "other"), "of another run", None)
        with pytest.raises(SpaceError, match="got another model while this run was judged"):
            take_place(workspace, *parts, lambda _: None)
        assert workspace.space().manifest.model.fingerprint == now


def test_new_names_of_an_entity_do_not_undo_what_others_changed(here: Path) -> None:
    """The update comes after `promote` has begun and before it writes to that KB."""
    with opened(here) as workspace:
        firsts = {kb: next(workspace.store.entities(kb)) for kb in ("atlas", "saga")}
        found = [
            Discovery(kb, name, (name,), "", 0.6, 1, 1, (), ())
            for kb, name in (("atlas", "Osric Vane"), ("saga", "Tilda Quorn"))
        ]
        write_discoveries(here, KeptDiscoveries(found=tuple(found)))
        for kb, entity in firsts.items():
            workspace.judge_discovery(kb, "link", f"{kb}:{entity.key}")
        changed = replace(firsts["saga"], description="Changed meanwhile.")

        def change() -> None:
            with opened(here) as other:
                other.add_entity("saga", changed)

        workspace.promote(progress=at(0, change))
        (entity,) = workspace.store.get_entities([EntityId("saga", changed.key)]).values()
    assert entity.description == "Changed meanwhile."
    assert "Tilda Quorn" in [one.surface for one in entity.aliases]


@pytest.mark.parametrize("verb", [Workspace.build, Workspace.promote])
def test_no_build_brings_the_model_back_that_another_process_has_replaced(
    here: Path, monkeypatch: pytest.MonkeyPatch, verb: Callable[[Workspace], object]
) -> None:
    """The other model is published after a build has begun, and before it is the only writer."""
    writing, first = SpaceFolder.writing, count()

    def late(self: SpaceFolder, *told: Any) -> AbstractContextManager[None]:
        if next(first) == 0:
            with Workspace.open(here) as other:
                other.build(model=str(here / "other"))
        return writing(self, *told)

    with opened(here) as workspace:
        workspace.build()
    with Workspace.open(here) as workspace:
        workspace.add_entity("saga", Entity("!", "Added"))
        monkeypatch.setattr(SpaceFolder, "writing", late)
        with pytest.raises(SpaceError, match="got another model just before it was built"):
            verb(workspace)
        verb(workspace)
        model = workspace.space().manifest.model.path
    assert model == "other"


@pytest.mark.slow
def test_evidence_is_fitted_to_one_state_of_memory(here: Path, tmp_path: Path) -> None:
    with opened(here) as workspace:
        workspace.build()
        workspace.learn("docs")
    plain = shutil.copytree(here, tmp_path / "plain")
    told: list[object] = []
    with opened(plain) as workspace:
        wanted = workspace.fit("docs", progress=told.append)

    def forget() -> None:
        with opened(here) as other:
            other.forget("docs")

    with opened(here) as workspace:
        assert workspace.fit("docs", progress=at(len(told) // 3, forget)) == wanted


@pytest.mark.slow
def test_a_fit_that_stops_half_way_leaves_what_was_fitted_before(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(here) as workspace:
        workspace.build()
        workspace.fit("docs")
        workspace.learn("docs")
        scoring = workspace.joint_space.folder.path / "scoring.json"
        before = scoring.read_bytes()

        def stopped(*_: object, **__: object) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr(fit_judge, "fit_judge", stopped)
        with pytest.raises(KeyboardInterrupt):
            workspace.fit("docs")
        assert scoring.read_bytes() == before
