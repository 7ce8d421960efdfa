"""What `fuzz.py` fuzzes: each reader with its settings, its seeds and the tokens of its format."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType, ModuleType
from typing import Any, NamedTuple

CLEANER = "cleaner"
#: Stands between the files of a folder, all of which are one input.
PART = b"\n=====\n"

Settings = Mapping[str, object]


class Reader(NamedTuple):
    """A reader, and what the fuzzer is told about its format."""

    name: str
    file: str = "-"
    """The name that an input goes by."""
    tests: str = ""
    """The test module whose samples are seeds."""
    data: Sequence[str] = ()
    """Public data files whose beginnings are seeds."""
    settings: Sequence[Settings] = (MappingProxyType({}),)
    """One of these is drawn by the input."""
    tokens: str = ""
    more_tokens: Sequence[str] = ()
    """Tokens with white space in them."""
    json: bool = False
    """Whether values of JSON are changed, too, and not bytes alone."""
    files: Sequence[str] = ()
    """The files of a folder, in the order of the input's parts."""
    parts: Callable[[Any], Sequence[str]] | None = None
    """Makes a folder's parts of what the test module holds."""


_JSON = '{ } [ ] , : " \\ \\u0000 \\ud800 null true 1e999 {}'
_WIKITEXT = (
    "[[ ]] [ ] {{ }} {{{ }}} {| |} |- | ! '' ''' <ref> </ref> <ref/> <!-- --> <nowiki> </nowiki> "
    "<math> </math> <table> </table> <br> <gallery> == = * # : ; ---- __TOC__ &amp; &lt; &#91; "
    "[[File: [[Category: [[#x| [http:// ( ) （ #REDIRECT {{Infobox {{disambiguation}} -{ }-"
)
_XML = (
    "<mediawiki> </mediawiki> <siteinfo> <namespaces> <page> </page> <title> </title> <ns> <id> "
    "<redirect <revision> <text </text> <model> <![CDATA[ ]]> <!-- <!DOCTYPE <!ENTITY &lt; &#0; "
    "&amp; xml:lang= first-letter case-sensitive <?xml encoding="
)
_WIKI_SETTINGS = (
    {"documents": 5},
    {"categories": True, "disambiguation": True, "namespaces": (0, 14, 1)},
    {"sentences": 0, "min_anchor_count": 0, "language": "de"},
)


def _umls(module: ModuleType) -> Sequence[str]:
    return (module.MRCONSO, module.MRSTY, module.MRDEF)


def _zeshel(module: ModuleType) -> Sequence[str]:
    lines: Callable[..., str] = module.lines
    annotations = lines(module.MARS_IN_SUN, module.THE_SUN)
    return (lines(module.SUN, module.MARS), annotations, lines(module.MARS_IN_SUN))


def _reddit(module: ModuleType) -> Sequence[str]:
    return tuple(module.MINIATURE.values())


_ALL = (
    Reader(CLEANER, data=("wiki/tinywiki.xml", "wiki/enwiki*.bz2"), tokens=_WIKITEXT),
    Reader(
        "wikipedia",
        "dump.xml",
        "test_kb_wikipedia",
        data=("wiki/tinywiki.xml",),
        settings=_WIKI_SETTINGS,
        tokens=f"{_XML} {_WIKITEXT}",
    ),
    Reader(
        "wikia",
        "pages_current.xml",
        "test_kb_wikia",
        data=("wiki/tinywiki.xml",),
        settings=_WIKI_SETTINGS,
        tokens=f"{_XML} {_WIKITEXT}",
    ),
    Reader(
        "cirrussearch",
        "cirrussearch-content.json",
        "test_kb_cirrussearch",
        settings=({}, {"namespaces": (0, 14), "disambiguation": True, "sentences": 2}),
        tokens=f"{_JSON} index _id _type title opening_text text redirect namespace "
        "incoming_links popularity_score template category wikibase_item language",
        json=True,
    ),
    Reader(
        "zeshel",
        "sky.json",
        "test_kb_zeshel",
        data=("zeshel_sample/documents/*.json",),
        tokens=f"{_JSON} document_id title text start_index end_index category corpus "
        "context_document_id label_document_id mention_id LOW_OVERLAP",
        json=True,
        files=(
            "documents/sky.json",
            "mentions/train.json",
            "mentions/heldout_train_unseen.json",
        ),
        parts=_zeshel,
    ),
    Reader(
        "reddit",
        "reddit_el.zip",
        "test_kb_reddit",
        settings=({"dev_share": 0.5}, {"split": "none"}, {"split": "texts", "dev_share": 0.5}),
        tokens="p1 c1 t1_c1 t3_p1 space Mars Mars_(god) ?redirect=no #x %20 %00 PK 0 4 999999999",
        more_tokens=("\t", "\t\t", "\r\n", "PK\x03\x04"),
        files=(
            *("posts.tsv", "comments.tsv", "gold_post_annotations.tsv"),
            *("silver_post_annotations.tsv", "bronze_post_annotations.tsv"),
            *("gold_comment_annotations.tsv", "silver_comment_annotations.tsv"),
            "bronze_comment_annotations.tsv",
        ),
        parts=_reddit,
    ),
    Reader(
        "blink",
        "train.jsonl",
        "test_kb_blink",
        settings=({}, {"label": "row", "join": ""}, {"label": "title"}),
        tokens=f"{_JSON} context_left mention context_right label label_id label_title title text "
        "idx entity kb_idx https://en.wikipedia.org/wiki?curid=1 world",
        json=True,
    ),
    Reader(
        "pubtator",
        "corpus.PubTator.txt",
        "test_kb_pubtator",
        data=("disease/corpora/*.gz",),
        settings=({}, {"no_code": "nil", "types": "Disease,T038"}),
        tokens="|t| |a| 1 MESH:D003550 OMIM:219700 UMLS:C0010674 -1 | , ; + Disease CID T038,T047",
        more_tokens=("\t", "\n\n", "\t0\t5\t", "\r\n", "\u2028"),
    ),
    Reader(
        "bioc",
        "corpus.xml",
        "test_kb_bioc",
        tokens=f"{_JSON} <collection> </collection> <document> <passage> <offset> <text> <infon "
        'key="type"> <annotation id="1"> <location offset="0" length="5"/> </annotation> &amp; '
        "documents passages annotations locations infons offset length text",
        json=True,
    ),
    Reader(
        "labelstudio",
        "tasks.json",
        "test_kb_labelstudio",
        tokens=f"{_JSON} id data text annotations predictions result from_name to_name type labels "
        "value start end region textarea score model_version was_cancelled",
        json=True,
    ),
    Reader(
        "nif",
        "corpus.ttl",
        "test_kb_nif",
        settings=({}, {"syntax": "turtle"}, {"syntax": "ntriples"}),
        tokens="@prefix nif: nif:Context nif:Phrase nif:isString nif:beginIndex nif:endIndex "
        "nif:referenceContext nif:anchorOf itsrdf:taIdentRef itsrdf:taConfidence #char=0,3 "
        'urn:kglink:nil: urn:kglink:entity:a:1 ^^ xsd:nonNegativeInteger <http:// > ; , . """',
    ),
    Reader(
        "umls",
        "MRCONSO.RRF",
        "test_kb_umls",
        settings=({}, {"subset": "st21pv"}, {"language": "SPA", "sources": "MSHSPA"}),
        tokens="| || ENG SPA C0000005 T047 MSH NOCODE P|PF|Y S|PF|N |N|256| |O| D012711",
        files=("META/MRCONSO.RRF", "META/MRSTY.RRF", "META/MRDEF.RRF"),
        parts=_umls,
    ),
    Reader(
        "sssom",
        "x.sssom.tsv",
        "test_kb_sssom",
        settings=({}, {"use": "overlaps"}, {"min_confidence": 0.5, "predicates": ""}),
        tokens="subject_id object_id predicate_id confidence skos:exactMatch skos:broadMatch Not "
        "predicate_modifier mapping_justification #curie_map: DOID:1 MESH:D1 sssom:NoTermFound",
        more_tokens=("\t", "\r\n", "#  DOID: http://x/"),
    ),
    Reader(
        "obo",
        "ontology.obo",
        "test_kb_obo",
        data=("disease/kb/hp.obo.gz",),
        settings=({}, {"type": "subset", "alt_ids": False, "prefix": "HP", "synonyms": "EXACT"}),
        tokens="[Term] [Typedef] id: name: def: synonym: xref: alt_id: is_a: is_obsolete: comment: "
        'subset: namespace: default-namespace: format-version: true "" [] EXACT RELATED \\n \\W '
        "\\ ! { } property_value: idspace: replaced_by: EXACT[]",
        more_tokens=("\\\n", "\r\n", "[Term]\nid: A:1\nname: x\n"),
    ),
    Reader(
        "obographs",
        "ontology.json",
        "test_kb_obographs",
        settings=({}, {"type": "subset", "alt_ids": False}),
        tokens=f"{_JSON} graphs nodes id lbl type CLASS meta definition val synonyms pred "
        "hasExactSynonym xrefs basicPropertyValues deprecated edges sub is_a obj subsets comments",
        json=True,
    ),
    Reader(
        "skos",
        "vocabulary.ttl",
        "test_kb_skos",
        settings=(
            {},
            {"syntax": "turtle", "key": "local", "languages": "de,en", "matches": "close"},
            {"syntax": "xml"},
            {"syntax": "ntriples", "key": "notation"},
            {"syntax": "json-ld"},
        ),
        tokens="@prefix @base a skos:Concept skos:prefLabel skos:altLabel skos:exactMatch @en @de "
        '^^ xsd:integer <http:// > _:a [] ( ) ; , . """ owl:Class rdfs:label rdf:about= '
        "<rdf:RDF <!ENTITY <!DOCTYPE @context @id @graph",
    ),
    Reader(
        "wikidata",
        "latest-all.json",
        "test_kb_wikidata",
        settings=(
            {},
            {"types": "Q5", "min_sitelinks": 1},
            {"languages": "de,en", "xrefs": "P1:MESH"},
        ),
        tokens=f"{_JSON} Q1 P31 P279 labels descriptions aliases claims sitelinks enwiki mainsnak "
        "datavalue value rank deprecated preferred normal numeric-id type item language snaktype",
        json=True,
    ),
    Reader(
        "jsonl",
        "entities.jsonl",
        "test_kb_jsonl",
        settings=({}, {"title": "names.0.en", "separator": ","}),
        tokens=f"{_JSON} id title name description aliases xrefs popularity kglink entity mapping "
        "document surface kind count mentions start end gold kb key subject object verdict",
        json=True,
    ),
    Reader(
        "csv",
        "entities.csv",
        "test_kb_tabular",
        settings=({}, {"delimiter": ";", "quoting": "none"}, {"separator": "|"}),
        tokens='id title description aliases type url popularity , ; | "" " 1e999 nan',
        more_tokens=("\t", "\r", "\r\n", "id,title\n", '"\n"'),
    ),
    Reader(
        "tsv",
        "entities.tsv",
        "test_kb_tabular",
        settings=({}, {"quoting": "none"}),
        tokens='id title description aliases type url popularity , | "" " 1e999',
        more_tokens=("\t", "\r", "\r\n", "id\ttitle\n", '"\n"'),
    ),
    Reader(
        "documents",
        "documents.jsonl",
        "test_kb_documents",
        data=("disease/mentions/*.jsonl.gz",),
        settings=(
            {},
            {"offsets": "utf16", "gold_ids": "kb:key", "join": ""},
            {"offsets": "bytes", "gold": "id"},
        ),
        tokens=f"{_JSON} id text entities mentions start end length surface gold kb key label NIL "
        "context mention context_left context_right label_id split dev doc nil",
        json=True,
    ),
    Reader(
        "text",
        "a.txt",
        "test_kb_texts",
        settings=({}, {"marked": True}),
        tokens="[[ ]] [[Ada]] | \ufeff \x00 e\u0301",
        more_tokens=("\u2028", "\f", "\r\n"),
    ),
    Reader(
        "html",
        "a.html",
        "test_kb_texts",
        settings=({}, {"tables": True, "code": True}),
        tokens="<p> </p> <pre> <code> <table> <td> <script> <style> <!-- --> <![CDATA[ ]]> &amp; "
        "&#0; &#x110000; &lt <br/> <title> <meta charset= <svg> <template> </html",
    ),
    Reader(
        "markdown",
        "a.md",
        "test_kb_texts",
        settings=({}, {"tables": True, "code": True}),
        tokens="# ## *b* _i_ `c` ``` ~~~ [a](b) ![a](b) [a]: <http://> > - 1. | --- === \\ &amp;",
        more_tokens=("\n\n", "\n    ", "| a | b |\n|---|---|\n"),
    ),
    Reader(
        "mail",
        "a.eml",
        "test_kb_texts",
        tokens="Subject: From: Message-ID: Content-Type: multipart/mixed; boundary= text/html "
        "charset= =?utf-8?q?a?= =?x?b?A?= quoted-printable base64 Content-Transfer-Encoding: "
        "message/rfc822 =3D =\r\n",
        more_tokens=("\n\n", "\r\n\r\n", "\n--b\n", "\n--b--\n", "\n> "),
    ),
    Reader(
        "docx",
        "a.docx",
        "test_kb_texts",
        tokens="word/document.xml <w:p> <w:r> <w:t> <w:tbl> <w:del> </w:t> <!DOCTYPE <!ENTITY &a;",
        more_tokens=("PK\x03\x04", "PK\x01\x02", "PK\x05\x06"),
    ),
    Reader(
        "xlsx",
        "a.xlsx",
        "test_kb_workbook",
        tokens='xl/workbook.xml xl/worksheets/sheet1.xml <row <c r="A1" t="s" <v> <f> <is><t> '
        "<sheetData> </sheetData> <dimension <!DOCTYPE <!ENTITY &a;",
        more_tokens=("PK\x03\x04", "PK\x01\x02", "PK\x05\x06"),
    ),
    Reader(
        "parquet",
        "a.parquet",
        "test_kb_workbook",
        tokens="PAR1 id title aliases text mentions UTF8 schema list element",
    ),
    Reader(
        "pdf",
        "a.pdf",
        "test_kb_texts",
        tokens="%PDF-1.4 obj endobj stream endstream xref trailer startxref %%EOF << >> /Type "
        "/Page /Kids /Length /Filter /FlateDecode /Encrypt /Parent 0 R BT Tj ET ( ) [ ] /ObjStm",
    ),
)

#: The readers by name, in the order in which they are fuzzed.
READERS: Mapping[str, Reader] = {reader.name: reader for reader in _ALL}
