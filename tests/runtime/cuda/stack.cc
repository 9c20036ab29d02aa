#include "tests/runtime/cuda/stack.h"

#include "tests/support/layer_run.h"

namespace minuet::abi {
namespace {

constexpr DType kDType = DType::F16;
constexpr int64_t kVoxels = 600, kFewVoxels = 20;  // the few: on the software device

void keep_warning(minuet_log_level level, const char* text, size_t length, void* user) {
  if (level == MINUET_LOG_WARNING) static_cast<std::vector<std::string>*>(user)->emplace_back(text, length);
}

}  // namespace

int gpu_count(std::string& reason) {
  llvm::Expected<const Driver*> driver = Driver::get();
  if (!driver) {
    reason = llvm::toString(driver.takeError());
    return 0;
  }
  int count = 0;
  if ((*driver)->cuDeviceGetCount(&count) != CUDA_SUCCESS || count == 0) reason = "the driver shows no GPU";
  return count;
}

Stream::Stream(int gpu) : driver_(*take(Driver::get())) {
  EXPECT_EQ(driver_.cuDeviceGet(&device_, gpu), CUDA_SUCCESS);
  EXPECT_EQ(driver_.cuDevicePrimaryCtxRetain(&context_, device_), CUDA_SUCCESS);
  const ContextScope scope(driver_, context_);
  EXPECT_EQ(driver_.cuStreamCreate(&stream_, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
}

Stream::~Stream() {
  {
    const ContextScope scope(driver_, context_);
    static_cast<void>(driver_.cuStreamDestroy(stream_));
  }
  static_cast<void>(driver_.cuDevicePrimaryCtxRelease(device_));
}

Stack::Stack(int gpus, const std::string& cache) {
  minuet_context_options options = MINUET_CONTEXT_OPTIONS_INIT;
  options.cache_directory = cache.empty() ? nullptr : cache.c_str();
  options.log = keep_warning;
  options.log_user = warnings_.get();
  minuet_context* context = nullptr;
  check(minuet_context_create(&options, &context));
  context_.reset(context);
  minuet_network_options description = MINUET_NETWORK_OPTIONS_INIT;
  description.dataflow = tested_dataflow();
  description.name = "minkunet42";
  description.dtype = abi_dtype(kDType);
  description.channels = kWidths.data();
  description.channel_count = static_cast<int32_t>(kWidths.size());
  description.seed = kSeed;
  minuet_plan* network = nullptr;
  check(minuet_plan_create_network(context, &description, &network));
  network_.reset(network);
  for (int gpu = 0; gpu < gpus; ++gpu) {
    minuet_device* device = nullptr;
    check(minuet_device_open(context, ("cuda:" + std::to_string(gpu)).c_str(), nullptr, &device));
    devices_.emplace_back(device, Destroy<minuet_device>{minuet_device_destroy});
    minuet_device_info info{};
    info.struct_size = sizeof(info);
    check(minuet_device_query(device, &info));
    check(minuet_plan_compile(network, info.arch, nullptr, nullptr));
    check(minuet_plan_load(network, device));
  }
}

Execution Stack::execution(int gpu) const {
  minuet_execution* made = nullptr;
  check(minuet_execution_create(network(), device(gpu), nullptr, &made));
  return Execution(made, {minuet_execution_destroy});
}

minuet_kernel_counters Stack::counters() const {
  minuet_kernel_counters counters = MINUET_KERNEL_COUNTERS_INIT;
  check(minuet_context_kernel_counters(context(), &counters));
  return counters;
}

Cloud stack_cloud(uint64_t seed) {
  return Cloud(make_scene(on_software_device() ? kFewVoxels : kVoxels, seed), kDType, seed);
}

std::vector<char> run_on(minuet_device* device, minuet_execution* execution, const Cloud& cloud, void* stream,
                         minuet_status* status) {
  const auto answer = [&](minuet_status now) {
    if (status) {
      *status = now;
    } else {
      check(now);
    }
    return now == MINUET_OK;
  };
  const Memory coordinates(device, cloud.coordinates), features(device, cloud.bytes);
  const int64_t count = static_cast<int64_t>(cloud.coordinates.size()) / 4;
  const auto* where = static_cast<const int32_t*>(coordinates.data());
  if (!answer(minuet_execution_prepare(execution, where, count, stream))) return {};
  int64_t rows = 0;
  int32_t channels = 0;
  check(minuet_execution_output_shape(execution, &rows, &channels));
  const Memory output(device, rows * channels * 2);
  const minuet_tensor in = tensor(features.data(), count, 4, abi_dtype(kDType)),
                      out = tensor(output.data(), rows, channels, abi_dtype(kDType));
  if (!answer(run_tensors(execution, {in}, out, stream))) return {};
  check(minuet_device_synchronize(device, stream));
  return output.read<char>();
}

}  // namespace minuet::abi
