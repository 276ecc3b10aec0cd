"""The records that a field of a population or connection may hold, and how data names them."""

from .._declaration._connectivity import (
    BlockSparse,
    DistanceDependent,
    FixedProbability,
    LowRank,
    Mask,
    OneToOne,
)

KINDS: dict[str, type] = {
    "block-sparse": BlockSparse,
    "distance-dependent": DistanceDependent,
    "fixed-probability": FixedProbability,
    "low-rank": LowRank,
    "mask": Mask,
    "one-to-one": OneToOne,
}
"""Record by the ``kind`` that stands for it: a frozen dataclass of plain data and such records.

It is written as ``{"kind": ..., field: value, ...}``, so no field of it is called "kind". What a
field may hold is said by its annotation alone, in the declaration or in the record. A record
refuses bad values itself, with a ValueError or TypeError.
"""
