"""One file for each way of measuring: what is counted, and the JSON of it.

A figure from ranks is added to `values_of` in `retrieval`; those in `SHOWN` there are printed,
compared, and in the tables of reports.
"""
