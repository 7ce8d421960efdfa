"""`kglink demo`: the whole journey on two small KBs that come with kglink."""

from __future__ import annotations

import sys
import tempfile
import time
from importlib.resources import as_file, files
from pathlib import Path
from typing import TYPE_CHECKING

from typer import Option

from kglink.config import CONFIG_FILE
from kglink.errors import UsageError
from kglink.records import TextInput
from kglink.workspace.outputs import whole_file
from kglink_cli.build import build_with_progress
from kglink_cli.console import note, print_table, say, write_tables
from kglink_cli.evaluation_tables import end_to_end_table
from kglink_cli.finetune import finetune_with_progress, print_finetuned
from kglink_cli.overlap_review import found_text, pair_name

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kglink.evaluation.measures.retrieval import RetrievalReport
    from kglink.training.job import FinetuneJob
    from kglink.workspace import AddedKB, Workspace

KBS = ("encyclopedia", "lanternfall")
DOCUMENTS = "demo_documents"
#: The file that each is read from.
SOURCES = {**{kb: f"{kb}.jsonl" for kb in KBS}, DOCUMENTS: "documents.jsonl"}
LICENCE = "CC0-1.0"
#: Chosen on the split dev.
RECIPE = "small"
#: A third of the recipe's epochs; more gained nothing on dev and takes a minute.
EPOCHS = 2
#: How many first candidates of each KB a reranker reads here.
RERANKED = 2
#: What the demo's annotators marked.
ANNOTATED = """
Every name of the two KBs is annotated in these texts, so the precision of links is known. Of names
that neither KB has (NIL) only some are: answers at the others count against detection and NIL.
"""
#: How the table of steps is read.
STEPS = """
Each step is measured on the same mentions, of texts that nothing was learnt or chosen from. A KB's
row ranks its entities alone, [joint] those of both KBs, [judged joint] those of KBs with an answer.
"""
#: What is said of the step with a reranker.
READ_AGAIN = f"""
With rerank the first {RERANKED} candidates of each KB are read together with the mention. The
fine-tuning makes another model, which is measured without a reranker: it wants one of its own.
"""


def demo(
    folder: Path | None = Option(None, "--dir", help="Folder to work in; else a temporary one."),
    html: Path | None = Option(None, help="File for the page; by default demo.html in the folder."),
    quick: bool = Option(False, "--quick", help="Leave out the fine-tuning (half a minute)."),
    rerank: bool = Option(False, "--rerank", help="Also train a reranker; see whether it helps."),
) -> None:
    """Add two KBs, build their space, find what they share, learn, link, train; measure each step.

    An encyclopedia and the fan wiki of an invented series, which share names that mean the same
    thing, and names that do not.
    """
    from kglink.workspace import Workspace, init_workspace

    began = time.monotonic()
    made = folder or Path(tempfile.mkdtemp(prefix="kglink-demo-"))
    page = html or made / "demo.html"
    if not (made / CONFIG_FILE).exists():
        if html is None and page.exists():
            raise UsageError(f"{page} is there already", hint="Name a file with --html.")
        init_workspace(made)
    note("demo", f"working in {made}")
    with as_file(files("kglink_cli") / "demo_data") as data, Workspace.open(made) as workspace:
        _refuse_others(workspace)
        for kb in KBS:
            _show(f"kglink add-kb {kb} {SOURCES[kb]}")
            _tell(workspace.add_kb(kb, data / SOURCES[kb], licence=LICENCE))
        _show(f"kglink add-kb {DOCUMENTS} {SOURCES[DOCUMENTS]} --links-to {','.join(KBS)}")
        _tell(workspace.add_kb(DOCUMENTS, data / SOURCES[DOCUMENTS], links_to=KBS, licence=LICENCE))
        _show("kglink build")
        build_with_progress(workspace)
        steps = {"build": _measured(workspace)}
        _show("kglink overlap")
        for report in workspace.find_overlaps():
            say(f"{pair_name(report)}   {found_text(report)}")
        steps["overlap"] = _measured(workspace)
        _show(f"kglink learn {DOCUMENTS}   # what names meant in the documents of the split train")
        say(f"{workspace.learn(DOCUMENTS)} surfaces are remembered")
        steps["learn"] = _measured(workspace)
        _show(f"kglink link text.txt   # and as a page: --format html -o {page}")
        source = TextInput("text.txt", (data / "text.txt").read_text(encoding="utf-8"))
        linked = list(workspace.linker().link([source]))
        workspace.registry.create("exporter", "kglink/table").export(linked, sys.stdout)
        with whole_file(workspace, page) as out:
            workspace.registry.create("exporter", "kglink/html").export(linked, out)
        say("", f"{time.monotonic() - began:.1f} s from nothing to the linked text")
        _show(f"kglink eval --docs {DOCUMENTS} --split test --end-to-end   # what users get")
        raw = workspace.evaluate_end_to_end(DOCUMENTS, split="test", complete=True)
        write_tables([end_to_end_table(raw)])
        say(*ANNOTATED.splitlines())
        if rerank and _train_reranker(workspace):
            with workspace.with_settings({"link.rerank_top": RERANKED}) as asking:
                steps["rerank"] = _measured(asking)
        if not quick and _finetune(workspace):
            steps["finetune"] = _measured(workspace)
        _show(f"kglink eval --docs {DOCUMENTS} --split test   # R@1 after each step, places given")
        _print_steps(steps)
        say("", f"{time.monotonic() - began:.1f} s in all")
    say(
        "",
        f"The page: {page}",
        "",
        "Now with your own files:",
        "  kglink add-kb mykb entities.jsonl   # id, title, description, aliases; or CSV",
        "  kglink add-kb other other.csv && kglink overlap",
        "  kglink link mytext.txt --format html -o mytext.html",
    )


def _refuse_others(workspace: Workspace) -> None:
    """Refuse a workspace that holds anything but the demo's KBs, from an earlier run."""
    for kb in workspace.kbs():
        if Path(kb.source).name != SOURCES.get(kb.name):
            raise UsageError(
                f"{workspace.folder} is a workspace of your own: it has the KB {kb.name!r}",
                hint="Name a new folder with --dir, or leave it out.",
            )


def _trained(workspace: Workspace, job: FinetuneJob, refused: str) -> bool:
    """Fine-tune; whether the space has what was made."""
    done = finetune_with_progress(workspace, job)
    print_finetuned(done)
    if done.refused:
        say("", f"{refused}: {done.refused}.")
    return not done.refused


def _train_reranker(workspace: Workspace) -> bool:
    """Teach a reranker to read mention and candidate together; whether the space has it now."""
    from kglink.training.job import FinetuneJob

    reading = f"KGLINK_LINK_RERANK_TOP={RERANKED}"
    _show(f"{reading} kglink finetune --what reranker --recipe {RECIPE} --docs {DOCUMENTS}")
    job = FinetuneJob(docs=(DOCUMENTS,), what="reranker", recipe=RECIPE)
    with workspace.with_settings({"link.rerank_top": RERANKED}) as asking:
        is_made = _trained(asking, job, "The reranker is not used")
    if is_made:
        say("", f"It is asked by kglink link --rerank {RERANKED}.")
    return is_made


def _finetune(workspace: Workspace) -> bool:
    """Teach the model what the two KBs call things; whether the space has that model now."""
    from kglink.training.job import FinetuneJob

    source, target = KBS
    kbs = f"--source-kb {source} --target-kb {target}"
    _show(f"kglink finetune --recipe {RECIPE} --sources TOS {kbs} --set train.epochs={EPOCHS}")
    changes = {"train": {"epochs": EPOCHS}}
    job = FinetuneJob([source], [target], sources="TOS", recipe=RECIPE, changes=changes)
    return _trained(workspace, job, "The space stays as it was")


def _measured(workspace: Workspace) -> RetrievalReport:
    return workspace.evaluate(DOCUMENTS, split="test", ks=(1,))


def _print_steps(steps: Mapping[str, RetrievalReport]) -> None:
    first = steps["build"]
    rows = [
        [pool, first.mentions[pool], *(f"{one.recall(pool)['R@1']:.3f}" for one in steps.values())]
        for pool in first.pools()
    ]
    columns = ("pool", "mentions", *steps)
    print_table(columns, rows, right=range(1, len(columns)))
    say(*STEPS.splitlines())
    if "rerank" in steps:
        say(*READ_AGAIN.splitlines())


def _show(command: str) -> None:
    say("", f"$ {command}")
    sys.stdout.flush()


def _tell(added: AddedKB) -> None:
    summary = added.summary
    held = f"{summary.documents} documents, {summary.mentions} mentions"
    if summary.added or summary.unchanged:
        held = f"{summary.with_description} with description, {summary.aliases} aliases"
    say(f"{summary.kb} {summary}   {held}")
