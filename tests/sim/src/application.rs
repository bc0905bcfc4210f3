//! The application above the machines of both ends: it opens operations, gives some up, replaces lost channels, closes; and
//! the planned faults that wait for a moment of an operation.

use crate::disk::version_of;
use crate::network::Side;
use crate::plan::Plan;
use crate::random::Random;
use crate::schedule::{Event, Who};
use crate::simulation::Simulation;
use crate::transition::{Action, Fault, LinkPlan, Milestone, Task, When};
use crate::world::World;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use xdfs_proto::base::{ChannelId, Duration, Error, ErrorKind, OperationId};
use xdfs_proto::session::SessionEvent;
use xdfs_proto::wire::Event as WireEvent;
use xdfs_proto::wire::control::ChannelGrant;
use xdfs_proto::wire::request::{Request, Resume};

/// How far a source that is read in order reads ahead of what was acknowledged, in blocks.
const STREAM_BLOCKS: u64 = 6;

/// The application of both ends.
pub(crate) struct Application {
    random: Random,
    /// Sources that are read in order: delivered and acknowledged.
    streams: BTreeMap<usize, (u64, u64)>,
    /// Actions that were triggered.
    triggered: BTreeSet<usize>,
    /// Operations that wait for room in the session.
    waiting: VecDeque<usize>,
    /// Operations that the client has not finished with.
    unfinished: BTreeSet<usize>,
    next_channel: u16,
    replacements_left: u16,
    closing: bool,
    closed: bool,
    /// An end is gone, and whether its power with it.
    pub(crate) restart: Option<(Side, bool)>,
}

impl Application {
    pub(crate) fn new(random: Random, plan: &Plan) -> Self {
        Self {
            random,
            streams: BTreeMap::new(),
            triggered: BTreeSet::new(),
            waiting: VecDeque::new(),
            unfinished: (0..plan.operations.len()).filter(|index| !plan.operations[*index].done).collect(),
            next_channel: plan.channels + 1,
            replacements_left: plan.replacements,
            closing: false,
            closed: false,
            restart: None,
        }
    }
}

impl Simulation {
    pub(crate) fn session_event(&mut self, who: Who, event: SessionEvent) {
        match event {
            SessionEvent::Granted { operation, .. } => {
                let index = self.around.ids[&operation];
                if self.around.plan.operations[index].task == Task::UploadStream {
                    self.tell_stream(index, operation);
                }
            }
            SessionEvent::Settled { operation, outcome } if self.around.calls.has(operation) => {
                if let Err(wrong) = self.around.calls.settled(who.side, operation, &outcome) {
                    self.around.oracle.violation(|| wrong);
                }
                if who.side == Side::Client {
                    let waiting: Vec<_> = self.application.waiting.drain(..).collect();
                    waiting.into_iter().for_each(|next| self.open(next));
                }
            }
            SessionEvent::Settled { operation, outcome } => {
                let Some(index) = self.around.ids.get(&operation).copied() else {
                    return self.around.oracle.violation(|| format!("operation {operation} was never opened"));
                };
                self.around.disks[who.side.index()].close(operation);
                if who.side == Side::Server {
                    self.around.oracle.asked(index);
                }
                self.around.oracle.settled(who.side, index, outcome);
                if who.side == Side::Client {
                    self.application.unfinished.remove(&index);
                    let waiting: Vec<_> = self.application.waiting.drain(..).collect();
                    waiting.into_iter().for_each(|next| self.open(next));
                    self.close_when_done();
                }
            }
            SessionEvent::Acknowledged { operation, below } => {
                let index = self.around.ids[&operation];
                if let Some(stream) = self.application.streams.get_mut(&index) {
                    stream.1 = stream.1.max(below);
                    let (available, forgotten) = *stream;
                    self.around.disks[Side::Client.index()].stream(operation, available, forgotten);
                    self.around.schedule.add(self.around.now, Event::Stream(index));
                }
            }
            SessionEvent::ChannelLost { .. } => {
                if who.side == Side::Client && self.application.replacements_left > 0 && !self.application.closing {
                    self.application.replacements_left -= 1;
                    self.with(who, |world, around| {
                        if !world.session.is_over() {
                            world.session.want_channels(1);
                            world.pump(around);
                        }
                    });
                }
            }
            SessionEvent::ChannelsWanted { count } => self.grant(who, count),
            SessionEvent::ChannelsGranted(grant) => {
                for number in grant.first..grant.first + grant.count {
                    let delay = Duration::from_micros(self.application.random.magnitude(40, 80_000));
                    self.around
                        .schedule
                        .add(self.around.now.after(delay), Event::Join(ChannelId(number), grant.secret));
                }
            }
            SessionEvent::Over { .. } => {
                let left: Vec<_> = self.application.waiting.drain(..).collect();
                left.into_iter().for_each(|index| self.open(index));
            }
            SessionEvent::Draining { .. } | SessionEvent::Recalled { .. } | SessionEvent::Noticed { .. } => {}
        }
    }

    /// The server grants channels. Numbers are given in turns of all pipelines, so the pipeline that asked gets its own.
    fn grant(&mut self, who: Who, count: u16) {
        let pipelines = u16::from(self.around.plan.pipelines);
        let mut secret = [0; 32];
        secret[..8].copy_from_slice(&self.application.random.bits().to_be_bytes());
        let mut first = self.application.next_channel;
        while self.worlds[0].session.pipeline_of(ChannelId(first)).0 != who.pipeline {
            first += 1;
        }
        self.application.next_channel = first + count * pipelines;
        self.with(who, |world, around| {
            world.session.give_channels(ChannelGrant { first, count, secret, life_ms: 15_000 });
            world.pump(around);
        });
    }

    /// The client has connected.
    pub(crate) fn join(&mut self, channel: ChannelId, secret: &[u8; 32]) {
        let (client, server) = (self.owner(Side::Client, channel), self.owner(Side::Server, channel));
        if self.application.closed || self.worlds[client].session.is_over() {
            return;
        }
        let planned = self.around.plan.links.get(usize::from(channel.0) - 1).cloned();
        let replacement = planned.is_none();
        let link = planned.unwrap_or_else(|| LinkPlan::draw(self.around.now, &mut self.application.random));
        self.around.network.open(channel, &link);
        if link.delay >= Duration::from_millis(50) {
            self.around.oracle.struck(Fault::SlowChannel);
        }
        if replacement {
            self.around.oracle.struck(Fault::Replaced);
        } else if self.around.oracle.blocks > 0 {
            self.around.oracle.struck(Fault::LateJoin);
        }
        let early = self.application.random.chance(500);
        self.worlds[server].connect(channel, secret, false, early, &mut self.around);
        self.worlds[client].connect(channel, secret, false, early, &mut self.around);
    }

    pub(crate) fn open(&mut self, index: usize) {
        let wish = &self.around.plan.operations[index];
        let who = Who { side: Side::Client, pipeline: wish.pipeline };
        let upload = wish.sender() == Side::Client;
        if self.application.closing {
            let closed = Error::new(ErrorKind::ConnectionLost, "the application is closing");
            return self.refuse(index, closed);
        }
        let request = self.request(index);
        let place = self.place(who);
        match self.worlds[place].session.open(upload, request) {
            Ok(id) => {
                self.opened(index, id);
                self.worlds[place].pump(&mut self.around);
            }
            Err(error) if error.kind == ErrorKind::LimitExceeded => self.application.waiting.push_back(index),
            Err(error) => self.refuse(index, error),
        }
    }

    /// The first operation of all travels inside the handshake.
    pub(crate) fn open_in_handshake(&mut self) {
        let wish = &self.around.plan.operations[0];
        let (request, upload) = (self.request(0), wish.sender() == Side::Client);
        let event = if upload { WireEvent::Upload } else { WireEvent::Download };
        let payload = request.encode();
        let (client, server) = (self.owner(Side::Client, ChannelId(1)), self.owner(Side::Server, ChannelId(1)));
        let opened = self.worlds[client].session.open(upload, request);
        let Ok(id) = opened else { return self.around.oracle.violation(|| "a new session refuses".to_owned()) };
        self.worlds[client].session.opened_in_handshake(id);
        self.opened(0, id);
        if self.worlds[server].session.on_first_operation(event, &payload).is_err() {
            self.around.oracle.violation(|| "the first operation is refused".to_owned());
        }
        self.worlds[server].pump(&mut self.around);
        self.worlds[client].pump(&mut self.around);
    }

    /// The operation has its number: the source of an upload is opened, and the oracle knows.
    fn opened(&mut self, index: usize, id: OperationId) {
        let wish = self.around.plan.operations[index].clone();
        let place = self.place(Who { side: Side::Client, pipeline: wish.pipeline });
        self.around.ids.insert(id, index);
        self.around.oracle.opened(index, Ok(id));
        if wish.sender() == Side::Server {
            let credit = wish.credit_blocks * u64::from(self.around.plan.block);
            return self.around.oracle.initial_credit(id, wish.pipeline, credit);
        }
        if let Err(error) = self.around.disks[Side::Client.index()].open(id, index, &wish) {
            self.worlds[place].session.fail(id, error);
        } else if wish.task == Task::UploadStream {
            self.application.streams.insert(index, (0, 0));
            self.around.schedule.add(self.around.now, Event::Stream(index));
        }
    }

    fn request(&self, index: usize) -> Request {
        let wish = &self.around.plan.operations[index];
        Request {
            name: format!("sim/{index}").into_bytes(),
            sum: wish.task == Task::Sum,
            offset: if wish.sender() == Side::Client { 0 } else { wish.offset },
            length: match wish.task {
                Task::Upload => Some(wish.size),
                Task::UploadStream | Task::Sum => None,
                Task::Download => wish.length,
            },
            level: wish.level,
            credit: wish.credit_blocks * u64::from(self.around.plan.block),
            hash: wish.is_hashed(index),
            resume: wish.resumes().then(|| {
                let kept = if wish.task == Task::Download {
                    self.around.disks[Side::Client.index()].kept(index)
                } else {
                    Vec::new()
                };
                Resume { source: version_of(index), kept }
            }),
            ..Request::default()
        }
    }

    fn refuse(&mut self, index: usize, error: Error) {
        self.around.oracle.opened(index, Err(error));
        self.application.unfinished.remove(&index);
        self.close_when_done();
    }

    /// A source that is read in order delivers more, as far as there is room for it.
    pub(crate) fn deliver(&mut self, index: usize) {
        let Some(id) = self.id_of(index) else { return };
        let (size, block) = (self.around.plan.operations[index].size, u64::from(self.around.plan.block));
        let Some(stream) = self.application.streams.get_mut(&index) else { return };
        let room = (stream.1 + STREAM_BLOCKS * block).saturating_sub(stream.0).min(size - stream.0);
        if room == 0 && stream.0 < size {
            return;
        }
        stream.0 += room.min(self.application.random.magnitude(1, 3 * block));
        let (available, forgotten) = *stream;
        self.around.disks[Side::Client.index()].stream(id, available, forgotten);
        self.tell_stream(index, id);
        if available < size {
            let pause = Duration::from_micros(self.application.random.magnitude(10, 20_000));
            self.around.schedule.add(self.around.now.after(pause), Event::Stream(index));
        }
    }

    fn tell_stream(&mut self, index: usize, id: OperationId) {
        let Some((available, _)) = self.application.streams.get(&index).copied() else { return };
        let wish = &self.around.plan.operations[index];
        let (ended, pipeline) = (available == wish.size, wish.pipeline);
        if self.around.oracle.is_settled(Side::Client, index) {
            return;
        }
        self.with(Who { side: Side::Client, pipeline }, |world, around| {
            world.session.on_source(id, available, ended);
            world.pump(around);
        });
    }

    fn id_of(&self, index: usize) -> Option<OperationId> {
        self.around.ids.iter().find(|(_, known)| **known == index).map(|(id, _)| *id)
    }

    /// Plans the actions whose moment this is.
    pub(crate) fn trigger(&mut self, moment: Option<(usize, Milestone)>) {
        let blocks = self.around.oracle.blocks;
        for (index, action) in self.around.plan.actions.iter().enumerate() {
            let due = match (action.when, moment) {
                (When::Blocks(count), None) => blocks >= count,
                (When::Milestone(operation, milestone), Some(moment)) => (operation, milestone) == moment,
                _ => false,
            };
            if due && self.application.triggered.insert(index) {
                self.around.schedule.add(self.around.now.after(action.delay), Event::Act(index));
            }
        }
    }

    pub(crate) fn strike(&mut self, action: Action) {
        self.around.trace.remark(self.around.now, || format!("{action:?}"));
        match action {
            Action::Cancel(side, index) => self.cancel(side, index),
            Action::ChangeSource(index) | Action::ShrinkSource(index) => {
                let Some(id) = self.id_of(index) else { return };
                let side = self.around.plan.operations[index].sender();
                self.around.disks[side.index()].change(id, matches!(action, Action::ShrinkSource(_)));
            }
            Action::CutAll => {
                let channels: BTreeSet<_> = self.worlds.iter().flat_map(World::channels).collect();
                if !channels.is_empty() {
                    self.around.oracle.struck(Fault::AllCut);
                }
                channels.into_iter().for_each(|channel| self.around.network.cut(self.around.now, channel));
            }
            Action::Cut(channel) => {
                if self.worlds.iter().any(|world| world.channels().any(|open| open == channel)) {
                    self.around.oracle.struck(Fault::ManyCut);
                    self.around.network.cut(self.around.now, channel);
                }
            }
            Action::Close => {
                if !self.application.unfinished.is_empty() && !self.application.closing {
                    self.around.oracle.struck(Fault::CloseEarly);
                    self.application.closing = true;
                    let waiting: Vec<_> = self.application.waiting.drain(..).collect();
                    waiting.into_iter().for_each(|index| self.open(index));
                    // With one pipeline the machine itself waits for its operations; with several nobody but the
                    // application knows when all of them are done.
                    if self.around.plan.pipelines == 1 {
                        self.close();
                    }
                }
            }
            Action::Restart(side) => {
                if self.application.unfinished.is_empty() || self.application.closing {
                    return;
                }
                let power = self.application.random.chance(500);
                let fault = if side == Side::Client { Fault::ClientRestart } else { Fault::ServerRestart };
                self.around.oracle.struck(fault);
                if power {
                    self.around.oracle.struck(Fault::PowerLost);
                }
                self.application.restart = Some((side, power));
            }
            Action::Drain => {
                if self.application.closing {
                    return;
                }
                self.around.oracle.fault(None, Fault::Drain);
                self.with(Who { side: Side::Server, pipeline: 0 }, |world, around| {
                    world.session.drain(1000);
                    world.pump(around);
                });
            }
        }
    }

    fn cancel(&mut self, side: Side, index: usize) {
        let Some(id) = self.id_of(index) else { return };
        if self.around.oracle.is_settled(side, index) {
            return;
        }
        let fault = if side == Side::Client { Fault::CancelClient } else { Fault::CancelServer };
        let pipeline = self.around.plan.operations[index].pipeline;
        let place = self.place(Who { side, pipeline });
        if self.worlds[place].session.operations().all(|operation| operation.id() != id) {
            return;
        }
        self.around.oracle.fault(Some(index), fault);
        let world = &mut self.worlds[place];
        world.session.fail(id, Error::new(ErrorKind::Cancelled, format!("cancelled by the {side:?}")));
        world.pump(&mut self.around);
    }

    fn close_when_done(&mut self) {
        if self.application.unfinished.is_empty() && !self.application.closed {
            self.application.closing = true;
            let delay = Duration::from_micros(self.application.random.magnitude(1, 1000));
            self.around.schedule.add(self.around.now.after(delay), Event::Close);
        }
    }

    pub(crate) fn close(&mut self) {
        self.application.closed = true;
        self.around.closing = true;
        self.application.closing = true;
        for pipeline in 0..self.around.plan.pipelines {
            self.with(Who { side: Side::Client, pipeline }, |world, around| {
                world.session.close();
                world.pump(around);
            });
        }
    }
}
