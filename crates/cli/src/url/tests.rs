//! What URLs mean, which are refused, and that writing and reading one are inverse.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

use proptest::prelude::*;

use super::*;

fn parse(text: &str) -> Result<Url, UrlError> {
    Url::parse(OsStr::new(text))
}

fn path_of(text: &str) -> Vec<u8> {
    parse(text).unwrap_or_else(|error| panic!("{text}: {error}")).path.as_bytes().to_vec()
}

#[test]
fn every_part_of_a_full_url_is_found() {
    let key = "SHA256:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU";
    let url = parse(&format!("xdfs://anna@[::1]:40001/data/run%207/image.bin#{key}")).unwrap();
    assert_eq!(url.user.as_deref(), Some("anna"));
    assert_eq!(url.host, Host::Address("::1".parse().unwrap()));
    assert_eq!((url.port, url.export.as_str(), url.directory), (40001, "data", false));
    assert_eq!(url.path.components().collect::<Vec<_>>(), [b"run 7".as_slice(), b"image.bin"]);
    assert_eq!(url.name(), Some(&b"image.bin"[..]));
    assert_eq!(url.key.as_deref(), Some(key));
}

#[test]
fn the_url_of_a_server_is_shown_as_it_is_read() {
    for text in ["xdfs://localhost", "xdfs://localhost/"] {
        let url = Url::parse_listed(OsStr::new(text)).unwrap();
        assert_eq!(url.to_string(), "xdfs://localhost/");
        assert_eq!(Url::parse_listed(OsStr::new(&url.to_string())), Ok(url));
    }
}

#[test]
fn what_is_left_out_has_its_default() {
    let url = parse("xdfs://localhost/data/x").unwrap();
    assert_eq!((url.user, url.port, url.key), (None, 2799, None));
    assert_eq!(url.host, Host::Name("localhost".to_owned()));
    assert_eq!(parse("xdfs://127.0.0.1/data/x").unwrap().host, Host::Address("127.0.0.1".parse().unwrap()));
}

#[test]
fn a_server_can_be_named_where_its_exports_are_listed_and_nowhere_else() {
    for text in ["xdfs://anna@localhost", "xdfs://anna@localhost/"] {
        assert_eq!(parse(text), Err(UrlError::ExportMissing));
        let server = Url::parse_listed(OsStr::new(text)).unwrap();
        assert_eq!((server.export.as_str(), server.path.depth()), ("", 0));
        assert_eq!(server.below(b"data").map(|url| url.to_string()).as_deref(), Some("xdfs://anna@localhost/data/"));
        assert_eq!(server.below(b"no export"), None);
    }
    assert_eq!(Url::parse_listed(OsStr::new("xdfs://localhost//")).unwrap().export, "");
}

#[test]
fn an_export_alone_is_its_root_and_a_trailing_slash_means_a_directory() {
    for (text, depth, directory) in [
        ("xdfs://h/data", 0, false),
        ("xdfs://h/data/", 0, true),
        ("xdfs://h/data/a", 1, false),
        ("xdfs://h/data/a/", 1, true),
        ("xdfs://h/data/a/b/", 2, true),
    ] {
        let url = parse(text).unwrap();
        assert_eq!((url.path.depth(), url.directory), (depth, directory), "{text}");
    }
}

#[test]
fn a_path_is_decoded_exactly_once() {
    assert_eq!(path_of("xdfs://h/e/a%20b"), b"a b");
    assert_eq!(path_of("xdfs://h/e/100%25"), b"100%");
    assert_eq!(path_of("xdfs://h/e/%252F"), b"%2F");
    assert_eq!(path_of("xdfs://h/e/%2500"), b"%00");
    assert_eq!(path_of("xdfs://h/e/%252e%252e"), b"%2e%2e");
    assert_eq!(path_of("xdfs://h/e/%23%3f%0a"), b"#?\n");
    assert_eq!(path_of("xdfs://h/e/%fF"), [0xff]);
    assert_eq!(path_of("xdfs://h/%65/x"), b"x");
    assert_eq!(path_of("xdfs://h/e/gr\u{fc}n"), "gr\u{fc}n".as_bytes());
    assert_eq!(path_of("xdfs://h/e/a+b:c@d&e=f"), b"a+b:c@d&e=f");
}

#[test]
fn names_that_are_no_utf8_pass_unchanged() {
    let url = Url::parse(&OsString::from_vec(b"xdfs://h/e/\xff\xfe".to_vec())).unwrap();
    assert_eq!(url.path.as_bytes(), b"\xff\xfe");
    assert_eq!(url.to_string(), "xdfs://h/e/%FF%FE");
}

#[test]
fn an_encoded_slash_or_nul_is_refused_wherever_it_stands() {
    for text in ["xdfs://h/e/a%2Fb", "xdfs://h/e/a%2fb", "xdfs://h/e/%2F", "xdfs://h/e%2Fx/y", "xdfs://h/%2F"] {
        assert_eq!(parse(text), Err(UrlError::EncodedSlash), "{text}");
    }
    for text in ["xdfs://h/e/a%00", "xdfs://h/e%00/a"] {
        assert_eq!(parse(text), Err(UrlError::EncodedNul), "{text}");
    }
}

#[test]
fn dots_are_refused_encoded_or_not() {
    for path in ["..", ".", "a/../b", "a/..", "%2e%2e", "%2E.", ".%2e", "a/%2e/b", "../"] {
        assert_eq!(parse(&format!("xdfs://h/e/{path}")), Err(UrlError::Path(PathError::DotComponent)), "{path}");
    }
    for export in [".", "..", "%2e%2e"] {
        assert!(matches!(parse(&format!("xdfs://h/{export}/x")), Err(UrlError::Export(_))), "{export}");
    }
}

#[test]
fn several_slashes_are_one() {
    for (text, like) in [
        ("xdfs://h/e//", "xdfs://h/e/"),
        ("xdfs://h//e/x", "xdfs://h/e/x"),
        ("xdfs://h/e//a///b", "xdfs://h/e/a/b"),
        ("xdfs://h/e/a//", "xdfs://h/e/a/"),
        ("xdfs://h/e//a/*.txt", "xdfs://h/e/a/*.txt"),
    ] {
        assert_eq!(parse(text), parse(like), "{text}");
    }
    assert_eq!(parse("xdfs://h//"), Err(UrlError::ExportMissing));
}

#[test]
fn a_broken_escape_is_refused() {
    for path in ["%", "a%", "a%2", "%g0", "%0g", "%%20", "% 1", "%+1"] {
        assert_eq!(parse(&format!("xdfs://h/e/{path}")), Err(UrlError::Percent), "{path}");
    }
}

#[test]
fn long_names_and_deep_paths_are_refused() {
    let path_error = |path: String| parse(&format!("xdfs://h/e/{path}")).map(|_| ());
    assert_eq!(path_error("a".repeat(255)), Ok(()));
    assert_eq!(path_error("a".repeat(256)), Err(UrlError::Path(PathError::ComponentTooLong)));
    assert_eq!(path_error("%41".repeat(255)), Ok(()));
    assert_eq!(path_error(["a"; 1024].join("/")), Ok(()));
    assert_eq!(path_error(["a"; 1025].join("/")), Err(UrlError::Path(PathError::TooDeep)));
    assert_eq!(path_error(vec!["a".repeat(250); 131].join("/")), Err(UrlError::Path(PathError::TooLong)));
}

#[test]
fn faults_of_user_host_port_export_and_key_are_named() {
    for (text, error) in [
        ("/tmp/x", UrlError::Scheme),
        ("http://h/e/x", UrlError::Scheme),
        ("XDFS://h/e/x", UrlError::Scheme),
        ("xdfs:/h/e/x", UrlError::Scheme),
        ("xdfs://", UrlError::HostMissing),
        ("xdfs:///e/x", UrlError::HostMissing),
        ("xdfs://:1/e/x", UrlError::HostMissing),
        ("xdfs://@h/e/x", UrlError::User),
        ("xdfs://a:b@h/e/x", UrlError::Password),
        ("xdfs://a%41@h/e/x", UrlError::User),
        ("xdfs://::1/e/x", UrlError::Brackets("::1".to_owned())),
        ("xdfs://fe80::1/e/x", UrlError::Brackets("fe80::1".to_owned())),
        ("xdfs://[::1/e/x", UrlError::Ipv6("::1".to_owned())),
        ("xdfs://[127.0.0.1]/e/x", UrlError::Ipv6("127.0.0.1".to_owned())),
        ("xdfs://[fe80::1%25lo]/e/x", UrlError::Ipv6("fe80::1%25lo".to_owned())),
        ("xdfs://[::1]x/e/x", UrlError::Host("[::1]x".to_owned())),
        ("xdfs://ho st/e/x", UrlError::Host("ho st".to_owned())),
        ("xdfs://h%41/e/x", UrlError::Host("h%41".to_owned())),
        ("xdfs://-h/e/x", UrlError::Host("-h".to_owned())),
        ("xdfs://127.1/e/x", UrlError::Host("127.1".to_owned())),
        ("xdfs://0x7f.0.0.1/e/x", UrlError::Host("0x7f.0.0.1".to_owned())),
        ("xdfs://2130706433/e/x", UrlError::Host("2130706433".to_owned())),
        ("xdfs://h:/e/x", UrlError::PortMissing),
        ("xdfs://h:0/e/x", UrlError::Port("0".to_owned())),
        ("xdfs://h:65536/e/x", UrlError::Port("65536".to_owned())),
        ("xdfs://h:+80/e/x", UrlError::Port("+80".to_owned())),
        ("xdfs://h:80:80/e/x", UrlError::Port("80:80".to_owned())),
        ("xdfs://h", UrlError::ExportMissing),
        ("xdfs://h/", UrlError::ExportMissing),
        ("xdfs://h//", UrlError::ExportMissing),
        ("xdfs://h/a b/x", UrlError::Export("a b".to_owned())),
        ("xdfs://h/e/x?y=1", UrlError::Query),
        ("xdfs://h/e/x#", UrlError::Key),
        ("xdfs://h/e/x#SHA256:short", UrlError::Key),
        ("xdfs://h/e/x#part#part", UrlError::Key),
        ("xdfs://h/e/x#MD5:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU", UrlError::Key),
    ] {
        assert_eq!(parse(text), Err(error), "{text}");
    }
}

#[test]
fn the_example_of_every_fault_is_a_good_url() {
    let owned = String::new;
    for error in [
        UrlError::Scheme,
        UrlError::User,
        UrlError::Password,
        UrlError::HostMissing,
        UrlError::Host(owned()),
        UrlError::Brackets(owned()),
        UrlError::Ipv6(owned()),
        UrlError::Port(owned()),
        UrlError::ExportMissing,
        UrlError::Export(owned()),
        UrlError::Percent,
        UrlError::EncodedSlash,
        UrlError::EncodedNul,
        UrlError::Query,
        UrlError::Path(PathError::Nul),
        UrlError::Key,
    ] {
        assert!(parse(error.example()).is_ok(), "{error}");
    }
}

#[test]
fn an_argument_with_any_scheme_is_taken_for_a_url() {
    for text in ["xdfs://h/e", "http://h", "git+ssh://x", "XDFS://h", "xdfs:/h", "xdfs:h"] {
        assert!(looks_like_url(OsStr::new(text)), "{text}");
    }
    for text in ["./xdfs://h/e", "/a://b", "a b://c", "://x", "xdfs", "file", "zero:5"] {
        assert!(!looks_like_url(OsStr::new(text)), "{text}");
    }
}

#[test]
fn joining_a_name_gives_the_url_of_the_file_in_the_directory() {
    let directory = parse("xdfs://h/e/d/").unwrap();
    assert_eq!(directory.join(b"a b").unwrap(), parse("xdfs://h/e/d/a%20b").unwrap());
    assert_eq!(directory.join(b".."), Err(PathError::DotComponent));
    assert_eq!(directory.join(b"a/b"), Err(PathError::EmptyComponent));
}

#[test]
fn what_is_typed_as_itself_makes_a_pattern_and_what_is_encoded_does_not() {
    let patterns = |text: &str| {
        let url = parse(text).unwrap();
        assert_eq!(parse(&url.to_string()).unwrap(), url, "{text}: {url}");
        url.pattern.map(|pattern| pattern.components().map(|one| one.map(<[u8]>::to_vec)).collect::<Vec<_>>())
    };
    let some = |pattern: &str| Some(pattern.as_bytes().to_vec());
    assert_eq!(patterns("xdfs://h/data/a%2Ab/c%5B1%5D.txt"), None);
    assert_eq!(patterns("xdfs://h/data/a/*.txt/"), Some(vec![None, some("*.txt")]));
    assert_eq!(patterns("xdfs://h/data/x%5B1%5D*"), Some(vec![some("x\\[1\\]*")]));
    assert_eq!(patterns("xdfs://h/data/a\\*%41"), Some(vec![some("a\\\\*A")]));
    assert_eq!(patterns("xdfs://h/data/%FF%2e[^%5e%2d]%05"), { Some(vec![Some(b"\xff.[^\\^\\-]\x05".to_vec())]) });
    assert_eq!(patterns("ssh://h//a/./[ab]"), Some(vec![None, some("[ab]")]));
    assert_eq!(parse("ssh:h:/\\x\\-[ab]\\").unwrap().pattern, parse("ssh://h/x%2D[ab]%5C").unwrap().pattern);
    assert_eq!(patterns("ssh:h:/[ab]\\"), Some(vec![some("[ab]\\\\")]));
    assert_eq!(parse("ftp://h/*.txt").unwrap().pattern, None);
}

proptest! {
    #[test]
    fn writing_and_reading_a_url_are_inverse(
        components in prop::collection::vec(prop::collection::vec(1..=255u8, 1..40), 0..6),
        port in 1..=65535u16,
        directory: bool,
        address: u128,
    ) {
        let mut path = RelPath::default();
        for component in &components {
            prop_assume!(path.push(component).is_ok());
        }
        let url = Url {
            via: Via::Port,
            password: None,
            user: Some("anna".to_owned()),
            host: Host::Address(IpAddr::V6(address.into())),
            port,
            export: "data".to_owned(),
            path,
            pattern: None,
            directory,
            contents: false,
            key: None,
        };
        let text = url.to_string();
        prop_assert!(text.bytes().all(|byte| byte.is_ascii_graphic()));
        prop_assert_eq!(parse(&text).unwrap(), url);
    }

    #[test]
    fn no_text_makes_the_reader_panic_or_pass_a_forbidden_component(text in "(xdfs://)?[a-z@:/%.0-9A-F#?\\[\\]]{0,60}") {
        if let Ok(url) = parse(&text) {
            for component in url.path.components() {
                prop_assert!(!component.is_empty() && component != b"." && component != b"..");
                prop_assert!(!component.contains(&b'/') && !component.contains(&0));
            }
        }
    }
}
