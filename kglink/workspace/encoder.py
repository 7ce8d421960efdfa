"""Which model a space is built and used with: the one that is set, else its own."""

from __future__ import annotations

from pathlib import Path

from kglink.config import EncoderSection, Settings
from kglink.models import DEFAULT_MODEL, Encoder
from kglink.space.folder import SpaceFolder, build_command

#: As ``encoder.model``: the model that the space was made with.
AUTO = "auto"


def encoder_of(model: str, section: EncoderSection, root: Path, *, of_space: str = "") -> Encoder:
    """A model as the settings run it; ``of_space`` is the space whose manifest names it."""
    return Encoder(
        model,
        precision=section.precision,
        device=section.device,
        root=root,
        of_space=of_space,
        rebuild=build_command(of_space),
    )


def space_encoder(root: Path, folder: SpaceFolder, settings: Settings) -> Encoder:
    """The encoder of a space: what ``encoder.model`` says, its own model, or the default."""
    section = settings.encoder
    if section.model != AUTO:
        return encoder_of(section.model, section, root)
    return own_encoder(root, folder, section)


def own_encoder(root: Path, folder: SpaceFolder, section: EncoderSection) -> Encoder:
    """The encoder that a space was made with; the default one of a space that is not made yet."""
    own = folder.model()
    if own is None:
        return encoder_of(DEFAULT_MODEL, section, root)
    return encoder_of(own.path or own.name, section, root, of_space=folder.name)
