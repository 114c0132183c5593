#!/bin/sh
# lld-link for rustc, in a folder where every input has a name of its own and
# no path: paths would come into the PDB, and by its hash into the image.
set -eu

for argument in "$@"; do
    case $argument in
    /OUT:*) out=${argument#/OUT:} ;;
    esac
done
folder=$(dirname "$out")/link
rm -rf "$folder"
mkdir "$folder"

for argument in "$@"; do
    shift
    case $argument in
    /OUT:*) argument=/OUT:halprof.sys ;;
    /IMPLIB:*)
        import=${argument#/IMPLIB:}
        argument=/IMPLIB:halprof.lib
        ;;
    # Every library comes with its path.
    /LIBPATH:*) continue ;;
    /DEF:*)
        ln -s "${argument#/DEF:}" "$folder/exports.def"
        argument=/DEF:exports.def
        ;;
    /*.o | /*.rlib | /*.lib)
        ln -s "$argument" "$folder/${argument##*/}"
        argument=${argument##*/}
        ;;
    esac
    set -- "$@" "$argument"
done

cd "$folder"
lld-link-19 "$@" '/PDBSOURCEPATH:C:\halprof'
mv halprof.sys "$out"
mv halprof.pdb "${out%.*}.pdb"
mv halprof.lib "$import"
