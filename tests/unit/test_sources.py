"""What a module's source defines, without importing it."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

from vllm_graft import sources
from vllm_graft.sources import bases, definition, exists, has_main_guard, imports
from vllm_graft.target import Target

Write = Callable[[str, str], Path]
Make = Callable[..., ModuleType]

SUBJECT = """
import os.path
import json as encoder
from .bases import Base, Generic as Renamed
from . import bases
from .stars import *

def function():
    inner = 1

async def coroutine():
    pass

LIMIT = 1
FIRST, (SECOND, *REST) = 1, (2, 3)
CHAINED = TWICE = 1
TYPED: int = 1
DECLARED: int
Alias = Base
Alias.changed = 1

if LIMIT:
    CONDITIONAL = 1
elif FIRST:
    def in_elif(): pass
else:
    IN_ELSE = 1

try:
    import fast
except ImportError:
    fast = None
    IN_EXCEPT = 1
else:
    IN_TRY_ELSE = 1
finally:
    IN_FINALLY = 1

with open(__file__):
    IN_WITH = 1
for _ in ():
    IN_LOOP = 1
match LIMIT:
    case 1:
        IN_MATCH = 1
while LIMIT:
    IN_WHILE = 1
    break


class Local(Base):
    attribute = 1
    typed: int = 1

    def method(self):
        self.in_init = 1

    if LIMIT:
        def conditional(self): pass

    class Inner:
        def deep(self): pass


class Child(Local, Renamed[int]):
    pass

class Attributed(bases.Base):
    pass

class Unknown(made_at_run_time()):
    pass

class Circular(Circular):
    pass
"""
FILES = {
    "pack/__init__.py": """
        from .stars import *
        from .subject import function as exported
        __version__ = "1"
        """,
    "pack/subject.py": SUBJECT,
    "pack/bases.py": """
        class Root:
            def from_root(self): pass
        class Base(Root):
            def from_base(self): pass
        class Generic:
            def from_generic(self): pass
        """,
    "pack/stars.py": "from .bases import *\nSTARRED = 1\n",
    "pack/lazy.py": """
        MODULES = {"Engine": ".engine:Engine"}
        def __getattr__(name):
            return MODULES[name]
        """,
    "pack/eager.py": 'MODULES = {"Engine": ".engine:Engine"}\n',
    "pack/broken.py": "def f(:\n",
    "pack/circular.py": "from .circular import *\n",
    "pack/heirs.py": """
        import pack.bases
        import pack.bases as aliased
        from . import bases
        from .bases import Base, Base as Renamed
        from .forward import Moved
        from .loop import Endless

        class Here: ...
        class Plain(Base): ...
        class Under(Renamed): ...
        class Dotted(pack.bases.Base): ...
        class ByAlias(aliased.Base): ...
        class ByModule(bases.Base): ...
        class Generic(Base[int]): ...
        class Both(Here, Base, object): ...
        class Through(Moved): ...
        class Lost(Endless): ...
        class Made(type("A", (), {})): ...
        class Keyword(Base, metaclass=type): ...
        class Outer:
            class Inner(Base): ...
        class OfInner(Outer.Inner): ...
        ALIAS = Plain
        def function(): ...
        """,
    "pack/forward.py": "from .bases import Base as Moved\n",
    "pack/loop.py": "from .pool import Endless\n",
    "pack/pool.py": "from .loop import Endless\n",
    "pack/program.py": "def f(): pass\nif __name__ == '__main__':\n    f()\n",
    "pack/reversed.py": "if '__main__' == __name__:\n    pass\n",
    "pack/other.py": "NAME = '__main__'\nif NAME:\n    pass\n",
}

EXISTS = [
    *("subject:function", "subject:coroutine", "subject:LIMIT", "subject:TYPED"),
    *("subject:FIRST", "subject:SECOND", "subject:REST", "subject:CHAINED", "subject:TWICE"),
    *("subject:Local", "subject:Base", "subject:Renamed", "subject:encoder", "subject:os"),
    *("subject:CONDITIONAL", "subject:in_elif", "subject:IN_ELSE"),
    *("subject:fast", "subject:IN_EXCEPT", "subject:IN_TRY_ELSE", "subject:IN_FINALLY"),
    *("subject:IN_WITH", "subject:IN_LOOP", "subject:IN_MATCH", "subject:IN_WHILE"),
    *("subject:Local.attribute", "subject:Local.typed", "subject:Local.method"),
    *("subject:Local.conditional", "subject:Local.Inner", "subject:Local.Inner.deep"),
    # from bases, in the same file and in others, however they were imported
    *("subject:Local.from_base", "subject:Local.from_root"),
    *("subject:Child.method", "subject:Child.from_root", "subject:Child.from_generic"),
    # from a star import, that of a package's __init__ included
    *("subject:STARRED", "subject:Root", ":STARRED", ":exported", ":__version__"),
    # what an alias or an import has is not in this file
    *("subject:Alias.anything", "subject:Base.anything"),
    "lazy:Engine",
]
DOES_NOT_EXIST = [
    *("subject:inner", "subject:Local.in_init", "subject:method", "subject:Local.nothing"),
    *("subject:Child.nothing", "subject:Attributed.nothing", "subject:Circular.nothing"),
    *("subject:function.nothing", "subject:path", "subject:json", "subject:nothing"),
    *("subject:Nothing.method", "subject:Local.Inner.nothing", "subject:Local.LIMIT"),
    *("lazy:Nothing", "eager:Engine", "missing:function", "broken:f", "circular:nothing"),
]


@pytest.fixture(autouse=True)
def pack(write: Write) -> Iterator[None]:
    """Write a package that is never imported."""
    for path, text in FILES.items():
        write(path, text)
    sources.parsed.cache_clear()
    yield
    assert not [name for name in sys.modules if name.startswith("pack.") or name == "pack"]
    sources.parsed.cache_clear()


def target(text: str) -> Target:
    """Return a target in the package."""
    module, _, qualname = text.partition(":")
    return Target(f"pack.{module}".rstrip("."), qualname)


@pytest.mark.parametrize("text", EXISTS)
def test_what_the_source_defines_exists(text: str) -> None:
    """Definitions, assignments, imports and bases, under conditions too."""
    assert exists(target(text))


@pytest.mark.parametrize("text", DOES_NOT_EXIST)
def test_what_the_source_does_not_define_does_not_exist(text: str) -> None:
    """Locals, attributes of instances, other scopes, and files that cannot be read."""
    assert not exists(target(text))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("heirs:Plain", ["bases:Base"]),
        ("heirs:Under", ["bases:Base"]),
        ("heirs:Dotted", ["bases:Base"]),
        ("heirs:ByAlias", ["bases:Base"]),
        ("heirs:ByModule", ["bases:Base"]),
        ("heirs:Generic", ["bases:Base"]),
        ("heirs:Both", ["heirs:Here", "bases:Base"]),
        ("heirs:Keyword", ["bases:Base"]),
        # where a base is defined, not where it is imported from
        ("heirs:Through", ["bases:Base"]),
        ("heirs:Outer.Inner", ["bases:Base"]),
        ("heirs:OfInner", ["heirs:Outer.Inner"]),
        # an imported class is the one that is imported
        ("heirs:Base", ["bases:Root"]),
        ("heirs:Moved", ["bases:Root"]),
        ("subject:Child", ["subject:Local", "bases:Generic"]),
        ("subject:Circular", ["subject:Circular"]),
        # what the sources do not say, and what is no class
        ("heirs:Lost", []),
        ("heirs:Made", []),
        ("heirs:Here", []),
        ("heirs:Endless", []),
        ("heirs:function", []),
        ("heirs:Nothing", []),
        ("broken:A", []),
        ("missing:A", []),
    ],
)
def test_bases_are_told_where_they_are_defined(text: str, expected: list[str]) -> None:
    """In the order of the statement, followed through imports of names and of modules."""
    assert list(bases(target(text))) == [target(each) for each in expected]


def test_a_class_whose_base_cannot_be_told_has_what_it_defines_only() -> None:
    """What bases that are no plain names bring is known at run time."""
    for cls, name in (("Unknown", "method"), ("Attributed", "from_base")):
        assert exists(target(f"subject:{cls}"))
        assert not exists(target(f"subject:{cls}.{name}"))


def test_what_an_imported_module_has_exists(make: Make) -> None:
    """A name that is made at run time is there where the module is imported."""
    module = make("globals()['made'] = 1\nclass A:\n    pass\nA.method = lambda self: 1\n")

    assert exists(Target("subject", "made"))
    assert exists(Target("subject", "A.method"))
    assert not exists(Target("subject", "A.nothing"))
    assert module.made == 1


def test_the_last_definition_counts(write: Write) -> None:
    """A name that is bound twice is what it is bound to last."""
    write("twice.py", "def f(): pass\nclass f: pass\n")
    tree = sources.parsed("twice")
    assert tree is not None

    assert type(definition(tree, "f")).__name__ == "ClassDef"


@pytest.mark.parametrize(
    ("module", "expected"),
    [
        ("program", True),
        ("reversed", True),
        ("subject", False),
        ("other", False),
        ("broken", False),
        ("missing", False),
    ],
)
def test_a_module_that_is_a_program_too(module: str, expected: bool) -> None:
    """It has `if __name__ == "__main__"`, on its top level."""
    assert has_main_guard(f"pack.{module}") is expected


def test_where_names_are_imported_from(make: Make) -> None:
    """The `from` statements of a module, in functions too, with relative modules resolved."""
    module = make(
        "from os import path, sep as separator\n"
        "def f():\n    from json import dumps\n"
        "try:\n    from ..beyond import nothing\nexcept ImportError:\n    pass\n"
    )

    assert imports(module) == {"path": "os", "separator": "os", "dumps": "json"}
