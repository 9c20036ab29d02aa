#include "runtime/network/ops/dense.h"

#include <algorithm>

namespace minuet {
namespace {

constexpr i32 kImageAxes = 2, kBirdsEyeAxes = 3;

/// Returns the layout of a dense tensor of a level. Its axes are those of the level, or those of a bird's-eye
/// image behind the axis that the image does not have.
DenseLayout layout_of(const LevelSpec& level, const DenseFields& fields) {
  DenseLayout layout;
  layout.tensor_stride = level.tensor_stride;
  for (i32 a = 0; a < kMaxDim; ++a) layout.shape[a] = std::max(level.shape[a], 1);
  layout.channels_last = fields.channels_last;
  if (fields.image_axes.empty()) return layout;
  layout.order[1] = fields.image_axes[0];
  layout.order[2] = fields.image_axes[1];
  layout.order[0] = kBirdsEyeAxes - layout.order[1] - layout.order[2];
  return layout;
}

/// Returns the extents of the dense tensor's axes behind the batch axis.
std::vector<i64> dims_of(i32 ndim, i64 channels, const DenseLayout& layout, bool is_birds_eye) {
  std::vector<i64> dims;
  for (i32 i = 0; i < ndim; ++i) dims.push_back(layout.shape[layout.order[i]]);
  if (is_birds_eye) {
    dims[0] *= channels;
    return dims;
  }
  dims.insert(layout.channels_last ? dims.end() : dims.begin(), channels);
  return dims;
}

DenseProblem problem_of(const Program& program, i64 channels, const DenseLayout& layout) {
  DenseProblem problem;
  problem.ndim = program.ndim;
  problem.dtype = program.dtype;
  problem.channels = static_cast<i32>(channels);
  problem.layout = layout;
  return problem;
}

/// Returns the op that made the dense tensor.
const ToDenseProblem* find_maker(const Program& program, i32 tensor) {
  for (const ProgramLayer& layer : program.layers) {
    if (layer.output == tensor) return layer.problem.get_if<ToDenseProblem>();
  }
  return nullptr;
}

/// Appends an op that reads the coordinates of a level.
i32 add_op(Program& program, const std::string& name, i32 input, i32 level, i32 output,
           const OpProblem& problem) {
  ProgramLayer layer(problem);
  layer.name = name;
  layer.map = -1;
  layer.coordinates_level = level;
  layer.input = input;
  layer.output = output;
  program.levels[level].keeps_coordinates = true;
  program.layers.push_back(std::move(layer));
  return output;
}

}  // namespace

llvm::Expected<DenseFields> read_to_dense(const llvm::json::Object& object) {
  DenseFields fields;
  const llvm::json::Value* const format = object.get("format");
  if (!format) return fields;
  const auto text = format->getAsString();
  fields.channels_last = text && *text == "channels_last";
  if (fields.channels_last || (text && *text == "channels_first")) return fields;
  return make_error(StatusCode::InvalidArgument,
                    "\"format\" must be \"channels_first\" or \"channels_last\"");
}

llvm::Expected<DenseFields> read_birds_eye(const llvm::json::Object& object, i32 ndim) {
  if (ndim != kBirdsEyeAxes) {
    return make_error(StatusCode::InvalidArgument,
                      "a bird's-eye image needs a network of 3 axes, and this one has {0}: use to_dense",
                      ndim);
  }
  DenseFields fields;
  const llvm::json::Array* const axes = object.getArray("image_axes");
  for (std::size_t i = 0; axes && i < axes->size(); ++i) {
    const auto axis = (*axes)[i].getAsInteger();
    fields.image_axes.push_back(axis && *axis >= 0 && *axis < ndim ? static_cast<i32>(*axis) : -1);
  }
  const bool is_valid = fields.image_axes.size() == kImageAxes && fields.image_axes[0] >= 0 &&
                        fields.image_axes[1] >= 0 && fields.image_axes[0] != fields.image_axes[1];
  if (is_valid) return fields;
  return make_error(StatusCode::InvalidArgument,
                    "\"image_axes\" must be two different axes of 0 to 2, for example [1, 0] for an image of "
                    "shape [Y, X]");
}

llvm::Error check_is_of_level(const Program& program, i32 tensor) {
  if (!program.tensors[tensor].is_dense()) return llvm::Error::success();
  return make_error(
      StatusCode::InvalidArgument,
      "the layer reads a dense tensor, but only the op from_dense can: put from_dense in between");
}

llvm::Expected<i32> add_to_dense(Program& program, const std::string& name, i32 input,
                                 const DenseFields& fields) {
  MINUET_TRY(check_is_of_level(program, input));
  const i32 level = program.tensors[input].level, channels = program.tensors[input].channels;
  const LevelSpec& spec = program.levels[level];
  if (spec.is_made_in_run()) {
    return make_error(
        StatusCode::Unimplemented,
        "the layer's input lies on a level that an op makes in each run, of which no dense tensor "
        "can be made");
  }
  if (spec.shape[0] == 0) {
    return make_error(StatusCode::InvalidArgument,
                      "the level of the layer's input has no shape, from which the size of the dense tensor "
                      "follows: give the network \"shape\", the number of cells of its input on each axis");
  }
  const DenseLayout layout = layout_of(spec, fields);
  ToDenseProblem problem{problem_of(program, channels, layout)};
  MINUET_TRY(validate(problem));
  TensorSpec tensor{level, channels, static_cast<i32>(program.storages.size()), 0,
                    dims_of(program.ndim, channels, layout, !fields.image_axes.empty())};
  for (const i64 dim : tensor.dims) {
    if (dim <= INT32_MAX) continue;
    return make_error(StatusCode::OutOfRange,
                      "an axis of the dense tensor would have {0} elements; at most "
                      "2^31 - 1 are allowed",
                      dim);
  }
  StorageSpec storage{level, channels, 0, 0, {}};
  storage.item_elements = cells_of(program.ndim, layout) * channels;
  program.storages.push_back(std::move(storage));
  program.tensors.push_back(std::move(tensor));
  return add_op(program, name, input, level, static_cast<i32>(program.tensors.size()) - 1, problem);
}

llvm::Expected<i32> add_from_dense(Program& program, const std::string& name, i32 input, i32 level) {
  const ToDenseProblem* const maker = find_maker(program, input);
  if (!program.tensors[input].is_dense() || maker == nullptr) {
    return make_error(StatusCode::InvalidArgument,
                      "the layer's input is no dense tensor: name the result of to_dense or birds_eye");
  }
  const LevelSpec &spec = program.levels[level], &made = program.levels[program.tensors[input].level];
  if (spec.is_made_in_run()) {
    return make_error(StatusCode::Unimplemented,
                      "from_dense cannot lead onto a level that an op makes in each run");
  }
  if (spec.tensor_stride != made.tensor_stride || spec.shape != made.shape) {
    return make_error(
        StatusCode::InvalidArgument,
        "the level that from_dense leads onto has another shape or tensor stride than that of the "
        "dense tensor: both must be the same");
  }
  const i32 channels = maker->channels;
  FromDenseProblem problem{problem_of(program, channels, maker->layout)};
  MINUET_TRY(validate(problem));
  program.storages.push_back({level, channels, 0, 0, {}});
  program.tensors.push_back({level, channels, static_cast<i32>(program.storages.size()) - 1, 0});
  return add_op(program, name, input, level, static_cast<i32>(program.tensors.size()) - 1, problem);
}

}  // namespace minuet
