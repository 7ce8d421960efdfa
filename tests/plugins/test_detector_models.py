"""Detectors that run a user's model: exact offsets in any text, and nothing from elsewhere."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from itertools import pairwise
from pathlib import Path

import pytest

from contract_cases import contract_for, failing_checks
from kglink.errors import ConfigError, ModelError
from kglink.models.tag_spans import without_overlaps
from kglink.plugins import Detector, load_registry
from kglink.records import Span
from kglink.testing import DetectorContract
from kglink.testing.contracts.base import NASTY_TEXTS
from kglink.testing.contracts.detector import SampleNames, _check_spans
from kglink_plugins.detectors.models.pieces import pieces_of, spans_of_pieces
from token_models import write_gliner_model, write_spacy_pipeline, write_token_classifier

REGISTRY = load_registry(only="builtin")


def made(name: str, **settings: object) -> Detector:
    return REGISTRY.create("detector", name, settings, SampleNames(()))


def found(detector: Detector, text: str) -> list[str]:
    return [text[span.start : span.end] for span in detector.detect(text)]


# ------------------------------------------------------------------------------------ pieces
def words_as_spans(piece: str) -> list[Span]:
    return [Span(one.start(), one.end()) for one in re.finditer(r"\w+", piece)]


@pytest.mark.parametrize("most", [8, 9, 50])
@pytest.mark.parametrize("text", [*NASTY_TEXTS, "One, two; three. " * 40])
def test_pieces_lose_no_word_and_find_none_twice(text: str, most: int) -> None:
    spans = spans_of_pieces(text, most, 4, words_as_spans)
    assert [one for one in spans if one.end - one.start <= 64] == [
        one for one in words_as_spans(text) if one.end - one.start <= 64
    ]
    pieces = list(pieces_of(text, most, 4))
    assert (pieces[0].start, pieces[-1].stop) == (0, len(text))
    assert all(left.last == right.first for left, right in pairwise(pieces))


def test_of_spans_that_overlap_the_surest_stays() -> None:
    spans = [Span(0, 5, 0.5), Span(3, 9, 0.9), Span(8, 12, 0.8), Span(12, 13, 0.1)]
    assert without_overlaps(spans) == [Span(3, 9, 0.9), Span(12, 13, 0.1)]


# ------------------------------------------------------------------------------ Hugging Face
@pytest.fixture(scope="module")
def classifier(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_token_classifier(tmp_path_factory.mktemp("classifier") / "model")


def test_labels_of_words_become_mentions(classifier: Path) -> None:
    detector = made("huggingface", folder=classifier)
    assert found(detector, "The HERON river, a Heron; river metal of metal") == [
        "HERON river", "Heron", "river", "metal", "metal",
    ]  # fmt: skip
    assert all(0.5 < span.score < 1 for span in detector.detect("a heron"))
    assert found(made("huggingface", folder=classifier, types="Metal"), "heron metal") == ["metal"]
    assert found(made("huggingface", folder=classifier, threshold=0.9999), "heron") == []
    assert found(made("huggingface", folder=classifier, threshold=0.5), "") == []


def test_a_text_of_many_windows_loses_no_mention(classifier: Path) -> None:
    detector = made("huggingface", folder=classifier)
    text = "of the amber heron river a bird of metal, " * 60
    wanted = [match.span() for match in re.finditer("heron river|metal", text)]
    assert [(span.start, span.end) for span in detector.detect(text)] == wanted


def test_a_classifier_keeps_the_contract_of_detectors(classifier: Path, tmp_path: Path) -> None:
    contract = contract_for(
        DetectorContract,
        lambda names: REGISTRY.create("detector", "huggingface", {"folder": classifier}, names),
        finds=(("the heron", ["heron"]),),
    )
    assert failing_checks(contract, tmp_path) == {}


def test_pickled_weights_code_and_unknown_types_are_refused(
    classifier: Path, tmp_path: Path
) -> None:
    with pytest.raises(ModelError, match="has no type 'Disease'"):
        made("huggingface", folder=classifier, types="Disease")
    pickled = write_token_classifier(tmp_path / "pickled")
    (pickled / "model.safetensors").rename(pickled / "pytorch_model.bin")
    with pytest.raises(ModelError, match="only pickled weights"):
        made("huggingface", folder=pickled)
    coded = write_token_classifier(tmp_path / "coded")
    config = json.loads((coded / "config.json").read_text())
    (coded / "config.json").write_text(json.dumps(config | {"auto_map": {"AutoModel": "x.Y"}}))
    with pytest.raises(ModelError, match="code of its own"):
        made("huggingface", folder=coded)
    with pytest.raises(ModelError, match=r"config\.json is missing"):
        made("huggingface", folder=tmp_path / "missing")
    with pytest.raises(ConfigError, match="needs the setting 'folder'"):
        made("huggingface")


# ------------------------------------------------------------------------------------- spaCy
@pytest.fixture(scope="module")
def pipeline(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("spacy", reason="kglink[spacy] is not installed")
    return write_spacy_pipeline(tmp_path_factory.mktemp("spacy") / "pipeline")


def test_entities_and_groups_of_spans_of_a_pipeline_are_mentions(pipeline: Path) -> None:
    text = "😀 Ada met Bob in Lantern Bay."
    assert found(made("spacy", folder=pipeline), text) == ["Ada", "Bob", "Lantern Bay"]
    assert found(made("spacy", folder=pipeline, types="PLACE"), text) == ["Lantern Bay"]
    assert found(made("spacy", folder=pipeline, spans="ruler"), text) == ["Lantern Bay"]
    assert found(made("spacy", folder=pipeline, spans="none"), text) == []


def test_a_pipeline_keeps_the_contract_of_detectors(pipeline: Path, tmp_path: Path) -> None:
    contract = contract_for(
        DetectorContract,
        lambda names: REGISTRY.create("detector", "spacy", {"folder": pipeline}, names),
        finds=(("Ada met Bob", ["Ada", "Bob"]),),
    )
    assert failing_checks(contract, tmp_path) == {}


@pytest.mark.parametrize("content", [b"\x80\x04N.", b"PK\x03\x04 archive/data.pkl"])
def test_a_pickle_in_a_pipeline_is_refused(tmp_path: Path, content: bytes) -> None:
    pytest.importorskip("spacy", reason="kglink[spacy] is not installed")
    folder = write_spacy_pipeline(tmp_path / "pipeline")
    (folder / "part").mkdir()
    (folder / "part" / "model").write_bytes(content)
    with pytest.raises(ModelError, match="is pickled"):
        made("spacy", folder=folder)


@pytest.mark.parametrize(
    ("line", "setting"),
    [
        ('[components.entity_ruler]\nsource = "elsewhere"', "source"),
        ('[nlp.after_creation]\n@callbacks = "spacy.copy_from_base_model.v1"', "@callbacks"),
        ("[components.entity_ruler.scorer]\ntrust_remote_code = true", "trust_remote_code"),
    ],
)
def test_a_pipeline_that_loads_from_elsewhere_is_refused(
    tmp_path: Path, line: str, setting: str
) -> None:
    pytest.importorskip("spacy", reason="kglink[spacy] is not installed")
    folder = write_spacy_pipeline(tmp_path / "pipeline")
    config = (folder / "config.cfg").read_text()
    section, _, rest = line.partition("\n")
    config = config.replace("after_creation = null\n", "") if "nlp" in section else config
    there = section in config
    config = config.replace(section, line) if there else f"{config}\n{section}\n{rest}\n"
    (folder / "config.cfg").write_text(config)
    with pytest.raises(ModelError, match=f"{setting} = .* loads what lies elsewhere"):
        made("spacy", folder=folder)


def test_a_pipeline_is_a_folder_and_no_name_of_a_package() -> None:
    pytest.importorskip("spacy", reason="kglink[spacy] is not installed")
    with pytest.raises(ModelError, match=r"it has no config\.cfg"):
        made("spacy", folder="en_core_web_sm")


# ------------------------------------------------------------------------------------ GLiNER
def test_a_gliner_model_finds_the_same_as_its_library_in_any_text(tmp_path: Path) -> None:
    gliner = pytest.importorskip("gliner", reason="kglink[gliner] is not installed")
    folder = write_gliner_model(tmp_path / "model")
    detector = made("gliner", folder=folder, labels="bird,metal", threshold=0.4)
    text = "The amber heron of the river."
    loaded = gliner.GLiNER.from_pretrained(str(folder), local_files_only=True)
    own = loaded.predict_entities(text, ["bird", "metal"], threshold=0.4)
    assert [(span.start, span.end) for span in detector.detect(text)] == [
        (one["start"], one["end"]) for one in own
    ]
    assert own
    for nasty in (*NASTY_TEXTS[:-5], text * 10):
        _check_spans(nasty, detector.detect(nasty))


Change = Callable[[Path], object]


def drop(name: str) -> Change:
    return lambda folder: (folder / name).unlink()


def change(**values: object) -> Change:
    def write(folder: Path) -> None:
        config = json.loads((folder / "gliner_config.json").read_text())
        (folder / "gliner_config.json").write_text(json.dumps(config | values))

    return write


REFUSED: Mapping[str, tuple[Change, str]] = {
    "pickled weights": (drop("model.safetensors"), "pickled weights are never opened"),
    "no tokenizer": (drop("tokenizer.json"), "tokenizer.json is missing"),
    "encoder elsewhere": (change(encoder_config=None), "names a model elsewhere"),
    "labels elsewhere": (change(labels_encoder="x/y"), "names a model elsewhere"),
    "code": (change(encoder_config={"auto_map": {"AutoModel": "x.Y"}}), "asks for code of its own"),
    "words": (change(words_splitter_type="spacy"), "only words between spaces"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_gliner_model_that_needs_more_than_its_folder_is_refused(
    case: str, tmp_path: Path
) -> None:
    pytest.importorskip("gliner", reason="kglink[gliner] is not installed")
    for name in ("model.safetensors", "tokenizer.json", "tokenizer_config.json"):
        (tmp_path / name).write_text("{}")
    (tmp_path / "gliner_config.json").write_text(json.dumps({"encoder_config": {}}))
    alter, said = REFUSED[case]
    alter(tmp_path)
    with pytest.raises(ModelError, match=said):
        made("gliner", folder=tmp_path, labels="bird")
