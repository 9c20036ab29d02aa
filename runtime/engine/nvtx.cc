#include "runtime/engine/nvtx.h"

#include <cstdlib>
#include <cstring>

#ifdef MINUET_NVTX_HEADER
#include <nvtx3/nvToolsExt.h>
#endif

namespace minuet {

bool wants_nvtx() {
  static const bool wanted = [] {
    const char* const variable = std::getenv("MINUET_NVTX");
    return variable != nullptr && std::strcmp(variable, "1") == 0;
  }();
  return wanted;
}

#ifdef MINUET_NVTX_HEADER
namespace {

nvtxDomainHandle_t domain() {
  static nvtxDomainRegistration* const made = nvtxDomainCreateA("minuet");
  return made;
}

nvtxEventAttributes_t named(const char* name) {
  nvtxEventAttributes_t attributes = {};
  attributes.version = NVTX_VERSION;
  attributes.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  attributes.messageType = NVTX_MESSAGE_TYPE_ASCII;
  attributes.message.ascii = name;
  return attributes;
}

}  // namespace

bool has_nvtx() { return true; }

NvtxRange::NvtxRange(const char* name) : is_open_(wants_nvtx()) {
  if (!is_open_) return;
  const nvtxEventAttributes_t attributes = named(name);
  nvtxDomainRangePushEx(domain(), &attributes);
}

NvtxRange::~NvtxRange() {
  if (is_open_) nvtxDomainRangePop(domain());
}

void NvtxSteps::begin(const char* name) {
  if (!wants_nvtx()) return;
  end();
  const nvtxEventAttributes_t attributes = named(name);
  open_ = nvtxDomainRangeStartEx(domain(), &attributes);
}

void NvtxSteps::end() {
  if (open_ != 0) nvtxDomainRangeEnd(domain(), open_);
  open_ = 0;
}

#else

bool has_nvtx() { return false; }
NvtxRange::NvtxRange(const char* /*name*/) : is_open_(false) {}
NvtxRange::~NvtxRange() = default;
void NvtxSteps::begin(const char* /*name*/) {}
void NvtxSteps::end() {}

#endif

}  // namespace minuet
