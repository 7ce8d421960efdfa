"""The spaCy component: what it reads and writes in documents, in one process and in several."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import spacy
from spacy.language import Language
from spacy.scorer import Scorer
from spacy.tokens import Doc, DocBin, Span
from spacy.training import Example

from kglink import Alias, Entity, KglinkError, Link, LinkedDocument, Workspace
from kglink.records import Candidate, EntityId
from kglink_doors.spacy_component import LinkingPipe, annotate, set_extensions

TEXT = "The 😀 AJ3000 stands beside the RoboMow; a 𝔸 heron watches the AJ3000."
PLACES = {"AJ3000": "shop:AJ3", "RoboMow": "shop:R1", "heron": "birds:h"}


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two KBs that share a name; names alone are enough here."""
    folder = tmp_path_factory.mktemp("workspace")
    jet = Entity("AJ3", "AquaJet 3000", "A pressure washer.", aliases=(Alias("AJ3000"),))
    crane = Entity("C", "crane", "A machine that lifts.")
    with Workspace.open(folder, create=True) as made:
        made.add_kb("shop", [jet, Entity("R1", "RoboMow", "A robot that mows."), crane])
        made.add_kb("birds", [Entity("h", "heron", "A bird."), Entity("c", "crane", "A bird.")])
        with (folder / "kglink.toml").open("a", encoding="utf-8") as settings:
            settings.write('\n[link]\nfound_by = "names"\n')
    return folder


def pipeline(workspace: Path, *patterns: tuple[str, str], **config: object) -> Language:
    """Blank English, an entity ruler where there are patterns, and kglink."""
    nlp = spacy.blank("en")
    if patterns:
        ruler: Any = nlp.add_pipe("entity_ruler")
        ruler.add_patterns([{"label": label, "pattern": words} for label, words in patterns])
    nlp.add_pipe("kglink", config={"workspace": str(workspace), **config})
    return nlp


def linked(doc: Doc) -> list[tuple[str, str, str]]:
    return [(ent.text, ent.label_, ent.kb_id_) for ent in doc.ents]


def test_mentions_are_found_and_become_entities(workspace: Path) -> None:
    doc = pipeline(workspace)(TEXT)
    assert linked(doc) == [
        (words, PLACES[words].partition(":")[0], PLACES[words])
        for words in ("AJ3000", "RoboMow", "heron", "AJ3000")
    ]
    for ent in doc.ents:
        link = ent._.kglink
        assert TEXT[link["start"] : link["end"]] == link["text"] == ent.text
        assert TEXT[ent.start_char : ent.end_char] == ent.text
    assert [span.text for span in doc.spans["kglink"]] == [ent.text for ent in doc.ents]


def test_a_document_says_what_the_command_line_does(workspace: Path) -> None:
    doc = pipeline(workspace)(TEXT)
    with Workspace.open(workspace) as opened:
        (document,) = opened.link(TEXT)
    said = document.as_json()
    del said["id"]
    assert doc._.kglink == said
    assert json.loads(json.dumps(doc._.kglink)) == doc._.kglink


def test_candidates_are_read_as_those_of_scispacy(workspace: Path) -> None:
    nlp = pipeline(workspace, threshold=0.2)
    linker: Any = nlp.get_pipe("kglink")
    doc = nlp("The RoboMow mows.")
    for kb_ent in doc.ents[0]._.kb_ents[:1]:
        assert kb_ent[0] == "shop:R1"
        assert linker.workspace.entity(kb_ent[0]).entity.description == "A robot that mows."
    (crane,) = nlp("Look: the crane!").ents
    ids, scores = zip(*crane._.kb_ents, strict=True)
    assert set(ids) == {"shop:C", "birds:c"}
    assert ids[0] == crane.kb_id_
    assert list(scores) == sorted(scores, reverse=True)


def test_entities_of_the_pipeline_are_the_mentions(workspace: Path) -> None:
    nlp = pipeline(workspace, ("ANIMAL", "heron"), ("PLACE", "Erewhon"))
    doc = nlp("In Erewhon a heron met the RoboMow.")
    assert linked(doc) == [("Erewhon", "PLACE", "NIL"), ("heron", "ANIMAL", "birds:h")]
    assert doc.ents[0]._.kb_ents == []
    assert doc.ents[0]._.kglink["nil"] is True
    assert [(span.label_, span.kb_id_) for span in doc.spans["kglink"]] == [
        ("PLACE", "NIL"), ("ANIMAL", "birds:h"),
    ]  # fmt: skip
    assert linked(nlp("The RoboMow.")) == [("RoboMow", "shop", "shop:R1")]


def test_only_entities_of_the_pipeline_are_linked_where_that_is_wanted(workspace: Path) -> None:
    doc = pipeline(workspace, ("ANIMAL", "heron"), mentions="ents")("The RoboMow.")
    assert not doc.ents
    assert doc._.kglink["entities"] == []


def test_mentions_are_found_beside_entities_that_are_there(workspace: Path) -> None:
    patterns = ("ANIMAL", "heron"), ("THING", "RoboMow beside")
    doc = pipeline(workspace, *patterns, mentions="find")("A heron, a RoboMow beside an AJ3000.")
    assert linked(doc) == [
        ("heron", "ANIMAL", "birds:h"), ("RoboMow beside", "THING", ""),
        ("AJ3000", "shop", "shop:AJ3"),
    ]  # fmt: skip
    found = [(span.text, span.kb_id_) for span in doc.spans["kglink"]]
    assert found == [("heron", "birds:h"), ("RoboMow", "shop:R1"), ("AJ3000", "shop:AJ3")]


def test_scores_of_spacy_know_what_no_kb_has(workspace: Path) -> None:
    nlp = pipeline(workspace, ("ANIMAL", "heron"), ("PLACE", "Erewhon"))
    text = "In Erewhon a heron."
    right = nlp.make_doc(text)
    right.ents = [
        Span(right, 1, 2, label="PLACE", kb_id="atlas:E"),
        Span(right, 3, 4, label="ANIMAL", kb_id="birds:h"),
    ]
    scores = Scorer.score_links([Example(nlp(text), right)], negative_labels=["NIL"])
    assert scores["nel_micro_p"] == 1.0
    assert scores["nel_micro_r"] == 0.5


def test_a_mention_inside_of_a_token_is_the_whole_token(workspace: Path) -> None:
    nlp = pipeline(workspace)
    doc = Doc(nlp.vocab, words=["(AJ3000", "and", "the", "crane)!"], spaces=[True] * 3 + [False])
    doc = nlp(doc)
    assert [ent.text for ent in doc.ents] == ["(AJ3000", "crane)!"]
    link = doc.ents[0]._.kglink
    assert (link["start"], link["end"], link["text"]) == (1, 7, "AJ3000")


def hand_made(start: int, end: int, key: str, probability: float, text: str) -> Link:
    chosen = Candidate(EntityId("kb", key), key, 0.5) if key else None
    candidates = (chosen,) if chosen else ()
    return Link(start, end, text[start:end], candidates, chosen, 0.9, probability=probability)


def test_of_mentions_that_overlap_the_longest_is_an_entity() -> None:
    set_extensions()
    text = "breast cancer cells in-vitro"
    doc = spacy.blank("en").make_doc(text)
    links = [
        hand_made(0, 13, "breast_cancer", 0.4, text),
        hand_made(7, 13, "cancer", 0.9, text),
        hand_made(7, 19, "cells", 0.8, text),
        hand_made(20, 22, "", 0.9, text),
        hand_made(23, 26, "less", 0.3, text),
        hand_made(23, 27, "more", 0.6, text),
    ]
    annotate(doc, LinkedDocument("1", text, tuple(links)))
    assert [ent.kb_id_ for ent in doc.ents] == ["kb:breast_cancer", "kb:more"]
    found = [(span.text, span.kb_id_) for span in doc.spans["kglink"]]
    assert found == [
        ("breast cancer", "kb:breast_cancer"), ("cancer cells", "kb:cells"),
        ("cancer", "kb:cancer"), ("in", "NIL"), ("vitro", "kb:more"),
    ]  # fmt: skip


def test_a_batch_has_the_answers_of_single_texts(workspace: Path) -> None:
    nlp = pipeline(workspace)
    texts = [TEXT, "", "Nothing here.", "A crane.", " \n", "The RoboMow."] * 3
    single = [nlp(text)._.kglink for text in texts]
    for size in (1, 4, 1000):
        numbered = [(text, at) for at, text in enumerate(texts)]
        answers = list(nlp.pipe(numbered, as_tuples=True, batch_size=size))
        assert [at for _, at in answers] == list(range(len(texts)))
        assert [doc._.kglink for doc, _ in answers] == single


def test_documents_come_back_from_bytes_and_from_docbin(workspace: Path) -> None:
    nlp = pipeline(workspace)
    doc = nlp(TEXT)
    stored = DocBin(store_user_data=True, docs=[doc]).to_bytes()
    (from_bin,) = DocBin().from_bytes(stored).get_docs(nlp.vocab)
    for other in (Doc(nlp.vocab).from_bytes(doc.to_bytes()), from_bin):
        # Lists and tuples change places on the way.
        assert json.dumps(other._.kglink) == json.dumps(doc._.kglink)
        assert linked(other) == linked(doc)
        assert [tuple(one) for one in other.ents[0]._.kb_ents] == doc.ents[0]._.kb_ents


def test_a_pipeline_comes_back_from_disk_and_from_bytes(workspace: Path, tmp_path: Path) -> None:
    nlp = pipeline(workspace, kbs=["birds"])
    nlp.to_disk(tmp_path / "nlp")
    loaded = spacy.load(tmp_path / "nlp")
    again = pipeline(workspace, kbs=["birds"]).from_bytes(nlp.to_bytes())
    for one in (nlp, loaded, again):
        assert linked(one("The crane and the RoboMow."))[0] == ("crane", "birds", "birds:c")


def test_a_pickled_component_opens_the_workspace_again(workspace: Path) -> None:
    one = LinkingPipe(str(workspace), kbs="birds")
    other = pickle.loads(pickle.dumps(one))  # noqa: S301 - our own bytes
    assert other.workspace is not one.workspace
    # In another process, which has one of several cores.
    assert other.workspace.settings.encoder.threads == 1
    assert other.workspace.folder == one.workspace.folder
    assert other.workspace.settings.link.kbs == one.workspace.settings.link.kbs


TWO = """
import sys, spacy
nlp = spacy.blank("en")
nlp.add_pipe("kglink", config={"workspace": sys.argv[1]})
before = nlp("The RoboMow.")
texts = ["The RoboMow %d" % at for at in range(40)]
docs = list(nlp.pipe(texts, n_process=2, batch_size=5))
assert [doc.text for doc in docs] == texts
assert {doc.ents[0].kb_id_ for doc in docs} == {"shop:R1"}
assert docs[0].ents[0]._.kglink["key"] == before.ents[0]._.kglink["key"] == "R1"
"""


@pytest.mark.slow
@pytest.mark.parametrize("evidence", ["names", pytest.param("all", marks=pytest.mark.slow)])
def test_two_processes_link_side_by_side(workspace: Path, tmp_path: Path, evidence: str) -> None:
    """After the parent has linked, whose libraries have threads that a forked child lacks."""
    folder = tmp_path / "copy"
    shutil.copytree(workspace, folder)
    settings = folder / "kglink.toml"
    settings.write_text(settings.read_text().replace('"names"', f'"{evidence}"'))
    variables = {name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", TWO, folder],
        env=variables,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"workspace": "/nowhere"}, "/nowhere is no workspace"),
        ({"kbs": ["brids"]}, "Did you mean 'birds'?"),
        ({"mentions": "all"}, "There is: auto, ents, find."),
        ({"threshold": 7.0}, "link.threshold = 7"),
    ],
    ids=["workspace", "kb", "mentions", "threshold"],
)
def test_what_is_wrong_is_said_at_once(
    workspace: Path, config: dict[str, object], said: str
) -> None:
    with pytest.raises(KglinkError) as caught:
        spacy.blank("en").add_pipe("kglink", config={"workspace": str(workspace)} | config)
    assert said in str(caught.value)


def test_the_library_never_imports_spacy() -> None:
    code = "import sys, kglink, kglink.workspace.workspace; print('spacy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
