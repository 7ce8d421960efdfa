"""How plugins are found, named, refused and made."""

from kglink.registry.guess import Guess
from kglink.registry.loading import load_registry
from kglink.registry.plugin import HOOK_OF_KIND, KINDS, Kind, Plugin, Provider
from kglink.registry.registry import Registry

__all__ = [
    "HOOK_OF_KIND",
    "KINDS",
    "Guess",
    "Kind",
    "Plugin",
    "Provider",
    "Registry",
    "load_registry",
]
