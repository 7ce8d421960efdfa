"""One file for each way of measuring: what is counted, and the JSON of it.

A figure from ranks is added to `values_of` in `retrieval`; the commands print what
`evaluation_tables` of the command line names, and `evaluation/comparison` says what is compared.
"""
