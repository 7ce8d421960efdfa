"""What was trained is given to a space: a model, a reranker, a detector; judged beside the old one.

Documents that were held back fit how evidence is weighed, and say whether answers get better.
"""

from __future__ import annotations

import shutil
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice, zip_longest
from typing import Any

from kglink.errors import ModelError, SpaceError
from kglink.evaluation.annotated import AnnotatedText, is_annotated_whole, merged_texts
from kglink.evaluation.measures.end_to_end import JudgedText, Score, linked_answers
from kglink.evaluation.measures.retrieval import RERANKED as MOST_RANKED
from kglink.evaluation.measures.retrieval import hit
from kglink.evaluation.rankings import JOINT, JUDGED_JOINT, rank_mentions
from kglink.evaluation.significance import RandomizationTest, randomization_test
from kglink.linking.contexts import spread
from kglink.linking.fit import FOLDS, MOST_MENTIONS, fold_of
from kglink.linking.memory import Memory
from kglink.linking.pipeline import Linker
from kglink.linking.sameness import Counterparts
from kglink.linking.scoring import Scoring, read_scoring, write_scoring
from kglink.models.head_folder import RERANKER, TAGGER, AnswersCompared, Comparison
from kglink.records import Document, EntityId, Link, OnProgress, Progress, TextInput
from kglink.space.build import BuildReport
from kglink.space.space import Space
from kglink.store import Store
from kglink.text.fold import fold
from kglink.text.name_words import name_key
from kglink.training.detector import (
    LEAST_HELD_OUT,
    DetectorReport,
    TaggedText,
    TaggedTexts,
    whole_texts,
)
from kglink.training.documents import held_back_documents, sources_of_documents
from kglink.training.job import Note, Tell
from kglink.training.reranker import RerankerReport
from kglink.training.run import RunSettings, TrainingReport, read_settings
from kglink.workspace.detectors import DICTIONARY, LEARNED, chosen_detector, without_auto
from kglink.workspace.folder import SPACES_FOLDER
from kglink.workspace.joint_space import WorkspaceSpace
from kglink.workspace.link_setup import Fitted, LinkSetup, counterparts_of
from kglink.workspace.opened import Opened
from kglink.workspace.spaces import build_if_stale


@dataclass(frozen=True, slots=True)
class Replacement:
    """The share of mentions that the old space and the new one answer right (R@1).

    For each KB, and for all that hold an answer together (``[judged joint]``); of these also for
    words that memory knows and for others. The new space stands on the left of each test.
    """

    tests: Mapping[str, RandomizationTest]
    raw: RandomizationTest | None = None
    """What both find in the texts alone: the mean F1 of a text's links, recall where mentions are
    annotated in part."""

    @property
    def all_tests(self) -> Mapping[str, RandomizationTest]:
        """Those of given mentions, and that of raw texts."""
        return {**self.tests, RAW_TEXTS: self.raw} if self.raw else self.tests

    @property
    def worse(self) -> tuple[str, ...]:
        """Where the new space is worse by more than chance; none: it may take the old one's place.

        Chance: the paired randomization test says p >= .05.
        """
        return tuple(
            pool
            for pool, test in self.all_tests.items()
            if test.difference < 0 and test.is_significant()
        )

    @property
    def objection(self) -> str:
        """Why the new space may not take the old one's place; empty where it may.

        It must answer more mentions right. Few mentions show a loss only by chance, so as many
        as before are no proof that nothing is lost.
        """
        if JUDGED_JOINT not in self.tests:
            return "no mentions were held back to judge it by"
        if self.worse or self.tests[JUDGED_JOINT].difference < 0:
            return "it would answer worse than before"
        if self.tests[JUDGED_JOINT].difference == 0:
            return "it would answer no more right than before"
        return ""

    def as_json(self) -> dict[str, object]:
        """A plain dictionary for machine-readable output."""

        def figures(things: str, test: RandomizationTest) -> dict[str, float]:
            return {things: test.items, "before": test.right, "after": test.left, "p": test.p}

        return {
            "R@1": {pool: figures("mentions", test) for pool, test in self.tests.items()},
            "raw": figures("texts", self.raw) if self.raw else None,
            "worse": list(self.worse),
        }


@dataclass(frozen=True, slots=True)
class Finetuned:
    """What `Workspace.finetune` did; ``build`` is None where no space was published."""

    report: TrainingReport
    build: BuildReport | None = None
    scoring: Scoring | None = None
    """How evidence is weighed in the space; None where no mentions were held back to learn it."""
    detector: DetectorReport | None = None
    """The detector that was trained; None where the documents did not allow it."""
    replacement: Replacement | None = None
    """What the space answers, beside the one before; None where there was nothing to compare."""
    reranker: RerankerReport | None = None
    """The reranker that was trained, where it was asked for."""
    refused: str = ""
    """Why what was trained was not published; empty where nothing was against it."""
    space: str = ""
    """The space that it is for; empty where it is for none yet."""


#: The mentions of ``[judged joint]`` whose words memory knows, and the others.
KNOWN_WORDS, OTHER_WORDS = "[words that memory knows]", "[other words]"
#: The links of texts whose mentions have to be found.
RAW_TEXTS = "[links of raw texts]"
#: How many first candidates of each KB are read where the settings say nothing.
RERANKED = 8
#: How many held-out documents are enough to compare detectors by.
_MOST_COMPARED = 100
#: From this number of documents of a source it is judged whether all are annotated whole.
_MOST_READ = 200


def _compared(
    held_back: Mapping[str, Sequence[Document]],
    before: LinkSetup,
    after: LinkSetup,
    fitted: Fitted,
    progress: OnProgress,
    known: Counterparts | None = None,
) -> Replacement:
    """Ask both all mentions held back that have their answer in these KBs, and texts, part by part.

    The new space is fitted to the other parts, and both remember nothing of the part.
    ``known``: the overlaps that the old space answers with, where they are not those of now.
    """
    # All documents, or some from all places alike with no more mentions than are needed.
    kbs, documents = after.space.kbs(), [*chain.from_iterable(held_back.values())]
    mentions = sum(len(one.mentions) for one in documents)
    most = max(1, len(documents) * MOST_MENTIONS // max(mentions, 1))
    chosen = [documents[at] for at in spread(len(documents), most)]
    texts = {name: merged_texts(name, own) for name, own in held_back.items()}
    complete = {name for name in texts if is_annotated_whole(name, before.store.documents(name))}
    whole = [*chain.from_iterable(texts.values())]
    raw_texts = [whole[at] for at in spread(len(whole), _MOST_COMPARED)]
    folds = {one.text: fold_of(one) for one in documents}
    found: dict[str, tuple[list[float], list[float]]] = {}
    raw: tuple[list[float], list[float]] = ([], [])
    done = 0
    for number in range(FOLDS):
        part = [one for one in chosen if fold_of(one) == number]
        raw_part = [one for one in raw_texts if folds[one.text] == number]
        if not part and not raw_part:
            continue
        of_part = {one.text for one in (*part, *raw_part)}
        memory = before.store.memory_without([one for one in documents if one.text in of_part])
        known_words = _known_words(memory, part)
        old, new = before.search(), after.search(scoring=fitted.without(number))
        if known is not None:
            old = old.with_counterparts(known)
        linkers = [
            setup.linker(search.with_memory(memory), memory=memory)
            for setup, search in ((before, old), (after, new))
        ]
        for linker, own in zip(linkers, raw, strict=True):
            own.extend(_values_of_links(linker, raw_part, kbs, before.store, complete))
        ranked = (rank_mentions(linker, part, kbs, MOST_RANKED) for linker in linkers)
        for both in zip(*ranked, strict=True):
            words = KNOWN_WORDS if both[0].surface in known_words else OTHER_WORDS
            for pool in both[0].ranks.keys() - {JOINT}:
                for name in (pool, words) if pool == JUDGED_JOINT else (pool,):
                    values = found.setdefault(name, ([], []))
                    for own, mention in zip(values, both, strict=True):
                        own.append(hit(mention.reranked[pool], 1))
        done += len(part)
        progress(Progress("comparing with the space before", done, len(chosen)))
    if KNOWN_WORDS not in found:  # nothing was learnt
        found.pop(OTHER_WORDS, None)
    order = (*kbs, JUDGED_JOINT, KNOWN_WORDS, OTHER_WORDS)
    return Replacement(
        {pool: randomization_test(*reversed(found[pool])) for pool in order if pool in found},
        randomization_test(*reversed(raw)) if raw[0] else None,
    )


def _values_of_links(
    linker: Linker, texts: Sequence[AnnotatedText], kbs: Sequence[str], store: Store,
    complete: Collection[str],
) -> Iterator[float]:  # fmt: skip
    """How well the mentions of each text are found and linked, where something is annotated.

    ``complete``: the sources whose documents are annotated whole.
    """
    golds = {gold for text in texts for one in text.mentions for gold in one.gold or ()}
    same = store.counterparts(golds)
    for text, answers in zip(texts, linked_answers(linker, texts), strict=True):
        values = JudgedText(text, kbs, same).values(answers, complete=text.docs in complete)
        if "links" in values:
            yield values["links"]


def _known_words(memory: Memory, documents: Sequence[Document]) -> set[str]:
    """The surfaces of some documents that meant an entity where memory learnt."""
    surfaces = {one.surface for document in documents for one in document.mentions}
    keys = {surface: name_key(fold(surface)) for surface in surfaces}
    meanings = memory.meanings(keys.values())
    meant = {key for key, own in meanings.items() if any(one.entity.key for one in own)}
    return {surface for surface, key in keys.items() if key in meant}


def _held_back(store: Store, settings: RunSettings, space: Space) -> dict[str, list[Document]]:
    """By source, the documents that a run held back: to fit and to compare spaces by."""
    selection, kbs = settings.recipe.selection, space.kbs()
    names = sources_of_documents(store, settings.docs)
    each = {name: [*held_back_documents(store, (name,), selection, kbs)] for name in names}
    return {name: own for name, own in each.items() if own}


# ---------------------------------------------------------------------------- a trained model
def publish_model(
    target: Opened,
    report: TrainingReport,
    compared: Collection[tuple[str, str]],
    progress: Tell,
    *,
    anyway: bool,
) -> Finetuned:
    """Give the model of a run to the space, built and fitted in the run's folder first.

    ``compared``: the KBs whose overlaps were found for the run; the published space answers
    without these.
    """
    model, replaces = str(report.model), target.joint_space.folder.model_published()
    joint = replace(target.joint_space.with_model(model), root=report.folder)
    built = joint.job(progress=progress).build()
    before = None  # the space as it would answer now, if there is one of another model
    manifest = target.joint_space.folder.usable_manifest()
    if manifest and manifest.model.fingerprint != built.manifest.model.fingerprint:
        try:
            build_if_stale(target, progress=progress)
            before = target.space()
        except (ModelError, SpaceError) as error:
            progress(Note(f"nothing to compare with, the space cannot be read: {error.message}"))
    scoring, replacement = None, Replacement({}) if before else None
    space = joint.open()
    held_back = _held_back(target.store, read_settings(report.folder), space)
    if report.recalls is not None and held_back:
        # The reranker of the space was trained for its old model: the new one answers without.
        link = target.settings.link
        own = LinkSetup(space, joint.encoder, link, target.store, target.registry)
        own = own.changed(rerank_top=0)
        fitted = own.fit(held_back, progress)
        scoring = fitted.scoring
        if before:
            after = replace(own, link=without_auto(own.link)).changed(found_by="all")
            known = counterparts_of(target.store, before, but=compared)
            old = replace(after, space=before, encoder=target.encoder)
            if RERANKER.is_there(before.folder.reranker):
                old = old.changed(rerank_top=link.rerank_top)
            replacement = _compared(held_back, old, after, fitted, progress, known)
    refused = replacement.objection if replacement and not anyway else ""
    done = Finetuned(report, scoring=scoring, replacement=replacement, refused=refused)
    if refused:
        return done
    published = take_place(target, joint, model, None if anyway else replaces, scoring, progress)
    return replace(done, build=replace(built, manifest=published.manifest))


def take_place(
    target: Opened,
    built: WorkspaceSpace,
    model: str,
    replaces: str | None,
    scoring: Scoring | None,
    progress: Tell,
) -> BuildReport:
    """Put a space that was built elsewhere in the place of the published one; vectors are kept.

    An error where that one has another model than ``replaces`` by now; None: whichever it has.
    """
    folder = target.joint_space.folder
    if replaces is not None and folder.model_published() != replaces:
        raise SpaceError(
            f"space {folder.name!r} got another model while this run was judged",
            hint="`kglink finetune --resume` with --run and the run's name judges it again.",
        )
    with folder.writing():
        folder.copy_segments(built.folder)
    joint = target.joint_space.with_model(model)
    report = replace(joint, replaces=replaces).job(progress=progress).build()
    target.joint_space = joint
    if scoring is not None:
        write_scoring(folder.path, report.manifest.model.fingerprint, scoring)
    shutil.rmtree(built.root / SPACES_FOLDER)
    return report


def fit_to_held_back(target: Opened, settings: RunSettings, progress: OnProgress) -> None:
    """Fit the space of a run's model as if it were published, where nobody has fitted it."""
    space = target.space()
    is_fitted = read_scoring(space.folder.path, space.manifest.model.fingerprint) is not None
    if not is_fitted and (held_back := _held_back(target.store, settings, space)):
        target.link_setup().fit(held_back, progress)


# ------------------------------------------------------------------------ a trained reranker
def publish_reranker(
    target: Opened,
    report: TrainingReport,
    trained: RerankerReport,
    progress: Tell,
    *,
    anyway: bool,
) -> Finetuned:
    """Give a reranker to the space, with the weight of what it says, unless answers get worse.

    Both are found on the documents that were held back, the weight by cross-fitting.
    """
    space = target.space()
    held_back = _held_back(target.store, read_settings(report.folder), space)
    link = without_auto(target.settings.link)
    setup = replace(target.link_setup(), link=link, reranker=trained.folder)
    before = setup.changed(found_by="all", rerank_top=0)
    after = setup.changed(found_by="all", rerank_top=link.rerank_top or RERANKED)
    fitted = after.fit(held_back, progress)
    replacement = _compared(held_back, before, after, fitted, progress)
    if replacement.objection and not anyway:
        refused = replacement.objection
        return Finetuned(report, replacement=replacement, reranker=trained, refused=refused)
    joint = replacement.tests[JUDGED_JOINT]
    compared = AnswersCompared(
        without=round(joint.right, 4), with_it=round(joint.left, 4), mentions=joint.items
    )
    manifest = trained.manifest.model_copy(update={"compared": compared})
    RERANKER.publish(trained.folder, space.folder.reranker, manifest)
    write_scoring(space.folder.reranker, space.manifest.model.fingerprint, fitted.scoring)
    given = replace(trained, manifest=manifest)
    return Finetuned(report, replacement=replacement, reranker=given)


# ------------------------------------------------------------------------- a trained detector
def publish_detector(opened: Opened, trained: DetectorReport) -> DetectorReport:
    """Give a trained detector to the space, with how the dictionary does on the same documents.

    Each alone and both together find the mentions of documents held back, and of documents that
    the store has besides: a detector may be good on texts like those that it has learnt from, and
    bad on others.
    """
    model = {f"{LEARNED}.model": str(trained.folder)}
    asked = {
        "learned": {"link.detector": (LEARNED,), "link.detector_settings": model},
        "together": {"link.detector": (DICTIONARY, LEARNED), "link.detector_settings": model},
        "dictionary": {"link.detector": (DICTIONARY,), "link.detector_settings": {}},
    }

    def compared(sources: Sequence[str], texts: Sequence[TaggedText]) -> Comparison:
        f1 = {name: _f1(opened, settings, sources, texts) for name, settings in asked.items()}
        return Comparison(**f1, documents=len(texts))

    learnt = trained.texts
    manifest = trained.manifest.model_copy(
        update={
            "compared": compared(learnt.documents, learnt.held_out[:_MOST_COMPARED]),
            "elsewhere": {
                name: compared([name], texts) for name, texts in _other_texts(opened.store, learnt)
            },
        }
    )
    TAGGER.publish(trained.folder, opened.space().folder.detector, manifest)
    return replace(trained, manifest=manifest)


def _other_texts(store: Store, learnt: TaggedTexts) -> Iterator[tuple[str, list[TaggedText]]]:
    """Some texts of each other source whose documents are annotated whole; none of a test split."""
    known = {one.text for one in learnt.train}
    for name in sources_of_documents(store, ()):
        if name in learnt.documents:
            continue
        split = next((one for one in ("dev", "train", "") if store.count_documents(name, one)), "")
        texts = whole_texts(name, islice(store.documents(name, split), _MOST_READ))
        new = [one for one in texts if one.text not in known][:_MOST_COMPARED]
        if sum(len(one.places) for one in new) >= LEAST_HELD_OUT:
            yield name, new


def _f1(
    opened: Opened, detector: Mapping[str, Any], sources: Sequence[str], texts: Sequence[TaggedText]
) -> float:
    """Strict F1 of links with these settings of the detector, as `kglink eval` counts them.

    It is that of places where nobody said what any mention means. The dictionary asks memory,
    which must not have learnt from the texts either.
    """
    score = Score()
    of_links = any(gold for one in texts for gold in one.golds)
    space, store = opened.space(), opened.store
    wanted = {one.text for one in texts}
    learnt = [
        one
        for source in set(store.memory_sources()).intersection(sources)
        for one in store.documents(source)
        if one.text in wanted
    ]
    with opened.with_settings(detector) as using:
        link = chosen_detector(space.folder, using.settings.link, using.settings.encoder).link
        use = replace(opened.link_setup(), link=link)
        memory = store.memory_without(learnt)
        linker = use.linker(use.search().with_memory(memory), memory=memory)
        answers = linker.link(TextInput("", one.text) for one in texts)
        for text, linked in zip(texts, answers, strict=True):
            places = zip_longest(text.places, text.golds)
            golds = {place: gold for place, gold in places if gold or not of_links}
            links = [one for one in linked.links if one.chosen or not of_links]
            right = sum(_is_right(one, golds) for one in links)
            score.add(right, len(links), len(golds))
    return round(score.micro.f1, 4)


def _is_right(link: Link, golds: Mapping[tuple[int, int], tuple[EntityId, ...] | None]) -> bool:
    """Whether a mention stands there, and means this where somebody said what."""
    place = link.start, link.end
    chosen = {link.chosen.id, *link.chosen.also} if link.chosen else set()
    return place in golds and (not golds[place] or not chosen.isdisjoint(golds[place] or ()))
