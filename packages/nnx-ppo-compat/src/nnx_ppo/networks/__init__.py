"""Layers, containers, graphs and samplers under their published paths."""
