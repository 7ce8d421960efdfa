"""How fast the dictionary detector is, and what it holds in memory.

    python benchmarks/detector.py [--sizes 100000 1000000] [--disease ../shared/data/disease]

For synthetic aliases (and the aliases of three real ontologies, where their folder is there) it
prints the time to compile, the time to open the compiled files in a fresh process, the memory
there, and MB of text per second on one core. A brute-force twin, which looks up every run of words
in a set, checks the matches of a sample before anything is reported.

Why marisa-trie. Measured on 6 MB of synthetic text, libraries alone (2 shared cores):

=========  ==================  ===========  ==========  ==========  ==========
aliases    library             build        open        memory      text
=========  ==================  ===========  ==========  ==========  ==========
100,000    ahocorasick-rs 1.0  0.17 s       as build    30 MB       27 MB/s
1,000,000  ahocorasick-rs 1.0  4.1 s        as build    146 MB      10 MB/s
100,000    marisa-trie 1.4     0.05 s       < 1 ms      0.8 MB      8 MB/s
1,000,000  marisa-trie 1.4     0.9 s        < 1 ms      6.3 MB      6 MB/s
=========  ==================  ===========  ==========  ==========  ==========

The Aho-Corasick automaton reads text faster, but it cannot be kept on disk, so every command over
a million aliases would wait for it, on top of reading every alias. The trie is a memory-mapped
file. Its price is one call per word, some two microseconds; that is a twentieth of what the whole
detector takes, which looks for variants of the names as well. With
``ahocorasick-rs`` installed the script prints that library's build and rate as well.
"""

from __future__ import annotations

import argparse
import gzip
import importlib.util
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

from kglink.plugins import NameRow
from kglink.text.fold import fold
from kglink_plugins.detectors.dictionary.finder import dictionary_detector
from kglink_plugins.detectors.dictionary.languages import COMMON_WORDS, FUNCTION_WORDS
from kglink_plugins.plugin import DictionarySettings

IntArray = npt.NDArray[np.int64]

ROOT = Path(__file__).resolve().parent.parent
VOCABULARY = 200_000
TEXT_WORDS = 700_000
SAMPLE_CHARS = 60_000


class Names:
    """Aliases as a linker hands them to a detector."""

    def __init__(self, surfaces: list[str], cache_dir: Path, fingerprint: str) -> None:
        self.rows = [NameRow(surface, fold(surface), "kb", 1) for surface in surfaces]
        self.cache_dir: Path | None = cache_dir
        self.fingerprint = fingerprint

    def __iter__(self) -> Iterator[NameRow]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)


def vocabulary(rng: np.random.Generator) -> list[str]:
    """Invented words; those that are English as well are left out, as the guard refuses them."""
    syllables = [consonant + vowel for consonant in "bcdfghklmnprstvwz" for vowel in "aeiou"]
    words: dict[str, None] = {}
    while len(words) < VOCABULARY + 1_000:
        for size in rng.integers(1, 6, 10_000):
            words["".join(rng.choice(syllables, size))] = None
    return [word for word in words if word not in FUNCTION_WORDS | COMMON_WORDS][:VOCABULARY]


def zipf(rng: np.random.Generator, exponent: float, size: int) -> IntArray:
    """Word numbers; the larger the exponent, the more often the first ones."""
    weights = 1 / np.arange(1, VOCABULARY + 1) ** exponent
    return rng.choice(VOCABULARY, size, p=weights / weights.sum())


def synthetic_aliases(rng: np.random.Generator, words: list[str], count: int) -> list[str]:
    """Names of one to five words, most of them rarer than those of running text."""
    aliases: dict[str, None] = {}
    while len(aliases) < count:
        sizes = rng.choice([1, 2, 3, 4, 5], count, p=[0.01, 0.4, 0.34, 0.2, 0.05])
        rare = rng.integers(VOCABULARY // 20, VOCABULARY, int(sizes.sum()))
        drawn = iter(np.where(rng.random(len(rare)) < 0.75, rare, zipf(rng, 0.6, len(rare))))
        for size in sizes.tolist():
            aliases[" ".join(words[next(drawn)] for _ in range(size)).capitalize()] = None
    return list(aliases)[:count]


def synthetic_text(rng: np.random.Generator, words: list[str], aliases: list[str]) -> str:
    """Running text with one planted alias in about 40 words, in lower case."""
    text = [words[number] for number in zipf(rng, 1.0, TEXT_WORDS).tolist()]
    for place in rng.integers(0, TEXT_WORDS, TEXT_WORDS // 40).tolist():
        text[place] = aliases[int(rng.integers(len(aliases)))].lower()
    for place in range(0, TEXT_WORDS, 18):
        text[place] = text[place].capitalize()
        text[place - 1] += "."
    return " ".join(text)


def disease_aliases(disease: Path) -> list[str]:
    sys.path.insert(0, str(ROOT / "tests" / "support"))
    kbs = importlib.import_module("disease_kbs")
    surfaces: dict[str, None] = {}
    for kb in kbs.KB_FILES:
        for entity in kbs.disease_entities(kb, disease):
            surfaces.update(dict.fromkeys([entity["title"], *entity["aliases"]]))
    return list(surfaces)


def disease_text(disease: Path) -> str:
    parts: list[str] = []
    for path in sorted((disease / "corpora").glob("*.PubTator.txt.gz")):
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            parts += [line.split("|", 2)[2] for line in lines if "|t|" in line or "|a|" in line]
    return "".join(parts)


def check_against_twin(names: Names, settings: DictionarySettings, text: str) -> int:
    """Every mention is an alias, and where no mention is, no run of words is one."""
    detector = dictionary_detector(settings, names)
    keys = {row.folded for row in names}
    spans = detector.detect(text)
    for span in spans:
        assert fold(text[span.start : span.end]) in keys  # noqa: S101 the check of the benchmark
    covered = np.zeros(len(text), dtype=bool)
    for span in spans:
        covered[span.start : span.end] = True
    for begin, end in word_runs(text, max(key.count(" ") for key in keys) + 1):
        if not covered[begin:end].any() and fold(text[begin:end]) in keys:
            raise AssertionError(f"missed {text[begin:end]!r} at {begin}")
    return len(spans)


def word_runs(text: str, most: int) -> Iterator[tuple[int, int]]:
    places, begin = [], 0
    for word in text.split(" "):
        places.append((begin, begin + len(word.rstrip("."))))
        begin += len(word) + 1
    for first in range(len(places)):
        for last in range(first, min(first + most, len(places))):
            yield places[first][0], places[last][1]


def measure(title: str, surfaces: list[str], text: str, settings: DictionarySettings) -> None:
    with tempfile.TemporaryDirectory() as folder:
        names = Names(surfaces, Path(folder), title)
        began = time.perf_counter()
        dictionary_detector(settings, names)
        built = time.perf_counter() - began
        size = sum(path.stat().st_size for path in Path(folder).rglob("*") if path.is_file())
        (Path(folder) / "text").write_text(text, encoding="utf-8")
        child = [sys.executable, __file__, "--child", folder, title, settings.model_dump_json()]
        figures = json.loads(subprocess.run(child, check=True, capture_output=True).stdout)
    print(
        f"{title}: {len(surfaces):,} aliases  compile {built:.2f} s  files {size / 1e6:.1f} MB"
        f"  open {figures['open']:.3f} s  memory +{figures['memory']:.0f} MB"
        f"  text {figures['mb'] / figures['seconds']:.1f} MB/s"
        f"  ({figures['mentions'] / figures['mb']:,.0f} mentions per MB)"
    )


def child(folder: Path, title: str, settings: DictionarySettings) -> None:
    """Open the compiled files as a new command does; no alias is read."""
    text = (folder / "text").read_text(encoding="utf-8")
    names = Names([], folder, title)
    dictionary_detector(settings, Names([], folder / "none", "none")).detect(text[:1000])
    before = resident()
    began = time.perf_counter()
    detector = dictionary_detector(settings, names)
    opened = time.perf_counter() - began
    detector.detect(text[:200_000])
    began = time.perf_counter()
    mentions = len(detector.detect(text))
    seconds = time.perf_counter() - began
    figures = {
        "open": opened,
        "memory": (resident() - before) / 1e6,
        "seconds": seconds,
        "mb": len(text.encode()) / 1e6,
        "mentions": mentions,
    }
    print(json.dumps(figures))


def resident() -> int:
    """Bytes of memory that this process holds (Linux)."""
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * 4096


def measure_ahocorasick(surfaces: list[str], text: str) -> None:
    if importlib.util.find_spec("ahocorasick_rs") is None:
        return
    automaton_class = importlib.import_module("ahocorasick_rs").AhoCorasick
    folded = f" {fold(text)} "
    began = time.perf_counter()
    automaton = automaton_class([f" {fold(surface)} " for surface in surfaces])
    built = time.perf_counter() - began
    began = time.perf_counter()
    found = len(automaton.find_matches_as_indexes(folded, overlapping=True))
    rate = len(folded) / 1e6 / (time.perf_counter() - began)
    print(f"  bare ahocorasick-rs: build {built:.2f} s, {rate:.1f} MB/s, {found:,} raw matches")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--sizes", type=int, nargs="*", default=[100_000, 1_000_000])
    parser.add_argument("--disease", type=Path, default=ROOT.parent / "shared/data/disease")
    parser.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        folder, title, settings = options.child
        child(Path(folder), title, DictionarySettings.model_validate_json(settings))
        return
    settings = DictionarySettings()
    rng = np.random.default_rng(20240607)
    words = vocabulary(rng)
    for size in options.sizes:
        surfaces = synthetic_aliases(rng, words, size)
        text = synthetic_text(rng, words, surfaces)
        with tempfile.TemporaryDirectory() as folder:
            names = Names(surfaces, Path(folder), "sample")
            found = check_against_twin(names, settings, text[:SAMPLE_CHARS])
        print(f"twin agrees on {found:,} mentions of a sample")
        measure("synthetic", surfaces, text, settings)
        measure_ahocorasick(surfaces, text)
    if options.disease.is_dir():
        surfaces, text = disease_aliases(options.disease), disease_text(options.disease)
        measure("three ontologies", surfaces, text, settings)
    else:
        print(f"{options.disease}: not there, no figure for real aliases")


if __name__ == "__main__":
    main()
