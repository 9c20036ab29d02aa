// Arrays that minuet_parameters_set is given, through the C ABI on the CPU device. The input is which
// parameter, the order, the element, the rank, flags, and then shapes and strides. Memory has exactly the
// bytes that the array reaches, so that AddressSanitizer sees what is read behind it. What is taken is
// compared with plain loops.
#include <cstring>
#include <memory>
#include <vector>

#include "include/minuet/minuet.h"
#include "include/minuet/parameters.h"
#include "tests/fuzz/fuzz_target.h"

namespace minuet {
namespace {

constexpr int32_t kIn = 3, kOut = 4, kVolume = 8;
constexpr int64_t kMostBytes = 1 << 16;

/// Values of one convolution's weight, scale and shift.
struct World {
  World() {
    minuet_context_options options = MINUET_CONTEXT_OPTIONS_INIT;
    options.disable_disk_cache = 1;
    options.cpu_threads = 1;
    require(minuet_context_create(&options, &context) == MINUET_OK);
    require(minuet_device_open(context, "cpu", nullptr, &device) == MINUET_OK);
    minuet_convolution_options convolution = MINUET_CONVOLUTION_OPTIONS_INIT;
    convolution.in_channels = kIn, convolution.out_channels = kOut;
    for (int axis = 0; axis < 3; ++axis) convolution.kernel_size[axis] = convolution.stride[axis] = 2;
    convolution.weight_count = kVolume * kIn * kOut;
    convolution.scale_count = convolution.shift_count = kOut;
    convolution.without_values = 1;
    require(minuet_plan_create_convolution(context, &convolution, &plan) == MINUET_OK);
    require(minuet_plan_compile(plan, "cpu", nullptr, nullptr) == MINUET_OK);
    require(minuet_plan_load(plan, device) == MINUET_OK);
    require(minuet_parameters_create(plan, device, nullptr, &parameters) == MINUET_OK);
  }
  minuet_context* context = nullptr;
  minuet_device* device = nullptr;
  minuet_plan* plan = nullptr;
  minuet_parameters* parameters = nullptr;
};

/// Takes numbers from the input, and zeros behind its end.
class Reader {
 public:
  explicit Reader(llvm::StringRef input) : input_(input) {}
  template <class T>
  T take() {
    T value{};
    const size_t bytes = std::min(sizeof(T), input_.size());
    std::memcpy(&value, input_.data(), bytes);
    input_ = input_.drop_front(bytes);
    return value;
  }

 private:
  llvm::StringRef input_;
};

int64_t bytes_of(minuet_element element) {
  if (element == MINUET_ELEMENT_F64 || element == MINUET_ELEMENT_I64) return 8;
  if (element == MINUET_ELEMENT_F32 || element == MINUET_ELEMENT_I32) return 4;
  return element == MINUET_ELEMENT_F16 || element == MINUET_ELEMENT_BF16 ? 2 : 1;
}

/// The bytes from the first element to the last one's end; -1 for more than kMostBytes.
int64_t reach_of(const minuet_array& array) {
  __int128 reach = 1, next = 1;
  for (int32_t axis = std::min(array.rank, MINUET_MAX_RANK) - 1; axis >= 0; --axis) {
    const __int128 extent = std::max<int64_t>(array.shape[axis], 1);
    const __int128 stride = array.has_strides != 0 ? array.stride[axis] : next;
    if (stride < 0) return 0;
    reach += (extent - 1) * stride;
    next *= extent;
    if (next > kMostBytes || reach > kMostBytes) return -1;
  }
  return static_cast<int64_t>(reach) * bytes_of(array.element);
}

/// What an f32 array of Minuet's order holds, element by element.
void require_taken(const World& world, int32_t parameter, const minuet_array& array) {
  minuet_parameter_info info{};
  info.struct_size = sizeof(info);
  require(minuet_plan_query_parameter(world.plan, parameter, &info) == MINUET_OK);
  std::vector<float> got(parameter == 0 ? kVolume * kIn * kOut : kOut, -1);
  minuet_array target{};
  target.data = got.data();
  target.rank = info.rank;
  std::copy_n(info.shape, info.rank, target.shape);
  require(minuet_parameters_get(world.parameters, parameter, &target, nullptr) == MINUET_OK);
  // The shape of a weight may list its axes apart: the elements are in the same order.
  std::vector<int64_t> place(static_cast<size_t>(array.rank));
  for (const float value : got) {
    int64_t offset = 0, next = 1;
    for (int32_t axis = array.rank - 1; axis >= 0; --axis) {
      offset += place[static_cast<size_t>(axis)] * (array.has_strides != 0 ? array.stride[axis] : next);
      next *= array.shape[axis];
    }
    require(std::memcmp(&value, static_cast<const float*>(array.data) + offset, sizeof(value)) == 0);
    for (int32_t axis = array.rank; axis-- > 0;) {
      if (++place[static_cast<size_t>(axis)] < array.shape[axis]) break;
      place[static_cast<size_t>(axis)] = 0;
    }
  }
}

}  // namespace

bool fuzz_parameters(llvm::StringRef input) {
  static const World world;
  Reader reader(input);
  const int32_t parameter = reader.take<int8_t>();
  const minuet_weights_order order = reader.take<int8_t>();
  minuet_array array{};
  array.element = reader.take<int8_t>();
  array.rank = reader.take<int8_t>();
  array.has_strides = reader.take<int8_t>();
  array.on_host = reader.take<int8_t>();
  const bool is_wide = reader.take<int8_t>() != 0;
  for (int64_t* const numbers : {array.shape, array.stride}) {
    for (int axis = 0; axis < MINUET_MAX_RANK; ++axis)
      numbers[axis] = is_wide ? reader.take<int64_t>() : reader.take<int8_t>();
  }
  const int64_t bytes = reach_of(array);
  // The library may take an array that is larger than this test has memory for.
  if (bytes < 0) return false;
  const auto memory = std::make_unique<char[]>(static_cast<size_t>(std::max<int64_t>(bytes, 1)));
  for (int64_t i = 0; i + 4 <= bytes; i += 4) {
    const float value = 0.5F * static_cast<float>(i);
    std::memcpy(&memory[static_cast<size_t>(i)], &value, sizeof(value));
  }
  array.data = memory.get();
  const minuet_status status = minuet_parameters_set(world.parameters, &parameter, &array, 1, order, nullptr);
  if (status != MINUET_OK) {
    require(minuet_last_error(nullptr, 0) > 1);
    return false;
  }
  const bool is_plain = array.element == MINUET_ELEMENT_F32 && order <= MINUET_WEIGHTS_MINUET;
  if (is_plain) require_taken(world, parameter, array);
  return true;
}

}  // namespace minuet
