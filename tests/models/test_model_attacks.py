"""Model folders and manifests made to do harm: each ends in one sentence, and nothing runs."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import huggingface_hub
import numpy as np
import pytest
import tokenizers
from conftest import Kglink
from huggingface_hub.errors import LocalEntryNotFoundError
from tokenizers import processors

from bi_encoders import make
from kglink.errors import KglinkError, ModelError
from kglink.models import Encoder, choose_hardware, opening, resolve_model
from kglink.models.bi_encoder import load_bi_encoder
from kglink.models.model_folder import MODEL_FILE, TRAINED
from kglink.training.recipe import SPACE
from kglink.training.recipe_files import list_recipes, load_recipe
from tiny_models import bert_weights, write_model, write_modules

Spoil = Callable[[Path], object]
DEEP = "[" * 200_000
CPU = choose_hardware("cpu", "fp32", 1)
EVIL = """
import pathlib
pathlib.Path({mark!r}).write_text("ran")
from transformers import BertConfig, BertModel, BertTokenizerFast
class EvilConfig(BertConfig):
    model_type = "evil"
class EvilModel(BertModel):
    config_class = EvilConfig
class EvilTokenizer(BertTokenizerFast):
    pass
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_model(tmp_path / "model")


def change(folder: Path, name: str = "config.json", **values: object) -> None:
    """Change a JSON file of a model folder; None takes a key away."""
    path = folder / name
    content = json.loads(path.read_text()) if path.exists() else {}
    content |= values
    path.write_text(json.dumps({k: v for k, v in content.items() if v is not None}))


# ------------------------------------------------------------------------- code in a folder
def plant(folder: Path, mark: Path) -> None:
    """A model whose classes are in a Python file beside it."""
    (folder / "evil.py").write_text(EVIL.format(mark=str(mark)))
    classes = {"AutoConfig": "evil.EvilConfig", "AutoModel": "evil.EvilModel"}
    change(folder, model_type="evil", auto_map=classes)


def test_a_planted_model_runs_no_code_whatever_is_answered(
    kglink: Kglink, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HOME", str(tmp_path / "cache"))
    workspace, mark = tmp_path / "workspace", tmp_path / "mark"
    kglink("init", workspace)
    monkeypatch.setenv("KGLINK_WORKSPACE", str(workspace))
    source = tmp_path / "kb.jsonl"
    source.write_text('{"key": "1", "title": "heron"}\n')
    kglink("add-kb", "birds", source)
    plant(write_model(workspace / "model"), mark)
    with (workspace / "kglink.toml").open("a") as settings:
        settings.write('\n[encoder]\nmodel = "model"\n')
    for command in (["build"], ["link", "-", "-f", "json"], ["search", "heron"]):
        ran = kglink(*command, stdin="1\n1\ny\n1\n", code=1)
        assert "code of its own (auto_map), which kglink never runs" in " ".join(ran.err.split())
        assert "unexpected" not in ran.err
    assert not mark.exists()


@pytest.mark.parametrize("file", ["config.json", "tokenizer_config.json"])
def test_code_is_refused_before_anything_is_loaded(folder: Path, file: str) -> None:
    change(folder, file, auto_map={"AutoTokenizer": ["evil.EvilTokenizer", None]})
    with pytest.raises(ModelError, match=rf"{file}: asks for code of its own \(auto_map\)"):
        resolve_model(str(folder))
    with pytest.raises(ModelError, match="auto_map"):
        load_bi_encoder(folder, hardware=CPU)


def test_code_in_a_tower_of_a_trained_model_is_refused(folder: Path, tmp_path: Path) -> None:
    make(folder).save(tmp_path / "trained")
    change(tmp_path / "trained" / "encoder", "tokenizer_config.json", auto_map={})
    with pytest.raises(ModelError, match="auto_map"):
        resolve_model(str(tmp_path / "trained"))


def test_transformers_is_told_to_run_no_code(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even where the check before it were passed by."""
    monkeypatch.setenv("HF_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr("kglink.models.model_json._refuse_code", lambda *_: None)
    mark = tmp_path / "mark"
    plant(folder, mark)
    monkeypatch.setattr("builtins.input", lambda *_: "1")
    with pytest.raises(ModelError, match="cannot be loaded"):
        Encoder(str(folder), device="cpu").encode(["heron"])
    (folder / "tokenizer.json").rename(folder / "vocab.txt")
    change(folder, "tokenizer_config.json", auto_map={"AutoTokenizer": ["evil.EvilTokenizer"] * 2})
    with pytest.raises(ModelError, match="cannot be"):
        Encoder(str(folder), device="cpu").encode(["heron"])
    assert not mark.exists()


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda f: change(f, attn_implementation="someone/kernel"), "fetched and run"),
        (lambda f: change(f, _attn_implementation="flash_attention_2"), "fetched and run"),
        (lambda f: (f / "adapter_config.json").write_text("{}"), "names a model elsewhere"),
    ],
)
def test_what_would_fetch_code_is_refused(folder: Path, spoil: Spoil, message: str) -> None:
    spoil(folder)
    with pytest.raises(ModelError, match=message):
        resolve_model(str(folder))


# ------------------------------------------------------------------------- damaged settings
def frame(row: int) -> Spoil:
    """A tokenizer that frames texts with a token of this number."""

    def spoil(folder: Path) -> None:
        path = folder / "tokenizer.json"
        tokenizer = tokenizers.Tokenizer.from_file(str(path))
        tokenizer.post_processor = processors.TemplateProcessing(
            single="[CLS] $A [SEP]", special_tokens=[("[CLS]", row), ("[SEP]", 3)]
        )
        tokenizer.save(str(path))

    return spoil


def beyond(folder: Path) -> None:
    """A tokenizer that has a word more than the model."""
    path = folder / "tokenizer.json"
    tokenizer = tokenizers.Tokenizer.from_file(str(path))
    tokenizer.add_tokens(["egret"])
    tokenizer.save(str(path))


def edited(edit: Callable[[dict[str, Any]], object]) -> Spoil:
    """A tokenizer whose file is edited."""

    def spoil(folder: Path) -> None:
        path = folder / "tokenizer.json"
        content = json.loads(path.read_text())
        edit(content)
        path.write_text(json.dumps(content))

    return spoil


def link_to(name: str, target: str) -> Spoil:
    def spoil(folder: Path) -> None:
        (folder / name).unlink(missing_ok=True)
        (folder / name).symlink_to(target)

    return spoil


def pipe(name: str) -> Spoil:
    def spoil(folder: Path) -> None:
        (folder / name).unlink(missing_ok=True)
        os.mkfifo(folder / name)

    return spoil


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda f: change(f, num_attention_heads=0), "num_attention_heads is 0"),
        (lambda f: change(f, num_attention_heads=5), "no multiple of num_attention_heads 5"),
        (lambda f: change(f, num_attention_heads="4"), "num_attention_heads is '4'"),
        (lambda f: change(f, num_attention_heads=True), "num_attention_heads is True"),
        (lambda f: change(f, hidden_size=10**9), "hidden_size is 1000000000, not a whole number"),
        (lambda f: change(f, hidden_size=[32]), "hidden_size is list"),
        (lambda f: change(f, hidden_size=-32), "hidden_size is -32"),
        (lambda f: change(f, hidden_size=65536), "do not fit config.json"),
        (lambda f: change(f, hidden_size=16), "do not fit config.json"),
        (lambda f: change(f, num_hidden_layers=10**7), "num_hidden_layers is 10000000"),
        (lambda f: change(f, num_hidden_layers=1000), r"layer\.2\."),
        (lambda f: change(f, num_hidden_layers=3), r"layer\.2\."),
        (lambda f: change(f, intermediate_size=1 << 20), "do not fit config.json"),
        (lambda f: change(f, intermediate_size=60), "do not fit config.json"),
        (lambda f: change(f, vocab_size=10**12), "vocab_size is 1000000000000"),
        (lambda f: change(f, vocab_size=9), "has token 14, and the model 9"),
        (lambda f: change(f, max_position_embeddings=1 << 20), "do not fit config.json"),
        (lambda f: change(f, max_position_embeddings=30), "do not fit config.json"),
        (lambda f: change(f, layer_norm_eps="small"), "layer_norm_eps is 'small', not a number"),
        (lambda f: change(f, layer_norm_eps=float("nan")), "layer_norm_eps is nan"),
        (lambda f: change(f, hidden_act=["gelu"]), "hidden_act is list, not a word"),
        (lambda f: change(f, model_type={"a": 1}), "model_type is dict, not a word"),
        (
            lambda f: change(f, model_type="roberta", pad_token_id=14, max_position_embeddings=16),
            "leaves no positions",
        ),
        (lambda f: change(f, pad_token_id=10**6), "pad_token_id is beyond vocab_size"),
        (lambda f: change(f, model_type="distilbert"), "cannot be loaded|do not fit"),
        (lambda f: change(f, model_type="distilbert", n_heads=0), "n_heads is 0"),
        (lambda f: change(f, model_type="no such kind"), "cannot be loaded"),
        (lambda f: (f / "config.json").write_text(DEEP), "nested too deeply"),
        (lambda f: (f / "config.json").write_text('{"vocab_size": 1e999}'), "vocab_size is inf"),
        (lambda f: (f / "config.json").write_text("1" * 10_000), "cannot be read as JSON"),
        (lambda f: (f / "tokenizer_config.json").write_text(DEEP), "nested too deeply"),
        (lambda f: (f / "tokenizer.json").write_text(DEEP), "nested too deeply"),
        (lambda f: (f / "tokenizer.json").write_text("{}"), "the tokenizer cannot be read"),
        (lambda f: (f / "modules.json").write_text(DEEP), "nested too deeply"),
        (lambda f: (f / "modules.json").write_text("7"), "list of modules"),
        (frame(99), "has token 99, and the model 15"),
        (frame((1 << 32) - 1), "has token 4294967295, and the model 15"),
        (beyond, "has token 15, and the model 15"),
        (edited(lambda t: t["model"]["vocab"].pop("[UNK]")), "cannot read a text: .*UNK"),
        (
            edited(lambda t: t["post_processor"]["single"][0]["SpecialToken"].update(id="[C]")),
            "cannot read a text: no entry",
        ),
        (link_to("config.json", "/dev/zero"), "is no regular file"),
        (link_to("tokenizer.json", "/dev/zero"), "is no regular file"),
        (link_to("model.safetensors", "/dev/zero"), "is no regular file"),
        (pipe("config.json"), "is no regular file"),
        (pipe("model.safetensors"), "is no regular file"),
        (pipe("tokenizer_config.json"), "is no regular file"),
    ],
)
def test_damaged_settings_end_in_a_sentence(folder: Path, spoil: Spoil, message: str) -> None:
    spoil(folder)
    with pytest.raises(ModelError, match=message) as caught:
        Encoder(str(folder), device="cpu", precision="fp32").encode(["heron of the river"])
    assert len(caught.value.message) < 2000
    with pytest.raises(ModelError):
        make(folder)


def test_towers_want_to_know_the_size_of_the_vocabulary(folder: Path) -> None:
    change(folder, vocab_size=None)
    config = json.loads((folder / "config.json").read_text())
    for told in (config, config | {"vocab_size": None}):
        (folder / "config.json").write_text(json.dumps(told))
        with pytest.raises(ModelError, match=r"config\.json: says no vocab_size"):
            make(folder)


def test_weights_of_a_wrong_shape_end_in_a_sentence(tmp_path: Path) -> None:
    for name, shape in (
        ("embeddings.word_embeddings.weight", (0, 32)),
        ("embeddings.position_embeddings.weight", (5, 32)),
        ("embeddings.token_type_embeddings.weight", (0, 32)),
        ("embeddings.LayerNorm.weight", (31,)),
        ("encoder.layer.0.attention.self.query.weight", (32, 31)),
        ("encoder.layer.1.output.dense.bias", ()),
    ):
        weights = bert_weights() | {name: np.zeros(shape, np.float32)}
        folder = write_model(tmp_path / name, weights)
        with pytest.raises(ModelError, match=r"do not fit config\.json"):
            Encoder(str(folder), device="cpu").encode(["heron"])


@pytest.mark.parametrize(
    "changes",
    [
        {"vocab_size": 1 << 24},
        {"hidden_size": 1 << 16},
        {"intermediate_size": 1 << 20},
        {"num_hidden_layers": 1 << 10},
        {"max_position_embeddings": 1 << 24},
    ],
)
def test_a_tower_takes_no_memory_for_weights_that_are_not_there(
    folder: Path, changes: dict[str, Any]
) -> None:
    change(folder, **changes)
    with pytest.raises(ModelError, match=r"fit config\.json: it speaks of .* numbers"):
        make(folder)


@pytest.mark.parametrize("path", ["..", "../elsewhere", "1_Pooling\0", "a" * 5000])
def test_modules_stay_in_their_folder(folder: Path, path: str) -> None:
    write_modules(folder, "Transformer", "Pooling", pooling_mode="mean")
    modules = [{"type": "a.Pooling", "path": path}]
    (folder / "modules.json").write_text(json.dumps(modules))
    with pytest.raises(ModelError, match="names a folder elsewhere"):
        resolve_model(str(folder))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"tag_ids": [15, 16, 99]}, "its tags are rows"),
        ({"tag_ids": [-1, 16, 17]}, "its tags are rows"),
        ({"tag_ids": [1 << 40, 16, 17]}, "its tags are rows"),
        ({"fingerprint": "../../../etc"}, "fingerprint"),
        ({"files": {"../outside": "0" * 64}}, "names no encoder/model.safetensors"),
        ({"settings": 7}, "settings"),
    ],
)
def test_a_damaged_manifest_ends_in_a_sentence(
    folder: Path, tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    trained = tmp_path / "trained"
    make(folder).save(trained)
    change(trained, MODEL_FILE, **changes)
    with pytest.raises(ModelError, match=message):
        Encoder(str(trained), device="cpu").encode(["heron"])
    with pytest.raises(ModelError, match=message):
        load_bi_encoder(trained, hardware=CPU)


def test_a_deep_manifest_ends_in_a_sentence(folder: Path, tmp_path: Path) -> None:
    make(folder).save(tmp_path / "trained")
    (tmp_path / "trained" / MODEL_FILE).write_text(DEEP)
    with pytest.raises(ModelError, match=r"nested too deeply"):
        resolve_model(str(tmp_path / "trained"))


def test_more_tokens_than_a_tower_reads_are_refused(folder: Path, tmp_path: Path) -> None:
    trained = tmp_path / "trained"
    make(folder).save(trained)
    settings = TRAINED.read(trained).settings.model_dump(mode="json")
    settings["inputs"]["mention_tokens"] = 10**9
    change(trained, MODEL_FILE, settings=settings)
    with pytest.raises(KglinkError, match="mention_tokens = 1000000000"):
        Encoder(str(trained), device="cpu").encode(["heron"])


# ------------------------------------------------------------------------ the default model
@pytest.mark.parametrize("name", sorted(opening.MINILM_FILES))
def test_each_file_of_the_default_model_is_the_published_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    package = tmp_path / "altered_minilm"
    (package / "model" / "1_Pooling").mkdir(parents=True)
    (package / "__init__.py").touch()
    published = resolve_model().path
    for one in opening.MINILM_FILES:
        (package / "model" / one).symlink_to(published / one)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(opening, "MINILM_PACKAGE", package.name)
    assert resolve_model().fingerprint == resolve_model("minilm").fingerprint
    altered = package / "model" / name
    altered.unlink()
    shutil.copyfile(published / name, altered)
    assert resolve_model().dim == 384
    with altered.open("ab") as out:
        out.write(b" ")
    with pytest.raises(ModelError, match=rf"{name}: not the published all-MiniLM-L6-v2"):
        resolve_model()


# -------------------------------------------------------------------------------- the hub
class Hub:
    """A hub that has every model, and a note of what it was asked for."""

    def __init__(self, folder: Path, *, cached: bool = False) -> None:
        self.folder, self.cached = folder, cached
        self.requests: list[tuple[str, object]] = []

    def __call__(self, name: str, *, local_files_only: bool = False, **options: Any) -> str:
        if not local_files_only:
            self.requests.append((name, options["revision"]))
        elif not self.cached:
            raise LocalEntryNotFoundError("not in the cache")
        return str(self.folder)


COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Hub:
    hub = Hub(write_model(tmp_path / COMMIT))
    monkeypatch.setattr(huggingface_hub, "snapshot_download", hub)
    monkeypatch.setattr(huggingface_hub, "model_info", lambda *_, **__: None)
    return hub


def test_a_model_that_the_user_names_is_recorded_with_its_commit(hub: Hub) -> None:
    assert resolve_model("someone/model").name == f"someone/model@{COMMIT}"
    info = Encoder(f"someone/model@{COMMIT}").info
    assert info.name == info.path == f"someone/model@{COMMIT}"
    assert hub.requests == [("someone/model", None), ("someone/model", COMMIT)]


def test_a_name_that_a_file_records_is_never_asked_for(hub: Hub) -> None:
    for name in ("someone/model", f"someone/model@{COMMIT}", "model"):
        with pytest.raises(ModelError, match="is not asked for on the hub") as caught:
            _ = Encoder(name, of_space="planted").source
        assert "space 'planted'" in caught.value.message
        with pytest.raises(ModelError, match="is not asked for on the hub"):
            load_bi_encoder(name, hardware=CPU, fetch=False)
    assert hub.requests == []
    hub.cached = True
    assert Encoder("someone/model", of_space="mine").info.name == f"someone/model@{COMMIT}"
    assert hub.requests == []


@pytest.mark.parametrize("field", ["path", "name"])
def test_a_planted_manifest_makes_no_request(
    kglink: Kglink, demo_copy: Path, hub: Hub, field: str
) -> None:
    for path in demo_copy.rglob("*.json"):
        text = path.read_text()
        if '"minilm"' in text:
            content = json.loads(text)
            if isinstance(content.get("model"), dict):
                content["model"] |= {"name": "evil/model", "path": "evil/model"}
                if field == "name":
                    content["model"]["path"] = ""
            path.write_text(json.dumps(content))
    kglink("link", "-", "-f", "json", stdin="Amber", code=1)
    kglink("search", "Amber", code=1)
    kglink("build", code=1)
    kglink("doctor", code=1)
    assert hub.requests == []


@pytest.mark.slow
def test_the_recipes_name_their_models_by_commit() -> None:
    bases = {load_recipe(one.name).model.base for one in list_recipes()}
    assert len(bases) > 2
    for base in bases - {"minilm", SPACE}:
        assert len(base.partition("@")[2]) == 40, base
