"""The modules of a sentence-transformers folder, read and checked; loads no torch.

modules.json names them in order, each with a folder of its own. A chain of an encoder, mean or cls
pooling and a norm is run by kglink's packed encoder, every other chain by the library.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from kglink.errors import ModelError
from kglink.models.model_json import read_any_json, read_json, shown
from kglink.models.settings import Pooling

#: Modules that read nothing but JSON and safetensors, and name no code but activations.
_KNOWN = frozenset(
    {"Transformer", "StaticEmbedding", "Pooling", "Dense", "LayerNorm", "Normalize", "Dropout"}
    | {"LogitScore"}
)
_FIRST = frozenset({"Transformer", "StaticEmbedding"})
#: Of a folder, in characters; no disk takes longer ones.
_LONGEST_NAME = 255
_CLASS = re.compile(r"sentence_transformers(?:\.\w+)*\.(\w+)")
_ACTIVATION = re.compile(r"torch\.nn\.modules\.(activation|linear)\.\w+")
#: What the library writes of an encoder that reads plain texts; other settings may change more.
_PLAIN = {
    "do_lower_case": False,
    "transformer_task": "feature-extraction",
    "module_output_name": "token_embeddings",
    "modality_config": {"text": {"method": "forward", "method_output_name": "last_hidden_state"}},
}
#: Pooling modes, and their flags in the old spelling.
_MODES = {
    "cls": "pooling_mode_cls_token",
    "max": "pooling_mode_max_tokens",
    "mean": "pooling_mode_mean_tokens",
    "mean_sqrt_len_tokens": "pooling_mode_mean_sqrt_len_tokens",
    "weightedmean": "pooling_mode_weightedmean_tokens",
    "lasttoken": "pooling_mode_lasttoken",
}


class Prompts(NamedTuple):
    """What is put before a text that is looked for, and before one that may be found."""

    query: str = ""
    document: str = ""


class Module(NamedTuple):
    """One module: its class, its folder ('' is the model's own), and its settings."""

    kind: str = "Transformer"
    folder: str = ""
    settings: Mapping[str, Any] = {}


class ModuleChain(NamedTuple):
    """The modules of a model, with its prompts and the length to which its vectors are cut.

    Without values: an encoder whose states are averaged.
    """

    modules: tuple[Module, ...] = (Module(),)
    prompts: Prompts = Prompts()
    truncate_dim: int | None = None

    @property
    def first(self) -> Module:
        """The encoder, or the table of a static model."""
        return self.modules[0]

    @property
    def modes(self) -> tuple[str, ...]:
        """How the states of tokens are pooled; several vectors are laid end to end."""
        found = [_modes(one.settings) for one in self.modules if one.kind == "Pooling"]
        return found[0] if found else ("mean",)

    @property
    def pooling(self) -> Pooling:
        """The packed encoder's pooling."""
        return "cls" if self.modes == ("cls",) else "mean"

    @property
    def by_library(self) -> bool:
        """Whether the library runs it."""
        settings = self.first.settings.items()
        kinds = [one.kind for one in self.modules]
        pools = [one.settings for one in self.modules if one.kind == "Pooling"]
        return not (
            kinds == ["Transformer", "Pooling", "Normalize"][: len(kinds)]
            and not self.first.folder
            and self.modes in {("mean",), ("cls",)}
            and all(one.get("include_prompt", True) for one in pools)
            and all(name == "max_seq_length" or _PLAIN.get(name) == own for name, own in settings)
            and self.truncate_dim is None
        )

    def dim(self, width: int) -> int:
        """The length of its vectors, from that of its encoder's states."""
        for one in self.modules:
            if one.kind == "Pooling":
                width *= len(_modes(one.settings))
            elif one.kind == "Dense":
                width = int(one.settings["out_features"])
        return min(width, self.truncate_dim or width)


def read_chain(folder: Path) -> ModuleChain:
    """Read the modules of a folder; one without modules.json is an encoder that is averaged."""
    path = folder / "modules.json"
    prompts, truncate_dim = _sentence_config(folder)
    modules = [Module()]
    if path.is_file():
        try:
            named = [(str(one["type"]), str(one["path"])) for one in read_any_json(path)]
        except (TypeError, KeyError) as error:
            raise ModelError(f"{path}: cannot be read as a list of modules: {error}") from error
        modules = [_module(path, name, place) for name, place in named]
        if [one.kind in _FIRST for one in modules] != [True] + [False] * (len(modules) - 1):
            raise ModelError(f"{path}: its first module, and no other, is to be an encoder")
    return ModuleChain(tuple(modules), prompts, truncate_dim)


def _module(path: Path, name: str, place: str) -> Module:
    place = "" if place == "." else place
    is_here = place != ".." and Path(place).name == place and "\0" not in place
    if place and not (is_here and len(place) <= _LONGEST_NAME):
        raise ModelError(f"{path}: names a folder elsewhere, {shown(place)}")
    found = _CLASS.fullmatch(name)
    if found is None or found[1] not in _KNOWN:
        raise ModelError(
            f"{path.parent}: its module {shown(name)} is not supported",
            hint=f"Supported are these of sentence-transformers: {', '.join(sorted(_KNOWN))}.",
        )
    own, kind = path.parent / place, found[1]
    file = own / ("sentence_bert_config.json" if kind in _FIRST else "config.json")
    settings = read_json(file) if file.is_file() else {}
    if kind == "Pooling" and not set(modes := _modes(settings)) <= _MODES.keys():
        raise ModelError(f"{own}: pooling {shown(str(modes))} is not supported")
    if kind == "Dense":
        width, activation = settings.get("out_features"), settings.get("activation_function", "")
        if type(width) is not int or not 0 < width <= 1 << 16:
            raise ModelError(f"{own}: out_features is {shown(width)}, no width of a vector")
        if activation and not _ACTIVATION.fullmatch(str(activation)):
            raise ModelError(f"{own}: {shown(activation)} is no activation function of torch")
    return Module(kind, place, settings)


def _modes(settings: Mapping[str, Any]) -> tuple[str, ...]:
    """A pooling module's modes, in the old spelling (flags) or the new one."""
    flagged = tuple(mode for mode, flag in _MODES.items() if settings.get(flag) is True)
    named = settings.get("pooling_mode", "mean")
    return flagged or tuple(map(str, named if isinstance(named, list) else [named]))


def _sentence_config(folder: Path) -> tuple[Prompts, int | None]:
    """The prompts as ``encode_query`` and ``encode_document`` choose them, else the default one."""
    path = folder / "config_sentence_transformers.json"
    config = read_json(path) if path.is_file() else {}
    given, default = config.get("prompts") or {}, config.get("default_prompt_name")
    dim = config.get("truncate_dim")
    if not isinstance(given, dict) or not all(isinstance(one or "", str) for one in given.values()):
        raise ModelError(f"{path}: prompts is no table of texts")
    prompts = {name: text or "" for name, text in given.items()}
    if default is not None and default not in prompts:
        raise ModelError(f"{path}: default_prompt_name is {shown(default)}, no name of a prompt")
    if dim is not None and not (type(dim) is int and dim > 0):
        raise ModelError(f"{path}: truncate_dim is {shown(dim)}, no length of a vector")
    query = prompts.get("query", "")
    document = next((prompts[k] for k in ("document", "passage", "corpus") if k in prompts), "")
    if not (query or document) and default is not None:
        query = document = prompts[default]
    return Prompts(query, document), dim
