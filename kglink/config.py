"""One table of settings: defaults < ``kglink.toml`` < ``KGLINK_*`` variables < flags.

A setting is named ``section.key`` everywhere: ``[link]`` / ``top_k = 5`` in the file,
``KGLINK_LINK_TOP_K=5`` in the environment, ``--top-k 5`` on the command line. The variables
that are no settings (`NOT_SETTINGS`) are read where they are needed.
"""

from __future__ import annotations

import ast
import hashlib
import inspect
import json
import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path, PurePath
from textwrap import dedent
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, TypeAdapter, ValidationError
from pydantic.fields import FieldInfo

from kglink.errors import ConfigError, UnknownNameError

CONFIG_FILE = "kglink.toml"
#: The value of a setting that kglink chooses itself.
AUTO = "auto"
FoundBy = Literal["all", "vectors", "names", "bm25", "tfidf"]
NOT_SETTINGS = frozenset(
    {
        "KGLINK_WORKSPACE",
        "KGLINK_TRUST",
        "KGLINK_PLUGINS",
        "KGLINK_PLUGIN_SECONDS",
        "KGLINK_TRACE_HOOKS",
        "KGLINK_DEBUG",
    }
)
#: Variables of this prefix belong to the tests.
_RESERVED_PREFIXES = ("KGLINK_TEST_", "KGLINK_REALDATA")

#: The password in an address: it is shown to nobody and written nowhere.
_PASSWORD = re.compile(r"\A([^/]*+//[^:/@]*+):[^@]*@")


class Section(BaseModel):
    """The base of a section: unknown keys are refused, values are frozen.

    The text below a setting says what it does (`setting_descriptions`).
    """

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    #: Settings that name something outside of the workspace, and what each does. A `kglink.toml`
    #: sets them only once the user has allowed that file.
    outside: ClassVar[Mapping[str, str]] = {}
    #: Settings that name plugins, and the kind of each; the settings of these plugins are in the
    #: table that is called the same with ``_settings``.
    plugins: ClassVar[Mapping[str, str]] = {}


def _flat(value: object) -> object:
    """TOML reads ``table.colour = 1`` as a table in the table: it means that setting."""
    if not isinstance(value, dict):
        return value
    flat: dict[str, object] = {}
    for key, one in value.items():
        inner = one if isinstance(one, dict) else {}
        flat |= {f"{key}.{name}": each for name, each in inner.items()} or {key: one}
    return flat


#: Settings of plugins, each by its name or as ``NAME.setting``.
TableOfSettings = Annotated[dict[str, str | int | float | bool], BeforeValidator(_flat)]


class StoreSection(Section):
    """Where entities, documents and overlaps are kept."""

    outside: ClassVar[Mapping[str, str]] = {"url": "all that is read is kept there"}

    url: str = "sqlite:///kglink.db"
    """Database address; a relative SQLite path counts from the workspace folder."""


class IngestSection(Section):
    """How `add-kb` reads a source."""

    on_error: Literal["stop", "skip"] = "stop"
    """At a bad record: stop the run, or skip the record and count it."""
    encoding: str = ""
    """Encoding of texts that are not UTF-8, such as `cp1252`; empty: UTF-8, or UTF-16 with a byte
    order mark."""
    batch_size: int = Field(2000, ge=1, le=100_000)
    """Records in one transaction of the store."""
    max_line_mb: float = Field(32, gt=0, le=1024)
    """Longest line that a source may hold, in MiB."""
    max_text_mb: float = Field(16, gt=0, le=1024)
    """Longest text or description, in millions of characters."""
    max_name_chars: int = Field(32_768, ge=512)
    """Longest name in characters: title or alias of an entity, id or title of a document, words of
    a mention."""
    max_stdin_gb: float = Field(64, gt=0)
    """Largest copy of standard input or of a pipe, in GiB."""
    max_expansion: float = Field(1000, gt=1)
    """Largest ratio of unpacked to packed size, for sources that unpack to more than 1 GiB; a tenth
    of it for the lines, beyond two million."""


class EncoderSection(Section):
    """The text encoder."""

    outside: ClassVar[Mapping[str, str]] = {
        "model": "loads a model from there, or from the Hugging Face hub"
    }

    model: str = "auto"
    """`minilm` (comes with kglink), a local folder, or a hub name; `auto`: the model that the space
    was made with, `minilm` for a new space."""
    device: str = "auto"
    """`auto`, `cpu`, `cuda` or `cuda:N`."""
    precision: Literal["auto", "fp32", "bf16", "int8"] = "auto"
    """`auto` takes bf16 where the hardware gains from it, and int8 for a space that was built with
    it; `int8` is for CPUs, and twice as fast as fp32."""
    threads: int = Field(0, ge=0, le=1024)
    """CPU cores for encoding and training; 0: all physical ones."""


class SpaceSection(Section):
    """The joint vector space."""

    plugins: ClassVar[Mapping[str, str]] = {"index": "index"}

    name: str = Field("default", pattern=r"^[a-z0-9][a-z0-9_-]{0,63}$")
    """Name of the space to build and use; a workspace may have several."""
    rows: tuple[Literal["text", "alias"], ...] = ()
    """The vectors that an entity owns, one of its `text` and one of each `alias`. Empty: both;
    trained models: text only."""
    index: str = "auto"
    """Index back end (`kglink plugins`); `auto`: that of the space, `kglink/flat` for a new space,
    and an approximate one for a space that grows beyond a million vectors."""
    index_settings: TableOfSettings = Field(default_factory=dict)
    """Settings of the index back end; with `index = "auto"` and none: those of the space."""
    words: Literal["auto", "yes", "no"] = "auto"
    """Whether a build indexes the words of all names and texts, for `link.found_by` = `bm25` and
    `tfidf`; `auto`: if the space has such an index."""
    description_chars: int = Field(1000, ge=0)
    """Characters of a description that go into an entity's text."""


class LinkSection(Section):
    """How a text is linked."""

    plugins: ClassVar[Mapping[str, str]] = {
        "input": "kb",
        "detector": "detector",
        "reranker": "reranker",
        "clusterer": "clusterer",
        "more_evidence": "evidence",
        "output": "exporter",
    }

    kbs: tuple[str, ...] = ()
    """KBs to link to; empty: all in the space."""
    input: str = "auto"
    """KB adapter that reads texts (`kglink plugins`); `auto`: the one that knows a file's format,
    or plain text."""
    input_settings: TableOfSettings = Field(default_factory=dict)
    """Settings of that adapter; with `auto`, each goes to those that have it."""
    language: str = Field("auto", pattern=r"^(auto|[a-z]{2,3})$")
    """Language of the texts (ISO 639, such as `de`); `auto`: guessed for each text."""
    types: tuple[str, ...] = ()
    """Link only to entities of these types; empty: of all types."""
    under: tuple[str, ...] = ()
    """Limit each entity's KB to it and its descendants (by `parents`), as in `doid:DOID:4`; other
    KBs are not limited."""
    not_under: tuple[str, ...] = ()
    """Link neither to these entities nor to their descendants."""
    detector: tuple[str, ...] = Field(("auto",), min_length=1)
    """Mention detectors (`kglink plugins`); several propose together. `auto`: the dictionary, the
    detector trained for the space, or both, whichever answered held-out documents best."""
    detector_settings: TableOfSettings = Field(default_factory=dict)
    """Settings of the detector; `NAME.setting` if several detectors have it."""
    nested: bool = False
    """Whether mentions may lie in other mentions."""

    rerank_top: int = Field(0, ge=0, le=100)
    """Number of candidates of each KB that the space's trained reranker reads together with the
    mention (`kglink finetune --what reranker`); 0: do not use it."""
    rerank_margin: float = Field(0.3, ge=0)
    """Skip candidates that score more than this below the best: they cannot win."""
    reranker: str = ""
    """Reranker (`kglink plugins`); empty: none."""
    reranker_settings: TableOfSettings = Field(default_factory=dict)
    """Settings of the reranker."""
    clusterer: str = ""
    """Clusterer (`kglink plugins`), which sees all mentions of a run; empty: none."""
    clusterer_settings: TableOfSettings = Field(default_factory=dict)
    """Settings of the clusterer."""
    reorder_top: int = Field(10, ge=1, le=1000)
    """Number of candidates that the `reranker` or `clusterer` orders anew."""
    prefer: tuple[str, ...] = ()
    """KBs that answer first if several have the same thing. After these comes the KB that more
    learnt mentions meant, then the order of the space."""
    per_kb: bool = False
    """Also answer for each KB alone, each with its own probability."""
    top_k: int = Field(5, ge=1, le=1000)
    """Candidates shown for each mention."""
    threshold: Annotated[float, Field(ge=0, le=1)] | Literal["auto"] = "auto"
    """Least probability of a link: that the place is a mention, times that the entity is right;
    a lower one gives more links. Of a mention that you give, only the entity is judged. `auto`:
    what `kglink fit` chose for the space, else 0.3."""
    output_settings: TableOfSettings = Field(default_factory=dict)
    """Settings of the output format of `kglink link`; for one format only as `NAME.setting`, such
    as `table.colour`."""
    rejected: bool = False
    """Also list the places of each document that were not linked, and why."""
    workers: int = Field(1, ge=1, le=256)
    """Number of processes that link texts; each has its own encoder."""
    candidates: int = Field(32, ge=1, le=1000)
    """Candidates of each KB that each index gives to the scorer."""
    window_chars: int = Field(256, ge=0)
    """Characters of a mention and its context that an untrained encoder reads; a trained one reads
    the window that it was trained with."""
    found_by: FoundBy = "all"
    """What finds and orders candidates: names and vectors, vectors alone, names alone, or the words
    of names and texts alone, by BM25 or TF-IDF (`space.words`)."""
    more_evidence: tuple[str, ...] = ()
    """Kinds of evidence to weigh in addition to the built-in ones (`kglink plugins`)."""
    more_evidence_settings: TableOfSettings = Field(default_factory=dict)
    """Settings of that evidence, each as `NAME.setting`."""


class OverlapSection(Section):
    """How overlaps between KBs are found."""

    outside: ClassVar[Mapping[str, str]] = EncoderSection.outside
    plugins: ClassVar[Mapping[str, str]] = {"evidence": "overlap-evidence"}

    method: Literal["full", "paper", "names"] = "full"
    """`names`: entities that share a name; `paper`: those whose descriptions are alike; `full`: all
    evidence, weighed into one probability."""
    model: str = "minilm"
    """Untrained encoder of the texts to compare, independent of the space's model: `minilm` (the
    built-in model of `full` was fitted to it), a folder, or a hub name."""
    threshold: float = Field(0.5, ge=-1, le=1)
    """Least score of a pair to keep: its probability (`full`), or the cosine of the descriptions
    (`paper`)."""
    evidence: tuple[str, ...] = ()
    """Evidence that `full` weighs (`kglink plugins`); empty: that of the built-in model."""
    evidence_settings: TableOfSettings = Field(default_factory=dict)
    """Settings of evidence, each as `NAME.setting`."""
    one_to_one: bool = False
    """Keep each entity in one pair at most, in the likeliest set of pairs."""
    names: Literal["strict", "caseless", "folded"] = "strict"
    """Which names `names` and `paper` take as equal: `strict` ignores spaces and underscores,
    `caseless` also case, `folded` also accents and punctuation."""
    name_kinds: tuple[Literal["title", "alias", "synonym", "redirect", "anchor"], ...] = ()
    """Kinds of names that `names` and `paper` compare; empty: all (`names`), or only titles
    (`paper`)."""
    strip_disambiguator: bool = True
    """Also compare titles without the part in brackets: `Clara Oswald (Immortals)`."""
    max_name_pairs: int = Field(10_000, ge=1)
    """Skip and report a name that would make more pairs than this."""
    max_encoded_rows: int = Field(500_000, ge=0)
    """Largest number of missing vectors that a search encodes; if more are missing, run `kglink
    build` first."""


class Settings(Section):
    """All settings of a workspace."""

    store: StoreSection = StoreSection()
    ingest: IngestSection = IngestSection()
    encoder: EncoderSection = EncoderSection()
    space: SpaceSection = SpaceSection()
    link: LinkSection = LinkSection()
    overlap: OverlapSection = OverlapSection()


@dataclass(frozen=True, slots=True)
class ResolvedSettings:
    """Settings and, for each that is not a default, where its value came from."""

    values: Settings
    origins: Mapping[str, str]
    file_sha256: str = ""
    """SHA-256 of the config file as it was read; empty: there is no file."""
    trusted: bool = False
    """Whether its settings may name what lies outside of the workspace, whoever wrote them."""

    def changed(self, flags: Mapping[str, object]) -> ResolvedSettings:
        """The same with other values for some ``section.key``; None changes nothing."""
        if not isinstance(flags, Mapping):
            raise ConfigError(
                f"settings are given by the type {type(flags).__name__}",
                hint='Give them by their full names: {"link.top_k": 10}.',
            )
        given = {name: (value, "flag") for name, value in flags.items() if value is not None}
        return self._with(given)

    def _with(self, given: Mapping[str, tuple[object, str]]) -> ResolvedSettings:
        """The same with other values, each with where it came from."""
        fields = dict(all_settings())
        values = self.values.model_dump()
        for name, (value, origin) in given.items():
            if name not in fields:
                raise UnknownNameError(f"setting ({origin})", name, fields)
            section, _, key = name.partition(".")
            values[section][key] = _checked(name, fields[name], value, origin)
        origins = {**self.origins, **{name: origin for name, (_, origin) in given.items()}}
        return replace(self, values=Settings.model_validate(values), origins=origins)

    def as_dict(self) -> dict[str, Any]:
        """All values and origins as JSON can hold them; written beside each result."""
        values = without_passwords(self.values.model_dump(mode="json"))
        return {"settings": values, "origins": dict(self.origins)}


def without_passwords(value: Any) -> Any:
    """A value of a setting as it may be shown: the passwords of addresses in it are hidden."""
    if isinstance(value, dict):
        return {key: without_passwords(one) for key, one in value.items()}
    return _PASSWORD.sub(r"\1:***@", value) if isinstance(value, str) else value


def all_settings() -> Iterator[tuple[str, FieldInfo]]:
    """Every ``section.key`` with its field, in the order of the table."""
    for section, section_field in Settings.model_fields.items():
        annotation = section_field.annotation
        if isinstance(annotation, type) and issubclass(annotation, Section):
            for key, field in annotation.model_fields.items():
                yield f"{section}.{key}", field


def setting_descriptions(settings: type[BaseModel]) -> dict[str, str]:
    """What each setting does: the text below it in its class, else that of its `Field`."""
    found = dict.fromkeys(settings.model_fields, "")
    for kind in settings.__mro__[: settings.__mro__.index(BaseModel)]:
        try:
            (definition,) = ast.parse(dedent(inspect.getsource(kind))).body
        except (OSError, TypeError, SyntaxError):  # its source is not there, or not by itself
            continue
        for one, below in pairwise(definition.body if isinstance(definition, ast.ClassDef) else ()):
            match one, below:
                case (
                    ast.AnnAssign(target=ast.Name(id=name)),
                    ast.Expr(value=ast.Constant(value=str(text))),
                ):
                    found[name] = found.get(name) or " ".join(text.split())
    return {
        name: found[name] or field.description or ""
        for name, field in settings.model_fields.items()
    }


def env_name(setting: str) -> str:
    """The environment variable of ``section.key``."""
    return "KGLINK_" + setting.replace(".", "_").upper()


def load_settings(
    config: Path | None = None,
    *,
    env: Mapping[str, str] | None = None,
    flags: Mapping[str, object] | None = None,
) -> ResolvedSettings:
    """Resolve the table from a config file, the environment and ``section.key`` flags."""
    content = _content_of(config)
    digest = "" if content is None else hashlib.sha256(content).hexdigest()
    given = {name: (value, str(config)) for name, value in _from_file(config, content)}
    given.update(_from_env(os.environ if env is None else env))
    return ResolvedSettings(Settings(), {}, digest)._with(given).changed(flags or {})


def _content_of(config: Path | None) -> bytes | None:
    if config is None or not config.is_file():
        return None
    try:
        return config.read_bytes()
    except OSError as error:
        raise ConfigError(f"{config}: {error.strerror}") from error


def _from_file(config: Path | None, content: bytes | None) -> Iterator[tuple[str, object]]:
    if content is None:
        return
    try:
        tables = tomllib.loads(content.decode("utf-8"))
    except RecursionError as error:
        raise ConfigError(f"{config}: nested too deeply", hint="No setting is nested.") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{config}: {error}", hint="It must be a UTF-8 TOML file.") from error
    for section, table in tables.items():
        if section not in Settings.model_fields:
            raise UnknownNameError(f"section in {config}", section, Settings.model_fields)
        if not isinstance(table, dict):
            raise ConfigError(f"{config}: {section!r} must be a section, written [{section}]")
        for key, value in table.items():
            yield f"{section}.{key}", value


def _from_env(env: Mapping[str, str]) -> dict[str, tuple[object, str]]:
    fields = dict(all_settings())
    by_variable = {env_name(name): name for name in fields}
    found: dict[str, tuple[object, str]] = {}
    for variable in sorted(env):
        if not variable.startswith("KGLINK_") or variable in NOT_SETTINGS:
            continue
        if variable.startswith(_RESERVED_PREFIXES):
            continue
        if variable not in by_variable:
            raise UnknownNameError("environment variable", variable, by_variable)
        name = by_variable[variable]
        found[name] = (_read_text(fields[name], env[variable]), variable)
    return found


def _read_text(field: FieldInfo, text: str) -> object:
    """A variable's text as its field wants it: lists as ``a,b``, tables as JSON."""
    kind = str(field.annotation)
    if kind.startswith("tuple"):
        return tuple(part.strip() for part in text.split(",") if part.strip())
    if kind.startswith("dict"):
        try:
            return json.loads(text)
        except (json.JSONDecodeError, RecursionError):
            return text
    return text


def _checked(name: str, field: FieldInfo, value: object, origin: str) -> object:
    """Validate one value, so that an error can say which setting and where it came from."""
    annotate: Any = Annotated
    if isinstance(value, PurePath) and field.annotation is str:
        value = str(value)
    if isinstance(value, str) and str(field.annotation).startswith("tuple"):
        value = _read_text(field, value)  # one name need not be written as a list
    reason = "Input should not be true or false"
    try:  # pydantic takes true for 1
        if not isinstance(value, bool) or field.annotation is bool:
            return TypeAdapter(annotate[field.annotation, field]).validate_python(value)
    except ValidationError as error:
        reason = error.errors(include_url=False)[0]["msg"].replace("tuple", "list")
    section, _, key = name.partition(".")
    about = setting_descriptions(type(getattr(Settings(), section)))
    raise ConfigError(f"{name} = {value!r} ({origin}): {reason}", hint=about[key])
