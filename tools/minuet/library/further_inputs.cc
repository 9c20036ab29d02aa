#include "tools/minuet/library/further_inputs.h"

#include <algorithm>
#include <cmath>

#include "tools/minuet/base/convert.h"
#include "tools/minuet/base/error.h"
#include "tools/minuet/cloud/input.h"
#include "tools/minuet/library/tensors.h"

namespace minuet::tool {
namespace {

/// Returns an error if a file names no input, or the first one.
llvm::Error check_names(const std::vector<minuet_tensor_info>& inputs, const std::vector<TensorFile>& files) {
  for (const TensorFile& file : files) {
    const auto is_named = [&](const minuet_tensor_info& input) { return file.name == input.name; };
    const auto found = std::find_if(inputs.begin(), inputs.end(), is_named);
    if (found == inputs.begin()) {
      return bad_input(
          "--input-of: '{0}' is the network's first input, which has the features of the cloud: omit it, or "
          "give them with --coordinates and --features",
          file.name);
    }
    if (found == inputs.end()) {
      return bad_input("--input-of: the network has no input '{0}', only {1}: name one after the first",
                       file.name, tensor_names(inputs));
    }
  }
  return llvm::Error::success();
}

const TensorFile* find_file(const std::vector<TensorFile>& files, llvm::StringRef name) {
  for (const TensorFile& file : files) {
    if (name == file.name) return &file;
  }
  return nullptr;
}

llvm::Error check_range(const std::vector<float>& values, int64_t columns, minuet_dtype dtype) {
  for (size_t i = 0; i < values.size(); ++i) {
    if (std::abs(values[i]) <= dtype_largest(dtype)) continue;
    return bad_input("the feature {0} of row {1} is beyond the largest {2} number ({3}): use another --dtype",
                     digits(static_cast<double>(values[i])), static_cast<int64_t>(i) / columns,
                     dtype_name(dtype), digits(static_cast<double>(dtype_largest(dtype))));
  }
  return llvm::Error::success();
}

/// Returns a byte for each number, which is 0 where the number is 0 and 1 elsewhere.
std::vector<char> mask_of(const std::vector<float>& values) {
  std::vector<char> mask;
  mask.reserve(values.size());
  for (const float value : values) mask.push_back(value != 0 ? 1 : 0);
  return mask;
}

}  // namespace

llvm::Expected<FurtherInputs> FurtherInputs::read(minuet_plan* network, minuet_device* device,
                                                  minuet_dtype dtype, const std::vector<TensorFile>& files) {
  MINUET_ASSIGN(std::vector<minuet_tensor_info> all, query_inputs(network));
  if (takes_points(all)) all.resize(all.size() - kPointInputs);
  MINUET_TRY(check_names(all, files));
  FurtherInputs inputs;
  MINUET_ASSIGN(inputs.outputs_, query_outputs(network));
  std::vector<minuet_tensor_info> missing;
  for (size_t i = 1; i < all.size(); ++i) {
    if (!find_file(files, all[i].name)) missing.push_back(all[i]);
  }
  if (!missing.empty()) {
    return bad_input(
        "the network has {0} inputs, but the cloud gives the features of the first, '{1}', only: give those "
        "of {2} too, with --input-of NAME=FILE.npy for each",
        all.size(), all[0].name, tensor_names(missing));
  }
  for (size_t i = 1; i < all.size(); ++i)
    MINUET_TRY(inputs.add(all[i], find_file(files, all[i].name)->path, device, dtype));
  return inputs;
}

llvm::Error FurtherInputs::add(const minuet_tensor_info& info, const std::string& path, minuet_device* device,
                               minuet_dtype dtype) {
  int64_t rows = 0, columns = 0;
  MINUET_ASSIGN(const std::vector<float> values, read_features(path, rows, columns));
  if (columns != info.channels) {
    return bad_input("--input-of: '{0}' has {1} columns, but the input '{2}' has {3} channels", path, columns,
                     info.name, info.channels);
  }
  const bool is_mask = info.element == MINUET_ELEMENT_U8;
  if (!is_mask) MINUET_TRY(in_file(path, check_range(values, columns, dtype)));
  const std::vector<char> encoded = is_mask ? mask_of(values) : encode(values, dtype);
  MINUET_ASSIGN(DeviceBuffer memory, DeviceBuffer::upload(device, encoded.data(), encoded.size()));
  arrays_.push_back(array_of(dense_tensor(memory.get(), rows, info.channels, dtype)));
  if (is_mask) arrays_.back().element = MINUET_ELEMENT_U8;
  memory_.push_back(std::move(memory));
  infos_.push_back(info);
  paths_.push_back(path);
  return llvm::Error::success();
}

llvm::Error FurtherInputs::refuse_rows(size_t input, int64_t level_rows) const {
  const minuet_tensor_info& info = infos_[input];
  std::string order = "in the order of the cloud's voxels";
  if (info.level != 0) {
    order = "in the order of minuet_execution_output_coordinates_of for an output on that level";
    for (const minuet_tensor_info& output : outputs_) {
      if (output.level != info.level || is_dense(output)) continue;
      order += ", which --coordinates-of " + std::string(output.name) + "=FILE.npy writes";
      break;
    }
  }
  return bad_input(
      "--input-of: '{0}' has {1}, but level {2} of the network, on which the input '{3}' is, has {4} in this "
      "cloud: give one row for each of its voxels, {5}",
      paths_[input], counted(arrays_[input].shape[0], "row"), info.level, info.name,
      counted(level_rows, "row"), order);
}

llvm::Error FurtherInputs::check_rows(minuet_execution* execution, int64_t cloud_rows) const {
  for (size_t i = 0; i < infos_.size(); ++i) {
    int64_t rows = cloud_rows;
    if (infos_[i].level != 0) {
      MINUET_ASSIGN(rows, count_voxels(execution, infos_[i].level));
    }
    if (arrays_[i].shape[0] != rows) return refuse_rows(i, rows);
  }
  return llvm::Error::success();
}

}  // namespace minuet::tool
