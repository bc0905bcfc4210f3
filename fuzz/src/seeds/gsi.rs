//! Chains of certificates with proxies, right ones and those that break one rule each; requests for proxies, policies, and what
//! begins a handshake. Keys of Ed25519 come from seeds and sign the same in the same way, so that the files stay as they are.

use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, CustomExtension, DistinguishedName, DnType,
    ExtendedKeyUsagePurpose, IsCa, Issuer, KeyIdMethod, KeyPair, KeyUsagePurpose, RevokedCertParams, SanType,
    SerialNumber, date_time_ymd,
};

use super::Seed;

const POLICY: &str =
    "access_id_CA X509 '/O=Grid'\npos_rights globus CA:sign\ncond_subjects globus '\"/O=Grid/*\" \"/O=Other/?*\"'\n";

/// The object identifiers of proxies: everything that the signer may do, some of it, none of it, and an unknown policy.
const FULL: &[u8] = &[0x2b, 6, 1, 5, 5, 7, 21, 1];
const INDEPENDENT: &[u8] = &[0x2b, 6, 1, 5, 5, 7, 21, 2];
const LIMITED: &[u8] = &[0x2b, 6, 1, 4, 1, 0x9b, 0x50, 1, 1, 1, 9];
const UNKNOWN: &[u8] = &[0x2b, 6, 1];

/// The extension that makes a proxy, by its standard and by its draft.
const PROXY: &[u64] = &[1, 3, 6, 1, 5, 5, 7, 1, 14];
const DRAFT: &[u64] = &[1, 3, 6, 1, 4, 1, 3536, 1, 222];

/// Somebody with a certificate.
struct Entity {
    parameters: CertificateParams,
    key: u8,
    der: Vec<u8>,
}

fn key(seed: u8) -> KeyPair {
    let head = b"\x30\x2e\x02\x01\x00\x30\x05\x06\x03\x2b\x65\x70\x04\x22\x04\x20";
    KeyPair::try_from([&head[..], &[seed; 32]].concat().as_slice()).expect("a seed")
}

fn named(parts: &[(DnType, &str)]) -> CertificateParams {
    let mut parameters = CertificateParams::new(Vec::new()).expect("no names");
    parameters.distinguished_name = DistinguishedName::new();
    parts.iter().for_each(|(kind, value)| parameters.distinguished_name.push(kind.clone(), *value));
    parameters.serial_number = Some(SerialNumber::from(7));
    parameters
}

fn signed(parameters: CertificateParams, own: u8, signer: &Entity) -> Entity {
    let issuer = Issuer::from_params(&signer.parameters, key(signer.key));
    let der = parameters.signed_by(&key(own), &issuer).expect("a right certificate").der().to_vec();
    Entity { parameters, key: own, der }
}

fn authority() -> Entity {
    let mut parameters = named(&[(DnType::OrganizationName, "Grid")]);
    parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    parameters.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let der = parameters.self_signed(&key(1)).expect("a right certificate").der().to_vec();
    Entity { parameters, key: 1, der }
}

fn somebody(name: &str, authority: &Entity) -> Entity {
    signed(named(&[(DnType::OrganizationName, "Grid"), (DnType::OrganizationalUnitName, name)]), 2, authority)
}

/// A proxy with this extension, under a name of this kind; each kind is once in a name.
fn proxy(signer: &Entity, own: u8, kind: DnType, extension: &[u64], content: Vec<u8>) -> Entity {
    let mut parameters = named(&[]);
    parameters.distinguished_name = signer.parameters.distinguished_name.clone();
    parameters.distinguished_name.push(kind, if extension.is_empty() { "proxy" } else { "1" });
    if !extension.is_empty() {
        let mut extension = CustomExtension::from_oid_content(extension, content);
        extension.set_criticality(true);
        parameters.custom_extensions.push(extension);
    }
    signed(parameters, own, signer)
}

fn element(tag: u8, content: &[u8]) -> Vec<u8> {
    [&[tag, content.len() as u8], content].concat()
}

/// proxyCertInfo of this policy; `further` is how many proxies may follow.
fn info(policy: &[u8], further: Option<u8>) -> Vec<u8> {
    let policy = element(0x30, &element(6, policy));
    element(0x30, &[further.map_or_else(Vec::new, |further| element(2, &[further])), policy].concat())
}

/// The input of the target.
fn chain(authority: &[u8], policy: &str, list: &[u8], chain: &[&Entity]) -> Vec<u8> {
    let elements = [authority, policy.as_bytes(), list].into_iter().chain(chain.iter().map(|entity| &entity.der[..]));
    elements.flat_map(|element| [&(element.len() as u16).to_be_bytes()[..], element].concat()).collect()
}

fn revoking(authority: &Entity, until: i32) -> Vec<u8> {
    let one = RevokedCertParams {
        serial_number: SerialNumber::from(7),
        revocation_time: date_time_ymd(2020, 1, 1),
        reason_code: None,
        invalidity_date: None,
    };
    let list = CertificateRevocationListParams {
        this_update: date_time_ymd(2020, 1, 1),
        next_update: date_time_ymd(until, 1, 1),
        crl_number: SerialNumber::from(1),
        issuing_distribution_point: None,
        revoked_certs: vec![one],
        key_identifier_method: KeyIdMethod::Sha256,
    };
    list.signed_by(&Issuer::from_params(&authority.parameters, key(1))).expect("a right list").der().to_vec()
}

/// Every seed.
pub(super) fn all() -> Vec<Seed> {
    let mut seeds = Vec::new();
    chains(&mut seeds);
    others(&mut seeds);
    seeds
}

fn chains(seeds: &mut Vec<Seed>) {
    let (cn, second) = (DnType::CommonName, DnType::CustomDnType(vec![2, 5, 4, 3]));
    let authority = authority();
    let anna = somebody("Anna", &authority);
    let proxy_of = |policy, further| proxy(&anna, 3, cn.clone(), PROXY, info(policy, further));
    let below = |signer: &Entity, policy| proxy(signer, 4, second.clone(), PROXY, info(policy, None));
    let (full, limited, last) = (proxy_of(FULL, None), proxy_of(LIMITED, None), proxy_of(FULL, Some(0)));
    let with_times = |from, until| {
        let mut parameters = anna.parameters.clone();
        (parameters.not_before, parameters.not_after) = (date_time_ymd(from, 1, 1), date_time_ymd(until, 1, 1));
        signed(parameters, 2, &authority)
    };
    let mut host = named(&[
        (DnType::OrganizationName, "Grid"),
        (DnType::CommonName, "host/host.example"),
        (DnType::CountryName, "XX"),
    ]);
    host.subject_alt_names = vec![SanType::DnsName("host.example".try_into().expect("a name"))];
    host.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let host = signed(host, 2, &authority);
    let mut bare_host = named(&[(DnType::OrganizationName, "Grid"), (DnType::CommonName, "host/host.example")]);
    bare_host.key_usages = vec![KeyUsagePurpose::KeyEncipherment];
    let bare_host = signed(bare_host, 2, &authority);
    let mut add = |name: &str, chain_of: &[&Entity]| {
        seeds.push(("gsi-chain", name.to_owned(), chain(&authority.der, POLICY, &[], chain_of)));
    };
    add("user", &[&anna]);
    add("host", &[&host]);
    add("host-by-name", &[&bare_host]);
    add("proxy", &[&full, &anna]);
    add("limited", &[&below(&full, LIMITED), &full, &anna]);
    add("independent", &[&below(&proxy_of(INDEPENDENT, None), FULL), &proxy_of(INDEPENDENT, None), &anna]);
    add("widened", &[&below(&limited, FULL), &limited, &anna]);
    add("too-deep", &[&below(&last, FULL), &last, &anna]);
    add("unknown-policy", &[&proxy_of(UNKNOWN, None), &anna]);
    add("bad-info", &[&proxy(&anna, 3, cn.clone(), PROXY, vec![0x30, 2, 5, 0]), &anna]);
    add("draft", &[&proxy(&anna, 3, cn.clone(), DRAFT, info(FULL, None)), &anna]);
    add("old", &[&proxy(&anna, 3, cn.clone(), &[], Vec::new()), &anna]);
    add("nameless", &[&proxy(&anna, 3, DnType::LocalityName, PROXY, info(FULL, None)), &anna]);
    add("no-end", &[&full]);
    add("many", &[&full; 20]);
    add("wrong-signer", &[&full, &host]);
    add("wrong-key", &[&full, &signed(anna.parameters.clone(), 5, &authority)]);
    add("of-authority", &[&proxy(&authority, 3, cn.clone(), PROXY, info(FULL, None)), &authority]);
    add("of-bare-host", &[&proxy(&bare_host, 3, second.clone(), PROXY, info(FULL, None)), &bare_host]);
    add("expired", &[&with_times(1990, 2001)]);
    add("early", &[&with_times(2090, 2091)]);
    let mut odd = named(&[(DnType::OrganizationName, "Grid"), (DnType::CustomDnType(vec![2, 5, 4, 99]), "a\nb")]);
    odd.distinguished_name.push(DnType::LocalityName, rcgen::DnValue::BmpString("\u{e4}".try_into().expect("letters")));
    add("odd-name", &[&signed(odd, 2, &authority)]);
    let mut with = |name: &str, authority: &[u8], policy: &str, list: &[u8], chain_of: &[&Entity]| {
        seeds.push(("gsi-chain", name.to_owned(), chain(authority, policy, list, chain_of)));
    };
    with("revoked", &authority.der, POLICY, &revoking(&authority, 4000), &[&anna]);
    with("old-list", &authority.der, POLICY, &revoking(&authority, 2021), &[&anna]);
    with("no-list", &authority.der, POLICY, b"nothing", &[&anna]);
    with("no-policy", &authority.der, "", &[], &[&anna]);
    with("other-policy", &authority.der, &POLICY.replace("Grid/*", "Elsewhere/*"), &[], &[&anna]);
    with("no-authority", b"nothing", POLICY, &[], &[&anna]);
    with("other-authority", &signed(authority.parameters.clone(), 6, &authority).der, POLICY, &[], &[&anna]);
    with("own-authority", &authority.der, POLICY, &[], &[&authority]);
}

fn others(seeds: &mut Vec<Seed>) {
    let mut plain = named(&[]);
    plain.serial_number = None;
    let request = plain.serialize_request(&key(9)).expect("a right request").der().to_vec();
    let mut forged = request.clone();
    *forged.last_mut().expect("a signature") ^= 1;
    for (name, bytes) in [
        ("right", request.clone()),
        ("forged", forged),
        ("cut", request[..40].to_vec()),
        ("head", vec![0x30, 0x82, 1]),
        ("short", vec![0x30, 0x81, 1, 0]),
        ("none", b"hello".to_vec()),
        ("endless", vec![0x30, 0x84, 1, 0, 0, 0]),
        ("long", vec![0x30, 0x82, 0x7f, 0xff]),
    ] {
        seeds.push(("gsi-request", name.to_owned(), bytes.clone()));
        // Behind the flag, from the end that was connected to.
        let pieces = [&[0xfc, 0], &bytes[..]].concat();
        seeds.push(("gsi-inside", format!("request-{name}"), pieces));
    }
    for (name, bytes) in
        [("no-delegation", &b"\x010"[..]), ("delegation", b"\x01D"), ("flag", b"\x00x"), ("more", b"\xfd0more")]
    {
        seeds.push(("gsi-inside", name.to_owned(), bytes.to_vec()));
    }
    // Streams that are open, whole and damaged.
    let long = [&[0x16][..], &[7; 5000]].concat();
    for (name, bytes) in [("open", b"\xfetext".to_vec()), ("open-long", long), ("damaged", b"\xfftext".to_vec())] {
        seeds.push(("gsi-inside", name.to_owned(), bytes));
    }
    for (name, text) in [
        ("right", format!("{POLICY}\0/O=Grid\0/O=Grid/OU=Anna")),
        ("other", format!("{POLICY}\0/O=Other\0/O=Grid/OU=Anna")),
        ("not-permitted", format!("# comment\n{POLICY}\0/O=Grid\0/O=Else/E=a")),
        ("stars", "access_id_CA X509 /A\npos_rights globus CA:sign\ncond_subjects globus *a*?b\0/A\0/xab".to_owned()),
        ("quotes", "access_id_CA X509 \"/A\"\npos_rights x y\ncond_subjects globus \"'/B' '/C\0/A\0/B".to_owned()),
    ] {
        seeds.push(("gsi-policy", name.to_owned(), text.into_bytes()));
    }
    for (name, bytes) in [
        ("no-tls", b"\0GET / HTTP/1.1\r\n"[..].to_vec()),
        ("token", b"\0\0\0\x01\0\x16\x03\x01"[..].to_vec()),
        ("version", vec![1, 22, 2, 0, 0, 1, 0]),
        ("long", vec![0, 22, 3, 1, 0x41, 1]),
        ("alert", vec![1, 21, 3, 3, 0, 2, 2, 42]),
        ("data", vec![0, 23, 3, 3, 0, 1, 0]),
    ] {
        seeds.push(("gsi-stream", name.to_owned(), bytes));
    }
}
