"""Models that are neither installed nor in a folder: fetched once from the Hugging Face hub."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from kglink.errors import ModelError

#: Configuration, tokenizer and safetensors; never pickled weights, and no other format.
_WANTED = ("*.json", "*.txt", "*.model", "model*.safetensors")


def fetch_model(name: str) -> Path:
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
