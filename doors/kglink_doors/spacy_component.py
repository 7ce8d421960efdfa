"""The spaCy component ``kglink``: links the entities of a pipeline, or finds the mentions itself.

spaCy finds it by its entry point: ``nlp.add_pipe("kglink", config={"workspace": "folder"})``.
What it keeps in a document is plain JSON, so that documents can be written and sent to processes.
"""

import os
import sys
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

from spacy.language import Language
from spacy.pipeline import EntityLinker
from spacy.tokens import Doc
from spacy.tokens import Span as DocSpan

from kglink.errors import UsageError
from kglink.records import Link, LinkedDocument, Span, TextInput, json_value
from kglink.workspace import Workspace

#: Of the attributes, the group of spans, and the entry of `Doc.user_data`.
KGLINK = "kglink"
#: The ``kb_id_`` of a mention that no KB has; evaluations of spaCy know it.
NIL = EntityLinker.NIL
#: Which mentions are linked: `Doc.ents` where there are any, only those, or what kglink finds.
AUTO, ENTS, FIND = "auto", "ents", "find"


class LinkingPipe:
    """Links documents to the KBs of a workspace, which it builds first where it has changed."""

    def __init__(
        self,
        workspace: str = "",
        *,
        kbs: str | Iterable[str] = (),
        threshold: float | None = None,
        mentions: str = AUTO,
    ) -> None:
        """Open a workspace: a folder, or the one that commands would use here.

        ``kbs`` are those to link to (all), ``threshold`` is the least confidence of a link (that
        of the workspace), ``mentions`` one of ``auto``, ``ents`` and ``find``.
        """
        if mentions not in (AUTO, ENTS, FIND):
            hint = f"There is: {AUTO}, {ENTS}, {FIND}."
            raise UsageError(f"mentions = {mentions!r} says not what to link", hint=hint)
        self.mentions = mentions
        self._flags: dict[str, object] = {"link.workers": 1}  # processes are spaCy's matter
        names = [kbs] if isinstance(kbs, str) else list(kbs)
        if names:
            self._flags["link.kbs"] = names
        if threshold is not None:
            self._flags["link.threshold"] = threshold
        #: By process: what a forked one inherits cannot be shared, but must not be closed either.
        self._opened: dict[int, Workspace] = {}
        self._is_copy = False
        """Whether another process made it, and this one has it unpickled."""
        self._folder = workspace or None
        self._folder = str(self.workspace.folder)
        for name in names:
            self.workspace.kb(name)
        self.workspace.build_if_stale()
        self.workspace.linked_kbs(self.workspace.space())

    @property
    def workspace(self) -> Workspace:
        """The workspace, as this process has it open."""
        process = os.getpid()
        if process not in self._opened:
            flags = self._flags
            if self._opened or self._is_copy:
                loaded: dict[str, Any] = dict(sys.modules)
                if "torch" in loaded:
                    loaded["torch"].set_num_threads(1)
                if "faiss" in loaded:
                    loaded["faiss"].omp_set_num_threads(1)
                flags = {**flags, "encoder.threads": 1}
            self._opened[process] = Workspace.open(self._folder, flags=flags)
        return self._opened[process]

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_opened": {}, "_is_copy": True}

    def __call__(self, doc: Doc) -> Doc:
        """Link one document."""
        return next(self.pipe([doc]))

    def pipe(self, stream: Iterable[Doc], *, batch_size: int = 1000) -> Iterator[Doc]:
        """Link documents; the mentions of a batch are encoded and searched together."""
        waiting = iter(stream)
        while docs := list(islice(waiting, batch_size)):
            texts = []
            for at, doc in enumerate(docs, 1):
                given = tuple(Span(ent.start_char, ent.end_char) for ent in doc.ents)
                searched = self.mentions == FIND or (self.mentions == AUTO and not given)
                texts.append(TextInput(str(at), doc.text, None if searched else given))
            for doc, linked in zip(docs, self.workspace.link(texts), strict=True):
                annotate(doc, linked)
                yield doc


def annotate(doc: Doc, linked: LinkedDocument) -> None:
    """Write links into a document.

    A mention becomes the span of all tokens that it touches. All are in ``doc.spans["kglink"]``;
    those that meet an entity of the document give it its ``kb_id_``, and those that overlap none
    become entities, the longest first, with the name of the KB as their label.
    """
    given = {(ent.start, ent.end): ent for ent in doc.ents}
    taken = {token.i for ent in doc.ents for token in ent}
    spans, found = [], []
    for (start, end), link in _longest_first(doc, linked.links):
        ent = given.get((start, end))
        kb, id_ = (link.chosen.id.kb, str(link.chosen.id)) if link.chosen else (NIL, NIL)
        span = DocSpan(doc, start, end, label=ent.label_ if ent else kb, kb_id=id_)
        span._.kglink = link.as_json()
        known = link.candidates if link.chosen else ()
        span._.kb_ents = [(str(one.id), float(one.score)) for one in known]
        spans.append(span)
        if ent:
            for token in ent:
                token.ent_kb_id_ = id_
        elif link.chosen and taken.isdisjoint(range(start, end)):
            taken.update(range(start, end))
            found.append(span)
    doc.set_ents(found, default="unmodified")
    doc.spans[KGLINK] = sorted(spans, key=lambda span: (span.start, -span.end))
    doc.user_data[KGLINK] = json_value(linked.meta)


def set_extensions() -> None:
    """Let spaCy know ``doc._.kglink``, ``span._.kglink`` and ``span._.kb_ents``.

    A pipeline does so itself; documents that are read without one need it.
    """

    def as_json(doc: Doc) -> dict[str, object] | None:
        """What `kglink link --format jsonl` says of a text; None: it was not linked."""
        if KGLINK not in doc.user_data:
            return None
        entities = [span._.kglink for span in doc.spans.get(KGLINK, ())]
        return {"text": doc.text, "entities": entities, "meta": doc.user_data[KGLINK]}

    Doc.set_extension(KGLINK, getter=as_json, force=True)
    DocSpan.set_extension(KGLINK, default=None, force=True)
    if not DocSpan.has_extension("kb_ents"):  # scispaCy's has the same shape
        DocSpan.set_extension("kb_ents", default=[])


@Language.factory(
    KGLINK,
    default_config={"workspace": "", "kbs": [], "threshold": None, "mentions": AUTO},
    assigns=["doc.ents", "doc.spans", "token.ent_kb_id", "doc._.kglink", "span._.kglink"],
)
def make_component(
    nlp: Language,
    name: str,
    workspace: str,
    kbs: str | list[str],
    threshold: float | None,
    mentions: str,
) -> LinkingPipe:
    """What `nlp.add_pipe` calls; the pipeline itself adds nothing to it."""
    set_extensions()
    return LinkingPipe(workspace, kbs=kbs, threshold=threshold, mentions=mentions)


def _longest_first(doc: Doc, links: Iterable[Link]) -> list[tuple[tuple[int, int], Link]]:
    """Links by the tokens that they touch; of the same tokens the one that is most probable."""
    places: dict[tuple[int, int], Link] = {}
    for link in sorted(links, key=lambda link: (link.chosen is None, -link.probability)):
        span = doc.char_span(link.start, link.end, alignment_mode="expand")
        if span is not None:
            places.setdefault((span.start, span.end), link)
    return sorted(places.items(), key=lambda one: (one[0][0] - one[0][1], one[0]))
