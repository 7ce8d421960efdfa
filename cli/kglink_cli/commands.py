"""The commands of kglink, and two examples for each, with which its --help ends."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import typer
from typer.core import TyperGroup

from kglink_cli.build import build, distill, index
from kglink_cli.build import export as export_model
from kglink_cli.demo import demo
from kglink_cli.discover import discover, promote
from kglink_cli.evaluate import candidates, evaluate
from kglink_cli.finetune import finetune
from kglink_cli.kbs import add_kb, export, list_kbs, plan, remove
from kglink_cli.kbs import show as show_kb
from kglink_cli.link import link
from kglink_cli.memory import fit, forget, learn, review
from kglink_cli.overlap import HELP, OverlapGroup, overlap, train
from kglink_cli.overlap import show as show_overlaps
from kglink_cli.overlap_review import review as review_overlaps
from kglink_cli.plugins_command import list_plugins, new
from kglink_cli.resolve import resolve
from kglink_cli.runs import recipes, report, runs
from kglink_cli.show import explain, search, show
from kglink_cli.spaces import doctor, init, settings, spaces, trust

#: By the words of the command; "" is kglink itself.
EXAMPLES: Mapping[str, tuple[str, ...]] = {
    "": (
        "kglink add-kb products catalogue.csv",
        "kglink link mails/ --format jsonl -o links.jsonl",
    ),
    "demo": ("kglink demo", "kglink demo --quick --html demo.html"),
    "init": ("kglink init", "kglink init myproject"),
    "add-kb": (
        "kglink add-kb products catalogue.csv --set key=SKU --set title='Product name'",
        "kglink add-kb notes notes.jsonl --links-to products --split train",
        "kglink add-kb products more.csv --merge",
    ),
    "plan": ("kglink plan catalogue.csv --set key=SKU", "kglink plan more.csv --machines 4 --json"),
    "kbs": ("kglink kbs", "kglink kbs --json"),
    "kbs show": ("kglink kbs show products", "kglink kbs show products --examples 10"),
    "kbs remove": ("kglink kbs remove products", "kglink kbs remove products --yes"),
    "show": ("kglink show products:AJ3000", "kglink show AJ3000 --json"),
    "overlap": ("kglink overlap", "kglink overlap wiki products --export pairs.sssom.tsv"),
    "overlap review": (
        "kglink overlap review wiki products",
        "kglink overlap review wiki products --sample 20 --order uncertain",
    ),
    "overlap show": (
        "kglink overlap show wiki products --limit 10",
        "kglink overlap show --verdict unjudged --min-probability 0.9",
    ),
    "overlap train": ("kglink overlap train", "kglink overlap train --json"),
    "finetune": (
        "kglink finetune --sources TOS --source-kb wiki --target-kb products",
        "kglink finetune --recipe small --target-kb products --set train.epochs=2",
    ),
    "recipes": ("kglink recipes --paper amh --table 2", "kglink recipes amh/som-amh"),
    "runs": ("kglink runs", "kglink runs default-1 --json"),
    "report": (
        "kglink report default-1 --docs notes -o report.html",
        "kglink report default-1 --docs notes --plots plots --tables tables",
    ),
    "learn": ("kglink learn notes", "kglink learn notes --split train"),
    "review": ("kglink review links.jsonl", "kglink review links.jsonl --order unsure"),
    "forget": ("kglink forget notes", "kglink forget reports"),
    "fit": ("kglink fit notes", "kglink fit notes reports --split train"),
    "build": ("kglink build", "kglink build --space small --model minilm"),
    "spaces": ("kglink spaces", "kglink spaces --compare default small --docs notes"),
    "index": ("kglink index --presets", "kglink index --preset hnsw-fast --queries 500"),
    "distill": ("kglink distill", "kglink distill --space small --into fast"),
    "model": ("kglink model export herons", "kglink model export small --space small"),
    "model export": ("kglink model export herons", "kglink model export small --space small"),
    "link": (
        "kglink link letter.txt mails/ --explain",
        "kglink link mails/ --kb products --format jsonl -o links.jsonl",
    ),
    "discover": ("kglink discover mails/", "kglink discover --mentions 2 --json"),
    "promote": ("kglink promote", "kglink promote --kb people --json"),
    "explain": (
        'kglink explain "A grey heron stood in the pond." --surface heron',
        "kglink explain - --span 12:17 --json < letter.txt",
    ),
    "export": (
        "kglink export products -o products.jsonl",
        "kglink export notes --only documents --split train -o train.jsonl.gz",
    ),
    "search": (
        "kglink search 'pressure washer'",
        "kglink search AquaJet --kb products -k 3 --json",
    ),
    "resolve": (
        "kglink resolve heron 'grey heron' --context 'a bird of Poland'",
        "kglink resolve --column city --context country cities.csv -o out.csv",
    ),
    "candidates": (
        "kglink candidates notes -o candidates.jsonl",
        "kglink candidates notes --split test --k 10 --with-gold -o oracle.jsonl",
    ),
    "eval": (
        "kglink eval --docs notes --split test",
        "kglink eval --docs notes --end-to-end --intervals --format md",
    ),
    "settings": ("kglink settings", "kglink settings --json"),
    "trust": ("kglink trust", "kglink trust --revoke"),
    "doctor": ("kglink doctor", "kglink doctor --licences"),
    "plugins": ("kglink plugins", "kglink plugins --json"),
    "plugins new": (
        "kglink plugins new my-format",
        "kglink plugins new long-names --kind detector --vendor acme",
    ),
}


def add_examples(app: typer.Typer, path: str = "") -> None:
    """End the help of every command below ``path`` with its examples."""
    for command in app.registered_commands:
        command.epilog = epilog(EXAMPLES[f"{path} {command.name}".lstrip()])
    for group in app.registered_groups:
        name = f"{path} {group.name}".lstrip()
        group.epilog = epilog(EXAMPLES[name])
        if group.typer_instance is not None:
            add_examples(group.typer_instance, name)


def epilog(examples: Sequence[str]) -> str:
    """The examples of a command as the end of its help."""
    return "\n\n".join(f"`{example}`" for example in ("Examples:", *examples))


def _group(
    words: str, own: Callable[..., None] | None, cls: type[TyperGroup] = TyperGroup,
    **below: Callable[..., None],
) -> typer.Typer:  # fmt: skip
    """Commands below a word, which is one itself or shows their help."""
    group = typer.Typer(
        cls=cls, help=words, invoke_without_command=bool(own), no_args_is_help=not own
    )
    if own:
        group.callback()(own)
    for name, command in below.items():
        group.command(name)(command)
    return group


#: Commands that Python has another name for.
_NAMES = {"add_kb": "add-kb", "evaluate": "eval"}


def add_commands(app: typer.Typer) -> None:
    """Add every command, in groups and in the order in which people meet them."""
    kbs = _group("List, show and remove KBs.", list_kbs, show=show_kb, remove=remove)
    overlaps = _group(HELP, overlap, OverlapGroup, review=review_overlaps, show=show_overlaps,
                      train=train)  # fmt: skip
    model = _group("Give trained models to other tools.", None, export=export_model)
    plugins = _group("List plugins, or start a new one.", list_plugins, new=new)
    groups: list[tuple[str, list[Callable[..., None] | tuple[str, typer.Typer]]]] = [
        ("Add knowledge bases", [demo, init, plan, add_kb, ("kbs", kbs), show,
                                 ("overlap", overlaps)]),
        ("Link texts", [link, resolve, search, explain, discover, promote]),
        ("Measure, and learn from annotated texts", [evaluate, review, learn, forget, fit,
                                                     candidates]),
        ("Train models", [finetune, recipes, runs, report, distill, ("model", model)]),
        ("Look after spaces and the workspace", [build, spaces, index, export, settings, trust,
                                                 doctor, ("plugins", plugins)]),
    ]  # fmt: skip
    for panel, commands in groups:
        for command in commands:
            if isinstance(command, tuple):
                name, group = command
                app.add_typer(group, name=name, rich_help_panel=panel)
            else:
                name = _NAMES.get(command.__name__, command.__name__)
                app.command(name, rich_help_panel=panel)(command)
    add_examples(app)
