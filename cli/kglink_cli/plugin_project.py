"""Writing the project of a new plugin from the templates, one for each kind."""

from __future__ import annotations

import re
from pathlib import Path

from kglink.errors import UnknownNameError, UsageError
from kglink.files.atomic import atomic_folder
from kglink.plugins import KINDS, PluginKind

#: The templates of a wheel lie in this package; those of a clone in the folder plugins/template.
PACKAGED = Path(__file__).parent / "plugin_template"
IN_CLONE = Path(__file__).parents[2] / "plugins" / "template"

NAME = re.compile(r"[a-z][a-z0-9]*(?:[_-][a-z0-9]+)*")
OWN_VENDOR = "kglink"
#: Their packages would carry the names of ours.
OWN_PACKAGES = frozenset({"cli", "kbs", "plugins"})


def write_project(name: str, vendor: str, kind: str = "kb", folder: Path | None = None) -> Path:
    """Write a working project that registers ``vendor/name``; returns its new folder."""
    known = next((one for one in KINDS.values() if one.name == kind), None)
    if known is None:
        raise UnknownNameError("kind of plugin", kind, KINDS)
    _check("plugin", name, OWN_PACKAGES)
    _check("vendor", vendor, frozenset({OWN_VENDOR}))
    target = (folder or Path(distribution_of(name))).absolute()
    if target.exists():
        raise UsageError(f"{target} exists already", hint="Name another folder with --dir.")
    target.parent.mkdir(parents=True, exist_ok=True)
    with atomic_folder(target) as project:
        _fill(template_folder(), project, known, name, vendor)
    return target


def template_folder() -> Path:
    """Where the templates lie: in the installed package, or in the clone that it runs from."""
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


def _fill(templates: Path, project: Path, kind: PluginKind, name: str, vendor: str) -> None:
    """Write what all projects have, and the plugin of a kind with its tests."""
    package = f"kglink_{name.replace('-', '_')}"
    sources = {
        f"{package}/plugin.py": templates / kind.name / "plugin.py",
        "tests/test_plugin.py": templates / kind.name / "test_plugin.py",
        f"{package}/__init__.py": templates / "project" / "kglink_myplugin" / "__init__.py",
        "README.md": templates / "project" / "README.md",
        "pyproject.toml": templates / "project" / "pyproject.toml",
    }
    own_names = {
        "kglink-myplugin": distribution_of(name),
        "kglink_myplugin": package,
        "myvendor/myplugin": f"{vendor}/{name}",
        "myplugin": name,
        "MYKIND": kind.word,
    }
    for target, source in sources.items():
        text = re.sub(
            "|".join(own_names),
            lambda match: own_names[match[0]],
            source.read_text(encoding="utf-8"),
        )
        (project / target).parent.mkdir(parents=True, exist_ok=True)
        (project / target).write_text(text, encoding="utf-8")
