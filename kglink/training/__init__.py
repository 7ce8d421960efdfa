"""The training room: several KBs are put into one space by the stages S, T and O.

Importing it loads no torch; `kglink.training.train` does.
"""

from __future__ import annotations

from kglink.training.recipe import DEFAULT_RECIPE, Recipe
from kglink.training.recipe_files import list_recipes, load_recipe

__all__ = ["DEFAULT_RECIPE", "Recipe", "list_recipes", "load_recipe"]
