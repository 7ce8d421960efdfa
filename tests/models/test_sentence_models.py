"""Models of sentence-transformers give the library's vectors, whatever their modules."""

from __future__ import annotations

import json
import logging
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Dense, Normalize, Transformer
from sentence_transformers.sentence_transformer.modules import LayerNorm, Pooling, StaticEmbedding

from kglink.errors import ModelError
from kglink.models import Encoder, resolve_model
from kglink.models.bi_encoder import load_bi_encoder
from kglink.models.opening import packaged_minilm

FloatArray = npt.NDArray[np.float32]
TEXTS = [
    "heron",
    "",
    "a large wading bird of the family Ardeidae; it eats fish and frogs",
    "Q fever, an infection with the bacterium Coxiella burnetii",
    "Grippe \ud800 é 🜍",
    *[" ".join(["acute"] * n) + " pneumonia" for n in (1, 7, 33, 90)],
]
WIDTH = 384


def minilm(**settings: Any) -> Transformer:
    """The encoder of MiniLM, its first two layers alone."""
    module: Transformer = Transformer(str(packaged_minilm()), max_seq_length=64, **settings)
    encoder: Any = module.auto_model
    del encoder.encoder.layer[2:]
    encoder.config.num_hidden_layers = 2
    return module


def pooled(*modes: str, include_prompt: bool = True) -> list[torch.nn.Module]:
    return [Pooling(WIDTH, modes, include_prompt=include_prompt)]


def static() -> list[torch.nn.Module]:
    encoder = minilm()
    model: Any = encoder.auto_model
    table = model.embeddings.word_embeddings.weight.detach()[:, :64].clone()
    tokenizer: Any = encoder.tokenizer
    return [StaticEmbedding(tokenizer, embedding_weights=table), Normalize()]


PROMPTS = {"query": "name: ", "passage": "entity: "}
#: The modules behind the encoder, what else is saved with them, and who runs the model.
CHAINS: dict[str, tuple[Callable[[], list[torch.nn.Module]], dict[str, Any], bool]] = {
    "mean": (lambda: [*pooled("mean"), Normalize()], {}, False),
    "cls": (lambda: pooled("cls"), {}, False),
    "max": (lambda: [*pooled("max"), Normalize()], {}, True),
    "weighted mean": (lambda: pooled("weightedmean"), {}, True),
    "last token and mean": (lambda: pooled("lasttoken", "mean"), {}, True),
    "dense and norm": (
        lambda: [*pooled("mean"), Dense(WIDTH, 48), LayerNorm(48), Normalize()],
        {"prompts": PROMPTS},
        True,
    ),
    "static": (static, {}, True),
    "prompts": (lambda: pooled("mean"), {"prompts": PROMPTS}, False),
    "default prompt": (
        lambda: pooled("mean"),
        {"prompts": {"sts": "alike: "}, "default_prompt_name": "sts"},
        False,
    ),
    "prompt that is not pooled": (
        lambda: pooled("mean", include_prompt=False),
        {"prompts": PROMPTS},
        True,
    ),
    "cut vectors": (lambda: pooled("mean"), {"truncate_dim": 32}, True),
}


@pytest.fixture(scope="module", autouse=True)
def _quiet() -> Iterator[None]:
    """The library warns of prompts that it uses."""
    logging.disable(logging.WARNING)
    yield
    logging.disable(logging.NOTSET)


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    root = tmp_path_factory.mktemp("saved")

    def save(name: str) -> Path:
        folder = root / name
        if not folder.exists():
            torch.manual_seed(0)
            modules, options, _ = CHAINS[name]
            first = [] if name == "static" else [minilm()]
            made = SentenceTransformer(modules=[*first, *modules()], device="cpu", **options)
            made.save(str(folder), create_model_card=False)
        return folder

    return save


def ours(folder: Path) -> Encoder:
    return Encoder(str(folder), device="cpu", precision="fp32", threads=2)


@pytest.mark.slow
@pytest.mark.parametrize("name", CHAINS)
def test_vectors_are_those_of_the_library(saved: Callable[[str], Path], name: str) -> None:
    folder, (_, options, by_library) = saved(name), CHAINS[name]
    encoder = ours(folder)
    assert encoder.source.chain.by_library == by_library
    theirs = SentenceTransformer(str(folder), device="cpu")
    texts = [text.replace("\ud800", "\ufffd") for text in TEXTS]
    if "default_prompt_name" in options:
        documents = queries = theirs.encode(texts, normalize_embeddings=True)
    else:
        documents = theirs.encode_document(texts, normalize_embeddings=True)
        queries = theirs.encode_query(texts, normalize_embeddings=True)
    np.testing.assert_allclose(encoder.encode(TEXTS), documents, atol=3e-6)
    np.testing.assert_allclose(encoder.encode_queries(TEXTS), queries, atol=3e-6)
    assert np.allclose(queries, documents) != (options.get("prompts") == PROMPTS)
    assert encoder.encode([]).shape == (0, encoder.dim)
    assert encoder.truncated == (0 if name == "static" else 2)  # one text, for both


def test_the_same_list_gives_the_same_bytes(saved: Callable[[str], Path]) -> None:
    folder = saved("max")
    vectors = [
        Encoder(str(folder), device="cpu", precision="fp32", threads=threads).encode(TEXTS * 9)
        for threads in (1, 3)
    ]
    assert vectors[0].tobytes() == vectors[1].tobytes()


@pytest.mark.slow
def test_prompts_and_modules_belong_to_the_name_of_a_model(
    saved: Callable[[str], Path], tmp_path: Path
) -> None:
    found = {resolve_model(str(saved(name))).fingerprint for name in CHAINS}
    # "cls" has no prompts, and no two of the others are one.
    assert len(found) == len(CHAINS)
    folder = shutil.copytree(saved("dense and norm"), tmp_path / "other")
    shutil.copy(saved("max") / "model.safetensors", folder / "2_Dense" / "model.safetensors")
    assert resolve_model(str(folder)).fingerprint not in found


def test_towers_are_not_made_of_a_chain(saved: Callable[[str], Path]) -> None:
    for name in ("dense and norm", "static"):
        with pytest.raises(ModelError, match="modules beside its encoder"):
            load_bi_encoder(saved(name))


def change(path: Path, **values: object) -> None:
    content = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps(content | values))


def module(folder: Path, name: str) -> None:
    path = folder / "modules.json"
    modules = json.loads(path.read_text())
    modules[2]["type"] = name
    path.write_text(json.dumps(modules))


def elsewhere(folder: Path) -> None:
    path = folder / "modules.json"
    path.write_text(path.read_text().replace("2_Dense", "../2_Dense"))


def pickled(folder: Path) -> None:
    (folder / "2_Dense/model.safetensors").rename(folder / "2_Dense/pytorch_model.bin")


def lacking(folder: Path) -> None:
    from safetensors.torch import load_file, save_file

    path = folder / "model.safetensors"
    weights = load_file(path)
    del weights["encoder.layer.1.output.dense.bias"]
    save_file(weights, path, {"format": "pt"})


ATTACKS: dict[str, tuple[Callable[[Path], object], str]] = {
    "own module": (lambda f: module(f, "evil.Dense"), "module 'evil.Dense' is not"),
    "other module": (lambda f: module(f, "sentence_transformers.models.Router"), "not supported"),
    "module elsewhere": (elsewhere, "names a folder elsewhere"),
    "pickled part": (pickled, "only pickled weights"),
    "activation": (
        lambda f: change(f / "2_Dense/config.json", activation_function="torch.hub.load"),
        "no activation function",
    ),
    "code in a part": (
        lambda f: change(f / "2_Dense/config.json", auto_map={"AutoModel": "evil.M"}),
        "auto_map",
    ),
    "code for the encoder": (
        lambda f: change(f / "sentence_bert_config.json", model_args={"trust_remote_code": True}),
        "trust_remote_code",
    ),
    "prompts": (
        lambda f: change(f / "config_sentence_transformers.json", prompts={"query": 3}),
        "no table of texts",
    ),
    "default prompt": (
        lambda f: change(f / "config_sentence_transformers.json", default_prompt_name="other"),
        "no name of a prompt",
    ),
    "width": (lambda f: change(f / "2_Dense/config.json", out_features=49), "cannot be loaded"),
    "missing weights": (lacking, r"encoder\.layer\.1\.output\.dense\.bias is missing"),
}


@pytest.mark.parametrize("name", ATTACKS)
def test_hostile_and_broken_folders_are_refused(
    saved: Callable[[str], Path], tmp_path: Path, name: str
) -> None:
    folder = shutil.copytree(saved("dense and norm"), tmp_path / "model")
    mark = tmp_path / "mark"
    (folder / "evil.py").write_text(f"import pathlib; pathlib.Path({str(mark)!r}).touch()")
    spoil, said = ATTACKS[name]
    spoil(folder)
    with pytest.raises(ModelError, match=said) as caught:
        ours(folder).encode(TEXTS)
    assert str(folder) in caught.value.message
    assert not mark.exists()
