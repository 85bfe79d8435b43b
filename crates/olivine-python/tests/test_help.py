"""What `help` shows: every member has its text and its signature."""

import ast
import inspect
import os
import pathlib
import re
import unittest

import olivine
from olivine import aio

CLASSES = [olivine.Publisher, olivine.Subscriber, olivine.Message, olivine.Claim]


def members(cls):
    for name, member in vars(cls).items():
        if not name.startswith("_"):
            yield f"{cls.__module__}.{cls.__name__}.{name}", member


class Help(unittest.TestCase):
    def test_every_member_has_a_text_and_a_signature(self):
        seen = 0
        for cls in [*CLASSES, aio.Publisher, aio.Subscriber]:
            self.assertTrue(cls.__doc__, cls)
            for name, member in members(cls):
                seen += 1
                self.assertTrue(inspect.getdoc(member), name)
                if callable(member):
                    signature = inspect.signature(member)
                    self.assertNotIn("...", str(signature), name)
        self.assertGreater(seen, 60)
        for cls in [olivine.Publisher, olivine.Subscriber]:
            self.assertEqual(list(inspect.signature(cls).parameters), ["uri", "type", "keys"])
        for name in olivine.__all__:
            member = getattr(olivine, name)
            if inspect.isclass(member) or inspect.isroutine(member):
                self.assertTrue(member.__doc__, name)

    def test_loops_are_explained(self):
        # The text of a slot is Python's own: the class explains it.
        for words in ["`for`", "`async for`"]:
            self.assertIn(words, inspect.getdoc(olivine.Subscriber))
        self.assertTrue(aio.Subscriber.__aiter__.__doc__)
        self.assertIn("journal", olivine.settings("from"))

    def test_the_texts_are_those_of_the_stubs(self):
        with open(os.environ["OLIVINE_STUBS"], encoding="utf-8") as file:
            tree = ast.parse(file.read())
        classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
        compared = 0
        for cls in CLASSES:
            stub = classes[cls.__name__]
            self.assertEqual(ast.get_docstring(stub), inspect.getdoc(cls))
            said = {}
            for node in stub.body:
                if isinstance(node, ast.FunctionDef) and node.name not in said:
                    said[node.name] = ast.get_docstring(node)
            for name, member in members(cls):
                compared += 1
                self.assertEqual(said[name.split(".")[-1]], inspect.getdoc(member), name)
        self.assertGreater(compared, 50)

    def test_the_overview_names_all_of_it_by_family(self):
        text = olivine.__doc__
        lines = text[text.index("Classes:") : text.index("Settings:")].splitlines()
        rows = [re.match(r"( +)([\w.]+)  +\S", line) for line in lines if line.startswith(" ")]
        named = [row[2] for row in rows]
        self.assertEqual([name for name in named if "." not in name], olivine.__all__)
        families = []
        for row in rows:
            member = getattr(olivine, row[2], None)
            if inspect.isclass(member) and issubclass(member, Exception):
                depth = len(row[1]) // 4
                del families[depth - 1 :]
                self.assertIs(member.__base__, families[-1] if families else Exception)
                families.append(member)

    def test_the_readme_has_each_exception(self):
        readme = pathlib.Path(__file__).parents[1] / "README.md"
        table = readme.read_text(encoding="utf-8").split("## Exceptions")[1].split("\n## ")[0]
        named = re.findall(r"(?m)^\| `(\w+)` \|", table)
        errors = [name for name in olivine.__all__ if isinstance(getattr(olivine, name), type)]
        errors = [name for name in errors if issubclass(getattr(olivine, name), olivine.Error)]
        self.assertEqual(named, [name for name in errors if name != "Error"])

    def test_the_settings_are_reachable(self):
        self.assertIn("olivine.settings()", olivine.Publisher.__doc__)
        text = olivine.settings()
        keys = re.findall(r"(?m)^(\w+)=", text)
        self.assertGreater(len(keys), 40)
        self.assertIn(text, olivine.__doc__)
        for key in keys:
            one = olivine.settings(key)
            self.assertIn(one, text)
            self.assertRegex(one, r"Values: .+\. Default: .+\. For .+\.")
        self.assertEqual(olivine.settings("from_"), olivine.settings("from"))
        with self.assertRaisesRegex(KeyError, "no setting.*olivine.settings"):
            olivine.settings("capcity")


if __name__ == "__main__":
    unittest.main()
