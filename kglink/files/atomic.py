"""Files and folders that appear whole or not at all, whatever is killed when.

What is written goes into a draft of a private name in the same folder. It is synced to the disk,
takes its final name by a rename, and then the folder is synced. A draft is locked while it is
written, so that `sweep_drafts` finds those that a dead process left.

Locks between processes: the system frees the lock of a process that dies.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import hashlib
import os
import re
import secrets
import shutil
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

_PAUSE = 0.05


class LockedError(Exception):
    """Another process holds the lock."""


@contextlib.contextmanager
def file_lock(
    path: Path, busy: Exception | None = None, *, wait: float = 0.0, remove: bool = False
) -> Iterator[None]:
    """Hold the lock of a file, which is made where it is missing; a link is refused.

    ``busy`` is raised where another process holds it for more than ``wait`` seconds, else
    `LockedError`. ``remove`` deletes the file at last.
    """
    descriptor = _acquired(path, time.monotonic() + wait, busy or LockedError(str(path)))
    try:
        yield
    finally:
        if remove:  # while it is held: who waits for it notices that the file has gone
            with contextlib.suppress(OSError):
                path.unlink()
        fcntl.flock(descriptor, fcntl.LOCK_UN)  # closing is not enough: a child may have it open
        os.close(descriptor)


def is_locked(path: Path) -> bool:
    """Whether a process holds the lock of a file now."""
    if not path.is_file():
        return False
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)  # its disk may be read-only
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def _acquired(path: Path, deadline: float, busy: Exception) -> int:
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(descriptor)
            if time.monotonic() >= deadline:
                raise busy from error
            time.sleep(_PAUSE)
            continue
        except OSError:
            os.close(descriptor)
            raise
        if os.fstat(descriptor).st_nlink:
            return descriptor
        os.close(descriptor)  # removed by the process that held it


_DRAFT = re.compile(r"\..*\.kglink-[0-9a-f]{8}", re.DOTALL)
#: A name may have 255 bytes on most file systems; our endings need the rest.
_LONGEST_NAME = 200
_AT_FDCWD, _RENAME_EXCHANGE = -100, 2


def hidden_beside(path: Path, ending: str) -> Path:
    """The path of a hidden file beside ``path``, with the name of ``path`` in its own.

    Of a name that is too long it has the start, and a hash that tells cut names apart.
    """
    name = path.name
    if len(whole := os.fsencode(name)) > _LONGEST_NAME:
        start = whole[:_LONGEST_NAME].decode(errors="ignore")
        name = f"{start}.{hashlib.blake2b(whole, digest_size=4).hexdigest()}"
    return path.with_name(f".{name}.{ending}")


def write_atomically(path: Path, content: str | bytes) -> None:
    """Replace a file: a reader sees the old or the new content and never a part of it."""
    with atomic_file(path) as out:
        out.write(content.encode() if isinstance(content, str) else content)


@contextlib.contextmanager
def atomic_file(path: Path) -> Iterator[BinaryIO]:
    """Give a stream; what was written to it becomes ``path`` when the block ends without error."""
    with atomic_path(path) as draft, draft.open("wb") as out:
        yield out


@contextlib.contextmanager
def atomic_path(path: Path) -> Iterator[Path]:
    """Give an empty file beside ``path`` that becomes ``path`` when the block ends without error.

    The mode of an existing file is kept. A link at ``path`` is replaced and not followed; anything
    but a regular file or a link is refused.
    """
    _mode_of(path)  # What must not be replaced is refused before it is written.
    with _locked_draft(path, is_folder=False) as draft:
        yield draft
        replace_file(draft, path)


def replace_file(draft: Path, path: Path) -> None:
    """Sync a file and put it in the place of ``path`` in the same folder, whose mode it takes."""
    if (mode := _mode_of(path)) is not None:
        draft.chmod(mode)
    sync_file(draft)
    draft.replace(path)
    sync_file(path.parent)


@contextlib.contextmanager
def atomic_folder(path: Path) -> Iterator[Path]:
    """Give an empty folder that takes the place of ``path`` when the block ends without error."""
    path.parent.mkdir(parents=True, exist_ok=True)
    sweep_drafts(path.parent)
    with _locked_draft(path, is_folder=True) as draft:
        yield draft
        replace_folder(draft, path)


def replace_folder(draft: Path, path: Path) -> None:
    """Sync a folder and put it in the place of ``path``, of the same file system.

    Whoever may list the folder may read its files. On Linux nobody ever finds ``path`` missing.
    Where the system or the file system cannot swap folders, `recover_folder` restores what an
    interrupted replacement left.
    """
    sync_tree(draft, mode=stat.S_IMODE(draft.stat().st_mode) & 0o666)
    recover_folder(path)
    spare, kept = _draft_name(path), _kept(path)
    draft.rename(spare)  # the draft's own name must never stand for the old folder
    while spare.exists():
        if path.exists():
            if exchanged(spare, path):
                break
            path.rename(kept)
        try:
            spare.rename(path)
        except OSError:
            # A reader has called `recover_folder` between the two renames: once more.
            if not path.exists():
                raise
    sync_file(path.parent)
    for old in (spare, kept):
        shutil.rmtree(old, ignore_errors=True)


def recover_folder(path: Path) -> None:
    """Put the old folder back where replacing it was interrupted between two renames."""
    kept = _kept(path)
    if kept.is_dir():
        if path.exists():
            shutil.rmtree(kept, ignore_errors=True)
        else:
            kept.rename(path)


def sweep_drafts(folder: Path) -> list[Path]:
    """Remove the drafts that dead processes left in a folder, and name them."""
    swept = []
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        if not _DRAFT.fullmatch(path.name) or path.is_symlink():
            continue
        with contextlib.suppress(OSError):  # gone, finished, or not ours to remove
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                _remove(path)
                swept.append(path)
            finally:
                os.close(descriptor)
    return swept


def sync_file(path: Path) -> None:
    """Wait until a file's content, or the names in a folder, are on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_tree(path: Path, *, mode: int = 0) -> None:
    """Sync all files and folders below a folder, and last the folder itself.

    Files get the rights of ``mode`` besides their own: some libraries write for their user alone.
    """
    for folder, _, names in os.walk(path, topdown=False):
        for name in names:
            file = Path(folder, name)
            own = stat.S_IMODE(file.lstat().st_mode)
            if own | mode != own and not file.is_symlink():  # new rights are a new time of change
                with contextlib.suppress(PermissionError):  # a link to a file of somebody else
                    file.chmod(own | mode)
            sync_file(file)
        sync_file(Path(folder))


def _mode_of(path: Path) -> int | None:
    """The mode of a file that may be replaced; None where there is none, or a link."""
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return None
    if stat.S_ISLNK(mode):
        return None
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, "is not a regular file", str(path))
    return mode & 0o777


@contextlib.contextmanager
def _locked_draft(path: Path, *, is_folder: bool) -> Iterator[Path]:
    """A new draft of ``path`` that no other process takes for abandoned."""
    draft, descriptor = _new_draft(path, is_folder=is_folder)
    try:
        yield draft
    finally:
        with contextlib.suppress(FileNotFoundError):  # it has got its final name
            _remove(draft)
        os.close(descriptor)


def _new_draft(path: Path, *, is_folder: bool) -> tuple[Path, int]:
    while True:
        draft = _draft_name(path)
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        if is_folder:
            draft.mkdir()
            flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
        try:
            descriptor = os.open(draft, flags, 0o666)
        except FileExistsError:
            continue
        except FileNotFoundError:
            if is_folder:  # swept before it was locked
                continue
            raise
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:  # somebody sweeps it
            os.close(descriptor)
            continue
        except OSError:  # a file system without locks: nobody can sweep there
            return draft, descriptor
        if draft.exists():
            return draft, descriptor
        os.close(descriptor)  # swept before it was locked


def _draft_name(path: Path) -> Path:
    return hidden_beside(path, f"kglink-{secrets.token_hex(4)}")


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink()


def _kept(path: Path) -> Path:
    """Where the old folder stands between the two renames that replace it."""
    return hidden_beside(path, "kept")


def exchanged(left: Path, right: Path) -> bool:
    """Give each of two folders the other's name at once, where the system can do that."""
    renameat2 = getattr(ctypes.CDLL(None), "renameat2", None)
    if renameat2 is None:
        return False
    names = os.fsencode(left), os.fsencode(right)
    done: int = renameat2(_AT_FDCWD, names[0], _AT_FDCWD, names[1], _RENAME_EXCHANGE)
    return done == 0
