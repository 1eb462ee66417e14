"""Text that is harmless until somebody shows it."""

from __future__ import annotations

from acts import attack, finding, write_review

_MESSAGES = (
    "\x1b[2J\x1b[31mred\x1b]0;title\x07\x9b1A",
    "\x1b]8;;http://attacker.invalid\x07link\x1b]8;;\x07",
    "<script>document.title='owned'</script><img src=x onerror=alert(1)>",
    "</td></tr></table><iframe src=javascript:alert(1)>",
    "[bold red]markup[/] [link=http://attacker.invalid]x[/link]",
    "=cmd|' /C calc'!A0",
    "+1+1",
    "-2+3+cmd|' /C calc'!A0",
    "@SUM(1+1)",
    "\t=1+1",
    "\r=1+1",
    '=HYPERLINK("http://attacker.invalid","click")',
    "\u202egnol si siht\u2066",
    "line\nbreak\r\nand \u2028 more",
    "{{7*7}} ${7*7} {% raw %} %s %n",
    "m" * 100_000,
    "\ufeff\u200b",
    "'; DROP TABLE candidate; --",
)
_PATHS = ("=1+1.py", "<b>.py", "new\nline.py", "\x1b[2J.py", "d/" * 2000 + "x.py", "-rf", "\u202eyp.py", "%2e%2e/x.py")


@attack
def hostile_text() -> None:
    findings = [finding(message=message) for message in _MESSAGES]
    findings += [finding(file=path, message="path") for path in _PATHS]
    findings.append(finding(producer="<script>alert(1)</script>\x1b[31m=1+1"))
    write_review(*findings)
