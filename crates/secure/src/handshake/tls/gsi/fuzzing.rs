//! Feeds what reads chains, requests for proxies and tokens, from whoever is at the other end.

use std::sync::{Arc, OnceLock};

use rcgen::{CertificateParams, DnType, IsCa, Issuer, KeyPair};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::sign::CertifiedKey;

use super::super::byte_stream::Taken;
use super::chain;
use super::credential::Credential;
use super::delegation::{REQUEST_BYTES_MAX, delegate, length_of};
use super::handshake::{Extent, Handshake};
use super::policy::permits;
use super::stream::{GsiStream, HEAD_BYTES, whole_record};
use super::trust::{Role, TrustStore, provider};
use super::verifier::{Expected, Gsi, is_for};

/// A second at which everything is valid that the library makes.
const NOW: u64 = 1_800_000_000;

/// The name of the fixed holder.
const SOMEBODY: &str = "/O=Fixed/CN=Anybody";

/// A policy by which the fixed authority signs everybody.
const POLICY: &str = "access_id_CA X509 '/O=Fixed'\npos_rights globus CA:sign\ncond_subjects globus '*'\n";

/// Elements behind their lengths of two bytes: an authority in DER, its policy, its revocation list or nothing, and a chain.
/// Whatever they are, the chain's holder is known or there is a reason in words.
pub fn feed_chain(input: &[u8]) {
    let mut elements = Vec::new();
    let mut rest = input;
    while let [high, low, tail @ ..] = rest {
        let length = (usize::from(*high) << 8 | usize::from(*low)).min(tail.len());
        elements.push(&tail[..length]);
        rest = &tail[length..];
    }
    let [authority, policy, list, chain @ ..] = &elements[..] else { return };
    let policy = String::from_utf8_lossy(policy).into_owned();
    let lists = if list.is_empty() { Vec::new() } else { vec![list.to_vec()] };
    let mut trust = TrustStore::default();
    let _ = trust.add_der(CertificateDer::from(authority.to_vec()), Some(policy), &lists);
    for role in [Role::User, Role::Host] {
        match chain::check(chain, &trust, role, NOW) {
            Ok(holder) => {
                assert!(holder.until >= NOW && !holder.subject.contains(char::is_control));
                assert_eq!(chain::subject(chain).as_ref(), Some(&holder.subject));
                let _ = is_for(&holder.own, "host.example");
            }
            Err(fault) => assert!(!fault.to_string().contains(char::is_control), "{fault}"),
        }
    }
}

/// A signing policy, and behind a zero byte each an authority's and a subject's name.
pub fn feed_policy(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    let mut parts = text.split('\0');
    let (policy, authority, subject) = (parts.next(), parts.next(), parts.next());
    let found = permits(policy.unwrap_or_default(), authority.unwrap_or_default(), subject.unwrap_or_default());
    assert!(found.is_none() || policy.is_some_and(|policy| policy.contains("access_id_CA")));
}

/// A request for a proxy: what is signed has its key, and everything else is refused in words.
pub fn feed_request(input: &[u8]) {
    match length_of(input) {
        Ok(Some(length)) => assert!((2..=REQUEST_BYTES_MAX).contains(&length)),
        Ok(None) => assert!(input.len() < 4),
        Err(fault) => assert!(!fault.to_string().contains(char::is_control)),
    }
    let (credential, _) = fixed();
    match delegate(&credential, input, 7) {
        Ok(proxy) => {
            let chain: Vec<&[u8]> =
                [&proxy[..]].into_iter().chain(credential.certified.cert.iter().map(AsRef::as_ref)).collect();
            let holder = chain::check(&chain, &fixed().1, Role::User, NOW);
            // Whose request names an authority's key gets a proxy that nobody takes.
            assert!(holder.is_ok() || holder.is_err_and(|fault| !fault.to_string().is_empty()));
        }
        Err(fault) => assert!(!fault.to_string().contains(char::is_control)),
    }
}

/// What arrives at either end from the first byte on. The first byte of the input says at which, and in which pieces.
pub fn feed_stream(input: &[u8]) {
    let Some((&first, text)) = input.split_first() else { return };
    let gsi = gsi();
    let handshake = match first & 1 {
        0 => gsi.accept(&Expected::Anyone, Extent::Flagged),
        _ => gsi.initiate(&Expected::Host("host.example".to_owned()), Extent::Flagged, true),
    };
    let mut stream = GsiStream::new(handshake.expect("settings")).expect("a beginning");
    let mut held = Vec::new();
    for piece in text.chunks(usize::from(first >> 1) + 1) {
        held.extend_from_slice(piece);
        let mut rest = &held[..];
        let fed = stream.feed(&mut rest);
        let left = rest.len();
        held.drain(..held.len() - left);
        assert!(stream.is_handshaking() || fed.is_err(), "nobody has the keys");
        stream.output(&mut Vec::new());
        match fed {
            Ok(()) => assert!(whole_record(&held).is_ok_and(|whole| whole.is_none()), "a whole record is left"),
            Err(error) => return assert!(!error.to_string().contains(char::is_control)),
        }
    }
}

/// What comes within TLS from an end whose handshake was right: the flag, and what follows it.
pub fn feed_inside(input: &[u8]) {
    let Some((&first, text)) = input.split_first() else { return };
    if first & 2 != 0 {
        return feed_open(first, text);
    }
    let (gsi, by_name) = (gsi(), Expected::Subject(SOMEBODY.to_owned()));
    let is_acceptor = first & 1 == 0;
    // The end that lies says no flag of its own.
    let extent = |lies: bool| if lies { Extent::Whole } else { Extent::Flagged };
    let mut accepting = gsi.accept(&by_name, extent(is_acceptor)).expect("settings");
    let mut initiating = gsi.initiate(&by_name, extent(!is_acceptor), true).expect("settings");
    let mut token = initiating.step(&[]).expect("a beginning");
    while !accepting.is_done() && !initiating.is_done() {
        token = accepting.step(&token).expect("both are right");
        if accepting.is_done() {
            break;
        }
        token = initiating.step(&token).expect("both are right");
    }
    let (liar, mut heard) = if is_acceptor { (accepting, initiating) } else { (initiating, accepting) };
    // The other end's handshake has to hear the end of TLS first.
    if !token.is_empty() && heard.step(&token).is_err() {
        return;
    }
    tell(liar, &mut heard, text, usize::from(first >> 2) + 1);
}

fn tell(liar: Handshake, heard: &mut Handshake, text: &[u8], piece: usize) {
    let mut tls = liar.into_tls();
    for piece in text.chunks(piece) {
        let mut token = Vec::new();
        tls.put(piece).expect("few bytes");
        tls.output(&mut token);
        match heard.step(&token) {
            Ok(_) => {}
            Err((error, _)) => return assert!(!error.to_string().contains(char::is_control)),
        }
    }
}

/// Two streams that are open: what one is given the other takes, in whatever pieces the records come, unless one of them is
/// damaged, which is seen.
fn feed_open(first: u8, text: &[u8]) {
    let mut ends = opened();
    let (damages, piece) = (first & 1 != 0, usize::from(first >> 2) + 1);
    let text = &text[..text.len().min(16 << 10)];
    let (one, other) = ends.split_at_mut(1);
    assert_eq!(one[0].peer().as_deref(), Some(SOMEBODY));
    assert!(one[0].suite().is_some() && other[0].peer() == one[0].peer());
    assert_eq!(one[0].put(text), Ok(text.len()));
    one[0].close();
    let mut bytes = Vec::new();
    one[0].output(&mut bytes);
    if damages {
        // What its head leads to.
        bytes[HEAD_BYTES] ^= 1;
    }
    let (mut held, mut taken, mut ended) = (Vec::new(), Vec::new(), false);
    for part in bytes.chunks(piece) {
        held.extend_from_slice(part);
        loop {
            let mut rest = &held[..];
            let fed = other[0].feed(&mut rest);
            let left = rest.len();
            held.drain(..held.len() - left);
            if fed.is_err() {
                return assert!(damages);
            }
            let mut into = [0; 1000];
            match other[0].take(&mut into).expect("what was fed is right") {
                Taken::Bytes(count) => taken.extend_from_slice(&into[..count]),
                Taken::Nothing => break,
                Taken::End => {
                    ended = true;
                    break;
                }
            }
        }
    }
    assert!(!damages && ended && held.is_empty() && taken == text);
}

/// Both ends of a stream after their handshake.
fn opened() -> [GsiStream; 2] {
    let (gsi, by_name) = (gsi(), Expected::Subject(SOMEBODY.to_owned()));
    let initiating = gsi.initiate(&by_name, Extent::Flagged, false).expect("settings");
    let accepting = gsi.accept(&by_name, Extent::Flagged).expect("settings");
    let mut ends = [initiating, accepting].map(|handshake| GsiStream::new(handshake).expect("a beginning"));
    while ends.iter().any(GsiStream::is_handshaking) {
        for (from, to) in [(0, 1), (1, 0)] {
            let mut bytes = Vec::new();
            ends[from].output(&mut bytes);
            ends[to].feed(&mut &bytes[..]).expect("both are right");
        }
    }
    ends
}

fn gsi() -> Gsi {
    let (credential, trust) = fixed();
    Gsi::of_parts(credential, trust, NOW).expect("a right credential")
}

/// Somebody and an authority, always the same.
fn fixed() -> (Arc<Credential>, Arc<TrustStore>) {
    static FIXED: OnceLock<(Arc<Credential>, Arc<TrustStore>)> = OnceLock::new();
    let (credential, trust) = FIXED.get_or_init(|| {
        // The one form in which a key of Ed25519 is its seed (RFC 8410).
        let der =
            |seed: u8| [&b"\x30\x2e\x02\x01\x00\x30\x05\x06\x03\x2b\x65\x70\x04\x22\x04\x20"[..], &[seed; 32]].concat();
        let key = |seed| KeyPair::try_from(&PrivatePkcs8KeyDer::from(der(seed))).expect("a seed");
        let named = |name: Option<&str>| {
            let mut parameters = CertificateParams::new(Vec::new()).expect("no names");
            parameters.distinguished_name = rcgen::DistinguishedName::new();
            parameters.distinguished_name.push(DnType::OrganizationName, "Fixed");
            name.into_iter().for_each(|name| parameters.distinguished_name.push(DnType::CommonName, name));
            parameters
        };
        let mut authority = named(None);
        authority.is_ca = IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let certificate = authority.self_signed(&key(1)).expect("a right certificate");
        let mut trust = TrustStore::default();
        trust.add_der(certificate.der().clone(), Some(POLICY.to_owned()), &[]).expect("a right certificate");
        let own = named(Some("Anybody")).signed_by(&key(2), &Issuer::from_params(&authority, key(1)));
        let chain = vec![own.expect("a right certificate").der().clone()];
        let key = provider().key_provider.load_private_key(PrivateKeyDer::Pkcs8(der(2).into())).expect("a right key");
        (Arc::new(Credential { certified: Arc::new(CertifiedKey::new(chain, key)) }), Arc::new(trust))
    });
    (Arc::clone(credential), Arc::clone(trust))
}
