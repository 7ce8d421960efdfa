"""What can be set of towers: their inputs, their vectors, the transformation; loads no torch."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from kglink.text.entity_text import EntityPart

Pooling = Literal["mean", "cls", "tokens", "span"]

#: [CLS], two tags, [SEP] and one token between the tags.
_LEAST_TOKENS = 5


class _Settings(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        defer_build=True,
        use_attribute_docstrings=True,
        allow_inf_nan=False,
    )


class InputSettings(_Settings):
    """How mentions and entities are written for the towers."""

    mention_tokens: Annotated[int, Field(ge=_LEAST_TOKENS)] = 64
    """Tokens of a mention and its context, marks included."""
    entity_tokens: Annotated[int, Field(ge=_LEAST_TOKENS)] = 64
    """Tokens of an entity's title and text."""
    tags: tuple[str, str, str] = ("[unused0]", "[unused1]", "[unused2]")
    """Tokens that mark the start and end of a mention, and the end of a title."""
    parts: tuple[EntityPart, ...] = ("title", "type", "aliases", "description")
    """What is read of an entity, in this order."""
    aliases: Annotated[int, Field(ge=0)] = 6
    """Most other names to read."""
    brackets: bool = False
    """Write type and other names as `( type : name ; name )`, as ArboEL reads UMLS."""
    strip_title_prefix: bool = False
    """Remove the title from the start of the description, as ArboEL does."""

    @model_validator(mode="after")
    def _parts_and_tags_stand_once(self) -> InputSettings:
        if len(set(self.parts)) < len(self.parts) or "title" not in self.parts:
            raise ValueError("parts: title must be among them, and each part stands once")
        if len(set(self.tags)) < len(self.tags):
            raise ValueError("tags: three different ones are needed")
        return self


class BiEncoderSettings(_Settings):
    """How two towers are pooled, compared and fed."""

    shared: bool = True
    """Use one tower for both mentions and entities."""
    pooling: Pooling = Field(
        "mean",
        description="Vector of a text: `cls`, `mean`, one for each of its `tokens`, or, of a "
        "mention, the mean of its own tokens (`span`): a document is read once for all of them.",
    )
    metric: Literal["cosine", "dot"] = "cosine"
    """How training compares two vectors."""
    retrieval_metric: Literal["", "cosine", "dot"] = ""
    """How searches compare two vectors; empty: as in training."""
    scorer: str = "mean"
    """Plugin that scores a mention and an entity."""
    scorer_settings: dict[str, str | int | float | bool] = {}
    """Settings of the scorer."""
    inputs: InputSettings = InputSettings()
    """How the towers read mentions and entities."""

    @property
    def towers(self) -> tuple[str, ...]:
        """The folders of the towers within a model folder."""
        return ("encoder",) if self.shared else ("mention", "entity")

    @property
    def searches_by_cosine(self) -> bool:
        """Whether vectors that are searched have length one."""
        return (self.retrieval_metric or self.metric) == "cosine"

    @property
    def compares_tokens(self) -> bool:
        """Whether all tokens of both sides are compared, and not just one vector of each."""
        return self.pooling == "tokens" and self.scorer.rpartition("/")[2] == "sum_of_max"


class TransformationSettings(_Settings):
    """T-Biencoder's transformation: one matrix A, trained to make the loss larger."""

    layer: Annotated[int, Field(ge=0)] = 1
    """Layer after which A is applied; 0: after the embeddings."""
    epsilon: Annotated[float, Field(gt=0)] = 32.0
    """Largest Frobenius norm of A."""
    init: Literal["zero", "gaussian"] = "zero"
    """A at first: zero, so that L' is L, or at random, of norm epsilon."""
    clip: Annotated[float, Field(ge=0)] = 0.0
    """Largest norm of the gradient of A, apart from the encoder's; 0: no limit."""
    ascent: Literal["adam", "normalised"] = "adam"
    """Steps of A: by Adam, or of length epsilon/20 along the gradient."""
    learning_rate: Annotated[float, Field(gt=0)] = 1e-3
    """Constant learning rate of A for Adam."""
    per_domain: bool = False
    """Train one A for each domain; the paper names this as future work."""
    ascent_steps: Annotated[int, Field(ge=1)] = 1
    """1: one step of A together with the encoder's. More: this number of steps of A before it."""
