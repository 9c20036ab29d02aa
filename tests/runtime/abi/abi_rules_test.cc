// Rules of the C ABI that need no device: what options are refused, and what a field of 0 stands for.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <limits>

#include "include/minuet/tuning.h"
#include "tests/support/abi.h"

namespace minuet::abi {
namespace {

class AbiRules : public testing::Test {
 protected:
  void SetUp() override {
    minuet_context* context = nullptr;
    check(minuet_context_create(nullptr, &context));
    context_.reset(context);
  }
  minuet_status convolution(const minuet_convolution_options& options) {
    minuet_plan* made = nullptr;
    const minuet_status status = minuet_plan_create_convolution(context_.get(), &options, &made);
    minuet_plan_destroy(made);
    return status;
  }
  std::string network_error(const std::string& json) {
    minuet_network_options options = MINUET_NETWORK_OPTIONS_INIT;
    options.description = json.c_str();
    minuet_plan* network = nullptr;
    if (minuet_plan_create_network(context_.get(), &options, &network) == MINUET_OK) {
      minuet_plan_destroy(network);
      return "";
    }
    return last_error();
  }
  Handle<minuet_context> context_{nullptr, {minuet_context_destroy}};
};

TEST_F(AbiRules, ImpossibleConvolutionsAreRefused) {
  const float one = 1;
  minuet_convolution_options options = MINUET_CONVOLUTION_OPTIONS_INIT;
  options.ndim = 4;
  options.in_channels = options.out_channels = 1;
  options.weight = &one;
  options.weight_count = 1;
  EXPECT_EQ(convolution(options), MINUET_OK);
  for (int32_t& size : options.kernel_size) size = 65536;  // the product wraps to 0
  EXPECT_EQ(convolution(options), MINUET_INVALID_ARGUMENT);
  for (int32_t& size : options.kernel_size) size = 1;
  options.in_channels = options.out_channels = INT32_MAX;
  EXPECT_EQ(convolution(options), MINUET_INVALID_ARGUMENT);
  options.in_channels = options.out_channels = 2;
  options.groups = 3;
  EXPECT_EQ(convolution(options), MINUET_INVALID_ARGUMENT);
  options.groups = -1;
  EXPECT_EQ(convolution(options), MINUET_INVALID_ARGUMENT);
  options.groups = 1;
  options.weight = nullptr;
  EXPECT_EQ(convolution(options), MINUET_INVALID_ARGUMENT);
}

/// The library compares the number of floats that the caller has with what the options ask for before it
/// reads any. Each vector is as long as its count says, so that AddressSanitizer sees a read past it.
TEST_F(AbiRules, ParametersHaveTheirCounts) {
  struct Row {
    int32_t kernel_size, in, out;
    int64_t weights, scales, shifts;  // the counts; -1: a null pointer with count 0
    std::string refusal;              // empty: accepted
  };
  const Row rows[] = {
      {3, 2, 5, 270, 5, 5, ""},
      {3, 2, 5, 270, -1, -1, ""},
      {0, 2, 5, 10, -1, 5, ""},
      {3, 2, 5, 269, 5, 5, "weight_count is 269; it must be 270"},
      {3, 2, 5, 271, 5, 5, "weight_count is 271; it must be 270"},
      {3, 2, 5, 0, 5, 5, "weight_count is 0; it must be 270"},
      {2, 2, 5, 270, 5, 5, "weight_count is 270; it must be 80"},
      {5, 2, 5, 270, 5, 5, "weight_count is 270; it must be 1250"},
      {3, 5, 2, 270, 5, 5, "scale_count is 5; it must be 2"},
      {3, 2, 5, -1, 5, 5, "weight is null"},
      {3, 2, 5, 270, 4, 5, "scale_count is 4; it must be 5"},
      {3, 2, 5, 270, 5, 6, "shift_count is 6; it must be 5"},
      {3, 2, 5, 270, 5, 0, "shift_count is 0; it must be 5"},
  };
  const auto list = [](int64_t count) {
    return std::vector<float>(static_cast<size_t>(std::max<int64_t>(count, 0)), 1);
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.refusal + " " + std::to_string(row.kernel_size));
    const std::vector<float> weight = list(row.weights), scale = list(row.scales), shift = list(row.shifts);
    const float nothing = 0;
    const auto data = [&](const std::vector<float>& values, int64_t count) {
      return count < 0 ? nullptr : values.empty() ? &nothing : values.data();
    };
    minuet_convolution_options options = MINUET_CONVOLUTION_OPTIONS_INIT;
    options.in_channels = row.in, options.out_channels = row.out;
    std::fill_n(options.kernel_size, 3, row.kernel_size);
    options.weight = data(weight, row.weights), options.weight_count = std::max<int64_t>(row.weights, 0);
    options.scale = data(scale, row.scales), options.scale_count = std::max<int64_t>(row.scales, 0);
    options.shift = data(shift, row.shifts), options.shift_count = std::max<int64_t>(row.shifts, 0);
    EXPECT_EQ(convolution(options), row.refusal.empty() ? MINUET_OK : MINUET_INVALID_ARGUMENT);
    if (!row.refusal.empty()) {
      EXPECT_NE(last_error().find(row.refusal), std::string::npos) << last_error();
    }
  }
  const std::vector<float> one(1, 1);
  minuet_convolution_options counted = MINUET_CONVOLUTION_OPTIONS_INIT;
  counted.in_channels = counted.out_channels = 1;
  counted.weight = one.data(), counted.weight_count = 1;
  counted.scale_count = 1;
  EXPECT_EQ(convolution(counted), MINUET_INVALID_ARGUMENT);
  EXPECT_NE(last_error().find("scale_count is 1; it must be 0, because scale is null"), std::string::npos);
}

/// What a field of 0 stands for, where 0 itself would make no sense: the same answers as with that number.
TEST_F(AbiRules, ZeroStandsForTheDefault) {
  const std::vector<float> weight(27, 1);
  const auto with = [&](const std::function<void(minuet_convolution_options&)>& change) {
    minuet_convolution_options options;
    std::memset(&options, 0, sizeof(options));
    options.struct_size = sizeof(options);
    options.in_channels = options.out_channels = 1;
    std::fill_n(options.kernel_size, 3, 3);
    options.weight = weight.data(), options.weight_count = 27;
    change(options);
    minuet_plan* made = nullptr;
    check(minuet_plan_create_convolution(context_.get(), &options, &made));
    return Plan(made, {minuet_plan_destroy});
  };
  const Plan zeroed = with([](auto&) {});
  EXPECT_EQ(info_of(zeroed.get()).ndim, 3);
  EXPECT_EQ(info_of(zeroed.get()).dtype, MINUET_F32);
  const Plan explicit_plan = with([](minuet_convolution_options& options) {
    options.ndim = 3, options.groups = 1, options.dtype = MINUET_F32;
    std::fill_n(options.stride, 4, 1), std::fill_n(options.dilation, 4, 1);
    options.kernel_size[3] = 1;
  });
  EXPECT_EQ(info_of(explicit_plan.get()).parameters, info_of(zeroed.get()).parameters);
  minuet_pooling_options pooling;
  std::memset(&pooling, 0, sizeof(pooling));
  pooling.struct_size = sizeof(pooling);
  pooling.channels = 1;
  minuet_plan* made = nullptr;
  EXPECT_EQ(minuet_plan_create_pooling(context_.get(), &pooling, &made), MINUET_OK) << last_error();
  minuet_plan_destroy(made);
  for (const int32_t wrong : {-1, 5}) {
    pooling.ndim = wrong;
    EXPECT_EQ(minuet_plan_create_pooling(context_.get(), &pooling, &made), MINUET_INVALID_ARGUMENT);
    EXPECT_NE(last_error().find("it must be 1 to 4, or 0 for the default, 3"), std::string::npos)
        << last_error();
  }
}

/// Limits are in the errors about them.
TEST_F(AbiRules, LimitsAreNamed) {
  const float one = 1;
  const auto refused = [&](const std::function<void(minuet_convolution_options&)>& change) {
    minuet_convolution_options options = MINUET_CONVOLUTION_OPTIONS_INIT;
    options.in_channels = options.out_channels = 1;
    options.weight = &one, options.weight_count = 1;
    change(options);
    return convolution(options) == MINUET_INVALID_ARGUMENT ? last_error() : "no INVALID_ARGUMENT";
  };
  const std::pair<std::function<void(minuet_convolution_options&)>, const char*> rows[] = {
      {[](auto& options) { options.kernel_size[0] = (1 << 24) + 1; }, "each must be 1 to 16777216"},
      {[](auto& options) { options.dilation[1] = (1 << 24) + 1; }, "each must be 1 to 16777216"},
      {[](auto& options) { options.stride[2] = (1 << 24) + 1; }, "each must be 1 to 16777216"},
      {[](auto& options) { options.kernel_size[0] = 1 << 20, options.kernel_size[1] = 2; },
       "1048576 offsets"},
      {[](auto& options) { options.kernel_size[0] = -1; }, "it must be 1 or more, or 0, which means 1"},
      {[](auto& options) { options.kernel_size[3] = 2; }, "only the first 3 axes are used"},
      {[](auto& options) { options.in_channels = 65537; }, "1 to 65536"},
      {[](auto& options) { options.dtype = 9; }, "it must be 0 to 3"},
      {[](auto& options) { options.dataflow = 3; }, "it must be 0 to 2"},
      {[](auto& options) { options.groups = -2; }, "it must be 1 or more"},
  };
  for (const auto& [change, words] : rows) {
    const std::string text = refused(change);
    EXPECT_NE(text.find(words), std::string::npos) << text;
  }
}

/// A plan is compiled for the CPU device by a name, as for any other, and not by an empty one.
TEST_F(AbiRules, TheCpuIsAnArchitectureLikeOthers) {
  minuet_device* device = nullptr;
  check(minuet_device_open(context_.get(), "cpu", nullptr, &device));
  const Handle<minuet_device> owner(device, {minuet_device_destroy});
  minuet_device_info info{};
  info.struct_size = sizeof(info);
  check(minuet_device_query(device, &info));
  EXPECT_STREQ(info.arch, "cpu");
  const float one = 1;
  minuet_convolution_options options = MINUET_CONVOLUTION_OPTIONS_INIT;
  options.in_channels = options.out_channels = 1;
  options.weight = &one, options.weight_count = 1;
  const auto make = [&] {
    minuet_plan* made = nullptr;
    check(minuet_plan_create_convolution(context_.get(), &options, &made));
    return Plan(made, {minuet_plan_destroy});
  };
  const Plan plan = make();
  EXPECT_EQ(minuet_plan_load(plan.get(), device), MINUET_FAILED_PRECONDITION);
  EXPECT_NE(
      last_error().find(
          "the plan is not compiled for arch cpu, which device cpu needs: call minuet_plan_compile first"),
      std::string::npos)
      << last_error();
  for (const char* const wrong : {"", "CPU", "cpu ", "gpu"}) {
    EXPECT_NE(minuet_plan_compile(plan.get(), wrong, nullptr, nullptr), MINUET_OK) << wrong;
    minuet_job* job = nullptr;
    const minuet_status started = minuet_plan_compile_async(plan.get(), wrong, nullptr, nullptr, &job);
    EXPECT_NE(started == MINUET_OK ? minuet_job_wait(job) : started, MINUET_OK) << wrong;
    minuet_job_destroy(job);
  }
  EXPECT_EQ(minuet_plan_compile(plan.get(), "", nullptr, nullptr), MINUET_INVALID_ARGUMENT);
  EXPECT_NE(last_error().find("arch is an empty string"), std::string::npos) << last_error();
  EXPECT_EQ(minuet_plan_load(plan.get(), device), MINUET_FAILED_PRECONDITION) << "nothing was compiled";
  int kernels = 0;
  const auto count = [](const minuet_kernel_info*, void* user) { ++*static_cast<int*>(user); };
  check(minuet_plan_compile(plan.get(), "cpu", count, &kernels));
  EXPECT_EQ(kernels, 0);
  check(minuet_plan_load(plan.get(), device));
  const Plan other = make();
  minuet_job* job = nullptr;
  check(minuet_plan_compile_async(other.get(), "cpu", nullptr, nullptr, &job));
  EXPECT_EQ(minuet_job_wait(job), MINUET_OK);
  minuet_job_destroy(job);
  check(minuet_plan_load(other.get(), device));
}

/// Compiling ahead reads architectures as compiling does. The CPU's is known there, and has no kernels.
TEST_F(AbiRules, CompilingAheadKnowsTheSameArchitectures) {
  const float one = 1;
  minuet_convolution_options convolution = MINUET_CONVOLUTION_OPTIONS_INIT;
  convolution.in_channels = convolution.out_channels = 1;
  convolution.weight = &one, convolution.weight_count = 1;
  minuet_plan* made = nullptr;
  check(minuet_plan_create_convolution(context_.get(), &convolution, &made));
  const Plan plan(made, {minuet_plan_destroy});
  struct Row {
    std::vector<const char*> archs;
    std::string words;
  };
  const Row rows[] = {
      {{"cpu"}, "archs[0] is cpu, and the CPU has no kernels to compile ahead: name GPUs, such as sm_90a"},
      {{"sm_90a", "cpu"}, "archs[1] is cpu, and the CPU has no kernels"},
      {{""}, "archs[0] is an empty string: give the arch of minuet_device_info, such as sm_90a or cpu"},
      {{"sm_80", "sm_90a", ""}, "archs[2] is an empty string"},
      {{"sm_90a", nullptr}, "archs[1] is null"},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.words);
    minuet_precompile_options options = MINUET_PRECOMPILE_OPTIONS_INIT;
    options.plans = &made, options.plan_count = 1;
    options.archs = row.archs.data(), options.arch_count = static_cast<int32_t>(row.archs.size());
    options.output_directory = "/nowhere";
    for (const bool tuned : {false, true}) {
      EXPECT_EQ(tuned ? minuet_precompile_tuned(context_.get(), &options, "/nowhere", nullptr)
                      : minuet_precompile(context_.get(), &options, nullptr),
                MINUET_INVALID_ARGUMENT);
      EXPECT_NE(last_error().find(row.words), std::string::npos) << last_error();
    }
  }
}

TEST_F(AbiRules, ParametersMustBeNumbersThatTheDtypeHolds) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN(),
                  kInfinity = std::numeric_limits<float>::infinity();
  std::vector<float> weight(4, 1), scale(2, 1), shift(2, 1);
  minuet_convolution_options options = MINUET_CONVOLUTION_OPTIONS_INIT;
  options.in_channels = options.out_channels = 2;
  options.dtype = MINUET_F16;
  options.weight = weight.data(), options.scale = scale.data(), options.shift = shift.data();
  options.weight_count = 4, options.scale_count = options.shift_count = 2;
  const auto expect = [&](minuet_status status, const std::string& words) {
    EXPECT_EQ(convolution(options), status);
    if (status != MINUET_OK) {
      EXPECT_NE(last_error().find(words), std::string::npos) << last_error();
    }
  };
  const std::pair<const char*, std::vector<float>*> parameters[] = {
      {"weight", &weight}, {"scale", &scale}, {"shift", &shift}};
  for (const auto& [name, values] : parameters) {
    for (const float value : {kNan, kInfinity, -kInfinity}) {
      values->at(1) = value;
      expect(MINUET_INVALID_ARGUMENT, name + std::string("[1] is "));
      EXPECT_NE(last_error().find("the option allow_non_finite_parameters takes"), std::string::npos);
      options.allow_non_finite_parameters = 1;
      expect(MINUET_OK, "");
      options.allow_non_finite_parameters = 0;
    }
    values->at(1) = 1e6f;
    expect(name == std::string("weight") ? MINUET_INVALID_ARGUMENT : MINUET_OK,
           "weight[1] is 1000000, which fp16 cannot hold");
    values->at(1) = 1;
  }
  weight[3] = std::numeric_limits<float>::max();
  for (const minuet_dtype dtype : {MINUET_F16, MINUET_BF16, MINUET_TF32, MINUET_F32}) {
    options.dtype = dtype;
    expect(dtype == MINUET_F32 ? MINUET_OK : MINUET_INVALID_ARGUMENT, "cannot hold");
    options.allow_non_finite_parameters = 1;
    expect(MINUET_OK, "");
    options.allow_non_finite_parameters = 0;
  }
}

TEST_F(AbiRules, ASlopeBelongsToALeakyReluAndIsFinite) {
  const float one = 1;
  minuet_convolution_options options = MINUET_CONVOLUTION_OPTIONS_INIT;
  options.in_channels = options.out_channels = 1;
  options.weight = &one, options.weight_count = 1;
  const auto expect = [&](minuet_activation activation, float slope, const char* words) {
    options.activation = activation, options.negative_slope = slope;
    EXPECT_EQ(convolution(options), *words ? MINUET_INVALID_ARGUMENT : MINUET_OK)
        << activation << " " << slope;
    if (*words) {
      EXPECT_NE(last_error().find(words), std::string::npos) << last_error();
    }
  };
  for (int32_t activation = MINUET_ACTIVATION_NONE; activation <= MINUET_ACTIVATION_TANH; ++activation) {
    expect(activation, 0, "");
    if (activation != MINUET_ACTIVATION_LEAKY_RELU) {
      expect(activation, 0.01f, "negative_slope belongs to a leaky ReLU");
    }
  }
  expect(MINUET_ACTIVATION_LEAKY_RELU, 0.01f, "");
  expect(MINUET_ACTIVATION_LEAKY_RELU, -2, "");
  expect(MINUET_ACTIVATION_RELU, 0.01f, "but activation is 1 (relu): set activation to 2");
  expect(-1, 0, "activation is -1; it must be 0 to 7");
  expect(8, 0, "activation is 8; it must be 0 to 7");
  for (const float slope :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    for (const int32_t activation : {0, 1, 2}) expect(activation, slope, "it must be finite");
  }
}

TEST_F(AbiRules, PoolingsAreChecked) {
  minuet_plan* made = nullptr;
  minuet_pooling_options pooling = MINUET_POOLING_OPTIONS_INIT;
  pooling.channels = 8;
  for (const int32_t reduction : {MINUET_REDUCE_MAX, MINUET_REDUCE_AVERAGE, MINUET_REDUCE_SUM}) {
    pooling.reduction = reduction;
    EXPECT_EQ(minuet_plan_create_pooling(context_.get(), &pooling, &made), MINUET_OK) << last_error();
    minuet_plan_destroy(made);
  }
  pooling.reduction = 3;
  EXPECT_EQ(minuet_plan_create_pooling(context_.get(), &pooling, &made), MINUET_INVALID_ARGUMENT);
  EXPECT_NE(last_error().find("reduction is 3; it must be 0 to 2"), std::string::npos) << last_error();
  pooling.winners = 1;
  pooling.reduction = MINUET_REDUCE_SUM;
  EXPECT_EQ(minuet_plan_create_pooling(context_.get(), &pooling, &made), MINUET_INVALID_ARGUMENT);
  EXPECT_NE(last_error().find("only a maximum has winners"), std::string::npos) << last_error();
  pooling.reduction = MINUET_REDUCE_MAX;
  for (const int64_t wrong : {-1, 2}) {
    pooling.winners = wrong;
    EXPECT_EQ(minuet_plan_create_pooling(context_.get(), &pooling, &made), MINUET_INVALID_ARGUMENT);
  }
  for (const int32_t winners : {0, 1}) {
    pooling.winners = winners;
    EXPECT_EQ(minuet_plan_create_pooling(context_.get(), &pooling, &made), MINUET_OK) << last_error();
    EXPECT_EQ(info_of(made).outputs, 1 + winners);
    minuet_plan_destroy(made);
  }
  made = nullptr;
  pooling.kernel_size[2] = -1;
  EXPECT_EQ(minuet_plan_create_pooling(context_.get(), &pooling, &made), MINUET_INVALID_ARGUMENT);
  EXPECT_EQ(minuet_plan_create_pooling(context_.get(), nullptr, &made), MINUET_INVALID_ARGUMENT);
}

/// A plan computes the gradient of a convolution's input, and no other.
TEST_F(AbiRules, PlansOfGradientsAreOfTheInput) {
  minuet_plan* made = nullptr;
  minuet_convolution_options forward = MINUET_CONVOLUTION_OPTIONS_INIT;
  forward.in_channels = forward.out_channels = 8;
  forward.without_values = 1, forward.weight_count = 64;
  const auto gradient = [&](minuet_gradient which) {
    return minuet_plan_create_convolution_gradient(context_.get(), &forward, which, &made);
  };
  for (const minuet_gradient other : {2, 3, 4, 6, 7}) {
    EXPECT_EQ(gradient(other), MINUET_UNIMPLEMENTED);
    EXPECT_NE(last_error().find("use minuet_gradient_create"), std::string::npos) << last_error();
  }
  for (const minuet_gradient none : {-1, 0, 8, 9}) {
    EXPECT_EQ(gradient(none), MINUET_INVALID_ARGUMENT);
    EXPECT_NE(last_error().find("the gradients are " + std::to_string(none)), std::string::npos);
  }
  forward.in_channels = 0;
  EXPECT_EQ(gradient(MINUET_GRADIENT_INPUT), MINUET_INVALID_ARGUMENT);
  EXPECT_EQ(made, nullptr);
  forward.in_channels = 8;
  EXPECT_EQ(gradient(MINUET_GRADIENT_INPUT), MINUET_OK) << last_error();
  minuet_plan_destroy(made);
}

TEST_F(AbiRules, StructsOfOtherVersions) {
  const float one = 1;
  struct Newer {
    minuet_convolution_options known;
    int64_t unknown;
  } newer = {MINUET_CONVOLUTION_OPTIONS_INIT, 0};
  newer.known.in_channels = newer.known.out_channels = 1;
  newer.known.weight = &one;
  newer.known.weight_count = 1;
  newer.known.struct_size = sizeof(Newer);
  EXPECT_EQ(convolution(newer.known), MINUET_OK) << "a newer field that is not set changes nothing";
  newer.unknown = 1;
  EXPECT_EQ(convolution(newer.known), MINUET_INVALID_ARGUMENT);
  minuet_convolution_options bad = newer.known;
  bad.struct_size = 0;
  EXPECT_EQ(convolution(bad), MINUET_INVALID_ARGUMENT);

  struct Larger {
    minuet_kernel_counters known;
    int64_t more;
  } larger = {MINUET_KERNEL_COUNTERS_INIT, 77};
  larger.known.struct_size = sizeof(Larger);
  check(minuet_context_kernel_counters(context_.get(), &larger.known));
  EXPECT_EQ(larger.known.struct_size, sizeof(minuet_kernel_counters)) << "says how much was filled in";
  EXPECT_EQ(larger.more, 77);
}

TEST_F(AbiRules, NetworksThatCannotBeAreRefused) {
  const auto with = [](const std::string& layers) {
    return R"({"name": "n", "ndim": 3, "in_channels": 4, "channels": [8], "layers": [)" + layers + "]}";
  };
  EXPECT_NE(network_error(std::string(4 << 20, '[')).find("nests deeper"), std::string::npos);
  EXPECT_NE(network_error(with(R"({"op": "block", "name": "a", "width": 0, "kernel_size": 3, "save": "s"},
                                  {"op": "up", "name": "u", "width": 0, "kernel_size": 3, "onto": "s"})"))
                .find("same coordinate set"),
            std::string::npos);
  EXPECT_NE(
      network_error(with(R"({"op": "residual", "name": "r", "width": 0, "onto": "s"})")).find("\"onto\""),
      std::string::npos);
  EXPECT_NE(network_error(with(R"({"op": "block", "name": "a", "width": 0, "kernel_size": 2, "stride": 65521},
                                  {"op": "block", "name": "b", "width": 0, "kernel_size": 2, "stride": 65519})"))
                .size(),
            0u);
}

}  // namespace
}  // namespace minuet::abi
