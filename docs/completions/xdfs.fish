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
complete -c xdfs -n "__fish_xdfs_needs_command" -f -a "sync" -d 'Make a directory like another one, here or on a server'
complete -c xdfs -n "__fish_xdfs_needs_command" -f -a "stat" -d 'Show what a file on a server is'
complete -c xdfs -n "__fish_xdfs_needs_command" -f -a "sum" -d 'Show the BLAKE3 hashes of files, here or on a server'
complete -c xdfs -n "__fish_xdfs_needs_command" -f -a "ls" -d 'List directories on a server'
complete -c xdfs -n "__fish_xdfs_needs_command" -f -a "find" -d 'Find names on a server by tests, as find(1) does'
complete -c xdfs -n "__fish_xdfs_needs_command" -f -a "mkdir" -d 'Make directories on a server'
complete -c xdfs -n "__fish_xdfs_needs_command" -f -a "mkfifo" -d 'Make named pipes on a server'
complete -c xdfs -n "__fish_xdfs_needs_command" -f -a "rm" -d 'Remove files and directories on a server'
complete -c xdfs -n "__fish_xdfs_needs_command" -f -a "mv" -d 'Give a file on a server another name'
complete -c xdfs -n "__fish_xdfs_needs_command" -f -a "ln" -d 'Give a file on a server one more name, or make a symbolic link'
complete -c xdfs -n "__fish_xdfs_needs_command" -f -a "chmod" -d 'Set permission bits on a server'
complete -c xdfs -n "__fish_xdfs_needs_command" -f -a "touch" -d 'Set times on a server to now; make files that are missing'
complete -c xdfs -n "__fish_xdfs_needs_command" -f -a "cat" -d 'Write files of a server to standard output'
complete -c xdfs -n "__fish_xdfs_needs_command" -f -a "lock" -d 'Run a command while a file on a server is locked'
complete -c xdfs -n "__fish_xdfs_needs_command" -f -a "mount" -d 'Make a directory of a server a directory of this machine'
complete -c xdfs -n "__fish_xdfs_needs_command" -f -a "du" -d 'Show how much room files on a server take'
complete -c xdfs -n "__fish_xdfs_needs_command" -f -a "df" -d 'Show how much room a server has'
complete -c xdfs -n "__fish_xdfs_needs_command" -f -a "demo" -d 'Start a server and a client here, send a large file both ways, verify it, show the speed'
complete -c xdfs -n "__fish_xdfs_needs_command" -f -a "user" -d 'Say who may log in to a server here'
complete -c xdfs -n "__fish_xdfs_needs_command" -f -a "key" -d 'Make, show and convert keys'
complete -c xdfs -n "__fish_xdfs_needs_command" -f -a "trust" -d 'Show and change whose keys you believe'
complete -c xdfs -n "__fish_xdfs_needs_command" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c xdfs -n "__fish_xdfs_using_subcommand serve" -l export -d 'Offer DIR as xdfs://HOST/NAME. \':ro\' only lets clients read; DIR may be \'memory:\', which holds the endless file \'zero\' and the file \'null\' that swallows everything' -r
complete -c xdfs -n "__fish_xdfs_using_subcommand serve" -l listen -d 'Address and port to listen on; port 0 takes a free one, 0.0.0.0 is every IPv4 address of this machine, [::] the IPv6 addresses too [default: [::]:2799, or 0.0.0.0:2799 without IPv6]. \'?stack=tcp,DRIVER,...\' behind it passes every channel through drivers, as --stack does at the client' -r
complete -c xdfs -n "__fish_xdfs_using_subcommand serve" -l state -d 'The state folder, with the host key and the users; without it $XDG_STATE_HOME/xdfs, or for root /var/lib/xdfs, or ~/.local/state/xdfs. \'xdfs user\' finds the same' -r -F
complete -c xdfs -n "__fish_xdfs_using_subcommand serve" -l config -d 'Configuration file (TOML): exports, rights, limits, logs. Options of the command line win over it. SIGHUP reads it again; a file with a mistake changes nothing' -r -F
complete -c xdfs -n "__fish_xdfs_using_subcommand serve" -l allow-anonymous -d 'What visitors may do who did not log in: read, make new files too, or read and write. Without it nothing: they do not come in' -r -f -a "ro\t'Read'
create\t'Read, and make new files'
rw\t'Read and write'"
complete -c xdfs -n "__fish_xdfs_using_subcommand serve" -l keep -d 'What \'xdfs cp -a\' may bring along to the exports given here, besides content, permissions and times: set-id and sticky bits, owners, access control lists, extended attributes, pipes and devices. Only for people whom you trust with root\'s files. Without \'acl\' and \'xattr\' a mount shows no such attributes' -r -f -a "modes\t'All bits of the mode'
owner\t'Owner and group'
acl\t'Access control lists'
xattr\t'Extended attributes'
special\t'Pipes, sockets and devices'"
complete -c xdfs -n "__fish_xdfs_using_subcommand serve" -l min-protection -d 'Protect transfers at least at this level, even where the client asks for less [default: clear]' -r -f -a "private\t'Encrypted and authenticated'
integrity\t'Authenticated'
clear\t'Only the heads of blocks are authenticated'"
complete -c xdfs -n "__fish_xdfs_using_subcommand serve" -l max-channels -d 'Channels that one session may have, up to 4096 [default: 1024]' -r
complete -c xdfs -n "__fish_xdfs_using_subcommand serve" -l confinement -d 'What binds the server\'s process itself (Landlock, seccomp): \'auto\' as far as the kernel can, \'required\' or it does not start, \'off\' [default: auto]' -r -f -a "auto\t'As far as the kernel can'
required\t'Completely, or it does not start'
off\t'Nothing'"
complete -c xdfs -n "__fish_xdfs_using_subcommand serve" -l certificate -d 'A certificate of this site for clients that ask for one (\'xdfs cp --ca\'), in PEM with what stands between it and its authority behind it. SIGHUP reads it again' -r -F
complete -c xdfs -n "__fish_xdfs_using_subcommand serve" -l certificate-key -d 'The certificate\'s private key in PEM, a file that nobody else may read' -r -F
complete -c xdfs -n "__fish_xdfs_using_subcommand serve" -l metrics -d 'Answer \'GET /metrics\' with figures for Prometheus at unix:PATH (for the server\'s user and group), or at a loopback address such as 127.0.0.1:9280' -r
complete -c xdfs -n "__fish_xdfs_using_subcommand serve" -l ports -d 'With --stdio: the ports on which more channels may connect, as a firewall lets them through' -r
complete -c xdfs -n "__fish_xdfs_using_subcommand serve" -l check -d 'Say whether a server would start with these options and this configuration, and do not start it: nothing is made or changed. Run it as the user of the server, whose rights count'
complete -c xdfs -n "__fish_xdfs_using_subcommand serve" -l json -d 'One JSON object a line on standard output instead of text'
complete -c xdfs -n "__fish_xdfs_using_subcommand serve" -s q -l quiet -d 'Only problems in the log (standard error), no sessions and transfers that went well'
complete -c xdfs -n "__fish_xdfs_using_subcommand serve" -l pipes -d 'Let clients open and make named pipes (FIFOs) in the exports given here: what one of them writes another one, or a program of this machine, reads'
complete -c xdfs -n "__fish_xdfs_using_subcommand serve" -l standby -d 'Take the listening socket over from the server that started this process, when it says so at standard input'
complete -c xdfs -n "__fish_xdfs_using_subcommand serve" -l stdio -d 'Serve one client at standard input and output, with the rights of this user: what \'xdfs cp FILE ssh://HOST/path\' starts over ssh'
complete -c xdfs -n "__fish_xdfs_using_subcommand serve" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c xdfs -n "__fish_xdfs_using_subcommand cp" -l offset -d 'Copy the source from byte N on; the target holds exactly the range' -r
complete -c xdfs -n "__fish_xdfs_using_subcommand cp" -l length -d 'Copy N bytes' -r
complete -c xdfs -n "__fish_xdfs_using_subcommand cp" -l include -d 'Of a tree, take what fits PATTERN, whatever a later --exclude says' -r
complete -c xdfs -n "__fish_xdfs_using_subcommand cp" -l exclude -d 'Of a tree, leave out what fits PATTERN (\'xdfs sync --help\' explains patterns)' -r
complete -c xdfs -n "__fish_xdfs_using_subcommand cp" -l include-from -d 'Read patterns for --include from FILE; \'-\' reads standard input' -r -F
complete -c xdfs -n "__fish_xdfs_using_subcommand cp" -l exclude-from -d 'Read patterns for --exclude from FILE; \'-\' reads standard input' -r -F
complete -c xdfs -n "__fish_xdfs_using_subcommand cp" -l files-from -d 'Of a tree, take only the names in FILE: one a line, below the top; \'-\' reads standard input' -r -F
complete -c xdfs -n "__fish_xdfs_using_subcommand cp" -l failures -d 'Write the names that failed to FILE, for --files-from' -r -F
complete -c xdfs -n "__fish_xdfs_using_subcommand cp" -l retry -d 'After a lost connection, try again until nothing has moved for SECONDS; 0 gives up at once' -r
complete -c xdfs -n "__fish_xdfs_using_subcommand cp" -s P -l channels -d 'Parallel TCP channels [default: what the configuration file has for the server, or 4]' -r
complete -c xdfs -n "__fish_xdfs_using_subcommand cp" -s w -l window -d 'TCP window (socket buffer) of each channel; without it the system tunes it, which is nearly always faster' -r
complete -c xdfs -n "__fish_xdfs_using_subcommand cp" -s b -l block -d 'Block size: a power of two from 64KiB to 4MiB; without it xdfs chooses' -r
complete -c xdfs -n "__fish_xdfs_using_subcommand cp" -l bwlimit -d 'Move at most RATE bytes a second, all channels together: 512K, 10M, 1.5G (KiB, MiB, GiB, as rsync and rclone write rates; a number alone is KiB, and 10MB is 1000s) or \'off\'; by the time of day as \'08:00,10M 19:00,off\'' -r
complete -c xdfs -n "__fish_xdfs_using_subcommand cp" -l congestion -d 'TCP congestion control, such as cubic or bbr; without it xdfs chooses' -r
complete -c xdfs -n "__fish_xdfs_using_subcommand cp" -l protection -d 'What is done to the data on the way: \'private\' encrypts and authenticates every block, \'integrity\' authenticates it, \'clear\' authenticates its head alone [default: what the configuration file has for the server, or private]' -r -f -a "private\t'Encrypted and authenticated'
integrity\t'Authenticated'
clear\t'Only the heads of blocks are authenticated'"
complete -c xdfs -n "__fish_xdfs_using_subcommand cp" -l verify -d 'How the copy is checked before it gets its name: \'hash\' by the hash of what was sent (the default), \'reread\' by that of what the target\'s disk gives back, \'wire\' by every block\'s tag alone (needs integrity or private), \'none\'' -r -f -a "none\t'Not at all'
wire\t'By the tag of every block'
hash\t'What arrived has the hash of what was sent'
reread\t'What the target\'s disk gives back has it'"
complete -c xdfs -n "__fish_xdfs_using_subcommand cp" -l durability -d 'When a file counts as copied: \'durable\' on its disk (the default), so that a power cut right after does not take it back, or \'written\' to its file system, which is quicker' -r -f -a "written\t'All bytes are in the file system'
durable\t'All bytes are on the disk'"
complete -c xdfs -n "__fish_xdfs_using_subcommand cp" -l progress -d 'What a terminal shows: a bar, a bar and each channel\'s share when a file is done, or nothing' -r -f -a "none\t'Nothing'
total\t'A bar'
channels\t'A bar, and the channels\' shares at the end'"
complete -c xdfs -n "__fish_xdfs_using_subcommand cp" -l identity -d 'Log in with the key in FILE and no other; XDFS_IDENTITY says the same. Without it the keys of the SSH agent, your own (\'xdfs key create\') and ~/.ssh/id_ed25519 are offered; where the URL names no user, those that need no passphrase, to servers that are known or in the configuration file' -r -F
complete -c xdfs -n "__fish_xdfs_using_subcommand cp" -l password-file -d 'Log in with the password in the first line of FILE, which nobody else may read; XDFS_PASSWORD_FILE says the same' -r -F
complete -c xdfs -n "__fish_xdfs_using_subcommand cp" -l ca -d 'Believe servers whose certificate is good for their name under the authorities in FILE (PEM), or under those of this machine where FILE is \'system\'; XDFS_CA says the same. A server whose key is known is known by its key' -r -F
complete -c xdfs -n "__fish_xdfs_using_subcommand cp" -l state -d 'The state folder, with your key and known servers (see \'xdfs key --help\')' -r -F
complete -c xdfs -n "__fish_xdfs_using_subcommand cp" -l ssh -d 'For ssh:// and ssh: the program that connects, with its first arguments, such as \'ssh -i FILE\'; XDFS_SSH says the same' -r
complete -c xdfs -n "__fish_xdfs_using_subcommand cp" -l remote-command -d 'For ssh:// and ssh: what is started there [default: xdfs serve --stdio]' -r
complete -c xdfs -n "__fish_xdfs_using_subcommand cp" -l stack -d 'Pass every channel through drivers, the same as at the server: \'tcp\' and those above it, such as tcp,tls or tcp,rate=100MB/s (see docs/xio.md) [default: what the configuration file has for the server, or none]' -r
complete -c xdfs -n "__fish_xdfs_using_subcommand cp" -l dry-run -d 'Change nothing; print what would be copied and what it would replace, or why the export does not take it. Whether the modes of files allow it shows only when it is done'
complete -c xdfs -n "__fish_xdfs_using_subcommand cp" -s n -l no-clobber -d 'Keep a target file that exists (said, not an error); without it an existing file is replaced'
complete -c xdfs -n "__fish_xdfs_using_subcommand cp" -s r -l recursive -d 'Copy directories with all they hold: files, directories, symbolic links; permissions (less the umask of the other end) and modification times go along'
complete -c xdfs -n "__fish_xdfs_using_subcommand cp" -s a -l archive -d 'Like -r, and keep all that the server\'s export grants: owners, all mode bits, hard links, access control lists and extended attributes, special files; and holes, whose zeros cross the network but take no room'
complete -c xdfs -n "__fish_xdfs_using_subcommand cp" -l no-resume -d 'Start from the beginning even where an earlier attempt left something, and leave nothing to go on with; of a tree, send what is there already, too'
complete -c xdfs -n "__fish_xdfs_using_subcommand cp" -l atomic -d 'A tree that is new at the target appears there whole or not at all. Until then it is beside it, under a name that begins with a dot; the same command goes on with it'
complete -c xdfs -n "__fish_xdfs_using_subcommand cp" -l numeric-ids -d 'With -a, keep owners and groups by number, not by name'
complete -c xdfs -n "__fish_xdfs_using_subcommand cp" -l json -d 'One JSON object a line on standard output, for every file copied and for every failure'
complete -c xdfs -n "__fish_xdfs_using_subcommand cp" -l stats -d 'Say in one line at the end what was done, as on a terminal'
complete -c xdfs -n "__fish_xdfs_using_subcommand cp" -s v -l verbose -d 'Like --stats, and name each file that was copied or removed, on standard error'
complete -c xdfs -n "__fish_xdfs_using_subcommand cp" -s q -l quiet -d 'Only errors'
complete -c xdfs -n "__fish_xdfs_using_subcommand cp" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c xdfs -n "__fish_xdfs_using_subcommand sync" -l max-delete -d 'Remove nothing where more than N names would go; a directory counts once, with all in it' -r
complete -c xdfs -n "__fish_xdfs_using_subcommand sync" -l include -d 'Of a tree, take what fits PATTERN, whatever a later --exclude says' -r
complete -c xdfs -n "__fish_xdfs_using_subcommand sync" -l exclude -d 'Of a tree, leave out what fits PATTERN (\'xdfs sync --help\' explains patterns)' -r
complete -c xdfs -n "__fish_xdfs_using_subcommand sync" -l include-from -d 'Read patterns for --include from FILE; \'-\' reads standard input' -r -F
complete -c xdfs -n "__fish_xdfs_using_subcommand sync" -l exclude-from -d 'Read patterns for --exclude from FILE; \'-\' reads standard input' -r -F
complete -c xdfs -n "__fish_xdfs_using_subcommand sync" -l files-from -d 'Of a tree, take only the names in FILE: one a line, below the top; \'-\' reads standard input' -r -F
complete -c xdfs -n "__fish_xdfs_using_subcommand sync" -l failures -d 'Write the names that failed to FILE, for --files-from' -r -F
complete -c xdfs -n "__fish_xdfs_using_subcommand sync" -l retry -d 'After a lost connection, try again until nothing has moved for SECONDS; 0 gives up at once' -r
complete -c xdfs -n "__fish_xdfs_using_subcommand sync" -s P -l channels -d 'Parallel TCP channels [default: what the configuration file has for the server, or 4]' -r
complete -c xdfs -n "__fish_xdfs_using_subcommand sync" -s w -l window -d 'TCP window (socket buffer) of each channel; without it the system tunes it, which is nearly always faster' -r
complete -c xdfs -n "__fish_xdfs_using_subcommand sync" -s b -l block -d 'Block size: a power of two from 64KiB to 4MiB; without it xdfs chooses' -r
complete -c xdfs -n "__fish_xdfs_using_subcommand sync" -l bwlimit -d 'Move at most RATE bytes a second, all channels together: 512K, 10M, 1.5G (KiB, MiB, GiB, as rsync and rclone write rates; a number alone is KiB, and 10MB is 1000s) or \'off\'; by the time of day as \'08:00,10M 19:00,off\'' -r
complete -c xdfs -n "__fish_xdfs_using_subcommand sync" -l congestion -d 'TCP congestion control, such as cubic or bbr; without it xdfs chooses' -r
complete -c xdfs -n "__fish_xdfs_using_subcommand sync" -l protection -d 'What is done to the data on the way: \'private\' encrypts and authenticates every block, \'integrity\' authenticates it, \'clear\' authenticates its head alone [default: what the configuration file has for the server, or private]' -r -f -a "private\t'Encrypted and authenticated'
integrity\t'Authenticated'
clear\t'Only the heads of blocks are authenticated'"
complete -c xdfs -n "__fish_xdfs_using_subcommand sync" -l verify -d 'How the copy is checked before it gets its name: \'hash\' by the hash of what was sent (the default), \'reread\' by that of what the target\'s disk gives back, \'wire\' by every block\'s tag alone (needs integrity or private), \'none\'' -r -f -a "none\t'Not at all'
wire\t'By the tag of every block'
hash\t'What arrived has the hash of what was sent'
reread\t'What the target\'s disk gives back has it'"
complete -c xdfs -n "__fish_xdfs_using_subcommand sync" -l durability -d 'When a file counts as copied: \'durable\' on its disk (the default), so that a power cut right after does not take it back, or \'written\' to its file system, which is quicker' -r -f -a "written\t'All bytes are in the file system'
durable\t'All bytes are on the disk'"
complete -c xdfs -n "__fish_xdfs_using_subcommand sync" -l progress -d 'What a terminal shows: a bar, a bar and each channel\'s share when a file is done, or nothing' -r -f -a "none\t'Nothing'
total\t'A bar'
channels\t'A bar, and the channels\' shares at the end'"
complete -c xdfs -n "__fish_xdfs_using_subcommand sync" -l identity -d 'Log in with the key in FILE and no other; XDFS_IDENTITY says the same. Without it the keys of the SSH agent, your own (\'xdfs key create\') and ~/.ssh/id_ed25519 are offered; where the URL names no user, those that need no passphrase, to servers that are known or in the configuration file' -r -F
complete -c xdfs -n "__fish_xdfs_using_subcommand sync" -l password-file -d 'Log in with the password in the first line of FILE, which nobody else may read; XDFS_PASSWORD_FILE says the same' -r -F
complete -c xdfs -n "__fish_xdfs_using_subcommand sync" -l ca -d 'Believe servers whose certificate is good for their name under the authorities in FILE (PEM), or under those of this machine where FILE is \'system\'; XDFS_CA says the same. A server whose key is known is known by its key' -r -F
complete -c xdfs -n "__fish_xdfs_using_subcommand sync" -l state -d 'The state folder, with your key and known servers (see \'xdfs key --help\')' -r -F
complete -c xdfs -n "__fish_xdfs_using_subcommand sync" -l ssh -d 'For ssh:// and ssh: the program that connects, with its first arguments, such as \'ssh -i FILE\'; XDFS_SSH says the same' -r
complete -c xdfs -n "__fish_xdfs_using_subcommand sync" -l remote-command -d 'For ssh:// and ssh: what is started there [default: xdfs serve --stdio]' -r
complete -c xdfs -n "__fish_xdfs_using_subcommand sync" -l stack -d 'Pass every channel through drivers, the same as at the server: \'tcp\' and those above it, such as tcp,tls or tcp,rate=100MB/s (see docs/xio.md) [default: what the configuration file has for the server, or none]' -r
complete -c xdfs -n "__fish_xdfs_using_subcommand sync" -s n -l dry-run -d 'Change nothing; print what would be done'
complete -c xdfs -n "__fish_xdfs_using_subcommand sync" -s c -l checksum -d 'Compare files of the same size by content, not by modification time; both sides read them'
complete -c xdfs -n "__fish_xdfs_using_subcommand sync" -l delete -d 'Remove from TARGET what SOURCE does not have, when everything else went well. What is excluded stays. At the top of an export, and in your home directory, it needs --max-delete'
complete -c xdfs -n "__fish_xdfs_using_subcommand sync" -s a -l archive -d 'Keep all that the server\'s export grants: owners, all mode bits, hard links, access control lists and extended attributes, special files; and holes, whose zeros cross the network but take no room'
complete -c xdfs -n "__fish_xdfs_using_subcommand sync" -l atomic -d 'A tree that is new at the target appears there whole or not at all. Until then it is beside it, under a name that begins with a dot; the same command goes on with it'
complete -c xdfs -n "__fish_xdfs_using_subcommand sync" -l numeric-ids -d 'With -a, keep owners and groups by number, not by name'
complete -c xdfs -n "__fish_xdfs_using_subcommand sync" -l json -d 'One JSON object a line on standard output, for every file copied and for every failure'
complete -c xdfs -n "__fish_xdfs_using_subcommand sync" -l stats -d 'Say in one line at the end what was done, as on a terminal'
complete -c xdfs -n "__fish_xdfs_using_subcommand sync" -s v -l verbose -d 'Like --stats, and name each file that was copied or removed, on standard error'
complete -c xdfs -n "__fish_xdfs_using_subcommand sync" -s q -l quiet -d 'Only errors'
complete -c xdfs -n "__fish_xdfs_using_subcommand sync" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c xdfs -n "__fish_xdfs_using_subcommand stat" -l identity -d 'Log in with the key in FILE and no other; XDFS_IDENTITY says the same. Without it the keys of the SSH agent, your own (\'xdfs key create\') and ~/.ssh/id_ed25519 are offered; where the URL names no user, those that need no passphrase, to servers that are known or in the configuration file' -r -F
complete -c xdfs -n "__fish_xdfs_using_subcommand stat" -l password-file -d 'Log in with the password in the first line of FILE, which nobody else may read; XDFS_PASSWORD_FILE says the same' -r -F
complete -c xdfs -n "__fish_xdfs_using_subcommand stat" -l ca -d 'Believe servers whose certificate is good for their name under the authorities in FILE (PEM), or under those of this machine where FILE is \'system\'; XDFS_CA says the same. A server whose key is known is known by its key' -r -F
complete -c xdfs -n "__fish_xdfs_using_subcommand stat" -l state -d 'The state folder, with your key and known servers (see \'xdfs key --help\')' -r -F
complete -c xdfs -n "__fish_xdfs_using_subcommand stat" -l ssh -d 'For ssh:// and ssh: the program that connects, with its first arguments, such as \'ssh -i FILE\'; XDFS_SSH says the same' -r
complete -c xdfs -n "__fish_xdfs_using_subcommand stat" -l remote-command -d 'For ssh:// and ssh: what is started there [default: xdfs serve --stdio]' -r
complete -c xdfs -n "__fish_xdfs_using_subcommand stat" -l stack -d 'Pass every channel through drivers, the same as at the server: \'tcp\' and those above it, such as tcp,tls or tcp,rate=100MB/s (see docs/xio.md) [default: what the configuration file has for the server, or none]' -r
complete -c xdfs -n "__fish_xdfs_using_subcommand stat" -l locks -d 'Also show which clients of the server have the file open, and their locks and leases; programs of the server\'s machine are not among them'
complete -c xdfs -n "__fish_xdfs_using_subcommand stat" -l json -d 'One JSON object a line'
complete -c xdfs -n "__fish_xdfs_using_subcommand stat" -s h -l help -d 'Print help'
complete -c xdfs -n "__fish_xdfs_using_subcommand sum" -l offset -d 'From byte N on' -r
complete -c xdfs -n "__fish_xdfs_using_subcommand sum" -l length -d 'N bytes' -r
complete -c xdfs -n "__fish_xdfs_using_subcommand sum" -l identity -d 'Log in with the key in FILE and no other; XDFS_IDENTITY says the same. Without it the keys of the SSH agent, your own (\'xdfs key create\') and ~/.ssh/id_ed25519 are offered; where the URL names no user, those that need no passphrase, to servers that are known or in the configuration file' -r -F
complete -c xdfs -n "__fish_xdfs_using_subcommand sum" -l password-file -d 'Log in with the password in the first line of FILE, which nobody else may read; XDFS_PASSWORD_FILE says the same' -r -F
complete -c xdfs -n "__fish_xdfs_using_subcommand sum" -l ca -d 'Believe servers whose certificate is good for their name under the authorities in FILE (PEM), or under those of this machine where FILE is \'system\'; XDFS_CA says the same. A server whose key is known is known by its key' -r -F
complete -c xdfs -n "__fish_xdfs_using_subcommand sum" -l state -d 'The state folder, with your key and known servers (see \'xdfs key --help\')' -r -F
complete -c xdfs -n "__fish_xdfs_using_subcommand sum" -l ssh -d 'For ssh:// and ssh: the program that connects, with its first arguments, such as \'ssh -i FILE\'; XDFS_SSH says the same' -r
complete -c xdfs -n "__fish_xdfs_using_subcommand sum" -l remote-command -d 'For ssh:// and ssh: what is started there [default: xdfs serve --stdio]' -r
complete -c xdfs -n "__fish_xdfs_using_subcommand sum" -l stack -d 'Pass every channel through drivers, the same as at the server: \'tcp\' and those above it, such as tcp,tls or tcp,rate=100MB/s (see docs/xio.md) [default: what the configuration file has for the server, or none]' -r
complete -c xdfs -n "__fish_xdfs_using_subcommand sum" -l json -d 'One JSON object a line'
complete -c xdfs -n "__fish_xdfs_using_subcommand sum" -s h -l help -d 'Print help'
complete -c xdfs -n "__fish_xdfs_using_subcommand ls" -l identity -d 'Log in with the key in FILE and no other; XDFS_IDENTITY says the same. Without it the keys of the SSH agent, your own (\'xdfs key create\') and ~/.ssh/id_ed25519 are offered; where the URL names no user, those that need no passphrase, to servers that are known or in the configuration file' -r -F
complete -c xdfs -n "__fish_xdfs_using_subcommand ls" -l password-file -d 'Log in with the password in the first line of FILE, which nobody else may read; XDFS_PASSWORD_FILE says the same' -r -F
complete -c xdfs -n "__fish_xdfs_using_subcommand ls" -l ca -d 'Believe servers whose certificate is good for their name under the authorities in FILE (PEM), or under those of this machine where FILE is \'system\'; XDFS_CA says the same. A server whose key is known is known by its key' -r -F
complete -c xdfs -n "__fish_xdfs_using_subcommand ls" -l state -d 'The state folder, with your key and known servers (see \'xdfs key --help\')' -r -F
complete -c xdfs -n "__fish_xdfs_using_subcommand ls" -l ssh -d 'For ssh:// and ssh: the program that connects, with its first arguments, such as \'ssh -i FILE\'; XDFS_SSH says the same' -r
complete -c xdfs -n "__fish_xdfs_using_subcommand ls" -l remote-command -d 'For ssh:// and ssh: what is started there [default: xdfs serve --stdio]' -r
complete -c xdfs -n "__fish_xdfs_using_subcommand ls" -l stack -d 'Pass every channel through drivers, the same as at the server: \'tcp\' and those above it, such as tcp,tls or tcp,rate=100MB/s (see docs/xio.md) [default: what the configuration file has for the server, or none]' -r
complete -c xdfs -n "__fish_xdfs_using_subcommand ls" -s l -l long -d 'Type, mode, owner, size and time of each; times are UTC'
complete -c xdfs -n "__fish_xdfs_using_subcommand ls" -s n -l numeric -d 'The same, with owners and groups as numbers'
complete -c xdfs -n "__fish_xdfs_using_subcommand ls" -s R -l recursive -d 'With all that is below'
complete -c xdfs -n "__fish_xdfs_using_subcommand ls" -s h -l human -d 'Sizes such as 12.3 MB'
complete -c xdfs -n "__fish_xdfs_using_subcommand ls" -l help -d 'Print help'
complete -c xdfs -n "__fish_xdfs_using_subcommand ls" -l sort -d 'Sort by name whatever the number of entries'
complete -c xdfs -n "__fish_xdfs_using_subcommand ls" -l json -d 'One JSON object a line'
complete -c xdfs -n "__fish_xdfs_using_subcommand find" -l identity -d 'Log in with the key in FILE and no other; XDFS_IDENTITY says the same. Without it the keys of the SSH agent, your own (\'xdfs key create\') and ~/.ssh/id_ed25519 are offered; where the URL names no user, those that need no passphrase, to servers that are known or in the configuration file' -r -F
complete -c xdfs -n "__fish_xdfs_using_subcommand find" -l password-file -d 'Log in with the password in the first line of FILE, which nobody else may read; XDFS_PASSWORD_FILE says the same' -r -F
complete -c xdfs -n "__fish_xdfs_using_subcommand find" -l ca -d 'Believe servers whose certificate is good for their name under the authorities in FILE (PEM), or under those of this machine where FILE is \'system\'; XDFS_CA says the same. A server whose key is known is known by its key' -r -F
complete -c xdfs -n "__fish_xdfs_using_subcommand find" -l state -d 'The state folder, with your key and known servers (see \'xdfs key --help\')' -r -F
complete -c xdfs -n "__fish_xdfs_using_subcommand find" -l ssh -d 'For ssh:// and ssh: the program that connects, with its first arguments, such as \'ssh -i FILE\'; XDFS_SSH says the same' -r
complete -c xdfs -n "__fish_xdfs_using_subcommand find" -l remote-command -d 'For ssh:// and ssh: what is started there [default: xdfs serve --stdio]' -r
complete -c xdfs -n "__fish_xdfs_using_subcommand find" -l stack -d 'Pass every channel through drivers, the same as at the server: \'tcp\' and those above it, such as tcp,tls or tcp,rate=100MB/s (see docs/xio.md) [default: what the configuration file has for the server, or none]' -r
complete -c xdfs -n "__fish_xdfs_using_subcommand find" -s h -l help -d 'Print help'
complete -c xdfs -n "__fish_xdfs_using_subcommand mkdir" -s m -l mode -d 'Permission bits, in octal, less the server\'s umask' -r
complete -c xdfs -n "__fish_xdfs_using_subcommand mkdir" -l identity -d 'Log in with the key in FILE and no other; XDFS_IDENTITY says the same. Without it the keys of the SSH agent, your own (\'xdfs key create\') and ~/.ssh/id_ed25519 are offered; where the URL names no user, those that need no passphrase, to servers that are known or in the configuration file' -r -F
complete -c xdfs -n "__fish_xdfs_using_subcommand mkdir" -l password-file -d 'Log in with the password in the first line of FILE, which nobody else may read; XDFS_PASSWORD_FILE says the same' -r -F
complete -c xdfs -n "__fish_xdfs_using_subcommand mkdir" -l ca -d 'Believe servers whose certificate is good for their name under the authorities in FILE (PEM), or under those of this machine where FILE is \'system\'; XDFS_CA says the same. A server whose key is known is known by its key' -r -F
complete -c xdfs -n "__fish_xdfs_using_subcommand mkdir" -l state -d 'The state folder, with your key and known servers (see \'xdfs key --help\')' -r -F
complete -c xdfs -n "__fish_xdfs_using_subcommand mkdir" -l ssh -d 'For ssh:// and ssh: the program that connects, with its first arguments, such as \'ssh -i FILE\'; XDFS_SSH says the same' -r
complete -c xdfs -n "__fish_xdfs_using_subcommand mkdir" -l remote-command -d 'For ssh:// and ssh: what is started there [default: xdfs serve --stdio]' -r
complete -c xdfs -n "__fish_xdfs_using_subcommand mkdir" -l stack -d 'Pass every channel through drivers, the same as at the server: \'tcp\' and those above it, such as tcp,tls or tcp,rate=100MB/s (see docs/xio.md) [default: what the configuration file has for the server, or none]' -r
complete -c xdfs -n "__fish_xdfs_using_subcommand mkdir" -s p -l parents -d 'Make what is missing above them, and be content with one that is there'
complete -c xdfs -n "__fish_xdfs_using_subcommand mkdir" -l json -d 'One JSON object a line'
complete -c xdfs -n "__fish_xdfs_using_subcommand mkdir" -s h -l help -d 'Print help'
complete -c xdfs -n "__fish_xdfs_using_subcommand mkfifo" -s m -l mode -d 'Permission bits, in octal, less the server\'s umask' -r
complete -c xdfs -n "__fish_xdfs_using_subcommand mkfifo" -l identity -d 'Log in with the key in FILE and no other; XDFS_IDENTITY says the same. Without it the keys of the SSH agent, your own (\'xdfs key create\') and ~/.ssh/id_ed25519 are offered; where the URL names no user, those that need no passphrase, to servers that are known or in the configuration file' -r -F
complete -c xdfs -n "__fish_xdfs_using_subcommand mkfifo" -l password-file -d 'Log in with the password in the first line of FILE, which nobody else may read; XDFS_PASSWORD_FILE says the same' -r -F
complete -c xdfs -n "__fish_xdfs_using_subcommand mkfifo" -l ca -d 'Believe servers whose certificate is good for their name under the authorities in FILE (PEM), or under those of this machine where FILE is \'system\'; XDFS_CA says the same. A server whose key is known is known by its key' -r -F
complete -c xdfs -n "__fish_xdfs_using_subcommand mkfifo" -l state -d 'The state folder, with your key and known servers (see \'xdfs key --help\')' -r -F
complete -c xdfs -n "__fish_xdfs_using_subcommand mkfifo" -l ssh -d 'For ssh:// and ssh: the program that connects, with its first arguments, such as \'ssh -i FILE\'; XDFS_SSH says the same' -r
complete -c xdfs -n "__fish_xdfs_using_subcommand mkfifo" -l remote-command -d 'For ssh:// and ssh: what is started there [default: xdfs serve --stdio]' -r
complete -c xdfs -n "__fish_xdfs_using_subcommand mkfifo" -l stack -d 'Pass every channel through drivers, the same as at the server: \'tcp\' and those above it, such as tcp,tls or tcp,rate=100MB/s (see docs/xio.md) [default: what the configuration file has for the server, or none]' -r
complete -c xdfs -n "__fish_xdfs_using_subcommand mkfifo" -l json -d 'One JSON object a line'
complete -c xdfs -n "__fish_xdfs_using_subcommand mkfifo" -s h -l help -d 'Print help'
complete -c xdfs -n "__fish_xdfs_using_subcommand rm" -l identity -d 'Log in with the key in FILE and no other; XDFS_IDENTITY says the same. Without it the keys of the SSH agent, your own (\'xdfs key create\') and ~/.ssh/id_ed25519 are offered; where the URL names no user, those that need no passphrase, to servers that are known or in the configuration file' -r -F
complete -c xdfs -n "__fish_xdfs_using_subcommand rm" -l password-file -d 'Log in with the password in the first line of FILE, which nobody else may read; XDFS_PASSWORD_FILE says the same' -r -F
complete -c xdfs -n "__fish_xdfs_using_subcommand rm" -l ca -d 'Believe servers whose certificate is good for their name under the authorities in FILE (PEM), or under those of this machine where FILE is \'system\'; XDFS_CA says the same. A server whose key is known is known by its key' -r -F
complete -c xdfs -n "__fish_xdfs_using_subcommand rm" -l state -d 'The state folder, with your key and known servers (see \'xdfs key --help\')' -r -F
complete -c xdfs -n "__fish_xdfs_using_subcommand rm" -l ssh -d 'For ssh:// and ssh: the program that connects, with its first arguments, such as \'ssh -i FILE\'; XDFS_SSH says the same' -r
complete -c xdfs -n "__fish_xdfs_using_subcommand rm" -l remote-command -d 'For ssh:// and ssh: what is started there [default: xdfs serve --stdio]' -r
complete -c xdfs -n "__fish_xdfs_using_subcommand rm" -l stack -d 'Pass every channel through drivers, the same as at the server: \'tcp\' and those above it, such as tcp,tls or tcp,rate=100MB/s (see docs/xio.md) [default: what the configuration file has for the server, or none]' -r
complete -c xdfs -n "__fish_xdfs_using_subcommand rm" -s r -l recursive -d 'Directories with all they hold; asks on a terminal'
complete -c xdfs -n "__fish_xdfs_using_subcommand rm" -s f -l force -d 'Ask nothing, and be content where nothing is there'
complete -c xdfs -n "__fish_xdfs_using_subcommand rm" -l json -d 'One JSON object a line'
complete -c xdfs -n "__fish_xdfs_using_subcommand rm" -s h -l help -d 'Print help'
complete -c xdfs -n "__fish_xdfs_using_subcommand mv" -l identity -d 'Log in with the key in FILE and no other; XDFS_IDENTITY says the same. Without it the keys of the SSH agent, your own (\'xdfs key create\') and ~/.ssh/id_ed25519 are offered; where the URL names no user, those that need no passphrase, to servers that are known or in the configuration file' -r -F
complete -c xdfs -n "__fish_xdfs_using_subcommand mv" -l password-file -d 'Log in with the password in the first line of FILE, which nobody else may read; XDFS_PASSWORD_FILE says the same' -r -F
complete -c xdfs -n "__fish_xdfs_using_subcommand mv" -l ca -d 'Believe servers whose certificate is good for their name under the authorities in FILE (PEM), or under those of this machine where FILE is \'system\'; XDFS_CA says the same. A server whose key is known is known by its key' -r -F
complete -c xdfs -n "__fish_xdfs_using_subcommand mv" -l state -d 'The state folder, with your key and known servers (see \'xdfs key --help\')' -r -F
complete -c xdfs -n "__fish_xdfs_using_subcommand mv" -l ssh -d 'For ssh:// and ssh: the program that connects, with its first arguments, such as \'ssh -i FILE\'; XDFS_SSH says the same' -r
complete -c xdfs -n "__fish_xdfs_using_subcommand mv" -l remote-command -d 'For ssh:// and ssh: what is started there [default: xdfs serve --stdio]' -r
complete -c xdfs -n "__fish_xdfs_using_subcommand mv" -l stack -d 'Pass every channel through drivers, the same as at the server: \'tcp\' and those above it, such as tcp,tls or tcp,rate=100MB/s (see docs/xio.md) [default: what the configuration file has for the server, or none]' -r
complete -c xdfs -n "__fish_xdfs_using_subcommand mv" -s n -l no-clobber -d 'Replace nothing'
complete -c xdfs -n "__fish_xdfs_using_subcommand mv" -l json -d 'One JSON object a line'
complete -c xdfs -n "__fish_xdfs_using_subcommand mv" -s h -l help -d 'Print help'
complete -c xdfs -n "__fish_xdfs_using_subcommand ln" -l identity -d 'Log in with the key in FILE and no other; XDFS_IDENTITY says the same. Without it the keys of the SSH agent, your own (\'xdfs key create\') and ~/.ssh/id_ed25519 are offered; where the URL names no user, those that need no passphrase, to servers that are known or in the configuration file' -r -F
complete -c xdfs -n "__fish_xdfs_using_subcommand ln" -l password-file -d 'Log in with the password in the first line of FILE, which nobody else may read; XDFS_PASSWORD_FILE says the same' -r -F
complete -c xdfs -n "__fish_xdfs_using_subcommand ln" -l ca -d 'Believe servers whose certificate is good for their name under the authorities in FILE (PEM), or under those of this machine where FILE is \'system\'; XDFS_CA says the same. A server whose key is known is known by its key' -r -F
complete -c xdfs -n "__fish_xdfs_using_subcommand ln" -l state -d 'The state folder, with your key and known servers (see \'xdfs key --help\')' -r -F
complete -c xdfs -n "__fish_xdfs_using_subcommand ln" -l ssh -d 'For ssh:// and ssh: the program that connects, with its first arguments, such as \'ssh -i FILE\'; XDFS_SSH says the same' -r
complete -c xdfs -n "__fish_xdfs_using_subcommand ln" -l remote-command -d 'For ssh:// and ssh: what is started there [default: xdfs serve --stdio]' -r
complete -c xdfs -n "__fish_xdfs_using_subcommand ln" -l stack -d 'Pass every channel through drivers, the same as at the server: \'tcp\' and those above it, such as tcp,tls or tcp,rate=100MB/s (see docs/xio.md) [default: what the configuration file has for the server, or none]' -r
complete -c xdfs -n "__fish_xdfs_using_subcommand ln" -s s -l symbolic -d 'A symbolic link'
complete -c xdfs -n "__fish_xdfs_using_subcommand ln" -l json -d 'One JSON object a line'
complete -c xdfs -n "__fish_xdfs_using_subcommand ln" -s h -l help -d 'Print help'
complete -c xdfs -n "__fish_xdfs_using_subcommand chmod" -l identity -d 'Log in with the key in FILE and no other; XDFS_IDENTITY says the same. Without it the keys of the SSH agent, your own (\'xdfs key create\') and ~/.ssh/id_ed25519 are offered; where the URL names no user, those that need no passphrase, to servers that are known or in the configuration file' -r -F
complete -c xdfs -n "__fish_xdfs_using_subcommand chmod" -l password-file -d 'Log in with the password in the first line of FILE, which nobody else may read; XDFS_PASSWORD_FILE says the same' -r -F
complete -c xdfs -n "__fish_xdfs_using_subcommand chmod" -l ca -d 'Believe servers whose certificate is good for their name under the authorities in FILE (PEM), or under those of this machine where FILE is \'system\'; XDFS_CA says the same. A server whose key is known is known by its key' -r -F
complete -c xdfs -n "__fish_xdfs_using_subcommand chmod" -l state -d 'The state folder, with your key and known servers (see \'xdfs key --help\')' -r -F
complete -c xdfs -n "__fish_xdfs_using_subcommand chmod" -l ssh -d 'For ssh:// and ssh: the program that connects, with its first arguments, such as \'ssh -i FILE\'; XDFS_SSH says the same' -r
complete -c xdfs -n "__fish_xdfs_using_subcommand chmod" -l remote-command -d 'For ssh:// and ssh: what is started there [default: xdfs serve --stdio]' -r
complete -c xdfs -n "__fish_xdfs_using_subcommand chmod" -l stack -d 'Pass every channel through drivers, the same as at the server: \'tcp\' and those above it, such as tcp,tls or tcp,rate=100MB/s (see docs/xio.md) [default: what the configuration file has for the server, or none]' -r
complete -c xdfs -n "__fish_xdfs_using_subcommand chmod" -l json -d 'One JSON object a line'
complete -c xdfs -n "__fish_xdfs_using_subcommand chmod" -s h -l help -d 'Print help'
complete -c xdfs -n "__fish_xdfs_using_subcommand touch" -s d -l date -d 'Not now but TIME: 2027-01-31, \'2027-01-31 13:47:26\' (both UTC), 2027-01-31T13:47:26+01:00, or @SECONDS since 1970' -r
complete -c xdfs -n "__fish_xdfs_using_subcommand touch" -l identity -d 'Log in with the key in FILE and no other; XDFS_IDENTITY says the same. Without it the keys of the SSH agent, your own (\'xdfs key create\') and ~/.ssh/id_ed25519 are offered; where the URL names no user, those that need no passphrase, to servers that are known or in the configuration file' -r -F
complete -c xdfs -n "__fish_xdfs_using_subcommand touch" -l password-file -d 'Log in with the password in the first line of FILE, which nobody else may read; XDFS_PASSWORD_FILE says the same' -r -F
complete -c xdfs -n "__fish_xdfs_using_subcommand touch" -l ca -d 'Believe servers whose certificate is good for their name under the authorities in FILE (PEM), or under those of this machine where FILE is \'system\'; XDFS_CA says the same. A server whose key is known is known by its key' -r -F
complete -c xdfs -n "__fish_xdfs_using_subcommand touch" -l state -d 'The state folder, with your key and known servers (see \'xdfs key --help\')' -r -F
complete -c xdfs -n "__fish_xdfs_using_subcommand touch" -l ssh -d 'For ssh:// and ssh: the program that connects, with its first arguments, such as \'ssh -i FILE\'; XDFS_SSH says the same' -r
complete -c xdfs -n "__fish_xdfs_using_subcommand touch" -l remote-command -d 'For ssh:// and ssh: what is started there [default: xdfs serve --stdio]' -r
complete -c xdfs -n "__fish_xdfs_using_subcommand touch" -l stack -d 'Pass every channel through drivers, the same as at the server: \'tcp\' and those above it, such as tcp,tls or tcp,rate=100MB/s (see docs/xio.md) [default: what the configuration file has for the server, or none]' -r
complete -c xdfs -n "__fish_xdfs_using_subcommand touch" -s c -l no-create -d 'Make none'
complete -c xdfs -n "__fish_xdfs_using_subcommand touch" -l json -d 'One JSON object a line'
complete -c xdfs -n "__fish_xdfs_using_subcommand touch" -s h -l help -d 'Print help'
complete -c xdfs -n "__fish_xdfs_using_subcommand cat" -l offset -d 'From byte N on; a file that is shorter has nothing there' -r
complete -c xdfs -n "__fish_xdfs_using_subcommand cat" -l length -d 'N bytes at most' -r
complete -c xdfs -n "__fish_xdfs_using_subcommand cat" -l identity -d 'Log in with the key in FILE and no other; XDFS_IDENTITY says the same. Without it the keys of the SSH agent, your own (\'xdfs key create\') and ~/.ssh/id_ed25519 are offered; where the URL names no user, those that need no passphrase, to servers that are known or in the configuration file' -r -F
complete -c xdfs -n "__fish_xdfs_using_subcommand cat" -l password-file -d 'Log in with the password in the first line of FILE, which nobody else may read; XDFS_PASSWORD_FILE says the same' -r -F
complete -c xdfs -n "__fish_xdfs_using_subcommand cat" -l ca -d 'Believe servers whose certificate is good for their name under the authorities in FILE (PEM), or under those of this machine where FILE is \'system\'; XDFS_CA says the same. A server whose key is known is known by its key' -r -F
complete -c xdfs -n "__fish_xdfs_using_subcommand cat" -l state -d 'The state folder, with your key and known servers (see \'xdfs key --help\')' -r -F
complete -c xdfs -n "__fish_xdfs_using_subcommand cat" -l ssh -d 'For ssh:// and ssh: the program that connects, with its first arguments, such as \'ssh -i FILE\'; XDFS_SSH says the same' -r
complete -c xdfs -n "__fish_xdfs_using_subcommand cat" -l remote-command -d 'For ssh:// and ssh: what is started there [default: xdfs serve --stdio]' -r
complete -c xdfs -n "__fish_xdfs_using_subcommand cat" -l stack -d 'Pass every channel through drivers, the same as at the server: \'tcp\' and those above it, such as tcp,tls or tcp,rate=100MB/s (see docs/xio.md) [default: what the configuration file has for the server, or none]' -r
complete -c xdfs -n "__fish_xdfs_using_subcommand cat" -s f -l follow -d 'Write what is appended to the last file too, as it comes, until Ctrl-C or as many bytes as --length says'
complete -c xdfs -n "__fish_xdfs_using_subcommand cat" -s h -l help -d 'Print help'
complete -c xdfs -n "__fish_xdfs_using_subcommand lock" -s w -l timeout -d 'Wait so long for the lock; otherwise it is waited for as long as it takes' -r
complete -c xdfs -n "__fish_xdfs_using_subcommand lock" -s E -l conflict-exit-code -d 'The exit code if somebody else has the lock' -r
complete -c xdfs -n "__fish_xdfs_using_subcommand lock" -l identity -d 'Log in with the key in FILE and no other; XDFS_IDENTITY says the same. Without it the keys of the SSH agent, your own (\'xdfs key create\') and ~/.ssh/id_ed25519 are offered; where the URL names no user, those that need no passphrase, to servers that are known or in the configuration file' -r -F
complete -c xdfs -n "__fish_xdfs_using_subcommand lock" -l password-file -d 'Log in with the password in the first line of FILE, which nobody else may read; XDFS_PASSWORD_FILE says the same' -r -F
complete -c xdfs -n "__fish_xdfs_using_subcommand lock" -l ca -d 'Believe servers whose certificate is good for their name under the authorities in FILE (PEM), or under those of this machine where FILE is \'system\'; XDFS_CA says the same. A server whose key is known is known by its key' -r -F
complete -c xdfs -n "__fish_xdfs_using_subcommand lock" -l state -d 'The state folder, with your key and known servers (see \'xdfs key --help\')' -r -F
complete -c xdfs -n "__fish_xdfs_using_subcommand lock" -l ssh -d 'For ssh:// and ssh: the program that connects, with its first arguments, such as \'ssh -i FILE\'; XDFS_SSH says the same' -r
complete -c xdfs -n "__fish_xdfs_using_subcommand lock" -l remote-command -d 'For ssh:// and ssh: what is started there [default: xdfs serve --stdio]' -r
complete -c xdfs -n "__fish_xdfs_using_subcommand lock" -l stack -d 'Pass every channel through drivers, the same as at the server: \'tcp\' and those above it, such as tcp,tls or tcp,rate=100MB/s (see docs/xio.md) [default: what the configuration file has for the server, or none]' -r
complete -c xdfs -n "__fish_xdfs_using_subcommand lock" -s s -l shared -d 'Several may have the lock at a time, if all of them say this'
complete -c xdfs -n "__fish_xdfs_using_subcommand lock" -s n -l nonblock -d 'Do not wait for the lock'
complete -c xdfs -n "__fish_xdfs_using_subcommand lock" -s h -l help -d 'Print help'
complete -c xdfs -n "__fish_xdfs_using_subcommand mount" -s o -l options -d 'Options, separated by commas: see below' -r
complete -c xdfs -n "__fish_xdfs_using_subcommand mount" -l timeout -d 'How long calls wait for a server that is lost, before they fail with EIO [default: 60]' -r
complete -c xdfs -n "__fish_xdfs_using_subcommand mount" -l cache -d 'How much of files is held in memory: half of it of what is read ahead, half of what is written and not synced; from 4MB on [default: 512MiB]' -r
complete -c xdfs -n "__fish_xdfs_using_subcommand mount" -l identity -d 'Log in with the key in FILE and no other; XDFS_IDENTITY says the same. Without it the keys of the SSH agent, your own (\'xdfs key create\') and ~/.ssh/id_ed25519 are offered; where the URL names no user, those that need no passphrase, to servers that are known or in the configuration file' -r -F
complete -c xdfs -n "__fish_xdfs_using_subcommand mount" -l password-file -d 'Log in with the password in the first line of FILE, which nobody else may read; XDFS_PASSWORD_FILE says the same' -r -F
complete -c xdfs -n "__fish_xdfs_using_subcommand mount" -l ca -d 'Believe servers whose certificate is good for their name under the authorities in FILE (PEM), or under those of this machine where FILE is \'system\'; XDFS_CA says the same. A server whose key is known is known by its key' -r -F
complete -c xdfs -n "__fish_xdfs_using_subcommand mount" -l state -d 'The state folder, with your key and known servers (see \'xdfs key --help\')' -r -F
complete -c xdfs -n "__fish_xdfs_using_subcommand mount" -l ssh -d 'For ssh:// and ssh: the program that connects, with its first arguments, such as \'ssh -i FILE\'; XDFS_SSH says the same' -r
complete -c xdfs -n "__fish_xdfs_using_subcommand mount" -l remote-command -d 'For ssh:// and ssh: what is started there [default: xdfs serve --stdio]' -r
complete -c xdfs -n "__fish_xdfs_using_subcommand mount" -l stack -d 'Pass every channel through drivers, the same as at the server: \'tcp\' and those above it, such as tcp,tls or tcp,rate=100MB/s (see docs/xio.md) [default: what the configuration file has for the server, or none]' -r
complete -c xdfs -n "__fish_xdfs_using_subcommand mount" -s f -l foreground -d 'Stay in the foreground until it is unmounted; Ctrl-C unmounts it'
complete -c xdfs -n "__fish_xdfs_using_subcommand mount" -l report-ready -d 'Say on standard output when it is mounted, and then leave the terminal'
complete -c xdfs -n "__fish_xdfs_using_subcommand mount" -s h -l help -d 'Print help'
complete -c xdfs -n "__fish_xdfs_using_subcommand du" -l identity -d 'Log in with the key in FILE and no other; XDFS_IDENTITY says the same. Without it the keys of the SSH agent, your own (\'xdfs key create\') and ~/.ssh/id_ed25519 are offered; where the URL names no user, those that need no passphrase, to servers that are known or in the configuration file' -r -F
complete -c xdfs -n "__fish_xdfs_using_subcommand du" -l password-file -d 'Log in with the password in the first line of FILE, which nobody else may read; XDFS_PASSWORD_FILE says the same' -r -F
complete -c xdfs -n "__fish_xdfs_using_subcommand du" -l ca -d 'Believe servers whose certificate is good for their name under the authorities in FILE (PEM), or under those of this machine where FILE is \'system\'; XDFS_CA says the same. A server whose key is known is known by its key' -r -F
complete -c xdfs -n "__fish_xdfs_using_subcommand du" -l state -d 'The state folder, with your key and known servers (see \'xdfs key --help\')' -r -F
complete -c xdfs -n "__fish_xdfs_using_subcommand du" -l ssh -d 'For ssh:// and ssh: the program that connects, with its first arguments, such as \'ssh -i FILE\'; XDFS_SSH says the same' -r
complete -c xdfs -n "__fish_xdfs_using_subcommand du" -l remote-command -d 'For ssh:// and ssh: what is started there [default: xdfs serve --stdio]' -r
complete -c xdfs -n "__fish_xdfs_using_subcommand du" -l stack -d 'Pass every channel through drivers, the same as at the server: \'tcp\' and those above it, such as tcp,tls or tcp,rate=100MB/s (see docs/xio.md) [default: what the configuration file has for the server, or none]' -r
complete -c xdfs -n "__fish_xdfs_using_subcommand du" -s h -l human -d 'Sizes such as 12.3 MB'
complete -c xdfs -n "__fish_xdfs_using_subcommand du" -l help -d 'Print help'
complete -c xdfs -n "__fish_xdfs_using_subcommand du" -l json -d 'One JSON object a line'
complete -c xdfs -n "__fish_xdfs_using_subcommand df" -l identity -d 'Log in with the key in FILE and no other; XDFS_IDENTITY says the same. Without it the keys of the SSH agent, your own (\'xdfs key create\') and ~/.ssh/id_ed25519 are offered; where the URL names no user, those that need no passphrase, to servers that are known or in the configuration file' -r -F
complete -c xdfs -n "__fish_xdfs_using_subcommand df" -l password-file -d 'Log in with the password in the first line of FILE, which nobody else may read; XDFS_PASSWORD_FILE says the same' -r -F
complete -c xdfs -n "__fish_xdfs_using_subcommand df" -l ca -d 'Believe servers whose certificate is good for their name under the authorities in FILE (PEM), or under those of this machine where FILE is \'system\'; XDFS_CA says the same. A server whose key is known is known by its key' -r -F
complete -c xdfs -n "__fish_xdfs_using_subcommand df" -l state -d 'The state folder, with your key and known servers (see \'xdfs key --help\')' -r -F
complete -c xdfs -n "__fish_xdfs_using_subcommand df" -l ssh -d 'For ssh:// and ssh: the program that connects, with its first arguments, such as \'ssh -i FILE\'; XDFS_SSH says the same' -r
complete -c xdfs -n "__fish_xdfs_using_subcommand df" -l remote-command -d 'For ssh:// and ssh: what is started there [default: xdfs serve --stdio]' -r
complete -c xdfs -n "__fish_xdfs_using_subcommand df" -l stack -d 'Pass every channel through drivers, the same as at the server: \'tcp\' and those above it, such as tcp,tls or tcp,rate=100MB/s (see docs/xio.md) [default: what the configuration file has for the server, or none]' -r
complete -c xdfs -n "__fish_xdfs_using_subcommand df" -s h -l human -d 'Sizes such as 12.3 MB'
complete -c xdfs -n "__fish_xdfs_using_subcommand df" -l help -d 'Print help'
complete -c xdfs -n "__fish_xdfs_using_subcommand df" -l json -d 'One JSON object a line'
complete -c xdfs -n "__fish_xdfs_using_subcommand demo" -l size -d 'Size of the file' -r
complete -c xdfs -n "__fish_xdfs_using_subcommand demo" -s P -l channels -d 'Parallel TCP channels' -r
complete -c xdfs -n "__fish_xdfs_using_subcommand demo" -l protection -d 'Protection level of the transfers' -r -f -a "private\t'Encrypted and authenticated'
integrity\t'Authenticated'
clear\t'Only the heads of blocks are authenticated'"
complete -c xdfs -n "__fish_xdfs_using_subcommand demo" -l directory -d 'Where the files are made; without it in memory (/dev/shm) where there is room, else in the temporary directory' -r -F
complete -c xdfs -n "__fish_xdfs_using_subcommand demo" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c xdfs -n "__fish_xdfs_using_subcommand user; and not __fish_seen_subcommand_from add key password token list revoke restore help" -s h -l help -d 'Print help'
complete -c xdfs -n "__fish_xdfs_using_subcommand user; and not __fish_seen_subcommand_from add key password token list revoke restore help" -f -a "add" -d 'Add a user'
complete -c xdfs -n "__fish_xdfs_using_subcommand user; and not __fish_seen_subcommand_from add key password token list revoke restore help" -f -a "key" -d 'Add keys to a user'
complete -c xdfs -n "__fish_xdfs_using_subcommand user; and not __fish_seen_subcommand_from add key password token list revoke restore help" -f -a "password" -d 'Set a user\'s password'
complete -c xdfs -n "__fish_xdfs_using_subcommand user; and not __fish_seen_subcommand_from add key password token list revoke restore help" -f -a "token" -d 'Make a token: a login with limits, for a program'
complete -c xdfs -n "__fish_xdfs_using_subcommand user; and not __fish_seen_subcommand_from add key password token list revoke restore help" -f -a "list" -d 'Show who may log in, and how'
complete -c xdfs -n "__fish_xdfs_using_subcommand user; and not __fish_seen_subcommand_from add key password token list revoke restore help" -f -a "revoke" -d 'Take a login away: all of a user\'s, or one'
complete -c xdfs -n "__fish_xdfs_using_subcommand user; and not __fish_seen_subcommand_from add key password token list revoke restore help" -f -a "restore" -d 'Let a revoked user in again, with what they had'
complete -c xdfs -n "__fish_xdfs_using_subcommand user; and not __fish_seen_subcommand_from add key password token list revoke restore help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c xdfs -n "__fish_xdfs_using_subcommand user; and __fish_seen_subcommand_from add" -l key -d 'A public key file, or one in the form of authorized_keys; \'-\' is standard input; may be repeated' -r -F
complete -c xdfs -n "__fish_xdfs_using_subcommand user; and __fish_seen_subcommand_from add" -l password-file -d 'Take the password from the first line of FILE, which nobody else may read' -r -F
complete -c xdfs -n "__fish_xdfs_using_subcommand user; and __fish_seen_subcommand_from add" -l state -d 'The state folder, with keys, users and known servers; without it $XDG_STATE_HOME/xdfs, or ~/.local/state/xdfs, or for the users and the host key of a server that root looks after /var/lib/xdfs' -r -F
complete -c xdfs -n "__fish_xdfs_using_subcommand user; and __fish_seen_subcommand_from add" -l password -d 'Ask for a password on the terminal'
complete -c xdfs -n "__fish_xdfs_using_subcommand user; and __fish_seen_subcommand_from add" -s h -l help -d 'Print help'
complete -c xdfs -n "__fish_xdfs_using_subcommand user; and __fish_seen_subcommand_from key" -l state -d 'The state folder, with keys, users and known servers; without it $XDG_STATE_HOME/xdfs, or ~/.local/state/xdfs, or for the users and the host key of a server that root looks after /var/lib/xdfs' -r -F
complete -c xdfs -n "__fish_xdfs_using_subcommand user; and __fish_seen_subcommand_from key" -s h -l help -d 'Print help'
complete -c xdfs -n "__fish_xdfs_using_subcommand user; and __fish_seen_subcommand_from password" -l password-file -d 'Take the password from the first line of FILE, which nobody else may read; without it, it is asked for' -r -F
complete -c xdfs -n "__fish_xdfs_using_subcommand user; and __fish_seen_subcommand_from password" -l state -d 'The state folder, with keys, users and known servers; without it $XDG_STATE_HOME/xdfs, or ~/.local/state/xdfs, or for the users and the host key of a server that root looks after /var/lib/xdfs' -r -F
complete -c xdfs -n "__fish_xdfs_using_subcommand user; and __fish_seen_subcommand_from password" -s h -l help -d 'Print help'
complete -c xdfs -n "__fish_xdfs_using_subcommand user; and __fish_seen_subcommand_from token" -l export -d 'The export that it opens' -r
complete -c xdfs -n "__fish_xdfs_using_subcommand user; and __fish_seen_subcommand_from token" -l path -d 'The path in the export that it opens, with all below; without it the whole export. %XX stands for a byte' -r
complete -c xdfs -n "__fish_xdfs_using_subcommand user; and __fish_seen_subcommand_from token" -l expires -d 'When it runs out: in so many minutes, hours, days or weeks (30m, 12h, 7d, 4w), or on a day (2027-01-31, UTC)' -r
complete -c xdfs -n "__fish_xdfs_using_subcommand user; and __fish_seen_subcommand_from token" -l out -d 'Write the token to FILE, for its owner alone, instead of standard output' -r -F
complete -c xdfs -n "__fish_xdfs_using_subcommand user; and __fish_seen_subcommand_from token" -l state -d 'The state folder, with keys, users and known servers; without it $XDG_STATE_HOME/xdfs, or ~/.local/state/xdfs, or for the users and the host key of a server that root looks after /var/lib/xdfs' -r -F
complete -c xdfs -n "__fish_xdfs_using_subcommand user; and __fish_seen_subcommand_from token" -l read -d 'It may read (what it may do without this option, too)'
complete -c xdfs -n "__fish_xdfs_using_subcommand user; and __fish_seen_subcommand_from token" -l write -d 'It may read and write'
complete -c xdfs -n "__fish_xdfs_using_subcommand user; and __fish_seen_subcommand_from token" -s h -l help -d 'Print help'
complete -c xdfs -n "__fish_xdfs_using_subcommand user; and __fish_seen_subcommand_from list" -l state -d 'The state folder, with keys, users and known servers; without it $XDG_STATE_HOME/xdfs, or ~/.local/state/xdfs, or for the users and the host key of a server that root looks after /var/lib/xdfs' -r -F
complete -c xdfs -n "__fish_xdfs_using_subcommand user; and __fish_seen_subcommand_from list" -l json -d 'One JSON object a line'
complete -c xdfs -n "__fish_xdfs_using_subcommand user; and __fish_seen_subcommand_from list" -s h -l help -d 'Print help'
complete -c xdfs -n "__fish_xdfs_using_subcommand user; and __fish_seen_subcommand_from revoke" -l key -l token -d 'This key or token alone, by its fingerprint as \'xdfs user list\' shows it' -r
complete -c xdfs -n "__fish_xdfs_using_subcommand user; and __fish_seen_subcommand_from revoke" -l state -d 'The state folder, with keys, users and known servers; without it $XDG_STATE_HOME/xdfs, or ~/.local/state/xdfs, or for the users and the host key of a server that root looks after /var/lib/xdfs' -r -F
complete -c xdfs -n "__fish_xdfs_using_subcommand user; and __fish_seen_subcommand_from revoke" -l password -d 'The password alone'
complete -c xdfs -n "__fish_xdfs_using_subcommand user; and __fish_seen_subcommand_from revoke" -s h -l help -d 'Print help'
complete -c xdfs -n "__fish_xdfs_using_subcommand user; and __fish_seen_subcommand_from restore" -l state -d 'The state folder, with keys, users and known servers; without it $XDG_STATE_HOME/xdfs, or ~/.local/state/xdfs, or for the users and the host key of a server that root looks after /var/lib/xdfs' -r -F
complete -c xdfs -n "__fish_xdfs_using_subcommand user; and __fish_seen_subcommand_from restore" -s h -l help -d 'Print help'
complete -c xdfs -n "__fish_xdfs_using_subcommand user; and __fish_seen_subcommand_from help" -f -a "add" -d 'Add a user'
complete -c xdfs -n "__fish_xdfs_using_subcommand user; and __fish_seen_subcommand_from help" -f -a "key" -d 'Add keys to a user'
complete -c xdfs -n "__fish_xdfs_using_subcommand user; and __fish_seen_subcommand_from help" -f -a "password" -d 'Set a user\'s password'
complete -c xdfs -n "__fish_xdfs_using_subcommand user; and __fish_seen_subcommand_from help" -f -a "token" -d 'Make a token: a login with limits, for a program'
complete -c xdfs -n "__fish_xdfs_using_subcommand user; and __fish_seen_subcommand_from help" -f -a "list" -d 'Show who may log in, and how'
complete -c xdfs -n "__fish_xdfs_using_subcommand user; and __fish_seen_subcommand_from help" -f -a "revoke" -d 'Take a login away: all of a user\'s, or one'
complete -c xdfs -n "__fish_xdfs_using_subcommand user; and __fish_seen_subcommand_from help" -f -a "restore" -d 'Let a revoked user in again, with what they had'
complete -c xdfs -n "__fish_xdfs_using_subcommand user; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c xdfs -n "__fish_xdfs_using_subcommand key; and not __fish_seen_subcommand_from create show trust import export help" -s h -l help -d 'Print help'
complete -c xdfs -n "__fish_xdfs_using_subcommand key; and not __fish_seen_subcommand_from create show trust import export help" -f -a "create" -d 'Make a key of your own'
complete -c xdfs -n "__fish_xdfs_using_subcommand key; and not __fish_seen_subcommand_from create show trust import export help" -f -a "show" -d 'Show a key\'s public half and fingerprint'
complete -c xdfs -n "__fish_xdfs_using_subcommand key; and not __fish_seen_subcommand_from create show trust import export help" -f -a "trust" -d 'Trust a server\'s key (the same as \'xdfs trust pin\')'
complete -c xdfs -n "__fish_xdfs_using_subcommand key; and not __fish_seen_subcommand_from create show trust import export help" -f -a "import" -d 'Take over a private key from a PKCS#8 file (PEM)'
complete -c xdfs -n "__fish_xdfs_using_subcommand key; and not __fish_seen_subcommand_from create show trust import export help" -f -a "export" -d 'Write a key as an X.509 certificate (PEM), and the private half as PKCS#8'
complete -c xdfs -n "__fish_xdfs_using_subcommand key; and not __fish_seen_subcommand_from create show trust import export help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c xdfs -n "__fish_xdfs_using_subcommand key; and __fish_seen_subcommand_from create" -l out -d 'Write the key to FILE and its public half to FILE.pub, instead of keeping it as your own' -r -F
complete -c xdfs -n "__fish_xdfs_using_subcommand key; and __fish_seen_subcommand_from create" -l comment -d 'What the public half says whose it is; without it your name and that of the machine' -r
complete -c xdfs -n "__fish_xdfs_using_subcommand key; and __fish_seen_subcommand_from create" -l state -d 'The state folder, with keys, users and known servers; without it $XDG_STATE_HOME/xdfs, or ~/.local/state/xdfs, or for the users and the host key of a server that root looks after /var/lib/xdfs' -r -F
complete -c xdfs -n "__fish_xdfs_using_subcommand key; and __fish_seen_subcommand_from create" -l json -d 'One JSON object instead of text'
complete -c xdfs -n "__fish_xdfs_using_subcommand key; and __fish_seen_subcommand_from create" -s h -l help -d 'Print help'
complete -c xdfs -n "__fish_xdfs_using_subcommand key; and __fish_seen_subcommand_from show" -l state -d 'The state folder, with keys, users and known servers; without it $XDG_STATE_HOME/xdfs, or ~/.local/state/xdfs, or for the users and the host key of a server that root looks after /var/lib/xdfs' -r -F
complete -c xdfs -n "__fish_xdfs_using_subcommand key; and __fish_seen_subcommand_from show" -l host -d 'The host key of the server whose state is here'
complete -c xdfs -n "__fish_xdfs_using_subcommand key; and __fish_seen_subcommand_from show" -l all -d 'All keys that would be offered, in their order, and those that cannot be used with the reason'
complete -c xdfs -n "__fish_xdfs_using_subcommand key; and __fish_seen_subcommand_from show" -l json -d 'One JSON object a line'
complete -c xdfs -n "__fish_xdfs_using_subcommand key; and __fish_seen_subcommand_from show" -s h -l help -d 'Print help'
complete -c xdfs -n "__fish_xdfs_using_subcommand key; and __fish_seen_subcommand_from trust" -l state -d 'The state folder, with keys, users and known servers; without it $XDG_STATE_HOME/xdfs, or ~/.local/state/xdfs, or for the users and the host key of a server that root looks after /var/lib/xdfs' -r -F
complete -c xdfs -n "__fish_xdfs_using_subcommand key; and __fish_seen_subcommand_from trust" -s h -l help -d 'Print help'
complete -c xdfs -n "__fish_xdfs_using_subcommand key; and __fish_seen_subcommand_from import" -l out -d 'Write the key to FILE and its public half to FILE.pub, instead of keeping it as your own' -r -F
complete -c xdfs -n "__fish_xdfs_using_subcommand key; and __fish_seen_subcommand_from import" -l comment -d 'What the public half says whose it is; without it your name and that of the machine' -r
complete -c xdfs -n "__fish_xdfs_using_subcommand key; and __fish_seen_subcommand_from import" -l state -d 'The state folder, with keys, users and known servers; without it $XDG_STATE_HOME/xdfs, or ~/.local/state/xdfs, or for the users and the host key of a server that root looks after /var/lib/xdfs' -r -F
complete -c xdfs -n "__fish_xdfs_using_subcommand key; and __fish_seen_subcommand_from import" -l json -d 'One JSON object instead of text'
complete -c xdfs -n "__fish_xdfs_using_subcommand key; and __fish_seen_subcommand_from import" -s h -l help -d 'Print help'
complete -c xdfs -n "__fish_xdfs_using_subcommand key; and __fish_seen_subcommand_from export" -l name -d 'A host name or address that the certificate is for; may be repeated' -r
complete -c xdfs -n "__fish_xdfs_using_subcommand key; and __fish_seen_subcommand_from export" -l out -d 'Where the certificate goes; without it to standard output' -r -F
complete -c xdfs -n "__fish_xdfs_using_subcommand key; and __fish_seen_subcommand_from export" -l private -d 'Write the private half to FILE too, for its owner alone; it never goes to standard output' -r -F
complete -c xdfs -n "__fish_xdfs_using_subcommand key; and __fish_seen_subcommand_from export" -l state -d 'The state folder, with keys, users and known servers; without it $XDG_STATE_HOME/xdfs, or ~/.local/state/xdfs, or for the users and the host key of a server that root looks after /var/lib/xdfs' -r -F
complete -c xdfs -n "__fish_xdfs_using_subcommand key; and __fish_seen_subcommand_from export" -l host -d 'The host key of the server whose state is here'
complete -c xdfs -n "__fish_xdfs_using_subcommand key; and __fish_seen_subcommand_from export" -s h -l help -d 'Print help'
complete -c xdfs -n "__fish_xdfs_using_subcommand key; and __fish_seen_subcommand_from help" -f -a "create" -d 'Make a key of your own'
complete -c xdfs -n "__fish_xdfs_using_subcommand key; and __fish_seen_subcommand_from help" -f -a "show" -d 'Show a key\'s public half and fingerprint'
complete -c xdfs -n "__fish_xdfs_using_subcommand key; and __fish_seen_subcommand_from help" -f -a "trust" -d 'Trust a server\'s key (the same as \'xdfs trust pin\')'
complete -c xdfs -n "__fish_xdfs_using_subcommand key; and __fish_seen_subcommand_from help" -f -a "import" -d 'Take over a private key from a PKCS#8 file (PEM)'
complete -c xdfs -n "__fish_xdfs_using_subcommand key; and __fish_seen_subcommand_from help" -f -a "export" -d 'Write a key as an X.509 certificate (PEM), and the private half as PKCS#8'
complete -c xdfs -n "__fish_xdfs_using_subcommand key; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c xdfs -n "__fish_xdfs_using_subcommand trust; and not __fish_seen_subcommand_from list pin forget help" -s h -l help -d 'Print help'
complete -c xdfs -n "__fish_xdfs_using_subcommand trust; and not __fish_seen_subcommand_from list pin forget help" -f -a "list" -d 'Show the servers whose keys are known'
complete -c xdfs -n "__fish_xdfs_using_subcommand trust; and not __fish_seen_subcommand_from list pin forget help" -f -a "pin" -d 'Remember a server\'s key, in place of any other'
complete -c xdfs -n "__fish_xdfs_using_subcommand trust; and not __fish_seen_subcommand_from list pin forget help" -f -a "forget" -d 'Forget a server\'s key'
complete -c xdfs -n "__fish_xdfs_using_subcommand trust; and not __fish_seen_subcommand_from list pin forget help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c xdfs -n "__fish_xdfs_using_subcommand trust; and __fish_seen_subcommand_from list" -l state -d 'The state folder, with keys, users and known servers; without it $XDG_STATE_HOME/xdfs, or ~/.local/state/xdfs, or for the users and the host key of a server that root looks after /var/lib/xdfs' -r -F
complete -c xdfs -n "__fish_xdfs_using_subcommand trust; and __fish_seen_subcommand_from list" -l json -d 'One JSON object a line'
complete -c xdfs -n "__fish_xdfs_using_subcommand trust; and __fish_seen_subcommand_from list" -s h -l help -d 'Print help'
complete -c xdfs -n "__fish_xdfs_using_subcommand trust; and __fish_seen_subcommand_from pin" -l state -d 'The state folder, with keys, users and known servers; without it $XDG_STATE_HOME/xdfs, or ~/.local/state/xdfs, or for the users and the host key of a server that root looks after /var/lib/xdfs' -r -F
complete -c xdfs -n "__fish_xdfs_using_subcommand trust; and __fish_seen_subcommand_from pin" -s h -l help -d 'Print help'
complete -c xdfs -n "__fish_xdfs_using_subcommand trust; and __fish_seen_subcommand_from forget" -l state -d 'The state folder, with keys, users and known servers; without it $XDG_STATE_HOME/xdfs, or ~/.local/state/xdfs, or for the users and the host key of a server that root looks after /var/lib/xdfs' -r -F
complete -c xdfs -n "__fish_xdfs_using_subcommand trust; and __fish_seen_subcommand_from forget" -s h -l help -d 'Print help'
complete -c xdfs -n "__fish_xdfs_using_subcommand trust; and __fish_seen_subcommand_from help" -f -a "list" -d 'Show the servers whose keys are known'
complete -c xdfs -n "__fish_xdfs_using_subcommand trust; and __fish_seen_subcommand_from help" -f -a "pin" -d 'Remember a server\'s key, in place of any other'
complete -c xdfs -n "__fish_xdfs_using_subcommand trust; and __fish_seen_subcommand_from help" -f -a "forget" -d 'Forget a server\'s key'
complete -c xdfs -n "__fish_xdfs_using_subcommand trust; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c xdfs -n "__fish_xdfs_using_subcommand help; and not __fish_seen_subcommand_from serve cp sync stat sum ls find mkdir mkfifo rm mv ln chmod touch cat lock mount du df demo user key trust help" -f -a "serve" -d 'Offer directories to clients'
complete -c xdfs -n "__fish_xdfs_using_subcommand help; and not __fish_seen_subcommand_from serve cp sync stat sum ls find mkdir mkfifo rm mv ln chmod touch cat lock mount du df demo user key trust help" -f -a "cp" -d 'Copy files to or from a server'
complete -c xdfs -n "__fish_xdfs_using_subcommand help; and not __fish_seen_subcommand_from serve cp sync stat sum ls find mkdir mkfifo rm mv ln chmod touch cat lock mount du df demo user key trust help" -f -a "sync" -d 'Make a directory like another one, here or on a server'
complete -c xdfs -n "__fish_xdfs_using_subcommand help; and not __fish_seen_subcommand_from serve cp sync stat sum ls find mkdir mkfifo rm mv ln chmod touch cat lock mount du df demo user key trust help" -f -a "stat" -d 'Show what a file on a server is'
complete -c xdfs -n "__fish_xdfs_using_subcommand help; and not __fish_seen_subcommand_from serve cp sync stat sum ls find mkdir mkfifo rm mv ln chmod touch cat lock mount du df demo user key trust help" -f -a "sum" -d 'Show the BLAKE3 hashes of files, here or on a server'
complete -c xdfs -n "__fish_xdfs_using_subcommand help; and not __fish_seen_subcommand_from serve cp sync stat sum ls find mkdir mkfifo rm mv ln chmod touch cat lock mount du df demo user key trust help" -f -a "ls" -d 'List directories on a server'
complete -c xdfs -n "__fish_xdfs_using_subcommand help; and not __fish_seen_subcommand_from serve cp sync stat sum ls find mkdir mkfifo rm mv ln chmod touch cat lock mount du df demo user key trust help" -f -a "find" -d 'Find names on a server by tests, as find(1) does'
complete -c xdfs -n "__fish_xdfs_using_subcommand help; and not __fish_seen_subcommand_from serve cp sync stat sum ls find mkdir mkfifo rm mv ln chmod touch cat lock mount du df demo user key trust help" -f -a "mkdir" -d 'Make directories on a server'
complete -c xdfs -n "__fish_xdfs_using_subcommand help; and not __fish_seen_subcommand_from serve cp sync stat sum ls find mkdir mkfifo rm mv ln chmod touch cat lock mount du df demo user key trust help" -f -a "mkfifo" -d 'Make named pipes on a server'
complete -c xdfs -n "__fish_xdfs_using_subcommand help; and not __fish_seen_subcommand_from serve cp sync stat sum ls find mkdir mkfifo rm mv ln chmod touch cat lock mount du df demo user key trust help" -f -a "rm" -d 'Remove files and directories on a server'
complete -c xdfs -n "__fish_xdfs_using_subcommand help; and not __fish_seen_subcommand_from serve cp sync stat sum ls find mkdir mkfifo rm mv ln chmod touch cat lock mount du df demo user key trust help" -f -a "mv" -d 'Give a file on a server another name'
complete -c xdfs -n "__fish_xdfs_using_subcommand help; and not __fish_seen_subcommand_from serve cp sync stat sum ls find mkdir mkfifo rm mv ln chmod touch cat lock mount du df demo user key trust help" -f -a "ln" -d 'Give a file on a server one more name, or make a symbolic link'
complete -c xdfs -n "__fish_xdfs_using_subcommand help; and not __fish_seen_subcommand_from serve cp sync stat sum ls find mkdir mkfifo rm mv ln chmod touch cat lock mount du df demo user key trust help" -f -a "chmod" -d 'Set permission bits on a server'
complete -c xdfs -n "__fish_xdfs_using_subcommand help; and not __fish_seen_subcommand_from serve cp sync stat sum ls find mkdir mkfifo rm mv ln chmod touch cat lock mount du df demo user key trust help" -f -a "touch" -d 'Set times on a server to now; make files that are missing'
complete -c xdfs -n "__fish_xdfs_using_subcommand help; and not __fish_seen_subcommand_from serve cp sync stat sum ls find mkdir mkfifo rm mv ln chmod touch cat lock mount du df demo user key trust help" -f -a "cat" -d 'Write files of a server to standard output'
complete -c xdfs -n "__fish_xdfs_using_subcommand help; and not __fish_seen_subcommand_from serve cp sync stat sum ls find mkdir mkfifo rm mv ln chmod touch cat lock mount du df demo user key trust help" -f -a "lock" -d 'Run a command while a file on a server is locked'
complete -c xdfs -n "__fish_xdfs_using_subcommand help; and not __fish_seen_subcommand_from serve cp sync stat sum ls find mkdir mkfifo rm mv ln chmod touch cat lock mount du df demo user key trust help" -f -a "mount" -d 'Make a directory of a server a directory of this machine'
complete -c xdfs -n "__fish_xdfs_using_subcommand help; and not __fish_seen_subcommand_from serve cp sync stat sum ls find mkdir mkfifo rm mv ln chmod touch cat lock mount du df demo user key trust help" -f -a "du" -d 'Show how much room files on a server take'
complete -c xdfs -n "__fish_xdfs_using_subcommand help; and not __fish_seen_subcommand_from serve cp sync stat sum ls find mkdir mkfifo rm mv ln chmod touch cat lock mount du df demo user key trust help" -f -a "df" -d 'Show how much room a server has'
complete -c xdfs -n "__fish_xdfs_using_subcommand help; and not __fish_seen_subcommand_from serve cp sync stat sum ls find mkdir mkfifo rm mv ln chmod touch cat lock mount du df demo user key trust help" -f -a "demo" -d 'Start a server and a client here, send a large file both ways, verify it, show the speed'
complete -c xdfs -n "__fish_xdfs_using_subcommand help; and not __fish_seen_subcommand_from serve cp sync stat sum ls find mkdir mkfifo rm mv ln chmod touch cat lock mount du df demo user key trust help" -f -a "user" -d 'Say who may log in to a server here'
complete -c xdfs -n "__fish_xdfs_using_subcommand help; and not __fish_seen_subcommand_from serve cp sync stat sum ls find mkdir mkfifo rm mv ln chmod touch cat lock mount du df demo user key trust help" -f -a "key" -d 'Make, show and convert keys'
complete -c xdfs -n "__fish_xdfs_using_subcommand help; and not __fish_seen_subcommand_from serve cp sync stat sum ls find mkdir mkfifo rm mv ln chmod touch cat lock mount du df demo user key trust help" -f -a "trust" -d 'Show and change whose keys you believe'
complete -c xdfs -n "__fish_xdfs_using_subcommand help; and not __fish_seen_subcommand_from serve cp sync stat sum ls find mkdir mkfifo rm mv ln chmod touch cat lock mount du df demo user key trust help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c xdfs -n "__fish_xdfs_using_subcommand help; and __fish_seen_subcommand_from user" -f -a "add" -d 'Add a user'
complete -c xdfs -n "__fish_xdfs_using_subcommand help; and __fish_seen_subcommand_from user" -f -a "key" -d 'Add keys to a user'
complete -c xdfs -n "__fish_xdfs_using_subcommand help; and __fish_seen_subcommand_from user" -f -a "password" -d 'Set a user\'s password'
complete -c xdfs -n "__fish_xdfs_using_subcommand help; and __fish_seen_subcommand_from user" -f -a "token" -d 'Make a token: a login with limits, for a program'
complete -c xdfs -n "__fish_xdfs_using_subcommand help; and __fish_seen_subcommand_from user" -f -a "list" -d 'Show who may log in, and how'
complete -c xdfs -n "__fish_xdfs_using_subcommand help; and __fish_seen_subcommand_from user" -f -a "revoke" -d 'Take a login away: all of a user\'s, or one'
complete -c xdfs -n "__fish_xdfs_using_subcommand help; and __fish_seen_subcommand_from user" -f -a "restore" -d 'Let a revoked user in again, with what they had'
complete -c xdfs -n "__fish_xdfs_using_subcommand help; and __fish_seen_subcommand_from key" -f -a "create" -d 'Make a key of your own'
complete -c xdfs -n "__fish_xdfs_using_subcommand help; and __fish_seen_subcommand_from key" -f -a "show" -d 'Show a key\'s public half and fingerprint'
complete -c xdfs -n "__fish_xdfs_using_subcommand help; and __fish_seen_subcommand_from key" -f -a "trust" -d 'Trust a server\'s key (the same as \'xdfs trust pin\')'
complete -c xdfs -n "__fish_xdfs_using_subcommand help; and __fish_seen_subcommand_from key" -f -a "import" -d 'Take over a private key from a PKCS#8 file (PEM)'
complete -c xdfs -n "__fish_xdfs_using_subcommand help; and __fish_seen_subcommand_from key" -f -a "export" -d 'Write a key as an X.509 certificate (PEM), and the private half as PKCS#8'
complete -c xdfs -n "__fish_xdfs_using_subcommand help; and __fish_seen_subcommand_from trust" -f -a "list" -d 'Show the servers whose keys are known'
complete -c xdfs -n "__fish_xdfs_using_subcommand help; and __fish_seen_subcommand_from trust" -f -a "pin" -d 'Remember a server\'s key, in place of any other'
complete -c xdfs -n "__fish_xdfs_using_subcommand help; and __fish_seen_subcommand_from trust" -f -a "forget" -d 'Forget a server\'s key'

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

complete -c xdfs -n "__fish_xdfs_using_subcommand cp sync stat sum ls find mkdir mkfifo rm mv ln chmod touch cat lock mount du df; and not __fish_xdfs_is_remote" -a "(__fish_xdfs_names)"
complete -c xdfs -n "__fish_xdfs_using_subcommand cp sync stat sum ls find mkdir mkfifo rm mv ln chmod touch cat lock mount du df; and __fish_xdfs_is_remote" -f -a "(__fish_xdfs_names)"
