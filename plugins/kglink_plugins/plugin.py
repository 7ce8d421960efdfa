"""The table of kglink's own plugins: the settings and the row of each, which imports it late."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple

from pydantic import Field

from kglink.models.hardware import Precision
from kglink.plugins import IndexPreset, IndexSettings, PluginSettings, Register, hookimpl
from kglink_plugins.exporters.html import HtmlSettings
from kglink_plugins.exporters.json_records import JsonSettings
from kglink_plugins.exporters.standoff import CsvSettings, StandoffSettings
from kglink_plugins.exporters.table import TableSettings


class Row(NamedTuple):
    """A plugin: how users call it, ``module:name`` of its factory, its settings, what it is."""

    name: str
    factory: str
    settings: type[PluginSettings]
    summary: str
    extra: str = ""
    fixed: PluginSettings | None = None
    """The factory's full settings, if the plugin offers only some; its own override them."""


def offers(*rows: Row) -> Callable[[Register], None]:
    """The hook that registers some rows."""

    @hookimpl
    def hook(register: Register) -> None:
        for row in rows:
            register(
                f"kglink/{row.name}",
                partial(_made, row),
                settings=row.settings,
                summary=row.summary,
                extra=row.extra,
            )

    return hook


def _made(row: Row, settings: PluginSettings, *arguments: object) -> Any:
    module, _, name = row.factory.partition(":")
    factory = getattr(import_module(f"kglink_plugins.{module}"), name)
    if row.fixed is not None:
        settings = row.fixed.model_copy(update=settings.model_dump())
    elif row.settings is PluginSettings:
        return factory(*arguments)  # it has no settings
    return factory(settings, *arguments)


class FolderSettings(PluginSettings):
    """The base of settings that name the folder of a model."""

    outside: ClassVar[Mapping[str, str]] = {"folder": "loads a model from there"}


# -------------------------------------------------------------------------------------- detectors
MatchCase = Literal["smart", "never", "always"]


class DictionarySettings(PluginSettings):
    """Settings of the detector ``kglink/dictionary``."""

    min_chars: int = Field(2, ge=1)
    """Leave out aliases with fewer characters (without spaces)."""
    max_chars: int = Field(200, ge=1)
    """Leave out aliases with more characters."""
    match_case: MatchCase = "smart"
    """smart: case decides where a word would mislead (stop words, acronyms, common words); never:
    case is not looked at and stop words never match; always: the text must be written in lower
    case, Title case, CAPITALS or mixed case as the alias is."""
    acronym_chars: int = Field(4, ge=0)
    """One-word aliases in capitals of up to this many letters need capitals in the text (match_case
    smart)."""
    numbers: bool = False
    """Also find names that are numbers of fewer than six digits."""
    stop_words: tuple[str, ...] = ()
    """More words to treat like 'the' and 'it'."""
    language: str = "auto"
    """Language whose function words are no names by themselves (`de`); `auto`: `link.language`,
    else what the text seems to be."""


class LearnedSettings(PluginSettings):
    """Settings of the detector ``kglink/learned``."""

    outside: ClassVar[Mapping[str, str]] = {"model": "loads a model from there"}

    model: str = ""
    """Folder of a trained detector; empty: the one of the space."""
    recall: float = Field(0, ge=0, lt=1)
    """Share of mentions to find, measured on held-out documents; 0: the share with the best F1
    there."""
    decides: bool = True
    """Its threshold decides what is a mention; else it only proposes, and kglink judges its places
    with those of other detectors."""
    foreign: bool = False
    """Also read texts of another kind than the training texts; else only the dictionary reads
    them."""
    device: str = "auto"
    """cpu, cuda, cuda:N or auto."""
    precision: Precision = "auto"
    """fp32, bf16, fp16 or auto."""
    threads: int = Field(0, ge=0)
    """Cores to use; 0: all."""


class HuggingFaceSettings(FolderSettings):
    """Settings of the detector ``kglink/huggingface``."""

    folder: Path
    """Folder of a token-classification model (safetensors)."""
    types: tuple[str, ...] = ()
    """Types of mentions that are kept, such as `Disease`; none named: all."""
    threshold: float = Field(0.5, ge=0, le=1)
    """Mentions that are less probable than this are left out."""


class SpacySettings(FolderSettings):
    """Settings of the detector ``kglink/spacy``."""

    folder: Path
    """Folder of a pipeline, as `nlp.to_disk` writes it."""
    types: tuple[str, ...] = ()
    """Types of mentions that are kept, such as `PERSON`; none named: all."""
    spans: str = ""
    """Group of spans that is read (`doc.spans`); empty: the entities."""


class GlinerSettings(FolderSettings):
    """Settings of the detector ``kglink/gliner``."""

    folder: Path
    """Folder of a model, as `model.save_pretrained` writes it."""
    labels: tuple[str, ...] = Field(min_length=1)
    """Kinds of things to find, in words: `disease,drug`."""
    threshold: float = Field(0.5, ge=0, le=1)
    """Mentions that are less probable than this are left out."""


# ------------------------------------------------------------------------------- overlap evidence
class FuzzySettings(PluginSettings):
    """Which similar names are looked for."""

    neighbours: int = Field(6, ge=0)
    """Entities with similar names that one of the smaller KB proposes."""
    max_block: int = Field(1_000_000, ge=0)
    """Ignore a word that alone would make more pairs of entities than this."""


class NeighbourSettings(PluginSettings):
    """How many neighbours are looked for."""

    neighbours: int = Field(12, ge=1)
    """Nearest entities that one of the smaller KB proposes."""


# ---------------------------------------------------------------------------------------- scorers
#: How two vectors are compared.
Metric = Literal["dot", "cosine"]


class ScorerSettings(PluginSettings):
    """What all scorers have."""

    metric: Metric = "dot"
    """`dot` product or `cosine` of two vectors."""


class DualSettings(ScorerSettings):
    """Which vector stands for a text."""

    pooling: Literal["cls", "mean"] = "cls"
    """A text is its first state (`cls`) or the `mean` of its tokens."""


# --------------------------------------------------------------------------------------- samplers
class KnnSettings(PluginSettings):
    """Where neighbours are looked for."""

    in_domain: bool = False
    """Only in the domains of the mention's own answers (`restrict_type`)."""


class ArborescenceSettings(KnnSettings):
    """What each mention is drawn to."""

    positives: Literal["full", "nearest", "random"] = "full"
    """Its parent in the tree over all mentions of its entity (`full`), or over itself and one
    other, the `nearest` or a `random` one (1-NN, 1-Rand)."""
    nn_scope: Literal["query", "cluster"] = "query"
    """With one other: a tree for each mention (`query`, as in the paper), or one over all such
    pairs of an entity (`cluster`, as in the released code)."""


class MixedSettings(PluginSettings):
    """How hard the mixture is, and where it comes from."""

    p: float = Field(0.5, ge=0, le=1)
    """Share of hard negatives; the rest is random."""
    among: Literal["batch", "domain", "pool"] = "batch"
    """Draw from the other golds of the batch (as AMH does), from the domains of the mention's own
    answers, or from all entities."""


class MixupSettings(PluginSettings):
    """How a right answer is mixed into hard negatives."""

    alpha: float = Field(0.3, ge=0)
    """alpha W is the right answer's weight in a negative; 0: no mixing."""
    negative_weight: Literal["one", "complement"] = "one"
    """Weight of the hard negative in the mixture: one, as in the paper, or what the right answer
    leaves of it, 1 - alpha W."""
    temperature: float = Field(1.0, gt=0)
    """Divides the scores that make W."""
    w_grad: bool = False
    """Send gradients through W as well."""


# ------------------------------------------------------------------------------------- objectives
class ObjectiveSettings(PluginSettings):
    """What all objectives have."""

    temperature: float = Field(1.0, gt=0)
    """Divides the scores; cosines need a small one, such as 0.05."""
    margin: float = Field(0.0, ge=0)
    """Subtracted from the scores of right answers: the lead that they should have."""


class NceSettings(ObjectiveSettings):
    """What counts as right where several answers are."""

    several: Literal["sum", "mean"] = "sum"
    """Of several right answers: raise their `sum` of shares, so that any may come first, or the
    `mean` of their logarithms, so that all must."""
    include_gold: bool = True
    """Count right answers in the sum that they are divided by. Bosch's eq. 1, read to the letter,
    does not, and then the loss has no least value."""


class OverlapLossSettings(ObjectiveSettings):
    """What each pair is divided by."""

    include_gold: bool = True
    """Count a pair itself in the sums of its row and column, as the diagonal of Bosch's eq. 2;
    without it the loss has no least value."""


class DistillationSettings(PluginSettings):
    """How far a student listens to its teacher."""

    alpha: float = Field(0.5, ge=0, le=1)
    """Weight of the right answers; the teacher has the rest."""
    student_temperature: float = Field(1.0, gt=0)
    """Divides the student's scores first; cosines need a small one, such as 0.05."""
    temperature: float = Field(2.0, gt=0)
    """Divides the scores of both sides when they are compared."""


# -------------------------------------------------------------------------------------- rerankers
class CrossEncoderSettings(FolderSettings):
    """Settings of ``kglink/cross_encoder``."""

    folder: Path
    """Folder or hub name of a `CrossEncoder` with one label (safetensors)."""
    context_chars: int = Field(256, ge=0)
    """Characters of the mention and its context that the model reads."""
    description_chars: int = Field(500, ge=0)
    """Characters of each candidate's description that it reads."""
    weight: float = Field(1.0, gt=0, le=10)
    """Weight of its answer."""


class LlmSettings(PluginSettings):
    """Settings of ``kglink/llm``."""

    outside: ClassVar[Mapping[str, str]] = {
        "url": "sends the texts there",
        "key_from": "sends the value of that environment variable along",
        "prompt": "sends the content of that file along",
    }

    url: str = ""
    """Base address of the endpoint, such as `http://localhost:8080/v1`; the texts of mentions and
    candidates are sent there."""
    model: str = ""
    """The model to ask, by the name that the endpoint gives it."""
    key_from: str = "OPENAI_API_KEY"
    """The environment variable that holds the key; no key is sent where it is not set."""
    prompt: str = ""
    """A file with a prompt of your own, with `$text`, `$mention` and `$candidates`; empty: the one
    that comes with kglink."""
    timeout: float = Field(60, gt=0, le=3600)
    """Seconds that one answer may take."""
    retries: int = Field(2, ge=0, le=10)
    """Number of times to repeat a failed question."""
    per_minute: int = Field(0, ge=0)
    """Largest number of questions in a minute; 0: no limit."""
    parallel: int = Field(4, ge=1, le=64)
    """Number of questions asked at once."""
    max_tokens: int = Field(256, ge=1)
    """Largest number of tokens that the model may write."""
    context_chars: int = Field(1000, ge=0)
    """Characters of the text around the mention that the model reads."""
    description_chars: int = Field(300, ge=0)
    """Characters of each candidate's description that it reads."""
    weight: float = Field(0.5, gt=0, le=10)
    """Lead that its choice gets over the best other score; if it chooses none, all scores fall by
    twice as much."""


# ------------------------------------------------------------------------------------- clusterers
class MentionsSettings(PluginSettings):
    """Settings of ``kglink/mentions``, until `kglink fit --cluster` chooses others."""

    mode: Literal["independent", "directed", "undirected"] = "directed"
    """independent: no mention helps another; directed: each mention has the entity that explains it
    best, along a tree; undirected: clusters of the most similar, cut between their entities."""
    neighbours: int = Field(8, ge=1, le=64)
    """Number of nearest mentions that each mention is compared with."""
    context: float = Field(0.5, ge=0, le=1)
    """Share of the context when mentions are compared; the rest is the name."""
    power: float = Field(4.0, ge=1)
    """Power of the cosine of two mentions, so that it compares with probabilities."""
    threshold: float = Field(0.0, ge=0, le=1)
    """Mentions that are less similar do not help each other."""


# --------------------------------------------------------------------------------- index backends
#: What stands in a factory string for a number of lists that suits the rows.
LISTS = "{lists}"


class FlatSettings(IndexSettings):
    """The exact index has nothing to set."""

    presets: ClassVar[Mapping[str, IndexPreset]] = {
        "flat": IndexPreset({}, "exact: every row in fp32, compared with every query")
    }


class FactorySettings(IndexSettings):
    """Which faiss index to build, and how hard to search it."""

    search_only: ClassVar[frozenset[str]] = frozenset({"nprobe", "ef_search", "oversampling"})

    factory: str = Field(
        "SQfp16",
        max_length=80,  # faiss reads a string by recursion, and dies of a very long one
        pattern=r"^[^0-9]*([0-9]{1,7}[^0-9]+)*[0-9]{0,7}$",
    )
    """A faiss factory string: SQfp16, IVF1024,Flat, ...; `{lists}` in it stands for a number of
    lists that suits the rows."""
    train_rows: int = Field(200_000, ge=1)
    """Rows drawn at random to train an index that needs it."""
    nprobe: int = Field(0, ge=0)
    """Lists that an IVF index looks into per query; 0: as many as find .98 of what all lists
    hold of the nearest 64 rows, measured with rows of the index while it is built."""
    oversampling: int = Field(1, ge=1, le=100)
    """If the index holds rounded codes: fetch this many times the rows, and order them by their
    exact vectors."""
    ef_search: int = Field(128, ge=1)
    """Nodes that an HNSW index keeps per query."""
    ef_construction: int = Field(200, ge=1)
    """Nodes that an HNSW index keeps per row while it is built."""

    distances: bool = False
    """Search by distances: each row gets one coordinate more, so that the nearest row is the one of
    the largest product, as BLINK's graphs do."""

    # docs/spaces.md has what was measured. Both HNSW presets are those of BLINK's Table 7, without
    # its reduction to L2 distances (`distances`): for rows of one length that makes the same graph,
    # and for others a worse one.
    # fmt: off
    presets: ClassVar[Mapping[str, IndexPreset]] = {
        "rabitq": IndexPreset(
            {"factory": f"IVF{LISTS},RaBitQ2", "oversampling": 4},
            "rows in lists, two bits a number, what is found compared anew: for millions"),
        "hnsw-accurate": IndexPreset(
            {"factory": "HNSW128", "ef_construction": 200, "ef_search": 256},
            "a graph of 128 links, 256 nodes kept per query (BLINK's HNSW 1)"),
        "hnsw-fast": IndexPreset(
            {"factory": "HNSW128", "ef_construction": 200, "ef_search": 128},
            "the same graph, 128 nodes kept per query (BLINK's HNSW 2)"),
        "ivf": IndexPreset(
            {"factory": f"IVF{LISTS},Flat"},
            "rows in lists around centres, the nearest lists looked into"),
        "ivf-sq8": IndexPreset(
            {"factory": f"IVF{LISTS},SQ8", "oversampling": 2},
            "the same lists, each number of a row in one byte"),
        "sq8": IndexPreset(
            {"factory": "SQ8", "oversampling": 2},
            "every row compared, each number in one byte: a quarter of the size"),
        "fp16": IndexPreset(
            {"factory": "SQfp16"},
            "every row compared, each number in two bytes: half of the size"),
    }
    # fmt: on


# ------------------------------------------------------------------------------------- the table
# fmt: off
register_detectors = offers(
    Row("dictionary", "detectors.dictionary.detector:name_detector", DictionarySettings,
        "finds the names of the linked KBs, inflected, reordered, misspelt or in part"),
    Row("capitals", "detectors.capitals:CapitalsDetector", PluginSettings,
        "finds capitalized names, those that no KB has too"),
    Row("huggingface", "detectors.models.huggingface:HuggingFaceDetector", HuggingFaceSettings,
        "a token-classification model of Hugging Face, from your folder"),
    Row("spacy", "detectors.models.spacy:SpacyDetector", SpacySettings,
        "a spaCy pipeline, from your folder", "spacy"),
    Row("gliner", "detectors.models.gliner:GlinerDetector", GlinerSettings,
        "a GLiNER model, from your folder: finds what some words name", "gliner"),
    Row("learned", "detectors.learned:LearnedDetector", LearnedSettings,
        "finds mentions like those in the annotated documents it was trained on"),
)

register_evidence = offers(
    Row("numbers", "evidence:Numbers", PluginSettings,
        "-1 if no name of the candidate has the numbers of the mention"),
    Row("document", "evidence:SameInDocument", PluginSettings,
        "how well another mention of the text, with other words, fits the candidate"),
    Row("broader", "evidence:Broader", PluginSettings,
        "1 if another mention of the text means a kind (descendant) of the candidate"),
    Row("siblings", "evidence:Siblings", PluginSettings,
        "1 if another mention of the text means a sibling (same parent) of the candidate"),
)

register_overlap_evidence = offers(
    Row("names", "overlap_evidence.names:NameEvidence", PluginSettings,
        "names in common, and how many other entities have them"),
    Row("fuzzy", "overlap_evidence.fuzzy:FuzzyEvidence", FuzzySettings,
        "names alike in words, letters and words that the KBs use for each other"),
    Row("neighbours", "overlap_evidence.neighbours:NeighbourEvidence", NeighbourSettings,
        "names and texts near each other in the joint space, hubs held back"),
    Row("description", "overlap_evidence.neighbours:DescriptionEvidence", PluginSettings,
        "descriptions that mean the same to the encoder"),
    Row("type", "overlap_evidence.neighbours:TypeEvidence", PluginSettings,
        "types that mean the same to the encoder"),
    Row("parents", "overlap_evidence.second_pass:ParentEvidence", PluginSettings,
        "parents and children that match (second pass)"),
    Row("rivals", "overlap_evidence.second_pass:RivalEvidence", PluginSettings,
        "how much better a pair is than other pairs of its entities (second pass)"),
    Row("through", "overlap_evidence.second_pass:ThroughEvidence", PluginSettings,
        "both are one entity of a third KB, or of different ones (second pass)"),
    Row("xrefs", "overlap_evidence.names:XrefEvidence", PluginSettings,
        "codes in common (cross-references); not used by default"),
)

register_scorers = offers(
    Row("dual", "scorers:DualScorer", DualSettings,
        "one vector of each side, the first state or the mean (DUAL)"),
    Row("mean", "scorers:DualScorer", ScorerSettings,
        "the means of both sides' tokens (Pooling Mean)", fixed=DualSettings(pooling="mean")),
    Row("sum_of_max", "scorers:SumOfMaxScorer", ScorerSettings,
        "each token of the mention finds its best token of the entity (SOM)"),
)

register_samplers = offers(
    Row("in_batch", "samplers.mixed:MixedP", PluginSettings,
        "right answers of the batch's other mentions",
        fixed=MixedSettings(p=0, among="batch")),
    Row("random_cross_domain", "samplers.mixed:MixedP", PluginSettings,
        "any entities, drawn anew on every visit (Random-CD)",
        fixed=MixedSettings(p=0, among="pool")),
    Row("random_in_domain", "samplers.mixed:MixedP", PluginSettings,
        "entities of the right answer's domain, drawn anew on every visit (Random-ID)",
        fixed=MixedSettings(p=0, among="domain")),
    Row("hard_cross_domain", "samplers.mixed:MixedP", PluginSettings,
        "the highest scores of all entities (Hard-CD)",
        fixed=MixedSettings(p=1, among="pool")),
    Row("hard_in_domain", "samplers.mixed:MixedP", PluginSettings,
        "the highest scores in the right answer's domain (Hard-ID)",
        fixed=MixedSettings(p=1, among="domain")),
    Row("knn", "samplers.mixed:knn", KnnSettings,
        "the entities nearest to the mention (k-NN of ArboEL)"),
    Row("arborescence", "samplers.arborescence:Arborescence", ArborescenceSettings,
        "near entities and mentions; positives by a tree over mentions (ArboEL)"),
    Row("mixed_p", "samplers.mixed:MixedP", MixedSettings,
        "a share of highest scores, the others drawn at random (Mixed-50)"),
    Row("adaptive_mixup_hard", "samplers.adaptive_mixup_hard:AdaptiveMixupHard", MixupSettings,
        "the hardest golds of the batch, with the right answer mixed in (AMH)"),
)

register_objectives = offers(
    Row("nce", "objectives:Nce", NceSettings,
        "softmax of the right answer over its row (BLINK, T-Biencoder)"),
    Row("pos_neg", "objectives:PosNeg", ObjectiveSettings,
        "softmax of the right answer, and of each wrong answer against it (ArboEL)"),
    Row("bce", "objectives:Bce", ObjectiveSettings,
        "each pair is right or wrong on its own (AMH)"),
    Row("overlap", "objectives:OverlapLoss", OverlapLossSettings,
        "softmax over rows and columns of a batch of overlaps (loss O)"),
    Row("distillation", "objectives:Distillation", DistillationSettings,
        "the right answer, and a teacher's scores (BLINK)"),
)

register_rerankers = offers(
    Row("cross_encoder", "rerankers.cross_encoder:CrossEncoderReranker", CrossEncoderSettings,
        "a ready cross-encoder of Hugging Face, from your folder"),
    Row("llm", "rerankers.llm.reranker:LlmReranker", LlmSettings,
        "asks a language model which candidate is meant, at any OpenAI-compatible endpoint"),
)

register_clusterers = offers(
    Row("mentions", "clusterers:MentionsClusterer", MentionsSettings,
        "an easy mention helps a similar hard one, in any text"),
)

register_exporters = offers(
    Row("table", "exporters.table:TableExporter", TableSettings,
        "for people: the text with its mentions marked, then a line per mention"),
    Row("jsonl", "exporters.json_records:JsonlExporter", JsonSettings,
        "one JSON object per line and document, written as it comes"),
    Row("json", "exporters.json_records:JsonExporter", JsonSettings,
        "one JSON list of all documents"),
    Row("html", "exporters.html:HtmlExporter", HtmlSettings,
        "one web page without other files: coloured by KB, candidates on hover"),
    Row("csv", "exporters.standoff:CsvExporter", CsvSettings,
        "one table row per mention, for spreadsheets; formulas are made harmless"),
    Row("brat", "exporters.standoff:BratExporter", StandoffSettings,
        "BRAT annotations (.ann), their offsets in a single text, or in what brat-text writes"),
    Row("brat-text", "exporters.standoff:BratTextExporter", PluginSettings,
        "the texts that brat's offsets count in (.txt), one on each line"),
)

register_index_backends = offers(
    Row("flat", "indexes.flat:FlatBackend", FlatSettings,
        "exact search over all vectors, memory-mapped"),
    Row("faiss", "indexes.factory:FactoryBackend", FactorySettings,
        "any index of a faiss factory string: smaller or faster, approximate; presets: `kglink "
        "index --presets`"),
)
# fmt: on
