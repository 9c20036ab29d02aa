#include "tools/minuet/commands/named_outputs.h"

#include <algorithm>

#include "tools/minuet/base/error.h"
#include "tools/minuet/library/tensors.h"

namespace minuet::tool {
namespace {

constexpr const char* kOutputOf = "--output-of";
constexpr const char* kCoordinatesOf = "--coordinates-of";

}  // namespace

llvm::Expected<std::vector<NamedFile>> NamedOutputs::named_files(const Arguments& arguments) {
  std::vector<NamedFile> files;
  MINUET_ASSIGN(const auto features, parse_tensor_files(kOutputOf, arguments.output_of));
  MINUET_ASSIGN(const auto coordinates, parse_tensor_files(kCoordinatesOf, arguments.coordinates_of));
  for (const TensorFile& file : features) files.push_back({kOutputOf + (" " + file.name), file.path});
  for (const TensorFile& file : coordinates) files.push_back({kCoordinatesOf + (" " + file.name), file.path});
  return files;
}

llvm::Error NamedOutputs::open_all(const char* flag, const std::vector<std::string>& values,
                                   std::vector<File>& files) {
  MINUET_ASSIGN(const std::vector<TensorFile> named, parse_tensor_files(flag, values));
  for (const TensorFile& one : named) {
    MINUET_ASSIGN(OutputFile file, OutputFile::open(one.path));
    files.push_back({one, 0, std::move(file)});
  }
  return llvm::Error::success();
}

llvm::Expected<NamedOutputs> NamedOutputs::open(const Arguments& arguments) {
  NamedOutputs outputs;
  MINUET_TRY(open_all(kOutputOf, arguments.output_of, outputs.features_));
  MINUET_TRY(open_all(kCoordinatesOf, arguments.coordinates_of, outputs.coordinates_));
  return outputs;
}

llvm::Error NamedOutputs::find(const std::vector<minuet_tensor_info>& outputs) {
  for (File& file : features_) {
    MINUET_ASSIGN(file.output, find_output(outputs, kOutputOf, file.named.name));
  }
  for (File& file : coordinates_) {
    MINUET_ASSIGN(file.output, find_output(outputs, kCoordinatesOf, file.named.name));
    if (is_of_points(outputs[file.output])) {
      return bad_input(
          "{0}: the output '{1}' has a row for each point of the cloud, in its order, and no coordinates of "
          "voxels: name another output, or omit the flag",
          kCoordinatesOf, file.named.name);
    }
    if (!is_dense(outputs[file.output])) continue;
    return bad_input(
        "{0}: the output '{1}' is a dense tensor, whose cells have no coordinates: name an output with a row "
        "for each voxel, or omit the flag",
        kCoordinatesOf, file.named.name);
  }
  return llvm::Error::success();
}

llvm::Error NamedOutputs::check(const Input& input) const {
  return coordinates_.empty() ? llvm::Error::success() : check_coordinates(kCoordinatesOf, input);
}

bool NamedOutputs::needs_coordinates(size_t output) const {
  return std::any_of(coordinates_.begin(), coordinates_.end(),
                     [&](const File& file) { return file.output == output; });
}

llvm::Error NamedOutputs::write(size_t index, const Output& output, const Input& input) {
  for (File& file : features_) {
    if (file.output != index) continue;
    MINUET_TRY(file.file.write(
        features_npy(output.is_of_points ? by_point(output, input.voxels.row_of_point) : output)));
  }
  for (File& file : coordinates_) {
    if (file.output != index) continue;
    MINUET_ASSIGN(const std::string bytes, coordinates_npy(kCoordinatesOf, output, input));
    MINUET_TRY(file.file.write(bytes));
  }
  return llvm::Error::success();
}

}  // namespace minuet::tool
