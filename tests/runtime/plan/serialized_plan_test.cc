// What of a plan's tuning is in its bytes. tests/runtime/abi/serialize_test.cc has the rest.
#include "runtime/plan/serialized_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "codegen/choose/ops/pooling.h"
#include "codegen/choose/ops/space.h"
#include "runtime/plan/compiled_plan.h"
#include "runtime/plan/plan_format.h"
#include "tests/codegen/choose/examples.h"
#include "tests/support/contents.h"

namespace minuet {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

std::shared_ptr<const Plan> tuned_plan(std::shared_ptr<const TuningSnapshot> tuning) {
  LayerParameters parameters;
  parameters.weight.assign(size_t{27} * 64 * 64, 1.0f);
  return llvm::cantFail(
      Plan::create(by(example_problem(), Dataflow::GatherGemmScatter), parameters, std::move(tuning)));
}

std::shared_ptr<const TuningSnapshot> snapshot_of(const std::vector<TuningLayer>& layers) {
  return std::make_shared<const TuningSnapshot>(example_environment(), layers);
}

TuningEntry best(const TuningBucket& bucket, i32 tile) {
  return with_kernels_of_this_build(make_entry(example_environment(), bucket, measured(tile_config(8), 14000),
                                               {measured(tile_config(tile), 9000)}));
}

std::shared_ptr<const Plan> there_and_back(const Plan& plan) {
  const auto cache = make_cache("", std::make_shared<FakeCompiler>());
  const std::string bytes = llvm::cantFail(serialize_plan(plan, *cache, {}));
  return llvm::cantFail(read_plan(bytes)).plan;
}

/// The user's result goes before a bundle's, whatever their rows, so that sources must not be merged.
TEST(SerializedPlan, TuningResultsChooseTheSame) {
  const TuningBucket few = gather_bucket(DType::F16, 64, 27, 1000),
                     many = gather_bucket(DType::F16, 64, 27, kExampleRows),
                     scatter = scatter_bucket(DType::F16, 64, 27, kExampleRows);
  const auto tuning = snapshot_of(
      {{"user", {best(few, 16)}}, {"bundle", {best(many, 32), best(scatter, 32), best(few, 32)}}});
  const auto plan = tuned_plan(tuning), again = there_and_back(*plan);
  ASSERT_NE(again->tuning, nullptr);
  EXPECT_EQ(again->tuning->size(), tuning->size());
  for (const i64 rows : {i64{0}, i64{1000}, kExampleRows}) {
    EXPECT_EQ(choices_text(again->tuning.get(), rows), choices_text(tuning.get(), rows)) << rows;
  }
  EXPECT_NE(choices_text(tuning.get()), choices_text(nullptr));
  const auto keys = [](const Plan& of) {
    std::vector<std::string> keys;
    for (const KernelRequest& kernel : llvm::cantFail(CompiledPlan::create(of, "sm_90a"))->requests()) {
      keys.push_back(kernel.key);
    }
    return keys;
  };
  EXPECT_EQ(keys(*again), keys(*plan));
  EXPECT_NE(keys(*again), keys(*tuned_plan(nullptr)));
}

TEST(SerializedPlan, ResultsOfOtherKernelsAreLeftOut) {
  TuningEntry old = best(gather_bucket(DType::F16, 64, 27, kExampleRows), 16);
  old.kernels = "of another build";
  EXPECT_EQ(there_and_back(*tuned_plan(snapshot_of({{"user", {old}}})))->tuning, nullptr);
  EXPECT_EQ(there_and_back(*tuned_plan(nullptr))->tuning, nullptr);
}

/// A bundle is kept once, however often its plan is read, and if the caller adds it too.
TEST(SerializedPlan, EqualBundlesAreKeptOnce) {
  const auto farm = make_cache("", std::make_shared<FakeCompiler>());
  const auto plan = tuned_plan(nullptr);
  const std::string bytes = llvm::cantFail(serialize_plan(*plan, *farm, {"sm_80", "sm_90a", ""}));
  const auto cache = make_cache("", nullptr);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(llvm::cantFail(deserialize_plan(bytes, *cache)) != nullptr);
  EXPECT_FALSE(llvm::errorToBool(cache->add_bundle_memory(llvm::cantFail(read_plan(bytes)).bundles)));
  EXPECT_EQ(cache->bundles().size(), 2u);
}

TEST(SerializedPlan, PoolingsKeepTheirWinners) {
  for (const bool winners : {false, true}) {
    PoolingProblem problem;
    problem.channels = 4;
    problem.kernel_size = {2, 2, 2, 1};
    problem.winners = winners;
    const auto again = there_and_back(*llvm::cantFail(Plan::create(problem, {})));
    EXPECT_EQ(again->program.output_count(), winners ? 2 : 1);
    EXPECT_EQ(again->program.layers[0].problem.get<PoolingProblem>().winners, winners);
  }
}

TEST(SerializedPlan, KernelsKeepTheirOffsets) {
  PoolingProblem listed;
  listed.channels = 4;
  listed.kind = ConvolutionKind::Strided;
  listed.stride = {2, 1, 2, 1};
  PoolingProblem padded = listed;
  listed.offsets = {{0, -3, 1 << 28, 0}, {0, 0, 0, 0}, {-(1 << 28), 0, 0, 0}};
  padded.kernel_size = {3, 1, 2, 1};
  padded.dilation = {1, 5, 1, 1};
  padded.padding = AxisArray{2, 0, 1, 0};
  for (const PoolingProblem& problem : {listed, padded}) {
    const auto again = there_and_back(*llvm::cantFail(Plan::create(problem, {})));
    const auto& read = again->program.layers[0].problem.get<PoolingProblem>();
    EXPECT_EQ(read.offsets, problem.offsets);
    EXPECT_EQ(read.padding, problem.padding);
    EXPECT_EQ(read.kernel_size, problem.kernel_size);
    EXPECT_EQ(read.dilation, problem.dilation);
    EXPECT_EQ(again->program.maps[0].offsets, problem.offsets);
    EXPECT_EQ(again->program.maps[0].padding, problem.padding);
  }
}

std::shared_ptr<const Plan> padded_pooling(const std::optional<AxisArray>& padding) {
  PoolingProblem problem;
  problem.channels = 4;
  problem.kernel_size = {3, 3, 3, 1}, problem.stride = {2, 2, 2, 1};
  problem.kind = ConvolutionKind::Strided;
  problem.padding = padding;
  return llvm::cantFail(Plan::create(problem, {}));
}

std::shared_ptr<const Plan> padded_convolution(const std::optional<AxisArray>& padding) {
  ConvolutionProblem problem = example_problem(2, 3, DType::F16);
  problem.kernel_size = {3, 3, 3, 1}, problem.stride = {2, 2, 2, 1};
  problem.kind = ConvolutionKind::Strided;
  problem.padding = padding;
  LayerParameters parameters;
  parameters.weight.assign(size_t{27} * 2 * 3, 0.5f);
  if (problem.scale_shift) parameters.scale.assign(3, 1), parameters.shift.assign(3, 0);
  return llvm::cantFail(Plan::create(problem, parameters));
}

/// A padding of 0 is another kernel than a centred one.
TEST(SerializedPlan, OpsKeepTheirPadding) {
  for (const std::optional<AxisArray>& padding :
       {std::optional<AxisArray>(), std::optional(AxisArray{}), std::optional(AxisArray{1, 0, 2, 0})}) {
    for (const std::shared_ptr<const Plan>& plan : {padded_pooling(padding), padded_convolution(padding)}) {
      const auto again = there_and_back(*plan);
      EXPECT_EQ(again->program.layers[0].window()->padding, padding);
      EXPECT_EQ(again->program.maps[0].padding, padding);
    }
  }
}

/// The document of a single convolution has no types and factors of 8-bit tensors, so that they would be
/// lost.
TEST(SerializedPlan, ConvolutionsWithEightBitTensorsAreRefused) {
  ConvolutionProblem problem = example_problem(2, 3, DType::F16);
  problem.output_type = DType::U8, problem.output_factor = 4;
  LayerParameters parameters;
  parameters.weight.assign(size_t{27} * 2 * 3, 0.5f);
  if (problem.scale_shift) parameters.scale.assign(3, 1), parameters.shift.assign(3, 0);
  const auto plan = llvm::cantFail(Plan::create(problem, parameters));
  const auto cache = make_cache("", std::make_shared<FakeCompiler>());
  const StatusError status = take_status(serialize_plan(*plan, *cache, {}).takeError());
  EXPECT_EQ(status.code(), StatusCode::Unimplemented);
  EXPECT_THAT(status.message(), HasSubstr("8-bit tensors"));
}

std::string old_plan(const std::string& name) {
  return contents(std::string(MINUET_PLAN_FORMATS) + "/3/" + name + ".plan");
}

/// The files were written when the format was 3, in which no op has a padding.
TEST(SerializedPlan, PlansOfFormat3AreRead) {
  for (const char* const name : {"convolution", "network", "pointwise", "pooling"}) {
    SCOPED_TRACE(name);
    const std::string bytes = old_plan(name);
    PlanHead head;
    ASSERT_GT(bytes.size(), sizeof head);
    std::memcpy(&head, bytes.data(), sizeof head);
    ASSERT_EQ(head.format, 3u);
    llvm::Expected<ReadPlan> read = read_plan(bytes);
    if (!read) {
      ADD_FAILURE() << take_status(read.takeError()).message();
      continue;
    }
    EXPECT_EQ(read->plan->network.has_value(), std::string(name) == "network");
    const ProgramLayer& layer = read->plan->program.layers[0];
    EXPECT_EQ(layer.window()->padding, std::nullopt);
    EXPECT_STREQ(layer.problem.kind().name, std::string(name) == "network" ? "convolution" : name);
  }
  const ReadPlan pooling = llvm::cantFail(read_plan(old_plan("pooling")));
  EXPECT_EQ(pooling.plan->program.layers[0].window()->kernel_size, (AxisArray{2, 2, 2, 1}));
}

std::uint32_t format_of(const Plan& plan) {
  const std::string bytes =
      llvm::cantFail(serialize_plan(plan, *make_cache("", std::make_shared<FakeCompiler>()), {}));
  PlanHead head;
  std::memcpy(&head, bytes.data(), sizeof head);
  return head.format;
}

/// Library 0.3.0 reads format 3, so plans without anything new must keep it.
TEST(SerializedPlan, OnlyNewThingsNeedANewFormat) {
  EXPECT_EQ(format_of(*padded_pooling(std::nullopt)), 3u);
  EXPECT_EQ(format_of(*padded_convolution(std::nullopt)), 3u);
  EXPECT_EQ(format_of(*padded_pooling(AxisArray{})), 4u);
  PoolingProblem listed;
  listed.channels = 4;
  listed.offsets = {{0, -3, 1, 0}, {0, 0, 0, 0}};
  EXPECT_EQ(format_of(*llvm::cantFail(Plan::create(listed, {}))), 4u);
  const auto space = make_space_problem<SpaceToChannelProblem>(3, DType::BF16, 6, {2, 2, 2, 1});
  EXPECT_EQ(format_of(*llvm::cantFail(Plan::create(space, {}))), 4u);
  const auto gradient = input_gradient_of(example_problem());
  EXPECT_EQ(format_of(*llvm::cantFail(Plan::create_without_values(gradient, nullptr))), 4u);
}

/// Ranges and outputs of a calibration are new too, even if no convolution computes in 8 bits.
TEST(SerializedPlan, FieldsOfAQuantizationNeedANewFormat) {
  const auto format_with = [](const std::string& fields, const std::string& last,
                              const std::string& outputs) {
    NetworkProblem problem;
    problem.description = llvm::cantFail(parse_network(
        R"({"name": "n", "ndim": 3, "in_channels": 4, "channels": [8], "layers": [
            {"op": "block", "name": "a", "width": 0, "kernel_size": 3)" +
        fields + R"(}, {"op": "residual", "name": "b", "width": 0, "kernel_size": 3)" + last +
        R"(}], "outputs": [)" + outputs + "]}"));
    return format_of(*llvm::cantFail(Plan::create(problem, ParameterSource(uint64_t{1}))));
  };
  const std::string saved = R"(, "output": "y")";
  EXPECT_EQ(format_with(R"(, "output": "x")", saved, R"("x", "y")"), 3u);
  EXPECT_EQ(format_with(R"(, "output_range": 2)", saved, R"("y")"), 4u);
  EXPECT_EQ(format_with("", saved + R"(, "conv1": {"output_range": 2})", R"("y")"), 4u);
  EXPECT_EQ(format_with("", saved, R"("y", "layer:a")"), 4u);
  EXPECT_EQ(format_with(R"(, "output_range": 2)",
                        saved + R"(, "precision": "int8", "conv1": {"output_range": 2})", R"("y")"),
            4u);
}

TEST(SerializedPlan, OtherFormatsAreRefused) {
  const auto error_of = [](std::uint32_t format) {
    std::string bytes = old_plan("pooling");
    PlanHead head;
    std::memcpy(&head, bytes.data(), sizeof head);
    head.format = format;
    std::memcpy(bytes.data(), &head, sizeof head);
    llvm::Expected<ReadPlan> read = read_plan(bytes);
    return read ? "no error" : take_status(read.takeError()).message();
  };
  EXPECT_THAT(error_of(5), AllOf(HasSubstr("has format 5, but this library reads the formats 3 to 4"),
                                 HasSubstr("use a library as new as the one that wrote it")));
  EXPECT_THAT(error_of(2), AllOf(HasSubstr("has format 2, but this library reads the formats 3 to 4"),
                                 Not(HasSubstr("as new as")), HasSubstr("serialize it again")));
}

TEST(SerializedPlan, SpaceToChannelAndBack) {
  for (const AxisArray& stride : {AxisArray{2, 2, 2, 1}, AxisArray{1, 4, 3, 1}}) {
    const auto down = make_space_problem<SpaceToChannelProblem>(3, DType::BF16, 6, stride);
    const auto up = make_space_problem<ChannelToSpaceProblem>(3, DType::BF16, 6, stride);
    const auto plans = {llvm::cantFail(Plan::create(down, {})), llvm::cantFail(Plan::create(up, {}))};
    for (const std::shared_ptr<const Plan>& plan : plans) {
      const auto again = there_and_back(*plan);
      EXPECT_EQ(&again->program.layers[0].problem.kind(), &plan->program.layers[0].problem.kind());
      EXPECT_EQ(again->program.maps, plan->program.maps);
      for (std::size_t i = 0; i < 2; ++i)
        EXPECT_EQ(again->program.tensors[i].channels, plan->program.tensors[i].channels);
      const auto cache = make_cache("", std::make_shared<FakeCompiler>());
      EXPECT_THAT(llvm::cantFail(serialize_plan(*plan, *cache, {})), Not(HasSubstr("kernel_size")))
          << "the kernel follows from the stride";
    }
  }
}

/// Dense kernels keep their padding, and gradients the convolution of which they are.
TEST(SerializedPlan, KernelsAndGradientsStayWhatTheyAre) {
  ConvolutionProblem forward = example_problem();
  forward.kind = ConvolutionKind::Strided;
  forward.stride = {2, 2, 2, 1};
  for (const std::optional<AxisArray>& padding : {std::optional<AxisArray>(), {AxisArray{1, 0, 2, 0}}}) {
    forward.padding = padding;
    for (const ConvolutionProblem& problem : {forward, input_gradient_of(forward)}) {
      const auto plan = llvm::cantFail(Plan::create_without_values(problem, nullptr));
      const auto again = there_and_back(*plan);
      const auto& read = again->program.layers.front().problem.get<ConvolutionProblem>();
      EXPECT_EQ(read.padding, padding);
      EXPECT_EQ(read.gradient_of, problem.gradient_of);
      EXPECT_EQ(read.kind, problem.kind);
      EXPECT_EQ(again->program.maps.front().padding, padding);
      EXPECT_EQ(again->parameter_list().front().shape, plan->parameter_list().front().shape);
    }
  }
}

TEST(SerializedPlan, ParametersKeepTheirBits) {
  for (const DType dtype : kDTypes) {
    ConvolutionProblem problem = example_problem(2, 3, dtype);
    problem.scale_shift = true;
    LayerParameters parameters;
    for (int i = 0; i < 27 * 6; ++i) parameters.weight.push_back(1.0f / static_cast<float>(i + 3) - 0.1f);
    parameters.weight[5] = -0.0f;
    parameters.scale = {1.1f, -2.3f, 1e-30f};
    parameters.shift = {1e30f, 0.3f, -0.0f};
    const auto plan = llvm::cantFail(Plan::create(problem, parameters)), again = there_and_back(*plan);
    const auto bits = [](const std::vector<float>& values) {
      return std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
    };
    EXPECT_EQ(bits(again->parameters[0].weight), bits(plan->parameters[0].weight));
    EXPECT_EQ(bits(again->parameters[0].scale), bits(plan->parameters[0].scale));
    EXPECT_EQ(bits(again->parameters[0].shift), bits(plan->parameters[0].shift));
  }
}

}  // namespace
}  // namespace minuet
