"""Entity ids as CURIEs that other tools accept, and back without loss.

A key that is a CURIE already (``DOID:1485``) stays as it is. A key that is an address is split
after its last ``/`` or ``#``, and what stands before gets a prefix of its own (``kb..1``). Any
other key goes under its KB's name, what a CURIE cannot hold as ``%XX``: ``kb.wiki:Caf%C3%A9``.

The names of KBs do not stand alone: other tools take ``hp`` for another spelling of ``HP``.
"""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import cast, get_args
from urllib.parse import quote, unquote

from kglink.errors import RecordError, SourceError
from kglink.records import EntityId, Verdict
from kglink.sources import Problems, Source
from kglink.sources.sssom import NEEDED, SAME, SssomReader, SssomRow, first_columns, unquoted
from kglink.sources.values import MAX_REASONS, OTHER_REASONS, Line
from kglink.text.codes import code_of, spellings
from kglink.text.printable import MOST_SHOWN, printable

_CURIE = re.compile(r"([A-Za-z_][A-Za-z0-9_.-]*):([A-Za-z0-9_.~-]+)")
_ADDRESS = re.compile(r"(https?://[!-~]*[/#])([A-Za-z0-9_.~-]+)")
#: Prefixes of this beginning are ours; that of a KB's keys has its name behind it.
_OURS = "kb."
_ADDRESSES = "kb.."
_SOURCES = "kb"
#: Prefixes that SSSOM itself uses, always for the same addresses.
STANDARD = {
    "oboInOwl": "http://www.geneontology.org/formats/oboInOwl#",
    "orcid": "https://orcid.org/",
    "owl": "http://www.w3.org/2002/07/owl#",
    "rdf": "http://www.w3.org/1999/02/22-rdf-syntax-ns#",
    "rdfs": "http://www.w3.org/2000/01/rdf-schema#",
    "semapv": "https://w3id.org/semapv/vocab/",
    "skos": "http://www.w3.org/2004/02/skos/core#",
    "sssom": "https://w3id.org/sssom/",
}
_RESERVED = frozenset(
    {*STANDARD, "dc", "dcterms", "ftp", "http", "https", "kb", "mailto", "pav", "urn"}
)


class CurieMaker:
    """Makes CURIEs of entities and remembers the prefixes that they need.

    A prefix leads to the addresses of its entities where all of them have one that ends as the
    CURIE does, else to a ``urn:kglink:``, which leads nowhere and clashes with nothing.
    """

    def __init__(self) -> None:
        self._bases: dict[str, str] = {}
        self._spelt: dict[str, str] = {}
        self._namespaces: dict[str, str] = {}

    def curie(self, entity: EntityId, url: str = "") -> str:
        """The CURIE of an entity that has the address ``url``."""
        address = _ADDRESS.fullmatch(entity.key)
        if address:
            number = len(self._namespaces) + 1
            prefix = self._namespaces.setdefault(address[1], f"{_ADDRESSES}{number}")
            return f"{prefix}:{address[2]}"
        prefix, local = _OURS + entity.kb, quote(entity.key, safe="", errors="strict")
        native = _CURIE.fullmatch(entity.key)
        if (
            native
            and native[1] not in _RESERVED
            and not native[1].startswith(_OURS)
            # Two prefixes that differ in case alone are one and the same to other tools.
            and self._spelt.setdefault(native[1].lower(), native[1]) == native[1]
        ):
            prefix, local = native.groups()
        base = url.removesuffix(local) if url.endswith(local) else ""
        if not base.startswith(("http://", "https://")) or not base.isprintable() or " " in base:
            base = ""
        if self._bases.setdefault(prefix, base) != base:
            self._bases[prefix] = ""
        return f"{prefix}:{local}"

    @property
    def prefixes(self) -> dict[str, str]:
        """Every prefix that was needed, and what it stands for."""
        found = {prefix: space for space, prefix in self._namespaces.items()}
        taken = {*STANDARD.values(), *found.values()}
        for prefix, base in sorted(self._bases.items()):
            found[prefix] = base if base and base not in taken else f"urn:kglink:{prefix}:"
            taken.add(found[prefix])
        return found | {_SOURCES: "urn:kglink:kb:"}


def source_of(kb: str) -> str:
    """How a table names a KB as the source of an entity."""
    return f"{_SOURCES}:{kb}"


def kb_of(source: str) -> str:
    """The KB that a table of ours names as a source; empty for anything else."""
    prefix, _, kb = source.partition(":")
    return kb if prefix == _SOURCES else ""


def keys_of(text: str, kb: str, prefixes: Mapping[str, str], named: str = "") -> list[str]:
    """The keys that an id of a list may mean in a KB, the likeliest first.

    The id may be ours, a key, ``kb:key``, or a code that the KB spells in another way. The list
    may have ``named`` the KB, by the name that its writer knows it by.
    """
    prefix, colon, local = text.partition(":")
    whole = prefixes[prefix] + local if colon and prefix in prefixes else ""
    ours = _OURS + kb, _OURS + (named or kb)
    mine = unquote(local) if colon and prefix in ours else ""
    with_kb = local if colon and prefix == kb else ""
    of_an_address = bool(whole) and prefix.startswith(_ADDRESSES)
    likely = [whole, text] if of_an_address else [mine, text, with_kb, whole]
    codes = filter(None, (code_of(text), code_of(whole)))
    spelt = (spelling for code in codes for spelling in spellings(code))
    return list(dict.fromkeys(filter(None, (*likely, *spelt))))


#: What a table's header may call the two columns of ids.
HEADERS = (
    ("kg1_id", "kg2_id"),
    ("left", "right"),
    ("id_a", "id_b"),
    ("id1", "id2"),
    ("subject", "object"),
    ("source", "target"),
)
#: Lines that are no rows of a plain table: remarks, and how Excel names the delimiter.
_NO_ROW = re.compile('"?(?:#|sep=.[;,]*"?$)')
#: How a table of ours names the tool that made a row.
TOOL = "kglink"
MANUAL = "semapv:ManualMappingCuration"


@dataclass(frozen=True, slots=True)
class ListedPair:
    """Two ids as a list writes them, what it says of them, and the KBs that it names."""

    place: str
    left: str
    right: str
    verdict: Verdict = "correct"
    left_kb: str = ""
    right_kb: str = ""


@dataclass(slots=True)
class PairList:
    """The pairs of a list, read one by one; ``left_out`` counts the rows that say no verdict.

    ``prefixes`` is whole once the first pair was read.
    """

    source: Source
    min_confidence: float = 0.0
    prefixes: Mapping[str, str] = field(default_factory=dict)
    left_out: Counter[str] = field(default_factory=Counter)

    def __iter__(self) -> Iterator[ListedPair]:
        self.left_out.clear()
        if _is_sssom(self.source):
            reader = SssomReader(self.source, Problems(how_to_skip=""))
            self.prefixes, head = reader.prefixes, reader.values
            for row in reader:

                def said(slot: str, row: SssomRow = row) -> str:
                    """A value of the row or of the head, where other tools put common values."""
                    return row.values.get(slot, "") or head.get(slot, "")

                reason = self._unusable(row, said("mapping_tool"))
                if reason:
                    is_new = len(self.left_out) < MAX_REASONS or reason in self.left_out
                    self.left_out[reason if is_new else OTHER_REASONS] += 1
                    continue
                yield ListedPair(
                    row.place,
                    row.subject,
                    row.object,
                    "wrong" if row.denied else "correct",
                    kb_of(said("subject_source")),
                    kb_of(said("object_source")),
                )
        else:
            yield from self._table()

    def _table(self) -> Iterator[ListedPair]:
        """The paper's table, or two columns; a column ``verdict`` may say what each pair is."""
        source = self.source
        read = source.lines(Problems(how_to_skip=""))
        lines: Iterator[Line] = (line for line in read if line.text.strip())
        first = next((line for line in lines if not _NO_ROW.match(line.text.rstrip())), None)
        if first is None:
            raise SourceError(f"{source.label} holds no pairs", hint=_FORMATS)
        delimiter = next((sign for sign in "\t;," if sign in first.text), "\t")
        cells = _cells(first, delimiter)
        names = [cell.lower() for cell in cells]
        ends = next((pair for pair in HEADERS if set(pair) <= set(names)), None)
        columns = {name: at for at, name in reversed([*enumerate(names)])}
        if ends is None:
            lines = chain([first], lines)
            cells = cells[:2]
            names, ends, columns = [], ("left", "right"), {"left": 0, "right": 1}
        for line in lines:
            place = source.where(line.number)
            row = _cells(line, delimiter)
            is_key = (
                len(row) == len(cells) and all(row) and (delimiter == "\t" or " " not in row[0])
            )
            if not any(row) or (row[0].startswith("#") and not is_key):
                continue
            if not names and len(row) != 2:
                raise RecordError(
                    f"{len(row)} columns without a header", where=place, hint=_FORMATS
                )
            if names and len(row) != len(cells):
                raise RecordError(
                    f"a row of {len(row)} cells under a header of {len(cells)}",
                    where=place,
                    hint="Cells are separated as in the first row, and hold no line breaks.",
                )
            left, right = (row[columns[end]] for end in ends)
            if not (left and right):
                raise RecordError("an empty id", where=place, hint="Each row names two entities.")
            said = row[columns["verdict"]].lower() if "verdict" in columns else "correct"
            if said:
                yield ListedPair(place, left, right, _verdict(said, place))
            else:
                self.left_out["rows without a verdict"] += 1

    def _unusable(self, row: SssomRow, tool: str) -> str:
        """Why a row is no verdict; empty where it is one."""
        if row.joins_nothing:
            return "terms without a counterpart"
        if row.predicate not in SAME:
            return f"rows of the predicate {printable(row.predicate, MOST_SHOWN)}"
        if tool == TOOL and row.values.get("mapping_justification") != MANUAL:
            return "proposals of kglink that nobody judged"
        if row.confidence < self.min_confidence:
            return f"rows less confident than {self.min_confidence:g}"
        return ""


def _is_sssom(source: Source) -> bool:
    """Whether the name or one column is SSSOM's: a broken header counts as SSSOM too."""
    head = source.head
    if ".sssom." in head.name or head.name.endswith(".sssom"):
        return True
    columns = first_columns(head)
    return not columns.isdisjoint(NEEDED) or (columns == {""} and b"curie_map:" in head.head)


def _verdict(said: str, place: str) -> Verdict:
    if said not in get_args(Verdict):
        known = ", ".join(get_args(Verdict))
        shown = printable(said, MOST_SHOWN)
        raise RecordError(f"'{shown}' is no verdict", where=place, hint=f"One of: {known}.")
    return cast("Verdict", said)


def _cells(line: Line, delimiter: str) -> Sequence[str]:
    if delimiter == "\t":  # a quote in a cell may be a sign like any other
        return [unquoted(cell) for cell in line.text.split("\t")]
    try:
        return [cell.strip() for cell in next(csv.reader([line.text], delimiter=delimiter))]
    except csv.Error:  # it is told as a row of one cell
        return [line.text]


_FORMATS = (
    "A list of pairs is an SSSOM table, a table with the columns kg1_id and kg2_id, a table "
    "with the columns left, right and verdict, or two columns of ids, with tabs, semicolons or "
    "commas between them."
)
