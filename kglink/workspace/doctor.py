"""The checks behind `kglink doctor`."""

from __future__ import annotations

import os
import platform
import re
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Literal, NamedTuple

from rich.filesize import decimal

from kglink.config import CONFIG_FILE
from kglink.errors import KglinkError
from kglink.models import Encoder, choose_hardware, resolve_model
from kglink.models.hardware import BF16_FLAGS
from kglink.models.model_folder import TRAINED
from kglink.models.opening import MINILM_NAMES
from kglink.plugins import Plugin, load_registry
from kglink.processor import cpu_flags
from kglink.space.folder import SpaceFolder, space_names
from kglink.store.kbs import IN_MEMORY
from kglink.workspace.folder import SCRATCH_FOLDER, SPACES_FOLDER, find_workspace, folder_size
from kglink.workspace.joint_space import backend_of, encoder_of, own_encoder
from kglink.workspace.opened import Opened
from kglink.workspace.trust import asks_of, trust_command

_LIBRARIES = (
    "kglink", "torch", "transformers", "faiss-cpu", "faiss-gpu", "numpy", "scipy", "sqlalchemy",
    "pluggy", "typer",
)  # fmt: skip
#: What helps where the database itself is broken.
_RESTORE = "Put a copy of the store back, or add its KBs to a new workspace."
#: Bytes of disk or memory.
_LITTLE = 2 * 2**30
UNKNOWN_LICENCE = "not said"


class Check(NamedTuple):
    """One thing looked at: what, how it is, what was found, how to mend it."""

    what: str
    state: Literal["ok", "note", "bad"]
    found: str
    fix: str = ""


class Licence(NamedTuple):
    """The licence of one thing in a workspace."""

    what: str
    name: str
    licence: str
    source: str


def check(folder: Path | None = None, *, trust: bool = False) -> list[Check]:
    """Check the machine, the installation, and a workspace: this one, or the one found upward."""
    return [*_machine_checks(), *_workspace_checks(folder, trust=trust)]


def doctor(opened: Opened) -> list[Check]:
    """Check the machine, the installation, and this workspace."""
    return check(opened.folder, trust=opened.resolved.trusted)


def plugins(opened: Opened) -> list[Plugin]:
    """The plugins of this environment."""
    return list(opened.registry.plugins())


def _machine_checks() -> Iterator[Check]:
    yield Check("python", "ok", f"{platform.python_version()} on {platform.platform()}")
    versions = {}
    for name in _LIBRARIES:
        with suppress(PackageNotFoundError):
            versions[name] = version(name)
    yield Check("libraries", "ok", ", ".join(f"{name} {found}" for name, found in versions.items()))
    if "faiss-cpu" in versions and "faiss-gpu" in versions:
        what = "faiss-cpu and faiss-gpu are both installed, one over the other"
        fix = "pip uninstall -y faiss-cpu faiss-gpu && pip install faiss-cpu"
        yield Check("faiss", "bad", what, fix)
    try:
        found = choose_hardware()
        yield Check("device", "ok", f"{found.device}, {found.threads} cores, {found.precision}")
    except KglinkError as error:
        yield Check("device", "bad", error.message, error.hint)
    if not cpu_flags() & BF16_FLAGS:
        yield Check("bf16", "note", "this CPU has no bf16 products: encoding runs in fp32")
    yield _memory()
    yield _disk("temporary", Path(tempfile.gettempdir()))
    try:
        registry = load_registry()
        others = [str(one) for one in registry.providers() if not one.builtin]
        also = f", also from {', '.join(others)}" if others else ""
        yield Check("plugins", "ok", f"{len(registry.plugins())} plugins{also}")
        for problem in registry.left_out():
            yield Check("plugins", "bad", problem)
    except KglinkError as error:
        yield Check("plugins", "bad", error.message, error.hint)
    try:
        model = resolve_model()
        yield Check("minilm", "ok", f"checksum is right, fingerprint {model.fingerprint}")
    except KglinkError as error:
        yield Check("minilm", "bad", error.message, error.hint)


def _workspace_checks(named: Path | None, *, trust: bool) -> Iterator[Check]:
    try:
        folder = find_workspace(named=named)
        if folder is None:
            yield Check("workspace", "note", "none here or above", "kglink init makes one")
            return
        with Opened.open(folder, trust=trust) as opened:
            yield Check("workspace", "ok", str(folder))
            asks = "; ".join(map(str, asks_of(folder, opened.resolved, opened.registry)))
            allowed = f"you allow {CONFIG_FILE} to set {asks}"
            nothing = f"{CONFIG_FILE} names nothing outside of the workspace"
            fix = f"`{trust_command(folder)} --revoke` takes it back."
            yield Check("trust", "ok", allowed if asks else nothing, fix if asks else "")
            yield _disk("disk", folder)
            problems = opened.store.check()
            infos = opened.store.kbs()
            entities = sum(info.entities for info in infos)
            if not problems:
                yield Check(
                    "store",
                    "ok",
                    f"{len(infos)} KB{'s' * (len(infos) != 1)}, {entities:,} entities",
                )
            for problem in problems:
                is_damaged = problem.startswith("damaged")
                yield Check("store", "bad", problem, _RESTORE if is_damaged else "")
            for info in infos:
                if not info.licence:
                    what = f"the licence of {info.name} is unknown"
                    fix = "Add it again with --merge --licence NAME: nothing else will change."
                    if info.adapter == IN_MEMORY:
                        fix = "Whoever adds it can say: `add_kb(..., merge=True, licence=NAME)`."
                    yield Check("licence", "note", what, fix)
            yield from _scratch_checks(opened)
            yield from _space_checks(opened)
    except KglinkError as error:
        yield Check("workspace", "bad", error.message, error.hint)
    except OSError as error:
        yield Check("workspace", "bad", f"{error.filename}: {error.strerror}")


def licences(opened: Opened) -> list[Licence]:
    """The licence of the model, of every KB and of every dataset of a workspace."""
    folder, section = opened.folder, opened.settings.encoder
    root = folder / SPACES_FOLDER
    encoders = [
        opened.joint_space.encoder,
        *(own_encoder(folder, SpaceFolder(root, name), section) for name in space_names(root)),
        encoder_of(opened.settings.overlap.model, section, folder),
    ]
    each: dict[str, Encoder] = {}
    for encoder in encoders:
        each.setdefault(encoder.info.fingerprint, encoder)
    rows = [_model_licence(encoder) for encoder in each.values()]
    for info in opened.store.kbs():
        kind = "KB" if info.entities else "dataset"
        rows.append(Licence(kind, info.name, info.licence or UNKNOWN_LICENCE, info.source))
    return rows


def _model_licence(encoder: Encoder) -> Licence:
    """The licence of a model; of a trained one that of the model it began with."""
    source = encoder.source
    name, card = source.name, source.path / "README.md"
    if encoder.trained is not None:
        base = TRAINED.read(source.path, check=False).base.name
        name = f"{encoder.info.name}, from {base}"
        local = base in MINILM_NAMES or Path(base).is_dir()
        card = resolve_model(base).path / "README.md" if local else Path()
    said = card.read_text(encoding="utf-8") if card.is_file() else ""
    found = re.search(r"^license:\s*(\S+)", said, re.MULTILINE)
    licence = found.group(1) if found else UNKNOWN_LICENCE
    return Licence("model", name, licence, str(source.path))


def _scratch_checks(opened: Opened) -> Iterator[Check]:
    """What adapters keep of runs that are not done: of one that runs now, or of a stopped one."""
    root = opened.folder / SCRATCH_FOLDER
    found = root.iterdir() if root.is_dir() else ()
    # The others are of servers, of now or of an earlier version.
    folders = sorted(one for one in found if one.is_dir() and re.fullmatch("[0-9a-f]+", one.name))
    if not folders:
        return
    unfinished = [
        f"{info.name} from {info.source}"
        for info in opened.store.kbs()
        if info.updating or not info.complete
    ]
    which = f" ({', '.join(unfinished)})" if unfinished else ""
    for folder in folders:
        size, changed = folder_size(folder)
        ago = _ago(time.time() - changed)
        held = f"{folder} holds {decimal(size)} of an add-kb that is not done, last written {ago}"
        fix = (
            f"Run the same add-kb{which} again: it goes on from there. If nobody will, and none "
            "is running now, delete the folder."
        )
        yield Check("scratch", "note", f"{held} ago", fix)


def _ago(seconds: float) -> str:
    """A time span in its largest unit."""
    for unit, length in (("day", 86_400), ("hour", 3600), ("minute", 60)):
        if seconds >= length:
            count = int(seconds // length)
            return f"{count} {unit}{'s' * (count != 1)}"
    return "less than a minute"


def _space_checks(opened: Opened) -> Iterator[Check]:
    root = opened.folder / SPACES_FOLDER
    for name in space_names(root):
        folder = SpaceFolder(root, name)
        if denied := folder.unreadable():
            for path in denied:
                fix = "Check the rights of file and folder."
                yield Check("space", "bad", f"{name}: {path} may not be read", fix)
            continue
        damage = folder.damage()
        for file in damage:
            hint = "Run `kglink build`; if that does not help, `kglink build --fresh`."
            yield Check("space", "bad", f"{name}: {file} is damaged", hint)
        manifest = folder.manifest()
        if not damage and manifest:
            held = ", ".join(f"{kb} (revision {manifest.revisions[kb]})" for kb in manifest.kbs)
            yield Check("space", "ok", f"{name}: {held}, model {manifest.model.name}")
            # What the store has not was removed, or the store itself was.
            known = {info.name for info in opened.store.kbs()}
            if gone := ", ".join(kb for kb in manifest.kbs if kb not in known):
                fix = (
                    "`kglink build` takes what was removed out of the space. If nobody removed it, "
                    "put the store (kglink.db) back, or add the KB again."
                )
                yield Check("space", "note", f"{name}: not in the store: {gone}", fix)
            yield from _model_checks(opened, folder)
            try:
                backend_of(opened.registry, folder)(manifest.index, manifest.index_settings)
            except KglinkError as error:
                yield Check("space", "bad", error.message, error.hint)
    space = opened.joint_space
    says_nothing = bool(space.folder.unreadable()) or space.is_current()
    if not says_nothing and any(info.entities for info in opened.store.kbs()):
        name = opened.settings.space.name
        yield Check("space", "note", f"{name} is older than the store", "Run `kglink build`.")


def _model_checks(opened: Opened, folder: SpaceFolder) -> Iterator[Check]:
    """Whether the model that a space was made with is still there, and the same."""
    manifest = folder.manifest()
    try:
        encoder = own_encoder(opened.folder, folder, opened.settings.encoder)
        if manifest and encoder.info.fingerprint == manifest.model.fingerprint:
            return
        found = f"{folder.name}: the model {encoder.info.name} is not what it was"
        yield Check("model", "bad", found, "Run `kglink build`.")
    except KglinkError as error:
        yield Check("model", "bad", error.message, error.hint)


def _room(what: str, free: int, where: str, fix: str) -> Check:
    found = f"{free / 2**30:,.1f} GiB {where}"
    return Check(what, "note", found, fix) if free < _LITTLE else Check(what, "ok", found)


def _disk(what: str, folder: Path) -> Check:
    fix = "A store and its spaces may need more."
    return _room(what, shutil.disk_usage(folder).free, f"free in {folder}", fix)


def _memory() -> Check:
    available = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    meminfo = Path("/proc/meminfo")
    if meminfo.exists():  # Counts what the system would give back as well.
        found = re.search(r"MemAvailable:\s+(\d+) kB", meminfo.read_text(encoding="utf-8"))
        available = int(found.group(1)) * 1024 if found else available
    return _room("memory", available, "available", "Large KBs may need more.")
