"""Registers the KB adapters that come with kglink."""

from __future__ import annotations

from kglink.plugins import Register, hookimpl
from kglink_kbs import (
    blink,
    cirrussearch,
    jsonl,
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
from kglink_kbs.texts import docx, html, mail, markdown, pdf, plain
from kglink_kbs.texts.plain import PlainSettings, TextSettings


@hookimpl
def register_kbs(register: Register) -> None:
    """Offer the adapters of this package."""
    register(
        "kglink/jsonl",
        jsonl.JsonlAdapter,
        settings=jsonl.JsonSettings,
        summary="Entities as JSON: one object per line, or one array of objects",
        sniff=jsonl.sniff_jsonl,
    )
    register(
        "kglink/csv",
        tabular.TabularAdapter,
        settings=tabular.CsvSettings,
        summary="Entities as a table with a header; delimiter and quoting are guessed",
        sniff=tabular.sniff_csv,
    )
    register(
        "kglink/tsv",
        tabular.TabularAdapter,
        settings=tabular.TsvSettings,
        summary="Entities as a table with a header, columns separated by tabs",
        sniff=tabular.sniff_tsv,
    )
    register(
        "kglink/documents",
        jsonl.DocumentsAdapter,
        settings=jsonl.JsonSettings,
        summary="Annotated texts as JSON lines: spans, single mentions, or BLINK's contexts",
        sniff=jsonl.sniff_documents,
    )
    register(
        "kglink/obo",
        obo.OboAdapter,
        settings=OntologySettings,
        summary="Ontologies in the OBO flat file format, 1.2 and 1.4",
        sniff=obo.sniff,
    )
    register(
        "kglink/obographs",
        obographs.ObographsAdapter,
        settings=OntologySettings,
        summary="Ontologies in the OBO Graphs JSON format",
        sniff=obographs.sniff,
    )
    register(
        "kglink/skos",
        skos.SkosAdapter,
        settings=skos.SkosSettings,
        summary="SKOS thesauri and OWL ontologies as Turtle, RDF/XML, N-Triples or JSON-LD",
        extra="rdf",
        sniff=skos.sniff,
    )
    register(
        "kglink/wikidata",
        wikidata.WikidataAdapter,
        settings=wikidata.WikidataSettings,
        summary="Wikidata's JSON dumps: items in one language, filtered by class and sitelinks",
        sniff=wikidata.sniff,
    )
    register(
        "kglink/zeshel",
        zeshel.ZeshelAdapter,
        settings=zeshel.ZeshelSettings,
        summary="ZESHEL: one world's pages as entities, and the mentions in them",
        sniff=zeshel.sniff,
    )
    register(
        "kglink/blink",
        blink.BlinkAdapter,
        settings=blink.BlinkSettings,
        summary="BLINK: a catalogue of entities, mentions between their contexts, or both",
        sniff=blink.sniff,
    )
    register(
        "kglink/reddit",
        reddit.RedditAdapter,
        settings=reddit.RedditSettings,
        summary="Reddit entity linking: posts and comments with annotations by tier",
        sniff=reddit.sniff,
    )
    register(
        "kglink/pubtator",
        pubtator.PubtatorAdapter,
        settings=pubtator.PubtatorSettings,
        summary="PubTator: annotated abstracts (MedMentions, NCBI Disease, BC5CDR)",
        sniff=pubtator.sniff,
    )
    register(
        "kglink/nif",
        nif.NifAdapter,
        settings=nif.NifSettings,
        summary="NIF: annotated texts of the semantic web and of GERBIL, as any syntax of RDF",
        extra="rdf",
        sniff=nif.sniff,
    )
    register(
        "kglink/sssom",
        sssom.SssomAdapter,
        settings=sssom.SssomSettings,
        summary="SSSOM: mappings between KBs, as cross-references or as judged overlaps",
        sniff=sssom.sniff,
    )
    register(
        "kglink/umls",
        umls.UmlsAdapter,
        settings=umls.UmlsSettings,
        summary="UMLS: a folder of MRCONSO.RRF, MRSTY.RRF and MRDEF.RRF",
        sniff=umls.sniff,
    )
    register(
        "kglink/wikipedia",
        wikis.make,
        settings=MediaWikiSettings,
        summary="MediaWiki XML exports: Wikipedia's dumps in any language, and other wikis'",
        sniff=wikis.sniff_wikipedia,
    )
    register(
        "kglink/wikia",
        wikis.make,
        settings=MediaWikiSettings,
        summary="Fandom's (Wikia's) XML exports",
        sniff=wikis.sniff_wikia,
    )
    register(
        "kglink/cirrussearch",
        cirrussearch.CirrusSearchAdapter,
        settings=cirrussearch.CirrusSearchSettings,
        summary="CirrusSearch dumps: Wikipedia's search index as JSON lines",
        sniff=cirrussearch.sniff,
    )
    register(
        "kglink/text",
        plain.PlainAdapter,
        settings=PlainSettings,
        summary="Plain text, a file as one text; mentions may be marked",
        texts=True,
    )
    register(
        "kglink/mail",
        mail.MailAdapter,
        settings=TextSettings,
        summary="Mails (.eml): subject and body, without attachments",
        sniff=mail.sniff,
        texts=True,
    )
    register(
        "kglink/html",
        html.HtmlAdapter,
        settings=TextSettings,
        summary="HTML pages as their readers see them",
        sniff=html.sniff,
        texts=True,
    )
    register(
        "kglink/markdown",
        markdown.MarkdownAdapter,
        settings=TextSettings,
        summary="Markdown, as its page would read",
        sniff=markdown.sniff,
        texts=True,
    )
    register(
        "kglink/pdf",
        pdf.PdfAdapter,
        settings=pdf.PdfSettings,
        summary="PDF files, page by page",
        extra="pdf",
        sniff=pdf.sniff,
        texts=True,
    )
    register(
        "kglink/docx",
        docx.DocxAdapter,
        settings=TextSettings,
        summary="Word files (.docx): the paragraphs of the main part",
        sniff=docx.sniff,
        texts=True,
    )


@hookimpl
def register_exporters(register: Register) -> None:
    """Offer what these formats are written as."""
    register(
        "kglink/pubtator",
        pubtator.PubtatorExporter,
        summary="PubTator: each text on one line, then a row per mention",
    )
    register(
        "kglink/nif",
        nif.NifExporter,
        summary="NIF 2.1 in Turtle for GERBIL: each text, its mentions and what they mean as IRIs",
    )
