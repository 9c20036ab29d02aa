#include "codegen/source/embedded_headers.h"

#include <array>
#include <atomic>
#include <mutex>

#include <zstd.h>

#include "codegen/source/keys.h"
#include "llvm/ADT/StringMap.h"

extern "C" {
extern const char minuet_kernel_headers[], minuet_kernel_headers_end[];
extern const char minuet_cuda_headers[], minuet_cuda_headers_end[];
extern const char minuet_cccl_headers[], minuet_cccl_headers_end[];
}

namespace minuet {
namespace {

/// Represents one group of embedded headers, whose blob (header_blob.h) is unpacked at the first use.
class HeaderGroup {
 public:
  explicit HeaderGroup(llvm::StringRef blob) : blob_(blob) {}

  bool unpacked() const { return ready_; }
  const std::vector<Header>& headers() const { return headers_; }

  llvm::Error unpack() {
    std::call_once(once_, [this] {
      std::uint64_t raw_size = 0;
      std::memcpy(&raw_size, blob_.data(), sizeof raw_size);
      raw_.resize(raw_size);
      const llvm::StringRef frame = blob_.drop_front(kBlobPrefixSize);
      ready_ = ZSTD_decompress(raw_.data(), raw_.size(), frame.data(), frame.size()) == raw_size;
      if (!ready_) return;
      headers_ = split_headers(raw_);
      for (std::size_t i = 0; i < headers_.size(); ++i) by_name_[headers_[i].name] = i;
    });
    if (ready_) return llvm::Error::success();
    return make_error(
        StatusCode::Internal,
        "the embedded headers cannot be unpacked, because minuet-compile is damaged: install it again");
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
  // The groups are never destroyed, because a compile may run while the process exits.
  static Groups* const all = new Groups;
  return *all;
}

}  // namespace

llvm::Expected<std::vector<Header>> headers_for(llvm::StringRef text) {
  const HeaderClosure closure = header_closure(text);
  if (!closure.outside.empty()) {
    return make_error(StatusCode::InvalidArgument,
                      "the source includes \"{0}\"; only embedded headers may be included", closure.outside);
  }
  Groups& all = groups();
  MINUET_TRY(all.kernels.unpack());
  std::vector<Header> headers;
  for (const HeaderRow* row : closure.ours) headers.push_back(*all.kernels.find(row->name));
  if (closure.cuda) {
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

llvm::StringRef unpacked_header(llvm::StringRef name) {
  Groups& all = groups();
  for (const HeaderGroup* group : {&all.kernels, &all.cuda, &all.cccl}) {
    if (!group->unpacked()) continue;
    if (const Header* header = group->find(name)) return header->text;
  }
  return {};
}

}  // namespace minuet
