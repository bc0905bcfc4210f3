# Names on servers, as the program itself lists them; what begins none is completed as before.
_xdfs_or_names() {
    local name names=()
    while IFS= read -r name; do
        names+=("$name")
    done < <("${1/#\~\//$HOME/}" complete bash -- "${COMP_LINE:0:COMP_POINT}" "$2" 2>/dev/null)
    # A server's short name counts where no file begins so.
    if [[ ${#names[@]} -gt 0 ]] && { [[ ${names[0]} != *: ]] || ! compgen -f -- "$2" >/dev/null; }; then
        COMPREPLY=("${names[@]}")
        # Quotes are there already. What ends in one of these goes on.
        if [[ ${#names[@]} -eq 1 && ${names[0]} == *[:/] ]]; then
            compopt -o nospace 2>/dev/null
        fi
        # Lists the last part of each name. Other names could be taken for files here.
        if [[ ${names[0]} == //* || ${names[0]} == *://* ]]; then
            compopt -o filenames -o noquote 2>/dev/null
        fi
        return 0
    fi
    _xdfs "$@"
    # Where a file is expected, options are listed once one is begun.
    if [[ -z $2 && $COMP_CWORD -gt 1 && ${COMPREPLY[*]} == *--help* ]]; then
        local word words=()
        for word in "${COMPREPLY[@]}"; do
            # Commands of this one, unlike options and names of arguments.
            if [[ $word == [a-z]* ]]; then
                words+=("$word")
            fi
        done
        COMPREPLY=("${words[@]}")
    fi
}
