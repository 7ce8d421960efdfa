"""The Reddit entity linking dataset (Botzer et al. 2021): posts, comments, annotations by tier."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from hashlib import blake2b
from pathlib import PurePosixPath
from typing import Literal, NamedTuple
from urllib.parse import unquote

from pydantic import Field

from kglink.errors import RecordError, SourceError
from kglink.plugins import PluginSettings
from kglink.records import Document, EntityId, Mention, Record, Split
from kglink.sources import Line, Problems, Source, SourceHead
from kglink_kbs.archives import archive_names, opened_files
from kglink_kbs.values import BadValue, good_ones, shortened

Tier = Literal["gold", "silver", "bronze"]
Kind = Literal["post", "comment"]

#: How a physical line looks that begins a record; any other goes on with the text above it.
_BEGINS: dict[Kind, re.Pattern[str]] = {
    "post": re.compile(r"([0-9a-z]{1,12})\t[\w-]{1,50}\t(.*)", re.DOTALL),
    "comment": re.compile(
        r"([0-9a-z]{1,12})\tt\d_[0-9a-z]{1,12}\t[^\t]*\t[\w-]{1,50}\t(.*)", re.DOTALL
    ),
}
_COLUMNS = 7
_NUMBER = re.compile(r"[0-9]{1,9}")
_ID = re.compile(r"[0-9a-z]{1,12}")
#: A question mark alone may end a title (What's Up, Doc?); a query names something.
_QUERY = re.compile(r"\?\w+=.*", re.DOTALL)
_ENCODED = re.compile(r"%[0-9A-Fa-f]{2}")


class Annotation(NamedTuple):
    """A row of an annotation file; ``place`` is its own for messages."""

    place: str
    tier: Tier
    id: str
    surface: str
    title: str
    start: int
    end: int


def read_texts(source: Source, kind: Kind, problems: Problems) -> Iterator[tuple[str, str]]:
    """Id and text of each record of ``posts.tsv`` or ``comments.tsv``, its line breaks kept."""
    limit = source.limits.max_line_bytes
    id_, pieces, first, size = "", list[str](), 0, 0
    for number, line in source.lines(problems):
        if begun := _BEGINS[kind].fullmatch(line):
            if id_:
                yield id_, "\n".join(pieces).strip()
            id_, pieces, first, size = begun[1], [begun[2]], number, len(begun[2])
        elif id_ and size <= limit:
            pieces.append(line)
            size += len(line) + 1
            if size > limit:
                reason = f"a text of more than {limit:,} characters is cut"
                problems.refuse(reason, source.where(first))
        elif not id_ and line.strip():
            reason = f"not the beginning of a {kind}: {shortened(line)}"
            problems.refuse(reason, source.where(number), _HINTS[kind])
    if id_:
        yield id_, "\n".join(pieces).strip()


_HINTS: dict[Kind, str] = {
    "post": "A post is its id, subreddit and text, separated by tabs.",
    "comment": "A comment is its id, its full name (t1_...), a reference, subreddit and text, "
    "separated by tabs.",
}


def _annotation(source: Source, tier: Tier, line: Line) -> Annotation:
    columns = line.text.split("\t")
    if len(columns) != _COLUMNS:
        raise BadValue(
            f"found {len(columns)} columns, an annotation has {_COLUMNS}",
            "They are id, subreddit, surface, Wikipedia title, start, end, normalised surface.",
        )
    id_, _, surface, title, start, end, _ = columns
    if not _ID.fullmatch(id_):
        raise BadValue(f"{shortened(id_)} is no id of a post or comment")
    if not surface.strip():
        raise BadValue("an empty surface")
    for number in (start, end):
        if not _NUMBER.fullmatch(number):
            raise BadValue(f"the offset {shortened(number)} is no whole number from 0 on")
    name = wiki_title(title)
    if not name:
        raise BadValue(f"no Wikipedia title: {shortened(title)}")
    return Annotation(source.where(line.number), tier, id_, surface, name, int(start), int(end))


def wiki_title(text: str) -> str:
    """A page's title as Wikipedia has it: no fragment, query, underscore or percent code."""
    title = _QUERY.sub("", text.partition("#")[0])
    if _ENCODED.search(title):  # no title may hold such a code
        title = unquote(title)
    title = " ".join(title.replace("_", " ").split()).lstrip(":").lstrip()
    return title[:1].upper() + title[1:]


#: Best first: of two annotations of one place the better one counts.
TIERS: tuple[Tier, ...] = ("gold", "silver", "bronze")
_KINDS: Mapping[str, Kind] = {"posts": "post", "comments": "comment"}
#: How far on each side a surface is looked for that does not stand at its offsets; no text of
#: Reddit is longer.
_REACH = 40_000
MENDED = "offsets beside their surface, moved to the nearest place where it stands"


class RedditSettings(PluginSettings):
    """Settings of ``kglink/reddit``."""

    tiers: tuple[Tier, ...] = TIERS
    """Which annotations to read; a mention's tier is its quality."""
    texts: tuple[Literal["posts", "comments"], ...] = ("posts", "comments")
    """Which texts to read."""
    split: Literal["tiers", "texts", "none"] = "tiers"
    """`tiers`: gold annotations are test, the others train and dev, and a text with both is two
    documents; `texts`: a text with any gold is test as a whole, and no text stands in two splits;
    `none`: no split."""
    dev_share: float = Field(0.05, ge=0, le=1)
    """Share of dev in the texts that are not test."""
    seed: int = 1
    """Seed of the choice of dev texts."""


class RedditAdapter:
    """Reads the texts that are annotated, from the zip archive or the folder it unpacks to."""

    #: The golds are titles of Wikipedia pages.
    resolve: Literal["title"] = "title"

    def __init__(self, settings: RedditSettings) -> None:
        self._settings = settings

    def read(self, source: Source, problems: Problems) -> Iterator[Record]:
        """Yield the annotated posts, then the annotated comments, in the order of their files."""
        with opened_files(source) as found:
            files = _by_name(source, found)
            kinds = {texts: _KINDS[texts] for texts in self._settings.texts}
            named = "{}_{}_annotations.tsv".format
            annotated = [named(tier, k) for k in kinds.values() for tier in self._settings.tiers]
            for name in (*(f"{texts}.tsv" for texts in kinds), *annotated):
                if name not in files:
                    raise SourceError(
                        f"{source.label} holds no {name}",
                        hint="--set tiers=gold,silver and --set texts=posts say what is to be "
                        "read.",
                    )
            for texts, kind in kinds.items():
                of_tiers = {tier: files[named(tier, kind)] for tier in self._settings.tiers}
                yield from self._documents(kind, files[f"{texts}.tsv"], of_tiers, problems)

    def _documents(
        self, kind: Kind, texts: Source, files: Mapping[Tier, Source], problems: Problems
    ) -> Iterator[Document]:
        waiting: defaultdict[str, list[Annotation]] = defaultdict(list)
        for tier, file in files.items():
            if not file.bytes_total:
                continue
            lines = (line for line in file.lines(problems) if line.text.strip())
            places = ((file.where(line.number), line) for line in lines)
            for annotation in good_ones(places, partial(_annotation, file, tier), problems):
                waiting[annotation.id].append(annotation)
        for id_, text in read_texts(texts, kind, problems):
            if found := waiting.pop(id_, None):
                yield from self._split(f"{kind}/{id_}", text, _mentions(text, found, problems))
        for missing in waiting.values():
            for annotation in missing:
                reason = f"the annotated {kind} is not in {texts.label}"
                problems.leave_out(RecordError(reason, where=annotation.place))

    # ------------------------------------------------------------------------------ splits
    def _split(self, name: str, text: str, mentions: list[Mention]) -> Iterator[Document]:
        """The documents that a text makes: one, or two where its tiers go apart."""
        gold = [mention for mention in mentions if mention.quality == "gold"]
        how = self._settings.split
        if how == "tiers":
            other = [mention for mention in mentions if mention.quality != "gold"]
            parts: list[tuple[str, list[Mention], Split]] = [
                (f"gold/{name}", gold, "test"),
                (f"other/{name}", other, self._drawn(name)),
            ]
        elif how == "texts":
            parts = [(name, mentions, "test" if gold else self._drawn(name))]
        else:
            parts = [(name, mentions, "")]
        for id_, chosen, split in parts:
            if chosen:
                yield Document(id_, text, tuple(chosen), split=split)

    def _drawn(self, name: str) -> Split:
        """Train or dev: drawn for each text by itself, so that others cannot move it."""
        drawn = blake2b(f"{self._settings.seed}:{name}".encode(), digest_size=8).digest()
        share = int.from_bytes(drawn, "big") / 2**64
        return "dev" if share < self._settings.dev_share else "train"


def _by_name(source: Source, found: Mapping[str, Source]) -> dict[str, Source]:
    """The files by their last names: the archive may hold them in a folder."""
    files: dict[str, Source] = {}
    for path, file in found.items():
        name = PurePosixPath(path).name
        for suffix in (".gz", ".bz2", ".zst", ".xz"):
            name = name.removesuffix(suffix)
        if name in files and name.endswith(".tsv"):
            raise SourceError(
                f"{source.label} holds two files {name}: {files[name].name} and {path}",
                hint="Name a folder with one release in it.",
            )
        files[name] = file
    return files


# ---------------------------------------------------------------------------------- mentions
def _mentions(text: str, found: Iterable[Annotation], problems: Problems) -> list[Mention]:
    """The mentions of a text; of one place, the best tier's, with all titles that it names."""
    places: dict[tuple[int, int], tuple[Tier, dict[str, None]]] = {}
    for annotation in sorted(found, key=lambda item: TIERS.index(item.tier)):
        start = _start(text, annotation)
        if start is None:
            reason = "the annotated surface stands nowhere in its text"
            problems.leave_out(RecordError(reason, where=annotation.place))
            continue
        place = (start, start + len(annotation.surface))
        if place != (annotation.start, annotation.end):
            problems.mend(MENDED)
        tier, titles = places.setdefault(place, (annotation.tier, {}))
        if tier == annotation.tier:
            titles[annotation.title] = None
    return [
        Mention(
            *(start, end, text[start:end]),
            tuple(EntityId("", title) for title in titles),
            quality=tier,
        )
        for (start, end), (tier, titles) in sorted(places.items())
    ]


def _start(text: str, annotation: Annotation) -> int | None:
    """Where the surface stands: at its offset, else at the place nearest to that."""
    surface, start = annotation.surface, annotation.start
    if text.startswith(surface, start) and annotation.end == start + len(surface):
        return start
    before = text.rfind(surface, max(0, start - _REACH), start + len(surface))
    behind = text.find(surface, start, start + _REACH)
    places = [place for place in (before, behind) if place >= 0]
    return min(places, key=lambda place: abs(place - start), default=None)


# ---------------------------------------------------------------------------------- sniffing
def sniff(head: SourceHead) -> float:
    """Sure of a folder or archive with annotation files of a tier."""
    names = {PurePosixPath(name).name for name in archive_names(head)}
    sure = {f"{tier}_{kind}_annotations.tsv" for tier in TIERS for kind in _KINDS.values()}
    if names & sure:
        return 0.95
    return 0.6 if names & {"posts.tsv", "comments.tsv"} else 0.0
