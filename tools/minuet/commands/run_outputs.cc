#include "tools/minuet/commands/run_outputs.h"

#include <algorithm>
#include <cstdio>

#include "llvm/ADT/StringExtras.h"
#include "tools/minuet/base/error.h"
#include "tools/minuet/cloud/writers/npy.h"
#include "tools/minuet/cloud/writers/ply.h"
#include "tools/minuet/library/report.h"
#include "tools/minuet/library/tensors.h"

namespace minuet::tool {
namespace {

/// Opens the file at `path`, unless the path is empty or "-" (stdout).
llvm::Error open_if(const std::string& path, std::optional<OutputFile>& file) {
  if (path.empty() || path == "-") return llvm::Error::success();
  MINUET_ASSIGN(OutputFile opened, OutputFile::open(path));
  file.emplace(std::move(opened));
  return llvm::Error::success();
}

/// Returns the centres of the output voxels in metres, in the coordinate frame of the input cloud.
std::vector<Position> positions_of(const Output& output, const Input& input, int32_t ndim,
                                   const int32_t* tensor_stride) {
  std::vector<Position> positions(static_cast<size_t>(output.rows()), Position{});
  const auto width = static_cast<size_t>(1 + ndim);
  for (size_t row = 0; row < positions.size(); ++row) {
    for (size_t axis = 0; axis < 3 && axis + 1 < width; ++axis) {
      const double middle = output.coordinates[row * width + 1 + axis] + 0.5 * tensor_stride[axis];
      positions[row][axis] = middle * input.frame.voxel_size[axis] + input.corner()[axis];
    }
  }
  return positions;
}

/// Returns the columns that distinguish voxels with equal positions: the batch, if one is not 0, and the
/// fourth axis of a 4-D network.
std::vector<Attribute> further_axes(const Output& output, int32_t ndim) {
  const auto column = [&](const char* name, int32_t axis) {
    Attribute attribute{name, Scalar::I32, {}};
    for (size_t i = static_cast<size_t>(axis); i < output.coordinates.size();
         i += static_cast<size_t>(1 + ndim))
      append_scalar(Scalar::I32, output.coordinates[i], attribute.values);
    return attribute;
  };
  std::vector<Attribute> axes = {column("batch", 0)};
  if (axes[0].values.find_first_not_of('\0') == std::string::npos) axes.clear();
  if (ndim > 3) axes.push_back(column("t", 4));
  return axes;
}

bool are_too_far(const std::vector<Position>& positions, const VoxelSize& voxel_size) {
  return std::any_of(positions.begin(), positions.end(),
                     [&](const Position& position) { return is_too_far(position, voxel_size); });
}

/// Warns about the parts of the input cloud that the PLY file cannot store.
void warn_of_losses(const Cloud& cloud) {
  for (const std::string& list : cloud.lists) {
    std::fprintf(
        stderr,
        "minuet: the list property '%s' of the points is left out, because the output holds no lists\n",
        escaped(list).c_str());
  }
  if (!cloud.elements.empty()) {
    std::fprintf(stderr, "minuet: the output has points only, without the cloud's other elements: %s\n",
                 escaped(llvm::join(cloud.elements, ", ")).c_str());
  }
  for (const Attribute& attribute : cloud.attributes) {
    if (attribute.type != Scalar::I64 && attribute.type != Scalar::U64) continue;
    std::fprintf(
        stderr,
        "minuet: the 64-bit integers '%s' are doubles in the output, because PLY has no 64-bit integers\n",
        escaped(attribute.name).c_str());
  }
}

}  // namespace

llvm::Expected<RunOutputs> RunOutputs::open(const Arguments& arguments) {
  std::vector<NamedFile> outputs = {{"--output", arguments.output},
                                    {"--output-coordinates", arguments.output_coordinates},
                                    {"--json", arguments.json},
                                    {"--trace", arguments.trace}};
  std::vector<NamedFile> inputs = {{"the cloud", arguments.input.cloud},
                                   {"--coordinates", arguments.input.coordinates},
                                   {"--features", arguments.input.features},
                                   {"--weights", arguments.network.weights},
                                   {"--weights-map", arguments.network.weights_map},
                                   {"--network", arguments.network.network},
                                   {"--palette", arguments.palette}};
  MINUET_ASSIGN(const std::vector<NamedFile> named, NamedOutputs::named_files(arguments));
  outputs.insert(outputs.end(), named.begin(), named.end());
  MINUET_ASSIGN(const auto further, parse_tensor_files("--input-of", arguments.input_of));
  for (const TensorFile& file : further) inputs.push_back({"--input-of " + file.name, file.path});
  MINUET_TRY(check_distinct(outputs, inputs));
  RunOutputs files(arguments);
  if (!arguments.palette.empty()) {
    MINUET_ASSIGN(files.palette_, Palette::read(arguments.palette));
  }
  MINUET_TRY(open_if(arguments.output, files.output_));
  MINUET_TRY(open_if(arguments.output_coordinates, files.coordinates_));
  MINUET_ASSIGN(NamedOutputs named_outputs, NamedOutputs::open(arguments));
  files.named_.emplace(std::move(named_outputs));
  MINUET_TRY(open_if(arguments.json, files.json_));
  MINUET_TRY(open_if(arguments.trace, files.trace_));
  return files;
}

llvm::Error RunOutputs::check_dense(const minuet_plan_info& network) const {
  const char* flag = arguments_->labels      ? "--labels"
                     : arguments_->per_point ? "--per-point"
                     : coordinates_          ? "--output-coordinates"
                                             : nullptr;
  if (flag) {
    return bad_input(
        "{0} is for outputs with a row for each voxel, but that of {1} is a dense tensor: omit {0}", flag,
        network.name);
  }
  if (!output_ || extension_of(arguments_->output) == ".npy") return llvm::Error::success();
  return bad_input("--output '{0}' must end in .npy, because the output of {1} is a dense tensor",
                   arguments_->output, network.name);
}

llvm::Error RunOutputs::check(const Input& input, const minuet_plan_info& network,
                              const minuet_tensor_info& first) const {
  MINUET_TRY(named_->check(input));
  if (is_dense(first)) return check_dense(network);
  if (is_of_points(first) && coordinates_) {
    return bad_input(
        "--output-coordinates is for outputs with a row for each voxel, but that of {0} has a row for each "
        "point of the cloud, in its order: omit --output-coordinates",
        network.name);
  }
  if (output_ && !is_of_points(first) && extension_of(arguments_->output) != ".npy" &&
      first.ndim < network.ndim) {
    return bad_input(
        "--output '{0}' must end in .npy, because the output of {1} has no positions: its rows lie on {2} of "
        "the network's {3} axes",
        arguments_->output, network.name, first.ndim, network.ndim);
  }
  if (arguments_->labels && network.missing_head != 0 && !arguments_->random_weights) {
    return bad_input(
        "--labels needs the network's head, which gives the classes, but the head is not among the weights: "
        "omit --labels, or if the file has the head under other names, use --weights-map, "
        "--weights-prefix or --weights-order");
  }
  if (arguments_->labels) MINUET_TRY(palette_.check_labels(network.out_channels));
  if (coordinates_) MINUET_TRY(check_coordinates("--output-coordinates", input));
  if (!arguments_->per_point) return llvm::Error::success();
  if (input.cloud.is_voxels)
    return bad_input("--per-point needs a cloud of points, but this one holds voxels: omit --per-point");
  if (network.output_level != 0) {
    return bad_input(
        "--per-point needs a network whose output is on the input's voxels, but that of {0} is coarser: omit "
        "--per-point",
        network.name);
  }
  return llvm::Error::success();
}

llvm::Error RunOutputs::write_ply(const Input& input, const minuet_plan_info& network,
                                  const int32_t* tensor_stride, const Output& output) {
  PlyTable table;
  if (has_points(output)) {
    for (const Point& point : input.cloud.points) table.positions.push_back({point[0], point[1], point[2]});
    table.wide = input.cloud.has_double_positions();
    table.attributes = input.cloud.attributes;
    table.comments = input.cloud.comments;
    warn_of_losses(input.cloud);
  } else {
    table.positions = positions_of(output, input, network.ndim, tensor_stride);
    table.wide = are_too_far(table.positions, input.frame.voxel_size);
    table.attributes = further_axes(output, network.ndim);
  }
  if (arguments_->labels) {
    table.palette = &palette_;
    table.labels = labels_of(output);
  }
  table.features = output.features;
  table.channels = static_cast<int32_t>(output.channels());
  return output_->write(ply_bytes(table));
}

llvm::Error RunOutputs::write_named(size_t index, const Output& output, const Input& input) {
  return named_->write(index, output, input);
}

llvm::Error RunOutputs::write(const Input& input, const minuet_plan_info& network,
                              const int32_t* tensor_stride, Output output) {
  if (coordinates_) {
    MINUET_ASSIGN(const std::string bytes, coordinates_npy("--output-coordinates", output, input));
    MINUET_TRY(coordinates_->write(bytes));
  }
  if (!output_) return llvm::Error::success();
  if (output.is_dense()) return output_->write(features_npy(output));
  if (has_points(output)) output = by_point(output, input.voxels.row_of_point);
  if (extension_of(arguments_->output) != ".npy") {
    return write_ply(input, network, tensor_stride, output);
  }
  return output_->write(arguments_->labels ? npy_bytes(labels_of(output), {output.rows()})
                                           : features_npy(output));
}

llvm::Error RunOutputs::write_trace(minuet_context* context, const std::optional<DeviceTimes>& device_times) {
  if (!trace_) return llvm::Error::success();
  const std::string& path = trace_->temporary_path();
  MINUET_TRY(
      about_file(path, arguments_->trace, check_writing(minuet_context_write_trace(context, path.c_str()))));
  if (device_times && trace_->is_regular()) {
    MINUET_ASSIGN(const auto written, read_file(path));
    MINUET_ASSIGN(const std::string trace, add_device_times(written->getBuffer(), *device_times));
    MINUET_TRY(about_file(path, arguments_->trace, write_file(path, trace)));
  }
  return trace_->keep();
}

llvm::Error RunOutputs::write_report(const llvm::json::Value& report) {
  if (json_) return json_->write(json_text(report));
  if (arguments_->json == "-") llvm::outs() << json_text(report);
  return llvm::Error::success();
}

}  // namespace minuet::tool
