// Calls that meet: what another thread is in is refused, and destroy waits. A stream that stands still keeps
// a call where it is.
#include <atomic>
#include <thread>

#include "tests/runtime/abi/abi_stream.h"
#include "tests/runtime/execution/execution_fixture.h"
#include "tests/support/by_hand.h"
#include "tests/support/wait_until.h"

namespace minuet::abi {
namespace {

using testing::HasSubstr;

class InUseTest : public ExecutionTest {
 protected:
  /// The test's own thread, which looks whether a call is in the execution, is in it for a moment too.
  void prepare_on(const Stream& stream, minuet_execution* execution, const Buffer& coordinates,
                  const Cloud& cloud) {
    stream.make_current();
    check(when_let_in([&] {
      return minuet_execution_prepare(execution, coordinates.integers(), cloud.count(), stream.get());
    }));
  }
  /// Of an execution that was prepared: OK, until another thread is in it or in its queue.
  static std::string wait_until_refused(minuet_execution* execution) {
    int64_t rows = 0;
    int32_t channels = 0;
    minuet_status status = MINUET_OK;
    std::string error;
    wait_until("a call that is refused", [&] {
      status = minuet_execution_output_shape(execution, &rows, &channels);
      if (status != MINUET_OK) error = last_error();
      return status != MINUET_OK;
    });
    EXPECT_EQ(status, MINUET_FAILED_PRECONDITION);
    return error;
  }
  /// From a thread of its own, which waits for what only the gate lets on.
  static void expect_destroy_waits(Execution execution, Gate& gate) {
    std::atomic<bool> begun{false};
    std::thread destroys([&] {
      begun = true;
      execution.reset();
      EXPECT_TRUE(gate.is_open());
    });
    while (!begun) std::this_thread::yield();
    for (int i = 0; i < 1000; ++i) std::this_thread::yield();  // so that it might have ended
    gate.open();
    destroys.join();
  }
  /// What is there now: waits for no stream.
  std::vector<char> peek(const Buffer& buffer) {
    std::vector<char> bytes(static_cast<size_t>(buffer.bytes()));
    check(minuet_device_copy(machine().device(), bytes.data(), buffer.data(), buffer.bytes(), 1));
    return bytes;
  }
};

TEST_P(InUseTest, AnExecutionThatAnotherThreadIsIn) {
  const Stream stream(machine());
  const Cloud cloud = scene(60);
  const std::vector<char> expected = fresh(cloud).bytes;
  const Buffer coordinates(machine(), cloud.coordinates), features(machine(), cloud.bytes);
  const Buffer output(machine(), static_cast<int64_t>(expected.size()));
  const Execution execution = this->execution();
  prepare_on(stream, execution.get(), coordinates, cloud);  // warm: what allocates may wait for all streams
  Gate gate(stream.get());
  std::thread blocked([&] { prepare_on(stream, execution.get(), coordinates, cloud); });
  EXPECT_THAT(wait_until_refused(execution.get()), HasSubstr("the execution is in use by another thread"));
  EXPECT_EQ(enqueue(execution.get(), cloud, features.data(), output.data(), stream.get()),
            MINUET_FAILED_PRECONDITION);
  EXPECT_EQ(minuet_execution_prepare(execution.get(), nullptr, 1, stream.get()), MINUET_FAILED_PRECONDITION);
  EXPECT_FALSE(gate.is_open());
  gate.open();
  blocked.join();
  check(enqueue(execution.get(), cloud, features.data(), output.data(), stream.get()));  // as if nothing was
  check(minuet_device_synchronize(machine().device(), stream.get()));
  EXPECT_EQ(output.read<char>(), expected);
}

TEST_P(InUseTest, AQueueThatAnotherThreadIsIn) {
  const Stream stream(machine());
  const Queue queue = make_queue(machine(), stream.get());
  const Cloud cloud = scene(60);
  const std::vector<char> expected = fresh(cloud).bytes;
  const Buffer coordinates(machine(), cloud.coordinates), features(machine(), cloud.bytes);
  const Buffer output(machine(), static_cast<int64_t>(expected.size()));
  minuet_execution_options options = MINUET_EXECUTION_OPTIONS_INIT;
  options.queue = queue.get();
  const Execution execution = this->execution(&options), other = this->execution(&options);
  for (const Execution* each : {&execution, &other}) prepare_on(stream, each->get(), coordinates, cloud);
  Gate gate(stream.get());
  std::thread blocked([&] { prepare_on(stream, execution.get(), coordinates, cloud); });
  EXPECT_THAT(wait_until_refused(other.get()), HasSubstr("the queue is in use by another thread"));
  minuet_coordinates_options of_set = MINUET_COORDINATES_OPTIONS_INIT;
  of_set.queue = queue.get();
  minuet_coordinates* set = nullptr;
  EXPECT_EQ(minuet_coordinates_create(machine().device(), &of_set, coordinates.integers(), cloud.count(),
                                      stream.get(), &set),
            MINUET_FAILED_PRECONDITION);
  EXPECT_EQ(set, nullptr);
  gate.open();
  blocked.join();
  check(enqueue(other.get(), cloud, features.data(), output.data(), stream.get()));
  check(minuet_device_synchronize(machine().device(), stream.get()));
  EXPECT_EQ(output.read<char>(), expected);
}

TEST_P(InUseTest, DestroyWaitsForAnothersCall) {
  const Stream stream(machine());
  const Cloud cloud = scene(60);
  const Buffer coordinates(machine(), cloud.coordinates);
  Execution execution = this->execution();
  minuet_execution* const given = execution.get();
  prepare_on(stream, given, coordinates, cloud);
  Gate gate(stream.get());
  std::thread blocked([&] { prepare_on(stream, given, coordinates, cloud); });
  wait_until_refused(given);
  expect_destroy_waits(std::move(execution), gate);
  blocked.join();
}

/// On the caller's stream, in the caller's workspace and in the library's, with a queue and without.
TEST_P(InUseTest, DestroyWaitsForWhatIsEnqueued) {
  const Stream stream(machine());
  const Queue queue = make_queue(machine(), stream.get());
  const Cloud cloud = scene(60);
  const std::vector<char> expected = fresh(cloud).bytes;
  const Buffer coordinates(machine(), cloud.coordinates), features(machine(), cloud.bytes);
  for (const bool queued : {false, true}) {
    minuet_execution_options options = MINUET_EXECUTION_OPTIONS_INIT;
    options.queue = queued ? queue.get() : nullptr;
    int64_t bytes = 0;
    {
      const Execution execution = this->execution(&options);
      prepare_on(stream, execution.get(), coordinates, cloud);
      bytes = counters_of(execution.get()).workspace_bytes;
    }
    const Buffer workspace(machine(), bytes);
    for (void* const given : {static_cast<void*>(nullptr), workspace.data()}) {
      SCOPED_TRACE(testing::Message() << (queued ? "queue" : "no queue") << (given ? ", workspace" : ""));
      options.workspace = given, options.workspace_bytes = given ? bytes : 0;
      const Buffer output(machine(), static_cast<int64_t>(expected.size()));
      Execution execution = this->execution(&options);
      prepare_on(stream, execution.get(), coordinates, cloud);
      check(enqueue(execution.get(), cloud, features.data(), output.data(), stream.get()));  // warm
      check(minuet_device_synchronize(machine().device(), stream.get()));
      const Buffer behind(machine(), output.bytes());
      Gate gate(stream.get());
      check(enqueue(execution.get(), cloud, features.data(), behind.data(), stream.get()));
      EXPECT_NE(peek(behind), expected);
      expect_destroy_waits(std::move(execution), gate);
      EXPECT_EQ(peek(behind), expected);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, InUseTest,
                         testing::Combine(testing::Values("cuda:0"), testing::Values(DType::F32, DType::F16)),
                         device_test_name);

}  // namespace
}  // namespace minuet::abi
