"""Single ops against float64 oracles in plain loops: every dtype and device, poisoned outputs."""

import math

import minuet
import numpy as np
import oracle
import pytest

DTYPES = ["float32", "tf32", "float16", "bfloat16"]


def poisoned(device, shape, dtype):
    host = oracle.encode(np.full(shape, np.nan, np.float32), dtype)
    return device.to_device(host)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("dataflow", ["gather-gemm-scatter", "fused"])
def test_convolution(device, context, generator, dtype, dataflow):
    cloud = oracle.make_cloud(generator, 150)
    features = oracle.encode(generator.integers(-64, 65, (150, 8)) / 64, dtype)
    weight = (generator.integers(-64, 65, (27, 8, 16)) / 64).astype(np.float32)
    shift = generator.integers(-8, 9, 16).astype(np.float32)
    scale = generator.integers(1, 4, 16).astype(np.float32)
    coordinates = minuet.Coordinates(device, device.to_device(cloud))
    plan = minuet.Plan.convolution(
        context,
        weight,
        kernel_size=3,
        submanifold=True,
        dtype=dtype,
        scale=scale,
        shift=shift,
        activation="relu",
        dataflow=dataflow,
    )
    plan.load(device)
    execution = minuet.Execution(plan, device)
    execution.prepare_maps(minuet.KernelMap(coordinates, coordinates, 3))
    out = poisoned(device, (150, 16), dtype)
    assert execution.run(device.to_device(features), out=out) is out
    actual = oracle.decode(device.to_host(out))
    pairs = oracle.pairs_of(cloud, cloud, (3, 3, 3), (1, 1, 1))
    expected, magnitude = oracle.convolve(pairs, oracle.decode(features), weight, 150)
    oracle.expect_close(actual, np.maximum(expected * scale + shift, 0), magnitude * scale + np.abs(shift), dtype)
    again = oracle.decode(device.to_host(execution.run(device.to_device(features))))
    np.testing.assert_array_equal(actual.view(np.uint32), again.view(np.uint32))
    assert execution.layers[0].dataflow == minuet.Dataflow[dataflow.upper().replace("-", "_")]


@pytest.mark.parametrize("activation", [*minuet.Activation, "leaky-relu", "gelu"])
def test_activations(device, context, activation):
    """A convolution of one offset by the unit matrix gives the activation itself."""
    functions = {
        "NONE": lambda x: x,
        "RELU": lambda x: max(x, 0.0),
        "LEAKY_RELU": lambda x: x if x > 0 else 0.25 * x,
        "GELU": lambda x: x * 0.5 * (1 + math.erf(x / math.sqrt(2))),
        "GELU_TANH": lambda x: 0.5 * x * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
        "SILU": lambda x: x / (1 + math.exp(-x)),
        "SIGMOID": lambda x: 1 / (1 + math.exp(-x)),
        "TANH": math.tanh,
    }
    name = activation.upper().replace("-", "_") if isinstance(activation, str) else activation.name
    x = np.linspace(-4, 4, 64, dtype=np.float32).reshape(8, 8)
    cloud = np.insert(np.arange(24, dtype=np.int32).reshape(8, 3), 0, 0, axis=1)
    coordinates = minuet.Coordinates(device, device.to_device(cloud))
    slope = 0.25 if name == "LEAKY_RELU" else 0.0
    plan = minuet.Plan.convolution(context, np.eye(8)[None], activation=activation, negative_slope=slope)
    plan.load(device)
    execution = minuet.Execution(plan, device)
    execution.prepare_maps(minuet.KernelMap(coordinates, coordinates))
    output = device.to_host(execution.run(device.to_device(x)))
    np.testing.assert_allclose(output, np.vectorize(functions[name])(x.astype(np.float64)), rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_down_and_up_with_a_residual_on_columns(device, context, generator, dtype):
    """A strided and a transposed convolution on one map, whose output is a range of columns of a wider matrix."""
    cloud = oracle.make_cloud(generator, 120)
    fine = minuet.Coordinates(device, device.to_device(cloud))
    coarse = fine.downsample(2)
    coarse_cloud = device.to_host(coarse.export())
    kernel_map = minuet.KernelMap(fine, coarse, 2)
    pairs = oracle.pairs_of(cloud, coarse_cloud, (2, 2, 2), (1, 1, 1))
    features = oracle.encode(generator.integers(-8, 9, (120, 4)) / 8, dtype)
    down = (generator.integers(-8, 9, (8, 4, 8)) / 8).astype(np.float32)
    up = (generator.integers(-8, 9, (2, 2, 2, 8, 8)) / 8).astype(np.float32)

    plans = [
        minuet.Plan.convolution(context, down, kernel_size=2, stride=2, dtype=dtype),
        minuet.Plan.convolution(context, up, kernel_size=2, stride=2, transposed=True, residual=True, dtype=dtype),
    ]
    for plan in plans:
        plan.load(device)
    first, second = (minuet.Execution(plan, device) for plan in plans)
    first.prepare_maps(kernel_map)
    middle = first.run(device.to_device(features))
    second.prepare_maps(kernel_map.transpose())
    assert [item.name for item in plans[1].inputs] == ["input", "residual"]
    residual = oracle.encode(generator.integers(-8, 9, (120, 8)) / 8, dtype)
    out = second.run(middle, device.to_device(residual))

    expected, magnitude = oracle.convolve(pairs, oracle.decode(features), down, len(coarse_cloud))
    got = oracle.decode(device.to_host(middle))
    oracle.expect_close(got, expected, magnitude, dtype)
    expected, magnitude = oracle.convolve(pairs[:, [0, 2, 1]], got, up.reshape(8, 8, 8), 120)
    actual = oracle.decode(device.to_host(out))
    oracle.expect_close(actual, expected + oracle.decode(residual), magnitude, dtype)

    if device.is_cpu:
        wide = np.full((120, 24), 7, out.dtype)
        columns = wide[:, 8:16]
        second.run(middle, residual, out=columns)
        np.testing.assert_array_equal(columns, out)
        assert (wide[:, :8] == 7).all()
        assert (wide[:, 16:] == 7).all()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("reduction", ["max", "average", "sum"])
def test_pooling(device, context, generator, dtype, reduction):
    cloud = oracle.make_cloud(generator, 100)
    fine = minuet.Coordinates(device, device.to_device(cloud))
    coarse = fine.downsample(2)
    coarse_cloud = device.to_host(coarse.export())
    features = oracle.encode(generator.integers(-64, 65, (100, 8)) / 64, dtype)
    plan = minuet.Plan.pooling(context, 8, reduction, kernel_size=3, stride=2, dtype=dtype, winners=reduction == "max")
    plan.load(device)
    execution = minuet.Execution(plan, device)
    execution.prepare_maps(minuet.KernelMap(fine, coarse, 3))
    result = execution.run(device.to_device(features))
    pairs = oracle.pairs_of(cloud, coarse_cloud, (3, 3, 3), (1, 1, 1))
    expected, winners = oracle.pool(pairs, oracle.decode(features), len(coarse_cloud), reduction)
    output = result[0] if reduction == "max" else result
    oracle.expect_close(oracle.decode(device.to_host(output)), expected, np.abs(expected) + 0.1, dtype)
    if reduction == "max":
        assert [item.dtype for item in plan.outputs][1] == "int32"
        assert device.to_host(result[1]).dtype == np.int32
        np.testing.assert_array_equal(device.to_host(result[1]), winners)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("stride", [(2, 2, 2), (3, 1, 2)])
def test_space_to_channel_and_back(device, context, generator, dtype, stride):
    cloud = oracle.make_cloud(generator, 100)
    fine = minuet.Coordinates(device, device.to_device(cloud))
    coarse = fine.downsample(stride)
    padding = 0 if max(stride) > 2 else None
    down = minuet.KernelMap(fine, coarse, stride, padding=padding)
    features = oracle.encode(generator.integers(-64, 65, (100, 6)) / 64, dtype)
    plans = (
        minuet.Plan.space_to_channel(context, 6, stride, dtype=dtype),
        minuet.Plan.channel_to_space(context, 6, stride, dtype=dtype),
    )
    results = [device.to_device(features)]
    for plan, kernel_map in zip(plans, (down, down.transpose()), strict=True):
        plan.load(device)
        execution = minuet.Execution(plan, device)
        execution.prepare_maps(kernel_map)
        results.append(execution.run(results[-1]))

    volume = math.prod(stride)
    cells = [tuple(cell) for cell in device.to_host(coarse.export())]
    expected = np.zeros((len(cells), volume, 6), features.dtype)
    for voxel, row in zip(cloud, features, strict=True):
        inside = voxel[1:] % stride
        child = (inside[0] * stride[1] + inside[1]) * stride[2] + inside[2]
        expected[cells.index((voxel[0], *(voxel[1:] - inside))), child] = row
    np.testing.assert_array_equal(device.to_host(results[1]), expected.reshape(len(cells), volume * 6))
    np.testing.assert_array_equal(device.to_host(results[2]), features)


def test_pointwise(device, context, generator):
    x, y = generator.normal(size=(2, 60, 8)).astype(np.float32)
    scale, shift = generator.normal(size=(2, 8)).astype(np.float32)
    cloud = device.to_device(oracle.make_cloud(generator, 60))
    coordinates = minuet.Coordinates(device, cloud)
    kernel_map = minuet.KernelMap(coordinates, coordinates)
    steps = [minuet.Step("affine", scale=scale, shift=shift), "add", minuet.Step("leaky_relu", number=0.25)]
    plan = minuet.Plan.pointwise(context, 8, steps)
    plan.load(device)
    execution = minuet.Execution(plan, device)
    execution.prepare_maps(kernel_map)
    actual = device.to_host(execution.run(device.to_device(x), device.to_device(y)))
    expected = x.astype(np.float64) * scale + shift + y
    expected = np.where(expected < 0, expected * 0.25, expected)
    np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-5)

    labels = minuet.Plan.pointwise(context, 8, [minuet.PointwiseKind.SOFTMAX, "argmax"])
    labels.load(device)
    execution = minuet.Execution(labels, device)
    execution.prepare_maps(kernel_map)
    result = execution.run(device.to_device(x))
    assert result.shape == (60, 1)
    np.testing.assert_array_equal(device.to_host(result)[:, 0], x.argmax(1))


def test_bfloat16_by_bits(device, context, generator):
    """uint16 in gives uint16 out, whether ml_dtypes is there or not."""
    cloud = oracle.make_cloud(generator, 20)
    coordinates = minuet.Coordinates(device, device.to_device(cloud))
    weight = np.eye(8, dtype=np.float32)[None] * 2
    plan = minuet.Plan.convolution(context, weight, dtype="bfloat16")
    plan.load(device)
    execution = minuet.Execution(plan, device)
    execution.prepare_maps(minuet.KernelMap(coordinates, coordinates))
    values = generator.integers(-32, 33, (20, 8)).astype(np.float32)
    bits = (values.view(np.uint32) >> 16).astype(np.uint16)
    output = device.to_host(execution.run(device.to_device(bits)))
    assert output.dtype == np.uint16
    np.testing.assert_array_equal(oracle.decode(output), values * 2)


@pytest.mark.parametrize(
    "options, message",
    [
        ({"weight": np.zeros((26, 4, 4))}, "27"),
        ({"weight": np.zeros((4, 4))}, r"weight has the shape \[4, 4\]"),
        ({"weight": np.full((27, 4, 4), np.inf)}, r"weight\[0\] is inf"),
        ({"weight": np.zeros((27, 4, 4)), "kernel_size": (3, 3)}, "there are 3 axes"),
        ({"weight": np.zeros((27, 4, 4)), "dtype": "float64"}, "dtype 'float64' is not known"),
        ({"weight": np.zeros((27, 4, 4)), "dataflow": "fast"}, "use one of auto, gather_gemm_scatter, fused"),
        ({"weight": np.zeros((27, 4, 4)), "scale": np.zeros(3), "shift": np.zeros(4)}, "scale"),
        (
            {"weight": np.zeros((27, 8, 4)), "in_channels": 4, "out_channels": 8},
            r"the shape \[27, 8, 4\], and \[27, 4, 8\] or \[3, 3, 3, 4, 8\] is needed",
        ),
        (
            {"weight": np.zeros((1, 9, 3, 8, 4))},
            r"the shape \[1, 9, 3, 8, 4\], and \[27, any, any\] or \[3, 3, 3, any, any\] is needed",
        ),
        (
            {"weight": np.zeros((3, 3, 3, 8, 4)), "kernel_size": 1},
            r"the shape \[3, 3, 3, 8, 4\], and \[1, any, any\] or .* check kernel_size",
        ),
        ({"weight": np.zeros((27, 4, 4)), "activation": "swish"}, "activation 'swish' is not known"),
        ({"weight": np.zeros((27, 4, 4)), "activation": "relu", "negative_slope": 0.1}, "negative_slope"),
        ({"weight": np.zeros((27, 4, 4)), "groups": 0}, "groups is 0"),
        ({"weight": np.zeros((27, 4, 4)), "kernel_size": 2**32 + 3}, "kernel_size is 4294967299, and -2147483648 to"),
        ({"in_channels": 2**32 + 4, "out_channels": 4}, "in_channels is 4294967300"),
        ({"in_channels": 4}, "needs in_channels and out_channels"),
        ({"weight": np.zeros((81, 4, 4)), "ndim": 5}, "ndim is 5"),
    ],
)
def test_wrong_options(context, options, message):
    with pytest.raises(ValueError, match=message):
        minuet.Plan.convolution(context, **{"kernel_size": 3, **options})


def test_weights_with_a_kernel_of_axes(device, context, generator):
    """A weight of [k_x, k_y, k_z, in, out] and of [offsets, in, out] make the same plan."""
    weight = generator.integers(-8, 9, (3, 1, 2, 4, 8)).astype(np.float32)
    plans = [
        minuet.Plan.convolution(context, given, kernel_size=np.array([3, 1, 2]), in_channels=4, out_channels=8)
        for given in (weight, weight.reshape(6, 4, 8))
    ]
    assert plans[0].serialize() == plans[1].serialize()
    assert plans[0].parameters[0].shape == (6, 4, 8)


def test_groups_have_no_other_dataflow(cpu, context):
    plan = minuet.Plan.convolution(
        context, np.zeros((27, 2, 4)), kernel_size=3, submanifold=True, groups=2, dataflow="gather_gemm_scatter"
    )
    with pytest.raises(NotImplementedError) as caught:
        plan.load(cpu)
    assert isinstance(caught.value, minuet.UnimplementedError)
    assert caught.value.status == minuet.Status.UNIMPLEMENTED


def test_wrong_tensors(cpu, context):
    coordinates = minuet.Coordinates(cpu, np.zeros((1, 4), np.int32))
    plan = minuet.Plan.convolution(context, np.ones((1, 4, 4)))
    plan.load(cpu)
    execution = minuet.Execution(plan, cpu)
    good = cpu.empty((1, 4))
    with pytest.raises(minuet.FailedPreconditionError):
        execution.run(good)
    execution.prepare_maps(minuet.KernelMap(coordinates, coordinates))
    with pytest.raises(ValueError, match=r"takes 1 inputs \(input\), and 2 are given"):
        execution.run(good, good)
    with pytest.raises(TypeError, match="the input 'input' has elements of float64"):
        execution.run(np.ones((1, 4)))
    with pytest.raises(ValueError, match=r"the input 'input' has the shape \[1, 5\], and \[any, 4\]"):
        execution.run(cpu.empty((1, 5)))
    with pytest.raises(minuet.InvalidArgumentError):
        execution.run(cpu.empty((2, 4)))
    with pytest.raises(minuet.InvalidArgumentError, match="overlap"):
        execution.run(good, out=good)
    readonly = cpu.empty((1, 4))
    readonly.flags.writeable = False
    with pytest.raises(ValueError, match="'output' is read-only"):
        execution.run(good, out=readonly)
    with pytest.raises(ValueError, match="gives 1 outputs"):
        execution.run(good, out=[good, good])
    with pytest.raises(IndexError, match="there is no output 1"):
        execution.output_shape(1)


def test_many_maps_at_once(device, context, generator):
    cloud = oracle.make_cloud(generator, 80)
    queue = minuet.Queue(device)
    coordinates = minuet.Coordinates(device, device.to_device(cloud), queue=queue)
    kernel_map = minuet.KernelMap(coordinates, coordinates, 3)
    x = device.to_device(generator.normal(size=(80, 4)).astype(np.float32))
    results = []
    plans = [
        minuet.Plan.convolution(context, generator.normal(size=(27, 4, 4)), kernel_size=3, submanifold=True)
        for _ in range(2)
    ]
    for together in (True, False):
        executions = []
        for plan in plans:
            plan.load(device)
            executions.append(minuet.Execution(plan, device, queue=queue))
        if together:
            minuet.prepare_maps_together([(execution, kernel_map) for execution in executions])
        else:
            for execution in executions:
                execution.prepare_maps(kernel_map)
        results.append([device.to_host(execution.run(x)) for execution in executions])
    np.testing.assert_array_equal(results[0], results[1])


def test_kernels_of_a_plan(device, context):
    """What a launch by the driver API needs. The CPU has no kernels."""
    scale = np.arange(8, dtype=np.float32)
    plan = minuet.Plan.pointwise(context, 8, [minuet.Step("affine", scale=scale), "relu"], dtype="float16")
    with pytest.raises(minuet.FailedPreconditionError, match="minuet_plan_compile"):
        plan.kernels("sm_80")
    plan.compile(device.arch)
    kernels = plan.kernels(device.arch)
    if device.arch == "cpu":
        assert kernels == ()
        return
    (kernel,) = kernels
    assert (kernel.layer, kernel.candidate, kernel.kernel_count, kernel.family) == (0, 0, 1, "pointwise")
    assert kernel.image[:4] == b"\x7fELF" and kernel.symbol and kernel.grid_rows == 0
    fields = {field.name: field for field in kernel.fields}
    assert fields["scale"].data == scale.tobytes() and fields["scale"].kind == "pointer"
    assert fields["input"].data is None and fields["operands"].count == 8
    assert kernel.fields[-1].offset + kernel.fields[-1].size <= kernel.arguments_bytes
