//! Known hosts in a folder, and every reason to reject a key.
#![allow(clippy::disallowed_methods, reason = "the tests look at the files that were made")]

use super::*;
use std::os::unix::fs::PermissionsExt;
use tempfile::TempDir;
use xdfs_secure::handshake::{Chain, HostCheck, Shown};

struct Place(TempDir);

impl Place {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    /// A folder that is not there yet.
    fn state(&self) -> PathBuf {
        self.0.path().join("state")
    }
}

fn fingerprint(byte: u8) -> Fingerprint {
    Fingerprint([byte; 32])
}

fn remembered(byte: u8) -> Remembered {
    Remembered { fingerprint: fingerprint(byte), since: 1_700_000_000 }
}

#[test]
fn what_is_pinned_is_read_back_and_can_be_forgotten() {
    let place = Place::new();
    let mut known = KnownHosts::read(&place.state()).unwrap();
    assert_eq!(known.iter().count(), 0);
    assert!(!place.state().exists(), "looking makes no folder");
    let hosts = [HostName::new("Host.Example.", 2799), HostName::new("::1", 1), HostName::new("[::1]", 2)];
    for (number, host) in (1..).zip(&hosts) {
        known.pin(host, remembered(number)).unwrap();
    }
    let again = KnownHosts::read(&place.state()).unwrap();
    let names: Vec<String> = again.iter().map(|(host, _)| host.to_string()).collect();
    assert_eq!(names, ["[::1]:1", "[::1]:2", "host.example:2799"]);
    assert_eq!(again.find(&HostName::new("host.example", 2799)), Some(&remembered(1)));
    // The port is part of the name.
    assert_eq!(again.find(&HostName::new("host.example", 2800)), None);
    // Another program's change is not lost.
    known = again;
    KnownHosts::read(&place.state()).unwrap().pin(&HostName::new("other", 3), remembered(9)).unwrap();
    assert_eq!(known.forget(&hosts[0]).unwrap(), Some(remembered(1)));
    assert_eq!(known.forget(&hosts[0]).unwrap(), None);
    assert_eq!(KnownHosts::read(&place.state()).unwrap().iter().count(), 3);
}

#[test]
fn a_file_that_is_not_understood_is_an_error_that_names_the_line() {
    let place = Place::new();
    KnownHosts::read(&place.state()).unwrap().pin(&HostName::new("h", 1), remembered(1)).unwrap();
    let path = place.state().join(FILE);
    let good = std::fs::read_to_string(&path).unwrap();
    for bad in [
        "h",
        "h:2 SHA256:x 1",
        "h:2 MD5:1 1",
        &format!("h:x {} 1", fingerprint(1)),
        &format!("H:2 {} 1", fingerprint(1)),
        &format!("h:1 {} 1", fingerprint(2)),
        &format!("h:2 {} 1 x", fingerprint(1)),
    ] {
        std::fs::write(&path, format!("{good}{bad}\n")).unwrap();
        let error = KnownHosts::read(&place.state()).unwrap_err();
        assert!(error.message.contains("line 3"), "{bad}: {error}");
    }
    std::fs::write(&path, &good).unwrap();
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o666)).unwrap();
    assert!(KnownHosts::read(&place.state()).unwrap_err().message.contains("0666"));
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o644)).unwrap();
    std::fs::write(&path, vec![b'#'; FILE_BYTES_MAX + 1]).unwrap();
    assert_eq!(KnownHosts::read(&place.state()).unwrap_err().kind, ErrorKind::LimitExceeded);
}

#[test]
fn a_key_is_taken_when_it_is_the_expected_one_and_never_when_it_changed() {
    let place = Place::new();
    let mut known = KnownHosts::read(&place.state()).unwrap();
    let host = HostName::new("h", 1);
    known.pin(&host, remembered(1)).unwrap();
    let (old, other) = (fingerprint(1), fingerprint(2));
    let changed = |expected, since| Some(KeyRejection::Changed { shown: other, expected, since });
    let since = Some(1_700_000_000);
    for (name, pinned, shown, certified, doubt) in [
        ("h", None, old, false, None),
        ("h", None, other, false, changed(old, since)),
        // Certificates do not matter: a person's decision counts more.
        ("h", None, other, true, changed(old, since)),
        ("h", Some(other), other, false, None),
        ("h", Some(old), other, false, changed(old, None)),
        ("new", None, other, false, Some(KeyRejection::Unknown { shown: other })),
        ("new", None, other, true, None),
        ("new", Some(other), other, false, None),
        ("new", Some(old), other, true, changed(old, None)),
    ] {
        let trust = Trust::new(HostName::new(name, 1), pinned, &known);
        let outcome = trust.check(
            name,
            1,
            &Shown { fingerprint: shown, chain: if certified { Chain::Good } else { Chain::Unasked } },
        );
        assert_eq!((outcome.is_ok(), trust.doubt()), (doubt.is_none(), doubt), "{name} {pinned:?} {shown}");
        if let Err(error) = outcome {
            assert_eq!(error.kind, ErrorKind::Refused);
            assert!(error.message.contains(&shown.to_string()), "{error}");
        }
    }
}

#[test]
fn a_certificate_that_is_not_good_is_refused_with_the_reason_and_asks_nobody() {
    let place = Place::new();
    let known = KnownHosts::read(&place.state()).unwrap();
    let trust = Trust::new(HostName::new("h", 1), None, &known);
    let chain = Chain::Bad("it has run out".to_owned());
    let error = trust.check("h", 1, &Shown { fingerprint: fingerprint(1), chain }).unwrap_err();
    assert!(error.kind == ErrorKind::Refused && error.message.contains("it has run out"), "{error}");
    assert!(
        matches!(trust.doubt(), Some(KeyRejection::Uncertified { .. })),
        "it is no unknown key that a person may accept"
    );
}
