#include "codegen/embedded_headers.h"

#include <array>
#include <atomic>
#include <mutex>
#include <set>

#include <zstd.h>

#include "codegen/keys.h"
#include "llvm/ADT/StringMap.h"

extern "C" {
extern const char minuet_kernel_headers[], minuet_kernel_headers_end[];
extern const char minuet_cuda_headers[], minuet_cuda_headers_end[];
extern const char minuet_cccl_headers[], minuet_cccl_headers_end[];
}

namespace minuet {
namespace {

/// One blob, unpacked once.
class HeaderGroup {
 public:
  explicit HeaderGroup(llvm::StringRef blob) : blob_(blob) {}

  llvm::StringRef digest() const { return blob_.take_front(kBlobDigestSize); }
  bool unpacked() const { return ready_; }
  const std::vector<Header>& headers() const { return headers_; }

  llvm::Error unpack() {
    std::call_once(once_, [this] {
      std::uint64_t raw_size = 0;
      std::memcpy(&raw_size, blob_.data() + kBlobDigestSize, sizeof raw_size);
      raw_.resize(raw_size);
      const llvm::StringRef frame = blob_.drop_front(kBlobPrefixSize);
      ready_ = ZSTD_decompress(raw_.data(), raw_.size(), frame.data(), frame.size()) == raw_size;
      if (!ready_) return;
      headers_ = split_headers(raw_);
      for (std::size_t i = 0; i < headers_.size(); ++i) by_name_[headers_[i].name] = i;
    });
    if (ready_) return llvm::Error::success();
    return make_error(StatusCode::Internal,
                      "the embedded headers do not unpack: the library file is damaged");
  }

  const Header* find(llvm::StringRef name) const {
    const auto found = by_name_.find(name);
    return found == by_name_.end() ? nullptr : &headers_[found->second];
  }

 private:
  llvm::StringRef blob_;
  std::once_flag once_;
  std::atomic<bool> ready_{false};
  std::string raw_;
  std::vector<Header> headers_;
  llvm::StringMap<std::size_t> by_name_;
};

llvm::StringRef blob(const char* begin, const char* end) {
  return llvm::StringRef(begin, static_cast<std::size_t>(end - begin));
}

struct Groups {
  HeaderGroup kernels{blob(minuet_kernel_headers, minuet_kernel_headers_end)};
  HeaderGroup cuda{blob(minuet_cuda_headers, minuet_cuda_headers_end)};
  HeaderGroup cccl{blob(minuet_cccl_headers, minuet_cccl_headers_end)};
};

Groups& groups() {
  static Groups* const all = new Groups;  // never destroyed: a compile may run while the process exits
  return *all;
}

bool starts_with(llvm::StringRef text, llvm::StringRef prefix) {
  return text.take_front(prefix.size()) == prefix;
}

bool is_cccl(llvm::StringRef name) {
  return starts_with(name, "cub/") || starts_with(name, "cuda/") || starts_with(name, "thrust/");
}

bool is_cuda(llvm::StringRef name) {
  return starts_with(name, "cuda_") || starts_with(name, "nv/") || starts_with(name, "vector_");
}

/// The includes of a unit, followed through our own headers.
struct Closure {
  std::vector<Header> own;
  bool cuda = false;
  bool cccl = false;
};

llvm::Error follow(llvm::StringRef text, std::set<std::string>& seen, Closure& closure) {
  for (const std::string& name : included_names(text)) {
    // An absolute or climbing path would be read from the disk and change what one key means.
    if (name.front() == '/' || llvm::StringRef(name).contains("..")) {
      return make_error(StatusCode::InvalidArgument,
                        "the source includes \"{0}\"; only embedded headers may be included", name);
    }
    if (!seen.insert(name).second) continue;
    closure.cuda |= is_cuda(name);
    closure.cccl |= is_cccl(name);
    if (const Header* header = groups().kernels.find(name)) {
      closure.own.push_back(*header);
      MINUET_TRY(follow(header->text, seen, closure));
    }
  }
  return llvm::Error::success();
}

}  // namespace

std::string embedded_header_digest() {
  const Groups& all = groups();
  return FieldHasher()
      .add("kernels", all.kernels.digest())
      .add("cuda", all.cuda.digest())
      .add("cccl", all.cccl.digest())
      .hex();
}

llvm::Expected<std::vector<Header>> headers_for(llvm::StringRef text) {
  Groups& all = groups();
  MINUET_TRY(all.kernels.unpack());
  Closure closure;
  std::set<std::string> seen;
  MINUET_TRY(follow(text, seen, closure));
  std::vector<Header> headers = std::move(closure.own);
  // CCCL's own headers include those of the CUDA group.
  if (closure.cuda || closure.cccl) {
    MINUET_TRY(all.cuda.unpack());
    headers.insert(headers.end(), all.cuda.headers().begin(), all.cuda.headers().end());
  }
  if (closure.cccl) {
    MINUET_TRY(all.cccl.unpack());
    for (const Header& header : all.cccl.headers()) {
      if (all.cuda.find(header.name) == nullptr) headers.push_back(header);
    }
  }
  return headers;
}

bool includes_cccl(llvm::StringRef text) {
  Closure closure;
  std::set<std::string> seen;
  llvm::Error error = groups().kernels.unpack();
  if (!error) error = follow(text, seen, closure);
  // What keeps the unit from compiling is said by its compile.
  llvm::consumeError(std::move(error));
  return closure.cccl;
}

llvm::StringRef unpacked_header(llvm::StringRef name) {
  Groups& all = groups();
  for (const HeaderGroup* group : {&all.kernels, &all.cuda, &all.cccl}) {
    if (!group->unpacked()) continue;
    if (const Header* header = group->find(name)) return header->text;
  }
  return {};
}

}  // namespace minuet
