"""The Reddit release in miniature, with every pitfall of the real one, as archive and as folder."""

from __future__ import annotations

import gzip
import io
import json
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest
from conftest import Kglink
from hypothesis import example, given, settings
from hypothesis import strategies as st
from test_kb_fuzz import LIMITS, check_document, damaged

from kglink.errors import KglinkError, RecordError, SourceError
from kglink.records import Alias, Document, Entity, EntityId, Mention, Record
from kglink.sources import Problems, Source, SourceHead, SourceLimits
from kglink.store import IngestJob, Store
from kglink.testing import KBAdapterContract
from kglink_kbs import blink, jsonl, tabular, zeshel
from kglink_kbs.reddit import MENDED, RedditAdapter, RedditSettings, sniff, wiki_title

Files = Mapping[str, str]

#: A quote that opens and never closes, white space at both ends, an emoji before a mention.
POSTS = (
    'p1\tspace\t  "The Sun 🌞 and Mars \n'
    "p2\tspace\tNobody annotated this.\n"
)  # fmt: skip
#: Raw line breaks, one of them blank, and lines that nearly look like records.
COMMENTS = (
    "c1\tt1_c1\tt3_p1\tspace\tMars is red.\n"
    "\n"
    'quoted\ttext "and more\n'
    "c2 t1_c2\tVenus is hot.\n"
    "c2\tt3_p1\tt3_p1\tspace\tMars, mars, Mars and Mars!\n"
    "c3\tt1_x\tt1_c2\tspace\tThe moon. \n"
)
VENUS = 'Mars is red.\n\nquoted\ttext "and more\nc2 t1_c2\tVenus is hot.'.index("Venus")


def row(id_: str, surface: str, title: str, start: int, end: int = -1) -> str:
    end = start + len(surface) if end < 0 else end
    return f"{id_}\tspace\t{surface}\t{title}\t{start}\t{end}\t{surface.lower()}\n"


MINIATURE: Files = {
    "posts.tsv": POSTS,
    "comments.tsv": COMMENTS,
    # The offsets count from the text without the white space at its ends.
    "gold_post_annotations.tsv": row("p1", "Mars", "Mars", 15),
    "silver_post_annotations.tsv": row("p1", "Mars", "Mars_(god)", 15)  # gold says it better
    + row("p1", "The Sun", "The_Sun?redirect=no", 1),
    "bronze_post_annotations.tsv": "",
    "gold_comment_annotations.tsv": row("c1", "Venus", "Venus_(planet)#Orbit", VENUS)
    + row("c9", "Pluto", "Pluto", 0),  # no such comment
    "silver_comment_annotations.tsv": row("c2", "Mars", "Mars", 13)  # stands at 12
    + row("c2", "Mars", "Mars", 0, 3)  # an end that is wrong
    + row("c3", "Moon", "Moon", 4),  # stands nowhere: it is lower case
    "bronze_comment_annotations.tsv": row("c2", "mars", "mars_(god)", 6)
    + row("c2", "mars", "Mars_bar", 6),
}


def packed(files: Files, folder: str = "reddit_el/") -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in files.items():
            archive.writestr(zipfile.ZipInfo(folder + name), text, zipfile.ZIP_DEFLATED)
        archive.writestr(zipfile.ZipInfo("__MACOSX/._posts.tsv"), "junk")
    return buffer.getvalue()


def unpacked(files: Files, folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8", newline="\n")
    return folder


def read(
    files: Files,
    problems: Problems | None = None,
    limits: SourceLimits | None = None,
    /,
    **options: object,
) -> list[Record]:
    adapter = RedditAdapter(RedditSettings.model_validate(options))
    with Source.from_bytes(packed(files), name="reddit_el.zip", limits=limits) as source:
        return list(adapter.read(source, problems or Problems()))


def of(*titles: str) -> tuple[EntityId, ...]:
    return tuple(EntityId("", title) for title in titles)


POST = '"The Sun 🌞 and Mars'
COMMENT = 'Mars is red.\n\nquoted\ttext "and more\nc2 t1_c2\tVenus is hot.'
SEEDED = {"seed": 1, "dev_share": 0.5}  # draws post/p1 for train and comment/c2 for dev
EXPECTED = [
    Document(
        "gold/post/p1", POST, (Mention(15, 19, "Mars", of("Mars"), quality="gold"),), split="test"
    ),
    Document(
        "other/post/p1",
        POST,
        (Mention(1, 8, "The Sun", of("The Sun"), quality="silver"),),
        split="train",
    ),
    Document(
        "gold/comment/c1",
        COMMENT,
        (Mention(VENUS, VENUS + 5, "Venus", of("Venus (planet)"), quality="gold"),),
        split="test",
    ),
    Document(
        "other/comment/c2",
        "Mars, mars, Mars and Mars!",
        (
            Mention(0, 4, "Mars", of("Mars"), quality="silver"),
            Mention(6, 10, "mars", of("Mars (god)", "Mars bar"), quality="bronze"),
            Mention(12, 16, "Mars", of("Mars"), quality="silver"),
        ),
        split="dev",
    ),
]


def changed(**texts: str) -> bytes:
    return packed({**MINIATURE, **{f"{name}.tsv": text for name, text in texts.items()}})


def flagged(data: bytes, flags: int, method: int = 8) -> bytes:
    """The archive with other flags and another way of packing in its central directory."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        place = archive.start_dir
    raw = bytearray(data)
    raw[place + 8 : place + 12] = flags.to_bytes(2, "little") + method.to_bytes(2, "little")
    return bytes(raw)


class TestContract(KBAdapterContract):
    plugin = "kglink/reddit"
    settings = SEEDED
    source_name = "reddit_el.zip"
    source_text = packed(MINIATURE)
    expected = EXPECTED
    broken = (
        b"\x00\xff\xfe no record \x80\n",
        b"no archive at all\n",
        packed({}),
        packed({name: text for name, text in MINIATURE.items() if name != "posts.tsv"}),
        packed(MINIATURE)[:-60],
        packed(MINIATURE, "../"),
        packed(MINIATURE, "/etc/"),
        packed(MINIATURE, "C:"),
        flagged(packed(MINIATURE), 1),
        flagged(packed(MINIATURE), 0, 14),
        packed({**MINIATURE, "old/posts.tsv": "p1\ta\tb\n"}),
        changed(posts="no tab here\n"),
        changed(gold_post_annotations="p1\tspace\tMars\n"),
        changed(gold_post_annotations=row("p1", "Mars", "#top", 15)),
        changed(gold_post_annotations=row("p1", " ", "Mars", 14)),
        changed(gold_post_annotations=row("P 1", "Mars", "Mars", 15)),
        changed(gold_post_annotations="p1\tspace\tMars\tMars\t-1\t3\tmars\n"),
    )
    foreign = (
        *KBAdapterContract.foreign,
        b"id\ttitle\n1\tMars\n",
        POSTS.encode(),
        packed({"entities.jsonl": "{}"}),
    )


def test_a_folder_is_read_like_the_archive(tmp_path: Path) -> None:
    folder = unpacked(MINIATURE, tmp_path / "reddit_el")
    (folder / "comments.tsv.gz").write_bytes(gzip.compress(COMMENTS.encode()))
    (folder / "comments.tsv").unlink()
    with Source.open_path(folder) as source:
        assert sniff(source.head) == 0.95
        found = list(RedditAdapter(RedditSettings.model_validate(SEEDED)).read(source, Problems()))
    assert found == EXPECTED


def test_a_member_without_a_name_is_none_of_the_files() -> None:
    buffer = io.BytesIO(packed(MINIATURE))
    with zipfile.ZipFile(buffer, "a") as archive:
        archive.writestr(zipfile.ZipInfo(""), "junk")
    with Source.from_bytes(buffer.getvalue(), name="reddit_el.zip") as source:
        adapter = RedditAdapter(RedditSettings.model_validate(SEEDED))
        assert list(adapter.read(source, Problems())) == EXPECTED


def test_what_is_mended_and_what_is_left_out_is_counted_without_stopping() -> None:
    problems = Problems("stop")
    read(MINIATURE, problems)
    assert problems.mended == {MENDED: 2}
    assert problems.counts == {
        "the annotated surface stands nowhere in its text": 1,
        "the annotated comment is not in reddit_el/comments.tsv": 1,
    }
    assert problems.examples == [
        "reddit_el/silver_comment_annotations.tsv, line 3: the annotated surface stands nowhere "
        "in its text",
        "reddit_el/gold_comment_annotations.tsv, line 2: the annotated comment is not in "
        "reddit_el/comments.tsv",
    ]


@pytest.mark.parametrize(
    ("given_start", "found"),
    [(0, 0), (3, 0), (6, 0), (7, 12), (12, 12), (16, 12), (17, 21), (21, 21), (99, 21)],
)
def test_a_surface_is_looked_for_on_both_sides(given_start: int, found: int) -> None:
    files = {**MINIATURE, "silver_comment_annotations.tsv": row("c2", "Mars", "Mars", given_start)}
    places = [
        mention.start
        for r in read(files, tiers=("silver",), texts=("comments",))
        if isinstance(r, Document)
        for mention in r.mentions
    ]
    everywhere = [0, 12, 21]
    assert found == min(everywhere, key=lambda place: abs(place - given_start))
    assert places == [found]


@pytest.mark.parametrize(
    ("written", "title"),
    [
        ("Mars", "Mars"),
        ("mars_(planet)", "Mars (planet)"),
        ("Mars#Moons", "Mars"),
        ("Mars?oldid=7#x", "Mars"),
        ("What's_Up,_Doc?", "What's Up, Doc?"),
        ("Caf%C3%A9_au_lait", "Café au lait"),
        ("100%_Wolf", "100% Wolf"),
        (":Category:Mars__rovers_", "Category:Mars rovers"),
        ("éclair", "Éclair"),
        ("#top", ""),
    ],
)
def test_titles_are_those_of_wikipedia(written: str, title: str) -> None:
    assert wiki_title(written) == title


# -------------------------------------------------------------------------------------- splits
def test_which_tiers_and_texts_are_read_can_be_set() -> None:
    def mentions(**options: tuple[str, ...]) -> set[tuple[str, str]]:
        found = read(MINIATURE, None, None, **options)
        return {
            (m.surface, m.quality) for r in found if isinstance(r, Document) for m in r.mentions
        }

    assert mentions(tiers=("gold",)) == {("Mars", "gold"), ("Venus", "gold")}
    assert mentions(tiers=("silver",), texts=("posts",)) == {
        ("Mars", "silver"),
        ("The Sun", "silver"),
    }
    assert mentions(texts=()) == set()


def test_no_text_stands_in_two_splits_where_that_is_asked_for() -> None:
    found = read(MINIATURE, split="texts", dev_share=1)
    assert [(r.id, r.split, len(r.mentions)) for r in found if isinstance(r, Document)] == [
        ("post/p1", "test", 2),
        ("comment/c1", "test", 1),
        ("comment/c2", "dev", 3),
    ]
    whole = [r.split for r in read(MINIATURE, split="none") if isinstance(r, Document)]
    assert whole == ["", "", ""]


def test_dev_is_drawn_text_by_text() -> None:
    ids = [f"p{number}" for number in range(2000)]
    files = {
        "posts.tsv": "".join(f"{id_}\tspace\tMars\n" for id_ in ids),
        "silver_post_annotations.tsv": "".join(row(id_, "Mars", "Mars", 0) for id_ in ids),
    }

    def dev(files: Files, seed: int) -> set[str]:
        found = read(files, tiers=("silver",), texts=("posts",), seed=seed)
        return {r.id for r in found if isinstance(r, Document) and r.split == "dev"}

    first = dev(files, 1)
    assert 60 <= len(first) <= 140  # a twentieth of 2,000, four deviations wide
    assert dev(files, 1) == first != dev(files, 2)
    half = {name: "\n".join(text.split("\n")[:1000]) + "\n" for name, text in files.items()}
    assert dev(half, 1) == {id_ for id_ in first if int(id_.rpartition("p")[2]) < 1000}


# -------------------------------------------------------------------------------- hostile input
def test_a_bomb_is_stopped() -> None:
    files = {**MINIATURE, "posts.tsv": "p1\tspace\t" + "x\n" * 2_000_000}
    limits = SourceLimits(max_expansion=50, free_expansion=2**18)
    with pytest.raises(SourceError, match=r"posts\.tsv in reddit_el\.zip grows to more than 50"):
        read(files, None, limits)


def test_a_text_without_end_is_cut_and_told() -> None:
    files = {**MINIATURE, "comments.tsv": COMMENTS + "on and on\n" * 2000}
    with pytest.raises(RecordError, match="a text of more than 5,000 characters is cut") as caught:
        read(files, None, LIMITS)
    assert caught.value.where == "reddit_el/comments.tsv, line 6"


def test_a_path_that_leads_out_is_named() -> None:
    with (
        Source.from_bytes(packed(MINIATURE, "a/../../"), name="r.zip") as source,
        pytest.raises(SourceError, match=r"r\.zip holds a path that leads out of it: 'a/\.\./"),
    ):
        list(RedditAdapter(RedditSettings()).read(source, Problems()))


def test_a_colon_in_a_path_leads_nowhere() -> None:
    with Source.from_bytes(packed(MINIATURE, "re:d/"), name="r.zip") as source:
        assert list(RedditAdapter(RedditSettings()).read(source, Problems()))
    with (
        Source.from_bytes(packed(MINIATURE, "C:/"), name="r.zip") as source,
        pytest.raises(SourceError, match="leads out"),
    ):
        list(RedditAdapter(RedditSettings()).read(source, Problems()))


def test_a_damaged_member_is_told_by_name() -> None:
    data = bytearray(packed(MINIATURE))
    place = data.index(b"posts.tsv") + len("posts.tsv") + 10
    data[place] ^= 0xFF
    with (
        Source.from_bytes(bytes(data), name="r.zip") as source,
        pytest.raises(SourceError, match=r"posts\.tsv in r\.zip is damaged"),
    ):
        list(RedditAdapter(RedditSettings()).read(source, Problems()))


def test_other_adapters_still_say_that_they_read_no_archive() -> None:
    with Source.from_bytes(packed({"a.jsonl": "{}"}), name="a.zip") as source:
        for other in (jsonl.sniff_jsonl, jsonl.sniff_documents, zeshel.sniff, blink.sniff):
            assert other(source.head) == 0
        with pytest.raises(SourceError, match=r"a\.zip is packed with zip"):
            list(source.lines(Problems()))
        adapter = jsonl.JsonlAdapter(jsonl.JsonSettings())
        with pytest.raises(SourceError, match=r"a\.zip is packed with zip"):
            list(adapter.read(source, Problems()))


def test_only_this_adapter_takes_the_archive_for_its_own(tmp_path: Path) -> None:
    path = tmp_path / "reddit_el.zip"
    path.write_bytes(packed(MINIATURE))
    with Source.open_path(path) as source, Source.from_bytes(path.read_bytes()) as nameless:
        for head in (source.head, nameless.head):
            assert sniff(head) >= 0.6
            assert tabular.sniff_tsv(head) == tabular.sniff_csv(head) == 0


# --------------------------------------------------------------------------- titles to entities
PAGES = (
    Entity("14640471", "Mars"),
    Entity("32745", "Venus", aliases=(Alias("Venus (planet)", "redirect"),)),
    Entity("19694", "Mars (mythology)", aliases=(Alias("Mars (god)", "redirect"),)),
    Entity("1", "MARS", aliases=(Alias("Mars", "redirect"), Alias("The Sun", "anchor"))),
)


def job(kb: str, **fields: object) -> IngestJob:
    return IngestJob(kb, "test", "test", kb, **fields)  # type: ignore[arg-type]  # chosen below


@pytest.fixture
def store(tmp_path: Path) -> Store:
    store = Store.open(f"sqlite:///{tmp_path / 'store.db'}")
    store.ingest(job("wikipedia"), PAGES)
    return store


def test_golds_are_found_by_title_then_by_redirect(store: Store) -> None:
    with store:
        summary = store.ingest(
            job("reddit", links_to=("wikipedia",), resolve="title"), read(MINIATURE, split="none")
        )
        found = {
            (mention.surface, mention.start): mention.gold
            for document in store.documents("reddit")
            for mention in document.mentions
        }
    mars = (EntityId("wikipedia", "14640471"),)  # its own title, so that MARS' redirect is none
    assert found == {
        ("Mars", 15): mars,
        ("The Sun", 1): None,  # an anchor is no title
        ("Venus", VENUS): (EntityId("wikipedia", "32745"),),
        ("Mars", 0): mars,
        ("mars", 6): (EntityId("wikipedia", "19694"),),
        ("Mars", 12): mars,
    }
    assert summary.gold_unresolved == 2  # The Sun, Mars bar


def test_titles_name_their_kb_where_they_say_it(store: Store) -> None:
    def gold(text: str, *links_to: str) -> tuple[EntityId, ...] | None:
        document = Document("d", "x", (Mention(0, 1, "x", (EntityId("", text),)),))
        settings = {"title": text, "links_to": links_to}
        texts = job("texts", links_to=links_to, settings=settings, resolve="title")
        store.ingest(texts, [document])
        (stored,) = store.documents("texts")
        return stored.mentions[0].gold

    with store:
        store.ingest(job("fan"), [Entity("m", "Mars"), Entity("s", "Star Wars: Mars")])
        fan, wikipedia = EntityId("fan", "m"), EntityId("wikipedia", "14640471")
        assert gold("Mars", "fan", "wikipedia") == (fan, wikipedia)
        assert gold("Mars", "wikipedia") == (wikipedia,)
        assert gold("fan:Mars", "wikipedia") == (fan,)
        assert gold("Star Wars: Mars", "fan") == (EntityId("fan", "s"),)
        assert gold("mars", "wikipedia") is None
        assert gold("x" * 600, "wikipedia") is None


def test_the_command_line_resolves_titles_by_itself(kglink: Kglink, tmp_path: Path) -> None:
    archive, pages = tmp_path / "reddit_el.zip", tmp_path / "pages.jsonl"
    archive.write_bytes(packed(MINIATURE))
    pages.write_text(
        "".join(
            json.dumps(
                {
                    "id": page.key,
                    "title": page.title,
                    "aliases": [{"surface": a.surface, "kind": a.kind} for a in page.aliases],
                }
            )
            + "\n"
            for page in PAGES
        ),
        encoding="utf-8",
    )
    kglink("init", tmp_path)
    kglink("-w", tmp_path, "add-kb", "wikipedia", pages)
    add = ("-w", tmp_path, "add-kb", "reddit", archive, "--links-to", "wikipedia")
    summary = json.loads(kglink(*add, "--json").out)
    assert (summary["adapter"], summary["mentions"]) == ("kglink/reddit", 6)
    assert summary["gold_unresolved"] == 2
    assert summary["mended"] == {MENDED: 2}
    assert sum(summary["skipped"].values()) == 2
    told = kglink(*add).err
    assert "mended     2 x offsets beside their surface" in told
    assert "1 x the annotated surface stands nowhere in its text" in told


# ---------------------------------------------------------------------------------------- fuzz
cells = st.sampled_from(
    ["p1", "c1", "t1_a", "space", "Mars", "0", "7", "999999999", "", '"', "é😀"]
)
tables = st.lists(st.lists(cells, max_size=8).map("\t".join), max_size=6).map("\n".join)


@settings(max_examples=60, deadline=None, derandomize=True, database=None)
@given(
    more=st.dictionaries(st.sampled_from(sorted(MINIATURE)), tables),
    seed=st.none() | st.integers(0),
)
@example(more={}, seed=None)
def test_arbitrary_files(more: Files, seed: int | None) -> None:
    files = {name: text + more.get(name, "") for name, text in MINIATURE.items()}
    data = packed(files)
    if seed is not None:
        data = damaged(data, seed)
    assert 0 <= sniff(SourceHead("x.zip", data, None)) <= 1
    for problems in (Problems("stop"), Problems("skip")):
        adapter = RedditAdapter(RedditSettings())
        try:
            with Source.from_bytes(data, name="x.zip", limits=LIMITS) as source:
                found = list(adapter.read(source, problems))
        except KglinkError:
            continue
        for record in found:
            assert isinstance(record, Document)
            check_document(record)
