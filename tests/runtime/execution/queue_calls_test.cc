// Every call that takes an object of a queue, by the table of queue_calls.h: it is refused and changes
// nothing while another thread is in the queue or in the same execution, and where it names another stream
// than the queue's. A call of minuet.h that is in neither list fails the test.
#include "tests/runtime/execution/queue_calls.h"

#include <gmock/gmock.h>

#include <chrono>
#include <fstream>
#include <future>
#include <optional>
#include <regex>
#include <sstream>
#include <thread>

#include "tests/runtime/abi/abi_headers.h"
#include "tests/support/wait_until.h"

namespace minuet::abi::queue_calls {
namespace {

using testing::HasSubstr;

TEST(QueueCalls, EveryCallOfTheHeaderIsInOneOfTheLists) {
  std::vector<std::string> listed = kFromAnyThread;
  for (const Call& call : calls()) listed.emplace_back(call.name);
  std::vector<std::string> declared;
  for (const std::string& source : public_headers(MINUET_SOURCE_DIR)) {
    const std::regex declaration(R"(MINUET_API[^;(]*\b(minuet_\w+)\(([^;]*)\);)"),
        takes_object(R"(minuet_(queue|coordinates|kernel_map|execution)\b(\s|const)*\*)");
    for (std::sregex_iterator at(source.begin(), source.end(), declaration), end; at != end; ++at) {
      const std::string name = (*at)[1], parameters = (*at)[2];
      if (!std::regex_search(parameters, takes_object)) continue;
      declared.push_back(name);
      for (const Call& call : calls()) {
        const bool takes_stream = parameters.find("void* stream") != std::string::npos;
        EXPECT_TRUE(call.name != name || call.takes_stream == takes_stream) << name;
      }
    }
  }
  EXPECT_THAT(declared, testing::UnorderedElementsAreArray(listed));
}

class QueueCallsTest : public DeviceTest {
 protected:
  void SetUp() override {
    DeviceTest::SetUp();
    if (IsSkipped()) return;
    stream_.emplace(machine());
    plans_.emplace(machine(), dtype());
  }
  void TearDown() override { plans_.reset(), stream_.reset(); }

  std::optional<Stream> stream_;
  std::optional<Plans> plans_;
};

TEST_P(QueueCallsTest, NameTheQueuesStream) {
  const Queue queue = make_queue(machine(), stream_->get());
  Objects objects(machine(), *plans_, dtype(), stream_->get(), queue.get());
  const std::vector<char> expected = objects.output();
  objects.plans.room.poison();
  const std::vector<char> poison = objects.plans.room.read<char>();
  int odd = 0;
  for (const Call& each : calls()) {
    if (!each.takes_stream) continue;
    objects.stream = &odd;
    EXPECT_EQ(each.call(objects), MINUET_INVALID_ARGUMENT) << each.name;
    EXPECT_THAT(last_error(), HasSubstr("another stream than its queue")) << each.name;
    objects.stream = stream_->get();
    EXPECT_EQ(objects.plans.room.read<char>(), poison) << each.name;
  }
  objects.prepare_all();
  EXPECT_EQ(objects.output(), expected);
}

MINUET_INSTANTIATE_DEVICE_TEST(QueueCallsTest);

/// What only a stream that stands still can show.
class InUseCallsTest : public QueueCallsTest {
 protected:
  /// A thread is in `execution`, and in its queue, until the gate opens.
  std::thread enter(minuet_execution* execution) {
    std::thread blocked([this, execution] {
      stream_->make_current();
      int32_t layer = 0;
      check(when_let_in([&] { return minuet_execution_find_overflow(execution, stream_->get(), &layer); }));
    });
    wait_until("a call that is refused", [&] {
      minuet_execution_counters counters = MINUET_EXECUTION_COUNTERS_INIT;
      return minuet_execution_query_counters(execution, &counters) != MINUET_OK;
    });
    return blocked;
  }
  /// A call that is not refused would wait for what the gate holds, so another thread makes it.
  static void expect_refused(const Call& each, Objects& objects, const char* words, Gate& gate) {
    std::string error;
    std::future<minuet_status> answer = std::async(std::launch::async, [&] {
      const minuet_status status = each.call(objects);
      error = last_error();
      return status;
    });
    const auto is_ready = [&] {
      return answer.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
    };
    if (!wait_until(std::string("the end of ") + each.name, is_ready)) gate.open();
    EXPECT_EQ(answer.get(), MINUET_FAILED_PRECONDITION) << each.name;
    EXPECT_THAT(error, HasSubstr(words)) << each.name;
  }
  /// Each call of `wanted` is refused with `words` while a thread is in `execution`, and is OK afterwards.
  template <class Wanted>
  void expect_refused(Objects& objects, minuet_execution* execution, const char* words,
                      const Wanted& wanted) {
    const std::vector<char> expected = objects.output();
    objects.plans.room.poison();
    const std::vector<char> poison = objects.plans.room.read<char>();
    Gate gate(stream_->get());
    std::thread blocked = enter(execution);
    int refused = 0;
    for (const Call& each : calls()) {
      if (!wanted(each)) continue;
      expect_refused(each, objects, words, gate);
      ++refused;
    }
    EXPECT_GT(refused, 0);
    EXPECT_FALSE(gate.is_open());
    if (!gate.is_open()) gate.open();
    blocked.join();
    EXPECT_EQ(objects.plans.room.read<char>(), poison);
    EXPECT_EQ(objects.output(), expected);
    for (const Call& each : calls()) {
      const bool is_taken = objects.queue != nullptr || !each.needs_queue;
      EXPECT_EQ(each.call(objects), is_taken ? MINUET_OK : MINUET_INVALID_ARGUMENT)
          << each.name << " " << last_error();
    }
    EXPECT_EQ(objects.output(), expected);
  }
};

TEST_P(InUseCallsTest, AreRefusedWhileAnotherThreadIsInTheQueue) {
  const Queue queue = make_queue(machine(), stream_->get());
  Objects objects(machine(), *plans_, dtype(), stream_->get(), queue.get());
  minuet_execution_options options = MINUET_EXECUTION_OPTIONS_INIT;
  options.queue = queue.get();
  const Execution other = make_execution(machine(), plans_->network.get(), &options);
  check(minuet_execution_prepare(other.get(), plans_->coordinates.integers(), kRows, stream_->get()));
  expect_refused(objects, other.get(), "the queue is in use by another thread",
                 [](const Call&) { return true; });
}

TEST_P(InUseCallsTest, AreRefusedWhileAnotherThreadIsInTheExecution) {
  Objects objects(machine(), *plans_, dtype(), stream_->get(), nullptr);
  for (const auto& [of, execution] : {std::pair(Of::Network, &objects.network),
                                      {Of::Convolution, &objects.convolution},
                                      {Of::Points, &objects.points},
                                      {Of::Within, &objects.within}}) {
    expect_refused(objects, execution->get(), "the execution is in use by another thread",
                   [of = of](const Call& call) { return call.of == of && !call.needs_queue; });
  }
}

/// The execution comes before its queue: calls name the execution that they met.
TEST_P(InUseCallsTest, AreRefusedWhileAnotherThreadIsInTheExecutionOfAQueue) {
  const Queue queue = make_queue(machine(), stream_->get());
  Objects objects(machine(), *plans_, dtype(), stream_->get(), queue.get());
  int needing_a_queue = 0;
  expect_refused(objects, objects.convolution.get(), "the execution is in use by another thread",
                 [&](const Call& call) {
                   needing_a_queue += call.needs_queue ? 1 : 0;
                   return call.of == Of::Convolution;
                 });
  EXPECT_EQ(needing_a_queue, 1) << "minuet_executions_prepare_maps";
}

/// Calls from any thread neither wait for the thread that is in the queue nor are refused.
TEST_P(InUseCallsTest, WhatAnyThreadMayCallGoesOn) {
  const Queue queue = make_queue(machine(), stream_->get());
  Objects objects(machine(), *plans_, dtype(), stream_->get(), queue.get());
  minuet_coordinates* set = nullptr;
  minuet_kernel_map *dropped = nullptr, *turned = nullptr;
  check(objects.make_set(&set));
  check(objects.make_map(&dropped));
  int64_t pairs = 0;
  check(minuet_kernel_map_query_pairs(objects.map.get(), &pairs));
  Gate gate(stream_->get());
  std::thread blocked = enter(objects.network.get());
  EXPECT_EQ(minuet_coordinates_count(objects.set.get()), kRows);
  EXPECT_EQ(minuet_coordinates_rows(objects.set.get()), kRows);
  EXPECT_EQ(minuet_kernel_map_volume(objects.map.get()), 27);
  EXPECT_EQ(minuet_kernel_map_transpose(objects.map.get(), &turned), MINUET_OK);
  int64_t known = 0;
  EXPECT_EQ(minuet_kernel_map_query_pairs(turned, &known), MINUET_OK) << "they were read back before";
  EXPECT_EQ(known, pairs);
  minuet_kernel_map_destroy(turned);
  minuet_kernel_map_destroy(dropped);
  minuet_coordinates_destroy(set);
  EXPECT_FALSE(gate.is_open());
  gate.open();
  blocked.join();
}

INSTANTIATE_TEST_SUITE_P(Devices, InUseCallsTest,
                         testing::Combine(testing::Values("cuda:0"), testing::Values(DType::F32, DType::F16)),
                         device_test_name);

}  // namespace
}  // namespace minuet::abi::queue_calls
