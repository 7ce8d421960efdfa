"""The examples with which every command's help ends: there are some, and they run as they stand."""

from __future__ import annotations

import json
import shlex
import shutil
from collections.abc import Iterator
from contextlib import chdir
from itertools import takewhile
from pathlib import Path
from typing import Any

import pytest
import typer
from conftest import Kglink

from kglink.records import Alias, Entity, EntityId
from kglink.workspace import Workspace, init_workspace
from kglink_cli.commands import EXAMPLES
from kglink_cli.main import build_app
from review_support import Terminal


@pytest.fixture(scope="module")
def root() -> Any:
    return typer.main.get_command(build_app())


def commands_of(command: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    yield path, command
    for name, child in getattr(command, "commands", {}).items():
        yield from commands_of(child, f"{path} {name}".lstrip())


def parsed(command: Any, words: list[str], parent: Any = None) -> str:
    """The command that ``words`` reach with arguments that it takes."""
    context = command.make_context(words[0], words[1:], parent=parent)
    rest = [*getattr(context, "_protected_args", ()), *context.args]
    if not rest:
        return str(context.command_path)
    name, child, rest = command.resolve_command(context, rest)
    return parsed(child, [name, *rest], context)


def test_every_command_ends_its_help_with_two_examples(root: Any) -> None:
    commands = dict(commands_of(root))
    assert commands.keys() == EXAMPLES.keys()
    for path, command in commands.items():
        assert len(EXAMPLES[path]) >= 2
        assert all(example in command.epilog for example in EXAMPLES[path])


@pytest.mark.parametrize(
    ("path", "example"), [(path, one) for path, several in EXAMPLES.items() for one in several]
)
def test_an_example_is_a_call_that_the_command_takes(root: Any, path: str, example: str) -> None:
    words = list(takewhile(lambda word: word not in ("<", ">", "|"), shlex.split(example)))
    reached = parsed(root, words)
    assert reached.startswith(f"kglink {path}".rstrip())


# ------------------------------------------------------------------------------ running them
#: What is asked back, and answered.
ANSWERS = {"kglink kbs remove products": "y\n"}
#: These take a quarter of a minute or more.
LONG = ("demo", "finetune", "distill")
JETS = tuple(str(jet) for jet in range(1000, 9000, 1000))


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The workspace of the examples: a catalogue, a wiki, notes and reports about both, mails."""
    folder = init_workspace(tmp_path_factory.mktemp("shop"))
    products = [f"AJ{jet},AquaJet {jet},A pressure washer of {jet} watts.,AJ-{jet}" for jet in JETS]
    header = "SKU,Product name,Description,Synonyms"
    (folder / "catalogue.csv").write_text("\n".join([header, *products, ""]), "utf-8")
    (folder / "more.csv").write_text(f"{header}\nHL1,HoseLine,A garden hose.,HL-1\n", "utf-8")
    (folder / "cities.csv").write_text("city,country\nCologne,Germany\n", "utf-8")
    for name, verb in (("notes", "leaks"), ("reports", "was returned")):
        lines = [json.dumps(one) + "\n" for one in documents(verb)]
        (folder / f"{name}.jsonl").write_text("".join(lines), "utf-8")
    (folder / "letter.txt").write_text("A customer's AquaJet 5000 drips.", "utf-8")
    (folder / "mails").mkdir()
    (folder / "mails" / "one.txt").write_text("Where is my AJ3000?", "utf-8")
    with Workspace.open(folder) as workspace, chdir(folder):
        workspace.add_kb("products", "catalogue.csv", options={"key": "SKU"})
        jets = [Entity(f"w{jet}", f"AquaJet {jet}", "A washer.", aliases=(Alias(jet),))
                for jet in JETS]  # fmt: skip
        workspace.add_kb("wiki", jets)
        for name in ("notes", "reports"):
            workspace.add_kb(name, f"{name}.jsonl", links_to=["products", "wiki"])
        workspace.find_overlaps()
        for jet in JETS[:5]:
            pair = EntityId("products", f"AJ{jet}"), EntityId("wiki", f"w{jet}")
            workspace.store.set_verdict(*pair, "correct")
        workspace.build()
        for name in ("notes", "reports"):
            workspace.learn(name)
        linked = [json.dumps(one.as_json()) + "\n" for one in workspace.link("My AJ3000 leaks.")]
        (folder / "links.jsonl").write_text("".join(linked), "utf-8")
    with Workspace.open(folder, flags={"space.name": "small"}) as workspace:
        workspace.build()
    return folder


def documents(verb: str) -> list[dict[str, Any]]:
    """Annotated texts of every split, each with one mention."""
    return [
        {
            "id": f"{split}-{jet}",
            "split": split,
            "text": f"The AquaJet {jet} {verb}.",
            "entities": [
                {"start": 4, "end": 16, "gold": [f"products:AJ{jet}", f"wiki:w{jet}"]},
            ],
        }
        for split in ("train", "dev", "test")
        for jet in JETS
    ]


@pytest.mark.parametrize(
    "example",
    [
        pytest.param(one, marks=pytest.mark.slow if path in LONG else ())
        for path, several in EXAMPLES.items()
        for one in several
        # Exports want a trained model: tests/models/test_sentence_export.py has one.
        if path not in ("init", "runs", "report", "overlap review", "model", "model export")
    ],
)
def test_an_example_runs(
    kglink: Kglink, shop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, example: str
) -> None:
    # A few notes cannot tell whether a model answers better: it is published all the same.
    publish = " --publish" if example.startswith("kglink finetune ") else ""
    run_in_copy(kglink, shop, tmp_path, monkeypatch, example + publish)


def run_in_copy(
    kglink: Kglink, shop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *examples: str
) -> None:
    folder = tmp_path / "shop"
    shutil.copytree(shop, folder, symlinks=True)
    monkeypatch.chdir(folder)
    for example in examples:
        words = shlex.split(example)[1:]
        stdin = ANSWERS.get(example, "")
        if "<" in words:
            words, stdin = words[: words.index("<")], Path(words[-1]).read_text("utf-8")
        kglink(*words, stdin=stdin)


def test_the_examples_of_init(
    kglink: Kglink, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for example in EXAMPLES["init"]:
        kglink(*shlex.split(example)[1:])
    assert (tmp_path / "myproject" / "kglink.toml").is_file()


@pytest.mark.slow
@pytest.mark.parametrize("example", EXAMPLES["overlap review"])
def test_the_examples_of_overlap_review(shop: Path, example: str) -> None:
    words = shlex.split(example)
    assert words[:3] == ["kglink", "overlap", "review"]
    with Terminal(*words[3:], KGLINK_WORKSPACE=str(shop)) as terminal:
        terminal.expect("[q]uit")
        terminal.press("q")
        assert terminal.end()[0] == 0


@pytest.mark.slow
def test_the_examples_of_runs_and_reports(
    kglink: Kglink, shop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They speak of the run that the example of `finetune` makes."""
    trained = EXAMPLES["finetune"][0]  # published even where it answers no better
    told = *EXAMPLES["runs"], *EXAMPLES["report"]
    run_in_copy(kglink, shop, tmp_path, monkeypatch, f"{trained} --publish", *told)
    assert (tmp_path / "shop" / "report.html").is_file()
