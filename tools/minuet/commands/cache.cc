// `minuet cache` lists, inspects, extracts and verifies the kernels of the kernel cache or of a bundle, and
// prunes the cache.
#include <CLI/CLI.hpp>
#include <map>

#include "codegen/base/json_text.h"
#include "codegen/base/number_text.h"
#include "codegen/cache/cache_options.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"
#include "tools/minuet/base/error.h"
#include "tools/minuet/base/output_file.h"
#include "tools/minuet/base/progress.h"
#include "tools/minuet/commands/cache_source.h"
#include "tools/minuet/commands/commands.h"
#include "tools/minuet/flags/flags.h"
#include "tools/minuet/flags/rules.h"
#include "tools/minuet/library/report.h"

namespace minuet::tool {
namespace {

constexpr const char* kCacheFooter = R"(
The actions work on the cache folder. With --bundle, all except prune work on a bundle, which is a file of
kernels that `minuet precompile` wrote. KEY is the start of an entry's key or of a kernel's name.

Examples:
  minuet cache list
  minuet cache inspect gather-f16 --bundle kernels/minuet-sm_90a.bundle
  minuet cache extract 3fa9 --output gather.cubin          # for cuobjdump and nvdisasm
  minuet cache verify --json                               # exit code 1 if an entry is damaged
  minuet cache prune --max-bytes 100000000)";

using llvm::json::Array;
using llvm::json::Object;

/// Holds a kernel of the cache or bundle after an attempt to read it. It has either an entry or, in `damage`,
/// what is wrong with the entry.
struct ReadKernel {
  StoredKernel stored;
  std::optional<Entry> entry;
  std::string damage;
};

void print_object(llvm::json::Object object) { llvm::outs() << json_text(std::move(object)); }

llvm::Expected<std::vector<ReadKernel>> read_all(CacheSource& source) {
  MINUET_ASSIGN(const std::vector<StoredKernel> stored, source.list());
  std::vector<ReadKernel> kernels;
  Progress progress("reading kernels");
  for (const StoredKernel& one : stored) {
    progress.step(static_cast<int64_t>(kernels.size()), static_cast<int64_t>(stored.size()));
    llvm::Expected<Entry> entry = source.read(one.key);
    if (entry) {
      kernels.push_back({one, std::move(*entry), ""});
    } else {
      const StatusError status = take_status(entry.takeError());
      if (status.code() == StatusCode::NotFound) continue;  // The entry was removed after it was listed.
      kernels.push_back({one, std::nullopt, status.message()});
    }
  }
  return kernels;
}

Object to_json(const ReadKernel& kernel) {
  Object object{{"key", kernel.stored.key}, {"stored_bytes", kernel.stored.stored_bytes}};
  if (!kernel.entry) {
    object["damage"] = llvm::json::fixUTF8(kernel.damage);
    return object;
  }
  const Binary& binary = kernel.entry->binary;
  object["name"] = binary.display_name;
  object["arch"] = binary.arch;
  object["cubin_bytes"] = static_cast<int64_t>(binary.cubin.size());
  object["age_hours"] = kernel.stored.age_hours;
  return object;
}

llvm::Error list_kernels(const Arguments& arguments) {
  MINUET_ASSIGN(CacheSource source, open_cache_source(arguments));
  MINUET_ASSIGN(const std::vector<ReadKernel> kernels, read_all(source));
  if (arguments.to_json) {
    Array rows;
    for (const ReadKernel& kernel : kernels) rows.push_back(to_json(kernel));
    print_object(Object{{"where", source.where()}, {"kernels", std::move(rows)}});
    return llvm::Error::success();
  }
  llvm::outs() << llvm::formatv("{0,-10} {1,9} {2,9} {3,8}  {4}  {5}\n", "arch", "cubin", "stored", "hours",
                                "key         ", "name");
  for (const ReadKernel& kernel : kernels) {
    const llvm::StringRef key = llvm::StringRef(kernel.stored.key).take_front(12);
    if (!kernel.entry) {
      llvm::outs() << llvm::formatv("damaged kernel {0}: {1}\n", key, kernel.damage);
      continue;
    }
    const Binary& binary = kernel.entry->binary;
    llvm::outs() << llvm::formatv("{0,-10} {1,9} {2,9} {3,8:f1}  {4}  {5}\n", binary.arch,
                                  binary.cubin.size(), kernel.stored.stored_bytes,
                                  real(kernel.stored.age_hours), key, binary.display_name);
  }
  llvm::outs() << llvm::formatv("{0} kernels in {1}\n", kernels.size(), source.where());
  return llvm::Error::success();
}

bool starts_with(llvm::StringRef text, llvm::StringRef start) {
  return text.take_front(start.size()) == start;
}

/// Finds the kernel with the name `key`, or otherwise the only kernel whose key or name starts with `key`.
llvm::Expected<ReadKernel> find_kernel(CacheSource& source, const std::string& key) {
  MINUET_ASSIGN(const std::vector<ReadKernel> kernels, read_all(source));
  std::vector<const ReadKernel*> named, fitting;
  for (const ReadKernel& kernel : kernels) {
    const std::string name = kernel.entry ? kernel.entry->binary.display_name : "";
    if (name == key) named.push_back(&kernel);
    if (starts_with(name, key) || starts_with(kernel.stored.key, key)) fitting.push_back(&kernel);
  }
  if (!named.empty()) fitting = named;
  if (fitting.empty()) {
    return bad_input(
        "no kernel in {0} has a key or name that starts with '{1}': minuet cache list shows the keys and "
        "names",
        source.where(), key);
  }
  if (fitting.size() > 1) {
    return bad_input(
        "{0} kernels in {1} match '{2}': give more of the name, or the start of a key (minuet cache list "
        "shows the keys and names)",
        fitting.size(), source.where(), key);
  }
  if (!fitting[0]->entry) return broken("the kernel '" + key + "' cannot be used: " + fitting[0]->damage);
  return *fitting[0];
}

llvm::Error inspect_kernel(const Arguments& arguments) {
  MINUET_ASSIGN(CacheSource source, open_cache_source(arguments));
  MINUET_ASSIGN(const ReadKernel kernel, find_kernel(source, arguments.key));
  const Entry& entry = *kernel.entry;
  const Binary& binary = entry.binary;
  Object object = to_json(kernel);
  object["request_key"] = entry.request_key;
  object["build_key"] = entry.build_key;
  object["name_expression"] = entry.name_expression;
  object["lowered_name"] = binary.lowered_name;
  object["registers"] = binary.registers;
  object["shared_bytes"] = binary.shared_bytes;
  object["local_bytes"] = binary.local_bytes;
  object["max_threads"] = binary.max_threads;
  object["params_bytes"] = binary.params_bytes;
  object["compile_ms"] = binary.compile_ms;
  object["compiler"] = binary.compiler_id;
  object["log"] = llvm::json::fixUTF8(binary.log);
  if (arguments.to_json) {
    print_object(std::move(object));
    return llvm::Error::success();
  }
  for (const auto& field : object) {
    if (field.first == "log") continue;
    llvm::outs() << llvm::formatv("{0,-16} ", llvm::StringRef(field.first));
    if (const auto text = field.second.getAsString()) {
      llvm::outs() << *text << "\n";
    } else {
      llvm::outs() << print_json(field.second) << "\n";
    }
  }
  llvm::outs() << binary.log;
  return llvm::Error::success();
}

/// Refuses an output inside the cache folder, whose files only the library may change.
llvm::Error check_outside(llvm::StringRef cache, llvm::StringRef output) {
  if (!starts_with(resolved(output), resolved(cache) + "/")) return llvm::Error::success();
  return bad_input(
      "--output '{0}' is in the cache folder {1}, where only the library may write: name a file in another "
      "folder",
      output, cache);
}

llvm::Error extract_kernel(const Arguments& arguments) {
  MINUET_TRY(check_distinct({{"--output", arguments.output}}, {{"--bundle", arguments.bundle}}));
  MINUET_ASSIGN(CacheSource source, open_cache_source(arguments));
  if (arguments.bundle.empty()) MINUET_TRY(check_outside(source.where(), arguments.output));
  MINUET_ASSIGN(const ReadKernel kernel, find_kernel(source, arguments.key));
  const Binary& binary = kernel.entry->binary;
  MINUET_TRY(write_file(arguments.output, binary.cubin));
  if (arguments.to_json) {
    Object object = to_json(kernel);
    object["path"] = arguments.output;
    print_object(std::move(object));
  } else {
    llvm::outs() << llvm::formatv("{0}: {1} for {2}, {3} bytes\n", arguments.output, binary.display_name,
                                  binary.arch, binary.cubin.size());
  }
  return llvm::Error::success();
}

llvm::Error verify_kernels(const Arguments& arguments) {
  MINUET_ASSIGN(CacheSource source, open_cache_source(arguments));
  MINUET_ASSIGN(const std::vector<ReadKernel> kernels, read_all(source));
  MINUET_ASSIGN(std::vector<Damage> damaged, source.other_damage());
  for (const ReadKernel& kernel : kernels) {
    if (!kernel.entry) damaged.push_back({kernel.stored.key, kernel.damage});
  }
  if (arguments.to_json) {
    Array rows;
    for (const auto& [what, why] : damaged)
      rows.push_back(Object{{"key", what}, {"damage", llvm::json::fixUTF8(why)}});
    print_object(Object{{"where", source.where()},
                        {"kernels", static_cast<int64_t>(kernels.size())},
                        {"damaged", std::move(rows)}});
  } else {
    for (const auto& [what, why] : damaged) llvm::outs() << what << ": " << why << "\n";
    llvm::outs() << llvm::formatv("{0} kernels in {1}, {2} damaged\n", kernels.size(), source.where(),
                                  damaged.size());
  }
  if (damaged.empty()) return llvm::Error::success();
  const char* const remedy = arguments.bundle.empty()
                                 ? "damaged kernels are compiled again when they are needed"
                                 : "make it again with minuet precompile";
  return broken(llvm::formatv("{0} is damaged in part; {1}", source.where(), remedy).str());
}

llvm::Error prune_store(const Arguments& arguments) {
  MINUET_ASSIGN(Store store, open_cache_store(arguments, /*read_only=*/false));
  MINUET_ASSIGN(const CacheOptions options, as_user_error(with_environment({}, process_environment())));
  StoreLimits limits;
  if (options.most_bytes != 0) limits.bytes = options.most_bytes;
  if (arguments.most_bytes) limits.bytes = *arguments.most_bytes;
  MINUET_ASSIGN(const PruneResult result, as_user_error(store.prune(limits, /*force=*/true)));
  if (!result.ran) return broken("another process is pruning the cache folder: try again later");
  if (arguments.to_json) {
    print_object(Object{{"where", store.directory()},
                        {"entries", static_cast<int64_t>(result.entries)},
                        {"bytes", static_cast<int64_t>(result.bytes)},
                        {"removed_entries", static_cast<int64_t>(result.removed_entries)},
                        {"removed_bytes", static_cast<int64_t>(result.removed_bytes)},
                        {"removed_orphans", static_cast<int64_t>(result.removed_orphans)},
                        {"removed_locks", static_cast<int64_t>(result.removed_locks)}});
    return llvm::Error::success();
  }
  llvm::outs() << llvm::formatv(
      "{0}: removed {1} entries ({2} bytes), {3} leftover files and {4} lock files; "
      "{5} entries ({6} bytes) remain\n",
      store.directory(), result.removed_entries, result.removed_bytes, result.removed_orphans,
      result.removed_locks, result.entries, result.bytes);
  return llvm::Error::success();
}

struct Sum {
  int64_t kernels = 0, cubin_bytes = 0, stored_bytes = 0;
  void add(const ReadKernel& kernel) {
    ++kernels;
    stored_bytes += kernel.stored.stored_bytes;
    if (kernel.entry) cubin_bytes += static_cast<int64_t>(kernel.entry->binary.cubin.size());
  }
  Object json() const {
    return Object{{"kernels", kernels}, {"cubin_bytes", cubin_bytes}, {"stored_bytes", stored_bytes}};
  }
};

llvm::Error show_stats(const Arguments& arguments) {
  MINUET_ASSIGN(CacheSource source, open_cache_source(arguments));
  MINUET_ASSIGN(const std::vector<ReadKernel> kernels, read_all(source));
  Sum all, damaged;
  std::map<std::string, Sum> archs, compilers;
  for (const ReadKernel& kernel : kernels) {
    all.add(kernel);
    if (!kernel.entry) damaged.add(kernel);
    if (!kernel.entry) continue;
    archs[kernel.entry->binary.arch].add(kernel);
    compilers[kernel.entry->binary.compiler_id].add(kernel);
  }
  if (arguments.to_json) {
    Object by_arch, by_compiler;
    for (const auto& [name, sum] : archs) by_arch[name] = sum.json();
    for (const auto& [name, sum] : compilers) by_compiler[name] = sum.json();
    Object object = all.json();
    object["where"] = source.where();
    object["damaged"] = damaged.kernels;
    object["archs"] = std::move(by_arch);
    object["compilers"] = std::move(by_compiler);
    print_object(std::move(object));
    return llvm::Error::success();
  }
  auto line = [](llvm::StringRef name, const Sum& sum) {
    llvm::outs() << llvm::formatv("{0,8} kernels {1,12} bytes of cubins {2,12} bytes stored  {3}\n",
                                  sum.kernels, sum.cubin_bytes, sum.stored_bytes, name);
  };
  line(source.where(), all);
  for (const auto& [name, sum] : archs) line(name, sum);
  for (const auto& [name, sum] : compilers) line(name, sum);
  if (damaged.kernels > 0) line("damaged", damaged);
  return llvm::Error::success();
}

}  // namespace

void add_cache_actions(CLI::App& cache, Arguments& arguments) {
  cache.footer(kCacheFooter);
  cache.require_subcommand(1);
  const auto add = [&](const char* name, const char* help, llvm::Error (*run)(const Arguments& arguments)) {
    CLI::App* const action = cache.add_subcommand(name, help);
    action->callback([&arguments, run] { arguments.action = run; });
    add_cache(*action, arguments);
    action->add_flag("--json", arguments.to_json, "print JSON instead of a table");
    return action;
  };
  const auto add_bundle = [&](CLI::App* action) {
    add_value(*action, "--bundle", arguments.bundle, "FILE", "read this bundle instead of the cache folder");
    return action;
  };
  const auto add_key = [&](CLI::App* action) {
    action->add_option("KEY", arguments.key, "start of an entry's key or of a kernel's name")->required();
    return action;
  };
  add_bundle(add("list", "List every kernel: name, architecture, bytes, age, key", list_kernels));
  add_key(
      add_bundle(add("inspect", "Show one kernel: registers, memory, compiler, log, keys", inspect_kernel)));
  CLI::App* const extract =
      add_key(add_bundle(add("extract", "Write one kernel's cubin, or PTX, to a file", extract_kernel)));
  add_value(*extract, "--output", arguments.output, "FILE", "file for the cubin or PTX")->required();
  add_bundle(add("verify", "Check every entry, and name each damaged one", verify_kernels));
  add("prune", "Remove the least recently used entries and leftover files", prune_store)
      ->add_option("--max-bytes", arguments.most_bytes,
                   "bytes to keep at most; default: $MINUET_CACHE_MAX_BYTES, otherwise 1 GiB")
      ->transform(kDecimal)
      ->check(kWholeNumber);
  add_bundle(add("stats", "Count entries and bytes by architecture and compiler", show_stats));
}

}  // namespace minuet::tool
