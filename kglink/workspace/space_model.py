"""Which model a space is built and used with: the one that is set, else its own."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from kglink.config import EncoderSection, Settings
from kglink.errors import UsageError
from kglink.models import DEFAULT_MODEL
from kglink.space.space import SpaceFolder
from kglink.workspace.encoder import AUTO, LazyEncoder
from kglink.workspace.joint_space import WorkspaceSpace


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


def with_model(space: WorkspaceSpace, model: str) -> WorkspaceSpace:
    """The same space made with another model; a model that the settings name stands against it."""
    section = space.resolved.values.encoder
    encoder = LazyEncoder(model, section, space.root)
    if section.model == AUTO or space.encoder.info.fingerprint == encoder.info.fingerprint:
        return replace(space, encoder=encoder)
    origin = space.resolved.origins.get("encoder.model", "settings")
    raise UsageError(
        f"encoder.model is set to {section.model!r} ({origin}), and the space is to be built "
        f"with {encoder.info.name}",
        hint="Take the setting back: without it each space goes on with its own model.",
    )
