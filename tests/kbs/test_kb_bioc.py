"""The adapter ``kglink/bioc``, and what its exporter writes."""

from __future__ import annotations

import io
import json
from typing import Literal

import pytest

from kb_checks import claimants, damaged, head_of
from kglink.errors import KglinkError, SourceError
from kglink.records import Candidate, Document, EntityId, Link, LinkedDocument, Mention
from kglink.sources import OnError, Problems, Source, SourceLimits
from kglink.testing import KBAdapterContract
from kglink.testing.contracts.exporter import linked_documents
from kglink_kbs.bioc import BiocAdapter, BiocExporter, BiocSettings, BiocWriterSettings

#: An abstract as BC5CDR has it, with a title of which characters and bytes differ.
XML = """<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE collection SYSTEM "BioC.dtd">
<collection><source>PubTator</source><date>2017</date><key>BioC.key</key>
<infon key="note">of the collection</infon>
<document><id>354896</id><passage><infon key="type">title</infon><offset>0</offset>
<text>Lidocaïne-induced asystole.</text>
<annotation id="2"><infon key="type">Disease</infon><infon key="MESH">D006323</infon>
<location offset="18" length="8"/><text>asystole</text></annotation></passage>
<passage><infon key="type">abstract</infon><offset>28</offset>
<text>A &amp; B stopped.</text>
<annotation id="3"><infon key="type">Chemical</infon><infon key="identifier">-</infon>
<location offset="32" length="1"/><text>B</text></annotation>
<annotation id="4"><infon key="type">Parts</infon><location offset="28" length="1"/>
<location offset="32" length="1"/><text>A B</text></annotation>
<relation id="R"><infon key="relation">CID</infon><node refid="2" role="Disease"/></relation>
</passage></document></collection>
"""
TEXT = "Lidocaïne-induced asystole.\nA & B stopped."
DOCUMENT = Document(
    "354896",
    TEXT,
    (
        Mention(18, 26, "asystole", (EntityId("", "D006323"),), "Disease"),
        Mention(32, 33, "B", None, "Chemical"),
    ),
    "Lidocaïne-induced asystole.",
)
JSON = json.dumps({
    "source": "PubTator", "date": "", "key": "", "infons": {},
    "documents": [{"id": "354896", "infons": {}, "passages": [
        {"infons": {"type": "title"}, "offset": 0, "text": "Lidocaïne-induced asystole.",
         "annotations": [{"id": "2", "infons": {"type": "Disease", "MESH": "D006323"},
                          "text": "asystole", "locations": [{"offset": 18, "length": 8}]}]},
        {"infons": {"type": "abstract"}, "offset": 28, "sentences": [
            {"offset": 28, "text": "A & B stopped.", "annotations": [
                {"id": "3", "infons": {"type": "Chemical", "identifier": "-"}, "text": "B",
                 "locations": [{"offset": 32, "length": 1}]}]}]},
    ], "relations": []}],
}, indent=1)  # fmt: skip


class TestBiocXml(KBAdapterContract):
    plugin = "kglink/bioc"
    source_name = "corpus.xml"
    source_text = XML
    expected = (DOCUMENT,)
    broken = (
        b"\x00\xff\xfe no record \x80\n",
        XML.replace('offset="18"', 'offset="180"'),
        XML.replace('offset="18"', 'offset="17"'),
        XML.replace('offset="18"', 'offset="x"'),
        XML.replace("<id>354896</id>", ""),
        XML.replace("document", "dokument"),
        XML.replace("</passage></document>", "</document>"),
    )


class TestBiocJson(KBAdapterContract):
    plugin = "kglink/bioc"
    source_name = "corpus.json"
    source_text = JSON
    expected = (DOCUMENT,)
    broken = (JSON.replace('"offset": 18', '"offset": null'), JSON[:-1], "[1]")


def read(
    data: str, problems: Problems | None = None, limits: SourceLimits | None = None, **settings: str
) -> list[Document]:
    with Source.from_bytes(data.encode(), name="x.xml", limits=limits) as source:
        made = BiocAdapter(BiocSettings.model_validate(settings))
        records = list(made.read(source, problems or Problems()))
    return [one for one in records if isinstance(one, Document)]


@pytest.mark.parametrize("data", [XML, JSON])
def test_it_is_taken_for_bioc_alone(data: str) -> None:
    assert claimants(head_of(data, "x"))[0] == "kglink/bioc"


def test_other_collections_and_passages_are_none() -> None:
    for other in ("<collection><record/></collection>", '{"query": "q", "passages": []}'):
        assert "kglink/bioc" not in claimants(head_of(other, "x"))


def test_json_may_be_a_list_of_collections_or_a_document_on_each_line() -> None:
    collection = json.loads(JSON)
    (document,) = collection["documents"]
    other = document | {"id": "2"}
    forms = (
        json.dumps([collection]),
        json.dumps({"PubTator3": [document]}),
        json.dumps(document) + "\n" + json.dumps(other) + "\n",
    )
    assert [[one.id for one in read(form)] for form in forms] == [
        ["354896"],
        ["354896"],
        ["354896", "2"],
    ]


def test_offsets_in_bytes_are_told_by_the_words() -> None:
    # The two bytes of "ï" stand before both mentions.
    in_bytes = XML.replace('offset="18"', 'offset="19"').replace("<offset>28", "<offset>29")
    in_bytes = in_bytes.replace('offset="32"', 'offset="33"').replace('offset="28"', 'offset="29"')
    assert read(in_bytes) == [DOCUMENT]
    assert read(in_bytes, offsets="bytes") == [DOCUMENT]
    with pytest.raises(KglinkError, match=r"'asystole' is given, 'systole\.' stands at 19\.\."):
        read(in_bytes, offsets="characters")


def test_settings_choose_types_and_codes() -> None:
    problems = Problems()
    (chemical,) = read(XML, problems, types="Chemical,Parts", no_code="nil")
    assert [(one.surface, one.gold) for one in chemical.mentions] == [("B", ())]
    assert problems.passed_over == {"annotations at no place, or at several": 1}
    (other,) = read(XML, codes="omim")
    assert [one.gold for one in other.mentions] == [None, None]


@pytest.mark.parametrize(
    ("doctype", "told"),
    [
        ('[<!ENTITY a "ha"><!ENTITY b "&a;&a;">]', "declares the XML entity 'a'"),
        ('[<!ENTITY a SYSTEM "file:///etc/passwd">]', "declares the XML entity 'a'"),
        ('[<!ENTITY % a SYSTEM "file:///etc/passwd"> %a;]', "declares the XML entity 'a'"),
    ],
)
def test_entities_are_refused(doctype: str, told: str) -> None:
    with pytest.raises(SourceError, match=told):
        read(XML.replace('SYSTEM "BioC.dtd"', doctype))


def test_nothing_grows_without_end() -> None:
    limits = SourceLimits(max_line_bytes=10_000)
    for part in ("<text>" + "a" * 20_000, "<annotation/>" * 1_000, "<passage>" * 500):
        with pytest.raises(SourceError, match="a document of more than 10,000 bytes"):
            read(f"<collection><document>{part}", limits=limits)
    with pytest.raises(SourceError, match="nested too deeply"):
        read("<collection>" + "<x>" * 2_000)
    with pytest.raises(SourceError, match="names"):
        read("<collection>" + "".join(f"<n{at}/>" for at in range(20_000)))


@pytest.mark.parametrize("on_error", ["stop", "skip"])
def test_damage_leads_to_our_errors_alone(on_error: OnError) -> None:
    for data in (XML, JSON):
        for seed in range(150):
            with Source.from_bytes(damaged(data.encode(), seed), name="x") as source:
                try:
                    list(BiocAdapter(BiocSettings()).read(source, Problems(on_error)))
                except KglinkError as error:
                    str(error).encode()


def export(syntax: Literal["xml", "json"], *documents: LinkedDocument) -> str:
    out = io.StringIO()
    BiocExporter(BiocWriterSettings(syntax=syntax)).export(documents, out)
    return out.getvalue()


@pytest.mark.parametrize("syntax", ["xml", "json"])
def test_what_is_written_is_read_back(syntax: Literal["xml", "json"]) -> None:
    heron = Candidate(EntityId("birds", "a;b, c<d"), "heron & co", 0.9, type="bird")
    text = "A\r\nheron 😀\tand <an> emu"
    links = (
        Link(3, 8, "heron", (heron,), heron, 0.75),
        Link(15, 19, "<an>", (), None, 0.5, cluster="c1"),
    )
    (back,) = read(export(syntax, LinkedDocument("d<1>", text, links)))
    assert back == Document("d<1>", text, (
        Mention(3, 8, "heron", (heron.id,), "bird", confidence=0.75),
        Mention(15, 19, "<an>", (), "Entity", confidence=0.5, cluster="c1"),
    ))  # fmt: skip


@pytest.mark.parametrize("syntax", ["xml", "json"])
def test_every_place_of_every_text_is_read_back(syntax: Literal["xml", "json"]) -> None:
    documents = [one for one in linked_documents() if one.text.strip() and "\0" not in one.text]
    for document, back in zip(documents, read(export(syntax, *documents)), strict=True):
        assert len(back.text) == len(document.text)
        places = sorted((link.start, link.end) for link in document.links)
        assert [(one.start, one.end) for one in back.mentions] == places


def test_what_stands_in_other_tags_is_read_too() -> None:
    within = XML.replace("<passage>", "<part><passage>").replace("</passage>", "</passage></part>")
    assert within != XML
    assert read(within) == read(XML) == [DOCUMENT]


def test_infons_that_nobody_reads_may_be_of_any_kind() -> None:
    document = json.loads(JSON)
    for passage in document["documents"][0]["passages"]:
        for one in passage.get("annotations", ()):
            one["infons"] |= {"valid": True, "normalized": [9], "biotype": {}}
    assert read(json.dumps(document)) == read(JSON)


def test_a_number_that_a_read_cuts_is_whole() -> None:
    document = json.loads(JSON)
    plain = json.dumps(document | {"note": "", "version": 1.5})
    assert [
        read(plain.replace('"note": ""', f'"note": "{"x" * (2**18 - len(plain) + more)}"'))
        for more in range(6)
    ] == [read(JSON)] * 6


def test_annotations_of_what_has_no_text_stand_in_its_sentences() -> None:
    def note(offset: int, words: str) -> dict[str, object]:
        place = [{"offset": offset, "length": len(words)}]
        return {"infons": {"identifier": "D1"}, "text": words, "locations": place}

    sentences = [{"offset": 4, "text": "Zeus met."}, {"offset": 14, "text": "Hera."}]
    passage = {"offset": 4, "sentences": sentences, "annotations": [note(14, "Hera")]}
    document = {"id": "1", "passages": [passage], "annotations": [note(4, "Zeus")]}
    (found,) = read(json.dumps({"documents": [document]}))
    assert found.text == "Zeus met.\nHera."
    assert [one.surface for one in found.mentions] == ["Zeus", "Hera"]
    # Where the passage has its text, that of its sentences is the same again.
    whole: dict[str, object] = passage | {"text": "Zeus met. Hera."}
    sentences[0]["annotations"] = [note(9, "met")]
    (found,) = read(json.dumps({"documents": [document | {"passages": [whole]}]}))
    assert found.text == "Zeus met. Hera."
    assert [one.surface for one in found.mentions] == ["Zeus", "met", "Hera"]
    # What stands before all texts is counted.
    problems = Problems()
    early = document | {"annotations": [note(0, "Zeus")]}
    with Source.from_bytes(json.dumps({"documents": [early]}).encode(), name="a.json") as source:
        list(BiocAdapter(BiocSettings()).read(source, problems))
    assert problems.passed_over == {"annotations at no place, or at several": 1}
