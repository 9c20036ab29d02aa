// What tests of selections share: memory of a call, and comparison with plain loops.
#pragma once

#include <cmath>

#include "include/minuet/select.h"
#include "tests/support/abi.h"
#include "tests/support/rounding.h"
#include "tests/support/select_oracle.h"

namespace minuet::abi {

using oracle::Rule;
using oracle::SelectCase;
using oracle::Selected;
using SelectOp = Handle<minuet_select_op>;

inline constexpr std::array<int, 4> kOneChild{1, 1, 1, 1};

class SelectTest : public DeviceTest {
 protected:
  minuet_select_options options_of(const SelectCase& given) const {
    minuet_select_options options = MINUET_SELECT_OPTIONS_INIT;
    options.ndim = given.ndim, options.dtype = abi_dtype(dtype());
    options.source = given.of_cells ? MINUET_SELECT_CELLS : MINUET_SELECT_ROWS;
    options.rule = static_cast<minuet_select_rule>(given.rule);
    if (given.rule == Rule::Above) options.threshold = static_cast<float>(given.threshold);
    if (given.rule == Rule::Best) options.best = given.best;
    if (given.rule == Rule::Best || given.of_cells) options.batch_size = given.batch_size;
    for (int a = 0; a < given.ndim; ++a) {
      const auto axis = static_cast<size_t>(a);
      options.tensor_stride[a] = given.of_cells ? given.tensor_stride[axis] : given.child_step[axis];
      if (given.of_cells) options.shape[a] = given.shape[axis];
      if (!given.of_cells) options.children[a] = given.children[axis];
      if (given.rule == Rule::NonZero) options.axis_order[a] = given.order[axis];
    }
    if (given.rule == Rule::NonZero)
      options.channels = given.channels, options.channels_last = given.channels_last ? 1 : 0;
    return options;
  }
  SelectOp selector(const SelectCase& given) {
    const minuet_select_options options = options_of(given);
    minuet_select_op* made = nullptr;
    check(minuet_select_create(machine().context(), &options, &made));
    SelectOp op(made, {minuet_select_op_destroy});
    check(minuet_select_op_load(made, machine().device()));
    return op;
  }

  /// Device memory of one call, all of it poisoned but the inputs.
  struct Room {
    Room(Machine& machine, minuet_select_op* op, const SelectCase& of, DType dtype, int64_t capacity,
         int64_t more = 0, int64_t shift = 0)
        : dtype(storage_type(dtype)),
          capacity(capacity),
          most_rows(of.of_cells ? 0 : of.rows() + more),
          candidates(of.of_cells ? of.candidates() : most_rows * of.children_of_row()),
          each(of.of_cells ? 1 : of.children_of_row()),
          dense_shift(shift * dtype_bytes(dtype)),
          coordinates(machine, std::max<int64_t>(most_rows * (1 + of.ndim) * 4, 4)),
          row_count(machine, 4),
          mask(machine, std::max<int64_t>(candidates, 1)),
          scores(machine, std::max<int64_t>(candidates / each * ld() * dtype_bytes(dtype), 4)),
          dense(machine, std::max<int64_t>(
                             dense_shift + static_cast<int64_t>(of.dense.size()) * dtype_bytes(dtype), 4)),
          workspace(machine, bytes_of(machine, op, most_rows)),
          selected(machine, capacity * (1 + of.ndim) * 4),
          sources(machine, capacity * 4),
          parents(machine, capacity * 4),
          features(machine, capacity * of.channels * dtype_bytes(dtype)),
          places(machine, candidates * 4),
          count(machine, 4),
          status(machine, 4) {
      fill(machine, of);
      if (!of.of_cells) {
        given.coordinates = coordinates.integers();
        given.most_rows = most_rows;
        if (more > 0) given.row_count = row_count.integers();
        given.parents = static_cast<int32_t*>(parents.data());
      }
      if (of.rule == Rule::Mask) given.mask = static_cast<const uint8_t*>(mask.data());
      if (of.rule == Rule::Above || of.rule == Rule::Best)
        given.scores = scores.data(), given.scores_ld = ld();
      if (of.rule == Rule::NonZero) given.dense = dense_begin(), given.features = features.data();
      given.workspace = workspace.data(), given.workspace_bytes = workspace.bytes();
      given.capacity = capacity;
      given.selected = static_cast<int32_t*>(selected.data());
      given.sources = static_cast<int32_t*>(sources.data());
      given.places = static_cast<int32_t*>(places.data());
      given.count = static_cast<int32_t*>(count.data());
      given.status = static_cast<uint32_t*>(status.data());
    }
    int64_t ld() const { return each + 2; }
    void* dense_begin() const { return static_cast<char*>(dense.data()) + dense_shift; }
    /// Puts the inputs of a case with the same sizes, or fewer rows, on the device.
    void fill(Machine& machine, const SelectCase& of) {
      put(machine, coordinates, of.coordinates);
      put(machine, row_count, std::vector<int32_t>{static_cast<int32_t>(of.rows())});
      put(machine, mask, of.mask);
      std::vector<float> spread;
      for (size_t i = 0; i < of.scores.size(); ++i) {
        spread.push_back(of.scores[i]);
        // The gaps have the largest score.
        if ((static_cast<int64_t>(i) + 1) % each == 0) spread.insert(spread.end(), {1000, 1000});
      }
      put(machine, scores, encode(dtype, spread));
      put(machine, dense_begin(), encode(dtype, of.dense));
    }
    static int64_t bytes_of(Machine& machine, minuet_select_op* op, int64_t most_rows) {
      int64_t bytes = 0;
      check(minuet_select_bytes(op, machine.arch().c_str(), most_rows, &bytes));
      return bytes;
    }
    template <class T>
    static void put(Machine& machine, const Buffer& target, const std::vector<T>& values) {
      put(machine, target.data(), values);
    }
    template <class T>
    static void put(Machine& machine, void* target, const std::vector<T>& values) {
      const auto bytes = static_cast<int64_t>(values.size() * sizeof(T));
      if (bytes > 0) check(minuet_device_copy(machine.device(), target, values.data(), bytes, 0));
    }

    DType dtype;
    int64_t capacity, most_rows, candidates, each;
    int64_t dense_shift;  // in bytes: where the dense tensor begins in its memory
    Buffer coordinates, row_count, mask, scores, dense, workspace, selected, sources, parents, features,
        places, count, status;
    minuet_select_arguments given = MINUET_SELECT_ARGUMENTS_INIT;
  };

  static std::vector<int32_t> padded(std::vector<int32_t> values, int64_t size, int32_t value) {
    values.resize(static_cast<size_t>(size), value);
    return values;
  }
  /// Expects the level of the oracle, with zeros and -1 behind it.
  void expect_selected(const Room& room, const SelectCase& of) {
    const Selected expected = oracle::selected_of(of, room.capacity);
    ASSERT_EQ(room.status.read<uint32_t>().front(), expected.status);
    ASSERT_EQ(room.count.read<int32_t>().front(), expected.count());
    ASSERT_EQ(room.selected.read<int32_t>(), padded(expected.coordinates, room.capacity * (1 + of.ndim), 0));
    ASSERT_EQ(room.sources.read<int32_t>(), padded(expected.sources, room.capacity, -1));
    if (room.given.parents) {
      ASSERT_EQ(room.parents.read<int32_t>(), padded(expected.parents, room.capacity, -1));
    }
    ASSERT_EQ(room.places.read<int32_t>(), padded(expected.places, room.candidates, -1));
    if (!room.given.features) return;
    std::vector<float> features = expected.features;
    features.resize(static_cast<size_t>(room.capacity * of.channels));
    const std::vector<float> got = decode(room.dtype, room.features.read<char>());
    ASSERT_EQ(got.size(), features.size());
    for (size_t i = 0; i < got.size(); ++i) {
      ASSERT_TRUE(std::isnan(features[i]) ? std::isnan(got[i]) : got[i] == features[i])
          << "feature " << i << " is " << got[i] << ", expected " << features[i];
    }
  }
  void run(const SelectOp& op, const Room& room) {
    check(minuet_select(op.get(), machine().device(), &room.given, nullptr));
  }
  /// `shift` moves the dense tensor by elements, so that it begins on no multiple of a vector.
  void run_and_expect(const SelectCase& given, int64_t spare, int64_t more, int64_t shift = 0) {
    SCOPED_TRACE("rule " + std::to_string(static_cast<int>(given.rule)) + ", " +
                 std::to_string(given.candidates()) + " candidates");
    const SelectOp op = selector(given);
    const int64_t needed = oracle::kept_count(given);
    const Room room(machine(), op.get(), given, dtype(), std::max<int64_t>(needed + spare, 0), more, shift);
    run(op, room);
    expect_selected(room, given);
    const std::vector<char> first = room.selected.read<char>();
    run(op, room);
    EXPECT_EQ(room.selected.read<char>(), first);
  }
  int64_t rows() { return machine().is_software() ? 300 : 5000; }
};

}  // namespace minuet::abi
