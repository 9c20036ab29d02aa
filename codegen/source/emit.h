// Makes the source of one kernel from its Spec: the translation unit and the name expression. All functions
// are pure.
//
// A Spec names its own fields (Spec::visit), and kernels.inc names its kernel, header and Params. A new
// kernel therefore needs no line here, except the include of a new file in shared/.
#pragma once

#include <set>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "kernels_templates/shared/cell_index.h"
#include "kernels_templates/shared/fused_kernels.h"
#include "kernels_templates/shared/gmas_kernels.h"
#include "kernels_templates/shared/map_kernels.h"
#include "kernels_templates/shared/pool_kernels.h"
#include "kernels_templates/shared/view_kernels.h"
#include "llvm/ADT/StringRef.h"

namespace minuet {

constexpr int kLeastProgrammatic = 90;  // code for an older capability does not wait for its predecessor

/// The values that follow the least SM in a row of kernels.inc. Clusters require sm_90.
struct KernelNeeds {
  i32 threads = 0;               // of a block; 0: the Spec's `threads`
  i32 dynamic_shared_bytes = 0;  // of a block
  i32 cluster = 1;               // blocks per cluster, at most 8; the grid is a multiple of it
  // The kernel may start before its predecessor has ended, and then waits for it. Requires
  // kLeastProgrammatic.
  bool programmatic = false;
  const char* exact_arch = "";  // the only architecture, for example "sm_90a"; empty: any
  const char* options = "";     // options of NVRTC beside those of compile_options(), separated by spaces
  i32 least_sm = 0;             // for this Spec, if it is higher than the row's
};

template <class Spec>
struct KernelRow;  // specialized for each row of kernels.inc, or of a test's list

#define MINUET_DEFINE_KERNEL_ROW(kernel, kernel_header, KernelSpec, KernelParams, sm, ...)                \
  template <>                                                                                             \
  struct KernelRow<KernelSpec> {                                                                          \
    using Params = KernelParams;                                                                          \
    static constexpr const char* name = #kernel;                                                          \
    static constexpr const char* header = kernel_header;                                                  \
    static constexpr const char* spec_type = #KernelSpec;                                                 \
    static constexpr const char* params_type = #KernelParams;                                             \
    static constexpr int least_sm = sm;                                                                   \
    static constexpr KernelNeeds needs([[maybe_unused]] const KernelSpec& spec) { return {__VA_ARGS__}; } \
  };
#define MINUET_KERNEL_ROW MINUET_DEFINE_KERNEL_ROW
#include "kernels_templates/kernels.inc"

/// Returns the needs of the kernel for `spec`, including its threads.
template <class Spec>
constexpr KernelNeeds kernel_needs(const Spec& spec) {
  KernelNeeds needs = KernelRow<Spec>::needs(spec);
  if constexpr (requires { spec.threads; }) {
    if (needs.threads == 0) needs.threads = spec.threads;
  }
  return needs;
}

/// The input of the compiler for one kernel. Equal requests have equal fields.
struct KernelSource {
  std::string display_name;     // "gather-f16-c64-t8-v16-n128": program name, cache prefix, NVTX name
  std::string text;             // includes the header and asserts sizes
  std::string name_expression;  // for example "minuet::gather<minuet::GatherSpec{...}>"
  int least_sm = 80;
  std::string exact_arch = {};            // the only architecture; empty: any from least_sm on
  std::vector<std::string> options = {};  // options of NVRTC beside those of every kernel
};

/// Returns the architecture that the kernel needs, such as "sm_90 or newer" or "sm_90a and no other", if it
/// cannot be compiled for `arch`; otherwise an empty string.
std::string missing_arch(const KernelSource& source, llvm::StringRef arch);

/// Returns true if a kernel may use this option. Allowed options change code and name no file, because
/// requests may come from files of other users.
bool is_kernel_option(llvm::StringRef option);

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
SpecField spec_field(const char* name, IndexStep value);
SpecField spec_field(const char* name, WeightRoad value);
SpecField spec_field(const char* name, MmaUnit value);
SpecField spec_field(const char* name, Reduction value);
SpecField spec_field(const char* name, bool value);
SpecField spec_field(const char* name, i32 value);

template <class Spec>
std::vector<SpecField> spec_fields(const Spec& spec) {
  std::vector<SpecField> fields;
  spec.visit([&](const char* name, const auto& value) { fields.push_back(spec_field(name, value)); });
  return fields;
}

std::string display_name(const char* name, const std::vector<SpecField>& fields);
KernelSource emit_fields(const char* name, const char* header, const char* spec_type, const char* params_type,
                         std::size_t params_bytes, int least_sm, const std::vector<SpecField>& fields,
                         const KernelNeeds& needs = {});

/// Returns the source of the kernel for `spec`.
template <class Spec>
KernelSource emit(const Spec& spec) {
  using Row = KernelRow<Spec>;
  return emit_fields(Row::name, Row::header, Row::spec_type, Row::params_type, sizeof(typename Row::Params),
                     Row::least_sm, spec_fields(spec), kernel_needs(spec));
}

/// Returns the kernel's name with every field of the Spec, which is unique for each Spec.
template <class Spec>
std::string display_name(const Spec& spec) {
  return display_name(KernelRow<Spec>::name, spec_fields(spec));
}

/// Collects the sources of kernels, each of them once.
class SourceList {
 public:
  template <class Spec>
  void add(const Spec& spec) {
    if (names_.insert(display_name(spec)).second) sources_.push_back(emit(spec));
  }
  std::vector<KernelSource> take() { return std::move(sources_); }

 private:
  std::set<std::string> names_;
  std::vector<KernelSource> sources_;
};

/// Returns every kernel of a choice. Requires an overload of add_sources() for it.
template <class Choice>
std::vector<KernelSource> sources_of(const Choice& choice) {
  SourceList list;
  add_sources(list, choice);
  return list.take();
}

}  // namespace minuet
