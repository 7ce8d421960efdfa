"""How big the house is, room by room: ``make budget`` prints it, and nothing grows unseen.

The limits are the figures of the day on which somebody last looked at them, rounded up. Whoever
needs more raises one in the same commit, and says what for; whoever needs less lowers it.
"""

from __future__ import annotations

import ast
import functools
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import typer

from kglink.config import all_settings
from kglink.plugins import load_registry
from kglink_cli.main import build_app

ROOT = Path(__file__).parents[2]
ROOTS = (
    "kglink",
    "cli/kglink_cli",
    "kbs/kglink_kbs",
    "plugins/kglink_plugins",
    "papers/kglink_papers",
    # Changes wait for each other; connections that send nothing are closed.
    "doors/kglink_doors",
)


class Size(NamedTuple):
    """How much there is of a room, or how much there may be."""

    lines: int
    modules: int
    classes: int

    def __add__(self, other: Size) -> Size:  # type: ignore[override]  # field by field
        return Size(*(mine + more for mine, more in zip(self, other, strict=True)))


#: The rooms of `kglink`, and the other packages as a whole.
MOST: dict[str, Size] = {
    # A review of links, a chart of thresholds, and the XML of a sheet, so that workbooks stream; a
    # plan of what a source will take; finished chunks of a cluster, kept and put together.
    # Commands share their work with a cluster.
    # Options that change nothing are refused. `explain` reads standard input as `link` does.
    # Errors of a plugin's command name it; what is learnt or fitted and no longer counts is told.
    # Explanations take the limits of links.
    # After an update, what to run again.
    "cli/kglink_cli": Size(8_152, 34, 23),
    # Wikis as they are: subpages by the tails that repeat, prose in templates, types from boxes
    # and categories.
    # Pieces of dumps are parsed where the scratch folder is not seen. Long names have bounds.
    # Workbooks and Parquet.
    # Numbers above the line in pages, Word and PDF files.
    # Links to sections are no names. Workers start with Ctrl-C blocked.
    # Wikis and thesauri in other languages.
    "kbs/kglink_kbs": Size(10_730, 51, 115),
    # Proxies, monitors, unknown parameters.
    # Clients that have gone, also of agents; unknown arguments of tools; why a body is no JSON;
    # every line on standard input is answered. Lines have numbers; one name needs no list.
    # Booleans are no numbers; what no line can be asked is told once. Branches by every door.
    "doors/kglink_doors": Size(3_312, 19, 38),
    # Types of arrays are said once.
    # Errors of plugins name them; TOML in both spellings; missing rights. What plugins print goes
    # to standard error.
    # Golds that have gone stay with their mentions.
    # Errors that pass between processes; types of what programs give.
    "kglink": Size(1_770, 8, 53),
    "kglink/clusters": Size(438, 4, 6),
    # What each threshold keeps, and pages of wikis, which are annotated in part; places that are
    # annotated twice; checks of other tools' rankings.
    # How a wiki gives documents.
    # Whether a source is annotated whole is asked in one place.
    "kglink/evaluation": Size(3_636, 14, 42),
    # Records sorted on disk, and arrays written as they come: KBs of millions in little memory.
    "kglink/files": Size(985, 6, 10),
    # Memory weighs sources by likeness, and doubts kinds that they leave unmarked; two detectors
    # asked together; of which KBs a text speaks; names with thousands of bearers.
    # Texts are read in one layout, in their usual case, and answered at their own places.
    # Given places are read so everywhere; counted uses are level between KBs.
    # Names are compared as they are typed.
    "kglink/linking": Size(5_192, 29, 55),
    # Any chain of sentence-transformers in and out, int8 on CPUs, no compiler to read a model;
    # padding between the two texts of a cross-encoder; brackets of UMLS's names; attention on GPUs;
    # hashes of large files are kept.
    # Places where a model would replace something; full disks in all its folders.
    # Scores that are no tensors; forked processes.
    "kglink/models": Size(5_710, 31, 63),
    # Parts of a KB are compared by workers of a cluster. A journal says what it has carried out.
    # Lists that a spreadsheet has written.
    # Evidence that names no value; probabilities that are none.
    "kglink/overlap": Size(3_206, 15, 40),
    "kglink/plugins": Size(1_826, 7, 51),
    # Records of readers are checked as those of programs were. Workbooks and Parquet, moved here.
    # Records are checked whole: golds, splits, kinds of names, numbers of arrays.
    # Encodings of other languages.
    "kglink/sources": Size(2_181, 11, 20),
    # Segments in layers: an update writes what changed; rounded codes are compared anew; lists of
    # token vectors around centroids.
    # What an index of a plugin answers is checked.
    "kglink/space": Size(4_318, 21, 48),
    # Sources that are annotated at random count nothing.
    # How often a word had a capital of its own where it was learnt. Overlaps are read in the order
    # of an index, and what mappings say is applied anew.
    # Refused updates leave nothing; witnesses have a file.
    # A thread reads one state: a text costs two transactions.
    # Memory counts golds that have gone.
    "kglink/store": Size(5_101, 21, 39),
    "kglink/testing": Size(1_970, 13, 19),
    # Words that stand for a place.
    # Texts in whatever layout.
    # Letters in parts and unseen signs; the sentences of wikitext live here now.
    # What is glued to names.
    "kglink/text": Size(1_587, 14, 11),
    # Resumed runs of every kind are checked alike.
    # Rerankers that go on from another; a part of the mentions; mining and judging on a GPU.
    # Recipes and how they are read have a file each. What plugins of training give is checked.
    # Losses that are no tensors.
    # Plugins that change what they are given.
    "kglink/training": Size(5_408, 21, 62),
    # Overlaps that a refused run takes back; what was promoted, and where.
    # Links reviewed by a person; rerankers that learn from lists of a file; plans;
    # jobs of chunks, and the workers of a Ray cluster, which encode as well.
    # Dumps, overlaps and tables too, in their order; a wait for workers that ends.
    # Tokens of Ray clusters. Who may not write is told before the work. Plugins that do not exist
    # are told before a build, values of a wrong type everywhere.
    # Raw texts are compared before a model is published; discoveries of what has gone; the
    # code of adapters.
    # Indexes of plugins that are gone; what programs give is checked; forked processes.
    "kglink/workspace": Size(9_307, 33, 64),
    # Cross-encoders, oracles and clusters as steps of a protocol; BLINK's cross-encoder converted.
    # Released weights are checked against the model that they were made from.
    "papers/kglink_papers": Size(2_561, 13, 21),
    # Models, units, and titles without them; dates, and what only joins a name to others; HNSW by
    # distances; the exact index on a GPU; names compiled by sorting on disk.
    # What a sentence's beginning gives a capital to; codes behind names; capitals of all scripts.
    # Phrases and pages are compared by what is alike long.
    # Descriptions by their first sentences.
    # Names in the cases of their languages, and descriptions in two scripts.
    "plugins/kglink_plugins": Size(7_898, 54, 125),
}
#: Private functions that one place of their module calls, as a share of all private functions.
MOST_CALLED_ONCE = 0.5
#: Settings of a workspace and of kglink's plugins, commands, and their flags.
#: `explain` takes the encoding, the limits and the threshold that `link` takes.
MOST_SETTINGS, MOST_COMMANDS, MOST_FLAGS = 346, 39, 251


def room_of(path: Path) -> str:
    """The room that a module stands in: of `kglink` a folder, else the whole package."""
    parts = path.relative_to(ROOT).parts
    return "/".join(parts[: 1 if parts[0] == "kglink" and len(parts) == 2 else 2])


@functools.cache
def modules() -> tuple[tuple[Path, str, list[ast.AST]], ...]:
    """Every module of the product: its file, its text, and the nodes of its tree."""
    paths = (path for root in ROOTS for path in sorted((ROOT / root).rglob("*.py")))
    texts = ((path, path.read_text(encoding="utf-8")) for path in paths)
    return tuple((path, text, list(ast.walk(ast.parse(text)))) for path, text in texts)


def rooms() -> dict[str, Size]:
    """The size of each room."""
    found: dict[str, Size] = {}
    for path, text, nodes in modules():
        classes = sum(isinstance(node, ast.ClassDef) for node in nodes)
        own = Size(len(text.splitlines()), 1, classes)
        found[room_of(path)] = found.get(room_of(path), Size(0, 0, 0)) + own
    return found


def private_functions() -> tuple[int, int]:
    """How many private functions there are, and how many of them are called once."""
    count = once = 0
    for _, text, nodes in modules():
        words = Counter(re.findall(r"\w+", text))
        for node in nodes:
            if isinstance(node, ast.FunctionDef) and re.match("_[^_]", node.name):
                count += 1
                once += words[node.name] == 2
    return count, once


def setting_count() -> int:
    """The settings of a workspace, and those of kglink's own plugins."""
    own = sum(len(one.settings.model_fields) for one in load_registry(only="builtin").plugins())
    return own + len(list(all_settings()))


def commands_and_flags() -> tuple[int, int]:
    """The commands that do something, and the options that they have."""

    def walk(command: Any) -> Iterator[Any]:
        children = getattr(command, "commands", {}).values()
        yield from (one for child in children for one in walk(child))
        if not children or command.invoke_without_command:
            yield command

    found = list(walk(typer.main.get_command(build_app())))
    flags = (one for command in found for one in command.params if one.opts[0].startswith("-"))
    return len(found), len(list(flags))


def test_no_room_has_grown_past_its_limit() -> None:
    grown = {
        room: (size, MOST.get(room))
        for room, size in rooms().items()
        if room not in MOST or any(own > most for own, most in zip(size, MOST[room], strict=True))
    }
    assert not grown, f"bigger than tests/project/test_budget.py allows: {grown}"
    assert not MOST.keys() - rooms().keys(), "rooms that are gone still have a limit"


def test_no_more_private_functions_are_called_once() -> None:
    count, once = private_functions()
    assert once / count <= MOST_CALLED_ONCE


def test_no_more_settings_commands_and_flags() -> None:
    commands, flags = commands_and_flags()
    assert setting_count() <= MOST_SETTINGS
    assert commands <= MOST_COMMANDS
    assert flags <= MOST_FLAGS


def test_the_budget_can_be_read(capsys: pytest.CaptureFixture[str]) -> None:
    main()
    assert "kglink/store" in capsys.readouterr().out


def main() -> None:
    """Print the table."""
    out = sys.stdout.write
    out(f"{'room':<24}{'lines':>8}{'modules':>9}{'classes':>9}\n")
    found = rooms()
    for room, size in sorted(found.items(), key=lambda one: -one[1].lines):
        out(f"{room:<24}{size.lines:>8,}{size.modules:>9}{size.classes:>9}\n")
    total = sum(found.values(), Size(0, 0, 0))
    out(f"{'all':<24}{total.lines:>8,}{total.modules:>9}{total.classes:>9}\n")
    count, once = private_functions()
    out(f"private functions {count:,}, called once {once:,} ({once / count:.0%})\n")
    commands, flags = commands_and_flags()
    out(f"settings {setting_count()}, commands {commands}, flags {flags}\n")


if __name__ == "__main__":
    main()
