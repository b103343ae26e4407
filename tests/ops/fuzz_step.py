"""Steps with tensors that a kernel must not read by address. Run as a separate process, because a mistake ends it.
Prints the number of steps and the number of those on the fast path."""

import random
import sys

import torch

from unicornn import State, UnICORNN
from unicornn._ops.cpu import step as fast
from unicornn.errors import UnicornnError


class Negated(torch.Tensor):
    """A subclass that means something else than its memory says."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        with torch._C.DisableTorchFunctionSubclass():
            plain = torch.utils._pytree.tree_map(
                lambda t: -t.as_subclass(torch.Tensor) if isinstance(t, cls) else t, (args, kwargs or {})
            )
            return func(*plain[0], **plain[1])


def resized(t, size):
    t = t.detach().clone()
    t.untyped_storage().resize_(size)
    return t


def unaligned(t):
    memory = torch.zeros(t.nbytes + t.element_size() + 1, dtype=torch.uint8)
    view = torch.frombuffer(memory.numpy().data, dtype=t.dtype, offset=1, count=t.numel()).view_as(t)
    return view.copy_(t.detach())


def distributed(t):
    from torch.distributed.tensor import DTensor, Replicate

    return DTensor.from_local(t.detach(), MESH, [Replicate()], run_check=False)


DTYPES = [torch.uint8, torch.int32, torch.int64, torch.float16, torch.float64]
SAME = {  # the same numbers in other memory
    "lazily negated": lambda t: torch._neg_view(-t.detach()),
    "conjugated": lambda t: torch.complex(t, -t).detach().conj().imag if t.is_floating_point() else t,
    "strided": lambda t: torch.stack([t.detach(), t.detach()], -1)[..., 0],
    "offset": lambda t: torch.cat([t.detach().flatten()[:1], t.detach().flatten()])[1:].view_as(t),
    "unaligned": unaligned,
}
UNREADABLE = {  # even by torch
    "freed": lambda t: resized(t, 0),
    "shrunk": lambda t: resized(t, max(1, t.nbytes - t.element_size())),
}
OTHER = {
    "negated": lambda t: (-t.detach()).as_subclass(Negated),
    "zero": lambda t: torch._efficientzerotensor(t.shape, dtype=t.dtype),
    "other dtype": lambda t: t.detach().to(random.choice(DTYPES)),
    "smaller": lambda t: t.detach()[..., :-1],
    "larger": lambda t: torch.cat([t.detach(), t.detach()], -1),
    "transposed": lambda t: t.detach().transpose(-1, -2) if t.dim() > 1 else t,
    "sparse": lambda t: t.detach().to_sparse(),
    "meta": lambda t: t.detach().to("meta"),
    "complex": lambda t: t.detach().to(torch.complex64),
    "nothing": lambda t: None,
    "number": lambda t: 1.5,
}
MESH = None


def mesh():
    """For DTensors, if they can be made here."""
    import torch.distributed as dist
    from torch.distributed.device_mesh import init_device_mesh

    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    return init_device_mesh("cpu", (1,))


def one(dtype):
    """A step with one unusual tensor: the numbers are those of the ordinary path, or there is an error."""
    L, m, d, batch = (random.choice(sizes) for sizes in ([1, 3], [1, 5], [1, 3], [0, 1, 2, 9, 40]))
    layer = UnICORNN(d, m, L, skip_layers=2 if L == 3 else 0, dtype=dtype)
    u = torch.randn(batch, d, dtype=dtype)
    state = None
    if batch and random.random() < 0.8:
        start = (torch.randn(L, batch, m, dtype=dtype),) * 2 if random.random() < 0.5 else None
        _, state = layer(u[None], start)
    kind, what = random.choice([*SAME, *UNREADABLE, *OTHER]), random.choice(["u", "y", "z", "grid", "rest", *"wVbc"])
    change = (SAME | UNREADABLE | OTHER)[kind]
    if what == "u":
        u = change(u) if batch else u
    elif what in "wVbc":
        letter, name = getattr(layer, what), str(random.randrange(L))
        bad = change(getattr(letter, name).detach())
        del letter._parameters[name]
        setattr(letter, name, bad)
    elif state is not None:
        parts = {"y": state.y, "z": state.z, "grid": state.grid, "rest": state.rest}
        if parts[what] is not None:
            parts[what] = change(parts[what])
        state = State(parts.pop("y"), parts.pop("z"), **parts)
    taken = fast.step(u, layer.weights, layer.dt, layer.alpha, state, "auto")
    if kind in UNREADABLE:
        touched = what in "wVbcu" or state is not None
        assert taken is None or not touched or batch == 0 or what == "rest", (kind, what)
        return taken is not None
    try:
        ours, after = layer.step(u, state)
        theirs, expected = layer(u[None] if isinstance(u, torch.Tensor) else u, state, output="last")
    except (UnicornnError, RuntimeError, AttributeError, TypeError, NotImplementedError):
        assert taken is None, (kind, what)  # the kernel must not read what the layer rejects
        return False
    for a, b in zip((ours, *after), (theirs, *expected), strict=True):
        assert torch.equal(torch.as_tensor(a), torch.as_tensor(b)), (kind, what)
    return taken is not None


if __name__ == "__main__":
    count, seed = int(sys.argv[1]), int(sys.argv[2])
    random.seed(seed)
    torch.manual_seed(seed)
    try:
        MESH = mesh()
        OTHER["distributed"] = distributed
    except (ImportError, RuntimeError, ValueError):
        print("no DTensors here")
    with torch.no_grad():
        hits = sum(one(random.choice([torch.float32, torch.float64])) for _ in range(count))
    print(count, hits)
