"""Members of classes, told from source: their own, inherited ones, and those that there are not."""

from pathlib import Path

import pytest

from vllm_graft.check.resolution import Resolution

from .vllm_trees import resolve, write_tree

SOURCE = """
import enum
import functools
import typing
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

import torch
from pydantic import BaseModel
from torch import nn
from unknown_package import Foreign

from .more import Far, register

T = TypeVar("T")

class Root:
    shared = 1
    def method(self, a): pass
    @staticmethod
    def static(a): pass
    @classmethod
    def of_class(cls, a): pass
    @property
    def prop(self): return 1
    @prop.setter
    def prop(self, value): pass
    @functools.cached_property
    def cached(self): return 1
    def __new__(cls): pass
    made = staticmethod(len)
    other_name = method
    def __init__(self):
        self.on_instances = 1
    @classmethod
    def setup(cls):
        cls.set_later = 1
    class Inner:
        def deep(self): pass

Root.assigned = 1

class Left(Root):
    def method(self, a): pass
    def left(self): pass

class Right(Root):
    def method(self, a, b): pass
    shared = 2

class Both(Left, Right):
    pass

class Remote(Far, Generic[T]):
    pass

class Model(nn.Module):
    def __init__(self):
        self.layers, self.end_layer = make()
    declared_only: int

class Quiet(torch.nn.Module): pass

class OfForeign(Foreign, Root): pass

class Computed(make_base()): pass

class Colour(enum.Enum):
    RED = 1
    def describe(self): pass

@dataclass
class Config:
    needed: int
    size: int = 1
    many: list = field(default_factory=list)
    count: ClassVar[int] = 0
    def __post_init__(self): pass

@dataclass
class Derived(Config):
    extra: int = 2

class Request(BaseModel):
    prompt: str

class Pair(NamedTuple):
    first: int

@register
class Registered: pass

class Bare: pass
instance = Root()
"""

MORE = """
class Far:
    def far(self): pass

class Added:
    def from_decorator(self): pass

def register(cls):
    cls.__bases__ = cls.__bases__ + (Added,)
    cls.registered = True
    return cls
"""


def ask(root: Path, name: str) -> Resolution:
    write_tree(root, {"classes.py": SOURCE, "more.py": MORE})
    return resolve(root, f"vllm.classes:{name}")


@pytest.mark.parametrize(
    ("name", "kind", "where"),
    [
        ("Root.shared", "variable", "Root.shared"),
        ("Root.method", "method", "Root.method"),
        ("Root.static", "staticmethod", "Root.static"),
        ("Root.of_class", "classmethod", "Root.of_class"),
        ("Root.prop", "property", "Root.prop"),
        ("Root.cached", "property", "Root.cached"),
        ("Root.__new__", "staticmethod", "Root.__new__"),
        ("Root.made", "staticmethod", "Root.made"),
        ("Root.other_name", "method", "Root.method"),
        ("Root.Inner", "class", "Root.Inner"),
        ("Root.Inner.deep", "method", "Root.Inner.deep"),
        ("Root.assigned", "variable", "Root.assigned"),
        ("Left.method", "method", "Left.method"),
        ("Left.of_class", "classmethod", "Root.of_class"),
        ("Both.left", "method", "Left.left"),
        ("Both.method", "method", "Left.method"),
        ("Both.shared", "variable", "Right.shared"),
        ("Both.assigned", "variable", "Root.assigned"),
        ("Colour.RED", "variable", "Colour.RED"),
        ("Config.needed", "field", "Config.needed"),
        ("Config.size", "field", "Config.size"),
        ("Config.many", "field", "Config.many"),
        ("Config.count", "variable", "Config.count"),
        ("Config.__init__", "method", "Config.__init__"),
        ("Derived.needed", "field", "Config.needed"),
        ("Derived.__post_init__", "method", "Config.__post_init__"),
        ("Request.prompt", "field", "Request.prompt"),
        ("Pair.first", "field", "Pair.first"),
        ("instance.method", "method", "Root.method"),
    ],
)
def test_a_member_is_found_where_python_finds_it(
    tmp_path: Path, name: str, kind: str, where: str
) -> None:
    found = ask(tmp_path, name)
    assert (found.kind, str(found.where)) == (kind, f"vllm.classes:{where}")


def test_inherited_members_say_from_where(tmp_path: Path) -> None:
    found = ask(tmp_path, "Remote.far")
    assert str(found.where) == "vllm.more:Far.far"
    assert found.steps == ("inherited from vllm.more:Far",)


def test_a_property_is_its_getter(tmp_path: Path) -> None:
    found = ask(tmp_path, "Root.prop")
    assert str(found.signature) == "(self)"


@pytest.mark.parametrize(
    ("name", "where"),
    [
        ("Model.state_dict", "torch.nn.Module:state_dict"),
        ("Model.forward", "torch.nn.Module:forward"),
        ("Quiet.to", "torch.nn.Module:to"),
        ("Request.model_dump", "pydantic.BaseModel:model_dump"),
        ("Bare.__init__", "builtins.object:__init__"),
        ("Bare.__eq__", "builtins.object:__eq__"),
    ],
)
def test_what_well_known_classes_outside_have_is_known(
    tmp_path: Path, name: str, where: str
) -> None:
    found = ask(tmp_path, name)
    assert (found.state, str(found.where)) == ("found", where)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("Root.absent", "vllm.classes:Root has no 'absent'"),
        ("Model.apply_min_p", "has no 'apply_min_p'"),
        ("Root.on_instances", "Root.__init__ sets it on instances (line 34)"),
        ("Model.end_layer", "Model.__init__ sets it on instances"),
        ("Left.on_instances", "Root.__init__ sets it on instances"),
        ("Model.declared_only", "has no 'declared_only': vllm.classes:Model only annotates it ("),
        ("Both.absent", "has no 'absent'"),
        ("Remote.absent", "has no 'absent'"),
        ("Colour.BLUE", "has no 'BLUE'"),
        ("Request.absent", "has no 'absent'"),
    ],
)
def test_what_a_class_does_not_have_is_missing(tmp_path: Path, name: str, reason: str) -> None:
    found = ask(tmp_path, name)
    assert found.state == "missing"
    assert reason in found.reason


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("OfForeign.absent", "its base unknown_package.Foreign is outside vLLM"),
        ("Computed.absent", "its base make_base() is computed at run time"),
        ("Root.set_later", "sets attributes of itself at run time (line 37: cls.set_later = …)"),
        ("Registered.registered", "vllm.more:register may set it"),
        ("Root.method.cache_clear", "a function, whose attributes are set at run time"),
    ],
)
def test_what_only_a_run_can_tell_is_unknown_with_the_reason(
    tmp_path: Path, name: str, reason: str
) -> None:
    found = ask(tmp_path, name)
    assert found.state == "unknown"
    assert reason in found.reason


def test_a_base_that_is_outside_does_not_hide_what_is_found_before(tmp_path: Path) -> None:
    write_tree(
        tmp_path, {"classes.py": SOURCE + "\nclass Own(Foreign):\n    def own(self): pass\n"}
    )
    assert resolve(tmp_path, "vllm.classes:Own.own").state == "found"


def test_bases_that_a_decorator_adds_count(tmp_path: Path) -> None:
    assert str(ask(tmp_path, "Registered.from_decorator").where) == "vllm.more:Added.from_decorator"


@pytest.mark.parametrize(
    ("name", "signature"),
    [
        ("Root.method", "(self, a)"),
        ("Root.static", "(a)"),
        ("Config", "(needed: int, size: int = 1, many: list = list)"),
        ("Derived", "(needed: int, size: int = 1, many: list = list, extra: int = 2)"),
        ("Config.__init__", "(self, needed: int, size: int = 1, many: list = list)"),
        ("Bare", "()"),
        ("Model", "()"),
        ("Quiet", "None"),
    ],
)
def test_signatures_are_those_that_python_would_give(
    tmp_path: Path, name: str, signature: str
) -> None:
    assert str(ask(tmp_path, name).signature) == signature
