"""What each kind of evidence is worth: R@1 with spans given, and how sure answers are.

    python benchmarks/evidence.py ../shared/data/disease [--kbs doid,hp,ncit] [--keep FOLDER]

Adds ontologies and three corpora of mentions with golds in them. Mentions are ranked once, with
all evidence, and weighed as often as wanted. Weights and probabilities are fitted to the train
documents of NCBI Disease and BC5CDR, of which memory learnt without the part that is judged; the
figures are of their dev documents. Nothing is trained here: the encoder is that of the workspace,
MiniLM as it comes, or a fine-tuned one where ``--keep`` names a workspace that was trained.

Printed are: R@1 by KB, of surfaces that memory knows and of others, of all golds and of agreed
ones (no other entity of the KB bears the mention's words), and R@64; each kind left out and alone;
a corpus left out; how far probabilities are from the truth (ECE), with one KB, two and three, and
how far another KB moves those of right answers.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import accumulate
from pathlib import Path

import numpy as np
import numpy.typing as npt

from kglink import Workspace
from kglink.evaluation.measures.end_to_end import Reliability
from kglink.linking.candidates import CandidateSearch
from kglink.linking.fit import Rankings, fit_rankings, judged_rankings
from kglink.linking.kinds import Weights
from kglink.linking.memory import Memory
from kglink.linking.scoring import Scoring, write_scoring
from kglink.records import Document, EntityId, Link, MentionInText, Span, TextInput
from kglink.text.fold import fold
from kglink.text.name_words import name_key

BoolArray = npt.NDArray[np.bool_]
FloatArray = npt.NDArray[np.float64]

KB_FILES = {
    "doid": "doid.obographs.json.gz",
    "hp": "hp.obo.gz",
    "ncit": "ncit.obographs.json.gz",
}
LEARNT = ("ncbi_train", "bc5cdr_train")
DEV = ("ncbi_dev", "bc5cdr_dev")
#: What is learnt from, and what is measured, where a corpus is left out.
LEFT_OUT = {
    "ncbi_dev": ("bc5cdr_train", "st21pv_train"),
    "bc5cdr_dev": ("ncbi_train", "st21pv_train"),
    "st21pv_train": ("ncbi_train", "bc5cdr_train"),
}
RESAMPLES = 500
#: What was asked before there was memory, and other KBs and other mentions spoke.
ALONE = ("name", "similar", "exact", "title", "case", "alias", "context", "named_context")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("disease", type=Path)
    parser.add_argument("--kbs", default=",".join(KB_FILES))
    parser.add_argument("--most", type=int, default=1500, help="mentions of each corpus")
    parser.add_argument("--keep", type=Path, help="workspace to keep, or to use again")
    arguments = parser.parse_args()
    kbs = tuple(arguments.kbs.split(","))
    with tempfile.TemporaryDirectory() as made:
        folder = arguments.keep or Path(made) / "workspace"
        with Workspace.open(folder, create=True, flags={"ingest.on_error": "skip"}) as workspace:
            prepare(workspace, arguments.disease, kbs)
            Bench(workspace, kbs, arguments.most).run()


def prepare(workspace: Workspace, disease: Path, kbs: Sequence[str]) -> None:
    """Add KBs and corpora, find overlaps, build, where that was not done before."""
    there = {info.name for info in workspace.store.kbs()}
    for kb in kbs:
        if kb not in there:
            print("add-kb", workspace.add_kb(kb, disease / "kb" / KB_FILES[kb]).summary)
    for name in dict.fromkeys((*LEARNT, *DEV, *LEFT_OUT)):
        if name not in there:
            split = "dev" if name.endswith("_dev") else "train"
            source = disease / "mentions" / f"{name}.jsonl.gz"
            workspace.add_kb(name, source, links_to=kbs, split=split)
    if not list(workspace.store.overlap_runs()):
        workspace.find_overlaps()
    workspace.build_if_stale()


@dataclass
class Judged:
    """Rankings of some documents, and what else is known of each."""

    rankings: Rankings
    agreed: BoolArray
    known: BoolArray
    """Whether memory knows the surface."""

    def part(self, chosen: BoolArray) -> Judged:
        """Some of the rankings."""
        return Judged(self.rankings.part(chosen), self.agreed[chosen], self.known[chosen])


@dataclass
class Bench:
    """Ranks once, weighs many times."""

    workspace: Workspace
    kbs: tuple[str, ...]
    most: int
    bearers: dict[str, dict[str, set[str]]] = field(default_factory=dict)

    def run(self) -> None:
        """Print all tables."""
        encoder = self.workspace.encoder
        print(
            "encoder", encoder.info.fingerprint, "fine-tuned" if encoder.trained else "as it comes"
        )
        self.learn(())
        search = self.search()
        start = search.scoring
        plain = {name: self.ranked(search, [name]) for name in DEV}
        plain_scoring = fit_rankings(self.ranked(search, LEARNT).rankings, start)
        self.learn(LEARNT)
        search = self.search()
        dev = {name: self.ranked(search, [name]) for name in DEV}
        for name, judged in plain.items():
            judged.known = dev[name].known
        print("\nnothing learnt, names and vectors alone")
        alone = {kind: start.weights[kind] for kind in ALONE}
        self._show(plain, replace(start, weights=Weights(alone)))
        print("nothing learnt, all evidence, weights by default")
        self._show(plain, start)
        print("nothing learnt, fitted")
        self._show(plain, plain_scoring)
        print("train documents learnt, weights by default")
        self._show(dev, start)
        began = time.monotonic()
        train = self.ranked(search, LEARNT, learnt=True)
        ranked = time.monotonic()
        scoring = fit_rankings(train.rankings, start)
        seconds = ranked - began, time.monotonic() - ranked
        print(f"train documents learnt, fitted (ranked in {seconds[0]:.0f} s, fitted in "
              f"{seconds[1]:.0f} s)")  # fmt: skip
        self._show(dev, scoring)
        self._ablation(dev, start)
        self._sure(scoring)
        for target, learnt in LEFT_OUT.items():
            self._left_out(target, learnt, start)

    def search(self) -> CandidateSearch:
        """The search by the default weights, with what memory knows now."""
        return self.workspace.link_setup().search(scoring="default")

    def learn(self, names: Iterable[str]) -> None:
        """Make these sources all that memory has learnt."""
        for name in self.workspace.store.memory_sources():
            self.workspace.forget(name)
        for name in names:
            self.workspace.learn(name)

    def ranked(
        self, search: CandidateSearch, names: Sequence[str], *, learnt: bool = False
    ) -> Judged:
        """The mentions of some corpora, with a memory that has not learnt from what is judged."""
        store = self.workspace.store
        documents = [one for name in names for one in self._some(name)]
        agreed: list[bool] = []

        def note(mention: MentionInText, gold: frozenset[EntityId], kb: str) -> None:
            key = name_key(fold(mention.surface) or mention.surface)
            own = {one.key for one in gold if one.kb == kb}
            agreed.append(not self._bearing(kb).get(key, set()) - own)

        def memory(part: Sequence[Document]) -> Memory | None:
            return store.memory_without(part) if learnt else store

        rankings = judged_rankings(
            search, documents, self.kbs, memory, most=len(names) * self.most, depth=64, each=note
        )
        told = rankings.evidence[:, rankings.kinds.index("memory")]
        known = np.maximum.reduceat(told, rankings.starts) > 0
        return Judged(rankings, np.array(agreed), np.asarray(known))

    def _some(self, name: str) -> list[Document]:
        """Whole documents, all windows of each, spread over a corpus, with so many mentions."""
        windows: dict[str, list[Document]] = defaultdict(list)
        for document in self.workspace.store.documents(name):
            windows[document.whole].append(document)
        counts = [sum(len(one.mentions) for one in own) for own in windows.values()]
        step = max(1, round(sum(counts) / self.most))
        return [one for own in list(windows.values())[::step] for one in own]

    def _bearing(self, kb: str) -> dict[str, set[str]]:
        """Who bears a name, whatever its inflection and the order of its words."""
        if kb not in self.bearers:
            segment = self.workspace.space().segments[kb]
            owners = segment.entity_of(np.arange(len(segment.surfaces))).tolist()
            found = self.bearers[kb] = defaultdict(set)
            for row, owner in enumerate(owners):
                found[name_key(segment.names.folded[row])].add(segment.keys[owner])
        return self.bearers[kb]

    # ---------------------------------------------------------------------------- figures
    def _show(self, dev: dict[str, Judged], scoring: Scoring) -> None:
        print(f"{'':14}" + "".join(f"{kb:>7}" for kb in self.kbs)
              + "   mean   (95%)         agreed  known unknown   R@64  ECE  no NIL")  # fmt: skip
        for name, judged in [*dev.items(), ("both", _both(dev.values()))]:
            answered = judged.part(judged.rankings.answered)
            right = self._right(answered, scoring)
            kb = [answered.rankings.in_kb(one) for one in self.kbs]
            low, high = _interval(right, kb)
            agreed = _mean_over(right, [own & answered.agreed for own in kb])
            rankings = answered.rankings
            found = np.logical_or.reduceat(rankings.right, rankings.starts)
            figures = "".join(f"{right[own].mean():7.3f}" for own in kb)
            ece = (_ece(*self._probabilities(one, scoring)) for one in (judged, answered))
            print(f"{name:14}{figures}{_mean_over(right, kb):7.3f}  ({low:.3f} {high:.3f}) "
                  f"{agreed:7.3f}{right[answered.known].mean():7.3f}"
                  f"{right[~answered.known].mean():7.3f}{_mean_over(found, kb):7.3f}  "
                  + "  ".join(f"{one:.3f}" for one in ece), flush=True)  # fmt: skip

    def _ablation(self, dev: dict[str, Judged], scoring: Scoring) -> None:
        both = _both(dev.values())
        answered = both.part(both.rankings.answered)
        kb = [answered.rankings.in_kb(one) for one in self.kbs]
        show = partial(self._line, answered, kb)
        print(
            "\nboth corpora, mean over KBs: R@1, agreed golds, surfaces that memory does not know"
        )
        show("all", scoring.weights)
        for kind, weight in scoring.weights.by_kind.items():
            if weight and answered.rankings.evidence[:, answered.rankings.kinds.index(kind)].any():
                show(f"without {kind}", Weights({**scoring.weights.by_kind, kind: 0.0}))
        for kind in answered.rankings.kinds:
            show(f"{kind} alone", Weights({kind: 1.0}))

    def _line(self, answered: Judged, kb: Sequence[BoolArray], name: str, weights: Weights) -> None:
        right = expected_right(answered.rankings, weights)
        unknown = [own & ~answered.known for own in kb]
        agreed = [own & answered.agreed for own in kb]
        figures = (_mean_over(right, some) for some in (kb, agreed, unknown))
        print(f"{name:24}" + "".join(f"{one:8.3f}" for one in figures), flush=True)

    def _right(self, judged: Judged, scoring: Scoring) -> BoolArray:
        right = np.zeros(len(judged.rankings.starts), dtype=np.bool_)
        for kb in self.kbs:
            own = judged.rankings.in_kb(kb)
            part = judged.rankings.part(own)
            if len(part.starts):
                right[own] = part.first_is_right(scoring.weights_in(kb))
        return right

    def _probabilities(self, judged: Judged, scoring: Scoring) -> tuple[list[float], list[bool]]:
        """How sure the best candidate of each KB is, and whether it is right."""
        said: list[float] = []
        right: list[bool] = []
        for kb in self.kbs:
            part = judged.rankings.part(judged.rankings.in_kb(kb))
            if len(part.starts):
                facts, told = part.decisions(scoring.weights_in(kb))
                calibration = scoring.calibration_by_kb.get(kb, scoring.calibration)
                said += [calibration.probability(one, lead, -nil) for one, lead, nil, _ in facts]
                right += [bool(one) for one in told]
        return said, right

    def _sure(self, scoring: Scoring) -> None:
        """Whole answers with one KB, two and three: ECE, and what another KB changes."""
        print("\nanswers of the linker, spans given: ECE, ECE of mentions that mean something,")
        print("mean confidence and share of right answers, and how far the probability of right")
        print("answers moved since the KB before")
        before: list[Link | None] = []
        for kbs in accumulate((kb,) for kb in self.kbs):
            found = self._links(kbs, scoring)
            every, answered = Reliability(), Reliability()
            moved: list[float] = []
            sure: list[float] = []
            is_right: list[bool] = []
            for at, (link, gold) in enumerate(found):
                own = {one for one in gold if one.kb in kbs}
                if link.chosen and own and not any(one.kb == link.chosen.id.kb for one in own):
                    continue  # nobody judged this KB for this mention
                right = link.chosen.id in own if link.chosen else not own
                every.add(link.confidence, right=right)
                sure.append(link.confidence)
                is_right.append(right)
                if own:
                    answered.add(link.confidence, right=right)
                earlier = before[at] if before else None
                if earlier is not None and link.chosen and right:
                    moved.append(abs(link.confidence - earlier.confidence))
            told = f"{np.mean(moved):.3f} of {len(moved)}" if moved else ""
            print(
                f"{','.join(kbs):16} {every.ece:.3f} {answered.ece:.3f}  "
                f"sure {np.mean(sure):.3f} right {np.mean(is_right):.3f}  {told}",
                flush=True,
            )
            before = [
                link if link.chosen and link.chosen.id in gold else None for link, gold in found
            ]

    def _links(
        self, kbs: Sequence[str], scoring: Scoring
    ) -> list[tuple[Link, frozenset[EntityId]]]:
        write_scoring(
            self.workspace.space().folder.path, self.workspace.encoder.info.fingerprint, scoring
        )
        linker = self.workspace.linker(kbs)
        mentions = [
            (document, mention)
            for name in DEV
            for document in self._some(name)
            for mention in document.mentions
            if mention.gold is not None
        ]
        inputs = (
            TextInput(document.whole, document.text, (Span(mention.start, mention.end),))
            for document, mention in mentions
        )
        links = (link for linked in linker.link(inputs) for link in linked.links)
        return [
            (link, frozenset(mention.gold or ()))
            for link, (_, mention) in zip(links, mentions, strict=True)
        ]

    def _left_out(self, target: str, learnt: Sequence[str], start: Scoring) -> None:
        self.learn(learnt)
        search = self.search()
        scoring = fit_rankings(self.ranked(search, learnt, learnt=True).rankings, start)
        print(f"\nlearnt from and fitted to {', '.join(learnt)}; measured on {target}")
        judged = {target: self.ranked(search, [target])}
        self._show(judged, scoring)


def _both(some: Iterable[Judged]) -> Judged:
    parts = list(some)
    rankings = [one.rankings for one in parts]
    rows = accumulate((len(one.right) for one in rankings), initial=0)
    joined = replace(
        rankings[0],
        evidence=np.concatenate([one.evidence for one in rankings]),
        right=np.concatenate([one.right for one in rankings]),
        starts=np.concatenate([one.starts + at for one, at in zip(rankings, rows, strict=False)]),
        folds=np.concatenate([one.folds for one in rankings]),
        of_kb=np.concatenate([one.of_kb for one in rankings]),
        answered=np.concatenate([one.answered for one in rankings]),
        words=np.arange(sum(len(one.words) for one in rankings)),
    )
    agreed = np.concatenate([one.agreed for one in parts])
    return Judged(joined, agreed, np.concatenate([one.known for one in parts]))


def expected_right(rankings: Rankings, weights: Weights) -> FloatArray:
    """How likely the first candidate is right, where equal ones come in any order.

    Candidates stand in the order of all evidence, which what is left out must not tell.
    """
    scores = weights.score(rankings.by_kind())
    counts = np.diff(np.append(rankings.starts, len(scores)))
    best = scores == np.repeat(np.maximum.reduceat(scores, rankings.starts), counts)
    right = np.add.reduceat((best & rankings.right).astype(np.float64), rankings.starts)
    return np.asarray(right / np.add.reduceat(best.astype(np.float64), rankings.starts))


def _mean_over(right: BoolArray | FloatArray, parts: Sequence[BoolArray]) -> float:
    return float(np.mean([right[own].mean() for own in parts if own.any()]))


def _interval(right: BoolArray, kb: Sequence[BoolArray]) -> tuple[float, float]:
    """Of the mean over KBs, by resampling mentions."""
    rng = np.random.default_rng(1)
    means = np.mean(
        [
            rng.choice(right[own], (RESAMPLES, int(own.sum()))).mean(axis=1)
            for own in kb
            if own.any()
        ],
        axis=0,
    )
    low, high = np.quantile(means, [0.025, 0.975])
    return float(low), float(high)


def _ece(said: Sequence[float], right: Sequence[bool]) -> float:
    """The expected calibration error, in ten bins of equal width."""
    calibration = Reliability()
    for sure, is_right in zip(said, right, strict=True):
        calibration.add(sure, right=is_right)
    return calibration.ece or 0.0


if __name__ == "__main__":
    main()
