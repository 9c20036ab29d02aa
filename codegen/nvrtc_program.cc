#include "codegen/nvrtc_program.h"

namespace minuet {

llvm::Error NvrtcApi::load(const NvrtcLibrary& library) {
#define MINUET_FIND(name) name = reinterpret_cast<decltype(name)>(library.symbol(#name));
#define MINUET_REQUIRE(name)                                                                          \
  MINUET_FIND(name)                                                                                   \
  if (name == nullptr) {                                                                              \
    return make_error(StatusCode::Unavailable, "{0} has no {1}: it is no libnvrtc, or a too old one", \
                      library.path, #name);                                                           \
  }
  MINUET_NVRTC_FUNCTIONS(MINUET_REQUIRE)
  MINUET_OPTIONAL_NVRTC_FUNCTIONS(MINUET_FIND)
#undef MINUET_REQUIRE
#undef MINUET_FIND
  return llvm::Error::success();
}

NvrtcProgram::~NvrtcProgram() {
  if (program_ != nullptr) api_.nvrtcDestroyProgram(&program_);
}

nvrtcResult NvrtcProgram::create(const KernelSource& source, const std::vector<Header>& headers) {
  std::vector<const char*> names, texts;
  for (const Header& header : headers) {
    names.push_back(header.name.data());
    texts.push_back(header.text.data());
  }
  return api_.nvrtcCreateProgram(&program_, source.text.c_str(), kProgramName,
                                 static_cast<int>(headers.size()), texts.data(), names.data());
}

nvrtcResult NvrtcProgram::compile(const KernelSource& source, const std::vector<std::string>& options) {
  const nvrtcResult added = api_.nvrtcAddNameExpression(program_, source.name_expression.c_str());
  if (added != NVRTC_SUCCESS) return added;
  std::vector<const char*> texts;
  texts.reserve(options.size());
  for (const std::string& option : options) texts.push_back(option.c_str());
  return api_.nvrtcCompileProgram(program_, static_cast<int>(texts.size()), texts.data());
}

PchUse NvrtcProgram::pch_use() const {
  if (api_.nvrtcGetPCHCreateStatus == nullptr) return PchUse::None;
  switch (api_.nvrtcGetPCHCreateStatus(program_)) {
    case NVRTC_SUCCESS:
      return PchUse::Created;
    case NVRTC_ERROR_NO_PCH_CREATE_ATTEMPTED:
      // No status says that one was used; the log does.
      return llvm::StringRef(log()).contains("using precompiled header file") ? PchUse::Used : PchUse::None;
    case NVRTC_ERROR_PCH_CREATE_HEAP_EXHAUSTED: {
      std::size_t needed = 0, size = 0;
      if (api_.nvrtcGetPCHHeapSizeRequired != nullptr && api_.nvrtcGetPCHHeapSize != nullptr &&
          api_.nvrtcSetPCHHeapSize != nullptr &&
          api_.nvrtcGetPCHHeapSizeRequired(program_, &needed) == NVRTC_SUCCESS &&
          api_.nvrtcGetPCHHeapSize(&size) == NVRTC_SUCCESS && needed > size) {
        api_.nvrtcSetPCHHeapSize(needed);
      }
      return PchUse::None;
    }
    default:
      return PchUse::None;
  }
}

std::string NvrtcProgram::log() const {
  return read(api_.nvrtcGetProgramLogSize, api_.nvrtcGetProgramLog, /*terminated=*/true);
}

std::string NvrtcProgram::cubin() const {
  return read(api_.nvrtcGetCUBINSize, api_.nvrtcGetCUBIN, /*terminated=*/false);
}

std::string NvrtcProgram::ptx() const {
  return read(api_.nvrtcGetPTXSize, api_.nvrtcGetPTX, /*terminated=*/true);
}

std::string NvrtcProgram::lowered_name(const KernelSource& source) const {
  const char* name = nullptr;
  const nvrtcResult result = api_.nvrtcGetLoweredName(program_, source.name_expression.c_str(), &name);
  return result == NVRTC_SUCCESS && name != nullptr ? name : "";
}

template <class SizeOf, class Get>
std::string NvrtcProgram::read(SizeOf size_of, Get get, bool terminated) const {
  std::size_t size = 0;
  if (program_ == nullptr || size_of(program_, &size) != NVRTC_SUCCESS || size == 0) return {};
  std::string bytes(size, '\0');
  if (get(program_, bytes.data()) != NVRTC_SUCCESS) return {};
  // A log of NVRTC 13.0 ends in two.
  while (terminated && !bytes.empty() && bytes.back() == '\0') bytes.pop_back();
  return bytes;
}

}  // namespace minuet
