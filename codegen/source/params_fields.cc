#include "codegen/source/params_fields.h"

namespace minuet::params_fields_detail {

void add_field(ParamsField field, const char* prefix, const char* name, std::vector<ParamsField>& fields) {
  field.name = std::string(prefix) + (*prefix == '\0' ? "" : ".") + name;
  fields.push_back(std::move(field));
}

}  // namespace minuet::params_fields_detail
