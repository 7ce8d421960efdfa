"""Settings of the reranker that asks a language model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from pydantic import Field

from kglink.plugins import PluginSettings


class LlmSettings(PluginSettings):
    """Settings of ``kglink/llm``."""

    outside: ClassVar[Mapping[str, str]] = {
        "url": "sends the texts there",
        "key_from": "sends the value of that environment variable along",
        "prompt": "sends the content of that file along",
    }

    url: str = Field(
        "",
        description="Base address of the endpoint, such as `http://localhost:8080/v1`; the texts "
        "of mentions and candidates are sent there.",
    )
    model: str = Field("", description="The model to ask, by the name that the endpoint gives it.")
    key_from: str = Field(
        "OPENAI_API_KEY",
        description="The environment variable that holds the key; no key is sent where it is not "
        "set.",
    )
    prompt: str = Field(
        "",
        description="A file with a prompt of your own, with `$text`, `$mention` and `$candidates`; "
        "empty: the one that comes with kglink.",
    )
    timeout: float = Field(60, gt=0, le=3600, description="Seconds that one answer may take.")
    retries: int = Field(
        2, ge=0, le=10, description="How often a question that failed is asked again."
    )
    per_minute: int = Field(
        0, ge=0, description="Most questions in a minute; 0: as many as are answered."
    )
    parallel: int = Field(4, ge=1, le=64, description="Questions that are asked at once.")
    max_tokens: int = Field(256, ge=1, description="Most tokens that the model may write.")
    context_chars: int = Field(
        1000, ge=0, description="Characters of the text around the mention that the model reads."
    )
    description_chars: int = Field(
        300, ge=0, description="Characters of each candidate's description that it reads."
    )
    weight: float = Field(
        0.5,
        gt=0,
        le=10,
        description="How far the score of its choice stands above the others; where it chooses "
        "none, all scores fall by twice as much.",
    )
