"""Golds that are codes of other vocabularies, and mappings between codes."""

from __future__ import annotations

import gzip
import json
import random
from collections import defaultdict
from pathlib import Path

import pytest
from conftest import Kglink

from kglink.errors import RecordError, UsageError
from kglink.records import CodeMapping, Document, EntityId, Mention, Overlap
from kglink.store import Store
from kglink.text.codes import bare_code, code_of, spellings
from kglink.workspace import Workspace, init_workspace
from store_support import Stopped, broken_off, entity, job

pytest_plugins = ["store_fixtures"]


# ------------------------------------------------------------------------------------------ codes
@pytest.mark.parametrize(
    ("written", "code"),
    [
        ("MESH:D003920", "MESH:D003920"),
        ("MSH:D003920", "MESH:D003920"),
        (" MeSH: D003920", "MESH:D003920"),
        ("D003920", "MESH:D003920"),
        ("C536108", "MESH:C536108"),  # six digits: a supplementary record of MeSH
        ("C0010674", "UMLS:C0010674"),  # seven: a concept of UMLS
        ("UMLS_CUI:C0010674", "UMLS:C0010674"),
        ("MIM:219700", "OMIM:219700"),
        ("NCI:C3372", "NCIT:C3372"),
        ("NCI2004_11_17:C3372", "NCI2004_11_17:C3372"),  # a release of its own kind
        ("SNOMEDCT_US_2018_03_01:44054006", "SNOMEDCT:44054006"),
        ("Orphanet:586", "ORPHA:586"),
        ("HPO:HP:0000118", "HP:0000118"),
        ("doid:1485", "DOID:1485"),
        ("ICD10CM:E11.9", "ICD10CM:E11.9"),
        ("http://purl.obolibrary.org/obo/DOID_1485", "DOID:1485"),
        ("http://id.nlm.nih.gov/mesh/D003920", "MESH:D003920"),
        ("https://example.org/page", ""),
        ("http://", ""),
        ("plain words", ""),
        ("MESH:", ""),
        (":D003920", ""),
        ("", ""),
        ("X:" + "1" * 300, ""),
    ],
)
def test_a_code_has_one_form(written: str, code: str) -> None:
    assert code_of(written) == code
    assert not code or code_of(code) == code


def test_bare_codes_and_spellings() -> None:
    assert [bare_code(text) for text in ("MESH:D003920", "UMLS:C0010674", " OMIM:1 ")] == [
        *("D003920", "C0010674", "OMIM:1")
    ]
    assert set(spellings("MESH:D003920")) >= {"D003920", "MESH:D003920", "MeSH:D003920"}
    assert spellings("DOID:1") == ["DOID:1"]


# ---------------------------------------------------------------------------------------- resolving
TEXT = "a cystic fibrosis"


def document(*codes: str, key: str = "d") -> Document:
    """A document with a mention for each text of codes joined by bars."""
    return Document(
        key,
        TEXT,
        tuple(
            Mention(0, 1, "a", tuple(EntityId("", code) for code in text.split("|")))
            for text in codes
        ),
    )


def golds(store: Store) -> list[str]:
    """The golds of all mentions, each as one text; a dash where none is known."""
    return [
        "-" if found.gold is None else " ".join(map(str, found.gold))
        for one in store.documents("docs")
        for found in one.mentions
    ]


@pytest.fixture
def linked(store: Store) -> Store:
    """Three KBs: doid knows MeSH and ncit, hp knows MeSH, ncit knows nothing."""
    store.ingest(
        job("doid"),
        [
            entity("DOID:1", xrefs=("MESH:D000001", "OMIM:100", "NCI:C1")),
            entity("DOID:2", xrefs=("MSH:D000001",)),
            entity("DOID:3", xrefs=("UMLS_CUI:C0000003", "MESH:D000003")),
        ],
    )
    store.ingest(job("hp"), [entity("HP:1", xrefs=("MeSH:D000001",)), entity("HP:3")])
    store.ingest(job("ncit"), [entity("NCIT:C1"), entity("NCIT:C3")])
    return store


def resolve(store: Store, *codes: str, links_to: str = "doid,hp,ncit", run: str = "1") -> list[str]:
    """The golds after an ingest of one document."""
    links = tuple(links_to.split(","))
    store.ingest(job("docs", links_to=links, resolve="xref", fingerprint=run), [document(*codes)])
    return golds(store)


@pytest.mark.parametrize(
    ("code", "links_to", "means"),
    [
        ("D000001", "doid", "doid:DOID:1 doid:DOID:2"),
        ("MESH:D000001", "hp", "hp:HP:1"),
        ("D000001", "doid,hp", "doid:DOID:1 doid:DOID:2 hp:HP:1"),
        ("OMIM:100|C0000003", "doid", "doid:DOID:1 doid:DOID:3"),
        ("D000001", "ncit", "-"),  # ncit alone knows no MeSH
        ("D000001", "doid,ncit", "doid:DOID:1 doid:DOID:2 ncit:NCIT:C1"),  # through DOID:1
        ("NCIT:C1", "doid,ncit", "doid:DOID:1 ncit:NCIT:C1"),
        ("NCI:C1", "ncit", "ncit:NCIT:C1"),  # the code is the key itself
        ("D999999", "doid,hp", "-"),
        ("no code", "doid", "-"),
    ],
)
def test_codes_become_gold_sets(linked: Store, code: str, links_to: str, means: str) -> None:
    assert resolve(linked, code, links_to=links_to) == [means]


def test_unresolved_golds_are_counted(linked: Store) -> None:
    settings = job("docs", links_to=("doid",), resolve="xref")
    summary = linked.ingest(settings, [document("D000001", "D999999|D000003", "none|D888888")])
    assert golds(linked) == ["doid:DOID:1 doid:DOID:2", "doid:DOID:3", "-"]
    assert summary.gold_unresolved == 3


def test_a_later_run_looks_again(linked: Store) -> None:
    assert resolve(linked, "D000003", links_to="doid,hp") == ["doid:DOID:3"]
    linked.ingest(job("hp", fingerprint="2"), [entity("HP:1"), entity("HP:3", xrefs=("D000003",))])
    linked.ingest(job("doid", fingerprint="2"), [entity("DOID:3")])
    assert resolve(linked, "D000003", links_to="doid,hp", run="2") == ["hp:HP:3"]


def test_from_codes_to_keys_and_back(linked: Store) -> None:
    assert resolve(linked, "DOID:3|D000003") == ["doid:DOID:3"]
    by_key = job("docs", links_to=("doid",), fingerprint="2")
    assert linked.ingest(by_key, [document("DOID:3|D000003")]).gold_unresolved == 1
    assert golds(linked) == ["doid:DOID:3"]
    assert resolve(linked, "DOID:3|D000003", run="3") == ["doid:DOID:3"]


def test_a_kb_keyed_by_bare_codes(store: Store) -> None:
    store.ingest(job("umls"), [entity("C0010674", xrefs=("MSH:D003550",))])
    store.ingest(job("mesh"), [entity("D003550")])
    assert resolve(store, "UMLS:C0010674", "D003550", links_to="umls,mesh") == [
        "mesh:D003550 umls:C0010674",
        "mesh:D003550 umls:C0010674",
    ]


def test_many_golds_as_a_plain_twin_has_them(store: Store) -> None:
    chance = random.Random(3)
    codes = [f"D{number:06}" for number in range(400)]
    holders: dict[str, set[str]] = defaultdict(set)
    made = []
    for number in range(900):
        xrefs = tuple(chance.sample(codes, chance.randrange(4)))
        made.append(entity(f"DOID:{number}", xrefs=tuple(f"MESH:{code}" for code in xrefs)))
        for code in xrefs:
            holders[code].add(f"DOID:{number}")
    store.ingest(job("doid"), made)
    asked = [chance.sample(codes, 3) for _ in range(700)]
    documents = [document("|".join(some), key=f"{n:04}") for n, some in enumerate(asked)]
    store.ingest(job("docs", links_to=("doid",), resolve="xref"), documents)
    found = [
        {gold.key for gold in mention.gold or ()}
        for one in store.documents("docs")
        for mention in one.mentions
    ]
    assert found == [set().union(*(holders[code] for code in some)) for some in asked]


# ----------------------------------------------------------------------------------------- mappings
def test_mappings_lead_to_entities_until_they_are_removed(linked: Store) -> None:
    pairs = [CodeMapping("DOID:3", "NCIT:C3"), CodeMapping("MESH:D000007", "HP:3")]
    summary = linked.ingest(job("pairs"), [*pairs, pairs[0]])
    assert str(summary) == "mappings +2 ~0 -0 =0"
    assert linked.kb("pairs").mappings == 2
    assert resolve(linked, "D000003", "D000007") == ["doid:DOID:3 ncit:NCIT:C3", "hp:HP:3"]
    linked.remove_kb("pairs")
    assert resolve(linked, "D000003", "D000007", run="2") == ["doid:DOID:3", "-"]


def test_mappings_of_a_kb_count_when_its_first_run_is_done(linked: Store) -> None:
    pairs = [CodeMapping("DOID:3", "NCIT:C3"), CodeMapping("MESH:D000007", "HP:3")]
    with pytest.raises(Stopped):
        linked.ingest(job("pairs", batch_size=1), broken_off(pairs, 2))
    assert resolve(linked, "D000003", "D000007") == ["doid:DOID:3", "-"]
    own = job("own", links_to=("doid", "hp", "ncit"), resolve="xref")  # its own mappings do
    linked.ingest(own, [*pairs, document("D000003", "D000007")])
    (found,) = linked.documents("own")
    assert [len(one.gold or ()) for one in found.mentions] == [2, 1]


def test_a_hub_of_mappings_joins_its_spokes(linked: Store) -> None:
    spokes = ("MESH:D000007", "HP:3", "NCIT:C3", "OMIM:7")
    linked.ingest(job("mondo"), [CodeMapping("MONDO:7", code) for code in spokes])
    assert resolve(linked, "D000007", "OMIM:7") == ["hp:HP:3 ncit:NCIT:C3"] * 2


def test_a_direct_answer_is_not_widened(linked: Store) -> None:
    linked.ingest(job("pairs"), [CodeMapping("DOID:1", "HP:3")])
    assert resolve(linked, "D000001", links_to="doid,hp") == ["doid:DOID:1 doid:DOID:2 hp:HP:1"]


def test_an_update_of_mappings(store: Store) -> None:
    store.ingest(job("pairs"), [CodeMapping("A:1", "B:1"), CodeMapping("A:2", "B:2")])
    summary = store.ingest(
        job("pairs", fingerprint="2"),
        [CodeMapping("A:1", "B:1", confidence=0.5), CodeMapping("A:3", "B:3")],
    )
    assert str(summary) == "mappings +1 ~1 -1 =0"
    assert store.kb("pairs").mappings == 2


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (CodeMapping("no code", "HP:1"), "'no code', which is no code"),
        (CodeMapping("HP:1", "DOID:1", confidence=1.5), "between 0 and 1"),
        (CodeMapping("HP:1", "DOID:1", confidence=float("nan")), "between 0 and 1"),
        (CodeMapping("HP:1", "DOID:1", "p" * 600), "more than 512 characters"),
        (CodeMapping("HP:1", "DOID:\0"), "NUL"),
    ],
)
def test_a_bad_mapping_is_refused(store: Store, bad: CodeMapping, reason: str) -> None:
    with pytest.raises(RecordError, match=reason):
        store.ingest(job("pairs"), [bad])


# ----------------------------------------------------------------------------------------- verdicts
LEFT, RIGHT = EntityId("doid", "DOID:3"), EntityId("hp", "HP:3")


def verdicts(store: Store) -> dict[str, str | None]:
    """The verdict of each overlap."""
    return {f"{one.left} {one.right}": one.verdict for one in store.overlaps()}


def test_verdicts_become_overlaps_and_go_with_their_kb(linked: Store) -> None:
    said = [
        CodeMapping("DOID:3", "HP:3", confidence=0.75, verdict="correct"),
        CodeMapping("NCI:C1", "DOID:1", verdict="wrong"),
        CodeMapping("DOID:1", "DOID:2", verdict="correct"),  # of one KB: no overlap
        CodeMapping("DOID:1", "MESH:D000001", verdict="correct"),  # of no KB here
    ]
    summary = linked.ingest(job("pairs"), said)
    assert summary.mappings_unresolved == 2
    assert verdicts(linked) == {
        "doid:DOID:1 ncit:NCIT:C1": "wrong",
        "doid:DOID:3 hp:HP:3": "correct",
    }
    assert linked.counterparts([LEFT]) == {LEFT: (RIGHT,)}
    assert {one.probability for one in linked.overlaps("doid", "hp")} == {0.75}
    linked.ingest(job("pairs", fingerprint="2"), said[1:])
    assert verdicts(linked) == {"doid:DOID:1 ncit:NCIT:C1": "wrong"}
    linked.remove_kb("pairs")
    assert verdicts(linked) == {}


def test_only_linked_kbs_are_judged(linked: Store) -> None:
    said = [CodeMapping("DOID:3", "HP:3", verdict="correct")]
    summary = linked.ingest(job("pairs", links_to=("doid", "ncit")), said)
    assert (summary.mappings_unresolved, verdicts(linked)) == (1, {})


def test_what_a_person_says_stands(linked: Store) -> None:
    said = [CodeMapping("DOID:3", "HP:3", verdict="correct")]
    linked.set_verdict(LEFT, RIGHT, "wrong")
    linked.ingest(job("pairs"), said)
    assert verdicts(linked) == {"doid:DOID:3 hp:HP:3": "wrong"}
    linked.remove_kb("pairs")
    assert verdicts(linked) == {"doid:DOID:3 hp:HP:3": "wrong"}
    linked.ingest(job("pairs"), said)
    linked.set_verdict(LEFT, RIGHT, "unclear")
    linked.remove_kb("pairs")
    assert verdicts(linked) == {"doid:DOID:3 hp:HP:3": "unclear"}


def test_what_a_search_found_outlives_a_verdict(linked: Store) -> None:
    linked.save_overlaps("doid", "hp", [Overlap(LEFT, RIGHT, 0.5, {"name": 1.0})])
    linked.ingest(job("pairs"), [CodeMapping("DOID:3", "HP:3", verdict="correct")])
    assert verdicts(linked) == {"doid:DOID:3 hp:HP:3": "correct"}
    linked.remove_kb("pairs")
    (left,) = linked.overlaps()
    assert left == Overlap(LEFT, RIGHT, 0.5, {"name": 1.0})


# ------------------------------------------------------------------------------------ command line
PUBTATOR = "1|t|A cystic fibrosis.\n1|a|No.\n1\t2\t17\tcystic fibrosis\tDisease\tD003550\n"
SSSOM = "subject_id\tpredicate_id\tobject_id\nDOID:1485\tskos:exactMatch\tNCIT:C2975\n"


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A workspace with two KBs, and files beside it."""
    monkeypatch.setenv("KGLINK_WORKSPACE", str(init_workspace(tmp_path / "workspace")))
    (tmp_path / "abstracts.txt").write_text(PUBTATOR)
    (tmp_path / "pairs.sssom.tsv").write_text(SSSOM)
    disease = {"id": "DOID:1485", "title": "cystic fibrosis", "xrefs": ["MESH:D003550"]}
    (tmp_path / "doid.jsonl").write_text(json.dumps(disease))
    (tmp_path / "ncit.jsonl").write_text('{"id": "NCIT:C2975", "title": "Cystic Fibrosis"}')
    with Workspace.open() as workspace:
        for kb in ("doid", "ncit"):
            workspace.add_kb(kb, tmp_path / f"{kb}.jsonl")
    return tmp_path


def test_the_command_line(kglink: Kglink, files: Path) -> None:
    mapped = kglink("add-kb", "pairs", files / "pairs.sssom.tsv")
    assert "pairs mappings +1 ~0 -0 =0   1 mapping " in mapped.out
    links = ("--links-to", "doid,ncit", "--resolve", "xref")
    kglink("add-kb", "docs", files / "abstracts.txt", *links)
    with Workspace.open() as workspace:
        assert golds(workspace.store) == ["doid:DOID:1485 ncit:NCIT:C2975"]
    judged = ("--set", "use=overlaps")
    kglink("add-kb", "pairs", files / "pairs.sssom.tsv", *judged)
    with Workspace.open() as workspace:
        assert verdicts(workspace.store) == {"doid:DOID:1485 ncit:NCIT:C2975": "correct"}


def test_bad_calls(kglink: Kglink, files: Path) -> None:
    source = files / "abstracts.txt"
    told = kglink("add-kb", "docs", source, "--resolve", "xref", code=2)
    assert "resolving by xref needs the KBs to look in" in told.err
    told = kglink("add-kb", "docs", source, "--resolve", "magic", code=2)
    assert "unknown way to resolve golds 'magic'" in told.err
    with Workspace.open() as workspace, pytest.raises(UsageError, match="needs the KBs"):
        workspace.add_kb("docs", source, resolve="xref")


# -------------------------------------------------------------------------------------- real data
@pytest.mark.slow
@pytest.mark.realdata
def test_the_real_gold_sets(realdata: Path, tmp_path: Path) -> None:
    """What `benchmarks/gold_sets.py` counts on one corpus, against a plain look at the files."""
    disease = realdata / "disease"
    flags = {"ingest.on_error": "skip"}
    with Workspace.open(init_workspace(tmp_path / "workspace"), flags=flags) as workspace:
        for kb in ("doid.obographs.json.gz", "hp.obo.gz"):
            workspace.add_kb(kb.partition(".")[0], disease / "kb" / kb)
        corpus = disease / "corpora" / "ncbi_devel.PubTator.txt.gz"
        workspace.add_kb("docs", corpus, links_to=["doid", "hp"], resolve="xref")
        found = [
            {str(gold) for gold in mention.gold or ()}
            for document in sorted(workspace.store.documents("docs"), key=lambda one: one.id)
            for mention in document.mentions
        ]
    with gzip.open(disease / "mentions" / "ncbi_dev.jsonl.gz", "rt", encoding="utf-8") as lines:
        rows = sorted(map(json.loads, lines), key=lambda row: str(row["doc"]))
    wanted = [
        {f"{kb}:{key}" for kb in ("doid", "hp") for key in row["gold"].get(kb, ())} for row in rows
    ]
    assert len(found) == len(wanted) == 787
    assert all(here <= there for here, there in zip(found, wanted, strict=True))
    assert sum(here == there for here, there in zip(found, wanted, strict=True)) == 655


def test_add_kb_says_in_which_kbs_codes_were_found(
    kglink: Kglink, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with Workspace.open(tmp_path, create=True) as workspace:
        workspace.add_kb("x", [entity("1", xrefs=("MESH:D000001",)), entity("2")])
        workspace.add_kb("y", [entity("1")])
    text = "1|t|a heart\n1|a|b\n1\t2\t7\theart\tDisease\tD000001\n1\t0\t1\ta\tDisease\tD000002\n\n"
    (tmp_path / "notes.txt").write_text(text)
    ran = kglink("add-kb", "notes", "notes.txt", "--links-to", "x,y", "--resolve", "xref")
    assert "of 2 codes found: 1 in x, 0 in y" in ran.err
    assert "none leads to y: these documents do not say what is missing there" in ran.err
    told = json.loads(
        kglink(
            *("add-kb", "notes", "notes.txt", "--links-to", "x,y", "--resolve", "xref", "--json")
        ).out
    )
    assert (told["golds"], told["gold_found"]) == (2, {"x": 1, "y": 0})
