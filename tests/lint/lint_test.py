#!/usr/bin/env python3
"""The checks of tools/lint can be seen to fail: each gets a tree with one fault, and the same without it."""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

LINT = pathlib.Path(__file__).resolve().parents[2] / "tools/lint"
sys.path.insert(0, str(LINT))
import check_files  # noqa: E402
import check_headers  # noqa: E402
import check_layering  # noqa: E402
import check_library  # noqa: E402
import check_locale  # noqa: E402
import check_messages  # noqa: E402
import skips  # noqa: E402


class Tree(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.root = pathlib.Path(self.folder.name)

    def tearDown(self):
        self.folder.cleanup()

    def write(self, path, text):
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text(text)
        return self.root / path

    def expect(self, problems, *fragments):
        text = "\n".join(problems)
        self.assertEqual(len(problems), len(fragments), text)
        for fragment in fragments:
            self.assertIn(fragment, text)


class Layering(Tree):
    def setUp(self):
        super().setUp()
        for room in ("codegen/source", "codegen/compile", "codegen/choose", "runtime/plan", "runtime/network",
                     "tools/minuet/cloud", "tools/minuet/flags"):
            self.write(f"{room}/README.md", "")
            self.write(f"{room}/CMakeLists.txt", "")

    def expect_layering(self, path, line, *fragments):
        self.write(path, line + "\n")
        self.expect(check_layering.check(self.root), *fragments)

    def test_accepts_what_is_allowed(self):
        self.write("codegen/source/emit.h", "")
        self.write("kernels_templates/shared/types.h", "#include <cstdint>\n")
        self.write("runtime/plan/plan.cc", '#include <cuda.h>\n#include <vector>\n#include "codegen/source/emit.h"\n')
        self.write("tests/any_test.cc", '#include "codegen/source/emit.h"\n#include <gtest/gtest.h>\n')
        self.expect(check_layering.check(self.root))

    def test_codegen_may_not_include_runtime(self):
        self.expect_layering("codegen/source/emit.cc", '#include "runtime/plan/plan.h"', "codegen may not include runtime/plan/plan.h")

    def test_codegen_may_not_include_the_driver(self):
        self.expect_layering("codegen/source/emit.cc", "  #  include <cuda.h>", "may not include cuda.h")

    def test_kernels_may_not_include_llvm(self):
        self.expect_layering("kernels_templates/map/sort.h", '#include "llvm/ADT/ArrayRef.h"', "may not include llvm")

    def test_shared_may_not_include_device_code(self):
        self.expect_layering("kernels_templates/shared/types.h", "#include <cuda_fp16.h>", "may not include cuda_fp16")

    def test_bindings_include_the_public_headers_only(self):
        self.expect_layering("runtime/bindings/python/x.cc", '#include "runtime/plan/plan.h"', "may not include runtime")

    def test_paths_start_at_the_root(self):
        self.write("runtime/plan/plan.h", "")
        self.expect_layering("runtime/plan/plan.cc", '#include "plan.h"', "is no path from the root")

    def test_the_library_never_prints(self):
        self.expect_layering("runtime/plan/plan.cc", 'std::cerr << "no"; // std::cout', "std::cerr may not be used")

    def test_the_library_never_touches_signal_handlers(self):
        self.expect_layering("codegen/source/keys.cc", "auto t = llvm::sys::fs::TempFile::create(m);", "TempFile may not")
        self.expect_layering("codegen/source/keys.cc", "bool b = name.startswith(p);", "LLVM 19 has no startswith")

    def test_a_sanitizers_header_has_its_places(self):
        line = "#include <sanitizer/asan_interface.h>\n"
        self.write("tests/support/shim/sanitizers.h", line)
        self.write("tests/runtime/any_test.cc", line)
        self.expect(check_layering.check(self.root), "tests/runtime/any_test.cc: sanitizer/asan_interface.h is included by")

    def test_kernels_that_overlap_read_nothing_read_only(self):
        self.write("kernels_templates/gmas/gather.h", "const i32 row = read_only(rows);")
        self.write("kernels_templates/map/good.h", "load_row_if<true>(is, a), load_vector_if<16, true>(is, a, 0)")
        for call in ("read_only(p)", "load_row_if(is, a)", "load_vector_if<16>(is, a, 0)", "load_vector<16>(a, 0)"):
            self.expect_layering("kernels_templates/map/sort.h", f"x = {call};", "the launch before")
        kernel = "MINUET_KERNEL MINUET_LAUNCH_BOUNDS(S.threads) void sort(const SortParams p) {\n  %s\n}"
        self.expect_layering("kernels_templates/map/sort.h", kernel % "if (p.n == 0) return;", "never calls follow")
        self.expect_layering("kernels_templates/map/sort.h", kernel % "follow_last_launch();")
        early = kernel % "const i32 count = %s;\n  follow_last_launch();\n  p.keys[0] = fresh(p.rows + count);"
        self.expect_layering("kernels_templates/map/sort.h", early % "read_early(p.count)")
        self.expect_layering("kernels_templates/map/sort.h", early % "0;  // fresh(p.count)")
        for call in ("*p.count", "fresh(p.count)", "read_point<3>(p, 0)", "atomicAdd(p.count, 1)", "p.rows[0]", "p.to->levels",
                     "i64{*p.count}", "load_row_if<true>(true, p.rows)", "find_view_starts<S.threads, false>(starts, p)",
                     "0;\n  if (p.n == 0) return"):
            self.expect_layering("kernels_templates/map/sort.h", early % call, "comes before follow_last_launch()")

    def test_one_file_includes_nvrtc(self):
        self.write("codegen/compile/a.cc", "#include <nvrtc.h>\n")
        self.expect_layering("codegen/compile/b.cc", "#include <nvrtc.h>", "codegen/compile/a.cc, codegen/compile/b.cc")

    def test_a_room_includes_the_rooms_below_it(self):
        self.expect_layering("runtime/plan/plan.cc", '#include "runtime/network/network_program.h"\n'
                             '#include "codegen/choose/choice.h"\n#include "runtime/plan/plan.h"')
        self.write("runtime/plan/plan.h", "")
        for path, name in (("runtime/network/a.h", "runtime/plan/plan.h"), ("codegen/source/a.h", "codegen/choose/choice.h"),
                           ("codegen/choose/a.h", "codegen/compile/compiler.h"),   # side by side
                           ("runtime/network/a.h", "runtime/cuda/driver.h"),
                           ("tools/minuet/cloud/a.h", "tools/minuet/flags/flags.h")):
            with self.subTest(path):
                self.expect_layering(path, f'#include "{name}"', f"{path}:1: the room {path[:-4]} may not include {name}")
                self.write(path, "")

    def test_the_tool_includes_its_rooms_and_the_public_headers(self):
        self.write("tools/minuet/cloud/readers/npy.h", "")
        self.write("tools/minuet/main.cc", '#include "tools/minuet/flags/flags.h"\n')
        self.expect_layering("tools/minuet/flags/flags.h", '#include "tools/minuet/cloud/readers/npy.h"\n'
                             '#include "codegen/choose/choice.h"\n#include "minuet/minuet.h"')
        self.expect_layering("tools/minuet/cloud/a.cc", '#include "runtime/plan/plan.h"', "tools/minuet may not include runtime")
        self.expect_layering("tools/minuet/cloud/a.cc", '#include "tools/bench/study/gpu.h"', "tools/minuet may not include")
        self.expect_layering("tools/minuet/cloud/a.cc", '#include "tests/tools/folder.h"', "tools/minuet may not include tests")

    def test_files_lie_in_rooms(self):
        self.expect_layering("codegen/store.cc", "", "codegen holds rooms, and no files but README.md")
        (self.root / "codegen/store.cc").unlink()
        self.expect_layering("runtime/attic/a.cc", "", "runtime has no room attic")
        (self.root / "runtime/attic/a.cc").unlink()
        self.expect_layering("tools/minuet/options.cc", "", "tools/minuet holds rooms, and no files but README.md")
        (self.root / "tools/minuet/options.cc").unlink()
        self.expect_layering("tools/minuet/attic/a.cc", "", "tools/minuet has no room attic")
        (self.root / "tools/minuet/attic/a.cc").unlink()
        (self.root / "runtime/plan/README.md").unlink()
        (self.root / "codegen/choose/CMakeLists.txt").unlink()
        self.write("codegen/choose/a.cc", "")
        self.write("codegen/README.md", "")
        self.expect_layering("runtime/plan/plan.cc", "", "codegen/choose: the room has no CMakeLists.txt",
                             "runtime/plan: the room has no README.md")


class Files(Tree):
    def setUp(self):
        super().setUp()
        self.write("codegen/README.md", "")
        self.write("codegen/CMakeLists.txt", "add_library(x a.cc)\n")
        self.write("codegen/a.cc", "int x;\n")

    def test_accepts_a_good_tree(self):
        self.expect(check_files.check(self.root))

    def test_marks_of_unfinished_work(self):
        self.write("codegen/a.cc", "// TO" "DO: more\n")
        self.expect(check_files.check(self.root), "a.cc:1: a mark of unfinished work")

    def test_long_files(self):
        self.write("codegen/a.cc", "int x;\n" * 501)
        self.expect(check_files.check(self.root), "501 lines")

    def test_short_names_that_nobody_uses(self):
        self.write("codegen/a.cc", "#include <vector>\nusing std::vector;\nnamespace fs = std::filesystem;\n"
                                     "std::vector<int> x;  // a vector\n")
        self.expect(check_files.check(self.root), "the short name vector", "the short name fs")
        self.write("codegen/a.cc", "using std::vector;\nnamespace fs = std::filesystem;\nvector<fs::path> x;\n")
        self.expect(check_files.check(self.root))

    def test_two_classes_of_one_name(self):
        self.write("codegen/a.h", "#pragma once\nclass Plan {\n};\nstruct Other : Plan {\n};\nclass Later;\n")
        self.write("codegen/b.h", "#pragma once\nclass Plan;\nstruct Later final {\n};\n")
        self.expect(check_files.check(self.root))
        self.write("codegen/b.h", "#pragma once\nstruct Plan final {\n};\nclass Other {\n};\n")
        self.expect(check_files.check(self.root), "a class Plan too", "a class Other too")

    def test_sources_that_nobody_builds(self):
        self.write("codegen/b.cc", "int y;\n")
        self.expect(check_files.check(self.root), "codegen/b.cc: no CMakeLists.txt lists the file")

    def test_kernels_that_are_not_there(self):
        self.write("kernels_templates/README.md", "")
        self.write("kernels_templates/kernels.inc", 'MINUET_KERNEL_ROW(sort, "kernels_templates/map/sort.h", S, P, 80)\n')
        self.write("codegen/kernels.inc", 'MINUET_KERNEL_ROW(probe, "kernels_templates/README.md", S, P, 90,\n    .cluster = 2)\n')
        self.expect(check_files.check(self.root), "sort: there is no kernels_templates/map/sort.h",
                    "codegen/kernels.inc: probe: its file is called kernels_templates/README.md")

    def test_the_top_level_is_fixed(self):
        self.write("notes/README.md", "")
        self.expect(check_files.check(self.root), "notes: nothing new goes to the top level")

    def test_the_main_readme_stays_short(self):
        self.write("README.md", "line\n" * 150)
        self.write("codegen/README.md", "line\n" * 151)
        self.expect(check_files.check(self.root))
        self.write("README.md", "line\n" * 151)
        self.expect(check_files.check(self.root), "README.md: 151 lines; 150 is the most")

    def test_variables_of_the_environment_have_a_page(self):
        self.write("codegen/CMakeLists.txt", "a.cc")
        self.write("codegen/a.cc", 'auto a = environment("MINUET_NEW"), b = std::getenv("MINUET_OLD");\n')
        self.write("runtime/abi/README.md", "")
        self.write("runtime/abi/ENVIRONMENT.md", "| `MINUET_OLD` | what it does |\n")
        self.expect(check_files.check(self.root), "codegen/a.cc: runtime/abi/ENVIRONMENT.md does not list the variable MINUET_NEW")

    def test_headers_have_a_guard(self):
        self.write("codegen/a.h", "int x();\n")
        self.expect(check_files.check(self.root), "no #pragma once")

    def test_folders_have_a_readme(self):
        (self.root / "codegen/README.md").unlink()
        self.expect(check_files.check(self.root), "codegen: no README.md")


class Locale(Tree):
    def test_accepts_what_no_locale_changes(self):
        self.write("codegen/base/json_text.cc", "auto value = llvm::json::parse(text);\n")
        self.write("codegen/source/embed/embed_headers.cc", "#include <fstream>\n")
        self.write("tests/a_test.cc", "#include <sstream>\ndouble a = std::stod(text);\n")
        self.write("tools/minuet/flags/arguments.cc", "#include <sstream>\n")
        self.write("runtime/a.cc", 'std::fprintf(stderr, "minuet: %s, %d %% of it\\n", text, 1);  // not std::stod(x)\n'
                   'auto b = llvm::formatv("{0,8:f3} {1:g9} {2:x}", real(x), real(y), z);\n'
                   'std::from_chars(a, b, value); parse_json(text);\n')
        self.expect(check_locale.check(self.root))

    def test_each_call_that_goes_by_the_locale(self):
        for line in ("#include <fstream>", "#include <sstream>", "#include <iomanip>", "#include <regex>",
                     'std::snprintf(text, sizeof text, "%.9g", value);', 'std::printf("%d %8.3f", 1, value);',
                     'std::fprintf(stderr, "%+e", value);', "std::snprintf(text, 8, format, 1);",
                     "x = std::strtod(text, &end);", "x = strtof(text, &end);", "x = std::stod(text);",
                     "x = std::stof(text);", "x = atof(text);", 'sscanf(text, "%d", &x);',
                     'out << llvm::format("%d", 1);', 'llvm::formatv("{0:P}", x);', 'llvm::formatv("{0,8:e3}", x);',
                     "llvm::json::parse(text);", "llvm::json::OStream stream(out);", "std::tolower(c);", "std::isspace(c);",
                     "std::strerror(errno);", "text = buffer.getError().message();", 'std::setlocale(LC_ALL, "C");',
                     "std::locale::global(x);"):
            self.write("runtime/a.cc", line + "\n")
            with self.subTest(line):
                self.expect(check_locale.check(self.root), "runtime/a.cc:1: ")

    def objects(self, name, source):
        folder = self.root / "build/codegen/CMakeFiles/minuet_codegen.dir"
        folder.mkdir(parents=True, exist_ok=True)
        code = self.write("x.cc", source)
        subprocess.run([os.environ.get("CXX", "c++"), "-std=c++17", "-O1", "-c", str(code), "-o", str(folder / name)],
                       check=True)
        return check_locale.check_objects(self.root / "build")

    printer = ("namespace llvm { struct raw_ostream { raw_ostream& operator<<(double); }; }\n"
               "void print(llvm::raw_ostream& out) { out << 0.5; }\n")

    def test_objects_tell_what_templates_hide(self):
        self.expect(self.objects("json_text.cc.o", self.printer))  # the one place for it
        self.expect(self.objects("a.cc.o", "int one() { return 1; }\n"))
        self.expect(self.objects("a.cc.o", self.printer), "a.cc.o: refers to llvm::raw_ostream::operator<<(double)")
        self.expect(self.objects("a.cc.o", "#include <string>\nstd::string text(double x) { return std::to_string(x); }\n"),
                    "nprintf")
        self.expect(self.objects("a.cc.o", "#include <string>\ndouble number(const char* x) { return std::stod(x); }\n"),
                    "strtod")

    def test_a_build_without_objects_is_no_pass(self):
        self.expect(check_locale.check_objects(self.root), "sees nothing")


class MessageList(Tree):
    def found(self):
        return list(check_messages.check(self.root))

    def test_literals_are_joined_and_comments_are_none(self):
        self.write("runtime/a.cc", 'f("the file " /* no message */ "ends early");  // "no message here"\n'
                                   'g(R"(one line of help\nanother line)");\n')
        self.assertEqual([(line, text) for _, line, text in check_messages.messages(self.root)],
                         [(1, "the file ends early"), (2, "one line of help"), (3, "another line")])

    def test_a_message_stands_in_one_place(self):
        self.write("runtime/a.cc", 'f("the file ends too early");\n')
        self.expect(self.found())
        self.write("codegen/b.cc", 'f("the file ends " "too early");\nf("too early");\n')
        self.expect(self.found(), "codegen/b.cc:1, runtime/a.cc:1: the same message")

    def test_words_that_are_kept_out(self):
        self.write("tools/minuet/a.cc", 'f("nobody wrote the rows");\nint whoever;\n')
        self.expect(self.found(), "tools/minuet/a.cc:1: 'nobody' in")


class Headers(Tree):
    def expect_header(self, text, *fragments):
        self.write("include/minuet/minuet.h", text)
        compiler = os.environ.get("CC", "cc")
        flags = ["-std=c99", *check_headers.STRICT, f"-I{self.root}/include"]
        self.expect(check_headers.compile_alone(compiler, "c", "minuet/minuet.h", flags, self.root), *fragments)

    def test_accepts_a_header_that_stands_alone(self):
        self.expect_header("#ifndef A\n#define A\n#include <stddef.h>\nsize_t minuet_x(void);\n#endif\n")

    def test_a_missing_include(self):
        self.expect_header("#ifndef A\n#define A\nsize_t minuet_x(void);\n#endif\n", "does not compile alone")

    def test_a_missing_guard(self):
        self.expect_header("struct minuet_x { int y; };\n", "does not compile alone")


class Library(Tree):
    header = "#define MINUET_API\nMINUET_API int minuet_one(void);\n"

    def check(self, source, *flags, **limits):
        code = self.write("x.c", source)
        library = self.root / "libx.so"
        subprocess.run([os.environ.get("CC", "cc"), "-shared", "-fPIC", "-o", str(library), str(code), *flags],
                       check=True)
        return list(check_library.check(library, [self.write("minuet.h", self.header)], **limits))

    def test_accepts_the_declared_functions(self):
        self.expect(self.check("int minuet_one(void) { return 1; }"))

    def test_another_symbol_gets_out(self):
        self.expect(self.check("int minuet_one(void) { return 1; } int other;"), "other gets out")

    def test_a_function_that_no_header_declares(self):
        self.expect(self.check("int minuet_one(void) { return 1; } int minuet_two(void) { return 2; }"),
                    "minuet_two is exported but in no header")

    def test_a_declared_function_that_is_not_there(self):
        self.expect(self.check("static int x; int* minuet_hidden(void) __attribute__((visibility(\"hidden\")));"
                               "int* minuet_hidden(void) { return &x; }"), "minuet_one is declared but not exported")

    def test_a_needed_library(self):
        cuda = self.write("stub.c", "int cuInit;")
        subprocess.run([os.environ.get("CC", "cc"), "-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", "-o",
                        str(self.root / "libcuda.so"), str(cuda)], check=True)
        self.expect(self.check("extern int cuInit; int minuet_one(void) { return cuInit; }", f"-L{self.root}", "-lcuda"),
                    "needs libcuda.so.1")

    def test_a_symbol_of_a_newer_system(self):
        stub = self.write("stub.c", "int is_new = 1, is_old = 1;")
        versions = self.write("stub.map", "GLIBC_2.34 { is_old; }; GLIBC_2.36 { is_new; };")
        subprocess.run([os.environ.get("CC", "cc"), "-shared", "-fPIC", f"-Wl,--version-script={versions}",
                        "-Wl,-soname,libstub.so", "-o", str(self.root / "libstub.so"), str(stub)], check=True)
        self.expect(self.check("extern int is_new, is_old; int minuet_one(void) { return is_new + is_old; }",
                               f"-L{self.root}", "-lstub"), "needs is_new of GLIBC 2.36")

    blob = 'int minuet_one(void) { return 1; } __asm__(".section .rodata\\n.zero %d\\n.previous");'

    def test_a_library_that_has_grown(self):
        self.expect(self.check(self.blob % 100000, most_bytes=100000), "100000 are the most")

    def test_a_library_that_just_fits(self):
        self.expect(self.check(self.blob % 10, most_bytes=100000))

    def test_signal_handlers(self):
        self.expect(self.check("static int RemoveFileOnSignal(void) { return 1; }"
                               "int minuet_one(void) { return RemoveFileOnSignal(); }", "-O0"),
                    "RemoveFileOnSignal is linked in")

    def test_nvrtc_is_opened_in_the_host(self):
        self.expect(self.check("static int open_nvrtc_library(void) { return 1; }"
                               "int minuet_one(void) { return open_nvrtc_library(); }", "-O0"),
                    "open_nvrtc_library is linked in")


class Skips(Tree):
    log = ("/x/a_test.cc:7: Skipped\nthere is no tool\n\n[  SKIPPED ] Suite.One (0 ms)\n"
           "[       OK ] Suite.Two (0 ms)\nleft out: script: no helper\n")
    rows = "# a comment\nmay a,b Suite.* there is no *\nno-gpu a * *GPU*\nalways b Suite.* needs more time\n"

    def compare(self, *found, machine=("may", "always", "no-gpu"), whole=()):
        return skips.compare([skips.Skip(*skip) for skip in found], skips.read_rows(self.rows), machine, whole)

    def test_reasons_are_read_from_a_log(self):
        self.assertEqual(list(skips.collect("a", self.log)),
                         [("a", "Suite.One", "there is no tool"), ("a", "script", "no helper")])

    def test_what_the_list_has_is_expected(self):
        self.assertEqual(self.compare(("a", "Suite.One", "there is no tool"), ("a", "X.Y", "no GPU here")), ([], []))

    def test_another_reason_test_or_part_is_not(self):
        for skip in (("a", "Suite.One", "I was tired"), ("a", "Other.One", "there is no tool"),
                     ("c", "Suite.One", "there is no tool")):
            self.assertEqual(self.compare(skip)[0], [skip])

    def test_a_machine_of_another_kind_has_other_skips(self):
        skip = ("a", "X.Y", "no GPU here")
        self.assertEqual(self.compare(skip, machine=("may", "always", "gpu"))[0], [skip])

    def test_what_is_no_longer_skipped_is_told(self):
        self.assertEqual([row.reason for row in self.compare(whole=("a", "b"))[1]], ["*GPU*", "needs more time"])
        self.assertEqual(self.compare(("b", "Suite.X", "needs more time"), whole=("b",)), ([], []))

    def test_a_gpu_is_seen_by_its_node(self):
        self.write("nvidiactl", "")
        self.assertFalse(skips.has_gpu(self.root, "libnobody-has.so"))
        self.write("nvidia0", "")
        self.assertTrue(skips.has_gpu(self.root, "libnobody-has.so"))

    def test_the_list_can_be_read(self):
        self.assertGreater(len(skips.read_rows(skips.LIST.read_text())), 10)


class Messages(Tree):
    """What a newcomer is told whose machine lacks something: one sentence with the command that mends it."""

    modules = LINT.parent / "cmake"

    def configure(self, module, *variables):
        script = self.write("x.cmake", f"cmake_minimum_required(VERSION 3.22)\ninclude({self.modules}/{module}.cmake)\n")
        run = subprocess.run(["cmake", *variables, "-P", str(script)], capture_output=True, text=True, cwd=self.root)
        self.assertNotEqual(run.returncode, 0)
        return " ".join(run.stderr.split())

    def test_an_old_compiler(self):
        text = self.configure("MinuetOptions", "-DCMAKE_CXX_COMPILER_ID=GNU", "-DCMAKE_CXX_COMPILER_VERSION=11.4.0",
                              "-DCMAKE_CXX_COMPILER=/usr/bin/g++")
        self.assertIn("needs GNU 12 or newer, and /usr/bin/g++ is 11.4.0: run 'apt-get install g++-12'", text)

    def test_another_compiler(self):
        text = self.configure("MinuetOptions", "-DCMAKE_CXX_COMPILER_ID=Intel", "-DCMAKE_CXX_COMPILER=/opt/icc")
        self.assertIn("/opt/icc is Intel: run 'apt-get install g++'", text)

    def test_an_llvm_out_of_range(self):
        text = self.configure("MinuetLlvm", "-DMINUET_LLVM_VERSION=13")
        self.assertIn("LLVM 14 to 19, and MINUET_LLVM_VERSION is '13': configure with -DMINUET_LLVM_VERSION=14", text)

    def test_no_toolkit(self):
        text = self.configure("MinuetCuda", "-DMINUET_HIDE_TOOLKIT=ON", f"-DMINUET_WHEEL_DIR={self.root}")
        self.assertIn("headers of CUDA 13.0 are missing: run tools/setup", text)

    def test_setup_offline_names_what_is_missing(self):
        script = self.write("tools/setup", (LINT.parent / "setup").read_text())
        environment = {**os.environ, "MINUET_HIDE_TOOLKIT": "1", "MINUET_OFFLINE": str(self.root / "tools")}
        run = subprocess.run(["bash", str(script)], capture_output=True, text=True, env=environment)
        self.assertEqual(run.returncode, 1)
        self.assertIn("still missing: the headers of CUDA 13.0", run.stderr)


if __name__ == "__main__":
    unittest.main()
