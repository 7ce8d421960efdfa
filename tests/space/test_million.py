"""A million entities: linked by their names, changed in a moment, and found by an index."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from kglink.plugins import load_registry
from kglink.records import Entity
from kglink.space.index import LARGE_INDEX
from kglink.space.rescored import AskedIndex
from kglink.workspace import Workspace

MANY = 1_000_000
#: Prints what memory a command has had at most, in KiB. What `resource` says counts the process
#: that started it as well.
MEASURED = """
import sys
from kglink_cli.__main__ import main
try:
    main()
finally:
    with open("/proc/self/status") as status:
        print(*(line.split()[1] for line in status if line.startswith("VmHWM")), file=sys.stderr)
"""


def name(number: int) -> str:
    """A name of two words, each of which a thousand entities share."""
    first, second = divmod(number, 1000)
    return f"Zor{first}ban Quill{second}mir"


def ran(folder: Path, *command: str, text: str = "") -> tuple[str, float]:
    """What a command prints, and its most memory in MiB."""
    done = subprocess.run(
        [sys.executable, "-c", MEASURED, *command],
        cwd=folder, input=text, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout, int(done.stderr.splitlines()[-1]) / 1024


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is read from /proc")
def test_a_million_entities_are_linked_in_little_memory_and_changed_in_a_moment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KGLINK_LINK_FOUND_BY", "names")
    with (tmp_path / "world.jsonl").open("w", encoding="utf-8") as world:
        for number in range(MANY):
            world.write(json.dumps({"id": f"E{number}", "title": name(number)}) + "\n")
    ran(tmp_path, "init")
    _, adding = ran(tmp_path, "add-kb", "world", "world.jsonl")
    text = f"They met {name(777_123)} and {name(5)} there."
    found, first = ran(tmp_path, "link", "-", "-f", "jsonl", text=text)
    assert [one["key"] for one in json.loads(found)["entities"]] == ["E777123", "E5"]
    again, later = ran(tmp_path, "link", "-", "-f", "jsonl", text=text)
    assert json.loads(again)["entities"] == json.loads(found)["entities"]
    assert adding < 600
    assert first < 1200
    assert later < 600
    with Workspace.open(tmp_path) as workspace:
        assert len(list(workspace.link(text))) == 1
        began = time.process_time()
        workspace.add_entity("world", Entity("E5", "Vardomir Stonewater"))
        (told,) = workspace.link("They met Vardomir Stonewater.", wait=False)
        assert [link.chosen and link.chosen.id.key for link in told.links] == ["E5"]
        assert time.process_time() - began < 10


@pytest.mark.slow
def test_the_index_of_a_million_rows_finds_what_exact_search_finds() -> None:
    chance = np.random.default_rng(0)
    centres = chance.standard_normal((2000, 64), np.float32)
    rows = centres[chance.integers(0, len(centres), MANY)]
    rows += 0.6 * chance.standard_normal(rows.shape, np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    queries = rows[chance.integers(0, MANY, 64)]
    queries += 0.05 * chance.standard_normal(queries.shape, np.float32)
    backend = load_registry(only="builtin").create("index", *LARGE_INDEX)
    index = AskedIndex(LARGE_INDEX.name, backend.build([rows], 64), rows.__getitem__)
    scores, found = index.search(queries, 64)
    products = queries @ rows.T
    least = -np.sort(-np.partition(products, -64, axis=1)[:, -64:], axis=1)[:, 63:]
    assert np.mean(scores >= least - 1e-5) >= 0.97
    assert np.array_equal(found[:, 0], products.argmax(axis=1))
