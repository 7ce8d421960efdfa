"""`kglink convert`: a model folder from weights that BLINK has released."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kglink_cli.console import note, print_json, say


def convert(
    weights: Annotated[Path, typer.Argument(help="BLINK's bi-encoder, such as one .bin file.")],
    folder: Annotated[Path, typer.Argument(help="The new model folder.")],
    like: Annotated[
        str,
        typer.Option(
            "--like",
            help="The BERT that it was made from, for configuration and tokenizer: a folder, or a "
            "hub name.",
        ),
    ] = "google-bert/bert-large-uncased",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Turn BLINK's released weights into a model folder, to fine-tune from or to search with.

    The file is a pickle, which is a program; it is read without being run, so that a file of
    somebody else can do no harm.
    """
    from kglink.models.convert import convert_blink

    done = convert_blink(weights, folder, like)
    if as_json:
        print_json(done.as_json())
        return
    say(f"{done.folder}: {done.tensors} tensors, model {done.fingerprint}")
    if done.unused:
        shown = ", ".join(done.unused[:3]) + (", ..." if len(done.unused) > 3 else "")
        note("unused", f"{len(done.unused)} tensors that the towers lack: {shown}")
    note("next", f"kglink finetune --recipe joint/tos --set model.base={done.folder}")
