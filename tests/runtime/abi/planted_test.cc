// What a context's options and the environment say about bundles, folders and compiling, through the C ABI.
#include <dlfcn.h>
#include <signal.h>

#include <atomic>
#include <map>

#include "tests/runtime/abi/planted_fixture.h"
#include "tests/support/environment.h"

namespace minuet::abi {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
namespace fs = std::filesystem;

TEST_F(Planted, R21_WhichCompilersABundleMayBeOf) {
  const std::string file = path("a.bundle");
  /// Whether the kernels of a bundle that `compiler` made are taken.
  const auto taken = [&](const std::string& compiler, minuet_bundle_policy policy) {
    const int64_t kernels = plant(file, compiler);
    const auto strict = context(nullptr, [&](minuet_context_options& options) {
      strictly(options);
      options.bundle_policy = policy;
      options.bundle_path = file.c_str();
    });
    const minuet_status status = compile(strict.get());
    EXPECT_EQ(counters(strict.get()).bundle_hits, status == MINUET_OK ? kernels : 0);
    EXPECT_THAT(status, testing::AnyOf(MINUET_OK, MINUET_FAILED_PRECONDITION));
    return status == MINUET_OK;
  };
  EXPECT_EQ(minuet_context_options(MINUET_CONTEXT_OPTIONS_INIT).bundle_policy, MINUET_BUNDLE_SAME_MAJOR);
  EXPECT_TRUE(taken("nvrtc 12.9 a b", MINUET_BUNDLE_SAME_MAJOR));
  EXPECT_TRUE(taken("nvrtc 13.7 a b", MINUET_BUNDLE_SAME_MAJOR));
  EXPECT_FALSE(taken("nvrtc 14.0 a b", MINUET_BUNDLE_SAME_MAJOR));
  EXPECT_TRUE(taken("nvrtc 14.0 a b", MINUET_BUNDLE_ANY));
  for (const minuet_bundle_policy none : {-1, 2}) {
    minuet_context_options options = MINUET_CONTEXT_OPTIONS_INIT;
    options.bundle_policy = none;
    minuet_context* made = nullptr;
    EXPECT_EQ(minuet_context_create(&options, &made), MINUET_INVALID_ARGUMENT);
    EXPECT_THAT(last_error(), HasSubstr("bundle_policy"));
  }
}

/// A library of its own, beside the one that this test has.
class LibraryCopy {
 public:
  explicit LibraryCopy(const std::string& path) : library_(::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) {
    EXPECT_NE(library_, nullptr) << ::dlerror();
  }
  ~LibraryCopy() { ::dlclose(library_); }
  LibraryCopy(const LibraryCopy&) = delete;
  LibraryCopy& operator=(const LibraryCopy&) = delete;

  struct Compiled {
    int64_t bundle_hits = 0;
    std::string error;  // empty: none
  };
  /// A small convolution's kernels, in a context of those options.
  Compiled compile(const minuet_context_options& options) const {
#define OF_COPY(name) reinterpret_cast<decltype(&name)>(::dlsym(library_, #name))
    minuet_context* made = nullptr;
    EXPECT_EQ(OF_COPY(minuet_context_create)(&options, &made), MINUET_OK);
    const std::vector<float> weight(4 * 4 * 3, 1.0f);
    minuet_convolution_options layer = MINUET_CONVOLUTION_OPTIONS_INIT;
    layer.dataflow = MINUET_DATAFLOW_GATHER_GEMM_SCATTER;  // as what is planted
    layer.ndim = 1;
    layer.dtype = MINUET_F16;
    layer.in_channels = layer.out_channels = 4;
    layer.kernel_size[0] = 3;
    layer.submanifold = 1;
    layer.weight = weight.data();
    layer.weight_count = static_cast<int64_t>(weight.size());
    minuet_plan* convolution = nullptr;
    EXPECT_EQ(OF_COPY(minuet_plan_create_convolution)(made, &layer, &convolution), MINUET_OK);
    Compiled compiled;
    if (OF_COPY(minuet_plan_compile)(convolution, kArch, nullptr, nullptr) != MINUET_OK) {
      compiled.error.resize(OF_COPY(minuet_last_error)(nullptr, 0) - 1);
      OF_COPY(minuet_last_error)(compiled.error.data(), compiled.error.size() + 1);
    }
    minuet_kernel_counters counters = MINUET_KERNEL_COUNTERS_INIT;
    EXPECT_EQ(OF_COPY(minuet_context_kernel_counters)(made, &counters), MINUET_OK);
    compiled.bundle_hits = counters.bundle_hits;
    OF_COPY(minuet_plan_destroy)(convolution);
    OF_COPY(minuet_context_destroy)(made);
#undef OF_COPY
    return compiled;
  }

 private:
  void* const library_;
};

TEST_F(Planted, R21_BundlesBesideTheLibraryAreFound) {
  fs::create_directory(path("lib"));
  fs::copy_file(MINUET_LIBRARY, path("lib/libminuet.so"));
  plant(path("lib/other-sm_90a.bundle"), "nvrtc 13.0 a b");
  const LibraryCopy library(path("lib/libminuet.so"));
  minuet_context_options options = MINUET_CONTEXT_OPTIONS_INIT;
  strictly(options);
  options.disable_disk_cache = 1;
  EXPECT_EQ(library.compile(options).bundle_hits, 0) << "one whose name does not begin with minuet-";
  const int64_t kernels = plant(path("lib/minuet-sm_90a.bundle"), "nvrtc 13.0 a b");
  EXPECT_EQ(library.compile(options).bundle_hits, kernels);
}

TEST_F(Planted, R21_ALibraryOpenedByARelativePathKnowsItsFolderInEveryFolder) {
  fs::create_directory(path("lib"));
  fs::copy_file(MINUET_LIBRARY, path("lib/libminuet.so"));
  const int64_t kernels = plant(path("lib/minuet-sm_90a.bundle"), "nvrtc 13.0 a b");
  const fs::path here = fs::current_path();
  fs::current_path(folder_);
  const LibraryCopy library("lib/libminuet.so");
  fs::current_path(here);
  minuet_context_options options = MINUET_CONTEXT_OPTIONS_INIT;
  strictly(options);
  options.disable_disk_cache = 1;
  EXPECT_EQ(library.compile(options).bundle_hits, kernels);
  fs::remove(path("lib/minuet-sm_90a.bundle"));
  options.jit = MINUET_JIT_ON;
  // Not the one beside this program, were there one.
  EXPECT_THAT(library.compile(options).error, HasSubstr(path("lib/minuet-compile") + " does not exist"));
}

TEST_F(Planted, R22_WhetherToCompileIsTheCallersWordBeforeTheVariable) {
  const auto status = [&](minuet_jit jit) {
    const auto made = context(nullptr, [&](minuet_context_options& options) {
      strictly(options);
      options.jit = jit;
    });
    return compile(made.get());
  };
  // Where it may compile, it finds that there is no compiler.
  {
    const EnvironmentVariable none("MINUET_NO_JIT", std::nullopt);
    EXPECT_EQ(status(MINUET_JIT_DEFAULT), MINUET_UNAVAILABLE);
    EXPECT_THAT(last_error(), HasSubstr("libnvrtc"));
    EXPECT_THAT(last_error_detail(), HasSubstr("/nowhere/libnvrtc.so.13"));
    EXPECT_EQ(status(MINUET_JIT_OFF), MINUET_FAILED_PRECONDITION);
  }
  {
    const EnvironmentVariable off("MINUET_NO_JIT", "1");
    EXPECT_EQ(status(MINUET_JIT_DEFAULT), MINUET_FAILED_PRECONDITION);
    EXPECT_EQ(status(MINUET_JIT_ON), MINUET_UNAVAILABLE);
  }
  {
    const EnvironmentVariable on("MINUET_NO_JIT", "0");
    EXPECT_EQ(status(MINUET_JIT_DEFAULT), MINUET_UNAVAILABLE);
  }
  for (const auto& [name, value] : std::map<const char*, const char*>{
           {"MINUET_NO_JIT", "maybe"}, {"MINUET_CACHE_SHARED", "2"}, {"MINUET_CACHE_MAX_BYTES", "1G"}}) {
    const EnvironmentVariable setting(name, value);
    minuet_context* made = nullptr;
    EXPECT_EQ(minuet_context_create(nullptr, &made), MINUET_INVALID_ARGUMENT) << name;
    EXPECT_THAT(last_error(), AllOf(HasSubstr(name), HasSubstr(value)));
  }
  for (const minuet_jit none : {-1, 3}) {
    minuet_context_options options = MINUET_CONTEXT_OPTIONS_INIT;
    options.jit = none;
    minuet_context* made = nullptr;
    EXPECT_EQ(minuet_context_create(&options, &made), MINUET_INVALID_ARGUMENT);
    EXPECT_THAT(last_error(), HasSubstr("jit"));
  }
}

TEST_F(Planted, R08_TheCompilerThatTheVariableNames) {
  const EnvironmentVariable jit("MINUET_NO_JIT", std::nullopt),
      nvrtc("MINUET_NVRTC", "/elsewhere/libnvrtc.so.13");
  const auto missing = [&](const char* named) {
    const auto made = context(nullptr, [&](minuet_context_options& options) { options.nvrtc_path = named; });
    EXPECT_EQ(compile(made.get()), MINUET_UNAVAILABLE);
    return last_error_detail();
  };
  EXPECT_THAT(missing(nullptr), HasSubstr("/elsewhere/libnvrtc.so.13"));
  EXPECT_THAT(missing("/nowhere/libnvrtc.so.13"),
              AllOf(HasSubstr("/nowhere/libnvrtc.so.13"), Not(HasSubstr("/elsewhere"))));
}

TEST_F(Planted, TheCublasThatTheVariableNames) {
  const EnvironmentVariable named("MINUET_CUBLASLT", "/elsewhere/libcublasLt.so.13");
  const auto info = std::make_unique<minuet_system_info>();
  info->struct_size = sizeof(*info);
  check(minuet_query_system(info.get()));
  EXPECT_STREQ(info->cublaslt_path, "") << "no other is taken in its place";
  EXPECT_THAT(info->missing, HasSubstr("/elsewhere/libcublasLt.so.13"));
}

TEST_F(Planted, R10_WhichFolderKernelsAreKeptIn) {
  const auto folder = [&](const char* option, bool disk = true) {
    minuet_context_options options = MINUET_CONTEXT_OPTIONS_INIT;
    options.cache_directory = option;
    options.disable_disk_cache = disk ? 0 : 1;
    minuet_context* made = nullptr;
    check(minuet_context_create(&options, &made));
    const Handle<minuet_context> owner(made, {minuet_context_destroy});
    std::string text(minuet_context_cache_directory(made, nullptr, 0), '\0');
    minuet_context_cache_directory(made, text.data(), text.size());
    text.pop_back();
    return text;
  };
  fs::create_directory(path("home"));
  const std::string home_folder = path("home"), xdg_folder = path("xdg"), own_folder = path("own"),
                    option = path("option");
  const EnvironmentVariable home("HOME", home_folder.c_str());
  {
    const EnvironmentVariable xdg("XDG_CACHE_HOME", std::nullopt), own("MINUET_CACHE_DIR", std::nullopt);
    EXPECT_EQ(folder(nullptr), home_folder + "/.cache/minuet");
  }
  const EnvironmentVariable xdg("XDG_CACHE_HOME", xdg_folder.c_str());
  {
    const EnvironmentVariable own("MINUET_CACHE_DIR", std::nullopt);
    EXPECT_EQ(folder(nullptr), xdg_folder + "/minuet");
  }
  const EnvironmentVariable own("MINUET_CACHE_DIR", own_folder.c_str());
  EXPECT_EQ(folder(nullptr), own_folder);
  EXPECT_EQ(folder(option.c_str()), option);
  EXPECT_EQ(folder(option.c_str(), false), "");
}

TEST_F(Planted, WarningsGoToTheLog) {
  struct Log {
    int lines = 0;
    std::string text;
  } log;
  const std::string no_folder = path("a file");
  std::ofstream(no_folder) << "somebody's";
  const auto made = context(nullptr, [&](minuet_context_options& options) {
    options.disable_disk_cache = 0;
    options.cache_directory = no_folder.c_str();
    options.bundle_path = "/nowhere/a.bundle";
    options.log_user = &log;
    options.log = [](minuet_log_level level, const char* text, size_t length, void* user) {
      EXPECT_EQ(level, MINUET_LOG_WARNING);
      ++static_cast<Log*>(user)->lines;
      static_cast<Log*>(user)->text.append(text, length).append("\n");
    };
  });
  EXPECT_EQ(log.lines, 2) << log.text;
  EXPECT_THAT(log.text, AllOf(HasSubstr(no_folder), HasSubstr("/nowhere/a.bundle")));
  EXPECT_EQ(minuet_context_cache_directory(made.get(), nullptr, 0), 1u) << "only memory is left";
}

/// A network's jobs: one that finds all its kernels, one that may not compile, one with nothing to do.
TEST_F(Planted, R17_NetworksCompileInTheBackground) {
  struct Done {
    std::atomic<int> calls{0};
    std::atomic<int> status{-1};
    std::string message;  // of the job's thread, read after the wait
  };
  const auto run = [&](minuet_context* context, const char* arch, Done& done) {
    minuet_network_options options = MINUET_NETWORK_OPTIONS_INIT;
    options.description = R"({"name": "n", "ndim": 1, "in_channels": 4, "channels": [4], "layers": [
      {"op": "block", "name": "a", "width": 0, "kernel_size": 3}]})";
    minuet_plan* network = nullptr;
    check(minuet_plan_create_network(context, &options, &network));
    minuet_job* job = nullptr;
    check(minuet_plan_compile_async(
        network, arch,
        [](minuet_status status, void* user) {
          Done& done = *static_cast<Done*>(user);
          done.status = status;
          if (status != MINUET_OK) done.message = last_error();
          ++done.calls;
        },
        &done, &job));
    minuet_plan_destroy(network);
    const minuet_status status = minuet_job_wait(job);
    EXPECT_EQ(minuet_job_done(job), 1);
    EXPECT_EQ(minuet_job_wait(job), status) << "as often as one likes";
    minuet_job_destroy(job);
    EXPECT_EQ(done.calls, 1);
    EXPECT_EQ(done.status, status);
    return status;
  };
  Done refused, done, nothing;
  const std::string list = path("network.jsonl");
  const auto strict = context(nullptr, [&](minuet_context_options& options) {
    strictly(options);
    options.record_path = list.c_str();
  });
  EXPECT_EQ(run(strict.get(), kArch, refused), MINUET_FAILED_PRECONDITION);
  EXPECT_THAT(refused.message, HasSubstr("minuet precompile --from"));
  EXPECT_EQ(run(strict.get(), "cpu", nothing), MINUET_OK);

  const int64_t kernels = plant_recorded(list, path("network.bundle"), "nvrtc 13.0 a b");
  check(minuet_context_add_bundle(strict.get(), path("network.bundle").c_str(), nullptr));
  EXPECT_EQ(run(strict.get(), kArch, done), MINUET_OK) << last_error();
  EXPECT_EQ(counters(strict.get()).bundle_hits, kernels);

  minuet_job* job = nullptr;
  EXPECT_EQ(minuet_plan_compile_async(nullptr, kArch, nullptr, nullptr, &job), MINUET_INVALID_ARGUMENT);
  EXPECT_EQ(job, nullptr);
  EXPECT_EQ(minuet_job_done(nullptr), 0);
}

TEST_F(Planted, R17_AJobsCallbackFindsTheJob) {
  const auto strict = context(nullptr, strictly);
  auto plan = convolution(strict.get());
  for (int round = 0; round < 200 && !HasFailure(); ++round) {
    struct Seen {
      minuet_job* job = nullptr;
      bool was_there = false;
    } seen;
    check(minuet_plan_compile_async(
        plan.get(), "no architecture",
        [](minuet_status, void* user) {
          Seen& seen = *static_cast<Seen*>(user);
          seen.was_there = seen.job != nullptr;
        },
        &seen, &seen.job));
    EXPECT_EQ(minuet_job_wait(seen.job), MINUET_INVALID_ARGUMENT);
    EXPECT_TRUE(seen.was_there) << "round " << round;
    minuet_job_destroy(seen.job);
  }
}

/// What a callback starts or does has the signals that the host's thread has.
TEST_F(Planted, R15_CallbacksAreCalledWithTheHostsSignals) {
  sigset_t mine, before;
  ::sigemptyset(&mine);
  ::sigaddset(&mine, SIGUSR1);
  ::pthread_sigmask(SIG_SETMASK, &mine, &before);
  struct Seen {
    std::atomic<int> calls{0}, wrong{0};
    void look() {
      sigset_t blocked;
      ::pthread_sigmask(SIG_SETMASK, nullptr, &blocked);
      const bool is_mine = ::sigismember(&blocked, SIGUSR1) == 1 && ::sigismember(&blocked, SIGTERM) == 0;
      wrong += is_mine ? 0 : 1;
      ++calls;
    }
  } logged, done;
  // What is missing cannot be written down, which is logged.
  const auto owner = context(nullptr, [&](minuet_context_options& options) {
    options.record_path = folder_.c_str();
    options.nvrtc_path = "/nowhere/libnvrtc.so.13";
    options.log_user = &logged;
    options.log = [](minuet_log_level, const char*, size_t, void* user) { static_cast<Seen*>(user)->look(); };
  });
  minuet_job* job = nullptr;
  check(minuet_plan_compile_async(
      convolution(owner.get()).get(), kArch,
      [](minuet_status, void* user) { static_cast<Seen*>(user)->look(); }, &done, &job));
  EXPECT_EQ(minuet_job_wait(job), MINUET_UNAVAILABLE);
  minuet_job_destroy(job);
  EXPECT_EQ(done.calls, 1);
  EXPECT_GE(logged.calls, 1);
  EXPECT_EQ(done.wrong, 0);
  EXPECT_EQ(logged.wrong, 0);
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

}  // namespace
}  // namespace minuet::abi
