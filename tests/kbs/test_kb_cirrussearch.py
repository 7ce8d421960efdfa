from __future__ import annotations

import json
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kglink.errors import KglinkError, RecordError
from kglink.records import Alias, Entity
from kglink.sources import Problems, Source, SourceHead
from kglink.testing import KBAdapterContract
from kglink.testing.contracts.kb import check_record
from kglink_kbs.cirrussearch import CirrusSearchAdapter, CirrusSearchSettings, sniff


def pair(key: str, **fields: Any) -> str:
    page = {"wiki": "enwiki", "language": "en", "namespace": 0, "opening_text": ""} | fields
    return json.dumps({"index": {"_type": "_doc", "_id": key}}) + "\n" + json.dumps(page) + "\n"


SAMPLE = (
    pair(
        "12",
        title="Ada Lovelace",
        opening_text="Ada was a  writer. She wrote.\nAlso notes.",
        redirect=[
            {"namespace": 0, "title": "Ada"},
            {"namespace": 0, "title": "Lady  Lovelace"},
            {"namespace": 4, "title": "WP:ADA"},
            {"namespace": 0, "title": "Ada Lovelace"},
        ],
        incoming_links=120,
        popularity_score=1.5e-5,
        wikibase_item="Q7259",
        template=["Template:Short description", "Template:Infobox person"],
        text="Ada was a writer. " * 9,
    )
    + pair("13", title="Q?", wiki="be_x_oldwiki", language="be", descriptions={"be": ["a letter"]})
    + pair("14", title="Ada (disambiguation)")
    + pair("15", title="Mercury", template=["Template:Disambiguation"])
    + pair("16", title="Talk:Ada", namespace=1)
)
EXPECTED = (
    Entity(
        "12",
        "Ada Lovelace",
        "Ada was a writer. She wrote. Also notes.",
        "person",
        "https://en.wikipedia.org/wiki/Ada_Lovelace",
        120.0,
        "en",
        (Alias("Ada", "redirect"), Alias("Lady Lovelace", "redirect")),
        ("wikidata:Q7259",),
    ),
    Entity("13", "Q?", "", "a letter", "https://be-x-old.wikipedia.org/wiki/Q%3F", 0.0, "be"),
)


class TestCirrusSearchContract(KBAdapterContract):
    plugin = "kglink/cirrussearch"
    source_text = SAMPLE
    source_name = "enwiki-20240101-cirrussearch-content.json"
    expected = EXPECTED
    broken = (
        pair("1", title=""),
        pair("", title="A"),
        pair("1", title="A", redirect="B"),
        pair("1", title="A", redirect=["B"]),
        pair("1", title="A", incoming_links="many"),
        pair("1", title="A", wikibase_item="P1"),
        pair("1", title="A").splitlines()[0],
        pair("1", title="A").splitlines()[1],
        pair("1", title="A") + "{broken\n",
    )
    foreign = (
        *KBAdapterContract.foreign,
        '{"id":"1","title":"A"}\n',
        '{"index":{"of":"something"}}\n{"title":"A"}\n',
    )


def read(text: str, problems: Problems | None = None, **given_settings: Any) -> list[Entity]:
    made = CirrusSearchAdapter(CirrusSearchSettings.model_validate(given_settings))
    with Source.from_bytes(text.encode("utf-8", "surrogatepass")) as source:
        found = []
        for record in made.read(source, problems or Problems()):
            assert isinstance(record, Entity)
            check_record(record)
            found.append(record)
        return found


def test_what_is_left_out_is_counted_and_can_be_kept() -> None:
    problems = Problems()
    read(SAMPLE, problems)
    assert problems.passed_over == {"disambiguation page": 2, "page of another namespace": 1}
    kept = read(SAMPLE, namespaces=(0, 1), disambiguation=True)
    assert [entity.key for entity in kept] == ["12", "13", "14", "15", "16"]


def test_popularity_and_sentences_are_settings() -> None:
    first = read(SAMPLE, popularity="popularity_score", sentences=1)[0]
    assert (first.popularity, first.description) == (1.5e-5, "Ada was a writer.")
    assert read(SAMPLE, sentences=0)[0].description == ""


def test_the_newer_form_of_one_line_a_page_is_read_too() -> None:
    page = {"_index": "enwiki_content", "_id": 7, "_source": {"title": "A", "namespace": 0}}
    assert read(json.dumps(page) + "\n") == [Entity("7", "A")]


def test_a_bad_pair_does_not_shift_the_next() -> None:
    first, second = pair("1", title="A").splitlines()
    text = f"{first}\n{pair('2', title='B')}{second}\n{pair('3', title='C')}"
    problems = Problems("skip")
    assert [(entity.key, entity.title) for entity in read(text, problems)] == [
        ("2", "B"),
        ("3", "C"),
    ]
    assert problems.counts == {"an id without its page": 1, "a page without the line of its id": 1}
    assert problems.examples[0].startswith("standard input, line 1: an id without its page")


def test_sniffing() -> None:
    assert sniff(SourceHead("x.json", SAMPLE.encode()[:2000], None)) > 0.9
    assert sniff(SourceHead("x.json", b'{"title":"A","opening_text":"b"}', None)) == 0


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=2)
    ),
    max_leaves=5,
)
names = st.sampled_from(
    [
        *("title", "namespace", "opening_text", "redirect", "incoming_links", "wiki", "language"),
        *("wikibase_item", "template", "descriptions", "description", "index", "_source", "_id"),
    ]
)


@settings(max_examples=150, deadline=None, derandomize=True, database=None,
          suppress_health_check=[HealthCheck.too_slow])  # fmt: skip
@given(st.lists(st.dictionaries(names, values, max_size=6), max_size=4), st.booleans())
def test_nothing_but_our_errors_comes_out(pages: list[dict[str, Any]], paired: bool) -> None:
    lines = [
        pair(str(n), **page) if paired else json.dumps(page) + "\n" for n, page in enumerate(pages)
    ]
    for problems in (Problems(), Problems("skip")):
        try:
            read("".join(lines) or " ", problems)
        except RecordError:
            assert problems.on_error == "stop"
        except KglinkError:
            pass


def test_nulls_and_lists_where_others_have_texts() -> None:
    (found,) = read(pair("1", title="A", namespace=0, redirect=[{"title": "B", "namespace": None}]))
    assert [one.surface for one in found.aliases] == ["B"]
    problems = Problems("skip")
    assert read(pair("1", title="A", namespace=0, language=["en"], descriptions={}), problems) == []
    assert problems.total == 1


def test_an_article_that_has_an_unclear_link_is_none_that_tells_meanings_apart() -> None:
    templates = ["Template:Disambiguation needed", "Module:Disambiguation"]
    assert [one.title for one in read(pair("17", title="Mars", template=templates))] == ["Mars"]
