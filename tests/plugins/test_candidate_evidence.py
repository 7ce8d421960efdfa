"""The built-in kinds of evidence: each by hand, and by the contract of all."""

from __future__ import annotations

import pytest

from kglink.plugins import CandidateEvidence, load_registry
from kglink.records import Candidate, EntityId, MentionInText, Ranking
from kglink.testing import CandidateEvidenceContract
from kglink_plugins.evidence import numbers_in

TEXT = "Breast cancer, ovarian cancer and cancer; AquaJet 3000, type IVA."


def made(name: str) -> CandidateEvidence:
    return load_registry().create("evidence", name)


def candidate(
    key: str, title: str = "", score: float = 1.0, *, parents: tuple[str, ...] = (), kb: str = "k"
) -> Candidate:
    return Candidate(EntityId(kb, key), title or key, score, parents=parents)


def mention(words: str, *candidates: Candidate) -> Ranking:
    start = TEXT.index(words)
    return Ranking(MentionInText(TEXT, start, start + len(words), "d"), candidates)


class TestNumbers(CandidateEvidenceContract):
    plugin = "kglink/numbers"
    expected = (
        (
            mention("AquaJet 3000", candidate("AquaJet 5000"), candidate("Jet 3000"),
                    candidate("AquaJet")),
            (-1, 0, -1),
        ),
        (
            mention("type IVA", candidate("type 4A"), candidate("type 4B"), candidate("type IV")),
            (0, -1, -1),
        ),
        (mention("cancer", candidate("cancer 1"), candidate("cancer")), (0, 0)),
    )  # fmt: skip


class TestDocument(CandidateEvidenceContract):
    plugin = "kglink/document"
    expected = ((mention("cancer", candidate("1"), candidate("2", score=0.5)), (0, 0)),)


class TestBroader(CandidateEvidenceContract):
    plugin = "kglink/broader"


class TestSiblings(CandidateEvidenceContract):
    plugin = "kglink/siblings"


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("type IVA", "Type 4a"),
        ("type IV A", "type 4A"),
        ("Factor VIII", "factor 8"),
        ("α-thalassemia", "alpha thalassemia"),
        ("LawnMaster B46", "the B46"),
        ("variant 07", "variant 7"),
    ],
)
def test_the_same_numbers(left: str, right: str) -> None:
    assert numbers_in(left) == numbers_in(right) != frozenset()


@pytest.mark.parametrize(
    ("left", "right"),
    [("AquaJet 3000", "AquaJet 5000"), ("hepatitis B", "hepatitis C"), ("B46", "B47"),
     ("type IVA", "type IVB"), ("α-globin", "β-globin")],
)  # fmt: skip
def test_other_numbers(left: str, right: str) -> None:
    assert numbers_in(left) != numbers_in(right)


def test_an_abbreviation_has_the_numbers_of_what_it_stands_for() -> None:
    text = "Spinocerebellar ataxia type 2 (SCAT) begins late. SCAT is rare."
    ranking = Ranking(
        MentionInText(text, text.rindex("SCAT"), text.rindex("SCAT") + 4),
        (candidate("spinocerebellar ataxia type 1"), candidate("spinocerebellar ataxia type 2")),
    )
    assert made("numbers").values([ranking]) == [[-1, 0]]


BREAST = mention("Breast cancer", candidate("breast", score=0.8, parents=("cancer",)),
                 candidate("tumour", score=0.4))  # fmt: skip
OVARIAN = mention("ovarian cancer", candidate("ovarian", score=0.9, parents=("cancer",)),
                  candidate("tumour", score=0.3))  # fmt: skip
CANCER = mention("cancer", candidate("tumour", score=0.6), candidate("cancer", score=0.5))


def test_what_another_mention_means_is_likely_meant_again() -> None:
    breast, ovarian, cancer = made("document").values([BREAST, OVARIAN, CANCER])
    # "cancer" means the tumour; for "ovarian cancer" it is second: a third as good as its best.
    assert breast == pytest.approx([0, 1])
    assert ovarian == pytest.approx([0, 1])
    # Longer surfaces say nothing of a shorter one that is a part of them.
    assert cancer == [0, 0]
    assert made("document").values([BREAST, OVARIAN])[0] == pytest.approx([0, 0.3 / 0.9])


def test_a_kb_that_lacks_another_mention_says_little_of_it() -> None:
    # The wiki has no Seattle; the nearest of its ships is hardly meant by that.
    seattle = mention("ovarian cancer", candidate("Seattle", score=0.8),
                      candidate("ship", score=0.2, kb="wiki"))  # fmt: skip
    washington = mention("Breast cancer", candidate("city", score=0.7),
                         candidate("ship", score=0.7, kb="wiki"))  # fmt: skip
    assert made("document").values([washington, seattle])[0] == pytest.approx([0, 0.2 / 0.8])


def test_the_broader_of_two_mentions() -> None:
    breast, _, cancer = made("broader").values([BREAST, OVARIAN, CANCER])
    assert cancer == [0, 1]  # the parent of "breast" and of "ovarian"
    assert breast == [0, 0]
    assert made("broader").values([CANCER, CANCER]) == [[0, 0], [0, 0]]


def test_siblings_have_a_parent_in_common() -> None:
    breast, ovarian, cancer = made("siblings").values([BREAST, OVARIAN, CANCER])
    assert (breast, ovarian, cancer) == ([1, 0], [1, 0], [0, 0])
    # A surface does not speak for itself, wherever it stands.
    assert made("siblings").values([BREAST, BREAST]) == [[0, 0], [0, 0]]


def test_kbs_are_not_mixed() -> None:
    other = mention("ovarian cancer", candidate("ovarian", parents=("cancer",), kb="other"))
    assert made("siblings").values([BREAST, other])[0] == [0, 0]
    assert made("broader").values([CANCER, other])[0] == [0, 0]


def test_parents_in_a_circle_do_no_harm() -> None:
    """A thing is its own parent, and two are each other's."""
    own = mention("Breast cancer", candidate("self", parents=("self",)))
    first = mention("ovarian cancer", candidate("here", parents=("there",)))
    second = mention("cancer", candidate("there", parents=("here",)))
    assert made("broader").values([own, first, second]) == [[0], [1], [1]]
    assert made("siblings").values([own, first, second]) == [[0], [0], [0]]


def test_many_mentions_take_time_in_proportion() -> None:
    """Two thousand mentions of different surfaces, all with the same candidates."""
    text = " ".join(f"word{at}" for at in range(2000))
    same = tuple(candidate(str(at), parents=("up",)) for at in range(8))
    mentions = []
    start = 0
    for word in text.split():
        mentions.append(Ranking(MentionInText(text, start, start + len(word), "d"), same))
        start += len(word) + 1
    for name in ("document", "broader", "siblings"):
        assert len(made(name).values(mentions)) == 2000
