"""A model with two implementations, brought by a package of its own."""
