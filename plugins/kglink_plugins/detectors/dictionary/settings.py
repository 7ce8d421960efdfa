"""The settings of the dictionary detector."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from kglink.plugins import PluginSettings

MatchCase = Literal["smart", "never", "always"]


class DictionarySettings(PluginSettings):
    """Settings of the detector ``kglink/dictionary``."""

    min_chars: int = Field(
        2, ge=1, description="Aliases with fewer folded characters, spaces apart, are left out."
    )
    max_chars: int = Field(
        200, ge=1, description="Aliases with more folded characters are left out."
    )
    match_case: MatchCase = Field(
        "smart",
        description="smart: case decides where a word would mislead (stop words, acronyms, common "
        "words); never: case is not looked at and stop words never match; always: the text must "
        "be written in lower case, Title case, CAPITALS or mixed case as the alias is.",
    )
    acronym_chars: int = Field(
        4,
        ge=0,
        description="One-word aliases in capitals of up to this many letters need capitals in the "
        "text (match_case smart).",
    )
    numbers: bool = Field(
        False,
        description="Whether numbers of fewer than six digits are looked for where they are names.",
    )
    stop_words: tuple[str, ...] = Field(
        (), description="More words to treat as 'the' and 'it' are, besides the English ones."
    )
    language: str = Field(
        "auto",
        description="Language whose function words are no names by themselves (`de`); `auto`: "
        "`link.language`, else what the text seems to be.",
    )
