"""UMLS: the concepts of a release in Rich Release Format (MRCONSO, MRSTY, MRDEF)."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import groupby, islice
from typing import Literal

from kglink.errors import SourceError
from kglink.plugins import PluginSettings
from kglink.records import Alias, Entity, Record
from kglink.sources import Problems, Source, SourceHead
from kglink_kbs.values import good_ones, listed, one_line, plain_text

#: The 21 semantic types, each with its place in the tree of the semantic network: what lies
#: below it belongs to the subset too.
ST21PV_TYPES = {
    "T005": "A1.1.4",  # Virus
    "T007": "A1.1.2",  # Bacterium
    "T017": "A1.2",  # Anatomical Structure
    "T022": "A2.1.4.1",  # Body System
    "T031": "A1.4.2",  # Body Substance
    "T033": "A2.2",  # Finding
    "T037": "B2.3",  # Injury or Poisoning
    "T038": "B2.2.1",  # Biologic Function
    "T058": "B1.3.1",  # Health Care Activity
    "T062": "B1.3.2",  # Research Activity
    "T074": "A1.3.1",  # Medical Device
    "T082": "A2.1.5",  # Spatial Concept
    "T091": "A2.6.1",  # Biomedical Occupation or Discipline
    "T092": "A2.7",  # Organization
    "T097": "A2.9.1",  # Professional or Occupational Group
    "T098": "A2.9.2",  # Population Group
    "T103": "A1.4.1",  # Chemical
    "T168": "A1.4.3",  # Food
    "T170": "A2.4",  # Intellectual Product
    "T201": "A2.3.1",  # Clinical Attribute
    "T204": "A1.1.3",  # Eukaryote
}

ST21PV_SOURCES = frozenset(
    (
        *("CPT", "FMA", "GO", "HGNC", "HPO", "ICD10", "ICD10CM", "ICD9CM", "MDR", "MSH", "MTH"),
        *("NCBI", "NCI", "NDDF", "NDFRT", "OMIM", "RXNORM", "SNOMEDCT_US"),
    )
)


def in_st21pv(tui: str, tree_number: str) -> bool:
    """Whether a semantic type is one of the 21 or lies below one of them."""
    if tui in ST21PV_TYPES:
        return True
    return any(tree_number.startswith(f"{place}.") for place in ST21PV_TYPES.values())


_CONCEPTS, _TYPES, _DEFINITIONS = "MRCONSO.RRF", "MRSTY.RRF", "MRDEF.RRF"
#: The fewest columns of a row; a bar ends each of them, so there is one cell more.
_COLUMNS = {_CONCEPTS: 17, _TYPES: 4, _DEFINITIONS: 6}
#: Releases differ by a column or two; a row with more is two rows, or holds a bar in a cell.
_SPARE = 3
MAX_ROWS = 100_000
_CUI = re.compile("C[0-9]{7}")
_NO_CODES = frozenset({"", "NOCODE"})
_PAGE = "https://uts.nlm.nih.gov/uts/umls/concept/"


class UmlsSettings(PluginSettings):
    """Settings of ``kglink/umls``."""

    subset: Literal["", "st21pv"] = ""
    """`st21pv`: the 21 semantic types and 18 sources of MedMentions ST21pv; else all concepts."""
    sources: str = ""
    """Sources whose atoms are read, separated by commas (`MSH,OMIM`); empty for all, or for the 18
    of the subset."""
    language: str = "ENG"
    """The language of the names, in three letters."""


#: The cells of some rows of one of the files; the first cell is the concept.
_Rows = list[list[str]]


class UmlsAdapter:
    """Reads the files of a release side by side, each once, concept by concept."""

    def __init__(self, settings: UmlsSettings) -> None:
        named = frozenset(listed(settings.sources))
        self._subset = settings.subset == "st21pv"
        self._sources = named or (ST21PV_SOURCES if self._subset else frozenset())
        self._language = settings.language

    def read(self, source: Source, problems: Problems) -> Iterator[Record]:
        """Yield an entity for each concept with a name that is wanted."""
        files = _files(source, needs_types=self._subset)
        types = _rows_of_concept(files.get(_TYPES), _TYPES, problems)
        definitions = _rows_of_concept(files.get(_DEFINITIONS), _DEFINITIONS, problems)
        seen: Counter[str] = Counter()

        def entity(one: tuple[str, _Rows]) -> Entity | None:
            cui, rows = one
            atoms = [row for row in rows if row[1] == self._language and row[16] == "N"]
            made = self._entity(cui, atoms, types(cui), definitions(cui))
            if made is None:
                seen.update([*(row[1] for row in rows), *(atom[11] for atom in atoms)])
            return made

        def nothing() -> SourceError:
            there = ", ".join(f"{name} ({n:,})" for name, n in seen.most_common(12))
            return SourceError(
                f"{source.label} holds no concept that is wanted",
                hint="Wanted are names in the `language`, not suppressed, of the `sources` and the "
                f"`subset`. There is: {there or 'nothing'}.",
            )

        concepts = _concepts(files[_CONCEPTS], _CONCEPTS, problems)
        places = ((f"{place} (concept {cui})", (cui, rows)) for place, cui, rows in concepts)
        return good_ones(places, entity, problems, nothing=nothing)

    def _entity(self, cui: str, atoms: _Rows, types: _Rows, definitions: _Rows) -> Entity | None:
        named = [a for a in atoms if not self._sources or a[11] in self._sources]
        names = list(filter(None, (one_line(atom[14], "a name") for atom in named)))
        if not names or (self._subset and not any(in_st21pv(*row[1:3]) for row in types)):
            return None
        preferred = (a for a in named if (a[2], a[4], a[6]) == ("P", "PF", "Y"))
        title = one_line(next(preferred, named[0])[14], "a name") or names[0]
        codes = ((atom[11], atom[13]) for atom in named if atom[13] not in _NO_CODES)
        # The first definition that is not suppressed and belongs to one of the atoms.
        known = {"", *(atom[7] for atom in atoms)}
        shown = (row for row in definitions if row[6:7] in ([], ["N"], [""]))
        defined = next((row[5] for row in shown if row[1] in known), "")
        return Entity(
            key=cui,
            title=title,
            description=plain_text(defined, "a definition"),
            type=", ".join(dict.fromkeys(one_line(row[3], "a type") for row in types)),
            url=_PAGE + cui,
            language="en" if self._language == "ENG" else "",
            aliases=tuple(Alias(n, "synonym") for n in dict.fromkeys(names) if n != title),
            xrefs=tuple(dict.fromkeys(f"{vocabulary}:{code}" for vocabulary, code in codes)),
        )


def _rows_of_concept(file: Source | None, name: str, problems: Problems) -> Callable[[str], _Rows]:
    """What gives the rows of a concept, asked for in order, in a file that need not know it."""
    groups = _concepts(file, name, problems) if file else iter(())
    waiting = next(groups, None)

    def of(cui: str) -> _Rows:
        nonlocal waiting
        while waiting and waiting[1] < cui:
            waiting = next(groups, None)
        return waiting[2] if waiting and waiting[1] == cui else []

    return of


def sniff(head: SourceHead) -> float:
    """Sure of a folder with MRCONSO.RRF below it, or of the beginning of that file."""
    if head.path and not head.head:
        with suppress(OSError):
            near = ("", "*/", "*/*/")
            return 0.95 if any(any(head.path.glob(f"{at}{_CONCEPTS}*")) for at in near) else 0.0
        return 0.0
    line = head.head.partition(b"\n")[0].decode("utf-8-sig", errors="replace").rstrip("\r")
    cells = line.split("|")
    return 0.9 if len(cells) == 19 and _CUI.fullmatch(cells[0]) and len(cells[1]) == 3 else 0.0


def _files(source: Source, *, needs_types: bool) -> dict[str, Source]:
    """The files of a release by their names; a single file is the one with the names."""
    if not source.is_folder:
        found = {_CONCEPTS: source}
    else:
        found = {}
        for file in source.files("*.RRF*"):
            name, _, suffix = file.name.rpartition("/")[2].partition(".RRF")
            if f"{name}.RRF" in _COLUMNS and suffix in ("", ".gz", ".bz2", ".zst", ".xz"):
                found.setdefault(f"{name}.RRF", file)
    wanted = [_CONCEPTS, *([_TYPES] if needs_types else [])]
    for name in wanted:
        if name not in found:
            raise SourceError(
                f"there is no {name} in {source.label}",
                hint="Name the folder of a release (META); MetamorphoSys writes it.",
            )
    return found


def _concepts(file: Source, name: str, problems: Problems) -> Iterator[tuple[str, str, _Rows]]:
    """The concepts in their order: where each begins, its id, its rows."""
    for cui, group in groupby(_rows(file, name, problems), lambda row: row[1][0]):
        rows = list(islice(group, MAX_ROWS + 1))
        place = file.where(rows[0][0])
        if len(rows) > MAX_ROWS:
            raise SourceError(
                f"{place}: {cui} has more than {MAX_ROWS:,} rows in {name}",
                hint="No concept of UMLS has as many; is the file damaged?",
            )
        yield place, cui, [cells for _, cells in rows]


def _rows(file: Source, name: str, problems: Problems) -> Iterator[tuple[int, list[str]]]:
    """The cells of each row, with the number of its line."""
    columns, last = _COLUMNS[name], ""
    for line in file.lines(problems):
        if not line.text:
            continue
        cells = line.text.split("|")
        place = file.where(line.number)
        if not columns < len(cells) <= columns + _SPARE or not _CUI.fullmatch(cells[0]):
            what = f"{len(cells) - 1} columns" if _CUI.fullmatch(cells[0]) else "no concept"
            reason = f"a row of {name} with {what}"
            hint = f"It begins with a concept (C0000005) and has {columns} columns or a few more."
            problems.refuse(reason, place, hint)
            continue
        if cells[0] < last:
            raise SourceError(
                f"{place}: {name} is not sorted by concept: {cells[0]} after {last}",
                hint="Releases are. Sort it: LC_ALL=C sort -s -t '|' -k1,1 "
                f"{shlex.quote(name)} -o {shlex.quote(name)}",
            )
        last = cells[0]
        yield line.number, cells
