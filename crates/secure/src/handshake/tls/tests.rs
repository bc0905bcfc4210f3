//! Both sides against each other, and against a peer that does what may not be done.

use super::*;
use crate::handshake::{Chain, Shown};
use crate::identity::KeyPair;
use crate::policy::Fingerprint;
use xdfs_proto::base::{ErrorKind, SessionId, Suite};

fn host() -> HostIdentity {
    HostIdentity::new(KeyPair::from_seed(&[7; 32]).unwrap())
}

/// Hands `bytes` to a stream in the pieces that it asks for; what it did not ask for comes back.
fn feed(stream: &mut Stream, mut bytes: &[u8]) -> Result<(), Error> {
    while !bytes.is_empty() {
        let (piece, rest) = bytes.split_at(stream.want().min(bytes.len()));
        stream.on_bytes(piece)?;
        bytes = rest;
    }
    Ok(())
}

struct Pair {
    client: Stream,
    server: Stream,
    shown: Shown,
}

fn pair(certificates: &Certificates) -> Pair {
    pair_with(&ServerIdentity::new(&host()).unwrap(), certificates)
}

fn pair_with(identity: &ServerIdentity, certificates: &Certificates) -> Pair {
    let (tls, mut client) = ClientTls::start("localhost", certificates).unwrap();
    let mut start = ServerStart::default();
    let hello = client.output();
    let mut rest = &hello[..];
    let mut server = loop {
        let (piece, after) = rest.split_at(start.want());
        rest = after;
        if let Some(server) = start.on_bytes(piece, identity).unwrap() {
            break server;
        }
    };
    assert!(rest.is_empty());
    feed(&mut client, &server.output()).unwrap();
    feed(&mut server, &client.output()).unwrap();
    assert!(!client.is_handshaking() && !server.is_handshaking());
    let shown = tls.shown(&mut client).unwrap();
    Pair { client, server, shown }
}

#[test]
fn the_same_key_is_shown_raw_and_in_a_certificate() {
    let raw = pair(&Certificates::Raw);
    let x509 = pair(&Certificates::X509 { roots: Vec::new() });
    assert_eq!(raw.shown, Shown { fingerprint: host().fingerprint(), chain: Chain::Unasked });
    assert_eq!(x509.shown, raw.shown);
}

#[test]
fn a_site_certificate_is_shown_to_those_who_ask_for_one_and_checked_against_roots() {
    let site_key = rcgen::KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).unwrap();
    let authority_key = rcgen::KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).unwrap();
    let mut parameters = rcgen::CertificateParams::new(Vec::new()).unwrap();
    parameters.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let root = parameters.self_signed(&authority_key).unwrap();
    let issuer = rcgen::Issuer::new(parameters, authority_key);
    let showing = |from: i32, until: i32| {
        let mut parameters = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        let [from, until] = [from, until].map(|year| rcgen::date_time_ymd(year, 1, 1));
        (parameters.not_before, parameters.not_after) = (from, until);
        let leaf = parameters.signed_by(&site_key, &issuer).unwrap();
        let site = SiteCertificate::from_pem(leaf.pem().as_bytes(), site_key.serialize_pem().as_bytes()).unwrap();
        ServerIdentity::new(&host().with_site(site)).unwrap()
    };
    let identity = showing(2020, 2120);
    let roots = vec![root.der().to_vec()];
    let x509 = |roots: Vec<Vec<u8>>| pair_with(&identity, &Certificates::X509 { roots }).shown;
    let good = x509(roots.clone());
    for (from, until, why) in [(2020, 2021, "it has run out"), (2120, 2121, "it is not valid yet")] {
        let bad = pair_with(&showing(from, until), &Certificates::X509 { roots: roots.clone() }).shown;
        assert!(matches!(&bad.chain, Chain::Bad(said) if said.starts_with(why)), "{bad:?}");
    }
    let fingerprint = Fingerprint::of_spki(&rcgen::PublicKeyData::subject_public_key_info(&site_key));
    assert_eq!(good, Shown { fingerprint, chain: Chain::Good });
    let stranger = rcgen::CertificateParams::new(Vec::new()).unwrap();
    let stranger = stranger.self_signed(&rcgen::KeyPair::generate().unwrap()).unwrap();
    let unknown = x509(vec![stranger.der().to_vec()]);
    assert_eq!(unknown.fingerprint, fingerprint);
    assert!(matches!(unknown.chain, Chain::Bad(why) if why.contains("nobody")));
    assert_eq!(x509(Vec::new()), Shown { fingerprint, chain: Chain::Unasked });
    // Who asks for the key as such gets the host's.
    assert_eq!(pair_with(&identity, &Certificates::Raw).shown.fingerprint, host().fingerprint());
}

#[test]
fn both_ends_export_the_same_and_different_values_for_each_use() {
    let Pair { client, server, .. } = pair(&Certificates::Raw);
    let secret =
        |stream: &Stream, session| *stream.join_secret(SessionId([session; 16]), Suite::default()).unwrap().bytes();
    assert_eq!(secret(&client, 1), secret(&server, 1));
    assert_ne!(secret(&client, 1), secret(&client, 2));
    assert_eq!(client.login_binding(), server.login_binding());
    assert_eq!(client.channel_binding(), server.channel_binding());
    assert_ne!(client.login_binding(), client.channel_binding());
    let other = pair(&Certificates::Raw).client;
    assert_ne!(client.login_binding(), other.login_binding());
    assert_ne!(secret(&client, 1), secret(&other, 1));
}

#[test]
fn nothing_is_exported_or_left_before_the_handshake_is_finished() {
    let (tls, mut client) = ClientTls::start("localhost", &Certificates::Raw).unwrap();
    assert!(client.login_binding().is_err());
    assert!(client.join_secret(SessionId([1; 16]), Suite::default()).is_err());
    assert!(tls.shown(&mut client).is_err());
    assert!(client.leave().is_err());
}

#[test]
fn each_direction_leaves_by_its_own_farewell_and_the_next_byte_is_a_record() {
    let Pair { mut client, mut server, .. } = pair(&Certificates::Raw);
    server.send(b"accepted").unwrap();
    let accepted = server.output();
    let (server_last, server_waits) = server.leave().unwrap();
    assert_eq!(server_last.len(), FAREWELL_BYTES);
    feed(&mut client, &accepted).unwrap();
    assert_eq!(**client.received(), b"accepted"[..]);
    client.received().clear();
    let (client_last, client_waits) = client.leave().unwrap();
    assert_eq!(client_last.len(), FAREWELL_BYTES);
    client_waits.check(&server_last).unwrap();
    server_waits.check(&client_last).unwrap();
}

#[test]
fn a_farewell_that_was_altered_cut_or_turned_round_is_refused() {
    for bit in 0..FAREWELL_BYTES * 8 {
        let Pair { client, server, .. } = pair_cached();
        let (mut last, _) = client.leave().unwrap();
        let (_, waits) = server.leave().unwrap();
        last[bit / 8] ^= 1 << (bit % 8);
        assert!(waits.check(&last).is_err(), "bit {bit}");
    }
    let Pair { client, server, .. } = pair(&Certificates::Raw);
    let (client_last, client_waits) = client.leave().unwrap();
    let (_, server_waits) = server.leave().unwrap();
    assert!(client_waits.check(&client_last).is_err());
    assert!(server_waits.check(&client_last[..FAREWELL_BYTES - 1]).is_err());
}

fn pair_cached() -> Pair {
    thread_local!(static IDENTITY: ServerIdentity = ServerIdentity::new(&host()).unwrap());
    IDENTITY.with(|identity| pair_with(identity, &Certificates::Raw))
}

#[test]
fn a_change_of_keys_behind_the_handshake_is_fatal() {
    let Pair { mut client, mut server, .. } = pair(&Certificates::Raw);
    client.refresh_keys();
    let update = client.output();
    assert_eq!(feed(&mut server, &update).unwrap_err().kind, ErrorKind::Protocol);
}

#[test]
fn a_close_inside_the_handshake_is_an_end_and_not_a_farewell() {
    let Pair { client, mut server, .. } = pair(&Certificates::Raw);
    let (last, _) = client.leave().unwrap();
    assert!(feed(&mut server, &last).is_err());
}

#[test]
fn more_than_the_bound_is_neither_sent_nor_taken() {
    let Pair { mut client, mut server, .. } = pair(&Certificates::Raw);
    client.send(&vec![0; DATA_BYTES_MAX]).unwrap();
    feed(&mut server, &client.output()).unwrap();
    assert_eq!(server.received().len(), DATA_BYTES_MAX);
    assert_eq!(client.send(&[0]).unwrap_err().kind, ErrorKind::LimitExceeded);
    client.send_unbounded(&[0]);
    assert_eq!(feed(&mut server, &client.output()).unwrap_err().kind, ErrorKind::LimitExceeded);
}

/// A client, and a server's answer to its hello.
fn answered(identity: &ServerIdentity) -> (ClientTls, Stream, Stream, Vec<u8>) {
    let (tls, mut client) = ClientTls::start("localhost", &Certificates::Raw).unwrap();
    let hello = client.output();
    let mut start = ServerStart::default();
    start.on_bytes(&hello[..RECORD_HEAD_BYTES], identity).unwrap();
    let mut server = start.on_bytes(&hello[RECORD_HEAD_BYTES..], identity).unwrap().unwrap();
    let answer = server.output();
    (tls, client, server, answer)
}

#[test]
fn a_flipped_bit_anywhere_in_the_server_s_answer_changes_nothing_or_ends_the_handshake() {
    let identity = ServerIdentity::new(&host()).unwrap();
    let length = answered(&identity).3.len();
    let mut passed = 0;
    for at in 0..length {
        let (tls, mut client, mut server, mut answer) = answered(&identity);
        // Signatures make the answers differ in length by nothing, so every byte has its turn.
        answer[at] ^= 1 << (at % 8);
        if feed(&mut client, &answer).is_err() || client.is_handshaking() {
            continue;
        }
        // The version in a head that TLS ignores: both ends still agree on everything.
        feed(&mut server, &client.output()).unwrap();
        assert_eq!(client.login_binding(), server.login_binding(), "byte {at}");
        assert_eq!(tls.shown(&mut client).unwrap().fingerprint, host().fingerprint());
        passed += 1;
    }
    assert!(passed <= 4, "{passed} alterations were overlooked");
}

#[test]
fn an_answer_cut_anywhere_finishes_nothing() {
    let identity = ServerIdentity::new(&host()).unwrap();
    let length = answered(&identity).3.len();
    for cut in (0..length).step_by(13).chain([length - 1]) {
        let (_, mut client, _, answer) = answered(&identity);
        let mut rest = &answer[..cut];
        while rest.len() >= client.want() {
            let (piece, after) = rest.split_at(client.want());
            client.on_bytes(piece).unwrap();
            rest = after;
        }
        assert!(client.is_handshaking(), "{cut} bytes");
        assert!(client.login_binding().is_err());
    }
}

#[test]
fn bytes_that_are_no_tls_are_refused_by_their_head() {
    let identity = ServerIdentity::new(&host()).unwrap();
    for head in [[22, 3, 1, 0, 0], [22, 3, 1, 0xff, 0xff], [19, 3, 1, 0, 1], [24, 3, 3, 0, 1], [22, 2, 0, 0, 1]] {
        assert!(ServerStart::default().on_bytes(&head, &identity).is_err(), "{head:?}");
    }
    assert!(ServerStart::default().on_bytes(b"GET /", &identity).is_err());
}

#[test]
fn a_client_without_the_protocol_s_name_is_refused() {
    let identity = ServerIdentity::new(&host()).unwrap();
    for names in [vec![], vec![b"http/1.1".to_vec()]] {
        let mut client = client::tests::client_speaking(names);
        let hello = client.output();
        let mut start = ServerStart::default();
        start.on_bytes(&hello[..5], &identity).unwrap();
        let refused = match start.on_bytes(&hello[5..], &identity) {
            Err(_) => true,
            Ok(Some(mut server)) => {
                feed(&mut client, &server.output()).and_then(|()| feed(&mut server, &client.output())).is_err()
            }
            Ok(None) => false,
        };
        assert!(refused);
    }
}

#[test]
fn no_ticket_follows_the_handshake() {
    let Pair { mut server, .. } = pair(&Certificates::Raw);
    assert!(server.output().is_empty());
}
