// The custom calls of libminuet_xla in all stages, called by a made-up XLA: results against float64, and what
// is refused.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <thread>

#include "minuet/gradient.hpp"
#include "minuet/pyramid.hpp"
#include "runtime/bindings/xla/minuet_xla.h"
#include "tests/runtime/bindings/xla/calls_on_device.h"

namespace minuet_xla::testing {
namespace {

constexpr std::int64_t kCapacity = 64, kRows = 40, kIn = 3, kOut = 4, kOffsets = 27, kPairs = 27 * kCapacity;

const std::vector<std::int64_t>& pyramid_numbers() {
  static const std::vector<std::int64_t> numbers = [] {
    std::vector<std::int64_t> made = {1, 0, 3, 0, 0};
    made.insert(made.end(), 10, 0);                     // No bounds.
    made.insert(made.end(), {1, 1, kCapacity, -1, 0});  // Level 0, whose coordinates are kept.
    made.insert(made.end(), {1, 1, 1, 0});              // Its stride.
    made.insert(made.end(), 16, 0);                     // It is not reached.
    const std::int64_t purposes =
        MINUET_PURPOSE_CONVOLUTION | MINUET_PURPOSE_TRANSPOSED_CONVOLUTION | MINUET_PURPOSE_EXPORT;
    made.insert(made.end(), {1, 0, 0, purposes, 0, MINUET_KERNEL_BOX});
    made.insert(made.end(), {3, 3, 3, 0, 1, 1, 1, 0, 0, 0, 0, 0, 0});
    return made;
  }();
  return numbers;
}

const std::vector<std::int64_t>& convolution_numbers() {
  static const std::vector<std::int64_t> numbers = {
      1, 3, MINUET_F32, kIn, kOut, 1, 1, 0, 0, MINUET_KERNEL_BOX, 3, 3, 3, 0, 1, 1, 1,
      0, 1, 1,          1,   0,    0, 0, 0, 0, kOffsets,          0};
  return numbers;
}

minuet_convolution_options convolution_options() {
  minuet_convolution_options options = MINUET_CONVOLUTION_OPTIONS_INIT;
  options.in_channels = kIn, options.out_channels = kOut, options.submanifold = 1;
  for (int axis = 0; axis < 3; ++axis) options.kernel_size[axis] = 3;
  options.without_values = 1, options.weight_count = kOffsets * kIn * kOut;
  options.dataflow = MINUET_DATAFLOW_FUSED;
  return options;
}

// A cube's voxels with their neighbours: (offset, input row, output row), ascending.
struct Voxels {
  std::vector<std::int32_t> coordinates;
  std::vector<std::array<std::int32_t, 3>> pairs;
  Voxels() {
    std::vector<std::array<std::int32_t, 3>> cells;
    for (std::int32_t i = 0; i < 64; ++i) cells.push_back({i / 16 - 2, i / 4 % 4 - 2, i % 4 - 2});
    std::shuffle(cells.begin(), cells.end(), std::mt19937(7));
    cells.resize(kRows);
    std::map<std::array<std::int32_t, 3>, std::int32_t> rows;
    for (const auto& cell : cells) {
      rows[cell] = static_cast<std::int32_t>(rows.size());
      coordinates.insert(coordinates.end(), {0, cell[0], cell[1], cell[2]});
    }
    for (std::int32_t k = 0; k < kOffsets; ++k) {
      for (std::int32_t row = 0; row < kRows; ++row) {
        auto at = cells[static_cast<std::size_t>(row)];
        at[0] += k / 9 - 1, at[1] += k / 3 % 3 - 1, at[2] += k % 3 - 1;
        if (const auto found = rows.find(at); found != rows.end()) pairs.push_back({k, found->second, row});
      }
    }
  }
};

class CustomCalls : public CallsOnDevice {
 protected:
  minuet::Pyramid make_pyramid() {
    minuet_pyramid_level level = {};
    level.capacity = kCapacity, level.parent = -1;
    minuet_pyramid_map map = {};
    map.purposes = MINUET_PURPOSE_CONVOLUTION | MINUET_PURPOSE_TRANSPOSED_CONVOLUTION | MINUET_PURPOSE_EXPORT;
    for (int axis = 0; axis < 3; ++axis) map.kernel_size[axis] = 3;
    minuet_pyramid_options options = MINUET_PYRAMID_OPTIONS_INIT;
    options.levels = &level, options.level_count = 1, options.maps = &map, options.map_count = 1;
    options.keep_coordinates = 1;
    return minuet::Pyramid(context_, options);
  }

  void build() {
    Site site(handlers("minuet_pyramid"));
    site.integers("pyramid", pyramid_numbers());
    ASSERT_EQ(site.instantiate().message, "");
    ASSERT_EQ(site.prepare().message, "");
    ASSERT_EQ(site.initialize().message, "");
    const minuet::Pyramid::Bytes bytes = make_pyramid().bytes(arch_);
    buffer_ = poisoned<unsigned char>({bytes.buffer});
    const Site::Array counts = poisoned<std::int32_t>({2}), status = poisoned<std::uint32_t>({1});
    const Site::Array points = array(voxels_.coordinates, {kRows, 4});
    const Site::Array count = array<std::int32_t>({kRows}, {1});
    ASSERT_EQ(
        site.execute({points, count}, with_workspace({buffer_, counts, status}, bytes.workspace)).message,
        "");
    EXPECT_EQ(read<std::int32_t>(counts), (std::vector<std::int32_t>{kRows, kRows}));
    EXPECT_EQ(read<std::uint32_t>(status)[0], 0u);
  }

  std::unique_ptr<Site> run_site(bool of_input) {
    const minuet_convolution_options options = convolution_options();
    minuet_plan* made = nullptr;
    minuet::check(of_input ? minuet_plan_create_convolution_gradient(context_.get(), &options,
                                                                     MINUET_GRADIENT_INPUT, &made)
                           : minuet_plan_create_convolution(context_.get(), &options, &made));
    const minuet::Plan plan = minuet::Plan::take(made);
    plan.compile(arch_);
    const minuet::Pyramid pyramid = make_pyramid();
    minuet_run_arguments arguments = MINUET_RUN_ARGUMENTS_INIT;
    arguments.pyramid = pyramid.get();
    run_bytes_ = minuet::run_bytes(plan, arch_, arguments);
    auto site = std::make_unique<Site>(handlers("minuet_run"));
    std::size_t size = 0;
    minuet::check(
        minuet_plan_serialize(plan.get(), nullptr, 0, MINUET_SERIALIZE_WITHOUT_VALUES, nullptr, 0, &size));
    std::vector<unsigned char> bytes(size);
    minuet::check(minuet_plan_serialize(plan.get(), nullptr, 0, MINUET_SERIALIZE_WITHOUT_VALUES, bytes.data(),
                                        size, &size));
    site->bytes("plan", bytes)
        .integers("pyramid", pyramid_numbers())
        .integer("map", 0)
        .integer("parameters", 1);
    return site;
  }

  // Features in the rows in use, and NaN behind them.
  static std::vector<float> padded(std::vector<float> values, std::int64_t channels) {
    values.resize(static_cast<std::size_t>(kCapacity * channels), std::numeric_limits<float>::quiet_NaN());
    return values;
  }

  // The convolution in float64, and zeros behind the rows in use.
  std::vector<double> convolved(const std::vector<float>& x, const std::vector<float>& weight) const {
    std::vector<double> y(kCapacity * kOut);
    for (const auto& [k, source, target] : voxels_.pairs) {
      for (std::int64_t i = 0; i < kIn; ++i) {
        for (std::int64_t o = 0; o < kOut; ++o) {
          y[target * kOut + o] += double{x[source * kIn + i]} * double{weight[(k * kIn + i) * kOut + o]};
        }
      }
    }
    return y;
  }

  const Voxels voxels_;
  Site::Array buffer_ = {};
  std::int64_t run_bytes_ = 0;
};

TEST_P(CustomCalls, ConvolutionAndItsGradients) {
  build();
  const std::vector<float> x = normal(kRows * kIn), weight = normal(kOffsets * kIn * kOut);
  const std::vector<float> gradient = normal(kRows * kOut);
  const Site::Array features = array(padded(x, kIn), {kCapacity, kIn});
  const Site::Array values = array(weight, {kOffsets, kIn, kOut});
  const Site::Array out_gradient = array(padded(gradient, kOut), {kCapacity, kOut});

  const std::unique_ptr<Site> forward = run_site(false);
  ASSERT_EQ(forward->instantiate().message, "");
  ASSERT_EQ(forward->initialize().message, "");
  for (const float factor : {1.0f, 2.0f}) {  // The values of the parameters are those of each execution.
    std::vector<float> scaled = weight;
    for (float& value : scaled) value *= factor;
    const Site::Array out = poisoned<float>({kCapacity, kOut});
    const std::vector<Site::Array> operands = {buffer_, features, array(scaled, {kOffsets, kIn, kOut})};
    ASSERT_EQ(forward->execute(operands, with_workspace({out}, run_bytes_)).message, "");
    expect_close(read<float>(out), convolved(x, scaled));
  }

  const std::unique_ptr<Site> back = run_site(true);
  ASSERT_EQ(back->instantiate().message, "");
  const Site::Array of_x = poisoned<float>({kCapacity, kIn});
  ASSERT_EQ(back->execute({buffer_, out_gradient, values}, with_workspace({of_x}, run_bytes_)).message, "");
  std::vector<double> expected_x(kCapacity * kIn), expected_weight(kOffsets * kIn * kOut);
  for (const auto& [k, source, target] : voxels_.pairs) {
    for (std::int64_t i = 0; i < kIn; ++i) {
      for (std::int64_t o = 0; o < kOut; ++o) {
        const double dy = gradient[target * kOut + o];
        expected_x[source * kIn + i] += dy * weight[(k * kIn + i) * kOut + o];
        expected_weight[(k * kIn + i) * kOut + o] += dy * x[source * kIn + i];
      }
    }
  }
  expect_close(read<float>(of_x), expected_x);

  Site lister(handlers("minuet_pairs"));
  lister.integers("pyramid", pyramid_numbers()).integer("map", 0);
  ASSERT_EQ(lister.instantiate().message, "");
  const Site::Array pairs = poisoned<std::int32_t>({kPairs, 3}), number = poisoned<std::int32_t>({1});
  ASSERT_EQ(lister.execute({buffer_}, {pairs, number}).message, "");
  EXPECT_EQ(read<std::int32_t>(number)[0], static_cast<std::int32_t>(voxels_.pairs.size()));

  const minuet_gradient both = MINUET_GRADIENT_WEIGHT | MINUET_GRADIENT_BIAS;
  Site gradients(handlers("minuet_parameter_gradients"));
  gradients.integers("convolution", convolution_numbers()).integer("which", both);
  ASSERT_EQ(gradients.instantiate().message, "");
  const Site::Array of_weight = poisoned<float>({kOffsets, kIn, kOut}), of_bias = poisoned<float>({kOut});
  const std::int64_t bytes =
      minuet::GradientOp(context_, convolution_options(), both).bytes(arch_, kPairs, kCapacity);
  const Site::Array rows = array<std::int32_t>({kRows}, {1});
  ASSERT_EQ(
      gradients
          .execute({out_gradient, rows, features, pairs, number}, with_workspace({of_weight, of_bias}, bytes))
          .message,
      "");
  expect_close(read<float>(of_weight), expected_weight);
  std::vector<double> expected_bias(kOut);
  for (std::size_t i = 0; i < gradient.size(); ++i) expected_bias[i % kOut] += gradient[i];
  expect_close(read<float>(of_bias), expected_bias);

  Site reader(handlers("minuet_coordinates"));
  reader.integers("pyramid", pyramid_numbers()).integer("level", 0);
  ASSERT_EQ(reader.instantiate().message, "");
  const Site::Array found = poisoned<std::int32_t>({kCapacity, 4});
  ASSERT_EQ(reader.execute({buffer_}, {found}).message, "");
  const std::vector<std::int32_t> points = read<std::int32_t>(found);
  std::set<std::vector<std::int32_t>> unique, wanted;
  for (std::int64_t row = 0; row < kRows; ++row) {
    unique.emplace(points.begin() + row * 4, points.begin() + row * 4 + 4);
    wanted.emplace(voxels_.coordinates.begin() + row * 4, voxels_.coordinates.begin() + row * 4 + 4);
  }
  EXPECT_EQ(unique, wanted);
  for (const std::vector<std::int64_t>& shape :
       {std::vector{kCapacity - 1, std::int64_t{4}}, {kCapacity, 3}}) {
    const Outcome outcome = reader.execute({buffer_}, {poisoned<std::int32_t>(shape)});
    EXPECT_EQ(outcome.code, XLA_FFI_Error_Code_INVALID_ARGUMENT);
    EXPECT_NE(outcome.message.find("elements, and 256 are needed"), std::string::npos) << outcome.message;
  }
}

// XLA executes a program on one GPU by one stream.
class CallsByThreads : public CustomCalls {};

TEST_P(CallsByThreads, HaveValuesOfTheirOwn) {
  build();
  const std::vector<float> x = normal(kRows * kIn);
  const Site::Array features = array(padded(x, kIn), {kCapacity, kIn});
  const std::unique_ptr<Site> site = run_site(false);
  ASSERT_EQ(site->instantiate().message, "");
  struct Work {
    std::vector<float> weight;
    Site::Array values, out;
    int failures = 0;
  };
  std::vector<Work> works;
  for (int i = 0; i < 4; ++i) {
    Work work = {normal(kOffsets * kIn * kOut), {}, poisoned<float>({kCapacity, kOut})};
    work.values = array(work.weight, {kOffsets, kIn, kOut});
    works.push_back(work);
  }
  std::vector<std::thread> threads;
  for (Work& work : works) {
    threads.emplace_back([&, own = &work] {
      for (int i = 0; i < 50; ++i) {
        const Outcome outcome = site->execute({buffer_, features, own->values}, {own->out});
        if (outcome.code != XLA_FFI_Error_Code_OK) ++own->failures;
        const auto* const y = static_cast<const float*>(own->out.data);
        const std::vector<double> expected = convolved(x, own->weight);
        for (std::size_t j = 0; j < expected.size(); ++j) {
          if (!(std::abs(y[j] - expected[j]) < 1e-4)) ++own->failures;
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const Work& work : works) EXPECT_EQ(work.failures, 0);
}

TEST_P(CustomCalls, StatesAreDeletedByTheirType) {
  {
    const std::unique_ptr<Site> site = run_site(false);
    ASSERT_EQ(site->instantiate().message, "");
    EXPECT_EQ(xla_->live_states, 1);
  }
  EXPECT_EQ(xla_->live_states, 0);
}

TEST_P(CustomCalls, WrongCallsAreRefused) {
  build();
  const std::unique_ptr<Site> site = run_site(false);
  ASSERT_EQ(site->instantiate().message, "");
  const Site::Array features = poisoned<float>({kCapacity, kIn}), out = poisoned<float>({kCapacity, kOut});
  const Site::Array values = poisoned<float>({kOffsets, kIn, kOut});
  const auto refused = [&](std::vector<Site::Array> operands, std::vector<Site::Array> results,
                           const std::string& reason) {
    const Outcome outcome =
        site->execute(std::move(operands), with_workspace(std::move(results), run_bytes_));
    EXPECT_EQ(outcome.code, XLA_FFI_Error_Code_INVALID_ARGUMENT);
    EXPECT_NE(outcome.message.find(reason), std::string::npos) << outcome.message;
  };
  refused({buffer_, features}, {out}, "has 2 operands");
  refused({buffer_, features, values}, {out, out, out}, "are needed");
  refused({features, features, values}, {out}, "operand 0 has the element type 11");
  refused({buffer_, poisoned<float>({kCapacity - 1, kIn}), values}, {out}, "minuet_run: ");
  refused({buffer_, poisoned<std::uint32_t>({kCapacity, kIn}), values}, {out},
          "operand 1 is of XLA_FFI_DataType 8, which Minuet does not compute with");
  const Outcome in_other =
      site->call(site->handlers().bundle.execute, XLA_FFI_ExecutionStage_PREPARE, {}, {});
  EXPECT_EQ(in_other.code, XLA_FFI_Error_Code_INTERNAL);
  const std::unique_ptr<Site> fresh = run_site(false);
  EXPECT_NE(fresh->execute({}, {}).message.find("there is no state"), std::string::npos);
}

TEST_P(CustomCalls, WrongAttributesAreRefused) {
  const auto refused = [&](Site& site, XLA_FFI_Error_Code code, const std::string& reason) {
    const Outcome outcome = site.instantiate();
    EXPECT_EQ(outcome.code, code) << outcome.message;
    EXPECT_NE(outcome.message.find(reason), std::string::npos) << outcome.message;
  };
  Site without(handlers("minuet_pyramid"));
  refused(without, XLA_FFI_Error_Code_INVALID_ARGUMENT, "no attribute pyramid");
  Site scalar(handlers("minuet_pyramid"));
  refused(scalar.integer("pyramid", 3), XLA_FFI_Error_Code_INVALID_ARGUMENT, "another type");
  Site other(handlers("minuet_pyramid"));
  refused(other.bytes("pyramid", {1, 2}), XLA_FFI_Error_Code_INVALID_ARGUMENT, "another type");
  for (std::size_t size = 0; size < pyramid_numbers().size(); ++size) {
    Site cut(handlers("minuet_pyramid"));
    cut.integers("pyramid", {pyramid_numbers().begin(), pyramid_numbers().begin() + static_cast<long>(size)});
    refused(cut, XLA_FFI_Error_Code_INVALID_ARGUMENT, "too few numbers");
  }
  std::vector<std::int64_t> numbers = pyramid_numbers();
  numbers.push_back(0);
  Site longer(handlers("minuet_pyramid"));
  refused(longer.integers("pyramid", numbers), XLA_FFI_Error_Code_INVALID_ARGUMENT, "too many numbers");
  numbers = pyramid_numbers();
  numbers[0] = 2;
  Site version(handlers("minuet_pyramid"));
  refused(version.integers("pyramid", numbers), XLA_FFI_Error_Code_INVALID_ARGUMENT, "another version");
  numbers = pyramid_numbers();
  numbers[17] = std::int64_t{1} << 40;  // The capacity.
  Site large(handlers("minuet_pyramid"));
  refused(large.integers("pyramid", numbers), XLA_FFI_Error_Code_OUT_OF_RANGE, "minuet_pyramid_create");
  for (const std::int64_t axes : {0, 5}) {
    numbers = pyramid_numbers();
    numbers[2] = axes;
    Site flat(handlers("minuet_pyramid"));
    refused(flat.integers("pyramid", numbers), XLA_FFI_Error_Code_INVALID_ARGUMENT, "axes, and 1 to 4");
  }
  for (const std::int64_t level : {-1, 1}) {
    Site past(handlers("minuet_coordinates"));
    past.integers("pyramid", pyramid_numbers()).integer("level", level);
    refused(past, XLA_FFI_Error_Code_INVALID_ARGUMENT, "and the pyramid has 1, numbered from 0");
  }
  const std::unique_ptr<Site> damaged = run_site(false);
  refused(damaged->bytes("plan", {1, 2, 3}), XLA_FFI_Error_Code_INVALID_ARGUMENT, "minuet_plan_deserialize");
}

INSTANTIATE_TEST_SUITE_P(On, CustomCalls, ::testing::Values("cpu", "cuda:0"), name_of);
INSTANTIATE_TEST_SUITE_P(On, CallsByThreads, ::testing::Values("cpu"), name_of);

TEST(Registration, OfEveryCallOnBothPlatforms) {
  MadeUpXla& xla = fresh_xla();
  ASSERT_EQ(outcome_of(minuet_xla_register(made_up_api())).message, "");
  std::set<std::string> host, cuda;
  for (const MadeUpXla::Registered& each : xla.handlers) {
    (each.platform == "Host" ? host : cuda).insert(each.name);
    // Graphs are of GPUs only.
    const unsigned expected = each.platform == "Host" ? 0 : XLA_FFI_HANDLER_TRAITS_COMMAND_BUFFER_COMPATIBLE;
    EXPECT_EQ(each.traits, expected) << each.name;
  }
  EXPECT_EQ(host, cuda);
  EXPECT_EQ(host.size() * 2, xla.handlers.size());
  EXPECT_EQ(minuet_xla_handler_at(static_cast<std::int32_t>(xla.handlers.size())), nullptr);
  EXPECT_EQ(minuet_xla_handler_at(-1), nullptr);
}

TEST(Registration, GivesTheFirstError) {
  fresh_xla().refused = "minuet_pairs";
  EXPECT_EQ(outcome_of(minuet_xla_register(made_up_api())).message, "no such name");
}

TEST(Registration, MetadataOfEachStage) {
  MadeUpXla& xla = fresh_xla();
  ASSERT_EQ(outcome_of(minuet_xla_register(made_up_api())).message, "");
  for (const MadeUpXla::Registered& each : xla.handlers) {
    XLA_FFI_Metadata metadata;
    for (XLA_FFI_Handler* const handler :
         {each.bundle.instantiate, each.bundle.prepare, each.bundle.initialize, each.bundle.execute}) {
      ASSERT_EQ(query_metadata(handler, metadata).message, "");
      EXPECT_EQ(metadata.api_version.major_version, XLA_FFI_API_MAJOR);
      EXPECT_EQ(metadata.api_version.minor_version, XLA_FFI_API_MINOR);
      EXPECT_EQ(metadata.traits, each.traits);
      EXPECT_EQ(metadata.state_type_id.type_id != 0, handler == each.bundle.instantiate);
    }
    const Outcome older = query_metadata(each.bundle.execute, metadata, 8);
    EXPECT_EQ(older.code, XLA_FFI_Error_Code_UNIMPLEMENTED);
    EXPECT_NE(older.message.find("install a newer jaxlib"), std::string::npos) << older.message;
  }
}

}  // namespace
}  // namespace minuet_xla::testing
