// Reads what XLA gives to a handler: attributes, operands, results, the stream and the number of the device.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "minuet/minuet.hpp"
#include "xla/ffi/api/c_api.h"

namespace minuet_xla {

/// Throws an exception with the status INVALID_ARGUMENT.
[[noreturn]] void refuse(const std::string& message);

/// Throws the error of a function of XLA, if there is one, and destroys it.
void check_xla(const XLA_FFI_Api* api, XLA_FFI_Error* error);

/// Returns an error of XLA with the code of the same number.
XLA_FFI_Error* xla_error(const XLA_FFI_Api* api, minuet_status status, const std::string& message);

/// The attributes of a custom call. They live during the call of the handler.
class XlaAttributes {
 public:
  explicit XlaAttributes(const XLA_FFI_Attrs& attributes) : attributes_(attributes) {}

  bool has(std::string_view name) const { return find(name) >= 0; }
  /// Returns an integer or a truth value.
  std::int64_t integer(std::string_view name) const;
  /// The same. Throws where it does not fit into 32 bits.
  std::int32_t integer32(std::string_view name) const;
  /// Returns a floating-point number.
  double real(std::string_view name) const;
  /// Returns the elements of an array of u8.
  std::string_view bytes(std::string_view name) const;
  /// Returns the elements of an array of s64.
  std::span<const std::int64_t> integers(std::string_view name) const;
  /// Returns the elements of an array of f32.
  std::span<const float> floats(std::string_view name) const;

 private:
  std::int64_t find(std::string_view name) const;
  const void* get(std::string_view name, XLA_FFI_AttrType type) const;
  const XLA_FFI_Array& array(std::string_view name, XLA_FFI_DataType type) const;
  const XLA_FFI_Attrs& attributes_;
};

/// An operand or a result of a custom call, in memory of the device.
class XlaArray {
 public:
  /// `kind`, "operand" or "result", and `number` are for messages.
  XlaArray(const XLA_FFI_Buffer& buffer, const char* kind, std::int64_t number)
      : buffer_(buffer), kind_(kind), number_(number) {}

  std::span<const std::int64_t> shape() const {
    return {buffer_.dims, static_cast<std::size_t>(buffer_.rank)};
  }
  std::int64_t elements() const;
  void* data() const { return buffer_.data; }
  /// Returns the address if the array has this type and as many axes and elements; -1: any number.
  void* require(XLA_FFI_DataType type, std::int64_t rank, std::int64_t elements) const;
  template <class T>
  T* of(XLA_FFI_DataType type, std::int64_t rank = -1, std::int64_t elements = -1) const {
    return static_cast<T*>(require(type, rank, elements));
  }
  /// Returns the array for calls of the library.
  minuet_array array() const;
  /// Returns a matrix of features [rows, channels] for calls of the library.
  minuet_tensor tensor() const;

 private:
  // Throws an exception whose message begins with the array's name.
  [[noreturn]] void refuse_it(const std::string& reason) const;
  const XLA_FFI_Buffer& buffer_;
  const char* kind_;
  std::int64_t number_;
};

/// One call of a handler.
class XlaCall {
 public:
  XlaCall(const XLA_FFI_CallFrame& frame, bool is_cpu) : frame_(frame), is_cpu_(is_cpu) {}

  std::int64_t operands() const { return frame_.args.size; }
  std::int64_t results() const { return frame_.rets.size; }
  /// Throws unless there are as many operands and results. Where there is a workspace, it is one more result,
  /// which calls on the CPU may have too and do not use.
  void require(std::int64_t operands, std::int64_t results, bool has_workspace) const;
  XlaArray operand(std::int64_t number) const;
  XlaArray result(std::int64_t number) const;
  bool is_cpu() const { return is_cpu_; }
  /// Returns the stream on which XLA wants the work, or null on the CPU.
  void* stream() const;
  /// Returns the number of the GPU, or 0 on the CPU.
  std::int32_t ordinal() const;

 private:
  const XLA_FFI_CallFrame& frame_;
  bool is_cpu_;
};

/// Reads the operands and results of a call in their order.
class CallReader {
 public:
  explicit CallReader(const XlaCall& call) : call_(call) {}
  XlaArray operand() { return call_.operand(operand_++); }
  XlaArray result() { return call_.result(result_++); }
  float* floats_in(std::int64_t count) { return operand().of<float>(XLA_FFI_DataType_F32, -1, count); }
  float* floats_out(std::int64_t count) { return result().of<float>(XLA_FFI_DataType_F32, -1, count); }
  std::int32_t* numbers_in(std::int64_t count) {
    return operand().of<std::int32_t>(XLA_FFI_DataType_S32, -1, count);
  }
  std::int32_t* numbers_out(std::int64_t count) {
    return result().of<std::int32_t>(XLA_FFI_DataType_S32, -1, count);
  }
  std::int32_t* count() { return numbers_in(1); }
  /// Throws unless all operands and results were read, except the workspace of a GPU.
  void finish() const { call_.require(operand_, result_, true); }

 private:
  const XlaCall& call_;
  std::int64_t operand_ = 0, result_ = 0;
};

/// The workspace of one call: the last result on a GPU, and memory of its own on the CPU.
class XlaWorkspace {
 public:
  /// `bytes` is a function that returns how many bytes are needed. Only calls on the CPU ask it.
  template <class Bytes>
  XlaWorkspace(const XlaCall& call, const Bytes& bytes) {
    if (call.is_cpu()) {
      allocate(bytes());
    } else {
      take_last_result(call);
    }
  }
  ~XlaWorkspace();
  XlaWorkspace(const XlaWorkspace&) = delete;
  XlaWorkspace& operator=(const XlaWorkspace&) = delete;
  void* data() const { return data_; }
  std::int64_t bytes() const { return bytes_; }

 private:
  void allocate(std::int64_t bytes);
  void take_last_result(const XlaCall& call);
  void* data_ = nullptr;
  std::int64_t bytes_ = 0;
  bool is_own_ = false;
};

}  // namespace minuet_xla
