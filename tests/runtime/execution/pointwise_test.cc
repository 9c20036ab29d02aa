// Chains of pointwise ops in networks through the C ABI, on every device, against fp64: alone, in random
// chains, within capacities, on pyramids, and between convolutions.
#include <gmock/gmock.h>

#include <cmath>
#include <limits>

#include "tests/runtime/execution/pointwise_fixture.h"

namespace minuet::abi {
namespace {

using testing::HasSubstr;

const std::vector<std::string> kOps{"relu",    "leaky_relu", "gelu",     "gelu_tanh", "silu",
                                    "sigmoid", "tanh",       "multiply", "add",       "softmax"};

TEST_P(PointwiseTest, EveryStep) {
  Random random(1);
  for (const std::string& op : kOps) {
    for (const int channels : machine().is_software() ? std::vector{20} : std::vector{1, 3, 20, 64, 301}) {
      expect_chain(make_chain({op}, channels, 70, random), 70, random);
    }
  }
}

TEST_P(PointwiseTest, RandomChains) {
  Random random(2);
  const int count = machine().is_software() ? 3 : 12;
  for (int i = 0; i < count; ++i) {
    const auto channels = static_cast<int>(random.between(1, 300));
    const int64_t rows = random.between(0, 90);
    std::vector<std::string> ops;
    for (int64_t step = random.between(2, 8); step > 0; --step)
      ops.push_back(kOps[random.below(kOps.size())]);
    expect_chain(make_chain(ops, channels, rows, random), rows, random);
  }
}

TEST_P(PointwiseTest, ManyChannels) {
  Random random(3);
  expect_chain(make_chain({"silu", "softmax"}, 1000, 20, random), 20, random);
  if (machine().is_software()) return;
  expect_chain(make_chain({"softmax"}, 4096, 20, random), 20, random);
  expect_chain(make_chain({"tanh", "add"}, 20001, 3, random), 3, random);
}

/// The lowest channel of equal ones, and NaN is the largest.
TEST_P(PointwiseTest, Argmax) {
  Random random(4);
  for (const int channels : {1, 5, 33, 300}) {
    const Chain chain = make_chain({"argmax"}, channels, 60, random);
    const Plan plan = plan_of(chain);
    EXPECT_EQ(output_of(plan.get(), 0).element, MINUET_ELEMENT_I32);
    EXPECT_EQ(output_of(plan.get(), 0).channels, 1);
    std::vector<float> x;
    for (int i = 0; i < 60 * channels; ++i) {
      x.push_back(random.below(40) == 0 ? std::nanf("") : static_cast<float>(random.below(4)) - 3);
    }
    expect_chain(chain, run(plan.get(), coordinates_of(60), chain.inputs(x))[0], x);
  }
  expect_chain(make_chain({"add", "softmax", "argmax"}, 20, 60, random), 60, random);
}

/// Integers are no features: a run takes them as an array only.
TEST_P(PointwiseTest, IntegersAreNoMatrix) {
  Random random(5);
  const Plan plan = plan_of(make_chain({"argmax"}, 4, 8, random));
  const Execution execution = make_execution(machine(), plan.get());
  check(prepare(machine(), execution.get(), coordinates_of(8)));
  const Buffer input(machine(), 8 * 4 * dtype_bytes(dtype())), output(machine(), 8 * 4);
  EXPECT_EQ(run_tensors(execution.get(), {tensor(input, 8, 4, dtype())}, tensor(output, 8, 1, dtype())),
            MINUET_FAILED_PRECONDITION);
  EXPECT_THAT(last_error(), HasSubstr("i32 array"));
  EXPECT_EQ(run_arrays(execution.get(), {array_of(input.data(), {8, 4}, element())},
                       {array_of(output.data(), {8, 1}, element())}),
            MINUET_INVALID_ARGUMENT);
  EXPECT_THAT(last_error(), HasSubstr("i32"));
}

/// NaN and infinity go through each step as in fp64, and the layer that makes them is told.
TEST_P(PointwiseTest, NumbersThatAreNotFinite) {
  Random random(6);
  const float infinity = std::numeric_limits<float>::infinity();
  for (const std::string& op : kOps) {
    SCOPED_TRACE(op);
    const Chain chain = make_chain({op}, 6, 5, random);
    std::vector<float> x = draw(5 * 6, random);
    x[3] = std::nanf(""), x[8] = infinity, x[14] = -infinity;
    for (int c = 18; c < 24; ++c) x[static_cast<size_t>(c)] = -infinity;
    const Plan plan = plan_of(chain);
    const Execution execution = make_execution(machine(), plan.get());
    check(prepare(machine(), execution.get(), coordinates_of(5)));
    expect_chain(chain, run_prepared(plan.get(), execution.get(), 5, chain.inputs(x))[0], x);
    int32_t layer = -1;
    check(minuet_execution_find_overflow(execution.get(), nullptr, &layer));
    EXPECT_EQ(layer, 0);
  }
}

/// A row that is not finite is told by its argmax too, which hides it.
TEST_P(PointwiseTest, AnArgmaxTellsNumbersThatAreNotFinite) {
  Random random(8);
  const Chain chain = make_chain({"argmax"}, 5, 40, random);
  const Plan plan = plan_of(chain);
  const Execution execution = make_execution(machine(), plan.get());
  check(prepare(machine(), execution.get(), coordinates_of(40)));
  for (const float last : {1.0f, std::numeric_limits<float>::infinity(), std::nanf("")}) {
    std::vector<float> x = draw(40 * 5, random);
    x.back() = last;
    run_prepared(plan.get(), execution.get(), 40, chain.inputs(x));
    int32_t layer = -2;
    check(minuet_execution_find_overflow(execution.get(), nullptr, &layer));
    EXPECT_EQ(layer, std::isfinite(last) ? -1 : 0) << last;
  }
}

/// A chain in one kernel equals the same chain layer by layer, whose results have names, but for roundings.
TEST_P(PointwiseTest, MergedChainsEqualSavedOnes) {
  Random random(7);
  for (const std::vector<std::string>& ops : std::vector<std::vector<std::string>>{
           {"silu", "multiply", "gelu", "add"}, {"add", "tanh", "softmax"}}) {
    const Chain chain = make_chain(ops, 24, 40, random);
    const std::vector<float> x = draw(40 * 24, random);
    const Plan merged = plan_of(chain), saved = plan_of(chain, /*merged=*/false);
    EXPECT_EQ(info_of(merged.get()).layers, 1);
    EXPECT_EQ(info_of(saved.get()).layers, static_cast<int32_t>(ops.size()));
    const std::vector<int32_t> coordinates = coordinates_of(40);
    const ChainRun run_saved = run(saved.get(), coordinates, chain.inputs(x))[0];
    const oracle::ChainResult expected = oracle::evaluate_chain(chain.steps, x, chain.channels);
    oracle::ChainResult rounded = expected;
    // Every rounding in between is at most as large as one of 4.
    const double error = dtype() == DType::F16 ? 0x1p-9 : dtype() == DType::BF16 ? 0x1p-6 : 0x1p-22;
    for (double& each : rounded.errors) each += static_cast<double>(4 * ops.size()) * error;
    EXPECT_TRUE(oracle::is_chain(run_saved.values, rounded, dtype()));
    expect_chain(chain, run(merged.get(), coordinates, chain.inputs(x))[0], x);
  }
}

/// The parts and the whole of a concat lie in one matrix, whose rows are longer than a part's.
TEST_P(PointwiseTest, InAConcat) {
  const Plan plan = plan_of(R"({"name": "n", "ndim": 3, "inputs": [{"name": "x", "channels": 6}],
      "outputs": ["a", "whole", "z"], "layers": [
        {"op": "relu", "input": "x", "output": "a"},
        {"op": "sigmoid", "input": "x", "output": "b"},
        {"op": "concat", "input": "a", "with": "b", "output": "whole"},
        {"op": "tanh"},
        {"op": "softmax", "output": "z"},
        {"op": "multiply", "input": "a", "with": "b"}]})");
  Random random(8);
  const std::vector<float> x = draw(50 * 6, random);
  const std::vector<ChainRun> runs = run(plan.get(), coordinates_of(50), {x});
  std::vector<float> whole;
  const oracle::ChainResult a = oracle::evaluate_chain({{"relu"}}, x, 6),
                            b = oracle::evaluate_chain({{"sigmoid"}}, x, 6);
  oracle::ChainResult both;
  for (size_t row = 0; row < 50; ++row) {
    for (const oracle::ChainResult* part : {&a, &b}) {
      const auto first = static_cast<std::ptrdiff_t>(row * 6);
      both.values.insert(both.values.end(), part->values.begin() + first, part->values.begin() + first + 6);
      both.errors.insert(both.errors.end(), part->errors.begin() + first, part->errors.begin() + first + 6);
    }
  }
  EXPECT_TRUE(oracle::is_chain(runs[0].values, a, dtype()));
  EXPECT_TRUE(oracle::is_chain(runs[1].values, both, dtype()));
  EXPECT_TRUE(oracle::is_chain(runs[2].values,
                               oracle::evaluate_chain({{"tanh"}, {"softmax"}}, runs[1].values, 12), dtype()));
}

/// Rows that do not exist are zeros, and -1 where they are integers.
TEST_P(PointwiseTest, WithinCapacities) {
  Random random(9);
  const Plan plan = plan_of(R"({"name": "n", "ndim": 3, "in_channels": 8, "outputs": ["y", "z"], "layers": [
        {"op": "sigmoid"}, {"op": "softmax", "output": "y"}, {"op": "argmax", "output": "z"}]})");
  const int64_t capacity = 60;
  minuet_execution_options options = options_of();
  options.level_capacity = &capacity;
  options.level_count = 1;
  const Execution execution = make_execution(machine(), plan.get(), &options);
  for (const int64_t rows : {40, 0, 60, 1}) {
    SCOPED_TRACE(rows);
    std::vector<int32_t> coordinates = coordinates_of(rows);
    coordinates.resize(static_cast<size_t>(capacity * 4));
    const Buffer given(machine(), coordinates),
        count(machine(), std::vector<int32_t>{static_cast<int32_t>(rows)});
    check(minuet_execution_prepare_on_device(execution.get(), given.integers(), count.integers(), nullptr));
    const std::vector<float> x = draw(rows * 8, random);
    std::vector<ChainRun> runs = run_prepared(plan.get(), execution.get(), capacity, {x});
    for (int64_t row = rows; row < capacity; ++row) {
      EXPECT_EQ(runs[1].integers[static_cast<size_t>(row)], -1) << row;
      for (int64_t c = 0; c < 8; ++c) EXPECT_EQ(runs[0].values[static_cast<size_t>(row * 8 + c)], 0) << row;
    }
    runs[0].values.resize(static_cast<size_t>(rows * 8)), runs[1].integers.resize(static_cast<size_t>(rows));
    const oracle::ChainResult softmax = oracle::evaluate_chain({{"sigmoid"}, {"softmax"}}, x, 8);
    EXPECT_TRUE(oracle::is_chain(runs[0].values, softmax, dtype()));
    EXPECT_TRUE(oracle::is_argmax_of(runs[1].integers, oracle::evaluate_chain({}, runs[0].values, 8), 8));
  }
}

TEST_P(PointwiseTest, OnPyramids) {
  Random random(10);
  const Chain chain = make_chain({"add", "gelu", "softmax"}, 12, 30, random);
  const Plan plan = plan_of(chain);
  const int64_t capacity = 40;
  minuet_pyramid_options options = MINUET_PYRAMID_OPTIONS_INIT;
  options.network = plan.get();
  options.level_capacity = &capacity;
  options.level_count = 1;
  TestPyramid pyramid(machine(), options);
  pyramid.build(coordinates_of(30));
  const std::vector<float> x = draw(30 * 12, random);
  std::deque<Buffer> memory;
  std::vector<minuet_array> in;
  for (std::vector<float> values : chain.inputs(x)) {
    values.resize(static_cast<size_t>(capacity * 12));
    in.push_back(
        array_of(memory.emplace_back(machine(), encode(dtype(), values)).data(), {capacity, 12}, element()));
  }
  const Buffer output(machine(), capacity * 12 * dtype_bytes(dtype()));
  run_on(machine(), plan.get(), pyramid.run_arguments(), in,
         {array_of(output.data(), {capacity, 12}, element())});
  std::vector<float> values = decode(dtype(), output.read<char>());
  values.resize(30 * 12);
  expect_chain(chain, {values, {}}, x);
}

/// Between convolutions: what the chain reads is what the network without it gives.
TEST_P(PointwiseTest, BetweenConvolutions) {
  const std::string first =
      R"({"op": "block", "name": "a", "out_channels": 12, "kernel_size": 3, "output": "a"}, )"
      R"({"op": "block", "name": "b", "out_channels": 12, "kernel_size": 3, "stride": 2,
                               "norm": "none", "activation": "none", "output": "b"})";
  const std::string head = R"({"name": "n", "ndim": 3, "in_channels": 4, )";
  const Plan alone = plan_of(head + R"("layers": [)" + first + "]}");
  const Plan plan = plan_of(head + R"("outputs": ["y", "z", "back"], "layers": [)" + first +
                            R"(, {"op": "silu"}, {"op": "add", "with": "b", "output": "y"},
                               {"op": "inverse", "name": "c", "of": "b", "out_channels": 12, "output": "c"},
                               {"op": "multiply", "with": "a", "output": "back"},
                               {"op": "softmax", "input": "y"}, {"op": "argmax", "output": "z"}]})");
  Random random(11);
  const std::vector<int32_t> coordinates = make_scene(machine().is_software() ? 20 : 200, 5);
  const auto rows = static_cast<int64_t>(coordinates.size()) / 4;
  const std::vector<char> features = encode(dtype(), draw(rows * 4, random));
  const NetworkRun b =
      run_network(machine(), make_execution(machine(), alone.get()).get(), coordinates, features, dtype());
  const Execution execution = make_execution(machine(), plan.get());
  check(prepare(machine(), execution.get(), coordinates));
  const Buffer input(machine(), features), y(machine(), b.rows * 12 * dtype_bytes(dtype())),
      z(machine(), b.rows * 4), back(machine(), rows * 12 * dtype_bytes(dtype()));
  const auto enqueue = [&] {
    check(run_arrays(
        execution.get(), {array_of(input.data(), {rows, 4}, element())},
        {array_of(y.data(), {b.rows, 12}, element()), array_of(z.data(), {b.rows, 1}, MINUET_ELEMENT_I32),
         array_of(back.data(), {rows, 12}, element())}));
  };
  enqueue();
  const std::vector<char> once = back.read<char>();
  const std::vector<float> given = decode(dtype(), b.bytes), made = decode(dtype(), y.read<char>());
  EXPECT_TRUE(
      oracle::is_chain(made, oracle::evaluate_chain({{"silu"}, {"add", 0, given}}, given, 12), dtype()));
  EXPECT_TRUE(oracle::is_argmax_of(z.read<int32_t>(), oracle::evaluate_chain({{"softmax"}}, made, 12), 12));
  enqueue();
  EXPECT_EQ(back.read<char>(), once) << "a run again";
}

MINUET_INSTANTIATE_DEVICE_TEST(PointwiseTest);

}  // namespace
}  // namespace minuet::abi
