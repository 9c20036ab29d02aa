#include "codegen/source/keys.h"

#include <algorithm>
#include <set>
#include <utility>

#include "codegen/base/arch.h"
#include "codegen/base/push_list.h"
#include "codegen/source/embed/header_blob.h"
#include "llvm/ADT/SmallVector.h"

namespace minuet {

KernelRequest::KernelRequest(KernelSource kernel, llvm::StringRef target)
    : source(std::move(kernel)), arch(target.str()), key(key_of(source, arch)) {}

std::vector<KernelRequest> requests_of(std::vector<KernelSource> sources, llvm::StringRef arch) {
  std::vector<KernelRequest> requests;
  requests.reserve(sources.size());
  for (KernelSource& source : sources) requests.emplace_back(std::move(source), arch);
  return requests;
}

std::string key_of(const KernelSource& source, llvm::StringRef arch) {
  return request_key(source, header_use(source.text).digest, compile_options(arch), arch);
}

std::string request_key(const KernelSource& source, llvm::StringRef header_digest,
                        const std::vector<std::string>& options, llvm::StringRef arch) {
  FieldHasher hasher;
  hasher.add("schema", std::to_string(kKeySchema))
      .add("name", source.display_name)
      .add("source", source.text)
      .add("headers", header_digest)
      .add("arch", arch)
      .add("output", is_ptx(arch) ? "ptx" : "cubin")
      .add("expression", source.name_expression);
  for (const std::vector<std::string>* list : {&options, &source.options}) {
    for (const std::string& option : *list) hasher.add("option", option);
  }
  return hasher.hex();
}

std::string build_key(llvm::StringRef request, llvm::StringRef compiler_id) {
  return FieldHasher().add("request", request).add("compiler", compiler_id).hex();
}

std::vector<std::string> compile_options(llvm::StringRef arch) {
  return {"--std=c++20", ("-arch=" + arch).str(),
          "--no-source-include",  // Headers come from memory only.
          // The CPU device does not fuse multiplications and additions. If the GPU did, the two would give
          // different results.
          "--fmad=false", "--ptxas-options=-v"};  // This puts registers and spills into the log.
}

// The following code finds the headers that a translation unit reads.

namespace {

// The build tool embed_headers writes the following included files together with the embedded headers.
constexpr HeaderRow kKernelHeaders[] = {
#include "codegen/kernels_headers.inc"
};
constexpr const char* kCudaDigest =
#include "codegen/cuda_headers.inc"
    ;
constexpr const char* kCcclDigest =
#include "codegen/cccl_headers.inc"
    ;

bool starts_with(llvm::StringRef text, llvm::StringRef prefix) {
  return text.take_front(prefix.size()) == prefix;
}

bool is_cccl(llvm::StringRef name) {
  return starts_with(name, "cub/") || starts_with(name, "cuda/") || starts_with(name, "thrust/");
}

bool is_cuda(llvm::StringRef name) {
  return starts_with(name, "cuda_") || starts_with(name, "nv/") || starts_with(name, "vector_");
}

class IncludeCollector {
 public:
  explicit IncludeCollector(llvm::ArrayRef<HeaderRow> index) : index_(index) {}

  void include(llvm::StringRef name) {
    // A name that is absolute or contains ".." would be read from the disk, and one key could then mean
    // different texts.
    if (name.take_front(1) == "/" || name.contains("..")) closure_.outside = name.str();
    closure_.cccl |= is_cccl(name);
    closure_.cuda |= is_cuda(name) || is_cccl(name);
    const auto header =
        std::lower_bound(index_.begin(), index_.end(), name,
                         [](const HeaderRow& row, llvm::StringRef wanted) { return row.name < wanted; });
    if (header == index_.end() || header->name != name || !ours_.insert(header).second) return;
    llvm::SmallVector<llvm::StringRef, 16> includes;
    llvm::StringRef(header->includes).split(includes, '\n', -1, /*KeepEmpty=*/false);
    for (llvm::StringRef below : includes) include(below);
  }

  HeaderClosure closure() {
    closure_.ours.assign(ours_.begin(), ours_.end());
    return std::move(closure_);
  }

 private:
  llvm::ArrayRef<HeaderRow> index_;
  std::set<const HeaderRow*> ours_;
  HeaderClosure closure_;
};

}  // namespace

llvm::ArrayRef<HeaderRow> kernel_headers() { return kKernelHeaders; }

HeaderClosure header_closure(llvm::StringRef text, llvm::ArrayRef<HeaderRow> index) {
  IncludeCollector collector(index);
  for (const std::string& name : included_names(text)) collector.include(name);
  return collector.closure();
}

namespace {

std::string closure_digest(const HeaderClosure& closure) {
  FieldHasher hasher;
  for (const HeaderRow* header : closure.ours) hasher.add(header->name, header->digest);
  if (closure.cuda) hasher.add("cuda", kCudaDigest);
  if (closure.cccl) hasher.add("cccl", kCcclDigest);
  return hasher.hex();
}

}  // namespace

std::string header_digest(llvm::StringRef text, llvm::ArrayRef<HeaderRow> index) {
  return closure_digest(header_closure(text, index));
}

namespace {

/// Holds the results of header_use(). It is never destroyed, because other threads may use it when the
/// process ends. It is initialized before any code runs, because a forked child could find the guard of a
/// function-local static held and would wait forever.
union KnownUses {
  constexpr KnownUses() : list() {}
  ~KnownUses() {}
  PushList<std::pair<std::vector<std::string>, HeaderUse>> list;
};
constinit KnownUses known_uses;

}  // namespace

const HeaderUse& header_use(llvm::StringRef text) {
  const std::vector<std::string> names = included_names(text);
  const HeaderUse* found = nullptr;
  const auto find = [&](const auto& one) {
    if (one.first == names) found = &one.second;
  };
  known_uses.list.for_each(find);
  if (found != nullptr) return *found;
  const HeaderClosure closure = header_closure(text);
  known_uses.list.push({names, {closure_digest(closure), closure.cccl}});
  known_uses.list.for_each(find);
  return *found;
}

std::string all_headers_digest() {
  FieldHasher hasher;
  for (const HeaderRow& header : kKernelHeaders) hasher.add(header.name, header.digest);
  return hasher.add("cuda", kCudaDigest).add("cccl", kCcclDigest).hex();
}

}  // namespace minuet
