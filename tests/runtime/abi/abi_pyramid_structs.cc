#include "tests/runtime/abi/abi_pyramid_structs.h"

#include <optional>

#include "include/minuet/pointwise.h"
#include "include/minuet/pyramid.h"
#include "tests/runtime/abi/abi_checks.h"

namespace minuet::abi {
namespace {

using PyramidHandle = Handle<minuet_pyramid>;

constexpr int64_t kCapacity = 8;

/// The pyramid of a network with one level, in memory of just the bytes that it needs.
class SmallPyramid {
 public:
  SmallPyramid(Machine& machine, minuet_plan* network)
      : machine_(machine), coordinates_(machine, std::vector<int32_t>{0, 0, 0, 0, /**/ 0, 1, 0, 0}) {
    minuet_pyramid_options options = MINUET_PYRAMID_OPTIONS_INIT;
    options.network = network;
    options.level_capacity = &kCapacity;
    options.level_count = 1;
    minuet_pyramid* made = nullptr;
    check(minuet_pyramid_create(machine.context(), &options, &made));
    pyramid_.reset(made);
    check(minuet_pyramid_load(made, machine.device()));
    int64_t bytes = 0, workspace_bytes = 0;
    check(minuet_pyramid_bytes(made, machine.arch().c_str(), &bytes, &workspace_bytes));
    buffer_.emplace(machine, bytes), workspace_.emplace(machine, workspace_bytes);
  }

  minuet_pyramid* get() const { return pyramid_.get(); }
  const Buffer& buffer() const { return *buffer_; }
  minuet_pyramid_arguments arguments() const {
    minuet_pyramid_arguments given = MINUET_PYRAMID_ARGUMENTS_INIT;
    given.buffer = buffer_->data(), given.buffer_bytes = buffer_->bytes();
    given.workspace = workspace_->data(), given.workspace_bytes = workspace_->bytes();
    given.coordinates = coordinates_.integers(), given.most = 2;
    return given;
  }
  minuet_status build(const minuet_pyramid_arguments* arguments) const {
    return minuet_pyramid_build(get(), machine_.device(), arguments, nullptr);
  }

 private:
  Machine& machine_;
  Buffer coordinates_;
  PyramidHandle pyramid_{nullptr, {minuet_pyramid_destroy}};
  std::optional<Buffer> buffer_, workspace_;
};

/// A pyramid of two levels and two maps, one array of which has elements of another size.
class Elements {
 public:
  Elements(Machine& machine, int array) : machine_(machine), array_(array) {
    levels_[0].capacity = 100, levels_[0].parent = -1;
    levels_[1].capacity = 50, levels_[1].stride[0] = levels_[1].stride[1] = 2;
    maps_[0].kernel_size[0] = 3, maps_[0].purposes = MINUET_PURPOSE_CONVOLUTION;
    maps_[1].coarse = 1, maps_[1].kernel_size[1] = 2, maps_[1].purposes = MINUET_PURPOSE_POOLING;
    options_.levels = levels_, options_.maps = maps_;
    options_.level_count = options_.map_count = 2;
  }
  size_t known() const { return array_ == 0 ? sizeof(levels_[0]) : sizeof(maps_[0]); }
  size_t first() const { return array_ == 0 ? 96 : 64; }
  size_t align() const { return array_ == 0 ? alignof(minuet_pyramid_level) : alignof(minuet_pyramid_map); }

  /// The status with its message, or the bytes of the pyramid that the call made.
  Answer create(const minuet_pyramid_options& options) const {
    minuet_pyramid* made = nullptr;
    const Answer answer = answer_of(minuet_pyramid_create(machine_.context(), &options, &made));
    const PyramidHandle pyramid(made, {minuet_pyramid_destroy});
    if (made == nullptr) return answer;
    int64_t bytes = 0, workspace_bytes = 0;
    check(minuet_pyramid_bytes(made, "cpu", &bytes, &workspace_bytes));
    return {MINUET_OK, std::to_string(bytes) + " " + std::to_string(workspace_bytes)};
  }
  Answer create() const { return create(options_); }
  /// Gives each element `size` bytes, and elements that are larger than today's `behind` at their end.
  Answer create(size_t size, unsigned char behind = 0) const {
    const Exactly exact(2 * size);
    const auto* const source =
        reinterpret_cast<const unsigned char*>(array_ == 0 ? static_cast<const void*>(levels_) : maps_);
    std::memset(exact.memory.get(), 0, 2 * size);
    for (size_t i = 0; i < 2; ++i)
      std::memcpy(exact.memory.get() + i * size, source + i * known(), std::min(size, known()));
    if (behind != 0) exact.memory.get()[2 * size - 1] = behind;
    minuet_pyramid_options options = options_;
    const void* const elements = exact.memory.get();
    if (array_ == 0) {
      options.levels = static_cast<const minuet_pyramid_level*>(elements), options.level_bytes = size;
    } else {
      options.maps = static_cast<const minuet_pyramid_map*>(elements), options.map_bytes = size;
    }
    return create(options);
  }
  Answer declare(size_t size) const {
    minuet_pyramid_options options = options_;
    (array_ == 0 ? options.level_bytes : options.map_bytes) = size;
    return create(options);
  }

 private:
  Machine& machine_;
  int array_;
  minuet_pyramid_level levels_[2]{};
  minuet_pyramid_map maps_[2]{};
  minuet_pyramid_options options_ = MINUET_PYRAMID_OPTIONS_INIT;
};

}  // namespace

void check_pyramid_elements(Machine& machine, int array) {
  const Elements elements(machine, array);
  const Answer expected = elements.create();
  ASSERT_EQ(expected.status, MINUET_OK) << expected.message;
  for (size_t size = elements.first(); size <= elements.known() + 32; size += elements.align())
    EXPECT_EQ(elements.create(size), expected) << size;
  for (size_t more = elements.align(); more <= 32; more += elements.align()) {
    const Answer newer = elements.create(elements.known() + more, 1);
    EXPECT_EQ(newer.status, MINUET_INVALID_ARGUMENT) << more;
    EXPECT_THAT(newer.message, testing::HasSubstr(array == 0 ? "level 1: " : "map 1: "));
    EXPECT_THAT(newer.message, testing::HasSubstr("newer version"));
  }
  // A caller of 0.3.0 whose options are zeroed has elements of the first size.
  if (elements.known() == elements.first()) {
    EXPECT_EQ(elements.declare(0), expected);
  }
  for (const size_t size : {size_t{1}, elements.first() - elements.align(), elements.first() + 1, SIZE_MAX}) {
    const Answer wrong = elements.declare(size);
    EXPECT_EQ(wrong.status, MINUET_INVALID_ARGUMENT) << size;
    EXPECT_THAT(wrong.message, testing::HasSubstr(array == 0 ? "level_bytes is " : "map_bytes is "));
  }
}

/// Steps of older and newer callers: the second one is found by the size that the caller declares.
void check_pointwise_steps(Machine& machine) {
  const auto create = [&](size_t declared, size_t size, unsigned char behind) {
    std::vector<unsigned char> bytes(2 * size);
    const minuet_pointwise_step steps[] = {{MINUET_POINTWISE_RELU, 0, nullptr, nullptr},
                                           {MINUET_POINTWISE_LEAKY_RELU, 0.5f, nullptr, nullptr}};
    for (size_t i = 0; i < 2; ++i) std::memcpy(&bytes[i * size], &steps[i], sizeof(steps[i]));
    if (behind != 0) bytes.back() = behind;
    minuet_pointwise_options options = MINUET_POINTWISE_OPTIONS_INIT;
    options.channels = 4;
    options.steps = reinterpret_cast<const minuet_pointwise_step*>(bytes.data());
    options.step_count = 2;
    options.step_bytes = declared;
    minuet_plan* made = nullptr;
    const Answer answer = answer_of(minuet_plan_create_pointwise(machine.context(), &options, &made));
    minuet_plan_destroy(made);
    return answer;
  };
  constexpr size_t known = sizeof(minuet_pointwise_step), align = alignof(minuet_pointwise_step);
  for (size_t size = known; size <= known + 32; size += align)
    EXPECT_EQ(create(size, size, 0).status, MINUET_OK) << size;
  EXPECT_EQ(create(0, 24, 0).status, MINUET_OK);  // 0 is the size that 0.3.0 has
  const Answer newer = create(known + align, known + align, 1);
  EXPECT_EQ(newer.status, MINUET_INVALID_ARGUMENT);
  EXPECT_THAT(newer.message, testing::HasSubstr("steps[1]: a field of a newer version"));
  for (const size_t size : {size_t{1}, known - align, known + 1, SIZE_MAX}) {
    const Answer wrong = create(size, known, 0);
    EXPECT_EQ(wrong.status, MINUET_INVALID_ARGUMENT) << size;
    EXPECT_THAT(wrong.message, testing::HasSubstr("step_bytes is ")) << size;
  }
}

void check_pyramid_options(Machine& machine) {
  minuet_pyramid_level level{};
  level.capacity = kCapacity;
  level.parent = -1;
  minuet_pyramid_map map{};
  map.kernel_size[0] = 3;
  map.purposes = MINUET_PURPOSE_CONVOLUTION;
  minuet_pyramid_options given = MINUET_PYRAMID_OPTIONS_INIT;
  given.ndim = 2;
  given.keep_first_duplicate = 1;
  given.has_bounds = 1;
  for (int f = 0; f < 3; ++f) given.greatest[f] = 9;
  given.keep_coordinates = 1;
  given.levels = &level;
  given.maps = &map;
  given.level_capacity = &kCapacity;  // refused without a network
  given.level_count = given.map_count = 1;
  given.batch_size = 20;
  given.level_slots = &kCapacity;           // refused without a network
  given.level_bytes = given.map_bytes = 4;  // refused: smaller than any element
  check_options<minuet_pyramid_options>(given, MINUET_PYRAMID_OPTIONS_INIT, [&](const auto* options) {
    minuet_pyramid* made = nullptr;
    const minuet_status status = minuet_pyramid_create(machine.context(), options, &made);
    minuet_pyramid_destroy(made);
    return status;
  });
}

void check_pyramid_arguments(Machine& machine, minuet_plan* network) {
  const SmallPyramid pyramid(machine, network);
  const Buffer words(machine, std::vector<int32_t>{1, 0, 0});
  minuet_pyramid_arguments given = pyramid.arguments();
  given.count = words.integers();
  given.status = static_cast<uint32_t*>(words.data()) + 1;
  given.counts = static_cast<int32_t*>(words.data()) + 1;  // refused beside this status
  check_options<minuet_pyramid_arguments>(given, MINUET_PYRAMID_ARGUMENTS_INIT,
                                          [&](const auto* arguments) { return pyramid.build(arguments); });
}

void check_run_arguments(Machine& machine, minuet_plan* network) {
  const SmallPyramid pyramid(machine, network);
  const minuet_pyramid_arguments built = pyramid.arguments();
  check(pyramid.build(&built));
  minuet_run_arguments given = MINUET_RUN_ARGUMENTS_INIT;
  given.pyramid = pyramid.get();
  int64_t bytes = 0;
  check(minuet_plan_run_bytes(network, machine.arch().c_str(), &given, &bytes));
  const Buffer workspace(machine, bytes), input(machine, std::vector<float>(kCapacity * 4)),
      output(machine, kCapacity * 8 * 4);
  const minuet_array in = array_of(tensor(input, kCapacity, 4, DType::F32));
  const minuet_array out = array_of(tensor(output, kCapacity, 8, DType::F32));
  minuet_parameters* made = nullptr;
  check(minuet_parameters_create(network, machine.device(), nullptr, &made));
  const Handle<minuet_parameters> parameters(made, {minuet_parameters_destroy});
  given.buffer = pyramid.buffer().data(), given.buffer_bytes = pyramid.buffer().bytes();
  given.workspace = workspace.data(), given.workspace_bytes = workspace.bytes();
  given.inputs = &in, given.outputs = &out;
  given.input_count = given.output_count = 1;
  given.parameters = made;            // refused, because they are not set
  given.prepared = workspace.data();  // refused beside parameters
  given.prepared_bytes = 1;
  check_options<minuet_run_arguments>(given, MINUET_RUN_ARGUMENTS_INIT, [&](const auto* arguments) {
    return minuet_plan_run(network, machine.device(), arguments, nullptr);
  });
}

}  // namespace minuet::abi
