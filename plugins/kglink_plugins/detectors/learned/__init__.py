"""A detector that has learnt from annotated documents where mentions are."""
