"""The part of UMLS that MedMentions ST21pv is annotated with."""

from __future__ import annotations

#: The 21 semantic types, each with its place in the tree of the semantic network: what lies
#: below it belongs to the subset too.
ST21PV_TYPES = {
    "T005": "A1.1.4",  # Virus
    "T007": "A1.1.2",  # Bacterium
    "T017": "A1.2",  # Anatomical Structure
    "T022": "A2.1.4.1",  # Body System
    "T031": "A1.4.2",  # Body Substance
    "T033": "A2.2",  # Finding
    "T037": "B2.3",  # Injury or Poisoning
    "T038": "B2.2.1",  # Biologic Function
    "T058": "B1.3.1",  # Health Care Activity
    "T062": "B1.3.2",  # Research Activity
    "T074": "A1.3.1",  # Medical Device
    "T082": "A2.1.5",  # Spatial Concept
    "T091": "A2.6.1",  # Biomedical Occupation or Discipline
    "T092": "A2.7",  # Organization
    "T097": "A2.9.1",  # Professional or Occupational Group
    "T098": "A2.9.2",  # Population Group
    "T103": "A1.4.1",  # Chemical
    "T168": "A1.4.3",  # Food
    "T170": "A2.4",  # Intellectual Product
    "T201": "A2.3.1",  # Clinical Attribute
    "T204": "A1.1.3",  # Eukaryote
}

ST21PV_SOURCES = frozenset(
    (
        *("CPT", "FMA", "GO", "HGNC", "HPO", "ICD10", "ICD10CM", "ICD9CM", "MDR", "MSH", "MTH"),
        *("NCBI", "NCI", "NDDF", "NDFRT", "OMIM", "RXNORM", "SNOMEDCT_US"),
    )
)


def in_st21pv(tui: str, tree_number: str) -> bool:
    """Whether a semantic type is one of the 21 or lies below one of them."""
    if tui in ST21PV_TYPES:
        return True
    return any(tree_number.startswith(f"{place}.") for place in ST21PV_TYPES.values())
