"""Names in full and in part, by hand."""

from __future__ import annotations

import time

import pytest

from kglink.text.full_names import full_name_of, is_part_of_name, nicknamed

NAMES = frozenset((
    "Gerald Ford", "Robert Gates", "Ford", "South Africa", "Africa", "Rosie O'Donnell",
    "Maria Goeppert Mayer", "Mayo Clinic", "Mayo", "Ann Gates", "Donald Trump",
))  # fmt: skip


def full(text: str, part: str, which: int = 0) -> str:
    """What a word of a text stands for, at its place number `which`."""
    start = -1
    for _ in range(which + 1):
        start = text.index(part, start + 1)
    return full_name_of(part, start, text, NAMES.__contains__)


@pytest.mark.parametrize(
    ("text", "part", "which", "name"),
    [
        ("Robert Gates spoke. Later Gates left.", "Gates", 1, "Robert Gates"),
        ("Robert Gates's plan. Gates left.", "Gates", 1, "Robert Gates"),
        ("Gates to speak\n\nRobert Gates spoke.", "Gates", 0, "Robert Gates"),
        ("Rosie O'Donnell sang. O'Donnell left.", "O'Donnell", 1, "Rosie O'Donnell"),
        ("Maria Goeppert Mayer. Maria won.", "Maria", 1, "Maria Goeppert Mayer"),
        ("President Gerald Ford came. Ford spoke.", "Ford", 1, "Gerald Ford"),
        # The nearest one before it; of two behind it the first.
        ("Robert Gates met Ann Gates. Gates left.", "Gates", 2, "Ann Gates"),
        ("Gates! Robert Gates met Ann Gates.", "Gates", 0, "Robert Gates"),
        # No part of itself, no names of places, no first words that are names themselves.
        ("Robert Gates spoke.", "Gates", 0, ""),
        ("South Africa is in Africa.", "Africa", 1, ""),
        ("The Mayo Clinic. Mayo is in Ireland.", "Mayo", 1, ""),
        # What no KB has, what is no word with a capital, what is not of the text.
        ("Bill Waters sang. Waters left.", "Waters", 1, ""),
        ("Robert Gates opened gates.", "gates", 0, ""),
        ("Robert\xa0Gates spoke. Later Gates left.", "Gates", 1, "Robert Gates"),
        ("Robert\nGates spoke. Gates left.", "Gates", 1, ""),
        # What has its capital from its sentence, and none elsewhere.
        ("Robert Gates\n\nGates are doors. Open gates.", "Gates", 1, ""),
        ("Robert Gates went. He saw Gates at the gates.", "Gates", 1, "Robert Gates"),
    ],
)
def test_what_a_part_stands_for(text: str, part: str, which: int, name: str) -> None:
    assert full(text, part, which) == name


@pytest.mark.parametrize(
    ("text", "place", "names"),
    [
        ('of Dave "Uncle Dave" Hill.', 'Dave "Uncle Dave" Hill', ["Dave Hill", "Uncle Dave Hill"]),
        ("Ann Lee “Nan” Mo's", "Ann Lee “Nan” Mo", ["Ann Lee Mo", "Ann Mo", "Nan Mo"]),
        ("When Axel 'Ax' Fox ran", "Axel 'Ax' Fox", ["Axel Fox", "Ax Fox"]),
        ('Lieutenant William "Bill" Ross', 'William "Bill" Ross', ["William Ross", "Bill Ross"]),
    ],
)
def test_a_nickname_stands_in_a_full_name(text: str, place: str, names: list[str]) -> None:
    (found,) = nicknamed(text)
    assert text[found.start : found.end] == place
    assert found.names == names


@pytest.mark.parametrize(
    "text",
    ['He said "Come" Then', 'Ann "nan" Lee', 'Ann "Nan Lee', 'Ann "Nan"\nLee', "Ann (Nan) Lee"],
)
def test_other_quotations_are_no_nicknames(text: str) -> None:
    assert not list(nicknamed(text))


@pytest.mark.parametrize("unit", ["A ", 'A "', 'Ab "B" ', "A'", "A"])
def test_nicknames_are_looked_for_in_linear_time(unit: str) -> None:
    began = time.process_time()
    list(nicknamed(unit * 50_000))
    assert time.process_time() - began < 2


@pytest.mark.slow
@pytest.mark.parametrize("unit", ["Robert ", "Robert Gates ", "-A", "A.", "'s"])
def test_a_long_text_is_read_in_linear_time(unit: str) -> None:
    def seconds(length: int, attempt: int) -> float:
        text = "Robert" + unit * (length // len(unit)) + str(attempt)  # a new text, none kept
        began = time.process_time()
        for start in range(0, 20_000, 400):
            full_name_of("Robert", start, text, lambda _: False)
        return time.process_time() - began

    # Sixteen times the text: 16 times the time if linear, 256 times if not; the best of three,
    # because a busy machine only ever adds.
    short, long = (min(seconds(size, one) for one in range(3)) for size in (25_000, 400_000))
    assert long < 80 * short + 0.1


@pytest.mark.parametrize(
    ("text", "is_part"),
    [
        ("the Partitions of [Poland] were", True),
        ("the Partitions of\n  [Poland] were", True),
        ("the Partitions\xa0of\u2009[Poland] were", True),
        ("Warsaw\n[Poland] won", False),
        ("the French-[Poland] alliance", True),
        ("the [Poland] Museum", True),
        ("the [Poland] of Casimir", True),
        ("the University of the [Poland]", True),
        ("In [Poland] it rains", False),
        ("They saw Warsaw. [Poland] won", False),
        ("Warsaw, [Poland], 1920", False),
        ("north of [Poland] and Hungary", False),
        ("[Poland]", False),
        ("the Great [poland] china pig", False),
        ("Although [Poland] won", False),
        ("He said: Since [Poland] won", False),
        ("Parts of [Poland] are wet", True),
        ("saw Obama's [Poland] visit", False),
        ("saw It's [Poland] there", False),
        ("met President [Poland]", False),
        ("POLES LEAVE [POLAND] IN FEAR", False),
        ("\u0434\u043e [\u041c\u043e\u0441\u043a\u0432\u0430] \u0431\u044b\u043b\u0430", False),
        ("w [Krak\u00f3w] \u015bwietny", False),
        ("in [NASA] \u5b87\u5b99", False),
    ],
)
def test_a_part_of_a_longer_name(text: str, is_part: bool) -> None:
    start, end = text.index("["), text.index("]") - 1
    plain = text.replace("[", "").replace("]", "")
    assert is_part_of_name(plain, start, end) == is_part
