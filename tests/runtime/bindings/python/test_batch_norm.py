"""Batch norms in training and their gradients, against float64: every dtype and device, poisoned outputs."""

from __future__ import annotations

import dataclasses
import itertools

import minuet
import numpy as np
import oracle
import pytest

DTYPES = ["float32", "tf32", "float16", "bfloat16"]
CHANNELS, EPS = 8, 1e-3


@dataclasses.dataclass
class Batch:
    """The rows in use of a batch, and what normalizes them, as they are stored."""

    input: np.ndarray
    residual: np.ndarray
    gradient: np.ndarray
    weight: np.ndarray
    bias: np.ndarray


def make_batch(generator, rows, dtype):
    means, spreads = generator.uniform(-8, 8, CHANNELS), generator.uniform(0.5, 3, CHANNELS)
    features = [
        generator.normal(means, spreads, (rows, CHANNELS)),
        *generator.uniform(-2, 2, (2, rows, CHANNELS)),
    ]
    numbers = generator.uniform(-2, 2, (2, CHANNELS)).astype(np.float32)
    return Batch(*(oracle.encode(each, dtype) for each in features), *numbers)


class Reference:
    """What forward and backward compute, in float64 and two passes, with the magnitudes that errors are relative to."""

    def __init__(self, batch, has_residual, has_relu):
        x, residual, gradient = (
            oracle.decode(each).astype(np.float64) for each in (batch.input, batch.residual, batch.gradient)
        )
        weight, bias = batch.weight.astype(np.float64), batch.bias.astype(np.float64)
        self.rows, self.mean, self.mean_size = len(x), x.mean(0), np.abs(x).mean(0)
        self.variance = ((x - self.mean) ** 2).mean(0)
        self.inverse_std = 1 / np.sqrt(self.variance + EPS)
        normal = (x - self.mean) * self.inverse_std
        size = np.abs(normal) + np.abs(self.mean) * self.inverse_std  # The mean is stored in fp32.
        self.output = normal * weight + bias + residual * has_residual
        self.output_size = size * np.abs(weight) + np.abs(bias) + np.abs(residual) * has_residual
        # A result this close to 0 may have the other sign in fp32.
        self.is_close = has_relu & (np.abs(self.output) < 1e-3)
        passes = (self.output > 0) | (not has_relu)
        if has_relu:
            self.output = np.maximum(self.output, 0)
        g = self.of_residual = np.where(passes & ~self.is_close, gradient, 0)
        self.of_bias, self.of_bias_size = g.sum(0), np.abs(g).sum(0)
        self.of_weight, self.of_weight_size = (g * normal).sum(0), (np.abs(g) * size).sum(0)
        self.of_input = self.inverse_std * weight * (g - g.mean(0) - normal * (g * normal).mean(0))
        self.of_input_size = (
            self.inverse_std * np.abs(weight) * (np.abs(g) + np.abs(g).mean(0) + size * (np.abs(g) * size).mean(0))
        )


def mask_gradient(batch, reference):
    """Returns the gradient with 0 where it is not certain whether the ReLU passes it on."""
    return np.where(reference.is_close, np.zeros_like(batch.gradient), batch.gradient)


def padded(device, rows, capacity, dtype):
    """Returns rows on the device, with NaN behind them."""
    host = oracle.encode(np.full((capacity, rows.shape[1]), np.nan), dtype)
    host[: len(rows)] = rows
    return device.to_device(host)


def poisoned(device, shape, dtype="float32"):
    return device.to_device(oracle.encode(np.full(shape, np.nan), dtype))


def read(device, array):
    return oracle.decode(device.to_host(array))


def expect_saved(device, saved, reference):
    expected = np.concatenate([reference.mean, reference.inverse_std, [reference.rows]])
    size = np.concatenate([reference.mean_size, reference.inverse_std, [reference.rows]])
    oracle.expect_close(device.to_host(saved), expected, size, "float32")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("has_residual", [False, True])
@pytest.mark.parametrize("has_relu", [False, True])
def test_one_rank(device, context, generator, dtype, has_residual, has_relu):
    rows, capacity = int(generator.integers(2, 600)), 700
    batch = make_batch(generator, rows, dtype)
    reference = Reference(batch, has_residual, has_relu)
    op = minuet.BatchNorm(
        context, CHANNELS, eps=EPS, running_mean=True, momentum=0.25, residual=has_residual, relu=has_relu, dtype=dtype
    )
    op.load(device)
    given = {"weight": device.to_device(batch.weight), "bias": device.to_device(batch.bias)}
    given["row_count"] = device.to_device(np.array([rows], np.int32))
    given["workspace"] = device.empty(op.bytes(device.arch, capacity), "uint8")
    x = padded(device, batch.input, capacity, dtype)
    residual = padded(device, batch.residual, capacity, dtype) if has_residual else None
    old_mean = generator.uniform(-2, 2, CHANNELS).astype(np.float32)
    old_variance = generator.uniform(0, 2, CHANNELS).astype(np.float32)
    mean, variance, count = (device.to_device(each) for each in (old_mean, old_variance, np.array([4], np.int64)))
    running = {"running_mean": mean, "running_variance": variance, "batch_count": count}
    out = minuet.Normalized(
        poisoned(device, (capacity, CHANNELS), dtype), poisoned(device, 2 * CHANNELS + 1), mean, variance, count
    )
    done = op.forward(device, x, residual=residual, **given, **running, out=out)
    assert done == out
    output = read(device, out.output)
    oracle.expect_close(output[:rows], reference.output, reference.output_size, dtype)
    assert not output[rows:].any()
    expect_saved(device, out.saved, reference)
    expected = 0.75 * old_mean + 0.25 * reference.mean
    oracle.expect_close(device.to_host(mean), expected, np.abs(old_mean) + np.abs(reference.mean), "float32")
    expected = 0.75 * old_variance + 0.25 * reference.variance * rows / (rows - 1)
    oracle.expect_close(device.to_host(variance), expected, expected, "float32")
    assert device.to_host(count).tolist() == [5]

    gradient = padded(device, mask_gradient(batch, reference), capacity, dtype)
    given["output"] = out.output if has_residual and has_relu else None
    wanted = minuet.NormGradients(
        input=poisoned(device, (capacity, CHANNELS), dtype),
        weight=poisoned(device, CHANNELS),
        bias=poisoned(device, CHANNELS),
        residual=poisoned(device, (capacity, CHANNELS), dtype) if has_residual else None,
    )
    assert op.backward(device, x, gradient, out.saved, **given, out=wanted) == wanted
    of_input = read(device, wanted.input)
    oracle.expect_close(of_input[:rows], reference.of_input, reference.of_input_size, dtype)
    assert not of_input[rows:].any()
    for times in (1, 2):
        oracle.expect_close(
            device.to_host(wanted.weight), times * reference.of_weight, times * reference.of_weight_size, "float32"
        )
        oracle.expect_close(
            device.to_host(wanted.bias), times * reference.of_bias, times * reference.of_bias_size, "float32"
        )
        op.backward(device, x, gradient, out.saved, **given, accumulate=True, out=wanted)
    if has_residual:
        of_residual = read(device, wanted.residual)
        assert np.array_equal(of_residual[:rows], reference.of_residual) and not of_residual[rows:].any()
    of_bias = minuet.NormGradients(bias=wanted.bias)
    fresh = op.backward(device, x, gradient, out.saved, **given, accumulate=True, out=of_bias)
    assert fresh.weight is None and fresh.bias is wanted.bias
    assert np.array_equal(read(device, fresh.input), of_input)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("has_residual", [False, True])
def test_several_ranks(device, context, generator, dtype, has_residual):
    """Ranks with other numbers of rows, one of them with none, have the results of the whole batch."""
    rows, cuts = 300, [0, 90, 90, 300]
    batch = make_batch(generator, rows, dtype)
    reference = Reference(batch, has_residual, True)
    gradient = mask_gradient(batch, reference)
    op = minuet.BatchNorm(context, CHANNELS, eps=EPS, residual=has_residual, relu=True, dtype=dtype)
    op.load(device)
    norm = {"weight": device.to_device(batch.weight), "bias": device.to_device(batch.bias)}
    ranks = [slice(begin, end) for begin, end in itertools.pairwise(cuts)]
    parts = [device.to_device(batch.input[rank]) for rank in ranks]
    residuals = [device.to_device(batch.residual[rank]) if has_residual else None for rank in ranks]
    gradients = [device.to_device(gradient[rank]) for rank in ranks]

    moments = [device.to_host(op.sum(device, part)) for part in parts]
    assert [each[-1] for each in moments] == [90, 0, 210]
    all_moments = device.to_device(np.stack(moments))
    done = [
        op.apply(device, part, all_moments, residual=residual, **norm)
        for part, residual in zip(parts, residuals, strict=True)
    ]
    output = np.concatenate([read(device, each.output) for each in done])
    oracle.expect_close(output, reference.output, reference.output_size, dtype)
    for each in done:
        expect_saved(device, each.saved, reference)

    summed = []
    for part, of_output, each in zip(parts, gradients, done, strict=True):
        masks = each.output if has_residual else None
        summed.append(op.sum_gradients(device, part, of_output, each.saved, output=masks, **norm))
    for name, size in (("weight", reference.of_weight_size), ("bias", reference.of_bias_size)):
        total = np.sum([device.to_host(getattr(each, name)) for each in summed], 0, dtype=np.float64)
        oracle.expect_close(total, getattr(reference, f"of_{name}"), size, "float32")
    sums = device.to_device(np.sum([device.to_host(each.sums) for each in summed], 0))
    of_input = []
    for part, of_output, each, rank in zip(parts, gradients, done, summed, strict=True):
        unread = None if has_residual else of_output
        of_residual = rank.residual if has_residual else None
        made = op.apply_gradients(device, part, unread, each.saved, sums, residual_gradient=of_residual, **norm)
        of_input.append(read(device, made))
    oracle.expect_close(np.concatenate(of_input), reference.of_input, reference.of_input_size, dtype)
    if has_residual:
        of_residual = np.concatenate([read(device, each.residual) for each in summed])
        assert np.array_equal(of_residual, reference.of_residual)


def test_two_steps_of_one_rank_have_the_bits_of_one(device, context, generator):
    batch = make_batch(generator, 500, "float16")
    op = minuet.BatchNorm(context, CHANNELS, dtype="float16")
    op.load(device)
    x, gradient = device.to_device(batch.input), device.to_device(batch.gradient)
    whole = op.forward(device, x)
    moments = poisoned(device, (1, 2 * CHANNELS + 1))
    row = device.to_device(np.full(2 * CHANNELS + 1, np.nan, np.float32))
    assert op.sum(device, x, out=row) is row
    moments = device.to_device(device.to_host(row)[None])
    parts = op.apply(device, x, moments)
    assert np.array_equal(read(device, whole.output), read(device, parts.output))
    assert np.array_equal(device.to_host(whole.saved), device.to_host(parts.saved))
    assert whole.running_mean is None and whole.batch_count is None
    one = op.backward(device, x, gradient, whole.saved)
    two = op.sum_gradients(device, x, gradient, whole.saved)
    out = poisoned(device, (500, CHANNELS), "float16")
    assert op.apply_gradients(device, x, gradient, whole.saved, two.sums, out=out) is out
    assert np.array_equal(read(device, one.input), read(device, out))
    for name in ("weight", "bias"):
        assert np.array_equal(device.to_host(getattr(one, name)), device.to_host(getattr(two, name)))
    assert one.sums is None and two.input is None and one.residual is None


def test_cumulative_statistics_and_columns(device, context, generator):
    """The running statistics are the means over the batches. On the CPU, features are columns of a wider matrix."""
    op = minuet.BatchNorm(context, CHANNELS, eps=EPS, running_mean=True, cumulative=True)
    op.load(device)
    batches = [make_batch(generator, rows, "float32") for rows in (40, 60, 25)]
    references = [Reference(each, False, False) for each in batches]
    now = minuet.Normalized(
        running_mean=device.to_device(np.full(CHANNELS, 7, np.float32)),
        running_variance=device.to_device(np.full(CHANNELS, 7, np.float32)),
        batch_count=device.to_device(np.zeros(1, np.int64)),
    )
    for batch in batches:
        x = device.to_device(batch.input)
        if device.is_cpu:  # A DeviceArray has no slices.
            wide = np.full((len(batch.input), 2 * CHANNELS), np.nan, np.float32)
            x = wide[:, 4 : 4 + CHANNELS]
            x[:] = batch.input
        now = op.forward(
            device,
            x,
            running_mean=now.running_mean,
            running_variance=now.running_variance,
            batch_count=now.batch_count,
        )
    assert device.to_host(now.batch_count).tolist() == [3]
    mean = np.mean([each.mean for each in references], 0)
    size = np.mean([np.abs(each.mean) for each in references], 0)
    oracle.expect_close(device.to_host(now.running_mean), mean, size, "float32")
    variance = np.mean([each.variance * each.rows / (each.rows - 1) for each in references], 0)
    oracle.expect_close(device.to_host(now.running_variance), variance, variance, "float32")


def test_without_rows(device, context):
    op = minuet.BatchNorm(context, CHANNELS, running_mean=True, momentum=1.0)
    op.load(device)
    numbers = np.arange(CHANNELS, dtype=np.float32)
    x = device.empty((0, CHANNELS), "float32")
    running = [device.to_device(each) for each in (numbers, numbers + 1, np.array([3], np.int64))]
    done = op.forward(device, x, running_mean=running[0], running_variance=running[1], batch_count=running[2])
    assert np.array_equal(device.to_host(done.running_mean), numbers)
    assert np.array_equal(device.to_host(done.running_variance), numbers + 1)
    assert device.to_host(done.batch_count).tolist() == [3]
    given = op.backward(device, x, x, done.saved)
    assert given.input.shape == (0, CHANNELS)
    assert not device.to_host(given.weight).any() and not device.to_host(given.bias).any()


def test_refusals(context, cpu):
    with pytest.raises(minuet.InvalidArgumentError, match="the channels are 0"):
        minuet.BatchNorm(context, 0)
    with pytest.raises(minuet.InvalidArgumentError, match="momentum"):
        minuet.BatchNorm(context, 4, momentum=0.5)
    with pytest.raises(minuet.InvalidArgumentError, match="momentum"):
        minuet.BatchNorm(context, 4, running_mean=True)
    op, x = minuet.BatchNorm(context, 4), np.zeros((6, 4), np.float32)
    with pytest.raises(minuet.FailedPreconditionError, match="load"):
        op.forward(minuet.Device(minuet.Context(), "cpu"), x)
    op.load(cpu)
    with pytest.raises(ValueError, match="input has the shape"):
        op.forward(cpu, np.zeros((6, 5), np.float32))
    with pytest.raises(TypeError, match="input has elements of float16"):
        op.forward(cpu, x.astype(np.float16))
    with pytest.raises(ValueError, match="must be adjacent"):
        op.forward(cpu, np.zeros((6, 8), np.float32)[:, ::2])
    with pytest.raises(ValueError, match="weight has the shape"):
        op.forward(cpu, x, weight=np.ones(5, np.float32))
    with pytest.raises(minuet.InvalidArgumentError, match="residual is given"):
        op.forward(cpu, x, residual=x.copy())
    for name in ("running_mean", "batch_count"):
        array = np.ones(4, np.float32) if name == "running_mean" else np.ones(1, np.int64)
        with pytest.raises(minuet.InvalidArgumentError, match="created without has_running_mean"):
            op.forward(cpu, x, **{name: array})
        with pytest.raises(minuet.InvalidArgumentError, match="created without has_running_mean"):
            op.forward(cpu, x, out=minuet.Normalized(**{name: array}))
    with pytest.raises(minuet.InvalidArgumentError, match="output"):
        op.forward(cpu, x, out=minuet.Normalized(output=x))
    with pytest.raises(ValueError, match="output has the shape"):
        op.forward(cpu, x, out=minuet.Normalized(output=np.zeros((5, 4), np.float32)))
    fixed = np.zeros((6, 4), np.float32)
    fixed.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        op.forward(cpu, x, out=minuet.Normalized(output=fixed))
    with pytest.raises(minuet.ResourceExhaustedError, match="workspace has"):
        op.forward(cpu, x, workspace=cpu.empty(16, "uint8"))
    with pytest.raises(ValueError, match="all_moments has the shape"):
        op.apply(cpu, x, np.zeros(9, np.float32))
    with pytest.raises(minuet.InvalidArgumentError, match="ranks is 0"):
        op.apply(cpu, x, np.zeros((0, 9), np.float32))
    saved = op.forward(cpu, x).saved
    with pytest.raises(minuet.InvalidArgumentError, match="output is given"):
        op.backward(cpu, x, x.copy(), saved, output=x.copy())
    with pytest.raises(ValueError, match="neither weight nor bias"):
        op.backward(cpu, x, x.copy(), saved, accumulate=True)
    with pytest.raises(ValueError, match="out has sums"):
        op.backward(cpu, x, x.copy(), saved, out=minuet.NormGradients(sums=np.zeros(8, np.float32)))
    with pytest.raises(ValueError, match="out has input"):
        op.sum_gradients(cpu, x, x.copy(), saved, out=minuet.NormGradients(input=x.copy()))
    with pytest.raises(minuet.InvalidArgumentError, match="residual_gradient is given"):
        op.backward(cpu, x, x.copy(), saved, out=minuet.NormGradients(residual=x.copy()))
    with pytest.raises(minuet.InvalidArgumentError, match="sums is null"):
        op.apply_gradients(cpu, x, x.copy(), saved, None)
    cumulative = minuet.BatchNorm(context, 4, running_mean=True, cumulative=True)
    cumulative.load(cpu)
    ones = np.ones(4, np.float32)
    with pytest.raises(minuet.InvalidArgumentError, match="batch_count is null"):
        cumulative.forward(cpu, x, running_mean=ones, running_variance=ones)


@pytest.mark.parametrize("eps", [0.0, -1e-5, 1e-50])
def test_an_eps_that_is_0_in_float32_is_refused(context, eps):
    """The library takes 0 as its default."""
    with pytest.raises(ValueError, match=f"eps is {eps}, and it must be above 0 and finite in float32"):
        minuet.BatchNorm(context, CHANNELS, eps=eps)
