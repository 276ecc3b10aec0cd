"""Records as data: what their annotations say is all that is known about them."""

import dataclasses
from typing import Literal

import pytest
from nnx_graph._data._codec import decode_fields, encode_fields
from nnx_graph._declaration._kinds import KINDS

from ._specs import assert_same


@dataclasses.dataclass(frozen=True)
class Uniform:
    low: int
    high: int = 3

    def __post_init__(self):
        if self.low > self.high:
            raise ValueError(f"Uniform: expected low up to {self.high}, got {self.low}")


@dataclasses.dataclass(frozen=True)
class Fixed:
    steps: tuple[int, ...] = ()
    scale: float = 1.0
    of: Uniform | None = None


@dataclasses.dataclass(frozen=True)
class Wire:
    """A record as a later Connection may be."""

    name: str
    delay: int | float | tuple[int, ...] | Uniform = 0
    kind: Fixed | Uniform = Uniform(0)
    mode: Literal["sum", "mean"] = "sum"


@pytest.fixture
def kinds(monkeypatch):
    monkeypatch.setitem(KINDS, "uniform", Uniform)
    monkeypatch.setitem(KINDS, "fixed", Fixed)


@pytest.mark.parametrize(
    ("wire", "data"),
    [
        (Wire("a"), {"name": "a"}),
        (Wire("a", mode="mean"), {"name": "a", "mode": "mean"}),
        (Wire("a", delay=2), {"name": "a", "delay": 2}),
        (Wire("a", delay=2.0), {"name": "a", "delay": 2.0}),
        (Wire("a", delay=(1, 2)), {"name": "a", "delay": [1, 2]}),
        (Wire("a", delay=Uniform(1)), {"name": "a", "delay": {"kind": "uniform", "low": 1}}),
        (
            Wire("a", kind=Fixed((1,), 0.5, Uniform(1, 2))),
            {
                "name": "a",
                "kind": {
                    "kind": "fixed",
                    "steps": [1],
                    "scale": 0.5,
                    "of": {"kind": "uniform", "low": 1, "high": 2},
                },
            },
        ),
    ],
)
def test_records_are_written_by_their_row_alone(kinds, wire, data):
    assert encode_fields(wire, "here") == data
    assert_same(decode_fields(Wire, data, "here"), wire)


@pytest.mark.parametrize(
    ("data", "error", "message"),
    [
        (
            {"name": "a", "kind": {"kind": "fixd"}},
            ValueError,
            r"here.kind: expected the kind of a record, got 'fixd'; did you mean 'fixed'",
        ),
        (
            {"name": "a", "delay": {"kind": "fixed"}},
            ValueError,
            r"here.delay: expected the kind of a record, got 'fixed'; .*'uniform'",
        ),
        (
            {"name": "a", "mode": "max"},
            TypeError,
            r"here.mode: expected 'sum' or 'mean', got 'max'",
        ),
        (
            {"name": "a", "kind": 3},
            TypeError,
            r"here.kind: expected a dict with the kind 'fixed' or a dict with the kind 'uniform', "
            r"got 3",
        ),
        (
            {"name": "a", "delay": [1, 2.5]},
            TypeError,
            r"here.delay\[1\]: expected an int, got 2.5",
        ),
        (
            {"name": "a", "delay": {"kind": "uniform", "low": 4}},
            ValueError,
            r"here.delay: Uniform: expected low up to 3, got 4",
        ),
        (
            {"name": "a", "kind": {"kind": "fixed", "of": {"kind": "uniform", "lo": 1}}},
            ValueError,
            r"here.kind.of: expected the name of a field, got 'lo'; did you mean 'low'",
        ),
    ],
)
def test_bad_records_raise_with_their_place(kinds, data, error, message):
    with pytest.raises(error, match=message):
        decode_fields(Wire, data, "here")


def test_record_without_a_row_raises():
    with pytest.raises(TypeError, match=r"here.delay: expected None, a bool.*got Uniform"):
        encode_fields(Wire("a", delay=Uniform(1)), "here")
