"""The joint vector space: segments of each KB, names and vectors, one index, one manifest."""
