from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import ValidationError

from disease_kbs import disease_entities
from kb_checks import check_any, claimants, damaged, fuzz, head_of, read_bytes
from kglink.errors import RecordError, SourceError
from kglink.records import Alias, Entity
from kglink.sources import Problems, Source, SourceLimits
from kglink.testing import KBAdapterContract
from kglink_kbs.obo import OboAdapter, sniff
from kglink_kbs.ontology import OntologySettings


def adapter(**settings: object) -> OboAdapter:
    return OboAdapter(OntologySettings.model_validate(settings))


def read(
    data: str | bytes, problems: Problems | None = None, /, **settings: object
) -> list[Entity]:
    return read_bytes(adapter(**settings), data, problems, name="ontology.obo")


def term(*lines: str, key: str = "X:1", name: str = "one") -> str:
    return "\n".join(["", "[Term]", f"id: {key}", f"name: {name}", *lines, ""])


def read_term(*lines: str, **settings: object) -> Entity:
    (entity,) = read(term(*lines), **settings)
    return entity


SAMPLE = r"""format-version: 1.2
default-namespace: plain
ontology: fruit
! a comment

[Term]
id: FRUIT:1
name: apple ! the common one
def: "A \"pome\"\nfruit, e.g. \\ Granny Smith." [FRUIT:x "why, so"] {source="FRUIT:y"}
synonym: "Malus  fruit" EXACT [FRUIT:z]
synonym: "pome" BROAD LATIN [] {a="b"} ! wide
synonym: "Malus  fruit" RELATED []
xref: MeSH:D000001 "Apple, \"raw\" ! not a comment"
xref: url:http\://x.example/a
alt_id: FRUIT:0
is_a: FRUIT:2 {source="FRUIT:y"} ! fruit
is_a: http://purl.obolibrary.org/obo/FOOD_7
is_a: FRUIT:2
property_value: skos:exactMatch http://purl.obolibrary.org/obo/FOODON_00002473 xsd:anyURI
created_by: somebody

[Term]
id: FRUIT:2
name: fruit
namespace: kinds
subset: slim
subset: slim_b
unheard_of: x

[Term]
id: FRUIT:3
name: quince
is_obsolete: true

[Term]
id: FRUIT:4

[Term]
id: COLOUR:1
name: red

[Typedef]
id: FRUIT:5
name: grows on

[Instance]
id: FRUIT:6
name: this apple
"""
EXPECTED = [
    Entity(
        key="FRUIT:1",
        title="apple",
        description='A "pome"\nfruit, e.g. \\ Granny Smith.',
        url="http://purl.obolibrary.org/obo/FRUIT_1",
        aliases=(Alias("Malus fruit", "synonym"), Alias("pome", "synonym")),
        xrefs=("MeSH:D000001", "url:http://x.example/a", "FOODON:00002473", "FRUIT:0"),
        parents=("FRUIT:2", "FOOD:7"),
    ),
    Entity("FRUIT:2", "fruit", type="kinds", url="http://purl.obolibrary.org/obo/FRUIT_2"),
]


class TestContract(KBAdapterContract):
    plugin = "kglink/obo"
    source_text = SAMPLE
    source_name = "fruit.obo"
    expected = EXPECTED
    broken = (
        b"\x00\xff\xfe no record \x80\n",
        "format-version: 1.2\n",
        "[Term]\nname: no id\n",
        "[Term]\nid: X:1\nid: X:2\nname: two\n",
        "[Term]\nid: X:1\nname: a\nno tag here\n",
        "[Term\nid: X:1\nname: a\n",
        "[Term]\nid: X:1\nname: a\ndef: no quotes\n",
    )


# ------------------------------------------------------------------------------- real files
def test_the_human_phenotype_ontology(realdata: Path) -> None:
    entities = list(read_hp(realdata))
    assert len(entities) == 10_972
    assert sum(bool(entity.description) for entity in entities) == 7_940
    by_key = {entity.key: entity for entity in entities}
    assert by_key["HP:0000003"].aliases == (
        Alias("Multicystic dysplastic kidney", "synonym"),
        Alias("Multicystic kidneys", "synonym"),
        Alias("Multicystic renal dysplasia.", "synonym"),
    )
    assert by_key["HP:0000003"].xrefs == ("MeSH:D021782", "UMLS:C0345335", "HP:0004715")
    assert not any(" " in xref for entity in entities for xref in entity.xrefs)


def test_the_parents_of_the_human_phenotype_ontology(realdata: Path) -> None:
    entities = list(read_hp(realdata))
    keys = {entity.key for entity in entities}
    # All 14,647 lines "is_a:" of the file stand in live terms.
    assert sum(len(entity.parents) for entity in entities) == 14_647
    assert {parent for entity in entities for parent in entity.parents} <= keys
    assert [entity.title for entity in entities if not entity.parents] == ["All"]
    by_key = {entity.key: entity for entity in entities}
    assert by_key["HP:0000003"].parents == ("HP:0000107",)


def test_the_human_phenotype_ontology_against_a_plain_reader(realdata: Path) -> None:
    plain = list(disease_entities("hp", realdata / "disease"))
    entities = list(read_hp(realdata))
    for entity, other in zip(entities, plain, strict=True):
        assert (entity.key, entity.url) == (other["id"], other["url"])
        assert entity.title == " ".join(other["title"].split())
        surfaces = dict.fromkeys(" ".join(text.split()) for text in other["aliases"])
        assert [alias.surface for alias in entity.aliases] == list(surfaces)
        assert entity.description == other.get("description", "").strip()


def read_hp(realdata: Path) -> Iterator[Entity]:
    with Source.open_path(realdata / "disease" / "kb" / "hp.obo.gz") as source:
        for entity in adapter().read(source, Problems()):
            if isinstance(entity, Entity):  # else it says what took an obsolete term's place
                yield entity


@pytest.mark.slow
def test_memory_does_not_grow_with_the_file(tmp_path: Path) -> None:
    path = tmp_path / "big.obo"
    with path.open("w", encoding="utf-8") as out:
        for i in range(20_000):
            out.write(term('def: "' + "x" * 400 + '" []', key=f"X:{i}"))
    tracemalloc.start()
    with Source.open_path(path) as source:
        assert sum(1 for _ in adapter().read(source, Problems())) == 20_000
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert path.stat().st_size > 8_000_000
    assert peak < 6_000_000


# ------------------------------------------------------------------------------ the format
@pytest.mark.parametrize(
    ("line", "title"),
    [
        ("name: Yahoo! fever", "Yahoo! fever"),
        ("name: a \\! b ! c", "a ! b"),
        ('name: x {source="y", "z"}', "x"),
        ('name: x {source="y ! z", note="{}"} ! comment', "x"),
        ('name: 5" pipe ! comment', '5" pipe'),
        ("name: 2-{amino} acid", "2-{amino} acid"),
        ("name: a\\Wb\\tc", "a b c"),
        ("name:no space", "no space"),
        ("name: on two \\\nlines", "on two lines"),
        ("name: back\\\\slash", "back\\slash"),
        ("name: Zoë 👩‍👩‍👧", "Zoë 👩‍👩‍👧"),
    ],
)
def test_names(line: str, title: str) -> None:
    (entity,) = read(f"[Term]\nid: X:1\n{line}\n")
    assert entity.title == title


def test_both_line_ends_and_a_byte_order_mark() -> None:
    data = SAMPLE.replace("\n", "\r\n").encode()
    assert read(b"\xef\xbb\xbf" + data) == EXPECTED


def test_a_stanza_needs_no_empty_line_before_it() -> None:
    data = "[Term]\nid: X:1\nname: a\n[Typedef]\nid: X:2\nname: b\n[Term] ! c\nid: X:3\nname: c"
    assert [entity.key for entity in read(data)] == ["X:1", "X:3"]


def test_the_scopes_that_are_read_can_be_chosen() -> None:
    lines = [f'synonym: "{scope.lower()}" {scope} []' for scope in ("EXACT", "BROAD", "NARROW")]
    lines += ['synonym: "none" []', 'exact_synonym: "old" []']
    every = [alias.surface for alias in read_term(*lines).aliases]
    assert every == ["exact", "broad", "narrow", "none", "old"]
    exact = read_term(*lines, synonyms="EXACT").aliases
    assert [alias.surface for alias in exact] == ["exact", "old"]
    assert [a.surface for a in read_term(*lines, synonyms="related, broad").aliases] == [
        "broad",
        "none",
    ]
    assert read_term(*lines, synonyms="").aliases == ()
    with pytest.raises(ValidationError, match="'loose' is none of exact, broad"):
        OntologySettings(synonyms="exact,loose")


def test_what_the_type_is_can_be_chosen() -> None:
    assert [entity.type for entity in read(SAMPLE, type="subset")] == ["", "slim, slim_b"]
    assert [entity.type for entity in read(SAMPLE, type="none")] == ["", ""]
    default = SAMPLE.replace("namespace: kinds", "namespace: plain")
    assert [entity.type for entity in read(default)] == ["", ""]


def test_alternative_ids_can_be_left_out() -> None:
    assert read(SAMPLE, alt_ids=False)[0].xrefs == EXPECTED[0].xrefs[:-1]


def test_an_id_that_is_an_address_is_shortened() -> None:
    (entity,) = read("[Term]\nid: http://www.ebi.ac.uk/efo/EFO_0000400\nname: diabetes\n")
    assert entity.key == "EFO:0000400"


# --------------------------------------------------------------------------------- prefixes
MIXED = "".join(term(key=key, name=key) for key in ("B:1", "a:1", "B:2", "c:1"))


@pytest.mark.parametrize(
    ("header", "prefix", "keys"),
    [
        ("", "", ["B:1", "B:2"]),  # the most frequent
        ("ontology: A\n", "", ["a:1"]),  # the ontology's name, in whatever case
        ("ontology: a/extensions/a-plus\n", "", ["a:1"]),
        ("ontology: other\n", "", ["B:1", "B:2"]),
        ("ontology: A\n", "c, B", ["B:1", "B:2", "c:1"]),
        ("ontology: A\n", "*", ["B:1", "a:1", "B:2", "c:1"]),
    ],
)
def test_the_prefix_is_the_ontologys_own_or_what_is_set(
    header: str, prefix: str, keys: list[str]
) -> None:
    assert [entity.key for entity in read(header + MIXED, prefix=prefix)] == keys


def test_a_prefix_that_no_id_has_says_which_there_are() -> None:
    with pytest.raises(SourceError, match="no live term with the prefix DOID") as caught:
        read(MIXED, prefix="DOID")
    assert "B (2), " in caught.value.hint
    assert "--set prefix=" in caught.value.hint


# -------------------------------------------------------------------------------- bad input
@pytest.mark.parametrize(
    ("lines", "reason", "line"),
    [
        (["name: no id"], "a term without an id", 5),
        (["id:", "name: a"], "a term without an id", 6),
        (["id: X:2", "id: X:3", "name: a"], "a second id in one term", 7),
        (["id: X:2", "name: a", "name: b"], "a second name in one term", 8),
        (["id: X:2", "name: a", "a line"], "a line without a tag", 8),
        (["id: X:2", "name: a", "def: x"], "no text in quotes behind def: 'x'", 8),
        (["id: X:2", "name: a", 'synonym: "x'], "no text in quotes behind synonym", 8),
        (["id: X:2", "name: a\x07b"], "control character U+0007", 5),
        (["id: X:2", "name: a", 'def: "a\x1b[2J" []'], "control character U+001B", 5),
    ],
)
def test_a_bad_term_is_told_with_its_line(lines: list[str], reason: str, line: int) -> None:
    good = term()[1:]
    data = "\n".join([good, "[Term]", *lines, "", "[Term]", "id: X:9", "name: z"])
    problems = Problems("skip")
    assert [entity.key for entity in read(data, problems)] == ["X:1", "X:9"]
    assert problems.total == 1
    with pytest.raises(RecordError) as caught:
        read(data)
    assert reason in caught.value.reason
    assert caught.value.where == f"ontology.obo, line {line}"


def test_bytes_that_are_no_utf8_name_line_and_byte() -> None:
    data = b"[Term]\nid: X:1\nname: caf\xe9\n\n[Term]\nid: X:2\nname: b\n"
    with pytest.raises(RecordError) as caught:
        read(data)
    assert caught.value.where == "ontology.obo, line 3, byte 0xe9 at byte 24"
    problems = Problems("skip")
    assert [entity.key for entity in read(data, problems)] == ["X:2"]


def test_a_line_without_end_is_refused() -> None:
    limits = SourceLimits(max_line_bytes=1000)
    data = b"[Term]\nid: X:1\nname: a\n" + b"x\\\n" * 2000
    with (
        Source.from_bytes(data, name="bomb.obo", limits=limits) as source,
        pytest.raises(SourceError, match="line 4: a line that is continued"),
    ):
        list(adapter().read(source, Problems()))


@pytest.mark.parametrize(
    "line", ['def: "' + "\\" * 200_000, "xref: " + ' "' * 100_000, "name: " + " {a=" * 60_000]
)
def test_values_made_to_be_slow_are_not(line: str) -> None:
    problems = Problems("skip")
    read(f"[Term]\nid: X:1\nname: a\n{line}\n\n[Term]\nid: X:2\nname: b\n", problems)


# --------------------------------------------------------------------------------- sniffing
def test_sniffing() -> None:
    assert sniff(head_of(SAMPLE)) == 0.95
    assert sniff(head_of("format-version: 1.4\nontology: x\n", "x.obo")) == 0.95
    assert sniff(head_of("\r\n[Term]\r\nid: X:1\r\n")) == 0.8
    for other in ('{"graphs": []}', "id,title\n1,a\n", "[Term]\nnothing\n", "version: 1.2\n", "[]"):
        assert sniff(head_of(other)) == 0


def test_a_file_is_known_by_its_content() -> None:
    assert claimants(head_of(SAMPLE)) == ["kglink/obo"]


# -------------------------------------------------------------------------------------- fuzz


def joined(parts: list[str]) -> bytes:
    return "\n".join(parts).encode("utf-8", errors="surrogatepass")


lines = st.sampled_from(SAMPLE.split("\n")) | st.text(max_size=30)


@fuzz
@given(data=st.binary(max_size=200) | st.lists(lines, max_size=30).map(joined))
@example(b"[Term]\nid: X:1\nname: a\\")
@example(b"[Term]\n\\\n\\\n")
def test_arbitrary_bytes_and_lines(data: bytes) -> None:
    check_any(adapter, sniff, data)


@fuzz
@given(seed=st.integers(0, 2**32))
def test_damaged_files(seed: int) -> None:
    check_any(lambda: adapter(prefix="*"), sniff, damaged(SAMPLE.encode(), seed))


@pytest.mark.parametrize(
    ("line", "xref"),
    [
        ('xref: UMLS:C2 {note = "x y"}', "UMLS:C2"),
        ('xref: UMLS:C1 {source="MONDO: ", source="b"}', "UMLS:C1"),
        ('xref: UMLS:C3{source="b"} ! words', "UMLS:C3"),
        ('xref: UMLS:C4 "a {b} c" {source="b"}', "UMLS:C4"),
    ],
)
def test_modifiers_are_no_part_of_an_xref(line: str, xref: str) -> None:
    assert read_term(line).xrefs == (xref,)


def test_modifiers_may_follow_at_once() -> None:
    assert read_term('is_a: X:3{source="x"}').parents == ("X:3",)
