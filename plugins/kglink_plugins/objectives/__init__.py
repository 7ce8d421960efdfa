"""Objectives: the losses of training."""
