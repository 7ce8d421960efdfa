"""The table of the KB adapters that come with kglink."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

from kglink.plugins import Factory, PluginSettings, Register, Sniff, hookimpl
from kglink_kbs import (
    binary_tables,
    bioc,
    blink,
    cirrussearch,
    jsonl,
    labelstudio,
    nif,
    obo,
    obographs,
    pubtator,
    reddit,
    skos,
    sssom,
    tabular,
    umls,
    wikidata,
    zeshel,
)
from kglink_kbs.mediawiki import wikis
from kglink_kbs.mediawiki.settings import MediaWikiSettings
from kglink_kbs.ontology import OntologySettings
from kglink_kbs.texts import docx, html, mail, pdf, plain
from kglink_kbs.texts.plain import OneTextAdapter, TextSettings


class Row(NamedTuple):
    """An adapter: its short name, what makes it, its settings, how it is guessed, what it reads."""

    name: str
    factory: Factory
    settings: type[PluginSettings]
    sniff: Sniff | None
    summary: str
    extra: str = ""
    texts: bool = False


# fmt: off
ADAPTERS = (
    Row("jsonl", jsonl.JsonlAdapter, jsonl.JsonSettings, jsonl.sniff_jsonl,
        "Entities as JSON: one object per line, or one array of objects"),
    Row("csv", tabular.TabularAdapter, tabular.CsvSettings, tabular.sniff_csv,
        "Entities as a table with a header; delimiter and quoting are guessed"),
    Row("tsv", tabular.TabularAdapter, tabular.TsvSettings, tabular.sniff_tsv,
        "Entities as a table with a header, columns separated by tabs"),
    Row("xlsx", binary_tables.WorkbookAdapter, binary_tables.WorkbookSettings,
        binary_tables.sniff_workbook,
        "Entities as a sheet of an XLSX workbook, with a header", extra="tables"),
    Row("parquet", binary_tables.ParquetAdapter, binary_tables.ParquetSettings,
        binary_tables.sniff_parquet,
        "Entities or annotated texts as Parquet", extra="tables"),
    Row("documents", jsonl.DocumentsAdapter, jsonl.JsonSettings, jsonl.sniff_documents,
        "Annotated texts as JSON lines: spans, single mentions, or BLINK's contexts"),
    Row("obo", obo.OboAdapter, OntologySettings, obo.sniff,
        "Ontologies in the OBO flat file format, 1.2 and 1.4"),
    Row("obographs", obographs.ObographsAdapter, OntologySettings, obographs.sniff,
        "Ontologies in the OBO Graphs JSON format"),
    Row("skos", skos.SkosAdapter, skos.SkosSettings, skos.sniff,
        "SKOS thesauri and OWL ontologies as Turtle, RDF/XML, N-Triples or JSON-LD", extra="rdf"),
    Row("wikidata", wikidata.WikidataAdapter, wikidata.WikidataSettings, wikidata.sniff,
        "Wikidata's JSON dumps: items in one language, filtered by class and sitelinks"),
    Row("zeshel", zeshel.ZeshelAdapter, zeshel.ZeshelSettings, zeshel.sniff,
        "ZESHEL: one world's pages as entities, and the mentions in them"),
    Row("blink", blink.BlinkAdapter, blink.BlinkSettings, blink.sniff,
        "BLINK: a catalogue of entities, mentions between their contexts, or both"),
    Row("reddit", reddit.RedditAdapter, reddit.RedditSettings, reddit.sniff,
        "Reddit entity linking: posts and comments with annotations by tier"),
    Row("pubtator", pubtator.PubtatorAdapter, pubtator.PubtatorSettings, pubtator.sniff,
        "PubTator: annotated abstracts (MedMentions, NCBI Disease, BC5CDR)"),
    Row("bioc", bioc.BiocAdapter, bioc.BiocSettings, bioc.sniff,
        "BioC: annotated passages as XML or JSON (PubTator 3, PMC, BioCreative)"),
    Row("labelstudio", labelstudio.LabelStudioAdapter, labelstudio.LabelStudioSettings,
        labelstudio.sniff,
        "Label Studio: texts that people annotated, as exported in the format JSON"),
    Row("nif", nif.NifAdapter, nif.NifSettings, nif.sniff,
        "NIF: annotated texts of the semantic web and of GERBIL, as any syntax of RDF",
        extra="rdf"),
    Row("sssom", sssom.SssomAdapter, sssom.SssomSettings, sssom.sniff,
        "SSSOM: mappings between KBs, as cross-references or as judged overlaps"),
    Row("umls", umls.UmlsAdapter, umls.UmlsSettings, umls.sniff,
        "UMLS: a folder of MRCONSO.RRF, MRSTY.RRF and MRDEF.RRF"),
    Row("wikipedia", wikis.make, MediaWikiSettings, wikis.sniff_wikipedia,
        "MediaWiki XML exports: Wikipedia's dumps in any language, and other wikis'"),
    Row("wikia", wikis.make_wikia, MediaWikiSettings, wikis.sniff_wikia,
        "Fandom's (Wikia's) XML exports"),
    Row("cirrussearch", cirrussearch.CirrusSearchAdapter, cirrussearch.CirrusSearchSettings,
        cirrussearch.sniff,
        "CirrusSearch dumps: Wikipedia's search index as JSON lines"),
    Row("text", partial(OneTextAdapter, plain.document), plain.PlainSettings, None,
        "Plain text, a file as one text; mentions may be marked", texts=True),
    Row("mail", partial(OneTextAdapter, mail.document), TextSettings, mail.sniff,
        "Mails (.eml): subject and body, without attachments", texts=True),
    Row("html", partial(OneTextAdapter, html.document), TextSettings, html.sniff,
        "HTML pages as their readers see them", texts=True),
    Row("markdown", partial(OneTextAdapter, html.markdown_document), TextSettings,
        html.sniff_markdown,
        "Markdown, as its page would read", texts=True),
    Row("pdf", pdf.make, pdf.PdfSettings, pdf.sniff,
        "PDF files, page by page", extra="pdf", texts=True),
    Row("docx", partial(OneTextAdapter, docx.document), TextSettings, docx.sniff,
        "Word files (.docx): the paragraphs of the main part", texts=True),
)
EXPORTERS = (
    ("pubtator", pubtator.PubtatorExporter, PluginSettings,
        "PubTator: each text on one line, then a row per mention"),
    ("nif", nif.NifExporter, PluginSettings,
        "NIF 2.1 in Turtle for GERBIL: each text, its mentions and what they mean as IRIs"),
    ("bioc", bioc.BiocExporter, bioc.BiocWriterSettings,
        "BioC as XML or JSON: each text as a passage with its annotations"),
    ("labelstudio", labelstudio.LabelStudioExporter, PluginSettings,
        "Label Studio's JSON: tasks with the links as predictions, to be corrected there"),
)
# fmt: on


@hookimpl
def register_kbs(register: Register) -> None:
    """Offer the adapters of this package."""
    for row in ADAPTERS:
        offer = row._asdict() | {"name": f"kglink/{row.name}"}
        register(**offer)


@hookimpl
def register_exporters(register: Register) -> None:
    """Offer what these formats are written as."""
    for name, exporter, settings, summary in EXPORTERS:
        register(f"kglink/{name}", exporter, settings=settings, summary=summary)
