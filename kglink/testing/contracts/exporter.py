"""The contract of exporters: repeatable, streaming, and true to every offset."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Literal, NamedTuple

from kglink.plugins import Exporter
from kglink.records import Candidate, EntityId, Link, LinkedDocument
from kglink.testing.contracts.base import NASTY_TEXTS, PluginContract


class ExportedSpan(NamedTuple):
    """A span as an output states it: the text, the offsets into it, and the surface."""

    text: str
    start: int
    end: int
    surface: str


class ExporterContract(PluginContract):
    """The output says what the documents say, for every text."""

    kind = "exporter"
    output: Literal["json", "jsonl", "text"] = "text"
    """What the output is; the spans of JSON are compared with the documents."""
    streams: bool = True
    """Whether a document is written before the last one has come."""

    def exported_spans(self, output: str) -> Iterable[ExportedSpan]:
        """The spans that an output states; override it for JSON of another shape than ours.

        Ours has objects with ``text`` and ``entities``, each with ``start``, ``end``, ``text``.
        """
        values = [json.loads(output)] if self.output == "json" else _json_lines(output)
        return (span for value in values for span in _spans_within(value))

    def test_offsets_survive(self) -> None:
        documents = linked_documents()
        output = self._export(documents)
        assert output.strip(), "nothing was written"
        if self.output != "text":
            exported = sorted(self.exported_spans(output))
        elif not (self.generic and (exported := sorted(_spans_if_json(output)))):
            return
        wanted = sorted(
            ExportedSpan(document.text, link.start, link.end, link.surface)
            for document in documents
            for link in document.links
        )
        assert exported == wanted
        assert all(span.text[span.start : span.end] == span.surface for span in exported)

    def test_same_documents_give_the_same_output(self) -> None:
        exporter, documents = self.make(), linked_documents()
        outputs = {_written(exporter, documents) for _ in range(2)} | {self._export(documents)}
        assert len(outputs) == 1

    def test_documents_differ_in_the_output(self) -> None:
        documents = [document for document in linked_documents() if document.links]
        assert self._export(documents[:1]) != self._export(documents[1:2])

    def test_no_document_gives_a_valid_output(self) -> None:
        output = self._export([])
        if self.output == "json":
            assert json.loads(output) in ([], {})
        if self.output == "jsonl":
            assert output == ""

    def test_takes_documents_from_a_generator_as_they_come(self) -> None:
        documents = linked_documents()
        out = io.StringIO()
        lengths: list[int] = []

        def arriving() -> Iterator[LinkedDocument]:
            for document in documents:
                lengths.append(len(out.getvalue()))
                yield document

        self.make().export(arriving(), out)
        assert len(lengths) == len(documents), "not all documents were taken"
        if self.streams and not self.generic:
            assert lengths[-1] > lengths[1], "nothing is written before the last document"
        assert out.getvalue() == self._export(documents)

    def test_leaves_the_output_open_and_encodable(self) -> None:
        out = io.StringIO()
        self.make().export(linked_documents(), out)
        assert not out.closed
        out.getvalue().encode("utf-8")

    def _export(self, documents: Iterable[LinkedDocument]) -> str:
        return _written(self.make(), documents)


def linked_documents() -> list[LinkedDocument]:
    """A document for each nasty text, with links, NIL, overlaps, or nothing at all."""
    return [
        LinkedDocument(f"doc:{number}", text, tuple(_links(text)), {"windows": 1})
        for number, text in enumerate(NASTY_TEXTS)
    ]


def _links(text: str) -> Iterator[Link]:
    """Up to three spans of a text, the second of them NIL."""
    cuts = sorted({0, len(text) // 3, 2 * len(text) // 3, len(text)})
    for number, (start, end) in enumerate(pairwise(cuts)):
        candidates = tuple(
            Candidate(
                EntityId("people", f"P:{number}:{rank}"),
                f'Ada "{rank}" <b>',
                0.9 - rank / 10,
                also=(EntityId("other", "A1"),) if rank == 0 else (),
            )
            for rank in range(2)
        )
        chosen = None if number == 1 else candidates[0]
        yield Link(start, end, text[start:end], candidates, chosen, 0.8)


def _written(exporter: Exporter, documents: Iterable[LinkedDocument]) -> str:
    out = io.StringIO()
    exporter.export(documents, out)
    return out.getvalue()


def _json_lines(output: str) -> list[object]:
    # Not splitlines(): a JSON string may hold U+2028, which ends no line of JSON lines.
    return [json.loads(line) for line in output.split("\n") if line]


def _spans_if_json(output: str) -> Iterator[ExportedSpan]:
    """The spans of an output of which nobody said what it is; none where it is no JSON."""
    for read in (lambda: [json.loads(output)], lambda: _json_lines(output)):
        try:
            values = read()
        except json.JSONDecodeError:
            continue
        yield from _spans_within(values)
        return


def _spans_within(value: object) -> Iterator[ExportedSpan]:
    if isinstance(value, list):
        for item in value:
            yield from _spans_within(item)
    if isinstance(value, dict):
        text, entities = value.get("text"), value.get("entities")
        if isinstance(text, str) and isinstance(entities, list):
            for entity in entities:
                yield ExportedSpan(text, entity["start"], entity["end"], entity["text"])
        else:
            for item in value.values():
                yield from _spans_within(item)
