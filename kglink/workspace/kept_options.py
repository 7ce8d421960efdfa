"""How a source is read: options kept with its KB for the next time, and random splits."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pydantic import SecretBytes, SecretStr

from kglink.config import env_name
from kglink.errors import ConfigError, KglinkError, UsageError
from kglink.files.digest import text_digest
from kglink.plugins import Plugin, PluginSettings, Registry
from kglink.plugins.settings import setting_keys
from kglink.records import Document, Record, Split
from kglink.sources import OnError, OnNote, Source
from kglink.sources.encoding import is_utf8

if TYPE_CHECKING:
    from kglink.workspace.opened import Opened

#: Options of `kglink add-kb` by name; adapter settings, which have no dashes, stand beside them.
Options = Mapping[str, object]

#: Settings that belong to the source if a flag or a variable gives them.
_OF_SOURCE = {"--on-error": "ingest.on_error", "--encoding": "ingest.encoding"}
_SPLITS = frozenset({"--split", "--split-random", "--split-seed"})
_FLAGS = _SPLITS | _OF_SOURCE.keys() | {"--adapter", "--links-to", "--resolve"}
_SECRET_NAME = re.compile(
    r"(?:^|[_.-])(?:pass(?:word|wd|phrase)?|pwd|secret|token|credentials?|auth"
    r"|(?:api|access|private|secret)[_-]?key)(?:$|[_.-])",
    re.IGNORECASE,
)
_SECRET_VALUE = re.compile(
    r"://[^/@\s:]*:[^/@\s]+@|(?:password|passwd|pwd|secret|token|api_?key)\s*=", re.IGNORECASE
)


def written(options: Options) -> str:
    """Options as they are typed: ``--set key=SKU --on-error skip``."""
    return " ".join(
        f"{name} {shlex.quote(_text(value))}"
        if name.startswith("--")
        else f"--set {shlex.quote(f'{name}={_text(value)}')}"
        for name, value in options.items()
    )


@dataclass(frozen=True, slots=True)
class HowToRead:
    """How a source is read: as said now, else as the last time, else by default."""

    adapter: str
    settings: PluginSettings
    links_to: tuple[str, ...]
    split: str
    split_random: RandomSplit | None
    resolve: str
    on_error: OnError
    kept: Options
    """What is kept for the next time."""


def how_to_read(
    opened: Opened,
    kb: str,
    source: Source,
    given: Options,
    *,
    defaults: bool,
    merge: bool,
    on_note: OnNote,
) -> HowToRead:
    """How ``source`` is read into a KB; ``given`` are options, empty where none was given.

    The split of the KB's own source is not that of another one that is merged into it.
    """
    registry = opened.registry
    given = {
        name: value
        for name, value in given.items()
        if name not in _FLAGS or value not in (None, "", [], ())
    } | _of_source(opened, lambda _: "flag")
    adapter_before, before = next(
        ((info.adapter, info.options) for info in opened.store.kbs() if info.name == kb), ("", {})
    )
    if defaults and before:
        on_note("defaults", f"left out: {written(before)}")
    flags, own = _split_options({} if defaults else before)
    # Options of the last time in the place of which something else is said now.
    other = {*_of_source(opened, env_name), *(_SPLITS if merge or _SPLITS & given.keys() else ())}
    flags = {name: flags[name] for name in flags if name not in other}
    if "--encoding" not in given and (encoding := _text(flags.get("--encoding", ""))):
        head = b"" if source.is_folder else source.head.head
        if is_utf8(head) and not head.isascii():
            on_note("kept", f"--encoding {encoding} is left out: the source is UTF-8 now")
            del flags["--encoding"]
        else:
            source.read_as(encoding)
    flags_told, own_told = _split_options(given)
    name = _text(given.get("--adapter", "")) or _kept_adapter(registry, flags, on_note)
    flags = {**flags, **flags_told}
    flags.pop("--adapter", None)
    if name:
        plugin = registry.get("kb", name)
        flags["--adapter"] = plugin.name
    else:
        plugin = registry.get("kb", registry.guess_kb(source.head).name)
        on_note("adapter", f"{plugin.name} (guessed from the content); --adapter chooses another")
    if own and plugin.name != adapter_before:
        on_note("kept", f"{written(own)} is left out: it is for {adapter_before}")
        own = {}
    settings = _joined_settings(registry, plugin, own, own_told, on_note)
    kept = _options_to_keep(settings, flags, on_note)
    if adapter_before and not defaults:
        _tell_kept(before, kept, given, on_note)
    links, on_error = flags.get("--links-to"), flags.get("--on-error")
    drawn, seed = _text(flags.get("--split-random", "")), _text(flags.get("--split-seed", 0))
    return HowToRead(
        plugin.name,
        settings,
        tuple(map(str, links)) if isinstance(links, list) else (),
        _text(flags.get("--split", "")),
        read_random_split(drawn, int(seed) if seed.isdecimal() else 0) if drawn else None,
        _text(flags.get("--resolve", "")),
        "skip" if on_error == "skip" else "stop" if on_error else opened.settings.ingest.on_error,
        kept,
    )


def _of_source(opened: Opened, origin: Callable[[str], str]) -> dict[str, object]:
    """The source's own settings that come from a flag, or from a variable."""
    resolved = opened.resolved
    return {
        option: getattr(resolved.values.ingest, setting.partition(".")[2])
        for option, setting in _OF_SOURCE.items()
        if resolved.origins.get(setting) == origin(setting)
    }


def _split_options(options: Options) -> tuple[dict[str, object], dict[str, object]]:
    flags = {name: value for name, value in options.items() if name in _FLAGS}
    return flags, {name: value for name, value in options.items() if name not in flags}


def _joined_settings(
    registry: Registry, plugin: Plugin, kept: Options, given: Options, on_note: OnNote
) -> PluginSettings:
    """The settings ``given``, and those that were kept and that the adapter still takes."""
    known = setting_keys(plugin.settings)
    for name in kept.keys() - set(known):
        on_note("kept", f"{plugin.title} has no setting {name!r} any more: it is left out")
    usable = {name: value for name, value in kept.items() if name in known}
    try:
        return registry.settings_for("kb", plugin.name, {**usable, **given})
    except ConfigError as error:
        if not usable:
            raise
        settings = registry.settings_for("kb", plugin.name, given)
        on_note("kept", f"left out, they no longer fit: {written(usable)} ({error.message})")
        return settings


def _tell_kept(before: Options, now: Options, given: Options, on_note: OnNote) -> None:
    """Say which options were used again, and which are other than before."""
    used = {name: now[name] for name in before if name in now and name not in given}
    if used:
        on_note("kept", f"{written(used)} (as the last time; --defaults leaves them out)")
    changes = [
        f"{written({name: now[name]} if name in now else {name: ''})}, was {_text(before[name])!r}"
        for name in given
        if name in before and now.get(name) != before[name]
    ]
    changes += [f"{written({name: now[name]})} is new" for name in now if name not in before]
    if before and changes:
        on_note("changed", "; ".join(changes))


def _options_to_keep(settings: PluginSettings, flags: Options, on_note: OnNote) -> Options:
    """The options that are kept: what is other than the default, and no secret."""
    values = settings.model_dump(
        mode="json", by_alias=True, exclude_unset=True, exclude_defaults=True
    )
    secret = [
        name
        for name, value in values.items()
        if _SECRET_NAME.search(name) or any(map(_SECRET_VALUE.search, _texts(value)))
    ]
    secret += [name for name, value in settings if isinstance(value, SecretStr | SecretBytes)]
    if secret := [name for name in dict.fromkeys(secret) if name in values]:
        on_note("not kept", f"{', '.join(secret)}: a secret; name it again the next time")
    return {**{name: value for name, value in values.items() if name not in secret}, **flags}


def _kept_adapter(registry: Registry, flags: Options, on_note: OnNote) -> str:
    """The adapter that was named the last time, if it is still there."""
    name = flags.get("--adapter")
    if not isinstance(name, str):
        return ""
    try:
        return registry.get("kb", name).name
    except KglinkError as error:
        on_note("kept", f"--adapter {name} is left out: {error.message}")
        return ""


def _texts(value: object) -> Iterator[str]:
    """All texts in a value as JSON has it; names of a table that speak of a secret come too."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for name, inner in value.items():
            yield f"{name}=" if inner else ""
            yield from _texts(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _texts(inner)


def _text(value: object) -> str:
    return ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


SPLITS: tuple[Split, Split, Split] = ("train", "dev", "test")


@dataclass(frozen=True, slots=True)
class RandomSplit:
    """How many mentions each split gets, and the seed that draws them."""

    train: int
    dev: int
    test: int
    seed: int = 0

    @property
    def counts(self) -> tuple[int, int, int]:
        """Of train, dev and test."""
        return self.train, self.dev, self.test

    def drawn(self, records: Iterable[Record]) -> dict[int, Split]:
        """The split of each mention that is drawn, by its draw; reads all records."""
        draws = sorted(
            self._draw(record, number)
            for record in records
            if isinstance(record, Document)
            for number in range(len(record.mentions))
        )
        wanted = sum(self.counts)
        if wanted > len(draws):
            raise UsageError(
                f"a random split of {wanted:,} mentions, and the source has {len(draws):,}",
                hint="Ask for that number or fewer: --split-random TRAIN,DEV,TEST.",
            )
        splits = (split for split, n in zip(SPLITS, self.counts, strict=True) for _ in range(n))
        return dict(zip(draws, splits, strict=False))

    def divided(self, records: Iterable[Record], drawn: dict[int, Split]) -> Iterator[Record]:
        """The records, each document once for each split that mentions of it are in."""
        for record in records:
            if not isinstance(record, Document):
                yield record
                continue
            own = [drawn.get(self._draw(record, at)) for at in range(len(record.mentions))]
            for split in SPLITS:
                pairs = zip(record.mentions, own, strict=True)
                if mentions := tuple(mention for mention, its in pairs if its == split):
                    yield replace(
                        record,
                        id=f"{record.id}/{split}",
                        mentions=mentions,
                        title=record.whole,
                        split=split,
                    )

    def _draw(self, document: Document, number: int) -> int:
        """A number of chance for a mention, the same whenever the source is read."""
        return int(text_digest(f"{self.seed}\0{document.id}\0{number}"), 16)


def read_random_split(text: str, seed: int = 0) -> RandomSplit:
    """A split as the command line names it: `6360,640,1334`."""
    parts = text.split(",")
    if len(parts) != len(SPLITS) or not all(part.strip().isdecimal() for part in parts):
        raise UsageError(
            f"--split-random is {text!r}",
            hint="Three numbers of mentions, of train, dev and test: --split-random 6360,640,1334.",
        )
    train, dev, test = map(int, parts)
    return RandomSplit(train, dev, test, seed)
