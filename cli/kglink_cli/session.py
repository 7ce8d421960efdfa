"""What all commands share: which workspace, how flags become settings, common options."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import typer

from kglink.errors import UsageError
from kglink.workspace.folder import check_known
from kglink_cli.console import note

if TYPE_CHECKING:
    from kglink.workspace import Workspace

_NOT_CHOSEN = "by default settings; `kglink fit DOCS --cluster` finds out whether it helps here"
DEBUG_VARIABLE = "KGLINK_DEBUG"


def open_workspace(
    context: typer.Context, flags: Mapping[str, object] | None = None, *, create: bool = False
) -> Workspace:
    """Open the workspace of a command; ``create`` makes one where there is none and says so."""
    from kglink.workspace import Workspace

    opened = Workspace.open(context.obj, create=create, flags=flags)
    if opened.is_new:
        note(
            "workspace",
            f"made {opened.folder / 'kglink.toml'} ({opened.store_url.render_as_string()})",
        )
    return opened


def tell_stages(workspace: Workspace) -> None:
    """Say what rerankers and clusterers have to say of the run that is done."""
    for name, line in workspace.told_by_stages():
        note(name.rpartition("/")[2], line)


def tell_clusterer(workspace: Workspace) -> str:
    """Tell, and return, which settings the clusterer uses and what chose them."""
    if not workspace.settings.link.clusterer:
        return ""
    choice, own = workspace.kept_clusterer_choice(), workspace.settings.link.clusterer_settings
    words = f"chosen by kglink fit --cluster: {choice}" if choice else _NOT_CHOSEN
    if own:
        words += "; link.clusterer_settings: " + ", ".join(f"{key} {own[key]}" for key in own)
    note("cluster", words)
    return words


def tell_reranker(workspace: Workspace) -> None:
    """Say where the trained reranker was weighed for another model than the space has now."""
    from kglink.workspace.link_setup import is_reranker_of_another_model

    if workspace.settings.link.rerank_top and is_reranker_of_another_model(workspace.space()):
        note(
            "rerank",
            "the reranker was trained for another model of the space, and is not asked; `kglink "
            "fit DOCS --rerank N` weighs it anew, `kglink finetune --what reranker` trains it anew",
        )


def parse_options(pairs: list[str] | None, option: str = "--set") -> dict[str, object]:
    """``["key=value", ...]`` as a dictionary."""
    options: dict[str, object] = {}
    for pair in pairs or ():
        key, equals, value = pair.partition("=")
        if not equals or not key.strip():
            raise UsageError(
                f"{option} {pair!r} is not key=value", hint=f"Example: {option} title=label"
            )
        options[key.strip()] = value
    return options


def is_on_ray(engine: str) -> bool:
    """Whether an ``--engine`` is a Ray cluster; what is no engine is refused."""
    check_known("engine", engine, ("processes", "ray"))
    return engine == "ray"


def ray_workers(engine: str, workers: int | None, hint: str = "Leave it out.") -> int:
    """How many workers an ``--engine`` has on a Ray cluster; 0: none."""
    from kglink.models.hardware import usable_cores

    on_ray = is_on_ray(engine)
    if workers and not on_ray:
        raise UsageError("--workers is for --engine ray", hint=hint)
    return (workers or usable_cores()) if on_ray else 0


def split_names(names: Iterable[str] | str | None) -> tuple[str, ...]:
    """``a,b`` as a tuple, each name once; an option that is repeated has several such lists.

    None, an option that is not given, is no name; a list without a name is refused.
    """
    if names is None:
        return ()
    together = names if isinstance(names, str) else ",".join(names)
    found = tuple(dict.fromkeys(name.strip() for name in together.split(",") if name.strip()))
    if not found:
        raise UsageError(f"{together!r} holds no name", hint="Write one, or several: a,b")
    return found


def limit_flags(
    types: Sequence[str] | None, under: Sequence[str] | None, not_under: Sequence[str] | None
) -> dict[str, object]:
    """The settings that these options are."""
    return {
        "link.types": tuple(types or ()) or None,
        "link.under": tuple(under or ()) or None,
        "link.not_under": tuple(not_under or ()) or None,
    }


def refuse_ignored(why: str, options: Mapping[str, object]) -> None:
    """Refuse options that are given and would change nothing; ``why`` says beside what."""
    if named := [name for name, value in options.items() if value]:
        raise UsageError(
            f"{' and '.join(named)} would change nothing {why}",
            hint=f"Leave out {'them' if named[1:] else named[0]}.",
        )


def check_rerank(rerank: int | None, found_by: str | None) -> None:
    """Refuse a trained reranker where one kind of evidence alone ranks."""
    if found_by not in (None, "all"):
        refuse_ignored(f"beside --found-by {found_by}, which ranks alone", {"--rerank": rerank})
