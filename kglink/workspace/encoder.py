"""The workspace's encoder, loaded when the first text has to be encoded."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from kglink.config import EncoderSection, Settings
from kglink.errors import ModelError, UsageError
from kglink.models import DEFAULT_MODEL, ModelSource, load_encoder, resolve_model
from kglink.models.model_folder import is_model_folder, read_manifest
from kglink.models.written import write_entity
from kglink.records import OnProgress
from kglink.space.folder import SpaceFolder, build_command
from kglink.space.manifest import ModelInfo

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kglink.models.inputs import MentionText
    from kglink.models.runtime import Encoder, TokenMatrices
    from kglink.models.settings import BiEncoderSettings
    from kglink.models.two_towers import TwoTowerEncoder
    from kglink.records import Entity

#: As ``encoder.model``: the model that the space was made with.
AUTO = "auto"

FloatArray = npt.NDArray[np.float32]


class LazyEncoder:
    """An encoder that checks its weights when it is named and loads them when it is used.

    Building a space whose vectors are all there, or asking what a space is made of, takes no
    torch. ``model`` is a name or a folder, which may be given from ``root``; ``of_space`` is the
    space that names it, if one does.
    """

    def __init__(
        self, model: str, settings: EncoderSection, root: Path, *, of_space: str = ""
    ) -> None:
        self._model = model
        self._settings = settings
        self._root = root
        self._of_space = of_space
        self._source: ModelSource | None = None
        self._encoder: Encoder | None = None

    @property
    def source(self) -> ModelSource:
        """The checked model folder."""
        if self._source is None:
            self._source = self._found()
        return self._source

    @property
    def info(self) -> ModelInfo:
        """What a space records of its model."""
        source = self.source
        path = self._path(source)
        inside = path if self._is_inside(source) else source.name
        return ModelInfo(name=inside, fingerprint=source.fingerprint, dim=source.dim, path=path)

    @cached_property
    def trained(self) -> BiEncoderSettings | None:
        """How the towers of a trained model are pooled, compared and fed; None: it has none."""
        if not is_model_folder(self.source.path):
            return None
        return read_manifest(self.source.path, check=False).settings

    @property
    def loaded(self) -> Encoder:
        """The encoder itself."""
        if self._encoder is None:
            self._encoder = load_encoder(
                self.source, precision=self._settings.precision, device=self._settings.device
            )
        return self._encoder

    @property
    def device(self) -> str:
        """Where it computes, as the settings say it."""
        return self._settings.device

    @property
    def truncated(self) -> int:
        """How many texts were longer than the model reads."""
        return self._encoder.truncated if self._encoder else 0

    @property
    def max_tokens(self) -> int:
        """The longest text that is read to its end, in tokens."""
        return self.source.max_tokens

    def count_truncated(self, texts: Sequence[str]) -> int:
        """How many of some texts are longer than that."""
        return self.loaded.count_truncated(texts)

    def encode(self, texts: Sequence[str], *, progress: OnProgress = lambda _: None) -> FloatArray:
        """One vector for each text, of length one but where a model was trained otherwise."""
        return self.loaded.encode(texts, progress=progress)

    def _found(self) -> ModelSource:
        own = self._root / self._model
        try:
            return resolve_model(str(own) if own.is_dir() or is_model_folder(own) else self._model)
        except ModelError as error:
            if not self._of_space:
                raise
            raise ModelError(
                f"the model of space {self._of_space!r} cannot be used: {error.message}",
                hint="Put it back, or build the space with another: "
                f"`{build_command(self._of_space)} --model NAME`.",
            ) from error

    def _path(self, source: ModelSource) -> str:
        if self._is_inside(source):
            return source.path.relative_to(self._root.resolve()).as_posix()
        return str(source.path) if Path(source.name).expanduser().is_dir() else source.name

    def _is_inside(self, source: ModelSource) -> bool:
        return source.path.is_relative_to(self._root.resolve())


class TrainedEncoder:
    """A trained model: mentions through one tower, entities and names through the other."""

    def __init__(self, encoder: LazyEncoder, settings: BiEncoderSettings) -> None:
        self._encoder = encoder
        self.settings = settings

    @property
    def truncated(self) -> int:
        """How many entities and names were longer than the model reads."""
        return self._encoder.truncated

    @property
    def max_tokens(self) -> int:
        """The longest entity or name that is read to its end, in tokens."""
        return self._encoder.max_tokens

    def count_truncated(self, texts: Sequence[str]) -> int:
        """How many of some names are longer than that."""
        return self._encoder.count_truncated(texts)

    def encode(self, texts: Sequence[str]) -> FloatArray:
        """One vector for each name, as of an entity of which nothing else is known."""
        return self._towers.encode(texts)

    @property
    def has_tokens(self) -> bool:
        """Whether it compares all tokens, and not just one vector of each text."""
        return self.settings.compares_tokens

    def entity_text(self, entity: Entity) -> str:
        """What the tower is told of an entity."""
        return "\x1f".join(write_entity(entity, self.settings.inputs))

    def encode_entities(self, entities: Sequence[Entity]) -> FloatArray:
        """One vector for each entity."""
        (vectors,) = self._towers.encode_entities(entities, chunk_size=max(1, len(entities)))
        return vectors

    def entity_matrices(self, entities: Sequence[Entity]) -> TokenMatrices:
        """The vectors of all tokens of each entity."""
        (matrices,) = self._towers.entity_matrices(entities, chunk_size=max(1, len(entities)))
        return matrices

    def encode_mentions(self, mentions: Sequence[MentionText]) -> FloatArray:
        """One vector for each mention in its text."""
        return self._towers.encode_mentions(mentions)

    def mention_matrices(self, mentions: Sequence[MentionText]) -> TokenMatrices:
        """The vectors of all tokens of each mention in its text."""
        return self._towers.mention_matrices(mentions)

    @property
    def _towers(self) -> TwoTowerEncoder:
        from kglink.models.two_towers import TwoTowerEncoder

        loaded = self._encoder.loaded
        if not isinstance(loaded, TwoTowerEncoder):
            raise UsageError(f"{loaded.source.name} is no trained model")
        return loaded


def towers_of(encoder: LazyEncoder) -> TrainedEncoder | None:
    """The encoder as a trained model; None: it is none."""
    settings = encoder.trained
    return TrainedEncoder(encoder, settings) if settings else None


def space_encoder(root: Path, folder: SpaceFolder, settings: Settings) -> LazyEncoder:
    """The encoder of a space: what ``encoder.model`` says, its own model, or the default."""
    section = settings.encoder
    if section.model != AUTO:
        return LazyEncoder(section.model, section, root)
    return own_encoder(root, folder, section)


def own_encoder(root: Path, folder: SpaceFolder, section: EncoderSection) -> LazyEncoder:
    """The encoder that a space was made with; the default one of a space that is not made yet."""
    own = folder.model()
    if own is None:
        return LazyEncoder(DEFAULT_MODEL, section, root)
    # Spaces of the first kglink kept no path; the name is then what its settings had.
    return LazyEncoder(own.path or own.name, section, root, of_space=folder.name)
