"""Which detectors find the mentions of texts: the trained one of a space, or the dictionary."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from kglink.config import EncoderSection, LinkSection
from kglink.files.digest import digest_of
from kglink.space.folder import SpaceFolder

AUTO = "auto"
DICTIONARY, LEARNED = "kglink/dictionary", "kglink/learned"


class DetectorChoice(NamedTuple):
    """The settings of linking with their detectors by name; ``note`` tells where these are from."""

    link: LinkSection
    note: str = ""
    identity: str = ""
    """What tells a trained detector from others."""


def chosen_detector(
    folder: SpaceFolder, link: LinkSection, encoder: EncoderSection
) -> DetectorChoice:
    """The detectors that the settings name; with ``auto`` the trained one, if it is good enough."""
    name, note = _automatic(folder) if AUTO in link.detector else ("", "")
    names = tuple(name if one == AUTO else one for one in link.detector)
    if not {LEARNED, LEARNED.rpartition("/")[2]}.intersection(names):
        return DetectorChoice(link.model_copy(update={"detector": names}), note)
    own = {
        "model": str(folder.detector),
        "device": encoder.device,
        "precision": encoder.precision,
        "threads": encoder.threads,
        "decides": len(names) == 1,
    }
    settings = {f"{LEARNED}.{key}": value for key, value in own.items()} | link.detector_settings
    chosen = link.model_copy(update={"detector": names, "detector_settings": settings})
    return DetectorChoice(chosen, note, _identity(folder.detector))


def without_auto(link: LinkSection) -> LinkSection:
    """The settings with the dictionary in the place of ``auto``: it needs no training."""
    names = tuple(DICTIONARY if one == AUTO else one for one in link.detector)
    return link.model_copy(update={"detector": names})


def _identity(folder: Path) -> str:
    from kglink.models.head_folder import TAGGER

    if not TAGGER.is_there(folder):
        return ""
    return digest_of(TAGGER.read(folder, check=False).model_dump(mode="json"))


def _automatic(folder: SpaceFolder) -> tuple[str, str]:
    from kglink.models.head_folder import TAGGER

    if not TAGGER.is_there(folder.detector):
        return DICTIONARY, ""
    manifest = TAGGER.read(folder.detector, check=False)
    trained = f"the detector trained on {', '.join(manifest.documents)}"
    compared = manifest.compared
    if compared is None:
        return LEARNED, f"found by {trained}"
    figures = (
        f"F1 {compared.learned:.2f} on held-out documents, the dictionary {compared.dictionary:.2f}"
    )
    if manifest.is_better:
        worse = manifest.worse_elsewhere
        other = f"; texts like those of {worse} are for `--detector dictionary`" if worse else ""
        return LEARNED, f"found by {trained} ({figures}){other}"
    return DICTIONARY, f"found by the dictionary; {trained} is worse ({figures})"
