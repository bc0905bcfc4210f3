//! What rsync, scp and cp call otherwise: the answer to an option of theirs is the name that xdfs has
//! for it.

/// Commands, options, and what to type instead.
type Answer = (&'static [&'static str], &'static [&'static str], &'static str);

/// Answers of two rows.
const CONNECTING: &str = "how to connect is in the URL and in ~/.config/xdfs/config; see 'man xdfs-config'";
const COMPRESSING: &str = "xdfs does not compress on the way yet: on most networks its parallel channels are faster than a compressor; \
                           leave it out, or compress the file before ('tar c dir | zstd | xdfs cp - URL')";

const PORT: &str = "a port is written in the URL, as in xdfs://HOST:PORT/EXPORT/path";

const COPY: &[&str] = &["cp", "sync"];
const ANY: &[&str] = &[];

/// The first row that fits counts.
const ANSWERS: &[Answer] = &[
    (COPY, &["-z", "--compress", "--zc", "--compress-choice", "--compress-level", "--skip-compress"], COMPRESSING),
    (
        COPY,
        &["--partial", "--partial-dir", "--append", "--append-verify", "--inplace", "--continue"],
        "an interrupted copy resumes when the same command runs again, without an option; --no-resume starts over",
    ),
    (COPY, &["-e", "--rsh"], "name the program that connects with --ssh COMMAND, and the machine as ssh:HOST:path"),
    (COPY, &["--rsync-path"], "what is started at the other end is named with --remote-command COMMAND"),
    (
        &["sync"],
        &["-i"],
        "-n prints what would be done, -v names each file that was copied or removed; a key to log in with is named with \
         --identity FILE",
    ),
    (
        &["cp"],
        &["-i", "--interactive"],
        "a file at the target is replaced without a question, 'xdfs cp -n' keeps it; a key to log in with is named with \
         --identity FILE, over ssh with --ssh 'ssh -i FILE'",
    ),
    (ANY, &["-i"], "the private key to log in with is named with --identity FILE; over ssh with --ssh 'ssh -i FILE'"),
    (
        &["serve"],
        &["--port", "-p", "-P", "--bind", "--address"],
        "where a server listens is said with --listen ADDRESS:PORT, as in --listen '[::]:2800'",
    ),
    (
        &["serve"],
        &["--audit", "--audit-log", "--log", "--log-file"],
        "the log goes to standard error; the audit log is a line in the file of --config: [log] audit = \"FILE\"",
    ),
    (
        &["ls", "stat", "cat", "find", "rm", "mkdir", "mv", "du", "df", "sum", "lock", "mount"],
        &["-P"],
        "a port is written in the URL, as in xdfs://HOST:PORT/EXPORT/path; the number of channels is for cp and sync",
    ),
    (
        &["chmod"],
        &["-R", "-r", "--recursive"],
        "it takes the names that are given; for all below a directory: xdfs find URL -print0 | xargs -0 xdfs chmod MODE",
    ),
    (
        &["touch"],
        &["-r", "--reference"],
        "the time of a file on this machine is given with -d: xdfs touch -d @$(stat -c %Y FILE) URL",
    ),
    (
        &["touch"],
        &["-R", "--recursive"],
        "it takes the names that are given; for all below a directory: xdfs find URL -print0 | xargs -0 xdfs touch",
    ),
    (ANY, &["--port"], PORT),
    (
        &["cp"],
        &["-p"],
        "permissions and times are kept by -r, owners and all else by -a; a port is written in the URL, as in \
         xdfs://HOST:PORT/EXPORT/path",
    ),
    (
        &["sync"],
        &["-p"],
        "permissions and times are kept without an option, owners and all else by -a; a port is written in the URL, as in \
         xdfs://HOST:PORT/EXPORT/path",
    ),
    (ANY, &["-p"], PORT),
    (
        &["cp"],
        &["--delete", "--max-delete", "-c", "--checksum"],
        "that is what 'xdfs sync' does; see 'xdfs sync --help'",
    ),
    (
        &["sync"],
        &["--del", "--delete-before", "--delete-during", "--delete-after", "--delete-delay"],
        "write --delete: names are removed when everything else went well",
    ),
    (COPY, &["--delete-excluded"], "what is excluded stays at the target; remove it with 'xdfs rm'"),
    (
        &["sync"],
        &["-r", "--recursive", "-u", "--update", "--size-only"],
        "sync takes directories with all they hold, and sends the files whose size or time differs (--checksum: whose content \
         differs), also where the target's is newer",
    ),
    (&["cp"], &["-R"], "directories are copied with -r"),
    (&["cp"], &["-u", "--update"], "'xdfs sync' sends what is missing or changed; 'xdfs cp -n' keeps what is there"),
    (COPY, &["--ignore-existing"], "files that are there are kept by 'xdfs cp -n'"),
    (COPY, &["-o"], "owners are kept by -a; an option of ssh is given to ssh, as in --ssh 'ssh -o NAME=VALUE'"),
    (COPY, &["-l"], "symbolic links are copied by -r; scp's limit of bandwidth is --bwlimit RATE"),
    (
        &["cp"],
        &["-t", "--target-directory", "-T", "--no-target-directory"],
        "the target stands last; with '/' at its end it is a directory into which the source goes",
    ),
    (&["cp"], &["-S"], "xdfs keeps no older versions; another program in place of ssh is named with --ssh COMMAND"),
    (
        &["sync"],
        &["-H", "--hard-links", "-A", "--acls", "-X", "--xattrs", "-S", "--sparse", "-D", "--devices", "--specials"],
        "-a keeps owners, hard links, access control lists, attributes, holes and special files; permissions, times and links \
         are kept without it",
    ),
    (
        COPY,
        &[
            "-t",
            "-E",
            "-g",
            "-D",
            "-H",
            "-A",
            "-X",
            "-S",
            "--links",
            "--perms",
            "--times",
            "--owner",
            "--group",
            "--devices",
            "--specials",
            "--hard-links",
            "--acls",
            "--xattrs",
            "--sparse",
            "--preserve",
            "--preserve-all",
            "--executability",
        ],
        "permissions, times and links are kept by -r; -a keeps owners, hard links, access control lists, attributes, holes and \
         special files too",
    ),
    (
        COPY,
        &["-L", "--copy-links", "--dereference", "-k", "--copy-dirlinks"],
        "symbolic links are copied as links; a file or directory that you name itself is followed",
    ),
    (&["sync"], &["-4", "-6"], CONNECTING),
    (
        COPY,
        &["-J", "-F", "-3", "-4", "-6"],
        "options of ssh and scp are given to ssh with --ssh, as in --ssh 'ssh -J JUMP'",
    ),
    (
        COPY,
        &["--itemize-changes", "--info", "--out-format"],
        "--dry-run prints what would be done, --json each file that is",
    ),
    (COPY, &["-f", "--force"], "a file at the target is replaced without a question; 'xdfs cp -n' keeps it"),
    (
        COPY,
        &["-x", "--one-file-system"],
        "a copy crosses into other file systems; leave their directories out with --exclude",
    ),
    (
        COPY,
        &["--filter"],
        "patterns are given by --include, --exclude, --include-from and --exclude-from; see 'xdfs sync --help'",
    ),
    (COPY, &["--log-file"], "--json prints an object for every file; write it to a file with '>'"),
    (COPY, &["--timeout", "--contimeout"], "after a lost connection --retry SECONDS says how long to try again"),
    (&["cp"], &["-O", "-B"], "options of ssh and scp are given to ssh with --ssh, as in --ssh 'ssh -o NAME=VALUE'"),
    (
        COPY,
        &["--temp-dir", "-T", "--preallocate"],
        "space for a file is reserved in the staging directory of its target, and it is renamed when it is complete; there is \
         nothing to set",
    ),
    (
        COPY,
        &["--backup", "--suffix", "--backup-dir", "--link-dest", "--copy-dest", "--compare-dest"],
        "xdfs keeps no older versions and makes no copies out of other trees; snapshots of the target's file system do",
    ),
    (
        COPY,
        &["--chmod", "--chown", "--usermap", "--groupmap"],
        "a copy does not change attributes; 'xdfs chmod' does afterwards",
    ),
    (&["cp"], &["--link", "-s", "--symbolic-link"], "xdfs copies content and makes no links to it; 'ln' does"),
    (&["cp"], &["--remove-destination"], "what is at the target is replaced as a whole when the copy is complete"),
    (COPY, &["-Z", "--context"], "security contexts are set by the system of the target: 'restorecon' afterwards"),
    (COPY, &["--list-only"], "'xdfs ls -lR URL' lists a tree, and --dry-run prints what would be done"),
    (&["cp"], &["-d"], "symbolic links below the source are copied as links by -r, and hard links are kept by -a"),
    (
        COPY,
        &["-R", "--relative", "--no-relative", "--no-implied-dirs", "--parents", "--dirs", "-d"],
        "a directory is copied with what is below it; names of a list (--files-from LIST) keep their paths below the source",
    ),
    (
        COPY,
        &["-W", "--whole-file", "--no-whole-file", "--block-size", "-B", "--fuzzy", "-y", "--reflink"],
        "a file that differs is sent whole, over parallel channels; there is nothing to set",
    ),
    (
        COPY,
        &["-I", "--ignore-times", "--modify-window"],
        "'xdfs sync --checksum' compares the content of files; 'xdfs cp -r' sends all of them",
    ),
    (
        COPY,
        &["-O", "--atimes", "--crtimes", "--attributes-only"],
        "times of the last change are kept by -r, those of directories too; no other times are, and nothing without content",
    ),
    (COPY, &["-m", "--prune-empty-dirs"], "empty directories are copied too; leave them out with --exclude"),
    (&["cp"], &["-C"], COMPRESSING),
    (
        COPY,
        &["-C", "--cvs-exclude"],
        "what is to stay is named with --exclude PATTERN, or in a file that --exclude-from names",
    ),
    (
        COPY,
        &["--delay-updates"],
        "each file is replaced as a whole when it is complete; 'xdfs cp -r --atomic' shows a new tree when all of it is there",
    ),
    (COPY, &["-8", "--8-bit-output"], "names are printed as they are, but for characters that a terminal would obey"),
    (COPY, &["-0", "--from0"], "a list of names has one on each line"),
    (
        COPY,
        &["--existing", "--ignore-non-existing", "--min-size", "--max-size"],
        "xdfs does not do that; names are chosen with --include, --exclude and --files-from, for which 'find' makes lists",
    ),
    (
        COPY,
        &["--remove-source-files", "--ignore-errors"],
        "a copy removes nothing of its source, and nothing that --delete found when a part of the source was not read",
    ),
    (COPY, &["--mkpath"], "directories above the target are made by 'xdfs mkdir -p URL'"),
    (COPY, &["--human-readable", "--no-human-readable"], "sizes are shown in kB, MB and GB without an option"),
    (
        COPY,
        &["--safe-links", "--copy-unsafe-links", "--munge-links", "--keep-dirlinks", "-K", "--no-dereference"],
        "symbolic links below the source are copied as links, whatever they lead to; one that you name itself is followed",
    ),
    (
        COPY,
        &[
            "--no-perms",
            "--no-times",
            "--no-owner",
            "--no-group",
            "--no-links",
            "--omit-dir-times",
            "--omit-link-times",
        ],
        "permissions, times and links are kept by -r, and owners only by -a",
    ),
    (
        COPY,
        &["--fake-super", "--super", "--copy-as"],
        "owners are kept by -a where the server allows it: by name, or with --numeric-ids by number",
    ),
    (
        COPY,
        &["--iconv", "--protect-args", "-s", "--secluded-args"],
        "names are bytes that nothing changes and no shell reads",
    ),
    (COPY, &["--address", "--sockopts", "--blocking-io", "--outbuf", "--ipv4", "--ipv6"], CONNECTING),
    (&["ls"], &["-1"], "each name has a line of its own without an option"),
    (&["rm"], &["-d", "--dir"], "a directory is removed by -r, with all that it holds"),
    (&["ls"], &["-a", "-A", "--all"], "names that begin with a dot are listed without an option"),
    (
        &["ls"],
        &["-t", "-S", "-r", "--reverse"],
        "names are sorted by name alone; --json tells time and size of each, for a program that sorts otherwise",
    ),
    (&["du"], &["-s", "--summarize"], "it shows the sum of each URL without an option"),
    (COPY, &["--daemon", "--server"], "a server is started with 'xdfs serve'"),
];

/// Values of our options that mean something else there: option, and what to type.
const VALUES: &[(&str, &str)] = &[
    (
        "--channels",
        "-P is the number of parallel channels; a port is written in the URL (xdfs://HOST:PORT/...), progress is shown on a \
         terminal, and an interrupted copy resumes, without an option",
    ),
    ("--block", "-b is the size of a block; xdfs keeps no older versions of files, as -b of rsync and cp does"),
    ("--progress", "progress is shown on a terminal without an option; --progress none turns it off"),
];

/// The answer to an option that `command` does not have.
pub(crate) fn answer(command: &str, option: &str) -> Option<&'static str> {
    let name = option.split_once('=').map_or(option, |(name, _)| name);
    let row = ANSWERS
        .iter()
        .find(|(commands, names, _)| (commands.is_empty() || commands.contains(&command)) && names.contains(&name));
    row.map(|(.., text)| *text)
}

/// What a wrong value of `option` was perhaps meant for.
pub(crate) fn value_answer(option: &str) -> Option<&'static str> {
    VALUES.iter().find(|(name, _)| option.split([' ', '=']).next() == Some(name)).map(|(_, text)| *text)
}
