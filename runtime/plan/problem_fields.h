// Writes the problem of a plan as a JSON object and reads it back, for serialized plans.
#pragma once

#include <array>
#include <optional>
#include <string>

#include "codegen/choose/problem.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/JSON.h"

namespace minuet {

/// Reads the fields of a JSON object that may come from an untrusted source. After the first field that is
/// missing or not valid, the functions return valid values of no meaning, and error() tells which it was.
class FieldReader {
 public:
  explicit FieldReader(const llvm::json::Object& object) : object_(object) {}

  /// Returns an integer from `least` to `most`.
  i64 integer(llvm::StringRef name, i64 least, i64 most);
  i32 integer32(llvm::StringRef name, i32 least, i32 most) {
    return static_cast<i32>(integer(name, least, most));
  }
  bool has(llvm::StringRef name) const { return object_.get(name) != nullptr; }
  bool flag(llvm::StringRef name);
  /// Returns a finite number.
  float real(llvm::StringRef name);
  std::vector<float> reals(llvm::StringRef name);
  std::string text(llvm::StringRef name);
  /// Returns integers from `least` to `most`.
  std::vector<i32> integers(llvm::StringRef name, i32 least, i32 most);
  /// Returns a number for each axis, each from `least` to `most`.
  AxisArray axes(llvm::StringRef name, i32 least = 1, i32 most = kMostCells);
  /// Returns a list, which is not empty, of arrays of integers from -`most` to `most`.
  OffsetList axes_list(llvm::StringRef name, i64 most);
  /// Returns the enumerator whose name in `names` is the field's text.
  template <class Enumeration>
  Enumeration choice(llvm::StringRef name, llvm::ArrayRef<const char*> names) {
    return static_cast<Enumeration>(find_name(name, names));
  }
  /// Returns the field's object or array, or null if there is none.
  const llvm::json::Object* object(llvm::StringRef name);
  const llvm::json::Array* array(llvm::StringRef name);

  /// Records that a field is not valid.
  void fail(llvm::StringRef name) {
    if (!failed_) failed_ = name.str();
  }
  /// Returns InvalidArgument with the name of the first field that is missing or not valid, or success.
  llvm::Error error() const;

 private:
  float real_of(llvm::StringRef name, const llvm::json::Value& value);
  std::size_t find_name(llvm::StringRef field, llvm::ArrayRef<const char*> names);

  const llvm::json::Object& object_;
  std::optional<std::string> failed_;
};

/// Returns the fields that all ops over a kernel map have.
llvm::json::Object window_fields(const WindowProblem& problem);
void read_window_fields(FieldReader& fields, WindowProblem& problem);

/// Describes how the problem of one kind of op is written. Each kind has a file pair in runtime/plan/ops.
struct OpFields {
  const OpKind& kind;
  llvm::json::Object (*write)(const OpProblem& problem);
  OpProblem (*read)(FieldReader& fields);
  std::uint32_t format = 3;  // Gives the first format of a plan (plan_format.h) that has this kind of op.
};
/// Returns one element for each kind of op of which a plan can be made.
llvm::ArrayRef<OpFields> fields_of_ops();

/// Returns the fields of the problem with the field "kind", which names its kind of op.
llvm::Expected<llvm::json::Object> write_op(const OpProblem& problem);
/// Returns the problem with these fields, which is valid.
llvm::Expected<OpProblem> read_op_problem(const llvm::json::Object& fields);

}  // namespace minuet
