"""What kglink's own plugins register; nothing heavy is loaded before a factory is called."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from kglink.plugins import Factory, Register, hookimpl
from kglink_plugins.clusterers.settings import MentionsSettings
from kglink_plugins.detectors.dictionary.settings import DictionarySettings
from kglink_plugins.detectors.learned.settings import LearnedSettings
from kglink_plugins.detectors.models.settings import (
    GlinerSettings,
    HuggingFaceSettings,
    SpacySettings,
)
from kglink_plugins.exporters.html import HtmlExporter, HtmlSettings
from kglink_plugins.exporters.json_records import JsonExporter, JsonlExporter, JsonSettings
from kglink_plugins.exporters.standoff import (
    BratExporter,
    BratTextExporter,
    CsvExporter,
    StandoffSettings,
)
from kglink_plugins.exporters.table import TableExporter, TableSettings
from kglink_plugins.indexes.settings import FactorySettings, FlatSettings
from kglink_plugins.objectives.settings import (
    DistillationSettings,
    NceSettings,
    ObjectiveSettings,
)
from kglink_plugins.overlap_evidence.settings import FuzzySettings, NeighbourSettings
from kglink_plugins.rerankers.llm.settings import LlmSettings
from kglink_plugins.rerankers.settings import CrossEncoderSettings
from kglink_plugins.samplers.settings import (
    ArborescenceSettings,
    KnnSettings,
    MixedSettings,
    MixupSettings,
)
from kglink_plugins.scorers.settings import DualSettings, ScorerSettings


@hookimpl
def register_detectors(register: Register) -> None:
    """Register the mention detectors."""
    register(
        "kglink/dictionary",
        _later("detectors.dictionary.detector", "name_detector"),
        settings=DictionarySettings,
        summary="finds the names of the linked KBs, inflected, reordered, misspelt or in part",
    )
    register(
        "kglink/capitals",
        _later("detectors.capitals", "CapitalsDetector"),
        summary="finds capitalized names, those that no KB has too",
    )
    register(
        "kglink/huggingface",
        _later("detectors.models.huggingface", "HuggingFaceDetector"),
        settings=HuggingFaceSettings,
        summary="a token-classification model of Hugging Face, from your folder",
    )
    register(
        "kglink/spacy",
        _later("detectors.models.spacy", "SpacyDetector"),
        settings=SpacySettings,
        summary="a spaCy pipeline, from your folder",
        extra="spacy",
    )
    register(
        "kglink/gliner",
        _later("detectors.models.gliner", "GlinerDetector"),
        settings=GlinerSettings,
        summary="a GLiNER model, from your folder: finds what some words name",
        extra="gliner",
    )
    register(
        "kglink/learned",
        _later("detectors.learned.detector", "LearnedDetector"),
        settings=LearnedSettings,
        summary="finds mentions as the annotated documents have them that it was trained on",
    )


@hookimpl
def register_evidence(register: Register) -> None:
    """Register the evidence of candidates."""
    register(
        "kglink/numbers",
        _later("evidence.numbers", "Numbers"),
        summary="-1 where no name of the candidate has the numbers of the mention",
    )
    register(
        "kglink/document",
        _later("evidence.document", "SameInDocument"),
        summary="another mention of the text, in other words, may well mean the candidate",
    )
    register(
        "kglink/broader",
        _later("evidence.relatives", "Broader"),
        summary="1 where what another mention of the text means is a kind of the candidate",
    )
    register(
        "kglink/siblings",
        _later("evidence.relatives", "Siblings"),
        summary="1 where what another mention of the text means has a parent of the candidate",
    )


@hookimpl
def register_overlap_evidence(register: Register) -> None:
    """Register the evidence of overlaps."""
    register(
        "kglink/names",
        _later("overlap_evidence.names", "NameEvidence"),
        summary="names in common, and who else bears them",
    )
    register(
        "kglink/fuzzy",
        _later("overlap_evidence.fuzzy", "FuzzyEvidence"),
        settings=FuzzySettings,
        summary="names alike in words, letters and words that the KBs use for each other",
    )
    register(
        "kglink/neighbours",
        _later("overlap_evidence.neighbours", "NeighbourEvidence"),
        settings=NeighbourSettings,
        summary="names and texts near each other in the joint space, hubs held back",
    )
    register(
        "kglink/description",
        _later("overlap_evidence.meaning", "DescriptionEvidence"),
        summary="descriptions that mean the same to the encoder",
    )
    register(
        "kglink/type",
        _later("overlap_evidence.meaning", "TypeEvidence"),
        summary="types that mean the same to the encoder",
    )
    register(
        "kglink/parents",
        _later("overlap_evidence.parents", "ParentEvidence"),
        summary="parents and children that match (second pass)",
    )
    register(
        "kglink/rivals",
        _later("overlap_evidence.rivals", "RivalEvidence"),
        summary="how far a pair leads other pairs of its entities (second pass)",
    )
    register(
        "kglink/through",
        _later("overlap_evidence.through", "ThroughEvidence"),
        summary="both are one entity of a third KB, or of different ones (second pass)",
    )
    register(
        "kglink/xrefs",
        _later("overlap_evidence.xrefs", "XrefEvidence"),
        summary="codes that both entities name: what curators know; not in use by default",
    )


@hookimpl
def register_scorers(register: Register) -> None:
    """Register the scorers."""
    register(
        "kglink/dual",
        _later("scorers.vectors", "DualScorer"),
        settings=DualSettings,
        summary="one vector of each side, the first state or the mean (DUAL)",
    )
    register(
        "kglink/mean",
        _later("scorers.vectors", "MeanScorer"),
        settings=ScorerSettings,
        summary="the means of both sides' tokens (Pooling Mean)",
    )
    register(
        "kglink/sum_of_max",
        _later("scorers.sum_of_max", "SumOfMaxScorer"),
        settings=ScorerSettings,
        summary="each token of the mention finds its best token of the entity (SOM)",
    )


@hookimpl
def register_samplers(register: Register) -> None:
    """Register the samplers of negatives."""
    register(
        "kglink/in_batch",
        _later("samplers.random", "InBatch"),
        summary="right answers of the batch's other mentions",
    )
    register(
        "kglink/random_cross_domain",
        _later("samplers.random", "RandomCrossDomain"),
        summary="any entities, drawn anew on every visit (Random-CD)",
    )
    register(
        "kglink/random_in_domain",
        _later("samplers.random", "RandomInDomain"),
        summary="entities of the right answer's domain, drawn anew on every visit (Random-ID)",
    )
    register(
        "kglink/hard_cross_domain",
        _later("samplers.hard", "HardCrossDomain"),
        summary="the highest scores of all entities (Hard-CD)",
    )
    register(
        "kglink/hard_in_domain",
        _later("samplers.hard", "HardInDomain"),
        summary="the highest scores in the right answer's domain (Hard-ID)",
    )
    register(
        "kglink/knn",
        _later("samplers.hard", "Knn"),
        settings=KnnSettings,
        summary="the entities nearest to the mention (k-NN of ArboEL)",
    )
    register(
        "kglink/arborescence",
        _later("samplers.arborescence", "Arborescence"),
        settings=ArborescenceSettings,
        summary="near entities and mentions; positives by a tree over mentions (ArboEL)",
    )
    register(
        "kglink/mixed_p",
        _later("samplers.hard", "MixedP"),
        settings=MixedSettings,
        summary="a share of highest scores, the others drawn at random (Mixed-50)",
    )
    register(
        "kglink/adaptive_mixup_hard",
        _later("samplers.adaptive_mixup_hard", "AdaptiveMixupHard"),
        settings=MixupSettings,
        summary="made, not drawn: the right answer mixed into the hardest of the batch (AMH)",
    )


@hookimpl
def register_objectives(register: Register) -> None:
    """Register the losses."""
    register(
        "kglink/nce",
        _later("objectives.losses", "Nce"),
        settings=NceSettings,
        summary="softmax of the right answer over its row (BLINK, T-Biencoder)",
    )
    register(
        "kglink/pos_neg",
        _later("objectives.losses", "PosNeg"),
        settings=ObjectiveSettings,
        summary="softmax of the right answer, and of each other one that it is not it (ArboEL)",
    )
    register(
        "kglink/bce",
        _later("objectives.losses", "Bce"),
        settings=ObjectiveSettings,
        summary="every pair right or wrong by itself (AMH)",
    )
    register(
        "kglink/overlap",
        _later("objectives.losses", "OverlapLoss"),
        settings=ObjectiveSettings,
        summary="softmax over rows and over columns: overlaps find each other (loss O)",
    )
    register(
        "kglink/distillation",
        _later("objectives.losses", "Distillation"),
        settings=DistillationSettings,
        summary="the right answer, and what a teacher scored (BLINK)",
    )


@hookimpl
def register_rerankers(register: Register) -> None:
    """Register the rerankers."""
    register(
        "kglink/cross_encoder",
        _later("rerankers.cross_encoder", "CrossEncoderReranker"),
        settings=CrossEncoderSettings,
        summary="a ready cross-encoder of Hugging Face, from your folder",
    )
    register(
        "kglink/llm",
        _later("rerankers.llm.reranker", "LlmReranker"),
        settings=LlmSettings,
        summary="asks a language model which candidate is meant, at any OpenAI-compatible endpoint",
    )


@hookimpl
def register_clusterers(register: Register) -> None:
    """Register the clusterer."""
    register(
        "kglink/mentions",
        _later("clusterers.mentions", "MentionsClusterer"),
        settings=MentionsSettings,
        summary="an easy mention helps a hard one like it, in the same text or another",
    )


@hookimpl
def register_exporters(register: Register) -> None:
    """Register the output formats."""
    register(
        "kglink/table",
        TableExporter,
        settings=TableSettings,
        summary="for people: the text with its mentions marked, then a line per mention",
    )
    register(
        "kglink/jsonl",
        JsonlExporter,
        settings=JsonSettings,
        summary="one JSON object per line and document, written as it comes",
    )
    register(
        "kglink/json",
        JsonExporter,
        settings=JsonSettings,
        summary="one JSON list of all documents",
    )
    register(
        "kglink/html",
        HtmlExporter,
        settings=HtmlSettings,
        summary="one web page that needs nothing else: coloured by KB, candidates on hover",
    )
    register(
        "kglink/csv",
        CsvExporter,
        settings=StandoffSettings,
        summary="one table row per mention, for spreadsheets; formulas are made harmless",
    )
    register(
        "kglink/brat",
        BratExporter,
        settings=StandoffSettings,
        summary="BRAT annotations (.ann), their offsets in a single text, or in what brat-text "
        "writes",
    )
    register(
        "kglink/brat-text",
        BratTextExporter,
        summary="the texts that brat's offsets count in (.txt), one on each line",
    )


@hookimpl
def register_index_backends(register: Register) -> None:
    """Register the vector indexes."""
    register(
        "kglink/flat",
        _later("indexes.flat", "FlatBackend"),
        settings=FlatSettings,
        summary="exact search over all vectors, memory-mapped",
    )
    register(
        "kglink/faiss",
        _later("indexes.factory", "FactoryBackend"),
        settings=FactorySettings,
        summary="any index of a faiss factory string: smaller or faster, approximate; presets: "
        "`kglink index --presets`",
    )


def _later(module: str, name: str) -> Factory:
    """A class of this package as a factory that imports it when it is called."""

    def make(*arguments: object) -> Any:
        return getattr(import_module(f"kglink_plugins.{module}"), name)(*arguments)

    return make
