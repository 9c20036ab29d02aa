# The call
#   minuet_add_test(NAME <name> SOURCES <file>... [LIBRARIES <target>...] LABELS cpu|nvrtc|gpu|concurrent|unit...
#                   [TIMEOUT <seconds>] [FILTERS <suffix>=<gtest filter>...] [ARGUMENTS <argument>...])
# adds the GoogleTest executable <name> and one ctest entry, or with FILTERS one entry <name>.<suffix> for each filter.
# If every test in an entry skips itself, for example without a GPU or the folder of golden problems, ctest shows the
# entry as skipped. An entry that runs no test at all fails.
#
# The labels have these meanings:
#   cpu says that the test needs nothing special.
#   nvrtc says that the test needs libnvrtc.
#   gpu says that the test needs a GPU.
#   concurrent, added to one of these, says that the test starts threads, so that the tsan build runs it.
#   unit, added to cpu, says that the test is of one part whose results do not depend on the optimizer, or of the tests'
#     own code. A complete tools/check runs such a test only under the sanitizers, and not in the release build
#     (-DMINUET_UNIT_TESTS=OFF), so that it runs once. Added to gpu, unit says that the sanitizers' build runs the whole
#     test on the software CUDA device. The release build runs it too if there is a GPU.
option(MINUET_UNIT_TESTS "Build and run the tests with the label unit" ON)
option(MINUET_UNIT_TESTS_OF_GPU "Build and run the tests with the labels gpu and unit" ON)
option(MINUET_TESTS_BY_CLANG "In a build by g++, compile the tests with clang, which takes half the time" OFF)
option(MINUET_WHOLE_CHECK "Leave out tests that another build of a whole tools/check runs" OFF)

# The script tools/check builds these targets in the asan and tsan builds, and runs there the entries with the label
# gtest. Every entry that is made here has this label.
add_custom_target(minuet_cpu_tests)
add_custom_target(minuet_concurrent_tests)

# Matches only an output that ends with the list of skipped tests and has no passed test, so it never hides a failure.
set(MINUET_ALL_SKIPPED "\\[  PASSED  \\] 0 tests\\.\n\\[  SKIPPED \\] [0-9]+ tests?, listed below:\n(\\[  SKIPPED \\] [^\n]*\n)+$")
set(MINUET_NONE_RAN "\\[==========\\] 0 tests from 0 test suites ran")

function(minuet_test_properties name labels timeout)
  # The kernel cache that the tests use is in the build folder, so that the next run finds the kernels and no home
  # folder is touched.
  set(environment "XDG_CACHE_HOME=${CMAKE_BINARY_DIR}/test-cache")
  if(MINUET_SANITIZE MATCHES "address")
    # The option handle_sigill reports undefined behaviour, which executes an illegal instruction
    # (MINUET_SANITIZE_TRAP). The option protect_shadow_gap is off because the CUDA driver maps memory in ASan's shadow
    # gap.
    list(APPEND environment "ASAN_OPTIONS=handle_sigill=1:protect_shadow_gap=0:strict_string_checks=1:detect_stack_use_after_return=1"
         "UBSAN_OPTIONS=print_stacktrace=1" "LSAN_OPTIONS=suppressions=${PROJECT_SOURCE_DIR}/tools/lint/lsan.supp")
  elseif(MINUET_SANITIZE MATCHES "thread")
    list(APPEND environment "TSAN_OPTIONS=second_deadlock_stack=1:suppressions=${PROJECT_SOURCE_DIR}/tools/lint/tsan.supp")
  endif()
  # COST makes ctest start the tests with the longest timeouts first, so that no core is idle at the end.
  set_tests_properties(${name} PROPERTIES LABELS "${labels}" TIMEOUT ${timeout} COST ${timeout} ENVIRONMENT "${environment}"
                       SKIP_REGULAR_EXPRESSION "${MINUET_ALL_SKIPPED}"
                       FAIL_REGULAR_EXPRESSION "${MINUET_NONE_RAN}")
endfunction()

# Compiles a test, or what tests share, with clang if MINUET_TESTS_BY_CLANG asks for it. Both compilers use the same
# standard library, so their object files link together.
find_program(MINUET_CLANGXX clang++)
function(minuet_compile_by_clang target)
  if(MINUET_TESTS_BY_CLANG AND MINUET_CLANGXX AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND NOT MINUET_SANITIZE)
    set_target_properties(${target} PROPERTIES CXX_COMPILER_LAUNCHER
      "${PROJECT_SOURCE_DIR}/tools/cmake/by_clang.sh;${CMAKE_CXX_COMPILER};${MINUET_CLANGXX};${CMAKE_CXX_COMPILER_LAUNCHER}")
  endif()
endfunction()

# Precompiles the headers of GoogleTest and others that most tests include, which halves the tests' compile time. The
# target that owns them is an executable, so that its flags equal those of the tests.
function(minuet_precompile_test_headers)
  if(TARGET minuet_test_headers)
    return()
  endif()
  file(WRITE ${CMAKE_BINARY_DIR}/generated/test_headers.cc "int main() { return 0; }\n")
  add_executable(minuet_test_headers EXCLUDE_FROM_ALL ${CMAKE_BINARY_DIR}/generated/test_headers.cc)
  target_link_libraries(minuet_test_headers PRIVATE minuet_options minuet_llvm GTest::gmock GTest::gtest)
  target_compile_options(minuet_test_headers PRIVATE $<$<CONFIG:Release>:-O0>)
  minuet_compile_by_clang(minuet_test_headers)
  target_precompile_headers(minuet_test_headers PRIVATE <gmock/gmock.h> <gtest/gtest.h> <algorithm> <atomic> <chrono>
    <filesystem> <fstream> <functional> <map> <memory> <mutex> <optional> <set> <string> <thread> <vector>
    ${PROJECT_SOURCE_DIR}/codegen/base/error.h)
endfunction()

# Sets the compile options of a target with test code: a test, or a library that tests share.
function(minuet_compile_as_test target)
  minuet_precompile_test_headers()
  minuet_compile_by_clang(${target})
  target_precompile_headers(${target} REUSE_FROM minuet_test_headers)
  # The precompiled headers include headers of LLVM that refer to a variable in LLVM's library, so every test
  # links this library.
  target_link_libraries(${target} PRIVATE minuet_llvm)
  # -O0 saves a quarter of the compile time. Libraries need -fPIE too, because the headers were precompiled with it.
  target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O0>
    $<$<COMPILE_LANGUAGE:CXX>:-fPIE>
    ${MINUET_PCH_FOR_CCACHE})
endfunction()

function(minuet_add_test)
  cmake_parse_arguments(PARSE_ARGV 0 test "" "NAME;TIMEOUT" "SOURCES;LIBRARIES;LABELS;FILTERS;ARGUMENTS")
  if(NOT test_NAME OR NOT test_SOURCES OR NOT test_LABELS OR test_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "minuet_add_test needs NAME, SOURCES and LABELS; not understood: '${test_UNPARSED_ARGUMENTS}'")
  endif()
  foreach(label IN LISTS test_LABELS)
    if(NOT label MATCHES "^(cpu|nvrtc|gpu|concurrent|unit)$")
      message(FATAL_ERROR "minuet_add_test(${test_NAME}): '${label}' is no label; cpu, nvrtc, gpu, concurrent, unit are")
    endif()
  endforeach()
  if(NOT test_TIMEOUT)
    set(test_TIMEOUT 300)
  endif()

  add_executable(${test_NAME} ${test_SOURCES} $<TARGET_OBJECTS:minuet_test_host_locale>)
  target_link_libraries(${test_NAME} PRIVATE minuet_options ${test_LIBRARIES} minuet_test_expect GTest::gmock GTest::gtest
                        GTest::gtest_main)
  # MINUET_SHARED_DEFAULT names the folder of golden problems (inputs with reference results) unless the environment
  # variable MINUET_SHARED is set.
  target_compile_definitions(${test_NAME} PRIVATE MINUET_SOURCE_DIR="${PROJECT_SOURCE_DIR}"
                             MINUET_SHARED_DEFAULT="${PROJECT_SOURCE_DIR}/../shared")
  set_target_properties(${test_NAME} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  minuet_compile_as_test(${test_NAME})
  foreach(label IN ITEMS cpu concurrent)
    if(label IN_LIST test_LABELS)
      add_dependencies(minuet_${label}_tests ${test_NAME})
    endif()
  endforeach()
  list(APPEND test_LABELS gtest)
  if(test_NAME IN_LIST MINUET_REPEATED_TESTS)
    list(APPEND test_LABELS repeated)
  endif()
  set(wanted MINUET_UNIT_TESTS)
  if("gpu" IN_LIST test_LABELS)
    set(wanted MINUET_UNIT_TESTS_OF_GPU)
  endif()
  if("unit" IN_LIST test_LABELS AND NOT ${wanted})
    set_target_properties(${test_NAME} PROPERTIES EXCLUDE_FROM_ALL ON)
    return()
  endif()
  set_property(GLOBAL APPEND PROPERTY minuet_tests_that_run ${test_NAME})

  if(NOT test_FILTERS)
    add_test(NAME ${test_NAME} COMMAND ${test_NAME} ${test_ARGUMENTS})
    minuet_test_properties(${test_NAME} "${test_LABELS}" ${test_TIMEOUT})
  endif()
  foreach(filter IN LISTS test_FILTERS)
    string(REGEX MATCH "^([^=]+)=(.+)$" matched "${filter}")
    if(NOT matched)
      message(FATAL_ERROR "minuet_add_test(${test_NAME}): a filter is <suffix>=<gtest filter>, not '${filter}'")
    endif()
    set(entry ${test_NAME}.${CMAKE_MATCH_1})
    add_test(NAME ${entry} COMMAND ${test_NAME} --gtest_filter=${CMAKE_MATCH_2} ${test_ARGUMENTS})
    minuet_test_properties(${entry} "${test_LABELS}" ${test_TIMEOUT})
  endforeach()
endfunction()

# Adds another ctest entry <name>.<suffix> that runs a part of the tests of an executable. The call is
# minuet_add_test_entry(<name> <suffix> <gtest filter> LABELS <label>... [TIMEOUT <seconds>]).
function(minuet_add_test_entry name suffix filter)
  cmake_parse_arguments(PARSE_ARGV 3 entry "" "TIMEOUT" "LABELS")
  if(NOT entry_TIMEOUT)
    set(entry_TIMEOUT 300)
  endif()
  add_test(NAME ${name}.${suffix} COMMAND ${name} --gtest_filter=${filter})
  minuet_test_properties(${name}.${suffix} "${entry_LABELS};gtest" ${entry_TIMEOUT})
endfunction()

# Adds the entry <name>.comma, which runs the tests that `filter` names in a process whose locale has a decimal comma.
# Adds nothing if this build does not run that executable's tests. The optional third argument is the executable's label
# (default: cpu), and the fourth the suffix of the entry (default: comma).
function(minuet_add_comma_test name filter)
  get_property(tests GLOBAL PROPERTY minuet_tests_that_run)
  if(NOT Python3_FOUND OR NOT name IN_LIST tests)
    return()
  endif()
  set(suffix comma)
  if(ARGC GREATER 3)
    set(suffix ${ARGV3})
  endif()
  set(entry ${name}.${suffix})
  add_test(NAME ${entry} COMMAND ${Python3_EXECUTABLE} -B ${PROJECT_SOURCE_DIR}/tests/support/comma_locale.py ${entry}
           $<TARGET_FILE:${name}> --gtest_filter=${filter})
  set(label cpu)
  if(ARGC GREATER 2)
    set(label ${ARGV2})
  endif()
  minuet_test_properties(${entry} "${label};gtest" 900)
  # The script comma_locale.py exits with 77 if the locale cannot be built, and prints the reason.
  set_tests_properties(${entry} PROPERTIES SKIP_RETURN_CODE 77)
endfunction()
