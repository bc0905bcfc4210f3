//! Chains that nobody's program makes, and both ends of a handshake.

use rcgen::{
    CertificateParams, CustomExtension, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    PublicKeyData,
};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::sign::CertifiedKey;
use std::sync::Arc;
use x509_cert::der::{Any, Encode, Tag};

use super::certificate::encoded_proxy_info;
use super::delegation::delegate;
use super::trust::{Role, provider};
use super::*;

/// A time at which everything is valid: rcgen's certificates last from 1975 to 4096.
const NOW: u64 = 1_800_000_000;
const POLICY: &str =
    "access_id_CA X509 '/O=Grid/OU=CA'\npos_rights globus CA:sign\ncond_subjects globus '\"/O=Grid/*\"'\n";
const SUBJECT: &str = "/O=Grid/OU=Anna";

/// A certificate's parameters and its key.
struct Entity {
    parameters: CertificateParams,
    key: KeyPair,
    der: Vec<u8>,
}

/// What is wrong with a proxy, or not.
struct Proxy {
    kind: ProxyKind,
    /// How many may follow.
    further: Option<u8>,
    /// Its CN and the number of its attribute, since the library has each once.
    name: (DnType, &'static str),
    until: i32,
}

impl Proxy {
    fn first() -> Self {
        Self { kind: ProxyKind::Full, further: None, name: (DnType::CommonName, "1"), until: 4000 }
    }

    fn second() -> Self {
        Self { name: (DnType::CustomDnType(vec![2, 5, 4, 3]), "2"), ..Self::first() }
    }
}

fn named(parts: &[(DnType, &str)]) -> CertificateParams {
    let mut parameters = CertificateParams::new(Vec::new()).unwrap();
    parameters.distinguished_name = DistinguishedName::new();
    for (kind, value) in parts {
        parameters.distinguished_name.push(kind.clone(), *value);
    }
    parameters
}

fn authority() -> Entity {
    let mut parameters = named(&[(DnType::OrganizationName, "Grid"), (DnType::OrganizationalUnitName, "CA")]);
    parameters.is_ca = IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let key = KeyPair::generate().unwrap();
    let der = parameters.self_signed(&key).unwrap().der().to_vec();
    Entity { parameters, key, der }
}

fn signed(parameters: CertificateParams, signer: &Entity) -> Entity {
    let key = KeyPair::generate().unwrap();
    let issuer = Issuer::from_params(&signer.parameters, &signer.key);
    let der = parameters.signed_by(&key, &issuer).unwrap().der().to_vec();
    Entity { parameters, key, der }
}

fn user(authority: &Entity) -> Entity {
    signed(named(&[(DnType::OrganizationName, "Grid"), (DnType::OrganizationalUnitName, "Anna")]), authority)
}

fn proxy(of: Proxy, signer: &Entity) -> Entity {
    let mut parameters = named(&[]);
    parameters.distinguished_name = signer.parameters.distinguished_name.clone();
    let (kind, value) = of.name;
    parameters.distinguished_name.push(kind, value);
    parameters.not_after = rcgen::date_time_ymd(of.until, 1, 1);
    let mut info = encoded_proxy_info(of.kind).unwrap();
    if let Some(further) = of.further {
        info = Any::new(Tag::Sequence, [&[2, 1, further][..], &info[2..]].concat()).unwrap().to_der().unwrap();
    }
    let mut extension = CustomExtension::from_oid_content(&[1, 3, 6, 1, 5, 5, 7, 1, 14], info);
    extension.set_criticality(true);
    parameters.custom_extensions.push(extension);
    signed(parameters, signer)
}

fn trust(authority: &Entity) -> TrustStore {
    let mut trust = TrustStore::default();
    let pem = format!(
        "-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n",
        <base64ct::Base64 as base64ct::Encoding>::encode_string(&authority.der)
    );
    trust.add(pem.as_bytes(), Some(POLICY.to_owned()), &[]).unwrap();
    trust
}

fn credential(chain: &[&Entity]) -> Credential {
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(chain[0].key.serialize_der()));
    let key = provider().key_provider.load_private_key(key).unwrap();
    let chain = chain.iter().map(|entity| CertificateDer::from(entity.der.clone())).collect();
    Credential { certified: Arc::new(CertifiedKey::new(chain, key)) }
}

fn checked(authority: &Entity, chain: &[&Entity]) -> Result<Holder, GsiFault> {
    credential(chain).check(&trust(authority), Role::User, NOW)
}

#[test]
fn proxies_are_followed_to_who_stands_behind_them() {
    let authority = authority();
    let user = user(&authority);
    let first = proxy(Proxy::first(), &user);
    let second = proxy(Proxy { kind: ProxyKind::Limited, ..Proxy::second() }, &first);
    for (chain, kind) in [
        (vec![&user], ProxyKind::None),
        (vec![&first, &user], ProxyKind::Full),
        (vec![&second, &first, &user], ProxyKind::Limited),
        // The authority may stand in the chain, too.
        (vec![&first, &user, &authority], ProxyKind::Full),
    ] {
        let holder = checked(&authority, &chain).unwrap();
        assert_eq!((holder.subject.as_str(), holder.kind), (SUBJECT, kind));
    }
}

#[test]
fn a_chain_that_breaks_a_rule_is_refused_with_the_rule() {
    let authority = authority();
    let user = user(&authority);
    let other = self::user(&authority);
    let first = proxy(Proxy::first(), &user);
    let limited = proxy(Proxy { kind: ProxyKind::Limited, ..Proxy::first() }, &user);
    let wide = proxy(Proxy::second(), &limited);
    let last = proxy(Proxy { further: Some(0), ..Proxy::first() }, &user);
    let deeper = proxy(Proxy::second(), &last);
    let expired = proxy(Proxy { until: 2001, ..Proxy::first() }, &user);
    let nameless = proxy(Proxy { name: (DnType::LocalityName, "x"), ..Proxy::first() }, &user);
    let of_authority = proxy(Proxy::first(), &authority);
    let stranger = self::user(&self::authority());
    let name = |entity: &Entity| certificate::Parsed::of(&entity.der).unwrap().subject();
    let until = "2001-01-01T00:00:00Z".to_owned();
    let cases = [
        // The same name, and another key.
        (vec![&first, &other], GsiFault::ProxySignature(name(&first), SUBJECT.to_owned())),
        (vec![&first, &authority], GsiFault::ProxySignature(name(&first), "/O=Grid/OU=CA".to_owned())),
        (vec![&wide, &limited, &user], GsiFault::Widened(name(&wide))),
        (vec![&deeper, &last, &user], GsiFault::TooDeep(name(&last))),
        (vec![&expired, &user], GsiFault::Expired { subject: name(&expired), until }),
        (vec![&nameless, &user], GsiFault::ProxyName(name(&nameless))),
        (vec![&of_authority, &authority], GsiFault::NotForProxies("/O=Grid/OU=CA".to_owned())),
        (vec![&first], GsiFault::NoEnd(name(&first))),
    ];
    for (chain, fault) in cases {
        assert_eq!(checked(&authority, &chain), Err(fault));
    }
    // Nobody of this name signed it; another authority of the same name did.
    let refused = checked(&authority, &[&stranger]).unwrap_err();
    assert_eq!(refused.to_string(), "'/O=Grid/OU=Anna' is not accepted: it was not signed by '/O=Grid/OU=CA'");
    // Whatever byte of a proxy changes, it is refused.
    for at in 0..first.der.len() {
        let mut damaged = Entity { der: first.der.clone(), ..self::user(&authority) };
        damaged.der[at] ^= 0x10;
        damaged.key = KeyPair::generate().unwrap();
        assert!(checked(&authority, &[&damaged, &user]).is_err(), "byte {at}");
    }
}

#[test]
fn a_proxy_is_given_for_the_key_of_a_request_and_no_further_than_the_own() {
    let authority = authority();
    let user = user(&authority);
    let limited = proxy(Proxy { kind: ProxyKind::Limited, ..Proxy::first() }, &user);
    let full = proxy(Proxy::first(), &user);
    for (chain, kind) in [
        (vec![&user], ProxyKind::Full),
        (vec![&full, &user], ProxyKind::Full),
        (vec![&limited, &user], ProxyKind::Limited),
    ] {
        let key = KeyPair::generate().unwrap();
        let request = named(&[]).serialize_request(&key).unwrap().der().to_vec();
        let own = credential(&chain);
        let der = delegate(&own, &request, 7).unwrap();
        let parsed = certificate::Parsed::of(&der).unwrap();
        assert_eq!(parsed.key().to_der().unwrap(), key.subject_public_key_info());
        let given = Entity { parameters: named(&[]), key, der };
        let with_it: Vec<&Entity> = [&given].into_iter().chain(chain).collect();
        let holder = checked(&authority, &with_it).unwrap();
        assert_eq!((holder.subject.as_str(), holder.kind), (SUBJECT, kind));
        // Without the key there is no proxy for it.
        for at in 0..request.len() {
            let mut damaged = request.clone();
            damaged[at] ^= 1;
            assert!(delegate(&own, &damaged, 7).is_err(), "byte {at}");
        }
    }
}

/// Carries tokens between two ends until both are done.
fn shake(one: &mut Handshake, other: &mut Handshake) -> Result<(), String> {
    let mut token = one.step(&[]).map_err(|(error, _)| error.to_string())?;
    while !(one.is_done() && other.is_done()) {
        let answer = other.step(&token).map_err(|(error, _)| error.to_string())?;
        token = match answer.is_empty() {
            true if other.is_done() => Vec::new(),
            _ => one.step(&answer).map_err(|(error, _)| error.to_string())?,
        };
    }
    Ok(())
}

#[test]
fn both_ends_of_a_data_channel_show_that_they_are_the_same_user() {
    let authority = authority();
    let (user, host) =
        (user(&authority), named(&[(DnType::OrganizationName, "Grid"), (DnType::OrganizationalUnitName, "Otto")]));
    let host = signed(host, &authority);
    let first = proxy(Proxy::first(), &user);
    let anna = Gsi::new(credential(&[&first, &user]), trust(&authority), NOW).unwrap();
    let otto = Gsi::new(credential(&[&host]), trust(&authority), NOW).unwrap();
    for extent in [Extent::Flagged, Extent::Whole] {
        let start = |one: &Gsi| one.initiate(&Expected::Same, extent, false).unwrap();
        let accept = |one: &Gsi| one.accept(&Expected::Same, extent).unwrap();
        shake(&mut start(&anna), &mut accept(&anna)).unwrap();
        let refused = shake(&mut start(&otto), &mut accept(&anna)).unwrap_err();
        assert!(refused.contains("the other end is '/O=Grid/OU=Anna', expected is '/O=Grid/OU=Otto'"), "{refused}");
        let refused = shake(&mut start(&anna), &mut accept(&otto)).unwrap_err();
        assert!(refused.contains("the other end is '/O=Grid/OU=Otto', expected is '/O=Grid/OU=Anna'"), "{refused}");
    }
    // Nobody delegates on a data channel, and tokens do not bring more than they should.
    let mut delegating = anna.initiate(&Expected::Same, Extent::Flagged, true).unwrap();
    let refused = shake(&mut delegating, &mut anna.accept(&Expected::Same, Extent::Flagged).unwrap()).unwrap_err();
    assert!(refused.contains("a wish to delegate"), "{refused}");
    let mut end = anna.accept(&Expected::Same, Extent::Flagged).unwrap();
    for token in [&b"GET / HTTP/1.1\r\n\r\n"[..], &[23, 3, 3, 0, 1, 0]] {
        let mut end = anna.accept(&Expected::Same, Extent::Flagged).unwrap();
        assert!(end.step(token).is_err(), "{token:?}");
    }
    assert!(end.step(&[]).is_ok_and(|output| output.is_empty()));
}

#[test]
fn a_server_that_a_user_has_started_is_known_by_its_subject_alone() {
    let authority = authority();
    let purpose = |unit: &str, purpose| {
        let mut parameters = named(&[(DnType::OrganizationName, "Grid"), (DnType::OrganizationalUnitName, unit)]);
        parameters.subject_alt_names = vec![rcgen::SanType::DnsName("host.example".try_into().unwrap())];
        parameters.extended_key_usages = vec![purpose];
        signed(parameters, &authority)
    };
    let (anna, host) =
        (purpose("Anna", ExtendedKeyUsagePurpose::ClientAuth), purpose("Host", ExtendedKeyUsagePurpose::ServerAuth));
    let client = Gsi::new(credential(&[&anna]), trust(&authority), NOW).unwrap();
    let (by_name, by_host) = (Expected::Subject(SUBJECT.to_owned()), Expected::Host("host.example".to_owned()));
    let shaken = |server: &Entity, expected: &Expected| {
        let server = Gsi::of_server(credential(&[server]), trust(&authority), NOW).unwrap();
        let mut accepting = server.accept(&Expected::Anyone, Extent::Flagged).unwrap();
        shake(&mut client.initiate(expected, Extent::Flagged, false).unwrap(), &mut accepting)
    };
    shaken(&anna, &by_name).unwrap();
    shaken(&host, &by_host).unwrap();
    let refused = shaken(&anna, &by_host).unwrap_err();
    assert!(refused.contains("'/O=Grid/OU=Anna' is not accepted: "), "{refused}");
    // Nor is a host's certificate good for a user.
    assert!(Gsi::new(credential(&[&host]), trust(&authority), NOW).is_err());
}
