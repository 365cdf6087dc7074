"""A survey as plain values, for JSON and pages."""

from typing import Any

from .findings import Finding
from .survey import Cell, Row, Survey


def plain(survey: Survey) -> dict[str, Any]:
    """Return sources, patches with their cells, findings, and what could not be loaded."""
    return {
        "sources": [
            {
                "name": each.text,
                "title": each.title,
                "version": each.version.text,
                "version_source": each.version.source,
                "distribution": each.tree.distribution,
            }
            for each in survey.sources
        ],
        "patches": [_row(row) for row in survey.rows],
        "findings": [_finding(each) for each in survey.findings],
        "broken": [{"set": each.name, "error": str(each.error)} for each in survey.broken],
        "fine": survey.is_fine,
    }


def _row(row: Row) -> dict[str, Any]:
    from ..cli.list import fields

    return fields(row.patch) | {
        "applies": row.applies,
        "cells": [_cell(each) for each in row.cells],
        "findings": [_finding(each) for each in row.findings],
    }


def _cell(cell: Cell) -> dict[str, Any]:
    verdict = cell.verdict
    found = verdict.resolution
    return {
        "source": cell.source.text,
        "state": cell.state,
        "fit": verdict.fit,
        "reason": cell.reason or verdict.reason,
        "target": str(verdict.target),
        "where": str(found.where) if found and found.where else None,
        "path": found.path if found else "",
        "line": found.line if found else 0,
        "notes": list(verdict.notes),
        "signatures": verdict.signatures,
        "moves": [str(each) for each in verdict.moves],
        "fixed": cell.fixed,
    }


def _finding(finding: Finding) -> dict[str, Any]:
    return {
        "level": finding.level,
        "rule": finding.rule,
        "patch": finding.patch.id,
        "source": finding.source,
        "message": finding.message,
        "declared": str(finding.patch.location),
    }
