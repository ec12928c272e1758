"""Plants each violation in a small tree and sees that it, and nothing else, is found."""

import pathlib
import tempfile
import unittest

import source
import tidy

CLEAN = {
    "include/ffdl/ffdl.h": '#pragma once\n\n#include "ffdl/status.h"\n',
    "include/ffdl/status.h":
        "#pragma once\n\n#include <string>\n\n"
        "// What came of a call.\n// Threads: a value.\nclass FFDL_API Status {};\n",
    "docs/ARCHITECTURE.md": "`status.h` says what came of a call.\n",
    "src/base/status.cc": '#include "ffdl/status.h"\n\nint one() { return 1; }\n',
    "tests/base/status_test.cc": "#include <gtest/gtest.h>\n",
}


def problems_of(changes):
    with tempfile.TemporaryDirectory() as folder:
        for name, text in {**CLEAN, **changes}.items():
            if text is not None:
                path = pathlib.Path(folder, name)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
        return tidy.Tidy(folder).run()


class TidyTest(unittest.TestCase):
    def found(self, changes, *words):
        problems = problems_of(changes)
        self.assertEqual(len(problems), 1, problems)
        for word in words:
            self.assertIn(word, problems[0])

    def in_module(self, line, *words, module="ps"):
        """`line` in a source of `module` that has its test is the one problem."""
        self.found({f"src/{module}/a.cc": line + "\n", f"tests/{module}/a_test.cc": "\n"},
                   f"src/{module}/a.cc:1:", *words)

    def test_a_clean_tree_has_no_problem(self):
        self.assertEqual(problems_of({}), [])

    def test_layers(self):
        self.in_module('#include "ps/layout.h"', "base includes 'ps/layout.h' of ps", module="base")
        self.in_module('#include "store/mem_store.h"', "store", module="membership")
        self.in_module('#include "ffdl/session.h"', "elastic", module="ps")
        self.in_module("#include <hwloc.h>", "src/ps", module="base")
        self.in_module("#include <boost/any.hpp>", "tests/tidy/layers.py")
        self.in_module('#include "ffdl/ffdl.h"', "name the headers")
        self.in_module("int x;", "module 'misc'", module="misc")
        self.in_module('#include "cuda/failure.h"', "ps includes 'cuda/failure.h' of cuda")
        self.in_module("#include <cuda_runtime_api.h>", "that belongs in cuda", module="comm")
        self.found({"cuda/a.cu": '#include "store/state.h"\n'}, "cuda includes 'store/state.h' of store")
        self.found({"examples/a.cc": '#include "base/log.h"\n'}, "only include/ffdl/")

    def test_allowed_includes(self):
        self.assertEqual(problems_of({
            "cuda/a.cu": '#include "ps/layout.h"\n#include "cuda/failure.h"\n#include <cuda_runtime_api.h>\n',
            "src/ps/a.cc": '#include "ps/layout.h"\n#include "shm/segment.h"\n#include <sys/mman.h>\n'
                           '#include "ffdl/status.h"\n#include <vector>\n',
            "tests/ps/a_test.cc": '#include "ps/layout.h"\n'}), [])

    def test_banned_words(self):
        for line, advice in (
                ("std::thread t;", "base::Thread"),
                ('auto x = getenv("X");', "src/base/env.cc"),
                ("throw 1;", "Status"),
                ("auto* x = new int;", "make_unique"),
                ("delete x;", "std::unique_ptr"),
                ("thread.detach();", "join"),
                ("std::this_thread::sleep_for(x);", "deadline"),
                ("assert(x);", "FFDL_CHECK"),
                ("std::cout << 1;", "base/log.h"),
                ("// TODO: more", "issue"),
                ("// good enough for now", "today"),
                ("// see /home/me/notes", "one machine"),
                ("int x; ", "white space")):
            self.in_module(line, advice)
        self.in_module("auto t = std::chrono::steady_clock::now();", "Runtime", module="plan")

    def test_words_that_only_look_banned(self):
        lines = ("// a new thread may throw", 'auto text = "delete";',
                 "X(const X&) = delete;", "learner->detach(deadline);", "std::thread::id id;",
                 "std::unique_ptr<X>(new X(1));", "new (place) X;", "auto t = steady_clock::now();")
        self.assertEqual(problems_of({"src/ps/a.cc": "\n".join(lines) + "\n",
                                      "tests/ps/a_test.cc": "\n"}), [])

    def test_cmake_words(self):
        self.found({"src/CMakeLists.txt": "add_compile_options(-march=native)\n"}, "run time")
        self.found({"cmake/Extra.cmake": "include(FetchContent)\n"}, "Dependencies.cmake")

    def test_sizes(self):
        self.in_module("// " + "x" * 100, "103 columns")
        self.in_module("\tint x;", "a tab")
        long_function = "int f() {\n" + "  g();\n" * 70 + "}\n"
        self.found({"src/base/status.cc": long_function}, "a function of 72 lines")
        self.found({"src/base/status.cc": "int x;\n" * 601}, "601 lines")
        header = CLEAN["include/ffdl/status.h"]
        self.found({"include/ffdl/status.h": header + "//\n" * 200}, "public header")

    def test_public_headers(self):
        header = CLEAN["include/ffdl/status.h"]
        change = "include/ffdl/status.h"
        self.found({change: header.replace("<string>", "<fmt/core.h>")}, "ffdl/ and")
        self.found({change: header.replace("<string>", '"base/log.h"')}, "ffdl/ and")
        self.found({change: header.replace("#pragma once\n", "")}, "pragma once")
        self.found({change: header.replace("// Threads: a value.\n", "")}, "Threads:")
        self.found({"include/ffdl/ffdl.h": "#pragma once\n"}, "ffdl.h")
        self.found({"docs/ARCHITECTURE.md": "nothing\n"}, "docs/ARCHITECTURE.md")

    def test_a_source_has_a_test(self):
        self.found({"tests/base/status_test.cc": None}, "write tests/base/status_test.cc")

    def test_python_says_the_same_words(self):
        self.found({"python/ffdl/_ffdl.pyi": "class Status:\n    def okay(self): ...\n"}, "okay")

    def test_names_in_pages(self):
        page = "The model's step is `base::one` or `Status::gone`.\n"
        self.found({"docs/model.md": page, "src/base/status.cc":
                    '#include "ffdl/status.h"\n\nnamespace base {\nint one() { return 1; }\n}\n'},
                   "docs/model.md:1", "'Status::gone'", "'gone'")


class SourceTest(unittest.TestCase):
    def test_functions_are_found_with_their_lines(self):
        text = ("namespace a {\nstruct S {\n  int f() const {\n    if (x) { y(); }\n  }\n};\n"
                "S::S(int a)\n    : b(a) {\n  auto g = [] { return 1; };\n}\n}  // namespace a\n")
        self.assertEqual(list(source.functions(text)), [(3, 5), (7, 10)])

    def test_comments_and_strings_keep_their_place(self):
        bare = source.without_comments_and_strings('a; // b\n/* c\n */ d("e\\"f"); 1\'000;')
        self.assertEqual(bare.split(), ["a;", "d(", ");", "1'000;"])
        self.assertEqual(bare.count("\n"), 2)


if __name__ == "__main__":
    unittest.main()
