# Names on servers, as the program itself lists them.
function __fish_xdfs_names
    set -l words (commandline -opc)
    set -l typed (commandline -ct | string collect)
    # Quotes may be open.
    set -l word (string unescape -- $typed; or string unescape -- $typed\'; or string unescape -- $typed\")
    $words[1] complete fish -- $words "$word" 2>/dev/null | string split0
end

function __fish_xdfs_is_remote
    string match --quiet --regex '^[\'"]?[\w.@-]+:' -- (commandline -ct | string collect)
end
