// Training plans whose batch norms compute the sums and ReLUs behind them.
#include "tests/runtime/training/training_cases.h"

namespace minuet::abi {
namespace {

/// Sums and ReLUs that are ops of their own behind batch norms, which compute most of them: with the input of
/// a block, with a shortcut's batch norm, as the second term, without a ReLU, in a concat, and a ReLU alone.
/// The batch norm d has two readers, and is left alone.
constexpr const char* kSums = R"({
  "name": "sums", "ndim": 3, "in_channels": 4, "channels": [16, 24],
  "layers": [
    {"op": "block", "name": "stem", "width": 0, "kernel_size": 3, "save": "stem"},
    {"op": "block", "name": "a.first", "width": 0, "kernel_size": 3},
    {"op": "block", "name": "a.second", "width": 0, "kernel_size": 3, "activation": "none"},
    {"op": "add", "with": "stem"},
    {"op": "relu", "save": "a"},
    {"op": "block", "name": "b.first", "width": 1, "kernel_size": 3},
    {"op": "block", "name": "b.second", "width": 1, "kernel_size": 3, "activation": "none", "save": "b.second"},
    {"op": "block", "name": "b.side", "input": "a", "width": 1, "kernel_size": 1, "activation": "none"},
    {"op": "add", "with": "b.second"},
    {"op": "relu", "save": "b"},
    {"op": "block", "name": "c.first", "width": 1, "kernel_size": 3, "activation": "none", "save": "c.first"},
    {"op": "block", "name": "c.second", "input": "b", "width": 1, "kernel_size": 3, "activation": "silu"},
    {"op": "add", "with": "c.first", "save": "c"},
    {"op": "block", "name": "d", "width": 1, "kernel_size": 3, "activation": "none", "save": "d"},
    {"op": "add", "with": "c"},
    {"op": "relu", "save": "e"},
    {"op": "block", "name": "f", "width": 1, "kernel_size": 3, "activation": "none", "save": "f"},
    {"op": "relu"},
    {"op": "block", "name": "g", "width": 1, "kernel_size": 3, "activation": "none"},
    {"op": "add", "with": "d"},
    {"op": "relu", "save": "g"},
    {"op": "concat", "with": "e"},
    {"op": "head", "name": "head", "classes": 8}
  ]
})";

/// The layers of residual blocks, as ops of their own with the same parts, and as such blocks.
constexpr const char* kPartsOfBlocks = R"({
  "name": "parts", "ndim": 3, "in_channels": 16, "channels": [16, 24],
  "layers": [
    {"op": "block", "name": "a1", "width": 0, "kernel_size": 3},
    {"op": "block", "name": "a2", "width": 0, "kernel_size": 3, "activation": "none"},
    {"op": "add", "with": "input"},
    {"op": "relu", "save": "a"},
    {"op": "block", "name": "b1", "width": 1, "kernel_size": 3, "save": "b1"},
    {"op": "block", "name": "side", "input": "a", "width": 1, "kernel_size": 1, "activation": "none",
     "save": "side"},
    {"op": "block", "name": "b2", "input": "b1", "width": 1, "kernel_size": 3, "activation": "none"},
    {"op": "add", "with": "side"},
    {"op": "relu"}
  ]
})";
constexpr const char* kWholeBlocks = R"({
  "name": "blocks", "ndim": 3, "in_channels": 16, "channels": [16, 24],
  "layers": [
    {"op": "residual", "name": "a", "width": 0},
    {"op": "residual", "name": "b", "width": 1}
  ]
})";

class SumsTest : public TrainingTest {};

/// Sums and ReLUs that a batch norm computes, although the description has them as ops of their own. The step
/// in float64 rounds what the batch norm gives and then the sum, as the description says.
TEST_P(SumsTest, SumsBehindBatchNormsHaveAllGradients) {
  if (dtype() != DType::F32) bound_ = 3e-1;
  for (const int32_t is_frozen : {0, 1}) {
    TrainingCase test = make_case(kSums, {4}, {8});
    test.options.frozen_batch_norms = is_frozen;
    const TrainingRun run(machine(), dtype(), test);
    StepOptions options = usual(test);
    options.before = 0.5;
    const StepResult expected = run.step(usual(test)), added = run.step(options);
    expect_step(test, expected);
    const int64_t kept = run.sizes(*run.pyramid(1000)).kept;
    for (const std::vector<const char*>& names :
         {std::vector{"a"}, {"b.second", "b.side"}, {"a", "b", "c", "f"}, {"c.first", "g"}}) {
      test.options.recompute = names.data();
      test.options.recompute_count = static_cast<int32_t>(names.size());
      const TrainingRun again(machine(), dtype(), test);
      EXPECT_EQ(expected, again.step(usual(test))) << names.back();
      EXPECT_EQ(added, again.step(options)) << names.back();
      EXPECT_LE(again.sizes(*again.pyramid(1000)).kept, kept) << names.back();
    }
  }
}

/// Layers of a residual block give the bits of the block, as its batch norm adds the residual before it
/// rounds.
TEST_P(SumsTest, ASumBehindABatchNormIsThatOfAResidualBlock) {
  const std::map<std::string, std::string> names = {
      {"a1", "a.1"}, {"a2", "a.2"}, {"b1", "b.1"}, {"b2", "b.2"}, {"side", "b.shortcut."}};
  const auto in_block = [&](const std::string& name) {
    const size_t dot = name.find('.');
    std::string part = names.at(name.substr(0, dot));
    const std::string rest = name.substr(dot + 1);  // as "conv.weight"
    if (part.back() == '.') return part + rest;
    const char number = part.back();
    part.pop_back();
    const size_t end = rest.find('.');
    return part + rest.substr(0, end) + number + rest.substr(end);
  };
  TrainingCase parts = make_case(kPartsOfBlocks, {16}, {24});
  const TrainingRun run(machine(), dtype(), parts);
  TrainingCase blocks = make_case(kWholeBlocks, {16}, {24});
  for (const auto& [name, tensor] : parts.parameters) blocks.parameters[in_block(name)] = tensor;
  const StepResult expected = TrainingRun(machine(), dtype(), blocks).step(usual(blocks));
  StepResult got = run.step(usual(parts));
  for (auto* const lists : {&got.gradients, &got.statistics}) {
    std::map<std::string, std::vector<float>> renamed;
    for (const auto& [name, values] : *lists) renamed[in_block(name)] = values;
    *lists = renamed;
  }
  EXPECT_EQ(expected, got);
}

/// A batch norm that adds what a later one leads to runs behind that one, and counts the batch.
TEST_P(SumsTest, BatchesMayBeCountedInPlace) {
  TrainingCase test = make_case(R"({
    "name": "late", "ndim": 3, "in_channels": 8,
    "layers": [
      {"op": "block", "name": "early", "out_channels": 8, "kernel_size": 3, "activation": "none", "save": "early"},
      {"op": "block", "name": "late", "input": "input", "out_channels": 8, "kernel_size": 3, "activation": "silu"},
      {"op": "add", "with": "early"},
      {"op": "relu"}
    ]
  })",
                                {8}, {8});
  test.options.is_cumulative = 1;
  const TrainingRun run(machine(), dtype(), test);
  const int64_t before = 3;
  const auto step = [&](const Buffer& count, const Buffer& new_count) {
    StepRoom room(run, usual(test));
    room.build();
    room.forward.batch_count = static_cast<const int64_t*>(count.data());
    room.forward.new_batch_count = static_cast<int64_t*>(new_count.data());
    check(room.forward_on());
    check(room.backward_on());
    StepResult result = room.read();
    EXPECT_EQ(new_count.read<int64_t>(), std::vector<int64_t>{before + 1});
    return result;
  };
  const Buffer count(machine(), std::vector<int64_t>{before}), other(machine(), std::vector<int64_t>{0});
  const StepResult expected = step(count, other);
  EXPECT_EQ(expected, step(count, count));
}

MINUET_INSTANTIATE_DEVICE_TEST(SumsTest);

}  // namespace
}  // namespace minuet::abi
