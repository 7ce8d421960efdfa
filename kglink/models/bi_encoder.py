"""The bi-encoder: two towers, or one for both sides, that put mentions and entities in one space.

A model is loaded from a folder or the hub, trained through `BiEncoder.forward`, and saved as a
folder (`kglink.models.model_folder`) that the linker opens like any other model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn

from kglink.errors import ModelError, UsageError
from kglink.models.hardware import Hardware, choose_hardware
from kglink.models.inputs import IdArray, Inputs, tokenizer_files
from kglink.models.model_folder import (
    TRAINED,
    BaseInfo,
    ModelManifest,
    TowerFiles,
    tower_sources,
    write_model_folder,
)
from kglink.models.opening import DEFAULT_MODEL, resolve_model
from kglink.models.settings import BiEncoderSettings, TransformationSettings
from kglink.models.source import rows_of
from kglink.models.tower import Change, TokenBatch, Tower, encoded, pack, split
from kglink.models.towers import load_tower, tower_config
from kglink.models.transformation import SIDES, Side, Transformation
from kglink.plugins import Encoded

#: Which losses are wanted: L, L and L', or L' alone.
ViewMode = Literal["plain", "both", "transformed"]


class Pair(NamedTuple):
    """Both sides of a batch as scorers read them; None for a side of which nothing was given."""

    mentions: Encoded | None
    entities: Encoded | None


class BiEncoder(nn.Module):
    """Two towers with their pooling, metric and inputs; ``transformation`` only while training.

    ``mention`` and ``entity`` are one and the same tower if it is shared. ``history`` is what a
    model folder tells of how the model came to be; a stage adds to it.
    """

    def __init__(
        self,
        mention: Tower,
        entity: Tower,
        settings: BiEncoderSettings,
        inputs: Inputs,
        base: BaseInfo,
        tokenizers: Sequence[Mapping[str, bytes]],
    ) -> None:
        super().__init__()
        if mention.dim != entity.dim:
            raise ModelError(
                f"the towers' vectors have {mention.dim} and {entity.dim} numbers",
                hint="Give two models of one width.",
            )
        self.mention = mention
        self.entity = entity
        self.settings = settings
        self.inputs = inputs
        self.base = base
        self.history: tuple[dict[str, Any], ...] = ()
        self._entities_frozen = False
        self.transformation: Transformation | None = None
        self._tokenizers = tuple(tokenizers)

    @property
    def dim(self) -> int:
        """The width of its vectors."""
        return self.mention.dim

    @property
    def device(self) -> torch.device:
        """Where its parameters are."""
        return next(self.parameters()).device

    def add_transformation(
        self, settings: TransformationSettings, *, domains: int = 1, seed: int = 0
    ) -> Transformation:
        """Add the adversary of training; a saved model does not hold it."""
        for tower in self.towers():
            tower.check_layer(settings.layer)
        added = Transformation(self.dim, settings, domains=domains, seed=seed)
        self.transformation = added.to(self.device)
        return self.transformation

    def towers(self) -> tuple[Tower, ...]:
        """Its towers, one or two."""
        return (self.mention,) if self.settings.shared else (self.mention, self.entity)

    def freeze(self, *, embeddings: bool = True, entities: bool = False) -> None:
        """Keep the word embeddings as they are in training, and the tower of entities if wanted."""
        if entities and self.settings.shared:
            raise UsageError(
                "the entities cannot be frozen: one tower encodes them and the mentions",
                hint="Set shared = false, or freeze_entities = false.",
            )
        self._entities_frozen = entities
        for tower in self.towers():
            is_trained = tower is self.mention or not entities
            tower.requires_grad_(is_trained)
            if is_trained:
                tower.freeze_embeddings(embeddings)

    def train(self, mode: bool = True) -> BiEncoder:
        """Set training mode; a frozen tower stays in evaluation mode."""
        super().train(mode)
        if self._entities_frozen:
            self.entity.eval()
        return self

    def forward(
        self,
        mentions: Sequence[IdArray],
        entities: Sequence[IdArray],
        *,
        view: ViewMode = "plain",
        domains: tuple[Sequence[int], Sequence[int]] = ((), ()),
    ) -> list[Pair]:
        """Encode token ids of both sides; either may be empty. A shared tower packs them as one.

        Returns the wanted views, the plain one first. ``domains`` are those of the mentions and of
        the entities, for a transformation that has a matrix for each.
        """
        if view != "plain" and self.transformation is None:
            raise UsageError(
                "the model has no transformation", hint="Call add_transformation before training."
            )
        left: list[Side] = ["mention"] * len(mentions)
        right: list[Side] = ["entity"] * len(entities)
        if self.settings.shared:
            texts, of_all = [*mentions, *entities], [*domains[0], *domains[1]]
            wholes = self._views(self.mention, texts, [*left, *right], view, of_all)
            return [_cut(whole, len(mentions)) for whole in wholes]
        own = self._views(self.mention, mentions, left, view, domains[0])
        other = self._views(self.entity, entities, right, view, domains[1])
        return [Pair(*sides) for sides in zip(own, other, strict=True)]

    def encode(self, ids: Sequence[IdArray], side: Side) -> Encoded:
        """Encode one side alone, without the transformation."""
        batch = self._packed(ids)
        return self._encoded((self.mention if side == "mention" else self.entity)(batch), batch)

    def save(self, folder: Path, *, libraries: Mapping[str, str] | None = None) -> ModelManifest:
        """Write the model's folder, whole or not at all."""
        files = [
            TowerFiles(tower.config, tower.weights(), tokenizer)
            for tower, tokenizer in zip(self.towers(), self._tokenizers, strict=True)
        ]
        return write_model_folder(
            folder,
            files,
            base=self.base,
            settings=self.settings,
            tag_ids=self.inputs.tag_ids,
            libraries=libraries or {},
            history=self.history,
        )

    def _views(
        self,
        tower: Tower,
        ids: Sequence[IdArray],
        sides: Sequence[Side],
        view: ViewMode,
        domains: Sequence[int],
    ) -> list[Encoded | None]:
        """The wanted views of texts; None for each where there are no texts."""
        if not ids:
            return [None] * (2 if view == "both" else 1)
        batch = self._packed(ids)
        if view == "plain" or self.transformation is None:
            return [self._encoded(tower(batch), batch)]
        change = self._change(self.transformation, batch, sides, domains)
        layer = self.transformation.settings.layer
        views = tower.views(batch, layer, change, plain=view == "both")
        return [self._encoded(states, batch) for states in views]

    def _packed(self, ids: Sequence[IdArray]) -> TokenBatch:
        """A batch as the towers read it: without marks where the tokens between them are pooled."""
        start, end, _ = self.inputs.tag_ids
        return pack(
            ids, self.device, marks=(start, end) if self.settings.pooling == "span" else None
        )

    def _change(
        self,
        transformation: Transformation,
        batch: TokenBatch,
        sides: Sequence[Side],
        domains: Sequence[int],
    ) -> Change:
        """The transformation of packed states whose texts are of these sides and domains."""
        texts = batch.texts_of_tokens()
        of_tokens = torch.tensor(domains, device=texts.device)[texts] if domains else None
        if len(set(sides)) == 1:
            return lambda states: transformation(states, sides[0], of_tokens)
        mentions = torch.tensor([side == "mention" for side in sides], device=texts.device)[texts]

        def change(states: Tensor) -> Tensor:
            mention, entity = (transformation(states, side, of_tokens) for side in SIDES)
            return torch.where(mentions.unsqueeze(1), mention, entity)

        return change

    def _encoded(self, states: Tensor, batch: TokenBatch) -> Encoded:
        cosine = self.settings.metric == "cosine"
        return encoded(states, batch, self.settings.pooling, cosine=cosine)


def load_bi_encoder(
    model: str | Path = DEFAULT_MODEL,
    *,
    settings: BiEncoderSettings | None = None,
    hardware: Hardware | None = None,
    fetch: bool = True,
) -> BiEncoder:
    """A bi-encoder in training mode, embeddings frozen: from its folder, or anew from any encoder.

    ``settings`` are those of a new one; with a folder they take the place of its own. ``fetch``
    is `resolve_model`'s.
    """
    hardware = hardware or choose_hardware()
    folder = Path(model).expanduser()
    tag_ids: tuple[int, int, int] | None = None
    history: tuple[dict[str, Any], ...] = ()
    if TRAINED.is_there(folder):
        manifest = TRAINED.read(folder.resolve())
        chosen = settings or manifest.settings
        if chosen.shared and not manifest.settings.shared:
            raise ModelError(
                f"{folder.resolve()}: has a tower for each side, and one shared tower is asked for",
                hint="Set shared = false, or begin with another model.",
            )
        sources = tower_sources(folder.resolve(), manifest)
        if chosen.inputs.tags == manifest.settings.inputs.tags:
            tag_ids = manifest.tag_ids
        base, history = manifest.base, manifest.history
    else:
        sources = [resolve_model(str(model), fetch=fetch)]
        chosen = settings or BiEncoderSettings()
        base = BaseInfo(name=sources[0].name, fingerprint=sources[0].fingerprint)
    tower_config(sources[0])  # refuses what is no encoder of texts
    inputs = Inputs(sources[0], chosen.inputs, rows=rows_of(sources[0]), tag_ids=tag_ids)
    # Two towers from one folder begin with the same weights.
    wanted = [sources[0]] if chosen.shared else [sources[0], sources[-1]]
    towers = [load_tower(source, hardware, rows=inputs.rows) for source in wanted]
    tokenizers = [tokenizer_files(source) for source in wanted]
    made = BiEncoder(towers[0], towers[-1], chosen, inputs, base, tokenizers)
    made.history = history
    made.freeze()
    return made


def _cut(whole: Encoded | None, mentions: int) -> Pair:
    """Two sides that were encoded as one batch, as a pair."""
    if whole is None or not mentions:
        return Pair(None, whole)
    if mentions == len(whole.states):
        return Pair(whole, None)
    return Pair(*split(whole, mentions))
