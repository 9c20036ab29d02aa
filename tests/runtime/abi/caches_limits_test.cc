// How much a cache folder may hold and which compilers a bundle may be of, through the C ABI; with NVRTC.
#include "tests/codegen/cache/store_fakes.h"
#include "tests/runtime/abi/caches_fixture.h"
#include "tests/support/environment.h"

namespace minuet::abi {
namespace {

using testing::HasSubstr;
namespace fs = std::filesystem;

class Limits : public Caches {
 protected:
  void SetUp() override {
    Caches::SetUp();
    if (IsSkipped()) return;
    list_ = record_few();
    minuet_precompile_result result;
    Told told;
    ASSERT_EQ(precompile(context("farm").get(), list_, path("out"), {}, result, told), MINUET_OK)
        << last_error();
    kernels_ = result.kernels;
    ASSERT_GT(kernels_, 3);
  }

  /// A folder with all kernels but one, of long ago, which the next publish prunes; the others beside them.
  std::string old_folder(const std::string& name) {
    const std::string folder = path(name);
    fs::copy(path("farm"), folder, fs::copy_options::recursive);
    fs::remove(entries_in(folder).front());
    for (const std::string& file : entries_in(folder)) set_age(file, std::chrono::hours(2));
    if (!fs::exists(folder + "/v1/pruned")) std::ofstream(folder + "/v1/pruned").flush();
    set_age(folder + "/v1/pruned", std::chrono::hours(2));
    return folder;
  }
  /// Compiles the kernels that are missing once the folder is opened: one, or all where opening it prunes it.
  void publish(const std::string& name, std::uint64_t most_bytes, int64_t missing) {
    const auto farm =
        context(name.c_str(), [&](minuet_context_options& options) { options.cache_max_bytes = most_bytes; });
    minuet_precompile_result result;
    Told told;
    fs::remove_all(path("out"));
    ASSERT_EQ(precompile(farm.get(), list_, path("out"), {}, result, told), MINUET_OK) << last_error();
    ASSERT_EQ(result.compiled, missing);
  }
  /// Entries that are left after that. `is_tight`: the limit is one byte.
  std::size_t left(std::uint64_t most_bytes, const std::optional<std::string>& variable, bool is_tight) {
    const std::string name = "folder" + std::to_string(folders_++);
    old_folder(name);
    const EnvironmentVariable most("MINUET_CACHE_MAX_BYTES", variable);
    publish(name, most_bytes, is_tight ? kernels_ : 1);
    return entries_in(path(name)).size();
  }

  std::string list_;
  int64_t kernels_ = 0;
  int folders_ = 0;
};

TEST_F(Limits, R09_TheCallersBytesComeBeforeTheVariables) {
  const auto all = static_cast<std::size_t>(kernels_);
  EXPECT_EQ(left(0, std::nullopt, false), all);
  EXPECT_EQ(left(1, std::nullopt, true), 1u) << "what was published just now stays";
  EXPECT_EQ(left(0, "1", true), 1u);
  EXPECT_EQ(left(1u << 30, "1", false), all);
  EXPECT_EQ(left(1, "1073741824", true), 1u);
}

/// By files that are as large as their holes.
TEST_F(Limits, R09_AGigabyteIfNobodySaysOtherwise) {
  const auto left = [&](std::uintmax_t each) {
    const std::string folder = old_folder("holes" + std::to_string(each));
    for (const char digit : {'0', '1'}) {
      const std::string shelf = folder + "/v1/obj/a" + digit, file = shelf + "/" + std::string(62, digit);
      fs::create_directories(shelf);
      fs::permissions(shelf, fs::perms::owner_all);
      std::ofstream(file).flush();
      fs::resize_file(file, each);
      set_age(file, std::chrono::hours(digit == '0' ? 300 : 200));
    }
    publish("holes" + std::to_string(each), 0, 1);
    return entries_in(folder).size();
  };
  const auto all = static_cast<std::size_t>(kernels_) + 2;
  EXPECT_EQ(left(500u << 20), all) << "1000 MiB";
  EXPECT_EQ(left(520u << 20), all - 1) << "1040 MiB: the older one goes";
}

/// What NVRTC said is in the detail.
TEST_F(Limits, R30_TheLogOfACompileIsTheDetail) {
  std::ofstream(list_, std::ios::app)
      << R"({"schema":1,"name":"broken","arch":"sm_90a","expression":"f","least_sm":80,"source":"no C++","request_key":"00"})"
      << "\n";
  minuet_precompile_result result;
  Told told;
  EXPECT_NE(precompile(context("farm").get(), list_, path("out"), {}, result, told), MINUET_OK);
  EXPECT_THAT(last_error(), HasSubstr("broken"));
  EXPECT_THAT(last_error_detail(), HasSubstr("error: "));
}

}  // namespace
}  // namespace minuet::abi
