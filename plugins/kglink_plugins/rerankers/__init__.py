"""Rerankers that come with kglink."""
