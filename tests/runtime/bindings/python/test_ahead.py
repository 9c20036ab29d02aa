"""Compiling ahead, tuning, weights files, contexts and what a system has."""

import json
import threading

import minuet
import numpy as np
import oracle
import pytest
from conftest import skip_or_fail

CHANNELS = [8] * 9


@pytest.fixture
def convolution(context):
    return minuet.Plan.convolution(context, np.ones((27, 8, 8)), kernel_size=3, submanifold=True, dtype="float16")


@pytest.fixture
def nvrtc():
    if not minuet.system_info().nvrtc:
        skip_or_fail("nvrtc", "NVRTC is not installed")


def test_system_info():
    info = minuet.system_info()
    assert info.llvm
    assert isinstance(info.cuda_devices, int)


def test_context(tmp_path):
    context = minuet.Context(tmp_path / "cache", cache_max_bytes=1 << 20, trace=True, jit=False, cache_shared=False)
    assert context.cache_directory == str(tmp_path / "cache")
    assert context.kernel_counters().compiled == 0
    context.write_trace(tmp_path / "trace.json")
    assert (tmp_path / "trace.json").stat().st_size > 0
    with pytest.raises(minuet.FailedPreconditionError):
        context.add_bundle(tmp_path / "none.bundle")
    with pytest.raises(minuet.InvalidArgumentError):
        context.add_bundle_memory(b"no bundle")
    assert minuet.Context(disable_disk_cache=True).cache_directory == ""
    with pytest.raises(minuet.InvalidArgumentError, match="cpu_threads"):
        minuet.Context(cpu_threads=5000)


def test_devices(context):
    with pytest.raises(minuet.InvalidArgumentError, match="cpu"):
        minuet.Device(context, "tpu")
    device = minuet.Device(context, "cpu")
    assert (device.name, device.arch, device.is_cpu, device.number) == ("cpu", "cpu", True, 0)
    assert device.info.memory_bytes > 0
    assert device.context is context


def test_compile(convolution, nvrtc):
    seen = []
    convolution.compile("sm_90a", seen.append)
    assert seen
    assert all(kernel.arch == "sm_90a" and kernel.cubin_bytes > 0 for kernel in seen)
    assert all(kernel.origin in ("memory", "bundle", "disk", "compiled") for kernel in seen)

    def fail(kernel):
        raise KeyError(kernel.name)

    with pytest.raises(KeyError, match=seen[0].name.split("<")[0][:8]):
        convolution.compile("sm_90a", fail)
    with pytest.raises(minuet.InvalidArgumentError, match="sm_1"):
        convolution.compile("sm_1")


def test_compile_in_the_background(convolution):
    ended, errors = threading.Event(), []

    def done(error):
        errors.append(error)
        ended.set()

    job = convolution.compile_async("cpu", done)
    job.wait()
    assert ended.wait(10)
    assert errors == [None]
    assert job.done
    job.cancel()
    job.close()
    failed = convolution.compile_async("sm_1", lambda error: errors.append(error))
    with pytest.raises(minuet.InvalidArgumentError):
        failed.wait()
    failed.close()
    assert isinstance(errors[1], minuet.InvalidArgumentError)


def test_precompile(context, convolution, nvrtc, tmp_path):
    steps, bundles = [], []
    result = minuet.precompile(
        context, [convolution], ["sm_90a"], output_directory=tmp_path, step=steps.append, bundle=bundles.append, jobs=1
    )
    assert result.kernels == len(steps) == result.compiled + result.found
    assert result.failed == 0
    assert steps[-1].done == steps[-1].total
    assert steps[0].kernel is not None
    (bundle,) = bundles
    assert (bundle.arch, bundle.kernels) == ("sm_90a", result.kernels)
    content = (tmp_path / "minuet-sm_90a.bundle").read_bytes()
    assert len(content) == bundle.bytes

    elsewhere = minuet.Context(tmp_path / "cache", jit=False)
    elsewhere.add_bundle_memory(content, bundle.sha256)
    plan = minuet.Plan.convolution(elsewhere, np.ones((27, 8, 8)), kernel_size=3, submanifold=True, dtype="float16")
    plan.compile("sm_90a")
    assert elsewhere.kernel_counters().bundle_hits > 0
    with pytest.raises(minuet.FailedPreconditionError):
        plan.compile("sm_80")
    with pytest.raises(minuet.CancelledError):
        minuet.precompile(minuet.Context(disable_disk_cache=True), [convolution], ["sm_86"], cancelled=lambda: True)
    with pytest.raises(minuet.InvalidArgumentError, match="cpu"):
        minuet.precompile(context, [convolution], ["cpu"])


def test_one_text_is_no_list_of_architectures(context, convolution):
    for act in (lambda: minuet.precompile(context, [convolution], "sm_90a"), lambda: convolution.serialize("sm_90a")):
        with pytest.raises(TypeError, match=r"give a list of names, such as \['sm_90a'\]"):
            act()


def test_an_exception_stops_precompile(convolution, nvrtc):
    def fail(step):
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        minuet.precompile(minuet.Context(disable_disk_cache=True), [convolution], ["sm_86"], step=fail, jobs=1)


def test_tune(context, cpu, generator, tmp_path):
    plan = minuet.Plan.network(context, "minkunet42", channels=CHANNELS)
    clouds = [cpu.to_device(oracle.make_cloud(generator, 200))]
    steps, skips = [], []
    result = minuet.tune(
        context,
        plan,
        cpu,
        clouds,
        directory=tmp_path,
        budget_seconds=2,
        repeats=3,
        progress=steps.append,
        skipped=skips.append,
    )
    assert result.seconds > 0
    assert steps
    assert steps[0].step
    tuned = minuet.Context(disable_disk_cache=True)
    device = minuet.Device(tuned, "cpu")
    count = tuned.load_tuning(device, tmp_path)
    assert (count > 0) == (result.won > 0 or result.decided > 0)
    again = minuet.Plan.network(tuned, "minkunet42", channels=CHANNELS)
    assert all(choice.origin == "user" for choice in again.tuning())
    assert plan.tuning() == ()
    # The CPU chooses no kernels of gradients.
    nothing = minuet.tune(context, plan, cpu, clouds, directory=tmp_path, training="only")
    assert (nothing.tried, nothing.decided) == (0, 0)
    with pytest.raises(minuet.CancelledError):
        minuet.tune(context, plan, cpu, clouds, directory=tmp_path, cancelled=lambda: True)
    with pytest.raises(ZeroDivisionError):
        minuet.tune(context, plan, cpu, clouds, directory=tmp_path, cancelled=lambda: 1 / 0)
    with pytest.raises(TypeError, match=r"clouds\[0\] has elements of float32"):
        minuet.tune(context, plan, cpu, [np.zeros((3, 4), np.float32)])


def test_precompile_with_tuning(context, convolution, tmp_path):
    with pytest.raises(minuet.NotFoundError):
        minuet.precompile(
            context, [convolution], ["sm_90a"], output_directory=tmp_path, tuning=True, tuning_directory=tmp_path
        )


def test_convert_weights(context, cpu, tmp_path, generator):
    source = oracle.shared_folder() / "golden/network_minkunet42_weights.safetensors"
    if not source.exists():
        skip_or_fail("golden", f"no golden problems in '{oracle.shared_folder()}'; MINUET_SHARED names the folder")
    metadata, _ = oracle.read_safetensors(source.with_name("network_minkunet42.safetensors"))
    channels = json.loads(metadata["channels"])
    target = tmp_path / "converted.safetensors"
    minuet.convert_weights(target, "minkunet42", weights=source, channels=channels)
    cloud = oracle.make_cloud(generator, 100)
    x = generator.normal(size=(100, 4)).astype(np.float32)
    outputs = []
    for path in (source, target):
        plan = minuet.Plan.network(context, "minkunet42", channels=channels, weights=path)
        plan.load(cpu)
        execution = minuet.Execution(plan, cpu)
        execution.prepare(cloud)
        outputs.append(execution.run(x))
    np.testing.assert_array_equal(outputs[0], outputs[1])


def test_log(tmp_path):
    lines = []
    folder = tmp_path / "file"
    folder.write_text("this is no folder")
    context = minuet.Context(folder / "cache", log=lambda is_warning, text: lines.append((is_warning, text)))
    minuet.Plan.convolution(context, np.ones((1, 8, 8))).compile("cpu")
    device = minuet.Device(context, "cpu")
    assert device.is_cpu
    assert any(is_warning and "is not a folder" in text for is_warning, text in lines), lines
