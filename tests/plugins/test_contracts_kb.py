"""The contract of KB adapters: a correct one passes, each wrong one fails its check."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from contract_cases import contract_for, failing_checks, failure_of, mutant_id
from kglink.plugins import KINDS
from kglink.records import Alias, Document, Entity, EntityId, Mention, Record
from kglink.sources import Problems, Source, SourceHead
from kglink.testing import KBAdapterContract, PluginContract
from kglink.testing.contracts.base import check_names
from kglink.testing.contracts.kb import check_record
from kglink.testing.installed import contract_of
from reference_plugins import ReferenceAdapter, sniff

SAMPLE = "Q1=Ada\nQ2=Zoë and 👩‍👩‍👧\n\nQ3=Bob\n"
EXPECTED = (Entity("Q1", "Ada"), Entity("Q2", "Zoë and 👩‍👩‍👧"), Entity("Q3", "Bob"))


def kb(adapter: type[ReferenceAdapter], **described: Any) -> type[PluginContract]:
    settings = {
        "source_text": SAMPLE,
        "expected": EXPECTED,
        "broken": ("Q1=Ada\nno separator\n", b"\xff\xfe\n"),
        "sniff": lambda _: sniff,
    }
    return contract_for(KBAdapterContract, adapter, **{**settings, **described})


def test_a_correct_adapter_passes(tmp_path: Path) -> None:
    assert failing_checks(kb(ReferenceAdapter), tmp_path) == {}


class ReadsAList(ReferenceAdapter):
    def read(self, source: Source, problems: Problems) -> Any:
        return list(super().read(source, problems))


class LosesTheLast(ReferenceAdapter):
    def read(self, source: Source, problems: Problems) -> Iterator[Record]:
        return itertools.islice(super().read(source, problems), 2)


class ReadsOnce(ReferenceAdapter):
    done: bool = False

    def read(self, source: Source, problems: Problems) -> Iterator[Record]:
        if not self.done:
            self.done = True
            yield from super().read(source, problems)


class RepeatsAKey(ReferenceAdapter):
    def entity(self, key: str, title: str) -> Entity:
        return Entity("Q1", title.strip())


class EmptyAlias(ReferenceAdapter):
    def entity(self, key: str, title: str) -> Entity:
        return replace(super().entity(key, title), aliases=(Alias(" "),))


class RaisesValueError(ReferenceAdapter):
    def complain(self, text: str, where: str, problems: Problems) -> None:
        raise ValueError(text)


class IgnoresBadLines(ReferenceAdapter):
    def complain(self, text: str, where: str, problems: Problems) -> None:
        pass


class AlwaysStops(ReferenceAdapter):
    def complain(self, text: str, where: str, problems: Problems) -> None:
        super().complain(text, where, Problems("stop"))


class OpensThePath(ReferenceAdapter):
    def read(self, source: Source, problems: Problems) -> Iterator[Record]:
        assert source.path is not None
        for line in source.path.read_text("utf-8").splitlines():
            if line:
                yield self.entity(*line.split("=", 1))


class Latin1(ReferenceAdapter):
    def entity(self, key: str, title: str) -> Entity:
        return Entity(key, title.encode().decode("latin-1"))


def sure(confidence: Any) -> dict[str, Any]:
    return {"sniff": lambda _: lambda head: confidence}


def cuts_into(head: SourceHead) -> float:
    return 0.9 if head.head.index(b"=") < 9 else 0.0


MUTANTS = [
    (kb(ReadsAList), "test_yields_records_one_by_one"),
    (kb(LosesTheLast), "test_reads_the_expected_records"),
    (kb(Latin1), "test_reads_the_expected_records"),
    (kb(ReadsOnce), "test_reads_the_same_again"),
    (kb(RepeatsAKey), "test_records_are_well_formed"),
    (kb(EmptyAlias), "test_records_are_well_formed"),
    (kb(RaisesValueError), "test_a_broken_source_is_told"),
    (kb(RaisesValueError), "test_damage_never_ends_in_a_traceback"),
    (kb(IgnoresBadLines), "test_a_broken_source_is_told"),
    (kb(IgnoresBadLines), "test_a_broken_source_is_skipped_and_counted"),
    (kb(AlwaysStops), "test_a_broken_source_is_skipped_and_counted"),
    (kb(OpensThePath), "test_compression_and_standard_input_change_nothing"),
    (kb(ReferenceAdapter, **sure(0.1)), "test_knows_its_own_format"),
    (kb(ReferenceAdapter, sniff=lambda _: None), "test_knows_its_own_format"),
    (kb(ReferenceAdapter, **sure(0.9)), "test_refuses_foreign_formats"),
    (kb(ReferenceAdapter, **sure(1.1)), "test_sniffing_never_fails"),
    (kb(ReferenceAdapter, sniff=lambda _: cuts_into), "test_sniffing_never_fails"),
]

BAD_RECORDS = [
    Entity("", "no key"),
    Entity("Q1", "x", popularity=float("nan")),
    Entity("Q1", "x", aliases=(Alias(""),)),
    Entity("Q1", "x", aliases=[Alias("x")]),  # type: ignore[arg-type] # on purpose
    Document("", "no id"),
    Document("d", "Ada", split="validation"),  # type: ignore[arg-type] # on purpose
    Document("d", "Ada", (Mention(0, 0, ""),)),
    Document("d", "Ada", (Mention(0, 4, "Ada"),)),
    Document("d", "Ada", (Mention(1, 3, "Ad"),)),
    Document("d", "Ada", (Mention(0, 3, "Ada", (EntityId("kb", ""),)),)),
    Document("d", "Ada", (Mention(0, 3, "Ada", (EntityId("kb", "1"),) * 2),)),
    Document("d", "Ada", (Mention(0, 3, "Ada", "kb:1"),)),  # type: ignore[arg-type] # on purpose
    "Ada",
]


@pytest.mark.parametrize("record", BAD_RECORDS, ids=repr)
def test_a_record_that_breaks_a_promise_is_refused(record: Any) -> None:
    with pytest.raises(AssertionError):
        check_record(record)


@pytest.mark.parametrize("gold", [None, (), (EntityId("kb", "1"), EntityId("", "1"))])
def test_a_good_record_is_not(gold: tuple[EntityId, ...] | None) -> None:
    check_record(Document("d", "Ada", (Mention(0, 3, "Ada", gold),), split="dev"))


@pytest.mark.parametrize("case", MUTANTS, ids=mutant_id)
def test_a_wrong_plugin_fails(case: tuple[type[PluginContract], str], tmp_path: Path) -> None:
    contract, check = case
    assert failure_of(contract, check, tmp_path / "check") is not None


def test_every_check_fails_for_some_wrong_adapter() -> None:
    assert set(check_names(KBAdapterContract)) == {check for _, check in MUTANTS}


def test_every_kind_has_a_contract() -> None:
    assert [contract_of(kind).kind for kind in KINDS] == list(KINDS)
