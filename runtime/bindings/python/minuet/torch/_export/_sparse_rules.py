"""Rules for the ops of minuet: pyramids, convolutions and poolings."""

from __future__ import annotations

from typing import Any

import torch

from .._keys import ConvolutionKey, KernelKey, LevelKey, PyramidKey, convolution_key, pyramid_key
from .._rules import Rule
from ._recorder import ADVICE, Call, DescriptionError, Found, Recorder, rule
from ._row_rules import OF_BATCH, name_of
from ._values import Buffer, Coordinates, ExportError, Level, Node, UnknownLevel, compact

_OTHER_CLOUD = (
    "the module uses a second set of coordinates, which it does not make from the first one by a layer: a network has "
    "one set of the caller's; give all layers tensors of that set"
)

_STALE = (
    "it uses a kernel map that was made before the export: do not keep a Geometry, a Level or a sparse tensor in the "
    "module from call to call"
)


def new_root(recorder: Recorder, ndim: int) -> Level:
    """Makes the level of the caller's coordinates."""
    level = Level(ndim)
    level.shape = recorder.given_shape
    if recorder.given_shape is not None and len(recorder.given_shape) != ndim:
        raise ExportError(
            f"shape has {len(recorder.given_shape)} numbers, and the module's coordinates have {ndim} axes: give one "
            "number for each axis"
        )
    recorder.root = level
    return level


@rule("minuet::pyramid")
def _pyramid(call: Call) -> Found:
    recorder = call.recorder
    key = pyramid_key(call.arguments["key"])
    coordinates = call.arguments["coordinates"]
    if call.arguments["count"] is not None:
        raise call.refusal(
            "it runs in capacity mode: make the module's sparse tensor without count and capacities. The exported "
            "network has both modes"
        )
    value = call.value("coordinates")
    if isinstance(value, Coordinates):
        level = value.level
    elif recorder.root is None:
        level = new_root(recorder, key.ndim)
        recorder.bind(coordinates, Coordinates(level))
    else:
        raise call.refusal(_OTHER_CLOUD)
    if level is recorder.root:
        recorder.bounds = recorder.bounds or key.bounds
    level = _within_limits(recorder, level, key)
    if coordinates.shape[0]:
        recorder.batch = max(recorder.batch, int(coordinates[:, 0].max()) + 1)
    for item in key.levels[1:]:
        _check_shape(call, level, item)
    return Buffer(level), None, None


def _within_limits(recorder: Recorder, level: Level, key: PyramidKey) -> Level:
    """Learns the shape of a level and the number of clouds, as far as the pyramid tells them."""
    if key.bounds is None or any(key.bounds[0]):
        return level
    batch, *lasts = key.bounds[1]
    shape = tuple(last + 1 for last in lasts)
    if level.apart is not None and level.parent is not None:
        return level.parent.moved_apart(level.apart, shape)
    if level is recorder.root:
        recorder.batch = max(recorder.batch, batch + 1)
        if level.shape is None and not recorder.is_unlimited:
            level.shape, recorder.is_shape_guessed = shape, True
    return level


def _check_shape(call: Call, level: Level, item: LevelKey) -> None:
    """Makes sure that a level that a kernel reaches ends where it ends in the module."""
    recorder = call.recorder
    if item.kernel_size is None:
        return
    if item.shape is None and level.shape is not None:
        if not recorder.is_shape_guessed:
            raise call.refusal(
                "shape is given, and the module's layers have no limits of coordinates: leave it out, or give the "
                "module a tensor with a shape"
            )
        assert recorder.root is not None
        recorder.root.shape, recorder.is_shape_guessed, recorder.is_unlimited = None, False, True
    if item.shape is not None:
        found = rule_of(item).shape_of(level.shape)
        if found != item.shape:
            raise call.refusal(
                f"its level ends at {list(item.shape)} cells, and by the shape that is known here, "
                f"{found and list(found)}, it would not: give export() the shape of the module's input"
            )


def rule_of(item: LevelKey) -> Rule:
    """Returns how a pyramid's coarser set follows from the finer one."""
    if item.kernel_size is None:
        return Rule(item.stride)
    ndim = len(item.stride)
    return Rule(item.stride, item.kernel_size, item.dilation or (1,) * ndim, item.padding or (0,) * ndim)


@rule("minuet::pyramid_coordinates")
def _coordinates(call: Call) -> Found:
    buffer = call.value("buffer")
    if not isinstance(buffer, Buffer):
        raise call.refusal(_STALE)
    key, number = pyramid_key(call.arguments["key"]), call.arguments["level"]
    level = buffer.level if number == 0 else buffer.level.child(rule_of(key.levels[number]))
    return Coordinates(level)


def _place(call: Call) -> tuple[Level, Level, ConvolutionKey]:
    """Returns the finer and the coarser level of an op, and its key."""
    buffer = call.value("buffer")
    if not isinstance(buffer, Buffer):
        raise call.refusal(_STALE)
    pyramid = pyramid_key(call.arguments["pyramid"])
    item = pyramid.maps[call.arguments["map"]]
    fine = buffer.level
    coarse = fine if item.coarse == item.fine else fine.child(rule_of(pyramid.levels[item.coarse]))
    return fine, coarse, convolution_key(call.arguments["key"])


def _enter(call: Call, node: Node, level: Level) -> None:
    """Makes sure that features lie on the level that an op reads."""
    own = node.level.resolve()
    wanted = level.parent if level.apart is not None else level
    assert wanted is not None
    if isinstance(own, UnknownLevel):
        own.become(wanted)
    elif own is not wanted:
        raise DescriptionError("it reads features of another level than the one whose kernel map it uses")


def kernel_fields(kernel: KernelKey) -> dict[str, Any]:
    """Returns the fields of a layer that say its kernel."""
    if kernel.offsets is not None:
        return {"kernel_shape": "custom", "offsets": kernel.offset_list}
    fields: dict[str, Any] = {"kernel_size": compact(kernel.size)}
    if max(kernel.dilation) > 1:
        fields["dilation"] = compact(kernel.dilation)
    if kernel.shape != "box":
        fields["kernel_shape"] = kernel.shape
    return fields


def _window_fields(fine: Level, coarse: Level, kernel: KernelKey) -> dict[str, Any]:
    """Returns the fields of a layer from a finer to a coarser level, or within one."""
    fields = kernel_fields(kernel)
    if fine is coarse:
        if kernel.padding is not None:
            raise DescriptionError("a layer within a level has no padding")
        return fields
    rule = coarse.rule
    assert rule is not None
    _check_rule(rule, kernel)
    if max(rule.stride) > 1:
        fields["stride"] = compact(rule.stride)
    if rule.kernel_size is not None:
        fields["rule"] = "reached"
        if rule.padding and max(rule.padding) > 0:
            fields["padding"] = compact(rule.padding)
    return fields


def _check_rule(rule: Rule, kernel: KernelKey) -> None:
    """Makes sure that a layer with this kernel makes the level by this rule."""
    if rule.kernel_size is None:
        is_fit = kernel.padding is None
    else:
        is_box = kernel.offsets is None and kernel.shape == "box"
        sizes = (kernel.size, kernel.dilation, kernel.padding)
        is_fit = is_box and sizes == (rule.kernel_size, rule.dilation, rule.padding)
    if not is_fit:
        raise DescriptionError(
            "its kernel is not the one by which its coarser level was made, and a layer of a network makes its level "
            "by its own kernel: make the level with the kernel, dilation and padding of the layer"
        )


def minuet_weight(weight: torch.Tensor, key: ConvolutionKey) -> torch.Tensor:
    """Returns a weight as [offsets, in / groups, out]."""
    volume = key.kernel.volume
    if key.layout == "minuet":
        return weight.reshape(volume, *weight.shape[-2:])
    return weight.reshape(weight.shape[0], volume, -1).permute(1, 2, 0)


@rule("minuet::convolution")
def _convolution(call: Call) -> Found:
    fine, coarse, key = _place(call)
    node = call.features("features")
    weight, bias = call.constant("weight"), call.constant("bias")
    assert weight is not None
    _enter(call, node, coarse if key.transposed else fine)
    values = minuet_weight(weight, key)
    fields: dict[str, Any] = {"out_channels": values.shape[2]}
    if fine.apart is not None:
        values, op, more = values.flip(0), "generative_up", _generative_fields(fine, coarse, key.kernel)
    elif key.transposed:
        assert coarse.rule is not None
        _check_rule(coarse.rule, key.kernel)
        op, more = "transposed", {}
    else:
        op, more = "block", _window_fields(fine, coarse, key.kernel)
    fields.update(more)
    parameters = {"conv.weight": values}
    if key.groups != 1:
        fields["groups"] = key.groups
    if bias is not None:
        fields["bias"] = True
        parameters["conv.bias"] = bias
    return call.node(
        op,
        node,
        channels=values.shape[2],
        level=fine if key.transposed else coarse,
        fields=fields,
        parameters=parameters,
        name=name_of(call, weight),
        window=(fine, coarse, key.kernel),
    )


def _generative_fields(fine: Level, coarse: Level, kernel: KernelKey) -> dict[str, Any]:
    """Returns the fields of a transposed convolution of spconv, which convolves coordinates that were moved apart with
    the mirrored kernel."""
    source, steps, rule = fine.parent, fine.apart, coarse.rule
    if coarse is fine or rule is None or rule.padding is None or source is None or steps is None:
        raise DescriptionError(f"it is no convolution that makes its outputs: {ADVICE}")
    _check_rule(rule, kernel)
    if max(rule.stride) > 1:
        raise DescriptionError(f"it has a stride over coordinates that were moved apart: {ADVICE}")
    if any(stride % step for stride, step in zip(source.stride, steps, strict=True)):
        raise DescriptionError(
            f"it has a stride of {list(steps)}, and its input the tensor stride {list(source.stride)}: the stride of a "
            "transposed convolution must divide the tensor stride of its input, so that a layer with a stride has to "
            "come before"
        )
    fields: dict[str, Any] = {**kernel_fields(kernel), "rule": "reached"}
    if max(steps) > 1:
        fields["stride"] = compact(steps)
    whole = [dilation * (size - 1) for size, dilation in zip(kernel.size, kernel.dilation, strict=True)]
    cut = [reach - padding for reach, padding in zip(whole, rule.padding, strict=True)]
    if max(cut) > 0:
        fields["padding"] = compact(cut)
    if source.shape is not None and fine.shape is not None:
        more = [
            cells - (before - 1) * step - 1 for cells, before, step in zip(fine.shape, source.shape, steps, strict=True)
        ]
        if max(more) > 0:
            fields["output_padding"] = compact(more)
    return fields


_POOLINGS = {"max": "max_pool", "average": "average_pool", "sum": "sum_pool"}


@rule("minuet::pooling")
def _pooling(call: Call) -> Found:
    fine, coarse, key = _place(call)
    node = call.features("features")
    _enter(call, node, coarse if key.transposed else fine)
    if fine.apart is not None:
        raise DescriptionError(f"it pools over coordinates that were moved apart: {ADVICE}")
    if key.transposed:
        op, fields = "unpool", {"reduction": key.reduction}
    else:
        op, fields = _POOLINGS[key.reduction], _window_fields(fine, coarse, key.kernel)
    made = call.node(
        op,
        node,
        level=fine if key.transposed else coarse,
        fields=fields,
        name=call.recorder.path,
        window=(fine, coarse, key.kernel),
    )
    return made, None


@rule("minuet::global_pooling")
def _global_pooling(call: Call) -> Found:
    node = call.features("features")
    coordinates = call.value("coordinates")
    if isinstance(coordinates, Coordinates):
        _enter(call, node, coordinates.level)
    elif call.recorder.root is None:
        root = new_root(call.recorder, call.arguments["coordinates"].shape[1] - 1)
        call.recorder.bind(call.arguments["coordinates"], Coordinates(root))
        _enter(call, node, root)
    else:
        raise call.refusal(_OTHER_CLOUD)
    fields = {"reduction": call.arguments["reduction"]}
    return call.node("global_pool", node, level=call.recorder.clouds, fields=fields, name=call.recorder.path), None


@rule("minuet::batch_norm")
def _batch_norm(call: Call) -> Found:
    raise DescriptionError(OF_BATCH)
