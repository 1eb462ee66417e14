# Reads a unified diff and writes the findings file: remarks on added lines.

BEGIN {
    for (byte = 1; byte < 256; byte++)
        code[sprintf("%c", byte)] = byte
    limit = ENVIRON["RB_CONFIG_MAX_LINE_LENGTH"] + 0
    agent = json(ENVIRON["RB_AGENT"])
    printf "{\"pr\": {\"repo\": %s, \"pr_number\": %d, ", json("https://github.com/" ENVIRON["RB_NWO"]), ENVIRON["RB_PR_NUMBER"]
    printf "\"base\": %s, \"head\": %s}, ", json(ENVIRON["RB_BASE"]), json(ENVIRON["RB_HEAD"])
    printf "\"agent\": %s, \"findings\": [", agent
}

# Inside a hunk the first character alone says what a line is; the header's counts say where the hunk ends.
old > 0 || new > 0 {
    kind = substr($0, 1, 1)
    if (kind == "+") {
        review(substr($0, 2), number++)
        new--
    } else if (kind == "-") {
        old--
    } else if (kind != "\\") {
        number++
        old--
        new--
    }
    next
}

/^\+\+\+ / {
    file = path(substr($0, 5))
    next
}

/^@@ -/ {
    split($2, range, ",")
    old = index($2, ",") ? range[2] : 1
    number = substr($3, 2) + 0
    split($3, range, ",")
    new = index($3, ",") ? range[2] : 1
}

END {
    print "\n]}"
}

# The rules: add your own here.
function review(line, at) {
    if (line ~ /(^|[^A-Za-z0-9_])(TODO|FIXME|XXX)([^A-Za-z0-9_]|$)/)
        report(at, "This adds a note about unfinished work. Finish it, or open an issue and name it here.")
    if (line ~ /^(<<<<<<< |>>>>>>> )/)
        report(at, "This looks like a marker of an unresolved merge conflict.")
    if (line ~ /console\.log\(|(^|[^A-Za-z0-9_.])(debugger;|breakpoint\(\)|dbg!\(|var_dump\(|binding\.pry)/)
        report(at, "This looks like output or a stop left over from debugging.")
    if (characters(line) > limit)
        report(at, "This line is longer than " limit " characters, which makes it hard to review.")
}

function report(at, message) {
    if (file == "")
        return
    printf "%s\n{\"producer\": %s, \"file\": %s, \"start_line\": %d, \"end_line\": %d, \"message\": %s}", \
        comma, agent, json(file), at, at, json(message)
    comma = ","
}

# Characters of UTF-8 text: the bytes that do not continue one.
function characters(line) {
    sub(/\r$/, "", line)
    gsub(/[\200-\277]/, "", line)
    return length(line)
}

# The file's name in a "+++ " line: git quotes odd names, and ends names that hold a blank with a tab.
# Empty for a deleted file and for names that a findings file cannot carry.
function path(name, result, part) {
    sub(/\t$/, "", name)
    if (name == "/dev/null")
        return ""
    if (name ~ /^".*"$/) {
        name = substr(name, 2, length(name) - 2)
        while (match(name, /\\[0-3][0-7][0-7]/)) {
            part = substr(name, RSTART + 1, 3)
            result = result substr(name, 1, RSTART - 1) sprintf("%c", substr(part, 1, 1) * 64 + substr(part, 2, 1) * 8 + substr(part, 3, 1))
            name = substr(name, RSTART + 4)
        }
        name = result name
    }
    sub(/^b\//, "", name)
    if (name ~ /[\001-\037\177:\\]/ || !is_utf8(name)) {
        print "not reviewed: a file whose name a findings file cannot carry" >"/dev/stderr"
        return ""
    }
    return name
}

# Whether each byte that starts a character is followed by as many as it announces.
function is_utf8(text, at, byte, left) {
    for (at = 1; at <= length(text); at++) {
        byte = code[substr(text, at, 1)]
        if (left > 0) {
            if (byte < 128 || byte > 191)
                return 0
            left--
        } else if (byte >= 194 && byte <= 244) {
            left = byte >= 240 ? 3 : byte >= 224 ? 2 : 1
        } else if (byte > 127) {
            return 0
        }
    }
    return left == 0
}

# A JSON string.
function json(text, result, at, character) {
    for (at = 1; at <= length(text); at++) {
        character = substr(text, at, 1)
        if (character == "\"" || character == "\\")
            result = result "\\" character
        else if (code[character] < 32)
            result = result sprintf("\\u%04x", code[character])
        else
            result = result character
    }
    return "\"" result "\""
}
