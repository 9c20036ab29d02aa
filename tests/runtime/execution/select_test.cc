// Levels of rows, children and cells that a rule keeps, through the C ABI on every device: exactly those of
// plain loops, from poisoned memory, in graphs and from many threads; and features there and back.
#include <gmock/gmock.h>

#include <cstring>
#include <thread>

#include "include/minuet/points.h"
#include "tests/runtime/abi/abi_stream.h"
#include "tests/runtime/execution/select_fixture.h"
#include "tests/support/flushed_subnormals.h"

namespace minuet::abi {
namespace {

using testing::HasSubstr;

class Select : public SelectTest {};

constexpr Rule kRowRules[] = {Rule::All, Rule::Mask, Rule::Above, Rule::Best};
constexpr Rule kCellRules[] = {Rule::All, Rule::Mask, Rule::Above, Rule::Best, Rule::NonZero};

TEST_P(Select, KeepsRows) {
  Random random(21);
  for (const Rule rule : kRowRules) {
    run_and_expect(oracle::random_rows(random, rule, 3, rows(), 5, kOneChild), 11, 33);
    SelectCase given = oracle::random_rows(random, rule, 3, rows(), 4, kOneChild, 20);
    given.batch_size = 4, given.best = 40;
    run_and_expect(given, 0, 0);
  }
}

TEST_P(Select, KeepsChildren) {
  Random random(22);
  for (const Rule rule : kRowRules) {
    run_and_expect(oracle::random_rows(random, rule, 3, rows() / 5, 3, {2, 2, 2, 1}), 5, 7);
    run_and_expect(oracle::random_rows(random, rule, 2, rows() / 5, 3, {3, 1, 1, 1}), 0, 0);
    run_and_expect(oracle::random_rows(random, rule, 1, rows() / 5, 2, {4, 1, 1, 1}), 2, 1);
    run_and_expect(oracle::random_rows(random, rule, 4, rows() / 5, 2, {2, 1, 2, 3}), 2, 0);
  }
}

TEST_P(Select, KeepsCells) {
  Random random(23);
  for (const Rule rule : kCellRules) {
    SelectCase bird = oracle::random_cells(random, rule, 3, {9, 8, 5, 1}, 3, 3, false, 100);
    run_and_expect(bird, 6, 0);
    bird.order = {2, 1, 0, 3};
    run_and_expect(bird, 0, 0);
    const SelectCase last = oracle::random_cells(random, rule, 3, {4, 7, 6, 1}, 2, 8, true, 60);
    for (const int64_t shift : {0, 1}) run_and_expect(last, 0, 0, shift);
    run_and_expect(oracle::random_cells(random, rule, 2, {21, 13, 1, 1}, 1, 5, true), 1, 0);
    run_and_expect(oracle::random_cells(random, rule, 1, {120, 1, 1, 1}, 4, 1, false), 2, 0);
    run_and_expect(oracle::random_cells(random, rule, 4, {3, 4, 2, 5}, 2, 2, false), 3, 0);
  }
}

TEST_P(Select, TellsSubnormalsFromZero) {
  Random random(33);
  const DType stored = storage_type(dtype());
  const float least = stored == DType::F16 ? 0x1p-24f : stored == DType::BF16 ? 0x1p-133f : 1e-40f;
  for (const Rule rule : {Rule::Above, Rule::Best, Rule::NonZero}) {
    SelectCase given = rule == Rule::NonZero
                           ? oracle::random_cells(random, rule, 2, {9, 7, 1, 1}, 2, 2, false)
                           : oracle::random_rows(random, rule, 3, 300, 3, kOneChild);
    oracle::make_tiny(random, least, given);
    for (const float threshold : {0.0f, least}) {
      given.threshold = static_cast<double>(threshold), given.best = 40;
      run_and_expect(given, 3, 0);
      // The calling thread is one of those that work for the CPU device.
      const SelectOp op = selector(given);
      const Room room(machine(), op.get(), given, dtype(), given.candidates());
      {
        const FlushedSubnormals flushed;
        run(op, room);
      }
      expect_selected(room, given);
    }
  }
}

TEST_P(Select, KeepsNoneAllAndNothingOfNothing) {
  Random random(24);
  for (const uint64_t share : {0, 256}) {
    for (const Rule rule : kRowRules) {
      for (const int64_t rows : {0, 1, 2, 513})
        run_and_expect(oracle::random_rows(random, rule, 3, rows, 2, kOneChild, share), 3, rows % 3);
    }
    for (const Rule rule : kCellRules)
      run_and_expect(oracle::random_cells(random, rule, 2, {9, 10, 1, 1}, 2, 2, false, share), 2, 0);
  }
  SelectCase all_equal = oracle::random_rows(random, Rule::Best, 3, 700, 1, kOneChild);
  std::fill(all_equal.scores.begin(), all_equal.scores.end(), 1.0f);
  run_and_expect(all_equal, 0, 5);
  all_equal.best = 10000;
  run_and_expect(all_equal, 0, 5);
  std::fill(all_equal.scores.begin(), all_equal.scores.end(), std::nanf(""));
  run_and_expect(all_equal, 4, 0);
}

TEST_P(Select, OfMany) {
  if (machine().is_software()) return;  // It would take minutes there.
  Random random(25);
  for (const Rule rule : kRowRules) {
    SelectCase given = oracle::random_rows(random, rule, 3, 300000, 4, kOneChild, 100);
    given.best = 20000;
    run_and_expect(given, 0, 1000);
    given.batch_size = 4;
    run_and_expect(given, 0, 0);
  }
  run_and_expect(oracle::random_cells(random, Rule::NonZero, 3, {64, 64, 32, 1}, 2, 4, false, 20), 0, 0);
}

TEST_P(Select, ThatDoesNotFitLeavesNothing) {
  Random random(26);
  for (const Rule rule : kRowRules)
    run_and_expect(oracle::random_rows(random, rule, 3, 200, 2, kOneChild), -1, 3);
  for (const Rule rule : kCellRules)
    run_and_expect(oracle::random_cells(random, rule, 2, {12, 12, 1, 1}, 1, 2, false), -1, 0);
  const SelectCase given = oracle::random_rows(random, Rule::Best, 3, 100, 2, {2, 1, 1, 1});
  const SelectOp op = selector(given);
  for (const int32_t said : {-1, 111}) {
    const Room room(machine(), op.get(), given, dtype(), 200, 10);
    Room::put(machine(), room.row_count, std::vector<int32_t>{said});
    run(op, room);
    EXPECT_EQ(room.status.read<uint32_t>().front(), uint32_t{MINUET_CLOUD_PAST_CAPACITY});
    EXPECT_EQ(room.count.read<int32_t>().front(), 0);
    EXPECT_EQ(room.places.read<int32_t>(), std::vector<int32_t>(220, -1));
    EXPECT_EQ(room.sources.read<int32_t>(), std::vector<int32_t>(200, -1));
  }
}

TEST_P(Select, SaysWhatIsWrongWithCoordinates) {
  Random random(27);
  SelectCase given = oracle::random_rows(random, Rule::Best, 3, 100, 4, {1, 2, 1, 1});
  given.batch_size = 3;
  run_and_expect(given, 5, 2);
  given.batch_size = 4;
  given.coordinates[4 * 10] = -7;
  run_and_expect(given, 5, 0);
  given.coordinates[4 * 10] = 0;
  given.coordinates[4 * 10 + 2] = std::numeric_limits<int32_t>::max();
  given.rule = Rule::All;
  run_and_expect(given, 5, 0);
}

TEST_P(Select, GathersFeaturesThereAndBack) {
  Random random(28);
  const SelectCase given = oracle::random_rows(random, Rule::Mask, 3, 150, 3, {2, 2, 1, 1}, 90);
  const Selected expected = oracle::selected_of(given);
  const SelectOp op = selector(given);
  const Room room(machine(), op.get(), given, dtype(), expected.count() + 9, 20);
  run(op, room);
  constexpr int kChannels = 6;
  minuet_devoxelize_options options = MINUET_DEVOXELIZE_OPTIONS_INIT;
  options.dtype = abi_dtype(dtype()), options.channels = kChannels;
  minuet_point_op* made = nullptr;
  check(minuet_devoxelize_create(machine().context(), &options, &made));
  const Handle<minuet_point_op> gather(made, {minuet_point_op_destroy});
  check(minuet_point_op_load(made, machine().device()));
  const int64_t row_bytes = kChannels * dtype_bytes(dtype());
  std::vector<float> values;
  for (int64_t i = 0; i < room.candidates * kChannels; ++i)
    values.push_back(round_to(storage_type(dtype()), random.uniform(-2, 2)));
  const Buffer input(machine(), encode(storage_type(dtype()), values)),
      there(machine(), room.capacity * row_bytes), back(machine(), room.candidates * row_bytes);
  minuet_devoxelize_arguments forth = MINUET_DEVOXELIZE_ARGUMENTS_INIT;
  forth.most = room.capacity, forth.point_rows = room.sources.integers();
  forth.most_rows = room.candidates, forth.features = input.data(), forth.output = there.data();
  check(minuet_devoxelize(made, machine().device(), &forth, nullptr));
  minuet_devoxelize_arguments home = MINUET_DEVOXELIZE_ARGUMENTS_INIT;
  home.most = room.candidates, home.point_rows = room.places.integers();
  home.row_count = room.count.integers();
  home.most_rows = room.capacity, home.features = there.data(), home.output = back.data();
  check(minuet_devoxelize(made, machine().device(), &home, nullptr));
  const std::vector<float> got_there = decode(storage_type(dtype()), there.read<char>());
  const std::vector<float> got_back = decode(storage_type(dtype()), back.read<char>());
  for (int64_t row = 0; row < room.capacity; ++row) {
    for (int c = 0; c < kChannels; ++c) {
      const float want =
          row < expected.count()
              ? values[static_cast<size_t>(expected.sources[static_cast<size_t>(row)] * kChannels + c)]
              : 0;
      ASSERT_EQ(got_there[static_cast<size_t>(row * kChannels + c)], want) << row;
    }
  }
  for (int64_t i = 0; i < room.candidates; ++i) {
    const bool is_kept = i < given.candidates() && given.mask[static_cast<size_t>(i)] != 0;
    for (int c = 0; c < kChannels; ++c) {
      const auto at = static_cast<size_t>(i * kChannels + c);
      ASSERT_EQ(got_back[at], is_kept ? values[at] : 0) << i;
    }
  }
}

TEST_P(Select, IsReadAnewByEveryReplay) {
  if (machine().is_cpu()) return;  // Calls on the CPU are not captured.
  Random random(29);
  for (const Rule rule : {Rule::Mask, Rule::Best, Rule::NonZero}) {
    const auto make = [&](int64_t rows, uint64_t share) {
      if (rule != Rule::NonZero) return oracle::random_rows(random, rule, 3, rows, 3, {2, 1, 1, 1}, share);
      return oracle::random_cells(random, rule, 3, {9, 8, 5, 1}, 2, 3, false, share);
    };
    const SelectCase first = make(400, 128), second = make(310, 60);
    const SelectOp op = selector(first);
    Room room(machine(), op.get(), first, dtype(), 900, 50);
    Stream stream(machine());
    check(minuet_device_synchronize(machine().device(), nullptr));
    const CapturedGraph graph(
        stream.get(), [&] { check(minuet_select(op.get(), machine().device(), &room.given, stream.get())); });
    ASSERT_TRUE(graph.whole());
    for (const SelectCase* one : std::initializer_list<const SelectCase*>{&first, &second, &first}) {
      room.fill(machine(), *one);
      EXPECT_EQ(graph.launch(), CUDA_SUCCESS);
      check(minuet_device_synchronize(machine().device(), stream.get()));
      expect_selected(room, *one);
    }
  }
}

TEST_P(Select, NeedsTheKernelsToBeLoaded) {
  Random random(30);
  const SelectCase given = oracle::random_rows(random, Rule::Mask, 3, 10, 1, kOneChild);
  minuet_device_options device = MINUET_DEVICE_OPTIONS_INIT;
  const std::unique_ptr<Machine> own = Machine::open_own(machine().is_cpu() ? "cpu" : "cuda:0", device);
  const minuet_select_options options = options_of(given);
  minuet_select_op* made = nullptr;
  check(minuet_select_create(own->context(), &options, &made));
  const SelectOp op(made, {minuet_select_op_destroy});
  const Room room(*own, made, given, dtype(), 10);
  EXPECT_EQ(minuet_select(made, own->device(), &room.given, nullptr), MINUET_FAILED_PRECONDITION);
  EXPECT_THAT(last_error(), HasSubstr("call minuet_select_op_load first"));
}

TEST_P(Select, FromManyThreadsThreads) {
  Random random(31);
  struct Call {
    SelectCase given;
    SelectOp op;
    std::unique_ptr<Room> room;
    std::unique_ptr<Stream> stream;
  };
  std::vector<Call> calls;
  const auto add = [&](const SelectCase& given) {
    SelectOp op = selector(given);
    auto room = std::make_unique<Room>(machine(), op.get(), given, dtype(), given.candidates());
    calls.push_back({given, std::move(op), std::move(room), std::make_unique<Stream>(machine())});
  };
  add(oracle::random_rows(random, Rule::Best, 3, 300, 3, kOneChild));
  add(oracle::random_rows(random, Rule::Mask, 3, 410, 2, kOneChild));
  add(oracle::random_cells(random, Rule::NonZero, 3, {9, 8, 5, 1}, 1, 3, false));
  check(minuet_device_synchronize(machine().device(), nullptr));
  std::vector<std::thread> threads;
  for (const Call& call : calls) {
    threads.emplace_back([this, &call] {
      for (int i = 0; i < 5; ++i)
        check(minuet_select(call.op.get(), machine().device(), &call.room->given, call.stream->get()));
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const Call& call : calls) {
    check(minuet_device_synchronize(machine().device(), call.stream->get()));
    expect_selected(*call.room, call.given);
  }
}

MINUET_INSTANTIATE_DEVICE_TEST(Select);

}  // namespace
}  // namespace minuet::abi
