"""Small KBs that give one name to different things: nothing but descriptions tells them apart."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kglink import Entity, Workspace

KBS = {
    "sky": {
        "Mercury": "The smallest planet, nearest to the Sun, with a year of 88 days.",
        "Venus": "The second planet from the Sun, hot under thick clouds of carbon dioxide.",
        "Mars": "The red planet, fourth from the Sun, with two small moons.",
        "Jupiter": "The largest planet, a gas giant with a great red spot.",
        "Saturn": "A gas giant known for its rings of ice.",
        "Titan": "The largest moon of Saturn, with lakes of methane.",
        "Halley's Comet": "A comet that returns every 76 years.",
    },
    "gods": {
        "Mercury": "The Roman god of trade and messengers, with winged sandals.",
        "Venus": "The Roman goddess of love and beauty.",
        "Mars": "The Roman god of war, father of Romulus.",
        "Jupiter": "The king of the Roman gods, who throws lightning.",
        "Saturn": "The Roman god of sowing and of time, father of Jupiter.",
        "Minerva": "The Roman goddess of wisdom and crafts.",
    },
    "atlas": {
        "Mercury": "Planet that is closest to the Sun and smallest of the eight.",
        "Venus": "Hot planet, second from the Sun.",
        "Mars": "Fourth planet, of red colour.",
        "Titan": "Saturn's biggest moon.",
        "Halley's Comet": "Comet visible from Earth about every 76 years.",
        "Ceres": "The largest asteroid.",
    },
}


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workspace]:
    with Workspace.open(tmp_path_factory.mktemp("sky"), create=True) as made:
        for kb, described in KBS.items():
            made.add_kb(kb, [Entity(name, name, text) for name, text in described.items()])
        yield made


@pytest.mark.parametrize("evidence", [(), ("names", "description")], ids=["all", "core"])
def test_one_name_is_no_overlap_where_descriptions_tell_of_other_things(
    workspace: Workspace, evidence: tuple[str, ...], tmp_path: Path
) -> None:
    flags = {"overlap.evidence": evidence} if evidence else {}
    with Workspace.open(workspace.folder, flags=flags) as asking:
        asking.find_overlaps()
        found = {
            kbs: {one.left.key for one in asking.overlaps(*kbs)}
            for kbs in (("atlas", "sky"), ("gods", "sky"), ("atlas", "gods"))
        }
    assert found["atlas", "sky"] == {"Mercury", "Venus", "Mars", "Titan", "Halley's Comet"}
    assert found["gods", "sky"] == set()
    assert found["atlas", "gods"] == set()
