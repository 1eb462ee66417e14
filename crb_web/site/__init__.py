"""``crb export site``: the pages as files. ``manifest`` checks such a folder and needs nothing else of this package."""
