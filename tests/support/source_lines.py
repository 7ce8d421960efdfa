"""Lines of sources for tests: read, read with bad ones passed over, and made by chance."""

from __future__ import annotations

import random

from kglink.sources import Line, Problems, Source, SourceLimits


def read_lines(source: Source) -> list[Line]:
    return list(source.lines(Problems()))


def lines_of(data: bytes, limits: SourceLimits | None = None) -> list[Line]:
    with Source.from_bytes(data, name="a.txt", limits=limits) as source:
        return read_lines(source)


def skipped(data: bytes, limits: SourceLimits | None = None) -> tuple[list[Line], Problems]:
    problems = Problems("skip")
    with Source.from_bytes(data, name="a.txt", limits=limits) as source:
        return list(source.lines(problems)), problems


def noise(size: int) -> bytes:
    """Lines of text that hardly shrink, so that compressed offsets mean something."""
    chance = random.Random(7)
    return b"".join(b"%016x\n" % chance.getrandbits(64) for _ in range(size // 17))
