"""Searching with a trained model: mentions through one tower, entities through the other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from kglink.errors import UsageError
from kglink.models.bi_encoder import BiEncoder
from kglink.models.hardware import Hardware
from kglink.models.inputs import Inputs, MentionText
from kglink.models.model_folder import read_manifest, tower_sources
from kglink.models.models import ModelSource, Pooling, read_json
from kglink.models.runtime import (
    CHUNK,
    Encoder,
    FloatArray,
    StateModel,
    TokenEncoder,
    TokenMatrices,
    load_states,
)
from kglink.models.settings import BiEncoderSettings
from kglink.models.tokenise import IdArray, Tokens
from kglink.models.towers import snapshot
from kglink.records import Entity


class TwoTowerEncoder(Encoder):
    """Encodes mentions in their text, entities, and plain names, which are entities of one name.

    ``truncated`` counts the entities and names, so far, that lost their end.
    """

    def __init__(
        self,
        source: ModelSource,
        towers: Sequence[StateModel],
        settings: BiEncoderSettings,
        inputs: Inputs,
        hardware: Hardware,
    ) -> None:
        cosine = settings.searches_by_cosine
        # A plain name has one vector even where a scorer reads all tokens.
        pooled: Pooling = "mean" if settings.pooling == "tokens" else settings.pooling
        super().__init__(
            source, towers[-1], hardware, tokenizer=_Names(inputs), pooling=pooled, cosine=cosine
        )
        self.settings = settings
        self.inputs = inputs
        self._mentions = TokenEncoder(source.name, towers[0], hardware, pooled, cosine=cosine)
        if towers[0] is towers[-1]:
            self._mentions = self._encoder

    def encode_mentions(self, mentions: Sequence[MentionText]) -> FloatArray:
        """One vector for each mention, an (n, dim) matrix."""
        return self._mentions.vectors(self.inputs.mentions(mentions))

    def encode_entities(
        self, entities: Iterable[Entity], *, chunk_size: int = CHUNK
    ) -> Iterator[FloatArray]:
        """One vector for each of any number of entities, a matrix for each chunk, in order."""
        for chunk in _chunks(entities, chunk_size):
            yield self._encoder.vectors(self._read(chunk))

    def mention_matrices(self, mentions: Sequence[MentionText]) -> TokenMatrices:
        """The vectors of all tokens of each mention's window, for ``sum_of_max``."""
        self._check_tokens()
        return self._mentions.matrices(self.inputs.mentions(mentions))

    def entity_matrices(
        self, entities: Iterable[Entity], *, chunk_size: int = CHUNK
    ) -> Iterator[TokenMatrices]:
        """The vectors of all tokens of each entity's text, for ``sum_of_max``."""
        self._check_tokens()
        for chunk in _chunks(entities, chunk_size):
            yield self._encoder.matrices(self._read(chunk))

    def _read(self, entities: Sequence[Entity]) -> list[IdArray]:
        tokens = self.inputs.tokens(entities)
        self.truncated += int(tokens.truncated.sum())
        return tokens.ids

    def _check_tokens(self) -> None:
        if self.settings.pooling != "tokens":
            raise UsageError(
                f"{self.source.name}: was trained with one vector for each text, "
                "not with one for each token",
                hint="Use encode_mentions and encode_entities.",
            )


def load_two_towers(source: ModelSource, hardware: Hardware) -> TwoTowerEncoder:
    """Load a trained model's folder for searching."""
    manifest = read_manifest(source.path, check=False)  # `resolve_model` has checked the files
    sources = tower_sources(source.path, manifest)
    towers = [load_states(tower, hardware) for tower in sources]
    rows = int(read_json(sources[0].path / "config.json").get("vocab_size", 0))
    settings = manifest.settings
    inputs = Inputs(sources[0], settings.inputs, rows=rows, tag_ids=manifest.tag_ids)
    return TwoTowerEncoder(source, towers, settings, inputs, hardware)


def freeze(model: BiEncoder, hardware: Hardware, *, name: str = "in training") -> TwoTowerEncoder:
    """A model as it is now, for searching: to choose by recall, to look for hard negatives."""
    towers = [snapshot(tower, hardware) for tower in model.towers()]
    source = model.inputs.source
    described = ModelSource(
        name=name,
        path=source.path,
        weights=(),
        pooling=model.settings.pooling,
        dim=model.dim,
        max_tokens=model.settings.inputs.entity_tokens,
        fingerprint="",
    )
    return TwoTowerEncoder(described, towers, model.settings, model.inputs, hardware)


class _Names:
    """Plain names as token ids: entities of which nothing else is known."""

    def __init__(self, inputs: Inputs) -> None:
        self._inputs = inputs

    def __call__(self, texts: Sequence[str]) -> Tokens:
        return self._inputs.tokens(Entity(key="", title=text) for text in texts)


def _chunks(entities: Iterable[Entity], size: int) -> Iterator[list[Entity]]:
    waiting = iter(entities)
    while chunk := list(islice(waiting, size)):
        yield chunk
