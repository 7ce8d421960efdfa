"""Libraries read model folders in one place: nothing runs, nobody is asked, no stop is lost."""

from __future__ import annotations

import io
import json
import pickle
import re
import shutil
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from kglink.errors import ModelError
from kglink.models import loading, model_json
from kglink.models.loading import keeping_interrupts, load_tensors, load_tokenizer, load_transformer
from kglink.models.model_json import check_folder, read_json
from kglink.models.opening import packaged_minilm
from kglink.models.source import ModelSource, describe_folder
from kglink.plugins import load_registry
from kglink.testing.contracts.detector import SampleNames
from token_models import write_gliner_model, write_token_classifier

Spoil = Callable[[Path], object]
REGISTRY = load_registry(only="builtin")
ROOT = Path(__file__).parents[2]
EVIL = """
import pathlib
pathlib.Path({mark!r}).write_text("ran")
from transformers import BertConfig, BertForTokenClassification, BertModel, BertTokenizerFast
class Config(BertConfig):
    model_type = "evil"
class Model(BertModel):
    pass
class Classifier(BertForTokenClassification):
    pass
class Tokenizer(BertTokenizerFast):
    pass
"""
CODE = {
    "AutoConfig": "evil.Config",
    "AutoModel": "evil.Model",
    "AutoModelForTokenClassification": "evil.Classifier",
    "AutoTokenizer": ["evil.Tokenizer", "evil.Tokenizer"],
}
#: Calls by which a library reads a model from a folder.
READS = re.compile(
    r"\.from_pretrained\(|SentenceTransformer\(|\bCrossEncoder\((?!self)|\bpipeline\(|torch\.load\("
    r"|spacy\.load\(|joblib|\bpickle\.load|AutoTokenizer|Tokenizer\.from_file"
)


# --------------------------------------------------------------------------------- one place
def test_only_the_loader_lets_libraries_read_model_folders() -> None:
    found = {
        f"{path.relative_to(ROOT).as_posix()}: {line.strip()}"
        for part in ("kglink", "plugins/kglink_plugins", "kbs", "cli/kglink_cli", "papers")
        for path in (ROOT / part).rglob("*.py")
        if path != Path(loading.__file__)
        for line in path.read_text(encoding="utf-8").splitlines()
        if READS.search(line) and "return CrossEncoder(" not in line and "class " not in line
    }
    # A docstring that says why it is not used.
    assert {line.partition(":")[0] for line in found} <= {"papers/kglink_papers/torch_archive.py"}


# ------------------------------------------------------------------------------ code in JSON
@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    pytest.importorskip("gliner", reason="kglink[gliner] is not installed")
    folder = tmp_path_factory.mktemp("models")
    return {
        "gliner": write_gliner_model(folder / "gliner"),
        "huggingface": write_token_classifier(folder / "huggingface"),
    }


@pytest.fixture
def evil(
    models: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[str], Path]]:
    """Copies of models with a Python file beside them, which must not have run at the end."""
    monkeypatch.setenv("HF_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n" * 9))
    mark = tmp_path / "mark"

    def planted(kind: str) -> Path:
        folder = shutil.copytree(models[kind], tmp_path / kind)
        (folder / "evil.py").write_text(EVIL.format(mark=str(mark)))
        return folder

    yield planted
    assert not mark.exists()


def opened(kind: str, folder: Path) -> object:
    labels = {"labels": "bird"} if kind == "gliner" else {}
    return REGISTRY.create("detector", kind, {"folder": folder, **labels}, SampleNames(()))


def change(folder: Path, name: str, **values: object) -> None:
    path = folder / name
    content = json.loads(path.read_text()) if path.exists() else {"model_type": "bert"}
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(content | values))


def tokenizer(folder: Path) -> None:
    change(folder, "tokenizer_config.json", auto_map=CODE, tokenizer_class="Tokenizer")


def second_file(folder: Path) -> None:
    change(folder, "config.4.0.0.json", auto_map=CODE, model_type="evil")
    change(folder, "config.json", configuration_files=["config.4.0.0.json"])


def key_twice(folder: Path) -> None:
    path = folder / "tokenizer_config.json"
    path.write_text(f'{{"auto_map": 1, "auto_map": {json.dumps(CODE)}}}')


def linked(folder: Path) -> None:
    tokenizer(folder)
    outside = folder.parent / "outside.json"
    shutil.move(folder / "tokenizer_config.json", outside)
    (folder / "tokenizer_config.json").symlink_to(outside)


ATTACKS: dict[str, tuple[Spoil, str]] = {
    "tokenizer": (tokenizer, "auto_map"),
    "config": (lambda f: change(f, "config.json", auto_map=CODE, model_type="evil"), "auto_map"),
    "second file": (second_file, "auto_map|configuration_files"),
    "only named": (
        lambda f: change(f, "config.json", configuration_files=["config.4.0.0.json"]),
        "configuration_files",
    ),
    "key twice": (key_twice, "the key 'auto_map' stands twice"),
    "linked": (linked, "auto_map"),
    "folder inside": (lambda f: change(f, "part/Config.JSON", auto_map=CODE), "auto_map"),
    "deep": (lambda f: change(f, "config.json", a=[{"b": {"auto_map": CODE}}]), "auto_map"),
    "renamed": (
        lambda f: change(f, "config.json", attribute_map={"auto_map": "x"}, x=CODE),
        "attribute_map",
    ),
    "trusted": (
        lambda f: change(f, "sentence_bert_config.json", model_args={"trust_remote_code": True}),
        "trust_remote_code",
    ),
    "second tokenizer": (
        lambda f: change(f, "tokenizer_config.json", fast_tokenizer_files=["tokenizer.9.json"]),
        "fast_tokenizer_files",
    ),
    "other class": (
        lambda f: change(f, "tokenizer_config.json", tokenizer_class="AutoModel"),
        "is no tokenizer",
    ),
    "kernel": (
        lambda f: change(f, "config.json", text_config={"_attn_implementation": "a/b"}),
        "fetched and run",
    ),
    "quantised": (
        lambda f: change(f, "config.json", quantization_config={"quant_method": "fp8"}),
        "quantised weights",
    ),
    "nested": (lambda f: (f / "other.json").write_text("[" * 200_000), "nested too deeply"),
    "case": (lambda f: change(f, "CONFIG.json"), "differs from|Keep one"),
    "adapter": (lambda f: change(f, "Adapter_Config.json"), "names a model elsewhere"),
}


@pytest.mark.parametrize("kind", ["gliner", "huggingface"])
@pytest.mark.parametrize("attack", ATTACKS)
def test_a_folder_that_names_code_is_refused_whatever_is_answered(
    evil: Callable[[str], Path], kind: str, attack: str
) -> None:
    folder = evil(kind)
    change(folder, "config.json")
    spoil, message = ATTACKS[attack]
    spoil(folder)
    with pytest.raises(ModelError, match=message):
        opened(kind, folder)


@pytest.mark.parametrize("guard", ["copy", "import", "encoder"])
def test_each_further_guard_holds_alone(
    evil: Callable[[str], Path], guard: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the check of the JSON would miss finds no code, and may import none.

    GLiNER asks before it runs the code of a tokenizer, and runs that of an encoder unasked.
    """
    monkeypatch.setattr(model_json, "_refuse_code", lambda *_: None)
    if guard != "copy":
        monkeypatch.setattr(loading, "_COPIED", (*loading._COPIED, ".py"))
        monkeypatch.setattr("builtins.input", lambda *_: "y")
    folder = evil("gliner")
    if guard == "encoder":
        content = json.loads((folder / "gliner_config.json").read_text())
        content["encoder_config"] |= {"auto_map": CODE, "_name_or_path": str(folder)}
        (folder / "gliner_config.json").write_text(json.dumps(content))
    else:
        tokenizer(folder)
    with pytest.raises(ModelError, match=re.escape(str(folder))) as caught:
        opened("gliner", folder)
    assert "kglink-model-" not in caught.value.message


def test_a_vocabulary_may_have_any_word(tmp_path: Path) -> None:
    (tmp_path / "vocab.json").write_text('{"auto_map": 7, "tokenizer_class": 8}')
    check_folder(tmp_path)
    (tmp_path / "vocab.json").write_text('{"auto_map": 7, "tokenizer_class": [8]}')
    with pytest.raises(ModelError, match="is no tokenizer"):
        check_folder(tmp_path)


def test_large_files_and_folders_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model_json, "LARGEST", 100)
    (tmp_path / "a.json").write_text('{"a": "' + "x" * 100 + '"}')
    with pytest.raises(ModelError, match="larger than any settings"):
        read_json(tmp_path / "a.json")
    monkeypatch.setattr(model_json, "_MOST_FILES", 3)
    for name in "bcd":
        (tmp_path / name).touch()
    with pytest.raises(ModelError, match="more than 3 files"):
        check_folder(tmp_path)


def test_pickles_and_code_never_reach_a_library(
    models: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = shutil.copytree(models["huggingface"], tmp_path / "model")
    for name in ("pytorch_model.bin", "a.pt", "b.pkl", "c.joblib", "d.py", "e.so"):
        (folder / name).write_bytes(pickle.dumps(name))
    change(folder, "pytorch_model.bin.index.json", weight_map={"a": "../../x.bin"})
    seen: set[str] = set()
    fill = loading._fill

    def noting(copy: Path, *given: Any) -> None:
        fill(copy, *given)
        seen.update(path.name for path in copy.iterdir())

    monkeypatch.setattr(loading, "_fill", noting)
    opened("huggingface", folder)
    assert seen == {"config.json", "tokenizer.json", "tokenizer_config.json", "model.safetensors"}


def test_shards_stay_in_their_folder(models: dict[str, Path], tmp_path: Path) -> None:
    folder = shutil.copytree(models["huggingface"], tmp_path / "model")
    shutil.move(folder / "model.safetensors", tmp_path / "w.safetensors")
    index = {"weight_map": {"a": "../w.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    (folder / "w.safetensors").touch()
    with pytest.raises(ModelError, match=r"names a file elsewhere, '\.\./w"):
        describe_folder("m", folder)


# ----------------------------------------------------------------------------- standard input
def source_of(models: dict[str, Path]) -> ModelSource:
    return describe_folder("m", models["huggingface"])


def test_standard_input_ends_while_a_model_loads_for_that_thread_alone(
    models: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = io.StringIO("y\n" * 9)
    monkeypatch.setattr("sys.stdin", stream)
    heard: list[object] = []

    def asking(*_: object) -> None:
        with pytest.raises(EOFError):
            input()
        heard.append(list(sys.stdin))
        other = threading.Thread(target=lambda: heard.append(sys.stdin.readline()))
        other.start()
        other.join()

    import transformers

    begin = transformers.AutoTokenizer.from_pretrained

    def first_asking(*given: Any, **named: Any) -> Any:
        asking()
        assert named["trust_remote_code"] is False
        return begin(*given, **named)

    monkeypatch.setattr(transformers.AutoTokenizer, "from_pretrained", first_asking)
    load_tokenizer(source_of(models))
    assert heard == [[], "y\n"]
    assert sys.stdin is stream


def test_standard_input_is_back_after_an_error_and_from_threads(
    models: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = io.StringIO("y\n")
    monkeypatch.setattr("sys.stdin", stream)
    folder = shutil.copytree(models["huggingface"], tmp_path / "model")
    source = describe_folder("m", folder)
    (folder / "config.json").write_text('{"model_type": "no such kind"}')
    with pytest.raises(ModelError, match="the model cannot be loaded"):
        load_transformer("AutoModel", source)
    assert sys.stdin is stream
    good, failed = source_of(models), []

    def load() -> None:
        try:
            load_tokenizer(good)
        except Exception as error:
            failed.append(error)
            raise

    threads = [threading.Thread(target=load) for _ in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert not failed
    assert sys.stdin is stream
    monkeypatch.setattr("sys.stdin", None)
    load_tokenizer(good)
    assert sys.stdin is None


# --------------------------------------------------------------------------------- interrupts
@pytest.fixture
def ended() -> Iterator[None]:
    """SIGTERM raises, as the command line has it."""

    def end(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@pytest.mark.usefixtures("ended")
@pytest.mark.parametrize("call", [1, 2, 3, 4])
def test_an_end_while_weights_load_is_no_damage(call: int) -> None:
    """torch takes what is raised in its calls of Python for a wrong shape."""
    left = call

    def at_call(frame: FrameType, event: str, _: object) -> None:
        nonlocal left
        if event == "call" and frame.f_code.co_qualname == "UntypedStorage.__getitem__":
            left -= 1
            if left == 0:
                signal.raise_signal(signal.SIGTERM)

    path = packaged_minilm() / "model.safetensors"
    sys.setprofile(at_call)
    try:
        with pytest.raises(KeyboardInterrupt):
            load_tensors(path)
    finally:
        sys.setprofile(None)
    assert left <= 0


@pytest.mark.usefixtures("ended")
def test_an_end_that_a_library_swallows_comes_again() -> None:
    handler = signal.getsignal(signal.SIGTERM)

    def swallow() -> None:
        with suppress(KeyboardInterrupt):
            signal.raise_signal(signal.SIGTERM)

    with pytest.raises(KeyboardInterrupt), keeping_interrupts():
        swallow()

    def fail() -> None:
        swallow()
        raise ValueError("a wrong shape")

    with pytest.raises(KeyboardInterrupt) as caught, keeping_interrupts():
        fail()
    assert isinstance(caught.value.__cause__, ValueError)
    with keeping_interrupts():
        pass
    assert signal.getsignal(signal.SIGTERM) is handler
