#include "tools/minuet/library/library.h"

#include <cstdio>
#include <cstdlib>

#include "llvm/ADT/SmallString.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "minuet/tuning.h"
#include "tools/minuet/base/convert.h"
#include "tools/minuet/base/error.h"
#include "tools/minuet/cloud/input.h"
#include "tools/minuet/cloud/readers/wrong_file.h"
#include "tools/minuet/library/networks.h"

namespace minuet::tool {
namespace {

void print_warning(minuet_log_level level, const char* text, size_t length, void*) {
  if (level != MINUET_LOG_WARNING) return;
  std::fprintf(stderr, "minuet: %s\n", escaped({text, length}).c_str());
}

bool is_shipped(llvm::StringRef name) { return find_shipped(name) != nullptr; }

llvm::Expected<minuet_weights_order> parse_order(llvm::StringRef flag) {
  static constexpr std::pair<const char*, minuet_weights_order> kOrders[] = {
      {"", MINUET_WEIGHTS_AS_DESCRIBED},
      {"minuet", MINUET_WEIGHTS_MINUET},
      {"minkowski", MINUET_WEIGHTS_MINKOWSKI},
      {"torchsparse", MINUET_WEIGHTS_TORCHSPARSE},
      {"spconv", MINUET_WEIGHTS_SPCONV},
      {"spconv-xyz", MINUET_WEIGHTS_SPCONV_XYZ},
      {"spconv1", MINUET_WEIGHTS_SPCONV1},
      {"spconv1-xyz", MINUET_WEIGHTS_SPCONV1_XYZ},
      {"spconv2", MINUET_WEIGHTS_SPCONV2},
      {"spconv2-xyz", MINUET_WEIGHTS_SPCONV2_XYZ},
      {"spconv2-linear", MINUET_WEIGHTS_SPCONV2_LINEAR},
      {"spconv2-xyz-linear", MINUET_WEIGHTS_SPCONV2_XYZ_LINEAR}};
  for (const auto& [name, order] : kOrders) {
    if (flag == name) return order;
  }
  return bad_input(
      "the weights order '{0}' is not one of minuet, minkowski, torchsparse, spconv, spconv-xyz, spconv1, "
      "spconv1-xyz, spconv2, spconv2-xyz, spconv2-linear, spconv2-xyz-linear",
      flag);
}

llvm::Expected<minuet_map_method> parse_map_method(llvm::StringRef flag) {
  if (flag.empty()) return MINUET_MAPS_AUTO;
  for (minuet_map_method method = MINUET_MAPS_AUTO; method <= MINUET_MAPS_INDEXED; ++method) {
    if (flag == map_method_name(method)) return method;
  }
  return bad_input("the map method '{0}' is not one of auto, sorted, indexed", flag);
}

llvm::Expected<minuet_dataflow> parse_dataflow(llvm::StringRef flag) {
  if (flag.empty()) return MINUET_DATAFLOW_AUTO;
  for (minuet_dataflow dataflow = MINUET_DATAFLOW_AUTO; dataflow <= MINUET_DATAFLOW_FUSED; ++dataflow) {
    if (flag == dataflow_name(dataflow)) return dataflow;
  }
  return bad_input("the dataflow '{0}' is not one of auto, gather-gemm-scatter, fused", flag);
}

/// Replaces names of the C API's options by flags: "the option allow_unused" becomes "--allow-unused".
std::string name_flags(std::string text) {
  const std::string start = "the option ";
  for (size_t at = text.find(start); at != std::string::npos; at = text.find(start, at)) {
    text.replace(at, start.size(), "--");
    for (at += 2; at < text.size() && (text[at] == '_' || (text[at] >= 'a' && text[at] <= 'z')); ++at) {
      if (text[at] == '_') text[at] = '-';
    }
  }
  return text;
}

void note_kernel(const minuet_kernel_info* kernel, void* user) {
  static_cast<std::vector<KernelFacts>*>(user)->emplace_back(*kernel);
}

}  // namespace

std::string last_error_text() {
  std::string text(minuet_last_error(nullptr, 0), '\0');
  minuet_last_error(text.data(), text.size());
  text.pop_back();  // This removes the terminating zero.
  for (char& c : text) c = c == '\n' || c == '\r' ? ' ' : c;
  // Users of the tool do not need the name of the API function that failed.
  const size_t colon = text.find(": ");
  const bool named =
      text.rfind("minuet_", 0) == 0 && colon != std::string::npos && text.find(' ') == colon + 1;
  return name_flags(named ? text.substr(colon + 2) : text);
}

std::string last_error_detail() {
  std::string text(minuet_last_error_detail(nullptr, 0), '\0');
  minuet_last_error_detail(text.data(), text.size());
  text.pop_back();
  return text;
}

llvm::Error check(minuet_status status) {
  if (status == MINUET_OK) return llvm::Error::success();
  std::string text = last_error_text();
  if (text.empty()) text = "the library returned status " + std::to_string(status) + " without a reason";
  if (status == MINUET_RESOURCE_EXHAUSTED) return llvm::make_error<OutOfMemory>(text);
  return status == MINUET_INTERNAL ? broken(text) : user_error(text);
}

llvm::Error check_writing(minuet_status status) {
  return status == MINUET_FAILED_PRECONDITION ? broken(last_error_text()) : check(status);
}

llvm::Expected<DeviceBuffer> DeviceBuffer::allocate(minuet_device* device, size_t bytes) {
  void* memory = nullptr;
  MINUET_TRY(check(minuet_device_allocate(device, static_cast<int64_t>(bytes < 256 ? 256 : bytes), &memory)));
  return DeviceBuffer(device, memory, bytes);
}

llvm::Expected<DeviceBuffer> DeviceBuffer::upload(minuet_device* device, const void* data, size_t bytes) {
  MINUET_ASSIGN(DeviceBuffer buffer, allocate(device, bytes));
  if (bytes == 0) return buffer;
  MINUET_TRY(check(minuet_device_copy(device, buffer.get(), data, static_cast<int64_t>(bytes), 0)));
  return buffer;
}

llvm::Error DeviceBuffer::download(void* target) const {
  if (bytes_ == 0) return llvm::Error::success();
  return check(minuet_device_copy(memory_.get_deleter().device, target, memory_.get(),
                                  static_cast<int64_t>(bytes_), 1));
}

llvm::Expected<ContextHandle> open_context(const ContextChoice& choice) {
  minuet_context_options options = MINUET_CONTEXT_OPTIONS_INIT;
  MINUET_ASSIGN(const std::string folder, absolute_cache_folder(choice.cache));
  options.cache_directory = folder.empty() ? nullptr : folder.c_str();
  options.log = print_warning;
  options.trace = choice.trace ? 1 : 0;
  if (choice.must_jit) options.jit = MINUET_JIT_ON;
  options.cpu_threads = choice.threads;
  if (choice.read_only) options.cache_max_bytes = UINT64_MAX;
  minuet_context* context = nullptr;
  MINUET_TRY(check(minuet_context_create(&options, &context)));
  return ContextHandle(context);
}

llvm::Expected<std::string> absolute_cache_folder(const std::string& cache) {
  // MINUET_CACHE_DIR may be relative to the working directory, like the flag --cache. The library takes
  // absolute paths only.
  const char* const variable = std::getenv("MINUET_CACHE_DIR");
  llvm::SmallString<256> folder(!cache.empty() ? cache : variable ? variable : "");
  if (folder.empty()) return std::string();
  if (const std::error_code error = llvm::sys::fs::make_absolute(folder)) {
    return bad_input("cannot make the path of the cache folder '{0}' absolute: {1}", folder,
                     system_text(error));
  }
  llvm::sys::path::remove_dots(folder, /*remove_dot_dot=*/true);
  return folder.str().str();
}

llvm::Expected<DeviceHandle> open_device(minuet_context* context, const DeviceChoice& choice,
                                         DeviceFacts& facts) {
  minuet_device* device = nullptr;
  const char* const name = choice.name.empty() ? nullptr : choice.name.c_str();
  MINUET_TRY(check(minuet_device_open(context, name, nullptr, &device)));
  DeviceHandle handle(device);
  minuet_device_info info = {};
  info.struct_size = sizeof(info);
  MINUET_TRY(check(minuet_device_query(device, &info)));
  facts = {info.name, info.description, info.arch, info.memory_bytes};
  if (choice.threads > 0 && !facts.is_cpu()) {
    return bad_input("--threads is for the CPU device, but this is {0}: add --device cpu, or omit --threads",
                     facts.name);
  }
  return handle;
}

llvm::Expected<Session> open_session(ContextChoice context, const DeviceChoice& device) {
  context.threads = device.threads;
  Session session;
  MINUET_ASSIGN(session.context, open_context(context));
  MINUET_ASSIGN(session.device, open_device(session.context.get(), device, session.facts));
  return session;
}

llvm::Expected<minuet_system_info> query_system() {
  minuet_system_info system = {};
  system.struct_size = sizeof(system);
  MINUET_TRY(check(minuet_query_system(&system)));
  return system;
}

llvm::Expected<minuet_dtype> dtype_for(const std::string& flag, bool is_cpu) {
  if (flag.empty()) return is_cpu ? MINUET_F32 : MINUET_F16;
  const std::optional<minuet_dtype> dtype = parse_dtype(flag);
  if (!dtype) return bad_input("the dtype '{0}' is not one of fp32, tf32, fp16, bf16", flag);
  return *dtype;
}

llvm::Error load_tuning(const Session& session) {
  return check(minuet_context_load_tuning(session.context.get(), session.device.get(), nullptr, nullptr));
}

llvm::Error check_tuned(minuet_plan* plan) {
  bool is_tuned = false;
  // A tuning result that is for all layers, and names none, does not count, because it may come from the
  // tuning of another network.
  const auto note = [](const minuet_tuned_choice* choice, void* user) {
    if (*choice->layer) *static_cast<bool*>(user) = true;
  };
  MINUET_TRY(check(minuet_plan_visit_tuning(plan, note, &is_tuned)));
  if (is_tuned) return llvm::Error::success();
  return bad_input(
      "--tuned: there are no results for this network and dtype on this device: measure with minuet tune "
      "run");
}

llvm::Error check_network_name(const std::string& network) {
  if (is_shipped(network) || llvm::sys::fs::exists(network)) return llvm::Error::success();
  return bad_input(
      "the network '{0}' is neither one of {1} nor a file: name one of these (minuet run --list-networks "
      "describes them)",
      network, shipped_names());
}

llvm::Error fill_network_options(const NetworkChoice& choice, minuet_dtype dtype, NetworkOptions& filled) {
  minuet_network_options& options = filled.options;
  if (!choice.description.empty()) {
    options.description = choice.description.c_str();
  } else if (is_shipped(choice.network)) {
    options.name = choice.network.c_str();
  } else {
    MINUET_TRY(check_network_name(choice.network));
    MINUET_ASSIGN(filled.description, read_json_text(choice.network, "a network description"));
    options.description = filled.description.c_str();
  }
  options.dtype = dtype;
  MINUET_ASSIGN(options.dataflow, parse_dataflow(choice.dataflow));
  options.channels = choice.channels.empty() ? nullptr : choice.channels.data();
  options.channel_count = static_cast<int32_t>(choice.channels.size());
  options.shape = choice.shape.empty() ? nullptr : choice.shape.data();
  options.shape_count = static_cast<int32_t>(choice.shape.size());
  options.in_channels = choice.in_channels;
  options.weights_path = choice.weights.empty() ? nullptr : choice.weights.c_str();
  options.seed = choice.weights_seed;
  MINUET_ASSIGN(options.weights_order, parse_order(choice.weights_order));
  options.allow_unused = choice.allow_unused ? 1 : 0;
  options.allow_non_finite_parameters = choice.allow_non_finite_parameters ? 1 : 0;
  options.weights_prefix = choice.weights_prefix.empty() ? nullptr : choice.weights_prefix.c_str();
  options.weights_key = choice.weights_key.empty() ? nullptr : choice.weights_key.c_str();
  if (!choice.weights_map.empty()) {
    MINUET_ASSIGN(filled.weights_map, read_json_text(choice.weights_map, "a weights map"));
    options.weights_map = filled.weights_map.c_str();
  }
  return llvm::Error::success();
}

llvm::Error in_network(const NetworkChoice& choice, llvm::Error error) {
  return is_shipped(choice.network) ? std::move(error) : in_file(choice.network, std::move(error));
}

llvm::Expected<PlanHandle> open_network(minuet_context* context, const NetworkChoice& choice,
                                        minuet_dtype dtype, minuet_plan_info& info) {
  NetworkOptions filled;
  MINUET_TRY(fill_network_options(choice, dtype, filled));
  minuet_plan* network = nullptr;
  MINUET_TRY(in_network(choice, check(minuet_plan_create_network(context, &filled.options, &network))));
  PlanHandle handle(network);
  info = {};
  info.struct_size = sizeof(info);
  MINUET_TRY(check(minuet_plan_query(network, &info)));
  return handle;
}

std::string missing_head_text(const minuet_plan_info& network) {
  return llvm::formatv(
             "the head of {0} is left out, because neither the network's description nor the weights give "
             "the number of classes",
             network.name)
      .str();
}

llvm::Error compile_network(minuet_plan* network, const std::string& arch,
                            std::vector<KernelFacts>& kernels) {
  return check(minuet_plan_compile(network, arch.c_str(), note_kernel, &kernels));
}

llvm::Error fill_execution_options(const ExecutionChoice& choice, minuet_execution_options& options) {
  options.keep_first_duplicate = choice.keep_first_duplicate ? 1 : 0;
  options.batch_size = choice.batch_size;
  MINUET_ASSIGN(options.map_method, parse_map_method(choice.maps));
  return llvm::Error::success();
}

llvm::Expected<ExecutionHandle> open_execution(minuet_plan* network, minuet_device* device,
                                               int64_t max_points, const ExecutionChoice& choice) {
  minuet_execution_options options = MINUET_EXECUTION_OPTIONS_INIT;
  MINUET_TRY(fill_execution_options(choice, options));
  options.max_points = max_points;
  minuet_execution* execution = nullptr;
  MINUET_TRY(check(minuet_execution_create(network, device, &options, &execution)));
  return ExecutionHandle(execution);
}

std::string cache_folder(minuet_context* context) {
  std::string folder(minuet_context_cache_directory(context, nullptr, 0), '\0');
  minuet_context_cache_directory(context, folder.data(), folder.size());
  folder.resize(llvm::StringRef(folder.data()).size());
  return folder;
}

llvm::Expected<DeviceBuffer> upload_coordinates(minuet_device* device, const VoxelCloud& cloud) {
  return DeviceBuffer::upload(device, cloud.coordinates.data(), 4 * cloud.coordinates.size());
}

llvm::Expected<DeviceCloud> upload_cloud(minuet_device* device, const VoxelCloud& cloud, minuet_dtype dtype) {
  if (cloud.holds_points) dtype = MINUET_F32;  // Points have this type in every network.
  MINUET_ASSIGN(const std::vector<char> encoded, encode_features(cloud, dtype));
  MINUET_ASSIGN(DeviceBuffer coordinates, upload_coordinates(device, cloud));
  MINUET_ASSIGN(DeviceBuffer memory, DeviceBuffer::upload(device, encoded.data(), encoded.size()));
  const minuet_tensor features = dense_tensor(memory.get(), cloud.count(), cloud.channels, dtype);
  return DeviceCloud{std::move(coordinates), std::move(memory), features, cloud.holds_points};
}

minuet_tensor dense_tensor(void* data, int64_t rows, int32_t channels, minuet_dtype dtype) {
  minuet_tensor tensor = {};
  tensor.data = data;
  tensor.rows = rows;
  tensor.channels = channels;
  tensor.dtype = dtype;
  return tensor;
}

}  // namespace minuet::tool
