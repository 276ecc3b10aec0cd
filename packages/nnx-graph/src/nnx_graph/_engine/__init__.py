"""How a declared graph is computed: packed into few operations, stepped and unrolled."""
