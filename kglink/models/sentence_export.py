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
from tempfile import TemporaryDirectory
from typing import Any

from kglink.errors import ModelError, UsageError
from kglink.files.atomic import atomic_folder
from kglink.models.head_folder import RERANKER
from kglink.models.loading import save_sentences
from kglink.models.model_folder import (
    TRAINED,
    TowerFiles,
    check_new_folder,
    saying_what_is_kept,
    tower_sources,
    write_tower,
)
from kglink.models.opening import DEFAULT_MODEL
from kglink.models.source import ModelSource, read_config

#: Where families keep the vectors of their tokens.
_TABLES = ("word_embeddings.weight", "tok_embeddings.weight")
_MINILM = "sentence-transformers/all-MiniLM-L6-v2"


def export_model(model: ModelSource, folder: Path, reranker: Path | None = None) -> list[str]:
    """Write a trained model, and a reranker where one is given; returns the folders' names.

    ``folder`` is written whole or not at all; one that holds other things is refused.
    """
    check_new_folder(folder)
    reranker = reranker if reranker is not None and RERANKER.is_there(reranker) else None
    if not TRAINED.is_there(model.path) and reranker is None:
        raise UsageError(
            f"{model.name}: kglink has trained nothing of it",
            hint="Export what `kglink finetune` made: --space names its space. Others open this "
            "model by its own name.",
        )
    with saying_what_is_kept(folder), atomic_folder(folder) as draft:
        if TRAINED.is_there(model.path):
            _write_towers(draft, model)
        if reranker is not None:
            _write_reranker(draft / "reranker", reranker)
        return sorted(path.name for path in draft.iterdir())


def _write_towers(draft: Path, model: ModelSource) -> None:
    from sentence_transformers.base.modules import Normalize
    from sentence_transformers.sentence_transformer.modules import Pooling

    manifest = TRAINED.read(model.path)
    settings, inputs = manifest.settings, manifest.settings.inputs
    if settings.pooling not in {"mean", "cls"}:
        raise ModelError(
            f"{model.name}: has pooling {settings.pooling}, which sentence-transformers has not",
            hint="Train with model.pooling mean or cls to export it.",
        )
    lengths = {"mention": inputs.mention_tokens, "entity": inputs.entity_tokens}
    towers = dict(zip(settings.towers, tower_sources(model.path, manifest), strict=True))
    if settings.shared and len(set(lengths.values())) > 1:
        towers = dict.fromkeys(lengths, towers["encoder"])
    texts = _texts(inputs.tags)
    for name, tower in towers.items():
        tags = dict(zip(inputs.tags, manifest.tag_ids, strict=True))
        after = [Pooling(tower.dim, settings.pooling)]
        after += [Normalize()] if settings.searches_by_cosine else []
        longest = lengths.get(name, inputs.mention_tokens)
        _write(draft / name, "SentenceTransformer", tower, after, tags, longest)
        read = [texts[name]] if name in texts else list(texts.values())
        code = f"vectors = model.encode({read!r})"
        _write_card(draft / name, "SentenceTransformer", code, manifest.base.name, manifest.history)


def _write_reranker(draft: Path, folder: Path) -> None:
    from sentence_transformers.base.modules import Dense
    from sentence_transformers.sentence_transformer.modules import Pooling
    from torch import nn

    from kglink.models.cross_encoder import pooler_in

    manifest, source, head = RERANKER.open(folder, 1)
    if manifest.padded:
        raise UsageError(
            f"{folder}: reads mentions and candidates with padding between them, and "
            "sentence-transformers puts none there",
            hint="Export the towers alone, or train a reranker without `padded`.",
        )
    dim, pooler, inputs = source.dim, pooler_in(head, source.dim), manifest.inputs
    after: list[Any] = [Pooling(dim, "cls")]
    if pooler is not None:
        after.append(Dense(dim, dim, init_weight=pooler.weight, init_bias=pooler.bias))
    weight, bias = head["weight"].float(), head["bias"].float()
    none = nn.Identity()
    after.append(Dense(dim, 1, True, none, weight, bias, module_output_name="scores"))
    tags = dict(zip(inputs.tags, manifest.tag_ids, strict=True))
    longest = inputs.mention_tokens + inputs.entity_tokens - 1
    segments = manifest.segments
    _write(
        draft, "CrossEncoder", source, after, tags, longest, segments=segments, activation_fn=none
    )
    code = f"scores = model.predict([{tuple(_texts(inputs.tags).values())!r}])"
    learnt = {"documents": manifest.documents, "epoch": manifest.epoch}
    if manifest.compared is not None:
        learnt["held-out mentions answered right"] = manifest.compared.model_dump()
    _write_card(draft, "CrossEncoder", code, manifest.base.name, [learnt])


def _write(
    folder: Path,
    kind: str,
    source: ModelSource,
    after: Sequence[Any],
    tags: Mapping[str, int],
    max_tokens: int,
    *,
    segments: bool = True,
    **options: Any,
) -> None:
    """Write an encoder, with its tags as tokens, and the modules behind it."""
    import tokenizers
    import torch

    from kglink.models.inputs import tokenizer_files
    from kglink.models.loading import load_tensors

    files = tokenizer_files(source)
    tokenizer = tokenizers.Tokenizer.from_str(files["tokenizer.json"].decode())
    weights = {k: v for path in source.weights for k, v in load_tensors(path).items()}
    for tag, row in tags.items():
        tokenizer.add_special_tokens([tokenizers.AddedToken(tag, special=True, normalized=False)])
        new = tokenizer.token_to_id(tag)
        if new != row:  # a row behind the vocabulary: the tokenizer counts on from its last token
            (name,) = (key for key in weights if key.endswith(_TABLES))
            weights[name][new] = weights[name][row]
    own = {"tokenizer_class": "PreTrainedTokenizerFast"}
    own |= json.loads(files.get("tokenizer_config.json", b"{}"))
    read = ["input_ids", "attention_mask", *(["token_type_ids"] if segments else [])]
    files["tokenizer_config.json"] = json.dumps({**own, "model_input_names": read}).encode()
    files["tokenizer.json"] = tokenizer.to_str().encode()
    config = read_config(source.path)
    if config.get("model_type") == "bert":  # transformers would draw it, and warn, on each load
        for part, shape in (("weight", (source.dim, source.dim)), ("bias", (source.dim,))):
            weights.setdefault(f"pooler.dense.{part}", torch.zeros(shape))
    with TemporaryDirectory(prefix="kglink-model-") as place:
        write_tower(Path(place, "tower"), TowerFiles(config, weights, files))
        save_sentences(kind, folder, Path(place, "tower"), max_tokens, after, **options)


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
