"""The scoring of a trained model's space, kept beside its versions.

spaces/NAME/scoring.json    weights, calibration, the model that they were fitted for
"""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from kglink.errors import SpaceError
from kglink.files.atomic import write_atomically
from kglink.linking.scoring import Scoring

SCORING_FILE = "scoring.json"
_FORMAT = 1


class _Kept(BaseModel):
    """What the file says."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    format: int = _FORMAT
    fingerprint: str
    scoring: dict[str, Any]


def write_scoring(folder: Path, fingerprint: str, scoring: Scoring) -> None:
    """Keep the scoring of a space for its model."""
    kept = _Kept(fingerprint=fingerprint, scoring=dataclasses.asdict(scoring))
    write_atomically(folder / SCORING_FILE, kept.model_dump_json(indent=1) + "\n")


def read_scoring(folder: Path, fingerprint: str) -> Scoring | None:
    """The scoring of a space; None where none was fitted for its model."""
    path = folder / SCORING_FILE
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
        kept = _Kept.model_validate(raw)
        if kept.fingerprint != fingerprint:
            return None
        if kept.format > _FORMAT:
            raise SpaceError(f"{path}: written by a newer kglink", hint="Upgrade kglink.")
        return TypeAdapter(Scoring).validate_python(kept.scoring)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise SpaceError(f"{path}: cannot be read: {error.strerror}") from error
    except (ValueError, ValidationError) as error:
        raise SpaceError(
            f"{path}: is not what kglink writes ({error})",
            hint="Delete it: the space then has the weights that are not fitted.",
        ) from error
