"""The part that a project's patches take in its pytest run."""

import difflib
from collections.abc import Generator, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest

from ..catalog import BrokenSet
from ..errors import GraftError
from ..patch import Patch
from . import lock_file
from .judgement import Answer, Answers, answers
from .opening import expanded
from .project import Project, read_project
from .pytest_items import NAME, Checks, Kind, PatchItem, Question, load_name


def join(config: pytest.Config, file: Path) -> None:
    """Register what collects the items; raise `UsageError` where the table has no meaning."""
    try:
        project = read_project(file)
    except GraftError as error:
        raise pytest.UsageError(str(error)) from error
    if project.has_table:
        mark = f"{NAME}: a check of vllm-graft, of a patch on a vLLM"
        config.addinivalue_line("markers", mark)
        config.pluginmanager.register(Run(project, config), "vllm_graft_run")


class Run:
    """Collects the items that a run asks for, and answers all when the first of them asks."""

    def __init__(self, project: Project, config: pytest.Config) -> None:
        self._project = project
        self._config = config
        self._session: pytest.Session
        self._broken: Sequence[BrokenSet] = ()
        self._questions: Sequence[Question] = ()

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection(self, session: pytest.Session) -> None:
        """Find out what is asked for, and take it from the arguments: there is no file `graft`.

        Raises `UsageError` for an id that there is not, and where the patches cannot be told.
        """
        self._session = session
        given = [(each, self._id(each)) for each in self._config.args]
        ids = [each for _, each in given if each is not None]
        self._config.args = [each for each, own in given if own is None]
        if not ids and not self._is_whole():
            return
        try:
            self._look()
        except GraftError as error:
            raise pytest.UsageError(f"{self._project.root}: {error}") from error
        if ids:
            self._narrow(ids)

    @pytest.hookimpl(hookwrapper=True)
    def pytest_make_collect_report(
        self, collector: pytest.Collector
    ) -> "Generator[None, Any, None]":
        """Have the session collect the items, after the tests."""
        outcome = yield
        if isinstance(collector, pytest.Session) and (self._broken or self._questions):
            checks = Checks.from_parent(
                collector,
                name=NAME,
                nodeid=NAME,
                path=self._project.root / "pyproject.toml",
                ask=self._answer,
                questions=self._questions,
                broken=self._broken,
            )
            outcome.get_result().result.append(checks)

    def _id(self, argument: str) -> str | None:
        """Return what follows `graft::` in an argument; None where that is a path."""
        head, separator, rest = argument.partition("::")
        here = self._config.invocation_params.dir / head
        ours = (self._project.root / NAME).resolve()  # as ids are written in folders below
        return rest if separator and (head == NAME or here.resolve() == ours) else None

    def _is_whole(self) -> bool:
        """Tell whether the run is of all tests or of those in a folder, not of chosen ones."""
        if self._config.args_source is not pytest.Config.ArgsSource.ARGS:
            return True
        here = self._config.invocation_params.dir
        return any((here / each).is_dir() for each in self._config.args)

    def _look(self) -> None:
        catalog = self._project.catalog()
        if self._project.lock.is_file():
            lock_file.read(self._project.lock)  # one error, and not one for each item
        self._broken = catalog.broken
        self._questions = [
            Question(kind, patch, name)
            for patch in self._project.patches(catalog)
            for name in self._names
            for kind in self._kinds(patch)
        ]

    @cached_property
    def _names(self) -> Sequence[str]:
        return tuple(expanded(*self._project.vllm))

    def _kinds(self, patch: Patch) -> Iterator[Kind]:
        yield "applies"
        if self._project.has_lock:
            yield "drift"
        if patch.fixed_by is not None:
            yield "still-needed"

    def _narrow(self, ids: Sequence[str]) -> None:
        known = [*map(load_name, self._broken), *map(str, self._questions)]
        for each in ids:
            if not any(_is_named(name, [each]) for name in known):
                close = difflib.get_close_matches(each, known, n=1)
                hint = f". Is it {NAME}::{close[0]}?" if close else ""
                raise pytest.UsageError(f"not found: {NAME}::{each}{hint}")
        self._broken = [each for each in self._broken if _is_named(load_name(each), ids)]
        self._questions = [each for each in self._questions if _is_named(str(each), ids)]

    def _answer(self, question: Question) -> "Answer | GraftError":
        return self._answers[question.patch.id, question.vllm]

    @cached_property
    def _answers(self) -> Answers:
        """What is known of the patches that were not deselected, on every vLLM of the table."""
        items = (each for each in self._session.items if isinstance(each, PatchItem))
        patches = {each.question.patch.id: each.question.patch for each in items}
        return answers(tuple(patches.values()), self._names, self._project)


def _is_named(name: str, ids: Sequence[str]) -> bool:
    """Tell whether an id is that of an item, or the beginning of it before a bracket."""
    return any(each in ("", name) or name.startswith(f"{each}[") for each in ids)
