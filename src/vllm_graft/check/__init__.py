"""Which patch fits which vLLM, told from the sources of vLLM alone: nothing of it is imported."""

COLLECTING = (100_000, 50, 100)
"""Thresholds for the garbage collector of a process that does nothing but read sources.

Syntax trees are many objects without circles: by its own thresholds it takes a tenth of the time.
"""
