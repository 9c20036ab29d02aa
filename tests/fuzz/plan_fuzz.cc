// A serialized plan. The first byte of the input says what the rest is:
//   bit 0 clear  a whole one. Its digest is made right, or nothing behind it would ever be reached
//   bit 0 set    two bytes with the size of the document, the document, the parameters and bundles: the head
//                before them is right
#include <cstring>

#include "codegen/bundle/bundle.h"
#include "runtime/plan/plan_format.h"
#include "runtime/plan/serialized_plan.h"
#include "tests/codegen/bundle/bundle_fakes.h"
#include "tests/fuzz/fuzz_target.h"

namespace minuet {
namespace {

std::string plan_of(llvm::StringRef input) {
  const bool has_head = input[0] % 2 == 0;
  std::string bytes = input.drop_front().str();
  if (has_head) {
    if (bytes.size() < kDigestBytes) return bytes;
    bytes.resize(bytes.size() - kDigestBytes);
  } else {
    if (bytes.size() < 2) return bytes;
    std::uint16_t size = 0;
    std::memcpy(&size, bytes.data(), sizeof size);
    PlanHead head = {};
    std::memcpy(head.magic, kPlanMagic, sizeof head.magic);
    head.format = kPlanFormat;
    head.library = kLibraryVersion;
    head.document_bytes = size;
    head.file_bytes = sizeof head + bytes.size() - 2 + kDigestBytes;
    bytes = std::string(reinterpret_cast<const char*>(&head), sizeof head) + bytes.substr(2);
  }
  return bytes + digest_of(bytes);
}

}  // namespace

bool fuzz_plan(llvm::StringRef input) {
  if (input.empty()) return false;
  static const std::unique_ptr<KernelCache> cache = make_cache("", std::make_shared<FakeCompiler>());
  const std::string bytes = plan_of(input);
  llvm::Expected<ReadPlan> read = read_plan(bytes);
  if (!read) {
    require(take_status(read.takeError()).message() != "");
    return false;
  }
  require(read->plan->parameters.size() == read->plan->program.layers.size());
  // The same plan without its kernels, which no architecture asks for.
  const std::string once = llvm::cantFail(serialize_plan(*read->plan, *cache, {}));
  const ReadPlan again = llvm::cantFail(read_plan(once));
  require(again.bundles.empty());
  require(llvm::cantFail(serialize_plan(*again.plan, *cache, {})) == once);
  bool whole = true;
  for (const BundleBytes& bundle : read->bundles) {
    if (llvm::errorToBool(Bundle::open_memory(bundle.bytes).takeError())) whole = false;
  }
  return whole;
}

}  // namespace minuet
