"""Recipes: all settings of a fine-tuning, section by section."""

from __future__ import annotations

import types
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator, model_validator

from kglink.config import FoundBy
from kglink.models import DEFAULT_MODEL
from kglink.models.settings import BiEncoderSettings, InputSettings, TransformationSettings

DEFAULT_RECIPE = "default"
#: As a model, or a teacher: the one that the space has.
SPACE = "space"

#: Values of a plugin's settings.
Options = dict[str, str | int | float | bool]
#: Which entities a mention is compared with: see `StageSection.columns`.
Columns = Literal["in_batch", "own", "both", "shared"]
LossMode = Literal["both", "only_prime", "base"]


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True, allow_inf_nan=False)

    @field_validator("*", mode="before")
    @classmethod
    def _is_no_other_kind(cls, value: object, info: ValidationInfo) -> object:
        """Take neither true nor a text for a number, as pydantic would."""
        number = cls.model_fields[str(info.field_name)].annotation in (int, float)
        if number and isinstance(value, bool | str):
            raise ValueError(f"{value!r} is not a number")
        return value


class ModelSection(BiEncoderSettings):
    """The two towers."""

    base: str = Field(
        DEFAULT_MODEL,
        description="Model to start from: `minilm`, a folder, a hub name, or `space` for the "
        "model of the space.",
    )

    @model_validator(mode="after")
    def _is_searched_as_it_is_trained(self) -> ModelSection:
        """A pool is searched by one vector of each text, or by the rule of `sum_of_max`."""
        scorer = self.scorer.rpartition("/")[2]
        pooling = {"dual": "cls", "mean": "mean"}.get(scorer)
        if self.pooling == "tokens" and pooling is not None:
            raise ValueError(
                f"scorer {scorer} compares one vector of each text: set pooling to {pooling}"
            )
        metric = self.scorer_settings.get("metric")
        if pooling is not None and metric not in (None, self.metric):
            raise ValueError(
                f"the scorer's metric is {metric} and the model's is {self.metric}: "
                "set model.metric alone"
            )
        return self

    @property
    def settings(self) -> BiEncoderSettings:
        """The same as settings of a model."""
        return BiEncoderSettings(**self.model_dump(exclude={"base"}))


class DescentSection(_Section):
    """How a stage goes down the slope of its loss."""

    epochs: int = Field(5, ge=1, description="Passes over all mentions, or pairs.")
    batch: int = Field(64, ge=2, description="Mentions, or pairs, in one batch, over all devices.")
    learning_rate: float = Field(2e-5, gt=0, le=10, description="Learning rate after the warm-up.")
    warm_up: float = Field(
        0.1, ge=0, le=1, description="Share of the steps over which the learning rate rises."
    )
    decay: Literal["linear", "none"] = Field(
        "linear",
        description="Learning rate after the warm-up: falls linearly to 0, or stays (`none`).",
    )
    weight_decay: float = Field(0.01, ge=0, description="Weight decay; biases and norms have none.")
    clip: float = Field(1.0, ge=0, description="Largest norm of the gradient; 0: no limit.")
    freeze_embeddings: bool = Field(True, description="Do not train the token embeddings.")


class _Optimisation(DescentSection):
    """What the stages of the two towers have."""

    objective: str = Field("nce", description="Plugin that computes the loss.")
    objective_settings: Options = Field(
        default_factory=dict, description="Settings of the objective."
    )
    accumulate: int = Field(1, ge=1, description="Batches whose gradients are summed for one step.")
    micro_batch: int = Field(
        0, ge=0, description="Texts encoded at once, by gradient caching; 0: the whole batch."
    )


class StageSection(_Optimisation):
    """Stages S and T: mentions and the entities that they mean."""

    sampler: str = Field("in_batch", description="Plugin that chooses the negatives.")
    sampler_settings: Options = Field(default_factory=dict, description="Settings of the sampler.")
    negatives: int = Field(
        0, ge=0, description="Negatives that the sampler chooses for each mention."
    )
    columns: Columns = Field(
        "in_batch",
        description="Wrong answers of each mention: the other golds of the batch (`in_batch`), its "
        "`own` negatives, `both`, or all golds and negatives of the batch (`shared`).",
    )
    refresh_epochs: int = Field(1, ge=1, description="Search hard negatives again every N epochs.")
    most_mentions: int = Field(
        0,
        ge=0,
        description="Largest number of annotated mentions of each stage, drawn at random once; 0: "
        "all.",
    )
    negatives_from: Literal["stage", "all"] = Field(
        "stage", description="KBs that negatives come from: those of the stage, or all."
    )
    names: float = Field(
        0,
        ge=0,
        description="Entity names to learn as mentions without context, as a multiple of the "
        "annotated mentions; each epoch samples others.",
    )
    mask_same_gold: bool = Field(
        True, description="Leave right entities out of the negatives; BLINK's code keeps them."
    )
    transformation: TransformationSettings | None = Field(
        None, description="T-Biencoder's transformation of embeddings; none by default."
    )
    freeze_entities: bool = Field(
        False, description="Train the tower of mentions only; needs `model.shared = false`."
    )
    loss_mode: LossMode = Field(
        "both",
        description="Losses with a transformation: the plain and the transformed one (`both`), the "
        "transformed one (`only_prime`), or the plain one (`base`).",
    )

    @model_validator(mode="after")
    def _fits(self) -> StageSection:
        if self.columns != "in_batch" and not self.negatives:
            raise ValueError(f"columns = {self.columns!r} needs negatives of at least 1")
        if self.columns == "in_batch" and self.negatives:
            raise ValueError("negatives need columns = 'own', 'both' or 'shared'")
        if self.columns == "own" and self.names:
            raise ValueError("names have no negatives of their own: columns must not be 'own'")
        plain = StageSection.model_construct()
        for name in () if self.negatives else ("sampler", "sampler_settings", "negatives_from"):
            if getattr(self, name) != getattr(plain, name):
                raise ValueError(f"{name} changes nothing while negatives is 0")
        if self.loss_mode == "only_prime" and self.transformation is None:
            raise ValueError("loss_mode = 'only_prime' needs a transformation")
        return self


class OverlapSection(_Optimisation):
    """Stage O: pairs of entities that are the same thing."""

    objective: str = Field("overlap", description="Plugin that computes the loss.")
    method: Literal["", "full", "paper", "names"] = Field(
        "",
        description="Method to find overlaps if the KBs were never compared, as `kglink overlap "
        "--method`; empty: the setting `overlap.method`.",
    )
    min_probability: float = Field(
        0.5, ge=0, le=1, description="Least probability of unjudged pairs."
    )
    keep: Literal["last", "best"] = Field(
        "last", description="Epoch to keep: the last, as in the paper, or the best."
    )


class HeadSection(DescentSection):
    """A stage that trains an encoder with a head of its own."""

    base: str = Field(
        "",
        description="Model to start from: `minilm`, a folder or a hub name; empty: `model.base`.",
    )
    dropout: float = Field(0.1, ge=0, lt=1, description="Dropout before the last layer.")


class DetectorSection(HeadSection):
    """Stage D: a detector that learns where mentions are."""

    tokens: int = Field(256, ge=32, description="Largest number of tokens read at once.")
    epochs: int = Field(4, ge=1, description="Passes over all documents; the best one is kept.")
    batch: int = Field(8, ge=1, description="Windows of text in one step.")
    learning_rate: float = Field(3e-4, gt=0, le=10, description="Learning rate after the warm-up.")


class RerankerSection(HeadSection):
    """Stage R: a reranker that reads a mention and a candidate together."""

    inputs: InputSettings = Field(
        InputSettings(mention_tokens=48, entity_tokens=48),
        description="How mention and candidate are written, one behind the other.",
    )
    segments: bool = Field(
        True,
        description="Mark the tokens of mention and candidate by BERT's token types.",
    )
    padded: bool = Field(
        False,
        description="Begin the candidate where the longest mention would end, like BLINK's "
        "padding; needs `segments`.",
    )
    head: Literal["cls", "pooler"] = Field(
        "cls",
        description="Input of the last layer: the state of the first token (`cls`), or the output "
        "of the base's pooler (`pooler`, not trained).",
    )
    found_by: FoundBy = Field(
        "all",
        description="What finds the candidates to learn from, as in `kglink eval --found-by`.",
    )
    lists: str = Field(
        "",
        description="Folder with `train.json` and `val.json`, to learn from these candidates "
        "instead, such as ZESHEL's `tfidf_candidates`.",
    )
    candidates: int = Field(6, ge=2, description="Candidates of each mention, the best of all KBs.")
    gold: Literal["drop", "last", "add"] = Field(
        "last",
        description="If no candidate is right: leave the mention out (`drop`, BLINK), replace the "
        "last candidate by a right one (`last`, ArboEL), or add a right one (`add`).",
    )
    nothing: bool = Field(True, description="Also learn from mentions that mean no entity.")
    most_mentions: int = Field(
        6000, ge=1, description="Most mentions in one epoch; each epoch samples others."
    )
    epochs: int = Field(2, ge=1, description="Passes over all mentions; the best one is kept.")
    batch: int = Field(8, ge=1, description="Mentions, with all their candidates, in one step.")
    learning_rate: float = Field(1e-4, gt=0, le=10, description="Learning rate after the warm-up.")

    @model_validator(mode="after")
    def _tells_the_parts_apart(self) -> RerankerSection:
        if self.padded and not self.segments:
            raise ValueError("padded needs segments = true")
        return self


class SelectionSection(_Section):
    """How the best epoch is chosen."""

    metric: str = Field(
        "R@64", pattern=r"^R@[1-9][0-9]{0,3}$", description="Recall that compares epochs."
    )
    pool: Literal["kb", "own_kb", "judged_joint", "joint"] = Field(
        "kb",
        description="Where mentions are searched: each KB alone, then the mean over KBs (`kb`), or "
        "over mentions (`own_kb`, the papers' micro); all KBs that hold a gold "
        "(`judged_joint`); or all KBs, where counterparts of the gold are wrong (`joint`).",
    )
    kbs: Literal["all", "target"] = Field(
        "all",
        description="Mentions to compare epochs by: of all KBs, or only of the target KBs.",
    )
    patience: int = Field(
        0, ge=0, description="Stop after this many epochs without a better one; 0: never."
    )
    documents: Literal["auto", "dev", "held_out"] = Field(
        "auto",
        description="Documents to compare by: the split `dev`, a share `held_out` of the training "
        "documents, or `dev` where there is one, else held out (`auto`).",
    )
    held_out: float = Field(
        0.1, ge=0, lt=1, description="Share of the training documents to hold out."
    )
    most_mentions: int = Field(
        5000, ge=1, description="Largest number of mentions to compare epochs by."
    )
    most_entities: int = Field(
        0,
        ge=0,
        description="Search among the golds of these mentions and this many other entities, "
        "always the same; 0: among all, which are then encoded after every epoch. Figures with a "
        "sample are higher, and only compare epochs of one run.",
    )

    @property
    def k(self) -> int:
        """The k of R@k."""
        return int(self.metric.removeprefix("R@"))


class Recipe(_Section):
    """How to fine-tune."""

    summary: str = Field("", description="One line for `kglink recipes`.")
    source: str = Field("", description="Table and row of the paper that the recipe follows.")
    extends: str = Field("", description="Recipe whose values this one inherits.")
    sources: str = Field("", description="Stages unless the command names some, such as TOS.")
    seed: int = Field(0, ge=0, lt=2**63, description="Seed of all random choices.")
    teacher: str = Field(
        "",
        description="Reranker that teaches an objective such as `distillation`: its folder, or "
        "`space` for that of the space.",
    )
    domain: Literal["kb", "type"] = Field(
        "kb", description="Domain of an entity: its KB, or its type in its KB."
    )
    model: ModelSection = Field(ModelSection(), description="The two towers.")
    train: StageSection = Field(StageSection(), description="Stages S and T.")
    again: StageSection | None = Field(
        None, description="Optional second S/T round; inherits `train`."
    )
    overlap: OverlapSection = Field(OverlapSection(), description="Stage O.")
    detector: DetectorSection = Field(
        DetectorSection(), description="Stage D: the detector of mentions."
    )
    reranker: RerankerSection = Field(
        RerankerSection(), description="Stage R: the reranker of candidates."
    )
    selection: SelectionSection = Field(
        SelectionSection(), description="How the best epoch is chosen."
    )

    @model_validator(mode="after")
    def _fits(self) -> Recipe:
        if self.model.shared and any(section.freeze_entities for section in self.rounds()):
            raise ValueError("freeze_entities needs two towers: model.shared must be false")
        return self

    @property
    def learns_names(self) -> bool:
        """Whether any stage learns from names."""
        return any(section.names > 0 for section in self.rounds())

    def sections(self, sources: str) -> tuple[StageSection | OverlapSection, ...]:
        """The settings of a run's stages, in their order."""
        mentions = self.rounds() if set(sources) & {"S", "T"} else ()
        return (*mentions, *((self.overlap,) if "O" in sources else ()))

    def rounds(self) -> tuple[StageSection, ...]:
        """The rounds of S and T, in their order."""
        return (self.train,) if self.again is None else (self.train, self.again)


def section_of(annotation: Any) -> type[BaseModel] | None:
    """The section that a field holds, if it holds one."""
    if get_origin(annotation) in (Union, types.UnionType, Annotated):
        found = (section_of(part) for part in get_args(annotation))
        return next((part for part in found if part is not None), None)
    is_section = isinstance(annotation, type) and issubclass(annotation, BaseModel)
    return annotation if is_section else None
