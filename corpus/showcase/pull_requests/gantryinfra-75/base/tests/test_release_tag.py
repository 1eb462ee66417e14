import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "scripts"))

from release_tag import release_tag


class ReleaseTagTest(unittest.TestCase):
    def test_shortens_a_commit(self):
        self.assertEqual(release_tag("0123456789abcdef" * 2 + "01234567"), "0123456789ab")

    def test_refuses_a_branch_name(self):
        with self.assertRaises(ValueError):
            release_tag("main")


if __name__ == "__main__":
    unittest.main()
