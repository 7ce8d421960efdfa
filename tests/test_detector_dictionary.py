"""The dictionary detector: borders, offsets, the guard, overlaps, the cache, and a plain twin."""

from __future__ import annotations

import errno
import hashlib
import threading
import unicodedata
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import ValidationError

from kglink.errors import StoreError
from kglink.protocols import NameRow
from kglink.records import Span
from kglink.testing import DetectorContract
from kglink.text.fold import Folded, fold, fold_with_map
from kglink.text.scripts import is_unspaced
from kglink_plugins.detectors.dictionary import DictionarySettings, dictionary_detector
from kglink_plugins.detectors.lexicon import cache
from kglink_plugins.detectors.lexicon.compiled import compile_lexicon, guard_of
from kglink_plugins.detectors.lexicon.finder import DictionaryDetector, Match, without_overlaps
from kglink_plugins.detectors.lexicon.guard import among_capitals, begins_sentence, in_context


class Names:
    """Aliases as a linker hands them over; counts by surface where they matter."""

    def __init__(
        self,
        surfaces: Sequence[str],
        cache_dir: Path | None = None,
        counts: dict[str, int] | None = None,
    ) -> None:
        self._surfaces = surfaces
        self._counts = counts or {}
        self.cache_dir = cache_dir
        self.fingerprint = hashlib.sha256(repr(surfaces).encode()).hexdigest()
        self.reads = 0

    def __iter__(self) -> Iterator[NameRow]:
        self.reads += 1
        for surface in self._surfaces:
            yield NameRow(surface, fold(surface), "kb", self._counts.get(surface, 1))

    def __len__(self) -> int:
        return len(self._surfaces)


def found(text: str, *surfaces: str, **settings: object) -> list[str]:
    detector = dictionary_detector(DictionarySettings.model_validate(settings), Names(surfaces))
    return [text[span.start : span.end] for span in detector.detect(text)]


def score(text: str, *surfaces: str, **settings: object) -> float:
    detector = dictionary_detector(DictionarySettings.model_validate(settings), Names(surfaces))
    (span,) = detector.detect(text)
    return span.score


class TestContract(DetectorContract):
    plugin = "kglink/dictionary"
    finds = (
        ("Ada met Bob at Lantern Bay.", ["Ada", "Bob", "Lantern Bay"]),
        ("STRASSE und Zoe", ["STRASSE", "Zoe"]),
    )


# ----------------------------------------------------------------------- borders and offsets
@pytest.mark.parametrize(
    ("text", "surface", "spans"),
    [
        ("lung cancer", "lung cancer", [(0, 11)]),
        ("(Lung-\r\n\tCancer)", "lung cancer", [(1, 15)]),
        ("ＬＵＮＧ　cancer", "lung cancer", [(0, 11)]),
        ("precancer cancers cancer2 cancer_x", "cancer", [(26, 32)]),
        ("👩\u200d🔬cancer👍🏽", "cancer", [(3, 9)]),
        ("e\u0301tude, cafe\u0301.", "café", [(8, 13)]),
        ("cafe\u0301s", "café", []),
        ("İZMİR izmir Izmir", "İzmir", [(0, 5), (6, 11), (12, 17)]),
        ("Straße STRASSE", "strasse", [(0, 6), (7, 14)]),
        ("مُحَمَّد في القاهرة", "محمد", [(0, 8)]),
        ("والقاهرة", "القاهرة", []),
        ("東京都に行く", "東京", [(0, 2)]),
        ("ﾄｳｷｮｳﾀﾜｰ", "トウキョウ", [(0, 5)]),
        ("서울에서 남서울", "서울", [(0, 2)]),
        ("नमस्ते दुनिया", "दुनिया", [(7, 13)]),
        ("एक दुनियाँ", "दुनिया", []),
        ("C++, C#, C", "C#", [(5, 7)]),
        ("Use .NET at Yahoo! now", "Yahoo!", [(12, 18)]),
        ("Use .NET.", ".NET", [(4, 8)]),
        ("in the U.S. today", "U.S.", [(7, 11)]),
        ("'Ada'", "Ada", [(1, 4)]),
        ("a\ud83dAda", "Ada", [(2, 5)]),
        ("½ cup of tea", "1 2 cup", [(0, 5)]),
        ("I.L.-2", "il 2", []),
    ],
)
def test_spans_are_exact(text: str, surface: str, spans: list[tuple[int, int]]) -> None:
    detector = dictionary_detector(DictionarySettings(), Names([surface]))
    assert [(span.start, span.end) for span in detector.detect(text)] == spans


def test_a_single_letter_is_not_found_in_a_longer_sign() -> None:
    assert found("C, C++ and C#", "C", min_chars=1) == ["C"]
    assert found("C, C++ and C#", "C", "C++", "C#", min_chars=1) == ["C", "C++", "C#"]


def test_what_is_compiled() -> None:
    text = "x 12 ab 3.5% " + "long " * 3
    assert found(text, "x", "12", "ab", "3.5%", "long long long") == ["ab", "long long long"]
    assert found(text, "x", "12", "3.5%", numbers=True, min_chars=1) == ["x", "12", "3.5%"]
    assert found(text, "long long long", max_chars=13) == []
    assert found(text, "long long long", max_chars=14) == ["long long long"]
    assert found("!!! ...", "!!!", "...") == []


def test_no_names_no_spans() -> None:
    assert found("Ada") == []
    assert found("", "Ada") == []


# --------------------------------------------------------------------------------- overlaps
@pytest.mark.parametrize(
    ("text", "surfaces", "expected"),
    [
        (
            "non small cell lung cancer",
            ["lung cancer", "cell", "small cell lung"],
            ["small cell lung"],
        ),
        ("new york city hall", ["new york", "york city", "city hall"], ["york city"]),
        ("new york town hall", ["new york", "york town", "town hall"], ["york town"]),
        ("aa bb cc dd", ["aa bb", "bb cc", "cc dd"], ["aa bb", "cc dd"]),
        ("東京都庁", ["東京", "京都", "都庁"], ["東京", "都庁"]),
        ("日本国中", ["日本国", "国中"], ["日本国"]),
    ],
)
def test_longest_then_leftmost(text: str, surfaces: list[str], expected: list[str]) -> None:
    assert found(text, *surfaces) == expected


def test_the_more_frequent_stays_where_lengths_are_equal() -> None:
    names = Names(["aa bb", "bb cc", "cc dd"], counts={"bb cc": 9})
    (span,) = dictionary_detector(DictionarySettings(), names).detect("aa bb cc dd")
    assert (span.start, span.end) == (3, 8)


def test_without_overlaps_compares_size_then_frequency_then_place() -> None:
    first, second, third = Match(0, 5, 5, 1, 1.0), Match(3, 8, 5, 2, 1.0), Match(8, 9, 1, 1, 1.0)
    assert without_overlaps([third, second, first]) == [second, third]
    assert without_overlaps([first, third._replace(start=5, end=6)]) == [
        first,
        third._replace(start=5, end=6),
    ]
    longer = Match(4, 9, 6, 1, 1.0)
    assert without_overlaps([first, second, longer, third]) == [longer]
    assert without_overlaps([]) == []


# -------------------------------------------------------------------------------- the guard
@pytest.mark.parametrize(
    ("text", "surfaces", "expected"),
    [
        # Function words: only as written, not where a sentence or a line in capitals makes them so.
        ("It is what it is, and IT it is.", ["It", "IT"], ["IT"]),
        ("They read It aloud.", ["It"], ["It"]),
        ("the us and the US", ["US", "us"], ["US"]),
        ("LET US ALL HOPE", ["US"], []),
        ("May I come in May?", ["May"], ["May"]),
        ("It ended. May came.\n\nMay went. «May»", ["May"], []),
        ("The Who played the who.", ["The Who"], ["The Who"]),
        ("It is late. It Is late", ["It Is"], ["It Is"]),
        # Acronyms of up to four letters need capitals.
        ("AIDS aids Aids", ["AIDS"], ["AIDS"]),
        ("AIDS aids", ["AIDS", "Aids"], ["AIDS", "aids"]),
        ("NASDAQ nasdaq", ["NASDAQ"], ["NASDAQ", "nasdaq"]),
        # Common words need a capital unless a name has none.
        ("We saw light, and Light saw us.", ["Light"], ["Light"]),
        ("We saw light.", ["Light", "light"], ["light"]),
        ("We saw bright light.", ["Bright Light"], ["bright light"]),
        # Any other word.
        ("carcinoma Carcinoma CARCINOMA", ["Carcinoma"], ["carcinoma", "Carcinoma", "CARCINOMA"]),
    ],
)
def test_smart_case(text: str, surfaces: list[str], expected: list[str]) -> None:
    assert found(text, *surfaces) == expected


def test_never_looks_at_case_and_refuses_function_words() -> None:
    assert found("IT aids Light light", "IT", "AIDS", "Light", match_case="never") == [
        "aids",
        "Light",
        "light",
    ]


def test_always_wants_the_same_case() -> None:
    text = "Lung cancer, lung cancer, LUNG CANCER, Lung Cancer"
    assert found(text, "lung cancer", match_case="always") == ["lung cancer"]
    assert found(text, "Lung cancer", match_case="always") == ["Lung cancer", "Lung Cancer"]
    assert found("iPhone IPhone iphone", "iPhone", match_case="always") == ["iPhone", "IPhone"]


def test_stop_words_are_added_to_the_english_ones() -> None:
    assert found("der und Die", "der", "Die") == ["der", "Die"]
    assert found("der und Die", "der", "Die", stop_words=("der", "die")) == ["Die"]
    assert found("über Über", "Über", stop_words=("Über",)) == ["Über"]


def test_acronym_chars() -> None:
    assert found("nasdaq", "NASDAQ", acronym_chars=6) == []
    assert found("aids", "AIDS", acronym_chars=3) == ["aids"]


def test_scores_say_how_near_the_case_is() -> None:
    assert score("a Carcinoma", "Carcinoma") == 1.0
    assert score("a CARCINOMA", "Carcinoma", "MELANOMA", "CARCINOMA-") == 0.9
    assert score("Carcinoma is", "carcinoma") == 0.9
    assert score("a carcinoma", "Carcinoma") == 0.7
    assert score("lung-cancer", "Lung cancer") == 0.8
    assert score("Light shines", "Light") == 0.4
    assert score("in May", "May") == 0.7


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("X", True),
        ("end. X", True),
        ("end.” (X", True),
        ("end:\n\n- X", True),
        ("line\nX", False),
        ("line\r\n\r\nX", True),
        ("word X", False),
        ("word - X", False),
        ("終わり。X", True),
        (" " * 100 + "X", True),
    ],
)
def test_begins_sentence(text: str, expected: bool) -> None:
    assert begins_sentence(text, len(text) - 1) is expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("LET @ BE", True),
        ("the NASA @ flag", False),
        ("@ NASA", False),
        ("NASA AND @", True),
        ("Two Words @", False),
    ],
)
def test_among_capitals(text: str, expected: bool) -> None:
    place = text.index("@")
    assert among_capitals(text, place, place + 1) is expected


# ------------------------------------------------------------------------- the plain twin
ALPHABET = "aAbßé\u0301 東京한국+#-.1\n\u200d👩½"
SURFACES = st.lists(st.text(st.sampled_from(ALPHABET), min_size=1, max_size=4), max_size=6)


@st.composite
def texts_with_names(draw: st.DrawFn) -> tuple[str, list[str]]:
    """Names, and a text that is made of them and of single characters."""
    surfaces = draw(SURFACES)
    parts = st.sampled_from([*surfaces, *map(str.upper, surfaces), *ALPHABET])
    return "".join(draw(st.lists(parts, max_size=25))), surfaces


def twin(text: str, surfaces: Sequence[str], settings: DictionarySettings) -> list[Span]:
    """The same answer by looking at every part of the folded text."""
    folded = fold_with_map(text)
    guard = guard_of(settings)
    lexicon = compile_lexicon(Names(surfaces), settings)
    keys = set(lexicon.keys)
    matches = []
    for begin in range(len(folded.text)):
        for end in range(begin + 1, len(folded.text) + 1):
            key = folded.text[begin:end]
            if key not in keys or cut(folded, begin, starting=True) or cut(folded, end):
                continue
            start, stop = widest(text, *folded.span(begin, end), surfaces)
            surface = text[start:stop]
            shape = int(lexicon.shapes[lexicon.keys.key_id(key)])
            verdict = guard.verdict(key, shape, surface, exact=surface in surfaces)
            if in_context(verdict, text, start, stop):
                usual = in_context(verdict, text, start, stop)
                matches.append(Match(start, stop, len(key), surfaces_of(key, surfaces), usual))
    matches.sort(key=lambda match: (-match.size, -match.frequency, match.start, match.end))
    kept: list[Match] = []
    for match in matches:
        if all(match.end <= other.start or other.end <= match.start for other in kept):
            kept.append(match)
    return [Span(match.start, match.end, match.score) for match in sorted(kept)]


def surfaces_of(key: str, surfaces: Sequence[str]) -> int:
    return sum(fold(surface) == key for surface in surfaces)


def cut(folded: Folded, place: int, *, starting: bool = False) -> bool:
    """Whether a name may not begin or end there."""
    text, starts = folded.text, folded.starts
    if place in (0, len(text)):
        return False
    left, right = text[place - 1], text[place]
    if starts[place] == starts[place - 1]:
        return True
    glued = unicodedata.category(left)[0] in "LMN" and not borderless(left)
    if glued and right in "+#" and not cut(folded, place - 1):
        return True
    if starting and "가" <= left <= "힣" and "가" <= right <= "힣":
        return True
    return glued and unicodedata.category(right)[0] in "LMN" and not borderless(right)


def borderless(character: str) -> bool:
    return is_unspaced(character) or "가" <= character <= "힣"


def widest(text: str, start: int, end: int, surfaces: Sequence[str]) -> tuple[int, int]:
    """The span with up to three signs on each side, where that is an alias as written."""
    options = [
        (first, last)
        for first in range(max(0, start - 3), start + 1)
        for last in range(end, min(len(text), end + 3) + 1)
        if not any(map(str.isalnum, text[first:start] + text[end:last]))
        and not any(map(str.isspace, text[first:start] + text[end:last]))
        and text[first:last] in surfaces
    ]
    return min(options, key=lambda span: (span[0] - span[1], span[0]), default=(start, end))


@given(texts_with_names(), st.sampled_from([1, 2]))
@example(("½ a", ["1", "2 a"]), 1)
@example(("AAA+", ["a+", "AA"]), 1)
def test_the_twin_finds_the_same(sample: tuple[str, list[str]], min_chars: int) -> None:
    text, surfaces = sample
    settings = DictionarySettings(min_chars=min_chars, numbers=True, stop_words=("ab",))
    detector = dictionary_detector(settings, Names(surfaces))
    assert detector.detect(text) == twin(text, surfaces, settings)


@given(texts_with_names(), st.text(), st.integers(1, 30))
def test_pieces_change_nothing(sample: tuple[str, list[str]], more: str, piece: int) -> None:
    text, surfaces = sample[0] + more + sample[0], sample[1]
    settings = DictionarySettings(min_chars=1, numbers=True)
    lexicon, guard = compile_lexicon(Names(surfaces), settings), guard_of(settings)
    whole = DictionaryDetector(lexicon, guard).detect(text)
    assert DictionaryDetector(lexicon, guard, piece).detect(text) == whole


def test_a_long_text_is_searched_to_its_end() -> None:
    text = "Ada met nobody at Lantern  Bay. " * 20_000
    spans = dictionary_detector(DictionarySettings(), Names(["Ada", "Lantern Bay"])).detect(text)
    assert len(spans) == 40_000
    assert {text[span.start : span.end] for span in spans} == {"Ada", "Lantern  Bay"}


def test_a_word_longer_than_a_piece() -> None:
    settings = DictionarySettings()
    lexicon = compile_lexicon(Names(["Ada"]), settings)
    text = "Ada" + "x" * 1000 + " Ada " + "\u200b" * 1000 + "Ada"
    spans = DictionaryDetector(lexicon, guard_of(settings), 16).detect(text)
    assert [span.start for span in spans] == [1004, 2008]


def test_threads_get_the_same_answers() -> None:
    detector = dictionary_detector(DictionarySettings(), Names(["Ada", "Bob", "東京"]))
    texts = [f"Ada {number} met Bob in 東京 {'é' * number}" for number in range(40)]
    answers: dict[int, list[Span]] = {}

    def work(first: int) -> None:
        for number in range(first, len(texts), 4):
            answers[number] = detector.detect(texts[number])

    threads = [threading.Thread(target=work, args=(first,)) for first in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [answers[number] for number in range(40)] == [detector.detect(text) for text in texts]


# --------------------------------------------------------------------------------- the cache
def test_the_cache_is_used_until_a_name_or_a_setting_changes(tmp_path: Path) -> None:
    settings = DictionarySettings()
    names = Names(["Ada"], tmp_path)
    for _ in range(3):
        assert dictionary_detector(settings, names).detect("Ada") == [Span(0, 3, 1.0)]
    assert names.reads == 1
    dictionary_detector(DictionarySettings(min_chars=3), names)
    assert names.reads == 2
    other = Names(["Bob"], tmp_path)
    assert dictionary_detector(settings, other).detect("Ada") == []
    assert other.reads == 1


@pytest.mark.parametrize(
    "file",
    ["keys.marisa", "surfaces.marisa", "counts.npy", "shapes.npy", "bits.npy", "manifest.json"],
)
@pytest.mark.parametrize("damage", ["flip", "cut", "remove", "empty"])
def test_a_damaged_cache_is_made_anew(tmp_path: Path, file: str, damage: str) -> None:
    names = Names(["Ada", "Bob"], tmp_path)
    dictionary_detector(DictionarySettings(), names)
    (folder,) = tmp_path.iterdir()
    path = folder / file
    content = path.read_bytes()
    path.unlink()
    if damage != "remove":
        middle = len(content) // 2
        flipped = content[:middle] + bytes([content[middle] ^ 0xFF]) + content[middle + 1 :]
        path.write_bytes({"flip": flipped, "cut": content[:-1], "empty": b""}[damage])
    for _ in range(2):
        spans = dictionary_detector(DictionarySettings(), names).detect("Ada, Bob")
        assert spans == [Span(0, 3, 1.0), Span(5, 8, 1.0)]
    assert names.reads == 2
    assert [path.name for path in tmp_path.iterdir()] == [folder.name]


def test_a_manifest_of_another_format_is_not_read(tmp_path: Path) -> None:
    names = Names(["Ada"], tmp_path)
    dictionary_detector(DictionarySettings(), names)
    (folder,) = tmp_path.iterdir()
    manifest = folder / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"format": 1', '"format": 2'))
    assert cache.load(folder) is None


def test_old_folders_are_forgotten(tmp_path: Path) -> None:
    for number in range(8):
        dictionary_detector(DictionarySettings(), Names([f"Ada {number}"], tmp_path))
    assert len(list(tmp_path.iterdir())) == 4


def test_where_nothing_can_be_written_it_works_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refuse(monkeypatch, errno.EROFS)
    names = Names(["Ada"], tmp_path)
    assert dictionary_detector(DictionarySettings(), names).detect("Ada") == [Span(0, 3, 1.0)]


def test_a_full_disk_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refuse(monkeypatch, errno.ENOSPC)
    with pytest.raises(StoreError, match="cannot keep the compiled aliases: No space left"):
        dictionary_detector(DictionarySettings(), Names(["Ada"], tmp_path))


def refuse(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    def failing_save(lexicon: object, folder: Path) -> None:
        raise OSError(number, {errno.ENOSPC: "No space left on device"}.get(number, "Read-only"))

    monkeypatch.setattr(cache, "save", failing_save)


@pytest.mark.parametrize(
    "settings", [{"min_chars": 0}, {"match_case": "sometimes"}, {"minimum": 2}]
)
def test_bad_settings_are_refused(settings: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        DictionarySettings.model_validate(settings)


def test_every_setting_is_described() -> None:
    assert all(field.description for field in DictionarySettings.model_fields.values())
