#include "codegen/bundle/bundle_frames.h"

#include <zstd.h>

#include <map>
#include <memory>

#include "codegen/bundle/bundle_format.h"

namespace minuet {
namespace {

constexpr int kLevel = 19;
constexpr std::size_t kLongestDictionary = 1u << 20;
static_assert(kLongestDictionary <= kMostDictionaryBytes);

}  // namespace

std::string choose_dictionary(const std::vector<const BundlePayload*>& payloads) {
  std::map<std::string, const BundlePayload*> examples;
  for (const BundlePayload* payload : payloads) {
    const BundlePayload*& example = examples[payload->name.substr(0, payload->name.find('-'))];
    if (example == nullptr || payload->cubin.size() > example->cubin.size()) example = payload;
  }
  std::string dictionary;
  for (const auto& [word, example] : examples) {
    const std::size_t size = example->manifest.size() + example->cubin.size();
    if (dictionary.size() + size > kLongestDictionary) continue;
    dictionary += example->manifest + example->cubin;
  }
  return dictionary;
}

FramePacker::FramePacker(llvm::StringRef dictionary)
    : context_(ZSTD_createCCtx()),
      dictionary_(dictionary.empty() ? nullptr
                                     : ZSTD_createCDict(dictionary.data(), dictionary.size(), kLevel)),
      has_dictionary_(!dictionary.empty()) {}

FramePacker::~FramePacker() {
  ZSTD_freeCDict(dictionary_);
  ZSTD_freeCCtx(context_);
}

llvm::Expected<std::string> FramePacker::pack(llvm::StringRef bytes) {
  if (context_ == nullptr || (has_dictionary_ && dictionary_ == nullptr)) {
    return make_error(StatusCode::ResourceExhausted,
                      "there is not enough memory to compress data for the bundle");
  }
  std::string frame(ZSTD_compressBound(bytes.size()), '\0');
  const std::size_t size =
      dictionary_ == nullptr
          ? ZSTD_compressCCtx(context_, frame.data(), frame.size(), bytes.data(), bytes.size(), kLevel)
          : ZSTD_compress_usingCDict(context_, frame.data(), frame.size(), bytes.data(), bytes.size(),
                                     dictionary_);
  if (ZSTD_isError(size))
    return make_error(StatusCode::Internal, "zstd cannot compress data for the bundle: {0}",
                      ZSTD_getErrorName(size));
  frame.resize(size);
  return frame;
}

llvm::Expected<std::string> unpack_frame(llvm::StringRef frame, llvm::StringRef dictionary,
                                         std::size_t size) {
  const auto wrong = [](const char* why) {
    return make_error(StatusCode::InvalidArgument, "a zstd frame cannot be unpacked: {0}", why);
  };
  // Check the size in the frame's header before allocating memory.
  if (ZSTD_getFrameContentSize(frame.data(), frame.size()) != size)
    return wrong("the size in its header is wrong");
  const std::unique_ptr<ZSTD_DCtx, decltype(&ZSTD_freeDCtx)> context(ZSTD_createDCtx(), ZSTD_freeDCtx);
  if (context == nullptr)
    return make_error(StatusCode::ResourceExhausted, "there is not enough memory to unpack a zstd frame");
  // zstd would interpret the first bytes of a dictionary, but it uses a prefix as raw content. It does not
  // copy the prefix.
  if (!dictionary.empty()) ZSTD_DCtx_refPrefix(context.get(), dictionary.data(), dictionary.size());
  std::string bytes(size, '\0');
  const std::size_t got =
      ZSTD_decompressDCtx(context.get(), bytes.data(), bytes.size(), frame.data(), frame.size());
  if (ZSTD_isError(got)) return wrong(ZSTD_getErrorName(got));
  if (got != size) return wrong("its contents do not have the size in its header");
  return bytes;
}

}  // namespace minuet
