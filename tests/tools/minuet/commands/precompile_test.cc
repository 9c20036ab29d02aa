// `minuet precompile` and `minuet cache`: they need NVRTC, and neither a GPU nor a driver.
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "llvm/Support/JSON.h"
#include "tests/support/environment.h"
#include "tests/support/expect.h"
#include "tests/support/wait_until.h"
#include "tests/tools/folder.h"

namespace minuet::tool {
namespace {

using testing::HasSubstr;

using Words = std::vector<std::string>;

/// A network of one block: few kernels beside those of the maps, which are compiled once for all tests.
class Precompile : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = std::make_unique<Folder>();
    network_ = folder_->file("tiny.json", R"({"name": "tiny", "ndim": 1, "in_channels": 4, "channels": [8],
        "layers": [{"op": "block", "name": "b", "width": 0, "kernel_size": 3}]})");
  }
  static void TearDownTestSuite() { folder_.reset(); }
  void SetUp() override {
    const std::string info = minuet({"info"}).out;
    ASSERT_EQ(info.find("minuet-compile"), std::string::npos) << info;
    if (info.find("NVRTC         not found") != std::string::npos) {
      MINUET_SKIP_OR_FAIL("nvrtc", "NVRTC is not installed");
    }
  }

  static Finished precompile(const Words& more, const std::string& arch = "sm_90a") {
    return minuet({"precompile", "--network", network_, "--arch", arch, "--cache", folder_->path("cache")},
                  more);
  }
  /// The bundle that all tests look into.
  static std::string bundle() {
    const Finished finished =
        precompile({"--output", folder_->path("out"), "--json", folder_->path("report.json")});
    EXPECT_EQ(finished.code, 0) << finished.err;
    return folder_->path("out/minuet-sm_90a.bundle");
  }

  static std::unique_ptr<Folder> folder_;
  static std::string network_;
};
std::unique_ptr<Folder> Precompile::folder_;
std::string Precompile::network_;

TEST_F(Precompile, R19_WritesABundleAnArchitectureAndSaysWhatItDid) {
  const bool is_first = !std::filesystem::exists(folder_->path("cache"));
  const std::string path = bundle();
  const llvm::json::Object report = json_in(folder_->path("report.json"));
  const int64_t kernels = *report.getInteger("kernels");
  EXPECT_GT(kernels, 20);
  EXPECT_EQ(*report.getInteger("compiled") + *report.getInteger("found"), kernels);
  if (is_first) {
    EXPECT_EQ(*report.getInteger("compiled"), kernels);
  }
  EXPECT_EQ(*report.getInteger("failed"), 0);
  EXPECT_GT(*report.getInteger("bytes"), 100000);
  EXPECT_GT(*report.getNumber("seconds"), 0);
  const llvm::json::Array& bundles = *report.getArray("bundles");
  ASSERT_EQ(bundles.size(), 1u);
  const mode_t mask = ::umask(0);
  ::umask(mask);
  struct stat made = {};
  ASSERT_EQ(::stat(folder_->path("out").c_str(), &made), 0);
  EXPECT_EQ(made.st_mode & 0777, 0777 & ~mask);
  const llvm::json::Object& one = *bundles[0].getAsObject();
  EXPECT_EQ(*one.getString("arch"), "sm_90a");
  EXPECT_EQ(*one.getString("path"), path);
  EXPECT_EQ(one.getString("sha256")->size(), 64u);
  EXPECT_EQ(*one.getInteger("bytes"), static_cast<int64_t>(contents(path).size()));
  EXPECT_LE(*one.getInteger("bytes") * 5, *report.getInteger("bytes")) << "R20";

  const Finished again = precompile({});
  ASSERT_EQ(again.code, 0) << again.err;
  EXPECT_THAT(again.out, HasSubstr(": 0 compiled, " + std::to_string(kernels) + " found, 0 failed"));
  EXPECT_THAT(again.out, HasSubstr("registers"));
  EXPECT_EQ(again.err, "") << "progress is for terminals";
}

/// Kernels of the Map step know no dtype.
TEST_F(Precompile, AnotherDtypeFindsTheKernelsOfTheMap) {
  bundle();
  const int64_t kernels = *json_in(folder_->path("report.json")).getInteger("kernels");
  const auto counts = [](const Finished& finished) {
    EXPECT_EQ(finished.code, 0) << finished.err;
    const llvm::json::Object report = json_in(folder_->path("dtype.json"));
    return std::pair{*report.getInteger("compiled"), *report.getInteger("found")};
  };
  const Words words = {"--dtype", "bf16", "--json", folder_->path("dtype.json")};
  const auto [compiled, found] = counts(precompile(words));
  EXPECT_GT(compiled, 0);
  EXPECT_GT(found, 0);
  EXPECT_EQ(compiled + found, kernels);
  EXPECT_EQ(counts(precompile(words)), std::pair(int64_t{0}, kernels));
}

TEST_F(Precompile, SaysWhoseHeadIsLeftOut) {
  const std::string network =
      folder_->file("headless.json", R"({"name": "headless", "ndim": 1, "in_channels": 4, "channels": [8],
      "layers": [{"op": "block", "name": "b", "width": 0, "kernel_size": 3}, {"op": "head", "name": "h"}]})");
  const Finished finished = minuet({"precompile", "--network", network + "," + network_, "--cache",
                                    folder_->path("cache"), "--json", folder_->path("heads.json")});
  EXPECT_EQ(finished.code, 0) << finished.err;
  EXPECT_THAT(finished.out, HasSubstr("the head of headless is left out"));
  EXPECT_EQ(*json_in(folder_->path("heads.json")).getArray("missing_heads"), llvm::json::Array{"headless"});
}

TEST_F(Precompile, R22_TheCommandCompilesWhateverNoJitSays) {
  const EnvironmentVariable off("MINUET_NO_JIT", "1");
  const Finished finished = precompile({"--output", folder_->path("out")});
  EXPECT_EQ(finished.code, 0) << finished.err;
}

TEST_F(Precompile, AWrongFlagIsOneSentence) {
  const std::pair<Words, const char*> cases[] = {
      {{"precompile", "--arch", "sm_banana"}, "'sm_banana' is not an architecture"},
      {{"precompile", "--from", folder_->path("none")}, "there is no such file"},
      {{"precompile", "--from", network_, "--dtype", "fp16"}, "--from excludes"},
      {{"precompile", "--from", network_}, "line 1"},
      {{"precompile", "--output", network_ + "/below"}, "cannot be made"},
      {{"precompile", "--output", network_}, "Not a directory"},
      {{"precompile", "--tuned", "--from", network_}, "--tuned with --from needs --arch"},
      {{"precompile", "--tuning", network_}, "is not a folder"},
      {{"precompile", "--tuned"}, "tuning results for sm_90a with this version's kernels"},
      {{"cache"}, "subcommand"},
      {{"cache", "list", "--cache", folder_->path("none")}, "there is no cache folder"},
      {{"cache", "list", "--bundle", network_}, "it is JSON text, not a bundle"}};
  for (const auto& [words, reason] : cases) {
    const bool compiles = words[0] == "precompile";
    const Finished finished = minuet(words, compiles ? Words{"--cache", folder_->path("other")} : Words());
    EXPECT_EQ(finished.code, 2) << finished.err;
    EXPECT_THAT(finished.err, HasSubstr(reason));
  }
}

TEST_F(Precompile, R19_AnArchitectureThatCannotBeCompiledForIsOneSentenceAndNoWork) {
  const std::pair<const char*, const char*> cases[] = {
      {"sm_999", "cannot compile for sm_999, only for sm_"},
      {"compute_999", "cannot compile for compute_999"},
      {"sm_90a,sm_999", "cannot compile for sm_999"},
      {"sm_75",
       "no kernel can be compiled for sm_75; name an architecture that the kernels support: sm_80 or newer"}};
  for (const auto& [arch, reason] : cases) {
    const Finished finished = precompile({"--output", folder_->path("unknown"), "--json", "-"}, arch);
    EXPECT_EQ(finished.code, 2) << arch;
    EXPECT_EQ(finished.out, "");
    EXPECT_THAT(finished.err, HasSubstr(reason));
    EXPECT_EQ(std::count(finished.err.begin(), finished.err.end(), '\n'), 1) << finished.err;
    EXPECT_FALSE(llvm::sys::fs::exists(folder_->path("unknown")));
  }
}

TEST_F(Precompile, AReportThatCannotBeWrittenIsSaidBeforeTheWork) {
  const Finished finished = precompile({"--json", "/nowhere/report.json"}, "sm_90a");
  EXPECT_EQ(finished.code, 2);
  EXPECT_EQ(finished.out, "");
  EXPECT_THAT(finished.err, HasSubstr("'/nowhere/report.json' cannot be written"));
  EXPECT_THAT(minuet({"precompile", "--from", network_, "--json", network_}).err,
              HasSubstr("would overwrite --from"));
}

/// One line of a recorded list: a kernel that compiles in no time.
std::string request_line(const std::string& name, const std::string& function) {
  return R"({"schema":1,"name":")" + name + R"(","arch":"sm_90a","expression":")" + function +
         R"(","least_sm":80,"source":"__global__ void )" + function +
         R"((float* x) { *x *= 2; }","request_key":"00"})" + "\n";
}

TEST_F(Precompile, R23_APtxBundleIsListedVerifiedAndExtracted) {
  const std::string list =
      folder_->file("ptx.jsonl", request_line("double", "f") + request_line("triple", "g"));
  for (const char* found : {" 4 compiled", " 4 found"}) {
    const Finished made = minuet({"precompile", "--from", list, "--arch", "compute_90a,compute_80", "--cache",
                                  folder_->path("ptx cache"), "--output", folder_->path("ptx"), "-j", "2"});
    EXPECT_EQ(made.code, 0) << made.err;
    EXPECT_THAT(made.out, HasSubstr(found));
  }
  const auto cache = [&](Words words) {
    words.insert(words.begin(), "cache");
    return minuet(words, {"--bundle", folder_->path("ptx/minuet-compute_90a.bundle")});
  };
  const Finished listed = cache({"list"});
  EXPECT_THAT(listed.out, HasSubstr("compute_90a"));
  EXPECT_THAT(listed.out, HasSubstr("triple"));
  EXPECT_THAT(listed.out, HasSubstr("2 kernels in"));
  EXPECT_EQ(cache({"verify"}).code, 0);
  const std::string ptx = folder_->path("double.ptx");
  EXPECT_EQ(cache({"extract", "double", "--output", ptx}).code, 0);
  EXPECT_THAT(contents(ptx), HasSubstr("\n.target sm_90a\n"));
  EXPECT_EQ(contents(ptx).find('\0'), std::string::npos);
  const llvm::json::Object shown = json_of(cache({"inspect", "double", "--json"}).out);
  EXPECT_EQ(*shown.getInteger("registers"), 0) << "the driver decides";
}

TEST_F(Precompile, CacheListsInspectsAndExtracts) {
  for (const Words& where : {Words{"--bundle", bundle()}, Words{"--cache", folder_->path("cache")}}) {
    const auto cache = [&where](Words words) {
      words.insert(words.begin(), "cache");
      return minuet(words, where);
    };
    EXPECT_THAT(cache({"list"}).out, HasSubstr("fused_convolution-f16-i4"));
    const llvm::json::Object list = json_of(cache({"list", "--json"}).out);
    const llvm::json::Array& kernels = *list.getArray("kernels");
    EXPECT_GT(kernels.size(), 20u);
    const std::string key = kernels[0].getAsObject()->getString("key")->str();
    const llvm::json::Object shown = json_of(cache({"inspect", key, "--json"}).out);
    EXPECT_EQ(*shown.getString("key"), key);
    EXPECT_EQ(*shown.getString("arch"), "sm_90a");
    EXPECT_GT(*shown.getInteger("registers"), 0);
    EXPECT_THAT(shown.getString("compiler")->str(), HasSubstr("nvrtc"));
    EXPECT_THAT(shown.getString("log")->str(), HasSubstr("registers"));
    EXPECT_THAT(cache({"inspect", "order_blocks"}).out, HasSubstr("lowered_name"));
    EXPECT_EQ(cache({"inspect", "s"}).code, 2) << "several start so";
    EXPECT_EQ(cache({"inspect", "nothing-starts-so"}).code, 2);
    const std::string cubin = folder_->path("order_blocks.cubin");
    EXPECT_EQ(cache({"extract", "order_blocks", "--output", cubin}).code, 0);
    EXPECT_EQ(contents(cubin).substr(1, 3), "ELF");
    if (where[0] == "--cache") {
      const Finished inside =
          cache({"extract", "order_blocks", "--output", folder_->path("cache/order_blocks")});
      EXPECT_EQ(inside.code, 2);
      EXPECT_THAT(inside.err, HasSubstr("is in the cache folder"));
    }
    const llvm::json::Object stats = json_of(cache({"stats", "--json"}).out);
    EXPECT_EQ(*stats.getInteger("kernels"), static_cast<int64_t>(kernels.size()));
    EXPECT_EQ(*stats.getObject("archs")->getObject("sm_90a")->getInteger("kernels"),
              *stats.getInteger("kernels"));
    EXPECT_EQ(cache({"verify"}).code, 0);
  }
}

TEST_F(Precompile, VerifyNamesWhatIsDamaged) {
  std::string bytes = contents(bundle());
  bytes[bytes.size() / 2] ^= 1;
  const std::string damaged = folder_->file("damaged.bundle", bytes);
  const Finished finished = minuet({"cache", "verify", "--bundle", damaged, "--json"});
  EXPECT_EQ(finished.code, 1);
  EXPECT_GE(json_of(finished.out).getArray("damaged")->size(), 1u);

  const llvm::json::Object list =
      json_of(minuet({"cache", "list", "--json", "--cache", folder_->path("cache")}).out);
  const std::string key = (*list.getArray("kernels"))[3].getAsObject()->getString("key")->str();
  const std::string entry = folder_->path("cache/v1/obj/" + key.substr(0, 2) + "/" + key.substr(2));
  const std::string whole = contents(entry);
  std::ofstream(entry, std::ios::binary) << whole.substr(0, whole.size() - 1);
  const Finished verified = minuet({"cache", "verify", "--cache", folder_->path("cache")});
  EXPECT_EQ(verified.code, 1);
  EXPECT_THAT(verified.out, HasSubstr(key));
  EXPECT_THAT(verified.out, HasSubstr(", 1 damaged"));
  EXPECT_THAT(minuet({"cache", "list", "--cache", folder_->path("cache")}).out,
              HasSubstr("damaged kernel " + key.substr(0, 12)));
  std::ofstream(entry, std::ios::binary) << whole;
  EXPECT_EQ(minuet({"cache", "verify", "--cache", folder_->path("cache")}).code, 0);
  // Whatever else stands in an entry's place, and an entry that stands in another's.
  const std::string wrong = entry.substr(0, entry.size() - 62) + std::string(62, 'f');
  const auto expect_named = [&](const char* reason) {
    const Finished found = minuet({"cache", "verify", "--cache", folder_->path("cache")});
    EXPECT_EQ(found.code, 1) << reason;
    EXPECT_THAT(found.out,
                testing::AllOf(HasSubstr(std::string(62, 'f')), HasSubstr(reason), HasSubstr(", 1 damaged")));
    llvm::sys::fs::remove(wrong);
  };
  ASSERT_EQ(::symlink(entry.c_str(), wrong.c_str()), 0);
  expect_named("not a regular file");
  ASSERT_FALSE(llvm::sys::fs::create_directory(wrong));
  expect_named("not a regular file");
  std::ofstream(wrong, std::ios::binary) << whole;
  expect_named("the entry of another kernel");
  EXPECT_EQ(minuet({"cache", "verify", "--cache", folder_->path("cache")}).code, 0);
}

/// Half of what there is leaves something, and a limit of 0 nothing.
TEST_F(Precompile, R09_PruneLeavesWhatFits) {
  bundle();
  const auto stats = [] {
    return json_of(minuet({"cache", "stats", "--json", "--cache", folder_->path("cache")}).out);
  };
  for (const int64_t limit : {*stats().getInteger("stored_bytes") / 2, int64_t{0}}) {
    SCOPED_TRACE(limit);
    const Finished finished = minuet({"cache", "prune", "--max-bytes", std::to_string(limit), "--json",
                                      "--cache", folder_->path("cache")});
    ASSERT_EQ(finished.code, 0) << finished.err;
    const llvm::json::Object pruned = json_of(finished.out);
    EXPECT_LE(*pruned.getInteger("bytes"), limit);
    EXPECT_GT(*pruned.getInteger("removed_entries"), 0);
    EXPECT_EQ(*pruned.getInteger("entries") == 0, limit == 0);
    EXPECT_EQ(*stats().getInteger("kernels"), *pruned.getInteger("entries"));
  }
}

/// The helper that `parent` started, or 0.
pid_t helper_of(pid_t parent) {
  for (const auto& folder : std::filesystem::directory_iterator("/proc")) {
    const int process = std::atoi(folder.path().filename().c_str());
    if (process <= 0) continue;
    const std::string status = contents(folder.path() / "status");
    if (status.find("\nPPid:\t" + std::to_string(parent) + "\n") != std::string::npos) return process;
  }
  return 0;
}

/// Whether a kernel is kept in that cache.
bool has_kernel(const std::string& cache) {
  std::error_code none_yet;
  for (std::filesystem::recursive_directory_iterator file(cache + "/v1/obj", none_yet), end; file != end;
       file.increment(none_yet)) {
    if (file->path().filename().string().size() == 62) return true;  // what is half written has another name
  }
  return false;
}

TEST_F(Precompile, R19_CtrlCLeavesAUsablePartOfTheWhole) {
  const std::string cache = folder_->path("interrupted");
  const pid_t child = ::fork();
  if (child == 0) {
    ::execl(MINUET_CLI, "minuet", "precompile", "--network", network_.c_str(), "--arch", "sm_80", "--jobs",
            "1", "--cache", cache.c_str(), "--output", folder_->path("part").c_str(), nullptr);
    ::_exit(127);
  }
  wait_until("the first kernel", [&] { return has_kernel(cache); });
  // Held still, so that the rest cannot be done before the signal.
  const pid_t helper = helper_of(child);
  ASSERT_NE(helper, 0) << "the whole was done before anybody looked";
  ::kill(helper, SIGSTOP);
  ::kill(child, SIGINT);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 130);
  EXPECT_EQ(minuet({"cache", "verify", "--bundle", folder_->path("part/minuet-sm_80.bundle")}).code, 0);
}

}  // namespace
}  // namespace minuet::tool
