"""Mentions are divided at random: as many as asked, the same each time, each document whole."""

from __future__ import annotations

import json
from collections import Counter
from itertools import chain
from pathlib import Path

import pytest

from kglink import Workspace
from kglink.errors import UsageError
from kglink.records import Document, Entity, Mention, Record, Split
from kglink.workspace.kept_options import RandomSplit, read_random_split

TEXT = "one two three four five six"
PLACES = [(0, 3), (4, 7), (8, 13), (14, 18)]


def documents(count: int) -> list[Record]:
    mentions = tuple(Mention(start, stop, TEXT[start:stop]) for start, stop in PLACES)
    return [Entity("e", "An entity"), *(Document(f"d{at}", TEXT, mentions) for at in range(count))]


def divided(split: RandomSplit, records: list[Record]) -> list[Document]:
    found = list(split.divided(records, split.drawn(records)))
    assert found[0] == records[0], "entities stay as they are"
    assert all(isinstance(one, Document) for one in found[1:])
    return [one for one in found if isinstance(one, Document)]


def places(found: list[Document]) -> dict[tuple[str, int], Split]:
    return {(one.title, mention.start): one.split for one in found for mention in one.mentions}


def test_as_many_as_asked_and_none_twice() -> None:
    records = documents(30)
    found = divided(RandomSplit(70, 20, 25), records)
    all_mentions = [
        (one.title, mention.start, one.split) for one in found for mention in one.mentions
    ]
    assert Counter(split for _, _, split in all_mentions) == {"train": 70, "dev": 20, "test": 25}
    assert len({mention[:2] for mention in all_mentions}) == 115, "the other five are left out"
    assert len({one.id for one in found}) == len(found)
    assert all(one.text == TEXT and one.id == f"{one.title}/{one.split}" for one in found)
    texts = chain.from_iterable(one.mentions for one in found)
    assert all(TEXT[mention.start : mention.end] == mention.surface for mention in texts)


def test_the_same_by_seed_whatever_the_order() -> None:
    records = documents(30)
    turned = [records[0], *reversed(records[1:])]
    one = places(divided(RandomSplit(50, 30, 40), records))
    assert places(divided(RandomSplit(50, 30, 40), turned)) == one
    other = places(divided(RandomSplit(50, 30, 40, seed=1), records))
    assert Counter(other.values()) == Counter(one.values())
    same = sum(other[key] == split for key, split in one.items())
    assert same < 80, "another seed draws others (of 120, 41.7 agree by chance)"


def test_the_papers_sizes_are_the_mentions_of_its_worlds() -> None:
    """Each triple is all of one world's mentions in `mentions/train.json` of the release."""
    sizes = {
        "american_football": ("3000,320,578", 3898),
        "doctor_who": ("6360,640,1334", 8334),
        "fallout": ("2500,320,466", 3286),
        "final_fantasy": ("4360,640,1041", 6041),
    }
    for text, whole in sizes.values():
        assert sum(read_random_split(text).counts) == whole


@pytest.mark.parametrize("text", ["", "1,2", "1,2,x", "1,2,-3", "a", "1,2,3,4"])
def test_a_bad_split_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--split-random is"):
        read_random_split(text)


def test_more_than_there_are_is_refused() -> None:
    with pytest.raises(UsageError, match="a random split of 121 mentions, and the source has 120"):
        divided(RandomSplit(100, 20, 1), documents(30))


def test_a_world_is_kept_as_it_was_drawn(tmp_path: Path) -> None:
    folder = tmp_path / "zeshel"
    for name in ("documents", "mentions"):
        (folder / name).mkdir(parents=True)
    pages = [{"document_id": f"P{at}", "title": f"Page {at}", "text": TEXT} for at in range(6)]
    mentions = [
        {
            "mention_id": f"M{at}",
            "corpus": "sky",
            "context_document_id": f"P{at % 6}",
            "start_index": at // 6,
            "end_index": at // 6,
            "text": TEXT.split()[at // 6],
            "label_document_id": f"P{at % 5}",
            "category": "LOW_OVERLAP",
        }
        for at in range(24)
    ]
    for name, lines in (("documents/sky", pages), ("mentions/train", mentions)):
        text = "".join(json.dumps(line) + "\n" for line in lines)
        (folder / f"{name}.json").write_text(text)
    told: list[str] = []
    with Workspace.open(tmp_path / "workspace", create=True) as workspace:
        for name in ("sky", "again"):
            workspace.add_kb(
                name,
                folder,
                options={"world": "sky", "mentions": "train"},
                split_random=RandomSplit(12, 5, 6),
                on_note=lambda label, text: told.append(f"{label} {text}"),
            )
        kept = {name: list(workspace.store.documents(name)) for name in ("sky", "again")}
        found = {name: places(documents) for name, documents in kept.items()}
    assert found["sky"] == found["again"]
    assert Counter(found["sky"].values()) == {"train": 12, "dev": 5, "test": 6}
    assert "split 12 train, 5 dev, 6 test mentions, drawn with seed 0" in told
