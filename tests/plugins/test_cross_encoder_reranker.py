"""The reranker that runs a ready cross-encoder: its library's logits, one text pair at a time."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from conftest import Kglink

from contract_cases import contract_for, failing_checks
from kglink.errors import ModelError
from kglink.plugins import Reranker, load_registry
from kglink.records import Candidate, EntityId, MentionInText, Ranking
from kglink.testing import RerankerContract
from tiny_models import bert_config, write_tokenizer

REGISTRY = load_registry(only="builtin")
TEXTS = ("the heron of the river", "a heron", "mercury of a planet", "metal")
CANDIDATES = tuple(
    Candidate(EntityId("things", title), title, 0.5, description=description)
    for title, description in (
        ("heron", "a bird of the river"),
        ("mercury", "a metal"),
        ("planet", ""),
        ("amber", "the amber of the river of the planet of the metal"),
    )
)


def write_cross_encoder(folder: Path, labels: int = 1) -> Path:
    """A tiny BERT with random weights, as its library saves it."""
    import torch
    from transformers import BertConfig, BertForSequenceClassification

    torch.manual_seed(3)
    settings = bert_config(num_labels=labels, initializer_range=0.8)
    BertForSequenceClassification(BertConfig.from_dict(settings)).save_pretrained(folder)
    write_tokenizer(folder / "tokenizer.json")
    tokenizer = {"tokenizer_class": "PreTrainedTokenizerFast", "pad_token": "[PAD]"}
    (folder / "tokenizer_config.json").write_text(json.dumps(tokenizer))
    return folder


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_cross_encoder(tmp_path_factory.mktemp("cross") / "model")


def made(folder: Path, **settings: object) -> Reranker:
    return REGISTRY.create("reranker", "cross_encoder", {"folder": folder, **settings})


def rankings() -> list[Ranking]:
    return [
        Ranking(MentionInText(text, 0, len(text.split()[0])), CANDIDATES[: 1 + number])
        for number, text in enumerate(TEXTS)
    ]


def test_scores_are_the_library_s_for_each_pair_alone(model: Path) -> None:
    import torch
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    network = AutoModelForSequenceClassification.from_pretrained(model).eval()
    tokenizer = AutoTokenizer.from_pretrained(model)

    def logit(first: str, second: str) -> float:
        pair = tokenizer(
            first, second, truncation="longest_first", max_length=24, return_tensors="pt"
        )
        with torch.inference_mode():
            return float(network(**pair).logits[0, 0])

    for asked, found in zip(rankings(), made(model, weight=2.0).rank(rankings()), strict=True):
        mention = asked.mention
        texts = [
            f"{one.title}. {one.description}" if one.description else one.title
            for one in asked.candidates
        ]
        logits = np.array([logit(f"{mention.surface}: {mention.text}", one) for one in texts])
        shares = np.exp(logits) / np.exp(logits).sum()
        expected = {
            one.id: 0.5 + 2 * share for one, share in zip(asked.candidates, shares, strict=True)
        }
        assert {one.id: one.score for one in found.candidates} == pytest.approx(expected, abs=1e-4)
        assert [one.score for one in found.candidates] == pytest.approx(
            sorted(expected.values(), reverse=True), abs=1e-4
        )
        assert sum(one.evidence["cross_encoder"] for one in found.candidates) == pytest.approx(
            1, abs=1e-3
        )


def test_it_keeps_the_contract_of_rerankers(model: Path, tmp_path: Path) -> None:
    contract = contract_for(
        RerankerContract,
        lambda: REGISTRY.create("reranker", "cross_encoder", {"folder": model}),
    )
    assert failing_checks(contract, tmp_path) == {}


def test_a_mention_without_candidates_stays_so(model: Path) -> None:
    nothing = replace(rankings()[0], candidates=())
    assert made(model).rank([nothing]) == [nothing]


def _pickled(folder: Path) -> None:
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")


def _coded(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"auto_map": {"AutoModel": "x.Y"}}))


def _second(folder: Path) -> None:
    """What ran before: the settings in a second file, which the first one names."""
    config = json.loads((folder / "config.json").read_text())
    coded = config | {"auto_map": {"AutoConfig": "evil.Config"}}
    (folder / "config.4.0.0.json").write_text(json.dumps(coded))
    named = config | {"configuration_files": ["config.4.0.0.json"]}
    (folder / "config.json").write_text(json.dumps(named))


def _half(folder: Path) -> None:
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:999])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_pickled, "only pickled weights"),
        (_coded, "code of its own"),
        (_second, "configuration_files|auto_map"),
        (_half, "cannot be loaded"),
    ],
)
def test_folders_that_are_refused(
    tmp_path: Path, change: Callable[[Path], None], message: str
) -> None:
    folder = write_cross_encoder(tmp_path / "model")
    change(folder)
    with pytest.raises(ModelError, match=message):
        made(folder)


def test_a_chain_of_modules_as_the_library_saves_it(model: Path, tmp_path: Path) -> None:
    import torch
    from sentence_transformers import CrossEncoder
    from sentence_transformers.base.modules import Dense, Transformer
    from sentence_transformers.sentence_transformer.modules import Pooling

    encoder = Transformer(str(model), max_seq_length=24)
    head = Dense(32, 1, activation_function=torch.nn.Identity(), module_output_name="scores")
    saved = CrossEncoder(modules=[encoder, Pooling(32, "cls"), head], device="cpu")
    saved.save(str(tmp_path / "chain"), create_model_card=False)
    pairs = [("heron: heron", f"{one.title}. {one.description}") for one in CANDIDATES[:2]]
    theirs = torch.softmax(
        torch.from_numpy(saved.predict(pairs, activation_fn=torch.nn.Identity())), 0
    )
    ranking = Ranking(MentionInText("heron", 0, 5), CANDIDATES[:2])
    (found,) = made(tmp_path / "chain").rank([ranking])
    ours = {one.id: one.score - 0.5 for one in found.candidates}
    assert [ours[one.id] for one in CANDIDATES[:2]] == pytest.approx(theirs.tolist(), abs=1e-5)


def test_a_model_of_several_labels_orders_nothing(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="has 3 labels"):
        made(write_cross_encoder(tmp_path / "model", labels=3))


def test_links_are_ordered_by_a_folder_without_training(
    kglink: Kglink, demo_copy: Path, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KGLINK_TRUST", str(demo_copy))
    with (demo_copy / "kglink.toml").open("a") as config:
        config.write(
            '[link]\nreranker = "cross_encoder"\n'
            f'[link.reranker_settings]\nfolder = "{model}"\nweight = 5.0\n'
        )
    explain = ("explain", "The lighthouse stood there.", "--surface", "lighthouse", "--json")
    (told,) = json.loads(kglink(*explain).out)
    values = [one["evidence"]["cross_encoder"] for one in told["candidates"]]
    assert max(values[:5]) > 0
    # No entity is like this, and of one KB there is nothing any more.
    kglink("link", "-", "--marked", "--format", "jsonl", stdin="[[zqxjk]] [[\u2603]]\n")
    kglink("kbs", "remove", "lanternfall", "--yes")
    left = json.loads(
        kglink("link", "-", "--marked", "--format", "jsonl", stdin="a [[lighthouse]]\n").out
    )
    assert {one["kb"] for one in left["entities"][0]["candidates"]} == {"encyclopedia"}
    text = (demo_copy / "kglink.toml").read_text().replace(str(model), str(model / "gone"))
    (demo_copy / "kglink.toml").write_text(text)
    assert "no model folder" in kglink(*explain, code=1).err
