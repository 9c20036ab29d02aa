"""Arrays and streams of torch, jax and cupy, where they are installed (tools/setup does not install them)."""

import minuet
import numpy as np
import oracle
import pytest


@pytest.fixture
def problem(device, context, generator):
    """Returns a convolution that is ready to run, its input, and the output of that."""
    cloud = oracle.make_cloud(generator, 90)
    x = generator.normal(size=(90, 8)).astype(np.float32)
    plan = minuet.Plan.convolution(context, generator.normal(size=(27, 8, 8)), kernel_size=3, submanifold=True)
    plan.load(device)
    execution = minuet.Execution(plan, device)
    coordinates = minuet.Coordinates(device, device.to_device(cloud))
    execution.prepare_maps(minuet.KernelMap(coordinates, coordinates, 3))
    return execution, cloud, x, device.to_host(execution.run(device.to_device(x)))


@pytest.fixture
def torch(device):
    module = pytest.importorskip("torch")
    if not device.is_cpu and not module.cuda.is_available():
        pytest.skip("torch sees no GPU")
    return module


def test_torch(device, torch, problem):
    execution, cloud, x, expected = problem
    given = torch.from_numpy(x).to(device.name)
    out = torch.full_like(given, torch.nan)
    assert execution.run(given, out=out) is out
    np.testing.assert_array_equal(out.cpu().numpy(), expected)
    wide = torch.zeros(90, 24, device=device.name)
    wide[:, 8:16] = given
    output = execution.run(wide[:, 8:16])
    np.testing.assert_array_equal(device.to_host(output), expected)
    coordinates = minuet.Coordinates(device, torch.from_numpy(cloud).to(device.name))
    assert coordinates.count == 90
    with pytest.raises(TypeError, match="int64"):
        minuet.Coordinates(device, torch.from_numpy(cloud).to(device.name).long())
    with pytest.raises(Exception, match="grad"):
        execution.run(given.clone().requires_grad_())


def test_torch_takes_outputs_without_a_copy(device, torch, problem):
    execution, _, x, expected = problem
    output = execution.run(torch.from_numpy(x).to(device.name))
    tensor = torch.from_dlpack(output)
    address = output.ctypes.data if device.is_cpu else output.__cuda_array_interface__["data"][0]
    assert tensor.data_ptr() == address
    del output
    np.testing.assert_array_equal(tensor.cpu().numpy(), expected)


def test_torch_bfloat16(device, context, torch, generator):
    cloud = oracle.make_cloud(generator, 20)
    coordinates = minuet.Coordinates(device, device.to_device(cloud))
    plan = minuet.Plan.convolution(context, torch.eye(8)[None] * 2, dtype=torch.bfloat16)
    plan.load(device)
    execution = minuet.Execution(plan, device)
    execution.prepare_maps(minuet.KernelMap(coordinates, coordinates))
    x = torch.arange(160, device=device.name, dtype=torch.bfloat16).reshape(20, 8)
    out = torch.empty_like(x)
    execution.run(x, out=out)
    assert torch.equal(out, x * 2)
    parameters = minuet.Parameters(plan, device)
    parameters.set({"weight": torch.eye(8, device=device.name, dtype=torch.bfloat16)[None] * 4})
    got = parameters.get("weight", out=torch.empty(1, 8, 8, dtype=torch.bfloat16))
    assert torch.equal(got[0], torch.eye(8, dtype=torch.bfloat16) * 4)


def test_torch_streams(device, torch, problem):
    """Work on a stream of torch's waits for torch's work on it, and torch's for ours."""
    if device.is_cpu:
        pytest.skip("the CPU device has no streams")
    execution, _, x, expected = problem
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        given = torch.full((90, 8), torch.nan, device=device.name)
        torch.cuda._sleep(50_000_000)
        given.copy_(torch.from_numpy(x))
        out = torch.full_like(given, torch.nan)
        execution.run(given, out=out, stream=stream)
        doubled = out * 2
    stream.synchronize()
    np.testing.assert_array_equal(doubled.cpu().numpy(), expected * 2)


def test_torch_graphs(device, torch, context, generator):
    """prepare and run of capacity mode in one graph of torch's, replayed for other clouds."""
    if device.is_cpu:
        pytest.skip("the CPU device has no graphs")
    plan = minuet.Plan.network(context, "minkunet42", channels=[8] * 9, dataflow="fused")
    plan.load(device)
    capacities = [256] * plan.info.levels
    execution = minuet.Execution(plan, device, level_capacity=capacities)
    coordinates = torch.zeros(256, 4, dtype=torch.int32, device=device.name)
    count = torch.zeros(1, dtype=torch.int32, device=device.name)
    features = torch.zeros(256, 4, device=device.name)
    out = torch.zeros(256, 8, device=device.name)

    def infer():
        stream = torch.cuda.current_stream()
        execution.prepare_on_device(coordinates, count, stream=stream)
        execution.run(features, out=out, stream=stream)

    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        infer()  # a plain run before the capture
    stream.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        infer()
    for voxels in (60, 200):
        cloud = oracle.make_cloud(generator, voxels)
        x = generator.normal(size=(voxels, 4)).astype(np.float32)
        coordinates[:voxels] = torch.from_numpy(cloud)
        features[:voxels] = torch.from_numpy(x)
        count.fill_(voxels)
        graph.replay()
        torch.cuda.synchronize()
        replayed = out.cpu().numpy()
        with torch.cuda.stream(stream):
            infer()
        stream.synchronize()
        np.testing.assert_array_equal(replayed, out.cpu().numpy())
        assert np.abs(replayed[:voxels]).max() > 0
        assert (replayed[voxels:] == 0).all()
    execution.release_captures()


def test_jax(cpu, context, generator):
    jax = pytest.importorskip("jax")
    cloud = oracle.make_cloud(generator, 30)
    x = generator.normal(size=(30, 8)).astype(np.float32)
    place = jax.devices("cpu")[0]  # Where there is a GPU, jax makes arrays on that.
    weight = jax.device_put(np.ones((27, 8, 8), np.float32), place)
    plan = minuet.Plan.convolution(context, weight, kernel_size=3, submanifold=True)
    plan.load(cpu)
    execution = minuet.Execution(plan, cpu)
    coordinates = minuet.Coordinates(cpu, jax.device_put(cloud, place))
    execution.prepare_maps(minuet.KernelMap(coordinates, coordinates, 3))
    given = jax.device_put(x, place)
    output = execution.run(given)
    np.testing.assert_array_equal(output, execution.run(x))
    np.testing.assert_array_equal(np.asarray(jax.dlpack.from_dlpack(output)), output)
    with pytest.raises(ValueError, match="read-only"):
        execution.run(x, out=given)


def test_cupy(device, problem):
    cupy = pytest.importorskip("cupy")
    if device.is_cpu:
        pytest.skip("cupy has arrays on GPUs only")
    execution, _, x, expected = problem
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        given = cupy.asarray(x)
        out = cupy.full_like(given, cupy.nan)
        execution.run(given, out=out, stream=stream)
        taken = cupy.from_dlpack(execution.run(given, stream=stream))
    stream.synchronize()
    np.testing.assert_array_equal(out.get(), expected)
    np.testing.assert_array_equal(taken.get(), expected)
