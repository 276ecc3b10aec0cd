"""Which units of a population reach which units of another: records for default connections."""

import dataclasses
import operator
import zlib
from typing import Any, Literal

import numpy as np
from jaxtyping import Bool, Float

from ._hints import shown


@dataclasses.dataclass(frozen=True)
class OneToOne:
    """Unit i of the source reaches unit i of the destination alone; both have the same size.

    Example:
      >>> OneToOne().mask(2, 2).tolist()
      [[True, False], [False, True]]
    """

    def check_sizes(self, height: int, width: int) -> None:
        """Raises ValueError if the sizes differ."""
        if height != width:
            raise ValueError(
                f"OneToOne: expected populations of one size, got {height} and {width}; make them "
                "equal, or use another connectivity"
            )

    def mask(self, height: int, width: int, stream: int = 0) -> Bool[np.ndarray, "height width"]:
        """Returns which weights there are, (size of the source, size of the destination).

        Raises:
          ValueError: if the sizes differ.
        """
        self.check_sizes(height, width)
        return np.eye(height, dtype=bool)


@dataclasses.dataclass(frozen=True)
class FixedProbability:
    """Each pair of units is connected with the same probability, independently.

    Attributes:
      probability: above 0, at most 1.
      seed: of the draw; the same one gives the same connections.

    Example:
      >>> int(FixedProbability(0.5, seed=1).mask(100, 100).sum())
      4953
    """

    probability: float
    seed: int = 0

    def __post_init__(self):
        _make_real(self, "probability")
        _make_whole(self, "seed", 0)
        if not 0 < self.probability <= 1:
            raise ValueError(
                "FixedProbability: expected a probability above 0 and at most 1, got "
                f"{shown(self.probability)}; for no connection at all, leave it out"
            )

    def check_sizes(self, height: int, width: int) -> None:
        """Does nothing: populations of all sizes will do."""

    def mask(self, height: int, width: int, stream: int = 0) -> Bool[np.ndarray, "height width"]:
        """Returns which weights there are, (size of the source, size of the destination).

        Args:
          height: size of the source.
          width: size of the destination.
          stream: another one gives another draw of the same seed.
        """
        return np.random.default_rng([self.seed, stream]).random((height, width)) < self.probability


@dataclasses.dataclass(frozen=True)
class DistanceDependent:
    """Units that lie close together are connected more often than distant ones.

    The units of a population lie side by side, unit i of n at (i + 1/2) / n; a pair at distance d
    is connected with probability ``peak * exp(-d / scale)``, or ``peak * exp(-(d / scale)**2 / 2)``
    for the Gaussian.

    Attributes:
      scale: of the distance, as a fraction of the population's extent; above 0.
      peak: probability at distance 0; above 0, at most 1.
      profile: how the probability falls.
      ring: whether the ends meet, so that no distance is above 1/2.
      seed: of the draw.

    Example:
      >>> mask = DistanceDependent(0.1).mask(50, 50)
      >>> bool(mask.diagonal().mean() > mask.mean())
      True
    """

    scale: float
    peak: float = 1.0
    profile: Literal["exponential", "gaussian"] = "exponential"
    ring: bool = False
    seed: int = 0

    def __post_init__(self):
        _make_real(self, "scale")
        _make_real(self, "peak")
        _make_whole(self, "seed", 0)
        if not isinstance(self.ring, bool):
            raise TypeError(
                f"DistanceDependent: expected ring=True or False, got {shown(self.ring)}; True "
                "lets the ends of a population meet"
            )
        if not 0 < self.scale < np.inf:
            raise ValueError(
                f"DistanceDependent: expected a scale above 0, got {shown(self.scale)}; it is a "
                "fraction of the population's extent, for example 0.1"
            )
        if not 0 < self.peak <= 1:
            raise ValueError(
                f"DistanceDependent: expected a peak above 0 and at most 1, got "
                f"{shown(self.peak)}; it is a probability"
            )
        if self.profile not in ("exponential", "gaussian"):
            raise ValueError(
                "DistanceDependent: expected the profile 'exponential' or 'gaussian', got "
                f"{shown(self.profile)}; choose one"
            )

    def check_sizes(self, height: int, width: int) -> None:
        """Does nothing: populations of all sizes will do."""

    def mask(self, height: int, width: int, stream: int = 0) -> Bool[np.ndarray, "height width"]:
        """Returns which weights there are, (size of the source, size of the destination).

        Args:
          height: size of the source.
          width: size of the destination.
          stream: another one gives another draw of the same seed.
        """
        distance = np.abs(_positions(height)[:, None] - _positions(width))
        if self.ring:
            distance = np.minimum(distance, 1 - distance)
        relative = distance / self.scale
        exponent = relative if self.profile == "exponential" else relative**2 / 2
        drawn = np.random.default_rng([self.seed, stream]).random((height, width))
        return drawn < self.peak * np.exp(-exponent)


@dataclasses.dataclass(frozen=True)
class BlockSparse:
    """Units in groups of neighbours, of which some reach each other, every unit every unit.

    Source and destination are each cut into ``blocks`` groups. Group i of the source reaches group
    i of the destination, and others with a probability.

    Attributes:
      blocks: number of groups; at most the smaller size.
      probability: that two other groups are connected; between 0 and 1.
      seed: of the draw.

    Example:
      >>> BlockSparse(2).mask(4, 2).astype(int).tolist()
      [[1, 0], [1, 0], [0, 1], [0, 1]]
    """

    blocks: int
    probability: float = 0.0
    seed: int = 0

    def __post_init__(self):
        _make_whole(self, "blocks", 1)
        _make_real(self, "probability")
        _make_whole(self, "seed", 0)
        if not 0 <= self.probability <= 1:
            raise ValueError(
                "BlockSparse: expected a probability from 0 to 1, got "
                f"{shown(self.probability)}; it is that of two blocks apart from the diagonal"
            )

    def check_sizes(self, height: int, width: int) -> None:
        """Raises ValueError if there are more blocks than units."""
        if self.blocks > min(height, width):
            raise ValueError(
                f"BlockSparse: expected at most {min(height, width)} blocks between populations of "
                f"{height} and {width}, got {shown(self.blocks)}; use fewer"
            )

    def mask(self, height: int, width: int, stream: int = 0) -> Bool[np.ndarray, "height width"]:
        """Returns which weights there are, (size of the source, size of the destination).

        Raises:
          ValueError: if there are more blocks than units.
        """
        self.check_sizes(height, width)
        drawn = np.random.default_rng([self.seed, stream]).random((self.blocks, self.blocks))
        connected = (drawn < self.probability) | np.eye(self.blocks, dtype=bool)
        source = np.arange(height) * self.blocks // height
        destination = np.arange(width) * self.blocks // width
        return connected[source[:, None], destination]


@dataclasses.dataclass(frozen=True)
class Mask:
    """Exactly these pairs of units are connected.

    Args:
      entries: nested tuples or an array (size of the source, size of the destination), true where
        there is a weight.

    Example:
      >>> Mask([[1, 0], [1, 1]]).entries
      ((True, False), (True, True))
    """

    entries: tuple[tuple[bool, ...], ...]

    def __post_init__(self):
        expected = "Mask: expected entries of shape (size of the source, size of the destination)"
        try:
            array = np.asarray(self.entries)
        except ValueError:
            raise ValueError(f"{expected}, got rows of unequal length; make them equal") from None
        if array.ndim != 2:
            raise ValueError(
                f"{expected}, got shape {array.shape}; give a row for each unit of the source"
            )
        if array.dtype.kind not in "biuf" or not np.isin(array, (0, 1)).all():
            raise ValueError(
                "Mask: expected entries True or False (or 1 and 0), got others; compare them with "
                "something, for example weights != 0"
            )
        rows = tuple(tuple(map(bool, row)) for row in array.tolist())
        object.__setattr__(self, "entries", rows)

    def check_sizes(self, height: int, width: int) -> None:
        """Raises ValueError if the mask has another shape."""
        shape = np.shape(self.entries)
        if shape != (height, width):
            raise ValueError(
                f"Mask: expected entries of shape {(height, width)}, the sizes of source and "
                f"destination, got {shape}; give a row for each unit of the source"
            )

    def mask(self, height: int, width: int, stream: int = 0) -> Bool[np.ndarray, "height width"]:
        """Returns which weights there are, (size of the source, size of the destination).

        Raises:
          ValueError: if the mask has another shape.
        """
        self.check_sizes(height, width)
        return np.array(self.entries, bool)


@dataclasses.dataclass(frozen=True)
class LowRank:
    """All units are connected, with a kernel that is the product of two narrow matrices.

    It bounds the rank; the product itself is computed in full.

    Attributes:
      rank: columns of the first, rows of the second; at least 1.

    Example:
      >>> LowRank(3).rank
      3
    """

    rank: int

    def __post_init__(self):
        _make_whole(self, "rank", 1)

    def check_sizes(self, height: int, width: int) -> None:
        """Raises ValueError if the rank is above the smaller size."""
        if self.rank > min(height, width):
            raise ValueError(
                f"LowRank: expected a rank of at most {min(height, width)} between populations of "
                f"{height} and {width}, got {shown(self.rank)}; lower it, or leave it out"
            )

    def mask(self, height: int, width: int, stream: int = 0) -> Bool[np.ndarray, "height width"]:
        """Returns which weights there are: all of them.

        Raises:
          ValueError: if the rank is above the smaller size.
        """
        del stream
        self.check_sizes(height, width)
        return np.ones((height, width), bool)


Connectivity = OneToOne | FixedProbability | DistanceDependent | BlockSparse | Mask | LowRank


def _positions(size: int) -> Float[np.ndarray, " size"]:
    return (np.arange(size) + 0.5) / size


def mask_of(
    connectivity: Connectivity, name: str, height: int, width: int
) -> Bool[np.ndarray, "height width"]:
    """Returns which weights a connection has; connections of one seed have patterns of their own.

    Args:
      connectivity: of the connection.
      name: of the connection.
      height: size of its source.
      width: size of its destination.
    """
    return connectivity.mask(height, width, zlib.crc32(name.encode()))


def _make_whole(record: Any, field: str, least: int) -> None:
    """Makes a field an int, or raises."""
    value, kind = getattr(record, field), type(record).__name__
    expected = (
        f"{kind}: expected {field} to be a whole number of at least {least}, got {shown(value)}"
    )
    if isinstance(value, bool):
        raise TypeError(f"{expected}; pass an int")
    try:
        whole = operator.index(value)
    except TypeError:
        raise TypeError(f"{expected} of type {type(value).__name__}; pass an int") from None
    if whole < least:
        raise ValueError(f"{expected}; raise it")
    object.__setattr__(record, field, whole)


def _make_real(record: Any, field: str) -> None:
    """Makes a field a float, or raises."""
    value = getattr(record, field)
    if isinstance(value, bool | str) or not hasattr(value, "__float__"):
        raise TypeError(
            f"{type(record).__name__}: expected {field} to be a number, got {shown(value)} of type "
            f"{type(value).__name__}; pass a float"
        )
    try:
        real = float(value)
    except (OverflowError, TypeError, ValueError):
        raise ValueError(
            f"{type(record).__name__}: expected {field} to be a number that a float can hold, got "
            f"{shown(value)}; pass a float"
        ) from None
    object.__setattr__(record, field, real)
