//! Seeds of what is read besides the wire's messages: good ones, and such that break one rule each.

use super::Seed;
use crate::target::{prefaces, wishes};
use xdfs_proto::base::{Error, ErrorKind, Level, SessionId, Suite};
use xdfs_proto::wire::control::ChannelGrant;
use xdfs_proto::wire::handshake::{Accept, ExtendedOption, Hello, MessageType, Open, encode_refusal, frame};
use xdfs_proto::wire::login::LoginKind;
use xdfs_secure::handshake::tls::{Certificates, ClientTls};
use xdfs_secure::identity::openssh::{write_private, write_public};
use xdfs_secure::identity::{KeyPair, write_token};

pub(super) fn all() -> Vec<Seed> {
    let mut seeds = Vec::new();
    scram(&mut seeds);
    keys(&mut seeds);
    hosts(&mut seeds);
    configurations(&mut seeds);
    openings(&mut seeds);
    seeds
}

fn add(seeds: &mut Vec<Seed>, target: &'static str, texts: &[(&str, &str)]) {
    seeds.extend(texts.iter().map(|(name, text)| (target, (*name).to_owned(), text.as_bytes().to_vec())));
}

/// The first byte says which message it is.
fn scram(seeds: &mut Vec<Seed>) {
    let nonce = "0123456789abcdef";
    let long = "x".repeat(257);
    let client_first = [
        ("first", format!("p=tls-exporter,,n=ada,r={nonce}")),
        ("first-escaped", format!("p=tls-exporter,,n=a=2Cb=3D,r={nonce}")),
        ("first-bad-escape", format!("p=tls-exporter,,n=a=2,r={nonce}")),
        ("first-other-escape", format!("p=tls-exporter,,n=a=41,r={nonce}")),
        ("first-unbound", format!("n,,n=ada,r={nonce}")),
        ("first-nobody", format!("p=tls-exporter,,n=,r={nonce}")),
        ("first-short-nonce", "p=tls-exporter,,n=ada,r=short".to_owned()),
        ("first-more", format!("p=tls-exporter,,n=ada,r={nonce},x=y")),
        ("first-long", format!("p=tls-exporter,,n={long},r={nonce}")),
        ("first-latin", format!("p=tls-exporter,,n=ad\u{e9},r={nonce}")),
    ];
    let challenge = [
        ("challenge", "r=noncemore,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=600000"),
        ("challenge-few", "r=noncemore,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"),
        ("challenge-many", "r=noncemore,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4294967295"),
        ("challenge-no-number", "r=noncemore,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=x"),
        ("challenge-foreign", "r=other,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=600000"),
        ("challenge-no-salt", "r=noncemore,s=!,i=600000"),
        ("challenge-cut", "r=noncemore,s=W22ZaJ0SNY7soEsUEjb6gQ=="),
    ];
    let last = [
        ("final", "c=cD10,r=noncemore,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="),
        ("final-short", "c=cD10,r=noncemore,p=AAAA"),
        ("final-no-base64", "c=cD10,r=noncemore,p=?"),
        ("final-cut", "c=cD10,r=noncemore"),
    ];
    let server =
        [("verifier", "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="), ("error", "e=other-error"), ("bad", "v=?")];
    let mut put = |which: u8, name: &str, text: &str| {
        seeds.push(("scram", name.to_owned(), [&[which], text.as_bytes()].concat()));
    };
    client_first.iter().for_each(|(name, text)| put(0, name, text));
    challenge.iter().for_each(|(name, text)| put(1, name, text));
    last.iter().for_each(|(name, text)| put(2, name, text));
    server.iter().for_each(|(name, text)| put(3, name, text));
    put(0, "no-utf8", "");
    seeds.push(("scram", "no-text".to_owned(), vec![0, b'p', 0xff]));
}

fn keys(seeds: &mut Vec<Seed>) {
    let key = KeyPair::from_seed(&[5; 32]).expect("a seed");
    let token = write_token(&key);
    let text = |text: String| text.into_bytes();
    let public = write_public(&key.public(), "ada@laptop").expect("a line");
    let private = write_private(&key, "ada@laptop").expect("a file");
    let rsa = "ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAAAgQC7 bob@old";
    let mut put = |target, name: &str, bytes: Vec<u8>| seeds.push((target, name.to_owned(), bytes));
    put("token", "token", text((*token).clone()));
    put("token", "spaced", text(format!(" {}\n", *token)));
    put("token", "cut", token.as_bytes()[..40].to_vec());
    put("token", "long", text(format!("{}A", *token)));
    put("token", "no-prefix", text(token[11..].to_owned()));
    put("token", "prefix", text("xdfs-token-".to_owned()));
    put("keys", "public", text(public.clone()));
    put("keys", "private", private.as_bytes().to_vec());
    put("keys", "private-cut", private.as_bytes()[..200].to_vec());
    put("keys", "authorized", text(format!("# who may\n\n{public}\n{rsa}\n{public}")));
    put("keys", "authorized-options", text(format!("restrict,command=\"x\" {public}")));
    put("keys", "authorized-nonsense", text("hello world".to_owned()));
    put("keys", "authorized-bad-line", text("ssh-ed25519 AAAA".to_owned()));
    put("keys", "rsa", text(rsa.to_owned()));
    put("keys", "comment-control", text(format!("{public}\u{1b}[2J {}", "long ".repeat(60))));
    for (name, kind) in [("pem", "RSA PRIVATE KEY"), ("pkcs8", "PRIVATE KEY"), ("ec", "EC PRIVATE KEY")] {
        put("keys", name, text(format!("-----BEGIN {kind}-----\nAAAA\n-----END {kind}-----\n")));
    }
    put("keys", "no-text", vec![0xff; 40]);
    let folder = crate::corpus::home().join("../crates/secure/tests/keys");
    for name in ["locked.key", "ecdsa.key", "rsa.key", "ecdsa.pub"] {
        put("keys", &name.replace('.', "-"), std::fs::read(folder.join(name)).unwrap_or_default());
    }
}

fn hosts(seeds: &mut Vec<Seed>) {
    let key = "SHA256:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU";
    let lines = [
        ("two", format!("# Servers\n\nfiles.example:2799 {key} 1700000000\n[2001:db8::1]:2799 {key} 0\n")),
        ("again", format!("a:1 {key} 1\na:1 {key} 2\n")),
        ("large-letters", format!("A:1 {key} 1\n")),
        ("no-port", format!("a {key} 1\n")),
        ("far-port", format!("a:65536 {key} 1\n")),
        ("no-key", "a:1 SHA256:x 1\n".to_owned()),
        ("other-hash", format!("a:1 {} 1\n", key.replace("SHA256", "MD5"))),
        ("more", format!("a:1 {key} 1 x\n")),
        ("cut", format!("a:1 {key}")),
    ];
    lines.iter().for_each(|(name, text)| add(seeds, "known-hosts", &[(name, text)]));
}

fn configurations(seeds: &mut Vec<Seed>) {
    let full = "listen = \"0.0.0.0:2799\"\nstate = \"/var/lib/xdfs\"\nmin-protection = \"integrity\"\n\
        suites = [\"aes-256-gcm\"]\nconfinement = \"required\"\n[limits]\nsessions = 100\nidle-seconds = 60\n\
        channels = 64\n[log]\naudit = \"audit.jsonl\"\nquiet = true\n[exports.data]\ndirectory = \"/srv/data\"\n\
        users = [\"alice\", \"bob\"]\nmin-protection = \"private\"\n[exports.in]\ndirectory = \"incoming\"\n\
        anonymous = \"create\"\n[exports.pub]\ndirectory = \"memory:\"\naccess = \"ro\"\nanonymous = \"ro\"\n\
        keep = [\"modes\", \"owner\", \"acl\", \"xattr\", \"special\"]\n";
    add(
        seeds,
        "config",
        &[
            ("full", full),
            ("empty", ""),
            ("localhost", "listen = \"localhost:1\"\n[log]\naudit = \"stderr\""),
            ("off", "[log]\naudit = \"off\""),
            ("no-address", "listen = \"example.org:1\""),
            ("no-suite", "suites = []"),
            ("bad-suite", "suites = [\"rc4\"]"),
            ("bad-level", "min-protection = \"Private\""),
            ("bad-confinement", "confinement = \"no\""),
            ("bad-limit", "[limits]\nsessions = 0"),
            ("bad-channels", "[limits]\nchannels = 4097"),
            ("bad-soft", "[limits]\nlogins-soft = 300"),
            ("bad-export", "[exports.\"a/b\"]\ndirectory = \"/srv\""),
            ("no-directory", "[exports.a]\ndirectory = \"\""),
            ("bad-access", "[exports.a]\ndirectory = \"/srv\"\naccess = \"rx\""),
            ("read-only-write", "[exports.a]\ndirectory = \"/srv\"\naccess = \"ro\"\nanonymous = \"rw\""),
            ("bad-keep", "[exports.a]\ndirectory = \"/srv\"\nkeep = [\"everything\"]"),
            ("bad-anonymous", "[exports.a]\ndirectory = \"/srv\"\nanonymous = \"yes\""),
            ("certificate", "certificate = \"a.pem\"\ncertificate-key = \"a.key\""),
            ("no-certificate-key", "certificate = \"a.pem\""),
            ("no-certificate", "certificate-key = \"a.key\""),
            ("unknown", "listne = 1"),
            ("no-toml", "exports = 1\nlisten"),
        ],
    );
}

fn openings(seeds: &mut Vec<Seed>) {
    let mut put = |target, name: &str, bytes: Vec<u8>| seeds.push((target, name.to_owned(), bytes));
    let client = prefaces()[..8].to_vec();
    let hello = ClientTls::start("localhost", &Certificates::Raw).expect("a client").1.output();
    put("server-opening", "preface", client.clone());
    put("server-opening", "hello", [&client[..], &hello].concat());
    put("server-opening", "hello-cut", [&client[..], &hello[..hello.len() / 2]].concat());
    put("server-opening", "join", [&b"\x00xdfs\x01\x01\x02"[..], &[3; 66]].concat());
    put("server-opening", "no-tls", [&client[..], b"GET / HTTP/1.1\r\n\r\n"].concat());
    put("server-opening", "no-preface", b"GET / HT".to_vec());

    let first = b"p=tls-exporter,,n=ada,r=0123456789abcdef".to_vec();
    let open = |login: LoginKind, credentials: Vec<u8>| Open { login: login as u64, credentials, ..wishes() };
    let said = |open: &Open| frame(MessageType::Open, &open.encode());
    let option = ExtendedOption { key: 9, critical: true, value: vec![1] };
    put("server-inside", "anonymous", said(&open(LoginKind::Anonymous, Vec::new())));
    put("server-inside", "key", said(&open(LoginKind::Key, [&[3][..], b"ada", &[1; 96]].concat())));
    put("server-inside", "token", said(&open(LoginKind::Token, vec![1; 96])));
    put("server-inside", "password", said(&open(LoginKind::Password, first)));
    put("server-inside", "two", said(&wishes()).repeat(2));
    put("server-inside", "option", said(&Open { options: vec![option], ..wishes() }));
    put("server-inside", "downgrade", said(&Open { prefaces: [0; 16], ..wishes() }));
    put("server-inside", "proof", frame(MessageType::Proof, b"c=cD10,r=x,p=AAAA"));
    put("server-inside", "nothing", frame(MessageType::Hello, b""));

    let logins =
        |logins: u64| frame(MessageType::Hello, &Hello { prefaces: prefaces(), logins, salts: [6; 16] }.encode());
    let grant = ChannelGrant { first: 1, count: 4, secret: [8; 32], life_ms: 15_000 };
    let accept = Accept {
        prefaces: prefaces(),
        session: SessionId([4; 16]),
        features: 0,
        channels: 4,
        pipelines: 1,
        window: 0,
        block: 1 << 20,
        floor: Level::Private,
        initial_credit: 0,
        stall_ms: 30_000,
        suite: Suite::Aes256Gcm,
        grant,
        proof: Vec::new(),
        options: Vec::new(),
    };
    let accepted = |accept: &Accept| frame(MessageType::Accept, &accept.encode());
    let again = frame(MessageType::Again, &[5]);
    let refusal = Error::new(ErrorKind::Refused, "no");
    put("client-inside", "refused", [logins(15), frame(MessageType::Refuse, &encode_refusal(&refusal))].concat());
    put("client-inside", "accepted", [logins(15), accepted(&accept)].concat());
    put("client-inside", "again", [logins(15), again.clone(), accepted(&accept)].concat());
    put("client-inside", "again-and-again", [logins(15), again.clone(), again].concat());
    put("client-inside", "no-logins", logins(0));
    put(
        "client-inside",
        "downgrade",
        frame(MessageType::Hello, &Hello { prefaces: [0; 16], logins: 15, salts: [6; 16] }.encode()),
    );
    put("client-inside", "challenge", [logins(15), frame(MessageType::Challenge, b"r=x,s=AAAA,i=100000")].concat());
    put("client-inside", "more", [logins(15), accepted(&Accept { channels: 4, pipelines: 2, ..accept })].concat());
}
