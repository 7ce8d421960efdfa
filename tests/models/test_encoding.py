"""Encoding: right vectors, in order, the same each time, whatever the texts are."""

from __future__ import annotations

import random
import threading
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
import torch

from kglink.errors import ConfigError, ModelError, UsageError
from kglink.models import Encoder, choose_hardware, hardware, int8, resolve_model
from kglink.models.inputs import TextTokenizer
from kglink.models.int8 import int8_linear
from kglink.models.loading import load_transformer
from kglink.models.packed import group_lengths
from kglink.models.padded import PaddedTower
from kglink.models.runtime import TokenEncoder, single_threaded_workers
from kglink.models.source import read_config
from kglink.models.tower import Bucket
from kglink.records import Progress
from tiny_models import WORDS, bert_weights, write_model, write_modules

FloatArray = npt.NDArray[np.float32]


def texts_of(count: int, longest: int = 20) -> list[str]:
    """Texts of 0 to ``longest`` known words."""
    rng = random.Random(1)
    return [" ".join(rng.choices(WORDS, k=rng.randint(0, longest))) for _ in range(count)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture(scope="module")
def tiny(folder: Path) -> Encoder:
    return Encoder(str(folder), device="cpu", precision="fp32", threads=2)


@pytest.fixture(scope="module")
def minilm() -> Encoder:
    return Encoder(device="cpu", precision="fp32")


def by_transformers(folder: Path, texts: Sequence[str], pooling: str = "mean") -> FloatArray:
    """The oracle: transformers, one text at a time, nothing padded, nothing packed."""
    from tokenizers import Tokenizer
    from transformers import BertModel

    model = BertModel.from_pretrained(folder, add_pooling_layer=False)
    model.train(mode=False)
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_padding()
    vectors = []
    for text in texts:
        with torch.inference_mode():
            states = model(torch.tensor([tokenizer.encode(text).ids])).last_hidden_state[0]
        vector = states.mean(dim=0) if pooling == "mean" else states[0]
        vectors.append((vector / vector.norm()).numpy())
    return np.stack(vectors)


def test_packed_batches_equal_transformers_text_by_text(tiny: Encoder, folder: Path) -> None:
    texts = texts_of(300)
    np.testing.assert_allclose(tiny.encode(texts), by_transformers(folder, texts), atol=2e-6)


def test_the_first_token_as_the_vector(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "cls")
    write_modules(folder, "Transformer", "Pooling", pooling_mode="cls")
    texts = texts_of(20)
    vectors = Encoder(str(folder), device="cpu", precision="fp32").encode(texts)
    np.testing.assert_allclose(vectors, by_transformers(folder, texts, "cls"), atol=2e-6)


@pytest.mark.parametrize("pooling", ["mean", "cls"])
def test_any_transformers_model_padded(tmp_path: Path, pooling: str) -> None:
    folder = write_model(tmp_path / "padded")
    write_modules(folder, "Transformer", "Pooling", pooling_mode=pooling)
    source = resolve_model(str(folder))
    loaded = load_transformer("AutoModel", source, dtype=torch.float32)
    model = PaddedTower(loaded, read_config(folder), source.dim, torch.float32)
    encoder = TokenEncoder("padded", model, choose_hardware("cpu", "fp32", 2), source.pooling)
    texts = texts_of(100)
    expected = by_transformers(folder, texts, pooling)
    ids = TextTokenizer(source)(texts).ids
    np.testing.assert_allclose(encoder.vectors(ids), expected, atol=2e-6)


def test_other_architectures_go_through_transformers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from transformers import DistilBertConfig, DistilBertModel

    folder = write_model(tmp_path / "distilbert")
    config = DistilBertConfig(vocab_size=15, dim=32, n_layers=1, n_heads=4, hidden_dim=64)
    torch.manual_seed(0)
    DistilBertModel(config).save_pretrained(folder)
    capsys.readouterr()
    encoder = Encoder(str(folder), device="cpu", precision="fp32")
    vectors = encoder.encode(texts_of(10))
    assert vectors.shape == (10, encoder.dim) == (10, 32)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)
    assert capsys.readouterr() == ("", "")


def test_weights_that_are_missing_are_never_made_up(tmp_path: Path) -> None:
    weights = bert_weights()
    del weights["encoder.layer.1.output.dense.bias"]
    source = resolve_model(str(write_model(tmp_path / "lacking", weights)))
    with pytest.raises(ModelError, match=r"encoder\.layer\.1\.output\.dense\.bias"):
        Encoder(source, device="cpu").encode(["heron"])
    with pytest.raises(ModelError, match=r"encoder\.layer\.1\.output\.dense\.bias"):
        load_transformer("AutoModel", source, dtype=torch.float32)


def test_names_of_older_checkpoints(tiny: Encoder, tmp_path: Path) -> None:
    renamed = {
        "bert."
        + name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("Norm.bias", "Norm.beta"): w
        for name, w in bert_weights().items()
    }
    old = Encoder(str(write_model(tmp_path / "old", renamed)), device="cpu", precision="fp32")
    assert np.array_equal(old.encode(WORDS), tiny.encode(WORDS))


def test_known_similarity(minilm: Encoder) -> None:
    # From the sentence-transformers documentation: 0.7553.
    left, right = minilm.encode(["A man is eating food.", "A man is eating a piece of bread."])
    assert float(left @ right) == pytest.approx(0.7553, abs=1e-4)


def test_bf16_stays_close_to_fp32(minilm: Encoder) -> None:
    texts = ["heron", "a large wading bird of the family Ardeidae; it eats fish", ""] * 3
    rounded = Encoder(device="cpu", precision="bf16").encode(texts)
    assert (rounded * minilm.encode(texts)).sum(axis=1).min() > 0.9995


def test_int8_stays_close_to_fp32(minilm: Encoder, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [
        *("heron", "Q fever", "acute lymphoblastic leukemia", "type 2 diabetes"),
        *("a large wading bird of the family Ardeidae; it eats fish", "the 3 of 12 rivers " * 40),
    ]
    for flags in ({"avx512_vnni"}, {"avx2"}):
        monkeypatch.setattr(int8, "cpu_flags", lambda own=flags: frozenset(own))
        encoder = Encoder(device="cpu", precision="int8", threads=2)
        cosines = (encoder.encode(texts) * minilm.encode(texts)).sum(axis=1)
        assert cosines.mean() > 0.995
        assert cosines.min() > 0.99
        assert cosines.max() < 0.99999


def test_an_int8_product_by_hand() -> None:
    """Each number lies on a grid of 127 steps, of its output in weights and its token in inputs."""
    weight, bias = torch.tensor([[1.0, 0.5], [-2.0, 4.0]]), torch.tensor([1.0, -1.0])
    states = torch.tensor([[1.0, -1.0], [300.0, 150.0], [0.0, 0.0]])
    exact = states @ weight.T + bias
    bound = states.abs().amax(1, keepdim=True) * weight.abs().sum(1) * 0.02 + 1e-6
    for norm in (None, (torch.tensor([1.0, 0.1]), torch.tensor([0.0, 5.0]))):
        assert bool(((int8_linear(weight, bias, norm)(states) - exact).abs() <= bound).all())


def test_int8_is_for_berts_on_cpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from transformers import DistilBertConfig, DistilBertModel

    folder = write_model(tmp_path / "distilbert")
    config = DistilBertConfig(vocab_size=15, dim=32, n_layers=1, n_heads=4, hidden_dim=64)
    DistilBertModel(config).save_pretrained(folder)
    with pytest.raises(ModelError, match="int8 is for BERT encoders"):
        Encoder(str(folder), device="cpu", precision="int8").encode(["heron"])
    monkeypatch.setattr(hardware, "_choose_device", lambda device: "cuda")
    with pytest.raises(ConfigError, match="int8 is for CPUs"):
        choose_hardware("cuda", "int8")


@pytest.mark.parametrize("precision", ["fp32", "bf16", "int8"])
def test_the_same_list_gives_the_same_bytes(folder: Path, precision: str) -> None:
    texts = texts_of(500)
    expected = None
    for threads in (1, 2, 3, 2):
        encoder = Encoder(str(folder), device="cpu", precision=precision, threads=threads)  # type: ignore[arg-type] # a str
        vectors = encoder.encode(texts).tobytes()
        assert expected in {None, vectors}
        expected = vectors


def test_neighbours_in_a_batch_change_nothing_that_matters(tiny: Encoder) -> None:
    texts = texts_of(40)
    alone = np.concatenate([tiny.encode([text]) for text in texts])
    np.testing.assert_allclose(tiny.encode(texts), alone, atol=1e-6)


def test_results_keep_the_order_of_the_texts(tiny: Encoder) -> None:
    texts = texts_of(200)
    mixed = random.Random(3).sample(range(200), 200)
    vectors, shuffled = tiny.encode(texts), tiny.encode([texts[i] for i in mixed])
    np.testing.assert_allclose(shuffled, vectors[mixed], atol=1e-6)


def test_equal_texts_are_encoded_once(tiny: Encoder, monkeypatch: pytest.MonkeyPatch) -> None:
    tokenised: list[str] = []
    tokenise = TextTokenizer.__call__

    def count(self: TextTokenizer, texts: Sequence[str]) -> object:
        tokenised.extend(texts)
        return tokenise(self, texts)

    monkeypatch.setattr(TextTokenizer, "__call__", count)
    vectors = tiny.encode(["heron", "amber", "heron", "heron"])
    assert tokenised == ["heron", "amber"]
    assert np.array_equal(vectors[0], vectors[2])
    assert not np.array_equal(vectors[0], vectors[1])


def test_progress_adds_up_to_all_texts(tiny: Encoder) -> None:
    steps: list[Progress] = []
    tiny.encode([*texts_of(300), *["heron"] * 50], progress=steps.append)
    assert steps[-1] == Progress("encoding", 350, 350)
    assert [step.done for step in steps] == sorted({step.done for step in steps})
    assert len(steps) > 1


def token_counts(encoder: Encoder, texts: Sequence[str]) -> list[int]:
    return [len(ids) for ids in encoder._loaded.tokenise(texts).ids]


def test_long_texts_are_cut_and_counted(folder: Path) -> None:
    encoder = Encoder(str(folder), device="cpu", precision="fp32")
    assert encoder.max_tokens == 24
    fits, long = " ".join(["heron"] * 22), " ".join(["heron"] * 23)  # [CLS] and [SEP] take two
    vectors = encoder.encode([fits, "amber", long, long])
    assert encoder.truncated == 2
    assert np.array_equal(vectors[0], vectors[2])
    assert token_counts(encoder, [fits, long, "amber", ""]) == [24, 24, 3, 2]


def test_a_text_of_megabytes_is_cut_before_it_is_tokenised(folder: Path) -> None:
    encoder = Encoder(str(folder), device="cpu", precision="fp32")
    huge = "heron " * 2_000_000
    vectors = encoder.encode([huge, "heron " * 22, " " * 2_000_000])
    assert encoder.truncated == 2
    np.testing.assert_allclose(vectors[0], vectors[1], atol=1e-6)


@pytest.mark.parametrize(
    "text", ["", " ", "\x00", "\ud800", "a\udfffb", "🜍 ⁂", "\r\n\t", "é" * 999]
)
def test_any_string_has_a_vector(tiny: Encoder, text: str) -> None:
    (vector,) = tiny.encode([text])
    assert np.linalg.norm(vector) == pytest.approx(1, abs=1e-5)


def test_no_texts(tiny: Encoder) -> None:
    assert tiny.encode([]).shape == (0, 32)


def test_one_text_in_place_of_a_list_is_refused(tiny: Encoder) -> None:
    with pytest.raises(UsageError, match="a list of texts"):
        tiny.encode("heron")


def test_broken_weights_are_named(tmp_path: Path) -> None:
    weights = bert_weights()
    weights["encoder.layer.1.output.dense.bias"][3] = np.nan
    encoder = Encoder(str(write_model(tmp_path / "nan", weights)), device="cpu")
    with pytest.raises(ModelError, match="not finite"):
        encoder.encode(["heron"])


def test_encoding_leaves_torch_threads_as_they_were(folder: Path) -> None:
    before = torch.get_num_threads()
    Encoder(str(folder), device="cpu", threads=2).encode(["heron"])
    seen: list[int] = []
    thread = threading.Thread(target=lambda: seen.append(torch.get_num_threads()))
    thread.start()
    thread.join()
    assert [torch.get_num_threads(), *seen] == [before, before]


def test_a_worker_keeps_to_its_core_once_it_has_computed() -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        with single_threaded_workers(2) as workers:

            def threads_after_a_product(size: int) -> int:
                torch.ones(size, size).matmul(torch.ones(size, size))
                return torch.get_num_threads()

            assert set(workers.map(threads_after_a_product, [64] * 8)) == {1}
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def test_group_lengths() -> None:
    assert group_lengths([5, 5, 3, 2, 2]) == [
        Bucket(slice(0, 10), 2, 5),
        Bucket(slice(10, 13), 1, 3),
        Bucket(slice(13, 17), 2, 2),
    ]
