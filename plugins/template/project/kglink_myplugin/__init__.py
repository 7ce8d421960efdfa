"""A plugin for kglink."""
