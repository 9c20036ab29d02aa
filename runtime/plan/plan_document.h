// Writes and reads the document of a serialized plan, which is JSON text (plan_format.h).
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/plan/plan.h"

namespace minuet {

/// Describes a bundle in a serialized plan.
struct BundlePart {
  std::string arch;
  std::uint64_t bytes = 0;
  /// Lists the ids of the compilers that made the bundle's kernels, for people who inspect the document.
  std::vector<std::string> compilers;
};

struct PlanDocument {
  Program program;
  std::optional<NetworkRecord> network;
  std::shared_ptr<const TuningSnapshot> tuning;
  std::vector<BundlePart> bundles;
  bool has_values = true;  // Says whether the values of the parameters follow.
};

/// Returns the document of the plan. Equal plans have equal documents. `has_values` says whether the values
/// of the parameters follow the document.
llvm::Expected<std::string> write_document(const Plan& plan, const std::vector<BundlePart>& bundles,
                                           bool has_values);
/// Reads a document, which may come from an untrusted source. Tuning results that were measured with other
/// kernels than those of this build are left out. Returns InvalidArgument for any other field that is not
/// valid.
llvm::Expected<PlanDocument> read_document(llvm::StringRef text);

}  // namespace minuet
