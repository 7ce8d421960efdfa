"""Entity ids as CURIEs that other tools accept, and back without loss.

A key that is a CURIE already (``DOID:1485``) stays as it is. A key that is an address is split
after its last ``/`` or ``#``, and what stands before gets a prefix of its own (``kb..1``). Any
other key goes under its KB's name, what a CURIE cannot hold as ``%XX``: ``kb.wiki:Caf%C3%A9``.

The names of KBs do not stand alone: other tools take ``hp`` for another spelling of ``HP``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import quote, unquote

from kglink.records import EntityId
from kglink.text.codes import code_of, spellings

_CURIE = re.compile(r"([A-Za-z_][A-Za-z0-9_.-]*):([A-Za-z0-9_.~-]+)")
_ADDRESS = re.compile(r"(https?://[!-~]*[/#])([A-Za-z0-9_.~-]+)")
#: Prefixes of this beginning are ours.
_OURS = "kb."
_ADDRESSES = "kb.."
_SOURCES = "kb"
#: Prefixes that SSSOM itself uses, always for the same addresses.
STANDARD = {
    "oboInOwl": "http://www.geneontology.org/formats/oboInOwl#",
    "orcid": "https://orcid.org/",
    "owl": "http://www.w3.org/2002/07/owl#",
    "rdf": "http://www.w3.org/1999/02/22-rdf-syntax-ns#",
    "rdfs": "http://www.w3.org/2000/01/rdf-schema#",
    "semapv": "https://w3id.org/semapv/vocab/",
    "skos": "http://www.w3.org/2004/02/skos/core#",
    "sssom": "https://w3id.org/sssom/",
}
_RESERVED = frozenset(
    {*STANDARD, "dc", "dcterms", "ftp", "http", "https", "kb", "mailto", "pav", "urn"}
)


class CurieMaker:
    """Makes CURIEs of entities and remembers the prefixes that they need.

    A prefix leads to the addresses of its entities where all of them have one that ends as the
    CURIE does, else to a ``urn:kglink:``, which leads nowhere and clashes with nothing.
    """

    def __init__(self) -> None:
        self._bases: dict[str, str] = {}
        self._spelt: dict[str, str] = {}
        self._namespaces: dict[str, str] = {}

    def curie(self, entity: EntityId, url: str = "") -> str:
        """The CURIE of an entity that has the address ``url``."""
        address = _ADDRESS.fullmatch(entity.key)
        if address:
            number = len(self._namespaces) + 1
            prefix = self._namespaces.setdefault(address[1], f"{_ADDRESSES}{number}")
            return f"{prefix}:{address[2]}"
        native = _CURIE.fullmatch(entity.key)
        if native and self._is_free(native[1]):
            prefix, local = native.groups()
        else:
            prefix, local = prefix_of(entity.kb), quote(entity.key, safe="", errors="strict")
        base = url.removesuffix(local) if url.endswith(local) else ""
        if not base.startswith(("http://", "https://")) or not base.isprintable() or " " in base:
            base = ""
        if self._bases.setdefault(prefix, base) != base:
            self._bases[prefix] = ""
        return f"{prefix}:{local}"

    def _is_free(self, prefix: str) -> bool:
        """Two prefixes that differ in case alone are one and the same to other tools."""
        if prefix in _RESERVED or prefix.startswith(_OURS):
            return False
        return self._spelt.setdefault(prefix.lower(), prefix) == prefix

    @property
    def prefixes(self) -> dict[str, str]:
        """Every prefix that was needed, and what it stands for."""
        found = {prefix: space for space, prefix in self._namespaces.items()}
        taken = {*STANDARD.values(), *found.values()}
        for prefix, base in sorted(self._bases.items()):
            found[prefix] = base if base and base not in taken else f"urn:kglink:{prefix}:"
            taken.add(found[prefix])
        return found | {_SOURCES: "urn:kglink:kb:"}


def prefix_of(kb: str) -> str:
    """The prefix of a KB's keys."""
    return _OURS + kb


def source_of(kb: str) -> str:
    """How a table names a KB as the source of an entity."""
    return f"{_SOURCES}:{kb}"


def kb_of(source: str) -> str:
    """The KB that a table of ours names as a source; empty for anything else."""
    prefix, _, kb = source.partition(":")
    return kb if prefix == _SOURCES else ""


def keys_of(text: str, kb: str, prefixes: Mapping[str, str], named: str = "") -> list[str]:
    """The keys that an id of a list may mean in a KB, the likeliest first.

    The id may be ours, a key, ``kb:key``, or a code that the KB spells in another way. The list
    may have ``named`` the KB, by the name that its writer knows it by.
    """
    prefix, colon, local = text.partition(":")
    whole = prefixes[prefix] + local if colon and prefix in prefixes else ""
    ours = {prefix_of(kb), prefix_of(named or kb)}
    mine = unquote(local) if colon and prefix in ours else ""
    named = local if colon and prefix == kb else ""
    of_an_address = bool(whole) and prefix.startswith(_ADDRESSES)
    likely = [whole, text] if of_an_address else [mine, text, named, whole]
    codes = filter(None, (code_of(text), code_of(whole)))
    spelt = (spelling for code in codes for spelling in spellings(code))
    return list(dict.fromkeys(filter(None, (*likely, *spelt))))
