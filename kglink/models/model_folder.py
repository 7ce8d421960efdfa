"""The folder of a trained model: settings, checksums, one or two towers as Hugging Face has them.

kglink.json        what the model is, how its inputs are written, digests of its files
encoder/           the tower of both sides: config.json, model.safetensors, the tokenizer
mention/ entity/   in its place, where each side has a tower of its own

And what all other folders with a manifest have in common: `ManifestFolder`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Generic, NamedTuple, TypeVar

from pydantic import Field

from kglink.errors import DamagedFileError, ModelError, NewerFileError, UsageError
from kglink.files import manifest as manifests
from kglink.files.atomic import atomic_folder, recover_folder
from kglink.files.manifest import FileInfo, ManifestPart
from kglink.models.model_json import read_json
from kglink.models.settings import BiEncoderSettings
from kglink.models.source import HISTORY, ModelSource, describe_folder, file_sha256

MODEL_FILE = "kglink.json"
FORMAT = 1


class FilesManifest(ManifestPart):
    """What the manifest of every such folder says."""

    format: int = FORMAT
    files: dict[str, FileInfo] = Field(default_factory=dict)
    libraries: dict[str, str] = Field(default_factory=dict)


Manifest = TypeVar("Manifest", bound=ManifestPart)


@dataclass(frozen=True, slots=True)
class ManifestFolder(Generic[Manifest]):
    """How folders of one kind are read."""

    name: str
    """The file of the manifest."""
    kind: type[Manifest]
    damaged: str
    """What to do about a damaged one."""
    check_files: Callable[[Path, Any], None] = lambda folder, manifest: manifests.check_files(
        folder, manifest.files
    )
    """Compares the files with the manifest."""

    def is_there(self, folder: Path) -> bool:
        """Whether one lies there; one that was half replaced is put back."""
        recover_folder(folder)
        return (folder / self.name).is_file()

    def read(self, folder: Path, *, check: bool = True) -> Manifest:
        """What a folder says of itself; with ``check`` its files are compared with it."""
        recover_folder(folder)
        if self.kind is ModelManifest:  # whoever made it: small, whole, and no code in it
            read_json(folder / self.name)
        try:
            manifest = manifests.read_manifest(self.kind, folder / self.name, newest=FORMAT)
            if check:
                self.check_files(folder, manifest)
        except DamagedFileError as error:
            raise ModelError(error.message, hint=self.damaged) from error
        except NewerFileError as error:
            raise ModelError(error.message, hint=error.hint) from error
        return manifest

    def write_manifest(self, folder: Path, manifest: Manifest) -> None:
        """Write what a folder says of itself."""
        text = json.dumps(manifest.model_dump(mode="json"), indent=1, ensure_ascii=False)
        (folder / self.name).write_text(text, encoding="utf-8")


class BaseInfo(ManifestPart):
    """The model that training began with."""

    name: str
    fingerprint: str


class ModelManifest(ManifestPart):
    """What ``kglink.json`` says."""

    format: int = FORMAT
    base: BaseInfo
    settings: BiEncoderSettings
    tag_ids: tuple[int, int, int]
    fingerprint: Annotated[str, Field(pattern=r"^[0-9a-f]{16}$")]
    files: dict[str, str]
    """SHA-256 of every other file."""
    libraries: dict[str, str] = Field(default_factory=dict)
    history: tuple[dict[str, Any], ...] = ()
    """What was done to it: stages, data, seeds; it does not count for the fingerprint."""


class TowerFiles(NamedTuple):
    """A tower ready to be written: configuration, weights in safetensors, tokenizer files."""

    config: Mapping[str, Any]
    weights: Mapping[str, Any]
    tokenizer: Mapping[str, bytes]


def _check_digests(folder: Path, manifest: ModelManifest) -> None:
    expected = {f"{tower}/model.safetensors" for tower in manifest.settings.towers}
    if missing := sorted(expected - manifest.files.keys()):
        raise DamagedFileError(f"{folder / MODEL_FILE}: names no {missing[0]}")
    for name, digest in manifest.files.items():
        path = folder / name
        if folder.resolve() not in path.resolve().parents:
            raise ModelError(f"{folder / MODEL_FILE}: names a file elsewhere, {name}")
        if file_sha256(path) != digest:
            raise DamagedFileError(f"{path}: is not as it was written")


#: The folder of a trained model.
TRAINED = ManifestFolder(
    MODEL_FILE,
    ModelManifest,
    "The folder is damaged: copy it anew, or take an earlier checkpoint.",
    _check_digests,
)


def describe_model(name: str, folder: Path) -> ModelSource:
    """Check a model folder and say what searching needs to know; loads no weights."""
    manifest = TRAINED.read(folder)
    sources = tower_sources(folder, manifest)
    return ModelSource(
        name=name,
        path=folder,
        weights=tuple(path for source in sources for path in source.weights),
        pooling=manifest.settings.pooling,
        dim=sources[0].dim,
        max_tokens=manifest.settings.inputs.entity_tokens,
        fingerprint=manifest.fingerprint,
    )


def tower_sources(folder: Path, manifest: ModelManifest) -> list[ModelSource]:
    """The model folders of the towers, one or two."""
    return [
        replace(
            describe_folder(str(folder / tower), folder / tower),
            pooling=manifest.settings.pooling,
        )
        for tower in manifest.settings.towers
    ]


def write_model_folder(
    folder: Path,
    towers: Sequence[TowerFiles],
    *,
    base: BaseInfo,
    settings: BiEncoderSettings,
    tag_ids: tuple[int, int, int],
    libraries: Mapping[str, str],
    history: Sequence[Mapping[str, Any]],
) -> ModelManifest:
    """Write a model folder whole, then put it in the place of what was there.

    Whatever happens, ``folder`` or what the next reader restores is the old model or the new one.
    """
    if folder.exists() and not TRAINED.is_there(folder) and any(folder.iterdir()):
        raise ModelError(
            f"{folder}: is not empty and holds no model of kglink",
            hint="Give another folder, or empty this one.",
        )
    with saying_what_is_kept(folder), atomic_folder(folder) as draft:
        for name, tower in zip(settings.towers, towers, strict=True):
            write_tower(draft / name, tower)
        files = {
            str(path.relative_to(draft)): file_sha256(path) for path in sorted(draft.rglob("*.*"))
        }
        manifest = ModelManifest(
            base=base,
            settings=settings,
            tag_ids=tag_ids,
            fingerprint=_fingerprint(settings, tag_ids, [tower.config for tower in towers], files),
            files=files,
            libraries=dict(libraries),
            history=tuple(dict(step) for step in history),
        )
        TRAINED.write_manifest(draft, manifest)
    return manifest


def write_tower(folder: Path, tower: TowerFiles) -> None:
    """Write a new folder that Hugging Face's libraries read as a model."""
    from safetensors.torch import save_file

    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(dict(tower.config), indent=1), encoding="utf-8")
    for name, content in tower.tokenizer.items():
        (folder / name).write_bytes(content)
    save_file(dict(tower.weights), folder / "model.safetensors", {"format": "pt"})


def _fingerprint(
    settings: BiEncoderSettings,
    tag_ids: Sequence[int],
    configs: Sequence[Mapping[str, Any]],
    files: Mapping[str, str],
) -> str:
    """A name for all that vectors depend on."""
    facts: list[Any] = [settings.model_dump(mode="json"), list(tag_ids)]
    facts += [{key: config[key] for key in config.keys() - HISTORY} for config in configs]
    facts += [
        [name, digest]
        for name, digest in sorted(files.items())
        if Path(name).name in {"model.safetensors", "tokenizer.json"}
    ]
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:16]


def check_new_folder(folder: Path) -> None:
    """Refuse a place where a model would replace something, or the folder that one is in."""
    why = ""
    if folder.is_symlink():
        why = "is a link"
    elif folder.exists():
        if not folder.is_dir():
            why = "is a file"
        elif any(folder.iterdir()):
            why = "is not empty"
        elif folder.samefile(Path.cwd()):
            why = "is the folder that you are in"
    if why:
        raise UsageError(f"{folder}: {why}", hint="Name a new folder.")


@contextmanager
def saying_what_is_kept(folder: Path) -> Iterator[None]:
    """Turn a failed write of a folder into one clear error."""
    from safetensors import SafetensorError

    try:
        yield
    except (OSError, SafetensorError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise ModelError(
            f"{folder}: the model cannot be saved: {reason}",
            hint="Free some space or give another folder; what was saved there before is kept.",
        ) from error
