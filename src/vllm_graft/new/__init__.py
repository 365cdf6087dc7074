"""Packages of patches made on the spot, from nothing or from old patch files."""
