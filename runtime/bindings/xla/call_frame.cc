#include "runtime/bindings/xla/call_frame.h"

#include <limits>
#include <new>

namespace minuet_xla {
namespace {

constexpr std::size_t kAlignment = 256;

// Returns the library's element of a type, or -1.
minuet_element element_of(XLA_FFI_DataType type) {
  switch (type) {
    case XLA_FFI_DataType_F32:
      return MINUET_ELEMENT_F32;
    case XLA_FFI_DataType_F16:
      return MINUET_ELEMENT_F16;
    case XLA_FFI_DataType_BF16:
      return MINUET_ELEMENT_BF16;
    case XLA_FFI_DataType_F64:
      return MINUET_ELEMENT_F64;
    case XLA_FFI_DataType_S32:
      return MINUET_ELEMENT_I32;
    default:
      return -1;
  }
}

}  // namespace

void refuse(const std::string& message) { throw minuet::Exception(MINUET_INVALID_ARGUMENT, message); }

XLA_FFI_Error* xla_error(const XLA_FFI_Api* api, minuet_status status, const std::string& message) {
  XLA_FFI_Error_Create_Args arguments = {};
  arguments.struct_size = XLA_FFI_Error_Create_Args_STRUCT_SIZE;
  arguments.message = message.c_str();
  arguments.errc = static_cast<XLA_FFI_Error_Code>(status);
  return api->XLA_FFI_Error_Create(&arguments);
}

void check_xla(const XLA_FFI_Api* api, XLA_FFI_Error* error) {
  if (!error) return;
  XLA_FFI_Error_GetMessage_Args get = {};
  get.struct_size = XLA_FFI_Error_GetMessage_Args_STRUCT_SIZE;
  get.error = error;
  api->XLA_FFI_Error_GetMessage(&get);
  const std::string message = get.message ? get.message : "";
  XLA_FFI_Error_Destroy_Args destroy = {};
  destroy.struct_size = XLA_FFI_Error_Destroy_Args_STRUCT_SIZE;
  destroy.error = error;
  api->XLA_FFI_Error_Destroy(&destroy);
  throw minuet::Exception(MINUET_INTERNAL, "XLA reports an error: " + message);
}

std::int64_t XlaAttributes::find(std::string_view name) const {
  for (std::int64_t i = 0; i < attributes_.size; ++i) {
    if (std::string_view(attributes_.names[i]->ptr, attributes_.names[i]->len) == name) return i;
  }
  return -1;
}

const void* XlaAttributes::get(std::string_view name, XLA_FFI_AttrType type) const {
  const std::int64_t place = find(name);
  if (place < 0) refuse("the custom call has no attribute " + std::string(name));
  if (attributes_.types[place] != type) {
    refuse("the attribute " + std::string(name) + " of the custom call has another type than is needed");
  }
  return attributes_.attrs[place];
}

std::int64_t XlaAttributes::integer(std::string_view name) const {
  const auto& scalar = *static_cast<const XLA_FFI_Scalar*>(get(name, XLA_FFI_AttrType_SCALAR));
  if (scalar.dtype == XLA_FFI_DataType_S64) return *static_cast<const std::int64_t*>(scalar.value);
  if (scalar.dtype == XLA_FFI_DataType_S32) return *static_cast<const std::int32_t*>(scalar.value);
  if (scalar.dtype == XLA_FFI_DataType_PRED) return *static_cast<const bool*>(scalar.value) ? 1 : 0;
  refuse("the attribute " + std::string(name) + " of the custom call is not an integer");
}

std::int32_t XlaAttributes::integer32(std::string_view name) const {
  const std::int64_t number = integer(name);
  if (number < std::numeric_limits<std::int32_t>::min() ||
      number > std::numeric_limits<std::int32_t>::max()) {
    refuse("the attribute " + std::string(name) + " is " + std::to_string(number) +
           ", which does not fit into 32 bits");
  }
  return static_cast<std::int32_t>(number);
}

double XlaAttributes::real(std::string_view name) const {
  const auto& scalar = *static_cast<const XLA_FFI_Scalar*>(get(name, XLA_FFI_AttrType_SCALAR));
  if (scalar.dtype == XLA_FFI_DataType_F64) return *static_cast<const double*>(scalar.value);
  if (scalar.dtype == XLA_FFI_DataType_F32) return *static_cast<const float*>(scalar.value);
  refuse("the attribute " + std::string(name) + " of the custom call is not a floating-point number");
}

const XLA_FFI_Array& XlaAttributes::array(std::string_view name, XLA_FFI_DataType type) const {
  const auto& array = *static_cast<const XLA_FFI_Array*>(get(name, XLA_FFI_AttrType_ARRAY));
  if (array.dtype != type) {
    refuse("the elements of the attribute " + std::string(name) + " of the custom call have another type");
  }
  return array;
}

std::string_view XlaAttributes::bytes(std::string_view name) const {
  const XLA_FFI_Array& found = array(name, XLA_FFI_DataType_U8);
  return {static_cast<const char*>(found.data), found.size};
}

std::span<const std::int64_t> XlaAttributes::integers(std::string_view name) const {
  const XLA_FFI_Array& found = array(name, XLA_FFI_DataType_S64);
  return {static_cast<const std::int64_t*>(found.data), found.size};
}

std::span<const float> XlaAttributes::floats(std::string_view name) const {
  const XLA_FFI_Array& found = array(name, XLA_FFI_DataType_F32);
  return {static_cast<const float*>(found.data), found.size};
}

std::int64_t XlaArray::elements() const {
  std::int64_t count = 1;
  for (const std::int64_t length : shape()) count *= length;
  return count;
}

void XlaArray::refuse_it(const std::string& reason) const {
  refuse(std::string(kind_) + " " + std::to_string(number_) + " " + reason);
}

void* XlaArray::require(XLA_FFI_DataType type, std::int64_t rank, std::int64_t count) const {
  if (buffer_.dtype != type) {
    refuse_it("has the element type " + std::to_string(buffer_.dtype) + ", and " + std::to_string(type) +
              " is needed (XLA_FFI_DataType)");
  }
  if (rank >= 0 && buffer_.rank != rank) {
    refuse_it("has " + std::to_string(buffer_.rank) + " axes, and " + std::to_string(rank) + " are needed");
  }
  if (count >= 0 && elements() != count) {
    refuse_it("has " + std::to_string(elements()) + " elements, and " + std::to_string(count) +
              " are needed");
  }
  return buffer_.data;
}

minuet_array XlaArray::array() const {
  minuet_array array = {};
  array.element = element_of(buffer_.dtype);
  if (array.element < 0) {
    refuse_it("is of XLA_FFI_DataType " + std::to_string(buffer_.dtype) +
              ", which Minuet does not compute with: convert it");
  }
  if (buffer_.rank < 1 || buffer_.rank > MINUET_MAX_RANK) {
    refuse_it("has " + std::to_string(buffer_.rank) + " axes, and 1 to 6 are needed");
  }
  array.data = buffer_.data;
  array.rank = static_cast<std::int32_t>(buffer_.rank);
  for (std::int64_t axis = 0; axis < buffer_.rank; ++axis) array.shape[axis] = buffer_.dims[axis];
  return array;
}

minuet_tensor XlaArray::tensor() const {
  const minuet_array given = array();
  if (given.rank != 2 || given.element > MINUET_ELEMENT_BF16) {
    refuse_it("must be a matrix [rows, channels] of f32, f16 or bf16");
  }
  return minuet::tensor(given.data, given.shape[0], static_cast<std::int32_t>(given.shape[1]), given.element);
}

void XlaCall::require(std::int64_t operands, std::int64_t results, bool has_workspace) const {
  const std::int64_t most = results + (has_workspace ? 1 : 0), least = is_cpu_ ? results : most;
  if (this->operands() == operands && (this->results() == least || this->results() == most)) return;
  refuse("the custom call has " + std::to_string(this->operands()) + " operands and " +
         std::to_string(this->results()) + " results, and " + std::to_string(operands) + " and " +
         std::to_string(most) + " are needed");
}

XlaArray XlaCall::operand(std::int64_t number) const {
  if (number >= operands()) refuse("the custom call has no operand " + std::to_string(number));
  return XlaArray(*static_cast<const XLA_FFI_Buffer*>(frame_.args.args[number]), "operand", number);
}

XlaArray XlaCall::result(std::int64_t number) const {
  if (number >= results()) refuse("the custom call has no result " + std::to_string(number));
  return XlaArray(*static_cast<const XLA_FFI_Buffer*>(frame_.rets.rets[number]), "result", number);
}

void* XlaCall::stream() const {
  if (is_cpu_) return nullptr;
  XLA_FFI_Stream_Get_Args arguments = {};
  arguments.struct_size = XLA_FFI_Stream_Get_Args_STRUCT_SIZE;
  arguments.ctx = frame_.ctx;
  check_xla(frame_.api, frame_.api->XLA_FFI_Stream_Get(&arguments));
  return arguments.stream;
}

std::int32_t XlaCall::ordinal() const {
  if (is_cpu_) return 0;
  XLA_FFI_DeviceOrdinal_Get_Args arguments = {};
  arguments.struct_size = XLA_FFI_DeviceOrdinal_Get_Args_STRUCT_SIZE;
  arguments.ctx = frame_.ctx;
  check_xla(frame_.api, frame_.api->XLA_FFI_DeviceOrdinal_Get(&arguments));
  return arguments.device_ordinal;
}

void XlaWorkspace::allocate(std::int64_t bytes) {
  // The size depends on the number of threads, which a program that was exported elsewhere cannot know.
  data_ = ::operator new(static_cast<std::size_t>(bytes > 0 ? bytes : 1), std::align_val_t(kAlignment));
  bytes_ = bytes;
  is_own_ = true;
}

void XlaWorkspace::take_last_result(const XlaCall& call) {
  const XlaArray last = call.result(call.results() - 1);
  data_ = last.require(XLA_FFI_DataType_U8, 1, -1);
  bytes_ = last.elements();
}

XlaWorkspace::~XlaWorkspace() {
  if (is_own_) ::operator delete(data_, std::align_val_t(kAlignment));
}

}  // namespace minuet_xla
