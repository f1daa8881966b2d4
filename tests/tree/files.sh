# shellcheck shell=sh
# Shell helper of the checks of the tree: lists files, counts offences. Read with `.` by a script
# that stands at the root of the tree.
offences=0

offend() {
    echo "$*"
    offences=$((offences + 1))
}

files() { # shell patterns: tracked files, and new ones that git does not ignore
    git ls-files --cached --others --exclude-standard -- "$@" | sort -u |
        while IFS= read -r file; do
            [ ! -f "$file" ] || echo "$file"
        done
}
