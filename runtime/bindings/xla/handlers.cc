// The functions that XLA calls, and their registration.
#include <array>
#include <utility>

#include "runtime/bindings/xla/call_frame.h"
#include "runtime/bindings/xla/minuet_xla.h"
#include "runtime/bindings/xla/operation.h"

namespace minuet_xla {
namespace {

struct OperationKind {
  const char* name;
  std::unique_ptr<XlaOperation> (*make)(const XlaAttributes&);
};
constexpr OperationKind kKinds[] = {
    {"minuet_pyramid", make_pyramid},
    {"minuet_coordinates", make_coordinates},
    {"minuet_pairs", make_pairs},
    {"minuet_prepare", make_prepare},
    {"minuet_run", make_run},
    {"minuet_parameter_gradients", make_parameter_gradients},
    {"minuet_training_forward", make_training_forward},
    {"minuet_training_backward", make_training_backward},
    {"minuet_batch_norm", make_batch_norm},
    {"minuet_batch_norm_gradient", make_batch_norm_gradient},
    {"minuet_voxelize", make_voxelize},
    {"minuet_group_gradient", make_group_gradient},
};
constexpr std::size_t kKindCount = std::size(kKinds);
constexpr char kStateName[] = "minuet.xla.operation";

void delete_operation(void* operation) { delete static_cast<XlaOperation*>(operation); }

// Returns the number that an instance of XLA has given to our type of state. A process may have several
// instances: jaxlib is one, and each of its plug-ins for GPUs another.
XLA_FFI_TypeId* state_type(const XLA_FFI_Api* api) {
  static auto* const mutex = new std::mutex();
  static auto* const types = new std::map<const XLA_FFI_Api*, XLA_FFI_TypeId>();
  static const XLA_FFI_TypeInfo info = {XLA_FFI_TypeInfo_STRUCT_SIZE, nullptr, delete_operation};
  const std::lock_guard lock(*mutex);
  const auto [place, is_new] = types->try_emplace(api, XLA_FFI_TypeId{0});
  if (is_new) {
    XLA_FFI_Type_Register_Args arguments = {};
    arguments.struct_size = XLA_FFI_Type_Register_Args_STRUCT_SIZE;
    arguments.name = {kStateName, sizeof(kStateName) - 1};
    arguments.type_id = &place->second;
    arguments.type_info = &info;
    try {
      check_xla(api, api->XLA_FFI_Type_Register(&arguments));
    } catch (...) {
      types->erase(place);
      throw;
    }
  }
  return &place->second;
}

// Answers XLA's query for the version of the interface and the traits of a handler.
void answer_metadata(const XLA_FFI_CallFrame& frame, bool is_cpu, bool makes_state) {
  auto* const extension = reinterpret_cast<XLA_FFI_Metadata_Extension*>(frame.extension_start);
  if (extension->extension_base.struct_size < XLA_FFI_Metadata_Extension_STRUCT_SIZE ||
      extension->metadata->struct_size < XLA_FFI_Metadata_STRUCT_SIZE) {
    throw minuet::Exception(MINUET_UNIMPLEMENTED,
                            "this XLA is older than the header that libminuet_xla was built with (XLA FFI " +
                                std::to_string(XLA_FFI_API_MAJOR) + "." + std::to_string(XLA_FFI_API_MINOR) +
                                "): install a newer jaxlib");
  }
  XLA_FFI_Metadata& metadata = *extension->metadata;
  metadata.api_version = {XLA_FFI_Api_Version_STRUCT_SIZE, nullptr, XLA_FFI_API_MAJOR, XLA_FFI_API_MINOR};
  // Our kernels and their launches depend on attributes and shapes alone, never on data, so that graphs may
  // replay them. The CPU device has no graphs.
  metadata.traits =
      is_cpu ? 0u : static_cast<XLA_FFI_Handler_Traits>(XLA_FFI_HANDLER_TRAITS_COMMAND_BUFFER_COMPATIBLE);
  metadata.state_type_id = makes_state ? *state_type(frame.api) : XLA_FFI_TypeId{0};
}

void instantiate(const XLA_FFI_CallFrame& frame, const OperationKind& kind) {
  std::unique_ptr<XlaOperation> operation = kind.make(XlaAttributes(frame.attrs));
  XLA_FFI_State_Set_Args arguments = {};
  arguments.struct_size = XLA_FFI_State_Set_Args_STRUCT_SIZE;
  arguments.ctx = frame.ctx;
  arguments.stage = XLA_FFI_ExecutionStage_INSTANTIATE;
  arguments.type_id = state_type(frame.api);
  arguments.state = operation.get();
  check_xla(frame.api, frame.api->XLA_FFI_State_Set(&arguments));
  static_cast<void>(operation.release());  // XLA's now: it calls delete_operation.
}

XlaOperation& state_of(const XLA_FFI_CallFrame& frame) {
  XLA_FFI_State_Get_Args arguments = {};
  arguments.struct_size = XLA_FFI_State_Get_Args_STRUCT_SIZE;
  arguments.ctx = frame.ctx;
  arguments.stage = XLA_FFI_ExecutionStage_INSTANTIATE;
  arguments.type_id = state_type(frame.api);
  check_xla(frame.api, frame.api->XLA_FFI_State_Get(&arguments));
  return *static_cast<XlaOperation*>(arguments.state);
}

// A handler of one stage, for one kind of call on one platform.
template <std::size_t Kind, bool IsCpu, XLA_FFI_ExecutionStage Stage>
XLA_FFI_Error* handle(XLA_FFI_CallFrame* frame) {
  try {
    if (frame->extension_start && frame->extension_start->type == XLA_FFI_Extension_Metadata) {
      answer_metadata(*frame, IsCpu, Stage == XLA_FFI_ExecutionStage_INSTANTIATE);
      return nullptr;
    }
    if (frame->stage != Stage) {
      throw minuet::Exception(MINUET_INTERNAL, "XLA calls the handler of one stage of " +
                                                   std::string(kKinds[Kind].name) + " in another");
    }
    if constexpr (Stage == XLA_FFI_ExecutionStage_INSTANTIATE) {
      instantiate(*frame, kKinds[Kind]);
    } else if constexpr (Stage != XLA_FFI_ExecutionStage_PREPARE) {
      const XlaCall call(*frame, IsCpu);
      const XlaPlace& place = place_of(IsCpu, call.ordinal());
      XlaOperation& operation = state_of(*frame);
      operation.load(place);  // XLA:CPU has no stage before the execution.
      if constexpr (Stage == XLA_FFI_ExecutionStage_EXECUTE) operation.run(place, call);
    }
    return nullptr;
  } catch (const minuet::Exception& error) {
    return xla_error(frame->api, error.status(), std::string(kKinds[Kind].name) + ": " + error.what());
  } catch (const std::bad_alloc&) {
    return xla_error(frame->api, MINUET_RESOURCE_EXHAUSTED,
                     std::string(kKinds[Kind].name) + ": there is no host memory");
  }
}

template <std::size_t Kind, bool IsCpu, XLA_FFI_ExecutionStage Stage>
void* pointer() {
  return reinterpret_cast<void*>(&handle<Kind, IsCpu, Stage>);
}

template <std::size_t Kind, bool IsCpu>
minuet_xla_handler handler() {
  return {kKinds[Kind].name,
          IsCpu ? "Host" : "CUDA",
          pointer<Kind, IsCpu, XLA_FFI_ExecutionStage_INSTANTIATE>(),
          pointer<Kind, IsCpu, XLA_FFI_ExecutionStage_PREPARE>(),
          pointer<Kind, IsCpu, XLA_FFI_ExecutionStage_INITIALIZE>(),
          pointer<Kind, IsCpu, XLA_FFI_ExecutionStage_EXECUTE>()};
}

template <std::size_t... Kinds>
std::array<minuet_xla_handler, 2 * sizeof...(Kinds)> all_handlers(std::index_sequence<Kinds...>) {
  return {handler<Kinds, true>()..., handler<Kinds, false>()...};
}

}  // namespace
}  // namespace minuet_xla

const minuet_xla_handler* minuet_xla_handler_at(int32_t index) {
  static const auto handlers = minuet_xla::all_handlers(std::make_index_sequence<minuet_xla::kKindCount>());
  const bool is_known = index >= 0 && index < static_cast<int32_t>(handlers.size());
  return is_known ? &handlers[static_cast<std::size_t>(index)] : nullptr;
}

XLA_FFI_Error* minuet_xla_register(const XLA_FFI_Api* api) {
  for (int32_t index = 0; const minuet_xla_handler* found = minuet_xla_handler_at(index); ++index) {
    XLA_FFI_Handler_Register_Args arguments = {};
    arguments.struct_size = XLA_FFI_Handler_Register_Args_STRUCT_SIZE;
    arguments.name = {found->name, std::string_view(found->name).size()};
    arguments.platform = {found->platform, std::string_view(found->platform).size()};
    arguments.bundle = {reinterpret_cast<XLA_FFI_Handler*>(found->instantiate),
                        reinterpret_cast<XLA_FFI_Handler*>(found->prepare),
                        reinterpret_cast<XLA_FFI_Handler*>(found->initialize),
                        reinterpret_cast<XLA_FFI_Handler*>(found->execute)};
    arguments.traits =
        std::string_view(found->platform) == "Host"
            ? 0u
            : static_cast<XLA_FFI_Handler_Traits>(XLA_FFI_HANDLER_TRAITS_COMMAND_BUFFER_COMPATIBLE);
    if (XLA_FFI_Error* error = api->XLA_FFI_Handler_Register(&arguments)) return error;
  }
  return nullptr;
}
