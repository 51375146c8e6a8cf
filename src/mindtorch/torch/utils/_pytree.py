"""Nested containers as flat lists and back: dicts, lists, tuples, named tuples, deques and registered classes."""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable
from typing import Any

__all__ = [
    "LeafSpec",
    "PyTree",
    "TreeSpec",
    "register_pytree_node",
    "tree_all",
    "tree_any",
    "tree_flatten",
    "tree_leaves",
    "tree_map",
    "tree_map_",
    "tree_map_only",
    "tree_structure",
    "tree_unflatten",
]

PyTree = Any
_NODES: dict[type, tuple[Callable[[Any], tuple[list[Any], Any]], Callable[[Any, Any], Any]]] = {}


def register_pytree_node(cls: type, flatten_fn: Any, unflatten_fn: Any, **_names: Any) -> None:
    """Treat ``cls`` as a container: ``flatten_fn(x) -> (children, context)``, ``unflatten_fn(children, context)``.

    Names for serialisation are accepted and not needed: specs are not written to files here.
    """
    if cls in _NODES:
        raise ValueError(f"{cls} is already registered as pytree node")
    _NODES[cls] = (flatten_fn, unflatten_fn)


_register_pytree_node = register_pytree_node

register_pytree_node(list, lambda x: (list(x), None), lambda c, _: list(c))
register_pytree_node(tuple, lambda x: (list(x), None), lambda c, _: tuple(c))
register_pytree_node(dict, lambda x: (list(x.values()), list(x)), lambda c, k: dict(zip(k, c)))
register_pytree_node(OrderedDict, lambda x: (list(x.values()), list(x)), lambda c, k: OrderedDict(zip(k, c)))
register_pytree_node(
    defaultdict,
    lambda x: (list(x.values()), (x.default_factory, list(x))),
    lambda c, k: defaultdict(k[0], zip(k[1], c)),
)
register_pytree_node(deque, lambda x: (list(x), x.maxlen), lambda c, n: deque(c, n))


def _is_namedtuple(x: Any) -> bool:
    return isinstance(x, tuple) and type(x) is not tuple and hasattr(x, "_fields")


def _node_of(x: Any) -> tuple[type, list[Any], Any] | None:
    """Container class, children and context of ``x``; None for a leaf."""
    if type(x) in _NODES:
        children, context = _NODES[type(x)][0](x)
        return type(x), list(children), context
    if _is_namedtuple(x):
        return type(x), list(x), None
    return None


def _build(kind: type, children: list[Any], context: Any) -> Any:
    return _NODES[kind][1](children, context) if kind in _NODES else kind(*children)


class TreeSpec:
    """Structure of a tree without its leaves."""

    def __init__(self, type: Any, context: Any, children_specs: Iterable[TreeSpec]) -> None:
        self.type = type
        self.context = context
        self.children_specs = list(children_specs)
        self.num_leaves = sum(c.num_leaves for c in self.children_specs)
        self.num_children = len(self.children_specs)

    def is_leaf(self) -> bool:
        """Whether this is one leaf."""
        return self.type is None

    def unflatten(self, leaves: Iterable[Any]) -> Any:
        """See `tree_unflatten`."""
        return tree_unflatten(leaves, self)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, TreeSpec)
            and self.type is other.type
            and self.context == other.context
            and self.children_specs == other.children_specs
        )

    def __hash__(self) -> int:
        return hash((self.type, self.num_leaves, self.num_children))

    def __repr__(self) -> str:
        inside = ", ".join(map(repr, self.children_specs))
        return "*" if self.is_leaf() else f"TreeSpec({self.type.__name__}, {self.context}, [{inside}])"


class LeafSpec(TreeSpec):
    """Structure of one leaf."""

    def __init__(self) -> None:
        super().__init__(None, None, [])
        self.num_leaves = 1


def tree_flatten(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> tuple[list[Any], TreeSpec]:
    """Leaves from left to right, and the structure."""
    leaves: list[Any] = []

    def walk(x: Any) -> TreeSpec:
        node = None if is_leaf is not None and is_leaf(x) else _node_of(x)
        if node is None:
            leaves.append(x)
            return LeafSpec()
        kind, children, context = node
        return TreeSpec(kind, context, [walk(c) for c in children])

    return leaves, walk(tree)


def tree_unflatten(leaves: Iterable[Any], treespec: TreeSpec) -> Any:
    """The tree of structure ``treespec`` with these leaves. ValueError when their number is wrong."""
    items = list(leaves)
    if len(items) != treespec.num_leaves:
        raise ValueError(
            f"tree_unflatten: got {len(items)} leaves for a structure of {treespec.num_leaves}: {treespec}"
        )
    supply = iter(items)

    def walk(spec: TreeSpec) -> Any:
        if spec.is_leaf():
            return next(supply)
        return _build(spec.type, [walk(c) for c in spec.children_specs], spec.context)

    return walk(treespec)


def tree_leaves(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> list[Any]:
    """Leaves from left to right."""
    return tree_flatten(tree, is_leaf)[0]


tree_iter = tree_leaves


def tree_structure(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> TreeSpec:
    """The structure."""
    return tree_flatten(tree, is_leaf)[1]


def tree_map(func: Any, tree: Any, *rests: Any, is_leaf: Callable[[Any], bool] | None = None) -> Any:
    """The tree with ``func`` applied to its leaves (and to those of ``rests``, of the same structure, beside them)."""
    leaves, spec = tree_flatten(tree, is_leaf)
    others = [_leaves_like(spec, r) for r in rests]
    return tree_unflatten([func(*parts) for parts in zip(leaves, *others, strict=True)], spec)


def _leaves_like(spec: TreeSpec, tree: Any) -> list[Any]:
    """Parts of ``tree`` that stand where ``spec`` has leaves."""
    if spec.is_leaf():
        return [tree]
    node = _node_of(tree)
    if node is None or node[0] is not spec.type or node[2] != spec.context or len(node[1]) != spec.num_children:
        raise ValueError(f"tree structures differ: {spec} and {tree_structure(tree)}")
    return [leaf for child, s in zip(node[1], spec.children_specs) for leaf in _leaves_like(s, child)]


def tree_map_(func: Any, tree: Any, *rests: Any, is_leaf: Callable[[Any], bool] | None = None) -> Any:
    """Call ``func`` on every leaf for its effect; returns ``tree``."""
    tree_map(func, tree, *rests, is_leaf=is_leaf)
    return tree


def _test(kinds: Any) -> Callable[[Any], bool]:
    return kinds if callable(kinds) and not isinstance(kinds, type) else lambda x: isinstance(x, kinds)


def tree_map_only(kinds: Any, func: Any, tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> Any:
    """`tree_map` on leaves of the given classes (or for which the function holds) only."""
    wanted = _test(kinds)
    return tree_map(lambda x: func(x) if wanted(x) else x, tree, is_leaf=is_leaf)


def tree_map_only_(kinds: Any, func: Any, tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> Any:
    """Call ``func`` on leaves of the given classes for its effect; returns ``tree``."""
    tree_map_only(kinds, func, tree, is_leaf)
    return tree


def tree_all(pred: Callable[[Any], bool], tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> bool:
    """Whether ``pred`` holds for all leaves."""
    return all(map(pred, tree_leaves(tree, is_leaf)))


def tree_any(pred: Callable[[Any], bool], tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> bool:
    """Whether ``pred`` holds for a leaf."""
    return any(map(pred, tree_leaves(tree, is_leaf)))


def tree_all_only(kinds: Any, pred: Any, tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> bool:
    """`tree_all` over leaves of the given classes."""
    return all(pred(x) for x in tree_leaves(tree, is_leaf) if _test(kinds)(x))


def tree_any_only(kinds: Any, pred: Any, tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> bool:
    """`tree_any` over leaves of the given classes."""
    return any(pred(x) for x in tree_leaves(tree, is_leaf) if _test(kinds)(x))


def _broadcast_to_and_flatten(tree: Any, treespec: TreeSpec, is_leaf: Any = None) -> list[Any] | None:
    """Leaves of ``tree``, a prefix of the structure, repeated for every leaf below them; None when it is no prefix."""
    node = None if is_leaf is not None and is_leaf(tree) else _node_of(tree)
    if treespec.is_leaf():
        return [tree] if node is None else None
    if node is None:
        return [tree] * treespec.num_leaves
    if node[0] is not treespec.type or node[2] != treespec.context or len(node[1]) != treespec.num_children:
        return None
    out: list[Any] = []
    for child, spec in zip(node[1], treespec.children_specs):
        part = _broadcast_to_and_flatten(child, spec, is_leaf)
        if part is None:
            return None
        out += part
    return out
