#include "tools/minuet/readers/cloud_builder.h"

#include "llvm/ADT/StringSwitch.h"

namespace minuet::tool {

int target_of(llvm::StringRef name) {
  return llvm::StringSwitch<int>(name)
      .Case("x", 0)
      .Case("y", 1)
      .Case("z", 2)
      .Cases("intensity", "reflectivity", "scalar_intensity", "scalar_Intensity", 3)
      .Default(-1);
}

CloudBuilder::CloudBuilder(std::vector<CloudField> fields) : fields_(std::move(fields)) {
  bool taken[4] = {};
  for (CloudField& field : fields_) {
    if (field.target >= 0 && taken[field.target]) field.target = -1;
    if (field.target >= 0) taken[field.target] = true;
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

void CloudBuilder::add_text(size_t field, double value) {
  const CloudField& of = fields_[field];
  if (of.type == Scalar::F32) value = static_cast<double>(static_cast<float>(value));
  if (of.target >= 0) cloud_.points.back()[static_cast<size_t>(of.target)] = value;
  if (attribute_of_[field] < 0) return;
  append_scalar(of.type, value, cloud_.attributes[static_cast<size_t>(attribute_of_[field])].values);
}

Cloud CloudBuilder::finish(llvm::StringRef singular, llvm::StringRef plural,
                           const std::vector<std::string>& names) {
  std::string positions[3], intensity = "none (0)";
  for (size_t i = 0; i < fields_.size(); ++i) {
    const CloudField& field = fields_[i];
    if (field.target == 3) intensity = (singular + " " + names[i]).str();
    if (field.target < 0 || field.target > 2) continue;
    positions[field.target] = names[i];
    const bool is_narrow = field.type == Scalar::F16 || field.type == Scalar::F32;
    cloud_.position_types[static_cast<size_t>(field.target)] = is_narrow ? field.type : Scalar::F64;
  }
  cloud_.columns = ("x y z <- " + plural + " " + positions[0] + " " + positions[1] + " " + positions[2] +
                    ", intensity <- " + intensity)
                       .str();
  return std::move(cloud_);
}

}  // namespace minuet::tool
