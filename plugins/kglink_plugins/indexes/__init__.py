"""Index back ends: nearest rows by inner product, on faiss."""
