"""The tables of five papers made anew: recipes, protocols, figures, and `kglink reproduce`."""
