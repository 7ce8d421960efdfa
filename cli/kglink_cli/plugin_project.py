"""Writing the project of a new plugin from the template."""

from __future__ import annotations

import re
from pathlib import Path

from kglink.errors import UsageError
from kglink.files.atomic import atomic_folder

#: A template in the wheel lies in this package; in a clone it is the folder plugins/template.
PACKAGED = Path(__file__).parent / "plugin_template"
IN_CLONE = Path(__file__).parents[2] / "plugins" / "template"

NAME = re.compile(r"[a-z][a-z0-9]*(?:[_-][a-z0-9]+)*")
OWN_VENDOR = "kglink"
#: Their packages would carry the names of ours.
OWN_PACKAGES = frozenset({"cli", "kbs", "plugins"})


def write_project(name: str, vendor: str, folder: Path | None = None) -> Path:
    """Write a working project that registers ``vendor/name``; returns its new folder."""
    _check("plugin", name, OWN_PACKAGES)
    _check("vendor", vendor, frozenset({OWN_VENDOR}))
    target = (folder or Path(distribution_of(name))).absolute()
    if target.exists():
        raise UsageError(f"{target} exists already", hint="Name another folder with --dir.")
    target.parent.mkdir(parents=True, exist_ok=True)
    with atomic_folder(target) as project:
        _fill(template_folder(), project, _replacements(name, vendor))
    return target


def template_folder() -> Path:
    """Where the template lies: in the installed package, or in the clone that it runs from."""
    return PACKAGED if PACKAGED.is_dir() else IN_CLONE


def distribution_of(name: str) -> str:
    """The distribution, and by default the folder, of the plugin ``name``."""
    return f"kglink-{name.replace('_', '-')}"


def _check(what: str, name: str, taken: frozenset[str]) -> None:
    if not NAME.fullmatch(name):
        raise UsageError(
            f"{name!r} cannot be the name of a {what}",
            hint="Lower-case letters and digits, with '-' or '_' between them: my-format. "
            "The vendor is given by --vendor.",
        )
    if name in taken:
        raise UsageError(f"the {what} name {name!r} is kept for kglink itself")


def _replacements(name: str, vendor: str) -> dict[str, str]:
    """What stands for the template's own names, the longer ones first."""
    return {
        "kglink-keyline": distribution_of(name),
        "kglink_keyline": f"kglink_{name.replace('-', '_')}",
        "example/keyline": f"{vendor}/{name}",
        "keyline": name,
    }


def _fill(template: Path, project: Path, replacements: dict[str, str]) -> None:
    for path in sorted(template.rglob("*")):
        relative = path.relative_to(template)
        if path.is_file() and "__pycache__" not in relative.parts:
            made = project / _replaced(relative.as_posix(), replacements)
            made.parent.mkdir(parents=True, exist_ok=True)
            made.write_text(
                _replaced(path.read_text(encoding="utf-8"), replacements), encoding="utf-8"
            )


def _replaced(text: str, replacements: dict[str, str]) -> str:
    pattern = "|".join(map(re.escape, replacements))
    return re.sub(pattern, lambda match: replacements[match[0]], text)
