#!/bin/sh
# lld-link for rustc, in a folder where every input has a name of its own and
# no path: paths would come into the PDB, and by its hash into the image.
set -eu

macros=/dev/null
for argument in "$@"; do
    case $argument in
    /OUT:*) out=${argument#/OUT:} ;;
    /LIBPATH:*/wdk-sys-*) macros=${argument#/LIBPATH:}/call_unsafe_wdf_function_binding.rs ;;
    esac
done

# wdk-sys writes into its macro's source where it lies, and rustc tells the
# debugger that source's hash.
hash=$(sha256sum "$macros" | cut -c 1-64)
without_hash() {
    perl -0777 -pe 'BEGIN { $hash = pack "H*", shift } s/\Q$hash\E/"\0" x 32/eg' "$hash" "$1"
}

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
    /*.o)
        name=${argument##*/}
        without_hash "$argument" >"$folder/$name"
        argument=$name
        ;;
    /*.rlib | /*.lib)
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
