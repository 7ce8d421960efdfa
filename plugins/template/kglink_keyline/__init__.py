"""A KB adapter for kglink."""
