"""Ontologies in the OBO flat file format, versions 1.2 and 1.4."""

from __future__ import annotations

import re
from collections.abc import Iterator

from kglink.errors import RecordError, SourceError
from kglink.records import Entity, Record
from kglink.sources import Problems, Source, SourceHead
from kglink_kbs.ontology import (
    SCOPES,
    OntologySettings,
    OwnPrefixes,
    Term,
    curie,
    entity_of,
    ontology_name,
    successors,
    survey,
)
from kglink_kbs.rdf import OBO
from kglink_kbs.values import BadValue, shortened

_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_ESCAPED = {"n": "\n", "t": "\t", "W": " "}
_WORDS = r'[^"\\]*(?:\\.[^"\\]*)*'
_QUOTED, _TEXT = re.compile(f'"({_WORDS})"', re.DOTALL), f'"{_WORDS}"'
#: A comment begins behind it, but not in quotes.
_BEFORE_COMMENT = re.compile(rf"(?>{_TEXT}|.)*?(?=(?:^|\s)!)", re.DOTALL)
_KEY = r"[\w:./#-]+\s*=\s*"
_MODIFIERS = re.compile(rf"\{{\s*{_KEY}{_TEXT}(?:\s*,\s*(?:{_KEY})?{_TEXT})*\s*\}}$", re.DOTALL)
_LABEL = re.compile(r'\s"')


def unescaped(text: str) -> str:
    r"""``text`` with its escapes undone: ``\n``, ``\t``, ``\W``, and signs such as ``\"``."""
    if "\\" not in text:
        return text
    return _ESCAPE.sub(lambda found: _ESCAPED.get(found[1], found[1]), text)


def bare_text(value: str) -> str:
    """A value without quotes: comment and modifiers cut off, escapes undone."""
    if "!" in value and (bare := _BEFORE_COMMENT.match(value)):
        value = bare[0].rstrip()
    if value.endswith("}"):
        value = _MODIFIERS.sub("", value).rstrip()
    return unescaped(value).strip()


def quoted_text(value: str, tag: str) -> tuple[str, str]:
    """The text in quotes that ``value`` begins with, and what follows it."""
    found = _QUOTED.match(value)
    if not found:
        raise BadValue(
            f"no text in quotes behind {tag}: {shortened(value)}",
            f'It is written {tag}: "text" ...; a quote inside is written \\".',
        )
    return unescaped(found[1]), value[found.end() :]


#: The tags that are read; OBO 1.0 wrote the scope of a synonym into the tag.
_SYNONYM_TAGS = {b"synonym": "", **{f"{scope}_synonym".encode(): scope for scope in SCOPES}}
_XREF_TAGS = (b"xref", b"xref_analog", b"xref_unk")
_OTHER_TAGS = b"id name def alt_id namespace subset is_a is_obsolete replaced_by consider"
_TAGS = frozenset((*_SYNONYM_TAGS, *_XREF_TAGS, *_OTHER_TAGS.split(), b"property_value"))

_HEADER = re.compile(rb"^(ontology|default-namespace)[ \t]*:[ \t]*([^\s!{]+)", re.MULTILINE)
_ID_STEM = re.compile(rb"\nid[ \t]*:[ \t]*([^\s!]*[_#/:][0-9]{0,3})?")
_FORMAT = re.compile(rb"^format-version[ \t]*:[ \t]*\d", re.MULTILINE)
_STANZA = re.compile(
    rb"^\[(?:Term|Typedef|Instance)\][ \t]*\r?\n(?:[ \t]*\r?\n|!.*\n)*id[ \t]*:", re.M
)
_PURL = re.compile(r"([A-Za-z][A-Za-z0-9.]*):([^\s/#?:]+)")


#: What stands behind a tag, with the number of its line and its place in the file.
_Value = tuple[int, int, bytes]


class OboAdapter:
    """Reads one entity from each live ``[Term]`` of an OBO file."""

    def __init__(self, settings: OntologySettings) -> None:
        self._settings = settings

    def read(self, source: Source, problems: Problems) -> Iterator[Record]:
        """Yield the entities of ``source`` in their order."""
        header = {
            tag: value.decode("utf-8", errors="replace")
            for tag, value in reversed(_HEADER.findall(source.head.head.partition(b"\n[")[0]))
        }
        own = OwnPrefixes(
            self._settings.prefix,
            ontology_name(header.get(b"ontology", "")),
            survey(source, b"\nid", _ID_STEM)[0],
        )
        found = False
        for stanza in _terms(source, own, problems):
            try:
                records = stanza.records(self._settings, header.get(b"default-namespace", ""))
            except BadValue as bad:
                problems.report(bad.at(source.where(stanza.line)))
            except RecordError as error:  # from the decoding of a value
                problems.report(error)
            else:
                found = found or any(isinstance(one, Entity) for one in records)
                yield from records
        if not found and not problems.total:
            raise own.nothing_found(source)


class _Stanza:
    """The lines of one term that are read, by tag; ``line`` is the one that was looked at last."""

    def __init__(self, source: Source, own: OwnPrefixes, line: int) -> None:
        self._source = source
        self._own = own
        self.first = self.line = line
        self.values: dict[bytes, list[_Value]] = {}
        self.bad_line = 0

    def add(self, number: int, start: int, line: bytes) -> None:
        """Take in a line."""
        tag, colon, raw = line.partition(b":")
        tag = tag.strip()
        if tag in _TAGS and colon:
            self.values.setdefault(tag, []).append((number, start + len(line) - len(raw), raw))
        elif tag and not colon and not tag.startswith(b"!"):
            self.bad_line = self.bad_line or number

    def records(self, settings: OntologySettings, default_namespace: str) -> list[Record]:
        """The entity of a live term, what took the place of an obsolete one; none of others."""
        if self.bad_line:
            self.line = self.bad_line
            raise BadValue("a line without a tag", "OBO lines look like name: some text")
        key = curie(self._only(b"id"))
        if key not in self._own:
            return []
        if any(value.lower() == "true" for value in self._bare(b"is_obsolete")):
            replaced_by = map(curie, self._bare(b"replaced_by"))
            return list(successors(key, replaced_by, map(curie, self._bare(b"consider"))))
        title = self._only(b"name") if b"name" in self.values else ""
        if not title:
            return []
        found = _PURL.fullmatch(key)
        purl = f"{OBO}{found[1]}_{found[2]}" if found else ""
        term = Term(
            key=key,
            title=title,
            definition=next((quoted_text(text, "def")[0] for text in self._texts(b"def")), ""),
            url=key if key.startswith("http") else purl,
            namespace=next(self._bare(b"namespace"), ""),
            synonyms=list(self._synonyms()),
            xrefs=list(self._xrefs()),
            alt_ids=[curie(value) for value in self._bare(b"alt_id")],
            subsets=list(self._bare(b"subset")),
            parents=[curie(value) for value in self._bare(b"is_a")],
        )
        self.line = self.first  # what is wrong from here on is wrong with the whole
        return [entity_of(term, settings, default_namespace)]

    def _texts(self, tag: bytes) -> Iterator[str]:
        for line, start, raw in self.values.get(tag, ()):
            self.line = line
            try:
                yield raw.decode("utf-8").strip()
            except UnicodeDecodeError as error:
                source = self._source
                raise source.not_utf8(source.where(line), raw, start, error) from error

    def _bare(self, tag: bytes) -> Iterator[str]:
        return map(bare_text, self._texts(tag))

    def _only(self, tag: bytes) -> str:
        """The value of a tag that a term has once."""
        texts = list(self._bare(tag))
        what = tag.decode()
        if len(texts) > 1:
            raise BadValue(
                f"a second {what} in one term", "An empty line or [Term] may be missing."
            )
        if not texts or not texts[0]:
            self.line = self.line if texts else self.first
            raise BadValue(f"a term without {'an id' if tag == b'id' else 'a name'}")
        return texts[0]

    def _xrefs(self) -> Iterator[str]:
        """Cross-references, behind which a text in quotes may stand, then exact matches."""
        for tag in _XREF_TAGS:
            for text in self._texts(tag):
                text = _MODIFIERS.sub("", text).rstrip()  # noqa: PLW2901 - quotes stand in them
                label = _LABEL.search(text)
                yield curie(bare_text(text[: label.start()] if label else text))
        for text in self._texts(b"property_value"):
            name, _, rest = text.partition(" ")
            if name.endswith("exactMatch"):
                rest = rest.strip()
                quoted = rest.startswith('"')
                target = quoted_text(rest, name)[0] if quoted else rest.partition(" ")[0]
                if target := unescaped(target):
                    yield curie(target)

    def _synonyms(self) -> Iterator[tuple[str, str]]:
        """Scopes and texts; one that says no scope is a related one."""
        for tag, scope in _SYNONYM_TAGS.items():
            for value in self._texts(tag):
                text, rest = quoted_text(value, "synonym")
                said = rest.split(None, 1)[0].lower() if rest.strip() else ""
                yield scope or (said if said in SCOPES else "related"), text


def _terms(source: Source, own: OwnPrefixes, problems: Problems) -> Iterator[_Stanza]:
    """The ``[Term]`` stanzas; what stands in others is passed over."""
    stanza: _Stanza | None = None
    for number, start, line in _logical_lines(source, problems):
        if line.startswith(b"["):
            if stanza:
                yield stanza
            name = line.partition(b"!")[0].strip()
            stanza = _Stanza(source, own, number) if name == b"[Term]" else None
            if not name.endswith(b"]"):
                problems.refuse("the name of a stanza does not end", source.where(number))
        elif stanza:
            stanza.add(number, start, line)
    if stanza:
        yield stanza


def _logical_lines(source: Source, problems: Problems) -> Iterator[tuple[int, int, bytes]]:
    """The lines, those that end with a backslash joined with the next, as one each."""
    parts: list[bytes] = []
    size = first = begin = 0
    for number, start, line in source.byte_lines(problems):
        if not parts:
            if not line.endswith(b"\\"):
                yield number, start, line
                continue
            first, begin, size = number, start, 0
        goes_on = (len(line) - len(line.rstrip(b"\\"))) % 2 == 1
        parts.append(line[:-1] if goes_on else line)
        size += len(line)
        if size > source.limits.max_line_bytes:
            raise SourceError(
                f"{source.where(first)}: a line that is continued with backslashes is longer "
                f"than {source.limits.max_line_bytes:,} bytes",
                hint="If it is one value, raise ingest.max_line_mb.",
            )
        if not goes_on:
            yield first, begin, b"".join(parts)
            parts = []
    if parts:
        yield first, begin, b"".join(parts)


def sniff(head: SourceHead) -> float:
    """Sure of a header with ``format-version`` or of a stanza that begins with an id."""
    data = head.head.removeprefix(b"\xef\xbb\xbf")
    if b"\0" in data or data.lstrip()[:1] in (b"{", b"<"):
        return 0.0
    stanza = _STANZA.search(data)
    if _FORMAT.search(data.partition(b"\n[")[0]):
        return 0.95 if stanza or head.name.endswith(".obo") else 0.6
    return 0.8 if stanza else 0.0
