// Spec -> source: the translation unit and the name expression of one kernel. Pure.
//
// A Spec names its own fields (Spec::visit), kernels.inc names its kernel, header and Params; so a
// new kernel needs no line here.
#pragma once

#include <string>
#include <type_traits>
#include <vector>

#include "kernels_templates/shared/gmas_kernels.h"
#include "kernels_templates/shared/map_kernels.h"

namespace minuet {

template <class Spec>
struct KernelRow;  // name, header, Params, least_sm: one specialization a row of kernels.inc

#define MINUET_KERNEL_ROW(kernel, kernel_header, KernelSpec, KernelParams, sm) \
  template <>                                                                  \
  struct KernelRow<KernelSpec> {                                               \
    using Params = KernelParams;                                               \
    static constexpr const char* name = #kernel;                               \
    static constexpr const char* header = kernel_header;                       \
    static constexpr const char* spec_type = #KernelSpec;                      \
    static constexpr const char* params_type = #KernelParams;                  \
    static constexpr int least_sm = sm;                                        \
  };
#include "kernels_templates/kernels.inc"

/// What the compiler gets for one kernel. Equal requests have equal fields.
struct KernelSource {
  std::string display_name;     // "gather-f16-c64-t8-v16-n128": program name, cache prefix, NVTX name
  std::string text;             // includes the header, asserts sizes
  std::string name_expression;  // "minuet::gather<minuet::GatherSpec{...}>"
  int least_sm = 80;
};

/// One field of a Spec, as text for the source and as a short tag for the display name.
struct SpecField {
  std::string name;
  std::string value;  // C++ expression
  std::string tag;    // letters and digits
};

SpecField spec_field(const char* name, DType value);
SpecField spec_field(const char* name, KeyType value);
SpecField spec_field(const char* name, Activation value);
SpecField spec_field(const char* name, ScanInput value);
SpecField spec_field(const char* name, bool value);
SpecField spec_field(const char* name, i32 value);

template <class Spec>
std::vector<SpecField> spec_fields(const Spec& spec) {
  std::vector<SpecField> fields;
  spec.visit([&](const char* name, const auto& value) { fields.push_back(spec_field(name, value)); });
  return fields;
}

KernelSource emit_fields(const char* name, const char* header, const char* spec_type, const char* params_type,
                         std::size_t params_bytes, int least_sm, const std::vector<SpecField>& fields);

/// The source of the kernel that `spec` describes.
template <class Spec>
KernelSource emit(const Spec& spec) {
  using Row = KernelRow<Spec>;
  return emit_fields(Row::name, Row::header, Row::spec_type, Row::params_type, sizeof(typename Row::Params),
                     Row::least_sm, spec_fields(spec));
}

/// The kernel's name with every field of the Spec: unique per Spec.
template <class Spec>
std::string display_name(const Spec& spec) {
  return emit(spec).display_name;
}

}  // namespace minuet
