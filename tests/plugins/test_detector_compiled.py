"""What the dictionary compiles: the same as all names in memory give, sorted on disk in pieces."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kglink.plugins import NameRow
from kglink.text.fold import fold
from kglink_plugins.detectors.dictionary import bags, compiled
from kglink_plugins.detectors.dictionary.compiled import Lexicon, guard_of
from kglink_plugins.plugin import DictionarySettings
from plain_lexicon import plain_articled, plain_bags, plain_keys

WORDS = ("The", "a", "of", "It", "Heron", "herons", "kettle", "RH", "36", "l", "7l", "x600", "600x",
         "Rainer", "reiner", "Yahoo!", "\ud800", "IT", "\ud83d", "\ude00")  # fmt: skip
NAMES = st.lists(st.sampled_from(WORDS), min_size=1, max_size=4).map(" ".join)
ROWS = st.lists(
    st.builds(
        lambda name, kb, key, count: NameRow(name, fold(name), kb, count, key),
        NAMES,
        st.sampled_from("ABC"),
        st.sampled_from(["", "1", "2", "3"]),
        st.integers(0, 2**33),
    ),
    max_size=40,
)


def row(name: str, key: str = "", kb: str = "A") -> NameRow:
    return NameRow(name, fold(name), kb, 1, key)


@settings(deadline=None, max_examples=60)  # writes some tens of files for each example
@given(ROWS, st.integers(5, 30), st.integers(5, 30), st.sampled_from([0, 4, 300_000]))
@example([row("\ud83d\ude00 Heron"), row("Rainer")], 1, 1, 0)
@example([row("x600", "1"), row("600x", "2"), row("x600", "3")], 1, 1, 0)
@example([row("Heron kettle 36 l", "1"), row("kettle Heron", "2", "B")], 1, 1, 4)
def test_it_is_the_same_as_in_memory(
    rows: list[NameRow], at_once: int, most: int, most_corrected: int
) -> None:
    own = DictionarySettings(min_chars=1, numbers=True)
    with pytest.MonkeyPatch.context() as patch, TemporaryDirectory() as made:
        patch.setattr(compiled, "_ROWS_AT_ONCE", at_once)
        patch.setattr(bags, "MOST_CORRECTED", most_corrected)
        folder = Path(made)
        longest = compiled.write_lexicon(folder, iter(rows), own, most)
        lexicon = compiled.map_lexicon(folder, longest)
        rows = [one for one in rows if any(map(str.isalnum, one.folded))]
        keys = plain_keys(rows, guard_of(own))
        assert facts_of(lexicon) == keys
        assert longest == max(map(len, keys), default=0)
        assert set(lexicon.surfaces) == {
            one.surface for one in rows if compiled.is_text(one.surface)
        }
        assert set(lexicon.articled) == plain_articled(rows)
        found = {name: column.tolist() for name, column in lexicon.variants._asdict().items()}
        found["bag_names"] = [lexicon.surfaces.restore_key(one) for one in found["bag_names"]]
        found["bag_kbs"] = [list(lexicon.kbs)[one] for one in found["bag_kbs"]]
        assert found == plain_bags(rows, most_corrected)


@pytest.mark.slow
def test_memory_is_bounded_where_there_are_many_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is not a few numbers for each name waits on the disk."""
    monkeypatch.setattr(compiled, "_ROWS_AT_ONCE", 200)
    words = [f"{one}{two}{three}" for one in "bcdfg" for two in "aeiou" for three in "klmnp"]

    def peak(count: int) -> int:
        numbers = ((at % 125, at // 125 % 125, (at + at // 125) % 125) for at in range(count))
        names = (" ".join(words[one] for one in own) for own in numbers)
        rows = (NameRow(name, name, "kb", 1, f"K{number}") for number, name in enumerate(names))
        folder = tmp_path / str(count)
        folder.mkdir()
        tracemalloc.start()
        compiled.write_lexicon(folder, rows, DictionarySettings(), 1000)
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return most

    peak(1000)  # fills the caches of words
    small, large = peak(4_000), peak(16_000)
    assert large - small < 12_000 * 90


def facts_of(lexicon: Lexicon) -> dict[str, tuple[int, int]]:
    return {
        key: (int(lexicon.counts[place]), int(lexicon.shapes[place]))
        for key, place in lexicon.keys.items()
    }
