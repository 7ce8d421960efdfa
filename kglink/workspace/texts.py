"""Files as texts to link: each read by the adapter that knows its format."""

from __future__ import annotations

import codecs
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from kglink.config import AUTO, LinkSection
from kglink.errors import ConfigError, RecordError, SourceError, UsageError
from kglink.plugins import KBAdapter, PluginSettings, Registry
from kglink.plugins.registry import PLAIN_TEXT
from kglink.plugins.settings import setting_keys
from kglink.records import Document, Span, TextInput
from kglink.sources import Problems, Source, read_records
from kglink.sources.encoding import convert, wide_encoding
from kglink.workspace.opened import Opened

DOCUMENTS = "kglink/documents"
#: Formats of annotated texts that say at their beginning what they are, and how their files end.
_CORPORA = {
    "kglink/bioc": (".bioc", ".json", ".xml"),
    "kglink/labelstudio": (".json",),
    "kglink/nif": (".nif", ".nt", ".ttl"),
    "kglink/pubtator": ("",),
}
_JSON_NAMES = (".jsonl", ".ndjson", ".json")


class Part(NamedTuple):
    """Which of several parts of the texts is read; in their order they are all texts."""

    number: int
    of: int

    @classmethod
    def parse(cls, text: str) -> Part:
        """The part that ``3/10`` names."""
        number, _, of = text.partition("/")
        if not (number.isdecimal() and of.isdecimal() and 1 <= int(number) <= int(of)):
            raise UsageError(f"{text!r} names no part", hint="The third of ten parts is 3/10.")
        return cls(int(number), int(of))

    def cut(self, count: int) -> slice:
        """The places of this part among those of a number of things."""
        return slice(count * (self.number - 1) // self.of, count * self.number // self.of)


def texts(
    opened: Opened, source: str | Path, *, problems: Problems | None = None
) -> Iterator[TextInput]:
    """The texts of a file, of a folder's files or of standard input (``-``), for `link`.

    ``link.input`` and ``link.input_settings`` say how they are read. Bad texts go to
    ``problems``; without it, ``ingest.on_error`` says whether they stop the reading.
    """
    settings = opened.settings
    problems = problems or Problems(settings.ingest.on_error)
    reader = TextReader(opened.registry, problems, settings.link)
    with opened.open_source(source) as given:
        yield from reader.read(given)


class TextReader:
    """Reads sources as texts to link.

    With ``link.input`` ``auto`` each file is read by the adapter that knows its format, and
    ``link.input_settings`` go to all adapters that have them. ``marked``: files that are no JSON
    are plain texts in which the mentions are marked. ``part``: `read` gives this part alone, of a
    folder some of its files, and of a file some of its texts.
    """

    def __init__(
        self,
        registry: Registry,
        problems: Problems,
        link: LinkSection,
        *,
        marked: bool = False,
        part: Part | None = None,
    ) -> None:
        self.left_out: dict[str, str] = {}
        """A folder's files that are not text, each with how to make it one; empty: it is none."""
        self.files_begun = self.files_left = self.texts_read = 0
        """How far `read` is: files, those that are still to be read, and their texts."""
        self._registry = registry
        self.problems = problems
        self._adapter = AUTO if link.input == AUTO else registry.get("kb", link.input).name
        self._marked = marked
        self._part = part
        self._settings = link.input_settings
        self._check_settings()
        self._made: dict[str, KBAdapter] = {}

    def read(self, source: Source) -> Iterator[TextInput]:
        """The texts of a file, or of a folder's files in the order of their names."""
        for text in self._texts_of(source):
            self.texts_read += 1
            yield text

    def _texts_of(self, source: Source) -> Iterator[TextInput]:
        if not source.is_folder:
            self.files_begun = 1
            texts = self._read(source)
            if self._part:
                unsaid = Problems(self.problems.on_error)
                cut = self._part.cut(sum(1 for _ in self._read(source, unsaid)))
                texts = islice(texts, cut.start, cut.stop)
            yield from texts
            return
        files = source.files()
        if not files:
            raise SourceError(f"{source.path} holds no file", hint="Name a folder of texts.")
        if self._part:
            files = files[self._part.cut(len(files))]
        for number, file in enumerate(files, 1):
            self.files_begun, self.files_left = number, len(files) - number
            try:
                if file.bytes_total and (
                    self._name_of(file) in (PLAIN_TEXT, DOCUMENTS) and b"\0" in file.head.head
                ):
                    encoding = wide_encoding(file.head.head)
                    how = f"{file.name} is {encoding}: {convert(encoding, file.file)}"
                    self.left_out[file.name] = how if encoding else ""
                    continue
                yield from self._read(file)
            except RecordError:
                raise  # one that was reported, and stops the run
            except SourceError as error:
                if self.problems.on_error == "stop":
                    may_not_be_read = isinstance(error.__cause__, OSError)
                    error.hint += " Or pass over it: --on-error skip." if may_not_be_read else ""
                    raise
                self.problems.report(RecordError(error.message, where=file.name, hint=error.hint))

    def read_lines(self, lines: Iterable[tuple[int, bytes]], where: str) -> Iterator[TextInput]:
        """A text for each line, as soon as it comes; its id is its number.

        A line that is a JSON object with a ``text`` is read as such, and may name its own id.
        """
        for number, line in lines:
            single = Source.from_bytes(line.rstrip(b"\r\n"), name=f"line {number}")
            try:
                yield from self._line(single, str(number))
            except SourceError as error:
                place = f"{where}, line {number}"
                reason = error.reason if isinstance(error, RecordError) else error.message
                self.problems.report(RecordError(reason, where=place, hint=error.hint))

    def _line(self, line: Source, number: str) -> Iterator[TextInput]:
        with line.open() as stream:
            data = stream.read().removeprefix(codecs.BOM_UTF8)
        if data.lstrip()[:1] == b"{" and b'"text"' in data:
            for text in self._inputs(DOCUMENTS, line, Problems()):
                own = f"{line.name}:1"  # made of the place: the record names no id
                yield TextInput(number if text.id == own else text.id, text.text, text.spans)
        elif data:
            name = PLAIN_TEXT if self._adapter == AUTO else self._adapter
            for text in self._inputs(name, line, Problems()):
                yield TextInput(number, text.text, text.spans, text.meta)
        else:
            yield TextInput(number, "")

    def _read(self, source: Source, problems: Problems | None = None) -> Iterator[TextInput]:
        if not source.bytes_total:  # An empty text is a text.
            yield TextInput(source.name, "")
            return
        yield from self._inputs(self._name_of(source), source, problems or self.problems)

    def _inputs(self, name: str, source: Source, problems: Problems) -> Iterator[TextInput]:
        if name not in self._made:
            self._made[name] = self._registry.create("kb", name, self._settings_of(name))
        reader = self._made[name]
        for record in read_records(name, reader.read, source, problems):
            if not isinstance(record, Document):
                raise UsageError(
                    f"{source.name} holds entities, not texts",
                    hint="Entities are added with `kglink add-kb NAME FILE`.",
                )
            spans = tuple(Span(mention.start, mention.end) for mention in record.mentions)
            yield TextInput(record.id, record.text, spans or None, record.meta)

    def _name_of(self, source: Source) -> str:
        if self._adapter != AUTO:
            return self._adapter
        # JSON with one document a line; prose may begin with a bracket too.
        name, head = source.head.name.lower(), source.head.head
        is_record = name == "-" and head.lstrip()[:1] == b"{" and b'"text"' in head
        is_json = name.endswith(_JSON_NAMES) or is_record
        if is_json and self._registry.surest([DOCUMENTS], source.head):
            return DOCUMENTS
        corpora = [one for one, ends in _CORPORA.items() if name.endswith(ends)]
        if not self._marked and (corpus := self._registry.surest(corpora, source.head)):
            return corpus
        if is_json:
            return DOCUMENTS
        return PLAIN_TEXT if self._marked else self._registry.guess_text(source.head)

    def _settings_of(self, name: str) -> PluginSettings:
        own = dict(self._settings)
        if self._adapter == AUTO:
            known = setting_keys(self._registry.get("kb", name).settings)
            own = {key: value for key, value in own.items() if key in known}
            if self._marked and "marked" in known:
                own["marked"] = True
        return self._registry.settings_for("kb", name, own)

    def _check_settings(self) -> None:
        """Some adapter has each of the settings, and takes its value."""
        if self._adapter != AUTO:
            self._settings_of(self._adapter)
            return
        names = [DOCUMENTS, *_CORPORA, *self._registry.text_adapters()]
        each = (self._registry.get("kb", one).settings for one in names)
        known = {key for one in each for key in setting_keys(one)}
        for key in self._settings.keys() - known:
            raise ConfigError(
                f"no text adapter has a setting {key!r}",
                hint=f"There is: {', '.join(sorted(known))}.",
            )
        for name in names if self._settings else ():
            if name not in _CORPORA:  # what one of these cannot take is told with its file
                self._settings_of(name)
