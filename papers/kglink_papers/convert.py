"""A model of kglink from the weights of a bi-encoder that BLINK has released.

The file holds two BERTs, of contexts and of candidates. Configuration and tokenizer, which it does
not hold, are those of the BERT that BLINK began with.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from torch import Tensor

from kglink.errors import ModelError, UsageError
from kglink.models.bi_encoder import load_bi_encoder
from kglink.models.hardware import choose_hardware
from kglink.models.model_folder import BaseInfo
from kglink.models.packed import PackedTower
from kglink.models.settings import BiEncoderSettings, InputSettings
from kglink.models.source import file_sha256
from kglink_papers.torch_archive import read_torch_archive

#: Of the tower of mentions, then of that of entities.
_TOWERS = ("context_encoder.bert_model.", "cand_encoder.bert_model.")
#: As BLINK reads: the first state of [CLS], compared by dot product.
_SETTINGS = BiEncoderSettings(
    shared=False,
    pooling="cls",
    metric="dot",
    scorer="dual",
    inputs=InputSettings(
        mention_tokens=128, entity_tokens=128, parts=("title", "description"), aliases=0
    ),
)


class Converted(NamedTuple):
    """A model folder that was written."""

    folder: Path
    tensors: int
    """Those of the file that the towers took."""
    unused: tuple[str, ...]
    """The names of the others."""
    fingerprint: str

    def as_json(self) -> dict[str, object]:
        """What `kglink convert --json` says."""
        return {**self._asdict(), "folder": str(self.folder), "unused": list(self.unused)}


def convert_blink(weights: Path, folder: Path, like: str) -> Converted:
    """Write a model folder with the weights of a released file.

    ``like`` is the BERT whose configuration and tokenizer it takes, such as
    ``google-bert/bert-large-uncased``: a folder or a name on the hub.
    """
    if folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
        raise UsageError(
            f"{folder} exists already, and a model would take its place",
            hint="Name a new folder.",
        )
    found = read_torch_archive(weights)
    parts = [_part(found, prefix) for prefix in _TOWERS]
    if not all(parts):
        heads = sorted({name.split(".")[0] for name in found})
        raise ModelError(
            f"{weights}: holds no bi-encoder of BLINK, which has {' and '.join(_TOWERS)}",
            hint=f"Its names begin with {', '.join(heads[:5])}. A cross-encoder is not read.",
        )
    model = load_bi_encoder(like, settings=_SETTINGS, hardware=choose_hardware("cpu", "fp32"))
    taken: set[str] = set()
    for tower, prefix, part in zip(model.towers(), _TOWERS, parts, strict=True):
        if not isinstance(tower, PackedTower):
            raise ModelError(f"{like}: is no plain BERT, and BLINK's towers are")
        taken |= {prefix + name for name in tower.load(part)}
    digest = file_sha256(weights)
    model.base = BaseInfo(name=weights.name, fingerprint=digest[:16])
    model.history = ({"kind": "convert", "file": weights.name, "sha256": digest, "like": like},)
    manifest = model.save(folder)
    unused = tuple(sorted(found.keys() - taken))
    return Converted(folder, len(taken), unused, manifest.fingerprint)


def _part(found: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {
        name.removeprefix(prefix): value for name, value in found.items() if name.startswith(prefix)
    }
