"""What is said of a target that is only misspelt, or has its colon in the wrong place."""

from collections.abc import Callable
from pathlib import Path

import pytest

from vllm_graft import Patch
from vllm_graft.check.source import Source
from vllm_graft.check.survey import Cell, survey

from .vllm_trees import keep_release, resolve, write_tree

Declare = Callable[..., Patch]

FILES = {
    "__init__.py": """
        _TABLE = {"LLM": "vllm.entrypoints.llm:LLM"}
        def __getattr__(name):
            if name in _TABLE: return load(_TABLE[name])
            raise AttributeError(name)
        """,
    "entrypoints/llm.py": "class LLM:\n    def generate(self): pass\n",
    "sched/scheduler.py": """
        import json as loader
        from vllm.base import Base
        LIMIT, OTHER = 1, 2
        if LIMIT:
            def schedule_all():
                local_name = 1
        class Scheduler(Base):
            limit: int = 1
            only_typed: int
            def __init__(self): self.queue = []
            def add_request(self): pass
        the_scheduler = Scheduler()
        @decorated(
            1)
        def step(): pass
        """,
    "base.py": "class Base:\n    def finish_requests(self): pass\n",
    "router.py": "def generate(): pass\n",
}
SCHEDULER = "vllm.sched.scheduler"


@pytest.mark.parametrize(
    ("target", "hint"),
    [
        (f"{SCHEDULER}:Scheduler.add_requests", "Did you mean 'add_request'?"),
        (f"{SCHEDULER}:Scheduler.finish_request", "Did you mean 'finish_requests'?"),
        (f"{SCHEDULER}:Scheduler.limits", "Did you mean 'limit'?"),
        (f"{SCHEDULER}:Schedular", "Did you mean 'Scheduler'?"),
        (f"{SCHEDULER}:Schedular.add_request", "Did you mean 'Scheduler'?"),
        (f"{SCHEDULER}:shedule_all", "Did you mean 'schedule_all'?"),
        (f"{SCHEDULER}:loadr", "Did you mean 'loader'?"),
        (f"{SCHEDULER}:OTHR", "Did you mean 'OTHER'?"),
        (f"{SCHEDULER}:steps", "Did you mean 'step'?"),
        ("vllm:LM.generate", "Did you mean 'LLM'?"),
        ("vllm:shed", "Did you mean 'sched'?"),
        ("vllm.sched.schedular:Scheduler", "Did you mean 'vllm.sched.scheduler'?"),
        ("vllm.shed.scheduler:Scheduler", "Did you mean 'vllm.sched.scheduler'?"),
        ("vllm.shed.other:Scheduler", "Did you mean 'vllm.sched'?"),
        ("vllm.nothing_like_it:f", ""),
        # A name that is only a little alike is another one.
        (f"{SCHEDULER}:Scheduler.finish_all", ""),
        ("vllm:sheduler", ""),
        ("vllm.bare:f", ""),
        # Nothing is offered that is not there, and nothing where the reason tells more.
        (f"{SCHEDULER}:local_nam", ""),
        (f"{SCHEDULER}:Scheduler.queue", ""),
        # The colon.
        ("vllm.LLM:generate", "Write 'vllm:LLM.generate'"),
        ("vllm.LLM", "Write 'vllm:LLM'"),
        ("vllm.LLM:generat", "Write 'vllm:LLM.generat'"),
        ("vllm.entrypoints.llm.LLM:generate", "Write 'vllm.entrypoints.llm:LLM.generate'"),
        ("vllm.entrypoints.llm.LLM.generate", "Write 'vllm.entrypoints.llm:LLM.generate'"),
        ("vllm.router.generate:f", ""),
    ],
)
def test_a_missing_target_comes_with_what_it_may_have_been(
    tmp_path: Path, target: str, hint: str
) -> None:
    found = resolve(tmp_path, target, FILES)
    assert (found.state, found.hint) == ("missing", hint)


def test_a_name_nearby_from_a_broken_module_does_no_harm(tmp_path: Path) -> None:
    files = {"a.py": "from .broken import things\n", "broken.py": "things = (\n)]\ndef f(:\n"}
    found = resolve(tmp_path, "vllm.a:thing", files)
    assert (found.state, found.hint) == ("missing", "")


@pytest.fixture
def judged(tmp_path: Path, declare: Declare) -> Callable[..., Cell]:
    """Return a function that judges a wrap on a tree of the files."""

    def judged(target: str, files: dict[str, str]) -> Cell:
        source = Source.open(str(write_tree(tmp_path / "tree", files)))
        wrap = declare("wrap", target, lambda original, *args: None)
        return survey([wrap], [source]).rows[0].cells[0]

    return judged


@pytest.fixture(autouse=True)
def cache_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def test_the_reason_ends_with_what_may_have_been_meant(judged: Callable[..., Cell]) -> None:
    for _ in range(2):  # the second answer comes from the cache
        cell = judged(f"{SCHEDULER}:Scheduler.add_requests", FILES)
        assert cell.reason.startswith(f"{SCHEDULER}:Scheduler has no 'add_requests'; ")
        assert cell.reason.endswith(". Did you mean 'add_request'?")


def test_what_another_vllm_has_is_not_misspelt(judged: Callable[..., Cell]) -> None:
    keep_release("0.31.0", {"sched/scheduler.py": "class Scheduler:\n    add_requests = 1\n"})
    cell = judged(f"{SCHEDULER}:Scheduler.add_requests", FILES)
    assert (cell.state, cell.verdict.hint) == ("missing", "")
    assert "Did you mean" not in cell.reason


def test_what_is_only_written_otherwise_has_not_moved(judged: Callable[..., Cell]) -> None:
    cell = judged("vllm.LLM:generate", FILES)
    assert (cell.state, cell.reason) == (
        "missing",
        "there is no module vllm.LLM. Write 'vllm:LLM.generate'",
    )


def test_a_module_that_once_was_there_may_have_moved(judged: Callable[..., Cell]) -> None:
    """What another vLLM has under the name is no slip of the pen."""
    body = "class C:\n    def generate(self): return [each for each in self.rows if each]\n"
    keep_release("0.31.0", {"tool.py": body})
    cell = judged("vllm.tool:C.generate", {"__init__.py": "class tool: pass\n", "new.py": body})
    assert (cell.state, str(cell.verdict.moves[0].target)) == ("moved", "vllm.new:C.generate")


def test_an_import_that_was_dropped_is_said_to_be_that(judged: Callable[..., Cell]) -> None:
    keep_release(
        "0.31.0", {"home.py": "def f(x): return x + 1\n", "user.py": "from .home import f"}
    )
    cell = judged("vllm.user:f", {"home.py": "def f(x): return x + 1\n", "user.py": "g = 1\n"})
    assert cell.state == "moved"
    assert cell.reason.startswith("vllm.user no longer imports 'f'; it is still at vllm.home:f (")
    assert ", but for other callers; compared with vLLM 0.31.0" in cell.reason
