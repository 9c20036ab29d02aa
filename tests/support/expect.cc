#include "tests/support/expect.h"

#include <dlfcn.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <sstream>

namespace minuet {
namespace {

/// Asked through the driver's own C functions, so that nothing under test is in the way.
int devices_of(const std::string& driver) {
  void* library = dlopen(driver.c_str(), RTLD_NOW);
  if (library == nullptr) return 0;
  const auto init = reinterpret_cast<int (*)(unsigned)>(dlsym(library, "cuInit"));
  const auto get_count = reinterpret_cast<int (*)(int*)>(dlsym(library, "cuDeviceGetCount"));
  int count = 0;
  if (init == nullptr || get_count == nullptr || init(0) != 0 || get_count(&count) != 0) return 0;
  return count;  // the library stays open: a driver may not be closed
}

}  // namespace

std::string gpu_seen(const std::string& device_folder, const std::string& driver) {
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator(device_folder, none)) {
    const std::string name = entry.path().filename();
    if (name.size() > 6 && name.compare(0, 6, "nvidia") == 0 && std::isdigit(name[6])) {
      return "there is " + entry.path().string();
    }
  }
  const int count = devices_of(driver);
  return count > 0 ? driver + " shows " + std::to_string(count) + " devices" : "";
}

bool on_software_device() {
  static void* const driver = dlopen("libcuda.so.1", RTLD_NOW);
  static const bool is_software = driver != nullptr && dlsym(driver, "software_cuda_seed") != nullptr;
  return is_software;
}

std::string why_expected(const std::string& what) {
  const char* list = std::getenv("MINUET_EXPECT");
  std::stringstream words(list != nullptr ? list : "");
  for (std::string word; std::getline(words, word, ',');) {
    if (word == what) return "MINUET_EXPECT names " + what;
    // A slip of the pen would let everything skip again.
    const std::string known[] = {"golden", "nvrtc", "gpu", "browser", "torch", "jax"};
    if (std::find(std::begin(known), std::end(known), word) == std::end(known)) {
      return "MINUET_EXPECT names '" + word + "', and can name golden, nvrtc, gpu, browser, torch and jax";
    }
  }
  if (what != "gpu") return "";
  static const std::string seen = gpu_seen("/dev", "libcuda.so.1");
  return seen.empty() ? "" : "a GPU that is there has to open: " + seen;
}

bool long_tests_wanted() {
  const char* const value = std::getenv("MINUET_LONG_TESTS");
  return value != nullptr && std::string(value) == "1";
}

}  // namespace minuet
