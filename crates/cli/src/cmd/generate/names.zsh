# Names on servers, as the program itself lists them; what begins none is completed as before.
_xdfs_names() {
    local typed="$PREFIX" head name
    # Quotes that are open are not part of it.
    [[ -n $QIPREFIX ]] || typed="${(Q)typed}"
    local -a names files directories
    names=("${(@0)"$("${(Q)words[1]}" complete zsh -- "${(@Q)words[1,CURRENT-1]}" "$typed" 2>/dev/null)"}")
    names=("${(@)names:#}")
    (( $#names )) || return 1
    head="${typed%${typed##*[:\/]}}"
    for name in "${names[@]}"; do
        name="${name#$head}"
        case $name in
            (*[:/]) directories+=("$name") ;;
            (*) files+=("$name") ;;
        esac
    done
    # The part before the last separator is not listed with each name.
    local PREFIX="$PREFIX" IPREFIX="$IPREFIX"
    compset -P '*[:/]'
    (( $#files )) && compadd -- "${files[@]}"
    (( $#directories )) && compadd -S '' -- "${directories[@]}"
    return 0
}

_xdfs() {
    if [[ $PREFIX != -* ]] && _xdfs_names && [[ $PREFIX == *:* ]]; then
        return 0
    fi
    _xdfs_arguments "$@"
}
