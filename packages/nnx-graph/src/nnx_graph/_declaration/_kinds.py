"""The records that a field of a population or connection may hold, and how they are named."""

import dataclasses
from typing import Any

from ._connectivity import (
    BlockSparse,
    DistanceDependent,
    FixedProbability,
    LowRank,
    Mask,
    OneToOne,
)
from ._delay import LearnableDelay

KINDS: dict[str, type] = {
    "block-sparse": BlockSparse,
    "distance-dependent": DistanceDependent,
    "fixed-probability": FixedProbability,
    "learnable-delay": LearnableDelay,
    "low-rank": LowRank,
    "mask": Mask,
    "one-to-one": OneToOne,
}
"""Record by the ``kind`` that stands for it: a frozen dataclass of plain data and such records.

Data have it as ``{"kind": ..., field: value, ...}``, so no field of it is called "kind". What a
field may hold is said by its annotation alone, in the declaration or in the record. A record
refuses bad values itself, with a ValueError or TypeError.
"""


def kind_name(record: Any) -> str | None:
    """Returns the name of a record's kind; None for what is no such record.

    Example:
      >>> kind_name(OneToOne()), kind_name(None)
      ('one-to-one', None)
    """
    return next((name for name, kind in KINDS.items() if kind is type(record)), None)


def needs_fields(kind: type) -> bool:
    """Whether a record of this kind has a field without a default: its name says too little.

    Example:
      >>> needs_fields(OneToOne), needs_fields(LowRank)
      (False, True)
    """
    return any(
        field.default is field.default_factory is dataclasses.MISSING
        for field in dataclasses.fields(kind)
    )
