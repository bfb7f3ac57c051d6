"""From the graph that Dynamo captured to a functional graph of ATen operators.

The lowered graph is what backends get, in either format. Its placeholders are first the weights
(parameters, buffers and constants, which go up once), then the inputs of a run; its outputs are new
tensors, each once: values that inputs are overwritten with, and results. What the captured graph
returns beyond that, inputs themselves, views of them, sizes, needs no backend; `Plan` puts it together
again (_plan.py).
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import inspect
import operator
from collections.abc import Iterator
from typing import Any

import torch
from torch import fx
from torch._functorch.aot_autograd import aot_export_module
from torch._library.custom_ops import OPDEFS
from torch.multiprocessing.reductions import StorageWeakRef

from prony._plan import Plan, make_plan

aten = torch.ops.aten
_with_effects = torch.ops.higher_order.with_effects

# Operators that only check something, and what Dynamo leaves in a graph of the state it was
# captured in: no_grad holds anyway.
_CHECKS = ("_assert_async", "_assert_scalar", "_assert_tensor_metadata", "sym_constrain_range",
           "sym_constrain_range_for_size", "_functional_assert_async", "_linalg_check_errors")
_IN_PLACE = (operator.iadd, operator.isub, operator.imul, operator.itruediv, operator.ifloordiv,
             operator.imod, operator.ipow, operator.iand, operator.ior, operator.ixor)
_AUTOCAST = ("_enter_autocast", "_exit_autocast")

GROUPED = "transformers::grouped_mm_fallback"
"""Rows times a matrix per group, for mixtures of experts: (rows, matrices, the end of each group's rows).
It reads the ends in Python, so nobody can trace it; both forms have it in operators of their own."""

# Where built-in functions, which have no signature to ask, take whether they train.
_TRAIN_POSITION = {torch.lstm: 6, torch.gru: 6, torch.rnn_tanh: 6, torch.rnn_relu: 6,
                   torch.dropout: 2, torch.feature_dropout: 2, torch.alpha_dropout: 2}


@dataclasses.dataclass
class Weight:
    """A fixed input: argument `position` of the captured graph, or a constant of its code."""

    position: int | None
    constant: torch.Tensor | None = None


@dataclasses.dataclass
class Lowered:
    """A lowered graph, and how it belongs to the captured one."""

    module: fx.GraphModule
    weights: list[Weight]
    inputs: list[int]
    """Argument positions of the other placeholders: tensors, and ints that no tensor's size tells."""
    input_names: list[str]
    output_names: list[str]
    plan: Plan
    was_training: bool
    """The module was in training mode, and the graph was changed to eval mode."""

    @property
    def dynamic(self) -> bool:
        """Whether sizes are open."""
        return any(isinstance(size, torch.SymInt) for node in self.placeholders()
                   if isinstance(node.meta["val"], torch.Tensor) for size in node.meta["val"].shape)

    def placeholders(self) -> list[fx.Node]:
        """All of them: weights first."""
        nodes: list[fx.Node] = self.module.graph.find_nodes(op="placeholder")
        return nodes


def is_weight(example: Any) -> bool:
    """Whether an argument is one of a module's own tensors, which Dynamo marks."""
    return isinstance(example, torch.nn.Parameter) or (
        isinstance(example, torch.Tensor)
        and getattr(example, "_dynamo_static_input_type", None) is not None)


def autocast() -> torch.dtype | None:
    """What the program around the graph casts to, on the processor; None: it doesn't."""
    return torch.get_autocast_dtype("cpu") if torch.is_autocast_enabled("cpu") else None


@contextlib.contextmanager
def one_fake_mode(captured: fx.GraphModule) -> Iterator[None]:
    """Some versions of PyTorch call backends in another fake mode than that of the inputs, and then
    find that the two don't match."""
    fakes = [node.meta["example_value"] for node in captured.graph.find_nodes(op="placeholder")]
    context = torch._guards.TracingContext.try_get()
    modes = [fake.fake_mode for fake in fakes if isinstance(fake, torch._subclasses.FakeTensor)]
    try:
        torch._guards.detect_fake_mode(fakes)
        match = True
    except AssertionError:
        match = False
    if match or context is None:
        yield
        return
    before, context.fake_mode = context.fake_mode, modes[0]
    try:
        yield
    finally:
        context.fake_mode = before


def lower(captured: fx.GraphModule, examples: list[Any]) -> Lowered:
    """Lowers a captured graph; raises whatever PyTorch raises when it can't be done."""
    placeholders = captured.graph.find_nodes(op="placeholder")
    fakes = [node.meta["example_value"] for node in placeholders]
    module, was_training, moved = _prepare(captured)
    lowered, signature = _trace(module, fakes)
    graph = lowered.graph
    _drop_tokens(graph, signature)
    nodes = graph.find_nodes(op="placeholder")
    weights = {i for i, example in enumerate(examples) if is_weight(example)}

    output = graph.output_node()
    user_outputs = len(signature.user_outputs)
    returned = list(output.args[0])
    positions = {node.name: i for i, node in enumerate(nodes)}
    overwritten = [(positions[signature.user_inputs_to_mutate[node.name]], node)
                   for node in returned[:len(returned) - user_outputs]]
    if was_training:  # statistics of batches, which eval mode doesn't keep
        overwritten = [pair for pair in overwritten if pair[0] not in weights]
    weights -= {position for position, _ in overwritten}

    plan, wanted = make_plan(captured, returned[len(returned) - user_outputs:], overwritten,
                             moved)
    output.args = (tuple(wanted),)
    _drop_copies(graph)
    _drop_checks(graph)
    graph.eliminate_dead_code()
    for node in graph.find_nodes(op="call_function", target=torch._sym_sqrt):
        node.target, node.args = operator.pow, (node.args[0], 0.5)
    _name_default_type(graph)
    _sizes_from_tensors(graph, nodes, weights)
    constants = _lift_constants(lowered)

    used = [i for i, node in enumerate(nodes) if node.users]
    for node in nodes:
        if not node.users:
            graph.erase_node(node)
    fixed = [i for i in used if i in weights]
    inputs = [i for i in used if i not in weights]
    _order_placeholders(graph, [nodes[i] for i in fixed], constants, [nodes[i] for i in inputs])
    lowered.recompile()
    return Lowered(
        lowered, [Weight(i) for i in fixed] + [Weight(None, value) for _, value in constants],
        inputs, [f"in_{k}" for k in range(len(inputs))], [f"out_{k}" for k in range(len(wanted))],
        plan, was_training)


def _prepare(captured: fx.GraphModule) -> tuple[fx.GraphModule, bool, set[str]]:
    """A copy to trace: in eval mode, and without switches of autograd. Whether it was training, and
    the names of views that depend on a tensor."""
    graph = copy.deepcopy(captured.graph)
    changed = False
    moved: set[str] = set()
    transforms = any(map(_is_transform, graph.nodes))  # whose gradients are what is computed
    for node in list(graph.nodes):
        if node.op != "call_function":
            continue
        if node.target is torch._C._set_grad_enabled and not transforms:
            graph.erase_node(node)
        elif node.target is operator.getitem and _is_indexed_by_tensor(node):
            moved |= {view.name for view in _views_of(node)}
            _index_by_tensor(graph, node)
        else:
            changed |= _to_eval(node)
    return fx.GraphModule(captured, graph), changed, moved


def _is_indexed_by_tensor(node: fx.Node) -> bool:
    """Whether it is x[i] with a tensor of one whole number, beside what makes views."""
    tensor, index = node.args
    places = index if isinstance(index, tuple) else (index,)
    return isinstance(tensor, fx.Node) and \
        isinstance(tensor.meta.get("example_value"), torch.Tensor) and \
        any(map(_is_number, places)) and not _is_overwritten(node) and \
        all(_is_number(place) or _is_size(place) for place in places if isinstance(place, fx.Node)) and \
        not any(isinstance(place, (list, torch.Tensor)) for place in places)


def _index_by_tensor(graph: fx.Graph, node: fx.Node) -> None:
    """Makes of it an operator that takes the tensor. As it is, the number would be read first, and
    become a size that nobody knows."""
    tensor, index = node.args
    places = list(index) if isinstance(index, tuple) else [index]
    consumed = sum(place is not None and place is not Ellipsis for place in places)
    if Ellipsis not in places:
        places.append(Ellipsis)
    at = places.index(Ellipsis)
    places[at:at + 1] = [slice(None)] * (tensor.meta["example_value"].dim() - consumed)
    plain = tuple(slice(None) if _is_number(place) else place for place in places)
    numbers: list[tuple[int, fx.Node]] = []
    dim = 0  # of the result; a number that isn't a tensor has none
    for place in places:
        if _is_number(place):
            numbers.append((dim, place))
        dim += place is None or isinstance(place, slice) or _is_number(place)
    with graph.inserting_before(node):
        result = tensor
        if any(place != slice(None) for place in plain):
            result = graph.call_function(operator.getitem, (tensor, plain))
        for dim, place in reversed(numbers):
            result = graph.call_function(aten.index.Tensor, (result, [None] * dim + [place]))
    node.replace_all_uses_with(result)
    result.meta.update(node.meta)
    graph.erase_node(node)


def _views_of(node: fx.Node) -> set[fx.Node]:
    """Itself, and what is made of it in the same memory."""
    storage = StorageWeakRef(node.meta["example_value"].untyped_storage())
    found: set[fx.Node] = set()
    waiting = [node]
    while waiting:
        view = waiting.pop()
        value = view.meta.get("example_value")
        if view in found or not isinstance(value, torch.Tensor) or \
                StorageWeakRef(value.untyped_storage()) != storage:
            continue
        found.add(view)
        waiting += view.users
    return found


def _is_number(place: Any) -> bool:
    """Whether it is a tensor of one whole number."""
    value = place.meta.get("example_value") if isinstance(place, fx.Node) else None
    return isinstance(value, torch.Tensor) and value.dim() == 0 and value.dtype in (
        torch.int64, torch.int32, torch.int16, torch.int8)


def _is_size(place: Any) -> bool:
    return isinstance(place, fx.Node) and isinstance(place.meta.get("example_value"), torch.SymInt)


def _is_overwritten(node: fx.Node) -> bool:
    """Whether something is written into a tensor, which is then one into what it is a view of."""
    return any(user.target is operator.setitem or
               str(getattr(user.target, "__name__", user.target)).endswith("_") or
               user.target in _IN_PLACE or "out" in user.kwargs
               for view in _views_of(node) for user in view.users)


def _is_transform(node: fx.Node) -> bool:
    """Whether it is a step of vmap, grad and the like."""
    return "functorch" in (getattr(node.target, "__module__", None) or "")


def _to_eval(node: fx.Node) -> bool:
    """Makes one call what it is in eval mode. Only what a caller passes counts: a default of
    `training=True` is what the function does in eval mode too."""
    if node.target is torch.nn.functional.scaled_dot_product_attention or \
            node.target is torch._C._nn.scaled_dot_product_attention:
        return _change(node, 4, "dropout_p", 0.0)
    position = _TRAIN_POSITION.get(node.target)
    if position is not None:
        return _change(node, position, "train", False)
    if not inspect.isfunction(node.target):
        return False
    names = list(inspect.signature(node.target).parameters)
    if "training" not in names:
        return False
    if node.target is torch.nn.functional.batch_norm and not (
            len(node.args) > 1 and isinstance(node.args[1], fx.Node)):
        return False  # without statistics of its own it takes the batch's in eval mode too
    return _change(node, names.index("training"), "training", False)


def _change(node: fx.Node, position: int, name: str, value: Any) -> bool:
    if len(node.args) > position:
        if not node.args[position]:
            return False
        node.update_arg(position, value)
        return True
    if not node.kwargs.get(name):
        return False
    node.update_kwarg(name, value)
    return True


def _trace(module: fx.GraphModule, fakes: list[Any]) -> tuple[fx.GraphModule, Any]:
    """Traces with composite operators whole (linear, lstm, attention), which is what an eager run
    calls and what runtimes know; where that can't be done, with what they consist of."""
    custom = _custom_operators(module)

    def trace(whole: bool, table: dict[Any, Any]) -> tuple[fx.GraphModule, Any]:
        traced, signature = aot_export_module(module, fakes, trace_joint=False, pre_dispatch=whole,
                                              decompositions=table)
        return traced, signature

    # What autocast and torch.func do to operators is only seen in what these consist of; and what
    # fails in the middle of a torch.func transform leaves PyTorch in it.
    apart = autocast() is not None or any(
        getattr(node.target, "__name__", "") in _AUTOCAST or _is_transform(node)
        for node in module.graph.nodes)
    tries = [(whole, table) for table in ([custom, {}] if custom else [{}])
             for whole in ([False] if apart else [True, False])]
    with torch.no_grad():
        for whole, table in tries[:-1]:
            try:
                return trace(whole, table)
            except Exception:  # the last try says what is wrong
                pass
        return trace(*tries[-1])


def _custom_operators(module: fx.GraphModule) -> dict[Any, Any]:
    """Operators of torch.library that the program has defined in Python, and how: a backend knows only
    what they consist of."""
    found = {}
    for target in {node.target for node in module.graph.nodes if node.op == "call_function"}:
        if isinstance(target, torch._ops.OpOverloadPacket):
            target = getattr(target, target.overloads()[0])
        if isinstance(target, torch._ops.OpOverload) and target._schema.name in OPDEFS:
            found[target] = OPDEFS[target._schema.name]._init_fn
    return found


def _drop_tokens(graph: fx.Graph, signature: Any) -> None:
    """Takes away what orders operators that check something: nothing happens between them here."""
    tokens = len(signature.input_tokens)
    if tokens == 0:
        return
    output = graph.output_node()
    output.args = (tuple(output.args[0])[tokens:],)
    for node in reversed(graph.find_nodes(op="call_function", target=_with_effects)):
        _, target, *args = node.args
        with graph.inserting_before(node):
            plain = graph.call_function(target, tuple(args), dict(node.kwargs))
        single = len(target._schema.returns) == 1
        for user in list(node.users):
            index = user.args[1]
            if index == 0:
                user.replace_all_uses_with(node.args[0])
            elif single:
                user.replace_all_uses_with(plain)
            else:
                user.args = (plain, index - 1)
                continue
            graph.erase_node(user)
        graph.erase_node(node)
    for node in graph.find_nodes(op="placeholder")[:tokens]:
        graph.erase_node(node)


def _drop_copies(graph: fx.Graph) -> None:
    """Takes away what only matters when something is written to or has a gradient."""
    for target in (aten.lift_fresh_copy.default, aten.lift_fresh.default, aten.detach.default,
                   aten.alias.default):
        for node in graph.find_nodes(op="call_function", target=target):
            node.replace_all_uses_with(node.args[0])
            graph.erase_node(node)


def _drop_checks(graph: fx.Graph) -> None:
    for node in reversed(list(graph.nodes)):
        if isinstance(node.target, torch._ops.OpOverload) and not node.users and \
                node.target._schema.name.rpartition("::")[2] in _CHECKS:
            graph.erase_node(node)


def _name_default_type(graph: fx.Graph) -> None:
    """Where operators take their type from torch.set_default_dtype(), of which backends don't know, it
    is written down; raises where it can't be."""
    default = torch.get_default_dtype()
    if default is torch.float32:
        return
    for node in graph.nodes:
        if not isinstance(node.target, torch._ops.OpOverload) or not _is_real(node.meta.get("val")) or \
                any(_is_real(other.meta.get("val")) for other in node.all_input_nodes):
            continue
        if "dtype" not in (argument.name for argument in node.target._schema.arguments):
            raise RuntimeError(f"{node.target} takes its type from torch.set_default_dtype({default}), "
                               "of which backends don't know")
        if node.kwargs.get("dtype") is None:
            node.update_kwarg("dtype", node.meta["val"].dtype)


def _is_real(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and (value.is_floating_point() or value.is_complex())


def _sizes_from_tensors(graph: fx.Graph, nodes: list[fx.Node], weights: set[int]) -> None:
    """Replaces ints that are sizes of an input by asking that input, so that a run needs no ints."""
    tensors = [(i, node) for i, node in enumerate(nodes)
               if isinstance(node.meta["val"], torch.Tensor)]
    tensors.sort(key=lambda pair: (not pair[1].users, pair[0] in weights))
    first = next((node for node in graph.nodes if node.op != "placeholder"), None)
    for node in nodes:
        value = node.meta["val"]
        if not isinstance(value, torch.SymInt) or not node.users:
            continue
        for _, tensor in tensors:
            dims = [d for d, size in enumerate(tensor.meta["val"].shape)
                    if isinstance(size, torch.SymInt) and size.node.expr == value.node.expr]
            if dims:
                with graph.inserting_before(first):
                    size = graph.call_function(aten.sym_size.int, (tensor, dims[0]))
                size.meta["val"] = value
                node.replace_all_uses_with(size)
                break


def _lift_constants(module: fx.GraphModule) -> list[tuple[fx.Node, torch.Tensor]]:
    """Turns tensors that the traced code holds into placeholders."""
    lifted: dict[str, tuple[fx.Node, torch.Tensor]] = {}
    graph = module.graph
    for node in graph.find_nodes(op="get_attr"):
        value = operator.attrgetter(node.target)(module)
        if not isinstance(value, torch.Tensor):
            continue
        if node.target not in lifted:
            with graph.inserting_before(node):
                new = graph.placeholder(f"constant_{len(lifted)}")
            new.meta["val"] = node.meta.get("val", value)
            lifted[node.target] = (new, value)
        node.replace_all_uses_with(lifted[node.target][0])
        graph.erase_node(node)
    return list(lifted.values())


def _order_placeholders(graph: fx.Graph, weights: list[fx.Node],
                        constants: list[tuple[fx.Node, torch.Tensor]],
                        inputs: list[fx.Node]) -> None:
    behind = next(node for node in graph.nodes if node.op != "placeholder")
    for node in [*weights, *(node for node, _ in constants), *inputs]:
        behind.prepend(node)
