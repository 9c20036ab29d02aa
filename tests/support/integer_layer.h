// Runs one convolution with 8-bit tensors on an engine, by the fused dataflow, and compares every byte.
#pragma once

#include "codegen/choose/choice.h"
#include "runtime/weights/weight_image.h"
#include "tests/kernels_templates/integer_problem.h"
#include "tests/support/layer_run.h"

namespace minuet {

/// A layer of these types and channels, of which the rest takes turns.
inline FusedSpec integer_layer(DType io, i32 in, i32 out, i32 volume, i32 turn) {
  FusedSpec spec{.io = io, .in_channels = in, .out_channels = out, .volume = volume};
  const bool is_first = !is_integer(io);
  constexpr FusedType kOutputs[] = {FusedType::U8, FusedType::F16, FusedType::S8};
  spec.output_type = is_first ? (turn % 2 == 0 ? FusedType::U8 : FusedType::S8) : kOutputs[turn % 3];
  spec.residual = turn % 2 == 1;
  spec.residual_type = is_first ? FusedType::OfInput : turn % 4 == 1 ? FusedType::U8 : FusedType::S8;
  spec.activation = static_cast<Activation>(turn % 3);
  spec.second_output = turn / 2 % 2 == 1;
  spec.second_type = spec.output_type == FusedType::F16 || is_first ? FusedType::S8 : FusedType::F16;
  spec.second_activation = static_cast<Activation>(turn / 3 % 3);
  spec.shortcut = !is_first && in == 96;
  spec.shortcut_type = spec.output_type == FusedType::S8 ? FusedType::U8 : FusedType::S8;
  if (spec.shortcut) spec.residual = spec.second_output = false;
  return with_accesses(spec);
}

/// Says how a layer is run.
struct IntegerLayerRun {
  i64 padded = 0;        // Gives the number of rows behind the outputs, which must become zero.
  bool ordered = false;  // True gives a GPU the views of the map in the order of the masks.
  i64 gap = 0;           // Gives the distance in elements between the rows of the output.
};

inline ConvolutionProblem problem_of(const IntegerProblem& layer, const IntegerLayerRun& run) {
  const FusedSpec& spec = layer.spec;
  ConvolutionProblem problem;
  const auto eight_bits = [](DType type) { return is_integer(type) ? std::optional(type) : std::nullopt; };
  problem.dtype = is_integer(spec.io) ? DType::F16 : spec.io;
  problem.in_channels = spec.in_channels, problem.out_channels = spec.out_channels;
  const i32 edge = spec.volume == 27 ? 3 : spec.volume == 8 ? 2 : 1;
  problem.kernel_size = {edge, edge, edge, 1};
  problem.kind = spec.shortcut ? ConvolutionKind::Submanifold : ConvolutionKind::GivenOutputs;
  problem.input = {static_cast<i32>(layer.input.ld), 0};
  problem.output = {static_cast<i32>(spec.out_channels + run.gap), 0};
  problem.covered_output = {spec.out_channels, 0};
  problem.residual_input = {static_cast<i32>(layer.residual.ld), 0};
  problem.scale_shift = true;
  problem.residual = spec.residual;
  problem.activation = spec.activation, problem.slope = kSlope;
  problem.second_output = spec.second_output;
  problem.second_activation = spec.second_activation, problem.second_slope = kSecondSlope;
  problem.input_type = eight_bits(spec.io);
  problem.output_type = eight_bits(fused_output_type(spec));
  if (spec.residual) problem.residual_type = eight_bits(fused_residual_type(spec));
  if (spec.second_output) problem.second_type = eight_bits(fused_second_type(spec));
  problem.shortcut = spec.shortcut;
  if (spec.shortcut) problem.shortcut_type = eight_bits(fused_shortcut_type(spec));
  problem.output_factor = layer.output_factor, problem.second_factor = layer.second_factor;
  return problem;
}

/// Returns a copy of a table with so many columns, whose rows are `stride` elements long. Its columns are in
/// the order of `order` if that is not empty.
template <class T>
std::vector<T> restrided(const std::vector<T>& table, i64 columns, i64 stride,
                         const std::vector<i32>& order) {
  const i64 rows = static_cast<i64>(table.size()) / columns;
  std::vector<T> result(static_cast<size_t>(rows * stride), static_cast<T>(0x55555555));
  for (i64 row = 0; row < rows; ++row) {
    for (i64 i = 0; i < columns; ++i) {
      const i64 column = order.empty() ? i : order[static_cast<size_t>(i)];
      result[static_cast<size_t>(row * stride + i)] = table[static_cast<size_t>(row * columns + column)];
    }
  }
  return result;
}

/// Runs a layer and compares its outputs with the expected ones. A kernel computes the shortcut only if the
/// choice says so. The map of `layer` must not be ordered, and have no padding between rows.
inline void expect_integer_layer(Device& device, Engine& engine, const FusedChoice& chosen,
                                 IntegerProblem& layer, const IntegerLayerRun& run) {
  const OpChoice choice(chosen);
  const ConvolutionProblem& problem = chosen.problem;
  std::vector<std::unique_ptr<TestBuffer>> buffers;
  const auto keep = [&](const auto& content) -> TestBuffer& {
    buffers.push_back(std::make_unique<TestBuffer>(device, content));
    return *buffers.back();
  };
  const auto numbers = [&](const std::vector<float>& values) { return keep(values).template as<>(); };
  std::vector<const void*> parameters;
  for (const ParameterImage& image :
       parameter_images(choice, device.weight_type(problem.dtype), device.info().arch)) {
    switch (image.part) {
      case ParameterPart::Weight: {
        std::vector<char> bytes(static_cast<size_t>(image.weight.bytes()));
        image.weight.write(image.ahead == 0 ? layer.weights : layer.shortcut_weights, bytes.data());
        parameters.push_back(keep(bytes).as<>());
        break;
      }
      case ParameterPart::Scale:
        parameters.push_back(numbers(image.ahead == 0        ? layer.scale
                                     : chosen.fused.shortcut ? layer.shortcut_scale
                                                             : layer.second_scale));
        break;
      case ParameterPart::Shift:
        parameters.push_back(numbers(image.ahead == 0        ? layer.shift
                                     : chosen.fused.shortcut ? layer.shortcut_shift
                                                             : layer.second_shift));
        break;
      case ParameterPart::ResidualFactor:
        parameters.push_back(numbers(layer.residual_factor));
        break;
    }
  }
  constexpr i64 kPadding = 9;
  const i32 count = static_cast<i32>(layer.map.shape.queries);
  const i64 rows = count + run.padded;
  StoredRows output(output_type_of(problem), rows + 2, problem.out_channels, problem.output.ld);
  StoredRows second(second_type_of(problem), rows + 2, problem.out_channels, problem.out_channels);
  StoredRows shortcut(fused_shortcut_type(layer.spec), rows + 2, problem.out_channels, problem.out_channels);
  NeighbourRequest request;
  request.op = take(engine.add_op(choice));
  take(engine.set_workspace(keep(engine.workspace_bytes() + kPadding).as<>()));
  take(engine.begin(nullptr));
  request.parameters = parameters;
  request.input = keep(layer.input.bytes).as<>();
  request.input_rows = layer.map.shape.sources, request.input_ld = layer.input.ld;
  request.residual = keep(layer.residual.bytes).as<>();
  request.residual_ld = layer.residual.ld;
  const TestBuffer& words = keep(std::vector<i32>{count, 0, 0});
  request.output_count = words.as<const i32>();
  request.output_rows = rows, request.output_ld = problem.output.ld;
  request.pads_output = run.padded > 0;
  request.overflow = words.as<u32>() + 1;
  const TestBuffer& written = keep(output.bytes);
  const TestBuffer& second_written = keep(second.bytes);
  const TestBuffer& shortcut_written = keep(shortcut.bytes);
  request.output = written.as<>();
  if (problem.second_output || chosen.fused.shortcut) {
    request.covered.push_back({});
    request.covered[0].output = (problem.second_output ? second_written : shortcut_written).as<>();
    request.covered[0].output_ld = problem.out_channels;
    request.covered[0].overflow = words.as<u32>() + 2;
  }
  // The rows of a table have a place for each output row on a GPU, and for each query on the CPU.
  const bool on_cpu = device.info().arch.empty();
  const i64 stride = on_cpu ? count : rows, ordered_stride = ordered_row_stride(rows);
  request.view.rows = keep(restrided(layer.map.rows, count, stride, {})).template as<i32>();
  request.view.masks = keep(restrided(layer.map.masks, count, stride, {})).template as<u32>();
  if (run.ordered && !on_cpu) {
    const std::vector<i32>& order = layer.map.order;
    request.view.order = keep(order).as<i32>();
    request.view.ordered_rows = keep(restrided(layer.map.rows, count, ordered_stride, order)).as<i32>();
    request.view.ordered_masks = keep(restrided(layer.map.masks, count, ordered_stride, order)).as<u32>();
  }
  request.scratch = keep(engine.scratch_bytes() + kPadding).as<>();
  take(engine.prepare_op(request));
  take(engine.send_prepared());
  take(engine.run_op(request));
  take(engine.wait());
  output.bytes = written.read<char>();
  second.bytes = second_written.read<char>();
  EXPECT_EQ(difference_of(output, layer.expected, count, run.padded), "");
  if (problem.second_output) {
    EXPECT_EQ(difference_of(second, layer.second, count, run.padded), "") << "second output";
  }
  shortcut.bytes = shortcut_written.read<char>();
  if (chosen.fused.shortcut) {
    EXPECT_EQ(difference_of(shortcut, layer.shortcut, count, run.padded), "") << "shortcut";
  }
  EXPECT_EQ(words.read<i32>(), (std::vector<i32>{count, 0, 0}));
}

/// Calls check(layer, problem, run) for layers of many channels and types with this number of queries. Each
/// layer is run twice. The second run has padded rows and ordered views, and its output rows are parts of
/// longer rows, as in a concat.
template <class Check>
void for_integer_layers(i64 queries, const Check& check) {
  i32 turn = 0;
  for (const DType io : {DType::U8, DType::S8, DType::F16, DType::F32}) {
    for (const auto& [in, out] : {std::pair{4, 32}, {3, 5}, {33, 17}, {64, 64}, {96, 128}, {128, 96}}) {
      const FusedSpec spec = integer_layer(io, in, out, in == 64 ? 8 : 27, turn);
      IntegerProblem layer(spec, {.queries = queries, .ordered = false, .stride_padding = 0},
                           70 + static_cast<u64>(turn));
      SCOPED_TRACE(testing::Message()
                   << kDTypeNames[static_cast<int>(io)] << ", " << in << " to " << out << ", turn " << turn);
      for (const IntegerLayerRun& run :
           {IntegerLayerRun{}, IntegerLayerRun{.padded = 21, .ordered = true, .gap = out}}) {
        SCOPED_TRACE(run.ordered ? "padded and ordered" : "plain");
        check(layer, problem_of(layer, run), run);
      }
      ++turn;
    }
  }
}

}  // namespace minuet
