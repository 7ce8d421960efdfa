"""What all plugins have: settings, and a factory that makes them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pydantic import BaseModel, ConfigDict

#: Makes a plugin of its settings (and, for a detector, of the names of a space).
Factory = Callable[..., Any]


class PluginSettings(BaseModel):
    """The base of every plugin's settings: unknown keys are refused, values are frozen."""

    model_config = ConfigDict(extra="forbid", frozen=True)
