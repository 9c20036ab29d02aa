"""One call of a fused module: its levels and maps, its results, and the gradients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn
from torch.autograd import forward_ad
from torch.autograd.function import once_differentiable

from ..._types import DType
from .._define import refuse_tangents
from .._geometry import Level
from .._places import Place, computed_dtype, with_room, without_view
from ._clouds import Cloud, Levels, must_grow, note_rows, to_read
from ._norms import Mode, Norms, versions_of
from ._programs import InferenceProgram, Made, Options, Program, Programs, TrainingProgram
from ._recorded import Recorded
from ._tensors import Table, Tensors, forms_of


class Runtime:
    """What a fused module has on one device.

    Args:
        module: the module.
        recorded: of it.
        recompute: names of layers that are computed again in the backward pass (fuse()).
        place: the device.
    """

    def __init__(self, module: nn.Module, recorded: Recorded, recompute: tuple[str, ...], place: Place) -> None:
        self.recorded, self.place = recorded, place
        self.programs = Programs(recorded.description, recompute, recorded.shown)
        plan = self.programs.plan(DType.FLOAT32)
        self.tensors = Tensors(module, recorded, [info.name for info in plan.parameters], place)
        self.norms = Norms(module, recorded.dropouts, self.tensors, place)
        # The last level of a network with global poolings has a row for each cloud.
        has_clouds = any(layer["op"] == "global_pool" for layer in recorded.description["layers"])
        if plan.info.levels != len(recorded.levels) + has_clouds:
            raise AssertionError(f"the network has {plan.info.levels} levels, and {len(recorded.levels)} were recorded")
        self.levels = Levels(recorded, has_clouds, needs_batch=any(len(info.shape) > 2 for info in plan.outputs))

    def run(self, level: Level, features: Sequence[torch.Tensor]) -> tuple[list[torch.Tensor], Cloud]:
        """Runs the network on a cloud.

        Returns:
            The outputs, and the cloud.
        """
        self._check(level, features)
        tensors = self.tensors.current()
        mode = self.norms.mode()
        trained = [tensors[number] for number in self.tensors.trained]
        if forward_ad._current_level >= 0:
            refuse_tangents("a fused module", (*features, *trained))
        records = torch.is_grad_enabled() and any(tensor.requires_grad for tensor in (*features, *trained))
        dtype = _dtype_of(features[0])
        kind = computed_dtype(dtype, features[0].is_cuda)
        program: Program
        if mode is None and not records:
            program = self.programs.inference(kind, self.place)
        else:
            wanted = tuple(number for number, each in enumerate(features) if records and each.requires_grad)
            options = Options(mode is None, 0.0 if mode is None else mode.momentum, wanted)
            program = self.programs.training(kind, self.place, options)
        call = Call(self, level, program, self.tensors.table(tensors), tensors, dtype, mode)
        if not records:
            return call.forward(features), call.take_cloud()
        made = _Step.apply(call, len(features), *features, *trained)
        return list(made), call.take_cloud()

    def _check(self, level: Level, features: Sequence[torch.Tensor]) -> None:
        recorded = self.recorded
        if recorded.needs_shape and level.shape != recorded.shape:
            raise ValueError(
                f"the tensor has the shape {level.shape and list(level.shape)}, and the module was fused for "
                f"{recorded.shape and list(recorded.shape)}, on which its levels depend: give all clouds the same "
                "shape, such as the largest one, or fuse the module again"
            )
        for each in features:
            if each.dim() != 2 or each.shape[0] != level.rows:
                raise ValueError(
                    f"features have the shape {list(each.shape)}, and the coordinates have {level.rows} rows: give "
                    "[rows, channels]"
                )
            self.place.require(each)
        self.place.require(level.coordinates, level.count)
        if level.geometry.is_exact and self.place.is_capturing():
            raise RuntimeError(
                "exact mode reads the number of rows, which a graph cannot: give the sparse tensor capacities, so that "
                "it is in capacity mode"
            )


def _dtype_of(features: torch.Tensor) -> torch.dtype:
    """Returns the dtype that a network computes in: that of autocast, or that of the features."""
    kind = features.device.type
    return torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else features.dtype


class Call:
    """A call of a fused module. A backward pass keeps it; autograd keeps the memory of the step."""

    def __init__(
        self,
        runtime: Runtime,
        level: Level,
        program: Program,
        table: Table,
        tensors: list[Any],
        dtype: torch.dtype,
        mode: Mode | None,
    ) -> None:
        self._runtime, self._level, self._program, self._table = runtime, level, program, table
        self._tensors, self._dtype, self._mode = tensors, dtype, mode
        self._watched: list[Any] = []
        self._versions: list[int] = []
        self._forms: list[tuple[int, torch.dtype]] = []
        self._made: Made | None = None
        self._cloud: Cloud | None = None
        self._kept: torch.Tensor | None = None

    def take_cloud(self) -> Cloud:
        """Returns the levels and maps of the forward pass, and forgets them."""
        cloud, self._cloud = self._cloud, None
        assert cloud is not None
        return cloud

    def take_memory(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Returns what the backward pass reads, and forgets what only that needs."""
        kept, self._kept = self._kept, None
        assert kept is not None and self._cloud is not None
        return self._cloud.buffer, kept

    # ---- forward --------------------------------------------------------------------------------------------------

    def forward(self, features: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """Builds the levels and maps, and enqueues the pass; in exact mode again where there was no room."""
        runtime, level, program = self._runtime, self._level, self._program
        geometry = level.geometry
        self._forms = [(each.shape[0], each.dtype) for each in features]
        for _ in range(2):
            made = self._made = program.made(runtime.levels.setting(level))
            cloud, workspace = self._build(made)
            self._cloud, reading = cloud, None
            if geometry.is_exact:
                reading = runtime.levels.read(to_read(level, made, cloud.numbers), runtime.place)
            outputs = self._enqueue(cloud, workspace, features)
            if reading is None:
                geometry.session.statuses.append(cloud.numbers[:1])
                if self._mode is not None and self._mode.momentum == 0.0:
                    runtime.norms.count(self._mode)  # Whatever the device finds, as single ops do.
                return outputs
            read = reading.numbers()
            if not must_grow(read, level, made):
                cloud.rows = read[2 : 2 + len(made.setting.capacities)]
                note_rows(geometry, cloud)
                if level.rows:
                    runtime.norms.count(self._mode)
                return [
                    output if number < 0 else without_view(output, cloud.rows[number])
                    for output, number in zip(outputs, program.output_levels, strict=True)
                ]
            runtime.levels.count(level)
        raise RuntimeError("a cloud does not fit capacities that were counted for it: this is an error of minuet.torch")

    def _build(self, made: Made) -> tuple[Cloud, torch.Tensor]:
        runtime, level = self._runtime, self._level
        place = runtime.place
        coordinates = level.coordinates.contiguous()
        with level.geometry.session.building():  # Levels keep these two, and may serve a training step later.
            buffer = place.empty_bytes(made.buffer_bytes)
            numbers = torch.empty(2 + len(made.setting.capacities), dtype=torch.int32, device=place.device)
        workspace = place.empty_bytes(made.workspace_bytes)
        self._program.build(made, coordinates, level.count, buffer, workspace, numbers)
        return Cloud(runtime.recorded, level, place, made, buffer, numbers), workspace

    def _enqueue(self, cloud: Cloud, workspace: torch.Tensor, features: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        runtime, program, made = self._runtime, self._program, cloud.made
        place, norms = runtime.place, runtime.norms
        inputs = [self._input(each, shape) for each, (shape, _) in zip(features, made.inputs, strict=True)]
        outputs = [torch.empty(shape, dtype=dtype, device=place.device) for shape, dtype in made.outputs]
        if isinstance(program, InferenceProgram):
            program.run(made, self._table, cloud.buffer, workspace, inputs, outputs)
            return outputs
        assert isinstance(program, TrainingProgram)
        kept = self._kept = place.empty_bytes(made.kept_bytes)
        is_exact = self._level.geometry.is_exact
        counts = norms.begin(self._mode, is_exact)
        program.forward(made, self._table, cloud.buffer, kept, workspace, inputs, outputs, counts)
        norms.end(self._mode, counts)
        # Frozen batch norms read their running statistics in both passes.
        trained = runtime.tensors.trained
        self._watched = [self._tensors[number] for number in trained] if self._mode is not None else self._tensors
        self._versions = versions_of(self._watched)
        return outputs

    def _input(self, features: torch.Tensor, shape: tuple[int, ...]) -> torch.Tensor:
        """Returns features in the network's dtype, in memory of as many rows as the level has room for."""
        if features.shape[1] != shape[1]:
            raise ValueError(f"features have {features.shape[1]} channels, and the module was fused for {shape[1]}")
        features = features.detach()
        if features.dtype == self._dtype:
            return with_room(features, shape[0])
        made = torch.empty(shape, dtype=self._dtype, device=features.device)
        made[: features.shape[0]].copy_(features)
        return made

    # ---- backward -------------------------------------------------------------------------------------------------

    def backward(
        self,
        buffer: torch.Tensor,
        kept: torch.Tensor,
        out_gradients: Sequence[torch.Tensor | None],
        wanted: Sequence[bool],
    ) -> list[torch.Tensor | None]:
        """Enqueues the backward pass, and returns the gradients of the features and of the parameters.

        Args:
            wanted: which of them are wanted.
        """
        runtime, program, made = self._runtime, self._program, self._made
        assert isinstance(program, TrainingProgram) and made is not None
        if self._versions != versions_of(self._watched):
            raise RuntimeError(
                "a parameter of the fused module was changed between its forward and its backward pass: change "
                "parameters behind the backward pass"
            )
        place, count = runtime.place, len(self._forms)
        # As single ops do, this reads parameters where they are now: an offload to the host may have moved them.
        table = self._table
        known = table.forms if self._mode is None else table.trained_forms
        if known != forms_of(self._watched):
            table = runtime.tensors.table(self._tensors)
        layout = table.gradients(tuple(wanted[count:]))
        flat = torch.empty(layout.count, dtype=torch.float32, device=place.device)
        given = [
            None if gradient is None else _gradient(gradient, *form)
            for gradient, form in zip(out_gradients, made.outputs, strict=True)
        ]
        of_inputs = [
            torch.empty(shape, dtype=dtype, device=place.device) if number in program.options.inputs else None
            for number, (shape, dtype) in enumerate(made.inputs)
        ]
        workspace = place.empty_bytes(made.backward_bytes)
        arrays = layout.arrays(flat.data_ptr())
        program.backward(made, table, buffer, kept, workspace, given, arrays, of_inputs)
        results: list[torch.Tensor | None] = [
            None if each is None else without_view(each, rows).to(dtype)
            for each, (rows, dtype) in zip(of_inputs, self._forms, strict=True)
        ]
        return results + layout.views(flat)


def _gradient(gradient: torch.Tensor, shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor | None:
    """Returns the gradient of an output as the library reads it."""
    if not dtype.is_floating_point:
        return None
    gradient = gradient.to(dtype)
    return with_room(gradient, shape[0]) if len(shape) == 2 else gradient.contiguous()


class _Step(torch.autograd.Function):
    """The network as one op. Its gradient has none."""

    @staticmethod
    def forward(ctx: Any, call: Call, inputs: int, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Runs the forward pass on features, with parameters behind them."""
        outputs = call.forward(tensors[:inputs])
        ctx.call = call
        ctx.save_for_backward(*call.take_memory())
        ctx.set_materialize_grads(False)
        ctx.mark_non_differentiable(*[output for output in outputs if not output.is_floating_point()])
        return tuple(outputs)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: torch.Tensor | None) -> tuple[torch.Tensor | None, ...]:
        """Runs the backward pass."""
        buffer, kept = ctx.saved_tensors
        return (None, None, *ctx.call.backward(buffer, kept, gradients, ctx.needs_input_grad[2:]))
