#include "tools/minuet/library/tensors.h"

#include "tools/minuet/base/error.h"
#include "tools/minuet/library/library.h"

namespace minuet::tool {
namespace {

using Query = minuet_status(minuet_plan* network, int32_t tensor, minuet_tensor_info* info);

llvm::Expected<std::vector<minuet_tensor_info>> query_tensors(minuet_plan* network, Query* query,
                                                              int32_t minuet_plan_info::*count) {
  minuet_plan_info plan = {};
  plan.struct_size = sizeof(plan);
  MINUET_TRY(check(minuet_plan_query(network, &plan)));
  std::vector<minuet_tensor_info> infos(static_cast<size_t>(plan.*count));
  for (size_t i = 0; i < infos.size(); ++i) {
    infos[i].struct_size = sizeof(infos[i]);
    MINUET_TRY(check(query(network, static_cast<int32_t>(i), &infos[i])));
  }
  return infos;
}

minuet_element element_of(minuet_dtype dtype) {
  return dtype == MINUET_F16    ? MINUET_ELEMENT_F16
         : dtype == MINUET_BF16 ? MINUET_ELEMENT_BF16
                                : MINUET_ELEMENT_F32;
}

}  // namespace

llvm::Expected<std::vector<minuet_tensor_info>> query_inputs(minuet_plan* network) {
  return query_tensors(network, minuet_plan_query_input, &minuet_plan_info::inputs);
}

llvm::Expected<std::vector<minuet_tensor_info>> query_outputs(minuet_plan* network) {
  return query_tensors(network, minuet_plan_query_output, &minuet_plan_info::outputs);
}

llvm::Expected<int64_t> count_voxels(minuet_execution* execution, int32_t level) {
  minuet_level_info info = {};
  info.struct_size = sizeof(info);
  MINUET_TRY(check(minuet_execution_query_level(execution, level, &info)));
  return info.voxels;
}

minuet_dtype dtype_of(minuet_element element) {
  return element == MINUET_ELEMENT_F16    ? MINUET_F16
         : element == MINUET_ELEMENT_BF16 ? MINUET_BF16
                                          : MINUET_F32;
}

std::string tensor_names(const std::vector<minuet_tensor_info>& tensors) {
  std::string names;
  for (const minuet_tensor_info& tensor : tensors)
    names += (names.empty() ? "" : ", ") + std::string(tensor.name);
  return names;
}

llvm::Expected<size_t> find_output(const std::vector<minuet_tensor_info>& outputs, llvm::StringRef flag,
                                   llvm::StringRef name) {
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (name == outputs[i].name) return i;
  }
  return bad_input("{0}: the network has no output '{1}', only {2}: name one of these", flag, name,
                   tensor_names(outputs));
}

minuet_array array_of(const minuet_tensor& matrix) {
  minuet_array array = {};
  array.data = matrix.data;
  array.rank = 2;
  array.shape[0] = matrix.rows;
  array.shape[1] = matrix.channels;
  array.element = element_of(matrix.dtype);
  return array;
}

}  // namespace minuet::tool
