"""What reviewers say in different words: groups of words that name one kind of problem.

Written from general knowledge of code review, never from a data set's texts, so that measured agreement stays honest.
Words are lower case and whole. A word belongs to one group.
"""

from __future__ import annotations

__all__ = ["CONCEPTS", "STOP_WORDS"]

_GROUPS = {
    "absent value": "null none nil nullable undefined optional npe nonetype nullptr",
    "failure": """error errors exception exceptions throw throws thrown raise raises raised crash crashes fail fails
        failing failure failures panic panics abort aborts""",
    "concurrency": """race races racy concurrent concurrency concurrently thread threads threadsafe lock locks locked
        locking mutex synchronized synchronization atomic atomically deadlock simultaneous simultaneously toctou
        parallel goroutine goroutines""",
    "spelling": "typo typos misspell misspelled misspelling spelling misspelt",
    "no effect": "dead unused unreachable discarded redundant unnecessary ignored noop uncalled superfluous",
    "prose": "docstring docstrings comment comments documentation doc docs javadoc readme changelog",
    "difference": """inconsistent inconsistency inconsistently mismatch mismatched mismatches differ differs different
        contradict contradicts diverge diverges""",
    "wrongness": "wrong wrongly incorrect incorrectly flawed invalid broken bug buggy erroneous mistaken",
    "lack": "missing lacks lack absent without omitted omits omit forgot forgotten forgets",
    "chance": "flaky sleep sleeps timing nondeterministic unreliable intermittent intermittently",
    "cost": "performance slow slower inefficient expensive overhead costly quadratic",
    "release": "leak leaks leaked leaking close closed closes closing cleanup release released dispose",
    "literal": "hardcoded hardcode hardcodes hardcoding magic constant literal",
    "right": "permission permissions authorization authorize authorized unauthorized access privilege privileges",
    "language": "translation translations translated translate locale locales localization localized i18n",
    "import": "import imports importing imported module modules",
    "existence": "nonexistent nonexisting existent",
    "cache": "cache caches cached caching stale invalidate invalidated invalidates invalidation",
    "serial form": """serialize serialized serializes serialization serializable serializer deserialize deserialized
        deserialization json pickle marshal unmarshal""",
    "always": "always unconditionally regardless invariably",
    "empty": "empty zero blank falsy",
}

#: Group by word.
CONCEPTS: dict[str, str] = {word: group for group, text in _GROUPS.items() for word in text.split()}

_STOPPED = """
    a an and are as at be been being but by can could did do does for from had has have if in instead into is it its may
    might must not of on only or same should so such than that the their then there these they this those to use used
    uses using was were when which while will with would
"""

#: Words that say nothing about the subject.
STOP_WORDS = frozenset(_STOPPED.split())
