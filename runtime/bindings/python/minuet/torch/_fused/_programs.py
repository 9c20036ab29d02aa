"""Plans of a network on a device: for training, for inference, and the pyramids that both run on."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from ... import _abi
from ..._plan import Plan
from ..._pyramid import Pyramid
from ..._training import Training
from ..._types import Dataflow, DType
from .._places import ELEMENTS, Place, Pool, Recent, address_of, array_struct, check, context, remembered
from .._rules import Bounds
from .._runs import Values, parameters_set, plan_run, with_addresses
from ._norms import Counts
from ._tensors import Table

_ADDRESS = ctypes.c_void_p
_forward = with_addresses("minuet_training_forward", *[_ADDRESS] * 4)
_backward = with_addresses("minuet_training_backward", *[_ADDRESS] * 4)
_build = with_addresses("minuet_pyramid_build", *[_ADDRESS] * 4)
# Those that were not used for longest go.
_MOST_PYRAMIDS = 64
_MOST_PROGRAMS = 16
_TORCH_TYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16, "int32": torch.int32}


@dataclass(frozen=True)
class Setting:
    """What a pyramid is made for.

    Attributes:
        sets: the number of levels that have coordinates, which are the first ones.
        capacities: of all levels.
        bounds: of the first one.
        batch_size: the number of clouds; 0 where the network need not know it.
    """

    sets: int
    capacities: tuple[int, ...]
    bounds: Bounds | None
    batch_size: int


class Made:
    """A pyramid on a device, with the arguments of the calls on it.

    Attributes:
        setting: what it was made for.
        buffer_bytes: of what a build writes.
        kept_bytes: of what a forward call keeps.
        inputs, outputs: shapes and dtypes of the network's tensors.
    """

    def __init__(self, program: Program, setting: Setting) -> None:
        self.setting = setting
        plan, place = program.plan, program.place
        self.pyramid = program.new_pyramid(setting, program.shown)
        self.pyramid.load(place.library_device)
        self.pointer = self.pyramid._cell.pointer  # It lives as long as this.
        self.buffer_bytes, self._build_bytes = self.pyramid.bytes(place.arch)
        self.kept_bytes, forward, self.backward_bytes = program.step_bytes(self.pyramid)
        self.workspace_bytes = max(1, self._build_bytes, forward)
        self.parameter_count = len(plan.parameters)
        infos = (plan.inputs, plan.outputs)
        self.inputs, self.outputs = (
            [((self.pyramid.rows_of(info), *info.shape[1:]), _TORCH_TYPES[info.dtype]) for info in each]
            for each in infos
        )
        self.builds = Pool(self._build_block)
        self.blocks = Pool(lambda: program.new_block(self))

    def _build_block(self) -> Any:
        block = _abi.minuet_pyramid_arguments(struct_size=ctypes.sizeof(_abi.minuet_pyramid_arguments))
        block.buffer_bytes, block.workspace_bytes = self.buffer_bytes, self._build_bytes
        return block

    def arrays(self, tensors: Sequence[tuple[tuple[int, ...], torch.dtype]]) -> Any:
        """Returns the library's list of arrays, without addresses."""
        made = (_abi.minuet_array * max(1, len(tensors)))()
        for number, (shape, dtype) in enumerate(tensors):
            made[number] = array_struct(shape, ELEMENTS[dtype])
        return made


class Program:
    """A network on a device, for training or for inference.

    Attributes:
        plan: of the network.
        place: where it runs.
        shown: the levels whose coordinates are kept.
        output_levels: the level of each output that has a row for each voxel; -1 of others.
    """

    def __init__(self, plan: Plan, place: Place, shown: Sequence[int]) -> None:
        self.plan, self.place, self.shown = plan, place, shown
        self.output_levels = [info.level if len(info.shape) == 2 and info.axes else -1 for info in plan.outputs]
        self._made: dict[Setting, Made] = Recent(_MOST_PYRAMIDS)

    def made(self, setting: Setting) -> Made:
        """Returns the pyramid of a setting."""
        found: Made | None = self._made.get(setting)  # Without making a function for each call.
        return found or remembered(self._made, setting, lambda: Made(self, setting))

    def new_pyramid(self, setting: Setting, keep: Sequence[int]) -> Pyramid:
        """Makes a pyramid that keeps the coordinates of some levels."""
        raise NotImplementedError

    def step_bytes(self, pyramid: Pyramid) -> tuple[int, int, int]:
        """Returns the bytes that a forward call keeps, and those of the workspaces of both passes."""
        raise NotImplementedError

    def new_block(self, made: Made) -> Any:
        """Makes the arguments of a forward call."""
        raise NotImplementedError

    def build(
        self,
        made: Made,
        coordinates: torch.Tensor,
        count: torch.Tensor | None,
        buffer: torch.Tensor,
        workspace: torch.Tensor,
        numbers: torch.Tensor,
    ) -> None:
        """Enqueues the build of a cloud's levels and maps. `numbers` get the status, and the counts behind it."""
        place = self.place
        block = made.builds.take()
        block.buffer, block.workspace = buffer.data_ptr(), workspace.data_ptr()
        block.coordinates, block.most = coordinates.data_ptr() or None, coordinates.shape[0]
        block.count = None if count is None else count.data_ptr()
        address = numbers.data_ptr()
        block.status, block.counts = address, address + 4
        check(_build(made.pointer, place.pointer, ctypes.addressof(block), place.stream()))
        made.builds.give(block)


@dataclass(frozen=True)
class Options:
    """How a network is trained.

    Attributes:
        frozen: whether batch norms use their running statistics.
        momentum: of batch norms; None: all batches have the same share.
        inputs: numbers of the inputs that want a gradient.
    """

    frozen: bool
    momentum: float | None
    inputs: tuple[int, ...]


class TrainingProgram(Program):
    """Both passes of a network on a device."""

    def __init__(
        self, plan: Plan, place: Place, shown: Sequence[int], options: Options, recompute: Sequence[str]
    ) -> None:
        super().__init__(plan, place, shown)
        self.options = options
        momentum = options.momentum
        self._training = Training(
            context(),
            plan,
            input_gradients=options.inputs,
            frozen_batch_norms=options.frozen,
            # The library has no share of 0, and what it then computes is not used.
            momentum=momentum or 1.0,
            cumulative=momentum is None,
            recompute=recompute,
        )
        self._training.load(place.library_device)
        self._pointer = self._training._cell.pointer

    def new_pyramid(self, setting: Setting, keep: Sequence[int]) -> Pyramid:
        """Makes a pyramid of the training plan."""
        return self._training.pyramid(
            setting.capacities, bounds=setting.bounds, keep_coordinates=keep, batch_size=setting.batch_size
        )

    def step_bytes(self, pyramid: Pyramid) -> tuple[int, int, int]:
        """Returns the sizes of a step."""
        sizes = self._training.bytes(self.place.arch, pyramid)
        return max(1, sizes.kept), sizes.forward_workspace, max(1, sizes.backward_workspace)

    def new_block(self, made: Made) -> Any:
        """Makes the arguments of both calls."""
        return _StepBlock(made)

    def forward(
        self,
        made: Made,
        table: Table,
        buffer: torch.Tensor,
        kept: torch.Tensor,
        workspace: torch.Tensor,
        inputs: Sequence[torch.Tensor],
        outputs: Sequence[torch.Tensor],
        counts: Counts | None,
    ) -> None:
        """Enqueues the forward pass.

        Args:
            counts: where the batches are counted; None: running statistics do not change.
        """
        block = made.blocks.take()
        arguments = block.forward
        arguments.buffer, arguments.kept, arguments.workspace = buffer.data_ptr(), kept.data_ptr(), workspace.data_ptr()
        arguments.parameters = table.parameters
        if counts is None:
            arguments.new_statistics = None
            arguments.batch_count = arguments.new_batch_count = None
        else:
            arguments.new_statistics = table.statistics
            arguments.batch_count, arguments.new_batch_count = counts.before, counts.behind
        for number, tensor in enumerate(inputs):
            block.inputs[number].data = address_of(tensor)
        for number, tensor in enumerate(outputs):
            block.outputs[number].data = tensor.data_ptr()
        place = self.place
        check(_forward(self._pointer, place.pointer, ctypes.addressof(arguments), place.stream()))
        made.blocks.give(block)

    def backward(
        self,
        made: Made,
        table: Table,
        buffer: torch.Tensor,
        kept: torch.Tensor,
        workspace: torch.Tensor,
        out_gradients: Sequence[torch.Tensor | None],
        gradients: Any,
        of_inputs: Sequence[torch.Tensor | None],
    ) -> None:
        """Enqueues the backward pass. `gradients` are the library's list for the parameters."""
        block = made.blocks.take()
        arguments = block.backward
        arguments.buffer, arguments.kept, arguments.workspace = buffer.data_ptr(), kept.data_ptr(), workspace.data_ptr()
        arguments.parameters, arguments.parameter_gradients = table.parameters, gradients
        for number, tensor in enumerate(out_gradients):
            block.out_gradients[number].data = None if tensor is None else address_of(tensor)
        for number, tensor in enumerate(of_inputs):
            block.input_gradients[number].data = None if tensor is None else tensor.data_ptr()
        place = self.place
        check(_backward(self._pointer, place.pointer, ctypes.addressof(arguments), place.stream()))
        made.blocks.give(block)


class _StepBlock:
    """The arguments of both calls, with all that stays the same on one pyramid."""

    def __init__(self, made: Made) -> None:
        self.inputs, self.outputs = made.arrays(made.inputs), made.arrays(made.outputs)
        self.out_gradients, self.input_gradients = made.arrays(made.outputs), made.arrays(made.inputs)
        forward = _abi.minuet_training_forward_arguments()
        backward = _abi.minuet_training_backward_arguments()
        for arguments in (forward, backward):
            arguments.struct_size = ctypes.sizeof(arguments)
            arguments.pyramid, arguments.buffer_bytes = made.pointer, made.buffer_bytes
            arguments.parameter_count = made.parameter_count
            arguments.weights_order = _abi.MINUET_WEIGHTS_MINUET
            arguments.kept_bytes = made.kept_bytes
        forward.workspace_bytes, backward.workspace_bytes = made.workspace_bytes, made.backward_bytes
        forward.inputs, forward.outputs = self.inputs, self.outputs
        forward.input_count, forward.output_count = len(made.inputs), len(made.outputs)
        backward.out_gradients, backward.out_gradient_count = self.out_gradients, len(made.outputs)
        backward.input_gradients = self.input_gradients
        self.forward, self.backward = forward, backward


class InferenceProgram(Program):
    """A network on a device without gradients.

    Every run sets all parameters anew. torch's counts of changes do not tell when it must: a replayed graph and
    `parameter.data`, by which averages of weights are often kept, change numbers without a count.
    """

    def __init__(self, plan: Plan, place: Place, shown: Sequence[int]) -> None:
        super().__init__(plan, place, shown)
        plan.load(place.library_device)
        self._pointer = plan._cell.pointer
        self._count = len(plan.parameters)
        self._values = Values(plan, place) if self._count else None
        self._numbers = (ctypes.c_int32 * max(1, self._count))(*range(self._count))

    def new_pyramid(self, setting: Setting, keep: Sequence[int]) -> Pyramid:
        """Makes a pyramid for inference."""
        return Pyramid(
            context(),
            network=self.plan,
            level_capacity=setting.capacities,
            bounds=setting.bounds,
            keep_coordinates=keep,
            batch_size=setting.batch_size,
        )

    def step_bytes(self, pyramid: Pyramid) -> tuple[int, int, int]:
        """Returns the size of a run."""
        return 0, max(1, pyramid.run_bytes(self.plan, self.place.arch)), 0

    def new_block(self, made: Made) -> Any:
        """Makes the arguments of a run."""
        return _RunBlock(made, None if self._values is None else self._values.pointer)

    def run(
        self,
        made: Made,
        table: Table,
        buffer: torch.Tensor,
        workspace: torch.Tensor,
        inputs: Sequence[torch.Tensor],
        outputs: Sequence[torch.Tensor],
    ) -> None:
        """Enqueues a run."""
        place = self.place
        block = made.blocks.take()
        arguments, stream = block.arguments, place.stream()
        arguments.buffer, arguments.workspace = buffer.data_ptr(), workspace.data_ptr()
        for number, tensor in enumerate(inputs):
            block.inputs[number].data = address_of(tensor)
        for number, tensor in enumerate(outputs):
            block.outputs[number].data = tensor.data_ptr()
        values = self._values
        if values is None:
            check(plan_run(self._pointer, place.pointer, ctypes.addressof(arguments), stream))
        else:
            with values.lock:
                values.take_over(stream)
                numbers, arrays = ctypes.addressof(self._numbers), ctypes.addressof(table.parameters)
                order = _abi.MINUET_WEIGHTS_MINUET
                check(parameters_set(values.pointer, numbers, arrays, self._count, order, stream))
                check(plan_run(self._pointer, place.pointer, ctypes.addressof(arguments), stream))
        made.blocks.give(block)


class _RunBlock:
    """The arguments of a run, with all that stays the same on one pyramid."""

    def __init__(self, made: Made, parameters: int | None) -> None:
        self.inputs, self.outputs = made.arrays(made.inputs), made.arrays(made.outputs)
        arguments = _abi.minuet_run_arguments(struct_size=ctypes.sizeof(_abi.minuet_run_arguments))
        arguments.pyramid, arguments.buffer_bytes = made.pointer, made.buffer_bytes
        arguments.workspace_bytes = made.workspace_bytes
        arguments.inputs, arguments.outputs = self.inputs, self.outputs
        arguments.input_count, arguments.output_count = len(made.inputs), len(made.outputs)
        arguments.parameters = parameters
        self.arguments = arguments


class Programs:
    """All plans of one network, made when they are first needed.

    Args:
        description: of the network.
        recompute: names of layers that are computed again in the backward pass (minuet.Training).
        shown: the levels whose coordinates pyramids keep.
    """

    def __init__(self, description: dict[str, Any], recompute: tuple[str, ...], shown: tuple[int, ...]) -> None:
        self._description, self._recompute, self._shown = description, recompute, shown
        self._plans: dict[Any, Plan] = {}
        # A schedule of momenta makes a program for each of them.
        self._programs: dict[Any, Any] = Recent(_MOST_PROGRAMS)

    def plan(self, dtype: DType) -> Plan:
        """Returns the plan of the network with features of a dtype."""
        return remembered(
            self._plans,
            dtype,
            lambda: Plan.network(
                context(), description=self._description, dtype=dtype, dataflow=Dataflow.FUSED, without_values=True
            ),
        )

    def require_training(self) -> None:
        """Raises the errors of minuet.Training, such as UnimplementedError for a layer that cannot be trained. Needs no
        device."""
        Training(context(), self.plan(DType.FLOAT32), recompute=self._recompute)

    def training(self, dtype: DType, place: Place, options: Options) -> TrainingProgram:
        """Returns both passes of the network."""
        key = (dtype, place.pointer, options)
        found: TrainingProgram | None = self._programs.get(key)
        return found or remembered(
            self._programs, key, lambda: TrainingProgram(self.plan(dtype), place, self._shown, options, self._recompute)
        )

    def inference(self, dtype: DType, place: Place) -> InferenceProgram:
        """Returns the network for inference."""
        key = (dtype, place.pointer)
        found: InferenceProgram | None = self._programs.get(key)
        return found or remembered(self._programs, key, lambda: InferenceProgram(self.plan(dtype), place, self._shown))
