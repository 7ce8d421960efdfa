"""A file for each measure: what is counted, and the JSON of it."""
