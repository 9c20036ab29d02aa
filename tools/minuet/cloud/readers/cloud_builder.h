// The fields of a row of a point file, and the construction of a cloud from such rows.
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
  std::string name;  ///< also the name of the attribute
  Scalar type = Scalar::F32;
  int target = -1;  ///< 0 to 3 mean x, y, z, intensity; -1 means an attribute only
};

/// The Point Cloud Library's name for padding bytes, which become no attribute.
constexpr const char* kPaddingField = "_";

/// Sets the fields' targets by their names: x, y and z, and for the intensity `intensity_field` if given,
/// otherwise the first field named intensity, reflectivity or scalar_intensity. Case does not matter, but an
/// exact match takes precedence. Colours are never the intensity. `singular` is the format's word for a
/// field, for example "property". Returns an error if x, y or z is missing, or if the named field is missing,
/// is a position, or matches several fields only in other cases.
llvm::Error assign_targets(std::vector<CloudField>& fields, const std::optional<std::string>& intensity_field,
                           const char* singular);

/// Joins at most eight names: "a, b, c". Says how many more there are.
std::string list_of(const std::vector<std::string>& names);

/// Builds a cloud of points row by row.
class CloudBuilder {
 public:
  /// No two fields may have the same target from 0 to 3.
  explicit CloudBuilder(std::vector<CloudField> fields);

  const std::vector<CloudField>& fields() const { return fields_; }
  void reserve(size_t rows);
  /// Begins the next point with zeros. Every field must then be added once, in any order.
  void add_point() { cloud_.points.push_back({}); }
  /// Adds the number at `bytes`, in the field's type.
  void add(size_t field, const char* bytes, bool big_endian);
  /// Adds a number that was parsed from text.
  void add(size_t field, const ScalarBytes& value) { add(field, value.data(), /*big_endian=*/false); }

  /// Returns the cloud. If there are further fields but no intensity, it gets a warning, which uses the
  /// format's words for a field (`singular`, `plural`), the fields' `names`, and the `flag` that selects the
  /// intensity.
  Cloud finish(llvm::StringRef singular, llvm::StringRef plural, const std::vector<std::string>& names,
               llvm::StringRef flag);

 private:
  std::vector<CloudField> fields_;
  std::vector<int> attribute_of_;  ///< index of the field's attribute; -1 for none
  Cloud cloud_;
};

}  // namespace minuet::tool
