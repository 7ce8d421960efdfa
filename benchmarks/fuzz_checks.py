"""What `fuzz.py` asks of a reader for one input, and how long that may take."""

from __future__ import annotations

import contextlib
import shutil
import signal
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from fuzz_readers import CLEANER, PART, Reader

Check = Callable[[bytes], None]

#: CPU seconds that an input may take: this much, and this much for each byte (instrumented code
#: on a busy machine; plain it is a twentieth of that).
SECONDS, SECONDS_PER_BYTE = 1.0, 25e-6


class TooSlow(BaseException):
    """An input has used up its time; no reader may catch this."""


class BrokenPromise(Exception):  # noqa: N818 - what is found, in words
    """A reader has answered with what it must not answer."""


def expect(held: bool, what: object) -> None:
    """Raise `BrokenPromise` unless a promise was kept."""
    if not held:
        raise BrokenPromise(repr(what))


def check_of(reader: Reader, scratch: Path) -> Check:
    """What is asked of ``reader`` for one input."""
    return check_cleaner() if reader.name == CLEANER else check_adapter(reader, scratch)


def check_cleaner() -> Check:
    """The cleaner: the places of links are in order and in the text."""
    from kglink_kbs.mediawiki.site import Namespace, Site, Titles
    from kglink_kbs.mediawiki.wikitext import clean_prepared, prepared, prose

    spaces = (Namespace(0, ""), Namespace(6, "File"), Namespace(14, "Category"))
    titles = {lang: Titles(Site(language=lang, namespaces=spaces)) for lang in ("en", "de", "zh")}

    def check(data: bytes) -> None:
        ready = prepared(data.decode("utf-8", errors="replace"))
        language = ("en", "de", "zh")[zlib.crc32(data) % 3]
        found = clean_prepared(ready, titles[language], language)
        end = 0
        for link in found.links:
            expect(end <= link.start < link.end <= len(found.text), link)
            expect(bool(link.title), link)
            end = link.end
        prose(ready, titles[language], language)

    return check


def check_adapter(reader: Reader, scratch: Path) -> Check:
    """An adapter with the settings that the input draws, in the way that it draws."""
    from kglink.errors import KglinkError, RecordError
    from kglink.plugins import load_registry
    from kglink.sources import Problems
    from kglink.testing.contracts.kb import check_record

    registry = load_registry(only="builtin")
    sniff = registry.get("kb", reader.name).sniff
    adapters = [registry.create("kb", reader.name, settings) for settings in reader.settings]

    def check(data: bytes) -> None:
        draw = zlib.crc32(data)
        problems = Problems("stop" if draw % 4 == 3 else "skip")
        with source_of(reader, data, scratch) as source:
            try:
                if sniff:
                    expect(0 <= sniff(source.head) <= 1, "a sniff between 0 and 1")
                for record in adapters[draw // 4 % len(adapters)].read(source, problems):
                    check_record(record)
                    repr(record).encode()
            except RecordError as error:
                expect(problems.on_error == "stop", error)  # else it is reported, not raised
            except KglinkError as error:
                str(error).encode()

    return check


@contextlib.contextmanager
def source_of(reader: Reader, data: bytes, scratch: Path) -> Iterator[Any]:
    """The input as a file, or as a folder of as many files as it has parts."""
    from kglink.sources import Source, SourceLimits

    limits = SourceLimits(max_line_bytes=2**20, max_expansion=100, free_expansion=2**22)
    folder = scratch / "input"
    if reader.files and PART in data:
        for name, part in zip(reader.files, data.split(PART), strict=False):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(part)
        source = Source.open_path(folder, limits=limits)
    else:
        source = Source.from_bytes(data, name=reader.file, limits=limits)
    source.scratch_in = scratch / "kept" / "one"
    try:
        with source:
            yield source
    finally:
        source.drop_scratch()
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def time_limit(data: bytes) -> Iterator[None]:
    """Raise `TooSlow` where the block takes more CPU time than ``data`` allows."""

    def stop(*_: object) -> None:
        raise TooSlow(f"more than {limit:.1f} s of CPU time for {len(data):,} bytes")

    limit = SECONDS + SECONDS_PER_BYTE * len(data)
    signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, limit)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
