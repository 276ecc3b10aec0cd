"""Matrix products over time and batch."""

from jaxtyping import Array, Float


def multiply_rows(
    x: Float[Array, "*lead F"], kernel: Float[Array, "F O"]
) -> Float[Array, "*lead O"]:
    """Returns ``x @ kernel``, computed with all leading axes as the rows of one matrix.

    With three axes XLA on a CPU contracts the gradient of the kernel over two of them, for which
    it first copies the transposed output gradient.
    """
    flat = x.reshape(-1, x.shape[-1]) @ kernel
    return flat.reshape(*x.shape[:-1], kernel.shape[-1])
