"""The adapter ``kglink/labelstudio``, and what its exporter writes."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest

from kb_checks import claimants, damaged, head_of
from kglink.errors import KglinkError, SourceError
from kglink.plugins import PluginSettings
from kglink.records import (
    Candidate,
    Document,
    Entity,
    EntityId,
    Link,
    LinkedDocument,
    Mention,
    Record,
)
from kglink.sources import OnError, Problems, Source
from kglink.testing import KBAdapterContract
from kglink.testing.contracts.exporter import linked_documents
from kglink.workspace import Workspace
from kglink_kbs.labelstudio import LabelStudioAdapter, LabelStudioExporter, LabelStudioSettings

TEXT = "A heron 😀 met the osprey."


def region(name: str, start: object, end: object, text: str, label: str = "birds") -> Any:
    value = {"start": start, "end": end, "text": text, "labels": [label]}
    ids = {"id": name, "from_name": "label", "to_name": "text"}
    return {**ids, "type": "labels", "value": value, "origin": "manual"}


def meaning(name: str, kind: str, told: object, control: str = "entity") -> Any:
    value = {"start": 0, "end": 0, {"textarea": "text"}.get(kind, kind): told}
    return {"id": name, "from_name": control, "to_name": "text", "type": kind, "value": value}


def task(*results: Any, text: str = TEXT, **fields: Any) -> Any:
    return {
        "id": 7,
        "data": {"text": text},
        "annotations": [{"id": 1, "result": list(results), "was_cancelled": False}],
        "predictions": [],
        **fields,
    }


HERON = region("a", 2, 7, "heron")
OSPREY = region("b", 18, 24, "osprey")
TASKS = json.dumps([
    task(HERON, meaning("a", "textarea", ["birds:h"]), OSPREY),
    task(id=8, annotations=[]),
], indent=1)  # fmt: skip
MENTIONS = (
    Mention(2, 7, "heron", (EntityId("birds", "h"),), "birds"),
    Mention(18, 24, "osprey", None, "birds"),
)


class TestLabelStudio(KBAdapterContract):
    plugin = "kglink/labelstudio"
    source_name = "export.json"
    source_text = TASKS
    expected = (Document("7", TEXT, MENTIONS),)
    broken = (
        b"\x00\xff\xfe no record \x80\n",
        TASKS.replace('"start": 2', '"start": 200'),
        TASKS.replace('"text": "heron"', '"text": "emu"'),
        TASKS.replace('"start": 2', '"start": "/div[1]/text()[1]"'),
        TASKS.replace('"text": "A heron', '"words": "A heron'),
        json.dumps([task(id=8, annotations=[])]),
        TASKS[:-4],
    )


def read(*tasks: Any, problems: Problems | None = None, entity: str = "") -> list[Document]:
    data = json.dumps(tasks).encode()
    with Source.from_bytes(data, name="x.json") as source:
        made = LabelStudioAdapter(LabelStudioSettings(entity=entity))
        records = list(made.read(source, problems or Problems()))
    return [one for one in records if isinstance(one, Document)]


def answers(*tasks: Any) -> list[Record]:
    with Source.from_bytes(json.dumps(tasks).encode(), name="x.json") as source:
        return list(LabelStudioAdapter(LabelStudioSettings()).answers(source, Problems(), {}))


def golds(*results: Any, entity: str = "") -> list[object]:
    (document,) = read(task(*results), entity=entity)
    return [one.gold for one in document.mentions]


def test_tasks_are_taken_for_nothing_else() -> None:
    assert claimants(head_of(TASKS, "export.json"))[0] == "kglink/labelstudio"
    first = {"annotations": [{"result": [HERON]}], "data": {"text": "a" * 10**5}}
    big = json.dumps([first])  # in the order of an export
    assert claimants(head_of(big, "export.json"))[0] == "kglink/labelstudio"
    assert "kglink/labelstudio" not in claimants(head_of('{"annotations": [], "text": "x"}'))


def test_a_backslash_before_an_n_may_be_what_stands_there() -> None:
    text = "See C:\\new folder\nand more."
    path = text[4:17]
    both = region("a", 4, 17, path), region("b", 11, 21, "folder\\nand")
    (document,) = read(task(*both, text=text))
    assert [one.surface for one in document.mentions] == [path, "folder\nand"]


def test_what_a_region_means_may_be_typed_or_chosen() -> None:
    heron = (EntityId("birds", "h"),)
    assert golds(HERON, meaning("a", "choices", ["birds:h"])) == [heron]
    assert golds(HERON, meaning("a", "taxonomy", [["birds", "birds:h"]])) == [heron]
    assert golds(HERON, meaning("a", "textarea", ["NIL"])) == [()]
    assert golds(region("a", 2, 7, "heron", "NIL")) == [()]
    assert golds(HERON, meaning("a", "textarea", [" "])) == [None]
    both = (
        HERON,
        meaning("a", "textarea", ["unsure"], "note"),
        meaning("a", "textarea", ["birds:h"]),
    )
    assert golds(*both, entity="entity") == [heron]


def test_the_ground_truth_counts_else_the_last_annotation() -> None:
    def done(key: str, **fields: Any) -> Any:
        return {"result": [HERON, meaning("a", "textarea", [key])], **fields}

    last = [done("birds:x"), done("birds:h"), done("birds:y", was_cancelled=True)]
    truth = [done("birds:h", ground_truth=True), done("birds:x")]
    for work in (last, truth):
        (document,) = read(task(annotations=work))
        assert document.mentions[0].gold == (EntityId("birds", "h"),)


def test_a_task_that_nobody_did_is_passed_over() -> None:
    problems = Problems()
    assert len(read(task(HERON), task(annotations=[]), problems=problems)) == 1
    assert problems.passed_over == {"tasks without annotations": 1}
    with pytest.raises(SourceError, match=r"no task in x\.json has annotations"):
        read(task(annotations=[]))


def test_offsets_of_older_versions_count_utf16() -> None:
    (document,) = read(task(HERON, region("b", 19, 25, "osprey")))
    assert [one.surface for one in document.mentions] == ["heron", "osprey"]


def test_words_of_a_region_that_grew_or_spans_lines() -> None:
    text = "A grey\nheron."
    (document,) = read(task(region("a", 2, 12, "rey\\nher"), text=text))
    assert document.mentions[0].surface == "grey\nheron"


@pytest.mark.parametrize("on_error", ["stop", "skip"])
def test_damage_leads_to_our_errors_alone(on_error: OnError) -> None:
    for seed in range(200):
        with Source.from_bytes(damaged(TASKS.encode(), seed), name="x") as source:
            try:
                list(LabelStudioAdapter(LabelStudioSettings()).read(source, Problems(on_error)))
            except KglinkError as error:
                str(error).encode()


def export(*documents: LinkedDocument) -> Any:
    out = io.StringIO()
    LabelStudioExporter(PluginSettings()).export(documents, out)
    return json.loads(out.getvalue())


def test_links_become_a_prediction_that_is_read_back() -> None:
    heron = Candidate(EntityId("birds", "h"), "grey heron", 0.9)
    links = (Link(2, 7, "heron", (heron,), heron, 0.75), Link(18, 24, "osprey", (), None, 0.5))
    (made,) = export(LinkedDocument("mail 1", TEXT, links))
    assert made["data"] == {"id": "mail 1", "text": TEXT}
    (prediction,) = made["predictions"]
    assert prediction["score"] == 0.5
    assert prediction["result"][:2] == [
        {
            "id": "m1", "from_name": "label", "to_name": "text", "type": "labels", "score": 0.75,
            "value": {"start": 2, "end": 7, "text": "heron", "labels": ["birds"]},
            "meta": {"text": ["grey heron"]},
        },
        {
            "id": "m1", "from_name": "entity", "to_name": "text", "type": "textarea",
            "value": {"start": 2, "end": 7, "text": ["birds:h"]},
        },
    ]  # fmt: skip
    (back,) = answers(made)
    assert back == Document("mail 1", TEXT, (
        Mention(2, 7, "heron", (heron.id,), "birds", confidence=0.75),
        Mention(18, 24, "osprey", (), "NIL", confidence=0.5),
    ))  # fmt: skip


def test_every_place_of_every_text_is_read_back() -> None:
    documents = [one for one in linked_documents() if "\0" not in one.text]
    for document, back in zip(documents, answers(*export(*documents)), strict=True):
        assert isinstance(back, Document)
        assert len(back.text) == len(document.text)
        places = sorted((link.start, link.end) for link in document.links)
        assert [(one.start, one.end) for one in back.mentions] == places


def test_corrections_are_learnt(tmp_path: Path) -> None:
    """Links go to Label Studio as predictions; what people make of them comes back as golds."""
    with Workspace.open(tmp_path / "workspace", create=True) as workspace:
        workspace.add_kb("birds", [Entity("h", "grey heron"), Entity("o", "osprey")])
        text = "The old fisher left, and the osprey stayed."
        (made,) = export(*workspace.link(text, wait=False))
        result = made["predictions"][0]["result"]
        result += [region("new", 4, 14, "old fisher"), meaning("new", "textarea", ["birds:h"])]
        corrected = tmp_path / "export.json"
        corrected.write_text(json.dumps([made | {"annotations": [{"result": result}]}]), "utf-8")
        added = workspace.add_kb("notes", corrected, links_to="birds")
        assert (added.adapter, added.summary.mentions) == ("kglink/labelstudio", 2)
        (document,) = workspace.store.documents("notes")
    assert [one.gold for one in document.mentions] == [
        (EntityId("birds", "h"),),
        (EntityId("birds", "o"),),
    ]
