"""Raw text linked: documents in a second, one long text, and the memory that it takes.

``python benchmarks/raw_text.py WORKSPACE DOCS [DOCS ...] [--texts 70]`` links the first texts of
stored documents, whose mentions are looked for. ``python benchmarks/raw_text.py WORKSPACE --file
TEXT [--characters 1000000]`` links one text, a file repeated up to so many characters; a place
``[[marked|key]]`` is read as what is marked.
"""

from __future__ import annotations

import argparse
import re
import resource
import time
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

from kglink.records import TextInput
from kglink.workspace import Workspace


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("workspace")
    parser.add_argument("docs", nargs="*")
    parser.add_argument("--texts", type=int, default=70)
    parser.add_argument("--file", type=Path, default=None)
    parser.add_argument("--characters", type=int, default=1_000_000)
    options = parser.parse_args()
    with Workspace.open(options.workspace) as workspace:
        for docs in options.docs:
            documents = islice(workspace.store.documents(docs), options.texts)
            measure(workspace, docs, [TextInput(one.id, one.text) for one in documents])
        if options.file:
            text = re.sub(r"\[\[(.+?)\|.+?\]\]", r"\1", options.file.read_text(encoding="utf-8"))
            long = (text * (options.characters // len(text) + 1))[: options.characters]
            measure(workspace, options.file.name, [TextInput("long", long)])


def measure(workspace: Workspace, name: str, texts: Sequence[TextInput]) -> None:
    first = TextInput("first", texts[0].text[:2000])
    list(workspace.link([first]))  # loads the model
    before = memory()
    began, computed = time.perf_counter(), time.process_time()
    links = sum(len(document.links) for document in workspace.link(texts))
    seconds, computed = time.perf_counter() - began, time.process_time() - computed
    characters = sum(len(one.text) for one in texts)
    print(
        f"{name}: {len(texts)} texts, {characters:,} characters, {links:,} mentions, "
        f"{seconds:.1f} s ({computed:.1f} s of one core): {len(texts) / seconds:.1f} a second, "
        f"{memory() - before:.0f} MiB more"
    )


def memory() -> float:
    """The most memory that was in use so far, in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    main()
