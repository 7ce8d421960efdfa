"""A cluster of Ray with two nodes; test files name this file in ``pytest_plugins``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from fake_distributions import FakeEnvironment

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
