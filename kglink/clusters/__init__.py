"""Mentions that mean one thing: trees of training, nearest neighbours, clusters (ArboEL)."""
