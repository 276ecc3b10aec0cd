"""The import paths of nnx-ppo, served by the packages of this workspace.

Most modules re-export. Where a published signature differs from ours, a thin adapter takes the
published one; its docstring says what differs.
"""
