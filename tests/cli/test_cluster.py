"""`--engine ray` and `--part`: the bytes of one process, whatever is lost."""

from __future__ import annotations

import io
import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from conftest import Kglink

from fake_distributions import FakeEnvironment
from kglink.errors import SpaceError, UsageError
from kglink.records import OnProgress, Progress, TextInput
from kglink.space.segment_vectors import Block
from kglink.workspace import Workspace, init_workspace
from kglink.workspace import resolve as resolving
from kglink.workspace.link import ChunkLines, LinesJob
from kglink.workspace.ray_workers import Chunk, Job, RayWorkers, spread_on_ray
from kglink.workspace.texts import Part
from kglink_cli.outputs import KeptChunks, chunk_of, name_of
from kglink_kbs.mediawiki import adapter as mediawiki
from kglink_kbs.mediawiki.plan import write_packed
from trained_spaces import add_run, make_workspace
from worlds import World, WorldSettings, write_mediawiki_xml

TEXT = "Isolde Heron saw a grey heron near the Skerrow Light. The seal came later. "
FILLER = "the water went on, as it does. " * 1100  # each text is a chunk of its own
#: A detector that fails, or kills its process, where a text asks for it.
MOODY = """
    import os
    from kglink.records import Span

    class Moody:
        def __init__(self, settings, names):
            pass

        def detect(self, text):
            if "killer" in text:
                os._exit(9)
            if "trouble" in text:
                raise RuntimeError("a text of trouble")
            start = text.find("heron")
            return [Span(start, start + 5)] if start >= 0 else []

    @hookimpl
    def register_detectors(register):
        register("acme/moody", Moody, summary="Finds herons, if it is in the mood")
"""


def chunk(number: int, *texts: str) -> Chunk:
    return chunk_of(number, [TextInput(f"{number}-{at}", text) for at, text in enumerate(texts)])


def long_texts(folder: Path, count: int, **others: str) -> Path:
    made = folder / "texts"
    made.mkdir()
    for at in range(count):
        (made / f"{at:02}.txt").write_text(FILLER + others.get(f"t{at:02}", TEXT))
    return made


# ------------------------------------------------------------------------------------- parts
@pytest.mark.parametrize("count", [0, 1, 7, 30])
@pytest.mark.parametrize("of", [1, 3, 10])
def test_parts_in_their_order_are_the_whole(count: int, of: int) -> None:
    things = list(range(count))
    parts = [things[Part(number, of).cut(count)] for number in range(1, of + 1)]
    assert [one for part in parts for one in part] == things
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


@pytest.mark.parametrize("text", ["", "3", "0/3", "4/3", "1/x", "-1/3", "1/2/3"])
def test_what_names_no_part_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="names no part"):
        Part.parse(text)


@pytest.mark.slow
def test_the_parts_of_a_folder_and_of_a_file_are_the_whole(
    demo: Path, kglink: Kglink, tmp_path: Path
) -> None:
    folder, lines = tmp_path / "texts", tmp_path / "texts.jsonl"
    folder.mkdir()
    with lines.open("w") as out:
        for at in range(5):
            (folder / f"{at}.txt").write_text(f"{at}: {TEXT}")
            out.write(json.dumps({"id": str(at), "text": f"{at}: {TEXT}"}) + "\n")
    for source in (folder, lines):
        whole = kglink("link", source, "--format", "jsonl").out
        parts = [kglink("link", source, "--part", f"{one}/3", "-f", "jsonl") for one in (1, 2, 3)]
        assert "".join(part.out for part in parts) == whole
        assert [len(part.out.splitlines()) for part in parts] == [1, 2, 2]


def test_a_part_counts_bad_texts_once_and_an_empty_name_is_none(
    demo: Path, kglink: Kglink, tmp_path: Path
) -> None:
    lines = tmp_path / "texts.jsonl"
    good = [json.dumps({"id": str(at), "text": f"{at}: {TEXT}"}) for at in range(4)]
    lines.write_text("\n".join([good[0], "{broken", *good[1:], ""]))
    said = kglink("link", lines, "--part", "2/2", "--on-error", "skip", "-f", "jsonl")
    assert "skipped" in said.err
    assert "1 bad" in said.err
    assert [json.loads(line)["id"] for line in said.out.splitlines()] == ["2", "3"]
    assert "names no part" in kglink("link", lines, "--part", "", code=2).err


@pytest.mark.slow
def test_a_job_links_in_any_process_what_the_command_links(
    demo: Path, kglink: Kglink, tmp_path: Path
) -> None:
    job_file, texts = tmp_path / "job", [TEXT, "A seal."]
    with Workspace.open(demo) as workspace:
        import pickle

        job_file.write_bytes(pickle.dumps(workspace.link_job()))
    code = (
        "import pickle, sys; from kglink import TextInput\n"
        "job = pickle.load(open(sys.argv[1], 'rb'))\n"
        "for at, text in enumerate(sys.argv[2:], 1):\n"
        "    for document in job.link([TextInput(str(at), text)]):\n"
        "        print([str(link.chosen.id) for link in document.links if link.chosen])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, job_file, *texts], capture_output=True, text=True, check=True
    )
    found = [
        [f"{one['kb']}:{one['key']}" for one in json.loads(line)["entities"] if one["key"]]
        for line in kglink("link", "-", "--lines", stdin="\n".join(texts)).out.splitlines()
    ]
    assert done.stdout.splitlines() == list(map(str, found))
    assert all(found)


# -------------------------------------------------------------------------------- kept chunks
def test_kept_chunks_are_known_again_and_written_in_order() -> None:
    file = io.BytesIO()
    kept = KeptChunks(file)
    first, second = name_of(chunk(0, "sooner")), name_of(chunk(1, "later"))
    kept.add(second, b"second\n")
    kept.add(first, b"first\n")
    file.seek(0)
    again = KeptChunks(file)
    assert len(again) == 2
    assert first in again
    others = [name_of(chunk(0, "another text")), name_of(chunk(2, "sooner"))]
    assert not any(name in again for name in others)
    again.add(others[1], b"third\n")
    again.write([first, others[0], second, others[1]], out := io.BytesIO())
    assert out.getvalue() == b"first\nsecond\nthird\n"


@pytest.mark.parametrize("lost", range(1, 20))
def test_a_chunk_that_was_cut_off_or_damaged_is_not_kept(lost: int) -> None:
    file = io.BytesIO()
    kept = KeptChunks(file)
    kept.add("a", b"whole\n")
    whole = file.tell()
    kept.add("b", b"cut off in here\n")
    for damaged in (file.getvalue()[:-lost], file.getvalue()[:-lost] + b"\0" * lost):
        again = KeptChunks(left := io.BytesIO(damaged))
        assert len(again) == 1
        assert len(left.getvalue()) == whole


def test_a_chunk_that_says_it_is_longer_than_its_file_is_not_kept() -> None:
    for length in ("9" * 14, "9" * 30):
        head = f'["a", {length}, "digest"]\n'.encode()
        assert len(KeptChunks(io.BytesIO(head + b"short\n"))) == 0


def test_what_a_cluster_cannot_write_is_refused(demo: Path, kglink: Kglink) -> None:
    for options in ((), ("--json",), ("-o", "answers.csv"), ("-o", "a.gz", "-f", "jsonl")):
        told = kglink("link", "-", "--engine", "ray", *options, stdin=TEXT, code=2).err
        assert "-o answers.jsonl" in told
    told = kglink("link", "-", "--engine", "spark", stdin=TEXT, code=2).err
    assert "processes, ray" in told
    told = kglink("link", "-", "--lines", "--part", "1/2", stdin=TEXT, code=2).err
    assert "--part" in told
    told = kglink("overlap", "--method", "names", "--engine", "ray", code=2).err
    assert "--method full" in told


def test_a_cluster_that_is_not_there_is_named(
    demo: Path, kglink: Kglink, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:9")
    output = tmp_path / "out.jsonl"
    told = kglink("link", "-", "--engine", "ray", "-o", output, stdin=TEXT, code=2).err
    assert "127.0.0.1:9" in told
    assert not list(tmp_path.iterdir())


# --------------------------------------------------------------------------------- a cluster
@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The head of a cluster; all of its nodes know the plugin `acme/moody`."""
    from ray.cluster_utils import Cluster

    folder = tmp_path_factory.mktemp("plugins")
    FakeEnvironment(folder).install("acme", "1", MOODY)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(folder))
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        made = Cluster(
            initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False}
        )
        patch.setenv("RAY_ADDRESS", made.address)
        yield made
        made.shutdown()


@pytest.fixture
def nodes(cluster: Any) -> Iterator[list[Any]]:
    """Two nodes with a core each."""
    made = [cluster.add_node(num_cpus=1) for _ in range(2)]
    yield made
    for node in made:
        if node in cluster.worker_nodes:
            cluster.remove_node(node, allow_graceful=False)


def done_by(job: Job, *chunks: Chunk) -> list[tuple[Chunk, Any]]:
    with RayWorkers(job, 2) as workers:
        return list(workers.do(iter(chunks)))


def begun(source: Path, output: Path, *more: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "kglink_cli", "link", str(source), "-o", str(output)]
    ray = ["--engine", "ray", "--workers", "2", *more]
    return subprocess.Popen([*command, *ray], stderr=subprocess.PIPE, text=True)


def ended(running: subprocess.Popen[str], code: int = 0) -> str:
    _, told = running.communicate(timeout=400)
    assert running.returncode == code, told
    assert "Traceback" not in told
    return told


def wait_for_chunks(running: subprocess.Popen[str], output: Path, count: int) -> int:
    """Wait until so many chunks are kept; how many there are then."""
    until = time.monotonic() + 200
    while time.monotonic() < until:
        assert running.poll() is None, running.communicate()
        for draft in output.parent.glob(f".{output.name}.*.partial"):
            lines = draft.read_bytes().splitlines()
            if len(lines) >= 2 * count:  # a head and an answer each
                return len(lines) // 2
        time.sleep(0.02)
    raise AssertionError("no chunks")


@pytest.mark.slow
def test_a_lost_node_and_a_lost_driver_change_no_byte(
    demo_copy: Path, kglink: Kglink, tmp_path: Path, cluster: Any, nodes: list[Any]
) -> None:
    texts, alone, output = long_texts(tmp_path, 24), tmp_path / "alone.jsonl", tmp_path / "r.jsonl"
    kglink("link", texts, "-o", alone)
    running = begun(texts, output)
    wait_for_chunks(running, output, 3)
    os.kill(running.pid, signal.SIGKILL)
    running.communicate()
    (draft,) = tmp_path.glob(".r.jsonl.*.partial")
    kept = len(draft.read_bytes().splitlines()) // 2
    assert 3 <= kept < 20

    running = begun(texts, output)
    wait_for_chunks(running, output, kept + 2)
    cluster.remove_node(nodes[0], allow_graceful=False)
    told = ended(running)
    assert f"after {kept} chunks" in told
    assert "lost a worker of text '" in told
    assert output.read_bytes() == alone.read_bytes()
    assert not list(tmp_path.glob(".r.jsonl.*"))


@pytest.mark.slow
def test_chunks_that_always_fail_are_named_and_the_rest_is_done(
    demo_copy: Path, kglink: Kglink, tmp_path: Path, cluster: Any, nodes: list[Any]
) -> None:
    texts = long_texts(tmp_path, 6, t01="a heron, trouble", t04="a heron, killer")
    output, alone = tmp_path / "r.jsonl", tmp_path / "alone.jsonl"
    told = ended(begun(texts, output, "--detector", "acme/moody"), 1)
    assert "2 chunks failed" in told
    assert "text '01.txt' (RuntimeError: a text of trouble)" in told
    assert "text '04.txt' (its worker was lost" in told
    assert not output.exists()

    again = ended(begun(texts, output, "--detector", "acme/moody", "--on-error", "skip"), 1)
    assert "after 4 chunks" in again
    assert "2 chunks failed" in again
    for bad in ("01", "04"):
        (texts / f"{bad}.txt").unlink()
    command = [sys.executable, "-m", "kglink_cli", "link", str(texts), "-o", str(alone)]
    subprocess.run([*command, "--detector", "acme/moody"], check=True, capture_output=True)
    assert output.read_bytes() == alone.read_bytes()
    assert len(alone.read_bytes().splitlines()) == 4


@pytest.mark.slow
def test_nodes_that_are_not_as_they_should_be_are_named(
    demo_copy: Path, kglink: Kglink, tmp_path: Path, cluster: Any
) -> None:
    FakeEnvironment(tmp_path).describe("kglink", "0.0.9", "kglink")
    old = cluster.add_node(num_cpus=2, env_vars={"PYTHONPATH": str(tmp_path)})
    told = ended(begun(long_texts(tmp_path, 2), tmp_path / "r.jsonl"), 1)
    assert "has kglink 0.0.9, and the run kglink 0.1.0" in told
    cluster.remove_node(old, allow_graceful=False)


@pytest.mark.slow
def test_a_workspace_that_a_node_does_not_see_is_named(
    demo_copy: Path, tmp_path: Path, cluster: Any, nodes: list[Any]
) -> None:
    with Workspace.open(demo_copy) as workspace:
        job = workspace.link_job()
        exporter = workspace.registry.create("exporter", "kglink/jsonl", {})
    elsewhere = replace(job, folder=tmp_path / "elsewhere")
    with pytest.raises(SpaceError, match=r"^node \S+: there is no workspace at .*elsewhere"):
        done_by(LinesJob(elsewhere, exporter), chunk(0, TEXT))
    (answer,) = done_by(LinesJob(job, exporter), chunk(0, TEXT))
    assert isinstance(answer[1], ChunkLines)
    assert answer[1].mentions == answer[1].lines.count(b'"start"')
    other = replace(job, made_of=("another version",))
    with pytest.raises(SpaceError, match="is not as it was when the run began"):
        done_by(LinesJob(other, exporter), chunk(0, TEXT))


@pytest.mark.slow
def test_what_a_cluster_says_of_itself_stays_out_of_our_output(
    cluster: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    import ray

    with RayWorkers(SimpleNamespace(device="cpu", threads=1), 1) as workers:
        workers.start()
        gcs = ray._private.worker.global_worker.gcs_client
        ray._private.utils.publish_error_to_driver("node", "a node is lost", gcs_client=gcs)
        time.sleep(2)  # Ray prints it in a thread of its own
    assert capsys.readouterr().out == ""


@pytest.mark.slow
def test_workers_share_the_gpus_of_a_cluster(demo_copy: Path, tmp_path: Path, cluster: Any) -> None:
    import ray

    node = cluster.add_node(num_cpus=3, num_gpus=2)  # as Ray counts them
    with Workspace.open(demo_copy) as workspace:
        job = workspace.link_job()
        exporter = workspace.registry.create("exporter", "kglink/jsonl", {})
    ray.init(logging_level="ERROR", log_to_driver=False)
    try:
        chunks = (chunk(at, TEXT) for at in range(12))
        until = time.monotonic() + 180
        with RayWorkers(LinesJob(job, exporter), 3) as workers:
            for _ in workers.do(chunks):
                while ray.available_resources().get("GPU") != 0.5 and time.monotonic() < until:
                    time.sleep(0.1)
        assert time.monotonic() < until, "three workers take half of a GPU each"
    finally:
        ray.shutdown()
        cluster.remove_node(node, allow_graceful=False)


def files_of(workspace: Path, space: str) -> dict[str, bytes]:
    """The arrays and tables of a space's segments."""
    segments = workspace / "spaces" / space / "segments"
    return {
        str(path.relative_to(segments)): path.read_bytes()
        for path in segments.rglob("*")
        if path.suffix in (".npy", ".utf8", ".bf16")
    }


def losing_a_node(cluster: Any, left: list[Any], is_time: Callable[[Progress], bool]) -> OnProgress:
    """Removes the last of some nodes, once, as soon as it is time."""
    before = len(left)

    def progress(news: Progress) -> None:
        if len(left) == before and is_time(news):
            cluster.remove_node(left.pop(), allow_graceful=False)

    return progress


@pytest.mark.slow
def test_a_cluster_that_loses_a_node_encodes_the_bytes_of_one_process(
    demo_copy: Path, cluster: Any, nodes: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KGLINK_ENCODER_DEVICE", "cpu")
    monkeypatch.setattr("kglink.space.segment_vectors.CHUNK_ROWS", 16)
    notes, left = [], list(nodes)

    def is_time(news: Progress) -> bool:
        return news.step.startswith("encoding") and news.done > 100

    def note(label: str, text: str) -> None:
        notes.append(f"{label}: {text}")

    with Workspace.open(demo_copy, flags={"space.name": "alone"}) as workspace:
        alone = workspace.build()
    with Workspace.open(demo_copy, flags={"space.name": "cluster"}) as workspace:
        progress = losing_a_node(cluster, left, is_time)
        made = workspace.build(ray_workers=2, progress=progress, on_note=note)
    assert made.encoded_rows == alone.encoded_rows > 500
    assert made.truncated_texts == alone.truncated_texts
    assert any("lost a worker of" in line and "rows from" in line for line in notes), notes
    assert files_of(demo_copy, "cluster") == files_of(demo_copy, "alone")


@pytest.mark.slow
def test_a_build_that_is_killed_goes_on_and_a_node_with_another_model_is_named(
    demo_copy: Path,
    kglink: Kglink,
    cluster: Any,
    nodes: list[Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("KGLINK_ENCODER_DEVICE", "cpu")
    command = [sys.executable, "-m", "kglink_cli", "build", "--space", "cluster"]
    running = subprocess.Popen([*command, "--engine", "ray", "--workers", "2"])
    drafts = demo_copy / "spaces" / "cluster" / "segments"
    until = time.monotonic() + 200
    while not list(drafts.glob(".draft-*/alias.npy")) and time.monotonic() < until:
        time.sleep(0.01)
    os.kill(running.pid, signal.SIGKILL)
    running.communicate()
    assert list(drafts.glob(".draft-*"))
    kglink("build", "--space", "cluster", "--engine", "ray", "--workers", 2)
    kglink("build", "--space", "alone")
    assert files_of(demo_copy, "cluster") == files_of(demo_copy, "alone")

    with Workspace.open(demo_copy) as workspace:
        job = workspace.joint_space.encode_job()
    with pytest.raises(SpaceError, match=r"^node \S+: .* is another model than that of the run"):
        done_by(replace(job, fingerprint="another"), Chunk(0, Block("alias", 0, ["heron"]), "a"))
    ((_, encoded),) = done_by(job, Chunk(0, Block("alias", 0, ["heron"]), "a"))
    assert encoded.vectors.shape == (1, 384)


@pytest.mark.slow
def test_token_vectors_of_a_cluster_are_those_of_one_process(
    tmp_path: Path, cluster: Any, nodes: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KGLINK_ENCODER_DEVICE", "cpu")
    monkeypatch.setattr("kglink.space.segment_vectors.CHUNK_ENTITIES", 4)
    monkeypatch.setattr("kglink.space.token_lists.LEAST_TOKENS", 1)
    folder = make_workspace(tmp_path / "workspace")
    model = add_run(folder, "som", shared=False, pooling="tokens", scorer="sum_of_max")
    left = list(nodes)

    with Workspace.open(folder, flags={"space.name": "alone"}) as workspace:
        workspace.build(model=model)
    with Workspace.open(folder, flags={"space.name": "cluster"}) as workspace:
        progress = losing_a_node(cluster, left, lambda news: news.done > 60)
        workspace.build(model=model, ray_workers=2, progress=progress)
    assert len(left) < len(nodes), "a node was lost"
    alone = files_of(folder, "alone")
    assert sum(name.endswith("tokens.bf16") for name in alone) == 2
    assert files_of(folder, "cluster") == alone


# ------------------------------------------------------------------------------- in order
def slow_job() -> Any:
    """A job that takes as many seconds as it is given."""

    class Sleeps:  # of a function, so that it goes to nodes as it is
        threads, device = 1, "cpu"

        def load(self) -> None:
            pass

        def do(self, seconds: float) -> float:
            if seconds < 0:
                raise ValueError(f"{seconds} s")
            time.sleep(seconds)
            return seconds

    return Sleeps()


@pytest.mark.slow
def test_pieces_come_in_their_order_and_few_wait_for_a_slow_one(nodes: list[Any]) -> None:
    asked = [2.0, *(at / 1e4 for at in range(60))]
    taken = []

    def pieces() -> Iterator[tuple[str, float]]:
        for at, seconds in enumerate(asked):
            taken.append(at)
            yield f"piece {at}", seconds

    spread = spread_on_ray(2, lambda line: None)
    answers = spread(slow_job(), pieces())
    assert next(answers) == asked[0]
    assert len(taken) <= 14  # eight wait, two are worked at, others are at hand
    assert [*answers] == asked[1:]
    with pytest.raises(SpaceError, match=r"1 chunk failed: piece b \(ValueError: -1 s\)"):
        list(spread(slow_job(), [("piece a", 0.0), ("piece b", -1)]))


@pytest.mark.slow
def test_a_cluster_without_room_is_not_waited_for_on_and_on(
    nodes: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kglink.workspace.ray_workers._PATIENCE", 0.5)
    job = slow_job()
    said: list[str] = []
    job.threads = 64  # no node has so many, as when one is gone that was counted
    waiting = r"no worker started in 2 s: a worker takes 64 CPUs and 0 GPUs, the nodes that are "
    with pytest.raises(SpaceError, match=waiting + "there have .* none has room for one"):
        list(spread_on_ray(1, said.append)(job, [("a", 0.0)]))
    assert len(said) == 3


@pytest.mark.parametrize(
    ("cpus", "gpus", "times", "why"),
    [(2, 0.0, 120, "and all are busy"), (3, 0.0, 4, "none has"), (1, 0.5, 4, "none has")],
)
def test_busy_nodes_are_waited_for_longer_than_nodes_that_are_gone(
    cpus: int, gpus: float, times: int, why: str
) -> None:
    said: list[str] = []
    workers = RayWorkers(slow_job(), 1, said.append)
    nodes = [
        {"Alive": True, "Resources": {"CPU": 2.0}},
        {"Alive": True, "Resources": {"CPU": 2.0}},
        {"Alive": False, "Resources": {"CPU": 8.0, "GPU": 1.0}},
    ]
    workers._ray = SimpleNamespace(nodes=lambda: nodes)
    workers._needs = {"CPU": cpus, "GPU": gpus}
    for _ in range(times - 1):
        workers._wait_on()
    assert f"takes {cpus} CPUs and {gpus:g} GPUs" in said[0]
    assert "have 4 CPUs and 0 GPUs" in said[0]
    assert len(said) == times - 1
    with pytest.raises(SpaceError, match=why):
        workers._wait_on()


# ---------------------------------------------------------------------------------- tables
@pytest.mark.slow
def test_a_table_that_a_cluster_resolves_has_the_bytes_of_one_process(
    demo_copy: Path,
    kglink: Kglink,
    tmp_path: Path,
    cluster: Any,
    nodes: list[Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(resolving, "BATCH", 50)
    monkeypatch.setattr(resolving, "MOST_KEPT", 120)  # some rows are forgotten, and asked again
    names = ["grey heron", "Skerrow Light", "seal", "Isolde Heron", "", "a lamp", "herons", "qwxz"]
    table, alone, output = (tmp_path / f"{name}.csv" for name in ("t", "alone", "r"))
    rows = [f"{names[at % 7]}{' ' * (at % 3)}{at % 11 or ''},{names[at % 5]}" for at in range(900)]
    rows[444] = "h" * 40_000 + ",too long"
    table.write_text("\n".join(["name,place", *rows]) + "\n")
    command = ("resolve", "--column", "name", "--context", "place", table, "-o")
    kglink(*command, alone)
    ray = ("--engine", "ray", "--workers", 2)
    in_order = RayWorkers.in_order

    def stop(self: RayWorkers, chunks: Iterator[Chunk]) -> Iterator[tuple[Chunk, Any]]:
        yield from islice(in_order(self, chunks), 7)
        raise SpaceError("stopped")

    with monkeypatch.context() as stopped:
        stopped.setattr(RayWorkers, "in_order", stop)
        kglink(*command, output, *ray, code=1)
    assert not output.exists()
    said = kglink(*command, output, *ray).err
    assert "of an interrupted run" in said
    assert output.read_bytes() == alone.read_bytes()
    assert alone.read_bytes().count(b",match,") > 20
    assert "of 900 rows" in said

    monkeypatch.setattr("kglink.workspace.link.made_of", lambda opened: ("another version",))
    told = kglink(*command, tmp_path / "no.csv", "--engine", "ray", code=1).err
    assert "is not as it was when the run began" in told
    assert not (tmp_path / "no.csv").exists()


def test_a_cluster_resolves_tables_alone(demo: Path, kglink: Kglink) -> None:
    assert "no --column is named" in kglink("resolve", "seal", "--engine", "ray", code=2).err


# -------------------------------------------------------------------------------- overlaps
@pytest.mark.slow
def test_a_cluster_finds_the_overlaps_of_one_process(
    demo_copy: Path,
    kglink: Kglink,
    cluster: Any,
    nodes: list[Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("kglink.overlap.neighbours.PART_ROWS", 64)
    monkeypatch.setattr("kglink.overlap.compared._EVERY_S", 0.0)
    monkeypatch.setattr("kglink.overlap.compared._EVERY_TIMES", 0.0)
    alone = json.loads(kglink("overlap", "--fresh", "--json").out)
    sent: list[str] = []
    parts = RayWorkers.in_order

    def watched(workers: RayWorkers, chunks: Iterator[Chunk]) -> Iterator[Any]:
        for chunk, answer in parts(workers, chunks):
            if len(sent) == 2:
                sent.append("stopped")
                raise SpaceError("stopped")
            sent.append(chunk.name)
            yield chunk, answer

    monkeypatch.setattr(RayWorkers, "in_order", watched)
    kglink("overlap", "--fresh", "--engine", "ray", "--workers", 2, code=1)
    found = kglink("overlap", "--fresh", "--json", "--engine", "ray", "--workers", 2)
    assert json.loads(found.out) == alone
    assert len(alone) > 20
    assert len(sent) > 3
    assert len(set(sent)) == len(sent)  # the second run went on
    told = kglink("overlap", "--export", "a.tsv", "--engine", "ray", code=2).err
    assert "--engine has no effect" in told


# ----------------------------------------------------------------------------------- dumps
def rows_of(workspace: Path) -> list[str]:
    """All rows of all tables, without times and what a store draws for itself."""
    with sqlite3.connect(workspace / "kglink.db") as store:
        lines = [line for line in store.iterdump() if line.startswith("INSERT INTO")]
    rows = (re.sub(r"'\d{4}-\d\d-\d\dT[^']*'", "?", line) for line in lines)
    return [row for row in rows if '"store_state"' not in row]


@pytest.mark.slow
def test_a_dump_that_a_cluster_parses_makes_the_rows_of_one_process(
    tmp_path: Path, cluster: Any, nodes: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    dump = tmp_path / "dump"
    dump.mkdir()
    with (whole := tmp_path / "world.xml").open("w", encoding="utf-8") as out:
        write_mediawiki_xml(out, World(WorldSettings(entities=400)))
    header, *pages = whole.read_text().replace("</mediawiki>\n", "").split("  <page>\n")
    bad = "    <title>Bad</title>\n    <ns>0</ns>\n    <id>no number</id>\n  </page>\n"
    pages = ["  <page>\n" + text for text in [*pages[:90], bad, *pages[90:]]]
    for at, part in enumerate((pages[:250], pages[250:])):
        (dump / f"{at}.xml").write_text(header + "".join(part) + "</mediawiki>\n")
    monkeypatch.setattr(mediawiki, "LEAST_PIECE", 20_000)
    notes: list[str] = []
    kept: list[Path] = []
    tell, write = mediawiki._Reading._tell, write_packed

    def writing(path: Path, parts: Any) -> None:
        kept.append(path)
        write(path, parts)

    monkeypatch.setattr(mediawiki, "write_packed", writing)

    def stopping(reading: Any, about: dict[str, Any]) -> None:
        tell(reading, about)
        if len(kept) == 5:
            raise KeyboardInterrupt

    def losing(reading: Any, about: dict[str, Any]) -> None:
        tell(reading, about)
        if len(nodes) == 2:
            for node in nodes:
                cluster.remove_node(node, allow_graceful=False)
            nodes.append(cluster.add_node(num_cpus=1))

    found, problems = {}, {}
    for name in ("alone", "cluster"):
        folder = init_workspace(tmp_path / name)
        more: dict[str, Any] = {"on_note": lambda label, text: notes.append(f"{label}: {text}")}
        if name == "cluster":
            more["ray_workers"] = 2
            monkeypatch.setattr(mediawiki._Reading, "_tell", stopping)
            with (
                Workspace.open(folder, flags={"ingest.on_error": "skip"}) as workspace,
                pytest.raises(KeyboardInterrupt),
            ):
                workspace.add_kb("w", dump, adapter="wikipedia", options={"documents": 50}, **more)
            monkeypatch.setattr(mediawiki._Reading, "_tell", losing)
        with Workspace.open(folder, flags={"ingest.on_error": "skip"}) as workspace:
            added = workspace.add_kb(
                "w", dump, adapter="wikipedia", options={"documents": 50}, **more
            )
        assert added.summary.documents == 50
        found[name] = rows_of(folder)
        problems[name] = added.problems.examples, added.problems.passed_over
        assert not (folder / ".scratch").exists()
    assert sum('INTO "entities"' in row for row in found["alone"]) == 400
    assert found["cluster"] == found["alone"]
    assert len(kept) == len({*kept}) > 10  # what was there after the stop is not parsed again
    assert problems["cluster"] == problems["alone"]
    assert problems["alone"][0]
    assert any("lost a worker of" in line and "from byte" in line for line in notes), notes


def test_what_one_process_reads_is_not_given_to_a_cluster(
    kglink: Kglink, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "birds.csv").write_text("id,title\n1,Heron\n")
    told = kglink("add-kb", "birds", "birds.csv", "--engine", "ray", code=2).err
    assert "kglink/csv reads a source in one process" in told
    assert "--engine ray" in kglink("add-kb", "birds", "birds.csv", "--workers", 2, code=2).err


def test_workers_of_a_build_are_for_a_cluster(demo: Path, kglink: Kglink) -> None:
    assert "--engine ray" in kglink("build", "--workers", 2, code=2).err
    assert "processes, ray" in kglink("build", "--engine", "spark", code=2).err
