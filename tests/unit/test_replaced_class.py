"""A class that a subclass has replaced: whoever holds the original gets the subclass."""

import copy
import inspect
import pickle
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

from vllm_graft import ApplyError, Patch, TargetKindError
from vllm_graft.apply import apply
from vllm_graft.landing import Landing

Declare = Callable[..., Patch]
Make = Callable[..., ModuleType]
Land = Callable[..., Landing]

SUBJECT = '''
import abc, dataclasses, enum, typing

T = typing.TypeVar("T")

class Root:
    def answer(self):
        return "root"

class Plain(Root):
    """Answers."""
    def answer(self):
        return "original"

class Counted(Plain):
    def __init__(self, size=1, *, name="n"):
        self.size, self.name = size, name

class Abstract(abc.ABC):
    @abc.abstractmethod
    def must(self): ...
    def answer(self):
        return "original"

class Concrete(Abstract):
    def must(self):
        return self.answer()

class Protocol(typing.Protocol):
    def answer(self):
        return "original"

class Implementing(Protocol):
    pass

class Generic(typing.Generic[T]):
    def __init__(self, value: T):
        self.value = value
    def answer(self):
        return "original"

class Own:
    made = 0
    def __new__(cls, size=1):
        self = super().__new__(cls)
        self.size = size
        cls.made += 1
        return self
    def answer(self):
        return "original"

@dataclasses.dataclass
class Data:
    size: int = 1
    def answer(self):
        return "original"

@dataclasses.dataclass(frozen=True)
class Frozen:
    size: int = 1
    def answer(self):
        return "original"

class Slots:
    __slots__ = ("size",)
    def __init__(self, size=1):
        self.size = size
    def answer(self):
        return "original"

class Registering:
    heirs = []
    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        Registering.heirs.append(cls.__name__)
    def answer(self):
        return "original"

class Meta(type):
    def __call__(cls, *args, **kwargs):
        self = super().__call__(*args, **kwargs)
        self.called = True
        return self

class WithMeta(metaclass=Meta):
    called = False
    def answer(self):
        return "original"

class Error(ValueError):
    def answer(self):
        return "original"

class Mapping(dict):
    def answer(self):
        return "original"

class Named(typing.NamedTuple):
    size: int = 1
    def answer(self):
        return "original"

HOLDERS = {
    name: value for name, value in globals().items()
    if isinstance(value, type) and value.__module__ == __name__
}

def closure(cls):
    return lambda *args, **kwargs: cls(*args, **kwargs)

CLOSURES = {name: closure(value) for name, value in HOLDERS.items()}
'''
ARGUMENTS = {"Generic": (1,)}
CLASSES = [
    *("Plain", "Counted", "Concrete", "Implementing", "Generic", "Own", "Data", "Frozen"),
    *("Slots", "Registering", "WithMeta", "Error", "Mapping", "Named"),
]


def more(cls: type) -> type:
    """Return a subclass that answers otherwise."""
    return type(cls)("More", (cls,), {"answer": lambda self: "subclass"})


def again(cls: Any) -> type:
    """Return a subclass that says what its base answers."""

    def answer(self: Any) -> str:
        return f"again {cls.answer(self)}"

    made: type = type(cls)("Again", (cls,), {"answer": answer})
    return made


@pytest.fixture
def subject(make: Make) -> ModuleType:
    """Return a fresh module with classes of many kinds, and who holds them."""
    return make(SUBJECT)


@pytest.fixture
def land(declare: Declare) -> Land:
    """Return a function that replaces a class of the module by a subclass."""

    def land(name: str, implementation: Callable[[Any], Any] = more) -> Landing:
        module = sys.modules["subject"]
        return apply(declare("subclass", f"subject:{name}", implementation), module)

    return land


every_class = pytest.mark.parametrize("name", CLASSES)


@every_class
def test_whoever_calls_the_original_gets_the_subclass(
    subject: ModuleType, land: Land, name: str
) -> None:
    """By the new name, and by a dictionary or a closure that has had the original before."""
    original = subject.HOLDERS[name]
    arguments = ARGUMENTS.get(name, ())
    land(name)

    for held in (getattr(subject, name), original, subject.CLOSURES[name]):
        made = held(*arguments)
        assert made.answer() == "subclass"
        assert type(made) is getattr(subject, name)
        assert isinstance(made, original)
        assert isinstance(made, getattr(subject, name))


@every_class
def test_arguments_arrive_once(subject: ModuleType, land: Land, name: str) -> None:
    """The constructor of the class gets what is given, and refuses what it refused."""
    original = subject.HOLDERS[name]
    land(name)

    if name in TAKE_SIZE:
        assert original(5).size == original(size=5).size == 5
    if name not in ("Error", "Mapping", "Implementing"):  # typing gives protocols an __init__
        with pytest.raises(TypeError):
            original(1, 2, 3, 4)
        with pytest.raises(TypeError):
            getattr(subject, name)(1, 2, 3, 4)
    if name == "Own":
        assert getattr(subject, name).made == 2
    if name == "WithMeta":
        assert original().called


@every_class
def test_it_keeps_its_names_and_documentation(subject: ModuleType, land: Land, name: str) -> None:
    """Name, qualified name, module and documentation are those of the original."""
    original = subject.HOLDERS[name]
    land(name)
    made = getattr(subject, name)

    for attribute in ("__name__", "__qualname__", "__module__", "__doc__"):
        assert getattr(made, attribute) == getattr(original, attribute)


@every_class
def test_instances_pickle_and_copy(subject: ModuleType, land: Land, name: str) -> None:
    """Those of the subclass, and those that were made and pickled before the patch."""
    original = subject.HOLDERS[name]
    arguments = ARGUMENTS.get(name, ())
    before = original(*arguments)
    pickled = pickle.dumps(before)
    land(name)

    made = original(*arguments)
    for instance in (pickle.loads(pickle.dumps(made)), copy.deepcopy(made), pickle.loads(pickled)):
        assert type(instance) is getattr(subject, name)
    assert before.answer() != "subclass"
    assert type(copy.copy(before)) in (original, getattr(subject, name))


@every_class
def test_reverting_brings_back_the_original(subject: ModuleType, land: Land, name: str) -> None:
    """The class that others hold makes instances of its own again, and the name is its."""
    original = subject.HOLDERS[name]
    arguments = ARGUMENTS.get(name, ())
    before = dict(vars(original))
    bases = {each: each.__bases__ for each in subject.HOLDERS.values()}

    land(name).revert()

    # CPython cannot make a class forget that it had a __new__; the one that is left adds nothing.
    assert {key: it for key, it in vars(original).items() if key in before or key != "__new__"} == (
        before
    )
    assert {each: each.__bases__ for each in subject.HOLDERS.values()} == bases
    assert getattr(subject, name) is original
    assert type(original(*arguments)) is original
    assert original(*arguments).answer() != "subclass"


TAKE_SIZE = ("Counted", "Own", "Data", "Frozen", "Slots", "Named")


@pytest.mark.parametrize("name", TAKE_SIZE)
def test_after_reverting_arguments_arrive_as_before(
    subject: ModuleType, land: Land, name: str
) -> None:
    """In the class, in those that derive from it, and in a patch that lands once more."""
    original = subject.HOLDERS[name]
    derived: Any = type(original)("Derived", (original,), {})
    land(name).revert()

    for cls in (original, derived):
        assert type(cls(5)) is cls
        assert cls(5).size == cls(size=5).size == 5
        with pytest.raises(TypeError):
            cls(1, 2, 3, 4)
    land(name)
    assert original(5).answer() == "subclass"
    assert original(5).size == 5


@every_class
def test_two_subclasses_are_a_chain(subject: ModuleType, land: Land, name: str) -> None:
    """The second inherits from the first, whichever of the three classes is called."""
    original = subject.HOLDERS[name]
    arguments = ARGUMENTS.get(name, ())
    first = land(name)
    middle = getattr(subject, name)
    second = land(name, again)

    for held in (original, middle, getattr(subject, name)):
        assert held(*arguments).answer() == "again subclass"
    second.revert()
    assert original(*arguments).answer() == middle(*arguments).answer() == "subclass"
    first.revert()
    assert type(original(*arguments)) is original


def test_classes_that_are_derived_already_derive_from_the_subclass(
    subject: ModuleType, land: Land
) -> None:
    """Directly or not, before the patch or after it; and no more when it is reverted."""
    derived = type("Derived", (subject.Plain,), {"__module__": "subject"})
    further = type("Further", (derived, subject.Root), {})
    landing = land("Plain")
    later = type("Later", (subject.Plain,), {})
    held = type("Held", (landing.before,), {})

    for cls in (derived, further, later, subject.Counted):
        assert cls().answer() == "subclass"
        assert type(cls()) is cls
        assert issubclass(cls, subject.Plain)
    assert type(held()) is held  # who derives from the original that it holds keeps that base
    landing.revert()
    assert derived().answer() == further().answer() == subject.Counted().answer() == "original"
    assert derived.__bases__ == (landing.before,)


def test_an_abstract_class_is_replaced_for_those_that_implement_it(
    subject: ModuleType, land: Land
) -> None:
    """It cannot be called, as before, and its heirs have what the subclass brings."""
    assert subject.Concrete().must() == "original"
    land("Abstract")
    land("Protocol")

    assert subject.Concrete().must() == "subclass"
    assert subject.Implementing().answer() == "subclass"
    for abstract in (subject.HOLDERS["Abstract"], subject.Abstract):
        with pytest.raises(TypeError, match="abstract"):
            abstract()


def test_a_class_that_cannot_be_moved_is_noted(make: Make, land: Land) -> None:
    """Where Python refuses another base, the landing says so and what to patch instead."""
    module = make(
        "class Slots:\n    __slots__ = ('a',)\n    def answer(self): return 'original'\n"
        "class Heir(Slots):\n    __slots__ = ('b',)\n"
    )

    def with_more_slots(cls: type) -> type:
        return type("More", (cls,), {"__slots__": ("c",), "answer": lambda self: "subclass"})

    landing = land("Slots", with_more_slots)

    assert module.Slots().answer() == "subclass"
    assert module.Heir().answer() == "original"
    (note,) = landing.notes
    assert "subject:Heir keeps deriving from the original (" in note
    assert "patch the methods of subject:Slots instead" in note
    landing.revert()
    assert module.Heir.__bases__ == (module.Slots,)


def test_generic_classes_can_still_be_parametrized(subject: ModuleType, land: Land) -> None:
    """`Original[int](…)` of who holds the original makes the subclass as well."""
    original = subject.Generic
    land("Generic")

    assert original[int](1).answer() == "subclass"
    assert original[int](1).value == 1


REFUSED = [
    # module source, name, implementation
    ("import enum\nclass A(enum.Enum):\n    RED = 1\n", "A", more),
    ("A = int\n", "A", more),
    ("A = bool\n", "A", lambda cls: type("More", (cls,), {})),
    ("from collections import OrderedDict as A\n", "A", more),
]


@pytest.mark.parametrize(("source", "name", "implementation"), REFUSED)
def test_a_class_that_cannot_be_replaced_is_refused(
    make: Make, land: Land, source: str, name: str, implementation: Any
) -> None:
    """Enums with members and classes that are not written in Python; patch their methods."""
    module = make(source)
    before = dict(vars(module))

    with pytest.raises(ApplyError, match="methods"):
        land(name, implementation)

    assert vars(module) == before


def test_a_metaclass_that_refuses_leaves_all_as_it_was(make: Make, land: Land) -> None:
    """A class that lets nothing be set on it keeps its name and its heirs."""
    module = make(
        "class Meta(type):\n    def __setattr__(cls, name, value):\n"
        "        raise AttributeError(name)\n"
        "class A(metaclass=Meta):\n    pass\nclass B(A):\n    pass\n"
    )
    original = module.A

    def open_again(cls: type) -> type:
        return type(cls)("More", (cls,), {})

    with pytest.raises(TargetKindError, match="methods"):
        land("A", open_again)

    assert module.A is original
    assert module.B.__bases__ == (original,)


CONFIGS = """
from dataclasses import field
import pydantic
from pydantic import Field
from pydantic.dataclasses import dataclass

@dataclass
class CacheConfig:
    size: int = 1
    def answer(self):
        return "original"

@dataclass
class ModelConfig:
    cache: CacheConfig = field(default_factory=CacheConfig)
    other: "CacheConfig | None" = Field(default_factory=CacheConfig)

@dataclass
class VllmConfig:
    model: ModelConfig = field(default_factory=ModelConfig)

class Model(pydantic.BaseModel):
    cache: CacheConfig = Field(default_factory=CacheConfig)

class Request(pydantic.BaseModel):
    size: int = 1
    def answer(self):
        return "original"

class Batch(pydantic.BaseModel):
    requests: list[Request] = []
"""


def test_schemas_that_hold_the_original_make_the_subclass(make: Make, land: Land) -> None:
    """Pydantic's parents of a config: from a dictionary, an instance and a default factory."""
    module = make(CONFIGS)
    original = module.CacheConfig
    before = original()
    landing = land("CacheConfig")

    for cache in (
        module.ModelConfig().cache,
        module.ModelConfig().other,
        module.ModelConfig(cache={"size": 2}, other={}).cache,
        module.ModelConfig(cache={"size": 2}, other={}).other,
        module.ModelConfig(cache=module.CacheConfig()).cache,
        module.ModelConfig(cache=original(2)).cache,
        module.VllmConfig(model={"cache": {"size": 2}}).model.cache,
        module.Model(cache={"size": 2}).cache,
        module.Model().cache,
    ):
        assert cache.answer() == "subclass"
        assert isinstance(cache, module.CacheConfig)
    assert module.ModelConfig(cache={"size": 2}).cache.size == 2
    assert module.ModelConfig(cache=before).cache is before
    landing.revert()
    assert type(module.ModelConfig(cache={}).cache) is original


def test_models_that_hold_the_original_make_the_subclass(make: Make, land: Land) -> None:
    """The same for pydantic models."""
    module = make(CONFIGS)
    original = module.Request

    def more_model(cls: Any) -> Any:
        class More(cls):  # type: ignore[misc]  # known at run time
            def answer(self) -> str:
                return "subclass"

        return More

    landing = land("Request", more_model)

    for request in (
        module.Request(size=2),
        original(size=2),
        module.Batch(requests=[{"size": 2}]).requests[0],
        module.Batch(requests=[original(size=2)]).requests[0],
        original.model_validate({"size": 2}),
    ):
        assert request.answer() == "subclass"
        assert request.size == 2
    landing.revert()
    assert type(module.Batch(requests=[{}]).requests[0]) is original


@pytest.mark.parametrize("made", ["", "def __init__(self, a, b=1): super().__init__(a, b)"])
def test_the_signature_of_the_class_is_kept(make: Make, declare: Declare, made: str) -> None:
    """Before, during and after, the class is called in the same way, and so are its heirs."""
    subject = make(
        """
        class C:
            def __init__(self, a, b=1): ...
        class Heir(C): ...
        """
    )
    before = [str(inspect.signature(each)) for each in (subject.C, subject.Heir)]
    space: dict[str, Any] = {}
    exec(f"def more(Original):\n class C(Original):\n  {made or 'pass'}\n return C", space)
    first = apply(declare("subclass", "subject:C", space["more"]), subject)
    second = apply(declare("subclass", "subject:C", space["more"]), subject)
    assert [str(inspect.signature(each)) for each in (subject.C, subject.Heir)] == before
    second.revert()
    first.revert()
    assert [str(inspect.signature(each)) for each in (subject.C, subject.Heir)] == before


def test_a_class_whose_instances_are_made_without_calling_it_is_refused(
    make: Make, declare: Declare
) -> None:
    """msgspec's decoders make the original: the error proposes to patch methods."""
    subject = make(
        """
        class Meta(type): ...
        Meta.__module__ = "msgspec._core"
        class C(metaclass=Meta): ...
        """
    )
    before = subject.C
    patch = declare("subclass", "subject:C", lambda original: type("C", (original,), {}))
    with pytest.raises(TargetKindError, match="Patch its methods"):
        apply(patch, subject)
    assert subject.C is before
    assert "__new__" not in vars(before)
