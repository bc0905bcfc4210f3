//! Both ends of an opening, fed with anything: in clear from the first byte on, and inside TLS, where somebody who has the
//! keys says what he likes. Nobody is let in who did not log in, no opening goes on for ever, and none asks for more bytes
//! than a message may have.

use std::sync::{Arc, OnceLock};
use xdfs_engine::opening::{
    ClientOpening, ClientStep, OpeningContext, OpeningStep, ServerOpened, ServerOpening, SessionRequest,
};
use xdfs_proto::base::Level;
use xdfs_proto::wire::handshake::Open;
use xdfs_proto::wire::preface::{ClientPreface, Continuation, ServerPreface, Status};
use xdfs_secure::handshake::tls::{Certificates, ClientTls, HostIdentity, ServerIdentity, ServerStart, Stream};
use xdfs_secure::identity::KeyPair;
use xdfs_secure::login::Offered;
use xdfs_secure::policy::VisitorsOnly;

/// Most bytes that an end may ask for at once: a TLS record with its head.
const WANT_MAX: usize = 5 + 16_384 + 256;
/// Steps of an opening: more than any has, and few enough to see one that turns in a circle.
const STEPS_MAX: usize = 200;

/// One server, whose key is always the same. It lets nobody in.
fn gate() -> &'static OpeningContext {
    static GATE: OnceLock<OpeningContext> = OnceLock::new();
    GATE.get_or_init(|| {
        let host = HostIdentity::new(KeyPair::from_seed(&[7; 32]).expect("a seed"));
        let identity = ServerIdentity::new(&host).expect("an identity");
        OpeningContext { identity: Arc::new(identity), directory: Arc::new(VisitorsOnly(false)) }
    })
}

/// What the two ends say in clear, without faults.
pub(crate) fn prefaces() -> [u8; 16] {
    let client = ClientPreface::of(Continuation::Tls).encode();
    let server = ServerPreface { status: Status::Available, version: 1, start: Continuation::Tls as u8 }.encode();
    let mut both = [0; 16];
    both[..8].copy_from_slice(&client);
    both[8..].copy_from_slice(&server);
    both
}

/// A server that hears bytes in clear.
pub(super) fn server(input: &[u8]) {
    let (mut opening, mut want) = ServerOpening::start(gate().clone(), "192.0.2.1".into(), [1; 18]);
    let mut rest = input;
    for _ in 0..STEPS_MAX {
        assert!((1..=WANT_MAX).contains(&want), "{want} bytes are wanted");
        let Some((now, later)) = rest.split_at_checked(want) else { return };
        rest = later;
        match opening.on_bytes(now) {
            OpeningStep::Go { want: next, .. } => want = next,
            OpeningStep::Done(ServerOpened::Open { .. }) => panic!("nobody logged in"),
            OpeningStep::Done(_) => return,
        }
    }
    panic!("an opening that does not end");
}

/// Takes what an end wants out of what the other one has said; false where there is not enough.
fn take(said: &mut Vec<u8>, want: usize, give: impl FnOnce(&[u8]) -> bool) -> bool {
    assert!((1..=WANT_MAX).contains(&want), "{want} bytes are wanted");
    if said.len() < want {
        return false;
    }
    let now: Vec<u8> = said.drain(..want).collect();
    give(&now)
}

/// A server that hears bytes inside TLS, from somebody whose handshake was right.
pub(super) fn server_inside(input: &[u8]) {
    let (mut opening, mut want) = ServerOpening::start(gate().clone(), "192.0.2.1".into(), [1; 18]);
    let (_, mut tls) = ClientTls::start("localhost", &Certificates::Raw).expect("a client");
    let mut up = [ClientPreface::of(Continuation::Tls).encode().to_vec(), tls.output()].concat();
    let (mut down, mut said) = (Vec::new(), false);
    for _ in 0..STEPS_MAX {
        let mut done = false;
        let heard = take(&mut up, want, |now| {
            match opening.on_bytes(now) {
                OpeningStep::Go { send, want: next } => {
                    down.extend(send);
                    want = next;
                }
                OpeningStep::Done(ServerOpened::Open { .. }) => panic!("nobody logged in"),
                OpeningStep::Done(_) => done = true,
            }
            true
        });
        if done {
            return;
        }
        if heard {
            continue;
        }
        // The client's turn: its half of the handshake, then the input, once.
        if down.len() >= 8 && tls.is_handshaking() && !said {
            down.drain(..8);
            said = true;
        }
        let listens = take(&mut down, tls.want(), |now| tls.on_bytes(now).is_ok());
        let speaks = !tls.is_handshaking() && said && !input.is_empty();
        if speaks && tls.received().len() >= 4 {
            tls.received().clear();
            if tls.send(&input[..input.len().min(60_000)]).is_err() {
                return;
            }
        }
        up.extend(tls.output());
        if !listens && up.is_empty() {
            return;
        }
    }
    panic!("an opening that does not end");
}

/// The server's half of a connection on which TLS stands.
struct Liar {
    start: Option<ServerStart>,
    stream: Option<Stream>,
}

impl Liar {
    fn want(&self) -> usize {
        match (&self.start, &self.stream) {
            (Some(start), _) => start.want(),
            (None, Some(stream)) => stream.want(),
            (None, None) => 1,
        }
    }

    /// False where it can go no further.
    fn on_bytes(&mut self, bytes: &[u8]) -> bool {
        if let Some(mut start) = self.start.take() {
            return match start.on_bytes(bytes, &gate().identity) {
                Ok(None) => {
                    self.start = Some(start);
                    true
                }
                Ok(Some(stream)) => {
                    self.stream = Some(stream);
                    true
                }
                Err(_) => false,
            };
        }
        self.stream.as_mut().is_some_and(|stream| stream.on_bytes(bytes).is_ok())
    }
}

/// A client that hears bytes inside TLS, from a server that has the right key.
pub(super) fn client_inside(input: &[u8]) {
    let wishes = SessionRequest {
        open: wishes(),
        host: "localhost".into(),
        certificates: Certificates::Raw,
        user: "ada".into(),
        offers: vec![Offered::Key(KeyPair::from_seed(&[2; 32]).expect("a seed").public()), Offered::Anonymous],
        nonce: [7; 18],
    };
    let (mut opening, mut step) = ClientOpening::start(wishes).expect("a client");
    let mut liar = Liar { start: Some(ServerStart::default()), stream: None };
    let (mut up, mut down, mut said) = (Vec::new(), prefaces()[8..].to_vec(), false);
    let mut skip = 8;
    for _ in 0..STEPS_MAX {
        let want = match step {
            ClientStep::Go { send, want } => {
                up.extend(send);
                want
            }
            ClientStep::Judge(_) => {
                step = opening.on_judged().expect("it was asked");
                continue;
            }
            ClientStep::Sign { .. } => {
                let Ok(next) = opening.on_signature(Some([1; 64])) else { return };
                step = next;
                continue;
            }
            ClientStep::Stretch(_) => panic!("no password was offered"),
            // An ACCEPT is an ACCEPT, from whoever has the server's key.
            ClientStep::Done { .. } => return,
        };
        let before = up.len().min(skip);
        up.drain(..before);
        skip -= before;
        while take(&mut up, liar.want(), |now| liar.on_bytes(now)) {}
        if let Some(stream) = &mut liar.stream {
            if !said {
                said = true;
                if stream.send(&input[..input.len().min(60_000)]).is_err() {
                    return;
                }
            }
            down.extend(stream.output());
        }
        assert!((1..=WANT_MAX).contains(&want), "{want} bytes are wanted");
        if down.len() < want {
            return;
        }
        let now: Vec<u8> = down.drain(..want).collect();
        match opening.on_bytes(&now) {
            Ok(next) => step = next,
            Err(error) => return assert!(!error.to_string().is_empty()),
        }
    }
    panic!("an opening that does not end");
}

/// What a client asks for.
pub(crate) fn wishes() -> Open {
    Open {
        prefaces: prefaces(),
        features: 0,
        channels: 4,
        pipelines: 1,
        window: 0,
        block: 0,
        level: Level::Private,
        stall_ms: 0,
        label: [9; 16],
        suites: vec![1, 2],
        login: 0,
        credentials: Vec::new(),
        options: Vec::new(),
        first: None,
    }
}
