"""Makes a `Document` of a JSON record: a text with a list of mentions, or with just one."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Literal, NamedTuple

from kglink.plugins import PluginSettings
from kglink.records import Document, EntityId, Mention, Split
from kglink.sources import Problems, Source
from kglink_kbs.spellings import ANSWER, DOCUMENT, LISTED_MENTION, SINGLE_MENTION, Shapes, value_at
from kglink_kbs.texts.plain import joined_parts
from kglink_kbs.values import (
    BadValue,
    described,
    exact_text,
    good_ones,
    key_text,
    listed,
    one_line,
    shortened,
    type_text,
    whole_number,
)

Unit = Literal["characters", "utf16", "bytes"]


def character_offsets(text: str, offsets: Iterable[int], unit: Unit) -> Mapping[int, int]:
    """Character offsets by offset; those that do not fit ``text`` are left out."""
    wanted = sorted({offset for offset in offsets if offset >= 0})
    if unit == "characters":
        return {offset: offset for offset in wanted if offset <= len(text)}
    encoding, width = ("utf-8", 1) if unit == "bytes" else ("utf-16-le", 2)
    data = text.encode(encoding)
    found: dict[int, int] = {}
    done = characters = 0
    for offset in wanted:
        if offset * width > len(data):
            break
        try:
            characters += len(data[done * width : offset * width].decode(encoding))
        except UnicodeDecodeError:  # it cuts a character in two
            continue
        done = offset
        found[offset] = characters
    return found


class ToldSpan(NamedTuple):
    """A span of a text in an unknown unit, and the words that a file says are there."""

    text: str
    start: int
    end: int
    words: str


def best_unit(spans: Sequence[ToldSpan], units: Sequence[Unit]) -> Unit:
    """The unit in which most spans stand where their words do; the first of equals."""
    offsets: dict[str, set[int]] = {}
    for one in spans:
        offsets.setdefault(one.text, set()).update((one.start, one.end))

    def fitting(unit: Unit) -> int:
        found = {text: character_offsets(text, of_text, unit) for text, of_text in offsets.items()}
        fits = 0
        for one in spans:
            first, last = (found[one.text].get(at, -1) for at in (one.start, one.end))
            fits += 0 <= first < last and same_words(one.words, one.text[first:last])
        return fits

    return max(units, key=fitting)


def in_order(mentions: Iterable[Mention]) -> tuple[Mention, ...]:
    """Mentions as they stand in the text."""
    return tuple(sorted(mentions, key=lambda one: (one.start, one.end)))


def same_words(words: str, surface: str) -> bool:
    """Whether words are those of a surface, whatever white space stands between them."""
    if words == surface:
        return True
    like = len(surface) < 2 * len(words) + 100  # else the splitting of long ones takes for ever
    return like and words.split() == surface.split()


#: A longer mention is refused where the file does not say its words.
_LONGEST_UNSAID = 32_768


def checked_span(
    text: str,
    offsets: Mapping[int, int],
    span: tuple[int, int],
    said: object,
    hint: str,
    fits: Callable[[str, str], bool] = str.__eq__,
) -> tuple[int, int, str]:
    """Where a span of a file's offsets lies in the text, and the surface there.

    ``offsets`` are those of `character_offsets`. The surface must fit the words that are ``said``
    to stand there, unless that is None; ``hint`` says what offsets count.
    """
    start, end = (offsets.get(offset, -1) for offset in span)
    place = f"{span[0]}..{span[1]}"
    if not 0 <= start < end:
        size = f"The text has {len(text):,} characters."
        raise BadValue(f"the span {place} does not lie in the text", f"{size} {hint}")
    if said is None and end - start > _LONGEST_UNSAID:  # many of them would copy the text so often
        raise BadValue(
            f"a mention of {end - start:,} characters, and {_LONGEST_UNSAID:,} are the most",
            "A mention is a name or a few words.",
        )
    longest = 2 * len(said) + 100 if isinstance(said, str) else _LONGEST_UNSAID
    surface = text[start : min(end, start + longest)]
    if said is not None and not (isinstance(said, str) and fits(said, surface)):
        given = shortened(said) if isinstance(said, str) else described(said)
        raise BadValue(
            f"the surface does not stand at its offsets: {given} is given, {shortened(surface)} "
            f"stands at {place}",
            hint,
        )
    return start, end, surface


GoldIds = Literal["auto", "key", "kb:key"]
Gold = tuple[EntityId, ...] | None

_NIL = frozenset({"NIL", "--NME--"})
#: A prefix that may be the name of a KB; that of DOID:7608 may not, nor that of an address.
_KB_PREFIX = re.compile(r"[a-z0-9][a-z0-9_-]*:(?!//)(?=.)", re.DOTALL)
_KEY_NAMES = ("key", "id", "entity_id")
_KB_NAMES = ("kb", "ontology", "db_name")


class GoldReader:
    """Reads gold values; ``ids`` says whether an id names its KB."""

    def __init__(self, ids: GoldIds) -> None:
        self._ids = ids

    def of_mention(self, values: Mapping[str, object], *, exact: bool) -> Gold:
        """The gold of a mention's values by field.

        The mention's ``kb`` completes every id that names no KB itself; with ``exact`` the
        gold is a bare key of that KB.
        """
        if values.get("nil") is True:
            return ()
        value, kb = values.get("gold"), one_line(values.get("kb"), "kb")
        if value is None or not kb:
            return self.parse(value)
        if exact:
            return tuple(dict.fromkeys(self._of_kb(kb, value)))
        return tuple(id_ if id_.kb else EntityId(kb, id_.key) for id_ in self.parse(value) or ())

    def parse(self, value: object) -> Gold:
        """None for null, () for an empty list or object or for NIL, else the set of ids."""
        if value is None:
            return None
        items = value if isinstance(value, list) else [value]
        return tuple(dict.fromkeys(id_ for item in items for id_ in self._of_item(item)))

    def _of_object(self, value: Mapping[str, object]) -> Iterator[EntityId]:
        """``{"kb": ..., "key": ...}``, or ids by KB: ``{"doid": ["DOID:7608"]}``."""
        key = next((value[name] for name in _KEY_NAMES if name in value), None)
        if key is None:
            for name, ids in value.items():
                yield from self._of_kb(one_line(name, "the KB of a gold"), ids)
            return
        kb = one_line(next((value[name] for name in _KB_NAMES if name in value), None), "kb")
        yield from self._of_kb(kb, key) if kb else self._of_item(key)

    def _of_kb(self, kb: str, ids: object) -> Iterator[EntityId]:
        for item in ids if isinstance(ids, list) else [ids]:
            if isinstance(item, dict):
                yield from self._of_object(item)
            elif item is not None:
                yield EntityId(kb, _key(item))

    def _of_item(self, item: object) -> Iterator[EntityId]:
        if isinstance(item, dict):
            yield from self._of_object(item)
            return
        key = _key(item)
        if key in _NIL:
            return
        prefixed = bool(_KB_PREFIX.match(key))
        if self._ids == "kb:key" and not prefixed:
            raise BadValue(
                f"the gold {key!r} names no KB", "Write kb:key, or leave --set gold_ids=auto."
            )
        named = prefixed and self._ids != "key"
        yield EntityId.parse(key) if named else EntityId("", key)


def _key(value: object) -> str:
    if value is None or isinstance(value, (bool, list, dict)):
        raise BadValue(f"a gold is {described(value)}, not an id")
    key = key_text(value, "a gold")
    if not key:
        raise BadValue(
            "a gold is an empty text",
            "Write null where nobody said what is meant, [] where no entity is (NIL).",
        )
    return key


Form = Literal["listed", "single", "contexts", "bare", ""]

_SPLITS: Mapping[str, Split] = {
    **dict.fromkeys(("", "all", "none"), ""),
    **dict.fromkeys(("train", "training"), "train"),
    **dict.fromkeys(("dev", "devel", "development", "valid", "val", "validation"), "dev"),
    **dict.fromkeys(("test", "testing"), "test"),
}


class DocumentFields(PluginSettings):
    """How annotated texts are read; every field is guessed from its name unless set."""

    text: str = ""
    """Field with a document's text, or several whose texts follow each other: `title,abstract`;
    guessed if empty."""
    mentions: str = ""
    """Field with a document's mentions; guessed if empty."""
    gold: str = ""
    """Field of a mention with its gold (`label_title`); guessed if empty."""
    gold_ids: GoldIds = "auto"
    """How golds are written: `key`, `kb:key`, or `auto`: as `kb:key` if the part before the colon
    could be the name of a KB (lower case, no address)."""
    offsets: Unit = "characters"
    """What offsets count: `characters`, `utf16` units or `bytes`."""
    join: str = " "
    """Put between context_left, mention and context_right where neither side has white space
    there."""


class DocumentMaker:
    """Makes documents of JSON records."""

    def __init__(self, settings: DocumentFields, chosen: Mapping[str, str]) -> None:
        names = {
            "id": chosen.get("key", ""),
            "title": chosen.get("title", ""),
            "text": "" if "," in settings.text else settings.text,
            "mentions": settings.mentions,
        }
        self._parts = listed(settings.text)
        gold = {"gold": settings.gold}
        self._settings = settings
        self._gold = GoldReader(settings.gold_ids)
        self._shapes = Shapes(DOCUMENT, names)
        self._listed = Shapes(LISTED_MENTION, gold)
        self._answered = Shapes(ANSWER, gold)
        self._single = Shapes(SINGLE_MENTION, gold)

    def form(self, record: Mapping[str, Any]) -> Form:
        """Which form of a document ``record`` has, if any."""
        if len(self._parts) > 1:
            return "bare" if any(map(partial(_field, record), self._parts)) else ""
        fields = self._shapes.fields(record)
        if fields.keys() >= {"left", "mention", "right"}:
            return "contexts"
        if "text" not in fields:
            return ""
        if "mentions" in fields:  # an entity may count its mentions
            mentions = value_at(record, fields["mentions"])
            if mentions is None or isinstance(mentions, list):
                return "listed"
        if fields.keys() >= {"start", "end"}:
            return "single"
        return "bare"

    def make(
        self, record: Mapping[str, Any], source: Source, line: int, problems: Problems
    ) -> Document | None:
        """The document of the ``record`` on a line; its bad mentions go to ``problems``.

        None if all mentions of the record are bad. One without an id is named after its line.
        """
        form, values = self.form(record), self._shapes.values(record)
        found: list[Mention] = []
        meta: dict[str, object] = {}
        if len(self._parts) > 1:
            fields = ((name, exact_text(_field(record, name) or "", name)) for name in self._parts)
            text, parts = joined_parts(fields)
            meta = {"format": "jsonl", "parts": parts}
        elif form == "contexts":
            text, mention = self._of_contexts(values, record)
            found.append(mention)
        else:
            text = exact_text(values.get("text"), "text")
            listed = values.get("mentions") or [] if form == "listed" else []
            if form == "single":
                found.append(self._placed(text, record, self._single))
            elif isinstance(listed, list):
                place = source.where(line)
                found.extend(self._mentions(text, listed, place, problems, self._listed))
                if listed and not found:
                    return None
        split = one_line(values.get("split"), "split").lower()
        if split not in _SPLITS:
            raise BadValue(f"the split {split!r} is none of train, dev and test")
        return Document(
            id=key_text(values.get("id"), "id") or f"{source.label}:{line}",
            text=text,
            mentions=in_order(found),
            title=one_line(values.get("title"), "title"),
            split=_SPLITS[split],
            meta=meta,
        )

    def is_answer(self, record: Mapping[str, Any]) -> bool:
        """Whether a record holds only answers: an id and mentions, but no text."""
        fields = self._shapes.fields(record)
        mentions = "mentions" in fields and value_at(record, fields["mentions"])
        return (
            fields.keys() & {"id", "text", "title"} == {"id"}
            and isinstance(mentions, list)
            and all(isinstance(one, dict) for one in mentions)
        )

    def answer(
        self, record: Mapping[str, Any], texts: Mapping[str, str], *, place: str, problems: Problems
    ) -> Document:
        """A tool's answers to one of the ``texts``, which the record may leave out."""
        values = self._shapes.values(record)
        id_, listed = key_text(values.get("id"), "id"), values.get("mentions")
        if not id_:
            raise BadValue("no id", _ANSWERS)
        if not isinstance(listed, list):
            raise BadValue("no list of mentions", _ANSWERS)
        if values.get("text") is None and id_ not in texts:
            raise BadValue(f"no evaluated document has the id {shortened(id_)}", _ANSWERS)
        for item in listed:
            value = item.get("confidence") if isinstance(item, dict) else None
            if value is not None and _confidence(value) is None:
                raise BadValue(
                    f"the confidence {value!r} is no number from 0 to 1",
                    "Leave it out where there is none.",
                )
        text = texts[id_] if values.get("text") is None else exact_text(values["text"], "text")
        return Document(
            id_, text, tuple(self._mentions(text, listed, place, problems, self._answered))
        )

    def _of_contexts(
        self, values: Mapping[str, object], record: Mapping[str, object]
    ) -> tuple[str, Mention]:
        left = exact_text(values["left"] or "", "context_left")
        surface = exact_text(values["mention"], "mention")
        right = exact_text(values["right"] or "", "context_right")
        if not surface:
            raise BadValue("mention is empty")
        begin = left + self._joint(left, surface)
        end = self._joint(surface, right) + right
        mention = self._annotated(
            len(begin), len(begin) + len(surface), surface, record, self._single
        )
        return begin + surface + end, mention

    def _joint(self, left: str, right: str) -> str:
        if not left or not right or left[-1].isspace() or right[0].isspace():
            return ""
        return self._settings.join

    def _mentions(
        self, text: str, listed: list[object], place: str, problems: Problems, shapes: Shapes
    ) -> Iterator[Mention]:
        ends = set[int]()
        for item in listed:
            with suppress(BadValue):  # it is told below
                ends.update(_span(shapes.values(_object(item))))
        offsets = character_offsets(text, ends, self._settings.offsets)
        return good_ones(
            ((f"{place}, mention {number}", item) for number, item in enumerate(listed, 1)),
            lambda item: self._placed(text, _object(item), shapes, offsets),
            problems,
        )

    def _placed(
        self,
        text: str,
        record: Mapping[str, object],
        shapes: Shapes,
        offsets: Mapping[int, int] | None = None,
    ) -> Mention:
        """The mention of ``record``, once its span and its surface have been checked."""
        values = shapes.values(record)
        span = _span(values)
        if offsets is None:
            offsets = character_offsets(text, span, self._settings.offsets)
        hint = (
            f"Offsets are half-open and count {self._settings.offsets} from 0; --set offsets=utf16 "
            "or bytes where another program counted them so."
        )
        place = checked_span(text, offsets, span, values.get("surface"), hint)
        return self._annotated(*place, record, shapes)

    def _annotated(
        self, start: int, end: int, surface: str, record: Mapping[str, object], shapes: Shapes
    ) -> Mention:
        values = shapes.values(record)
        exact = shapes.fields(record).get("gold") != ("gold",)
        return Mention(
            start=start,
            end=end,
            surface=surface,
            gold=self._gold.of_mention(values, exact=exact),
            type=type_text(values.get("type"), "type"),
            quality=one_line(values.get("quality"), "quality"),
            confidence=_confidence(values.get("confidence")),
            cluster=cluster if isinstance(cluster := values.get("cluster"), str) else "",
        )


#: How answers are written.
_ANSWERS = (
    "A line for each document, as `kglink link --format jsonl` writes them: "
    '{"id", "text", "entities": [{"start", "end", "kb", "key", "confidence"}]}; kb and key null: '
    "no entity. Predict the documents of --docs and --split under their own ids."
)


def _confidence(value: object) -> float | None:
    """A number from 0 to 1; of anything else None."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and 0 <= value <= 1 else None  # type: ignore[operator, arg-type]  # a number


def _object(item: object) -> dict[str, Any]:
    if not isinstance(item, dict):
        raise BadValue(f"a mention is {described(item)}, not an object")
    return item


def _field(record: Mapping[str, object], name: str) -> object:
    """The value of a field, or at a dotted path."""
    return record[name] if name in record else value_at(record, tuple(name.split(".")))


def _span(values: Mapping[str, object]) -> tuple[int, int]:
    if "start" not in values or not values.keys() & {"end", "length"}:
        raise BadValue("a mention without start and end")
    start = whole_number(values["start"], "start")
    if "end" in values:
        return start, whole_number(values["end"], "end")
    return start, start + whole_number(values["length"], "length")
