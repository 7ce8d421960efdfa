"""A reranker that asks a language model behind an OpenAI-compatible endpoint."""
