"""The encoder: texts, mentions and entities in, vectors out, in the order they came."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from kglink.errors import ModelError, UsageError
from kglink.models.hardware import Hardware, Precision, choose_hardware
from kglink.models.model_folder import TRAINED, tower_sources
from kglink.models.opening import DEFAULT_MODEL, resolve_model
from kglink.models.settings import BiEncoderSettings, Pooling
from kglink.models.source import ModelInfo, ModelSource, rows_of
from kglink.records import Entity, MentionInText, OnProgress, Progress
from kglink.text.entity_text import entity_parts

if TYPE_CHECKING:
    from kglink.arrays import FloatArray
    from kglink.models.document_inputs import DocumentInputs
    from kglink.models.inputs import IdArray, Inputs, Tokens
    from kglink.models.runtime import TextVectors, TokenEncoder, TokenMatrices


#: Texts that are sorted by length together; bounds the memory of a stream.
CHUNK = 8192


@dataclass(eq=False, repr=False)
class Encoder:
    """Encodes texts with one model; the same list of texts gives the same bytes every time.

    A plain model reads texts. A trained one (``trained`` says how) also reads mentions in their
    text through one tower and entities through the other; a plain text is to it the name of an
    entity of which nothing else is known.

    Making one costs nothing: ``source`` finds and checks the model, the first text loads torch
    and the weights. ``model`` is a name, a folder (also one that is given from ``root``), or a
    checked source. ``of_space`` is the space whose manifest names the model, if one does, and
    ``rebuild`` the command that builds it.

    ``truncated`` counts the texts and entities, so far, that were longer than ``max_tokens`` and
    lost their end.
    """

    model: str | ModelSource = DEFAULT_MODEL
    precision: Precision = field(default="auto", kw_only=True)
    device: str = field(default="auto", kw_only=True)
    threads: int = field(default=0, kw_only=True)
    root: Path | None = field(default=None, kw_only=True)
    of_space: str = field(default="", kw_only=True)
    rebuild: str = field(default="kglink build", kw_only=True)
    truncated: int = field(default=0, init=False)

    @cached_property
    def source(self) -> ModelSource:
        """The checked model folder."""
        if isinstance(self.model, ModelSource):
            return self.model
        own = self.root / self.model if self.root else None
        inside = own is not None and (own.is_dir() or TRAINED.is_there(own))
        try:
            return resolve_model(str(own) if inside else self.model, fetch=not self.of_space)
        except ModelError as error:
            if not self.of_space:
                raise
            raise ModelError(
                f"the model of space {self.of_space!r} cannot be used: {error.message}",
                hint="Put it back, or build the space with another: "
                f"`{self.rebuild} --model NAME`.",
            ) from error

    @property
    def info(self) -> ModelInfo:
        """What a space records of its model."""
        source = self.source
        root = self.root.resolve() if self.root else None
        if root and source.path.is_relative_to(root):
            name = path = source.path.relative_to(root).as_posix()
        else:
            name = source.name
            path = str(source.path) if Path(name).expanduser().is_dir() else name
        fingerprint = source.fingerprint
        if self.precision == "int8":
            fingerprint = hashlib.sha256(f"{fingerprint} int8".encode()).hexdigest()[:16]
        return ModelInfo(
            name=name,
            fingerprint=fingerprint,
            dim=source.dim,
            path=path,
            precision="int8" if self.precision == "int8" else "",
        )

    @cached_property
    def trained(self) -> BiEncoderSettings | None:
        """How the towers of a trained model are pooled, compared and fed; None: it has none."""
        if not TRAINED.is_there(self.source.path):
            return None
        return TRAINED.read(self.source.path, check=False).settings

    @cached_property
    def hardware(self) -> Hardware:
        """Where and how it computes."""
        return choose_hardware(self.device, self.precision, self.threads)

    @property
    def dim(self) -> int:
        """The width of its vectors."""
        return self.source.dim

    @property
    def max_tokens(self) -> int:
        """The longest text or entity that is read to its end, in tokens."""
        return self.source.max_tokens

    def encode_queries(self, texts: Sequence[str]) -> FloatArray:
        """The same for texts that are looked for: behind the model's prompt for queries."""
        return self.encode(texts, query=True)

    def encode(
        self,
        texts: Sequence[str],
        *,
        query: bool = False,
        progress: OnProgress = lambda _: None,
    ) -> FloatArray:
        """One vector for each text, an (n, dim) matrix; of length one but for a dot product.

        Texts are read behind the model's prompt for documents, with ``query`` that for queries.
        """
        if isinstance(texts, str):
            raise UsageError("encode takes a list of texts, not one text", hint="Use [text].")
        import numpy as np

        prompts = self.source.chain.prompts
        prompt = prompts.query if query else prompts.document
        vectors = np.empty((len(texts), self.dim), np.float32)
        done = 0
        for first in range(0, len(texts), CHUNK):
            chunk = texts[first : first + CHUNK]
            places: dict[str, int] = {}  # each text once, in order of first appearance
            numbers = (places.setdefault(text, len(places)) for text in chunk)
            inverse, unique = np.fromiter(numbers, np.int64, len(chunk)), list(places)
            copies = np.bincount(inverse, minlength=len(unique))
            truncated, batches = self._read(unique, prompt)
            self.truncated += int(copies[truncated].sum())
            found = np.empty((len(unique), self.dim), np.float32)
            for rows, part in batches:
                found[rows] = part
                done += int(copies[rows].sum())
                progress(Progress("encoding", done, len(texts)))
            vectors[first : first + CHUNK] = found[inverse]
        return vectors

    def count_truncated(self, texts: Sequence[str]) -> int:
        """How many texts that are looked for are longer than the model reads."""
        return int(self._read(texts, self.source.chain.prompts.query)[0].sum())

    def entity_text(self, entity: Entity) -> str:
        """All that a trained model reads of an entity."""
        inputs = self._settings.inputs
        parts = entity_parts(entity, inputs.parts, inputs.aliases, brackets=inputs.brackets)
        return "\x1f".join(parts)

    def encode_entities(self, entities: Sequence[Entity]) -> FloatArray:
        """One vector for each entity, by a trained model."""
        return self._loaded.entity.vectors(self._entity_ids(entities))

    def encode_mentions(self, mentions: Sequence[MentionInText]) -> FloatArray:
        """One vector for each mention in its text, by a trained model."""
        if self._settings.pooling == "span":
            windows, places = self._documents.windows(mentions)
            return self._loaded.mention.span_vectors(windows)[places]
        return self._loaded.mention.vectors(self._inputs.mentions(mentions))

    def entity_matrices(self, entities: Sequence[Entity]) -> TokenMatrices:
        """The vectors of all tokens of each entity, for ``sum_of_max``."""
        self._check_tokens()
        return self._loaded.entity.matrices(self._entity_ids(entities))

    def mention_matrices(self, mentions: Sequence[MentionInText]) -> TokenMatrices:
        """The vectors of all tokens of each mention's window, for ``sum_of_max``."""
        self._check_tokens()
        return self._loaded.mention.matrices(self._inputs.mentions(mentions))

    def _entity_ids(self, entities: Sequence[Entity]) -> list[IdArray]:
        tokens = self._inputs.tokens(entities)
        self.truncated += int(tokens.truncated.sum())
        return tokens.ids

    def _check_tokens(self) -> None:
        if self._settings.pooling != "tokens":
            raise UsageError(
                f"{self.source.name}: was trained with one vector for each text, "
                "not with one for each token",
                hint="Use encode_mentions and encode_entities.",
            )

    @property
    def _settings(self) -> BiEncoderSettings:
        if self.trained is None:
            raise self._untrained()
        return self.trained

    @cached_property
    def _documents(self) -> DocumentInputs:
        from kglink.models.document_inputs import DocumentInputs

        inputs = self._inputs
        return DocumentInputs(
            inputs.pieces, inputs.settings.mention_tokens, inputs.source.max_tokens
        )

    @property
    def _inputs(self) -> Inputs:
        if self._loaded.inputs is None:
            raise self._untrained()
        return self._loaded.inputs

    def _untrained(self) -> UsageError:
        return UsageError(f"{self.source.name} is no trained model: it reads texts alone")

    @cached_property
    def _read(self) -> Callable[[Sequence[str], str], TextVectors]:
        """Turns texts, each behind a prompt, into vectors."""
        if not self.source.chain.by_library:
            return self._loaded.read
        from kglink.models.sentence_model import SentenceModel

        return SentenceModel(self.source, self.hardware)

    @cached_property
    def _loaded(self) -> _Loaded:
        """The weights, and the tokenizer that feeds them."""
        from kglink.models.inputs import Inputs, TextTokenizer
        from kglink.models.runtime import TokenEncoder
        from kglink.models.towers import load_states

        source, hardware = self.source, self.hardware
        load = partial(load_states, hardware=hardware, int8=hardware.precision == "int8")
        if self.trained is None:
            states = load(source)
            both = TokenEncoder(source.name, states, hardware, source.pooling)
            return _Loaded(TextTokenizer(source), both, both)
        manifest = TRAINED.read(source.path, check=False)  # `source` has checked the files
        towers = tower_sources(source.path, manifest)
        settings = manifest.settings
        # A plain name has one vector even where a scorer reads all tokens, and is all of one span.
        pooled: Pooling = "cls" if settings.pooling == "cls" else "mean"
        cosine = settings.searches_by_cosine
        encoders = [
            TokenEncoder(source.name, load(one), hardware, pooled, cosine=cosine) for one in towers
        ]
        rows, tags = rows_of(towers[0]), manifest.tag_ids
        inputs = Inputs(towers[0], settings.inputs, rows=rows, tag_ids=tags)

        def names(texts: Sequence[str]) -> Tokens:
            return inputs.tokens(Entity(key="", title=text) for text in texts)

        return _Loaded(names, encoders[0], encoders[-1], inputs)


class _Loaded(NamedTuple):
    """A model in memory; ``mention`` and ``entity`` are one where the model has one tower."""

    tokenise: Callable[[Sequence[str]], Tokens]
    mention: TokenEncoder
    entity: TokenEncoder
    inputs: Inputs | None = None

    def read(self, texts: Sequence[str], prompt: str) -> TextVectors:
        """Read texts, each behind the prompt; the vectors come as they are asked for."""
        tokens = self.tokenise([prompt + text for text in texts] if prompt else texts)
        return tokens.truncated, self.entity.batches(tokens.ids)
