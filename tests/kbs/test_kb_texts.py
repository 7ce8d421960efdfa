"""Mails, pages and office files as texts: what is read of them, and where it stands."""

from __future__ import annotations

import resource
import sys
import time
import zlib
from collections.abc import Mapping
from email.message import EmailMessage
from types import MappingProxyType
from typing import Any

import pytest

from kglink.errors import KglinkError, PluginError
from kglink.plugins import load_registry
from kglink.records import Document, Mention
from kglink.sources import Problems, Source, SourceHead
from kglink.testing import KBAdapterContract
from kglink_kbs.texts.html import html_text
from kglink_kbs.texts.plain import TextSettings
from office_files import WORD, paragraph, pdf_file, word_file

REGISTRY = load_registry(only="builtin")


def read(name: str, data: str | bytes, **settings: object) -> Document:
    """The document of a file, read by the adapter that knows its format."""
    content = data.encode() if isinstance(data, str) else data
    with Source.from_bytes(content, name=name) as source:
        adapter = REGISTRY.create("kb", REGISTRY.guess_text(source.head), settings)
        (document,) = adapter.read(source, Problems())
    assert isinstance(document, Document)
    return document


def parts_of(document: Document) -> Mapping[str, str]:
    """What each part of a document holds, by the offsets that its ``meta`` gives."""
    places: Any = document.meta["parts"]
    return {one["part"]: document.text[one["start"] : one["end"]] for one in places}


def mail(subject: str = "Größe der Lampe") -> EmailMessage:
    made = EmailMessage()
    made["Subject"] = subject
    made["From"] = "heron@example.org"
    made["Message-ID"] = "<1@example.org>"
    return made


@pytest.mark.parametrize(
    ("name", "content"),
    [("a.txt", "The lamp."), ("a.md", "# The *lamp*."), ("a.html", "<p>The <b>la</b>mp.")],
)
def test_a_mark_of_the_encoding_is_no_part_of_the_text(name: str, content: str) -> None:
    assert read(name, b"\xef\xbb\xbf" + content.encode()).text == "The lamp."


# ------------------------------------------------------------------------------------ mails
def test_a_mail_is_its_subject_and_its_plain_body() -> None:
    made = mail()
    made.set_content("Der Reiher ist kaputt: 5 €.\n")
    made.add_alternative("<p>Der <b>Reiher</b></p>", subtype="html")
    made.add_attachment(b"\x00\x01", maintype="application", subtype="pdf", filename="a.pdf")
    document = read("a.eml", bytes(made))
    assert parts_of(document) == {
        "subject": "Größe der Lampe",
        "body": "Der Reiher ist kaputt: 5 €.",
    }
    assert document.meta["format"] == "mail"


def test_a_mail_that_is_a_page_alone_is_read_as_one() -> None:
    made = mail("Hi")
    made.set_content("<p>Der <b>Reiher</b> für 5</p>", subtype="html", charset="latin-1")
    assert parts_of(read("-", bytes(made)))["body"] == "Der Reiher für 5"


def test_attached_mails_and_parts_are_read_in_their_order() -> None:
    made = mail("Fwd")
    made.set_content("First.")
    made.make_mixed()
    inner = EmailMessage()
    inner.set_content("Second.")
    made.attach(inner)
    assert parts_of(read("a.eml", bytes(made)))["body"] == "First.\n\nSecond."


@pytest.mark.parametrize(
    "charset", ["utf-8", "nonsense", "idna", "punycode", "undefined", "rot13", "x\x00y", ""]
)
def test_a_wrong_character_set_ends_in_a_text(charset: str) -> None:
    head = f"Subject: =?{charset}?q?H=E4ron?=\r\nContent-Type: text/plain; charset={charset}\r\n"
    assert "ron" in read("a.eml", f"{head}\r\nHeron Gerön\r\n".encode("latin-1")).text


@pytest.mark.parametrize(
    ("charset", "codec", "words"),
    [
        ("gb2312", "gbk", "朱镕基 Zeus"),
        ("iso-8859-8-i", "iso-8859-8", "שלום Zeus"),
        ("iso-8859-1", "cp1252", "“Zeus” – 5 €"),
        ("us-ascii", "cp1252", "Zeus’s"),
        ("ks_c_5601-1987", "cp949", "똠방각하"),
        ("shift_jis", "cp932", "①髙島屋"),
        ("us-ascii", "utf-8", "Zeus’s Größe"),
    ],
)
def test_character_sets_are_read_as_mail_readers_do(charset: str, codec: str, words: str) -> None:
    head = f"Subject: x\nContent-Type: text/plain; charset={charset}\n\n"
    assert parts_of(read("a.eml", head.encode() + words.encode(codec)))["body"] == words


@pytest.mark.parametrize("codec", ["utf-8", "cp1252"])
def test_a_subject_that_nobody_encoded_keeps_its_letters(codec: str) -> None:
    data = "From: a@b.c\nsubject: Grüße von\n  Zeus\n\nHallo".encode(codec)
    assert parts_of(read("a.eml", data))["subject"] == "Grüße von Zeus"


@pytest.mark.parametrize("piece", ["a=b; ", 'a="', "a*0=b; ", "\n ;"])
def test_a_header_without_end_is_read_in_the_time_of_one_pass(piece: str) -> None:
    head = f"Subject: {piece * 100_000}\nContent-Type: text/plain; {piece * 100_000}\n\n"
    began = time.process_time()
    assert read("a.eml", f"{head}Heron").text.endswith("\n\nHeron")
    assert time.process_time() - began < 5


@pytest.mark.parametrize(
    ("head", "part"),
    [
        ("multipart/mixed; boundary=b", "--b\n\nx\n"),
        ("multipart/digest; boundary=b", "--b\n\nSubject: y\n\nx\n"),
    ],
)
def test_a_mail_of_parts_without_end_is_read_in_part(head: str, part: str) -> None:
    text = read("a.eml", f"Subject: s\nContent-Type: {head}\n\n{part * 10_000}").text
    assert 400 < text.count("x") < 1000


def test_parts_of_a_mail_that_are_nested_deeply_are_read() -> None:
    deep = "".join(
        f"Content-Type: multipart/mixed; boundary=b{at}\n\n--b{at}\n" for at in range(300)
    )
    assert read("a.eml", f"Subject: s\n{deep}\nHeron").text == "s\n\nHeron"


def test_a_mail_holds_no_half_of_a_surrogate_pair() -> None:
    head = "Subject: =?utf-7?q?a+2AA-?=\nContent-Type: text/plain; charset=utf-7\n\n"
    document = read("a.eml", f"{head}He+2AA-ron +AAA-")
    assert (document.text, document.title) == ("a\n\nHeron", "a")


def test_a_mail_of_parts_in_parts_without_end_is_refused() -> None:
    deep = "".join(
        f"Content-Type: multipart/mixed; boundary=b{at}\n\n--b{at}\n" for at in range(3000)
    )
    with pytest.raises(KglinkError, match="nested too deeply"):
        read("a.eml", f"Subject: x\n{deep}")


# ------------------------------------------------------------------------------------ pages
PAGE = """<!DOCTYPE html><html><head><title>A &amp; B</title><style>x {}</style></head><body>
<nav>Home</nav><h1>Heron  Lamp</h1><p>Buy the <b>Her</b>on lamp,
now.<br>&lt;Two&gt;</p><ul><li>one<li>two</ul><pre>if x:
    pass</pre><table><tr><th>Head</th></tr><tr><td>cell</td></tr></table>
<table><tr><td>laid</td><td>out</td></tr></table><script>alert("<p>no</p>")</script></body></html>
"""


def test_a_page_is_what_its_readers_see() -> None:
    document = read("page.html", PAGE)
    assert document.text == (
        "Heron Lamp\n\nBuy the Heron lamp, now.\n<Two>\n\none\ntwo\n\nlaid out"
    )
    assert (document.title, document.meta["title"]) == ("A & B", "A & B")


@pytest.mark.parametrize(
    ("page", "text", "title"),
    [
        ("<!doctype html><p>One.</p><svg class='i'/><p>Two.</p>", "One.\n\nTwo.", ""),
        ("<p>One.</p><svg><style/><path d='M0'/><g/></svg><p>Two.</p>", "One.\n\nTwo.", ""),
        ("<p>One.</p><svg><svg/>no</svg><p>Two.</p>", "One.\n\nTwo.", ""),
        # In a page of HTML a script is not closed by "/>".
        ("<p>One.</p><script src='a'/>no</script><p>Two.</p>", "One.\n\nTwo.", ""),
        (
            '<?xml version="1.0"?><html xmlns="x"><head><title/><script src="a.js"/></head>'
            "<body><p/><p>One.<br/>Two.</p></body></html>",
            "One.\nTwo.",
            "",
        ),
        ('<html xmlns="x"><title>T</title><script/><p>One.</p></html>', "One.", "T"),
    ],
)
def test_elements_that_close_themselves(page: str, text: str, title: str) -> None:
    document = read("page.html", page)
    assert (document.text, document.title) == (text, title)


def test_code_and_tables_of_a_page_are_read_on_request() -> None:
    text = read("page.html", PAGE, code=True, tables=True).text
    assert "if x:\n    pass" in text
    assert "Head\ncell" in text


@pytest.mark.parametrize(
    "piece", ["<", "<a ", "<a ='", "<!--", "<table>", "<table><th>", "<pre>", "&#x", "<p> ", "</"]
)
def test_a_hostile_page_is_read_in_the_time_of_one_pass(piece: str) -> None:
    began = time.process_time()
    html_text(piece * 50_000, TextSettings())
    assert time.process_time() - began < 5


@pytest.mark.parametrize(
    ("reference", "character"),
    [
        ("&#" + "9" * 4301 + ";", "\ufffd"),
        ("&#" + "0" * 4301 + "65;", "A"),
        ("&#00;", "\ufffd"),
        ("&#;", "&#;"),
        ("&#x41; &#1114109;", "A \U0010fffd"),
    ],
)
def test_characters_by_their_numbers(reference: str, character: str) -> None:
    assert read("a.html", f"<html>Heron {reference}").text == f"Heron {character}"


def test_markdown_is_what_its_page_shows() -> None:
    page = (
        "---\ntitle: x\n---\n# Heron\n\nA *good* [lamp](http://x), `code` & <b>bold</b>.\n\n"
        "```\nblock\n```\n\n|a|b|\n|-|-|\n|1|2|\n\n- one\n- two\n"
    )
    assert read("a.md", page).text == "Heron\n\nA good lamp, code & bold.\n\none\ntwo"
    whole = read("a.md", page, code=True, tables=True).text
    assert "block" in whole
    assert "1 2" in whole


def test_a_hostile_paragraph_of_markdown_is_read_as_it_stands() -> None:
    began = time.process_time()
    assert read("a.md", "[a](" * 50_000).text == "[a](" * 50_000
    assert time.process_time() - began < 5


RAISED = "Rome¹ and Oslo²,³ have 10⁶, H2O, a 5th Road™ and Bob[4]."


def test_numbers_of_footnotes_are_no_part_of_the_word() -> None:
    page = (
        "<p>Rome<sup>1</sup> and Oslo<sup><a>2</a>,3</sup> have 10<sup>6</sup>, H<sub>2</sub>O, "
        "a 5<sup>th</sup> Road<sup>TM</sup> and Bob<sup>[4]</sup>.<sup></p><p>19</p>"
    )
    assert read("page.html", page).text == f"{RAISED}\n\n19"


# ------------------------------------------------------------------------------ office files
def test_a_word_file_is_its_paragraphs() -> None:
    table = f"<w:tbl><w:tr><w:tc>{paragraph('cell')}</w:tc></w:tr></w:tbl>"
    changed = "<w:p><w:del><w:r><w:t>old</w:t></w:r></w:del><w:r><w:t>new</w:t></w:r></w:p>"
    body = paragraph("The Heron") + table + changed
    tabs = '<w:p><w:pPr><w:tabs><w:tab w:val="left" w:pos="720"/></w:tabs></w:pPr><w:r><w:t>a'
    tabs += "</w:t><w:tab/><w:t>b</w:t></w:r></w:p>"
    assert read("a.docx", word_file(tabs)).text == "a\tb"
    assert read("a.docx", word_file(body)).text == "The Heron\nnew"
    assert read("a.docx", word_file(body), tables=True).text == "The Heron\ncell\nnew"


def test_footnotes_of_office_files() -> None:
    def run(text: str, look: str = "") -> str:
        return f"<w:r><w:rPr>{look}</w:rPr><w:t>{text}</w:t></w:r>"

    up, by = '<w:vertAlign w:val="superscript"/>', '<w:position w:val="{}"/>'.format
    body = run("Rome") + run("1", up) + run("-5") + run("2", by(-2)) + run("3", by(10))
    body += run("4", by(1)) + run("5", f"<w:rPrChange><w:rPr>{up}</w:rPr></w:rPrChange>")
    assert read("a.docx", word_file(f"<w:p>{body}</w:p>")).text == "Rome¹-52³45"

    def pdf(*pieces: tuple[str, int, int]) -> bytes:
        shown = [f"/F1 {size} Tf 0 {rise} Td ({text}) Tj" for text, size, rise in pieces]
        return pdf_file(f") Tj {' '.join(shown)} (")

    text = read("a.pdf", pdf(("Rome", 12, 0), ("1", 8, 4), (" and 5", 12, -4), ("2", 8, -3))).text
    assert text.replace("\n", "") == "Rome¹ and 52"


@pytest.mark.parametrize(
    ("xml", "said"),
    [
        (f'<!DOCTYPE x [<!ENTITY a "b">]><w:document {WORD}/>', "declares a document type"),
        ('<!DOCTYPE x SYSTEM "file:///etc/passwd"><x/>', "declares a document type"),
        ("<x>", "is damaged"),
        ("<x>" * 5000, "nested too deeply"),
        (f'<x a="{"a" * 2**24}"/>', "a tag or comment without end"),
        (f"<x><!--{'a' * 2**24}--></x>", "a tag or comment without end"),
        (f"<x>{''.join(f'<x{at}/>' for at in range(100_000))}</x>", "more than 10,000 names"),
    ],
)
def test_a_hostile_word_file_is_refused(xml: str, said: str) -> None:
    with pytest.raises(KglinkError, match=said):
        read("a.docx", word_file("", whole=xml))


def test_a_word_file_that_unpacks_to_too_much_is_refused() -> None:
    from kglink.sources import SourceLimits

    data = word_file(paragraph("x" * 5_000_000))
    limits = SourceLimits(free_expansion=100_000, max_expansion=10)
    with Source.from_bytes(data, name="a.docx", limits=limits) as source:
        adapter = REGISTRY.create("kb", "docx")
        with pytest.raises(KglinkError, match="grows to more than 10 times"):
            list(adapter.read(source, Problems()))


def test_a_pdf_file_is_its_pages_and_divided_words_are_put_together() -> None:
    document = read("a.pdf", pdf_file("The cardio-\nmyopathy of Heron", "", "End."))
    assert parts_of(document) == {"page 1": "The cardiomyopathy of Heron", "page 3": "End."}


def hostile_pdf(*objects: bytes) -> bytes:
    """A PDF file of a catalogue and other objects, the second of which is its tree of pages."""
    data, places = b"%PDF-1.4\n", b""
    for number, one in enumerate((b"<< /Type /Catalog /Pages 2 0 R >>", *objects), 1):
        places += b"%010d 00000 n \n" % len(data)
        data += b"%d 0 obj\n%s\nendobj\n" % (number, one)
    size = len(objects) + 2
    table = b"xref\n0 %d\n0000000000 65535 f \n%s" % (size, places)
    trailer = b"trailer << /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n" % (size, len(data))
    return data + table + trailer


TREE = b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>"
LEAF = b"<< /Type /Page /Parent 2 0 R /Resources << /Font << >> >> /Contents 4 0 R >>"
BOMB = zlib.compress(zlib.compress(bytes(100_000_000), 9), 9)


@pytest.mark.slow  # a process for each
@pytest.mark.parametrize(
    "objects",
    [
        [b"<< /Type /Pages /Kids [2 0 R] /Count 1 >>"],
        [b"<< /Type /Pages /Kids [%d 0 R %d 0 R] /Count 2 >>" % (at, at) for at in range(3, 33)],
        [TREE, LEAF, b"<< /Length 4 0 R >>\nstream\nx\nendstream"],
        [
            TREE,
            LEAF,
            b"<< /Filter [/FlateDecode /FlateDecode] /Length %d >>\nstream\n%s\nendstream"
            % (len(BOMB), BOMB),
        ],
        [b"[" * 100_000],
    ],
    ids=["cycle of pages", "pages without end", "cycle of objects", "bomb", "nesting"],
)
def test_a_hostile_pdf_file_is_refused(objects: list[bytes]) -> None:
    began = resource.getrusage(resource.RUSAGE_CHILDREN)
    with pytest.raises(KglinkError, match="cannot be read as a PDF file"):
        read("a.pdf", hostile_pdf(*objects), seconds=30)
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert ended.ru_utime - began.ru_utime < 20


@pytest.mark.slow  # the second is one of computing time
def test_a_pdf_file_that_keeps_its_reader_busy_is_given_up() -> None:
    many = pdf_file(*["(Heron) Tj " * 3000] * 300)
    with pytest.raises(KglinkError, match="takes more than 1 seconds"):
        read("a.pdf", many, seconds=1)


def test_a_pdf_file_that_is_too_large_is_refused() -> None:
    with pytest.raises(KglinkError, match="larger than 1 MiB"):
        read("a.pdf", b"%PDF-1.4\n" + bytes(2**21), max_mb=1)


def test_without_its_library_a_pdf_file_is_refused_with_the_command_that_installs_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "pypdf", None)
    with pytest.raises(PluginError) as caught:
        REGISTRY.create("kb", "pdf")
    assert caught.value.hint == 'Install it: pip install "kglink[pdf]"'


# ------------------------------------------------------------------------------- recognition
@pytest.mark.parametrize(
    ("name", "data", "adapter"),
    [
        ("a.txt", "Subject: no mail", "text"),
        ("a.txt", "<b>prose</b> that begins with a tag", "text"),
        ("-", "<!doctype html><p>x", "html"),
        ("page", "<html lang=en>", "html"),
        ("page", "\ufeff<html lang=en>", "html"),
        ("a.HTM", "<p>x", "html"),
        ("README.md", "# x", "markdown"),
        ("a.eml", "Subject: x\n\ny", "mail"),
        ("mail", "Received: x\nMessage-ID: <a>\n\ny", "mail"),
        ("mail", "\ufeffReceived: x\nMessage-ID: <a>\n\ny", "mail"),
        ("a.pdf", "%PDF-1.7", "pdf"),
        ("a.csv", "a,b", "text"),
        ("note.txt", "<!--a-->" * 40 + "hello heron", "text"),
        ("note", "<!--a--> <!--b-->" * 40 + "<html>", "html"),
    ],
)
def test_formats_are_known_by_their_beginning_and_name(name: str, data: str, adapter: str) -> None:
    assert REGISTRY.guess_text(SourceHead(name, data.encode(), None)) == f"kglink/{adapter}"


def test_no_kb_is_taken_for_a_text() -> None:
    with pytest.raises(KglinkError, match="no KB adapter knows this format"):
        REGISTRY.guess_kb(SourceHead("page.html", b"<!doctype html><p>x", None))


# --------------------------------------------------------------------------------- contracts
FOREIGN = ("plain text of no format", '{"id": 1}\n', "a,b\n1,2\n", b"\x00\x01\x02")


class TestPlain(KBAdapterContract):
    plugin = "kglink/text"
    settings = MappingProxyType({"marked": "true"})
    sniffs = False
    source_name = "a.txt"
    source_text = "Ada met [[Bob]]."
    expected = (Document("a.txt", "Ada met Bob.", (Mention(8, 11, "Bob"),)),)
    broken = (b"\xff\xfe", "an [[open mark")


class TestHtml(KBAdapterContract):
    plugin = "kglink/html"
    source_name = "a.html"
    source_text = "<!doctype html><title>T</title><p>Ada &amp; <b>B</b>ob"
    expected = (
        Document(
            "a.html",
            "Ada & Bob",
            title="T",
            meta={
                "format": "html",
                "title": "T",
                "parts": [{"part": "body", "start": 0, "end": 9}],
            },
        ),
    )
    broken = (b"<p>\xff",)
    foreign = FOREIGN


class TestMarkdown(KBAdapterContract):
    plugin = "kglink/markdown"
    source_name = "a.md"
    source_text = "# Ada\n\nmet *Bob*\n"
    expected = (
        Document(
            "a.md",
            "Ada\n\nmet Bob",
            meta={"format": "markdown", "parts": [{"part": "body", "start": 0, "end": 12}]},
        ),
    )
    broken = (b"\xff\xfe",)
    foreign = FOREIGN


class TestMail(KBAdapterContract):
    plugin = "kglink/mail"
    source_name = "a.eml"
    source_text = "Subject: Ada\nMessage-ID: <1@a>\nReceived: b\n\nmet Bob\n"
    expected = (
        Document(
            "a.eml",
            "Ada\n\nmet Bob",
            title="Ada",
            meta={
                "format": "mail",
                "title": "Ada",
                "parts": [
                    {"part": "subject", "start": 0, "end": 3},
                    {"part": "body", "start": 5, "end": 12},
                ],
            },
        ),
    )
    foreign = FOREIGN


class TestDocx(KBAdapterContract):
    plugin = "kglink/docx"
    source_name = "a.docx"
    source_text = word_file(paragraph("Ada met Bob."))
    expected = (
        Document(
            "a.docx",
            "Ada met Bob.",
            meta={"format": "docx", "parts": [{"part": "body", "start": 0, "end": 12}]},
        ),
    )
    broken = (b"PK\x03\x04", "no archive")
    foreign = FOREIGN


@pytest.mark.slow  # a process for each damaged file
class TestPdf(KBAdapterContract):
    plugin = "kglink/pdf"
    source_name = "a.pdf"
    source_text = pdf_file("Ada met Bob.")
    expected = (
        Document(
            "a.pdf",
            "Ada met Bob.",
            meta={"format": "pdf", "parts": [{"part": "page 1", "start": 0, "end": 12}]},
        ),
    )
    broken = (b"%PDF-1.4", "no PDF file")
    foreign = FOREIGN
