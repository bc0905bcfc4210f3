//! Keys in the formats of other programs. The files in `keys/` are from OpenSSH 9.2 and OpenSSL 3.0:
//! `ssh-keygen -t ed25519|rsa|ecdsa` and `openssl genpkey -algorithm ed25519|rsa`; two have a passphrase.

use xdfs_secure::identity::openssh::{
    KeyFile, read_authorized, read_private, read_public, write_private, write_public,
};
use xdfs_secure::identity::{KeyFileError, KeyPair, Signer, verify, x509};

const PLAIN: &str = include_str!("keys/plain.key");
const PLAIN_PUBLIC: &str = include_str!("keys/plain.pub");
const LOCKED: &str = include_str!("keys/locked.key");
const LOCKED_PUBLIC: &str = include_str!("keys/locked.pub");
const RSA: &str = include_str!("keys/rsa.key");
const RSA_PUBLIC: &str = include_str!("keys/rsa.pub");
const ECDSA: &str = include_str!("keys/ecdsa.key");
const ECDSA_PUBLIC: &str = include_str!("keys/ecdsa.pub");
const PKCS8: &str = include_str!("keys/ed.pem");
const PKCS8_ENCRYPTED: &str = include_str!("keys/edenc.pem");
const PKCS8_RSA: &str = include_str!("keys/rsa.pem");

fn open(text: &str) -> KeyPair {
    match read_private(text.as_bytes()) {
        Ok(KeyFile::Open(key)) => key,
        other => panic!("{other:?}"),
    }
}

fn refused(text: &str) -> KeyFileError {
    read_private(text.as_bytes()).expect_err("no key that xdfs takes")
}

#[test]
fn a_key_file_and_its_public_line_belong_together() {
    let key = open(PLAIN);
    let named = read_public(PLAIN_PUBLIC).unwrap();
    assert_eq!((key.public(), named.comment.as_str()), (named.key, "anna@laptop"));
    assert_eq!(write_public(&key.public(), "anna@laptop").unwrap(), PLAIN_PUBLIC.trim());
}

#[test]
fn a_key_reads_back_from_the_file_that_is_written() {
    let key = KeyPair::generate().unwrap();
    let file = write_private(&key, "host").unwrap();
    assert!(file.starts_with("-----BEGIN OPENSSH PRIVATE KEY-----\n") && file.ends_with("-----\n"));
    let back = open(&file);
    assert_eq!(back.public(), key.public());
    let signature = Signer::sign(&back, b"message").unwrap();
    assert!(verify(&key.public(), b"message", &signature));
}

#[test]
fn a_locked_key_opens_with_its_passphrase_alone() {
    let Ok(KeyFile::Locked(locked)) = read_private(LOCKED.as_bytes()) else { panic!("it has a passphrase") };
    assert_eq!(locked.public(), read_public(LOCKED_PUBLIC).unwrap().key);
    for wrong in ["", "canary", "canary passphrase "] {
        assert_eq!(locked.unlock(wrong.as_bytes()).err(), Some(KeyFileError::Passphrase), "'{wrong}'");
    }
    assert_eq!(locked.unlock(b"canary passphrase").unwrap().public(), locked.public());
}

#[test]
fn other_kinds_of_keys_are_named_with_the_remedy() {
    for (text, kind) in [(RSA, "ssh-rsa"), (ECDSA, "of another kind"), ("-----BEGIN RSA PRIVATE KEY-----", "ssh-rsa")] {
        let error = refused(text);
        assert_eq!(error, KeyFileError::Kind(kind.into()));
        assert!(error.to_string().contains("xdfs key create"), "{error}");
    }
    for (text, kind) in [(RSA_PUBLIC, "ssh-rsa"), (ECDSA_PUBLIC, "ecdsa-sha2-nistp256")] {
        assert_eq!(read_public(text), Err(KeyFileError::Kind(kind.into())));
    }
    let security_key = "sk-ssh-ed25519@openssh.com AAAA x";
    assert_eq!(read_public(security_key), Err(KeyFileError::Kind("sk-ssh-ed25519@openssh.com".into())));
    assert!(matches!(x509::read_private_pem(PKCS8_RSA), Err(KeyFileError::Kind(_))));
}

#[test]
fn a_file_of_the_wrong_sort_is_told_apart() {
    assert_eq!(refused(PLAIN_PUBLIC), KeyFileError::Public);
    assert_eq!(refused(PKCS8), KeyFileError::Pkcs8);
    assert_eq!(refused(PKCS8_ENCRYPTED), KeyFileError::Pkcs8);
    assert_eq!(refused("hello"), KeyFileError::NoKey);
    assert_eq!(refused(""), KeyFileError::NoKey);
    assert_eq!(read_private(&[0xff; 100]).err(), Some(KeyFileError::NoKey));
    assert_eq!(read_public(PLAIN), Err(KeyFileError::Private));
    assert_eq!(read_public(""), Err(KeyFileError::NotOnePublic));
    assert_eq!(read_public(&[PLAIN_PUBLIC, LOCKED_PUBLIC].concat()), Err(KeyFileError::NotOnePublic));
    assert_eq!(x509::read_private_pem(PKCS8_ENCRYPTED).err(), Some(KeyFileError::EncryptedPkcs8));
    assert_eq!(x509::read_private_pem(PLAIN).err(), Some(KeyFileError::NoKey));
}

#[test]
fn a_key_that_is_cut_off_anywhere_is_refused() {
    for length in 0..PLAIN.trim().len() {
        assert!(read_private(&PLAIN.as_bytes()[..length]).is_err(), "{length} bytes");
    }
    for length in 0..PKCS8.trim().len() {
        assert!(x509::read_private_pem(&PKCS8[..length]).is_err(), "{length} bytes");
    }
    let line = PLAIN_PUBLIC.trim_end().strip_suffix(" anna@laptop").unwrap();
    for length in 0..line.len() {
        assert!(read_public(&line[..length]).is_err(), "{length} bytes");
    }
}

#[test]
fn a_private_half_with_another_public_half_is_no_key() {
    // Line 2 holds the public half that stands in the open.
    let other = write_private(&KeyPair::generate().unwrap(), "x").unwrap();
    let mixed: Vec<&str> =
        PLAIN.lines().zip(other.lines()).enumerate().map(|(n, (a, b))| if n == 2 { b } else { a }).collect();
    assert_eq!(refused(&mixed.join("\n")), KeyFileError::Damaged);
}

#[test]
fn authorized_keys_gives_the_keys_that_it_can_take() {
    let text = format!("# mine\n\n{PLAIN_PUBLIC}  {RSA_PUBLIC}{LOCKED_PUBLIC}{ECDSA_PUBLIC}");
    let found = read_authorized(&text).unwrap();
    assert_eq!(found.keys, [read_public(PLAIN_PUBLIC).unwrap(), read_public(LOCKED_PUBLIC).unwrap()]);
    assert_eq!(found.skipped, 2);
    assert_eq!(read_authorized("").unwrap().keys, []);
}

#[test]
fn a_limited_or_broken_line_of_authorized_keys_is_refused_by_its_number() {
    for (line, error) in [
        (format!("command=\"/bin/true\",no-pty {PLAIN_PUBLIC}"), KeyFileError::Options(2)),
        (format!("from=\"10.0.0.1\" {PLAIN_PUBLIC}"), KeyFileError::Options(2)),
        (format!("cert-authority {PLAIN_PUBLIC}"), KeyFileError::Options(2)),
        ("ssh-ed25519 AAAA anna".to_owned(), KeyFileError::Line(2)),
        ("ssh-ed25519".to_owned(), KeyFileError::Line(2)),
        ("hello there".to_owned(), KeyFileError::Line(2)),
        (PLAIN.to_owned(), KeyFileError::Line(2)),
    ] {
        assert_eq!(read_authorized(&format!("{LOCKED_PUBLIC}{line}")), Err(error), "{line}");
    }
}

#[test]
fn a_certificate_holds_the_key_and_pkcs8_gives_it_back() {
    let key = open(PLAIN);
    let names = ["host.example".to_owned(), "127.0.0.1".to_owned()];
    let der = x509::certificate(&key, &names).unwrap();
    let spki = key.public().spki();
    assert!(der.windows(spki.len()).any(|bytes| bytes == spki));
    assert!(x509::certificate_pem(&key, &names).unwrap().starts_with("-----BEGIN CERTIFICATE-----\nMII"));
    let pem = x509::private_pem(&key);
    assert_eq!(x509::read_private_pem(&pem).unwrap().public(), key.public());
    // A certificate in front of it is left aside.
    let both = format!("{}{}", x509::certificate_pem(&key, &[]).unwrap(), *pem);
    assert_eq!(x509::read_private_pem(&both).unwrap().public(), key.public());
}

#[test]
fn a_pkcs8_key_of_openssl_is_the_key_that_openssl_says() {
    // openssl pkey -in ed.pem -pubout -outform DER | tail -c 32 | xxd -p -c 32
    let public = "12a34c06094784279b5660d9034eb48bb6f54efa6d06639b6f11904e3337732f";
    let key = x509::read_private_pem(PKCS8).unwrap();
    let hex: String = key.public().0.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(hex, public);
}
