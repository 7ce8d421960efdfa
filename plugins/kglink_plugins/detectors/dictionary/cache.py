"""Compiled aliases on disk: written once per state of the KBs, then memory-mapped.

One folder per fingerprint, settings and user, published by a rename. Its manifest holds a checksum
of each file and the user's seal; a folder that does not match its manifest, or that somebody else
wrote, is compiled anew: marisa believes what its files say, and a forged one ends the process.
Nothing is unpickled.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import time
import unicodedata
from pathlib import Path
from tempfile import gettempdir

from kglink.errors import DamagedFileError, NewerFileError, StoreError, why_unwritten
from kglink.files.atomic import atomic_folder, sweep_drafts
from kglink.files.digest import digest_of, seal_of, user_key
from kglink.files.manifest import FileInfo, ManifestPart, damaged_files, files_in, read_manifest
from kglink.plugins import Names
from kglink_plugins.detectors.dictionary.bags import KBS_FILE, Bags
from kglink_plugins.detectors.dictionary.compiled import (
    ARRAYS,
    TRIES,
    Lexicon,
    compile_lexicon,
    map_lexicon,
    write_lexicon,
)
from kglink_plugins.plugin import DictionarySettings

#: Raise it when the files, the folding or the borders of words change.
FORMAT = 8
MANIFEST = "manifest.json"
_FILES = (
    {f"{name}.marisa" for name in TRIES}
    | {f"{name}.npy" for name in (*ARRAYS, *Bags._fields)}
    | {KBS_FILE}
)
#: Parts that were compiled for updates are small; that of a whole KB must not go for them.
_KEPT_FOLDERS = 16
#: What marisa-trie ends with on a file that is no trie.
_NO_TRIE = (RuntimeError, ValueError, OSError, MemoryError, OverflowError)


class _Manifest(ManifestPart):
    """What a folder of compiled aliases holds."""

    format: int = FORMAT
    longest: int
    files: dict[str, FileInfo]
    written: dict[str, tuple[int, int]]
    """When each file was written, by both clocks of its entry: who changes it changes one."""
    seal: str = ""

    def sealed_by(self, key: bytes, folder: str) -> str:
        """The seal of all else that the manifest of that folder says."""
        return seal_of(key, f"{folder} {self.model_dump_json(exclude={'seal'})}")


def open_lexicon(names: Names, settings: DictionarySettings) -> Lexicon:
    """The compiled aliases of ``names``: from the cache, else compiled and cached."""
    key = user_key()
    if names.cache_dir is None or key is None:
        return _kept_nowhere(names, settings)
    folder = names.cache_dir / f"dictionary-{_digest(names.fingerprint, settings, key)}"
    lexicon = load(folder, key)
    if lexicon is not None:
        return lexicon
    try:
        save(names, settings, folder, key)
    except OSError as error:
        if why_unwritten(error) == "rights":
            # Somebody else's workspace: the compiled aliases live as long as this process.
            return _kept_nowhere(names, settings)
        raise StoreError(
            f"{folder}: cannot keep the compiled aliases: {error.strerror or error}",
            hint="Free some space there, or open the workspace on another disk.",
        ) from error
    return load(folder, key) or _kept_nowhere(names, settings)


def _kept_nowhere(names: Names, settings: DictionarySettings) -> Lexicon:
    try:
        return compile_lexicon(names, settings)
    except OSError as error:
        raise StoreError(
            f"{gettempdir()}: cannot compile the aliases there: {error.strerror or error}",
            hint="Free some space there, or name another folder in the variable TMPDIR.",
        ) from error


def save(names: Names, settings: DictionarySettings, folder: Path, key: bytes) -> None:
    """Compile the aliases beside ``folder`` and publish them under its name."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with atomic_folder(folder) as made:
        longest = write_lexicon(made, names, settings)
        files = files_in(made)
        written = {name: _clocks(made / name) for name in files}
        manifest = _Manifest(longest=longest, files=files, written=written)
        manifest = manifest.model_copy(update={"seal": manifest.sealed_by(key, folder.name)})
        (made / MANIFEST).write_text(manifest.model_dump_json(indent=1), encoding="utf-8")
    # Remove compiled aliases of earlier states, and what a killed process left.
    sweep_drafts(folder.parent)
    published = sorted(folder.parent.glob("dictionary-*"), key=_written_at, reverse=True)
    for path in published[_KEPT_FOLDERS:]:
        if path != folder:
            shutil.rmtree(path, ignore_errors=True)


def load(folder: Path, key: bytes) -> Lexicon | None:
    """The aliases compiled there, memory-mapped; None: missing, damaged or somebody else's."""
    try:
        manifest = read_manifest(_Manifest, folder / MANIFEST, newest=FORMAT)
        if manifest.format != FORMAT or set(manifest.files) != _FILES:
            return None
        if manifest.seal != manifest.sealed_by(key, folder.name):
            return None
        as_written = all(_clocks(folder / name) == at for name, at in manifest.written.items())
        if not as_written and damaged_files(folder, manifest.files, thorough=True):
            return None
        with contextlib.suppress(OSError):  # somebody else's: what is used is kept the longest
            os.utime(folder)
        return map_lexicon(folder, manifest.longest)
    except (DamagedFileError, NewerFileError, FileNotFoundError, *_NO_TRIE):
        return None  # never written, damaged, or replaced by another process while we read


def _digest(fingerprint: str, settings: DictionarySettings, key: bytes) -> str:
    parts = [
        FORMAT,
        seal_of(key, "whose"),
        unicodedata.unidata_version,
        fingerprint,
        settings.min_chars,
        settings.max_chars,
        settings.match_case,
        settings.acronym_chars,
        settings.numbers,
        sorted(settings.stop_words),
    ]
    return digest_of(parts, size=16)


def _clocks(path: Path) -> tuple[int, int]:
    stat = path.stat()
    return stat.st_mtime_ns, stat.st_ctime_ns


def _written_at(path: Path) -> float:
    """When a folder was written; now, where another process has just removed it."""
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        return time.time()
