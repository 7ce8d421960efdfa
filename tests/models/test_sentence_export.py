"""Exported towers and rerankers: sentence-transformers opens them with the same vectors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from conftest import Kglink
from sentence_transformers import CrossEncoder, SentenceTransformer

from bi_encoders import shake
from kglink.errors import ModelError, UsageError
from kglink.models import Encoder, choose_hardware, resolve_model
from kglink.models.bi_encoder import BiEncoder, load_bi_encoder
from kglink.models.cross_encoder import open_cross_encoder
from kglink.models.head_folder import RERANKER, RerankerManifest
from kglink.models.inputs import tokenizer_files
from kglink.models.model_folder import TowerFiles
from kglink.models.sentence_export import export_model
from kglink.models.settings import BiEncoderSettings, InputSettings
from kglink.records import Alias, Candidate, Entity, EntityId, MentionInText, Ranking

HARDWARE = choose_hardware("cpu", "fp32", 2)
TEXT = "Mice with a bad Q fever, a grey heron (Ardea) and Grippe (influenza)."
SPANS = [(16, 23), (27, 37), (50, 56), (0, 4)]
ENTITIES = [
    Entity("1", "Q fever", description="An infection with Coxiella burnetii.", type="disease"),
    Entity(
        "2",
        "heron",
        description="wading bird " * 60,
        aliases=(Alias("grey heron"), Alias("Ardea")),
    ),
    Entity("3", "influenza"),
]


def towers(**settings: Any) -> BiEncoder:
    chosen = BiEncoderSettings.model_validate(settings)
    return shake(load_bi_encoder(settings=chosen, hardware=HARDWARE), 0.002)


def marked(tags: tuple[str, str, str], start: int, end: int) -> str:
    return f"{TEXT[:start]}{tags[0]}{TEXT[start:end]}{tags[1]}{TEXT[end:]}"


def written(entity: Entity, tags: tuple[str, str, str]) -> str:
    names = "; ".join(alias.surface for alias in entity.aliases)
    known = ". ".join(part for part in (entity.type, names, entity.description.strip()) if part)
    return f"{entity.title}{tags[2]}{known}"


@pytest.mark.parametrize(
    "settings",
    [
        {"pooling": "mean"},
        {"pooling": "cls", "shared": False, "metric": "dot"},
        {"inputs": {"tags": ("[M]", "[unused1]", "[ENT]"), "entity_tokens": 40}},
    ],
    ids=["one tower", "two towers, dot product", "tags of one's own"],
)
def test_towers_have_the_vectors_that_they_have_here(
    tmp_path: Path, settings: dict[str, Any]
) -> None:
    model = towers(**settings)
    model.history = ({"run": "default-1", "source_kbs": ["letters"]},)
    model.save(tmp_path / "trained")
    source = resolve_model(str(tmp_path / "trained"))
    names = export_model(source, tmp_path / "out")
    both = settings.keys() & {"shared", "inputs"}  # one of another length is a tower of its own
    assert names == (["entity", "mention"] if both else ["encoder"])
    encoder, tags = Encoder(source, device="cpu", precision="fp32"), model.settings.inputs.tags
    mention, entity = (
        SentenceTransformer(str(tmp_path / "out" / name), device="cpu")
        for name in (names[-1], names[0])
    )
    mentions = [MentionInText(TEXT, *span) for span in SPANS]
    np.testing.assert_allclose(
        mention.encode([marked(tags, *span) for span in SPANS]),
        encoder.encode_mentions(mentions),
        atol=1e-5,
    )
    np.testing.assert_allclose(
        entity.encode([written(one, tags) for one in ENTITIES]),
        encoder.encode_entities(ENTITIES),
        atol=1e-5,
    )
    card = (tmp_path / "out" / names[0] / "README.md").read_text()
    assert 'base_model: "sentence-transformers/all-MiniLM-L6-v2"' in card
    assert '"letters"' in card


def write_reranker(folder: Path, *, pooler: bool, segments: bool) -> None:
    """A reranker of MiniLM with a head of random weights."""
    model = towers()
    source = resolve_model()
    chance = torch.Generator().manual_seed(2)
    head = {
        "weight": torch.randn(1, 384, generator=chance),
        "bias": torch.randn(1, generator=chance),
    }
    if pooler:
        head["pooler.dense.weight"] = torch.randn(384, 384, generator=chance) * 0.05
        head["pooler.dense.bias"] = torch.randn(384, generator=chance)
    manifest = RerankerManifest(
        base=model.base,
        documents=("letters",),
        inputs=InputSettings(),
        tag_ids=model.inputs.tag_ids,
        segments=segments,
    )
    tower = TowerFiles(model.mention.config, model.mention.weights(), tokenizer_files(source))
    RERANKER.write(folder, tower, head, manifest)


@pytest.mark.parametrize(("pooler", "segments"), [(True, True), (False, True), (False, False)])
def test_a_reranker_has_the_scores_that_it_has_here(
    tmp_path: Path, pooler: bool, segments: bool
) -> None:
    write_reranker(tmp_path / "reranker", pooler=pooler, segments=segments)
    assert export_model(resolve_model(), tmp_path / "out", tmp_path / "reranker") == ["reranker"]
    candidates = tuple(
        Candidate(
            EntityId("kb", one.key), one.title, 0.0, type=one.type,
            description=one.description.strip(),
        )
        for one in (ENTITIES[0], ENTITIES[2])
    )  # fmt: skip
    ranking = Ranking(MentionInText(TEXT, *SPANS[0]), candidates)
    (ours,) = open_cross_encoder(tmp_path / "reranker", HARDWARE).logits([ranking])
    tags = InputSettings().tags
    pairs = [(marked(tags, *SPANS[0]), written(one, tags)) for one in (ENTITIES[0], ENTITIES[2])]
    theirs = CrossEncoder(str(tmp_path / "out" / "reranker"), device="cpu").predict(pairs)
    np.testing.assert_allclose(theirs, ours, rtol=1e-5, atol=1e-5)


def test_what_cannot_be_exported_is_said(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="kglink has trained nothing of it"):
        export_model(resolve_model(), tmp_path / "out")
    towers(pooling="span").save(tmp_path / "spans")
    with pytest.raises(ModelError, match="has pooling span, which"):
        export_model(resolve_model(str(tmp_path / "spans")), tmp_path / "out")
    assert not (tmp_path / "out").exists()
    with pytest.raises(UsageError, match="is not empty"):
        export_model(resolve_model(), tmp_path)


def test_the_command_exports_what_a_space_has(kglink: Kglink, demo_copy: Path) -> None:
    write_reranker(demo_copy / "spaces/default/reranker", pooler=False, segments=True)
    told = kglink("model", "export", str(demo_copy / "out"))
    assert told.err.split() == ["written", str(demo_copy / "out" / "reranker")]
    assert "not empty" in kglink("model", "export", str(demo_copy / "out"), code=2).err
    asked = ("model", "export", str(demo_copy / "new"), "--space", "defualt")
    assert "unknown space 'defualt'" in kglink(*asked, code=2).err
