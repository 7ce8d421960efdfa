"""Exporters: how linked documents leave kglink (table, json, jsonl, html)."""
