"""A model of kglink from the weights of a bi-encoder or a cross-encoder that BLINK has released.

The file holds two BERTs, of contexts and of candidates, or one that reads both, with a last layer.
Configuration and tokenizer, which it does not hold, are those of the BERT that BLINK began with.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from torch import Tensor

from kglink.errors import ModelError
from kglink.files.manifest import library_versions
from kglink.models.bi_encoder import load_bi_encoder
from kglink.models.cross_encoder import pooler_in
from kglink.models.hardware import choose_hardware
from kglink.models.head_folder import RERANKER, RerankerManifest
from kglink.models.inputs import Inputs, tokenizer_files
from kglink.models.model_folder import BaseInfo, TowerFiles, check_new_folder
from kglink.models.opening import resolve_model
from kglink.models.packed import PackedTower
from kglink.models.settings import BiEncoderSettings, InputSettings
from kglink.models.source import ModelSource, file_sha256, read_config
from kglink.models.towers import load_tower
from kglink_papers.torch_archive import read_torch_archive

#: Of the tower of mentions, then of that of entities.
_TOWERS = ("context_encoder.bert_model.", "cand_encoder.bert_model.")
#: Of a cross-encoder: the BERT, and the layer behind its pooler that gives the score.
_READER, _SCORE = "encoder.bert_model.", "encoder.additional_linear."
#: As BLINK's cross-encoder was trained on Wikipedia: 32 tokens of a mention, padding behind them.
_READ = InputSettings(
    mention_tokens=32, entity_tokens=128, parts=("title", "description"), aliases=0
)
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
    reranker: bool = False
    """Whether it is a cross-encoder."""

    def as_json(self) -> dict[str, object]:
        """What `kglink convert --json` says."""
        return {**self._asdict(), "folder": str(self.folder), "unused": list(self.unused)}


def convert_blink(weights: Path, folder: Path, like: str) -> Converted:
    """Write a model folder, or the folder of a reranker, with the weights of a released file.

    ``like`` is the BERT whose configuration and tokenizer it takes, such as
    ``google-bert/bert-large-uncased``: a folder or a name on the hub.
    """
    check_new_folder(folder)
    found = read_torch_archive(weights)
    for name, value in found.items():
        if value.is_floating_point() and not value.isfinite().all():
            raise ModelError(
                f"{weights}: {name} has values that are no finite numbers",
                hint="The file is damaged: fetch it again.",
            )
    digest, source = file_sha256(weights), resolve_model(like)
    if any(name.startswith(_SCORE) for name in found):
        return _convert_reranker(weights, digest, found, folder, source)
    parts = [_part(found, prefix) for prefix in _TOWERS]
    if not all(parts):
        heads = sorted({name.split(".")[0] for name in found})
        raise ModelError(
            f"{weights}: holds no bi-encoder of BLINK, which has {' and '.join(_TOWERS)}, and no "
            f"cross-encoder, which has {_READER} and {_SCORE}",
            hint=f"Its names begin with {', '.join(heads[:5])}.",
        )
    model = load_bi_encoder(like, settings=_SETTINGS, hardware=choose_hardware("cpu", "fp32"))
    taken: set[str] = set()
    for tower, prefix, part in zip(model.towers(), _TOWERS, parts, strict=True):
        if not isinstance(tower, PackedTower):
            raise ModelError(f"{like}: is no plain BERT, and BLINK's towers are")
        taken |= _load(tower, part, weights, prefix, source)
    model.base = BaseInfo(name=weights.name, fingerprint=digest[:16])
    model.history = ({"kind": "convert", "file": weights.name, "sha256": digest, "like": like},)
    manifest = model.save(folder)
    unused = tuple(sorted(found.keys() - taken))
    return Converted(folder, len(taken), unused, manifest.fingerprint)


def _convert_reranker(
    weights: Path, digest: str, found: Mapping[str, Tensor], folder: Path, source: ModelSource
) -> Converted:
    inputs = Inputs(source, _READ, rows=int(read_config(source.path)["vocab_size"]))
    tower = load_tower(source, choose_hardware("cpu", "fp32"), rows=inputs.rows)
    if not isinstance(tower, PackedTower):
        raise ModelError(f"{source.path}: is no plain BERT, and BLINK's cross-encoder is")
    part, score = _part(found, _READER), _part(found, _SCORE)
    taken = _load(tower, part, weights, _READER, source) | {_SCORE + one for one in score}
    pooler = {one: value for one, value in part.items() if one.startswith("pooler.")}
    taken |= {_READER + one for one in pooler}
    shapes = {one: tuple(value.shape) for one, value in score.items()}
    if shapes != {"weight": (1, source.dim), "bias": (1,)} or not pooler_in(pooler, source.dim):
        raise ModelError(
            f"{weights}: lacks the pooler of BLINK's cross-encoder, or its last layer, which gives "
            "one score"
        )
    head = {one: value.float().contiguous() for one, value in (score | pooler).items()}
    manifest = RerankerManifest(
        base=BaseInfo(name=weights.name, fingerprint=digest[:16]),
        documents=(),
        inputs=_READ,
        tag_ids=inputs.tag_ids,
        segments=True,
        padded=True,
        libraries=library_versions(),
    )
    files = TowerFiles(tower.config, tower.weights(), tokenizer_files(source))
    RERANKER.write(folder, files, head, manifest)
    unused = tuple(sorted(found.keys() - taken))
    return Converted(folder, len(taken), unused, digest[:16], reranker=True)


def _load(
    tower: PackedTower, part: Mapping[str, Tensor], weights: Path, prefix: str, like: ModelSource
) -> set[str]:
    """Give a tower its tensors; returns their names in the file."""
    hint = "Name the BERT that it was made from: --like."
    table = "embeddings.word_embeddings.weight"
    words, known = part.get(table), int(read_config(like.path)["vocab_size"])
    # With rows for the tags that our towers add, or without.
    if words is not None and words.shape[:1] not in {(known,), tower.state_dict()[table].shape[:1]}:
        raise ModelError(
            f"{weights}: {prefix}{table} has the shape {(*words.shape,)}, and {like.path} knows "
            f"{known:,} words",
            hint=hint,
        )
    try:
        return {prefix + name for name in tower.load(part)}
    except ModelError as error:
        raise ModelError(f"{weights}: {prefix.rstrip('.')}: {error}", hint=hint) from error


def _part(found: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {
        name.removeprefix(prefix): value for name, value in found.items() if name.startswith(prefix)
    }
