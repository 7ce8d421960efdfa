"""End-to-end figures by hand: detection, links, NIL, calibration, merged and partial texts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from sklearn.metrics import brier_score_loss

from kglink.evaluation.annotated import (
    AnnotatedText,
    Annotation,
    annotation_of,
    merged_texts,
    of_linked_types,
)
from kglink.evaluation.measures.end_to_end import (
    BINS,
    Answer,
    EndToEndReport,
    JudgedText,
    PrecisionRecall,
    Reliability,
    answers_of,
    evaluate_answers,
)
from kglink.evaluation.measures.errors import ErrorAnalysis
from kglink.records import Candidate, Document, EntityId, Link, LinkedDocument, Mention

Gold = tuple[str, ...] | None


def ids(names: Sequence[str]) -> tuple[EntityId, ...]:
    return tuple(EntityId.parse(name) for name in names)


def annotated(id_: str, text: str, **golds: Gold) -> Document:
    """A document whose mentions are named by their words; an underline is a space."""
    mentions = []
    for name, gold in golds.items():
        surface = name.replace("_", " ")
        start = text.index(surface)
        named = None if gold is None else ids(gold)
        mentions.append(Mention(start, start + len(surface), surface, named))
    return Document(id_, text, tuple(mentions))


def answer(text: str, surface: str, entity: str | None, confidence: float = 0.5) -> Answer:
    start = text.index(surface)
    meant = EntityId.parse(entity) if entity else None
    return Answer(start, start + len(surface), meant, confidence)


ONE, TWO, THREE, FOUR = (
    "Ada met Bob near Cork.",
    "The old Ada saw Cork, and Bob.",
    "Nothing here.",
    "Dora and Eve.",
)
DOCUMENTS = [
    annotated("1", ONE, Ada=("a:1",), Bob=("a:2", "b:2"), Cork=()),
    annotated("2", TWO, old_Ada=("a:1",), Bob=("b:3",)),
    annotated("3", THREE),
    annotated("4", FOUR, Dora=None, Eve=("b:5",)),
]
JOINT: list[list[Answer]] = [
    [
        answer(ONE, "Ada", "a:1", 0.95),
        answer(ONE, "Bob", "b:2", 0.85),
        answer(ONE, "Cork", None, 0.65),
    ],
    [
        answer(TWO, "Ada", "a:1", 0.75),
        answer(TWO, "Cork", "a:9", 0.55),
        answer(TWO, "Bob", "a:2", 0.35),
    ],
    [],
    [answer(FOUR, "Dora", "a:4", 0.9)],
]
#: One over b alone finds nothing.
NOTHING: list[list[Answer]] = [[], [], [], []]
#: What a linker over a alone gives.
ALONE: list[list[Answer]] = [
    [answer(ONE, "Ada", "a:1"), answer(ONE, "Bob", "a:2")],
    [answer(TWO, "Bob", "a:2")],
    [answer(THREE, "Nothing", None)],
    [],
]


def answers(pool: Sequence[str]) -> Iterator[Sequence[Answer]]:
    found: dict[tuple[str, ...], list[list[Answer]]] = {
        ("a", "b"): JOINT,
        ("a",): ALONE,
        ("b",): NOTHING,
    }
    return iter(found[tuple(pool)])


def report(**options: Any) -> EndToEndReport:
    texts = merged_texts("docs", DOCUMENTS)
    return evaluate_answers(texts, ("a", "b"), answers, **options)


def test_detection_of_all_mentions() -> None:
    strict, overlap = report().joint.detection.values()
    assert (strict.gold, strict.found, strict.right) == (7, 7, 5)  # 3+1+0+1
    assert strict.micro == pytest.approx((5 / 7, 5 / 7, 5 / 7))
    # The texts: 1 1 1; 1/3 1/2 2/5; nothing to find and nothing found: 1 1 1; 1 1/2 2/3.
    assert strict.macro(complete=True) == pytest.approx((5 / 6, 3 / 4, 23 / 30))
    assert overlap.right == 6  # "old Ada" as well
    assert overlap.micro == pytest.approx((6 / 7, 6 / 7, 6 / 7))
    # 1 1 1; 2/3 1 4/5; 1 1 1; 1 1/2 2/3
    assert overlap.macro(complete=True) == pytest.approx((11 / 12, 7 / 8, 13 / 15))


def test_links_are_judged_by_mentions_and_answers_with_an_entity_of_the_kbs() -> None:
    strict, weak = report().joint.links.values()
    # Cork (NIL) and Dora (unknown) are no gold; the answer at Dora is one, and wrong.
    assert (strict.gold, strict.found, strict.right) == (5, 6, 2)
    assert strict.micro == pytest.approx((2 / 6, 2 / 5, 4 / 11))
    assert strict.macro(complete=True) == pytest.approx((1 / 2, 1 / 2, 1 / 2))  # 1, 0, 1, 0
    assert weak.right == 3
    assert weak.micro == pytest.approx((1 / 2, 3 / 5, 6 / 11))
    # 1 1 1; 1/3 1/2 2/5; 1 1 1; 0
    assert weak.macro(complete=True) == pytest.approx((7 / 12, 5 / 8, 3 / 5))


def test_each_kb_alone_is_judged_by_its_own_linker() -> None:
    found = report().kb
    a, b = found["a"], found["b"]
    # Gold in a: Ada, Bob, old Ada; the answer without an entity is none of a's.
    assert (a.links["strict"].gold, a.links["strict"].found, a.links["strict"].right) == (3, 3, 2)
    assert a.detection["strict"].micro == pytest.approx((2 / 3, 2 / 3, 2 / 3))
    assert a.links["strict"].macro(complete=True).f1 == pytest.approx(3 / 4)  # 1, 0, 1, 1
    assert (b.links["strict"].gold, b.links["strict"].found) == (3, 0)
    assert b.links["strict"].micro == (0, 0, 0)
    assert b.links["strict"].macro(complete=True).f1 == 1 / 4
    assert report(per_kb=False).kb == {}


def test_one_kb_is_linked_once() -> None:
    asked: list[tuple[str, ...]] = []

    def counted(pool: Sequence[str]) -> Iterator[Sequence[Answer]]:
        asked.append(tuple(pool))
        return answers(pool)

    found = evaluate_answers(merged_texts("docs", DOCUMENTS), ("a",), counted)
    assert asked == [("a",)]
    assert found.joint.links["strict"].micro == found.kb["a"].links["strict"].micro
    # All together detection is judged by all mentions and places: 2 + 1 of 7, and "Nothing" is one.
    assert found.joint.detection["strict"].micro[:2] == pytest.approx((3 / 4, 3 / 7))


def test_counterparts_are_right_where_all_kbs_answer() -> None:
    same = {EntityId("b", "3"): (EntityId("a", "2"),)}
    found = report(counterparts=lambda _: same)
    assert found.joint.links["strict"].right == 3
    assert found.kb["a"].links["strict"].right == 2
    assert found.kb["a"].links["strict"].gold == 3


def test_nil_is_judged_where_mentions_are_said_to_be_nil() -> None:
    assert report().nil.micro == (1, 1, 1)
    text = merged_texts("docs", [annotated("x", "Cork and Dora", Cork=(), Dora=None)])
    given = [
        [
            answer("Cork and Dora", "Cork", "a:1"),
            answer("Cork and Dora", "and", None),
            answer("Cork and Dora", "Dora", None),  # Nobody said what it means.
        ]
    ]
    found = evaluate_answers(text, ("a",), lambda _: iter(given))
    assert (found.nil.gold, found.nil.found, found.nil.right) == (1, 1, 0)
    assert found.unknown == 1
    none = evaluate_answers(text[:0], ("a",), lambda _: iter([]))
    assert none.as_json()["metrics"]["nil"] is None  # type: ignore[index]  # a JSON shape


def test_calibration_by_hand() -> None:
    found = report().joint.calibration
    # .95 right, .85 right, .65 right (NIL), .35 wrong; links where nothing is to be linked: .75
    # wrong, .55 wrong; Dora is not judged.
    assert found.answers == 6
    assert found.ece == pytest.approx((0.05 + 0.15 + 0.35 + 0.35 + 0.75 + 0.55) / 6)


def test_calibration_of_texts_that_are_annotated_in_part_asks_their_mentions_alone() -> None:
    found = report(complete=False).joint.calibration
    assert found.answers == 4
    assert found.ece == pytest.approx((0.05 + 0.15 + 0.35 + 0.35) / 4)


def test_answers_of_kbs_that_are_not_judged_are_neither_right_nor_wrong() -> None:
    words = "Cork and Dora"
    text = merged_texts("docs", [annotated("x", words, Cork=("a:1",))])
    given = [[answer(words, "Cork", "a:1", 0.9), answer(words, "Dora", "b:1", 0.8)]]
    found = evaluate_answers(text, ("a",), lambda _: iter(given)).joint
    assert found.calibration.answers == 1
    assert found.calibration.ece == pytest.approx(0.1)
    assert {(one.links, one.wrong) for one in found.operating_points()} == {(1000, 0)}


def test_what_thresholds_keep_of_a_thousand_texts() -> None:
    # Of four texts: links of .95 and .85 right, of .75, .55 and .35 wrong, and one of .95 where
    # nobody said what is right; NIL is no link.
    points = {one.threshold: (one.links, one.right) for one in report().joint.operating_points()}
    assert points == {
        0.3: (1500, 500), 0.4: (1250, 500), 0.5: (1250, 500), 0.65: (1000, 500), 0.8: (750, 500),
        0.9: (500, 250),
    }  # fmt: skip
    assert report(complete=False).joint.operating_points() == []
    found: Any = report().joint.as_json()["operating_points"]
    assert found[2] == {"threshold": 0.5, "links": 1250, "right": 500, "wrong": 750}


def test_bins_of_confidence() -> None:
    calibration = Reliability()
    assert calibration.ece is None
    assert calibration.brier is None
    answers = [(0.61, True), (0.69, False), (0.68, True), (0.0, False), (1.0, True)]
    for confidence, right in answers:
        calibration.add(confidence, right=right)
    # Bin .6: 3 answers, 1.98 sure, 2 right; bin 0: 0 and 0; the last: 1 and 1.
    assert calibration.ece == pytest.approx((2 - 1.98) / 5)
    confidences, rights = zip(*answers, strict=True)
    assert calibration.brier == pytest.approx(brier_score_loss(rights, confidences))
    bins: Any = calibration.as_json()["bins"]
    assert len(bins) == BINS
    assert bins[6] == {
        "from": 0.6,
        "to": 0.7,
        "answers": 3,
        "confidence": pytest.approx(0.66),
        "right": pytest.approx(2 / 3),
    }
    assert bins[9]["answers"] == bins[0]["answers"] == 1
    assert (bins[5]["confidence"], bins[5]["right"]) == (None, None)


def test_what_went_wrong() -> None:
    found = report()
    assert found.missed() == [("Eve", 1)]
    assert found.invented() == [("Cork", 1)]
    assert found.borders() == [(("old Ada", "Ada"), 1)]


def test_only_the_ten_most_frequent_are_told() -> None:
    words = [f"w{number:02}" for number in range(12)]
    text = " ".join([*words, "w11 w11 w05"])
    spans = [(text.index(word), len(word)) for word in words]
    places = [
        Mention(start, start + length, text[start : start + length]) for start, length in spans
    ]
    last = text.rindex("w11")
    places.append(Mention(last, last + 3, "w11"))
    documents = [Document("x", text, tuple(places))]
    found = evaluate_answers(merged_texts("d", documents), ("a",), lambda _: iter([[]]))
    assert found.missed() == [("w11", 2), *((word, 1) for word in words[:9])]


def test_each_mention_and_each_answer_counts_once() -> None:
    text = "breast and ovarian cancer"
    whole = annotated("x", text, breast=("a:1",), ovarian_cancer=("a:1",))
    judged = JudgedText(merged_texts("d", [whole])[0], ("a",))

    def right(*found: Answer, strict: bool = False) -> tuple[int, int]:
        scores = EndToEndReport(("a",), annotation_of([judged.source]))
        scores.add(judged, found)
        pools = scores.joint
        name = "strict" if strict else "weak"
        return pools.detection["strict" if strict else "overlap"].right, pools.links[name].right

    assert right(answer(text, text, "a:1")) == (1, 1)  # one answer over two mentions
    halves = answer(text, "ovarian", "a:1"), answer(text, "cancer", "a:1")
    assert right(*halves) == (1, 1)  # two answers within one mention
    assert right(answer(text, "ovarian cancer", "a:2"), answer(text, "cancer", "a:1")) == (1, 1)
    # Equal places go together before the longer overlap does.
    both = answer(text, "breast", "a:1"), answer(text, text, "a:1")
    assert right(*both) == (2, 2)
    assert right(*both, strict=True) == (1, 1)


def test_precision_and_recall_of_nothing() -> None:
    assert PrecisionRecall.of(0, 0, 0) == (1, 1, 1)
    assert PrecisionRecall.of(0, 2, 0) == (0, 0, 0)
    assert PrecisionRecall.of(0, 0, 2) == (0, 0, 0)


def test_links_become_answers() -> None:
    chosen = Candidate(EntityId("a", "1"), "Ada", 0.9)
    links = (Link(0, 3, "Ada", (chosen,), chosen, 0.8), Link(8, 11, "Bob", (), None, 0.6))
    assert answers_of(LinkedDocument("x", ONE, links)) == [
        Answer(0, 3, EntityId("a", "1"), 0.8),
        Answer(8, 11, None, 0.6),
    ]


# ---------------------------------------------------------------------- merged and partial
def test_records_of_one_text_are_one_text() -> None:
    documents = [
        annotated("m1", ONE, Bob=("a:2",)),
        annotated("other", TWO, Bob=("b:3",)),
        annotated("m2", ONE, Ada=("a:1",)),
        annotated("m3", ONE, Bob=("b:2", "a:2"), Cork=()),
        annotated("m4", ONE, Cork=None),
    ]
    first, second = merged_texts("docs", documents)
    assert (first.docs, first.ids, first.id) == ("docs", ("m1", "m2", "m3", "m4"), "m1")
    assert [(one.surface, one.gold) for one in first.mentions] == [
        ("Ada", ids(["a:1"])),
        ("Bob", ids(["a:2", "b:2"])),
        ("Cork", ()),
    ]
    assert second.ids == ("other",)
    annotation = annotation_of([first, second])
    assert (annotation.records, annotation.texts, annotation.mentions) == (5, 2, 4)


def test_a_mention_that_is_nil_in_one_record_means_what_another_says() -> None:
    documents = [annotated("1", ONE, Bob=()), annotated("2", ONE, Bob=("a:2",))]
    (text,) = merged_texts("docs", documents)
    assert text.mentions[0].gold == ids(["a:2"])


def test_texts_with_one_mention_each_seem_annotated_in_part() -> None:
    texts = merged_texts("d", [annotated("1", ONE, Ada=("a:1",)), annotated("2", TWO, Bob=())])
    assert annotation_of(texts).partial == "no text has more than one mention"
    assert not annotation_of(texts[:1]).partial
    assert not annotation_of(merged_texts("docs", DOCUMENTS)).partial
    for words, partial in ((50, ""), (51, "no text has more than one mention")):
        text = "Ada" + " and others" * (words // 2) + " left" * (words % 2 == 0)
        text = " ".join(text.split()[:words])
        (one,) = merged_texts("docs", [annotated("1", text, Ada=("a:1",))])
        assert annotation_of([one]).partial == partial


def test_surfaces_that_are_annotated_once_and_stand_there_again() -> None:
    text = "Ada, Ada and Adam met Bob; Bob's Ada-Bob left."
    document = annotated("1", text, Ada=("a:1",), Bob=("a:2",))
    annotation = annotation_of(merged_texts("d", [document]))
    # "Adam" is another word; "Ada-Bob" is both once more.
    assert (annotation.marked, annotation.unmarked) == (2, 4)
    assert annotation.partial.startswith("of 6 places with an annotated surface 4 are not")
    nested = annotated("2", "Bob Bobson and Bob", Bob_Bobson=(), Bob=())
    annotation = annotation_of(merged_texts("d", [nested]))
    assert (annotation.marked, annotation.unmarked) == (2, 1)


def test_surfaces_that_other_texts_annotate() -> None:
    """A sentence with two of its names marked is annotated in part, as other sentences show."""

    def told(*marked: str) -> Annotation:
        """Ten sentences about three people, of whom each marks some."""
        documents = [
            annotated(str(number), f"Ada, Bob and Cecil, called Cecilia: {number}.", **golds)
            for number in range(10)
            for golds in [dict.fromkeys(marked[number % len(marked)].split(), ("a:1",))]
        ]
        return annotation_of(merged_texts("d", documents))

    whole = told("Ada Bob Cecil")
    assert (whole.marked_elsewhere, whole.unmarked_elsewhere, whole.partial) == (30, 0, "")
    most = told("Ada Bob Cecil", "Ada Bob Cecil", "Ada Bob Cecil", "Ada Bob")
    assert (most.marked_elsewhere, most.unmarked_elsewhere, most.partial) == (28, 2, "")
    part = told("Ada Bob", "Bob Cecil", "Ada Cecil")
    assert (part.marked_elsewhere, part.unmarked_elsewhere) == (20, 10)
    assert part.partial == (
        "of 30 places with a surface that other texts annotate 10 are not annotated"
    )
    few = annotation_of(
        merged_texts("d", [annotated("1", ONE, Ada=()), annotated("2", ONE, Bob=())])
    )
    assert (few.marked_elsewhere, few.unmarked_elsewhere, few.partial) == (0, 0, "")


def test_precision_is_unknown_where_mentions_are_annotated_in_part() -> None:
    found = report(complete=False).as_json()
    assert (found["complete"], found["partial_because"], found["invented"]) == (False, None, None)
    metrics: Any = found["metrics"]
    strict = metrics["joint"]["links"]["strict"]
    assert strict["micro"] == {"precision": None, "recall": 2 / 5, "f1": None}
    # The text without a mention leaves the mean: 1, 0 and 0.
    assert strict["macro"] == {"precision": None, "recall": pytest.approx(1 / 3), "f1": None}
    assert found["missed"] == [{"text": "Eve", "count": 1}]


def test_the_shape_of_the_record() -> None:
    found = report().as_json()
    assert list(found) == [
        "kbs", "complete", "partial_because", "annotation", "metrics",
        "missed", "invented", "borders",
    ]  # fmt: skip
    assert found["annotation"] == {
        "records": 4, "texts": 4, "mentions": 7, "in_kbs": 5, "nil": 1, "unknown": 1,
        "elsewhere": 0, "marked": 7, "unmarked": 0, "other_types": {},
    }  # fmt: skip
    metrics: Any = found["metrics"]
    assert list(metrics) == ["joint", "kb", "nil"]
    assert list(metrics["kb"]) == ["a", "b"]
    parts = ["detection", "links", "calibration", "operating_points"]
    assert list(metrics["joint"]) == parts
    strict = metrics["joint"]["detection"]["strict"]
    for figure, (low, high) in strict.pop("intervals").items():
        assert 0 <= low < strict["micro"][figure] < high <= 1
    assert strict == {
        "gold": 7,
        "found": 7,
        "right": 5,
        "micro": {"precision": 5 / 7, "recall": 5 / 7, "f1": pytest.approx(5 / 7)},
        "macro": {
            "precision": pytest.approx(5 / 6),
            "recall": pytest.approx(3 / 4),
            "f1": pytest.approx(23 / 30),
        },
    }
    assert found["borders"] == [{"gold": "old Ada", "found": "Ada", "count": 1}]


def test_figures_of_single_texts() -> None:
    texts = [JudgedText(text, ("a", "b")) for text in merged_texts("d", DOCUMENTS)]
    found = [text.values(given, complete=True) for text, given in zip(texts, JOINT, strict=True)]
    assert [one["detection"] for one in found] == pytest.approx([1, 2 / 5, 1, 2 / 3])
    assert [one["links"] for one in found] == [1, 0, 1, 0]
    partly = [text.values(given, complete=False) for text, given in zip(texts, JOINT, strict=True)]
    assert partly == [
        {"detection": 1, "links": 1},
        {"detection": 1 / 2, "links": 0},
        {},
        {"detection": 1 / 2, "links": 0},
    ]


def test_every_text_is_told_with_the_answers_of_all_kbs() -> None:
    told: list[tuple[AnnotatedText, Sequence[Answer]]] = []
    report(each=lambda text, found: told.append((text.source, found)))
    assert [text.id for text, _ in told] == ["1", "2", "3", "4"]
    assert [list(found) for _, found in told] == JOINT


def test_types_that_the_kbs_do_not_hold_are_passed_over_and_counted() -> None:
    text = "Ada ate salt near Bob."
    golds: dict[str, tuple[str, Gold]] = {
        "Ada": ("person", ("a:1",)),
        "Bob": ("person", None),
        "salt": ("food", ("c:1",)),
    }
    mentions = [
        Mention(
            text.index(name),
            text.index(name) + len(name),
            name,
            None if gold is None else ids(gold),
            kind,
        )
        for name, (kind, gold) in golds.items()
    ]
    texts = merged_texts("d", [Document("1", text, tuple(mentions))])
    (own,), others = of_linked_types(texts, ("a", "b"))
    assert [one.surface for one in own.mentions] == ["Ada", "Bob"]
    assert others == {"food": 1}
    found = evaluate_answers([own], ("a",), lambda _: iter([[]]), other_types=others).as_json()
    annotation: Any = found["annotation"]
    assert (annotation["mentions"], annotation["other_types"]) == (2, {"food": 1})
    # All types count where the KBs hold none of them, and where mentions have no types.
    assert of_linked_types(texts, ("x",)) == (texts, {})
    plain = merged_texts("docs", DOCUMENTS)
    assert of_linked_types(plain, ("a", "b")) == (plain, {})


def test_pages_of_a_wiki_are_known_to_be_annotated_in_part() -> None:
    """Their links mean each other; texts about other things are not taken for pages."""

    def said(docs: str, *golds: str) -> str:
        """Of texts 0, 1, ... each of which means the page of its place and the page 9."""
        documents = []
        for number, key in enumerate(golds):
            means = [EntityId("wiki", one) for one in (key, "9")]
            mentions = (
                Mention(4, 9, "heart", (means[0],)),
                Mention(15, 19, "lung", (means[1],)),
            )
            documents.append(Document(str(number), f"One heart, one lung {number}.", mentions))
        return annotation_of(merged_texts(docs, documents)).partial

    assert "pages that link to each other" in said("wiki", "1", "2", "8")
    assert not said("notes", "1", "2", "8")
    assert not said("wiki", "7", "7", "8")
    assert "pages that link to each other" in said("wiki", "0", "2", "1")
    assert not said("wiki", "0", "1", "2")


class _Counting(tuple[Mention, ...]):
    """No mentions, and how often somebody counted them."""

    counted = 0

    def __len__(self) -> int:
        type(self).counted += 1
        return super().__len__()


def test_texts_without_mentions_are_not_counted_again_and_again() -> None:
    """16,000 of them took 10 seconds."""
    store: Any = SimpleNamespace(get_entities=dict, counterparts=dict)
    analysis = ErrorAnalysis(store, ())
    for number in range(100):
        text = AnnotatedText("docs", (str(number),), THREE, _Counting())
        analysis.add_answers(JudgedText(text, ("a",)), ())
    assert analysis.finish().mentions == 0
    assert _Counting.counted <= 100
