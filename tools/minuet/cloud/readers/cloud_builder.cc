#include "tools/minuet/cloud/readers/cloud_builder.h"

#include "llvm/ADT/STLExtras.h"
#include "tools/minuet/base/error.h"

namespace minuet::tool {

namespace {

constexpr llvm::StringLiteral kIntensityNames[] = {"intensity", "reflectivity", "scalar_intensity"};

/// Returns the indices of the fields whose names `is_meant` accepts. Fields of padding bytes (kPaddingField)
/// are left out.
template <class Predicate>
std::vector<size_t> places_of(const std::vector<CloudField>& fields, Predicate is_meant) {
  std::vector<size_t> places;
  for (size_t i = 0; i < fields.size(); ++i) {
    if (fields[i].name != kPaddingField && is_meant(llvm::StringRef(fields[i].name))) places.push_back(i);
  }
  return places;
}

/// Returns the indices of the fields with exactly this name. If there are none, returns those of the fields
/// whose names differ from it only in case.
std::vector<size_t> places_named(const std::vector<CloudField>& fields, llvm::StringRef name) {
  std::vector<size_t> places = places_of(fields, [&](llvm::StringRef other) { return other == name; });
  if (!places.empty()) return places;
  return places_of(fields, [&](llvm::StringRef other) { return other.equals_insensitive(name); });
}

std::vector<std::string> names_at(const std::vector<CloudField>& fields, const std::vector<size_t>& places) {
  std::vector<std::string> names;
  names.reserve(places.size());
  for (const size_t place : places) names.push_back(fields[place].name);
  return names;
}

std::string names_of(const std::vector<CloudField>& fields) {
  return list_of(names_at(fields, places_of(fields, [](llvm::StringRef) { return true; })));
}

llvm::Error take_named_intensity(std::vector<CloudField>& fields, const std::string& name,
                                 const char* singular) {
  const std::vector<size_t> places = places_named(fields, name);
  if (places.empty()) {
    return bad_input("--intensity-field '{0}': there is no such {1} among {2}", name, singular,
                     names_of(fields));
  }
  if (places.size() > 1) {
    return bad_input("--intensity-field '{0}' may mean {1}: write the name exactly as the file does", name,
                     list_of(names_at(fields, places)));
  }
  CloudField& field = fields[places.front()];
  if (field.target >= 0) {
    return bad_input("--intensity-field '{0}' is a position, not an intensity: name another {1}", name,
                     singular);
  }
  field.target = 3;
  return llvm::Error::success();
}

void take_usual_intensity(std::vector<CloudField>& fields) {
  std::vector<size_t> places =
      places_of(fields, [](llvm::StringRef name) { return llvm::is_contained(kIntensityNames, name); });
  if (places.empty()) {
    places = places_of(fields, [](llvm::StringRef name) {
      return llvm::is_contained(kIntensityNames, llvm::StringRef(name.lower()));
    });
  }
  if (!places.empty()) fields[places.front()].target = 3;
}

}  // namespace

std::string list_of(const std::vector<std::string>& names) {
  constexpr size_t kShown = 8;
  std::string list;
  for (size_t i = 0; i < names.size() && i < kShown; ++i) list += (i == 0 ? "" : ", ") + names[i];
  if (names.size() > kShown) list += " and " + std::to_string(names.size() - kShown) + " more";
  return list;
}

llvm::Error assign_targets(std::vector<CloudField>& fields, const std::optional<std::string>& intensity_field,
                           const char* singular) {
  for (CloudField& field : fields) field.target = -1;
  constexpr llvm::StringLiteral kAxes[] = {"x", "y", "z"};
  for (int axis = 0; axis < 3; ++axis) {
    const std::vector<size_t> places = places_named(fields, kAxes[axis]);
    if (places.empty()) {
      return bad_input("the points need x, y and z, but there is no {0} '{1}' among {2}", singular,
                       kAxes[axis], names_of(fields));
    }
    fields[places.front()].target = axis;
  }
  if (intensity_field) return take_named_intensity(fields, *intensity_field, singular);
  take_usual_intensity(fields);
  return llvm::Error::success();
}

CloudBuilder::CloudBuilder(std::vector<CloudField> fields) : fields_(std::move(fields)) {
  for (const CloudField& field : fields_) {
    const bool is_attribute = (field.target < 0 && field.name != kPaddingField) || field.target == 3;
    attribute_of_.push_back(is_attribute ? static_cast<int>(cloud_.attributes.size()) : -1);
    if (is_attribute) cloud_.attributes.push_back({field.name, field.type, {}});
  }
}

void CloudBuilder::reserve(size_t rows) {
  cloud_.points.reserve(rows);
  for (Attribute& attribute : cloud_.attributes) {
    attribute.values.reserve(rows * static_cast<size_t>(scalar_bytes(attribute.type)));
  }
}

void CloudBuilder::add(size_t field, const char* bytes, bool big_endian) {
  const CloudField& of = fields_[field];
  if (of.target >= 0) {
    cloud_.points.back()[static_cast<size_t>(of.target)] = decode_scalar(of.type, bytes, big_endian);
  }
  if (attribute_of_[field] < 0) return;
  append_scalar(of.type, bytes, big_endian,
                cloud_.attributes[static_cast<size_t>(attribute_of_[field])].values);
}

Cloud CloudBuilder::finish(llvm::StringRef singular, llvm::StringRef plural,
                           const std::vector<std::string>& names, llvm::StringRef flag) {
  std::string positions[3], intensity = "none (0)";
  std::vector<std::string> others;
  for (size_t i = 0; i < fields_.size(); ++i) {
    const CloudField& field = fields_[i];
    if (field.target == 3) intensity = (singular + " " + names[i]).str();
    if (field.target < 0 && attribute_of_[i] >= 0) others.push_back(names[i]);
    if (field.target < 0 || field.target > 2) continue;
    positions[field.target] = names[i];
    const bool is_narrow = field.type == Scalar::F16 || field.type == Scalar::F32;
    cloud_.position_types[static_cast<size_t>(field.target)] = is_narrow ? field.type : Scalar::F64;
  }
  cloud_.columns = ("x y z <- " + plural + " " + positions[0] + " " + positions[1] + " " + positions[2] +
                    ", intensity <- " + intensity)
                       .str();
  const bool has_intensity = intensity != "none (0)";
  if (!has_intensity && !others.empty()) {
    const llvm::StringRef state = flag == "--intensity-field" ? "named" : "known to be the";
    cloud_.no_intensity =
        ("No " + singular + " is " + state + " intensity, so the intensity is 0. Choose one of " +
         list_of(others) + " with " + flag + ".")
            .str();
  }
  return std::move(cloud_);
}

}  // namespace minuet::tool
