"""Codes of concepts, such as ``MESH:D003920``, whatever way a source spells them.

Two sources rarely spell a code alike: a corpus writes ``D003920``, an ontology ``MeSH:D003920``, a
thesaurus ``MSH:D003920``. `code_of` gives all of them one form.
"""

from __future__ import annotations

import functools
import re

#: Every vocabulary and the other names that its codes go by; `docs/kbs/pubtator.md` shows them.
#: Matched without regard to case; the spellings matter for keys of entities (`spellings`).
_VOCABULARIES: dict[str, tuple[str, ...]] = {
    "HP": ("HPO",),
    "ICD10": ("ICD-10",),
    "ICD10CM": ("ICD-10-CM",),
    "ICD9": ("ICD-9",),
    "ICD9CM": ("ICD-9-CM",),
    "MEDDRA": ("MedDRA", "MDR", "MEDRA"),
    "MESH": ("MeSH", "Mesh", "mesh", "MSH"),
    "NCIT": ("NCI", "NCI_Thesaurus"),
    "OMIM": ("omim", "MIM"),
    "ORPHA": ("Orphanet", "ORDO"),
    "SNOMEDCT": ("SNOMEDCT_US", "SNOMED_CT", "SNOMED", "SCTID"),
    "UMLS": ("umls", "UMLS_CUI", "UMLSCUI", "CUI"),
}
#: Codes that say by their shape what they are. UMLS writes C and seven digits; MeSH D or C and
#: six or nine.
_BARE = {"UMLS": re.compile(r"C\d{7}"), "MESH": re.compile(r"[CD](?:\d{6}|\d{9})")}
_RELEASE = re.compile(r"_(?:19|20)\d\d_\d\d_\d\d$")  # SNOMEDCT_US_2018_03_01
_IRI = re.compile(r"https?://.*?([^/#]*)[/#]([^/#]+)/?")
_LONGEST = 256


def code_of(text: str) -> str:
    """The one form of a code, ``VOCABULARY:local``; empty where ``text`` is no code."""
    text = text.strip()
    if len(text) > _LONGEST:
        return ""
    prefix, colon, local = text.partition(":")
    if not colon:
        bare = (f"{name}:{text}" for name, shape in _BARE.items() if shape.fullmatch(text))
        return next(bare, "")
    if local.startswith("//"):
        return _of_iri(text)
    vocabulary, local = _vocabulary(prefix), local.strip()
    inner, colon, rest = local.partition(":")
    if colon and _vocabulary(inner) == vocabulary:  # UMLS writes HPO:HP:0000001
        local = rest
    return f"{vocabulary}:{local}" if vocabulary and local else ""


def bare_code(text: str) -> str:
    """``D003920`` for ``MESH:D003920``: without a vocabulary that the code's shape shows."""
    vocabulary, _, local = code_of(text).partition(":")
    bare = _BARE.get(vocabulary)
    return local if bare and bare.fullmatch(local) else text.strip()


def spellings(code: str) -> list[str]:
    """The ways in which a KB may spell the code of one form as the key of an entity."""
    vocabulary, _, local = code.partition(":")
    names = (vocabulary, *_VOCABULARIES.get(vocabulary, ()))
    bare = _BARE.get(vocabulary)
    short = [local] if bare and bare.fullmatch(local) else []
    return short + [f"{name}:{local}" for name in names]


@functools.lru_cache(maxsize=4096)
def _vocabulary(prefix: str) -> str:
    name = _RELEASE.sub("", prefix.strip()).upper()
    return _names().get(name, name)


@functools.cache
def _names() -> dict[str, str]:
    """The form of every name of a vocabulary, in capitals."""
    return {
        name.upper(): vocabulary
        for vocabulary, others in _VOCABULARIES.items()
        for name in (vocabulary, *others)
    }


def _of_iri(text: str) -> str:
    """``.../obo/DOID_4`` and ``.../mesh/D003920``; other addresses are no codes."""
    found = _IRI.fullmatch(text)
    if not found:
        return ""
    folder, last = found.groups()
    prefix, underscore, local = last.rpartition("_")
    if underscore and prefix and local:
        return f"{_vocabulary(prefix)}:{local}"
    known = _names().get(folder.upper())
    return f"{known}:{last}" if known else ""
