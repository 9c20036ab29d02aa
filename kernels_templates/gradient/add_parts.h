// The kernel add_parts adds the sums of the parts of each offset (shared/gradient_kernels.h), and stores them
// as the gradient of a weight, or adds them to it. Offsets without pairs get 0.
//
// A block adds the slots of consecutive vectors of one offset, where a vector is `vector` consecutive output
// channels of an input channel. 2^add_bits_of() threads add the slots of a vector, so that an offset with
// many pairs has more blocks than others and no thread adds many slots. Thread s adds parts s, s + split and
// so on of those that have the offset, in ascending order. Then, while more than one of these threads is
// left, each thread of the first half adds the sums of its partner in the second half. Consecutive threads
// have consecutive vectors.
//
// What the blocks do depends on the steps of the list only, which are known before the launch of the sums of
// the parts. So it is found before that launch has ended.
#pragma once

#include "kernels_templates/core/tile_sums.h"
#include "kernels_templates/core/vector.h"
#include "kernels_templates/gradient/early_lists.h"
#include "kernels_templates/shared/gradient_kernels.h"

namespace minuet {

/// Returns where the gradient of a weight is stored.
MINUET_HD i64 place_of_weight(const AddPartsParams& p, i32 offset, i32 input, i32 output) {
  i64 place = input * p.input_stride + output * p.output_stride;
  for (i32 a = p.axes - 1; a > 0; --a) {
    const i32 outer = offset / p.axis_sizes[a];
    place += (offset - outer * p.axis_sizes[a]) * p.axis_strides[a];
    offset = outer;
  }
  return place + offset * p.axis_strides[0];
}

/// Stores the sums of the weights of consecutive output channels, or adds them to what is there, from `place`
/// on.
template <i32 Count>
MINUET_HD void store_weights(const AddPartsParams& p, i64 place, float (&sums)[Count]) {
  if constexpr (Count == 4) {
    if (p.stores_vectors != 0) {
      const i64 byte = place * i64{sizeof(float)};
      if (p.adds != 0) {
        float before[Count];
        to_floats<DType::F32>(load_vector_if<16, true>(true, p.weight_gradient, byte), before);
        MINUET_UNROLL
        for (i32 v = 0; v < Count; ++v) sums[v] += before[v];
      }
      store_vector(p.weight_gradient, byte, from_floats<DType::F32, 16>(sums));
      return;
    }
  }
  MINUET_UNROLL
  for (i32 v = 0; v < Count; ++v) {
    float* const target = p.weight_gradient + place + v * p.output_stride;
    *target = p.adds != 0 ? *target + sums[v] : sums[v];
  }
}

/// Says what a thread adds.
struct AddWork {
  bool exists = false;          // Is the same for all threads of a block.
  i32 bits = 0;                 // Is the logarithm of the number of threads of a vector.
  const char* slots = nullptr;  // Points to the thread's first slot.
  i64 slot_bytes = 0;           // Is the distance of its slots.
  i32 count = 0;                // Counts its slots.
  bool stores = false;          // Says whether the thread stores the sum of its vector.
  i64 target = 0;               // Is the place of the vector in the weight's gradient.
};

/// Finds the work of the blocks of a grid. All threads of a block must call its functions together. The
/// numbers of threads and of vectors are powers of two, so that little is divided.
template <AddPartsSpec S>
class AddWorks {
 public:
  MINUET_DEVICE explicit AddWorks(const AddPartsParams& p)
      : p_(p),
        steps_(read_early(p.first_step + p.volume)),
        row_vectors_(static_cast<u32>(p.outputs / S.vector)),
        vectors_(static_cast<u32>(p.inputs) * row_vectors_) {
    enter_offsets();
  }

  /// Returns the work with a number, which must ascend from call to call. There may be none left.
  MINUET_DEVICE AddWork at(i64 number) {
    for (; offset_ < p_.volume; offset_ += 32, enter_offsets()) {
      const u32 all = __shfl_sync(~0u, end_of_lane_, 31);
      if (number - earlier_ < all) {
        const u32 work = static_cast<u32>(number - earlier_);
        const i32 found = lowest_bit(__ballot_sync(~0u, work < end_of_lane_));
        return work_of(
            offset_ + found,
            {__shfl_sync(~0u, parts_of_lane_.first, found), __shfl_sync(~0u, parts_of_lane_.count, found)},
            work - __shfl_sync(~0u, first_of_lane_, found));
      }
      earlier_ += all;
    }
    return {};
  }

 private:
  static constexpr i32 kThreadBits = add_thread_bits(S);
  static_assert(1 << kThreadBits == S.threads, "a power of two");

  MINUET_DEVICE void enter_offsets() {
    const i32 offset = offset_ + static_cast<i32>(threadIdx.x % 32);
    u32 works = 0;
    if (offset < p_.volume) {
      parts_of_lane_ =
          parts_of_offset(read_early(p_.first_step + offset), read_early(p_.first_step + offset + 1),
                          parts_of(steps_, p_.wanted_parts), steps_);
      const i32 bits = kThreadBits - add_bits_of(parts_of_lane_.count);
      works = (vectors_ + (1u << bits) - 1) >> bits;
    }
    end_of_lane_ = sum_up_to_lane(works);
    first_of_lane_ = end_of_lane_ - works;
  }
  /// Returns a work of an offset, of which those in front are `earlier`.
  MINUET_DEVICE AddWork work_of(i32 offset, const PartsOfOffset& parts, u32 earlier) const {
    AddWork work;
    work.exists = true;
    work.bits = add_bits_of(parts.count);
    const i32 column_bits = kThreadBits - work.bits, share = static_cast<i32>(threadIdx.x) >> column_bits;
    const u32 vector = (earlier << column_bits) + (threadIdx.x & ((1u << column_bits) - 1));
    if (vector >= vectors_) return work;
    const u32 input = vector / row_vectors_;
    const i32 output = static_cast<i32>(vector - input * row_vectors_) * S.vector;
    const i64 slot = parts.first + share + offset;
    const float* const sums = p_.sums + slot * p_.layout.elements;
    work.slots =
        reinterpret_cast<const char*>(sums + place_in_slot(p_.layout, static_cast<i32>(input), output));
    work.slot_bytes = (p_.layout.elements * i64{sizeof(float)}) << work.bits;
    work.count = (parts.count - share + (1 << work.bits) - 1) >> work.bits;
    work.stores = share == 0;
    work.target = place_of_weight(p_, offset, static_cast<i32>(input), output);
    return work;
  }

  const AddPartsParams& p_;
  const i64 steps_;
  const u32 row_vectors_, vectors_;  // Count the vectors of an input channel, and of an offset.
  i64 earlier_ = 0;  // Counts the works of the offsets in front of `offset_`, which have been passed.
  i32 offset_ = 0;   // Is a multiple of 32. The members below are of this offset and the next 31, one a lane.
  PartsOfOffset parts_of_lane_;
  u32 first_of_lane_ = 0, end_of_lane_ = 0;  // Number the works behind `earlier_`.
};

/// Adds the slots of `parts` parts to `sums`, in this order, from `slot` on and `stride` bytes apart.
template <i32 Count>
MINUET_HD void add_slots(float (&sums)[Count], const char* slot, i64 stride, i32 parts) {
  constexpr i32 kBytes = Count * static_cast<i32>(sizeof(float));
  for (i32 part = 0; part < parts; part += kPartsAtOnce, slot += kPartsAtOnce * stride) {
    Vector<kBytes> vectors[kPartsAtOnce];
    MINUET_UNROLL
    for (i32 i = 0; i < kPartsAtOnce; ++i) {
      vectors[i] = load_vector_if<kBytes, true>(part + i < parts, slot, i * stride);
    }
    MINUET_UNROLL
    for (i32 i = 0; i < kPartsAtOnce; ++i) {
      float values[Count];
      to_floats<DType::F32>(vectors[i], values);
      MINUET_UNROLL
      for (i32 v = 0; v < Count; ++v) sums[v] += values[v];
    }
  }
}

/// Adds the sums of the 2^`bits` threads of each vector, of which the first one gets the result.
template <AddPartsSpec S>
MINUET_DEVICE void add_shares(float (&sums)[S.vector], i32 bits) {
  __shared__ float shares[S.vector][S.threads];
  const i32 thread = static_cast<i32>(threadIdx.x);
  MINUET_UNROLL
  for (i32 v = 0; v < S.vector; ++v) shares[v][thread] = sums[v];
  for (i32 left = S.threads / 2; bits > 0; --bits, left /= 2) {
    __syncthreads();
    if (thread >= left) continue;
    MINUET_UNROLL
    for (i32 v = 0; v < S.vector; ++v) shares[v][thread] = sums[v] += shares[v][thread + left];
  }
  __syncthreads();  // The next work overwrites the shares.
}

template <AddPartsSpec S>
MINUET_KERNEL MINUET_LAUNCH_BOUNDS(S.threads, kAddBlocks) void add_parts(MINUET_PARAMS(AddPartsParams) p) {
  AddWorks<S> works(p);
  i64 number = blockIdx.x;
  AddWork work = works.at(number);
  follow_last_launch();
  for (; work.exists; number += gridDim.x, work = works.at(number)) {
    float sums[S.vector] = {};
    add_slots(sums, work.slots, work.slot_bytes, work.count);
    if (work.bits > 0) add_shares<S>(sums, work.bits);
    if (work.stores) store_weights(p, work.target, sums);
  }
}

}  // namespace minuet
