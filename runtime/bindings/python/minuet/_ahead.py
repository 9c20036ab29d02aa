"""Says what needs time or files: kernels compiled ahead, tuning, weights files, and what there is."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from . import _abi
from ._arrays import device_view
from ._device import Context, Device, Path, path_bytes
from ._errors import OutOfRangeError
from ._infos import (
    BundleInfo,
    KernelInfo,
    PrecompileResult,
    PrecompileStep,
    ShippedNetwork,
    SystemInfo,
    TuningProgress,
    TuningResult,
    TuningSkip,
    told,
)
from ._library import Callback, call, call_with, is_stopping, library, using
from ._network_options import encoded_names, network_options
from ._plan import Plan
from ._types import DType, WeightsOrder


def version() -> str:
    """Returns the version of the library, major.minor.patch."""
    number: int = library.minuet_version()
    return f"{number // 10000}.{number // 100 % 100}.{number % 100}"


def system_info() -> SystemInfo:
    """Says which driver, GPUs and CUDA libraries this machine has, and what is missing."""
    info = _abi.minuet_system_info(struct_size=ctypes.sizeof(_abi.minuet_system_info))
    call("minuet_query_system", ctypes.byref(info))
    return told(SystemInfo, info)


def shipped_networks() -> tuple[ShippedNetwork, ...]:
    """Returns the networks that are built into the library."""
    result: list[ShippedNetwork] = []
    while True:
        info = _abi.minuet_shipped_network_info(struct_size=ctypes.sizeof(_abi.minuet_shipped_network_info))
        try:
            call("minuet_query_shipped_network", len(result), ctypes.byref(info))
        except OutOfRangeError:
            return tuple(result)
        result.append(told(ShippedNetwork, info))


def convert_weights(
    output_path: Path,
    name: str | None = None,
    *,
    weights: Path,
    description: str | Mapping[str, Any] | None = None,
    dtype: Any = DType.FLOAT32,
    channels: Sequence[int] | None = None,
    weights_order: WeightsOrder | str = WeightsOrder.AS_DESCRIBED,
    allow_unused: bool = False,
    weights_prefix: str | None = None,
    weights_map: str | Mapping[str, str] | None = None,
    allow_non_finite_parameters: bool = False,
    in_channels: int = 0,
    weights_key: str | None = None,
) -> None:
    """Reads a weights file as Plan.network does, and writes what the network takes from it: a safetensors file in
    Minuet's order and by the description's names, float32."""
    options, _kept = network_options(
        name, description, dtype, channels, 0, weights, 0, weights_order, allow_unused, weights_prefix, weights_map,
        "auto", allow_non_finite_parameters, False, None, in_channels, weights_key,
    )  # fmt: skip
    call("minuet_weights_convert", ctypes.byref(options), path_bytes(output_path))


def precompile(
    context: Context,
    plans: Sequence[Plan] = (),
    archs: Sequence[str] = (),
    *,
    output_directory: Path | None = None,
    requests_path: Path | None = None,
    jobs: int = 0,
    tuning: bool = False,
    tuning_directory: Path | None = None,
    step: Callable[[PrecompileStep], object] | None = None,
    bundle: Callable[[BundleInfo], object] | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> PrecompileResult:
    """Compiles every kernel that any cloud may need, for GPUs that are elsewhere. Needs no GPU.

    Args:
        plans: whose kernels; and, or,
        requests_path: a list that Context(record_path=...) wrote.
        archs: "sm_80", "sm_90a", "compute_90" for PTX; none: as recorded.
        output_directory: gets minuet-<arch>.bundle; None: kernels go to the cache folder alone.
        jobs: helper programs; 0: as many as there are cores, and memory for.
        tuning: also the kernels that tuning results choose, and the results themselves, into the bundles.
        tuning_directory: of these results; None: the cache folder.
        step, bundle: called with what is done.
        cancelled: asked every 100 ms or so; True stops soon.

    Raises:
        TypeError: archs is one text.
        CancelledError: `cancelled` said so.
        UnavailableError: NVRTC or the compile program is not there.
        Error: the first failure; bundles then hold what is done. An exception of a callback stops the work too.
    """
    options = _abi.minuet_precompile_options(struct_size=ctypes.sizeof(_abi.minuet_precompile_options))

    def on_step(pointer: Any, user: object) -> None:
        assert step is not None
        raw = pointer.contents
        kernel = told(KernelInfo, raw.kernel.contents) if raw.kernel else None
        error = raw.error.decode("utf-8", "replace") if raw.error is not None else None
        step(PrecompileStep(raw.done, raw.total, raw.name.decode(), raw.arch.decode(), kernel, error))

    def on_bundle(pointer: Any, user: object) -> None:
        assert bundle is not None
        bundle(told(BundleInfo, pointer.contents))

    callbacks = [
        Callback(_abi.minuet_precompile_options_step, on_step if step else None),
        Callback(_abi.minuet_precompile_options_bundle, on_bundle if bundle else None),
    ]
    asked = _cancellation(_abi.minuet_precompile_options_cancelled, callbacks, cancelled)
    options.step, options.bundle, options.cancelled = callbacks[0].pointer, callbacks[1].pointer, asked.pointer
    encoded = encoded_names(archs, "archs")
    names = (ctypes.c_char_p * max(1, len(encoded)))(*encoded)
    if encoded:
        options.archs, options.arch_count = ctypes.addressof(names), len(encoded)
    options.requests_path = path_bytes(requests_path)
    options.output_directory = path_bytes(output_directory)
    options.jobs = jobs
    result = _abi.minuet_precompile_result(struct_size=ctypes.sizeof(_abi.minuet_precompile_result))
    name = "minuet_precompile_tuned" if tuning else "minuet_precompile"
    directory = [path_bytes(tuning_directory)] if tuning else []
    with using(*plans) as pointers:
        handles = (ctypes.c_void_p * max(1, len(plans)))(*pointers)
        if plans:
            options.plans, options.plan_count = ctypes.addressof(handles), len(plans)
        call_with([*callbacks, asked], name, context, ctypes.byref(options), *directory, ctypes.byref(result))
    return told(PrecompileResult, result)


def tune(
    context: Context,
    plan: Plan,
    device: Device,
    clouds: Sequence[Any],
    *,
    directory: Path | None = None,
    budget_seconds: float = 0.0,
    repeats: int = 0,
    exhaustive: bool = False,
    training: bool | Literal["only"] = False,
    progress: Callable[[TuningProgress], object] | None = None,
    skipped: Callable[[TuningSkip], object] | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> TuningResult:
    """Measures which kernels are fastest for a network's layers on a device, and keeps the results in a folder. Nothing
    uses them before Context.load_tuning. The device should have nothing else to do.

    Args:
        clouds: int32 [count, 1 + ndim] each, in memory of the device, like those that are to be fast.
        directory: of the results, an absolute path; None: the context's cache folder.
        budget_seconds: in which the call is to end; 0: 120.
        repeats: timed runs of each cloud in a round; 0: 16 on a GPU, 5 on the CPU.
        exhaustive: every candidate, whatever the time.
        training: also the kernels for the gradients of weights and of inputs, in a training step of the network;
            "only": nothing else.
        progress, skipped: called with how far it is, and with candidates that do not run.
        cancelled: asked between runs; True stops soon.

    Raises:
        CancelledError: it was stopped; the steps that were over have their results.
    """
    options = _abi.minuet_tuning_options(struct_size=ctypes.sizeof(_abi.minuet_tuning_options))
    views = []
    for number, cloud in enumerate(clouds):
        found = device_view(cloud, device, 0, f"clouds[{number}]")
        found.require(f"clouds[{number}]", "int32", (None, 1 + plan.info.ndim))
        found.require_contiguous(f"clouds[{number}]")
        views.append(found)
    table = (_abi.minuet_tuning_cloud * max(1, len(views)))(
        *(_abi.minuet_tuning_cloud(found.address, found.shape[0]) for found in views)
    )
    options.clouds, options.cloud_count = table, len(views)
    options.repeats, options.budget_seconds, options.exhaustive = repeats, budget_seconds, int(exhaustive)
    options.training = 2 if training == "only" else int(training)
    options.directory = path_bytes(directory)

    def on_progress(pointer: Any, user: object) -> None:
        assert progress is not None
        progress(told(TuningProgress, pointer.contents))

    def on_skip(pointer: Any, user: object) -> None:
        assert skipped is not None
        skipped(told(TuningSkip, pointer.contents))

    callbacks = [
        Callback(_abi.minuet_tuning_options_progress, on_progress if progress else None),
        Callback(_abi.minuet_tuning_options_skipped, on_skip if skipped else None),
    ]
    asked = _cancellation(_abi.minuet_tuning_options_cancelled, callbacks, cancelled)
    options.progress, options.skipped, options.cancelled = callbacks[0].pointer, callbacks[1].pointer, asked.pointer
    result = _abi.minuet_tuning_result(struct_size=ctypes.sizeof(_abi.minuet_tuning_result))
    call_with([*callbacks, asked], "minuet_tune", context, plan, device, ctypes.byref(options), ctypes.byref(result))
    return told(TuningResult, result)


def _cancellation(kind: Any, others: Sequence[Callback], cancelled: Callable[[], bool] | None) -> Callback:
    """Returns the callback that is asked whether to stop: where the caller says so, after an exception in a callback,
    after Ctrl-C, which Python handles in it, and at the end of the interpreter."""

    def ask(user: object) -> int:
        return int(is_stopping() or any(other.error for other in others) or bool(cancelled and cancelled()))

    return Callback(kind, ask, on_error=1)
