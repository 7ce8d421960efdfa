"""`kglink finetune`: from KBs and annotated documents to a space with a model of its own."""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal

import typer
from typer import Option

from kglink.errors import UsageError
from kglink.records import Progress
from kglink_cli import shared
from kglink_cli.console import (
    Reached,
    Show,
    counted,
    display,
    note,
    print_json,
    print_table,
    reached,
    say,
)
from kglink_cli.interrupts import go_on_by
from kglink_cli.session import open_workspace, split_names

if TYPE_CHECKING:
    from kglink.training.detector import DetectorReport
    from kglink.training.job import EpochNews, FinetuneJob, News, Planned
    from kglink.workspace import Workspace
    from kglink.workspace.publish import Finetuned

What = Literal["all", "linker", "detector", "reranker"]
#: Stages that make no space.
_ALONE = ("D", "R")
#: Which of several processes this is, as torchrun and `accelerate launch` say it.
_RANK = "RANK"


def finetune(
    context: typer.Context,
    what: What = Option(
        "all",
        help="linker: the model that reads mentions and entities; detector: what finds mentions "
        "in texts; all: both, the detector if documents are annotated completely; reranker: "
        "what reads mention and candidate together (`kglink link --rerank`).",
    ),
    sources: str = Option(
        "",
        help="Stages: S (mentions of the source KBs), T (of the target KBs), O (overlaps), TS, "
        "TO, SO or TOS; by default the recipe's, or all that have something to learn from.",
    ),
    source_kb: list[str] | None = Option(
        None, help="The source KBs: a,b; by default the KB with the most annotated mentions."
    ),
    target_kb: list[str] | None = Option(None, help="The target KBs: a,b; by default all others."),
    docs: list[str] | None = Option(None, help="Documents to learn from: a,b; by default all."),
    recipe: str | None = Option(None, help="Recipe by name (`kglink recipes`), or a .toml file."),
    changes: list[str] | None = Option(None, "--set", help="A value of the recipe: train.epochs=2"),
    seed: int | None = Option(None, help="Seed of all random choices; else the recipe's.", min=0),
    run: str = Option("", help="Name of the run; by default the recipe's name and a number."),
    resume: bool = Option(False, "--resume", help="Go on with --run, or the last unfinished run."),
    space: str | None = Option(None, help="Space to build with the model (space.name)."),
    publish: bool | None = Option(
        None,
        "--publish/--no-publish",
        help="Publish the space even if it answers no better than the one before; or only train. "
        "By default it is published if it answers better.",
    ),
    checkpoint_steps: int = Option(
        500, help="Save a checkpoint every N steps, and after each epoch.", min=1
    ),
    as_json: shared.AsJson = False,
) -> None:
    """Fine-tune a model on several KBs, and publish their joint space with it and a detector.

    If the model answers held-out mentions no better than before, nothing is published: the
    command says so, and ends with exit code 1.

    Under torchrun: `torchrun --nproc-per-node 2 -m kglink_cli finetune ...`.
    """
    from kglink.training.job import FinetuneJob

    job = FinetuneJob(
        what=what,
        source_kbs=split_names(source_kb),
        target_kbs=split_names(target_kb),
        sources=sources,
        docs=split_names(docs),
        recipe=recipe,
        changes=read_changes(changes or [], seed),
        run=run,
        resume=resume,
        space=space or "",
        publish=publish,
        checkpoint_steps=checkpoint_steps,
    )
    with open_workspace(context, {"space.name": space}) as workspace:
        if os.environ.get(_RANK, "0") != "0":
            workspace.finetune(job)
            return
        words = f"`kglink finetune --resume{f' --run {run}' * bool(run)}` goes on with the run"
        if resume:
            go_on_by(words)
        done = finetune_with_progress(workspace, job, begun=lambda: go_on_by(words))
    if as_json:
        print_json(_as_json(done))
    else:
        print_finetuned(done)
    if done.refused:
        raise typer.Exit(1)


def _as_json(done: Finetuned) -> dict[str, Any]:
    """A fine-tuning, and the space that was built with its model."""
    manifest = done.build.manifest if done.build else None
    record: dict[str, Any] = {
        "run": done.report.folder.name,
        **done.report.as_json(),
        "after": done.report.recalls,
        "space": manifest.name if manifest else None,
        "unpublished": done.refused or None,
        "kbs": list(manifest.kbs) if manifest else None,
        "encoded_rows": done.build.encoded_rows if done.build else None,
        "scoring": asdict(done.scoring) if done.scoring else None,
        "answers": done.replacement.as_json() if done.replacement else None,
        "detector": None,
        "reranker": None,
    }
    if detector := done.detector:
        made, best = detector.manifest, detector.held_out
        record["detector"] = {
            "folder": str(detector.folder),
            "documents": list(made.documents),
            "types": list(made.types),
            "texts": len(detector.texts.train),
            "held_out": len(detector.texts.held_out),
            **{name: getattr(best, name) for name in ("precision", "recall", "f1")},
            "dictionary_f1": made.compared.dictionary if made.compared else None,
            "together_f1": made.compared.together if made.compared else None,
            "elsewhere": {name: one.model_dump() for name, one in made.elsewhere.items()},
            "used": made.is_better,
        }
    if reranker := done.reranker:
        compared = reranker.manifest.compared
        record["reranker"] = {
            "folder": str(reranker.folder),
            "documents": list(reranker.manifest.documents),
            "right": reranker.figure,
            "compared": compared.model_dump() if compared else None,
        }
    return record


def finetune_with_progress(
    workspace: Workspace, job: FinetuneJob, begun: Callable[[], None] = lambda: None
) -> Finetuned:
    """Fine-tune with a progress bar, and a line for each epoch, on standard error.

    ``begun`` is called once there is a run that can be gone on with.
    """
    with display() as show:
        done = workspace.finetune(job, progress=finetune_news(show, begun))
    _tell(done)
    return done


def print_finetuned(done: Finetuned) -> None:
    """Recall on the mentions held back, of the model before and after, on standard output."""
    if done.report.sources in _ALONE:
        return
    before, after = done.report.before, done.report.recalls
    if after is None or before is None:
        say("no documents were held back: `kglink eval` measures on others")
        return
    metrics, mentions, joint = tuple(after["mean"]), after["mentions"], "judged_joint"
    pools = [(kb, mentions[kb], before["kb"][kb], own) for kb, own in after["kb"].items()]
    pools.append(("[judged joint]", mentions[joint], before[joint], after[joint]))
    rows = [
        [pool, count, *(f"{found[metric]:.3f}" for metric in metrics for found in both)]
        for pool, count, *both in pools
    ]
    whens = (f"{metric} {when}" for metric in metrics for when in ("before", "after"))
    columns = ("pool", "mentions", *whens)
    print_table(columns, rows, right=range(1, len(columns)))


def read_changes(pairs: Sequence[str], seed: int | None = None) -> dict[str, Any]:
    """``train.epochs=2`` as a recipe's file would say it."""
    values: dict[str, Any] = {}
    for pair in pairs:
        key, equals, text = pair.partition("=")
        names = key.strip().split(".")
        if not equals or not all(names):
            raise UsageError(
                f"--set {pair!r} is not key=value", hint="Example: --set train.epochs=2"
            )
        inner = values
        for name in names[:-1]:
            inner = inner.setdefault(name, {})
            if not isinstance(inner, dict):
                raise UsageError(f"--set {pair!r}: {name!r} was given a value already")
        try:
            inner[names[-1]] = _value(text.strip())
        except RecursionError as error:
            raise UsageError(f"--set {text.strip()[:40]}...: nested too deeply") from error
    if seed is not None:
        values["seed"] = seed
    return values


def _value(text: str) -> Any:
    """A number, a truth, a list or a table as TOML or JSON writes it; anything else is a text."""
    with suppress(tomllib.TOMLDecodeError):
        return tomllib.loads(f"value = {text}")["value"]
    with suppress(ValueError):  # no JSON
        return json.loads(text) if text.startswith("{") else text
    return text


def _detector_text(detector: DetectorReport) -> str:
    """How well it does on held-out documents, and whether texts are read with it."""
    best, compared = detector.held_out, detector.manifest.compared
    text = (
        f"precision {best.precision:.3f}, recall {best.recall:.3f}, F1 {best.f1:.3f} on "
        f"{counted(len(detector.texts.held_out), 'held-out text')}"
    )
    if compared is None:
        return f"{text}; no space has it yet"
    made = detector.manifest
    use = "used from now on" if made.finds_alone else "used beside the dictionary from now on"
    if not made.is_better:
        use = "not used: the dictionary is better"
    answers = (
        f"F1 of links {compared.learned:.3f}, by the dictionary {compared.dictionary:.3f}, "
        f"by both {compared.together:.3f}"
    )
    return f"{text}; {answers}; {use}"


def _tell(done: Finetuned) -> None:
    """What was made, and what to do next."""
    report = done.report
    kept = "; ".join(
        f"{stage['name']}: epoch {stage['kept']} of {stage['epochs']}" for stage in report.stages
    )
    name = report.folder.name
    note("run", f"{name}: {counted(report.steps, 'step')} in {report.seconds:,.0f} s ({kept})")
    if done.detector is not None:
        note("detector", _detector_text(done.detector))
        if worse := done.detector.manifest.worse_elsewhere:
            note("", f"the dictionary is better on documents that it has not learnt from: {worse}")
            note("", "for texts like these: kglink link --detector dictionary, or learn from them")
    if done.replacement is not None:
        # What the space answers with the model, and what it answered before.
        note("answers", "right at first, by all evidence, of the mentions held back:")
        for pool, test in done.replacement.all_tests.items():
            is_worse = pool in done.replacement.worse
            chance = f"worse by more than chance (p = {test.p:.4f})" if is_worse else ""
            shares = f"{test.right:.3f} before, {test.left:.3f} after"
            things = counted(test.items, "text" if test is done.replacement.raw else "mention")
            note("", f"{pool}: {shares}, of {things}   {chance}".rstrip())
    if done.refused:
        note("unpublished", f"the space stays as it was: {done.refused}")
        again = f"kglink finetune --resume --run {name}"
        note(
            "next", "annotate more texts and train again: more held-out mentions show smaller gains"
        )
        note("", f"or try it beside the space: {again} --space trial")
        note("", f"or publish it anyway: {again} --publish --space {done.space}")
        return
    if report.sources in _ALONE:
        if done.reranker is not None and done.replacement is not None:
            note("next", "kglink link TEXT --rerank 8, kglink eval --docs DOCS --rerank 8")
        return
    if done.build is None:
        note("next", f"no space has this model yet: kglink finetune --resume --run {name}")
        return
    manifest = done.build.manifest
    rows = counted(done.build.encoded_rows, "vector")
    kbs = counted(len(manifest.kbs), "KB")
    note("space", f"{manifest.name}: {kbs}, {rows} encoded with this model")
    where = "" if manifest.name == "default" else f" --space {manifest.name}"
    if done.scoring is None:
        note("scoring", "the weights of evidence are the built-in ones: no mentions to learn them")
        note("unjudged", "no mentions were held back, so nobody knows how well it answers")
    note("next", f"kglink link TEXT{where}, kglink eval --docs DOCS{where}, kglink runs {name}")


_OF_STAGES = {"S": "S (source KBs)", "T": "T (target KBs)", "O": "O (overlaps)"}
#: Shorter times, in seconds, are not shown.
_SEEN = 1e-3


def finetune_news(show: Show, begun: Callable[[], None] = lambda: None) -> Callable[[News], None]:
    """What shows how a run goes: a bar that moves, and a line for what is done."""
    from kglink.training.job import EpochNews, Note, Planned, StepNews

    def take(news: News) -> None:
        if not isinstance(news, Progress | Note):  # those may come before its settings are kept
            begun()
        match news:
            case Progress():
                show(reached(news))
            case Note():
                note("note", news.text)
            case Planned():
                _planned(news)
            case EpochNews():
                _epoch(news)
            case StepNews():
                pace = (
                    f"loss {news.loss:.3f}, rate {news.rate:.1e}, "
                    f"{news.pairs_per_second:,.0f} pairs/s, {_time(news.seconds_left)} left"
                )
                label = f"stage {news.stage}, epoch {news.epoch}/{news.epochs}"
                show(Reached(label, news.step, news.steps, news.step, pace=pace))

    return take


def _planned(news: Planned) -> None:
    for letter, pairs in news.groups:
        note("learns", f"{_OF_STAGES[letter]}: {counted(pairs, 'pair')}")
    steps = ", ".join(f"{stage} {counted(count, 'step')}" for stage, count in news.stages)
    note("plan", f"{steps}; judged by {counted(news.valid, 'mention')} held back")
    several = f"{news.processes} processes, each " if news.processes > 1 else ""
    threads = counted(news.threads, "core")
    note("model", f"{news.base} on {news.device}, {several}{threads}, {news.precision}")


def _epoch(news: EpochNews) -> None:
    figures = " ".join(f"{name} {value:.3f}" for name, value in news.figures.items())
    if not news.epoch:
        note("before", figures)
        return
    parts = [f"{news.epoch}/{news.epochs}", f"loss {news.loss:.3f}"]
    if figures:
        parts.append(figures)
    spent = {"mining": news.mining, "validation": news.validation}
    inside = [f"{what} {_time(seconds)}" for what, seconds in spent.items() if seconds > _SEEN]
    parts.append(_time(news.seconds) + (f" ({', '.join(inside)})" if inside else ""))
    if news.is_best:
        parts.append("best so far")
    note(f"stage {news.stage}", "   ".join(parts))


def _time(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.1f} s"
    return str(timedelta(seconds=round(seconds)))
