"""Candidates by name: exact and similar names of a KB, and the vectors of its names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache

import numpy as np

from kglink.arrays import FloatArray, IntArray
from kglink.errors import SpaceError
from kglink.files.tables import places_in
from kglink.linking.contexts import Measure
from kglink.records import Candidate
from kglink.space.segment import Segment
from kglink.space.space import Space
from kglink.space.words import WordIndex, WordMeasure
from kglink.text.plain import to_the_letter
from kglink.text.words import in_one_line

#: Several rows belong to one entity: ask for more rows than entities are wanted.
_ROWS_PER_ENTITY = 2
#: More popular is nothing: a KB may have numbers that are infinite once stored.
_MOST_POPULAR = 1e30
#: Uses added to the total of a name, so that few counted uses say little.
_PRIOR_USES = 20
#: In a KB of so many names the letters of a name are compared only if no entity bears it, and of
#: the entities that bear it so many are candidates: those that are used most, then most popular.
_LARGE, _MOST_BEARERS = 2_000_000, 500
#: A shorter word in capitals is an abbreviation.
_LEAST_HEADLINE = 5
_NO_ROWS = np.empty(0, dtype=np.int64)
_NO_HITS = (_NO_ROWS, np.empty(0, dtype=np.float32))


@dataclass(frozen=True, slots=True)
class Surface:
    """A surface of a batch, however often it is mentioned; no vector where none is wanted."""

    text: str
    folded: str
    key: str
    """One for all its inflections: by it memory knows what it meant."""
    vector: FloatArray | None


@dataclass(frozen=True, slots=True)
class Found:
    """Candidates of a mention in one KB: entities in their order, and the evidence for each."""

    entities: IntArray
    evidence: dict[str, FloatArray]
    described: Mapping[int, Candidate] = field(default_factory=dict)
    """By their places those of which more is known."""

    @property
    def is_named(self) -> bool:
        """Whether one of them bears the name of the mention."""
        return bool(self.evidence["exact"].any())

    def having(self, **evidence: FloatArray) -> Found:
        """The same with other evidence of these kinds."""
        return Found(self.entities, {**self.evidence, **evidence}, self.described)

    def with_asked(
        self,
        places: Sequence[int],
        described: Sequence[Candidate],
        asked: Mapping[str, FloatArray],
    ) -> Found:
        """The same with evidence of the candidates at some places.

        Of the others nothing is known; they are no better than the worst that is known, so that
        none overtakes because it was not asked for.
        """
        evidence = dict(self.evidence)
        for kind, values in asked.items():
            evidence[kind] = np.full(
                len(self.entities), min(values.min(initial=0), 0), dtype=np.float32
            )
            evidence[kind][places] = values
        return Found(self.entities, evidence, dict(zip(places, described, strict=True)))


@dataclass(frozen=True, slots=True)
class NameSearch:
    """Finds candidates by names, by the vectors of names, by words, or by several of them."""

    space: Space
    measure: Measure
    candidates: int
    uses_names: bool
    uses_vectors: bool
    words: WordMeasure | None = None
    """How words are compared; None: they are not."""
    words_bring: bool = False
    """Whether words bring candidates, or are compared for those that are there."""

    def find(
        self, surfaces: Sequence[Surface], mentions: Sequence[Sequence[Surface]], kb: str
    ) -> list[Found]:
        """For each mention the candidates in one KB.

        ``mentions``: of each its own words and, if it has one, its full name; ``surfaces`` are
        all of them.
        """
        segment, by_text = self.space.segments[kb], {one.text: one for one in surfaces}
        exact = segment.names.exact if self.uses_names else lambda _: _NO_ROWS
        bearers = {text: exact(one.folded) for text, one in by_text.items()}

        def reads_letters(forms: Sequence[Surface]) -> bool:
            is_named = any(len(bearers[form.text]) for form in forms)
            return self.uses_names and not (is_named and _is_large(segment))

        read = {form.text for forms in mentions if reads_letters(forms) for form in forms}
        similar = self._similar([one for one in surfaces if one.text in read], segment)
        near = self._near(surfaces, kb)

        @cache
        def of_surface(text: str, letters: bool) -> Found:
            hits = similar[text] if letters else _NO_HITS
            return self._found(by_text[text], bearers[text], *hits, near[text], segment)

        def of_mention(forms: Sequence[Surface]) -> Found:
            own, *long = [of_surface(form.text, reads_letters(forms)) for form in forms]
            return self._with_long_form(own, long[0], forms[0], segment) if long else own

        return [of_mention(forms) for forms in mentions]

    def _similar(
        self, surfaces: Sequence[Surface], segment: Segment
    ) -> dict[str, tuple[IntArray, FloatArray]]:
        """For each surface the alias rows of similar names, and their cosines."""
        if not surfaces:
            return {}
        rows = segment.names.similar(
            [one.folded for one in surfaces], self.candidates * _ROWS_PER_ENTITY
        )
        return {one.text: own for one, own in zip(surfaces, rows, strict=True)}

    def _near(self, surfaces: Sequence[Surface], kb: str) -> dict[str, IntArray]:
        """For each surface the entities that its vector and its words bring, if they bring any."""
        segment = self.space.segments[kb]
        near: Iterable[IntArray] = [_NO_ROWS] * len(surfaces)
        vectors = [surface.vector for surface in surfaces if surface.vector is not None]
        if self.uses_vectors and self.space.has_rows("alias", kb):
            most = min(self.candidates * _ROWS_PER_ENTITY, segment.row_count("alias"))
            _, found = self.space.nearest(np.stack(vectors), kb, "alias", most)
            near = [segment.entity_of(one[one >= 0]) for one in found]
        if self.words and self.words_bring:
            folded = [surface.folded for surface in surfaces]
            listed = index_of_words(segment).search(folded, self.candidates, self.words)
            near = [np.union1d(one, own) for one, (own, _) in zip(near, listed, strict=True)]
        return {surface.text: one for surface, one in zip(surfaces, near, strict=True)}

    def _with_long_form(
        self, short: Found, long: Found, surface: Surface, segment: Segment
    ) -> Found:
        """The candidates of a mention and of what its text says that it is short for.

        What speaks for a candidate by either counts; having the long form as a name is evidence of
        its own, `expanded`.
        """
        short = self.with_more(short, long.entities, surface, segment)
        places = np.searchsorted(short.entities, long.entities)
        evidence = {kind: values.copy() for kind, values in short.evidence.items()}
        for kind, values in long.evidence.items():
            if kind != "rarer":  # it counts against a name: a long form must not lift it
                np.maximum.at(evidence[kind], places, values)
        evidence["expanded"][places] = long.evidence["exact"]
        return Found(short.entities, evidence)

    def with_more(self, found: Found, more: IntArray, surface: Surface, segment: Segment) -> Found:
        """The same, with candidates that no name brought."""
        more = np.unique(more)
        new = more[~places_in(found.entities, more)[1]]
        if not len(new):
            return found
        entities = np.concatenate([found.entities, new])
        order = np.argsort(entities)
        nothing = np.zeros(len(new), dtype=np.float32)
        added = {"alias": self._alias(surface.vector, new, segment)}
        added |= self._by_words(surface, new, segment)
        if self.uses_names and _is_large(segment):  # else all that bear the name are there
            bearers = segment.names.exact(surface.folded)
            owners = segment.entity_of(bearers)
            added = _by_letters(surface, bearers, owners, new, nothing, segment) | added
        evidence = {
            kind: np.concatenate([values, added.get(kind, nothing)])[order]
            for kind, values in found.evidence.items()
        }
        return Found(entities[order], evidence)

    def _found(
        self,
        surface: Surface,
        bearers: IntArray,
        rows: IntArray,
        cosines: FloatArray,
        near: IntArray,
        segment: Segment,
    ) -> Found:
        usual = owners = segment.entity_of(bearers)
        similar = segment.entity_of(rows)
        if _is_large(segment) and len(owners) > _MOST_BEARERS:
            uses, popularity = segment.alias_counts[bearers], segment.popularity[owners]
            usual = owners[np.lexsort((popularity, uses))[-_MOST_BEARERS:]]
        entities = np.unique(np.concatenate([usual, similar, near]))
        cosine = _best_of(entities, similar, cosines)
        evidence = _by_letters(surface, bearers, owners, entities, cosine, segment)
        evidence["alias"] = self._alias(surface.vector, entities, segment)
        return Found(entities, evidence | self._by_words(surface, entities, segment))

    def _by_words(
        self, surface: Surface, entities: IntArray, segment: Segment
    ) -> dict[str, FloatArray]:
        """The words of a surface compared with those of some entities, where that is wanted."""
        if not self.words:
            return {}
        index = index_of_words(segment)
        return {self.words: index.scores(surface.folded, entities, self.words)}

    def _alias(self, vector: FloatArray | None, entities: IntArray, segment: Segment) -> FloatArray:
        """The nearest name of each entity; its text where the KB has no vectors of names."""
        if vector is None or not segment.info.rows:
            return np.zeros(len(entities), dtype=np.float32)
        if not self.space.has_rows("alias", segment.kb):
            products = segment.vectors("text", entities) @ vector
            return self.measure.evidence(products, vector, "text")
        rows, owner = segment.aliases_of(entities)
        products = segment.vectors("alias", rows) @ vector
        best = np.full(len(entities), -1, dtype=np.float32)
        np.maximum.at(best, owner, self.measure.evidence(products, vector, "alias"))
        return best


def index_of_words(segment: Segment) -> WordIndex:
    """The word index of a KB; an error where it has none."""
    if segment.words is None:
        raise SpaceError(
            f"the space has no index of the words of {segment.kb!r}",
            hint="`kglink build --words` makes one; later builds keep it.",
        )
    return segment.words


def _is_large(segment: Segment) -> bool:
    """Whether so many names are a large KB's."""
    return segment.info.alias_rows >= _LARGE


def _by_letters(
    surface: Surface,
    bearers: IntArray,
    owners: IntArray,
    entities: IntArray,
    cosine: FloatArray,
    segment: Segment,
) -> dict[str, FloatArray]:
    """What a name says of some entities; ``bearers`` are all alias rows of it, with ``owners``.

    ``cosine``: how similar the most similar name of each entity is, as far as it was asked.
    """
    # Where nothing was counted a name has the count one, a title two; small counts say little.
    counts = segment.alias_counts[bearers].astype(np.float32) - 1
    common = counts / (counts.sum() + _PRIOR_USES)
    popularity = np.clip(segment.popularity[owners], 0, _MOST_POPULAR) + 1
    rarer = 1 - popularity / popularity.max(initial=1)
    own = places_in(entities, owners)[1]
    bearers, owners, common, rarer = bearers[own], owners[own], common[own], rarer[own]
    exact = _best_of(entities, owners, np.ones(len(owners), dtype=np.float32))
    is_title = bearers == segment.alias_starts[owners]
    same_case = _written_so(surface.text, segment.surfaces.take(bearers))
    name, nothing = np.maximum(cosine, exact), np.zeros(len(entities), dtype=np.float32)
    return {  # in the order in which they are shown
        "name": name,
        "similar": np.maximum(name, 0) ** 4,
        "exact": exact,
        "title": _best_of(entities, owners, is_title.astype(np.float32)),
        "case": _best_of(entities, owners, same_case),
        "alias": nothing,
        "expanded": nothing.copy(),
        "common": _best_of(entities, owners, common),
        "rarer": -_best_of(entities, owners, rarer.astype(np.float32)),
    }


def _written_so(surface: str, names: Sequence[str]) -> FloatArray:
    """1 for names that are a surface to the letter; if none is, in the capitals of a headline."""
    written = to_the_letter(surface)
    plain, own = in_one_line(written), list(map(to_the_letter, names))
    same = np.array([name in (written, plain) for name in own], dtype=np.float32)
    if same.any() or len(plain) < _LEAST_HEADLINE or not plain.isupper():
        return same
    return np.array(
        [name.upper() == plain and not name.islower() for name in own], dtype=np.float32
    )


def _best_of(found: IntArray, owners: IntArray, values: FloatArray) -> FloatArray:
    """For each entity of ``found`` (sorted) its largest value, 0 where it has none."""
    best = np.zeros(len(found), dtype=np.float32)
    np.maximum.at(best, np.searchsorted(found, owners), values)
    return best
