//! Tests of the configuration file.

use super::*;

const KEY: &str = "SHA256:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU";

fn config(text: &str) -> Result<Config, String> {
    let path = PathBuf::from("/c/xdfs/config");
    file::parse(&path, text, Some(Path::new("/h"))).map(|hosts| Config::of(path, hosts))
}

fn lab() -> Config {
    let text = format!(
        "[hosts.lab]\naddress = \"lab.example:40001\"\nuser = \"anna\"\nexport = \"data\"\nhost-key = \"{KEY}\"\n\
         [hosts.six]\naddress = \"[::1]\"\n[hosts.far]\naddress = \"ssh://far.example\"\nuser = \"bob\"\n"
    );
    config(&text).unwrap()
}

#[test]
fn a_short_name_and_a_path_become_a_url() {
    let lab = lab();
    let top = "xdfs://anna@lab.example:40001";
    for (typed, expected) in [
        ("lab:a b/c", format!("{top}/data/a%20b/c#{KEY}")),
        ("lab:", format!("{top}/data/#{KEY}")),
        ("lab:run7/", format!("{top}/data/run7/#{KEY}")),
        ("lab:run7/.", format!("{top}/data/run7/.#{KEY}")),
        ("lab:./a//b", format!("{top}/data/a/b#{KEY}")),
        ("lab:100%#?", format!("{top}/data/100%25%23%3F#{KEY}")),
        ("lab:a b/[!a]*.txt", format!("{top}/data/a%20b/[!a]*.txt#{KEY}")),
        (r"lab:?\/a\*b?[c]/100%*", format!("{top}/data/%3F%5C/a%2Ab%3F[c]/100%25*#{KEY}")),
        ("lab:/other/x", format!("{top}/other/x#{KEY}")),
        ("lab:/", format!("{top}/#{KEY}")),
        ("bob@lab:x", format!("xdfs://bob@lab.example:40001/data/x#{KEY}")),
        ("six:/data/x", "xdfs://[::1]/data/x".to_owned()),
        ("six:", "xdfs://[::1]/".to_owned()),
        ("far:a b", "ssh:bob@far.example:a b".to_owned()),
        ("far:/etc/hosts", "ssh:bob@far.example:/etc/hosts".to_owned()),
    ] {
        let url = lab.expand(OsStr::new(typed)).unwrap_or_else(|error| panic!("{typed}: {error}"));
        assert_eq!(url, Some(OsString::from(expected)), "{typed}");
        let read = Url::parse_listed(OsStr::new(url.as_ref().unwrap().to_str().unwrap().trim_end_matches("/.")));
        assert!(typed.ends_with("/.") || read.is_ok(), "{typed}: {read:?}");
    }
}

#[test]
fn everything_else_stays_as_it_was_typed() {
    let lab = lab();
    for typed in
        ["lab", "./lab:x", "dir/lab:x", "xdfs://lab/data/x", "ssh:lab:x", "zero:10", "lab://x", "other:x", "-", ""]
    {
        assert_eq!(lab.expand(OsStr::new(typed)), Ok(None), "{typed}");
    }
    let missing = lab.expand(OsStr::new("six:x")).unwrap_err().to_string();
    assert!(missing.contains("six:/EXPORT/path") && missing.contains("/c/xdfs/config"), "{missing}");
    assert!(lab.expand(OsStr::new("a b@lab:x")).is_err());
}

#[test]
fn a_server_is_found_by_its_address_and_user() {
    let two = "[hosts.a]\naddress = \"h\"\nuser = \"anna\"\nchannels = 2\n[hosts.b]\naddress = \"h\"\nuser = \"bob\"\nchannels = 3\n";
    let two = config(two).unwrap();
    let channels = |url: &str| two.find(&Url::parse(OsStr::new(url)).unwrap()).and_then(|host| host.channels);
    assert_eq!(channels("xdfs://anna@h/e/f"), Some(2));
    assert_eq!(channels("xdfs://bob@h/e/f"), Some(3));
    assert_eq!(channels("xdfs://h/e/f"), Some(2), "the first in the order of names");
    assert_eq!(channels("xdfs://carl@h/e/f"), None);
    assert_eq!(channels("xdfs://bob@h:1/e/f"), None);
    assert_eq!(channels("ssh:bob@h:f"), None);
    let one = config("[hosts.a]\naddress = \"h\"\nuser = \"anna\"\nchannels = 2\n").unwrap();
    let carl = Url::parse(OsStr::new("xdfs://carl@h/e/f")).unwrap();
    assert_eq!(one.find(&carl).and_then(|host| host.channels), Some(2), "what carl@a:f stands for");
}

#[test]
fn an_error_names_file_line_and_remedy() {
    for (text, line, part) in [
        ("[hosts.lab]\naddress = \"h\"\nuzer = \"x\"\n", 3, "unknown field `uzer`"),
        ("[hosts.lab]\nuser = \"anna\"\n", 1, "missing field `address`"),
        ("[hosts.lab]\naddress = \"h/data\"\n", 2, "user, export and host-key have keys of their own"),
        ("[hosts.lab]\naddress = \"127.1\"\n", 2, "neither a name nor an address"),
        ("[hosts.lab]\naddress = \"h:0\"\n", 2, "no number from 1 to 65535"),
        ("[hosts.lab]\naddress = \"h\"\nuser = \"a b\"\n", 3, "a user name has letters"),
        ("[hosts.lab]\naddress = \"h\"\nexport = \"..\"\n", 3, "an export is named by"),
        ("[hosts.lab]\naddress = \"h\"\nidentity = \"\"\n", 3, "names no file"),
        ("[hosts.lab]\naddress = \"h\"\nhost-key = \"SHA256:x\"\n", 3, "43 base64 digits"),
        ("[hosts.lab]\naddress = \"h\"\nchannels = 0\n", 3, "from 1 to 4096"),
        (
            "[hosts.lab]\naddress = \"h\"\nchannels = \"8\"\n",
            3,
            "channels: write a number from 1 to 4096, without quotes",
        ),
        ("[hosts.lab]\naddress = \"h\"\nchannels = 70000\n", 3, "from 1 to 4096"),
        ("[hosts.lab]\naddress = \"h\"\nprotection = \"secret\"\n", 3, "private, integrity, clear"),
        ("[hosts.lab]\naddress = \"h\"\nbandwidth = \"much\"\n", 3, "bandwidth = \"much\""),
        ("[hosts.lab]\naddress = \"h\"\nbandwidth = \"08:00,1M 5M\"\n", 3, "'5M' has no time"),
        ("[hosts.lab]\naddress = \"ssh://h:22\"\n", 2, "~/.ssh/config"),
        ("[hosts.lab]\naddress = \"ssh://h\"\nexport = \"data\"\n", 3, "neither exports nor keys"),
        ("\n[hosts.ssh]\naddress = \"h\"\n", 2, "none of ssh, xdfs"),
        ("[hosts.lab]\naddress = \"h\"\nbwlimit = \"10M\"\n", 3, "called bandwidth here"),
        ("[hosts.lab]\naddress = \n", 2, "man xdfs-config"),
    ] {
        let error = config(text).unwrap_err();
        let start = format!("/c/xdfs/config:{line}: ");
        assert!(error.starts_with(&start) && error.contains(part), "{text}: {error}");
    }
}

#[test]
fn a_key_is_named_from_the_home_or_from_the_file() {
    let identity = |path: &str| {
        let text = format!("[hosts.lab]\naddress = \"h\"\nidentity = \"{path}\"\n");
        config(&text).unwrap().0.hosts["lab"].identity.clone().unwrap()
    };
    assert_eq!(identity("~/.ssh/id"), Path::new("/h/.ssh/id"));
    assert_eq!(identity("id"), Path::new("/c/xdfs/id"));
    assert_eq!(identity("/k/id"), Path::new("/k/id"));
}

#[test]
fn the_file_is_where_other_programs_have_theirs() {
    let path = |text: &str| Some(PathBuf::from(text));
    for (xdg, home, expected) in [
        (path("/x"), path("/h"), path("/x/xdfs/config")),
        (path("x"), path("/h"), path("/h/.config/xdfs/config")),
        (None, path("/h"), path("/h/.config/xdfs/config")),
        (None, None, None),
    ] {
        assert_eq!(place(xdg, home), expected);
    }
}
