"""What a search for overlaps works with, and what its result depends on."""

from __future__ import annotations

import datetime
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from kglink.config import OverlapSection
from kglink.overlap.model import OverlapModel
from kglink.overlap.names import NameRules
from kglink.overlap.paired import RowKind
from kglink.plugins import EntityVectors, PairEvidence
from kglink.records import OverlapRun

if TYPE_CHECKING:
    from kglink.plugins import FloatArray
    from kglink.store import KBInfo, Store


class SpaceVectors(Protocol):
    """What a search reads of the joint space."""

    def ready(self, kb: str) -> bool:
        """Whether a KB's vectors are there, or few enough to be made."""
        ...

    def get(self, kb: str, rows: RowKind) -> EntityVectors | None:
        """The vectors of a KB's rows of one kind, made where they are missing; None: not ready."""
        ...


class TextVectors(Protocol):
    """What a search needs of an encoder."""

    @property
    def fingerprint(self) -> str:
        """Changes whenever the vectors would."""
        ...

    def encode(self, texts: Sequence[str]) -> FloatArray:
        """One vector of length one for each text."""
        ...

    def flush(self) -> None:
        """Write what was encoded, so that it need not be encoded again."""
        ...


@dataclass(frozen=True, slots=True)
class OverlapTools:
    """All that a search works with."""

    store: Store
    settings: OverlapSection
    texts: TextVectors
    space: SpaceVectors
    evidence: Mapping[str, Callable[[], PairEvidence]]
    """Makes the evidence that `full` weighs, by name."""
    model: OverlapModel
    """What `full` adds it up with."""
    device: str = "auto"
    """Where neighbours are looked for: the setting ``encoder.device``."""

    @property
    def is_full(self) -> bool:
        """Whether evidence is weighed by the model."""
        return self.settings.method == "full"

    @property
    def rules(self) -> NameRules:
        """How names are compared; `full` folds them and leaves the rest to the evidence."""
        settings = self.settings
        return NameRules(
            match="folded" if self.is_full else settings.names,
            kinds=() if self.is_full else settings.name_kinds,
            strip_disambiguator=settings.strip_disambiguator,
            max_pairs=settings.max_name_pairs,
        )

    def run_of(self, left: KBInfo, right: KBInfo, candidates: int, kept: int) -> OverlapRun:
        """A search of these KBs that ends now."""
        return OverlapRun(
            left=left.name,
            right=right.name,
            method=self.settings.method,
            settings_fingerprint=self.fingerprint(left.name, right.name),
            candidates=candidates,
            kept=kept,
            left_revision=left.revision,
            right_revision=right.revision,
            finished_at=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        )

    def fingerprint(self, *kbs: str) -> str:
        """The same for searches that find the same in the same KBs.

        Verdicts and the overlaps with a third KB are not in it: a search is made anew for
        their sake only on demand.
        """
        settings = self.settings
        facts: list[object] = [settings.method, settings.strip_disambiguator]
        facts += [settings.max_name_pairs, settings.one_to_one]
        if settings.method != "names":
            facts += [settings.threshold, self.texts.fingerprint]
        if self.is_full:
            facts += [list(self.evidence), dict(settings.evidence_settings)]
            facts += [self.model.fingerprint, [self.space.ready(kb) for kb in kbs]]
        else:
            facts += [settings.names, list(settings.name_kinds)]
        return hashlib.blake2b(json.dumps(facts).encode(), digest_size=8).hexdigest()
