"""Graphs as data: dicts, JSON, edge lists, networkx and GraphML."""
