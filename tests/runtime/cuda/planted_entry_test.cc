// A cache entry that passes every check of ours and that the driver refuses: compiled anew, once (R28).
#include <elf.h>

#include <cstring>
#include <iostream>

#include "codegen/choose/choice.h"
#include "codegen/compile/entry.h"
#include "runtime/plan/plan.h"
#include "tests/codegen/fakes.h"
#include "tests/runtime/cuda/gpu.h"
#include "tests/runtime/cuda/stack.h"
#include "tests/support/layer_run.h"

namespace minuet {
namespace {

/// The entry of a kernel in a cache folder.
struct Victim {
  std::string path;
  Entry entry;
};

Victim find_entry(const std::string& folder, const std::string& display_name) {
  for (const std::string& path : files_below(folder)) {
    llvm::Expected<Entry> entry = read_entry(contents(path));
    if (!entry) {
      llvm::consumeError(entry.takeError());
    } else if (entry->binary.display_name == display_name) {
      return {path, std::move(*entry)};
    }
  }
  ADD_FAILURE() << "no entry of " << display_name << " in " << folder;
  throw std::runtime_error("a setup step failed");
}

template <class Change>
std::string with_header(std::string cubin, const Change& change) {
  Elf64_Ehdr header;
  std::memcpy(&header, cubin.data(), sizeof header);
  change(header);
  std::memcpy(cubin.data(), &header, sizeof header);
  return cubin;
}

/// Cubins that say they are `good`'s architecture and are not, or are damaged where our checks do not look.
std::vector<std::pair<std::string, std::string>> bad_cubins(const std::string& good,
                                                            const std::string& foreign) {
  Elf64_Ehdr right;
  std::memcpy(&right, good.data(), sizeof right);
  return {{"sm_80 with the flags of this GPU",
           with_header(foreign, [&](Elf64_Ehdr& header) { header.e_flags = right.e_flags; })},
          {"another operating system's ABI",
           with_header(good, [](Elf64_Ehdr& header) { header.e_ident[EI_OSABI] = 0x7e; })},
          {"a later version of the ABI",
           with_header(good, [](Elf64_Ehdr& header) { header.e_ident[EI_ABIVERSION] = 0x7e; })},
          {"no kind of file", with_header(good, [](Elf64_Ehdr& header) { header.e_type = ET_CORE; })}};
}

class PlantedEntryTest : public GpuTest {
 protected:
  /// What the driver says of a cubin; it is never launched.
  std::string verdict(Binary binary, std::string cubin) {
    binary.cubin = std::move(cubin);
    LibraryRegistry registry;
    const ContextScope scope(device().driver(), device().context());
    ModuleSet modules(device().driver(), 0, registry);
    llvm::Error error = modules.load({std::make_shared<const Binary>(std::move(binary))}, {});
    return error ? llvm::toString(std::move(error)) : "";
  }
};

TEST_F(PlantedEntryTest, R28_TheNetworkRunsAllTheSame) {
  const TemporaryFolder folder;
  const abi::Cloud cloud = abi::stack_cloud();
  // One that every run launches.
  const KernelSource source = emit(choose_map(KeyType::U32, 3).unique_rows);
  std::vector<char> expected;
  std::int64_t kernels = 0;
  {
    const abi::Stack stack(1, folder.path());
    expected = abi::run_on(stack.device(0), stack.execution(0).get(), cloud, nullptr);
    kernels = stack.counters().compiled;
    ASSERT_GT(kernels, 1) << "the folder was empty";
  }
  const Victim victim = find_entry(folder.path(), source.display_name);
  const std::string good = contents(victim.path);
  ASSERT_NE(device().info().arch, "sm_80") << "choose another architecture for the foreign cubin";
  std::unique_ptr<KernelCache> cache = make_cache("", take(open_nvrtc()));
  const std::shared_ptr<const Binary> foreign = take(cache->get_or_compile({source, "sm_80"}));

  int refused = 0;
  for (const auto& [what, cubin] : bad_cubins(victim.entry.binary.cubin, foreign->cubin)) {
    SCOPED_TRACE(what);
    Entry planted = victim.entry;
    planted.binary.cubin = cubin;
    const std::string bytes = write_entry(planted);
    static_cast<void>(take(read_entry(bytes)));  // our own checks find nothing
    const std::string said = verdict(planted.binary, cubin);
    std::cout << what << ": " << (said.empty() ? "the driver takes it" : said) << "\n";
    if (said.empty()) continue;
    ++refused;
    write_text(victim.path, bytes);
    for (const std::int64_t compiles : {1, 0}) {  // the second time the good one is back
      const abi::Stack stack(1, folder.path());
      EXPECT_EQ(abi::run_on(stack.device(0), stack.execution(0).get(), cloud, nullptr), expected);
      EXPECT_EQ(stack.counters().compiled, compiles);
      EXPECT_EQ(stack.counters().disk_hits, kernels);
      EXPECT_EQ(stack.warnings().size(), static_cast<std::size_t>(compiles));
    }
    EXPECT_EQ(find_entry(folder.path(), source.display_name).entry.binary.cubin, victim.entry.binary.cubin);
    write_text(victim.path, good);
  }
  EXPECT_GT(refused, 0) << "no damage that the driver minds: this test has seen nothing";
}

}  // namespace
}  // namespace minuet
