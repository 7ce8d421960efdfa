"""What a reranker's folder says besides (`kglink.models.head_folder`); no torch."""

from __future__ import annotations

from kglink.files.manifest import ManifestPart
from kglink.models.head_folder import HeadFolder, HeadManifest
from kglink.models.settings import InputSettings

FORMAT = 1


class AnswersCompared(ManifestPart):
    """Held-out mentions with a right answer first: without the reranker, and with it."""

    without: float
    with_it: float
    mentions: int


class RerankerManifest(HeadManifest):
    """What ``reranker.json`` says."""

    format: int = FORMAT
    inputs: InputSettings
    tag_ids: tuple[int, int, int]
    segments: bool
    compared: AnswersCompared | None = None


#: The folder of a reranker.
RERANKER = HeadFolder(
    "reranker.json",
    RerankerManifest,
    FORMAT,
    "Train it again: `kglink finetune --what reranker`.",
)
