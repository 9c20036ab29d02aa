// What a row of a point file has, and the cloud that its rows make.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include "tools/minuet/cloud/cloud.h"

namespace minuet::tool {

/// One number of a row.
struct CloudField {
  std::string name;  ///< of the attribute that it becomes
  Scalar type = Scalar::F32;
  int target = -1;  ///< 0 to 3: x, y, z, intensity; -1: an attribute only
};

/// What the Point Cloud Library calls bytes that mean nothing: no attribute.
constexpr const char* kPaddingField = "_";

/// Sets the fields' targets by their names, in any case: x, y and z; and for the intensity `intensity_field`
/// where it is given, else the first of intensity, reflectivity and scalar_intensity. A name that is written
/// exactly so goes before one in another case. Colours are none of them. `singular` is what fields are called
/// in such a file ("property"). An error where x, y or z is missing, or the named field is missing, is a
/// position, or is meant by several fields in other cases.
llvm::Error assign_targets(std::vector<CloudField>& fields, const std::optional<std::string>& intensity_field,
                           const char* singular);

/// "a, b, c", of at most eight names.
std::string list_of(const std::vector<std::string>& names);

class CloudBuilder {
 public:
  /// No two fields may have one target.
  explicit CloudBuilder(std::vector<CloudField> fields);

  const std::vector<CloudField>& fields() const { return fields_; }
  void reserve(size_t rows);
  /// Begins the next point, of zeros; every field is to be added to it, in any order.
  void add_point() { cloud_.points.push_back({}); }
  /// Adds the number at `bytes`, in the field's type.
  void add(size_t field, const char* bytes, bool big_endian);
  /// Adds a number that stood in the file as text.
  void add(size_t field, const ScalarBytes& value) { add(field, value.data(), /*big_endian=*/false); }

  /// `singular` and `plural` are what fields are called in such a file, `names` what each of them is called,
  /// `flag` the one that chooses the intensity, for a warning where there are fields and none is taken.
  Cloud finish(llvm::StringRef singular, llvm::StringRef plural, const std::vector<std::string>& names,
               llvm::StringRef flag);

 private:
  std::vector<CloudField> fields_;
  std::vector<int> attribute_of_;  ///< -1: x, y or z
  Cloud cloud_;
};

}  // namespace minuet::tool
