#!/bin/sh
# Makes g.exe with the tools of Go 1.19, but without Go's runtime, which would make it a hundred
# times as large: runtime.go has what the linker looks for. The program links and does not run.
# The linker compresses DWARF into .zdebug_ sections.
set -e
tools=$(go env GOTOOLDIR)
export GOOS=windows GOARCH=amd64
work=$(mktemp -d)
"$tools/asm" -trimpath "$PWD" -p runtime -gensymabis -o "$work/symabis" runtime.s
"$tools/compile" -std -+ -p runtime -symabis "$work/symabis" -asmhdr "$work/go_asm.h" \
    -trimpath "$PWD" -o "$work/runtime.a" runtime.go
"$tools/asm" -trimpath "$PWD" -p runtime -o "$work/runtime.o" runtime.s
"$tools/pack" r "$work/runtime.a" "$work/runtime.o"
"$tools/compile" -p main -trimpath "$PWD" -I "$work" -o "$work/main.a" main.go
"$tools/link" -L "$work" -o g.exe "$work/main.a"
rm -r "$work"
