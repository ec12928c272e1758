"""Plants each violation in a small tree and sees that it, and nothing else, is found."""

import pathlib
import tempfile
import unittest

import layers
import picture
import source
import tidy

CLEAN = {
    "include/ffdl/ffdl.h": '#pragma once\n\n#include "ffdl/status.h"\n',
    "include/ffdl/status.h":
        "#pragma once\n\n#include <string>\n\n"
        "// The outcome of a call.\n// Threads: a value.\nclass FFDL_API Status {};\n",
    "docs/internals/architecture.md": "`status.h` says what came of a call.\n",
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
        self.in_module('#include "ps/segment/layout.h"', "base includes 'ps/segment/layout.h' of ps", module="base")
        self.in_module('#include "store/mem_store.h"', "store", module="membership")
        self.in_module('#include "ffdl/session.h"', "elastic", module="ps")
        self.in_module("#include <hwloc.h>", "src/ps", module="base")
        self.in_module("#include <boost/any.hpp>", "tests/tidy/layers.py")
        self.in_module('#include "ffdl/ffdl.h"', "name the headers")
        self.in_module("int x;", "module 'misc'", module="misc")
        self.in_module('#include "cuda/failure.h"', "ps includes 'cuda/failure.h' of cuda")
        self.in_module("#include <cuda_runtime_api.h>", "that belongs in cuda", module="comm")
        self.found({"cuda/a.cu": '#include "store/local/state.h"\n'}, "cuda includes 'store/local/state.h' of store")
        self.found({"examples/a.cc": '#include "base/log.h"\n'}, "only include/ffdl/")
        self.found({"benchmarks/plan/a.cc": '#include "ps/segment/layout.h"\n'}, "only include/ffdl/")

    def test_wings(self):
        def found(name, target, *words):
            test = name.replace("src/", "tests/").replace(".", "_test.").replace(".h", ".cc")
            self.found({name: f'#include "{target}"\n', test: "\n"}, *words)
        found("src/ps/segment/a.cc", "ps/server/b.h", "src/ps/segment/a.cc:1", "segment includes",
              "may include rules")
        found("src/ps/rules/a.cc", "ps/segment/b.h", "may include no other wing")
        self.assertEqual(problems_of({
            "src/ps/learner/a.cc": '#include "ps/server/b.h"\n#include "ps/learner/c.h"\n',
            "src/store/open.cc": '#include "store/tcp/b.h"\n',
            "src/store/tcp/a.cc": '#include "store/failures.h"\n',
            **{f"tests/{name}_test.cc": "\n" for name in ("ps/learner/a", "store/open", "store/tcp/a")}}),
            [])
        self.found({"src/store/failures.h": '#pragma once\n\n#include "store/tcp/b.h"\n',
                    "tests/store/failures_test.cc": "\n"}, "a header beside the wings")

    def test_the_wings_have_no_circle(self):
        for wings in layers.WINGS.values():
            picture.levels_of({wing: set(others) for wing, others in wings.items()})

    def test_allowed_includes(self):
        self.assertEqual(problems_of({
            "cuda/a.cu": '#include "ps/segment/layout.h"\n#include "cuda/failure.h"\n#include <cuda_runtime_api.h>\n',
            "src/ps/a.cc": '#include "ps/segment/layout.h"\n#include "shm/segment.h"\n#include <sys/mman.h>\n'
                           '#include "ffdl/status.h"\n#include <vector>\n',
            "src/cli/a.cc": '#include "launch/supervisor.h"\n',
            "tests/cli/a_test.cc": "\n",
            "benchmarks/plan/a.cc": '#include "launch/supervisor.h"\n',
            "tests/ps/a_test.cc": '#include "ps/segment/layout.h"\n'}), [])

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
        self.in_module("auto t = std::chrono::steady_clock::now();", "Runtime", module="cluster")

    def test_words_that_only_look_banned(self):
        lines = ("// a new thread may throw", 'auto text = "delete";',
                 "X(const X&) = delete;", "learner->detach(deadline);", "std::thread::id id;",
                 "std::unique_ptr<X>(new X(1));", "new (place) X;", "auto t = steady_clock::now();")
        self.assertEqual(problems_of({"src/ps/a.cc": "\n".join(lines) + "\n",
                                      "tests/ps/a_test.cc": "\n"}), [])

    def test_words_of_comments(self):
        self.in_module("// What is left.", "begin a comment with a verb")
        self.in_module("int x;  // the one whom nobody waits for", "name the member")
        self.assertEqual(problems_of({
            "src/ps/a.cc": "// Returns the state\n// Of which there is one.\nint x;  // of it\n",
            "tests/ps/a_test.cc": "\n"}), [])

    def test_words_that_users_read(self):
        self.found({"README.md": "The member who leads.\n"}, "README.md:1:", "'who'")
        self.found({"docs/reference/a.md": "# A\n\n| nobody knows |\n"}, "docs/reference/a.md:3:", "'nobody'")
        self.found({"src/cli/main.cc": 'auto help = "Somebody "\n            "ends";  // it\n',
                    "tests/cli/doctor_test.cc": "\n"}, "'Somebody'")
        self.found({"python/ffdl/a.py": '"""What is left."""\n'}, "begin a comment with a verb")
        self.found({"python/ffdl/a.py": "a = 1  # of whoever\n"}, "'whoever'")
        self.found({"python/ffdl/a.py": "# Whether it is.\n# Of it.\na = '# Of'\n"}, "a.py:1:")
        self.found({"python/bindings/a.cc": 'f(R"(Those that left.)");\n'}, "begin a comment")
        self.found({"examples/a.py": f"a = '{'x' * 100}'\n"}, "106 columns")
        self.assertEqual(problems_of({"docs/internals/a.md": "The member who leads.\n",
                                      "python/ffdl/a.py": "# Returns it. # Of it.\n"}), [])

    def test_long_sentences_are_warnings(self):
        long = " ".join(["word"] * 26) + "."
        for name, text in {"README.md": f"One.\n\n- {long}\n", "docs/reference/a.md": long,
                           "python/ffdl/a.py": f'"""Does it.\n\na: {long}\n"""\n',
                           "src/cli/main.cc": f'auto help = "{long}";\n'}.items():
            with tempfile.TemporaryDirectory() as folder:
                path = pathlib.Path(folder, name)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
                checked = tidy.Tidy(folder)
                checked.run()
                self.assertEqual(len(checked.warnings), 1, checked.warnings)
                self.assertRegex(checked.warnings[0], ":[0-9]+: 2[67] words: ")
                path.write_text(text.replace("word word", "word. Word", 1))
                checked = tidy.Tidy(folder)
                checked.run()
                self.assertEqual(checked.warnings, [])

    def test_guide_pages_have_their_parts_in_order(self):
        page = "docs/guide/a.md"
        parts = ["## The smallest example\n", "## Options\n", "## Errors\n", "## Limits\n",
                 "## How it works\n"]
        self.assertEqual(problems_of({page: "".join(parts)}), [])
        self.found({page: "".join(parts[:-1])}, page, "no '## How it works'")
        self.found({page: "".join(parts[1:] + parts[:1])}, "no '## Errors' in its place")
        self.found({page: "```\n" + "".join(parts) + "```\n"}, "no '## The smallest'")

    def test_decisions_are_short(self):
        text = "# 1. A\n\nDate: 2026-01-01.\n\n" + "word\n" * 50
        self.assertEqual(problems_of({"docs/decisions/0001-a.md": text}), [])
        self.found({"docs/decisions/0001-a.md": text + "word\n" * 351}, "401 words")

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
        self.found({"include/ffdl/status.h": header + "//\n" * 300}, "public header")

    def test_public_headers(self):
        header = CLEAN["include/ffdl/status.h"]
        change = "include/ffdl/status.h"
        self.found({change: header.replace("<string>", "<fmt/core.h>")}, "ffdl/ and")
        self.found({change: header.replace("<string>", '"base/log.h"')}, "ffdl/ and")
        self.found({change: header.replace("#pragma once\n", "")}, "pragma once")
        self.found({change: header.replace("// Threads: a value.\n", "")}, "Threads:")
        more = {f"include/ffdl/h{i}.h": "#pragma once\n" for i in range(39)}
        pages = {tidy.ARCHITECTURE: "".join(f"`h{i}.h`\n" for i in range(39)) + "`status.h`\n"}
        self.found({**more, **pages}, "41 public headers")
        self.found({tidy.ARCHITECTURE: "nothing\n"}, tidy.ARCHITECTURE)

    def test_public_types(self):
        header = CLEAN["include/ffdl/status.h"]
        self.found({"include/ffdl/status.h": header + "struct A {};\n" * tidy.PUBLIC_TYPES_MAX},
                   f"{tidy.PUBLIC_TYPES_MAX + 1} public types")
        self.assertEqual(source.public_types("enum class E : int { kOne };\nclass Later;\n"
                                             "class FFDL_API C final : public D {\n public:\n"
                                             "  struct Inner {\n  };\n private:\n"
                                             "  struct Hidden {\n  };\n};\n"
                                             "template <class T>\nclass [[nodiscard]] R {};\n"),
                         ["E", "C", "Inner", "R"])

    def test_the_picture_of_layers_is_current(self):
        page = CLEAN[tidy.ARCHITECTURE] + picture.BEGIN + "{}" + picture.END
        right = picture.draw({"src/base/status.cc": CLEAN["src/base/status.cc"]})
        self.assertEqual(problems_of({tidy.ARCHITECTURE: page.replace("{}", right)}), [])
        self.found({tidy.ARCHITECTURE: page.replace("{}", right + "more\n")}, "picture.py")

    def test_levels_follow_from_includes(self):
        text = {"src/base/a.h": "", "src/net/a.cc": '#include "base/a.h"\n',
                "src/store/a.cc": '#include "net/a.h"\n#include "ffdl/status.h"\n'}
        self.assertEqual(picture.levels_of(picture.uses_of(text)),
                         {"base": 0, "net": 1, "store": 2})
        text["src/base/a.h"] = '#include "store/a.h"\n'
        with self.assertRaisesRegex(ValueError, "circle"):
            picture.levels_of(picture.uses_of(text))

    def test_a_source_has_a_test(self):
        self.found({"tests/base/status_test.cc": None}, "write tests/base/status_test.cc")

    def test_python_says_the_same_words(self):
        self.found({"python/ffdl/_ffdl.pyi": "class Status:\n    def okay(self): ...\n"}, "okay")

    def test_names_in_pages(self):
        page = "The model's step is `base::one` or `Status::gone`.\n"
        self.found({"docs/model.md": page, "src/base/status.cc":
                    '#include "ffdl/status.h"\n\nnamespace base {\nint one() { return 1; }\n}\n'},
                   "docs/model.md:1", "'Status::gone'", "'gone'")

    def test_names_of_tests_in_pages(self):
        page = "docs/results/a.md"
        tests = {"tests/base/status_test.cc": "TEST_F(Status, IsOk) {}\nTEST_P(StatusP, IsOk) {}\n"
                                              "INSTANTIATE_TEST_SUITE_P(All, StatusP, kAll);\n",
                 "tests/CMakeLists.txt": "ffdl_test(base_test SOURCES a.cc)\n"
                                         "add_test(NAME kill_${back}_slow COMMAND b)\n",
                 "tests/python/test_a.py": "def test_one():\n    pass\n"}
        for right in ("`Status.IsOk`, `Suite.Test`, `Backend.NCCL`", "`base_test`, `kill_shm_slow`",
                      "`base_test --gtest_filter='Status.*:All/StatusP.IsOk/*-*Not*'`",
                      "`--gtest_filter=*StatusP.IsOk*`", "`ctest -R base`", "`ctest -R '^base_test$'`",
                      "`ctest -R kill_shm`", "`pytest tests/python/test_a.py -k 'not one'`",
                      "`test_a.py::test_one`", "`ffdl_test()` of `tests/x_test.cc`"):
            self.assertEqual(problems_of({**tests, page: right + "\n"}), [])
        for wrong, gone in (("`Status.IsNot`", "Status.IsNot"), ("`StateTest`", "StateTest"),
                            ("`status_test`, `ps_test`", "ps_test"), ("`fuzz_a`", "fuzz_a"),
                            ("`base_test --gtest_filter=Status.*:Stale.*`", "Stale.*"),
                            ("`--gtest_filter=StatusP.IsOk`", "StatusP.IsOk"),
                            ("`ctest -R ps_`", "ps_"), ("`ctest -R skill_shm`", "skill_shm"),
                            ("`pytest -k two`", "-k two"), ("`test_b.py`", "test_b.py"),
                            ("`test_a.py::test_two`", "test_a.py::test_two")):
            self.found({**tests, page: f"one\n{wrong}\n"}, f"{page}:2", f"'{gone}'", "no such test")

    def test_pages_are_wrapped(self):
        row, code = "| " + "x " * 60 + "|\n", "```\n" + "x " * 60 + "y\n```\n"
        page = {"docs/reference/a.md": row + code + "x " * 50 + "y\n"}
        self.found(page, "docs/reference/a.md:5:", "wrap")

    def test_links(self):
        page, code = "docs/reference/a.md", "src/base/status.cc"
        self.found({page: "see [b](b.md)\n"}, f"{page}:1", "'b.md' leads to no file")
        self.found({page: "# One\n\n[b](a.md#two)\n"}, f"{page}:3", "no heading")
        self.found({page: "[b](#two)\n"}, f"{page}:1", "no heading")
        self.found({code: "// docs/gone.md says why\nint one();\n"}, f"{code}:1", "docs/gone.md")
        self.assertEqual(problems_of({
            page: "# A `b` of: C\n\n[a](#a-b-of-c) [b](../../src/base/status.cc)\n"
                  "[c](https://x.org)\n"
                  "`[d](e.md)`\n```\n[f](g.md)\n```\n",
            "README.md": "[a](docs/reference/a.md#a-b-of-c) [docs](docs)\n",
            code: "// docs/reference/a.md says why\nint one();\n"}), [])


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
