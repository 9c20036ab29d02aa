// An XLA of the tests' own: its table of functions, and calls of handlers in all stages.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "xla/ffi/api/c_api.h"

namespace minuet_xla::testing {

/// The result of a call: OK, or an error with its code and message.
struct Outcome {
  XLA_FFI_Error_Code code = XLA_FFI_Error_Code_OK;
  std::string message;
};

/// Takes over an error of a handler.
Outcome outcome_of(XLA_FFI_Error* error);

/// What the table has been asked for.
struct MadeUpXla {
  struct Registered {
    std::string name, platform;
    XLA_FFI_Handler_Bundle bundle;
    XLA_FFI_Handler_Traits traits;
  };
  std::vector<Registered> handlers;
  std::string refused;  // registrations of this name fail
  std::int64_t live_states = 0;
  void* stream = nullptr;
  const XLA_FFI_TypeInfo* state_type = nullptr;

  /// Returns the handlers of a custom call.
  const Registered& find(const std::string& name, const std::string& platform) const;
};

/// Returns the only instance, which is empty again.
MadeUpXla& fresh_xla();
/// Returns the table of its functions.
const XLA_FFI_Api* made_up_api();

/// One place in a program that calls a custom call, with its attributes, operands and results.
class Site {
 public:
  Site(const MadeUpXla::Registered& handlers) : handlers_(handlers) {}
  ~Site();
  Site(const Site&) = delete;
  Site& operator=(const Site&) = delete;

  Site& integer(const std::string& name, std::int64_t value);
  Site& real(const std::string& name, double value);
  Site& integers(const std::string& name, std::vector<std::int64_t> values);
  Site& floats(const std::string& name, std::vector<float> values);
  Site& bytes(const std::string& name, std::vector<unsigned char> values);

  Outcome instantiate();
  Outcome prepare() { return call(handlers_.bundle.prepare, XLA_FFI_ExecutionStage_PREPARE, {}, {}); }
  Outcome initialize() {
    return call(handlers_.bundle.initialize, XLA_FFI_ExecutionStage_INITIALIZE, {}, {});
  }

  struct Array {
    XLA_FFI_DataType type;
    void* data;
    std::vector<std::int64_t> shape;
  };
  /// May be called from many threads at once.
  Outcome execute(std::vector<Array> operands, std::vector<Array> results) {
    return call(handlers_.bundle.execute, XLA_FFI_ExecutionStage_EXECUTE, std::move(operands),
                std::move(results));
  }
  /// Calls a handler in any stage.
  Outcome call(XLA_FFI_Handler* handler, XLA_FFI_ExecutionStage stage, std::vector<Array> operands,
               std::vector<Array> results);
  const MadeUpXla::Registered& handlers() const { return handlers_; }

 private:
  struct Attribute {
    XLA_FFI_AttrType type;
    std::vector<std::int64_t> integers;
    std::vector<unsigned char> bytes;
    std::vector<float> floats;
    double real = 0;
    XLA_FFI_Scalar scalar = {};
    XLA_FFI_Array array = {};
  };
  Attribute& add(const std::string& name, XLA_FFI_AttrType type);
  const MadeUpXla::Registered& handlers_;
  std::map<std::string, Attribute> attributes_;  // XLA sorts them by name, too.
  void* state_ = nullptr;
  bool has_state_ = false;
};

/// Asks a handler for its metadata, as an XLA whose struct has this size.
Outcome query_metadata(XLA_FFI_Handler* handler, XLA_FFI_Metadata& metadata,
                       std::size_t struct_size = XLA_FFI_Metadata_STRUCT_SIZE);

}  // namespace minuet_xla::testing
