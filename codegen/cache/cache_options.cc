#include "codegen/cache/cache_options.h"

namespace minuet {
namespace {

llvm::Expected<bool> read_switch(const char* name, const Environment& environment) {
  const std::string value = environment(name);
  if (value.empty() || value == "0") return false;
  if (value == "1") return true;
  return make_error(StatusCode::InvalidArgument, "{0} is '{1}': set it to 1 or 0, or not at all", name,
                    value);
}

}  // namespace

llvm::Expected<CacheOptions> with_environment(CacheOptions options, const Environment& environment) {
  if (!options.no_jit) {
    MINUET_ASSIGN(options.no_jit, read_switch("MINUET_NO_JIT", environment));
  }
  if (!options.shared) {
    MINUET_ASSIGN(options.shared, read_switch("MINUET_CACHE_SHARED", environment));
  }
  if (!options.record) options.record = environment("MINUET_RECORD");
  if (!options.policy) options.policy = BundlePolicy::SameMajor;
  if (!options.bundle_path) options.bundle_path = environment("MINUET_BUNDLE_PATH");
  const std::string limit = environment("MINUET_CACHE_MAX_BYTES");
  if (options.most_bytes == 0 && !limit.empty() &&
      (llvm::StringRef(limit).getAsInteger(10, options.most_bytes) || options.most_bytes == 0)) {
    return make_error(StatusCode::InvalidArgument,
                      "MINUET_CACHE_MAX_BYTES is '{0}': set it to a whole number of bytes above 0", limit);
  }
  return options;
}

}  // namespace minuet
