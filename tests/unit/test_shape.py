"""What lands on a target has the shape of what was there: every kind of callable, each way."""

import asyncio
import functools
import inspect
import pickle
import sys
import types
from collections.abc import AsyncIterator, Callable, Iterator
from types import ModuleType
from typing import Any

import pytest

from vllm_graft import Patch, SignatureError, TargetKindError
from vllm_graft.apply import apply
from vllm_graft.target import find

Declare = Callable[..., Patch]
Make = Callable[..., ModuleType]

SUBJECT = '''
import asyncio, functools

def function(a: int, b: int = 2, *rest: int, c: int = 3, **more: int) -> int:
    """Add numbers."""
    return a + b + c

function._torchdynamo_disable = True
function.marked = "by its decorator"

async def coroutine(a: int) -> int:
    """Return a number, later."""
    return a

def generator(n: int):
    """Yield numbers."""
    yield from range(n)

async def stream(n: int):
    """Yield numbers, later."""
    for i in range(n):
        yield i

@functools.lru_cache(maxsize=None)
def cached(a: int) -> int:
    """Return a number, once."""
    return a

class Base:
    def inherited(self, a: int) -> int:
        """Return a number of the base."""
        return a

    @staticmethod
    def inherited_static(a: int) -> int:
        """Return a number of the base."""
        return a

class Child(Base):
    """A class."""

    def method(self, a: int = 1) -> int:
        """Return a number."""
        return a

    async def later(self, a: int) -> int:
        """Return a number, later."""
        return a

    @staticmethod
    def static(a: int) -> int:
        """Return a number."""
        return a

    @classmethod
    def of_class(cls, a: int) -> int:
        """Return a number."""
        return a + len(cls.__name__)

    @property
    def size(self) -> int:
        """The size."""
        return self._size if hasattr(self, "_size") else 1

    @size.setter
    def size(self, value: int) -> None:
        self._size = value

    @functools.cached_property
    def once(self) -> int:
        """Computed once."""
        return 1

    class Inner:
        class Innermost:
            def deep(self, a: int) -> int:
                """Return a number."""
                return a

async def total(stream):
    return sum([item async for item in stream])
'''


def around(original: Callable[..., int], *args: Any, **kwargs: Any) -> int:
    """Add 100."""
    return original(*args, **kwargs) + 100


async def around_coroutine(original: Callable[..., Any], *args: Any, **kwargs: Any) -> int:
    """Add 100."""
    return int(await original(*args, **kwargs)) + 100


def around_generator(original: Callable[..., Any], *args: Any, **kwargs: Any) -> Iterator[int]:
    """Add 100."""
    yield 100
    yield from original(*args, **kwargs)


async def around_stream(
    original: Callable[..., Any], *args: Any, **kwargs: Any
) -> AsyncIterator[int]:
    """Add 100."""
    yield 100
    async for item in original(*args, **kwargs):
        yield item


def instead(*_args: Any, **_kwargs: Any) -> int:
    """Answer -1."""
    return -1


async def instead_coroutine(*_args: Any, **_kwargs: Any) -> int:
    """Answer -1."""
    return -1


def instead_generator(*_args: Any, **_kwargs: Any) -> Iterator[int]:
    """Answer -1."""
    yield -1


async def instead_stream(*_args: Any, **_kwargs: Any) -> AsyncIterator[int]:
    """Answer -1."""
    yield -1


for _implementation in (around, instead):
    vars(_implementation)["_torchdynamo_inline"] = True  # as torch sets it

PLAIN = (around, instead)
KINDS = {
    # the target, the implementations of wrap and replace, how it is used, and what that gives
    "function": (PLAIN, "function(1, 2, c=3)", 6),
    "coroutine": ((around_coroutine, instead_coroutine), "asyncio.run(coroutine(1))", 1),
    "generator": ((around_generator, instead_generator), "sum(generator(3))", 3),
    "stream": ((around_stream, instead_stream), "asyncio.run(total(stream(3)))", 3),
    "cached": (PLAIN, "cached(1)", 1),
    "Base.inherited": (PLAIN, "Child().inherited(1)", 1),
    "Child.inherited": (PLAIN, "Child().inherited(1)", 1),
    "Child.inherited_static": (PLAIN, "Child.inherited_static(1)", 1),
    "Child.method": (PLAIN, "Child().method()", 1),
    "Child.later": ((around_coroutine, instead_coroutine), "asyncio.run(Child().later(1))", 1),
    "Child.static": (PLAIN, "Child().static(1)", 1),
    "Child.of_class": (PLAIN, "Child.of_class(1)", 6),
    "Child.size": (PLAIN, "Child().size", 1),
    "Child.once": (PLAIN, "Child().once", 1),
    "Child.Inner.Innermost.deep": (PLAIN, "Child.Inner.Innermost().deep(1)", 1),
}
CASES = [
    pytest.param(operation, kind, implementations[index], id=f"{operation} {kind}")
    for index, operation in enumerate(("wrap", "replace"))
    for kind, (implementations, _, _) in KINDS.items()
]
every_kind = pytest.mark.parametrize(("operation", "kind", "implementation"), CASES)


@pytest.fixture
def subject(make: Make) -> ModuleType:
    """Return a fresh module with targets of every kind."""
    return make(SUBJECT)


@pytest.fixture
def land(subject: ModuleType, declare: Declare) -> Callable[[str, str, Any], tuple[Any, Any]]:
    """Return a function that applies a patch and returns what stood there and what stands now."""

    def land(operation: str, kind: str, implementation: Any) -> tuple[Any, Any]:
        before = find(subject, kind)
        apply(declare(operation, f"subject:{kind}", implementation), subject)
        return before, find(subject, kind)

    return land


Land = Callable[[str, str, Any], tuple[Any, Any]]


def inner(raw: Any) -> Any:
    """Return the function inside a descriptor."""
    for name in ("__func__", "fget", "func"):
        raw = getattr(raw, name, raw)
    return raw


@every_kind
def test_takes_effect(
    subject: ModuleType, land: Land, operation: str, kind: str, implementation: Any
) -> None:
    """Code that uses the target the usual way gets the new behaviour."""
    _, expression, before = KINDS[kind]
    assert eval(expression, vars(subject)) == before

    subject.cached.cache_clear()
    land(operation, kind, implementation)

    expected = before + 100 if operation == "wrap" else -1
    assert eval(expression, vars(subject)) == expected


@every_kind
def test_keeps_its_names_and_signature(
    land: Land, operation: str, kind: str, implementation: Any
) -> None:
    """Name, module, documentation and inspect.signature are those of the original."""
    before, after = land(operation, kind, implementation)
    old, new = inner(before), inner(after)

    assert (new.__name__, new.__module__, new.__doc__) == (
        old.__name__,
        old.__module__,
        old.__doc__,
    )
    assert inspect.signature(new) == inspect.signature(old)
    assert inspect.getdoc(after) == inspect.getdoc(before)


@every_kind
def test_is_a_plain_function_in_a_descriptor_of_the_same_kind(
    land: Land, operation: str, kind: str, implementation: Any
) -> None:
    """What lands is a types.FunctionType, inside the same descriptor, and is asked the same."""
    before, after = land(operation, kind, implementation)

    assert type(inner(after)) is types.FunctionType
    if inner(before) is not before:
        assert type(after) is type(before)
    for question in (
        inspect.iscoroutinefunction,
        inspect.isgeneratorfunction,
        inspect.isasyncgenfunction,
        asyncio.iscoroutinefunction if sys.version_info < (3, 14) else inspect.iscoroutinefunction,
    ):
        assert question(inner(after)) == question(inner(before))


@every_kind
def test_pickles_by_reference(
    subject: ModuleType, land: Land, operation: str, kind: str, implementation: Any
) -> None:
    """A function is found by pickle under its own name, and the original is not found instead."""
    _, after = land(operation, kind, implementation)
    if isinstance(after, (property, functools.cached_property)):
        return  # these have never been picklable
    public = functools.reduce(getattr, kind.split("."), subject)

    assert pickle.loads(pickle.dumps(public)) == public


@every_kind
def test_carries_nothing_that_torch_compile_heeds(
    land: Land, operation: str, kind: str, implementation: Any
) -> None:
    """No _torchdynamo_* attribute lands, though original and implementation carry some."""
    before, after = land(operation, kind, implementation)

    assert not [name for name in vars(inner(after)) if name.startswith("_torchdynamo_")]
    if kind == "function":
        assert inner(before)._torchdynamo_disable is True
        assert inner(after).marked == "by its decorator"


@pytest.mark.parametrize("operation", ["wrap", "replace"])
def test_the_implementation_itself_is_left_alone(land: Land, operation: str) -> None:
    """The function that was declared keeps its names, so that it can be used elsewhere as well."""
    implementation = {"wrap": around, "replace": instead}[operation]
    names = (implementation.__name__, implementation.__module__, implementation.__doc__)
    attributes = dict(vars(implementation))

    _, after = land(operation, "function", implementation)

    assert after is not implementation
    assert names == (implementation.__name__, implementation.__module__, implementation.__doc__)
    assert vars(implementation) == attributes


@pytest.mark.parametrize("operation", ["wrap", "replace"])
def test_the_cache_of_a_cached_function_can_still_be_cleared(
    subject: ModuleType, land: Land, operation: str
) -> None:
    """cache_clear, cache_info and cache_parameters, which vLLM calls, are still there."""
    subject.cached(7)
    land(operation, "cached", around if operation == "wrap" else instead)

    assert subject.cached.cache_info().currsize == 1
    assert subject.cached.cache_parameters()["maxsize"] is None
    subject.cached.cache_clear()
    assert subject.cached.cache_info().currsize == 0


@pytest.mark.parametrize("operation", ["wrap", "replace"])
def test_a_property_keeps_its_setter(subject: ModuleType, land: Land, operation: str) -> None:
    """Only the getter of a property changes."""
    land(operation, "Child.size", around if operation == "wrap" else instead)
    child = subject.Child()
    child.size = 5

    assert child._size == 5
    assert child.size == (105 if operation == "wrap" else -1)


def test_a_cached_property_computes_once(subject: ModuleType, land: Land) -> None:
    """The value is kept on the instance under the property's own name."""
    calls: list[int] = []

    def counting(original: Callable[[Any], int], self: Any) -> int:
        calls.append(1)
        return original(self)

    land("wrap", "Child.once", counting)
    child = subject.Child()

    assert (child.once, child.once, calls) == (1, 1, [1])
    assert vars(child) == {"once": 1}


def test_an_inherited_method_changes_for_that_class_alone(subject: ModuleType, land: Land) -> None:
    """A patch of Child's inherited method leaves Base as it was."""
    land("wrap", "Child.inherited", around)

    assert subject.Child().inherited(1) == 101
    assert subject.Base().inherited(1) == 1
    assert subject.Child.inherited.__qualname__ == "Child.inherited"


@pytest.mark.parametrize("operation", ["wrap", "replace"])
def test_another_name_of_a_function_pickles_as_itself(
    make: Make, declare: Declare, operation: str
) -> None:
    """A re-exported function that is patched where it is re-exported is found there by pickle."""
    home = make(SUBJECT)
    front = make("from subject import Child, function\n", "front")
    implementation = around if operation == "wrap" else instead

    apply(declare(operation, "front:function", implementation), front)

    assert pickle.loads(pickle.dumps(front.function)) is front.function
    assert pickle.loads(pickle.dumps(home.function)) is home.function
    assert home.function(1) == 6


def test_an_instance_of_a_class_patched_where_it_is_re_exported_pickles(
    make: Make, declare: Declare
) -> None:
    """A subclass put at another name of a class is found there by pickle."""
    make(SUBJECT)
    front = make("from subject import Child\n", "front")

    apply(declare("subclass", "front:Child", lambda cls: type("More", (cls,), {})), front)

    assert type(pickle.loads(pickle.dumps(front.Child()))) is front.Child


def test_a_patch_stays_readable_for_the_original(subject: ModuleType, land: Land) -> None:
    """inspect.unwrap leads from what landed to what it wraps, and to nothing for a replace."""
    before, after = land("wrap", "function", around)
    assert inspect.unwrap(after) is before

    _, after = land("replace", "coroutine", instead_coroutine)
    assert inspect.unwrap(after) is after


CONVERSATION = """
def generator(log):
    answer = yield "first"
    log.append(answer)
    try:
        yield "second"
    except KeyError as error:
        log.append(repr(error))
    try:
        yield "third"
    finally:
        log.append("closed")
    return "result"

async def stream(log):
    answer = yield "first"
    log.append(answer)
    try:
        yield "second"
    except KeyError as error:
        log.append(repr(error))
    try:
        yield "third"
    finally:
        log.append("closed")
"""
HEARD = ["sent", "KeyError('thrown')", "closed"]


@pytest.fixture
def talker(make: Make, declare: Declare) -> ModuleType:
    """Return a module whose generators are wrapped by what returns the original's."""
    module = make(CONVERSATION)
    for name in ("generator", "stream"):
        apply(declare("wrap", f"subject:{name}", lambda original, log: original(log)), module)
    return module


@pytest.mark.parametrize("end", ["next", "close"])
def test_a_wrapped_generator_talks_to_its_original(talker: ModuleType, end: str) -> None:
    """send, throw, close and the returned value pass through."""
    log: list[str] = []
    generator = talker.generator(log)

    assert next(generator) == "first"
    assert generator.send("sent") == "second"
    assert generator.throw(KeyError("thrown")) == "third"
    if end == "close":
        generator.close()
    else:
        with pytest.raises(StopIteration) as stopped:
            next(generator)
        assert stopped.value.value == "result"
    assert log == HEARD


@pytest.mark.parametrize("end", ["anext", "aclose"])
def test_a_wrapped_async_generator_talks_to_its_original(talker: ModuleType, end: str) -> None:
    """asend, athrow, aclose and the end pass through."""
    log: list[str] = []

    async def talk() -> None:
        stream = talker.stream(log)
        assert await stream.__anext__() == "first"
        assert await stream.asend("sent") == "second"
        assert await stream.athrow(KeyError("thrown")) == "third"
        if end == "aclose":
            await stream.aclose()
        else:
            with pytest.raises(StopAsyncIteration):
                await stream.__anext__()
        assert log == HEARD  # now, and not when the event loop ends and closes what is left

    asyncio.run(talk())


@pytest.mark.parametrize("name", ["generator", "stream"])
def test_what_a_wrapped_generator_does_not_catch_reaches_the_caller(
    talker: ModuleType, name: str
) -> None:
    """An exception thrown in that the original lets pass comes out as it went in."""

    async def throw() -> None:
        stream = talker.stream([])
        await stream.__anext__()
        await stream.athrow(LookupError("mine"))

    def throw_in() -> None:
        generator = talker.generator([])
        next(generator)
        generator.throw(LookupError("mine"))

    with pytest.raises(LookupError, match="mine"):
        throw_in() if name == "generator" else asyncio.run(throw())


@pytest.mark.parametrize(
    ("operation", "qualname", "implementation", "problem"),
    [
        ("replace", "coroutine", instead, "coroutine function, and the implementation is a plain"),
        ("replace", "function", instead_stream, "the implementation is a async generator"),
        ("replace", "function", instead_coroutine, "a plain function, .* is a coroutine"),
        ("replace", "generator", instead, "a generator function, .* is a plain"),
        ("wrap", "function", around_coroutine, "a plain function, and the implementation is a cor"),
        ("wrap", "function", around_generator, "a plain function, .* is a generator"),
        ("wrap", "function", around_stream, "a plain function, .* is a async generator"),
        ("wrap", "coroutine", around_generator, "a coroutine function, .* is a generator"),
        ("wrap", "coroutine", around_stream, "a coroutine function, .* is a async generator"),
        ("wrap", "generator", around_coroutine, "a generator function, .* is a coroutine"),
        ("wrap", "stream", around_coroutine, "a async generator function, .* is a coroutine"),
        ("wrap", "Child.later", around_generator, "a coroutine function, .* is a generator"),
        ("wrap", "cached", around_coroutine, "a plain function, .* is a coroutine"),
        ("wrap", "Child.size", around_coroutine, "a plain function, .* is a coroutine"),
        ("wrap", "Child.static", around_generator, "a plain function, .* is a generator"),
        ("wrap", "Child", around, "the class Child"),
        ("wrap", "asyncio", around, "a module"),
        ("wrap", "NUMBER", around, "a int"),
        ("wrap", "WRITE_ONLY.secret", around, "cannot be read"),
        ("subclass", "function", around, "a function, not a class"),
        ("replace", "Child", instead, "a class, and the implementation is not"),
    ],
)
def test_an_operation_that_does_not_fit_the_target_is_refused(
    make: Make, declare: Declare, operation: str, qualname: str, implementation: Any, problem: str
) -> None:
    """The error says what the target is, and the module is not touched."""
    module = make(
        SUBJECT + "\nNUMBER = 1\nclass WRITE_ONLY:\n"
        "    secret = property(None, lambda self, value: None)\n"
    )
    before = dict(vars(module))

    with pytest.raises(TargetKindError, match=problem):
        apply(declare(operation, f"subject:{qualname}", implementation), module)

    assert vars(module) == before


DESCRIPTORS = """
import contextlib, functools, math

class classproperty:
    def __init__(self, function):
        self.function = function
    def __get__(self, instance, owner):
        return self.function(owner)

class Told:
    def told(self, a):
        return a
    partial = functools.partialmethod(told, 3)
    @functools.singledispatchmethod
    def dispatched(self, a):
        return a
    @classproperty
    def own(cls):
        return cls.__name__
    chained = classmethod(property(lambda cls: 1))
    root = math.sqrt
    bound = "a b".split
    made = dict.__dict__["fromkeys"]

class Keys(dict):
    pass

Told.lent = "lent".join.__call__
"""


@pytest.mark.parametrize("operation", ["wrap", "replace"])
@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("partial", "a partialmethod, not .* `set` with one made by hand, or patch the function"),
        ("dispatched", "a singledispatchmethod"),
        ("own", "a classproperty"),
        ("chained", "a classmethod"),
    ],
)
def test_a_descriptor_of_another_kind_is_refused(
    make: Make, declare: Declare, operation: str, name: str, problem: str
) -> None:
    """A plain function in the place of it would be used as another thing than it was."""
    module = make(DESCRIPTORS)
    before = dict(vars(module.Told))

    with pytest.raises(TargetKindError, match=f"it is {problem}"):
        apply(declare(operation, f"subject:Told.{name}", around), module)

    assert dict(vars(module.Told)) == before


@pytest.mark.parametrize(
    ("name", "expression", "expected"),
    [
        ("Told.root", "Told().root(4)", 2),
        ("Told.lent", "Told().lent('ab')", "alentb"),
        ("Told.bound", "Told().bound()", ["a", "b"]),
        ("Keys.fromkeys", "Keys.fromkeys([1])", {1: None}),
        ("Keys.get", "Keys({1: 2}).get(1)", 2),
        ("Keys.__len__", "len(Keys({1: 2}))", 1),
    ],
)
def test_what_is_written_in_c_is_bound_as_it_was(
    make: Make, declare: Declare, name: str, expression: str, expected: Any
) -> None:
    """A built-in function in a class gets no self, a method of a built-in class gets its own."""
    module = make(DESCRIPTORS)
    calls: list[Any] = []

    def counting(original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        calls.append(args)
        return original(*args, **kwargs)

    apply(declare("wrap", f"subject:{name}", counting), module)

    assert eval(expression, vars(module)) == expected
    assert len(calls) == 1
    assert type(inner(find(module, name))) is types.FunctionType


class Later:
    """An object that is called as a coroutine function."""

    async def __call__(self, *_args: Any) -> int:
        """Answer -1."""
        return -1

    async def stream(self, *_args: Any) -> AsyncIterator[int]:
        """Answer -1."""
        yield -1


@pytest.mark.parametrize(
    ("kind", "implementation"),
    [
        ("coroutine", functools.partial(instead_coroutine)),
        ("coroutine", functools.partial(functools.partial(Later()))),
        ("coroutine", Later()),
        ("coroutine", staticmethod(instead_coroutine)),
        ("Child.later", Later()),
        ("stream", Later().stream),
        ("stream", functools.partial(instead_stream)),
        ("generator", functools.partial(instead_generator)),
    ],
)
def test_what_a_call_of_any_callable_gives_is_seen(
    subject: ModuleType, land: Land, kind: str, implementation: Any
) -> None:
    """A partial or an object stands in for a function of its kind, and what lands is of it."""
    _, expression, _ = KINDS[kind]

    before, after = land("replace", kind, implementation)

    assert eval(expression, vars(subject)) == -1
    assert inspect.iscoroutinefunction(after) == inspect.iscoroutinefunction(before)
    assert inspect.isasyncgenfunction(after) == inspect.isasyncgenfunction(before)


def test_an_object_called_as_a_coroutine_does_not_replace_a_function(land: Land) -> None:
    """Its callers would get a coroutine that nobody awaits."""
    for operation in ("wrap", "replace"):
        with pytest.raises(TargetKindError, match=r"a plain function, .* is a coroutine"):
            land(operation, "function", Later())


DECORATED = """
import asyncio, contextlib, functools

def traced(function):
    @functools.wraps(function)
    def traced(*args, **kwargs):
        return function(*args, **kwargs)
    return traced

@traced
async def later(a):
    return a

@contextlib.contextmanager
def context(a):
    yield a
"""


@pytest.mark.parametrize("operation", ["wrap", "replace"])
@pytest.mark.parametrize("kind", ["coroutine", "plain"])
def test_a_coroutine_function_behind_a_plain_decorator(
    make: Make, declare: Declare, operation: str, kind: str
) -> None:
    """An implementation of either kind may stand there, once and twice, and is awaited."""
    module = make(DECORATED)
    given: dict[tuple[str, str], Any] = {
        ("wrap", "coroutine"): around_coroutine,
        ("wrap", "plain"): lambda original, a: original(a + 100),
        ("replace", "coroutine"): instead_coroutine,
        ("replace", "plain"): lambda a: instead_coroutine(-a),
    }

    apply(declare(operation, "subject:later", given[operation, kind]), module)

    expected = 101 if operation == "wrap" else -1
    assert asyncio.run(module.later(1)) == expected
    if operation == "wrap":
        assert not inspect.iscoroutinefunction(module.later)  # as before
        apply(declare("wrap", "subject:later", around_coroutine), module)
        assert asyncio.run(module.later(1)) == expected + 100


@pytest.mark.parametrize("implementation", [around_generator, instead_generator])
def test_a_context_manager_is_not_taken_for_its_generator(
    make: Make, declare: Declare, implementation: Any
) -> None:
    """Its callers enter what it gives, and a generator cannot be entered."""
    operation = "wrap" if implementation is around_generator else "replace"

    with pytest.raises(TargetKindError, match=r"a plain function, .* is a generator"):
        apply(declare(operation, "subject:context", implementation), make(DECORATED))


MAKING = """
class Bare:
    pass

class Sized:
    def __new__(cls, size):
        return object.__new__(cls)

class Initialised:
    def __init__(self, size):
        self.size = size
"""
MAKINGS = [
    # the target, what takes the calls, what does not, how an instance is made
    ("Bare.__init__", "self", "self, a", "Bare()"),
    ("Bare.__new__", "cls", "cls, a", "Bare()"),
    ("Sized.__init__", "self, size", "self", "Sized(1)"),
    ("Initialised.__new__", "cls, size", "cls", "Initialised(size=1)"),
]


@pytest.mark.parametrize(("kind", "fits", "refused", "call"), MAKINGS)
def test_what_a_class_has_from_object_is_called_as_the_class(
    make: Make, declare: Declare, kind: str, fits: str, refused: str, call: str
) -> None:
    """An implementation takes what instances are made with, and need not take more."""
    module = make(MAKING)
    cls = getattr(module, kind.partition(".")[0])
    before = inspect.signature(cls)
    space: dict[str, Any] = {"made": []}
    for name, parameters in (("fits", fits), ("refused", refused)):
        first = fits.partition(",")[0]
        body = f"made.append(1); return original({first})"
        exec(f"def {name}(original, {parameters}): {body}", space)

    with pytest.raises(SignatureError, match=r"the target is object\.__"):
        apply(declare("wrap", f"subject:{kind}", space["refused"]), module)
    apply(declare("wrap", f"subject:{kind}", space["fits"]), module)

    assert type(eval(call, vars(module))) is cls
    assert space["made"] == [1]
    assert inspect.signature(cls) == before


@pytest.mark.parametrize("kind", ["coroutine", "generator", "stream", "Child.later"])
def test_a_plain_function_may_hand_on_what_any_kind_of_function_gives(
    subject: ModuleType, land: Land, kind: str
) -> None:
    """Around a coroutine or generator it returns what the original returned."""
    _, expression, expected = KINDS[kind]

    land("wrap", kind, lambda original, *args, **kwargs: original(*args, **kwargs))

    assert eval(expression, vars(subject)) == expected


SIGNATURES = [
    # target, what takes its calls, what does not, how the message shows the target
    ("function", "a, b=2, *rest, c=3, **more", "a, b, c=3", r"function\(a: int, b: int = 2, \*re"),
    ("coroutine", "a", "b", r"coroutine\(a: int\)"),
    ("cached", "a", "a, b", r"cached\(a: int\)"),
    ("Base.inherited", "self, a", "self", r"Base.inherited\(self, a: int\)"),
    ("Child.method", "me, a=1", "self, a", r"Child.method\(self, a: int = 1\)"),
    ("Child.method", "*args, **kwargs", "self, *args", r"Child.method\(self, a: int = 1\)"),
    ("Child.static", "a", "b", r"Child.static\(a: int\)"),
    ("Child.of_class", "cls, a", "a", r"Child.of_class\(cls, a: int\)"),
    ("Child.size", "self", "self, a", r"Child.size\(self\)"),
    ("Child.once", "self", "", r"Child.once\(self\)"),
]


@pytest.mark.parametrize("operation", ["wrap", "replace"])
@pytest.mark.parametrize(("kind", "fits", "refused", "shown"), SIGNATURES)
def test_an_implementation_must_take_the_calls_of_its_target(
    subject: ModuleType, land: Land, operation: str, kind: str, fits: str, refused: str, shown: str
) -> None:
    """Else the error shows both signatures, a call that would fail, and what to do."""
    before = find(subject, kind)
    keyword = "async def" if kind == "coroutine" else "def"
    space: dict[str, Any] = {}
    first = "original, " if operation == "wrap" else ""
    for name, parameters in (("fits", fits), ("refused", refused)):
        exec(f"{keyword} {name}({first}{parameters}): return 7", space)

    with pytest.raises(SignatureError, match=shown) as caught:
        land(operation, kind, space["refused"])
    for words in ("the implementation refused(", "it fails: ", "Give it the target's parameters"):
        assert words in str(caught.value)
    assert ("after `original`" in str(caught.value)) == (operation == "wrap")
    assert find(subject, kind) is before
    land(operation, kind, space["fits"])
    assert find(subject, kind) is not before


@pytest.mark.parametrize(
    ("implementation", "expected"),
    [
        (functools.partial(instead), -1),
        (max, 3),
        (type("Callable", (), {"__call__": staticmethod(instead)})(), -1),
        (staticmethod(instead), -1),
        (types.MethodType(instead, object()), -1),
    ],
    ids=["partial", "built-in", "instance", "staticmethod", "bound method"],
)
def test_any_callable_can_be_an_implementation(
    subject: ModuleType, land: Land, implementation: Any, expected: int
) -> None:
    """Whatever was given, what lands is a plain function with the original's name."""
    _, after = land("replace", "function", implementation)

    assert type(after) is types.FunctionType
    assert after.__qualname__ == "function"
    assert subject.function(1, 3) == expected


def test_a_replacement_keeps_its_own_defaults_and_closure(subject: ModuleType, land: Land) -> None:
    """Defaults, keyword-only defaults and closed-over values of the implementation hold."""
    step = 10

    def counting(a: int, b: int = 20, *rest: int, c: int = 30, **more: int) -> int:
        return a + b + c + step

    land("replace", "function", counting)

    assert subject.function(1) == 61


def test_a_built_in_function_can_be_wrapped(make: Make, declare: Declare) -> None:
    """A C function in a module's namespace is wrapped by a plain function."""
    module = make("from math import sqrt\n")

    apply(declare("wrap", "subject:sqrt", around), module)

    assert module.sqrt(4) == 102
    assert type(module.sqrt) is types.FunctionType


LIGHT = """
from typing import TYPE_CHECKING
if TYPE_CHECKING:
    from torch import Tensor
def f(a: Tensor) -> Tensor:
    return {}
"""
if sys.version_info < (3, 14):  # from then on annotations are evaluated on demand (PEP 649)
    LIGHT = "from __future__ import annotations\n" + LIGHT


@pytest.mark.parametrize(("operation", "expected"), [("replace", -1), ("wrap", 101)])
def test_annotations_need_not_exist(
    make: Make, declare: Declare, operation: str, expected: int
) -> None:
    """Types that are imported for type checkers only hinder nothing, on either side."""
    module = make(LIGHT.format("a"))
    replacement = make(LIGHT.format("-a"), "light").f

    given = replacement if operation == "replace" else around
    apply(declare(operation, "subject:f", given), module)

    assert module.f(1) == expected


def test_two_wraps_of_one_target_call_each_other(subject: ModuleType, land: Land) -> None:
    """The second wrap's original is the first wrap."""
    land("wrap", "Child.method", around)
    land("wrap", "Child.method", lambda original, self, a=1: original(self, a) * 2)

    assert subject.Child().method(1) == 202
