"""Which names some code takes from its module, or from the builtins."""

import ast
from collections.abc import Iterable, Iterator

from .bindings import Function

_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_Scoped = (*Function, ast.Lambda, ast.ClassDef, *_COMPREHENSIONS)


def global_names(node: ast.AST) -> set[str]:
    """Return the names that a node loads and does not bind in itself; annotations do not count."""
    if isinstance(node, ast.ClassDef):
        return _of_class(node)
    if isinstance(node, (*Function, ast.Lambda)):
        body = node.body if isinstance(node.body, list) else [node.body]
        inner = _within(body, [each.arg for each in _arguments(node.args)])
        around = [*getattr(node, "decorator_list", ()), *_defaults(node.args)]
        return _of_all(around) | (inner - _type_parameters(node))
    if isinstance(node, _COMPREHENSIONS):
        first, *others = node.generators
        results = [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
        parts = [*results, first.target, *first.ifs, *others]
        return global_names(first.iter) | _within(parts, [])
    if isinstance(node, ast.Name):
        return {node.id} if isinstance(node.ctx, ast.Load) else set()
    found = _of_all(_parts(node))
    if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
        found.add(node.target.id)
    return found


def _of_all(nodes: Iterable[ast.AST]) -> set[str]:
    return set().union(*map(global_names, nodes))


def _parts(node: ast.AST) -> list[ast.AST]:
    left_out = getattr(node, "annotation", None)
    return [each for each in ast.iter_child_nodes(node) if each is not left_out]


def _within(body: Iterable[ast.AST], parameters: Iterable[str]) -> set[str]:
    body = list(body)
    stated = [name for each in _open(body) for name in _stated_global(each)]
    bound = {*parameters, *(name for each in _open(body) for name in _bound(each))}
    return _of_all(body) - (bound - set(stated))


def _of_class(node: ast.ClassDef) -> set[str]:
    """Names that the body binds serve the statements below it, and no function in it."""
    found: set[str] = set()
    bound: set[str] = set()
    for statement in node.body:
        visible = set() if isinstance(statement, (*Function, ast.ClassDef)) else bound
        found |= global_names(statement) - visible
        bound |= {name for each in _open([statement]) for name in _bound(each)}
    around = [*node.decorator_list, *node.bases, *(each.value for each in node.keywords)]
    return (_of_all(around) | found) - _type_parameters(node)


def _open(nodes: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """Yield nodes of one scope, and those that begin another without what is in them."""
    for node in nodes:
        yield node
        if isinstance(node, _COMPREHENSIONS):  # `:=` in one binds outside
            yield from (each for each in ast.walk(node) if isinstance(each, ast.NamedExpr))
        elif not isinstance(node, _Scoped):
            yield from _open(_parts(node))


def _bound(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Name) and isinstance(node.ctx, (ast.Store, ast.Del)):
        yield node.id
    elif isinstance(node, ast.NamedExpr):
        yield node.target.id
    elif isinstance(node, (*Function, ast.ClassDef, ast.ExceptHandler, ast.MatchAs, ast.MatchStar)):
        yield from filter(None, [node.name])
    elif isinstance(node, ast.MatchMapping):
        yield from filter(None, [node.rest])
    elif isinstance(node, (ast.Import, ast.ImportFrom)):
        yield from (each.asname or each.name.partition(".")[0] for each in node.names)
    elif isinstance(node, ast.Nonlocal):
        yield from node.names


def _stated_global(node: ast.AST) -> list[str]:
    return node.names if isinstance(node, ast.Global) else []


def _type_parameters(node: ast.AST) -> set[str]:
    return {each.name for each in getattr(node, "type_params", ())}  # from Python 3.12 on


def _arguments(args: ast.arguments) -> list[ast.arg]:
    extra = [each for each in (args.vararg, args.kwarg) if each is not None]
    return [*args.posonlyargs, *args.args, *args.kwonlyargs, *extra]


def _defaults(args: ast.arguments) -> list[ast.expr]:
    return [*args.defaults, *(each for each in args.kw_defaults if each is not None)]
