//! What real servers of FTP and GridFTP send, and lies of each kind.

use xdfs_gridftp::mode_e::Head;

use super::Seed;

/// Every seed.
pub(super) fn all() -> Vec<Seed> {
    let mut seeds = Vec::new();
    let login = "220 hello\r\n331 password\r\n230 in\r\n";
    let talks = [
        ("login", login.to_owned()),
        ("several-lines", "220-hello\r\n 220 no end\r\n220-more\r\n220 end\r\n530 no\r\n".to_owned()),
        ("out-of-turn", format!("{login}226 done\r\n")),
        ("closing", format!("{login}421 idle\r\n")),
        ("passive", "227 Entering Passive Mode (127,0,0,1,187,43)\r\n".to_owned()),
        ("extended", "229 Entering Extended Passive Mode (|||32817|)\r\n".to_owned()),
        ("foreign", "227 (10,0,0,1,187,43)\n229 (|1|10.0.0.1|4000|)\r\n".to_owned()),
        ("no-reply", "SSH-2.0-x\r\n".to_owned()),
        ("preliminary", format!("120 later\r\n{login}")),
        ("long-line", format!("220 {}\r\n", "x".repeat(9000))),
        ("no-digits", "2x0 hello\r\n".to_owned()),
    ];
    for (name, text) in talks {
        seeds.push(("ftp-control", name.to_owned(), [&[2], text.as_bytes()].concat()));
    }
    seeds.extend(replies_ahead());
    let listings = [
        ("globus", "Type=cdir;Modify=20261123145618;Size=4096; .\r\nType=file;Size=3; a b\r\n"),
        ("leads-out", "Type=dir; ../x\r\n"),
        ("facts", "Type=file;Size=x;Modify=1; a\r\n"),
        ("unix", "-rw-r--r-- 1 root root 5 a\r\n"),
    ];
    for (name, text) in listings {
        seeds.push(("ftp-listing", name.to_owned(), text.as_bytes().to_vec()));
    }
    let tokens = [
        ("whole", "220 hello\r\n334 go on\r\n335 ADAT=FgMDAAEA\r\n335 ADAT=\r\n235 in\r\n633 FwMDAAEA\r\n"),
        ("no-base64", "220 hello\r\n334 go on\r\n335 ADAT=!!\r\n"),
        ("no-token", "220 hello\r\n334 go on\r\n335 go on\r\n"),
        ("refused", "220 hello\r\n334 go on\r\n535 no\r\n"),
        ("no-gsi", "220 hello\r\n500 what\r\n"),
    ];
    for (name, text) in tokens {
        seeds.push(("ftp-tokens", name.to_owned(), text.as_bytes().to_vec()));
    }
    let moved = " Timestamp:  1.1\n Stripe Index: 1\n Stripe Bytes Transferred: 393216\n Total Stripe Count: 2\nEnd.";
    let markers = [
        ("stored", "\0Range Marker 0-262144,524288-786432".to_owned()),
        ("stored-twisted", "\0Range Marker 9-5".to_owned()),
        ("stored-half", "\0Range Marker 5".to_owned()),
        ("stored-no-number", "\0Range Marker x-5".to_owned()),
        ("stored-many", format!("\0Range Marker {}", "1-2,".repeat(4097))),
        ("stored-no-text", "\0Range Marker \u{fe}".to_owned()),
        ("moved", format!("\u{1}Perf Marker\n{moved}")),
        ("moved-far", "\u{1}Stripe Index: 70000".to_owned()),
        ("moved-no-number", "\u{1}Stripe Bytes Transferred: -1".to_owned()),
        ("alive", "\u{2}working".to_owned()),
    ];
    for (name, text) in markers {
        seeds.push(("ftp-markers", name.to_owned(), text.into_bytes()));
    }
    seeds.push((
        "mode-e",
        "two-connections".to_owned(),
        [data(0, 10, 30, true), data(1, 40, 30, false), end(1, 2)].concat(),
    ));
    seeds.push(("mode-e", "overlap".to_owned(), [data(0, 10, 30, false), data(1, 20, 5, false)].concat()));
    seeds.push(("mode-e", "outside".to_owned(), data(2, 60, 11, false)));
    seeds.push(("mode-e", "end-twice".to_owned(), [end(0, 2), end(1, 2)].concat()));
    seeds
}

/// A block of a connection, as the target reads it.
fn data(connection: u8, offset: u64, count: u8, last: bool) -> Vec<u8> {
    let head = Head::Data { count: count.into(), offset, last }.encode();
    [&[connection, head.len() as u8 + count], head.as_slice(), &vec![7; usize::from(count)]].concat()
}

/// The end of the file, on a connection that ends too.
fn end(connection: u8, ends: u64) -> Vec<u8> {
    let head = Head::File { ends, last: true }.encode();
    [&[connection, head.len() as u8], head.as_slice()].concat()
}

/// Replies to commands that were sent ahead.
fn replies_ahead() -> Vec<Seed> {
    let ahead = [
        ("answered", 0b1111, "213 5\r\n150 go\r\n226 done\r\n350 and?\r\n113 at work\r\n213 ab\r\n"),
        ("refused", 0b1111, "550 no\r\n150 go\r\n112 marker\r\n426 cut\r\n550 no\r\n500 what\r\n"),
        ("twisted", 0b0011, "150 go\r\n213 5\r\n"),
        ("too-many", 0b0001, "213 5\r\n213 5\r\n"),
    ];
    let seed =
        |(name, kinds, text): (&str, u8, &str)| ("ftp-ahead", name.to_owned(), [&[kinds], text.as_bytes()].concat());
    ahead.into_iter().map(seed).collect()
}
