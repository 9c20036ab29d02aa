// The forms of a network's parameters in custom calls: each by itself, all in one array, and prepared. All
// give the same bits.
#include "minuet/training.hpp"
#include "tests/runtime/bindings/xla/calls_on_device.h"

namespace minuet_xla::testing {
namespace {

// A convolution with a batch norm, whose running statistics are parameters 3 and 4, and a linear layer with a
// bias.
constexpr char kForms[] = R"({"name": "n", "ndim": 3, "in_channels": 4, "layers": [
    {"op": "block", "name": "a", "kernel_size": 3, "out_channels": 16},
    {"op": "linear", "name": "b", "out_channels": 8}]})";

class ParameterForms : public CallsOnDevice {
 protected:
  static constexpr std::int64_t kCapacity = 32, kRows = 20, kIn = 4, kOut = 8;
  enum Form : std::int64_t { kEach = 1, kFlat = 2, kPrepared = 3 };
  void SetUp() override {
    CallsOnDevice::SetUp();
    if (IsSkipped()) return;
    minuet_network_options options = MINUET_NETWORK_OPTIONS_INIT;
    options.description = kForms;
    options.without_values = 1;
    options.dataflow = MINUET_DATAFLOW_FUSED;
    plan_.emplace(minuet::Plan::network(context_, options));
    plan_->compile(arch_);
    minuet_training_options training = MINUET_TRAINING_OPTIONS_INIT;
    training.input_gradients = 1;
    training_.emplace(context_, *plan_, training);
    pyramid_.emplace(training_->create_pyramid(std::vector<std::int64_t>{kCapacity}));
    arguments_.pyramid = pyramid_->get();
    for (std::int32_t i = 0; i < plan_->info().parameter_tensors; ++i) {
      const minuet_parameter_info info = plan_->parameter(i);
      shapes_.emplace_back(info.shape, info.shape + info.rank);
      std::size_t count = 1;
      for (const std::int64_t length : shapes_.back()) count *= static_cast<std::size_t>(length);
      values_.push_back(normal(count));
      const bool is_variance = std::string(info.name).ends_with("running_var");
      for (float& value : values_.back()) value = is_variance ? 1 + value * value : value / 4;
      EXPECT_EQ(std::string(info.name).find("running_") != std::string::npos, is_statistic(i)) << info.name;
    }
    build();
  }

  static bool is_statistic(std::size_t parameter) { return parameter == 3 || parameter == 4; }
  // What describes the pyramid of the training plan.
  Site& describe(Site& site) const {
    std::vector<std::int64_t> numbers = {1, 2, 3, 0, 0};
    numbers.insert(numbers.end(), 10, 0);  // No bounds.
    numbers.insert(numbers.end(), {0, 1, kCapacity, 0});
    std::size_t size = 0;
    const minuet_plan* const plan = plan_->get();
    const auto serialize = [&](unsigned char* to) {
      minuet::check(minuet_plan_serialize(const_cast<minuet_plan*>(plan), nullptr, 0,
                                          MINUET_SERIALIZE_WITHOUT_VALUES, to, size, &size));
    };
    serialize(nullptr);
    std::vector<unsigned char> bytes(size);
    serialize(bytes.data());
    return site.bytes("plan", bytes)
        .integers("pyramid", numbers)
        .integers("training", {1, 1, 0, 0})
        .real("momentum", 0.1);
  }
  std::unique_ptr<Site> site_of(const char* name, Form form) const {
    auto site = std::make_unique<Site>(handlers(name));
    describe(*site).integer("map", 0).integer("parameters", form).integers("statistics", {3, 4});
    EXPECT_EQ(site->instantiate().message, "");
    EXPECT_EQ(site->initialize().message, "");
    return site;
  }
  void build() {
    Site site(handlers("minuet_pyramid"));
    ASSERT_EQ(describe(site).instantiate().message, "");
    const minuet::Pyramid::Bytes bytes = pyramid_->bytes(arch_);
    buffer_ = poisoned<unsigned char>({bytes.buffer});
    std::vector<std::int32_t> points;
    for (std::int32_t i = 0; i < kRows; ++i) points.insert(points.end(), {0, i / 9, i / 3 % 3, i % 3});
    const std::vector<Site::Array> results = {buffer_, poisoned<std::int32_t>({2}),
                                              poisoned<std::uint32_t>({1})};
    ASSERT_EQ(site.execute({array(points, {kRows, 4}), array<std::int32_t>({kRows}, {1})},
                           with_workspace(results, bytes.workspace))
                  .message,
              "");
    EXPECT_EQ(read<std::uint32_t>(results[2])[0], 0u);
  }

  // The operands of a form.
  std::vector<Site::Array> parameters(Form form) {
    std::vector<Site::Array> each;
    if (form == kEach) {
      for (std::size_t i = 0; i < values_.size(); ++i) each.push_back(array(values_[i], shapes_[i]));
      return each;
    }
    std::vector<float> flat;
    for (const bool of_statistics : {false, true}) {
      for (std::size_t i = 0; i < values_.size(); ++i) {
        if (is_statistic(i) == of_statistics) flat.insert(flat.end(), values_[i].begin(), values_[i].end());
      }
    }
    const auto elements = static_cast<std::int64_t>(flat.size());
    return {array(flat, {elements})};
  }
  // Results for the parameters that are statistics, or for the others, in the form.
  std::vector<Site::Array> results(Form form, bool of_statistics) {
    std::vector<Site::Array> each;
    std::int64_t elements = 0;
    for (std::size_t i = 0; i < values_.size(); ++i) {
      if (is_statistic(i) != of_statistics) continue;
      each.push_back(poisoned<float>(shapes_[i]));
      elements += static_cast<std::int64_t>(values_[i].size());
    }
    return form == kEach ? each : std::vector<Site::Array>{poisoned<float>({elements})};
  }
  // The numbers of some arrays, one behind the other.
  std::vector<float> joined(const std::vector<Site::Array>& arrays, std::size_t begin, std::size_t end) {
    std::vector<float> numbers;
    for (std::size_t i = begin; i < end; ++i) {
      const std::vector<float> one = read<float>(arrays[i]);
      numbers.insert(numbers.end(), one.begin(), one.end());
    }
    for (const float number : numbers) EXPECT_FALSE(std::isnan(number));
    return numbers;
  }

  std::optional<minuet::Plan> plan_;
  std::optional<minuet::Training> training_;
  std::optional<minuet::Pyramid> pyramid_;
  minuet_run_arguments arguments_ = MINUET_RUN_ARGUMENTS_INIT;
  std::vector<std::vector<std::int64_t>> shapes_;
  std::vector<std::vector<float>> values_;
  Site::Array buffer_ = {};
  const std::vector<float> features_ = normal(kCapacity * kIn), gradient_ = normal(kCapacity * kOut);
};

TEST_P(ParameterForms, Inference) {
  const std::int64_t bytes = minuet::run_bytes(*plan_, arch_, arguments_);
  const std::int64_t prepared_bytes = minuet::prepared_bytes(*plan_, arch_, arguments_);
  const Site::Array features = array(features_, {kCapacity, kIn});
  const auto run = [&](Form form, const std::vector<Site::Array>& given) {
    const std::unique_ptr<Site> site = site_of("minuet_run", form);
    const Site::Array out = poisoned<float>({kCapacity, kOut});
    std::vector<Site::Array> operands = {buffer_, features};
    operands.insert(operands.end(), given.begin(), given.end());
    EXPECT_EQ(site->execute(operands, with_workspace({out}, bytes)).message, "");
    return joined({out}, 0, 1);
  };
  const std::vector<float> expected = run(kEach, parameters(kEach));
  EXPECT_NE(expected, std::vector<float>(expected.size()));
  EXPECT_EQ(run(kFlat, parameters(kFlat)), expected);
  for (const Form form : {kEach, kFlat}) {
    const std::unique_ptr<Site> site = site_of("minuet_prepare", form);
    const Site::Array prepared = poisoned<unsigned char>({prepared_bytes});
    ASSERT_EQ(site->execute(parameters(form), {prepared}).message, "");
    EXPECT_EQ(run(kPrepared, {prepared}), expected);
    const Outcome small = site->execute(parameters(form), {poisoned<unsigned char>({prepared_bytes - 1})});
    EXPECT_EQ(small.code, XLA_FFI_Error_Code_RESOURCE_EXHAUSTED) << small.message;
  }
}

TEST_P(ParameterForms, Training) {
  const minuet_training_sizes sizes = training_->bytes(arch_, *pyramid_);
  const Site::Array features = array(features_, {kCapacity, kIn});
  const Site::Array gradient = array(gradient_, {kCapacity, kOut});
  std::vector<std::vector<float>> found[2];
  for (const Form form : {kEach, kFlat}) {
    const std::vector<Site::Array> given = parameters(form);
    const Site::Array kept = poisoned<unsigned char>({sizes.kept});
    std::vector<Site::Array> out = {poisoned<float>({kCapacity, kOut}), kept};
    const std::vector<Site::Array> statistics = results(form, true);
    out.insert(out.end(), statistics.begin(), statistics.end());
    std::vector<Site::Array> operands = {buffer_, features};
    operands.insert(operands.end(), given.begin(), given.end());
    const std::unique_ptr<Site> forward = site_of("minuet_training_forward", form);
    ASSERT_EQ(forward->execute(operands, with_workspace(out, sizes.forward_workspace)).message, "");

    std::vector<Site::Array> of_parameters = results(form, false);
    const std::size_t count = of_parameters.size();
    of_parameters.push_back(poisoned<float>({kCapacity, kIn}));
    operands = {buffer_};
    operands.insert(operands.end(), given.begin(), given.end());
    operands.insert(operands.end(), {gradient, kept});
    const std::unique_ptr<Site> backward = site_of("minuet_training_backward", form);
    ASSERT_EQ(backward->execute(operands, with_workspace(of_parameters, sizes.backward_workspace)).message,
              "");
    found[form - kEach] = {joined(out, 0, 1), joined(out, 2, out.size()), joined(of_parameters, 0, count),
                           joined(of_parameters, count, count + 1)};
  }
  EXPECT_EQ(found[0], found[1]);
  for (const std::vector<float>& numbers : found[0]) EXPECT_NE(numbers, std::vector<float>(numbers.size()));
}

TEST_P(ParameterForms, WrongFormsAreRefused) {
  for (const char* const name : {"minuet_training_forward", "minuet_training_backward", "minuet_prepare"}) {
    Site site(handlers(name));
    const Outcome outcome = describe(site)
                                .integer("map", 0)
                                .integer("parameters", kPrepared)
                                .integers("statistics", {})
                                .instantiate();
    EXPECT_EQ(outcome.code, XLA_FFI_Error_Code_INVALID_ARGUMENT);
    EXPECT_NE(outcome.message.find("the attribute parameters is 3"), std::string::npos) << outcome.message;
  }
  Site site(handlers("minuet_run"));
  const Outcome unknown =
      describe(site).integer("map", 0).integer("parameters", kFlat).integers("statistics", {7}).instantiate();
  EXPECT_NE(unknown.message.find("names no parameter"), std::string::npos) << unknown.message;

  std::vector<Site::Array> operands = {buffer_, array(features_, {kCapacity, kIn}), poisoned<float>({3})};
  const std::vector<Site::Array> out = with_workspace({poisoned<float>({kCapacity, kOut})}, 1 << 20);
  const Outcome few = site_of("minuet_run", kFlat)->execute(operands, out);
  EXPECT_EQ(few.code, XLA_FFI_Error_Code_INVALID_ARGUMENT);
  EXPECT_NE(few.message.find("operand 2 has 3 elements"), std::string::npos) << few.message;
  const Outcome floats = site_of("minuet_run", kPrepared)->execute(operands, out);
  EXPECT_NE(floats.message.find("operand 2 has the element type"), std::string::npos) << floats.message;
}

INSTANTIATE_TEST_SUITE_P(On, ParameterForms, ::testing::Values("cpu", "cuda:0"), name_of);

}  // namespace
}  // namespace minuet_xla::testing
