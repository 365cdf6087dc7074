"""A survey as plain values: what `check --json` prints, and what pages are made of.

Keys may be added; those that are here keep their meaning. For ranges of revisions `check` adds the
key `bisections`, whose values `Bisection.as_dict` makes.

    sources       the vLLMs, in the order in which they were named
      name            as it was named: `0.32.0`, `installed`, a path, `PATH@REVISION`
      title           as reports show it
      version         the version, null where it is unknown
      version_source  where that was found
      distribution    the distribution that it is of
    patches       a patch each, with its fields as `list --json` has them, and
      applies         the names of the sources where it would land, whatever its range says
      cells           what becomes of it on each of the sources
        source          the name of the source
        state           ok, out-of-range, missing, moved, signature, kind, changed or unknown
        fit             the state, whatever the range says
        reason          why, in a sentence; empty for ok
        target          the candidate that counts there
        where           the definition of that, null where there is none
        path, line      the file and line of the definition, in the sources
        notes           what else is to be known, such as how a re-export is reached
        signatures      that of the target and that of the implementation, or null
        moves           where a missing target may be now, the likeliest first
        compared        what shows how a missing target was defined, or null
        fixed           why the patch is not needed any more, or null
        drift           how the target is not as it was locked, or null
        diff            what upstream has changed in the target; empty unless asked for
      findings        what is said of it, as below
    findings      those of all patches
      level           error, warning or note
      rule            a name to filter by: the state, or range-too-wide, fixed, review, …
      patch           the id of the patch
      source          the name of the source, null where it is about none or several
      message         a sentence
      declared        the file and line of the patch
    broken        the sets that cannot be loaded
      set             the name of the set
      error           why
    fine          whether nothing falls short: no broken set, no finding of level error
"""

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
        "applies": [each.source.text for each in row.cells if each.verdict.fit == "ok"],
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
        "reason": cell.reason or verdict.explained,
        "target": str(verdict.target),
        "where": str(found.where) if found and found.where else None,
        "path": found.path if found else "",
        "line": found.line if found else 0,
        "notes": list(verdict.notes),
        "signatures": verdict.signatures,
        "moves": [str(each) for each in verdict.moves],
        "compared": verdict.compared or None,
        "fixed": cell.fixed,
        "drift": str(cell.drift) if cell.drift else None,
        "diff": cell.diff,
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
