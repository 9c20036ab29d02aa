// What a row of a point file has, and the cloud that its rows make.
#pragma once

#include <string>
#include <vector>

#include "llvm/ADT/StringRef.h"
#include "tools/minuet/cloud.h"

namespace minuet::tool {

/// One number of a row.
struct CloudField {
  std::string name;  ///< of the attribute that it becomes
  Scalar type = Scalar::F32;
  int target = -1;  ///< 0 to 3: x, y, z, intensity; -1: an attribute only
};

/// What the Point Cloud Library calls bytes that mean nothing: no attribute.
constexpr const char* kPaddingField = "_";

/// The target of a field by its name: x, y, z, intensity, reflectivity, scalar_intensity, scalar_Intensity.
/// Colours are none of them.
int target_of(llvm::StringRef name);

class CloudBuilder {
 public:
  /// Of several fields with one target the first counts.
  explicit CloudBuilder(std::vector<CloudField> fields);

  const std::vector<CloudField>& fields() const { return fields_; }
  void reserve(size_t rows);
  /// Begins the next point, of zeros; every field is to be added to it, in any order.
  void add_point() { cloud_.points.push_back({}); }
  /// The number at `bytes`, in the field's type.
  void add(size_t field, const char* bytes, bool big_endian);
  /// The same with a number that stood there as text, which has the digits of the field's type.
  void add_text(size_t field, double value);

  /// `singular` and `plural` are what fields are called in such a file; `names` what each of them is called.
  Cloud finish(llvm::StringRef singular, llvm::StringRef plural, const std::vector<std::string>& names);

 private:
  std::vector<CloudField> fields_;
  std::vector<int> attribute_of_;  ///< -1: x, y or z
  Cloud cloud_;
};

}  // namespace minuet::tool
