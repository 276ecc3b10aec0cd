"""What a graph is declared to be: records, names, and what is asked of them."""
