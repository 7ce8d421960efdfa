"""Weights that torch.save wrote are read as torch reads them, and nothing in them is run."""

from __future__ import annotations

import io
import json
import pickle
import struct
import time
import zipfile
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from conftest import Kglink
from torch import Tensor
from transformers import BertModel

from kglink.errors import ModelError, UsageError
from kglink.models import choose_hardware
from kglink.models.bi_encoder import load_bi_encoder
from kglink.models.cross_encoder import open_cross_encoder
from kglink.models.sentence_export import export_model
from kglink.models.source import describe_folder
from kglink.records import Candidate, EntityId, MentionInText, Ranking
from kglink_papers.convert import convert_blink
from kglink_papers.torch_archive import read_torch_archive
from tiny_models import HIDDEN, bert_weights, write_model

CPU = choose_hardware("cpu", "fp32", 1)
FORMATS = [pytest.param(True, id="zip"), pytest.param(False, id="older")]


def saved(path: Path, value: object, *, zipped: bool = True, protocol: int = 2) -> Path:
    torch.save(value, path, _use_new_zipfile_serialization=zipped, pickle_protocol=protocol)
    return path


def weights() -> dict[str, Any]:
    generator = torch.Generator().manual_seed(5)
    whole = torch.randn(6, 4, generator=generator)
    state: dict[str, Any] = OrderedDict(
        plain=torch.randn(3, 5, generator=generator),
        turned=whole.T,
        part=whole[1:4, 1:3],
        tied=whole,
        empty=torch.empty(0, 3),
        empty_rows=torch.empty(3, 0),
        number=torch.tensor(7.5),
        parameter=torch.nn.Parameter(torch.ones(2)),
    )
    for kind in (torch.float16, torch.bfloat16, torch.float64, torch.int64, torch.uint8):
        state[str(kind)] = torch.arange(5).to(kind)
    state["bool"] = torch.tensor([True, False])
    return state


@pytest.mark.parametrize("zipped", FORMATS)
@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_tensors_are_those_that_torch_reads(tmp_path: Path, zipped: bool, protocol: int) -> None:
    path = saved(tmp_path / "w.bin", weights(), zipped=zipped, protocol=protocol)
    found, wanted = read_torch_archive(path), torch.load(path, weights_only=False)
    assert list(found) == list(wanted)
    for name, value in wanted.items():
        assert found[name].dtype == value.dtype
        assert torch.equal(found[name], value.detach()), name


@pytest.mark.parametrize("zipped", FORMATS)
def test_a_module_with_versions_is_read(tmp_path: Path, zipped: bool) -> None:
    module = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.LayerNorm(2))
    path = saved(tmp_path / "w.bin", module.state_dict(), zipped=zipped)
    found = read_torch_archive(path)
    assert all(torch.equal(found[name], value) for name, value in module.state_dict().items())


# ------------------------------------------------------------------------------------- hostile
class Calls:
    """Unpickled, it would write a file."""

    def __init__(self, function: Callable[..., Any], *arguments: Any) -> None:
        self.parts = function, arguments

    def __reduce__(self) -> Any:
        return self.parts


def zipped_pickle(path: Path, content: bytes, **members: bytes) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("archive/data.pkl", content)
        for name, data in members.items():
            archive.writestr(f"archive/{name.replace('__', '/')}", data)
    return path


def older_pickle(path: Path, *parts: bytes) -> Path:
    head = [0x1950A86A20F9469CFC6C, 1001, {"little_endian": True}]
    path.write_bytes(b"".join([*(pickle.dumps(one, 2) for one in head), *parts]))
    return path


def refused(path: Path, words: str) -> None:
    with pytest.raises(ModelError, match=words) as caught:
        read_torch_archive(path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("zipped", FORMATS)
@pytest.mark.parametrize("protocol", [2, 4])
def test_nothing_in_a_file_is_run(tmp_path: Path, zipped: bool, protocol: int) -> None:
    harm = tmp_path / "harm"
    value = {"w": torch.ones(2), "x": Calls(Path.write_text, harm, "run")}
    path = saved(tmp_path / "w.bin", value, zipped=zipped, protocol=protocol)
    refused(path, "not weights that torch.save has written")
    assert not harm.exists()
    torch.load(path, weights_only=False)
    assert harm.read_text() == "run", "the file is as dangerous as the test believes"


TENSOR = (
    b"\x80\x02}X\x01\x00\x00\x00wctorch._utils\n_rebuild_tensor_v2\n"
    b"((X\x07\x00\x00\x00storagectorch\nFloatStorage\nX\x01\x00\x00\x000X\x03\x00\x00\x00cpu"
)


def described(count: int, offset: int, shape: tuple[int, ...], strides: tuple[int, ...]) -> bytes:
    """The pickle of one tensor of these sizes."""

    def number(value: int) -> bytes:
        data = value.to_bytes(9, "little", signed=True)
        return b"\x8a" + bytes([len(data)]) + data

    def row(values: tuple[int, ...]) -> bytes:
        return b"(" + b"".join(map(number, values)) + b"t"

    return (
        TENSOR + number(count) + b"tQ" + number(offset) + row(shape) + row(strides)
        + b"\x89}tRs."
    )  # fmt: skip


@pytest.mark.parametrize(
    ("sizes", "words"),
    [
        ((4, 0, (2, 2), (2, 1)), ""),
        ((4, 1, (2, 2), (2, 1)), "w reaches beyond its numbers"),
        ((4, 0, (5,), (1,)), "w is larger than its numbers"),
        ((4, 0, (10**6, 10**6), (0, 0)), "w is larger than its numbers"),
        ((4, 0, (2,), (2**60,)), "w reaches beyond its numbers"),
        ((4, 0, (2, 2), (-1, 1)), "no possible shape"),
        ((4, -1, (2, 2), (2, 1)), "no possible shape"),
        ((-4, 0, (2,), (1,)), "fewer than none"),
        ((2**62, 0, (2,), (1,)), "larger than the file|not those of a tensor"),
        ((4, 0, (2,), (1, 1)), "without numbers"),
        ((4, 0, (1,) * 9, (1,) * 9), "no possible shape"),
        ((5, 0, (5,), (1,)), "has 16 bytes and not 20|not those of a tensor"),
    ],
)
def test_sizes_are_those_of_the_file(tmp_path: Path, sizes: tuple[Any, ...], words: str) -> None:
    numbers = struct.pack("<4f", 1, 2, 3, 4)
    content = described(*sizes)
    one = zipped_pickle(tmp_path / "new.bin", content, data__0=numbers)
    keys = pickle.dumps(["0"], 2)
    other = older_pickle(tmp_path / "old.bin", content, keys, struct.pack("<q", 4), numbers)
    for path in (one, other):
        if words:
            refused(path, words)
        else:
            assert read_torch_archive(path)["w"].tolist() == [[1, 2], [3, 4]]


def test_many_tensors_over_one_storage_take_no_more_than_the_file(tmp_path: Path) -> None:
    one = torch.ones(100_000)
    path = saved(tmp_path / "w.bin", {str(at): one for at in range(500)})
    refused(path, "larger than the file")


def test_a_value_that_grows_as_it_is_read_is_refused_at_once(tmp_path: Path) -> None:
    nested: Any = ()
    for _ in range(60):
        nested = (nested, nested)
    began = time.monotonic()
    refused(zipped_pickle(tmp_path / "a.bin", pickle.dumps({"w": nested}, 4)), "'w' is no tensor")
    content = pickle.dumps(nested, 4)[:-1]
    keyed = content[:2] + b"}" + content[2:] + b"Ns."
    refused(zipped_pickle(tmp_path / "b.bin", keyed), "no text")
    assert time.monotonic() - began < 5


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "no end|damaged"),
        (b"\x80\x02.", "damaged"),
        (b"\x80\x02}", "damaged|no end"),
        (pickle.dumps([1, 2], 2), "no names with tensors"),
        (pickle.dumps({"w": 3}, 2), "'w' is no tensor"),
        (pickle.dumps({}, 2), "no names"),
        (b"\x80\x02cos\nsystem\nX\x02\x00\x00\x00ls\x85R.", "calls 'os system'"),
        (b"(S'ls'\nios\nsystem\n.", "instruction"),
        (b"\x80\x02cos\nsystem\n)\x81.", "instruction NEWOBJ"),
        (b"\x8e\xff\xff\xff\xff\xff\xff\xff\x7f", "damaged"),
        (b"\x8b\xff\xff\xff\x7f", "damaged"),
        (b"h\x07.", "damaged"),
    ],
)
def test_a_damaged_description_is_refused(tmp_path: Path, content: bytes, words: str) -> None:
    refused(zipped_pickle(tmp_path / "new.bin", content), words)
    refused(older_pickle(tmp_path / "old.bin", content), "not weights")


def test_a_file_cut_short_is_refused_wherever(tmp_path: Path) -> None:
    for zipped in (True, False):
        whole = saved(tmp_path / "w.bin", weights(), zipped=zipped).read_bytes()
        for length in range(0, len(whole) - 1, 97):
            (tmp_path / "cut.bin").write_bytes(whole[:length])
            with pytest.raises(ModelError):
                read_torch_archive(tmp_path / "cut.bin")


def test_compressed_members_and_other_bytes_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "bomb.bin"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("archive/data.pkl", bytes(10**6))
    refused(path, "data.pkl is compressed")
    refused(
        zipped_pickle(tmp_path / "big.bin", described(1, 0, (1,), (1,)), byteorder=b"big"),
        "high byte",
    )
    (tmp_path / "text.bin").write_text("no weights")
    refused(tmp_path / "text.bin", "not weights")
    with pytest.raises(ModelError, match="cannot be read"):
        read_torch_archive(tmp_path / "none.bin")


# ----------------------------------------------------------------------------------- converting
@pytest.fixture
def bert(tmp_path: Path) -> Path:
    """One that reads as many tokens as BLINK does."""
    positions = np.random.default_rng(3).normal(0, 1, (160, HIDDEN)).astype(np.float32)
    table = {"embeddings.position_embeddings.weight": positions}
    return write_model(tmp_path / "bert", bert_weights() | table, max_position_embeddings=160)


def blink(path: Path, bert: Path, *, zipped: bool) -> tuple[Path, dict[str, torch.Tensor]]:
    """Two towers as BLINK saves them, of which the second differs."""
    tower = load_bi_encoder(bert, hardware=CPU).mention.weights()
    state = {f"context_encoder.bert_model.{name}": value for name, value in tower.items()}
    state |= {f"cand_encoder.bert_model.{name}": value + 0.5 for name, value in tower.items()}
    state["context_encoder.bert_model.pooler.dense.bias"] = torch.ones(3)
    return saved(path, OrderedDict(state), zipped=zipped), state


@pytest.mark.parametrize("zipped", FORMATS)
def test_blinks_file_becomes_a_model_of_two_towers(
    tmp_path: Path, bert: Path, zipped: bool
) -> None:
    path, state = blink(tmp_path / "biencoder.bin", bert, zipped=zipped)
    done = convert_blink(path, tmp_path / "model", str(bert))
    assert done.unused == ("context_encoder.bert_model.pooler.dense.bias",)
    assert done.tensors == len(state) - 1
    model = load_bi_encoder(tmp_path / "model", hardware=CPU)
    assert (model.settings.shared, model.settings.pooling, model.settings.metric) == (
        False,
        "cls",
        "dot",
    )
    assert model.settings.scorer == "dual"
    for tower, prefix in zip(model.towers(), ("context_encoder", "cand_encoder"), strict=True):
        for name, value in tower.weights().items():
            assert torch.equal(value, state[f"{prefix}.bert_model.{name}"])
    assert model.base.name == "biencoder.bin"


def test_blinks_cross_encoder_becomes_a_reranker(
    tmp_path: Path, bert: Path, kglink: Kglink
) -> None:
    """Its logits are those of transformers on BLINK's input: padding up to 32, then the entity."""
    generator = torch.Generator().manual_seed(3)

    def drawn(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=generator)

    tower = load_bi_encoder(bert, hardware=CPU).mention.weights()
    state = {f"encoder.bert_model.{name}": value for name, value in tower.items()}
    pooler, bias = drawn(HIDDEN, HIDDEN) / HIDDEN, drawn(HIDDEN)
    state |= {"encoder.bert_model.pooler.dense.weight": pooler}
    state |= {"encoder.bert_model.pooler.dense.bias": bias}
    weight, shift = drawn(1, HIDDEN), drawn(1)
    state |= {"encoder.additional_linear.weight": weight, "encoder.additional_linear.bias": shift}
    path = saved(tmp_path / "crossencoder.bin", OrderedDict(state))
    told = json.loads(kglink("convert", path, tmp_path / "reader", "--like", bert, "--json").out)
    assert (told["reranker"], told["tensors"], told["unused"]) == (True, len(state), [])
    ours = open_cross_encoder(tmp_path / "reader", CPU)
    candidates = (
        Candidate(EntityId("kb", "1"), "heron", 1.0, description="a bird of the river"),
        Candidate(EntityId("kb", "2"), "mercury", 0.5, description="the planet"),
    )
    ranking = Ranking(MentionInText("the amber heron of the river", 4, 15), candidates)
    (logits,) = ours.logits([ranking])
    model = BertModel.from_pretrained(tmp_path / "reader" / "encoder").train(False)
    for logit, pair, begin in zip(logits, *ours.reader.pairs([ranking]), strict=True):
        row = torch.zeros(1, 32 + len(pair) - begin, dtype=torch.long)
        row[0, :begin] = torch.from_numpy(pair[:begin].astype(np.int64))
        row[0, 32:] = torch.from_numpy(pair[begin:].astype(np.int64))
        kinds = (torch.arange(row.shape[1]) >= 32).long().unsqueeze(0)
        states = model(input_ids=row, attention_mask=(row != 0).long(), token_type_ids=kinds)
        first = torch.tanh(states.last_hidden_state[0, 0] @ pooler.T + bias)
        assert logit == pytest.approx((first @ weight[0] + shift).item(), abs=1e-4)
    del state["encoder.bert_model.pooler.dense.bias"]
    path = saved(tmp_path / "half.bin", OrderedDict(state))
    lacks = kglink("convert", path, tmp_path / "no", "--like", bert, code=1).err
    assert "lacks the pooler" in lacks
    with pytest.raises(UsageError, match="with padding between"):
        export_model(describe_folder(str(bert), bert), tmp_path / "out", tmp_path / "reader")


@pytest.mark.parametrize(
    ("name", "harm", "why"),
    [
        ("cand_encoder.bert_model.embeddings.word_embeddings.weight", lambda t: t[:-4], "knows"),
        ("cand_encoder.bert_model.embeddings.word_embeddings.weight", lambda t: t[0, 0], "knows"),
        ("context_encoder.bert_model.embeddings.LayerNorm.weight", lambda t: t / 0, "no finite"),
        ("context_encoder.bert_model.embeddings.LayerNorm.weight", lambda t: t[1:], "and not"),
    ],
)
def test_weights_that_do_not_fit_are_refused(
    kglink: Kglink,
    tmp_path: Path,
    bert: Path,
    name: str,
    harm: Callable[[Tensor], Tensor],
    why: str,
) -> None:
    path, state = blink(tmp_path / "good.bin", bert, zipped=True)
    path = saved(tmp_path / "bad.bin", OrderedDict(state | {name: harm(state[name])}))
    told = kglink("convert", path, tmp_path / "no", "--like", bert, code=1).err
    assert name.split(".", maxsplit=1)[0] in told
    assert why in told
    assert "bad.bin" in told
    assert not (tmp_path / "no").exists()


def test_the_command(kglink: Kglink, tmp_path: Path, bert: Path) -> None:
    path, _ = blink(tmp_path / "biencoder.bin", bert, zipped=False)
    said = kglink("convert", str(path), str(tmp_path / "model"), "--like", str(bert))
    assert "tensors" in said.out
    assert "--set model.base=" in said.err
    (tmp_path / "letters").mkdir()
    (tmp_path / "letters" / "mine.txt").write_text("Dear")
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    for taken, why in (
        ("letters", "is not empty"),
        ("letters/mine.txt", "is a file"),
        ("model", "is not empty"),
        ("link", "is a link"),
    ):
        told = kglink("convert", path, tmp_path / taken, "--like", bert, code=2).err
        assert f"{taken}: {why}" in told
    assert (tmp_path / "letters" / "mine.txt").read_text() == "Dear"
    one = saved(tmp_path / "one.bin", load_bi_encoder(bert, hardware=CPU).mention.weights())
    told = kglink("convert", str(one), str(tmp_path / "no"), "--like", str(bert), code=1).err
    assert "holds no bi-encoder of BLINK" in told
    assert not (tmp_path / "no").exists()
    harm = io.BytesIO()
    torch.save({"w": Calls(print, "run")}, harm)
    (tmp_path / "harm.bin").write_bytes(harm.getvalue())
    told = kglink("convert", str(tmp_path / "harm.bin"), str(tmp_path / "no"), code=1).err
    assert "Nothing of the file was run" in told
