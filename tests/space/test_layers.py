"""Segments in layers answer as segments of the whole KB; an update writes what changed."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from kglink.config import SpaceSection
from kglink.models.source import ModelInfo
from kglink.plugins import IndexBackend, load_registry
from kglink.records import Alias, Document, Entity, EntityId, Mention
from kglink.space import build as building
from kglink.space.build import BuildReport, SpaceBuild
from kglink.space.folder import SpaceFolder
from kglink.space.layers import HIDDEN_FILE, LayeredSegment
from kglink.space.manifest import ROW_KINDS
from kglink.space.segment import Segment
from kglink.space.segment_plan import SpaceSource
from kglink.space.space import Space, SpaceNames, limited_space
from kglink.store import IngestJob, Store
from kglink.workspace import Workspace

MODEL = ModelInfo(name="toy", fingerprint="f1", dim=8)
WORDS = (
    "amber", "birch", "cedar", "dune", "ember", "fjord", "grove", "heath", "inlet", "knoll",
)  # fmt: skip


class Encoder:
    """Vectors of random numbers, drawn by the text."""

    truncated, trained = 0, None

    def __init__(self) -> None:
        self.seen: list[str] = []

    def encode(self, texts: list[str]) -> np.ndarray:
        self.seen += texts
        drawn = [np.random.default_rng(list(text.encode())).standard_normal(8) for text in texts]
        return np.array(drawn, np.float32).reshape(-1, 8)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(f"sqlite:///{tmp_path / 'kglink.db'}") as opened:
        yield opened


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(building, "LEAST_IN_LAYERS", 8)


def entity_of(chance: random.Random, number: int) -> Entity:
    names = [" ".join(chance.choices(WORDS, k=chance.randint(1, 3))) for _ in range(3)]
    aliases = tuple(Alias(name, count=chance.randint(1, 4)) for name in dict.fromkeys(names[1:]))
    return Entity(f"e{number:03}", names[0], names[-1], popularity=number % 5, aliases=aliases)


def put(store: Store, *entities: Entity, merge: bool = True) -> None:
    fingerprint = str(random.random())
    store.ingest(
        IngestJob("kb", "memory", "memory", fingerprint, merge=merge, allow_shrink=True), entities
    )


def source(store: Store) -> SpaceSource:
    info = store.kb("kb")
    return SpaceSource(
        "kb",
        info.revision,
        f"{store.identity} {info.revision}",
        "",
        partial(store.folded_entities, "kb"),
        store.identity,
        info.last_id,
        info.entities,
        partial(store.count_changes, "kb"),
        partial(store.changes, "kb"),
    )


def backend_of(name: str, settings: object) -> IndexBackend:
    return load_registry(only="builtin").create("index", name, {})


def build(
    store: Store, folder: SpaceFolder, encoder: Encoder | None = None, *, fresh: bool = False
) -> BuildReport:
    parts = folder, [source(store)], MODEL, encoder or Encoder(), SpaceSection(), backend_of
    return SpaceBuild(*parts, fresh=fresh).build()


def depth(folder: SpaceFolder) -> int:
    return len(Space(folder, backend_of).segments["kb"].layers)


def assert_same(space: Space, whole: Space) -> None:
    """All that a layered KB answers, compared with a segment of the whole KB."""
    layered, plain = space.segments["kb"], whole.segments["kb"]
    same_tables(layered, plain)
    everything = np.arange(len(plain.surfaces))
    assert np.array_equal(layered.entity_of(everything), plain.entity_of(everything))
    for ours, theirs in zip(
        layered.aliases_of(np.array([0, 3, 5])), plain.aliases_of(np.array([0, 3, 5])), strict=True
    ):
        assert np.array_equal(ours, theirs)
    for name in (*WORDS, "birch cedar", "none of them"):
        assert np.array_equal(layered.names.exact(name), plain.names.exact(name))
    queries = Encoder().encode(["one", "two"])
    for kind in ROW_KINDS:
        for k in (1, 7, 10_000):
            scores, rows = space.nearest(queries, "kb", kind, k)
            expected = whole.nearest(queries, "kb", kind, k)
            assert np.array_equal(rows, expected[1])
            np.testing.assert_allclose(scores, expected[0], rtol=1e-5)


def same_tables(layered: Segment, plain: Segment) -> None:
    for table in ("keys", "titles", "surfaces"):
        ours, theirs = getattr(layered, table), list(getattr(plain, table))
        assert list(ours) == theirs == [ours[at] for at in range(len(ours))]
        some = np.array([5, 0, len(theirs) - 1, 5, 1])
        assert ours.take(some) == [theirs[at] for at in some]
    assert list(layered.names.folded) == list(plain.names.folded)
    for column in ("popularity", "alias_counts", "alias_starts"):
        assert np.array_equal(np.asarray(getattr(layered, column)), getattr(plain, column))
    assert [layered.row(key) for key in plain.keys] == [*range(len(plain.keys))]
    assert layered.row("e") == layered.row("zzz") == -1
    for kind in ROW_KINDS:
        assert layered.row_count(kind) == plain.row_count(kind)
        assert np.array_equal(layered.vectors(kind, slice(None)), plain.vectors(kind, slice(None)))


@pytest.mark.parametrize("seed", range(1, 2))
def test_layers_answer_as_a_fresh_build_whatever_was_changed(
    seed: int, store: Store, tmp_path: Path
) -> None:
    chance, folder = random.Random(seed), SpaceFolder(tmp_path, "default")
    put(store, *(entity_of(chance, number) for number in range(0, 400, 2)))
    build(store, folder)
    depths = []
    for step, count in enumerate((10, 1, 0, 1, 30)):
        changed = chance.sample(range(420), count)
        if changed:
            put(store, *(entity_of(chance, number) for number in changed))
        else:
            store.remove_entities("kb", [next(store.entities("kb")).key])
        build(store, folder)
        fresh = SpaceFolder(tmp_path, f"fresh{step}")
        build(store, fresh)
        assert_same(Space(folder, backend_of), Space(fresh, backend_of))
        depths.append(depth(folder))
    assert depths == [2, 3, 2, 3, 1]
    assert folder.damage() == []
    kept = folder.segment_folders(folder.published_manifest())
    assert {path.name for path in folder.segments.iterdir()} == kept


def test_similar_names_are_those_of_a_fresh_build(store: Store, tmp_path: Path) -> None:
    """Letters are weighed as in the layer below: cosines differ a little, the best names do not."""
    chance, folder = random.Random(5), SpaceFolder(tmp_path, "default")
    fresh = SpaceFolder(tmp_path, "fresh")
    put(store, *(entity_of(chance, number) for number in range(300)))
    build(store, folder)
    put(store, Entity("e0071", "amberfjord lagoon"), Entity("e010", "knollheath"))
    store.remove_entities("kb", ["e020"])
    build(store, folder)
    build(store, fresh)
    layered, plain = (Space(one, backend_of).segments["kb"].names for one in (folder, fresh))
    asked = ["amberfjord lagun", "knolheath", "birch cedr"]
    for ours, theirs in zip(layered.similar(asked, 5), plain.similar(asked, 5), strict=True):
        assert layered.folded[int(ours[0][0])] == plain.folded[int(theirs[0][0])]
        np.testing.assert_allclose(ours[1], theirs[1], atol=0.02)
    every = layered.similar(["birch"], 10_000)[0][0]
    assert len(set(every.tolist())) == len(every)


def test_an_update_encodes_and_writes_what_changed_and_keeps_the_index(
    store: Store, tmp_path: Path
) -> None:
    chance, folder = random.Random(1), SpaceFolder(tmp_path, "default")
    put(store, *(entity_of(chance, number) for number in range(200)))
    build(store, folder)
    manifest, version = folder.published_manifest(), folder.current
    assert version is not None
    index = (version / "index.faiss").stat().st_ino
    put(store, Entity("e100", "Zephyr", "A wind."))
    encoder = Encoder()
    report = build(store, folder, encoder)
    assert sorted(encoder.seen) == ["Zephyr", "Zephyr. A wind."] or len(encoder.seen) == 2
    assert report.encoded_rows == 2
    assert folder.current is not None
    assert (folder.current / "index.faiss").stat().st_ino == index
    layer = folder.segments / report.manifest.segments["kb"]
    assert report.manifest.indexed == {"kb": manifest.segments["kb"]}
    assert len(Segment(layer).keys) == 1
    assert Space(folder, backend_of).segments["kb"].info.entities == 200
    build(store, folder, fresh=True)
    assert depth(folder) == 1


def test_a_small_kb_is_updated_in_layers_where_the_index_takes_long_to_build(
    store: Store, tmp_path: Path
) -> None:
    chance, encoder = random.Random(10), Encoder()
    put(store, *(entity_of(chance, number) for number in range(6)))

    def built(folder: SpaceFolder, index: str) -> SpaceBuild:
        settings = SpaceSection(index=index)
        made = SpaceBuild(folder, [source(store)], MODEL, encoder, settings, backend_of)
        made.build()
        return made

    exact, rounded = (SpaceFolder(tmp_path, name) for name in ("exact", "rounded"))
    for folder, index in ((exact, "kglink/flat"), (rounded, "kglink/faiss")):
        built(folder, index)
    put(store, Entity("e003", "Zephyr"), Entity("e900", "Yonder"))
    for folder, index in ((exact, "kglink/flat"), (rounded, "kglink/faiss")):
        before = folder.published_manifest().segments["kb"]
        built(folder, index)
        manifest = folder.published_manifest()
        assert manifest.indexed == ({} if folder is exact else {"kb": before})
    whole, layered = (Space(folder, backend_of).segments["kb"] for folder in (exact, rounded))
    assert isinstance(layered, LayeredSegment)
    same_tables(layered, whole)
    # More than a small KB holds is made anew.
    put(store, *(entity_of(chance, number) for number in range(20)))
    built(rounded, "kglink/faiss")
    assert not rounded.published_manifest().indexed


def test_a_killed_layer_goes_on_and_a_damaged_one_is_made_anew(
    store: Store, tmp_path: Path
) -> None:
    chance, folder = random.Random(2), SpaceFolder(tmp_path, "default")
    put(store, *(entity_of(chance, number) for number in range(200)))
    build(store, folder)
    put(store, Entity("e100", "Zephyr"))

    class Killed(Encoder):
        def encode(self, texts: list[str]) -> np.ndarray:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        build(store, folder, Killed())
    assert "Zephyr" not in list(Space(folder, backend_of).segments["kb"].titles)
    build(store, folder)
    segment = Space(folder, backend_of).segments["kb"]
    assert isinstance(segment, LayeredSegment)
    assert "Zephyr" in list(segment.titles)
    np.save(segment.folder / HIDDEN_FILE, np.array([3, 10_000]))
    assert folder.damage() != []
    build(store, folder)
    assert folder.damage() == []
    assert "Zephyr" in list(Space(folder, backend_of).segments["kb"].titles)


def test_another_past_than_the_segment_knows_is_built_as_a_whole(
    store: Store, tmp_path: Path
) -> None:
    chance, folder = random.Random(3), SpaceFolder(tmp_path, "default")
    first = [entity_of(chance, number) for number in range(100)]
    put(store, *first)
    build(store, folder)
    store.remove_kb("kb")
    put(store, Entity("e000", "Zephyr"), *first[1:])  # as many as before, under the same numbers
    build(store, folder)
    assert depth(folder) == 1
    assert Space(folder, backend_of).segments["kb"].titles[0] == "Zephyr"


def test_the_number_of_a_removed_entity_does_not_come_again(store: Store, tmp_path: Path) -> None:
    chance, folder = random.Random(4), SpaceFolder(tmp_path, "default")
    put(store, *(entity_of(chance, number) for number in range(100)))
    build(store, folder)
    store.remove_entities("kb", ["e098", "e099"])
    put(store, Entity("e098", "Zephyr"), Entity("e099", "Mistral"))
    build(store, folder)
    assert depth(folder) == 2
    titles = list(Space(folder, backend_of).segments["kb"].titles)
    assert titles[-2:] == ["Zephyr", "Mistral"]


def test_a_layered_kb_can_be_limited_and_its_names_be_read_in_parts(
    store: Store, tmp_path: Path
) -> None:
    chance, folder = random.Random(6), SpaceFolder(tmp_path, "default")
    put(store, *(entity_of(chance, number) for number in range(100)))
    build(store, folder)
    put(store, Entity("e050", "Zephyr"))
    build(store, folder)
    space = Space(folder, backend_of)
    kept: Sequence[str] = ["e003", "e050", "e051"]
    few = limited_space(space, {"kb": kept})
    assert [few.segments["kb"].row(key) for key in ("e003", "e004", "e050")] == [3, -1, 50]
    assert few.segments["kb"].names.exact("zephyr").tolist() == (
        space.segments["kb"].names.exact("zephyr").tolist()
    )
    _, rows = few.nearest(Encoder().encode(["one"]), "kb", "text", 5)
    assert sorted(rows[0].tolist()) == [-1, -1, 3, 50, 51]
    old, new = SpaceNames(space, ["kb"]).parts
    assert [row.surface for row in new] == ["Zephyr"]
    assert len(old) == len(space.segments["kb"].indexed.surfaces)
    assert {row.surface for row in SpaceNames(few, ["kb"])} >= {"Zephyr"}


def test_an_entity_that_was_added_is_linked_and_one_that_was_removed_is_not(tmp_path: Path) -> None:
    chance = random.Random(7)
    with Workspace.open(tmp_path, create=True, flags={"link.found_by": "names"}) as workspace:
        workspace.add_kb("kb", [entity_of(chance, number) for number in range(700)])

        def linked(text: str) -> list[str]:
            told = workspace.link(text, wait=False)
            return [str(link.chosen.id) for one in told for link in one.links if link.chosen]

        assert linked("They met Zorbanek Quillfeather.") == []
        workspace.add_entity("kb", Entity("z", "Zorbanek Quillfeather"))
        assert linked("They met Zorbanek Quillfeather.") == ["kb:z"]
        workspace.add_entity("kb", Entity("z", "Ulmira Stonewater"))
        assert linked("They met Ulmira Stonewater.") == ["kb:z"]
        assert len(workspace.space().segments["kb"].layers) == 2
        workspace.remove_entity(EntityId("kb", "z"))
        assert linked("They met Ulmira Stonewater.") == []


def test_names_that_nothing_has_any_more_are_no_mentions(tmp_path: Path) -> None:
    chance, text = random.Random(9), "Vardomir Quillfeather met Zorbanek Stonewater."
    with Workspace.open(tmp_path, create=True, flags={"link.found_by": "names"}) as workspace:
        named = [Entity("v", "Vardomir Quillfeather"), Entity("z", "Zorbanek Stonewater")]
        workspace.add_kb("kb", [*(entity_of(chance, number) for number in range(700)), *named])

        def places() -> dict[str, str]:
            told = workspace.link(text, wait=False)
            return {
                link.surface: str(link.chosen and link.chosen.id)
                for one in told
                for link in one.links
            }

        assert places() == {"Vardomir Quillfeather": "kb:v", "Zorbanek Stonewater": "kb:z"}
        workspace.add_entity("kb", Entity("v", "Ulmira of the Ferns"))
        workspace.remove_entity(EntityId("kb", "z"))
        assert workspace.space().segments["kb"].layers
        assert places() == {}
        # What a text called it is no old name.
        start = text.index("Zorbanek")
        mention = Mention(start, len(text) - 1, text[start:-1], (EntityId("kb", "v"),))
        workspace.add_kb("docs", [Document("1", text, (mention,))], links_to=("kb",))
        workspace.learn(["docs"])
        assert list(places()) == ["Zorbanek Stonewater"]


def test_changes_of_no_entity_pile_up_no_layers(store: Store, tmp_path: Path) -> None:
    chance, folder = random.Random(8), SpaceFolder(tmp_path, "default")
    put(store, *(entity_of(chance, number) for number in range(40)))
    build(store, folder)
    for number in range(4):
        job = IngestJob("kb", "memory", "memory", str(number), merge=True)
        store.ingest(job, [Document(f"d{number}", "A text of no mention.")])
        build(store, folder)
    assert depth(folder) <= 2


def test_a_build_as_a_whole_reads_no_names_of_a_layer(tmp_path: Path) -> None:
    chance = random.Random(9)
    with Workspace.open(tmp_path, create=True, flags={"link.found_by": "names"}) as workspace:
        workspace.add_kb("kb", [entity_of(chance, number) for number in range(60)])
        workspace.add_entity("kb", Entity("z", "Zorbanek Quillfeather"))
        workspace.add_entity("kb", Entity("y", "Ulmira Stonewater"))

        def linked() -> list[str]:
            told = workspace.link("They met Zorbanek Quillfeather and Ulmira Stonewater.")
            return [str(link.chosen.id) for one in told for link in one.links if link.chosen]

        workspace.build()
        workspace.remove_entity(EntityId("kb", "y"))
        workspace.build()
        assert linked() == ["kb:z"]
        workspace.build(fresh=True)
        assert linked() == ["kb:z"]
