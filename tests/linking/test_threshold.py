"""One threshold for links: what it keeps and rejects, and which one `kglink fit` chooses."""

from __future__ import annotations

import json
import os
import shutil
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from conftest import Kglink

from kglink.linking.fit import fold_of
from kglink.linking.fit_judge import (
    JudgedLink,
    JudgedLinks,
    LinksKept,
    _links,
    _texts,
    fit_threshold,
)
from kglink.linking.judge import FACTS
from kglink.linking.pipeline import Linker
from kglink.linking.scoring import DEFAULT_THRESHOLD
from kglink.records import Document, EntityId, LinkedDocument, Mention, Ranking, TextInput
from kglink.workspace import Workspace, init_workspace
from marked_mails import EXAMPLES, marked_texts

THRESHOLDS = (0.0, 0.1, 0.35, 0.6, 0.9, 1.0)
#: The last of the mails, in which "the Kestrel" is a leaf blower.
MAIL = [text for text, _ in marked_texts(EXAMPLES / "garden-mails.txt")][-1]


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = init_workspace(tmp_path_factory.mktemp("shop"))
    with Workspace.open(folder) as workspace:
        workspace.add_kb("garden", EXAMPLES / "garden.csv")
        workspace.build()
    return folder


@pytest.fixture(scope="module")
def documents(demo_master: Path) -> list[Document]:
    with Workspace.open(demo_master) as workspace:
        return [*workspace.store.documents("docs", "dev")][::6]


def linked(folder: Path, text: str, **link: object) -> LinkedDocument:
    flags = {f"link.{name}": value for name, value in link.items()}
    with Workspace.open(folder, flags=flags) as workspace:
        (document,) = workspace.link([text])
    assert all(text[one.start : one.end] == one.surface for one in document.links)
    assert all(text[one.start : one.end] == one.surface for one in document.rejected)
    return document


def places(document: LinkedDocument) -> set[tuple[int, int]]:
    return {(one.start, one.end) for one in document.links if one.chosen is not None}


# --------------------------------------------------------------------------- what it keeps
def test_a_lower_threshold_finds_what_was_no_mention(shop: Path) -> None:
    """Before, it decided between entities and NIL alone, and changed nothing in mails."""
    default, high = linked(shop, MAIL), linked(shop, MAIL, threshold=0.6)
    kept = places(default) - places(high)
    (more,) = [one for one in default.links if (one.start, one.end) in kept]
    assert more.surface == "Kestrel"
    assert more.chosen is not None
    assert more.chosen.id.key == "G27"


@pytest.fixture(scope="module")
def at(demo_master: Path, documents: list[Document]) -> dict[float, list[LinkedDocument]]:
    texts = [TextInput(one.id, one.text) for one in documents]
    found = {}
    with Workspace.open(demo_master) as workspace:
        for threshold in THRESHOLDS:
            other = workspace.with_settings({"link.threshold": threshold, "link.rejected": True})
            found[threshold] = list(other.link(texts))
    return found


def test_links_grow_as_the_threshold_falls(at: dict[float, list[LinkedDocument]]) -> None:
    for lower, higher in pairwise(THRESHOLDS):
        for many, few in zip(at[lower], at[higher], strict=True):
            assert places(few) <= places(many)
    counts = [sum(len(places(one)) for one in at[threshold]) for threshold in THRESHOLDS]
    assert counts == sorted(counts, reverse=True)
    assert counts[0] > counts[2] > counts[3] > counts[5] == 0


def test_each_place_is_linked_or_rejected_and_says_why(
    at: dict[float, list[LinkedDocument]],
) -> None:
    everything = [
        places(one) | {(other.start, other.end) for other in one.rejected} for one in at[0.0]
    ]
    for threshold, documents in at.items():
        for document, all_places in zip(documents, everything, strict=True):
            rejected = {(one.start, one.end): one for one in document.rejected}
            assert rejected.keys() | places(document) == all_places
            assert not rejected.keys() & places(document)
            for one in rejected.values():
                overlaps = one.why.startswith("overlaps")
                assert (
                    overlaps
                    or min(one.mention, one.probability) < threshold
                    or (one.why == "no KB has a name like it")
                )


def test_nothing_is_told_of_rejected_places_unless_it_is_wanted(shop: Path) -> None:
    assert linked(shop, MAIL).rejected == ()
    assert "rejected" not in linked(shop, MAIL).as_json()
    document = linked(shop, MAIL, rejected=True, threshold=0.6)
    told = {one.surface: one.why for one in document.rejected}
    assert told["path lights"] == "overlaps 'Nightjar path lights'"
    assert told["Kestrel"].startswith("probability of a mention 0.5")
    assert told["Kestrel"].endswith("less than 0.6")


# -------------------------------------------------------------------------- what is chosen
def judged(*links: tuple[float, bool], wanted: int) -> JudgedLinks:
    return JudgedLinks(tuple(JudgedLink(*one) for one in links), wanted)


def test_the_threshold_of_the_best_f1_by_hand() -> None:
    some = judged((0.9, True), (0.5, False), (0.2, True), (0.1, True), (0.05, False), wanted=4)
    assert some.at(0.35) == LinksKept(1, 1, 4)
    assert some.at(0.1) == LinksKept(3, 1, 4)
    assert some.at(0.1).f1 == pytest.approx(2 * 3 / (4 + 4))
    assert some.best() == 0.1
    assert judged((0.9, True), wanted=1).best() == DEFAULT_THRESHOLD  # all to .9 are as good


def test_another_threshold_has_to_be_better_on_other_documents() -> None:
    low = judged((0.9, True), (0.2, True), (0.1, False), wanted=2)
    assert fit_threshold([[low] * 4] * 5) == 0.2
    # What one part would like is wrong in each other part.
    parts = [
        [judged(*((0.1 * at + 0.01, at == one) for at in range(1, 4)), (0.9, True), wanted=2)]
        for one in range(1, 4)
    ]
    assert fit_threshold(parts) == DEFAULT_THRESHOLD
    assert fit_threshold([[judged(wanted=0)]] * 5) == DEFAULT_THRESHOLD
    # A document with nothing to find counts what its wrong link takes from all others.
    empty = judged((0.25, False), wanted=0)
    many = judged(*[(0.9, True)] * 8, *[(0.2, True)] * 2, wanted=10)
    assert fit_threshold([[many] * 8 + [empty]] * 5) == 0.2
    # It is better in some, and worse in about as many.
    high = judged((0.9, True), (0.2, False), wanted=1)
    assert fit_threshold([[low, low, high]] * 2 + [[low, high, high]]) == DEFAULT_THRESHOLD


def test_what_the_fit_counts_is_what_a_link_gives(
    at: dict[float, list[LinkedDocument]], demo_master: Path, documents: list[Document]
) -> None:
    with Workspace.open(demo_master, flags={"link.threshold": 0.0}) as workspace:
        linker = workspace.linker()
        weights = np.array([linker.judge.weights.get(name, 0.0) for name in FACTS])
        each = (_links(linker, text, weights) for text in _texts(linker, documents))
        counted = JudgedLinks.joined(each)
    assert counted.wanted == sum(bool(one.gold) for d in documents for one in d.mentions)
    for threshold, answers in at.items():
        right = links = 0
        for document, answer in zip(documents, answers, strict=True):
            golds = {(one.start, one.end): set(one.gold or ()) for one in document.mentions}
            for one in answer.links:
                gold = golds.get((one.start, one.end), set())
                if one.chosen is not None:
                    is_right = not gold.isdisjoint({one.chosen.id, *one.chosen.also})
                    # Where the gold is in another KB nobody said what is right in this one.
                    links += is_right or not gold or one.chosen.id.kb in {g.kb for g in gold}
                    right += is_right
        assert counted.at(threshold) == LinksKept(right, links - right, counted.wanted)


@pytest.fixture
def fitted_shop(
    shop: Path, tmp_path: Path, kglink: Kglink, monkeypatch: pytest.MonkeyPatch
) -> Kglink:
    """The catalogue in which mails are annotated, the last one not among them."""
    folder = tmp_path / "fitted"
    shutil.copytree(shop, folder)
    monkeypatch.setenv("KGLINK_WORKSPACE", str(folder))
    notes = tmp_path / "notes.jsonl"
    with notes.open("w") as out:
        for text, marked in marked_texts(EXAMPLES / "garden-mails.txt"):
            entities = [
                {"start": start, "end": end, "gold": f"garden:{key}"}
                for (start, end), key in marked.items()
            ]
            out.write(json.dumps({"text": text, "entities": entities}) + "\n")
    kglink("add-kb", "notes", notes, "--links-to", "garden")
    return kglink


def test_fit_says_which_threshold_it_chose_and_the_next_link_has_it(fitted_shop: Kglink) -> None:
    ran = fitted_shop("fit", "notes", "--json")
    told = json.loads(ran.out)
    assert f"threshold  {told['threshold']:g} is the best for these documents: " in ran.err
    kept = told["links"]
    assert f"{kept['right']} right and {kept['wrong']} wrong, of 24 mentions" in ran.err
    assert kept["wanted"] == 24
    why = json.loads(fitted_shop("explain", "A Kestrel.", "--surface", "Kestrel", "--json").out)
    assert why[0]["threshold"] == told["threshold"]
    other = fitted_shop("link", "-", "--threshold", "1", "--json", "--rejected", stdin=MAIL)
    (document,) = json.loads(other.out)
    assert document["entities"] == []
    assert len(document["rejected"]) >= 5


def test_documents_that_agree_change_the_judge(fitted_shop: Kglink, tmp_path: Path) -> None:
    """Models are mentions in them, and what is named in common words is none."""
    with (tmp_path / "agreed.jsonl").open("w") as out:
        for number in range(24):
            text = f"Order {number}: a Meadow 42, no battery pack, fast charger or grass catcher."
            start = text.index("Meadow")
            gold = {"start": start, "end": start + 9, "gold": "garden:G06"}
            other = {"start": 0, "end": 5, "gold": None}
            out.write(json.dumps({"text": text, "entities": [gold, other]}) + "\n")
    fitted_shop("add-kb", "agreed", tmp_path / "agreed.jsonl", "--links-to", "garden")

    def sureness() -> float:
        (document,) = json.loads(fitted_shop("link", "-", "--json", stdin="a fast charger").out)
        return float(document["entities"][0]["confidence"])

    before = sureness()
    told = fitted_shop("fit", "agreed").err.splitlines()
    changed = next(line for line in told if line.startswith("changed "))
    assert "the judge of which words are mentions" in changed
    assert sureness() < before / 2


def test_a_single_document_changes_no_threshold(fitted_shop: Kglink, tmp_path: Path) -> None:
    one = {"text": "The Kestrel.", "entities": [{"start": 4, "end": 11, "gold": "garden:G27"}]}
    (tmp_path / "one.jsonl").write_text(json.dumps(one))
    fitted_shop("add-kb", "one", tmp_path / "one.jsonl", "--links-to", "garden")
    assert json.loads(fitted_shop("fit", "one", "--json").out)["threshold"] == DEFAULT_THRESHOLD


def test_a_document_is_judged_without_its_own_words(
    fitted_shop: Kglink, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Words learnt from it are found there too easily: new words were then held for too little."""
    kestrel = (EntityId("garden", "G27"),)
    texts = {f"Das {word} surrt, der Kestrel nicht.": word for word in ("Wurzelding", "Zitterding")}
    documents = [
        Document(word, text, tuple(
            Mention(at, at + len(name), name, kestrel)
            for name in (word, "Kestrel") for at in (text.index(name),)
        ))
        for text, word in texts.items()
    ]  # fmt: skip
    assert len({fold_of(one) for one in documents}) == 2
    proposed: dict[str, list[str]] = {}

    def spied(linker: Linker, text: str) -> list[Ranking]:
        found = found_in(linker, text)
        proposed[text] = [one.mention.surface for one in found]
        return found

    found_in = Linker.proposed
    folder = Path(os.environ["KGLINK_WORKSPACE"])
    cache = folder / "spaces" / "default" / "cache"
    with Workspace.open(folder) as workspace:
        workspace.add_kb("things", documents, links_to=["garden"])
        workspace.learn("things")
        (linked,) = workspace.link([next(iter(texts))])
        assert [one.surface for one in linked.links] == ["Wurzelding", "Kestrel"]
        before = {one.name for one in cache.iterdir()}
        monkeypatch.setattr(Linker, "proposed", spied)
        workspace.fit("things")
        after = {one.name for one in cache.iterdir()}
        # What another source, annotated in part, leaves unmarked says nothing of this one.
        text = "The Kestrel hums. " + "It goes on and on. " * 12
        one = Mention(4, 11, "Kestrel", kestrel)
        pages = [Document(str(at), f"{text}{at}", (one,)) for at in range(4)]
        workspace.add_kb("pages", pages, links_to=["garden"])
        scoring = workspace.fit(["pages", "things"])
    assert scoring.mentions == 8
    assert scoring.spans == {}  # two documents are too few to judge better by
    assert list(proposed.values()) == [["Kestrel"]] * 2
    assert after == before  # the names of a part of memory are asked once, and not kept
