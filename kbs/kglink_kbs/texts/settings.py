"""What is read of a page, a mail or an office file, and what is left out."""

from __future__ import annotations

from pydantic import Field

from kglink.plugins import PluginSettings


class TextSettings(PluginSettings):
    """Settings of all formats that mark code blocks and tables as such."""

    code: bool = Field(False, description="Whether code blocks are read.")
    tables: bool = Field(False, description="Whether tables are read.")


class PlainSettings(PluginSettings):
    """Settings of ``kglink/text``."""

    marked: bool = Field(False, description="Whether mentions are marked: [[like this]].")
