// Describes the fields of a row of a point file, and builds a cloud from such rows.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include "tools/minuet/cloud/cloud.h"

namespace minuet::tool {

/// Describes one number of a row.
struct CloudField {
  std::string name;  ///< The field becomes an attribute with this name.
  Scalar type = Scalar::F32;
  int target = -1;  ///< The values 0 to 3 mean x, y, z and intensity; -1 means an attribute only.
};

/// The Point Cloud Library gives this name to padding bytes, which become no attribute.
constexpr const char* kPaddingField = "_";

/// Sets `target` of each field by its name. Positions come from the fields x, y and z. The intensity is the
/// field `intensity_field` if that is given, and otherwise the first field named intensity, reflectivity or
/// scalar_intensity. A colour becomes the intensity only if `intensity_field` names it. Case does not matter,
/// but an exact match takes precedence. `singular` is the format's word for a field, for example "property".
/// Returns an error if x, y or z is missing. Also returns an error if `intensity_field` is missing, is a
/// position, or differs only in case from several fields.
llvm::Error assign_targets(std::vector<CloudField>& fields, const std::optional<std::string>& intensity_field,
                           const char* singular);

/// Joins at most the first eight names, as in "a, b, c", and says how many more there are.
std::string list_of(const std::vector<std::string>& names);

/// Builds a cloud of points row by row.
class CloudBuilder {
 public:
  /// No two fields may have the same target, except -1.
  explicit CloudBuilder(std::vector<CloudField> fields);

  const std::vector<CloudField>& fields() const { return fields_; }
  void reserve(size_t rows);
  /// Begins the next point with zeros. The caller must then add every field once, in any order.
  void add_point() { cloud_.points.push_back({}); }
  /// Adds the number at `bytes`, which has the type of the field, to the current point.
  void add(size_t field, const char* bytes, bool big_endian);
  /// Adds a number, which was parsed from text as the type of the field, to the current point.
  void add(size_t field, const ScalarBytes& value) { add(field, value.data(), /*big_endian=*/false); }

  /// Returns the cloud, and fills its texts `columns` and `no_intensity`. These texts use the file format's
  /// words for a field (`singular`, `plural`), the fields' `names`, and the `flag` that selects the
  /// intensity.
  Cloud finish(llvm::StringRef singular, llvm::StringRef plural, const std::vector<std::string>& names,
               llvm::StringRef flag);

 private:
  std::vector<CloudField> fields_;
  /// Maps each field to the index of its attribute, or to -1 if it has none.
  std::vector<int> attribute_of_;
  Cloud cloud_;
};

}  // namespace minuet::tool
