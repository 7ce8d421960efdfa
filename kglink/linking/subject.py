"""Of which KBs a text speaks, by the names in it that these alone have: evidence `subject`.

"Nairobi" is a person in a text that names others of her series, and a city elsewhere. KBs about the
same things count as one, and evidence counts where several bear a mention's name, or none does: a
KB that is no matter here changes nothing of what another one is sure of.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from kglink.linking.contexts import spread
from kglink.records import MentionInText
from kglink.space.segment import Segment
from kglink.text.fold import fold

#: KBs are about the same things if both have this share of the smaller one's names, of a sample of
#: this size.
_RELATED, _LOOKED_UP = 0.2, 256


class Fields:
    """What the KBs of a space are about: those about the same things have one field."""

    def __init__(self, segments: Mapping[str, Segment]) -> None:
        self._segments = segments
        self._related: dict[tuple[str, str], bool] = {}

    def of(self, kbs: Sequence[str]) -> dict[str, str]:
        """For each KB the first one that is about the same things, itself where none is."""
        fields: dict[str, str] = {}
        for kb in kbs:
            fields[kb] = next((fields[one] for one in fields if self._are_related(one, kb)), kb)
        return fields

    def _are_related(self, left: str, right: str) -> bool:
        if (left, right) not in self._related:
            small, large = sorted(
                (self._segments[left], self._segments[right]), key=lambda one: len(one.surfaces)
            )
            sample = set(small.names.folded.take(spread(len(small.surfaces), _LOOKED_UP)))
            names = [name for name in sample if len(small.names.exact(name))]  # of what is wanted
            shared = sum(len(large.names.exact(name)) > 0 for name in names)
            self._related[left, right] = shared > 0 and shared >= _RELATED * len(names)
        return self._related[left, right]


def spoken_of(
    mentions: Sequence[MentionInText], rows: Sequence[int], bearing: Sequence[frozenset[str]]
) -> list[dict[str, float]]:
    """For each mention with several possible fields, how far its text speaks of each.

    0 for the field that it speaks of most, else the field's count divided by the highest, minus 1.
    ``bearing``: for each row the fields that have the name; all fields if none has it.
    """
    named: dict[tuple[str, str], dict[str, dict[str, float]]]
    named = defaultdict(lambda: defaultdict(dict))
    for mention, row in zip(mentions, rows, strict=True):
        if len(bearing[row]) == 1:
            of_field = named[_text_of(mention)][next(iter(bearing[row]))]
            sure = 1.0 if mention.given else mention.score
            name = fold(mention.surface)
            of_field[name] = max(of_field.get(name, 0.0), sure)
    return [
        _less(named[_text_of(mention)], bearing[row]) if len(bearing[row]) > 1 else {}
        for mention, row in zip(mentions, rows, strict=True)
    ]


def _less(named: Mapping[str, Mapping[str, float]], fields: frozenset[str]) -> dict[str, float]:
    counts = {field: 1 + sum(named.get(field, {}).values()) for field in sorted(fields)}
    most = max(counts.values())
    return {field: count / most - 1 for field, count in counts.items()}


def _text_of(mention: MentionInText) -> tuple[str, str]:
    return mention.document, mention.text
