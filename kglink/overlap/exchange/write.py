"""Writing overlaps for other tools: as SSSOM, and as the plain table of the joint-space paper."""

from __future__ import annotations

import csv
import json
import tempfile
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import TextIO

from kglink.errors import UsageError
from kglink.overlap.exchange.lists import HEADERS, MANUAL, STANDARD, TOOL, CurieMaker, source_of
from kglink.overlap.exchange.matching import GetEntities
from kglink.records import Entity, Overlap
from kglink.text.printable import printable, spreadsheet_cell

BATCH = 500
#: The name space of the numbers of our mapping sets.
_SETS = uuid.UUID("6f0f6a3e-6f4a-5d3e-9d0e-3c1f2b1a7c55")
#: What SSSOM says where nobody said under which licence a set may be used.
NO_LICENCE = "https://w3id.org/sssom/license/unspecified"

COLUMNS = (
    "subject_id", "subject_label", "subject_category", "predicate_id", "predicate_modifier",
    "object_id", "object_label", "object_category", "mapping_justification", "author_id",
    "author_label", "subject_source", "object_source", "mapping_tool", "mapping_tool_version",
    "confidence", "similarity_score", "similarity_measure", "other", "comment",
)  # fmt: skip
PAPER_COLUMNS = (*HEADERS[0], "title1", "title2", "cosine")
#: Cells have no tabs and no line breaks: quotes are all that is quoted.
_writer = partial(csv.writer, delimiter="\t", lineterminator="\n")


@dataclass(frozen=True, slots=True)
class SetInfo:
    """What the head of a table says: whose overlaps, when, by whom, under which licence."""

    kbs: tuple[str, ...]
    date: str
    version: str
    author: str = ""
    licence: str = NO_LICENCE


def write_sssom(
    overlaps: Iterable[Overlap], get_entities: GetEntities, out: TextIO, about: SetInfo
) -> int:
    """Write overlaps as an SSSOM table; says how many there were.

    What a person judged is manual curation: ``wrong`` becomes the modifier ``Not``. All else is a
    proposal, its confidence the probability and its justification the kind of evidence.
    """
    maker = CurieMaker()
    written = 0
    with tempfile.TemporaryFile("w+", encoding="utf-8", newline="\n") as rows:
        table = _writer(rows)
        for overlap, left, right in _with_entities(overlaps, get_entities):
            row = {
                "subject_id": maker.curie(overlap.left, left.url),
                "subject_label": _label(left.title),
                "subject_category": _label(left.type),
                "predicate_id": "skos:exactMatch",
                "object_id": maker.curie(overlap.right, right.url),
                "object_label": _label(right.title),
                "object_category": _label(right.type),
                "mapping_justification": justification_of(overlap),
                "subject_source": source_of(overlap.left.kb),
                "object_source": source_of(overlap.right.kb),
                "other": "; ".join(
                    f"{name}={value:g}" for name, value in sorted(overlap.evidence.items())
                ),
            }
            cosine = cosine_of(overlap)
            if cosine is not None:
                row["similarity_score"] = f"{min(max(cosine, 0.0), 1.0):.4g}"
                row["similarity_measure"] = "cosine of sentence embeddings"
            row |= _judgement(overlap, about)
            table.writerow(printable(row.get(name, "")) for name in COLUMNS)
            written += 1
        out.writelines(_head(about, maker))
        out.write("\t".join(COLUMNS) + "\n")
        rows.seek(0)
        out.writelines(rows)
    return written


def write_paper(overlaps: Iterable[Overlap], get_entities: GetEntities, out: TextIO) -> int:
    """Write overlaps as the paper's table; the cosine is empty where no texts were compared."""
    table = _writer(out)
    table.writerow(PAPER_COLUMNS)
    written = 0
    for overlap, left, right in _with_entities(overlaps, get_entities):
        cosine = cosine_of(overlap)
        ids = [str(overlap.left), str(overlap.right)]
        for one in ids:
            if printable(one) != one:
                raise UsageError(
                    f"{one!r} cannot stand in a plain table", hint="Export to a .sssom.tsv file."
                )
        titles = [_label(one.title) for one in (left, right)]
        cells = [*ids, *titles, "" if cosine is None else f"{cosine:.4f}"]
        table.writerow(map(printable, cells))
        written += 1
    return written


def _with_entities(
    overlaps: Iterable[Overlap], get_entities: GetEntities
) -> Iterator[tuple[Overlap, Entity, Entity]]:
    """Overlaps with their entities; one that is removed meanwhile is passed over."""
    remaining = iter(overlaps)
    while batch := list(islice(remaining, BATCH)):
        known = get_entities({one for pair in batch for one in (pair.left, pair.right)})
        for overlap in batch:
            if overlap.left in known and overlap.right in known:
                yield overlap, known[overlap.left], known[overlap.right]


def _judgement(overlap: Overlap, about: SetInfo) -> dict[str, str]:
    """The cells that differ between proposals and verdicts."""
    if overlap.verdict not in ("correct", "wrong"):
        unclear = "judged unclear" if overlap.verdict else ""
        return {
            "mapping_tool": TOOL,
            "mapping_tool_version": about.version,
            "confidence": f"{overlap.probability:.4g}",
            "comment": unclear,
        }
    judge = told_by(overlap)
    stale = "judged before a title or description changed" if overlap.stale else ""
    author = "" if judge else about.author
    is_id = author.startswith("orcid:") and " " not in author and "|" not in author
    named = {"author_id": author} if is_id else {"author_label": author.replace("|", " ")}
    return named | {
        "predicate_modifier": "Not" if overlap.verdict == "wrong" else "",
        "confidence": "1",
        "comment": "; ".join(filter(None, (f"verdict of {judge}" if judge else "", stale))),
    }


def _head(about: SetInfo, maker: CurieMaker) -> Iterator[str]:
    prefixes = maker.prefixes
    for name in ("orcid", "semapv", "skos"):
        prefixes[name] = STANDARD[name]
    yield "#curie_map:\n"
    for prefix in sorted(prefixes):
        yield f"#  {json.dumps(prefix)}: {json.dumps(prefixes[prefix])}\n"
    number = uuid.uuid5(_SETS, " ".join([*sorted(about.kbs), about.date]))
    values = {
        "mapping_set_id": f"https://w3id.org/sssom/mappings/{number}",
        "mapping_set_title": f"Overlaps of {', '.join(sorted(about.kbs))}",
        "mapping_date": about.date,
        "license": about.licence,
    }
    for name, value in values.items():
        yield f"#{name}: {json.dumps(value, ensure_ascii=False)}\n"


def _label(text: str) -> str:
    """A text of others, which no spreadsheet runs once nothing stands before it any more."""
    return spreadsheet_cell(printable(text))


LEXICAL = "semapv:LexicalMatching"
SIMILAR = "semapv:LexicalSimilarityThresholdMatching"
SEMANTIC = "semapv:SemanticSimilarityThresholdMatching"
STRUCTURAL = "semapv:StructuralMatching"
CHAINED = "semapv:MappingChaining"
TOLD = "semapv:BackgroundKnowledgeBasedMatching"
COMPOSITE = "semapv:CompositeMatching"
UNSPECIFIED = "semapv:UnspecifiedMatching"

_VALUES = {
    LEXICAL: ("title", "name", "more_names", "shared_names", "same_words"),
    SIMILAR: ("words", "letters", "spelling"),
    SEMANTIC: ("description", "text", "texts", "near_names", "all_names", "name_in_text"),
    STRUCTURAL: ("type", "parents", "children", "children_share"),
    CHAINED: ("through",),
    TOLD: ("xref",),
}
#: What kind of reason each value of our evidence is.
REASONS = {value: reason for reason, values in _VALUES.items() for value in values}
#: Values that speak against a pair, or compare it with others: no reasons by themselves.
DOUBTS = {
    *("name_bearers", "other_numbers", "descriptions_differ", "level"),
    *("worse_lead", "better_lead", "conflict"),
}
#: Evidence that is the cosine of two texts, the surest first.
_COSINES = ("description", "text", "texts")


def justification_of(overlap: Overlap) -> str:
    """Why a mapping stands in a table, as a term of the Semantic Mapping Vocabulary."""
    if overlap.verdict in ("correct", "wrong"):
        return UNSPECIFIED if told_by(overlap) else MANUAL
    if not overlap.was_found:
        return UNSPECIFIED
    spoken = {name for name, value in overlap.evidence.items() if value > 0} - DOUBTS
    reasons = {REASONS.get(name, UNSPECIFIED) for name in spoken}
    if LEXICAL in reasons:  # Names that are the same are alike as well.
        reasons.discard(SIMILAR)
    if len(reasons) > 1:
        return COMPOSITE
    return reasons.pop() if reasons else UNSPECIFIED


def told_by(overlap: Overlap) -> str:
    """Where a verdict comes from, unless a person gave it here."""
    if overlap.source == "import":
        return "an imported list"
    return f"the mappings of {overlap.judged_by_kb}" if overlap.judged_by_kb else ""


def cosine_of(overlap: Overlap) -> float | None:
    """The cosine of the two descriptions, or of the two texts."""
    return next((overlap.evidence[name] for name in _COSINES if name in overlap.evidence), None)
