"""Tells the syntaxes of RDF apart by their content."""

from __future__ import annotations

import re
from typing import Literal

from kglink.sources import SourceHead

Syntax = Literal["auto", "turtle", "xml", "ntriples", "json-ld"]

_XML = re.compile(rb"(?:<\?xml\b|<!DOCTYPE\s+rdf:RDF\b|<!--|<rdf:RDF\b)")
_RDF_ELEMENT = re.compile(rb"<(?:\w+:)?RDF\b")
_RDF_NAMESPACE = b"http://www.w3.org/1999/02/22-rdf-syntax-ns#"
_TURTLE = re.compile(
    rb"^[ \t]*(?:@prefix\s+[^\s:]*:\s*<|@base\s+<)|^[ \t]*(?:PREFIX\s+[^\s:]*:\s*<|BASE\s+<)", re.M
)
_TRIPLE = re.compile(
    rb"\s*(?:<[^<>\s]*>|_:[^\s<>]++)[ \t]*<[^<>\s]*>[ \t]*"
    rb'(?:<[^<>\s]*>|_:[^\s<>]+|"[^"\\]*(?:\\.[^"\\]*)*"\S*)'
    rb"[ \t]*\.\s*(?:#.*)?"
)
_JSON_LD = re.compile(rb'"@(?:context|graph|id)"\s*:')


def syntax_of(head: SourceHead) -> Syntax:
    """The syntax of a source that begins so; ``auto`` where it is none of RDF."""
    data = head.head.removeprefix(b"\xef\xbb\xbf")
    start = data.lstrip()[:1]
    if b"\0" in data:
        return "auto"
    if start in (b"{", b"["):
        return "json-ld" if _JSON_LD.search(data) else "auto"
    if _XML.match(data.lstrip()):
        return "xml" if _RDF_ELEMENT.search(data) and _RDF_NAMESPACE in data else "auto"
    lines = [line for line in data.split(b"\n")[: -1 or None] if _says(line)]
    lines = lines or [line for line in data.split(b"\n") if _says(line)]
    if _TURTLE.search(data):
        return "turtle"
    triples = sum(bool(_TRIPLE.fullmatch(line)) for line in lines)
    return "ntriples" if 2 * triples > len(lines) else "auto"  # some may be broken


def _says(line: bytes) -> bool:
    return bool(line.strip()) and not line.lstrip().startswith(b"#")
