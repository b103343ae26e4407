"""Steps with tensors that a kernel must not be given by address, many of them: run in a process of its own, for what
goes wrong here ends it. Prints how many steps were taken, and how many of them on the fast path."""

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


def negated(t):
    return (-t.detach()).as_subclass(Negated)


def lazily_negated(t):
    return torch._neg_view(-t.detach())


def lazily_conjugated(t):
    return torch.complex(t.detach(), -t.detach()).conj().imag if t.is_floating_point() else t


def zero(t):
    return torch._efficientzerotensor(t.shape, dtype=t.dtype)


def freed(t):
    t = t.detach().clone()
    t.untyped_storage().resize_(0)
    return t


def shrunk(t):
    t = t.detach().clone()
    t.untyped_storage().resize_(max(1, t.nbytes - t.element_size()))
    return t


def strided(t):
    return torch.stack([t.detach(), t.detach()], -1)[..., 0]


def offset(t):
    return torch.cat([t.detach().flatten()[:1], t.detach().flatten()])[1:].view_as(t)


def unaligned(t):
    room = torch.zeros(t.nbytes + t.element_size() + 1, dtype=torch.uint8)
    view = torch.frombuffer(room.numpy().data, dtype=t.dtype, offset=1, count=t.numel()).view_as(t)
    return view.copy_(t.detach())


def distributed(t):
    from torch.distributed.tensor import DTensor, Replicate

    return DTensor.from_local(t.detach(), MESH, [Replicate()], run_check=False)


def other_dtype(t):
    return t.detach().to(random.choice([torch.uint8, torch.int32, torch.int64, torch.float16, torch.float64]))


def smaller(t):
    return t.detach()[..., :-1]


def larger(t):
    return torch.cat([t.detach(), t.detach()], -1)


def transposed(t):
    return t.detach().transpose(-1, -2) if t.dim() > 1 else t


def sparse(t):
    return t.detach().to_sparse()


def meta(t):
    return t.detach().to("meta")


def complex_instead(t):
    return t.detach().to(torch.complex64)


def nothing(t):
    return None


def number(t):
    return 1.5


SAME = [lazily_negated, lazily_conjugated, strided, offset, unaligned]  # other memory, the same numbers
OTHER = [
    negated,
    zero,
    freed,
    shrunk,
    other_dtype,
    smaller,
    larger,
    transposed,
    sparse,
    meta,
    complex_instead,
    nothing,
    number,
]
MESH = None


def mesh():
    """For DTensors, if they can be made here."""
    import torch.distributed as dist
    from torch.distributed.device_mesh import init_device_mesh

    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    return init_device_mesh("cpu", (1,))


def one(dtype):
    """A step with one tensor spoilt: the numbers are those of the long way, or there is an error."""
    L, m, d, batch = (
        random.choice([1, 3]),
        random.choice([1, 5]),
        random.choice([1, 3]),
        random.choice([0, 1, 2, 9, 40]),
    )
    layer = UnICORNN(d, m, L, skip_layers=2 if L == 3 else 0, dtype=dtype)
    u = torch.randn(batch, d, dtype=dtype)
    state = None
    if batch and random.random() < 0.8:
        start = (torch.randn(L, batch, m, dtype=dtype),) * 2 if random.random() < 0.5 else None
        _, state = layer(u[None], start)
    spoil, what = random.choice(SAME + OTHER), random.choice(["u", "y", "z", "grid", "rest", "w", "V", "b", "c"])
    if what == "u":
        u = spoil(u) if batch else u
    elif what in ("w", "V", "b", "c"):
        letter, name = getattr(layer, what), str(random.randrange(L))
        bad = spoil(getattr(letter, name).detach())
        del letter._parameters[name]
        setattr(letter, name, bad)
    elif state is not None:
        parts = {"y": state.y, "z": state.z, "grid": state.grid, "rest": state.rest}
        if parts[what] is not None:
            parts[what] = spoil(parts[what])
        state = State(parts.pop("y"), parts.pop("z"), **parts)
    gone = spoil in (freed, shrunk)  # nobody can read these, torch neither
    taken = fast.step(u, layer.weights, layer.dt, layer.alpha, state, "auto")
    if gone:
        touched = what in "wVbcu" or state is not None
        assert taken is None or not touched or batch == 0 or what == "rest", (spoil.__name__, what)
        return taken is not None
    try:
        ours, after = layer.step(u, state)
        theirs, expected = layer(u[None] if isinstance(u, torch.Tensor) else u, state, output="last")
    except (UnicornnError, RuntimeError, AttributeError, TypeError, NotImplementedError):
        assert taken is None, (spoil.__name__, what)  # what is refused has not been read before
        return False
    for a, b in zip((ours, *after), (theirs, *expected), strict=True):
        assert torch.equal(torch.as_tensor(a), torch.as_tensor(b)), (spoil.__name__, what)
    return taken is not None


if __name__ == "__main__":
    count, seed = int(sys.argv[1]), int(sys.argv[2])
    random.seed(seed)
    torch.manual_seed(seed)
    try:
        MESH = mesh()
        OTHER.append(distributed)
    except (ImportError, RuntimeError, ValueError):
        print("no DTensors here")
    with torch.no_grad():
        hits = sum(one(random.choice([torch.float32, torch.float64])) for _ in range(count))
    print(count, hits)
