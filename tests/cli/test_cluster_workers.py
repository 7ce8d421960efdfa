"""Workers of a cluster share GPUs, answer in order, and are waited for while there is room."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cluster_support import TEXT, chunk
from kglink.errors import SpaceError
from kglink.workspace import Workspace
from kglink.workspace.link import LinesJob
from kglink.workspace.ray_workers import RayWorkers, spread_on_ray

pytest_plugins = ["cluster_fixtures"]


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

    spread = spread_on_ray(2, lambda *_: None)
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
        list(spread_on_ray(1, lambda _, line: said.append(line))(job, [("a", 0.0)]))
    assert len(said) == 3


@pytest.mark.parametrize(
    ("cpus", "gpus", "times", "why"),
    [(2, 0.0, 120, "and all are busy"), (3, 0.0, 4, "none has"), (1, 0.5, 4, "none has")],
)
def test_busy_nodes_are_waited_for_longer_than_nodes_that_are_gone(
    cpus: int, gpus: float, times: int, why: str
) -> None:
    said: list[str] = []
    workers = RayWorkers(slow_job(), 1, lambda _, line: said.append(line))
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
