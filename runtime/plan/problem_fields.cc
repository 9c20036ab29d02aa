#include "runtime/plan/problem_fields.h"

#include <cfloat>
#include <cmath>

#include "codegen/base/json_text.h"
#include "codegen/choose/tuning_key.h"

namespace minuet {
namespace {

/// Returns true if the value is an integer from `least` to `most`.
bool is_between(const llvm::json::Value& value, i64 least, i64 most) {
  const auto number = value.getAsInteger();
  return number && *number >= least && *number <= most;
}

/// Reads the enumerator that tuning_text() has written.
template <class Enumeration>
void read_enumerator(FieldReader& fields, llvm::StringRef name, Enumeration& value) {
  if (llvm::errorToBool(read_tuning_text(fields.text(name), value))) fields.fail(name);
}

}  // namespace

i64 FieldReader::integer(llvm::StringRef name, i64 least, i64 most) {
  const llvm::json::Value* const value = object_.get(name);
  if (value != nullptr && is_between(*value, least, most)) return *value->getAsInteger();
  fail(name);
  return least;
}

bool FieldReader::flag(llvm::StringRef name) {
  const auto value = object_.getBoolean(name);
  if (!value) fail(name);
  return value ? *value : false;
}

float FieldReader::real(llvm::StringRef name) {
  const llvm::json::Value* const value = object_.get(name);
  return value != nullptr ? real_of(name, *value) : (fail(name), 0.0f);
}

std::vector<float> FieldReader::reals(llvm::StringRef name) {
  std::vector<float> values;
  const llvm::json::Array* const elements = array(name);
  if (elements == nullptr) return values;
  for (const llvm::json::Value& element : *elements) values.push_back(real_of(name, element));
  return values;
}

float FieldReader::real_of(llvm::StringRef name, const llvm::json::Value& value) {
  const auto number = value.getAsNumber();
  if (number && std::abs(*number) <= static_cast<double>(FLT_MAX)) return static_cast<float>(*number);
  fail(name);
  return 0;
}

std::string FieldReader::text(llvm::StringRef name) {
  const auto value = object_.getString(name);
  if (!value) fail(name);
  return value ? value->str() : "";
}

std::vector<i32> FieldReader::integers(llvm::StringRef name, i32 least, i32 most) {
  std::vector<i32> values;
  const llvm::json::Array* const elements = array(name);
  if (elements == nullptr) return values;
  for (const llvm::json::Value& element : *elements) {
    if (!is_between(element, least, most)) {
      fail(name);
      return {};
    }
    values.push_back(static_cast<i32>(*element.getAsInteger()));
  }
  return values;
}

AxisArray FieldReader::axes(llvm::StringRef name, i32 least, i32 most) {
  AxisArray axes{1, 1, 1, 1};
  const std::vector<i32> values = integers(name, least, most);
  if (values.size() == axes.size()) {
    std::copy(values.begin(), values.end(), axes.begin());
  } else {
    fail(name);
  }
  return axes;
}

OffsetList FieldReader::axes_list(llvm::StringRef name, i64 most) {
  OffsetList list;
  const llvm::json::Array* const elements = array(name);
  if (elements == nullptr) return list;
  for (const llvm::json::Value& element : *elements) {
    const llvm::json::Array* const numbers = element.getAsArray();
    AxisArray& axes = list.emplace_back();
    if (numbers == nullptr || numbers->size() != axes.size()) {
      fail(name);
      return {};
    }
    for (std::size_t a = 0; a < axes.size(); ++a) {
      if (!is_between((*numbers)[a], -most, most)) {
        fail(name);
        return {};
      }
      axes[a] = static_cast<i32>(*(*numbers)[a].getAsInteger());
    }
  }
  if (list.empty()) fail(name);
  return list;
}

const llvm::json::Object* FieldReader::object(llvm::StringRef name) {
  const llvm::json::Object* const value = object_.getObject(name);
  if (value == nullptr) fail(name);
  return value;
}

const llvm::json::Array* FieldReader::array(llvm::StringRef name) {
  const llvm::json::Array* const value = object_.getArray(name);
  if (value == nullptr) fail(name);
  return value;
}

std::size_t FieldReader::find_name(llvm::StringRef field, llvm::ArrayRef<const char*> names) {
  const std::string value = text(field);
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (value == names[i]) return i;
  }
  fail(field);
  return 0;
}

llvm::Error FieldReader::error() const {
  if (!failed_) return llvm::Error::success();
  return make_error(StatusCode::InvalidArgument, "its field \"{0}\" is missing or not valid", *failed_);
}

llvm::json::Object window_fields(const WindowProblem& problem) {
  llvm::json::Object fields{{"ndim", problem.ndim},
                            {"dtype", tuning_text(problem.dtype)},
                            {"stride", llvm::json::Array(problem.stride)},
                            {"outputs", tuning_text(problem.kind)}};
  if (problem.padding) fields["padding"] = llvm::json::Array(*problem.padding);
  if (problem.offsets.empty()) {
    fields["kernel_size"] = llvm::json::Array(problem.kernel_size);
    fields["dilation"] = llvm::json::Array(problem.dilation);
    return fields;
  }
  llvm::json::Array offsets;
  for (const AxisArray& offset : problem.offsets) offsets.push_back(llvm::json::Array(offset));
  fields["offsets"] = std::move(offsets);
  return fields;
}

void read_window_fields(FieldReader& fields, WindowProblem& problem) {
  problem.ndim = fields.integer32("ndim", 1, kMaxDim);
  read_enumerator(fields, "dtype", problem.dtype);
  problem.stride = fields.axes("stride");
  if (fields.has("padding")) problem.padding = fields.axes("padding", 0, kMostCells);
  if (fields.has("offsets")) {
    problem.offsets = fields.axes_list("offsets", kFarthestOffset);
  } else {
    problem.kernel_size = fields.axes("kernel_size");
    problem.dilation = fields.axes("dilation");
  }
  read_enumerator(fields, "outputs", problem.kind);
}

llvm::Expected<llvm::json::Object> write_op(const OpProblem& problem) {
  for (const OpFields& op : fields_of_ops()) {
    if (&op.kind != &problem.kind()) continue;
    llvm::json::Object fields = op.write(problem);
    fields["kind"] = op.kind.name;
    return fields;
  }
  return make_error(StatusCode::Unimplemented, "a plan of the op {0} cannot be serialized",
                    problem.kind().name);
}

llvm::Expected<OpProblem> read_op_problem(const llvm::json::Object& object) {
  const std::string kind = text_or_empty(object, "kind");
  for (const OpFields& op : fields_of_ops()) {
    if (kind != op.kind.name) continue;
    FieldReader fields(object);
    OpProblem problem = op.read(fields);
    MINUET_TRY(fields.error());
    MINUET_TRY(validate(problem));
    return problem;
  }
  return make_error(StatusCode::InvalidArgument, "its kind of op, \"{0}\", is unknown to this library", kind);
}

}  // namespace minuet
