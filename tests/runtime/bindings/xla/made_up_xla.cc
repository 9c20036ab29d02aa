#include "tests/runtime/bindings/xla/made_up_xla.h"

#include <stdexcept>

// The types that XLA leaves open.
struct XLA_FFI_Error {
  XLA_FFI_Error_Code code;
  std::string message;
};
struct XLA_FFI_ExecutionContext {
  void** state;
  bool* has_state;
};

namespace minuet_xla::testing {
namespace {

constexpr std::int64_t kStateType = 42;

MadeUpXla& instance() {
  static MadeUpXla xla;
  return xla;
}

std::string text_of(const XLA_FFI_ByteSpan& span) { return {span.ptr, span.len}; }

XLA_FFI_Error* refuse(const std::string& message) {
  return new XLA_FFI_Error{XLA_FFI_Error_Code_INTERNAL, message};
}

XLA_FFI_Error* error_create(XLA_FFI_Error_Create_Args* args) {
  return new XLA_FFI_Error{args->errc, args->message};
}
void error_get_message(XLA_FFI_Error_GetMessage_Args* args) { args->message = args->error->message.c_str(); }
void error_destroy(XLA_FFI_Error_Destroy_Args* args) { delete args->error; }

XLA_FFI_Error* handler_register(XLA_FFI_Handler_Register_Args* args) {
  if (text_of(args->name) == instance().refused) return refuse("no such name");
  instance().handlers.push_back({text_of(args->name), text_of(args->platform), args->bundle, args->traits});
  return nullptr;
}
XLA_FFI_Error* type_register(XLA_FFI_Type_Register_Args* args) {
  if (args->type_id->type_id != 0) return refuse("the type has a number already");
  args->type_id->type_id = kStateType;
  instance().state_type = args->type_info;
  return nullptr;
}
XLA_FFI_Error* state_set(XLA_FFI_State_Set_Args* args) {
  if (args->type_id->type_id != kStateType || args->stage != XLA_FFI_ExecutionStage_INSTANTIATE) {
    return refuse("a state of another type or stage");
  }
  *args->ctx->state = args->state;
  *args->ctx->has_state = true;
  ++instance().live_states;
  return nullptr;
}
XLA_FFI_Error* state_get(XLA_FFI_State_Get_Args* args) {
  if (args->type_id->type_id != kStateType || !*args->ctx->has_state) return refuse("there is no state");
  args->state = *args->ctx->state;
  return nullptr;
}
XLA_FFI_Error* stream_get(XLA_FFI_Stream_Get_Args* args) {
  args->stream = instance().stream;
  return nullptr;
}
XLA_FFI_Error* device_ordinal_get(XLA_FFI_DeviceOrdinal_Get_Args* args) {
  args->device_ordinal = 0;
  return nullptr;
}

}  // namespace

Outcome outcome_of(XLA_FFI_Error* error) {
  if (!error) return {};
  const Outcome outcome = {error->code, error->message};
  delete error;
  return outcome;
}

const MadeUpXla::Registered& MadeUpXla::find(const std::string& name, const std::string& platform) const {
  for (const Registered& each : handlers) {
    if (each.name == name && each.platform == platform) return each;
  }
  throw std::runtime_error("no custom call " + name + " is registered for " + platform);
}

MadeUpXla& fresh_xla() {
  const XLA_FFI_TypeInfo* const type = instance().state_type;  // A process registers a type once.
  instance() = MadeUpXla();
  instance().state_type = type;
  return instance();
}

const XLA_FFI_Api* made_up_api() {
  static const XLA_FFI_Api api = [] {
    XLA_FFI_Api made = {};
    made.struct_size = XLA_FFI_Api_STRUCT_SIZE;
    made.api_version = {XLA_FFI_Api_Version_STRUCT_SIZE, nullptr, XLA_FFI_API_MAJOR, XLA_FFI_API_MINOR};
    made.XLA_FFI_Error_Create = error_create;
    made.XLA_FFI_Error_GetMessage = error_get_message;
    made.XLA_FFI_Error_Destroy = error_destroy;
    made.XLA_FFI_Handler_Register = handler_register;
    made.XLA_FFI_Stream_Get = stream_get;
    made.XLA_FFI_Type_Register = type_register;
    made.XLA_FFI_State_Set = state_set;
    made.XLA_FFI_State_Get = state_get;
    made.XLA_FFI_DeviceOrdinal_Get = device_ordinal_get;
    return made;
  }();
  return &api;
}

Site::~Site() {
  if (!has_state_) return;
  instance().state_type->deleter(state_);
  --instance().live_states;
}

Site::Attribute& Site::add(const std::string& name, XLA_FFI_AttrType type) {
  Attribute& attribute = attributes_[name];
  attribute.type = type;
  return attribute;
}
Site& Site::integer(const std::string& name, std::int64_t value) {
  Attribute& attribute = add(name, XLA_FFI_AttrType_SCALAR);
  attribute.integers = {value};
  attribute.scalar = {XLA_FFI_DataType_S64, attribute.integers.data()};
  return *this;
}
Site& Site::real(const std::string& name, double value) {
  Attribute& attribute = add(name, XLA_FFI_AttrType_SCALAR);
  attribute.real = value;
  attribute.scalar = {XLA_FFI_DataType_F64, &attribute.real};
  return *this;
}
Site& Site::integers(const std::string& name, std::vector<std::int64_t> values) {
  Attribute& attribute = add(name, XLA_FFI_AttrType_ARRAY);
  attribute.integers = std::move(values);
  attribute.array = {XLA_FFI_DataType_S64, attribute.integers.size(), attribute.integers.data()};
  return *this;
}
Site& Site::floats(const std::string& name, std::vector<float> values) {
  Attribute& attribute = add(name, XLA_FFI_AttrType_ARRAY);
  attribute.floats = std::move(values);
  attribute.array = {XLA_FFI_DataType_F32, attribute.floats.size(), attribute.floats.data()};
  return *this;
}
Site& Site::bytes(const std::string& name, std::vector<unsigned char> values) {
  Attribute& attribute = add(name, XLA_FFI_AttrType_ARRAY);
  attribute.bytes = std::move(values);
  attribute.array = {XLA_FFI_DataType_U8, attribute.bytes.size(), attribute.bytes.data()};
  return *this;
}

Outcome Site::instantiate() {
  return call(handlers_.bundle.instantiate, XLA_FFI_ExecutionStage_INSTANTIATE, {}, {});
}

Outcome Site::call(XLA_FFI_Handler* handler, XLA_FFI_ExecutionStage stage, std::vector<Array> operands,
                   std::vector<Array> results) {
  std::vector<XLA_FFI_AttrType> types;
  std::deque<XLA_FFI_ByteSpan> spans;
  std::vector<XLA_FFI_ByteSpan*> names;
  std::vector<void*> values;
  for (auto& [name, attribute] : attributes_) {
    types.push_back(attribute.type);
    names.push_back(&spans.emplace_back(XLA_FFI_ByteSpan{name.data(), name.size()}));
    const bool is_scalar = attribute.type == XLA_FFI_AttrType_SCALAR;
    values.push_back(is_scalar ? static_cast<void*>(&attribute.scalar) : &attribute.array);
  }
  std::deque<XLA_FFI_Buffer> buffers;
  const auto placed = [&](std::vector<Array>& arrays) {
    std::vector<void*> pointers;
    for (Array& array : arrays) {
      pointers.push_back(&buffers.emplace_back(
          XLA_FFI_Buffer{XLA_FFI_Buffer_STRUCT_SIZE, nullptr, array.type, array.data,
                         static_cast<std::int64_t>(array.shape.size()), array.shape.data()}));
    }
    return pointers;
  };
  std::vector<void*> in = placed(operands), out = placed(results);
  std::vector<XLA_FFI_ArgType> in_types(in.size(), XLA_FFI_ArgType_BUFFER);
  std::vector<XLA_FFI_RetType> out_types(out.size(), XLA_FFI_RetType_BUFFER);
  XLA_FFI_ExecutionContext context = {&state_, &has_state_};
  XLA_FFI_CallFrame frame = {};
  frame.struct_size = XLA_FFI_CallFrame_STRUCT_SIZE;
  frame.api = made_up_api();
  frame.ctx = &context;
  frame.stage = stage;
  frame.args = {XLA_FFI_Args_STRUCT_SIZE, nullptr, static_cast<std::int64_t>(in.size()), in_types.data(),
                in.data()};
  frame.rets = {XLA_FFI_Rets_STRUCT_SIZE, nullptr, static_cast<std::int64_t>(out.size()), out_types.data(),
                out.data()};
  frame.attrs = {XLA_FFI_Attrs_STRUCT_SIZE,
                 nullptr,
                 static_cast<std::int64_t>(types.size()),
                 types.data(),
                 names.data(),
                 values.data()};
  return outcome_of(handler(&frame));
}

Outcome query_metadata(XLA_FFI_Handler* handler, XLA_FFI_Metadata& metadata, std::size_t struct_size) {
  metadata = {};
  metadata.struct_size = struct_size;
  XLA_FFI_Metadata_Extension extension = {};
  extension.extension_base = {XLA_FFI_Metadata_Extension_STRUCT_SIZE, XLA_FFI_Extension_Metadata, nullptr};
  extension.metadata = &metadata;
  XLA_FFI_CallFrame frame = {};
  frame.struct_size = XLA_FFI_CallFrame_STRUCT_SIZE;
  frame.api = made_up_api();
  frame.extension_start = &extension.extension_base;
  return outcome_of(handler(&frame));
}

}  // namespace minuet_xla::testing
