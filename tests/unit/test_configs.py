"""Patches of dataclasses and pydantic classes, in the shapes that vLLM's configs have had."""

import copy
import dataclasses
import inspect
import pickle
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from vllm_graft import Patch, TargetKindError
from vllm_graft.apply import apply
from vllm_graft.landing import Landing

Declare = Callable[..., Patch]
Make = Callable[..., ModuleType]
Land = Callable[[str, str, Any], Landing]

IMPORTS = """
import dataclasses
from dataclasses import InitVar, field
from typing import Annotated, Any, ClassVar, Optional

import pydantic
from pydantic import ConfigDict, Field, SkipValidation
from pydantic import computed_field, field_serializer, field_validator, model_validator
from pydantic.dataclasses import dataclass
"""
NO_OP = """
def config(cls):
    return cls
"""
DECORATOR = """
def config(cls=None, *, config=None, **kwargs):
    merged = ConfigDict(extra="forbid")
    if config is not None:
        merged.update(config)
    def decorator(cls):
        return dataclass(cls, config=merged, **kwargs)
    return decorator if cls is None else decorator(cls)
"""
SHAPES = {
    # vllm/config.py and vllm/config/utils.py: what `@config` is, and how a class is decorated
    "0.9.2": (NO_OP, "@config\n@dataclass"),
    "0.13": (NO_OP, "@config\n@dataclass(config=ConfigDict(arbitrary_types_allowed=True))"),
    "0.17": (DECORATOR, "@config"),
}

CONFIGS = '''
@CONFIG
class CacheConfig:
    """Configures the cache."""

    LIMIT: ClassVar[int] = 5
    block_size: int = 16
    dtype: SkipValidation[Optional[str]] = None
    share: float = Field(default=0.9, gt=0, le=1)
    space: float = Field(default_factory=lambda: 4.0, ge=0)
    tags: list[str] = Field(default_factory=list)
    names: list[str] = field(default_factory=list)
    blocks: int = field(default=0, init=False)
    factor: InitVar[int] = 1

    def __post_init__(self, factor):
        self.blocks = self.blocks + factor

    def method(self):
        return self.block_size

    @property
    def size(self):
        return self.block_size

    @classmethod
    def made(cls, size):
        return cls(block_size=size)


@CONFIG
class Inheriting(CacheConfig):
    more: int = 1


@CONFIG
class Redeclaring(CacheConfig):
    block_size: int = 8
    share: float = Field(default=0.8, gt=0, le=1)


@CONFIG
class ModelConfig:
    cache: CacheConfig = field(default_factory=CacheConfig)


@CONFIG
class VllmConfig:
    model: ModelConfig = Field(default_factory=ModelConfig)


First = None  # has the first place among the names of the module that nest a cache


@CONFIG
class Late:
    cache: CacheConfig = field(default_factory=CacheConfig)


@CONFIG
class First:
    cache: Optional[CacheConfig] = None
    late: Optional[Late] = None


@CONFIG
class Many:
    maybe: Optional[CacheConfig] = None
    several: list[CacheConfig] = field(default_factory=list)
    named: dict[str, "CacheConfig | None"] = field(default_factory=dict)
    noted: Annotated[Any, "noted"] | Annotated[CacheConfig, "cache"] = None


class Model(pydantic.BaseModel):
    cache: CacheConfig
'''
LATER = """
from subject import *

@CONFIG
class Later:
    cache: CacheConfig = field(default_factory=CacheConfig)
"""


def source(text: str, shape: str) -> str:
    """Return a module's source with the decorators of a vLLM release."""
    config, decorator = SHAPES[shape]
    return (IMPORTS + config + text).replace("@CONFIG", decorator)


@pytest.fixture(params=SHAPES)
def shape(request: pytest.FixtureRequest) -> str:
    """Return the vLLM release whose shape of configs is tested."""
    return str(request.param)


@pytest.fixture
def land(declare: Declare) -> Land:
    """Return a function that applies a patch to the module called subject."""

    def land(operation: str, qualname: str, implementation: Any) -> Landing:
        import subject  # type: ignore[import-not-found]  # written above

        return apply(declare(operation, f"subject:{qualname}", implementation), subject)

    return land


@pytest.fixture
def subject(make: Make, shape: str) -> ModuleType:
    """Return a fresh module with configs in a release's shape."""
    return make(source(CONFIGS, shape))


def instances(subject: ModuleType) -> dict[str, Any]:
    """Return a cache config made in each of the ways in which vLLM makes them."""
    nothing: dict[str, Any] = {}
    many = subject.Many(maybe={}, several=[{}], named={"a": {}})
    return {
        "directly": subject.CacheConfig(),
        "by pydantic": TypeAdapter(subject.CacheConfig).validate_python(nothing),
        "from JSON": TypeAdapter(subject.CacheConfig).validate_json("{}"),
        "by a subclass": subject.Inheriting(),
        "as a default": subject.ModelConfig().cache,
        "from a dictionary": subject.ModelConfig(cache=nothing).cache,
        "two levels deep": subject.VllmConfig(model={"cache": {}}).model.cache,
        "from instances": subject.VllmConfig(
            model=subject.ModelConfig(cache=subject.CacheConfig())
        ).model.cache,
        "by the first of two that nest it": subject.First(late={"cache": {}}).late.cache,
        "as Optional": many.maybe,
        "in a list": many.several[0],
        "in a dictionary": many.named["a"],
        "in a model": subject.Model(cache=nothing).cache,
    }


def every(subject: ModuleType, name: str) -> dict[str, Any]:
    """Return what an attribute is in each way of making a config."""
    return {way: getattr(config, name) for way, config in instances(subject).items()}


def facts(subject: ModuleType) -> dict[str, Any]:
    """Return what can be seen of the configs of a module."""
    found: dict[str, Any] = {"made": {way: vars(it) for way, it in instances(subject).items()}}
    classes = {name: each for name, each in vars(subject).items() if isinstance(each, type)}
    for name, cls in classes.items():
        if dataclasses.is_dataclass(cls) and cls.__module__ == "subject":
            found[name] = (
                {key: value for key, value in vars(cls).items() if key in cls.__annotations__},
                {field.name: (field.default, field.default_factory) for field in fields(cls)},
                str(inspect.signature(cls)),
                sorted(vars(cls)),
            )
    return found


def fields(cls: Any) -> tuple[Any, ...]:
    """Return the fields of a dataclass."""
    return dataclasses.fields(cls)


DEFAULTS: list[tuple[str, Any, Any]] = [
    # field, what it is now, what it is to be
    ("block_size", 16, 32),
    ("block_size", 16, None),
    ("dtype", None, "fp8"),
    ("share", 0.9, 0.5),
    ("space", 4.0, 2.0),
    ("tags", [], ["a"]),
    ("tags", [], ()),
    ("names", [], ["a"]),
    ("names", [], ()),
    ("blocks", 1, 6),
]


@pytest.mark.parametrize(("name", "before", "value"), DEFAULTS)
def test_a_default_changes_wherever_an_instance_is_made(
    subject: ModuleType, land: Land, name: str, before: Any, value: Any
) -> None:
    """In the class, its heirs and all that nest it, and back again when the patch is reverted."""
    saved = facts(subject)
    assert set(map(repr, every(subject, name).values())) == {repr(before)}

    given = value - 1 if name == "blocks" else value  # __post_init__ adds one
    landing = land("set", f"CacheConfig.{name}", given)

    assert every(subject, name) == dict.fromkeys(every(subject, name), value)
    landing.revert()
    assert facts(subject) == saved


def test_an_argument_that_is_given_wins_over_a_default(subject: ModuleType, land: Land) -> None:
    """The default is for instances that are made without the argument only."""
    land("set", "CacheConfig.block_size", 32)

    assert subject.CacheConfig(block_size=4).block_size == 4
    assert subject.CacheConfig(4).block_size == 4
    assert subject.ModelConfig(cache={"block_size": 4}).cache.block_size == 4
    assert subject.CacheConfig.made(4).block_size == 4


@pytest.mark.parametrize("name", ["names", "tags", "dtype"])
def test_a_mutable_default_is_copied_for_each_instance(
    subject: ModuleType, land: Land, name: str
) -> None:
    """What one instance does to its value no other instance sees, nor the patch."""
    value = {"a": [1]}
    landing = land("set", f"CacheConfig.{name}", value)

    for config in instances(subject).values():
        assert getattr(config, name) == {"a": [1]}
        getattr(config, name)["a"].append(2)
    assert value == landing.value == {"a": [1]}


def test_what_a_field_demands_is_still_demanded(subject: ModuleType, land: Land) -> None:
    """Types, bounds and unknown names are checked as before."""
    land("set", "CacheConfig.share", 0.5)
    land("set", "CacheConfig.space", 2.0)

    for wrong in ({"share": 1.5}, {"share": 0}, {"space": -1}, {"block_size": "many"}):
        with pytest.raises(ValidationError):
            subject.CacheConfig(**wrong)
        with pytest.raises(ValidationError):
            subject.ModelConfig(cache=wrong)


@pytest.mark.parametrize("name", ["share", "names"])
def test_unknown_names_are_treated_as_before(
    subject: ModuleType, land: Land, shape: str, name: str
) -> None:
    """The class keeps the configuration that its decorator gave it."""
    land("set", f"CacheConfig.{name}", 0.5 if name == "share" else ["a"])

    if shape == "0.17":
        with pytest.raises(ValidationError):
            subject.CacheConfig(unknown=1)
    assert subject.CacheConfig.__pydantic_config__.get("extra") == (
        "forbid" if shape == "0.17" else None
    )


def test_the_signature_keeps_its_names_and_shows_the_new_default(
    subject: ModuleType, land: Land
) -> None:
    """inspect.signature and the fields, from which vLLM makes its command line, agree."""
    before = list(inspect.signature(subject.CacheConfig).parameters)
    for name, value in (("block_size", 32), ("share", 0.5)):
        land("set", f"CacheConfig.{name}", value)
        signature = inspect.signature(subject.CacheConfig)

        assert list(signature.parameters) == before
        assert signature.parameters[name].default == value
        (field,) = (each for each in fields(subject.CacheConfig) if each.name == name)
        assert getattr(field.default, "default", field.default) == value
        assert getattr(subject.CacheConfig, name) == value


def test_a_config_that_is_made_later_nests_the_patched_one(
    subject: ModuleType, make: Make, land: Land, shape: str
) -> None:
    """Classes that are defined after the patch have what it changed from the start."""
    land("set", "CacheConfig.block_size", 32)
    late = make(LATER.replace("@CONFIG", SHAPES[shape][1]), "late")

    assert late.Later().cache.block_size == 32
    assert late.Later(cache={}).cache.block_size == 32


def test_arguments_that_copy_their_defaults_later_get_the_new_one(
    subject: ModuleType, make: Make, land: Land
) -> None:
    """vLLM's EngineArgs takes the class attributes of configs when it is defined."""
    land("set", "CacheConfig.block_size", 32)
    arguments = make(
        "import dataclasses\nfrom subject import CacheConfig\n@dataclasses.dataclass\n"
        "class EngineArgs:\n    block_size: int = CacheConfig.block_size\n",
        "arg_utils",
    )

    assert arguments.EngineArgs().block_size == 32


def test_a_default_of_a_class_that_others_inherit_from(subject: ModuleType, land: Land) -> None:
    """Heirs that declare the field themselves keep theirs, and an heir's patch is its own."""
    land("set", "CacheConfig.block_size", 32)
    land("set", "CacheConfig.share", 0.5)
    assert (subject.Inheriting().block_size, subject.Inheriting().share) == (32, 0.5)
    assert (subject.Redeclaring().block_size, subject.Redeclaring().share) == (8, 0.8)

    landing = land("set", "Inheriting.block_size", 64)
    assert (subject.Inheriting().block_size, subject.CacheConfig().block_size) == (64, 32)
    assert subject.CacheConfig.block_size == 32
    landing.revert()
    assert (subject.Inheriting().block_size, subject.CacheConfig().block_size) == (32, 32)
    assert "block_size" not in vars(subject.Inheriting)


def test_a_class_variable_is_no_field(subject: ModuleType, land: Land) -> None:
    """ClassVar attributes are set as those of any class, and nothing is compiled again."""
    before = subject.CacheConfig.__pydantic_validator__
    land("set", "CacheConfig.LIMIT", 6)
    assert subject.CacheConfig.__pydantic_validator__ is before

    assert subject.CacheConfig.LIMIT == subject.Inheriting.LIMIT == 6


def test_instances_pickle_and_copy(subject: ModuleType, land: Land) -> None:
    """Configs go to other processes, those made before a patch included."""
    before = subject.CacheConfig(block_size=4)
    land("set", "CacheConfig.block_size", 32)

    for config in (before, subject.CacheConfig()):
        assert pickle.loads(pickle.dumps(config)) == config == copy.deepcopy(config)
    assert isinstance(subject.ModelConfig(cache=before).cache, subject.CacheConfig)


METHODS = [
    # operation, name, implementation, what shows it, before, after
    ("wrap", "method", lambda original, self: -original(self), "method()", 16, -16),
    ("replace", "method", lambda self: -1, "method()", 16, -1),
    ("wrap", "size", lambda original, self: -original(self), "size", 16, -16),
    ("replace", "size", lambda self: -1, "size", 16, -1),
    ("wrap", "made", lambda original, cls, size: original(cls, 2), "made(1).block_size", 1, 2),
    ("add", "added", lambda self: self.block_size, "added()", None, 16),
    (
        "wrap",
        "__post_init__",
        lambda original, self, factor: self.__dict__.update(blocks=8 + factor),
        "blocks",
        1,
        9,
    ),
    ("replace", "__post_init__", lambda self, factor: None, "blocks", 1, 0),
]


@pytest.mark.parametrize(
    ("operation", "name", "implementation", "shown", "before", "after"), METHODS
)
def test_methods(
    subject: ModuleType,
    land: Land,
    operation: str,
    name: str,
    implementation: Any,
    shown: str,
    before: Any,
    after: Any,
) -> None:
    """Methods, properties, class methods and `__post_init__` are patched as in any class."""

    def seen() -> set[Any]:
        return {eval(f"it.{shown}", {"it": each}) for each in instances(subject).values()}

    saved = facts(subject)
    assert before is None or seen() == {before}

    landing = land(operation, f"CacheConfig.{name}", implementation)

    assert seen() == {after}
    landing.revert()
    assert facts(subject) == saved


def test_a_new_post_init_is_called_wherever_an_instance_is_made(
    make: Make, land: Land, shape: str
) -> None:
    """Generated code learns of a `__post_init__` that there was not, and forgets it again."""
    plain = CONFIGS.replace("def __post_init__(self, factor):", "def unused(self, factor):")
    plain = plain.replace("    factor: InitVar[int] = 1\n", "")
    subject = make(source(plain, shape))
    saved = facts(subject)
    assert set(every(subject, "blocks").values()) == {0}

    landing = land("add", "CacheConfig.__post_init__", lambda self: setattr(self, "blocks", 9))

    assert every(subject, "blocks") == dict.fromkeys(every(subject, "blocks"), 9)
    landing.revert()
    assert facts(subject) == saved


VALIDATED = """
@CONFIG
class CacheConfig:
    before: str = ""
    after: str = ""
    wrap: str = ""
    plain: Any = ""
    seen: str = field(default="", init=False)

    @field_validator("before", mode="before")
    @classmethod
    def check_before(cls, value):
        return f"before {value}"

    @field_validator("after", mode="after")
    @classmethod
    def check_after(cls, value, info):
        return f"after {value}"

    @field_validator("wrap", mode="wrap")
    @classmethod
    def check_wrap(cls, value, handler):
        return f"wrap {handler(value)}"

    @field_validator("plain", mode="plain")
    @classmethod
    def check_plain(cls, value):
        return f"plain {value}"

    @model_validator(mode="before")
    @classmethod
    def model_before(cls, values):
        return values

    @model_validator(mode="wrap")
    @classmethod
    def model_wrap(cls, values, handler):
        return handler(values)

    @model_validator(mode="after")
    def model_after(self):
        self.seen = self.seen or "model after"
        return self

    @field_serializer("before")
    def serialized(self, value):
        return f"serialized {value}"


@CONFIG
class Inheriting(CacheConfig):
    pass


@CONFIG
class ModelConfig:
    cache: CacheConfig = field(default_factory=CacheConfig)


class Model(pydantic.BaseModel):
    cache: CacheConfig
"""


def marking(original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Mark what a validator of a field returns."""
    return f"patched {original(*args, **kwargs)}"


def seeing(original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Mark the config that a validator of a config returns."""
    config = original(*args, **kwargs)
    object.__setattr__(config, "seen", "patched")
    return config


def refusing(original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Refuse what goes into a config."""
    raise ValueError("refused by the patch")


VALIDATORS: list[tuple[str, str, Callable[..., Any], str, str]] = [
    # operation, validator, implementation, field, its value
    ("wrap", "check_before", marking, "before", "patched before x"),
    ("wrap", "check_after", marking, "after", "patched after x"),
    ("wrap", "check_wrap", marking, "wrap", "patched wrap x"),
    ("wrap", "check_plain", marking, "plain", "patched plain x"),
    ("wrap", "model_wrap", seeing, "seen", "patched"),
    ("wrap", "model_after", seeing, "seen", "patched"),
    ("replace", "check_before", lambda cls, value: "mine", "before", "mine"),
    ("replace", "check_after", lambda cls, value, info: info.field_name, "after", "after"),
    ("replace", "check_wrap", lambda cls, value, handler: handler("mine"), "wrap", "mine"),
    ("replace", "check_plain", lambda cls, value: "mine", "plain", "mine"),
    ("replace", "model_after", lambda self: self, "seen", ""),
]
GIVEN = {"before": "x", "after": "x", "wrap": "x", "plain": "x"}


def validated(subject: ModuleType, given: dict[str, str]) -> list[Any]:
    """Return configs made of given values in several ways."""
    return [
        subject.CacheConfig(**given),
        TypeAdapter(subject.CacheConfig).validate_python(given),
        subject.Inheriting(**given),
        subject.ModelConfig(cache=given).cache,
        subject.Model(cache=given).cache,
    ]


@pytest.mark.parametrize(("operation", "name", "implementation", "field", "value"), VALIDATORS)
def test_a_validator_that_is_patched_is_the_one_that_runs(
    make: Make,
    land: Land,
    shape: str,
    operation: str,
    name: str,
    implementation: Any,
    field: str,
    value: str,
) -> None:
    """In the class, its heirs and those that nest it, and the original again after reverting."""
    subject = make(source(VALIDATED, shape))
    before = [getattr(each, field) for each in validated(subject, GIVEN)]
    assert len(set(before)) == 1
    assert before[0] != value

    landing = land(operation, f"CacheConfig.{name}", implementation)

    assert [getattr(each, field) for each in validated(subject, GIVEN)] == [value] * len(before)
    landing.revert()
    assert [getattr(each, field) for each in validated(subject, GIVEN)] == before


def test_a_before_validator_of_a_model_is_patched(make: Make, land: Land, shape: str) -> None:
    """What it raises refuses the config wherever it is made."""
    subject = make(source(VALIDATED, shape))
    landing = land("wrap", "CacheConfig.model_before", refusing)

    for cls, given in (
        (subject.CacheConfig, GIVEN),
        (subject.Inheriting, GIVEN),
        (subject.ModelConfig, {"cache": GIVEN}),
        (subject.Model, {"cache": GIVEN}),
    ):
        with pytest.raises(ValidationError, match="refused by the patch"):
            cls(**given)
    landing.revert()
    assert subject.ModelConfig(cache=GIVEN).cache.before == "before x"


def test_an_heirs_validator_is_patched_for_the_heir_alone(
    make: Make, land: Land, shape: str
) -> None:
    """The inherited validator of a subclass is its own patch."""
    subject = make(source(VALIDATED, shape))
    land("wrap", "Inheriting.check_before", marking)

    assert subject.Inheriting(before="x").before == "patched before x"
    assert subject.CacheConfig(before="x").before == "before x"


def test_a_serializer_is_compiled_in_as_well(make: Make, land: Land, shape: str) -> None:
    """Serializers follow their method like validators."""
    subject = make(source(VALIDATED, shape))
    land("wrap", "CacheConfig.serialized", marking)

    dumped = TypeAdapter(subject.CacheConfig).dump_python(subject.CacheConfig(before="x"))
    assert dumped["before"] == "patched serialized before x"


def test_patches_of_one_class_can_be_taken_back_in_any_order(
    subject: ModuleType, land: Land
) -> None:
    """Taking back the first leaves what the second compiled."""
    saved = facts(subject)
    first = land("set", "CacheConfig.block_size", 32)
    second = land("set", "CacheConfig.share", 0.5)

    first.revert()
    assert set(every(subject, "share").values()) == {0.5}
    assert set(every(subject, "block_size").values()) == {16}
    second.revert()
    assert facts(subject) == saved


def test_a_wrapped_init_stays_when_the_class_is_compiled_again(
    subject: ModuleType, land: Land
) -> None:
    """A patch of `__init__` and one of a default are both in effect; the signature is kept."""
    before = list(inspect.signature(subject.CacheConfig).parameters)
    made: list[Any] = []

    def around(original: Callable[..., None], self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        made.append(self)

    wrapped = land("wrap", "CacheConfig.__init__", around)
    land("set", "CacheConfig.block_size", 32)

    assert [subject.CacheConfig()] == made
    assert made[0].block_size == 32
    assert list(inspect.signature(subject.CacheConfig).parameters) == before
    wrapped.revert()
    subject.CacheConfig()
    assert len(made) == 1


BROKEN = """
class Given:
    pass

@dataclass(config=ConfigDict(arbitrary_types_allowed=True))
class Holder:
    cache: CacheConfig
    given: "Given" = None

del Given
"""


@pytest.mark.parametrize(
    ("operation", "name", "implementation"),
    [
        ("set", "block_size", 32),
        ("set", "names", ["a"]),
        ("add", "__post_init__", lambda self: None),
        ("wrap", "check", lambda original, cls, value: "patched"),
    ],
)
def test_a_class_that_cannot_be_compiled_again_leaves_all_as_it_was(
    make: Make, land: Land, shape: str, operation: str, name: str, implementation: Any
) -> None:
    """Where a class that nests the target has annotations that are gone, the patch is refused."""
    text = CONFIGS.replace("def __post_init__(self, factor):", "def unused(self, factor):")
    text = text.replace("    factor: InitVar[int] = 1\n", "").replace(
        "    def method(self):",
        "    @field_validator('dtype')\n    @classmethod\n    def check(cls, value):\n"
        "        return value\n\n    def method(self):",
    )
    subject = make(source(text + BROKEN, shape))
    saved = facts(subject)
    assert subject.Holder(cache={}).cache.block_size == 16

    with pytest.raises(TargetKindError, match="Given"):
        land(operation, f"CacheConfig.{name}", implementation)

    assert facts(subject) == saved
    assert subject.Holder(cache={}).cache.block_size == 16
    assert subject.CacheConfig(dtype="fp8").dtype == "fp8"


def test_a_class_that_waits_for_a_name_is_complete_when_it_has_it(
    make: Make, land: Land, shape: str
) -> None:
    """Configs that name a class defined after them are compiled at first use, with the patch."""
    text = CONFIGS.replace(
        "    block_size: int", "    later: 'Optional[Later]' = None\n    block_size: int"
    )
    subject = make(source(text + "\n@CONFIG\nclass Later:\n    a: int = 1\n", shape))
    landing = land("set", "CacheConfig.block_size", 32)

    assert set(every(subject, "block_size").values()) == {32}
    assert subject.CacheConfig(later={}).later.a == 1
    landing.revert()
    assert set(every(subject, "block_size").values()) == {16}


STANDARD = """
from __future__ import annotations
import dataclasses
from dataclasses import InitVar, dataclass, field
from typing import ClassVar

@dataclass
class EngineArgs:
    LIMIT: ClassVar[int] = 5
    model: str
    seed: int = 0
    names: list[str] = field(default_factory=list)
    late: int = field(default=1, init=False)
    scale: InitVar[int] = 2
    only: int = field(default=3, kw_only=True)

@dataclass
class AsyncEngineArgs(EngineArgs):
    more: bool = False

@dataclass
class Redeclaring(EngineArgs):
    seed: int = 7

class Plain(EngineArgs):
    pass

@dataclass(frozen=True)
class Frozen:
    seed: int = 0

@dataclass(kw_only=True)
class Keywords:
    first: int = 1
    seed: int = 0

@dataclass(slots=True)
class Slots:
    seed: int = 0

@dataclass
class Own:
    seed: int = 0
    def __init__(self):
        self.seed = 5
"""


@pytest.fixture
def standard(make: Make) -> ModuleType:
    """Return a fresh module with dataclasses of the standard library."""
    return make(STANDARD)


STANDARD_DEFAULTS = [
    # class, field, value, what shows it
    ("EngineArgs", "seed", 5, "EngineArgs('m').seed"),
    ("EngineArgs", "seed", 5, "AsyncEngineArgs('m').seed"),
    ("EngineArgs", "seed", 5, "Plain('m').seed"),
    ("EngineArgs", "names", ["a"], "EngineArgs('m').names"),
    ("EngineArgs", "names", (), "EngineArgs('m').names"),
    ("EngineArgs", "late", 5, "EngineArgs('m').late"),
    ("EngineArgs", "only", 5, "EngineArgs('m').only"),
    ("AsyncEngineArgs", "seed", 5, "AsyncEngineArgs('m').seed"),
    ("Frozen", "seed", 5, "Frozen().seed"),
    ("Keywords", "seed", 5, "Keywords().seed"),
    ("Slots", "seed", 5, "Slots().seed"),
    ("Slots", "seed", [5], "Slots().seed"),
]


@pytest.mark.parametrize(("cls", "name", "value", "shown"), STANDARD_DEFAULTS)
def test_a_default_of_a_standard_dataclass(
    standard: ModuleType, land: Land, cls: str, name: str, value: Any, shown: str
) -> None:
    """Its `__init__` is generated anew, with the parameters that it had, and back again."""

    def state() -> Any:
        space = vars(standard)
        classes: list[Any] = [each for each in space.values() if dataclasses.is_dataclass(each)]
        return eval(shown, space), [
            (
                sorted(vars(each)),
                str(inspect.signature(each)),
                [str(field) for field in fields(each)],
            )
            for each in classes
        ]

    before = state()
    parameters = list(inspect.signature(vars(standard)[cls]).parameters)

    landing = land("set", f"{cls}.{name}", value)

    assert eval(shown, vars(standard)) == value
    assert list(inspect.signature(vars(standard)[cls]).parameters) == parameters
    landing.revert()
    assert state() == before


def test_a_standard_dataclass_stays_what_it_is(standard: ModuleType, land: Land) -> None:
    """Frozen, keyword-only, slots, InitVar and an heir's own default are as before."""
    for cls in ("Frozen", "Keywords", "Slots", "EngineArgs"):
        land("set", f"{cls}.seed", 5)

    with pytest.raises(dataclasses.FrozenInstanceError):
        standard.Frozen().seed = 6
    with pytest.raises(TypeError):
        standard.Keywords(1)
    with pytest.raises(TypeError):
        standard.EngineArgs("m", 1, [], 2, 3)
    assert not hasattr(standard.Slots(), "__dict__")
    assert standard.Redeclaring("m").seed == 7
    assert standard.EngineArgs("m", 1).seed == 1
    assert "scale" not in vars(standard.EngineArgs("m", scale=4))


def test_an_heirs_default_leaves_the_base_alone(standard: ModuleType, land: Land) -> None:
    """A field that is inherited is changed in the class that the target names."""
    land("set", "AsyncEngineArgs.seed", 5)

    assert (standard.EngineArgs("m").seed, standard.EngineArgs.seed) == (0, 0)


def test_a_mutable_default_of_a_standard_dataclass_is_copied(
    standard: ModuleType, land: Land
) -> None:
    """Like a default_factory, which is what it becomes."""
    land("set", "EngineArgs.names", ["a"])
    standard.EngineArgs("m").names.append("b")

    assert standard.EngineArgs("m").names == ["a"]


@pytest.mark.parametrize("cls", ["EngineArgs", "Frozen", "Keywords"])
def test_a_post_init_is_added_to_a_standard_dataclass(
    standard: ModuleType, land: Land, cls: str
) -> None:
    """It gets the InitVars, is called for heirs, and not any more when it is reverted."""
    calls: list[Any] = []

    def with_scale(self: Any, scale: int) -> None:
        calls.append(scale)

    def without(self: Any) -> None:
        calls.append(2)

    added = with_scale if cls == "EngineArgs" else without
    arguments = ["m"] if cls == "EngineArgs" else []
    landing = land("add", f"{cls}.__post_init__", added)

    vars(standard)[cls](*arguments)
    assert calls == [2]
    if cls == "EngineArgs":
        standard.AsyncEngineArgs("m", scale=3)
        assert calls == [2, 3]
    landing.revert()
    vars(standard)[cls](*arguments)
    assert len(calls) == (2 if cls == "EngineArgs" else 1)


REFUSED = [
    # class, field, value, what the message says
    ("Own", "seed", 5, r"Own\.__init__ is not the one that @dataclass made.*Patch that __init__"),
    (
        "Plain",
        "seed",
        5,
        "Plain inherits 'seed' with the __init__ of a dataclass. Patch 'subject:Eng",
    ),
]


@pytest.mark.parametrize(("cls", "name", "value", "message"), REFUSED)
def test_a_default_that_cannot_be_changed_is_refused(
    standard: ModuleType, land: Land, cls: str, name: str, value: Any, message: str
) -> None:
    """The error says where to patch instead, and nothing is changed."""
    before = dict(vars(vars(standard)[cls]))
    field = str(before.get("__dataclass_fields__"))

    with pytest.raises(TargetKindError, match=message):
        land("set", f"{cls}.{name}", value)

    assert dict(vars(vars(standard)[cls])) == before
    assert str(before.get("__dataclass_fields__")) == field


def test_a_default_before_arguments_without_one_is_refused(make: Make, land: Land) -> None:
    """What @dataclass refuses to generate is told as it tells it."""
    module = make("import dataclasses\n@dataclasses.dataclass\nclass A:\n    a: int\n    b: int\n")

    with pytest.raises(TargetKindError, match="non-default argument"):
        land("set", "A.a", 5)

    assert str(inspect.signature(module.A)) == "(a: int, b: int) -> None"
    assert not hasattr(module.A, "a")


MODELS = """
import pydantic
from pydantic import Field, computed_field, field_validator, model_validator

class Request(pydantic.BaseModel):
    limit: int = 16
    share: float = Field(default=0.9, ge=0)
    names: list[str] = Field(default_factory=list)

    @field_validator("limit", mode="after")
    @classmethod
    def check_limit(cls, value):
        return value

    @model_validator(mode="after")
    def check(self):
        return self

    @computed_field
    @property
    def double(self) -> int:
        return self.limit * 2

class Inheriting(Request):
    pass

class Redeclaring(Request):
    limit: int = 8

class Batch(pydantic.BaseModel):
    request: Request = Field(default_factory=Request)

class Outer(pydantic.BaseModel):
    batches: list[Batch] = []

class Holder(pydantic.BaseModel):
    several: dict[str, Request | None] = {}
"""


@pytest.fixture
def models(make: Make) -> ModuleType:
    """Return a fresh module with pydantic models."""
    return make(MODELS)


def requests(models: ModuleType, **given: Any) -> list[Any]:
    """Return requests made in several ways."""
    return [
        models.Request(**given),
        models.Request.model_validate(given),
        models.Inheriting(**given),
        models.Batch(request=given).request,
        models.Outer(batches=[{"request": given}]).batches[0].request,
        models.Holder(several={"a": given}).several["a"],
    ]


@pytest.mark.parametrize(
    ("name", "before", "value"),
    [("limit", 16, 32), ("share", 0.9, 0.5), ("names", [], ["a"]), ("limit", 16, ["a"])],
)
def test_a_default_of_a_model(
    models: ModuleType, land: Land, name: str, before: Any, value: Any
) -> None:
    """It changes in the model, its heirs and those that nest it; mutable ones are copied."""
    signature = str(inspect.signature(models.Request))
    landing = land("set", f"Request.{name}", value)

    for request in requests(models):
        assert getattr(request, name) == value
        if isinstance(value, list):
            getattr(request, name).append("b")
    assert getattr(models.Request(), name) == value
    assert models.Redeclaring().limit == 8
    assert list(inspect.signature(models.Request).parameters) == ["limit", "share", "names"]
    with pytest.raises(ValidationError):
        models.Batch(request={"share": -1})
    landing.revert()
    assert [getattr(request, name) for request in requests(models)] == [before] * 6
    assert str(inspect.signature(models.Request)) == signature


@pytest.mark.parametrize(
    ("name", "implementation", "shown"),
    [
        ("check_limit", lambda original, cls, value: 99, "limit"),
        ("check", lambda original, self: self.__dict__.update(limit=99) or self, "limit"),
        ("double", lambda original, self: 99, "model_dump()['double']"),
        ("double", lambda original, self: 99, "double"),
    ],
)
def test_a_validator_of_a_model(
    models: ModuleType, land: Land, name: str, implementation: Any, shown: str
) -> None:
    """Validators and computed fields are patched as those of dataclasses are."""
    before = [eval(f"it.{shown}", {"it": each}) for each in requests(models, limit=3)]
    landing = land("wrap", f"Request.{name}", implementation)

    after = [eval(f"it.{shown}", {"it": each}) for each in requests(models, limit=3)]
    assert after == [99] * 6
    landing.revert()
    assert [eval(f"it.{shown}", {"it": each}) for each in requests(models, limit=3)] == before


def test_pydantic_that_has_been_imported_and_not_used(python: Callable[..., str]) -> None:
    """It has no `fields` then: they are imported by the first class of its own."""
    code = """
import dataclasses, pydantic, sys
assert "fields" not in vars(pydantic)
@dataclasses.dataclass
class Config:
    size: int = 1
sys.modules["subject"] = sys.modules["__main__"]
from vllm_graft import PatchSet
from vllm_graft.testing import armed
patches = PatchSet("acme")
patches.set("subject:Config.size", 2, vllm=">=0.27", why="w", how="h", upstream="u", remove="r")
with armed(patches, vllm="0.32.0"):
    print(Config().size)
"""
    assert python(code).strip() == "2"
