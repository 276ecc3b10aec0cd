"""The examples run, and do what they claim."""

import runpy
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).resolve().parents[1] / "examples").glob("*.py"))

GCN_ACCURACY = 0.91
"""Of a graph convolutional network with as many layers and units; see the example's docstring."""


def main_of(name):
    (path,) = (path for path in EXAMPLES if path.stem == name)
    return runpy.run_path(str(path))["main"]


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example_has_fewer_than_60_lines(path):
    assert len(path.read_text(encoding="utf-8").splitlines()) < 60


def test_karate_club_learns_within_few_steps():
    assert main_of("karate_club")(steps=30) >= GCN_ACCURACY


def test_delayed_identification_finds_two_units():
    there, found = main_of("delayed_identification")(names="AB", steps=150)
    assert {pair: round(delay) for pair, delay in found.items()} == there


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
def test_karate_club_is_as_accurate_as_a_graph_convolutional_network(seed):
    assert main_of("karate_club")(seed) >= GCN_ACCURACY


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
def test_delayed_identification_finds_all_connections_and_delays(seed):
    there, found = main_of("delayed_identification")(seed)
    assert found.keys() == there.keys()
    assert max(abs(found[pair] - there[pair]) for pair in there) < 0.25
