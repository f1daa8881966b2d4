#!/bin/sh
# Runs what docs/learn tells its readers to run, and holds docs/learn/answers.md against what
# `gyre check` says of each exercise.
#
#     learn.sh SOURCE BUILD
set -u
source=$1
PATH=$2:$PATH
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp -R "$source/docs/learn/." "$work"
cd "$work" || exit 1
offences=0

offend() {
    echo "$*"
    offences=$((offences + 1))
}

commands_of() { # of a chapter: the lines of its blocks that start the tool
    sed -n "/^\`\`\`/,/^\`\`\`/p" "$1" | grep '^gyre '
}

answer_of() { # the text of an answer, on one line
    sed -n "/^$1[.] /,/^$(($1 + 1))[.] /p" answers.md | sed "/^$(($1 + 1))[.] /d" | tr -s '\n ' '  '
}

for chapter in 1 2 3 4 5 6 7; do
    page=$(echo $chapter-*.md)
    commands_of "$page" >commands
    [ -s commands ] || offend "$page: has no command"
    grep -q -- '--html' commands || offend "$page: plays nothing"
    while read -r command; do
        expected=0
        case $command in *"check exercises/$chapter-"[!m]*) expected=1 ;; esac
        $command >said 2>&1
        code=$?
        [ $code = $expected ] || offend "$page: \`$command\` ends with $code: $(tail -n 1 said)"
        [ $expected = 0 ] || cp said "fault$chapter"
    done <commands
    gyre check "exercises/$chapter-mended.json" >said 2>&1 || offend "$page: $(cat said)"
    says=$(sed -n 's/.*root = 0: //p' "fault$chapter")
    [ -n "$says" ] || offend "$page: has no exercise"
    case $(answer_of $chapter) in
    *"\`$says\`"*) ;;
    *) offend "answers.md: $chapter lacks \`$says\`" ;;
    esac
done
[ $offences = 0 ] && echo "7 chapters, each with its commands, exercise and answer"
