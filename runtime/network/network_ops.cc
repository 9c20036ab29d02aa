// The table of the ops that a description may have.
#include "runtime/network/description_fields.h"
#include "runtime/network/ops/collapse.h"
#include "runtime/network/ops/concat.h"
#include "runtime/network/ops/convolution.h"
#include "runtime/network/ops/dense.h"
#include "runtime/network/ops/global_pooling.h"
#include "runtime/network/ops/points.h"
#include "runtime/network/ops/pointwise.h"
#include "runtime/network/ops/pooling.h"
#include "runtime/network/ops/prune.h"
#include "runtime/network/ops/residual.h"
#include "runtime/network/ops/space.h"
#include "runtime/network/ops/union.h"
#include "runtime/network/ops/unpooling.h"

namespace minuet {

llvm::ArrayRef<OpEntry> op_entries() {
  // The rows are in the order of LayerDescription::Op.
  static const OpEntry kEntries[] = {
      block_entry(),
      residual_entry(),
      up_entry(),
      concat_entry(),
      head_entry(),
      max_pool_entry(),
      average_pool_entry(),
      sum_pool_entry(),
      generative_up_entry(),
      bottleneck_entry(),
      inverse_entry(),
      to_dense_entry(),
      birds_eye_entry(),
      from_dense_entry(),
      linear_entry(),
      unpool_entry(),
      upsample_entry(),
      collapse_entry(),
      union_entry(),
      global_pool_entry(),
      relu_entry(),
      leaky_relu_entry(),
      gelu_entry(),
      silu_entry(),
      sigmoid_entry(),
      tanh_entry(),
      add_entry(),
      multiply_entry(),
      softmax_entry(),
      argmax_entry(),
      batch_norm_entry(),
      scale_shift_entry(),
      layer_norm_entry(),
      intersection_entry(),
      voxelize_entry(),
      devoxelize_entry(),
      prune_entry(),
      subdivide_entry(),
      space_to_channel_entry(),
      channel_to_space_entry(),
  };
  return kEntries;
}

const OpEntry& entry_of(LayerDescription::Op op) { return op_entries()[static_cast<std::size_t>(op)]; }

const char* op_name(LayerDescription::Op op) { return entry_of(op).name; }

llvm::Error read_layer_fields(const llvm::json::Object& object, llvm::StringRef of,
                              llvm::ArrayRef<llvm::StringRef> fields, llvm::ArrayRef<llvm::StringRef> more,
                              LayerDescription& layer) {
  std::vector<llvm::StringRef> others(more.begin(), more.end());
  others.insert(others.end(), {"input", "output"});
  MINUET_TRY(check_fields(object, of, fields, others));
  MINUET_TRY(read_optional_text(object, "save", layer.save));
  if (!layer.save.empty() && object.get("output")) {
    return at("output", make_error(StatusCode::InvalidArgument,
                                   "\"save\" and \"output\" both name the result: leave \"save\" out"));
  }
  MINUET_TRY(read_optional_text(object, "output", layer.save));
  return read_optional_text(object, "input", layer.input);
}

}  // namespace minuet
