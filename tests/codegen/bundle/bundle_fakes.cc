#include "tests/codegen/bundle/bundle_fakes.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>

#include "codegen/bundle/bundle_writer.h"
#include "codegen/compile/protocol.h"
#include "codegen/source/keys.h"

namespace minuet {

KernelRequest fake_request(const std::string& name, llvm::StringRef arch) {
  return {make_source(name, "text of " + name), arch};
}

Entry make_kernel(const std::string& name, const std::string& arch, const std::string& compiler_id) {
  FakeCompiler compiler;
  compiler.id_ = compiler_id;
  const KernelRequest request = fake_request(name, arch);
  return {request.key, build_key(request.key, compiler_id), request.source.name_expression,
          llvm::cantFail(compiler.compile(request, {}))};
}

std::vector<Entry> make_kernels(int count, const std::string& arch) {
  std::vector<Entry> entries;
  for (int i = 0; i < count; ++i) {
    entries.push_back(make_kernel((i % 2 == 0 ? "gather-" : "scatter-") + std::to_string(i), arch));
  }
  return entries;
}

std::string put_bundle(const std::string& path, const std::vector<Entry>& entries, const std::string& arch) {
  llvm::Expected<WrittenBundle> written = write_bundle(path, arch, entries);
  if (written) return written->sha256;
  ADD_FAILURE() << llvm::toString(written.takeError());
  return "";
}

std::string with_right_digests(std::string bytes) {
  BundleHead head;
  if (bytes.size() < sizeof head + kDigestBytes) return bytes;
  const auto put = [&](std::size_t at, const std::string& part) {
    if (at + part.size() <= bytes.size()) bytes.replace(at, part.size(), part);
  };
  std::memcpy(&head, bytes.data(), sizeof head);
  std::size_t at = sizeof head;
  for (std::uint32_t i = 0; i < head.entries && at + sizeof(BundleRow) <= bytes.size(); ++i) {
    BundleRow row;
    std::memcpy(&row, &bytes[at], sizeof row);
    put(at + offsetof(BundleRow, digest),
        digest_of(llvm::StringRef(bytes).substr(row.offset, row.frame_bytes)));
    at += sizeof row;
  }
  const std::uint64_t index =
      sizeof head + std::uint64_t{head.entries} * sizeof(BundleRow) + head.strings_bytes;
  const llvm::StringRef after = llvm::StringRef(bytes).substr(index);
  const std::string dictionary = digest_of(after.take_front(head.dictionary_bytes));
  const std::string tuning = digest_of(after.substr(head.dictionary_bytes, head.tuning_bytes));
  put(offsetof(BundleHead, dictionary_digest), dictionary);
  put(offsetof(BundleHead, tuning_digest), tuning);
  put(offsetof(BundleHead, index_digest), index_digest(llvm::StringRef(bytes).take_front(index)));
  put(bytes.size() - kDigestBytes, digest_of(llvm::StringRef(bytes).drop_back(kDigestBytes)));
  return bytes;
}

std::string error_of(llvm::Error error) { return take_status(std::move(error)).message(); }

llvm::Expected<Entry> read_kernel(const Bundle& bundle, const std::string& request_key) {
  const std::optional<std::size_t> index = bundle.find(request_key);
  if (!index) return make_error(StatusCode::NotFound, "not in the bundle");
  return bundle.read(*index);
}

}  // namespace minuet
