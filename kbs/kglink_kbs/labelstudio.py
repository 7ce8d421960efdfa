"""Label Studio: tasks with annotations are read, and links are written as predictions.

A mention is a region of `<Labels>`. What it means is the text of a `<TextArea perRegion="true">`
(or of such `<Choices>` or a `<Taxonomy>`) with the id of the region: ``kb:key``, or NIL.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, TextIO

from kglink.errors import SourceError
from kglink.plugins import PluginSettings
from kglink.records import Document, Link, LinkedDocument, Mention, Record, json_number
from kglink.sources import Problems, Source, SourceHead
from kglink.text.printable import printable_json, write_list
from kglink_kbs.annotations import (
    GoldReader,
    ToldSpan,
    best_unit,
    character_offsets,
    checked_span,
    in_order,
)
from kglink_kbs.json_stream import json_objects
from kglink_kbs.values import (
    exact_text,
    good_ones,
    key_text,
    object_of,
    objects_of,
    offset_number,
    probability,
    type_text,
)

#: The names of the controls in the labelling interface, and of the text.
LABELS, ENTITY, TEXT = "label", "entity", "text"
NIL_LABEL = "NIL"
#: Controls whose value says what a region means.
_MEANINGS = ("textarea", "choices", "taxonomy")
_RESULTS = re.compile(rb'"(?:annotations|predictions)"\s*:\s*\[')
_DATA = re.compile(rb'"data"\s*:\s*\{|"from_name"\s*:\s*"')
HINT = "In Label Studio: Export, format JSON (not JSON-MIN), of a project with <Labels> on <Text>."

_Fields = dict[str, Any]


class LabelStudioSettings(PluginSettings):
    """Settings of ``kglink/labelstudio``."""

    text: str = TEXT
    """The field of a task's data that holds the text."""
    entity: str = ""
    """The control that names the entity of a region; empty: any control."""


class LabelStudioAdapter:
    """Reads a document from each task that is annotated; others are passed over."""

    def __init__(self, settings: LabelStudioSettings) -> None:
        self._settings = settings
        self._golds = GoldReader("auto")

    def read(self, source: Source, problems: Problems) -> Iterator[Record]:
        """Yield the documents in the order of their tasks."""
        return self._read(source, problems, "annotations")

    def answers(
        self, source: Source, problems: Problems, texts: Mapping[str, str]
    ) -> Iterator[Record]:
        """The same of predictions, or where a task has none, of its annotation."""
        return self._read(source, problems, "predictions", "annotations")

    def _read(self, source: Source, problems: Problems, *wanted: str) -> Iterator[Record]:
        def nothing() -> SourceError:
            return SourceError(f"no task in {source.label} has {wanted[-1]}", hint=HINT)

        def document(one: tuple[str, _Fields]) -> Document | None:
            given = (_results(one[1], of) for of in wanted)
            results = next((found for found in given if found is not None), None)
            if results is None:
                problems.pass_over(f"tasks without {wanted[-1]}")
                return None
            return self._document(one[1], results, one[0], problems)

        places = ((source.where(line), task) for line, task in json_objects(source, problems))
        tasks = ((place, (place, task)) for place, task in places)
        return good_ones(tasks, document, problems, hint=HINT, nothing=nothing)

    def _document(
        self, task: _Fields, results: list[_Fields], place: str, problems: Problems
    ) -> Document:
        data = object_of(task.get("data"), "data")
        name = key_text(data.get("id", task.get("id")), "the id of a task")
        text = exact_text(data.get(self._settings.text), f"data.{self._settings.text}")
        where = f"{place}, task {name}"
        regions = list(self._regions(text, results, where, problems))
        unit = best_unit([told for told, _ in regions], ("characters", "utf16"))
        ends = [offset for told, _ in regions for offset in (told.start, told.end)]
        offsets = character_offsets(text, ends, unit)

        def mention(region: tuple[ToldSpan, Mention]) -> Mention:
            told, one = region
            span, words = (told.start, told.end), told.words or None
            start, end, surface = checked_span(text, offsets, span, words, HINT, _holds)
            return replace(one, start=start, end=end, surface=surface)

        found = good_ones(((where, one) for one in regions), mention, problems, hint=HINT)
        return Document(name, text, in_order(found))

    def _regions(
        self, text: str, results: list[_Fields], place: str, problems: Problems
    ) -> Iterator[tuple[ToldSpan, Mention]]:
        """The regions of labels, each with a mention of what other results of its id say."""
        meanings: dict[object, list[object]] = {}
        for one in results:
            control = one.get("from_name")
            if one.get("type") in _MEANINGS and self._settings.entity in ("", control):
                value = object_of(one.get("value"), "value")
                meanings.setdefault(str(one.get("id")), []).extend(_meanings(value))

        def region(one: _Fields) -> tuple[ToldSpan, Mention]:
            value = object_of(one.get("value"), "value")
            start, end = (offset_number(value.get(name), name) for name in ("start", "end"))
            words = value.get("text")  # a line break is written as a backslash and an n
            said = words if isinstance(words, str) else ""
            if said not in text:
                said = said.replace("\\n", "\n")
            labels = type_text(value.get("labels"), "labels")
            nil = [NIL_LABEL] if labels == NIL_LABEL else None
            score = probability(one.get("score"), "the score")
            gold = self._golds.parse(meanings.get(str(one.get("id"))) or nil)
            return ToldSpan(text, start, end, said), Mention(
                start, end, said, gold, labels, confidence=score
            )

        labels = ((place, one) for one in results if one.get("type") == "labels")
        return good_ones(labels, region, problems, hint=HINT)


def sniff(head: SourceHead) -> float:
    """Sure of results that stand beside data or name their control."""
    is_json = head.head.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] in (b"[", b"{")
    both = is_json and _RESULTS.search(head.head) and _DATA.search(head.head)
    return 0.95 if both else 0.0


# ------------------------------------------------------------------------------------ reading
def _results(task: _Fields, of: str) -> list[_Fields] | None:
    """The results of a task: the ground truth, or the last that was not cancelled."""
    done = [one for one in objects_of(task, of) if not one.get("was_cancelled")]
    done.sort(key=lambda one: bool(one.get("ground_truth")))
    return objects_of(done[-1], "result") if done else None


def _holds(words: str, surface: str) -> bool:
    """Whether a surface holds the words of its region, which may have grown to whole words."""
    like = len(surface) < 2 * len(words) + 200
    return like and " ".join(words.split()) in " ".join(surface.split())


def _meanings(value: _Fields) -> Iterator[object]:
    """The texts of a control; of a path in a taxonomy its end."""
    text = value.get("text") if "text" in value and not set(_MEANINGS) & value.keys() else None
    for name in _MEANINGS:
        text = value.get(name, text)
    for one in text if isinstance(text, list) else [text]:
        last = one[-1] if isinstance(one, list) and one else one
        if isinstance(last, str) and last.strip():
            yield last.strip()


# ------------------------------------------------------------------------------------ writing
class LabelStudioExporter:
    """Writes a list of tasks, each with its links as a prediction to correct.

    The label of a mention is the KB of its answer, or NIL; the ids of its entities stand in the
    text area, titles in its note. The score of a task is that of its least sure link.
    """

    def __init__(self, settings: PluginSettings) -> None:
        pass

    def export(self, documents: Iterable[LinkedDocument], out: TextIO) -> None:
        """Write the tasks as they come."""

        def task(document: LinkedDocument) -> str:
            links = document.in_order
            results = [one for at, link in enumerate(links, 1) for one in _of_link(f"m{at}", link)]
            score = json_number(min((link.confidence for link in links), default=1.0))
            prediction = {"model_version": "kglink", "score": score, "result": results}
            data = {"id": document.id, TEXT: document.text}
            return printable_json({"data": data, "predictions": [prediction]})

        write_list(map(task, documents), out)


def _of_link(name: str, link: Link) -> Iterator[dict[str, object]]:
    """The region of a mention, and what it means."""
    entities = [one.chosen for one in link.answers if one.chosen]
    place = {"start": link.start, "end": link.end}
    label = entities[0].id.kb if entities else NIL_LABEL
    yield {
        "id": name,
        "from_name": LABELS,
        "to_name": TEXT,
        "type": "labels",
        "score": json_number(link.confidence),
        "value": place | {"text": link.surface, "labels": [label]},
        "meta": {"text": [one.title for one in entities]},
    }
    yield {
        "id": name,
        "from_name": ENTITY,
        "to_name": TEXT,
        "type": "textarea",
        "value": place | {"text": [str(one.id) for one in entities] or [NIL_LABEL]},
    }
