"""The status page for the operations screen."""

import html

PAGE = """<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><title>mailroom</title></head>
<body>
<h1>mailroom</h1>
<table>
<tr><th scope="col">what</th><th scope="col">value</th><th scope="col">state</th></tr>
{rows}
</table>
</body>
</html>
"""


def row(name, value, state):
    cells = "".join(f"<td>{html.escape(str(cell))}</td>" for cell in (name, value, state))
    return f"<tr>{cells}</tr>"


def render(queue):
    depth = queue.depth()
    rows = [row("queue depth", depth, "ok" if depth < 1000 else "growing")]
    return PAGE.format(rows="\n".join(rows))
