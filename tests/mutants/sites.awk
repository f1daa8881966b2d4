# Lists the places of C sources that a mutation may change, one a line:
#
#     FILE  LINE  KIND  the line as it becomes          (between them a tab)
#
# Relies on the tree's format: a function's braces stand in the first column, operators stand
# between spaces. Comments, the preprocessor's lines, tables outside functions and statements that
# hold a text (messages) are left alone.

# Blanks comments, texts and characters; lengths stay. Sets `has_text`.
function masked(line,   out, i, c, quote) {
    out = ""
    quote = ""
    for (i = 1; i <= length(line); i++) {
        c = substr(line, i, 1)
        if (in_comment) {
            if (substr(line, i, 2) == "*/") {
                in_comment = 0
                out = out " "
                i++
            }
            out = out " "
        } else if (quote != "") {
            if (c == "\\") {
                out = out " "
                i++
            } else if (c == quote)
                quote = ""
            out = out " "
        } else if (substr(line, i, 2) == "/*") {
            in_comment = 1
            out = out "  "
            i++
        } else if (substr(line, i, 2) == "//") {
            while (i++ <= length(line))
                out = out " "
        } else if (c == "\"" || c == "'") {
            if (c == "\"")
                has_text = 1
            quote = c
            out = out " "
        } else
            out = out c
    }
    sub(/ +$/, "", out)
    return out
}

function balance(text,   opened, closed) {
    opened = gsub(/\(/, "(", text)
    closed = gsub(/\)/, ")", text)
    return opened - closed
}

function site(at, kind, becomes) {
    print file "\t" at "\t" kind "\t" becomes
}

function put(line, from, len, word) {
    return substr(line, 1, from - 1) word substr(line, from + len)
}

function operators(at, line, m,   from, rest, word) {
    from = 1
    while (match(substr(m, from), / (==|!=|<=|>=|<|>|&&|\|\||\+=|-=|\+|-)( |$)/)) {
        from += RSTART
        rest = substr(m, from)
        word = rest
        sub(/ .*/, "", word)
        if (word in other)
            site(at, operator_kind[word], put(line, from, length(word), other[word]))
    }
}

function constants(at, line, m,   from, word, before, after) {
    if (m ~ /^ +(static |const |unsigned )*(struct |enum )?[a-z_0-9]+ [*a-z_0-9]+\[/)
        return
    from = 1
    while (match(substr(m, from), /[0-9]+/)) {
        from += RSTART - 1
        word = substr(m, from, RLENGTH)
        before = substr(m, from - 1, 1)
        after = substr(m, from + RLENGTH, 1)
        if (before !~ /[A-Za-z0-9_.]/ && after !~ /[A-Za-z_.]/ && length(word) < 10)
            site(at, "constant",
                put(line, from, length(word), word == 0 || at % 2 ? word + 1 : word - 1))
        from += length(word)
    }
}

function condition(at, line, m,   start, i, depth, c) {
    if (!match(m, /^ *(} else )?(if|while) \(/))
        return
    start = RLENGTH
    depth = 0
    for (i = start; i <= length(m); i++) {
        c = substr(m, i, 1)
        depth += (c == "(") - (c == ")")
        if (depth == 0) {
            site(at, "condition", substr(line, 1, start) "!" substr(line, start, i - start + 1) \
                substr(line, i))
            return
        }
    }
}

function returned(at, line, m,   word) {
    if (m !~ /^ +return [^;]+;$/ || m ~ /return (NULL|\(struct|[0-9]+;)/)
        return
    word = m
    sub(/^ +return /, "", word)
    sub(/;$/, "", word)
    match(line, /^ +/)
    if (word == "true" || word == "false")
        word = word == "true" ? "false" : "true"
    else
        word = word == "GYRE_OK" ? "GYRE_INVALID" : "0"
    site(at, "return", substr(line, 1, RLENGTH) "return " word ";")
}

function whole(at, line, m,   blank) { # statements of one line
    match(line, /^ */)
    blank = substr(line, 1, RLENGTH)
    if (m ~ /^ +break;$/)
        site(at, "jump", blank "continue;")
    else if (m ~ /^ +continue;$/)
        site(at, "jump", blank "break;")
    else if (m !~ /;$/ || balance(m) != 0)
        return
    else if (m ~ /^ +[a-z_][A-Za-z0-9_]*\(/ || m ~ /^ +(\(void\) ?)?[^ ]+ [-+*\/|&^%<>]*= / ||
        m ~ /^ +[^ ]+(\+\+|--);$/ || m ~ /^ +(\+\+|--)[^ ]+;$/)
        site(at, "statement", blank ";")
}

function statement(   i) {
    for (i = 1; i <= held; i++) {
        if (texts && code[i] !~ /^ *(} else )?(if|while) \(/)
            continue
        if (code[i] ~ /^ *(case|default|goto|static_assert|_Static_assert|assert)/)
            continue
        operators(number[i], raw[i], code[i])
        constants(number[i], raw[i], code[i])
        condition(number[i], raw[i], code[i])
        if (i == 1 && held == 1) {
            returned(number[i], raw[i], code[i])
            whole(number[i], raw[i], code[i])
        }
    }
    held = 0
    texts = 0
}

BEGIN {
    split("== != < <= > >= && || + - += -=", a, " ")
    split("!= == <= < >= > || && - + -= +=", b, " ")
    for (i in a) {
        other[a[i]] = b[i]
        operator_kind[a[i]] = i + 0 <= 6 ? "comparison" : i + 0 <= 8 ? "logic" : "arithmetic"
    }
}
FNR == 1 {
    file = FILENAME
    in_comment = inside = held = texts = macro = 0
}
{
    has_text = 0
    m = masked($0)
}
macro || m ~ /^ *#/ {
    macro = $0 ~ /\\$/
    next
}
m == "{" { inside = 1; held = texts = 0; next }
m == "}" { inside = 0; next }
inside && m !~ /^ *$/ {
    held++
    number[held] = FNR
    raw[held] = $0
    code[held] = m
    texts = texts || has_text
    if (held == 1)
        depth = 0
    depth += balance(m)
    if (depth == 0 && (m ~ /[;{}:]$/ || m ~ /^ *(} else )?(if|while|for|else)/ || m ~ /\)$/ ||
        m ~ /^ *else$/))
        statement()
}
