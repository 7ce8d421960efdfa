"""The one place where libraries read a model folder: checked files, no code, no questions.

A library is given a private folder with copies of the small files that were checked, and with links
to the weights. What else lies in the folder, such as Python files and pickles, it never sees.
"""

from __future__ import annotations

import io
import json
import os
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from kglink.errors import KglinkError, ModelError
from kglink.models.model_json import check_folder, parsed_json, read_small

if TYPE_CHECKING:
    from torch import Tensor

    from kglink.models.source import ModelSource

#: Settings and vocabularies; weights are linked by their names.
_COPIED = (".json", ".txt", ".model")
GLINER_CONFIG = "gliner_config.json"
_WEIGHTS, _INDEX = "model.safetensors", "model.safetensors.index.json"
#: Whose handlers raise: Ctrl-C, the ends that a system asks for, the time limit of plugins.
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGALRM)
_LOCK = threading.RLock()


def load_transformer(kind: str, source: ModelSource, **options: Any) -> Any:
    """The model of a folder by a class of transformers, such as ``AutoModel``; all weights there.

    ``options`` go to its ``from_pretrained``.
    """
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    import transformers

    with _library("the model cannot be loaded", source.path, source.weights) as folder:
        model, report = getattr(transformers, kind).from_pretrained(
            folder,
            local_files_only=True,
            trust_remote_code=False,
            use_safetensors=True,
            output_loading_info=True,
            **options,
        )
    # transformers fills what it misses with random numbers; only the unused pooler may be missing.
    missing = sorted(name for name in report["missing_keys"] if "pooler" not in name)
    if missing:
        raise ModelError(
            f"{source.path}: the weights do not fit config.json: {missing[0]} is missing",
            hint="Give weights and configuration of one and the same model.",
        )
    return model.eval()


def load_tokenizer(source: ModelSource) -> Any:
    """The tokenizer of a folder as transformers has it, a fast one."""
    from transformers import AutoTokenizer

    with _library("the tokenizer cannot be read", source.path) as folder:
        tokenizer: Any = AutoTokenizer.from_pretrained(
            folder, local_files_only=True, trust_remote_code=False
        )
    if not getattr(tokenizer, "is_fast", False):
        raise ModelError(
            f"{source.path}: {type(tokenizer).__name__} is no fast tokenizer",
            hint="Save a fast one beside the weights (tokenizer.json).",
        )
    return tokenizer


def load_sentences(kind: str, source: ModelSource, device: str = "cpu", **options: Any) -> Any:
    """The model of a folder by a class of sentence-transformers, such as ``CrossEncoder``.

    ``options`` go to the class; all weights are there.
    """
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    if source.chain.first.kind != "StaticEmbedding":
        # The library does not tell which weights were missing; this load does.
        one = "AutoModel"
        if kind == "CrossEncoder" and len(source.chain.modules) == 1:
            one = "AutoModelForSequenceClassification"
        load_transformer(one, source.encoder)
    import sentence_transformers

    folders = [one.folder for one in source.chain.modules]
    with _library("the model cannot be loaded", source.path, source.weights, folders) as folder:
        model = getattr(sentence_transformers, kind)(
            str(folder), device=device, local_files_only=True, trust_remote_code=False, **options
        )
    return model.eval()


def save_sentences(
    kind: str, folder: Path, encoder: Path, max_tokens: int, after: Sequence[Any], **options: Any
) -> None:
    """Write an encoder of our own and the modules ``after`` it as a class's new folder."""
    import sentence_transformers
    from safetensors import SafetensorError
    from sentence_transformers.base.modules import Transformer

    no_room = (OSError, SafetensorError)
    with _no_progress_bar(), library_errors("cannot be written", folder, passing=no_room):
        first = Transformer(str(encoder), max_seq_length=max_tokens)
        made = getattr(sentence_transformers, kind)(
            modules=[first, *after], device="cpu", **options
        )
        made.save(str(folder), create_model_card=False)


def load_gliner(folder: Path, config: Mapping[str, Any]) -> Any:
    """The GLiNER model of a folder, with these settings in the place of the folder's."""
    from gliner import GLiNER

    with _library("GLiNER cannot load it", folder, (folder / _WEIGHTS,)) as copy:
        # It would look for adapters in the folder that the settings name.
        settings = {**config, "model_name": str(copy)}
        (copy / GLINER_CONFIG).write_text(json.dumps(settings), encoding="utf-8")
        return GLiNER.from_pretrained(str(copy), local_files_only=True)


def load_spacy(folder: Path) -> Any:
    """The spaCy pipeline of a folder."""
    import spacy

    with keeping_interrupts(), _LOCK, _no_input(), library_errors("spaCy cannot load it", folder):
        return spacy.load(folder)


def load_tensors(path: Path, device: str = "cpu") -> dict[str, Tensor]:
    """The tensors of a safetensors file."""
    from safetensors.torch import load_file

    with keeping_interrupts():
        return load_file(path, device=device)


@contextmanager
def library_errors(
    what: str,
    where: Path | str,
    seen: Path | None = None,
    passing: tuple[type[Exception], ...] = (),
) -> Iterator[None]:
    """Turn all that a library raises, panics of Rust among it, into a `ModelError`.

    ``seen`` is the folder that the library was given in the place of ``where``. Errors of the
    types ``passing`` stay as they are.
    """
    try:
        yield
    except BaseException as error:
        # A panic is no Exception, and its class cannot be imported.
        panic = type(error).__name__ == "PanicException"
        stays = isinstance(error, (KglinkError, *passing))
        if stays or not (panic or isinstance(error, Exception)):
            raise
        said = str(error) if seen is None else str(error).replace(str(seen), str(where))
        raise ModelError(f"{where}: {what}: {said}") from error


@contextmanager
def keeping_interrupts() -> Iterator[None]:
    """Re-raise the exception of a signal handler that a library has swallowed.

    Libraries in C and Rust call Python while they read weights, and take an interrupt there for
    damaged data.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # handlers run in the main thread alone
        return
    raised: list[BaseException] = []
    found = {number: signal.getsignal(number) for number in _SIGNALS}
    own = {number: _noting(before, raised) for number, before in found.items() if callable(before)}
    try:
        for number, handler in own.items():
            signal.signal(number, handler)
        yield
    except BaseException as error:
        if raised and error is not raised[0]:
            raise raised[0] from error
        raise
    finally:
        for number, handler in own.items():
            if signal.getsignal(number) is handler:  # a first stop puts others in their place
                signal.signal(number, found[number])
    if raised:
        raise raised[0]


def _noting(
    before: Callable[[int, FrameType | None], Any], raised: list[BaseException]
) -> Callable[[int, FrameType | None], None]:
    """A handler that notes what the handler before it raises."""

    def handler(number: int, frame: FrameType | None) -> None:
        try:
            before(number, frame)
        except BaseException as stop:
            raised.append(stop)
            raise

    return handler


@contextmanager
def _library(
    what: str, folder: Path, weights: Sequence[Path] = (), folders: Sequence[str] = ("",)
) -> Iterator[Path]:
    """A private folder to load from; errors say ``what`` of the folder that it stands for.

    ``folders`` are those of its modules, '' the folder itself.
    """
    with ExitStack() as stack:
        stack.enter_context(keeping_interrupts())
        stack.enter_context(_LOCK)
        copy = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kglink-model-")))
        check_folder(folder)
        for name in dict.fromkeys(("", *folders)):
            if Path(name).name != name or name == "..":  # nothing is written elsewhere
                raise ModelError(f"{folder}: names a folder elsewhere, {name!r}")
            (copy / name).mkdir(exist_ok=True)
            own = [path for path in weights if path.parent == folder / name]
            _fill(copy / name, folder / name, own)
        stack.enter_context(_no_code())
        stack.enter_context(_no_input())
        stack.enter_context(_no_progress_bar())
        stack.enter_context(library_errors(what, folder, copy))
        yield copy


def _fill(copy: Path, folder: Path, weights: Sequence[Path]) -> None:
    """Copy what is read of a folder, and check the bytes that are copied."""
    if not folder.is_dir():
        return  # a module without settings
    for path in sorted(folder.iterdir()):
        if path.suffix not in _COPIED or not path.is_file():
            continue
        if path.name.endswith(".index.json") and (path.name != _INDEX or len(weights) < 2):
            continue
        raw = read_small(path)
        if path.suffix == ".json":
            parsed_json(path, raw)
        (copy / path.name).write_bytes(raw)
    for path in weights:
        (copy / (path.name if len(weights) > 1 else _WEIGHTS)).symlink_to(path.resolve())


@contextmanager
def _no_code() -> Iterator[None]:
    """Refuse to import a module of a model folder, whichever way a library came to it."""
    from transformers import dynamic_module_utils

    here, imported = threading.get_ident(), dynamic_module_utils.get_class_in_module

    def refuse(*given: Any, **named: Any) -> Any:
        if threading.get_ident() != here:
            return imported(*given, **named)
        raise RuntimeError("it asks for code of its own, which kglink never runs")

    dynamic_module_utils.get_class_in_module = refuse
    try:
        yield
    finally:
        dynamic_module_utils.get_class_in_module = imported


@contextmanager
def _no_input() -> Iterator[None]:
    """Put standard input at its end for this thread: a library that asks gets no answer."""
    before = sys.stdin
    if before is not None:
        sys.stdin = _Ended(before)
    try:
        yield
    finally:
        sys.stdin = before


class _Ended:
    """Standard input, at its end for the thread that made this."""

    def __init__(self, stream: Any) -> None:
        self._stream, self._thread = stream, threading.get_ident()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._now(), name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._now())

    def _now(self) -> Any:
        ended = io.TextIOWrapper(io.BytesIO())
        return ended if threading.get_ident() == self._thread else self._stream


@contextmanager
def _no_progress_bar() -> Iterator[None]:
    """Keep transformers from drawing a bar, which would spoil a log."""
    from transformers import utils

    logging: Any = utils.logging
    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()
