#include "runtime/engine/ops/convolution_groups.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace minuet {
namespace {

i64 round_up(i64 value, i64 step) { return (value + step - 1) / step * step; }

/// Makes one group of the offsets plan.order[first] to plan.order[last - 1]. Each of them gets as many buffer
/// rows as the largest one needs, rounded up to a multiple of `step`.
void place_group(const i32* counts, i32 first, i32 last, i64 step, GroupPlan& plan) {
  GemmGroup group;
  group.first_slot = first;
  group.count = last - first;
  group.first_row = plan.gathered_rows;
  group.height = round_up(counts[plan.order[last - 1]], step);
  for (i32 slot = first; slot < last; ++slot) {
    const i32 k = plan.order[slot];
    const i64 base = group.first_row + (slot - first) * group.height;
    // The casts may overflow, but then group_gemms() returns an error and the values are not used.
    plan.row_base[k] = static_cast<i32>(base);
    plan.padding_start[k] = static_cast<i32>(base + counts[k]);
    // Stores the number of padding rows. At the end, group_gemms() replaces the numbers by their prefix sums.
    plan.padding_ends[k] = static_cast<i32>(group.height - counts[k]);
  }
  plan.gathered_rows += group.count * group.height;
  plan.largest_height = std::max(plan.largest_height, group.height);
  plan.groups.push_back(group);
}

}  // namespace

GroupPlan::GroupPlan(i32 volume)
    : order(volume), row_base(volume), padding_ends(volume), padding_start(volume) {
  groups.reserve(volume);
}

i32* copy_tables(const GroupPlan& plan, i32* target) {
  for (const std::vector<i32>* table :
       {&plan.row_base, &plan.padding_ends, &plan.padding_start, &plan.order}) {
    target = std::copy(table->begin(), table->end(), target);
  }
  return target;
}

GroupTables tables_at(const i32* tables, i32 volume) {
  if (tables == nullptr) return {};
  return {tables, tables + volume, tables + 2 * volume, tables + 3 * volume};
}

llvm::Error group_gemms(const i32* counts, i32 volume, i32 direct_offset, const GroupingChoice& choice,
                        GroupPlan& plan) {
  plan.groups.clear();
  plan.gathered_rows = plan.largest_height = 0;
  plan.streams = choice.streams;
  plan.direct_offset = direct_offset;
  plan.direct_rows = direct_offset >= 0 ? counts[direct_offset] : 0;
  plan.pairs = std::accumulate(counts, counts + volume, i64{0});
  std::iota(plan.order.begin(), plan.order.end(), 0);
  std::fill(plan.padding_ends.begin(), plan.padding_ends.end(), 0);
  std::fill(plan.padding_start.begin(), plan.padding_start.end(), 0);
  std::fill(plan.row_base.begin(), plan.row_base.end(), 0);

  // Sorts the offsets by their number of pairs. The offset whose GEMM reads the features in place
  // (direct_offset) comes last, because it belongs to no group.
  auto size_of = [&](i32 k) { return k == direct_offset ? std::numeric_limits<i64>::max() : i64{counts[k]}; };
  std::sort(plan.order.begin(), plan.order.end(),
            [&](i32 a, i32 b) { return size_of(a) != size_of(b) ? size_of(a) < size_of(b) : a < b; });
  i32 slot = 0;
  const i32 end = volume - (direct_offset >= 0 ? 1 : 0);
  while (slot < end && counts[plan.order[slot]] == 0) ++slot;

  while (slot < end) {
    const i32 first = slot;
    i64 useful = counts[plan.order[slot]];
    for (++slot; slot < end; ++slot) {
      const i64 size = counts[plan.order[slot]];
      const i64 padded = size * (slot + 1 - first);
      if (static_cast<double>(padded - useful - size) >
          choice.padding_threshold * static_cast<double>(useful + size)) {
        break;
      }
      useful += size;
    }
    place_group(counts, first, slot, choice.height_step, plan);
  }
  std::reverse(plan.groups.begin(), plan.groups.end());

  if (plan.gathered_rows > std::numeric_limits<i32>::max()) {
    return make_error(
        StatusCode::OutOfRange,
        "the layer's {0} pairs need {1} buffer rows; at most 2^31 - 1 are supported: split the batch",
        plan.pairs, plan.gathered_rows);
  }
  std::partial_sum(plan.padding_ends.begin(), plan.padding_ends.end(), plan.padding_ends.begin());
  plan.padding_rows = volume > 0 ? plan.padding_ends.back() : 0;
  return llvm::Error::success();
}

i64 slice_rows(const GroupPlan& plan, i64 row_bytes, i64 scratch_bytes) {
  return std::min(plan.gathered_rows, std::max(plan.largest_height, scratch_bytes / row_bytes));
}

void slice_groups(const GroupPlan& plan, i64 rows, GemmSlices& slices) {
  slices.groups.clear();
  slices.slices.assign(1, GemmSlice{});
  // Iterates in reverse, because rows are numbered from the smallest group, which is the last in plan.groups.
  for (auto group = plan.groups.rbegin(); group != plan.groups.rend(); ++group) {
    for (i32 done = 0; done < group->count;) {
      GemmSlice* slice = &slices.slices.back();
      if (slice->last_row > slice->first_row && slice->last_row - slice->first_row + group->height > rows) {
        const GemmSlice next{slice->last_row, slice->last_row, slice->last_group, slice->last_group};
        slice = &slices.slices.emplace_back(next);
      }
      const i64 used = slice->last_row - slice->first_row;
      const i32 count = static_cast<i32>(
          std::clamp<i64>((rows - used) / std::max<i64>(group->height, 1), 1, group->count - done));
      slices.groups.push_back({used, group->height, group->first_slot + done, count});
      slice->last_row += count * group->height;
      ++slice->last_group;
      done += count;
    }
  }
  for (const GemmSlice& slice : slices.slices) {
    std::reverse(slices.groups.begin() + slice.first_group, slices.groups.begin() + slice.last_group);
  }
}

}  // namespace minuet
