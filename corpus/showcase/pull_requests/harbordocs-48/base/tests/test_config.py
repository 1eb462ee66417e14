import pathlib
import tempfile
import unittest

from harbor.config import Config, load


class ConfigTest(unittest.TestCase):
    def test_defaults_without_a_file(self):
        self.assertEqual(load("/nonexistent/harbor.ini"), Config())

    def test_values_from_a_file(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "harbor.ini")
            path.write_text("[harbor]\nurl = https://test.example/\ntimeout = 3\n", encoding="utf-8")
            config = load(str(path))
        self.assertEqual(config.url, "https://test.example")
        self.assertEqual(config.timeout, 3.0)
        self.assertEqual(config.retries, 2)


if __name__ == "__main__":
    unittest.main()
