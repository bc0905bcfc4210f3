//! Idle pipelines of a server over a simulated network, with a client's machine at the other end.

use super::*;
use std::time::Duration;
use xdfs_io::dispatch::{Completion, Faults, Network, Sim, SimLink};
use xdfs_proto::base::{KeyLimits, PipelineId, SessionId};
use xdfs_proto::session::{Role, SessionLimits};
use xdfs_proto::wire::notice::Changes;
use xdfs_secure::keys::{ChannelKeys, GrantSecret, JoinSecret, Role as KeyRole};

/// A server's idle pipeline, and its client.
struct Pair {
    server: Sim,
    idle: IdlePipeline,
    /// Channels of the server by their socket.
    sockets: Vec<(ChannelId, SocketId)>,
    client: Sim,
    machine: Session,
    ends: BTreeMap<ChannelId, (SocketId, RecordLayer)>,
}

fn layer(channel: ChannelId, role: KeyRole) -> RecordLayer {
    let (secret, grant) = (JoinSecret::new(&[5; 32]), GrantSecret::new(&[6; 32]));
    let keys = ChannelKeys::derive(&secret, &grant, SessionId([7; 16]), channel).unwrap().for_role(role);
    RecordLayer::new(keys.seal, keys.open, KeyLimits::default()).unwrap()
}

fn machine(role: Role) -> Session {
    Session::new(role, PipelineId(0), SessionLimits::default())
}

fn lost() -> Error {
    Error::new(ErrorKind::ConnectionLost, "cut")
}

fn noticed(name: &str) -> Vec<Notice> {
    vec![Notice { watch: 1, changes: Changes::CONTENT, name: name.as_bytes().to_vec() }]
}

impl Pair {
    /// A pipeline whose thread had these channels.
    fn new(channels: u16) -> Self {
        let network = Network::new(7, Faults::default());
        let (mut server, mut client) = (Sim::new(&network).unwrap(), Sim::new(&network).unwrap());
        let (mut session, mut machine) = (machine(Role::Server), machine(Role::Client));
        let (mut of_thread, mut ends) = (Vec::new(), BTreeMap::new());
        for channel in (1..=channels).map(ChannelId) {
            let (here, there) = network.pair();
            session.on_channel(channel, server.now());
            machine.on_channel(channel, client.now());
            of_thread.push(of_thread_at(channel, here, Vec::new()));
            ends.insert(channel, (client.attach(there, &[]).unwrap(), layer(channel, KeyRole::Client)));
        }
        let (idle, resumed) = IdlePipeline::resume(&mut server, Pipeline { session, channels: of_thread });
        assert!(resumed.lost.is_empty());
        Self { server, idle, sockets: resumed.sockets, client, machine, ends }
    }

    fn channel_of(&self, of: SocketId) -> ChannelId {
        self.sockets.iter().find_map(|(channel, socket)| (*socket == of).then_some(*channel)).unwrap()
    }

    /// The client sends all that its machine has to say.
    fn client_speaks(&mut self) {
        let now = self.client.now();
        while let Some(output) = self.machine.poll(now) {
            let Output::Send { channel, head, payload: Payload::Control(payload) } = output else { continue };
            let (socket, records) = self.ends.get_mut(&channel).unwrap();
            control::send(&mut self.client, *socket, &mut records.sealer, &head, &payload).unwrap();
        }
    }

    /// The next input of the server.
    fn next(&mut self) -> Completion<SimLink> {
        for _ in 0..100 {
            match self.server.next(None).unwrap() {
                Completion::Deadline => drop(self.client.next(None).unwrap()),
                completion => return completion,
            }
        }
        panic!("nothing arrives")
    }

    /// The same, passed to the pipeline.
    fn step(&mut self) -> IdleStep {
        match self.next() {
            Completion::Head { socket, head } => {
                let channel = self.channel_of(socket);
                self.idle.on_head(&mut self.server, channel, head)
            }
            Completion::Small { socket, bytes } => {
                let channel = self.channel_of(socket);
                self.idle.on_bytes(&mut self.server, channel, &bytes)
            }
            Completion::Sent { socket, .. } => {
                let channel = self.channel_of(socket);
                self.idle.on_sent(&self.server, channel);
                IdleStep::Poll
            }
            other => panic!("{other:?}"),
        }
    }

    fn events(&mut self) -> Vec<IdleEvent> {
        std::iter::from_fn(|| self.idle.poll(&mut self.server)).collect()
    }

    /// Long after whatever was to happen.
    fn much_later(&self) -> Instant {
        self.server.now().after(Duration::from_secs(3600))
    }
}

fn of_thread_at(channel: ChannelId, link: SimLink, unread: Vec<u8>) -> PipelineChannel<SimLink> {
    let records = layer(channel, KeyRole::Server);
    PipelineChannel { channel, link, unread, records, known: true, farewell: None }
}

#[test]
fn a_client_that_ends_its_session_is_answered_without_a_thread() {
    let mut pair = Pair::new(1);
    pair.machine.close();
    pair.client_speaks();
    assert!(matches!(pair.step(), IdleStep::Wait) && !pair.idle.is_closing());
    assert!(pair.idle.is_late(pair.much_later()), "the rest of the record is not waited for without end");
    assert!(matches!(pair.step(), IdleStep::Poll) && pair.idle.is_closing());
    assert!(pair.events().is_empty() && !pair.idle.may_move());
    assert!(matches!(pair.step(), IdleStep::Poll));
    let (socket, events) = (pair.sockets[0].1, pair.events());
    assert!(
        matches!(&events[..], [IdleEvent::Closed { socket: closed }, IdleEvent::Over { error: None }] if *closed == socket)
    );
}

#[test]
fn any_other_record_is_left_to_a_thread() {
    let mut pair = Pair::new(1);
    pair.machine.want_channels(3);
    pair.client_speaks();
    assert!(!pair.idle.has_work());
    assert!(matches!(pair.step(), IdleStep::Start) && pair.idle.has_work() && pair.idle.may_move());
    let Pair { mut server, idle, .. } = pair;
    let pipeline = idle.into_pipeline(&mut server);
    let unread = &pipeline.channels[0].unread;
    let head = Record::decode(*unread.first_chunk().unwrap()).unwrap().head;
    assert_eq!(head.event, Event::Channels as u8);
    assert!(pipeline.channels[0].known);
}

#[test]
fn an_end_with_a_wrong_tag_costs_its_channel_and_the_last_one_the_session() {
    let mut pair = Pair::new(2);
    for (_, records) in pair.ends.values_mut() {
        *records = layer(ChannelId(9), KeyRole::Client);
    }
    pair.machine.close();
    pair.client_speaks();
    let mut losses = Vec::new();
    for _ in 0..4 {
        match pair.step() {
            IdleStep::Wait => {}
            IdleStep::Lost(loss) => losses.push(loss),
            other => panic!("{other:?}"),
        }
    }
    assert!(
        matches!(&losses[..], [ChannelLoss::Reported, ChannelLoss::Last(error)] if error.to_string().contains("tag"))
    );
}

#[test]
fn an_end_that_was_none_is_waited_for_no_longer() {
    let mut pair = Pair::new(2);
    pair.machine.close();
    pair.client_speaks();
    let Completion::Head { socket, head } = pair.next() else { panic!("the end of a channel") };
    let channel = pair.channel_of(socket);
    assert!(matches!(pair.idle.on_head(&mut pair.server, channel, head), IdleStep::Wait));
    assert!(pair.idle.is_late(pair.much_later()));
    let loss = pair.idle.on_ended(&mut pair.server, channel, lost());
    assert!(matches!(loss, ChannelLoss::Reported) && !pair.idle.is_late(pair.much_later()));
}

#[test]
fn a_lost_channel_is_told_when_there_is_something_to_tell_and_nobody_leaves_for_it() {
    let mut pair = Pair::new(2);
    let loss = pair.idle.on_ended(&mut pair.server, ChannelId(2), lost());
    assert!(matches!(loss, ChannelLoss::Reported));
    pair.idle.notice(noticed("a"), pair.server.now());
    let events = pair.events();
    assert!(matches!(&events[..], [IdleEvent::Lost { channel: ChannelId(2), closing: false, .. }]));
    assert!(!pair.idle.is_late(pair.much_later()));
    let loss = pair.idle.on_ended(&mut pair.server, ChannelId(1), lost());
    assert!(matches!(loss, ChannelLoss::Last(error) if error == lost()));
}

#[test]
fn a_channel_that_joined_and_broke_is_none_of_the_machines() {
    let mut pair = Pair::new(1);
    let (here, _there) = pair.server.link(pair.sockets[0].1).network().pair();
    let socket = pair.server.attach(here, &[]).unwrap();
    pair.idle.join(&mut pair.server, socket, ChannelId(2), layer(ChannelId(2), KeyRole::Server));
    let loss = pair.idle.on_ended(&mut pair.server, ChannelId(2), lost());
    assert!(matches!(loss, ChannelLoss::Unreported) && pair.events().is_empty());
}

#[test]
fn the_loss_of_the_only_known_channel_leaves_one_that_joined() {
    let mut pair = Pair::new(1);
    let (here, _there) = pair.server.link(pair.sockets[0].1).network().pair();
    let socket = pair.server.attach(here, &[]).unwrap();
    pair.idle.join(&mut pair.server, socket, ChannelId(2), layer(ChannelId(2), KeyRole::Server));
    let loss = pair.idle.on_ended(&mut pair.server, ChannelId(1), lost());
    assert!(matches!(loss, ChannelLoss::Reported));
    pair.idle.notice(noticed("a"), pair.server.now());
    let events = pair.events();
    assert!(matches!(&events[..], [IdleEvent::Lost { channel: ChannelId(1), closing: false, .. }]));
    assert!(pair.idle.has_channels() && !pair.idle.may_move());
}

#[test]
fn who_takes_no_notice_is_deaf_after_the_stall_deadline() {
    let mut pair = Pair::new(1);
    let (now, stall) = (pair.server.now(), SessionLimits::default().stall);
    pair.idle.notice(noticed("a"), now);
    assert!(pair.events().is_empty() && !pair.idle.may_move());
    assert!(!pair.idle.is_deaf(now) && pair.idle.is_deaf(now.after(stall)));
    assert!(matches!(pair.step(), IdleStep::Poll));
    assert!(pair.idle.may_move() && !pair.idle.is_deaf(now.after(stall)));
}

/// More bytes read ahead than a dispatcher takes: it refuses such a channel.
fn too_much() -> Vec<u8> {
    vec![0; 1 << 20]
}

#[test]
fn a_channel_that_cannot_be_watched_is_lost() {
    let network = Network::new(7, Faults::default());
    let mut server = Sim::new(&network).unwrap();
    let resume = |server: &mut Sim, unread: [(Vec<u8>, bool); 3]| {
        let mut session = machine(Role::Server);
        let mut channels = Vec::new();
        for (number, (unread, known)) in unread.into_iter().enumerate() {
            let mut channel = of_thread_at(ChannelId(number as u16 + 1), network.pair().0, unread);
            channel.known = known;
            if known {
                session.on_channel(channel.channel, server.now());
            }
            channels.push(channel);
        }
        IdlePipeline::resume(server, Pipeline { session, channels })
    };
    // The machine reports those that it knew, as soon as there is something to tell.
    let some = [(too_much(), true), (too_much(), false), (Vec::new(), true)];
    let (mut idle, resumed) = resume(&mut server, some);
    assert!(matches!(&resumed.lost[..], [ChannelLoss::Reported, ChannelLoss::Unreported]));
    assert!(matches!(&resumed.sockets[..], [(ChannelId(3), _)]));
    idle.notice(noticed("a"), server.now());
    let events: Vec<_> = std::iter::from_fn(|| idle.poll(&mut server)).collect();
    assert!(matches!(&events[..], [IdleEvent::Lost { channel: ChannelId(1), .. }]));
    // Without any channel the session is over.
    let (_, resumed) = resume(&mut server, [(too_much(), true), (too_much(), true), (too_much(), true)]);
    assert!(resumed.sockets.is_empty());
    assert!(resumed.lost.iter().all(|loss| matches!(loss, ChannelLoss::Last(_))));
}

#[test]
fn channels_are_granted_without_a_thread() {
    let mut pair = Pair::new(1);
    let grant = ChannelGrant { first: 2, count: 1, secret: [1; 32], life_ms: 1000 };
    pair.idle.give_channels(grant, pair.server.now());
    assert!(pair.events().is_empty() && !pair.idle.may_move());
    assert!(matches!(pair.step(), IdleStep::Poll) && pair.idle.may_move());
}
