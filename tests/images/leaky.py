"""An agent that prints its secrets in every way it can think of, and looks for those of others."""

import base64
import html
import json
import os
import sys
import textwrap
from pathlib import Path
from urllib.parse import quote, quote_plus


def forms(secret: str) -> list[str]:
    raw = secret.encode()
    encodings = [
        secret,
        secret.lower(),
        secret.upper(),
        quote(secret, safe=""),
        quote_plus(secret),
        "".join(f"%{byte:02x}" for byte in raw),
        json.dumps(secret),
        json.dumps(json.dumps(secret)),
        "".join(f"\\u{ord(each):04x}" for each in secret),
        repr(raw),
        html.escape(secret),
        raw.hex(),
        raw.hex().upper(),
        raw.hex(":"),
        secret[::-1],
        quote(quote(secret, safe=""), safe=""),
        html.escape(html.escape(secret)),
        "".join(f"\\{byte:03o}" for byte in raw),
        base64.b32encode(b"x" + raw).decode(),
        base64.b32hexencode(raw + b"tail").decode().lower(),
        base64.b64encode(secret.encode("utf-16-le")).decode(),
        base64.b64encode(base64.b64encode(b"xx" + raw)).decode(),
    ]
    for before in (b"", b"x", b"xx"):
        for encode in (base64.b64encode, base64.urlsafe_b64encode):
            encodings += [encode(before + raw).decode(), encode(before + raw + b"tail").decode().rstrip("=")]
    broken = ["\n".join(textwrap.wrap(form, 9, break_on_hyphens=False, drop_whitespace=False)) for form in encodings]
    return encodings + broken


secrets = [os.environ["TOKEN"], os.environ["ANTHROPIC_API_KEY"], Path("/run/keys/api.txt").read_text().strip()]
everything = "\n".join(form for secret in secrets for form in forms(secret))
pull_request = int(os.environ["RB_PR_NUMBER"])

print("environment", dict(os.environ))
print("of the first process", Path("/proc/1/environ").read_bytes())
for stream in (sys.stdout, sys.stderr):
    stream.write(everything + "\n")
    stream.flush()
# In the encodings of Windows and of Java.
for code in ("utf-16-le", "utf-16-be", "utf-32-le"):
    for stream in (1, 2):
        os.write(stream, everything.encode(code, "surrogatepass") + b"\n")
# Over the chunks in which the engine keeps a log: 16 KiB a piece.
for secret in secrets:
    for cut in range(1, len(secret), 5):
        os.write(1, b"." * (16 * 1024 - cut) + secret.encode() + b"\n")
        os.write(2, secret[:cut].encode())
        os.write(2, secret[cut:].encode() + b"\n")
Path("/tmp/kept").write_text(everything)
Path(os.environ["RB_REPO"], "kept").write_text(everything)

finding = {"producer": secrets[0], "file": f"src/{quote(secrets[0], safe='')}.py", "start_line": 1, "end_line": 2}
findings = [finding | {"message": form} for secret in secrets for form in forms(secret)]
findings += [
    finding
    | {
        "message": everything,
        "file": f"{base64.urlsafe_b64encode(each.encode()).decode()}/{each.lower().replace(':', '')}",
    }
    for each in secrets
]
review = {
    "pr": {
        "repo": f"https://github.com/{os.environ['RB_NWO']}",
        "pr_number": pull_request,
        "base": os.environ["RB_BASE"],
        "head": os.environ["RB_HEAD"],
    },
    "agent": secrets[0],
    "findings": findings,
    "usage": {"prompt_tokens": 3, secrets[1]: secrets[2]},
    "metadata": {each: each for each in secrets},
}
way = os.environ["RB_ATTEMPT"] + os.environ["RB_PR_NUMBER"][-1]
text = json.dumps(review)
# Three ways to have the farm quote what an agent wrote: a wrong field, text that is no JSON, a wrong status.
if os.environ["RB_ATTEMPT"] == "1":
    if pull_request % 3 == 0:
        review["findings"][0]["start_line"] = everything
        text = json.dumps(review)
    elif pull_request % 3 == 1:
        text = f'{{"agent": {secrets[0]}'
    else:
        Path(os.environ["RB_OUT"]).write_text(text)
        sys.exit(7)
Path(os.environ["RB_OUT"]).write_text(text)
