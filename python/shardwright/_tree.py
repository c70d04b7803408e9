"""Trees of tensors: tuples, lists, dicts and plain objects, as arguments and results of functions."""

from __future__ import annotations

from typing import Any, Callable, Iterator

from ._core import Parameter, Tensor


def map_leaves(function: Callable[[str, Any], Any], tree: Any, path: str = "") -> Any:
    """The same tuples, lists and dicts with `function(path, leaf)` in the place of each leaf; None stays."""
    def inner(key: Any) -> str:
        return f"{path}.{key}" if path else str(key)

    if tree is None:
        return None
    if isinstance(tree, dict):
        return {k: map_leaves(function, v, inner(k)) for k, v in tree.items()}
    if isinstance(tree, tuple) and hasattr(tree, "_fields"):
        return type(tree)(*(map_leaves(function, v, inner(k)) for k, v in zip(tree._fields, tree)))
    if isinstance(tree, (list, tuple)):
        return type(tree)(map_leaves(function, v, inner(i)) for i, v in enumerate(tree))
    return function(path, tree)


def leaves(tree: Any, path: str = "") -> list[tuple[str, Any]]:
    """Leaves with their paths, in the order of the tree."""
    out: list[tuple[str, Any]] = []
    map_leaves(lambda p, leaf: out.append((p, leaf)), tree, path)
    return out


def _is_plain_object(value: Any) -> bool:
    return hasattr(value, "__dict__") and not isinstance(value, type) and not callable(getattr(value, "__array__", None)) \
        and type(value).__module__ != "builtins" and not hasattr(value, "__code__")


def parameters_of(value: Any, path: str = "", seen: set[int] | None = None) -> Iterator[tuple[str, Parameter]]:
    """Parameters inside, with their paths: own attributes in the order of assignment, depth first, shared ones once."""
    seen = set() if seen is None else seen
    if isinstance(value, Parameter):
        if id(value) not in seen:
            seen.add(id(value))
            yield path, value
        return
    if id(value) in seen or value is None or isinstance(value, (Tensor, str, bytes, int, float, bool)):
        return

    def inner(key: Any) -> str:
        return f"{path}.{key}" if path else str(key)

    if isinstance(value, dict):
        items = list(value.items())
    elif isinstance(value, (list, tuple)):
        items = list(enumerate(value))
    elif _is_plain_object(value):
        items = list(vars(value).items())
    else:
        return
    seen.add(id(value))
    for key, child in items:
        yield from parameters_of(child, inner(key), seen)


def name_parameters(value: Any) -> list[Parameter]:
    """Gives those without a name that of their path. Raises: ValueError if two have one name."""
    out: list[Parameter] = []
    names: dict[str, str] = {}
    for path, parameter in parameters_of(value):
        if not parameter.name:
            parameter.name = f"params.{path}" if path[:1].isdigit() else path or "params"
        if parameter.name in names:
            raise ValueError(f"two parameters are called '{parameter.name}': {names[parameter.name]} and {path}; "
                             "give each its own name")
        names[parameter.name] = path
        out.append(parameter)
    return out
