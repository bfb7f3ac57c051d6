"""`accelerate`: functions, methods and modules whose graphs can run elsewhere.

Importing Dynamo takes longer than importing torch, so it is left to the first call: inside a block
that is while backends start.
"""

from __future__ import annotations

import copyreg
import functools
import inspect
import sys
import threading
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar, overload

import torch
from torch.compiler import is_dynamo_compiling

if TYPE_CHECKING:
    from prony._context import Context

# Everything that captures graphs imports this first. Below, Dynamo has other settings (2.6), or loses
# graphs while it tells of compilations (2.7).
if torch.__version__ < (2, 8):
    raise ImportError(f"prony needs PyTorch 2.8 or later, and this is {torch.__version__}: "
                      "pip install 'prony[torch]'", name="torch")

F = TypeVar("F", bound=Callable[..., Any])
LocalBackend = str | Callable[..., Any]
Compiler = Callable[..., Callable[..., Any]]


class _Block(threading.local):
    """The `with` block that this thread is in."""

    context: Context | None = None


block = _Block()


@overload
def accelerate(function: F, *, dynamic: bool | None = ..., local_backend: LocalBackend = ...) -> F: ...
@overload
def accelerate(*, dynamic: bool | None = ...,
               local_backend: LocalBackend = ...) -> Callable[[F], F]: ...


def accelerate(function: Any = None, *, dynamic: bool | None = False,
               local_backend: LocalBackend = "inductor") -> Any:
    """Marks a function, a method or a module: inside `remote_profile` and `remote_inference` its
    graphs run on backends, elsewhere it is compiled by `local_backend` as `torch.compile` does.

    With `dynamic=True` one graph serves many sizes; without, each size gets its own.
    """
    if function is None:
        return functools.partial(accelerate, dynamic=dynamic, local_backend=local_backend)
    backend = _local_backend(local_backend)
    if dynamic is not None and not isinstance(dynamic, bool):
        raise TypeError(f"dynamic: {dynamic!r} is none of True, False and None")
    if isinstance(function, staticmethod):
        return staticmethod(accelerate(function.__func__, dynamic=dynamic,
                                       local_backend=local_backend))
    _check(function)
    if isinstance(function, torch.nn.Module):
        return _accelerate_module(function, dynamic, backend)
    return _wrap(function, _name(function), dynamic, backend)


def _check(function: Any) -> None:
    inner = inspect.unwrap(function) if inspect.isroutine(function) else function
    if getattr(function, "_prony_accelerated", False):
        raise ValueError(f"{_quote(function)} is accelerated already")
    if _is_compiled_module(function) or any(
            hasattr(each, "_torchdynamo_orig_callable") and
            not getattr(each, "_torchdynamo_disable", False) for each in (function, inner)):
        raise ValueError(f"{_quote(function)} is compiled already: accelerate it instead of "
                         "torch.compile")
    if isinstance(function, (torch.jit.ScriptModule, torch.jit.ScriptFunction)):
        raise ValueError(f"{_quote(function)} is TorchScript, which can't be captured")
    if isinstance(function, (type, classmethod)) or not callable(function):
        raise TypeError("accelerate takes a function, a method or a module, not "
                        f"{_quote(function)}")


def _is_compiled_module(function: Any) -> bool:
    frames = sys.modules.get("torch._dynamo.eval_frame")  # without it, nothing is compiled
    return frames is not None and isinstance(function, frames.OptimizedModule)


def _name(function: Any) -> str:
    name = getattr(function, "__qualname__", None) or type(function).__name__
    return name.rpartition("<locals>.")[2]


def _quote(function: Any) -> str:
    return f"'{_name(function)}'"


def _local_backend(backend: LocalBackend) -> Compiler:
    """A backend of torch.compile that runs eagerly what it can't compile."""
    if isinstance(backend, str) and backend != "inductor":
        import torch._dynamo

        known = torch._dynamo.list_backends(exclude_tags=())
        if backend not in known:
            raise ValueError(f"there is no local backend '{backend}'; there are: "
                             f"{', '.join(known)}")

    def compile_or_not(module: torch.fx.GraphModule, examples: list[Any]) -> Callable[..., Any]:
        import torch._dynamo

        try:
            compile_graph: Compiler = torch._dynamo.lookup_backend(backend)
            return compile_graph(module, examples)
        except torch._dynamo.exc.RestartAnalysis:
            raise  # no failure: Dynamo is asked to capture it again, another way
        except Exception as fault:
            first = str(fault).strip().splitlines()[:1]
            warnings.warn(f"'{backend}' can't compile a graph, which therefore runs eagerly: "
                          f"{first[0] if first else type(fault).__name__}", stacklevel=2)
            forward: Callable[..., Any] = module.forward
            return forward

    return compile_or_not


def _wrap(function: Callable[..., Any], name: str, dynamic: bool | None,
          backend: Callable[..., Any]) -> Callable[..., Any]:
    @functools.cache
    def local() -> Callable[..., Any]:
        compiled: Callable[..., Any] = torch.compile(function, backend=backend, dynamic=dynamic)
        return compiled

    @functools.wraps(function)
    def accelerated(*arguments: Any, **named: Any) -> Any:
        if is_dynamo_compiling():
            return function(*arguments, **named)
        context = block.context
        if context is None:
            return local()(*arguments, **named)
        return context.call(function, name, dynamic, arguments, named)

    accelerated.__dict__["_prony_accelerated"] = True
    return accelerated


def _new(kind: type, *arguments: Any) -> Any:
    """What copyreg does, without the condition that pickle has for it."""
    return kind.__new__(kind, *arguments)


def _accelerate_module(module: torch.nn.Module, dynamic: bool | None,
                       backend: Callable[..., Any]) -> torch.nn.Module:
    """A twin of the module: its attributes are the same ones, also those that change later, and its
    forward() is accelerated."""
    original = type(module)
    name = f"{original.__name__}.forward"

    def reduce(self: Any, protocol: Any) -> Any:
        plain = object.__new__(original)
        plain.__dict__.update(self.__dict__)
        make, *rest = plain.__reduce_ex__(protocol)  # saved and copied as what it was
        return (_new if make is getattr(copyreg, "__newobj__") else make, *rest)  # noqa: B009 -- not in its types

    kind = type(original.__name__, (original,), {
        "__module__": original.__module__, "__qualname__": original.__qualname__,
        "__doc__": original.__doc__, "__reduce_ex__": reduce, "_prony_accelerated": True,
        "forward": _wrap(original.forward, name, dynamic, backend)})
    twin: torch.nn.Module = object.__new__(kind)
    if "forward" not in module.__dict__:
        object.__setattr__(twin, "__dict__", module.__dict__)
    else:  # one that the instance alone has, and the twin must not
        twin.__dict__.update(module.__dict__)
        twin.__dict__["forward"] = _wrap(module.__dict__["forward"], name, dynamic, backend)
    return twin
