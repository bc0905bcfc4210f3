# Print an optspec for argparse to handle cmd's options that are independent of any subcommand.
function __fish_xdfs_global_optspecs
    string join \n h/help V/version
end

function __fish_xdfs_needs_command
    # Figure out if the current invocation already has a command.
    set -l cmd (commandline -opc)
    set -e cmd[1]
    argparse -s (__fish_xdfs_global_optspecs) -- $cmd 2>/dev/null
    or return
    if set -q argv[1]
        # Also print the command, so this can be used to figure out what it is.
        echo $argv[1]
        return 1
    end
    return 0
end

function __fish_xdfs_using_subcommand
    set -l cmd (__fish_xdfs_needs_command)
    test -z "$cmd"
    and return 1
    contains -- $cmd[1] $argv
end

complete -c xdfs -n "__fish_xdfs_needs_command" -s h -l help -d 'Print help'
complete -c xdfs -n "__fish_xdfs_needs_command" -s V -l version -d 'Print version'
complete -c xdfs -n "__fish_xdfs_needs_command" -f -a "serve" -d 'Offer directories to clients'
complete -c xdfs -n "__fish_xdfs_needs_command" -f -a "cp" -d 'Copy files to or from a server'
complete -c xdfs -n "__fish_xdfs_needs_command" -f -a "stat" -d 'Show what a file on a server is'
complete -c xdfs -n "__fish_xdfs_needs_command" -f -a "demo" -d 'Start a server and a client here, send a large file both ways, verify it, show the speed'
complete -c xdfs -n "__fish_xdfs_needs_command" -f -a "generate" -d 'Write the man page and the shells\' completions'
complete -c xdfs -n "__fish_xdfs_needs_command" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c xdfs -n "__fish_xdfs_using_subcommand serve" -l export -d 'Offer DIR as xdfs://HOST/NAME. \':ro\' only lets clients read; DIR may be \'memory:\', which holds the endless file \'zero\' and the file \'null\' that swallows everything' -r
complete -c xdfs -n "__fish_xdfs_using_subcommand serve" -l listen -d 'Address and port to listen on; port 0 takes a free one. Only loopback addresses until xSec' -r
complete -c xdfs -n "__fish_xdfs_using_subcommand serve" -l state -d 'Directory for keys, users and journals (comes with xSec)' -r -F
complete -c xdfs -n "__fish_xdfs_using_subcommand serve" -l config -d 'Configuration file (comes with server operation)' -r -F
complete -c xdfs -n "__fish_xdfs_using_subcommand serve" -l allow-anonymous -d 'What clients may do that did not log in. Nobody can log in before xSec, so everybody on this machine is anonymous: \'rw\' is the default until then, \'ro\' lets nobody write' -r -f -a "ro\t'Read'
create\t'Read, and make new files'
rw\t'Read and write'"
complete -c xdfs -n "__fish_xdfs_using_subcommand serve" -l min-protection -d 'Protect transfers at least at this level, even where the client asks for less' -r -f -a "private\t'Encrypted and authenticated'
integrity\t'Authenticated'
clear\t'Only the heads of blocks are authenticated'"
complete -c xdfs -n "__fish_xdfs_using_subcommand serve" -l max-channels -d 'Channels that one session may have, up to 4096' -r
complete -c xdfs -n "__fish_xdfs_using_subcommand serve" -l json -d 'One JSON object a line on standard output instead of text'
complete -c xdfs -n "__fish_xdfs_using_subcommand serve" -s q -l quiet -d 'Only problems in the log (standard error), no sessions and transfers that went well'
complete -c xdfs -n "__fish_xdfs_using_subcommand serve" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c xdfs -n "__fish_xdfs_using_subcommand cp" -l offset -d 'Copy the source from byte N on; the target holds exactly the range' -r
complete -c xdfs -n "__fish_xdfs_using_subcommand cp" -l length -d 'Copy N bytes' -r
complete -c xdfs -n "__fish_xdfs_using_subcommand cp" -s P -l channels -d 'Parallel TCP channels' -r
complete -c xdfs -n "__fish_xdfs_using_subcommand cp" -s w -l window -d 'TCP window (socket buffer) of each channel; without it the system tunes it, which is nearly always faster' -r
complete -c xdfs -n "__fish_xdfs_using_subcommand cp" -s b -l block -d 'Block size: a power of two from 64KiB to 4MiB; without it xdfs chooses' -r
complete -c xdfs -n "__fish_xdfs_using_subcommand cp" -l congestion -d 'TCP congestion control, such as cubic or bbr; without it xdfs chooses' -r
complete -c xdfs -n "__fish_xdfs_using_subcommand cp" -l protection -d 'What is done to the data on the way: \'integrity\' authenticates every block, \'clear\' only its head, \'private\' encrypts (comes with xSec)' -r -f -a "private\t'Encrypted and authenticated'
integrity\t'Authenticated'
clear\t'Only the heads of blocks are authenticated'"
complete -c xdfs -n "__fish_xdfs_using_subcommand cp" -l verify -d 'How the copy is checked: \'wire\' by every block\'s tag (the default; needs integrity), \'none\' (the default at \'clear\'), \'hash\' and \'reread\' come with durability' -r -f -a "none\t'Not at all'
wire\t'By the tag of every block'
hash\t'By a hash from end to end'
reread\t'By reading the target again'"
complete -c xdfs -n "__fish_xdfs_using_subcommand cp" -l durability -d 'When a file counts as copied: \'written\' to its file system, or \'durable\' on its disk (comes with durability)' -r -f -a "written\t'All bytes are in the file system'
durable\t'All bytes are on the disk'"
complete -c xdfs -n "__fish_xdfs_using_subcommand cp" -l progress -d 'What a terminal shows: a bar, a bar and each channel\'s share when a file is done, or nothing' -r -f -a "none\t'Nothing'
total\t'A bar'
channels\t'A bar, and the channels\' shares at the end'"
complete -c xdfs -n "__fish_xdfs_using_subcommand cp" -s n -l no-clobber -d 'Keep a target file that exists (said, not an error); without it an existing file is replaced'
complete -c xdfs -n "__fish_xdfs_using_subcommand cp" -s r -l recursive -d 'Copy directories with all they hold (comes with trees)'
complete -c xdfs -n "__fish_xdfs_using_subcommand cp" -s a -l archive -d 'Like -r, with owners, times and links (comes with trees)'
complete -c xdfs -n "__fish_xdfs_using_subcommand cp" -l no-resume -d 'Start from the beginning even where an earlier attempt left something (so it is in this version anyway)'
complete -c xdfs -n "__fish_xdfs_using_subcommand cp" -l json -d 'One JSON object a line on standard output, for every file copied and for every failure'
complete -c xdfs -n "__fish_xdfs_using_subcommand cp" -s q -l quiet -d 'Only errors'
complete -c xdfs -n "__fish_xdfs_using_subcommand cp" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c xdfs -n "__fish_xdfs_using_subcommand stat" -l json -d 'One JSON object a line'
complete -c xdfs -n "__fish_xdfs_using_subcommand stat" -s h -l help -d 'Print help'
complete -c xdfs -n "__fish_xdfs_using_subcommand demo" -l size -d 'Size of the file' -r
complete -c xdfs -n "__fish_xdfs_using_subcommand demo" -s P -l channels -d 'Parallel TCP channels' -r
complete -c xdfs -n "__fish_xdfs_using_subcommand demo" -l protection -d 'Protection level of the transfers' -r -f -a "private\t'Encrypted and authenticated'
integrity\t'Authenticated'
clear\t'Only the heads of blocks are authenticated'"
complete -c xdfs -n "__fish_xdfs_using_subcommand demo" -l directory -d 'Where the files are made; without it in memory (/dev/shm) where there is room, else in the temporary directory' -r -F
complete -c xdfs -n "__fish_xdfs_using_subcommand demo" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c xdfs -n "__fish_xdfs_using_subcommand generate" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c xdfs -n "__fish_xdfs_using_subcommand help; and not __fish_seen_subcommand_from serve cp stat demo generate help" -f -a "serve" -d 'Offer directories to clients'
complete -c xdfs -n "__fish_xdfs_using_subcommand help; and not __fish_seen_subcommand_from serve cp stat demo generate help" -f -a "cp" -d 'Copy files to or from a server'
complete -c xdfs -n "__fish_xdfs_using_subcommand help; and not __fish_seen_subcommand_from serve cp stat demo generate help" -f -a "stat" -d 'Show what a file on a server is'
complete -c xdfs -n "__fish_xdfs_using_subcommand help; and not __fish_seen_subcommand_from serve cp stat demo generate help" -f -a "demo" -d 'Start a server and a client here, send a large file both ways, verify it, show the speed'
complete -c xdfs -n "__fish_xdfs_using_subcommand help; and not __fish_seen_subcommand_from serve cp stat demo generate help" -f -a "generate" -d 'Write the man page and the shells\' completions'
complete -c xdfs -n "__fish_xdfs_using_subcommand help; and not __fish_seen_subcommand_from serve cp stat demo generate help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
