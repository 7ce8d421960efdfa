"""What kglink has trained, as folders that sentence-transformers opens with the same vectors.

encoder/             the tower of both sides
mention/ entity/     in its place, where there are two, or where they read texts of other lengths
reranker/            a `CrossEncoder`

The tags of a mention and of a title are tokens of the exported tokenizer, so that a text names
them: ``left [unused0]mention[unused1] right``, ``title[unused2]what is known of it``.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from kglink.errors import ModelError, UsageError
from kglink.files.atomic import atomic_folder
from kglink.models.head_folder import ENCODER, HEAD, RERANKER
from kglink.models.model_folder import is_model_folder, read_manifest, tower_sources
from kglink.models.opening import DEFAULT_MODEL
from kglink.models.source import ModelSource, describe_folder, read_config

_BASE, _OWN = "sentence_transformers.base.modules", "sentence_transformers.sentence_transformer"
_CLASSES = {
    "Transformer": f"{_BASE}.transformer.Transformer",
    "Dense": f"{_BASE}.dense.Dense",
    "Normalize": f"{_BASE}.normalize.Normalize",
    "Pooling": f"{_OWN}.modules.pooling.Pooling",
}
_TANH, _IDENTITY = "torch.nn.modules.activation.Tanh", "torch.nn.modules.linear.Identity"
#: Where families keep the vectors of their tokens.
_TABLES = ("word_embeddings.weight", "tok_embeddings.weight")
_MINILM = "sentence-transformers/all-MiniLM-L6-v2"


class Part(NamedTuple):
    """A module behind the encoder: its class, settings and weights."""

    kind: str
    settings: Mapping[str, Any] = {}
    weights: Mapping[str, Any] = {}


def export_model(model: ModelSource, folder: Path, reranker: Path | None = None) -> list[str]:
    """Write a trained model, and a reranker where one is given; returns the folders' names.

    ``folder`` is written whole or not at all; one that holds other things is refused.
    """
    if folder.exists() and any(folder.iterdir()):
        raise UsageError(f"{folder}: is not empty", hint="Give another folder, or empty this one.")
    reranker = reranker if reranker is not None and RERANKER.is_there(reranker) else None
    if not is_model_folder(model.path) and reranker is None:
        raise UsageError(
            f"{model.name}: kglink has trained nothing of it",
            hint="Export what `kglink finetune` made; others open this model by its own name.",
        )
    with atomic_folder(folder) as draft:
        if is_model_folder(model.path):
            _write_towers(draft, model)
        if reranker is not None:
            _write_reranker(draft / "reranker", reranker)
        return sorted(path.name for path in draft.iterdir())


def _write_towers(draft: Path, model: ModelSource) -> None:
    manifest = read_manifest(model.path)
    settings = manifest.settings
    if settings.pooling not in {"mean", "cls"}:
        raise ModelError(
            f"{model.name}: has pooling {settings.pooling}, which sentence-transformers has not",
            hint="Train with model.pooling mean or cls to export it.",
        )
    after = [Part("Normalize")] if settings.searches_by_cosine else []
    tags = settings.inputs.tags
    lengths = {"mention": settings.inputs.mention_tokens, "entity": settings.inputs.entity_tokens}
    towers = dict(zip(settings.towers, tower_sources(model.path, manifest), strict=True))
    if settings.shared and len(set(lengths.values())) > 1:
        towers = dict.fromkeys(lengths, towers["encoder"])
    for name, tower in towers.items():
        pooling = {"embedding_dimension": tower.dim, "pooling_mode": settings.pooling}
        _write(
            draft / name,
            tower,
            [Part("Pooling", pooling), *after],
            {"prompts": {}, "similarity_fn_name": "cosine" if after else "dot"},
            zip(tags, manifest.tag_ids, strict=True),
            lengths.get(name, settings.inputs.mention_tokens),
        )
        texts = _texts(tags)
        read = [texts[name]] if name in texts else list(texts.values())
        code = f"vectors = model.encode({read!r})"
        _write_card(draft / name, "SentenceTransformer", code, manifest.base.name, manifest.history)


def _write_reranker(draft: Path, folder: Path) -> None:
    from kglink.models.cross_encoder import pooler_in
    from kglink.models.loading import load_tensors

    manifest = RERANKER.read(folder)
    source = describe_folder(str(folder), folder / ENCODER)
    head, dim = load_tensors(folder / HEAD), source.dim
    pooler = pooler_in(head, dim)
    dense = {"in_features": dim, "out_features": dim, "bias": True, "activation_function": _TANH}
    parts = [Part("Pooling", {"embedding_dimension": dim, "pooling_mode": "cls"})]
    if pooler is not None:
        weights = {f"linear.{name}": value for name, value in pooler.state_dict().items()}
        parts.append(Part("Dense", dense, weights))
    scores = {"out_features": 1, "activation_function": _IDENTITY, "module_output_name": "scores"}
    weights = {f"linear.{name}": head[name].float() for name in ("weight", "bias")}
    parts.append(Part("Dense", {**dense, **scores}, weights))
    inputs = manifest.inputs
    _write(
        draft,
        source,
        parts,
        {"model_type": "CrossEncoder", "prompts": {}, "activation_fn": _IDENTITY},
        zip(inputs.tags, manifest.tag_ids, strict=True),
        inputs.mention_tokens + inputs.entity_tokens - 1,
        segments=manifest.segments,
    )
    code = f"scores = model.predict([{tuple(_texts(inputs.tags).values())!r}])"
    learnt = {"documents": manifest.documents, "epoch": manifest.epoch}
    if manifest.compared is not None:
        learnt["held-out mentions answered right"] = manifest.compared.model_dump()
    _write_card(draft, "CrossEncoder", code, manifest.base.name, [learnt])


def _write(
    folder: Path,
    source: ModelSource,
    parts: Sequence[Part],
    config: Mapping[str, Any],
    tags: Iterable[tuple[str, int]],
    max_tokens: int,
    *,
    segments: bool = True,
) -> None:
    """Write an encoder, with its tags as tokens, and the modules behind it."""
    import tokenizers
    from safetensors.torch import save_file

    from kglink.models.inputs import tokenizer_files
    from kglink.models.loading import load_tensors

    folder.mkdir(parents=True)
    files = tokenizer_files(source)
    tokenizer = tokenizers.Tokenizer.from_str(files.pop("tokenizer.json").decode())
    weights = {k: v for path in source.weights for k, v in load_tensors(path).items()}
    for tag, row in tags:
        tokenizer.add_special_tokens([tokenizers.AddedToken(tag, special=True, normalized=False)])
        new = tokenizer.token_to_id(tag)
        if new != row:  # a row behind the vocabulary: the tokenizer counts on from its last token
            (name,) = (key for key in weights if key.endswith(_TABLES))
            weights[name][new] = weights[name][row]
    tokenizer.save(str(folder / "tokenizer.json"))
    for name, raw in files.items():
        (folder / name).write_bytes(raw)
    own = {"tokenizer_class": "PreTrainedTokenizerFast"}
    own |= json.loads(files.get("tokenizer_config.json", b"{}"))
    read = ["input_ids", "attention_mask", *(["token_type_ids"] if segments else [])]
    modules = [Part("Transformer"), *parts]
    places = ["", *(f"{place}_{one.kind}" for place, one in enumerate(parts, 1))]
    listed = [
        {"idx": at, "name": str(at), "path": place, "type": _CLASSES[one.kind]}
        for at, (place, one) in enumerate(zip(places, modules, strict=True))
    ]
    for name, value in {
        "config.json": read_config(source.path),
        "tokenizer_config.json": {**own, "model_input_names": read, "model_max_length": max_tokens},
        "sentence_bert_config.json": {"max_seq_length": max_tokens, "do_lower_case": False},
        "config_sentence_transformers.json": config,
        "modules.json": listed,
    }.items():
        (folder / name).write_text(json.dumps(value, indent=1, ensure_ascii=False), "utf-8")
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    for place, one in zip(places[1:], parts, strict=True):
        (folder / place).mkdir()
        (folder / place / "config.json").write_text(json.dumps(one.settings), encoding="utf-8")
        if one.weights:
            save_file(dict(one.weights), folder / place / "model.safetensors", {"format": "pt"})


def _texts(tags: Sequence[str]) -> dict[str, str]:
    """How a mention and an entity are written."""
    start, end, title = tags
    return {
        "mention": f"A grey {start}heron{end} stood in the river.",
        "entity": f"Grey heron{title}bird. A large wading bird.",
    }


def _write_card(
    folder: Path, kind: str, code: str, base: str, history: Iterable[Mapping[str, Any]]
) -> None:
    """Write the model card: what it was trained on, its figures, how to use it, its licence."""
    base = _MINILM if base == DEFAULT_MODEL else base
    task = "text-ranking" if kind == "CrossEncoder" else "sentence-similarity"
    trained = "\n".join(json.dumps(one, indent=1, ensure_ascii=False) for one in history)
    text = f"""---
library_name: sentence-transformers
pipeline_tag: {task}
base_model: {json.dumps(base)}
tags: [sentence-transformers, entity-linking, kglink]
---
# {kind} for entity linking

Trained with kglink from {base}. A mention is marked in its text; a title ends with a tag.

```python
from sentence_transformers import {kind}

model = {kind}("FOLDER")
{code}
```

A long text is cut at its end: give the words around the mention alone.

## Data and figures

```json
{trained}
```

## Licence

State it before you publish: that of {base} and those of the training data bind it.
"""
    (folder / "README.md").write_text(text, encoding="utf-8")
