// Fills the arrays of pointers to the operands of a layer's batched GEMMs. This is pure arithmetic on
// addresses.
#pragma once

#include "runtime/engine/ops/convolution_groups.h"

namespace minuet {

/// Describes where the operands of a layer's GEMMs are in memory. All sizes are in bytes.
struct MemberAddresses {
  const void* weights = nullptr;  // Points to the weights of the [volume] kernel offsets in turn.
  i64 slice_bytes = 0;
  void* inputs = nullptr;  // Points to the rows of the gather buffer.
  i64 input_row_bytes = 0;
  void* outputs = nullptr;
  i64 output_row_bytes = 0;
};

/// Writes the pointers of one group's GEMMs. They are elements [first_slot, first_slot + count) of each row
/// of the table [3][volume], whose rows point to weights, inputs and outputs.
inline void write_pointers(const MemberAddresses& members, const i32* order, const GemmGroup& group,
                           i32 volume, void** table) {
  char* weights = const_cast<char*>(static_cast<const char*>(members.weights));
  char* inputs = static_cast<char*>(members.inputs);
  char* outputs = static_cast<char*>(members.outputs);
  for (i32 i = 0; i < group.count; ++i) {
    const i32 slot = group.first_slot + i;
    const i64 row = group.first_row + i * group.height;
    table[slot] = weights + order[slot] * members.slice_bytes;
    table[volume + slot] = inputs + row * members.input_row_bytes;
    table[2 * volume + slot] = outputs + row * members.output_row_bytes;
  }
}

}  // namespace minuet
