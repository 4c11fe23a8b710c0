"""'cuda' tensors that live on the CPU: where PyTorch is installed, programs for CUDA tensors run; what is cuda and what isn't
is told apart as PyTorch would, and everything is given back."""
from __future__ import annotations

import threading

import cuda.tile as ct
import numpy as np
import pytest

from tileiras.sim import LaunchError, cutile

torch = pytest.importorskip("torch")
if torch.cuda.is_available():
    pytest.skip("PyTorch has a GPU of its own here", allow_module_level=True)

VERSION = torch.version.cuda


@ct.kernel
def add(a, b, c, TILE: ct.Constant[int]):
    i = ct.bid(0)
    ct.store(c, (i,), ct.load(a, (i,), (TILE,)) + ct.load(b, (i,), (TILE,)))


@pytest.fixture(autouse=True)
def installed():
    cutile.install("sm_90")
    yield
    cutile.uninstall()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.int32, torch.int64])
def test_a_launch_writes_cuda_tensors(dtype):
    a, b = (torch.arange(100, device="cuda").to(dtype) for _ in range(2))
    c = torch.zeros_like(a)
    ct.launch(torch.cuda.current_stream(), (2,), add, (a, b, c, 64))
    torch.testing.assert_close(c, 2 * a)


def test_what_is_cuda():
    here, there = torch.zeros(4, 4), torch.zeros(4, 4, device="cuda:0")
    cuda = torch.device("cuda", 0)
    for tensor in (there, there[1:], there.T, there + 1, there.clone(), torch.empty_like(there), there.view(torch.int32),
                   here.cuda(), here.to("cuda"), here.to(there), torch.ones(2, device=there.device), torch.stack([there, there]),
                   there.max(dim=0).values, torch.tensor([1.0], device=cuda), torch.nn.Parameter(there),
                   torch.randn(3, generator=torch.Generator(device="cuda"), device="cuda"), there.new_zeros(3)):
        assert tensor.is_cuda and tensor.device == cuda and tensor.get_device() == 0 and not tensor.is_cpu
    for tensor in (here, here[1:], here + 1, there.cpu(), there.to("cpu"), there.to(here), there.new_zeros(3, device="cpu"),
                   torch.from_numpy(np.zeros(3)), here.copy_(there)):
        assert not tensor.is_cuda and tensor.device.type == "cpu" and tensor.is_cpu


def test_copies_between_the_two_share_nothing():
    here = torch.zeros(4)
    there = here.cuda()
    there += 1
    back = there.cpu()
    there += 1
    assert (here.tolist(), back.tolist(), there.tolist()) == ([0] * 4, [1] * 4, [2] * 4)
    assert there.cuda() is there or there.cuda().data_ptr() == there.data_ptr()


def test_default_devices_and_contexts():
    with torch.device("cuda"):
        assert torch.zeros(3).is_cuda
    torch.set_default_device("cuda")
    assert torch.zeros(3).is_cuda and torch.get_default_device().type == "cuda"
    assert not torch.zeros(3, device="cpu").is_cuda
    torch.set_default_device(None)
    assert not torch.zeros(3).is_cuda


def test_gradients_flow_through_modules():
    layer = torch.nn.Linear(4, 2).to("cuda")
    x = torch.ones(3, 4, device="cuda", requires_grad=True)
    layer(x).sum().backward()
    assert all(p.is_cuda for p in layer.parameters()) and x.grad is not None and x.grad.is_cuda
    assert torch.allclose(x.grad, layer.weight.sum(0).expand(3, 4))


def test_functions_whose_gradient_is_a_kernel():
    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            out = torch.empty_like(x)
            ct.launch(torch.cuda.current_stream(), (1,), add, (x, x, out, 16))
            return out

        @staticmethod
        def backward(ctx, gradient):
            out = torch.empty_like(gradient)
            ct.launch(torch.cuda.current_stream(), (1,), add, (gradient, gradient, out, 16))
            return out
    x = torch.arange(16, dtype=torch.float32, device="cuda", requires_grad=True)
    Double.apply(x).backward(torch.ones(16, device="cuda"))
    assert x.grad.tolist() == [2.0] * 16


def test_operators_registered_for_cuda():
    @torch.library.custom_op("tileiras_test::twice", mutates_args=(), device_types="cuda")
    def twice(x: torch.Tensor) -> torch.Tensor:         # pyright: ignore[reportInvalidTypeForm]
        out = torch.empty_like(x)
        ct.launch(torch.cuda.current_stream(), (1,), add, (x, x, out, 16))
        return out
    assert twice(torch.ones(16, device="cuda")).tolist() == [2.0] * 16


@pytest.mark.parametrize("order", [("CPU", "CUDA"), ("CUDA", "CPU")], ids=" ".join)
def test_operators_registered_for_both(order):
    names = {"CPU": -1.0, "CUDA": 1.0}
    library = torch.library.Library(f"tileiras_{order[0]}_first", "DEF")
    library.define("which(Tensor x) -> Tensor")
    for key in order:
        library.impl("which", lambda x, value=names[key]: torch.full_like(x, value), key)
    assert getattr(torch.ops, f"tileiras_{order[0]}_first").which(torch.zeros(2, device="cuda")).tolist() == [1.0, 1.0]


def test_torch_cuda_answers_for_the_sm():
    cutile.install("sm_120")
    assert torch.cuda.is_available() and torch.cuda.device_count() == 1 and torch.cuda.current_device() == 0
    assert torch.cuda.get_device_capability() == (12, 0)
    properties = torch.cuda.get_device_properties(0)
    assert (properties.major, properties.minor, properties.multi_processor_count) == (12, 0, 170)
    assert properties.shared_memory_per_block_optin == 99 << 10         # the CUDA programming guide's table for 12.0


def test_streams_and_events():
    stream, start, end = torch.cuda.Stream(), torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    with torch.cuda.stream(stream):
        assert torch.cuda.current_stream() is stream
    assert torch.cuda.current_stream() is torch.cuda.default_stream() is not stream
    end.record(stream)
    torch.cuda.synchronize()
    assert start.elapsed_time(end) > 0
    with pytest.raises(RuntimeError, match="graphs"):
        torch.cuda.CUDAGraph()
    with pytest.raises(RuntimeError, match="graphs"):
        torch.cuda.graph(None)
    assert (torch.cuda.CUDAGraph | None).__args__ == (torch.cuda.CUDAGraph, type(None))     # transformers annotates with it


def test_threads_have_cuda_too():
    seen = []
    thread = threading.Thread(target=lambda: seen.append(torch.zeros(3, device="cuda").is_cuda))
    thread.start()
    thread.join()
    assert seen == [True]


def test_a_product_with_a_wider_result():
    a = torch.full((4, 4), 300.0, dtype=torch.float16, device="cuda")
    assert torch.mm(a, a, out_dtype=torch.float32).tolist() == [[360000.0] * 4] * 4


def test_products_are_rounded_once():
    """2048 + 1 + ... + 1: a sum in f16 stays at 2048."""
    a = torch.ones(1, 17, dtype=torch.float16, device="cuda")
    b = torch.tensor([2048.0] + [1.0] * 16, dtype=torch.float16, device="cuda")[:, None]
    for product in (a @ b, torch.matmul(a, b), torch.mm(a, b), torch.nn.functional.linear(a, b.T), a[None].bmm(b[None])[0]):
        assert product.dtype == torch.float16 and product.is_cuda and product.item() == 2064.0


def test_products_of_f32_are_tf32s_where_the_program_allows_it():
    """1 + 2^-11 lies between two tf32 numbers and goes to the even one, 1; 1 + 3 * 2^-11 to 1 + 2^-9."""
    a = torch.tensor([[1 + 2.0 ** -11, 1 + 3 * 2.0 ** -11]], device="cuda", requires_grad=True)
    one = torch.eye(2, device="cuda")
    assert torch.equal(a @ one, a)
    torch.set_float32_matmul_precision("high")
    try:
        out = a @ one
        out.sum().backward()
        assert out.tolist() == [[1.0, 1 + 2.0 ** -9]] and a.grad.tolist() == [[1.0, 1.0]]
        assert torch.equal(a.detach().cpu() @ one.cpu(), a.detach().cpu())
    finally:
        torch.set_float32_matmul_precision("highest")


def test_gradients_of_norms_are_rounded_once():
    """The bias' gradient is a sum of 512 ones: in bf16 it would stick at 256."""
    x, bias = torch.randn(512, 8, device="cuda").bfloat16(), torch.zeros(8, device="cuda").bfloat16().requires_grad_()
    weight = torch.ones(8, device="cuda").bfloat16()
    torch.nn.functional.layer_norm(x, (8,), weight, bias).backward(torch.ones_like(x))
    assert bias.grad.tolist() == [512.0] * 8 and bias.grad.dtype == torch.bfloat16


def test_products_are_exact_where_terms_cancel():
    """2^-12 beside 9e8 and back: f32 would lose it; what 2^-24 adds is rounded away at the end."""
    a = torch.tensor([[1.0, 30000.0, -30000.0, 2.0 ** -14]], dtype=torch.float16, device="cuda")
    b = torch.tensor([[2.0 ** -12], [30000.0], [30000.0], [2.0 ** -10]], dtype=torch.float16, device="cuda")
    assert (a @ b).item() == 2.0 ** -12


def test_attention_by_a_kernel_that_only_cuda_has():
    attention = pytest.importorskip("torch.nn.attention")
    q = torch.randn(1, 2, 8, 16, device="cuda")
    with attention.sdpa_kernel([attention.SDPBackend.CUDNN_ATTENTION]):
        out = torch.nn.functional.scaled_dot_product_attention(q, q, q)
    want = torch.softmax(q @ q.transpose(-1, -2) / 4, -1) @ q
    torch.testing.assert_close(out, want)


def test_tensors_elsewhere_are_refused():
    with pytest.raises(LaunchError, match="is on meta") as caught:
        ct.launch(torch.cuda.current_stream(), (1,), add, (*[torch.zeros(16, device="meta")] * 3, 16))
    assert isinstance(caught.value, ValueError)


def test_afterwards_pytorch_is_as_it_was():
    before = torch.zeros(3, device="cuda")
    cutile.uninstall()
    assert not torch.cuda.is_available() and not before.is_cuda and before.device.type == "cpu"
    with pytest.raises((AssertionError, RuntimeError)):
        torch.zeros(3, device="cuda")
    assert torch.Generator().__class__ is torch.Generator and torch.version.cuda == VERSION
    assert threading.Thread.start.__module__ == "threading"


def test_storages_that_are_gone_are_forgotten():
    """Notes don't grow with every tensor, and a new tensor at an old one's place isn't taken for it."""
    from tileiras.sim.cutile import torchcuda
    for _ in range(3 * torchcuda.FIRST_PRUNE):
        torch.zeros(1, device="cuda")
    assert len(torchcuda._mode.notes._cuda) <= torchcuda.FIRST_PRUNE
    assert not any(torch.zeros(1).is_cuda for _ in range(1000))
