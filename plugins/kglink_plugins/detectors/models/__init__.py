"""Detectors that run a model which the user has: spaCy, GLiNER, Hugging Face."""
