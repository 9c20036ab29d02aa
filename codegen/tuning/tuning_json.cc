// Reads and writes tuning entries as JSON text.
#include <algorithm>
#include <utility>

#include "codegen/base/json_text.h"
#include "codegen/choose/tuning_entry.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"

namespace minuet {
namespace {

llvm::Error damaged_tuning_entry(llvm::StringRef what) {
  return make_error(StatusCode::InvalidArgument,
                    "the tuning entry is damaged and must be measured again: {0}", what);
}

// The following functions write JSON.

llvm::json::Value json_of(i64 value) { return value; }
llvm::json::Value json_of(const std::string& value) { return llvm::json::fixUTF8(value); }
template <class Enumeration>
llvm::json::Value json_of(Enumeration value) {
  return tuning_text(value);
}

template <class Fields>
llvm::json::Object object_of(const Fields& fields) {
  llvm::json::Object object;
  Fields::visit(fields, [&](const char* name, const auto& value) { object[name] = json_of(value); });
  return object;
}

[[gnu::cold]] llvm::json::Object object_of(const TuningMeasurement& measurement) {
  llvm::json::Object config;
  for (const auto& [name, value] : measurement.config) config[name] = value;
  return llvm::json::Object{{"config", std::move(config)},
                            {"nanoseconds", llvm::json::Object{{"median", measurement.median_ns},
                                                               {"least", measurement.least_ns},
                                                               {"spread", measurement.spread_ns}}},
                            {"default", measurement.is_default},
                            {"driver", llvm::json::fixUTF8(measurement.driver)}};
}

[[gnu::cold]] llvm::json::Object object_of(const TuningEntry& entry) {
  llvm::json::Array measurements;
  for (const TuningMeasurement& measurement : entry.measurements)
    measurements.push_back(object_of(measurement));
  return llvm::json::Object{{"schema", kTuningSchema},
                            {"operation", operation_name(entry.bucket.operation)},
                            {"bucket", object_of(entry.bucket)},
                            {"environment", object_of(entry.environment)},
                            {"kernels", llvm::json::fixUTF8(entry.kernels)},
                            {"configs", std::move(measurements)}};
}

// The following functions read JSON.

llvm::Error read_field(const llvm::json::Object& object, const char* name, i64& value) {
  const auto number = object.getInteger(name);
  if (!number)
    return damaged_tuning_entry(llvm::formatv("'{0}' is missing or is not a whole number", name).str());
  value = *number;
  return llvm::Error::success();
}

llvm::Error read_field(const llvm::json::Object& object, const char* name, std::string& value) {
  const auto text = object.getString(name);
  if (!text) return damaged_tuning_entry(llvm::formatv("'{0}' is missing or is not text", name).str());
  value = text->str();
  return llvm::Error::success();
}

template <class Enumeration>
llvm::Error read_field(const llvm::json::Object& object, const char* name, Enumeration& value) {
  std::string text;
  MINUET_TRY(read_field(object, name, text));
  return read_tuning_text(text, value);
}

llvm::Error read_field(const llvm::json::Object& object, const char* name, bool& value) {
  const auto flag = object.getBoolean(name);
  if (!flag) return damaged_tuning_entry(llvm::formatv("'{0}' must be true or false", name).str());
  value = *flag;
  return llvm::Error::success();
}

template <class Fields>
llvm::Error read_fields(const llvm::json::Object& parent, const char* name, Fields& fields) {
  const llvm::json::Object* const object = parent.getObject(name);
  if (object == nullptr) return damaged_tuning_entry(llvm::formatv("it has no '{0}'", name).str());
  llvm::Error error = llvm::Error::success();
  Fields::visit(fields, [&](const char* field, auto& value) {
    error = llvm::joinErrors(std::move(error), read_field(*object, field, value));
  });
  return error;
}

llvm::Error read_config(const llvm::json::Object& object, TuningMeasurement& measurement) {
  const llvm::json::Object* const config = object.getObject("config");
  if (config == nullptr) return damaged_tuning_entry("a measurement has no 'config'");
  for (const auto& field : *config) {
    const auto value = field.second.getAsInteger();
    if (!value) return damaged_tuning_entry("a field of a configuration is not a whole number");
    measurement.config[field.first.str()] = *value;
  }
  return llvm::Error::success();
}

llvm::Expected<TuningMeasurement> read_measurement(const llvm::json::Value& value) {
  const llvm::json::Object* const object = value.getAsObject();
  const llvm::json::Object* const times = object ? object->getObject("nanoseconds") : nullptr;
  if (times == nullptr) return damaged_tuning_entry("a measurement has no 'nanoseconds'");
  TuningMeasurement measurement;
  MINUET_TRY(read_config(*object, measurement));
  MINUET_TRY(read_field(*times, "median", measurement.median_ns));
  MINUET_TRY(read_field(*times, "least", measurement.least_ns));
  MINUET_TRY(read_field(*times, "spread", measurement.spread_ns));
  MINUET_TRY(read_field(*object, "default", measurement.is_default));
  MINUET_TRY(read_field(*object, "driver", measurement.driver));
  if (measurement.median_ns <= 0) return damaged_tuning_entry("the median of a measurement is not positive");
  return measurement;
}

llvm::Expected<TuningEntry> entry_of(const llvm::json::Value& value) {
  const llvm::json::Object* const object = value.getAsObject();
  if (object == nullptr) return damaged_tuning_entry("it is not a JSON object");
  const auto schema = object->getInteger("schema");
  if (!schema) return damaged_tuning_entry("it has no 'schema'");
  if (*schema != kTuningSchema) {
    return make_error(
        StatusCode::Unimplemented,
        "the tuning entry has schema {0}, and this library reads schema {1}: tune again with it", *schema,
        kTuningSchema);
  }
  TuningEntry entry;
  MINUET_TRY(read_field(*object, "operation", entry.bucket.operation));
  const llvm::json::Object* const bucket = object->getObject("bucket");
  const bool has_density = bucket != nullptr && bucket->get("log4_density") != nullptr;
  // TuningBucket::visit() visits log4_density only if it is not kAnyDensity, so the member gets another value
  // before read_fields().
  if (has_density && is_of_layer(entry.bucket.operation)) entry.bucket.log4_density = 0;
  MINUET_TRY(read_fields(*object, "bucket", entry.bucket));
  MINUET_TRY(read_fields(*object, "environment", entry.environment));
  MINUET_TRY(read_field(*object, "kernels", entry.kernels));
  const llvm::json::Array* const measurements = object->getArray("configs");
  if (measurements == nullptr) return damaged_tuning_entry("it has no 'configs'");
  for (const llvm::json::Value& one : *measurements) {
    MINUET_ASSIGN(TuningMeasurement measurement, read_measurement(one));
    entry.measurements.push_back(std::move(measurement));
  }
  // A file that was edited by hand may be out of order; merging restores the ranking.
  entry = merge_entries(entry, entry);
  if (std::none_of(entry.measurements.begin(), entry.measurements.end(),
                   [](const TuningMeasurement& measurement) { return measurement.is_default; })) {
    return damaged_tuning_entry("it has no measurement of the default configuration");
  }
  return entry;
}

}  // namespace

[[gnu::cold]] std::string write_tuning(const std::vector<TuningEntry>& entries) {
  std::map<std::vector<std::string>, TuningEntry> sorted;
  for (const TuningEntry& entry : entries) {
    const auto [slot, added] = sorted.try_emplace(
        {environment_hash(entry.environment), bucket_hash(entry.bucket), entry.kernels}, entry);
    if (!added) slot->second = merge_entries(slot->second, entry);
  }
  llvm::json::Array array;
  for (const auto& [key, entry] : sorted) array.push_back(object_of(entry));
  return print_json(std::move(array), 2) + "\n";
}

[[gnu::cold]] llvm::Expected<std::vector<TuningEntry>> read_tuning(llvm::StringRef text,
                                                                   std::vector<std::string>* skipped) {
  llvm::Expected<llvm::json::Value> value = parse_json(text);
  if (!value) return damaged_tuning_entry(take_status(value.takeError()).message());
  const llvm::json::Array* const array = value->getAsArray();
  if (array == nullptr) return damaged_tuning_entry("it is not a JSON array");
  std::vector<TuningEntry> entries;
  for (const llvm::json::Value& element : *array) {
    llvm::Expected<TuningEntry> entry = entry_of(element);
    if (entry) {
      entries.push_back(std::move(*entry));
    } else {
      std::string why = take_status(entry.takeError()).message();
      if (skipped != nullptr) skipped->push_back(std::move(why));
    }
  }
  return entries;
}

[[gnu::cold]] bool has_newer_schema(llvm::StringRef text) {
  const auto is_newer = [](const llvm::json::Value& element) {
    const llvm::json::Object* const entry = element.getAsObject();
    if (entry == nullptr) return false;
    const auto schema = entry->getInteger("schema");
    return schema && *schema > kTuningSchema;
  };
  llvm::Expected<llvm::json::Value> value = parse_json(text);
  if (!value) {
    llvm::consumeError(value.takeError());
    return false;
  }
  const llvm::json::Array* const array = value->getAsArray();
  return array != nullptr && std::any_of(array->begin(), array->end(), is_newer);
}

}  // namespace minuet
