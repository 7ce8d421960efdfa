"""From raw text: strict F1 of detection and of links, by each detector and by both together.

    python benchmarks/detection.py WORKSPACE [--train DOCS] [--docs DOCS] [--rows ROWS] [--kbs KBS]

WORKSPACE holds KBs, and annotated documents of which every mention is marked. With --train a
detector is trained on these documents first (`kglink finetune --what detector`); without, the
space's own is measured. --docs are measured, each by itself; --texts takes the first N of each,
and --kbs links to these KBs alone.
Every row is measured in a process of its own: its memory is the peak of that process, and its
seconds are those of linking alone, after the first text. --speed links one long text besides.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from kglink import FinetuneJob, Workspace
from kglink.evaluation.annotated import AnnotatedText, merged_texts, of_linked_types
from kglink.evaluation.measures.end_to_end import (
    Answer,
    EndToEndReport,
    answers_of,
    evaluate_answers,
)
from kglink.linking.pipeline import Linker
from kglink.records import TextInput

ROWS: Mapping[str, tuple[str, ...]] = {
    "dictionary": ("kglink/dictionary",),
    "learned": ("kglink/learned",),
    "together": ("kglink/learned", "kglink/dictionary"),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("workspace", type=Path)
    parser.add_argument("--train", default="")
    parser.add_argument("--docs", default="pt_ncbi_devel,pt_bc5cdr_development")
    parser.add_argument("--rows", default=",".join(ROWS))
    parser.add_argument("--texts", type=int, default=0)
    parser.add_argument("--kbs", default="", help="KBs that are linked to; none: all")
    parser.add_argument("--speed", type=int, default=0, help="characters of the long text")
    parser.add_argument("--row", default="", help=argparse.SUPPRESS)
    told = parser.parse_args()
    if told.row:
        for docs in told.docs.split(","):
            found = measured(told.workspace, told.row, docs, told.texts, told.kbs)
            print(json.dumps(found), flush=True)
        if told.speed:
            print(json.dumps(speed(told.workspace, told.row, told.docs, told.speed)), flush=True)
        return
    if told.train:
        train(told.workspace, tuple(told.train.split(",")))
    print("detector     documents               P    R    F1  detection   P    R    F1  links")
    for row in told.rows.split(","):
        command = [sys.executable, __file__, *sys.argv[1:], "--row", row]
        for line in subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout.splitlines():
            show(row, json.loads(line))


def train(folder: Path, docs: Sequence[str]) -> None:
    """Train a detector, and say how long it took."""
    with Workspace.open(folder) as workspace:
        began = time.monotonic()
        done = workspace.finetune(FinetuneJob(what="detector", docs=docs))
        assert done.detector is not None  # noqa: S101 - a run of a detector has one
        best = done.detector.held_out
        print(
            f"trained on {len(done.detector.texts.train)} texts in "
            f"{time.monotonic() - began:.0f} s; "
            f"held out: P {best.precision:.3f} R {best.recall:.3f} F1 {best.f1:.3f}"
        )


def measured(folder: Path, row: str, docs: str, most: int, named: str) -> dict[str, object]:
    """The figures of one row on the documents of one source."""
    with Workspace.open(folder, flags={"link.detector": ROWS[row]}) as workspace:
        kbs = workspace.space().kbs(tuple(filter(None, named.split(","))))
        whole = merged_texts(docs, workspace.store.documents(docs))
        texts = of_linked_types(whole, kbs)[0][: most or None]
        linker = workspace.linker(kbs)
        warm(linker, texts[0].text)
        seconds = 0.0

        def answers(_: Sequence[str]) -> Iterator[Sequence[Answer]]:
            nonlocal seconds
            began = time.monotonic()
            inputs = (TextInput(one.id, one.text) for one in texts)
            found = [answers_of(linked) for linked in linker.link(inputs)]
            seconds = time.monotonic() - began
            return iter(found)

        report = evaluate_answers(texts, kbs, answers, per_kb=False)
    return {"docs": docs, **figures(report), **pace(texts, seconds)}


def speed(folder: Path, row: str, docs: str, characters: int) -> dict[str, object]:
    """How fast one long text is linked, made of the documents' own."""
    with Workspace.open(folder, flags={"link.detector": ROWS[row]}) as workspace:
        name = docs.partition(",")[0]
        texts = [one.text for one in workspace.store.documents(name)]
        long = "\n\n".join(texts * (1 + characters // sum(map(len, texts))))[:characters]
        linker = workspace.linker()
        warm(linker, texts[0])
        began = time.monotonic()
        (linked,) = linker.link([TextInput("long", long)])
        seconds = time.monotonic() - began
    return {
        "docs": f"one text, {characters:,}",
        "mentions": len(linked.links),
        "seconds": seconds,
        "characters": characters / seconds,
        "megabytes": peak(),
    }


def warm(linker: Linker, text: str) -> None:
    """Load what the first text needs: models, names and memory."""
    list(linker.link([TextInput("warm", text)]))


def figures(report: EndToEndReport) -> dict[str, object]:
    """Precision, recall and F1, strict, of detection and links."""
    detection, links = report.joint.detection["strict"], report.joint.links["strict"]
    return {
        "detection": list(detection.micro),
        "links": list(links.micro),
        "invented": report.invented(),
        "missed": report.missed(),
        "ece": report.joint.calibration.ece,
    }


def pace(texts: Sequence[AnnotatedText], seconds: float) -> dict[str, float]:
    """Documents and characters a second, and the peak of memory so far."""
    return {
        "documents": len(texts) / seconds,
        "characters": sum(len(one.text) for one in texts) / seconds,
        "megabytes": peak(),
    }


def peak() -> float:
    """The most memory that this process had, in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def show(row: str, found: dict[str, object]) -> None:
    """One line of the table, and what went wrong most."""
    if "detection" not in found:
        print(
            f"{row:12} {found['docs']:20} {found['mentions']:,} mentions in "
            f"{found['seconds']:.1f} s, {found['characters']:,.0f} characters/s, "
            f"{found['megabytes']:,.0f} MiB"
        )
        return
    detection, links = (
        " ".join(f"{one:.3f}" for one in found[name])  # type: ignore[attr-defined]  # read from JSON
        for name in ("detection", "links")
    )
    print(
        f"{row:12} {found['docs']:22} {detection}   {links}   "
        f"{found['documents']:.1f} documents/s, "
        f"{found['characters']:,.0f} characters/s, {found['megabytes']:,.0f} MiB, "
        f"ECE {found['ece']:.3f}"
    )
    for what in ("invented", "missed"):
        print(f"{'':12} {what}: " + ", ".join(f"{one} {n}" for one, n in found[what]))  # type: ignore[attr-defined]  # read from JSON


if __name__ == "__main__":
    main()
