"""Environments around environments, under their published paths."""
