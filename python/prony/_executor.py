"""PyTorch behind prony's executor: what `torch-eager-*` and `torch-inductor-*` do.

A process of its own runs this file, not as a part of the package, whose import would bring torch
before the process has been confined: it imports `_native` alone, and `_native.executor_main` calls the
hooks below, all in one thread. `open` imports torch, then the sandbox closes, then graphs come in
(FXPROTO, checked in C, as the tree that python/src/fx.h describes). They are still somebody else's:
operators are looked up among ATen's and those of modules that PRONY_TORCH_LIBRARIES names, and no name
of theirs gets into code that is generated.

Weights are mapped, once for all graphs and slots of a process, however many of them use a file.
"""
from __future__ import annotations

import builtins
import ctypes
import gc
import importlib
import importlib.machinery
import importlib.util
import keyword
import mmap
import os
import runpy
import shutil
import subprocess
import sys
import tarfile
import tempfile
import types
import warnings
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import IO, Any, TypeAlias, cast

torch: Any = None  # since open()

# Nothing of torch can be named here, as it isn't imported yet.
Tensor: TypeAlias = Any
Device: TypeAlias = Any
Dtype: TypeAlias = Any
Module: TypeAlias = Any

# Of a graph, as python/src/fx.h describes it: the whole, and a part, whose first item is its kind.
Tree: TypeAlias = dict[str, Any]
Value: TypeAlias = tuple[Any, ...]

HERE = os.path.dirname(os.path.abspath(__file__))

# ATen operators that reach beyond their tensors.
REFUSED = frozenset({"from_file"})

NAMESPACES = {"aten", "prims"}  # of operators that are run; more since import_libraries()

# Numbers of ONNX, and of proto/fxgraph.proto.
ONNX_TYPES = {1: "float32", 2: "uint8", 3: "int8", 4: "uint16", 5: "int16", 6: "int32", 7: "int64",
              9: "bool", 10: "float16", 11: "float64", 12: "uint32", 13: "uint64", 14: "complex64",
              15: "complex128", 16: "bfloat16"}
FX_TYPES = {16: "bool", 32: "int8", 33: "int16", 34: "int32", 35: "int64", 48: "uint8",
            49: "uint16", 50: "uint32", 51: "uint64",
            65: "float16", 66: "float32", 67: "float64", 81: "bfloat16", 98: "complex32",
            99: "complex64", 100: "complex128"}
MEMORY_FORMATS = ("contiguous_format", "channels_last", "channels_last_3d", "preserve_format")
LAYOUTS = ("strided", "sparse_coo")

COMPILERS_MAX = 8  # that run at the same time
# What Inductor tries the compiler for, beyond its sets of instructions, where the processor has it.
MORE_INSTRUCTIONS = {"_is_avx512_bf16_supported": "-mavx512bf16", "_is_vnni_supported": "-mavx512vnni",
                     "_is_amx_tile_supported": "-mamx-tile -mamx-bf16 -mamx-int8",
                     "_is_amx_fp16_supported": "-mamx-fp16"}
HEADER_NODES = 60  # of a graph that has kernels enough to make up for a compiled header


class Unavailable(Exception):
    """What was asked for isn't on this machine."""


# ---- Weights ----

class Weights:
    """Tensors in files: a file is mapped once, a tensor that was cast or moved is made once, and both
    go when the last graph that uses them does."""

    def __init__(self, device: Device, lowered: Dtype | None):
        self.device, self.lowered = device, lowered
        self.maps: Any = weakref.WeakValueDictionary()
        self.tensors: Any = weakref.WeakValueDictionary()

    def map(self, path: str) -> tuple[tuple[int, int], Any]:
        with open(path, "rb") as file:
            status = os.fstat(file.fileno())
            key = status.st_dev, status.st_ino
            found = self.maps.get(key)
            if found is None and status.st_size > 0:
                found = self.maps[key] = map_file(file.fileno(), status.st_size)
        return key, found

    def get(self, folder: str, value: Value) -> Tensor:
        """The tensor that a value ("tensor", …) stands for."""
        _, number, dims, index, offset, size = value
        dtype = getattr(torch, FX_TYPES[number])
        if size == 0:
            return lower(torch.empty(dims, dtype=dtype, device=self.device), self.lowered)
        file, data = self.map(os.path.join(folder, "weights", str(index)))
        key = file, offset, number, tuple(dims)
        tensor = self.tensors.get(key)
        if tensor is None:
            tensor = torch.frombuffer(data, dtype=dtype, offset=offset,
                                      count=size // dtype.itemsize).view(dims)
            tensor = self.tensors[key] = lower(tensor, self.lowered).to(self.device)
        return tensor


def map_file(descriptor: int, size: int) -> ctypes.Array[ctypes.c_ubyte]:
    """The bytes of a file, for reading, for as long as somebody has them. Python's own mmap would keep
    a descriptor for each, and networks have more weights than a process may have descriptors."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int,
                          ctypes.c_long)
    libc.munmap.argtypes = ctypes.c_void_p, ctypes.c_size_t
    address = libc.mmap(None, size, mmap.PROT_READ, mmap.MAP_SHARED | mmap.MAP_POPULATE, descriptor, 0)
    if address == ctypes.c_void_p(-1).value:
        error = ctypes.get_errno()
        raise OSError(error, f"cannot map a file of weights: {os.strerror(error)}")
    data = (ctypes.c_ubyte * size).from_address(address)
    weakref.finalize(data, libc.munmap, address, size)
    return data


def lower(tensor: Tensor, dtype: Dtype | None) -> Tensor:
    """In a precision that was asked for, if there is one and the tensor has numbers for it."""
    return tensor.to(dtype) if dtype is not None and tensor.is_floating_point() else tensor


# ---- Graphs ----

def find_target(target: Value) -> Any:
    if target[0] == "operator":
        import operator
        return builtins.round if target[1] == "round" else getattr(operator, target[1])
    if target[0] == "torch":
        return getattr(torch, target[1])
    if target[0] == "higher_order":
        return getattr(torch.ops.higher_order, target[1])
    _, namespace, name, overload = target
    if namespace not in NAMESPACES:
        raise ValueError(f"it calls '{namespace}.{name}', and only ATen operators are run, besides those "
                         "of Python modules that PRONY_TORCH_LIBRARIES names where the worker runs")
    packet = getattr(getattr(torch.ops, namespace), name, None)
    found = getattr(packet, overload, None)
    if not isinstance(found, torch._ops.OpOverload) or found.namespace != namespace:
        raise ValueError(f"this PyTorch has no operator '{namespace}.{name}.{overload}'")
    if name in REFUSED:
        raise ValueError(f"the operator '{namespace}.{name}' isn't run")
    return found


class Builder:
    """Makes a torch.fx.GraphModule of a tree. Nodes get names of their own: those of the tree, which
    become nothing but keys here, could be words of Python."""

    def __init__(self, tree: Tree, tensor: Callable[[Value], Tensor], device: Device, lowered: Dtype | None,
                 inline: bool):
        """`inline`: weights are attributes of the module; else its first arguments."""
        self.tensor, self.device, self.lowered = tensor, device, lowered
        self.graph, self.root = torch.fx.Graph(), torch.nn.Module()
        self.env: dict[str, Any] = {}
        self.fixed: list[Tensor] = []  # weights that are arguments
        self.constants = 0        # weights and graphs that are attributes
        self.inputs: list[str] = []
        self.mutates = False      # it writes to tensors, maybe to those that it was given
        values = tree["fixed_inputs"]
        for i, node in enumerate(tree["nodes"]):
            if node[0] == "placeholder" and i < len(values):
                self.env[node[1]] = self.add_fixed(i, values[i], inline)
            elif node[0] == "placeholder":
                self.inputs.append(node[1])
                self.env[node[1]] = self.graph.placeholder(f"input_{i}")
            elif node[0] == "call_function":
                self.env[node[1]] = self.add_call(*node[2:])
            elif tree.get("inner"):
                self.graph.output(self.value(node[2]))
            else:
                self.graph.output(tuple(self.leaves(node[2])))
        self.module = torch.fx.GraphModule(self.root, self.graph)

    def add_fixed(self, i: int, value: Value, inline: bool) -> Any:
        if value[0] != "tensor" or inline:
            return self.value(value)
        self.fixed.append(self.tensor(value))
        return self.graph.placeholder(f"weight_{i}")

    def add_call(self, target: Value, args: list[Value], keywords: list[tuple[str, Value]]) -> Any:
        function = find_target(target)
        schema = getattr(function, "_schema", None)
        self.mutates |= schema is not None and schema.is_mutable
        for name, _ in keywords:
            if keyword.iskeyword(name):
                raise ValueError(f"'{name}' isn't the name of an argument")
        return self.graph.call_function(function, tuple(self.value(a) for a in args),
                                        {name: self.value(v) for name, v in keywords})

    def leaves(self, value: Value) -> Iterator[Any]:
        """What of the result is an output: nodes and tensors."""
        if value[0] in ("list", "tuple"):
            for item in value[1]:
                yield from self.leaves(item)
        elif value[0] in ("node", "tensor"):
            yield self.value(value)

    def attribute(self) -> str:
        """A new name. Counted here: the module's own lists have a tensor once, however many names it
        has."""
        self.constants += 1
        return f"constant_{self.constants - 1}"

    def value(self, value: Value) -> Any:
        kind = value[0]
        if kind == "node":
            return self.env[value[1]]
        if kind == "tensor":
            name = self.attribute()
            self.root.register_buffer(name, self.tensor(value), persistent=False)
            return self.graph.get_attr(name)
        if kind == "graph":
            inner = Builder({"nodes": value[1], "fixed_inputs": [], "inner": True}, self.tensor, self.device,
                            self.lowered, inline=True)
            self.mutates |= inner.mutates
            name = self.attribute()
            self.root.add_module(name, inner.module)
            return self.graph.get_attr(name)
        if kind == "list":
            return [self.value(v) for v in value[1]]
        if kind == "tuple":
            return tuple(self.value(v) for v in value[1])
        if kind == "device":
            return self.device  # the graph's is that of the machine it came from
        if kind == "dtype":
            dtype = getattr(torch, FX_TYPES[value[1]])
            return self.lowered if self.lowered is not None and dtype.is_floating_point else dtype
        if kind == "memory_format":
            return getattr(torch, MEMORY_FORMATS[value[1]])
        if kind == "layout":
            return getattr(torch, LAYOUTS[value[1]])
        return None if kind == "none" else value[1]


# ---- What was compiled ----

class Compiled:
    """Inductor's folder of what it has compiled, to be found again by a later process: a part of it for
    each graph, as an archive. Whoever keeps that is outside of the sandbox, and doesn't look inside."""

    def __init__(self, folder: str):
        self.folder = folder

    def files(self) -> dict[str, tuple[int, int]]:
        """Names, and what tells whether they are still the same."""
        found = {}
        for path, _, names in os.walk(self.folder):
            if os.path.basename(path) != "locks":
                for name in names:
                    status = os.stat(os.path.join(path, name))
                    found[os.path.relpath(os.path.join(path, name), self.folder)] = (
                        status.st_size, status.st_mtime_ns)
        return found

    def unpack(self, path: str) -> set[str]:
        """What an archive has, in its place."""
        with tarfile.open(path) as archive:
            for member in archive:
                place = os.path.join(self.folder, member.name)
                os.makedirs(os.path.dirname(place), exist_ok=True)
                with open(place, "wb") as file:
                    shutil.copyfileobj(cast(IO[bytes], archive.extractfile(member)), file)
            return set(archive.getnames())

    def pack(self, names: set[str]) -> int:
        """A descriptor of an archive of these. Without owners: the sandbox keeps from asking who they
        are."""
        path = f"{self.folder}.tar"
        with tarfile.open(path, "w") as archive:
            for name in sorted(names):
                with open(os.path.join(self.folder, name), "rb") as content:
                    member = tarfile.TarInfo(name)
                    member.size = os.fstat(content.fileno()).st_size
                    archive.addfile(member, content)
        descriptor = os.open(path, os.O_RDONLY)
        os.unlink(path)
        return descriptor


# ---- A runtime, and a graph in it ----

class Runtime:
    """What all slots of this process share: how it was opened."""

    def __init__(self, device: Device, lowered: Dtype | None, compiles: bool):
        self.device, self.lowered, self.compiles = device, lowered, compiles
        self.weights = Weights(device, lowered)
        self.compiled = Compiled(os.environ["TORCHINDUCTOR_CACHE_DIR"])


class Model:
    """One slot: a graph, what is bound to it, and the result of its last run."""

    def __init__(self, runtime: Runtime):
        self.runtime = runtime
        self.function: Any = None
        self.fixed: tuple[Tensor, ...] = ()
        self.given: tuple[Tensor, ...] = ()  # the inputs as they were bound
        self.args: tuple[Tensor, ...] = ()   # what the function is called with
        self.result: tuple[Any, ...] | None = None
        self.kept: list[Tensor] = []  # tensors whose memory outputs() has named
        self.types: list[Dtype] | None = None  # of the outputs, where another precision computes them
        self.compiled: dict[Any, Any] = {}  # functions by the shapes and types of their inputs
        self.build: Any = None        # makes the module, anew each time
        self.archive: str | None = None  # of what an earlier process compiled
        self.made: set[str] = set()   # files that belong to the graph
        self.is_new = False           # and some of which nobody has kept

    def load(self, folder: str, tree: Tree) -> None:
        r = self.runtime

        def build() -> Builder:
            return Builder(tree, lambda value: r.weights.get(folder, value), r.device, r.lowered,
                           inline=r.compiles)

        built, self.build = build(), build
        self.inputs, self.fixed = built.inputs, tuple(built.fixed)
        self.any_shape: Any = None   # since other shapes than the first ones came
        self.copies = built.mutates  # those that it is given must stay as they are
        self.fresh = built.mutates or r.lowered is not None or r.device.type != "cpu"
        self.function = None if r.compiles else built.module.forward
        self.plain = None
        if r.lowered is not None:
            self.plain = Builder(tree, hollow_tensor, torch.device("meta"), None,
                                 inline=True).module

    def bind(self, inputs: Sequence[tuple[str, int, list[int], Any]]) -> None:
        self.release()
        given = {name: view_tensor(name, dtype, dims, data) for name, dtype, dims, data in inputs}
        missing = [name for name in self.inputs if name not in given]
        if missing:
            raise ValueError(f"the input '{missing[0]}' isn't given")
        self.given = tuple(given[name] for name in self.inputs)
        if self.plain is not None:
            self.types = output_types(self.plain, self.given)
        self.args = (*self.fixed, *self.given)
        if self.runtime.compiles:
            self.compile()

    def compile(self) -> None:
        """Compiles for inputs like these, if that wasn't done yet: here, as runs are timed. The first
        ones get a function for exactly their shapes, all others one for any shape, which has to look
        at them at each call."""
        signature = tuple((t.dtype, tuple(t.shape)) for t in self.given)
        self.function = self.compiled.get(signature)
        if self.function is not None:
            return
        self.prepare()
        module = self.build().module
        before = self.find_compiled()
        # It takes longer to compile the header than to compile a few kernels without that.
        torch._inductor.config.cpp_cache_precompile_headers = len(module.graph.nodes) >= HEADER_NODES
        if not self.compiled:
            self.function = torch._inductor.compile(module, list(self.args))
        else:
            if self.any_shape is None:
                self.any_shape = torch.compile(module, fullgraph=True, dynamic=True)
            self.function = self.any_shape
        self.run()
        self.compiled[signature] = self.function
        self.result = None
        after = self.runtime.compiled.files()
        new = {name for name in after if after[name] != before.get(name)}
        self.is_new |= not new <= self.made
        self.made |= new
        gc.collect()

    def find_compiled(self) -> dict[str, tuple[int, int]]:
        """Brings in what was compiled of this graph before; what there is then."""
        if self.archive is not None:
            try:
                self.made = self.runtime.compiled.unpack(self.archive)
            except (OSError, tarfile.TarError):
                pass  # then it is compiled again
            self.archive = None
        return self.runtime.compiled.files()

    def take_made(self) -> int:
        if not self.is_new:
            return -1
        self.is_new = False
        return self.runtime.compiled.pack(self.made)

    def reuse(self, archive: str | None) -> None:
        self.archive = archive

    def prepare(self) -> None:
        """Before each run, outside the clock. The memory of the inputs may have other data since."""
        self.result = None
        if not self.fresh:
            return
        r = self.runtime
        args = [*self.fixed, *(lower(t, r.lowered).to(r.device) for t in self.given)]
        self.args = tuple(t.clone() for t in args) if self.copies else tuple(args)

    def run(self) -> None:
        self.result = self.function(*self.args)

    def run_and_wait(self) -> None:
        self.result = self.function(*self.args)
        torch.cuda.synchronize(self.runtime.device)

    def outputs(self) -> list[tuple[str, int, list[int], int, int]]:
        if self.result is None:
            raise RuntimeError("nothing was run")
        self.kept = []
        listed = []
        for i, value in enumerate(self.result):
            tensor = value if isinstance(value, torch.Tensor) else torch.tensor(value)
            if self.runtime.lowered is not None and tensor.is_floating_point():
                tensor = tensor.to(self.types[i] if self.types else torch.float32)
            if tensor.layout != torch.strided:
                raise RuntimeError(f"output {i} is a sparse tensor")
            tensor = tensor.detach().cpu().resolve_conj().resolve_neg().contiguous()
            number = onnx_number(tensor.dtype)
            self.kept.append(tensor)
            listed.append((f"output_{i}", number, list(tensor.shape), tensor.data_ptr(),
                           tensor.nbytes))
        return listed

    def release(self) -> None:
        """Lets go of what was bound, and of all that may be a view of it."""
        self.given = self.args = ()
        self.result, self.kept, self.types = None, [], None

    def close(self) -> None:
        self.release()
        self.function = self.plain = self.build = self.any_shape = None
        self.fixed, self.compiled = (), {}
        gc.collect()


def view_tensor(name: str, dtype: int, dims: list[int], data: Any) -> Tensor:
    if dtype not in ONNX_TYPES:
        raise ValueError(f"input '{name}': PyTorch has no tensors of this type")
    kind = getattr(torch, ONNX_TYPES[dtype])
    if len(data) == 0:
        return torch.empty(dims, dtype=kind)
    return torch.frombuffer(data, dtype=kind).view(dims)


def onnx_number(dtype: Dtype) -> int:
    name = str(dtype).removeprefix("torch.")
    for number, known in ONNX_TYPES.items():
        if known == name:
            return number
    raise RuntimeError(f"an output is of type {name}, which can't be sent")


def hollow_tensor(value: Value) -> Tensor:
    """The shape and the type of a tensor, and nothing else."""
    return torch.empty(value[2], dtype=getattr(torch, FX_TYPES[value[1]]), device="meta")


def output_types(module: Module, given: Sequence[Tensor]) -> list[Dtype] | None:
    """Of a graph on the device "meta", found without computing it; None: they depend on values."""
    try:
        result = module(*(t.to("meta") for t in given))
    except (RuntimeError, NotImplementedError):
        return None
    return [getattr(v, "dtype", torch.float64) for v in result]


def words(fault: BaseException) -> str:
    """What an exception says, for somebody on another machine: no paths of this one, and not the
    pages of advice on its own settings in which Dynamo's end."""
    text = str(fault)
    if isinstance(fault, Unavailable):
        return text
    for folder in (*sys.path, sys.prefix):
        if len(folder) > len("/usr/lib"):
            text = text.replace(f"{folder}/", "")
    for advice in ("\n\nWhile executing", "\n\nSet TORCH", "\n\nYou can suppress", "\n\nfrom user code", "\n\n\n"):
        text = text.partition(advice)[0]
    return text.strip() or type(fault).__name__


# ---- Hooks ----

def has_driver() -> bool:
    """Without it there is no need to import a PyTorch with CUDA, only to be told so after seconds."""
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    return True


def find_torch(software: str) -> tuple[str, dict[str, Any]]:
    """Where torch is and what its version says, without importing it."""
    spec = importlib.util.find_spec("torch")
    if spec is None or not spec.origin:
        raise Unavailable(f"'{sys.executable}', which PRONY_PYTHON names, has no torch")
    folder = os.path.dirname(spec.origin)
    version = runpy.run_path(os.path.join(folder, "version.py"))
    if software.endswith("-cuda") and not version.get("cuda"):
        raise Unavailable(f"PyTorch {version['__version__']} was built without CUDA")
    if software.endswith("-cuda") and not has_driver():
        raise Unavailable("PyTorch finds no GPU: there is no driver for one (libcuda.so.1)")
    compiler = os.environ.get("CXX", "g++")
    if "-inductor-" in software and not shutil.which(compiler):
        raise Unavailable(f"inductor needs a C++ compiler, and there is no '{compiler}'")
    return folder, version


def import_torch(software: str, scratch: str | None) -> None:
    """Brings in all that will be needed, while files can still be read."""
    global torch
    # Threads that start now would not be confined.
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    if "-inductor-" in software:
        if scratch is None:
            raise Unavailable("there is no scratch folder for the compiler's files")
        for name in ("TMPDIR", "HOME", "TRITON_CACHE_DIR"):
            os.environ[name] = scratch
        # Threads that wait for compilers; for a GPU it would be a pool of processes.
        threads = 1 if software.endswith("-cuda") else min(len(os.sched_getaffinity(0)), COMPILERS_MAX)
        os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = str(threads)
        os.environ["TORCH_WARM_POOL"] = "0"
        os.environ["USER"] = os.environ["LOGNAME"] = "prony"
        os.chdir(scratch)
    # Folders that would be looked for, and made, even by who needs none.
    tempfile.tempdir = scratch or "/"
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = (
        os.path.join(tempfile.tempdir, "compiled") if "-inductor-" in software else tempfile.tempdir)
    warnings.filterwarnings("ignore")
    import torch as imported
    import torch.fx
    torch = imported
    import_libraries()
    if "-inductor-" in software:
        import torch._dynamo
        import torch._inductor.compile_fx
        torch._dynamo.config.recompile_limit = 64
        if has_all_instructions():
            from torch._inductor import cpu_vec_isa
            torch._inductor.config.cpp.vec_isa_ok = True
            cpu_vec_isa.VecISA.check_build = lambda *_: True  # what it would compile is taken
    else:
        # Computing on "meta" imports Dynamo. In some versions, such as 2.9, that looks for this module,
        # which makes a folder, and does without.
        sys.modules.setdefault("torch.distributed.nn", None)  # type: ignore[arg-type]
    torch.set_grad_enabled(False)
    torch.manual_seed(0)  # or the generator would read a device later


def import_libraries() -> None:
    """Brings in modules with operators of their own, which this machine's administrator has named."""
    names = [name for name in os.environ.get("PRONY_TORCH_LIBRARIES", "").replace(",", " ").split() if name]
    before = set(torch._C._dispatch_get_all_op_names())
    for name in names:
        try:
            importlib.import_module(name)
        except Exception as fault:
            raise Unavailable(f"'{name}', which PRONY_TORCH_LIBRARIES names, can't be imported: {fault}") from None
    NAMESPACES.update(op.partition("::")[0] for op in set(torch._C._dispatch_get_all_op_names()) - before)


def has_all_instructions() -> bool:
    """Whether the compiler and this PyTorch have all of the processor's vector instructions. Inductor
    finds out by compiling PyTorch's headers for each set of them, which takes longer than the kernels
    of most graphs, and still does where the answer is no."""
    from torch._inductor import cpu_vec_isa
    known = cpu_vec_isa.x86_isa_checker()
    sets = [isa for isa in cpu_vec_isa.supported_vec_isa_list
            if all(name in known for name in str(isa).split())]
    library = ctypes.CDLL(os.path.join(os.path.dirname(torch.__file__), "lib", "libtorch_cpu.so"))
    flags = {flag for isa in sets for flag in isa.build_arch_flags().split()}
    flags |= {flag for has, more in MORE_INSTRUCTIONS.items() if getattr(torch.cpu, has, bool)()
              for flag in more.split()}
    return bool(sets) and all(
        hasattr(library, f"Sleef_expf{isa.bit_width() // 32}_u10") for isa in sets) and \
        subprocess.run([os.environ.get("CXX", "g++"), *sorted(flags), "-fsyntax-only", "-x", "c++", "-"],
                       stdin=subprocess.DEVNULL, capture_output=True).returncode == 0


def choose_device(software: str, options: dict[str, str]) -> Device:
    if not software.endswith("-cuda"):
        return torch.device("cpu")
    if not torch.cuda.is_available():
        raise Unavailable("PyTorch finds no GPU")
    index = int(options.get("device") or 0)
    if index >= torch.cuda.device_count():
        raise Unavailable(f"PyTorch finds no GPU {index}")
    return torch.device("cuda", index)


def is_on(options: dict[str, str], key: str) -> bool:
    return options.get(key, "off") in ("on", "1", "")


def choose_precision(options: dict[str, str]) -> Dtype | None:
    if is_on(options, "fp16") and is_on(options, "bf16"):
        raise ValueError("either fp16 or bf16, not both")
    if is_on(options, "fp16"):
        return torch.float16
    return torch.bfloat16 if is_on(options, "bf16") else None


RUNTIME: Runtime | None = None


def start(software: str, options: dict[str, str], scratch: str | None) -> Runtime:
    import_torch(software, scratch)
    runtime = Runtime(choose_device(software, options), choose_precision(options),
                      "-inductor-" in software)
    threads = int(options.get("threads") or 0)
    if threads > 0:
        torch.set_num_threads(threads)
    # Garbage is collected between runs, not in them.
    gc.disable()
    gc.freeze()
    return runtime


def readable(software: str, folder: str) -> list[str]:
    """What Python and torch may still have to read."""
    found = [folder, HERE, *(p for p in sys.path if os.path.isdir(p))]
    if "-inductor-" in software:
        found += [sys.prefix, sys.base_prefix]
    return list(dict.fromkeys(found))


def hook_open(software: str, options: list[tuple[str, str]], probe: bool,
              scratch: str | None) -> tuple[Model | None, str, str, list[str]]:
    global RUNTIME
    folder, version = find_torch(software)
    if probe and software.endswith("-cuda"):
        import_torch(software, "/")
        choose_device(software, dict(options))
    elif not probe and RUNTIME is None:
        RUNTIME = start(software, dict(options), scratch)
    return (Model(RUNTIME) if RUNTIME else None, f"PyTorch {version['__version__']}",
            os.path.join(folder, "__init__.py"), readable(software, folder))


def hook_load(model: Model, folder: str, tree: Tree) -> tuple[Callable[[], None], Callable[[], None]]:
    model.load(folder, tree)
    return (model.run if model.runtime.device.type == "cpu" else model.run_and_wait,
            model.prepare)


HOOKS = types.SimpleNamespace(open=hook_open, reuse=Model.reuse, load=hook_load, bind=Model.bind,
                              made=Model.take_made, outputs=Model.outputs,
                              close=lambda model: model and model.close(), words=words,
                              Unavailable=Unavailable)


def load_native() -> Any:
    """The extension beside this file, without the package around it."""
    name, path = "prony._native", os.path.join(HERE, "_native.abi3.so")
    loader = importlib.machinery.ExtensionFileLoader(name, path)
    module = importlib.util.module_from_spec(importlib.machinery.ModuleSpec(name, loader, origin=path))
    loader.exec_module(module)
    return module


if __name__ == "__main__":
    sys.exit(load_native().executor_main(HOOKS))
