// Executions of single convolutions that are prepared in one call, rows that stay in the caller's order, and
// counters.
#include <cuda.h>

#include <atomic>
#include <cstring>
#include <thread>

#include "tests/runtime/execution/execution_fixture.h"
#include "tests/support/by_hand.h"
#include "tests/support/environment.h"
#include "tests/support/software_cuda/control.h"

namespace minuet::abi {
namespace {

using testing::HasSubstr;

class TogetherTest : public ExecutionTest {
 protected:
  static constexpr int32_t kChannels = 16;
  static constexpr const char* kDataflows[] = {"fused", "gather-gemm-scatter"};
  /// 27 offsets, kChannels to kChannels.
  Convolution convolution() {
    ConvolutionCase test;
    test.dtype = dtype();
    test.kernel_size = {3, 3, 3, 1};
    test.points = 10;
    return {machine(), test, make_data(test)};
  }
  Execution execution(Convolution& of, minuet_queue* queue) {
    minuet_execution_options options = MINUET_EXECUTION_OPTIONS_INIT;
    options.queue = queue;
    return of.execution(&options);
  }
  std::vector<char> run(minuet_execution* execution, const Buffer& input, int64_t rows) {
    const Buffer output(machine(), rows * kChannels * dtype_bytes(dtype()));
    output_status_ = run_tensors(execution, {tensor(input, rows, kChannels, dtype())},
                                 tensor(output, rows, kChannels, dtype()));
    return output.read<char>();
  }
  /// Two executions were prepared together with one map. The first one's launches made all that the map
  /// needs. The second launches at most the permutation of its own weights, which it needs where cuBLASLt has
  /// no batches by pointers for the shape, and which it launches whenever it is prepared.
  void expect_no_launch_for_the_map(minuet_execution* first, minuet_execution* second,
                                    minuet_kernel_map* map) {
    if (machine().is_cpu()) return;  // it counts no kernels
    const int64_t launches = counters_of(second).kernels;
    EXPECT_LE(launches, 1);
    EXPECT_LT(launches, counters_of(first).kernels);
    check(minuet_execution_reset_counters(second));
    check(prepare_map(second, map));
    EXPECT_EQ(counters_of(second).kernels, launches);
  }
  minuet_status output_status_ = MINUET_OK;
};

minuet_status prepare_together(std::vector<minuet_execution*> executions,
                               std::vector<minuet_kernel_map*> maps) {
  return minuet_executions_prepare_maps(executions.data(), maps.data(),
                                        static_cast<int32_t>(executions.size()), nullptr);
}

/// Two of one map, which share its views, and one of another; each as if prepared alone. Of the two dataflows
/// one takes rows as the caller has them, the other as the sets do: their outputs are the same but for
/// rounding.
TEST_P(TogetherTest, GivesTheBitsOfEachAlone) {
  const Queue queue = make_queue(machine());
  const Cloud clouds[] = {scene(150), scene(90, kSeed + 1)};
  const Coordinates sets[] = {set_on(queue.get(), clouds[0].coordinates),
                              set_on(queue.get(), clouds[1].coordinates)};
  const KernelMap maps[] = {map_of(sets[0].get()), map_of(sets[1].get())};
  std::vector<std::vector<float>> outputs;
  for (const char* const dataflow : kDataflows) {
    SCOPED_TRACE(dataflow);
    const EnvironmentVariable named("MINUET_TEST_DATAFLOW", dataflow);
    Convolution of = convolution();
    const Execution executions[] = {execution(of, queue.get()), execution(of, queue.get()),
                                    execution(of, queue.get())};
    check(prepare_together({executions[0].get(), executions[1].get(), executions[2].get()},
                           {maps[0].get(), maps[0].get(), maps[1].get()}));
    expect_no_launch_for_the_map(executions[0].get(), executions[1].get(), maps[0].get());
    std::vector<float> all;
    for (int i = 0; i < 3; ++i) {
      const Cloud& cloud = clouds[i / 2];
      const Buffer input(machine(), encode(dtype(), oracle::draw_features(cloud.count() * kChannels, 5)));
      const std::vector<char> together = run(executions[i].get(), input, cloud.count());
      check(output_status_);
      const Coordinates set = set_on(nullptr, cloud.coordinates);
      const KernelMap map = map_of(set.get());
      const Execution alone = execution(of, nullptr);
      check(prepare_map(alone.get(), map.get()));
      EXPECT_EQ(together, run(alone.get(), input, cloud.count())) << i;
      const std::vector<float> values = decode(dtype(), together);
      all.insert(all.end(), values.begin(), values.end());
    }
    outputs.push_back(std::move(all));
  }
  const float greatest = *std::max_element(outputs[0].begin(), outputs[0].end());
  for (size_t i = 0; i < outputs[0].size(); ++i) {
    ASSERT_NEAR(outputs[0][i], outputs[1][i], 0.01f * greatest) << "row " << i / kChannels;
  }
  check(minuet_executions_prepare_maps(nullptr, nullptr, 0, nullptr));
}

TEST_P(TogetherTest, AFailureLeavesNonePrepared) {
  const Queue queue = make_queue(machine()), other = make_queue(machine());
  Convolution of = convolution();
  const Cloud cloud = scene(40);
  const Coordinates set = set_on(queue.get(), cloud.coordinates),
                    foreign = set_on(other.get(), cloud.coordinates);
  const KernelMap map = map_of(set.get()), of_other = map_of(foreign.get());
  const Execution first = execution(of, queue.get()), second = execution(of, queue.get()),
                  loose = execution(of, nullptr), others = execution(of, other.get());
  const Buffer input(machine(), encode(dtype(), oracle::draw_features(cloud.count() * kChannels, 5)));
  const auto prepared = [&] { check(prepare_together({first.get(), second.get()}, {map.get(), map.get()})); };
  const auto refused = [&](std::vector<minuet_execution*> executions, std::vector<minuet_kernel_map*> maps,
                           const char* why) {
    EXPECT_EQ(prepare_together(std::move(executions), std::move(maps)), MINUET_INVALID_ARGUMENT);
    EXPECT_THAT(last_error(), HasSubstr(why));
  };
  // What is wrong before anything is begun changes nothing.
  prepared();
  refused({first.get(), first.get()}, {map.get(), map.get()}, "given twice");
  refused({first.get(), nullptr}, {map.get(), map.get()}, "an execution");
  refused({first.get(), second.get()}, {map.get(), nullptr}, "a map");
  refused({first.get(), loose.get()}, {map.get(), map.get()}, "one queue");
  refused({loose.get()}, {map.get()}, "one queue");
  refused({first.get(), others.get()}, {map.get(), of_other.get()}, "one queue");
  EXPECT_EQ(minuet_executions_prepare_maps(nullptr, nullptr, -1, nullptr), MINUET_INVALID_ARGUMENT);
  (void)run(second.get(), input, cloud.count());
  check(output_status_);
  // A map of another queue is seen when the first has taken its own.
  refused({first.get(), second.get()}, {map.get(), of_other.get()}, "execution 1: ");
  for (const Execution* execution : {&first, &second}) {
    (void)run(execution->get(), input, cloud.count());
    EXPECT_EQ(output_status_, MINUET_FAILED_PRECONDITION);
  }
  prepared();
  (void)run(first.get(), input, cloud.count());
  check(output_status_);
  // Memory is placed last.
  minuet_execution_options options = MINUET_EXECUTION_OPTIONS_INIT;
  options.queue = queue.get();
  options.defer_workspace = 1;
  const Execution without = of.execution(&options);
  EXPECT_EQ(prepare_together({first.get(), without.get()}, {map.get(), map.get()}),
            MINUET_FAILED_PRECONDITION);
  EXPECT_THAT(last_error(), HasSubstr("execution 1: the execution has no workspace"));
  (void)run(first.get(), input, cloud.count());
  EXPECT_EQ(output_status_, MINUET_FAILED_PRECONDITION);
}

/// One thread prepares two executions together, and another replaces the workspace of one of them: each call
/// is made or refused as a whole.
TEST_P(TogetherTest, WorkspacesOfTwoThreads) {
  const Queue queue = make_queue(machine());
  const Cloud cloud = scene(20);
  const Coordinates set = set_on(queue.get(), cloud.coordinates);
  const KernelMap map = map_of(set.get());
  Convolution of = convolution();
  const Execution first = execution(of, queue.get()), second = execution(of, queue.get());
  const auto prepare = [&] { return prepare_together({first.get(), second.get()}, {map.get(), map.get()}); };
  check(prepare());
  const int64_t bytes = info_of(second).workspace_bytes;
  const Buffer one(machine(), bytes), other(machine(), bytes);
  const auto is_made_or_refused = [](minuet_status status) {
    return status == MINUET_OK || status == MINUET_FAILED_PRECONDITION;
  };
  std::atomic<bool> is_over{false};
  std::thread replacing([&] {
    for (int i = 0; !is_over; ++i) {
      void* const workspace = (i % 2 == 0 ? one : other).data();
      EXPECT_TRUE(
          is_made_or_refused(minuet_execution_set_workspace(second.get(), workspace, bytes, nullptr)));
    }
  });
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(is_made_or_refused(prepare()));
  is_over = true;
  replacing.join();
  check(prepare());
  const Buffer input(machine(), encode(dtype(), oracle::draw_features(cloud.count() * kChannels, 5)));
  EXPECT_EQ(run(second.get(), input, cloud.count()), run(first.get(), input, cloud.count()));
  check(output_status_);
}

/// What one execution prepares in its caller's workspace must not lie in another's, for all are prepared in
/// one go.
TEST_P(TogetherTest, WorkspacesLieApart) {
  const Queue queue = make_queue(machine());
  const Cloud cloud = scene(40);
  const Coordinates set = set_on(queue.get(), cloud.coordinates);
  const KernelMap map = map_of(set.get());
  const Buffer input(machine(), encode(dtype(), oracle::draw_features(cloud.count() * kChannels, 5)));
  for (const char* const dataflow : kDataflows) {
    SCOPED_TRACE(dataflow);
    const EnvironmentVariable named("MINUET_TEST_DATAFLOW", dataflow);
    Convolution of = convolution();
    const Execution roomy = execution(of, queue.get());
    check(prepare_map(roomy.get(), map.get()));
    const std::vector<char> expected = run(roomy.get(), input, cloud.count());
    // With a block more than is needed, so that two of them can overlap in part.
    const int64_t bytes = (counters_of(roomy.get()).workspace_bytes + 255) / 256 * 256 + 256;
    const Buffer memory(machine(), 3 * bytes);
    const auto within = [&](int64_t place) {
      minuet_execution_options options = MINUET_EXECUTION_OPTIONS_INIT;
      options.queue = queue.get();
      options.workspace = static_cast<char*>(memory.data()) + place;
      options.workspace_bytes = bytes;
      return of.execution(&options);
    };
    const Execution first = within(0), same = within(0), second = within(bytes), third = within(2 * bytes),
                    across = within(bytes - 256);
    const auto refused = [&](const std::vector<minuet_execution*>& executions, int one, int other) {
      EXPECT_EQ(prepare_together(executions, std::vector<minuet_kernel_map*>(executions.size(), map.get())),
                MINUET_INVALID_ARGUMENT);
      const std::string of_execution = "the workspace of execution ";
      EXPECT_THAT(last_error(),
                  testing::AllOf(HasSubstr(of_execution + std::to_string(one)),
                                 HasSubstr(of_execution + std::to_string(other)), HasSubstr("overlap")));
    };
    const std::vector<minuet_execution*> apart{first.get(), roomy.get(), third.get(), second.get()};
    const auto expect_prepared = [&] {
      for (minuet_execution* const each : apart) EXPECT_EQ(run(each, input, cloud.count()), expected);
      check(output_status_);
    };
    check(prepare_together(apart, std::vector<minuet_kernel_map*>(apart.size(), map.get())));
    expect_prepared();
    refused({first.get(), same.get()}, 0, 1);
    refused({first.get(), third.get(), roomy.get(), across.get()}, 0, 3);
    refused({third.get(), second.get(), across.get()}, 1, 2);
    expect_prepared();  // what is refused changes nothing
  }
}

/// A view names no duplicate's row, which has the first one's output all the same.
TEST_P(TogetherTest, KeptDuplicatesHaveTheFirstOnesOutput) {
  const Queue queue = make_queue(machine());
  const Cloud cloud = scene(60);
  std::vector<int32_t> doubled = cloud.coordinates;
  doubled.insert(doubled.end(), cloud.coordinates.begin(), cloud.coordinates.end());
  const std::vector<float> features = oracle::draw_features(cloud.count() * kChannels, 5);
  std::vector<float> twice = features;
  twice.resize(2 * features.size(), 100);  // must not be seen
  for (const char* const dataflow : kDataflows) {
    SCOPED_TRACE(dataflow);
    const EnvironmentVariable named("MINUET_TEST_DATAFLOW", dataflow);
    Convolution of = convolution();
    const auto output_of = [&](const std::vector<int32_t>& coordinates, const std::vector<float>& values) {
      const Coordinates set = set_on(queue.get(), coordinates, /*keeps_duplicates=*/true);
      const KernelMap map = map_of(set.get());
      const Execution own = execution(of, queue.get());
      check(prepare_together({own.get()}, {map.get()}));
      const Buffer input(machine(), encode(dtype(), values));
      const std::vector<char> output = run(own.get(), input, static_cast<int64_t>(coordinates.size() / 4));
      check(output_status_);
      return output;
    };
    const std::vector<char> once = output_of(cloud.coordinates, features), both = output_of(doubled, twice);
    ASSERT_EQ(both.size(), 2 * once.size());
    EXPECT_TRUE(std::equal(once.begin(), once.end(), both.begin()));
    EXPECT_TRUE(std::equal(once.begin(), once.end(), both.begin() + static_cast<int64_t>(once.size())));
  }
}

/// Every count begins at 0 again, also that of waits for a map's pairs. The workspace is no count and stays.
TEST_P(TogetherTest, ResetCountersStartsEveryCountAgain) {
  const Queue queue = make_queue(machine());
  const Cloud cloud = scene(80);
  const Buffer input(machine(), encode(dtype(), oracle::draw_features(cloud.count() * kChannels, 5)));
  for (const char* const dataflow : kDataflows) {
    const EnvironmentVariable named("MINUET_TEST_DATAFLOW", dataflow);
    Convolution of = convolution();
    for (minuet_queue* const with : {queue.get(), static_cast<minuet_queue*>(nullptr)}) {
      SCOPED_TRACE(testing::Message() << dataflow << (with ? ", with a queue" : ", without a queue"));
      const Execution own = execution(of, with);
      const Coordinates set = set_on(with, cloud.coordinates);
      check(prepare_map(own.get(), map_of(set.get()).get()));
      (void)run(own.get(), input, cloud.count());
      check(output_status_);
      const minuet_execution_counters before = counters_of(own.get());
      if (!machine().is_cpu()) {
        EXPECT_GT(before.kernels, 0);
        EXPECT_EQ(before.host_syncs > 0, with && dataflow == kDataflows[1]);
      }
      check(minuet_execution_reset_counters(own.get()));
      minuet_execution_counters expected = MINUET_EXECUTION_COUNTERS_INIT;
      expected.workspace_bytes = before.workspace_bytes;
      const minuet_execution_counters after = counters_of(own.get());
      EXPECT_EQ(std::memcmp(&after, &expected, sizeof(after)), 0) << after.host_syncs << " waits are left";
    }
  }
}

MINUET_INSTANTIATE_EXECUTION_TEST(TogetherTest);

class TogetherOnGpu : public TogetherTest {};

/// Whichever call of the driver fails, neither execution runs for the maps that the call before prepared.
TEST_P(TogetherOnGpu, AFailedCallOfTheDriverLeavesNonePrepared) {
  const std::optional<software_cuda::Control> control = software_cuda::Control::find();
  if (!control) return;  // only the software device fails on demand
  const Queue queue = make_queue(machine());
  const Cloud cloud = scene(40);
  const Coordinates set = set_on(queue.get(), cloud.coordinates);
  const Buffer input(machine(), encode(dtype(), oracle::draw_features(cloud.count() * kChannels, 5)));
  for (const char* const dataflow : kDataflows) {
    const EnvironmentVariable named("MINUET_TEST_DATAFLOW", dataflow);
    Convolution of = convolution();
    const Execution first = execution(of, queue.get()), second = execution(of, queue.get());
    const auto prepare_new_map = [&] {
      const KernelMap map = map_of(set.get());
      control->reset();
      return prepare_together({first.get(), second.get()}, {map.get(), map.get()});
    };
    int64_t failed = 0;
    for (const char* const name :
         {"cuLaunchKernelEx", "cuMemcpyHtoDAsync", "cuMemcpyDtoHAsync", "cuEventRecord", "cuEventSynchronize",
          "cuStreamSynchronize", "cuStreamIsCapturing"}) {
      check(prepare_new_map());
      const int64_t calls = control->calls(name);
      for (int64_t nth = 1; nth <= calls; ++nth) {
        SCOPED_TRACE(testing::Message() << dataflow << ", " << name << " number " << nth);
        check(prepare_new_map());
        const KernelMap map = map_of(set.get());
        control->reset();
        control->fail(name, static_cast<int>(nth), CUDA_ERROR_NOT_SUPPORTED);
        const minuet_status status = prepare_together({first.get(), second.get()}, {map.get(), map.get()});
        control->reset();
        if (status == MINUET_OK) continue;
        ++failed;
        for (const Execution* const each : {&first, &second}) {
          (void)run(each->get(), input, cloud.count());
          EXPECT_EQ(output_status_, MINUET_FAILED_PRECONDITION);
        }
      }
    }
    EXPECT_GT(failed, 0) << dataflow;
    check(prepare_new_map());
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, TogetherOnGpu,
                         testing::Combine(testing::Values("cuda:0"), testing::Values(DType::F16)),
                         device_test_name);

}  // namespace
}  // namespace minuet::abi
