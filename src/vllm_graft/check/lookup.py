"""Names followed through modules, imports, classes and aliases of one tree."""

import ast
import importlib.util
from dataclasses import replace

from . import inheritance, lazy, parts, run_time
from .bindings import (
    Binding,
    Function,
    Scope,
    imported,
    is_alone,
    is_bound_at_run_time,
    is_part,
)
from .conditions import NEVER
from .entities import Absent, Answer, Entity, Undetermined
from .outline import Outline
from .tree import PACKAGE, Place, Tree

_MODULE_NAMES = (
    "__name__",
    "__doc__",
    "__file__",
    "__package__",
    "__path__",
    "__spec__",
    "__dict__",
)


class Lookup:
    """What one tree answers. `touched` has the modules that answers rest on, there or not."""

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self.platform = "cpu" if tree.distribution.endswith("-cpu") else "cuda"
        self.touched: set[str] = set()
        self._scopes: dict[str, Scope] = {}
        self._outlines: dict[str, Outline] = {}
        self._open: set[tuple[str, str]] = set()

    def module(self, name: str) -> Entity | None:
        """Return a module; None where the tree does not have it."""
        self.touched.add(name)
        place = self.tree.locate(name)
        return Entity("module", place, "") if place is not None else None

    def outline(self, place: Place) -> Outline:
        """Return the text of a module in blocks."""
        if place.module not in self._outlines:
            self._outlines[place.module] = Outline(self.tree.text(place))
        return self._outlines[place.module]

    def scope(self, place: Place) -> Scope:
        """Return the body of a module."""
        if place.module not in self._scopes:
            outline = self.outline(place)
            scope = Scope(outline, tuple(outline.blocks), platform=self.platform)
            self._scopes[place.module] = scope
        return self._scopes[place.module]

    def forget(self, outline: Outline) -> None:
        """Let go of the blocks of a module, which has been split anew."""
        self._scopes = {
            module: scope for module, scope in self._scopes.items() if scope.outline is not outline
        }
        self._open.clear()

    def path_of(self, outline: Outline) -> str:
        """Return the path of the module that has been split into blocks."""
        modules = (name for name, each in self._outlines.items() if each is outline)
        place = self.tree.locate(next(modules))
        assert place is not None
        return place.path

    def whole(self, entity: Entity) -> ast.AST | None:
        """Return the syntax tree of an entity with its body."""
        if entity.block is None or entity.home is None:
            return entity.node
        return self.outline(entity.home).nodes(entity.block)[0]

    def source(self, place: Place, node: ast.AST | None) -> str:
        """Return the lines of a statement."""
        return "" if node is None else self.outline(place).source(node)

    def body(self, cls: Entity) -> Scope:
        """Return the body of a class."""
        assert cls.home is not None
        outline = self.outline(cls.home)
        if cls.block is not None:
            blocks = tuple(outline.members(cls.block))
            return Scope(outline, blocks, platform=self.platform)
        assert isinstance(cls.node, ast.ClassDef)
        return Scope(outline, nodes=tuple(cls.node.body), platform=self.platform)

    def member(self, entity: Entity, name: str) -> Answer:
        """Return what an entity has under a name."""
        if entity.kind == "module":
            return self.in_module(entity, name)
        if entity.kind == "class":
            return inheritance.member(self, entity, name)
        if entity.kind == "outside":
            found = Entity("outside", None, f"{entity.qualname}.{name}", steps=entity.steps)
            return found if _is_library(entity) else Undetermined(f"{entity} is outside vLLM")
        found_part = parts.part(entity, name)
        if found_part is not None:
            return found_part
        if entity.kind == "value":
            return self._in_instance(entity, name)
        return Undetermined(f"{entity} is a function, whose attributes are set at run time")

    def in_module(self, module: Entity, name: str) -> Answer:
        """Return what a module has under a name."""
        place = module.home
        if place is None:
            return Entity("outside", None, f"{module.qualname}.{name}")
        if place.kind == "compiled":
            return Undetermined(f"{place.module} is compiled ({place.path})")
        key = (place.module, name)
        if key in self._open:  # `from . import name` in a package means its submodule
            submodule = self.module(f"{place.module}.{name}")
            return submodule or Absent(f"{place.module} imports {name!r} from itself")
        self._open.add(key)
        try:
            return self._in_module(module, place, name)
        finally:
            self._open.discard(key)

    def expression(
        self, expression: ast.expr, home: Place, *scopes: tuple[Entity, Scope]
    ) -> Answer:
        """Return what a name or dotted name in some code means, by its scopes from inside out."""
        if isinstance(expression, ast.Attribute):
            base = self.expression(expression.value, home, *scopes)
            return self.member(base, expression.attr) if isinstance(base, Entity) else base
        if not isinstance(expression, ast.Name):
            return Undetermined(f"{ast.unparse(expression)} is computed at run time")
        for owner, scope in scopes:
            found = self.bound(owner, scope, expression.id)
            if found is not None:
                return found
        return self.in_module(Entity("module", home, ""), expression.id)

    def bound(self, owner: Entity, scope: Scope, name: str) -> Answer | None:
        """Return what the statements of a module or class bind a name to; None where none does."""
        candidates = [each for each in scope.bindings(name) if is_bound_at_run_time(each)]
        for index, binding in enumerate(candidates):
            if is_part(binding.node, name, rest=len(candidates) - index - 1):
                continue
            answer = self._follow(owner, scope, binding, name)
            if answer is not None:
                return answer
        return None

    def _in_module(self, module: Entity, place: Place, name: str) -> Answer:
        scope = self.scope(place)
        found = self.bound(module, scope, name)
        if found is None:
            found = lazy.member(self, module, scope, name)
        if found is None:
            found = self.module(f"{place.module}.{name}") if place.kind != "module" else None
        if found is None and name in _MODULE_NAMES:
            found = Entity("value", place, name)
        if found is None:
            found = run_time.in_module(scope, place, name)
        return found or Absent(_absence(place, scope, name))

    def _follow(self, owner: Entity, scope: Scope, binding: Binding, name: str) -> Answer | None:
        """Return what a binding makes of a name; None where it does not bind it after all."""
        node, place = binding.node, owner.home
        assert place is not None
        qualname = f"{owner.qualname}.{name}" if owner.qualname else name
        outer = owner if owner.kind == "class" else None
        if isinstance(node, ast.ClassDef):
            return Entity("class", place, qualname, node, binding.block, outer)
        if isinstance(node, Function):
            return Entity("function", place, qualname, node, owner=outer)
        if isinstance(node, ast.Delete):
            return Absent(f"{place.module} deletes {name!r} (line {node.lineno})")
        if isinstance(node, ast.Import):
            return self._imported(node, name, place)
        if isinstance(node, ast.ImportFrom):
            if binding.star:
                return self._starred(node, name, place)
            return self._imported_from(node, name, place)
        value = Entity("value", place, qualname, node, owner=outer)
        return self._aliased(value, owner, scope, name) or value

    def _imported(self, node: ast.Import, name: str, place: Place) -> Answer:
        alias = imported(node, name)
        assert alias is not None
        dotted = alias.name if alias.asname else name
        return self._named(dotted).by(f"imported by {place.module}")

    def _named(self, module: str) -> Entity:
        """Return a module that is imported by its name; one outside vLLM has no home."""
        return self.module(module) or Entity("module", None, module)

    def _imported_from(self, node: ast.ImportFrom, name: str, place: Place) -> Answer:
        alias = imported(node, name)
        origin = _origin(node, place)
        assert alias is not None
        module = self.module(origin)
        if module is None and origin.partition(".")[0] != PACKAGE:
            outside = Entity("outside", None, f"{origin}.{alias.name}")
            return outside.by(f"re-exported via {place.module}")
        if module is None:
            return Undetermined(
                f"{place.module} imports it from {origin}, which is not among the sources"
            )
        found = self.in_module(module, alias.name)
        if isinstance(found, Entity):
            return found.by(f"re-exported via {place.module}")
        if isinstance(found, Absent):
            return Absent(f"{place.module} imports it from {origin}: {found.reason}")
        return found

    def _starred(self, node: ast.ImportFrom, name: str, place: Place) -> Answer | None:
        origin = _origin(node, place)
        module = self.module(origin)
        if module is None or module.home is None:
            return None  # what an installed package exports is not known here
        exported = lazy.exported(self.scope(module.home))
        if name.startswith("_") if exported is None else name not in exported:
            return None
        found = self.in_module(module, name)
        return found.by(f"re-exported via {place.module}") if isinstance(found, Entity) else None

    def _aliased(self, value: Entity, owner: Entity, scope: Scope, name: str) -> Entity | None:
        """Return what a value is another name of; None where it is a value of its own."""
        expression = getattr(value.node, "value", None)
        if isinstance(expression, ast.IfExp):
            expression = expression.body
        if not isinstance(expression, (ast.Name, ast.Attribute)) or not is_alone(value.node):
            return None
        if isinstance(expression, ast.Name) and expression.id == name and owner.kind != "class":
            return None
        assert value.home is not None
        scopes = ((owner, scope),) if owner.kind == "class" else ()
        key = (f"{value.home.module}:{owner.qualname}", name)
        if key in self._open:
            return None
        self._open.add(key)
        try:
            found = self.expression(expression, value.home, *scopes)
        finally:
            self._open.discard(key)
        if not isinstance(found, Entity):
            return None
        return replace(found.by(f"another name of {found}"), owner=value.owner or found.owner)

    def _in_instance(self, value: Entity, name: str) -> Answer:
        cls = self.class_of(value)
        if cls is None:
            return Undetermined(f"{value} is made at run time, and of what class is not known")
        found = inheritance.member(self, cls, name)
        if isinstance(found, Entity):
            return found.by(f"through {value}, an instance of {cls}")
        return Undetermined(f"{value} is an instance of {cls}, which is filled at run time")

    def class_of(self, value: Entity) -> Entity | None:
        """Return the class of a value, by its annotation or the call that makes it."""
        expression = getattr(value.node, "annotation", None)
        if expression is None:
            call = getattr(value.node, "value", None)
            expression = call.func if isinstance(call, ast.Call) else None
        if expression is None or value.home is None:
            return None
        found = self.expression(expression, value.home)
        return found if isinstance(found, Entity) and found.kind == "class" else None


def _origin(node: ast.ImportFrom, place: Place) -> str:
    try:
        return importlib.util.resolve_name("." * node.level + (node.module or ""), place.package)
    except ImportError:
        return f"{'.' * node.level}{node.module or ''}"


def _is_library(entity: Entity) -> bool:
    """Tell whether a dotted name outside vLLM is a module or class by the usage of names."""
    return "." not in entity.qualname or entity.qualname.rpartition(".")[2][:1].islower()


def _absence(place: Place, scope: Scope, name: str) -> str:
    for binding in scope.bindings(name):
        if binding.likelihood == NEVER and not binding.star:
            return (
                f"{place.module} binds {name!r} only where no run gets, as under TYPE_CHECKING "
                f"(line {binding.node.lineno})"
            )
    return f"{place.module} has no {name!r}"
