"""The detector that learns: its contract, long texts, texts of another kind, bad folders."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kglink.errors import ConfigError, ModelError
from kglink.plugins import Names
from kglink.testing import DetectorContract
from kglink.testing.contracts.detector import SampleNames
from kglink_plugins.detectors.learned import LearnedDetector
from kglink_plugins.plugin import LearnedSettings
from tiny_detectors import MENTIONS, OTHERS, train_tiny

NAMES = SampleNames(["Ada", "Lantern Bay"])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train_tiny(tmp_path_factory.mktemp("tiny"))


def detector(folder: Path, **settings: object) -> LearnedDetector:
    told = {"model": str(folder), "precision": "fp32", "threads": 1, **settings}
    return LearnedDetector(LearnedSettings.model_validate(told), NAMES)


class TestContract(DetectorContract):
    """It holds to the contract of all detectors."""

    plugin = "kglink/learned"
    finds = ((f"the {MENTIONS[1]} of the river", (MENTIONS[1],)),)

    @pytest.fixture(autouse=True)
    def _trained(self, folder: Path) -> None:
        self.folder = folder

    def make(self, names: Names) -> LearnedDetector:
        made = detector(self.folder)
        made._names = names
        return made


@pytest.fixture(scope="module")
def found(folder: Path) -> LearnedDetector:
    return detector(folder, foreign=True)


@given(st.text(max_size=80) | st.text("amber heron\u0301 😀\u202eשלום,mercury", max_size=80))
def test_spans_stand_in_any_text(found: LearnedDetector, text: str) -> None:
    before = 0
    for span in found.detect(text):
        assert before <= span.start < span.end <= len(text)
        assert not text[span.start].isspace()
        before = span.end


def test_texts_together_are_as_each_alone(found: LearnedDetector) -> None:
    texts = ["the mercury of a bird", "", "amber heron amber heron", "river " * 90 + "mercury"]
    assert found.detect_all(texts) == [found.detect(text) for text in texts]


def test_a_recall_finds_more(folder: Path) -> None:
    text = " ".join([*MENTIONS, *OTHERS] * 8)
    assert len(detector(folder, recall=0.99).detect(text)) >= len(detector(folder).detect(text))


def test_texts_of_another_kind_are_read_by_the_dictionary(folder: Path) -> None:
    strange = (
        "Ada sailed home towards Lantern Bay while every lighthouse keeper slept soundly; " * 4
    )
    own = detector(folder)
    surfaces = [strange[one.start : one.end] for one in own.detect(strange)]
    assert surfaces == ["Ada", "Lantern Bay"] * 4
    usual = "the amber heron of the river " * 10
    assert own.detect(usual) == detector(folder, foreign=True).detect(usual)


def test_a_space_without_a_trained_detector_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no trained detector") as caught:
        detector(tmp_path)
    assert "--what detector" in caught.value.hint


@pytest.mark.parametrize("name", ["head.safetensors", "encoder/model.safetensors", "words.npy"])
def test_a_damaged_folder_is_refused(folder: Path, tmp_path: Path, name: str) -> None:
    copy = Path(shutil.copytree(folder, tmp_path / "copy"))
    with (copy / name).open("r+b") as file:
        file.seek(-1, 2)
        file.write(b"\x7f")
    with pytest.raises(ModelError, match="content is not what was written"):
        detector(copy).detect("the river")
