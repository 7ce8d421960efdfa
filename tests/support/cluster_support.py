"""What the tests of a cluster share: a text, chunks of texts, and a job that a cluster does."""

from __future__ import annotations

from typing import Any

from kglink.records import TextInput
from kglink.workspace.ray_workers import Chunk, Job, RayWorkers
from kglink_cli.outputs import chunk_of

TEXT = "Isolde Heron saw a grey heron near the Skerrow Light. The seal came later. "


def chunk(number: int, *texts: str) -> Chunk:
    return chunk_of(number, [TextInput(f"{number}-{at}", text) for at, text in enumerate(texts)])


def done_by(job: Job, *chunks: Chunk) -> list[tuple[Chunk, Any]]:
    with RayWorkers(job, 2) as workers:
        return list(workers.do(iter(chunks)))
