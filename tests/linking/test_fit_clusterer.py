"""A clusterer's settings are chosen by documents, and only where they help on others."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from conftest import Kglink

from kglink.errors import SpaceError, UsageError
from kglink.linking.fit_clusterer import (
    CHOICE_FILE,
    ClustererChoice,
    KnownMention,
    choose_settings,
    gain_elsewhere,
    is_right,
    read_choice,
    write_choice,
)
from kglink.linking.stages import Stage
from kglink.records import Candidate, EntityId, MentionInText, Ranking
from kglink.workspace import Workspace

BIRD, KEEPER = EntityId("kb", "bird"), EntityId("kb", "keeper")
OTHER = EntityId("other", "bird")


class Swaps:
    """Offers to leave all as it is, or to put the second candidate first in some documents."""

    def __init__(self, *swapped: set[str]) -> None:
        self._swapped = swapped

    def rank(self, rankings: Sequence[Ranking]) -> Sequence[Ranking]:
        return rankings

    def alternatives(
        self, rankings: Sequence[Ranking]
    ) -> Iterator[tuple[Mapping[str, str | int | float | bool], Sequence[Ranking]]]:
        for way, documents in enumerate((set[str](), *self._swapped)):
            yield (
                {"way": way},
                [
                    replace(
                        one,
                        candidates=tuple(replace(c, score=-c.score) for c in one.candidates[::-1]),
                    )
                    if one.mention.document in documents
                    else one
                    for one in rankings
                ],
            )


def mentions(count: int, *, surfaces: int) -> list[KnownMention]:
    """Mentions of the bird whose first candidate is the keeper, dealt out to five parts."""
    both = Candidate(KEEPER, "Heron", 0.6), Candidate(BIRD, "heron", 0.5)
    return [
        KnownMention(
            Ranking(MentionInText(f"Heron {at % surfaces:02}", 0, 8, str(at)), both),
            frozenset([BIRD]),
            at % 5,
        )
        for at in range(count)
    ]


def first(ranking: Ranking) -> EntityId | None:
    return ranking.candidates[0].id


def chosen(some: Sequence[KnownMention], *swapped: set[str]) -> ClustererChoice:
    stage = Stage("acme/swaps", Swaps(*swapped), 10, sees_all=True)
    return choose_settings(stage, some, first, "model")


def test_what_answers_more_mentions_right_is_chosen() -> None:
    some, half = mentions(20, surfaces=9), {str(at) for at in range(10)}
    found = chosen(some, {"3"}, half, {"4"})
    assert (found.settings, found.helps) == ({"way": 2}, True)
    assert (found.mentions, found.alone, found.helped) == (20, 0.0, 0.5)
    assert str(found).startswith("way 2 (of 20 mentions 0.000 are answered right alone, 0.500 ")


def test_no_help_is_chosen_where_others_help_by_chance() -> None:
    one_part = {"0", "5", "10", "15"}
    found = chosen(mentions(20, surfaces=9), one_part)
    # The four are right by what is chosen on the other parts: by nothing, so nothing is gained.
    assert (found.settings, found.helps, found.helped) == ({"way": 0}, False, 0.0)
    assert "alone: others help no more than chance" in str(found)


def test_mentions_of_the_same_words_are_one_witness() -> None:
    everything = {str(at) for at in range(20)}
    assert chosen(mentions(20, surfaces=20), everything).helps
    assert not chosen(mentions(20, surfaces=1), everything).helps


def test_gains_are_of_what_the_other_parts_choose() -> None:
    gains = np.array([[0, 0, 0, 0], [1, 1, -1, -1], [0, 1, 0, 1]], dtype=np.float64)
    # Part 1 chooses row 2 for part 0; part 0 chooses row 1 for part 1.
    assert gain_elsewhere(gains, np.array([0, 0, 1, 1])).tolist() == [0, 1, -1, -1]


@pytest.mark.parametrize(
    ("answer", "gold", "right"),
    [
        (BIRD, {BIRD, OTHER}, 1.0),
        (KEEPER, {BIRD}, 0.0),
        (None, {BIRD}, 0.0),
        (None, set(), 1.0),
        (BIRD, set(), 0.0),
        (OTHER, {BIRD}, math.nan),
    ],
)
def test_an_answer_is_right_wrong_or_not_judged(
    answer: EntityId | None, gold: set[EntityId], right: float
) -> None:
    assert is_right(answer, frozenset(gold)) == pytest.approx(right, nan_ok=True)


def test_a_clusterer_that_offers_nothing_is_refused() -> None:
    class Plain:
        def rank(self, rankings: Sequence[Ranking]) -> Sequence[Ranking]:
            return rankings

    stage = Stage("acme/plain", Plain(), 10, sees_all=True)
    with pytest.raises(UsageError, match="acme/plain offers no settings to choose from"):
        choose_settings(stage, mentions(2, surfaces=1), first, "model")


def test_a_choice_is_of_one_clusterer_and_one_model(tmp_path: Path) -> None:
    choice = chosen(mentions(20, surfaces=9), {"3"})
    assert read_choice(tmp_path, "acme/swaps", "model") is None
    write_choice(tmp_path, choice)
    assert read_choice(tmp_path, "acme/swaps", "model") == choice
    assert read_choice(tmp_path, "acme/swaps", "another") is None
    assert read_choice(tmp_path, "acme/other", "model") is None
    (tmp_path / CHOICE_FILE).write_text("{")
    with pytest.raises(SpaceError, match=r"clusterer\.json: is not what kglink writes"):
        read_choice(tmp_path, "acme/swaps", "model")
    (tmp_path / CHOICE_FILE).write_text('{"format": 9}')
    with pytest.raises(SpaceError, match="newer kglink"):
        read_choice(tmp_path, "acme/swaps", "model")


# ----------------------------------------------------------------------------- the commands
@pytest.mark.slow
def test_links_are_clustered_as_the_documents_say(
    kglink: Kglink, demo_copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "Heron counts the lamps at Skerrow Light."
    assert (
        "`kglink fit DOCS --cluster` finds out" in kglink("link", "-", "--cluster", stdin=text).err
    )
    ran = kglink("fit", "docs", "--cluster", "--json")
    told = json.loads(ran.out)
    # The demo's names are false friends on purpose.
    assert (told["clusterer"], told["helps"]) == ("kglink/mentions", False)
    assert told["settings"] == {"mode": "independent"}
    assert "each mention is answered alone" in ran.err
    err = kglink("link", "-", "--cluster", stdin=text).err
    assert "chosen by kglink fit --cluster: each mention is answered alone" in err
    assert "others changed the answer of" not in err
    with Workspace.open(flags={"link.clusterer": "kglink/mentions"}) as workspace:
        choice = workspace.kept_clusterer_choice()
        assert choice is not None
        directed = {"mode": "directed", "neighbours": 4}
        folder = workspace.space().folder.path
        write_choice(folder, choice.model_copy(update={"settings": directed, "helps": True}))
    err = kglink("link", "-", "--cluster", stdin=text).err
    assert "chosen by kglink fit --cluster: mode directed, neighbours 4" in err
    assert "others changed the answer of" in err
    monkeypatch.setenv("KGLINK_LINK_CLUSTERER_SETTINGS", '{"mode": "independent"}')
    err = kglink("link", "-", "--cluster", stdin=text).err
    assert "link.clusterer_settings: mode independent" in err
    assert "others changed the answer of" not in err


def test_documents_without_answers_choose_nothing(kglink: Kglink, demo_copy: Path) -> None:
    notes = demo_copy / "notes.jsonl"
    notes.write_text(json.dumps({"text": "Nobody.", "entities": [{"start": 0, "end": 6}]}))
    kglink("add-kb", "notes", notes, "--links-to", "encyclopedia")
    err = kglink("fit", "notes", "--cluster", code=2).err
    assert "no mention of these documents has its answer in the space" in err
