"""The public SSSOM toolkit accepts what we write."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from kglink.overlap.exchange.lists import PairList
from kglink.overlap.exchange.matching import match_list
from kglink.overlap.exchange.write import SetInfo, write_sssom
from kglink.records import Entity, EntityId, Overlap, Verdict
from kglink.sources import Source

#: The toolkit that checks what we write. What it depends on (Sphinx and pytest plugins among 70
#: packages) does not belong beside ours, so it gets an environment of its own.
SSSOM_TOOLKIT = "sssom==0.4.21"


@pytest.fixture(scope="module")
def toolkit(
    tmp_path_factory: pytest.TempPathFactory,
) -> Callable[..., subprocess.CompletedProcess[str]]:
    """`sssom` of an environment of its own; KGLINK_TEST_SSSOM names one that is there already."""
    folder = Path(os.environ.get("KGLINK_TEST_SSSOM") or tmp_path_factory.mktemp("sssom"))
    command = folder / "bin" / "sssom"
    if not command.exists():
        venv.create(folder, with_pip=False, symlinks=True)
        installed = subprocess.run(
            [sys.executable, "-m", "pip", "--python", str(folder / "bin" / "python"),
             "install", "--quiet", SSSOM_TOOLKIT],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        if installed.returncode:
            pytest.skip(f"{SSSOM_TOOLKIT} cannot be installed: {installed.stderr[-300:]}")

    def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [command, *map(str, arguments)], capture_output=True, text=True, check=False
        )

    return run


ODD = [
    "DOID:1", "hp:1", "a b", "Café|x", "http://purl.obolibrary.org/obo/HP_3", "kb.b:7", "C#",
    "100%", 'quote"d', "日本", "skos:exactMatch", "NA", "\u2028x", "tab\tbed",
]  # fmt: skip


EVIDENCE = ({"name": 1.0}, {"description": -0.5}, {"name": 1.0, "text": 1.0})


class Entities(dict[EntityId, Entity]):
    """Entities in memory as a store gives them."""

    def get_entities(self, ids: Iterable[EntityId]) -> dict[EntityId, Entity]:
        return {name: self[name] for name in ids if name in self}


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_public_validator_accepts_what_we_write(
    toolkit: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    verdicts: list[Verdict | None] = [None, "correct", "wrong", "unclear"]
    overlaps = [
        replace(
            Overlap(EntityId("doid", f"DOID:{number}"), EntityId("hp", key), number / 20),
            evidence=EVIDENCE[number % 3],
            verdict=verdicts[number % 4],
            source="import" if number == 5 else "review",
        )
        for number, key in enumerate(ODD)
    ]
    odd = {
        one: Entity(one.key, 'null "5"" # | NA', type="a|b", url=f"http://x.example/{number}")
        for number, overlap in enumerate(overlaps)
        for one in (overlap.left, overlap.right)
    }
    table = tmp_path / "ours.sssom.tsv"
    about = SetInfo(("doid", "hp"), "2026-11-21", "0.1.0", author="orcid:0000-0002-7356-1779")
    with table.open("w", encoding="utf-8") as out:
        write_sssom(overlaps, Entities(odd).get_entities, out, about)
    checked = toolkit("validate", table)
    assert checked.returncode == 0, checked.stderr[-2000:]
    # What the toolkit makes of it still holds the same ids.
    again = tmp_path / "theirs.sssom.tsv"
    parsed = toolkit("parse", table, "--output", again)
    assert parsed.returncode == 0, parsed.stderr[-2000:]
    with Source.open_path(again) as source:
        found = match_list(PairList(source), Entities(odd).get_entities, "doid", "hp")
    judged = {
        (one.left, one.right): one.verdict
        for one in overlaps
        if one.verdict in ("correct", "wrong")
    }
    assert found.verdicts == judged
    # And it can say no.
    broken = table.read_text(encoding="utf-8").replace("semapv:Manual", "semapv:Manuel")
    table.write_text(broken, encoding="utf-8")
    assert toolkit("validate", table).returncode != 0
