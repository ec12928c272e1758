"""The README's Python program runs and prints what it should."""

import pathlib
import re


def test_readme_program(capsys):
    readme = (pathlib.Path(__file__).parents[2] / "README.md").read_text()
    (program,) = re.findall(r"```python\n(.*?)```", readme, re.DOTALL)
    exec(compile(program, "README.md", "exec"), {})
    assert capsys.readouterr().out == "the first weight is 3.0\n"
