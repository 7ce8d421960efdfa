"""What commands write: whole or not at all, and nothing that a workspace owns."""

from __future__ import annotations

import bz2
import errno
import gzip
import io
import lzma
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import IO, TYPE_CHECKING, BinaryIO, TextIO, cast

from kglink.errors import PluginError, UsageError, errors_of, why_unwritten
from kglink.files.atomic import atomic_file, sweep_drafts
from kglink.sources.compression import zstd
from kglink.workspace.folder import OWNED

if TYPE_CHECKING:
    from kglink.plugins import Exporter
    from kglink.records import LinkedDocument
    from kglink.workspace.opened import Opened

#: Endings of files that are packed as they are written.
_PACKERS: Mapping[str, Callable[[BinaryIO], object]] = {
    # Without name or time: the same records, the same bytes.
    ".gz": lambda raw: gzip.GzipFile("", "wb", fileobj=raw, mtime=0),
    ".bz2": lambda raw: bz2.BZ2File(raw, "wb"),
    ".xz": lambda raw: lzma.LZMAFile(raw, "wb"),  # noqa: SIM115 - who asks for it closes it
    ".zst": lambda raw: zstd.ZstdFile(raw, "wb"),
}
PACKED = tuple(_PACKERS)
#: What SQLite calls the files beside a database.
_JOURNALS = ("-wal", "-shm", "-journal")


def checked_output(opened: Opened, path: Path) -> Path:
    """The file that an output goes to, links followed; what must not be replaced is refused.

    An output is a regular file, new or not. It is neither settings, store, spaces nor anything
    else that a workspace lives from, by whatever link, nor any other SQLite database.
    """
    try:
        target = path.resolve()
        if path.is_dir() or (target.exists() and not target.is_file()):
            raise UsageError(
                f"{path} is not a file", hint="Leave -o out to write to standard output."
            )
        is_owned = _is_database(target) or _is_owned(opened, target)
    except (OSError, RuntimeError, ValueError) as error:  # a name that no file can have
        raise cannot_write(path, error) from error
    if not target.parent.is_dir():
        raise UsageError(
            f"cannot write {path}: there is no folder {path.parent}",
            hint="Make it, or name a file in another folder.",
        )
    if is_owned:
        raise UsageError(
            f"{path} belongs to a workspace or a database, and is no place for an output",
            hint="Name another file.",
        )
    return target


def export_links(exporter: Exporter, documents: Iterable[LinkedDocument], out: TextIO) -> None:
    """Write links; an error of the exporter names it, one of linking stays as it is."""
    of_linking: list[BaseException] = []

    def linked() -> Iterator[LinkedDocument]:
        try:
            yield from documents
        except (Exception, SystemExit) as error:
            of_linking.append(error)
            raise

    given, name = linked(), f"exporter {type(exporter).__module__}.{type(exporter).__name__}"
    try:
        with errors_of(name):
            exporter.export(given, out)
            unwritten = next(given, None)
    except PluginError:
        if not of_linking:
            raise
    if of_linking:
        raise of_linking[0]
    if out.closed or unwritten is not None:
        raise PluginError(
            f"{name} {'closed its output' if out.closed else 'left documents unwritten'}",
            hint="An exporter writes all documents, and leaves the output open.",
        )


@contextmanager
def whole_file(opened: Opened, path: Path) -> Iterator[TextIO]:
    """Write to a draft that takes the place of ``path`` at the end; `PACKED` endings pack it.

    Where the writing fails, what stood at ``path`` still stands there, and nothing else. A link
    is written through: the file that it names is replaced.
    """
    target = checked_output(opened, path)
    with naming_full_disk(path), ExitStack() as closing:
        try:
            sweep_drafts(target.parent)
            raw = closing.enter_context(atomic_file(target))
        except OSError as error:
            raise cannot_write(path, error) from error
        packer = _PACKERS.get(path.suffix.lower())
        stream = cast("IO[bytes]", packer(raw)) if packer else raw
        closing.enter_context(stream)
        text = io.TextIOWrapper(stream, encoding="utf-8", newline="\n")
        yield text
        try:
            text.flush()
            text.detach()
            closing.close()
        except OSError as error:
            raise cannot_write(path, error) from error


def opened_output(opened: Opened, output: str | Path | TextIO) -> AbstractContextManager[TextIO]:
    """What is written to: a file that is whole at the end, or one that is open for writing."""
    if isinstance(output, str | Path):
        return whole_file(opened, Path(output))
    if not hasattr(output, "write") or isinstance(output, io.RawIOBase | io.BufferedIOBase):
        hint = "Name a file, or give one that is open for writing text."
        raise UsageError(f"the output is of the type {type(output).__name__}", hint=hint)
    return nullcontext(output)


@contextmanager
def naming_full_disk(path: Path) -> Iterator[None]:
    """Say which file found no room: a write that fails names none itself."""
    try:
        yield
    except OSError as error:
        if why_unwritten(error) == "full" and error.filename is None:
            error.filename = str(path)
        raise


def cannot_write(path: Path, error: Exception) -> UsageError:
    """The error of a file that cannot be written; it names that file, not its hidden draft."""
    hint = "Name a file in a folder that exists and may be written, on a disk with room."
    if getattr(error, "errno", 0) == errno.ENAMETOOLONG:
        hint = "Give the file a shorter name: most disks take 255 bytes."
    return UsageError(f"cannot write {path}: {getattr(error, 'strerror', '') or error}", hint=hint)


def _is_owned(opened: Opened, target: Path) -> bool:
    """Whether a file is one of those that the workspace lives from, or a hard link to one."""
    owned = [opened.folder / name for name in OWNED]
    url = opened.store_url
    if url.get_backend_name() == "sqlite" and url.database:
        store = Path(url.database).resolve()
        owned += [store, *(store.with_name(store.name + suffix) for suffix in _JOURNALS)]
    if any(target == one or one in target.parents for one in owned):
        return True
    if not target.is_file() or target.stat().st_nlink == 1:
        return False
    inside = (path for one in owned for path in (one, *one.rglob("*")))
    return any(path.is_file() and path.samefile(target) for path in inside)


def _is_database(target: Path) -> bool:
    ending = next((one for one in _JOURNALS if target.name.endswith(one)), "")
    for path in (target, target.with_name(target.name.removesuffix(ending) or target.name)):
        if path.is_file():
            with path.open("rb") as stream:
                if stream.read(16) == b"SQLite format 3\0":
                    return True
    return False
