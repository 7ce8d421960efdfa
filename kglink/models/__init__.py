"""The models room: encoders found, checked and loaded; texts turned into vectors; towers trained.

Importing it loads no torch; the first text that an `Encoder` is given does.
"""

from kglink.models.encoder import Encoder
from kglink.models.hardware import Hardware, Precision, choose_hardware
from kglink.models.opening import DEFAULT_MODEL, resolve_model
from kglink.models.source import ModelInfo, ModelSource

__all__ = [
    "DEFAULT_MODEL",
    "Encoder",
    "Hardware",
    "ModelInfo",
    "ModelSource",
    "Precision",
    "choose_hardware",
    "resolve_model",
]
