"""Write the reference pages from the code that they describe.

``python docs/generate.py`` writes docs/reference/*.md, and the tables of the papers in
docs/reproduce.md; with ``--check`` it writes nothing and
fails where a page on disk is not the page that it would write.
"""

from __future__ import annotations

import argparse
import inspect
import os
import re
import sys
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from functools import cache
from html import escape
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any, Literal, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from python_names import python_page

from kglink import plugins
from kglink.config import (
    NOT_SETTINGS,
    LinkSection,
    Settings,
    all_settings,
    env_name,
    setting_descriptions,
)
from kglink.linking.kinds import OF_WORDS, RETRIEVED
from kglink.linking.read_together import READ
from kglink.plugins import HOOKS, KINDS, Plugin, load_registry
from kglink.training.recipe import Recipe, section_of
from kglink.training.recipe_files import list_recipes, load_recipe
from kglink.workspace.link_setup import asked_kinds

FOLDER = Path(__file__).parent / "reference"
MADE_BY = (
    "<!-- Written by docs/generate.py from the code; change the code, then `make docs`. -->\n\n"
)

#: Where docs/reproduce.md has the tables of the papers.
TABLES_OF_PAPERS = (
    "<!-- tables of the papers: written by docs/generate.py from the protocols -->",
    "<!-- end of the tables -->",
)
_SHORT = "benchmarks/training.md"
#: Tables whose rows were run for less long, and on smaller data, than the paper's.
SHORT_RUNS: Mapping[str, str] = {
    **dict.fromkeys(
        ("t-biencoder/table-2", "t-biencoder/table-5", "amh/table-2"),
        f"{_SHORT}#samplers-scorers-encoders",
    ),
    **dict.fromkeys(
        ("arboel/table-1", "arboel/table-5", "arboel/table-6", "arboel/figure-3"),
        f"{_SHORT}#mentions-that-help-each-other-in-training",
    ),
    "joint/table-3-disease": f"{_SHORT}#table-3-of-the-paper-on-a-part-of-the-data",
    "joint/table-3-fandom": f"{_SHORT}#table-3-of-the-paper-on-an-encyclopedia-and-a-wiki",
    "joint/table-2-fandom": f"{_SHORT}#table-3-of-the-paper-on-an-encyclopedia-and-a-wiki",
}

#: What each variable that is no setting does; a variable without a line here is an error.
VARIABLES: Mapping[str, str] = {
    "KGLINK_DEBUG": "`1` shows the traceback of an error, as `--debug` does.",
    "KGLINK_PLUGINS": (
        "Which third-party plugins load: `builtin` for none, else the names of distributions, "
        "separated by commas. Unset: all."
    ),
    "KGLINK_TRUST": (
        "Workspace folders, and SHA-256 digests of `kglink.toml` files, whose settings are allowed "
        "as `kglink trust` does it, separated by `:`. For CI."
    ),
    "KGLINK_PLUGIN_SECONDS": (
        "How many seconds a third-party plugin may take to be imported and to register. Unset: 30."
    ),
    "KGLINK_TRACE_HOOKS": "`1` writes each hook call to standard error.",
    "KGLINK_WORKSPACE": "The workspace folder, as `--workspace` says it.",
}

KIND_WORDS: Mapping[object, str] = {
    bool: "`true` or `false`",
    int: "whole number",
    float: "number",
    str: "text",
    dict: "table",
}


def main(arguments: list[str] | None = None) -> int:
    """Write the pages, or with ``--check`` compare them; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing, fail on a stale page")
    options = parser.parse_args(arguments)
    made = pages()
    stale = [path for path, text in made.items() if _text_of(path) != text]
    if options.check:
        for path in stale:
            sys.stderr.write(f"{path.name} is stale; write it anew with `make docs`\n")
        return 1 if stale else 0
    FOLDER.mkdir(exist_ok=True)
    for path in stale:
        path.write_text(made[path], encoding="utf-8")
    return 0


def pages() -> dict[Path, str]:
    """Every reference page by its path."""
    # Third parties' plugins would make the pages differ from one environment to the next.
    os.environ["KGLINK_PLUGINS"] = "builtin"
    writers: Mapping[str, Callable[[], Iterator[str]]] = {
        "cli.md": cli_page,
        "settings.md": settings_page,
        "evidence.md": evidence_page,
        "recipes.md": recipes_page,
        "plugins.md": plugins_page,
        "hooks.md": hooks_page,
        "python.md": python_page,
    }
    made = {FOLDER / name: MADE_BY + "\n\n".join(write()) + "\n" for name, write in writers.items()}
    page = Path(__file__).parent / "reproduce.md"
    begin, end = TABLES_OF_PAPERS
    before, _, rest = page.read_text(encoding="utf-8").partition(begin)
    _, _, after = rest.partition(end)
    return {**made, page: f"{before}{begin}\n\n{tables_of_papers()}\n\n{end}{after}"}


def _text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.is_file() else ""


# ------------------------------------------------------------------- tables of the papers
def tables_of_papers() -> str:
    """Every table and figure of the papers: its protocol, its command, and what differs."""
    from kglink_papers.protocols import protocols, reference_figures

    made = list(protocols().values())
    rows = []
    for table in reference_figures().values():
        for one in made:
            if one.table.name != table.name:
                continue
            rows.append(
                [
                    table.source,
                    f"`kglink reproduce {one.name} --data {one.data.name}`",
                    str(len(one.rows_to_run)),
                    "; ".join(_differences(one)),
                ]
            )
    return _table(["table", "protocol and command", "rows", "what differs from the paper"], rows)


def _differences(protocol: Any) -> Iterator[str]:
    """What differs from the paper in every run of a protocol, and how long a run was measured."""
    if protocol.adapted:
        yield "other data and models (adapted)"
    yield from protocol.adapted
    yield from protocol.differs
    if protocol.reranked:
        yield (
            "not re-ranked, unless `--set reranker.base=FOLDER` names BLINK's cross-encoder, "
            "converted"
        )
    left: dict[str, list[str]] = {}
    for row in protocol.rows:
        if row.not_run and not row.not_run.startswith("is of other data"):
            left.setdefault(row.not_run, []).append(row.name)
    for why, names in left.items():
        yield f"not run: {', '.join(names)} ({why})"
    trained = (row.recipe for row in protocol.rows_to_run if not row.untrained)
    if any(_recipe(name).model.scorer == "sum_of_max" for name in trained):
        yield "SOM adds up tokens alone, not padding"
    place = SHORT_RUNS.get(protocol.name, "")
    yield f"[short run]({place})" if place else "no run on these data is measured"


_recipe = cache(load_recipe)


# ------------------------------------------------------------------------------- commands
def cli_page() -> Iterator[str]:
    """All commands with their arguments and options, as `--help` describes them."""
    import typer

    from kglink_cli.main import build_app

    yield "# Commands"
    yield from _command(typer.main.get_command(build_app()), "kglink", None)


def _command(command: Any, name: str, parent: Any) -> Iterator[str]:
    context = command.context_class(command, info_name=name, parent=parent)
    yield f"## `{context.command_path}`"
    yield inspect.cleandoc(command.help or "")
    yield (
        "```text\n"
        + " ".join([context.command_path, *command.collect_usage_pieces(context)])
        + "\n```"
    )
    records = [parameter.get_help_record(context) for parameter in command.get_params(context)]
    lines = [f"- `{declared}`: {_sentence(meaning)}" for declared, meaning in filter(None, records)]
    yield "\n".join(lines)
    if examples := re.findall(r"^`(kglink .+)`$", command.epilog or "", re.MULTILINE):
        yield "```text\n" + "\n".join(examples) + "\n```"
    for child_name in command.list_commands(context) if hasattr(command, "commands") else ():
        child = command.get_command(context, child_name)
        if not child.hidden:
            yield from _command(child, child_name, context)


def _sentence(text: str) -> str:
    return " ".join(text.split())


# ------------------------------------------------------------------------------- settings
def settings_page() -> Iterator[str]:
    """All settings by section, and the variables that are none."""
    yield "# Settings"
    yield (
        "Each setting is a key of `kglink.toml` and an environment variable, and the commands "
        "that use it have a flag. Flags win over variables, variables over the file, the file "
        "over the defaults."
    )
    for section, field in Settings.model_fields.items():
        yield f"## `[{section}]`"
        yield inspect.getdoc(field.annotation) or ""
        descriptions = setting_descriptions(type(getattr(Settings(), section)))
        yield _table(
            ["key", "value", "default", "variable", "meaning"],
            [
                [
                    f"`{name.partition('.')[2]}`",
                    kind_of(setting),
                    default_of(setting),
                    f"`{env_name(name)}`",
                    descriptions[name.partition(".")[2]],
                ]
                for name, setting in all_settings()
                if name.startswith(f"{section}.")
            ],
        )
    yield "## Variables that are no settings"
    yield _table(
        ["variable", "meaning"], [[f"`{name}`", VARIABLES[name]] for name in sorted(NOT_SETTINGS)]
    )


def kind_of(field: FieldInfo) -> str:
    """What values a field takes, in words."""
    return _limited(field.annotation, field.metadata)


def _limited(annotation: Any, metadata: Iterable[Any]) -> str:
    """An annotation and the limits of its metadata, in words."""
    limits = {
        name: getattr(item, name)
        for item in metadata
        for name in ("ge", "gt", "le", "lt", "pattern", "min_length")
        if getattr(item, name, None) is not None
    }
    return " ".join(filter(None, [_words(annotation), _limits(limits)]))


def _words(annotation: Any) -> str:
    origin, parts = get_origin(annotation), get_args(annotation)
    if words := KIND_WORDS.get(annotation) or KIND_WORDS.get(origin):
        return words
    if origin is Literal:
        return " or ".join(f"`{part}`" for part in parts)
    if origin in (tuple, list, set, frozenset):
        return f"list of {_words(parts[0])}"
    if origin is Annotated:
        (field,) = parts[1:]
        return _limited(parts[0], field.metadata)
    if parts:
        return " or ".join(_words(part) for part in parts if part is not type(None))
    return f"`{getattr(annotation, '__name__', annotation)}`"


def _limits(limits: Mapping[str, Any]) -> str:
    low = limits.get("ge", limits.get("gt"))
    high = limits.get("le", limits.get("lt"))
    words = []
    if low is not None:
        words.append(f"from {low}" if "ge" in limits else f"above {low}")
    if high is not None:
        words.append(f"to {high}" if "le" in limits else f"below {high}")
    if "min_length" in limits:
        words.append(f"(at least {limits['min_length']})")
    if "pattern" in limits:
        words.append(f"like `{limits['pattern']}`")
    return " ".join(words)


def default_of(field: FieldInfo) -> str:
    """A field's default as `kglink.toml` would write it."""
    if field.is_required():
        return "required"
    return f"`{_toml(field.get_default(call_default_factory=True))}`"


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\t", "\\t")
        return f'"{escaped}"'
    if isinstance(value, tuple | list | set | frozenset):
        return "[" + ", ".join(_toml(item) for item in value) + "]"
    if isinstance(value, Mapping):
        inner = ", ".join(f"{key} = {_toml(item)}" for key, item in value.items())
        return f"{{ {inner} }}" if inner else "{}"
    return "none" if value is None else str(value)


def _table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(_cell(cell) for cell in line)} |" for line in lines)


def _cell(text: str) -> str:
    """A table's cell; Markdown flavours differ on a bar in backticks, HTML is read by all."""
    bar_in_code = re.compile(r"`([^`]*\|[^`]*)`")
    with_html = bar_in_code.sub(lambda match: f"<code>{escape(match[1])}</code>", _sentence(text))
    return with_html.replace("|", "&#124;")


# ------------------------------------------------------------------------------- evidence
def evidence_page() -> Iterator[str]:
    """All kinds of evidence that speak for a candidate, and what each counts by default."""
    yield "# Evidence"
    yield (
        "A score is the sum of these values, each times its weight. The weights of names and "
        "vectors together are 1. `kglink fit DOCS` fits the weights to annotated documents; "
        "without it kglink uses those of this table, for an untrained or a fine-tuned encoder."
    )
    yield _table(
        ["kind", "what it is", "weight", "fine-tuned"],
        [
            [
                f"`{one.name}`",
                one.what,
                *(f"{weight:g}" if weight else "-" for weight in one.weights),
            ]
            for one in [
                *RETRIEVED,
                *OF_WORDS,
                *(asked.kind for asked in asked_kinds(LinkSection(), load_registry())),
                READ,
            ]
        ],
    )


# -------------------------------------------------------------------------------- recipes
def recipes_page() -> Iterator[str]:
    """All recipes that come with kglink, and all keys of a recipe."""
    yield "# Recipes"
    yield (
        "`kglink finetune --recipe NAME` follows a recipe, `--set KEY=VALUE` changes a value, and "
        "`kglink recipes NAME` shows every value. [Fine-tuning](../finetune.md) shows how to write "
        "one."
    )
    yield _table(
        ["recipe", "summary", "follows"],
        [[f"`{one.name}`", one.summary, one.source] for one in list_recipes()],
    )
    yield from _section(Recipe, "")


def _section(section: type[BaseModel], name: str) -> Iterator[str]:
    """The keys of a section of a recipe, then the sections in it."""
    inner = {key: section_of(field.annotation) for key, field in section.model_fields.items()}
    yield f"## `[{name}]`" if name else "## Keys before all sections"
    yield _fields(section, {key for key, value in inner.items() if value is None})
    for key, value in inner.items():
        if key == "again":
            yield f"## `[{key}]`"
            yield section.model_fields[key].description or ""
        elif value is not None:
            yield from _section(value, f"{name}.{key}".lstrip("."))


# -------------------------------------------------------------------------------- plugins
def plugins_page() -> Iterator[str]:
    """Everything that comes registered with kglink, with its settings."""
    registry = load_registry(only="builtin")
    yield "# Plugins that come with kglink"
    yield (
        "`kglink plugins` lists these and those of other packages that are installed. "
        "A name may be written without its vendor where no other vendor has the same."
    )
    for kind in KINDS.values():
        yield f"## {kind.plural[0].upper()}{kind.plural[1:]}"
        plugins = registry.plugins(kind.name)
        yield f"Registered by the hook [`{kind.hook}`](hooks.md#{kind.hook})."
        if not plugins:
            yield "None comes with kglink yet."
        for plugin in plugins:
            yield from _plugin(plugin)


def _plugin(plugin: Plugin) -> Iterator[str]:
    yield f"### `{plugin.name}`"
    yield plugin.summary.rstrip(".") + "."
    if plugin.extra:
        yield f'Needs the extra `{plugin.extra}`: `pip install "kglink[{plugin.extra}]"`.'
    yield _fields(plugin.settings)


def _fields(settings: type[BaseModel], wanted: Container[str] | None = None) -> str:
    if not settings.model_fields:
        return "No settings."
    descriptions = setting_descriptions(settings)
    return _table(
        ["setting", "value", "default", "meaning"],
        [
            [f"`{name}`", kind_of(field), default_of(field), descriptions[name]]
            for name, field in settings.model_fields.items()
            if wanted is None or name in wanted
        ],
    )


# ---------------------------------------------------------------------------------- hooks
def hooks_page() -> Iterator[str]:
    """All hooks, each with what its factories must make."""
    yield "# Hooks"
    yield (
        "A plugin is a module that implements some of these, each marked `@kglink.hookimpl`, and "
        "that its package names in the entry-point group `kglink`; recipes in the group "
        "`kglink.recipes`, commands and pages in `kglink.commands`. "
        "[Writing a plugin](../plugins.md) shows how."
    )
    for name, hook in HOOKS.items():
        signature = str(inspect.signature(hook)).replace("'", "")
        yield f"## `{name}` {{ #{name} }}"
        yield inspect.getdoc(hook) or ""
        yield _source_block(f"def {name}{signature}: ...")
        for contract in (kind.protocol for kind in KINDS.values() if kind.hook == name):
            yield _source_block(_source(plugins, contract))
    yield "## What `register` is"
    yield _source_block(_source(plugins, "Register"))


def _source(module: ModuleType, name: str) -> str:
    return inspect.getsource(getattr(module, name)).rstrip()


def _source_block(source: str) -> str:
    return f"<!-- no-run: a declaration -->\n```python\n{source}\n```"


if __name__ == "__main__":
    sys.exit(main())
