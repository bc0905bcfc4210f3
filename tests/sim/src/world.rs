//! The driver of one machine, shaped like the pump of the engine: bytes in, machine, bytes out; one input, then every
//! output. It keeps the rules that the session's documentation sets a driver, and nothing of its own about the protocol.

use crate::disk::{self, Disk};
use crate::network::{Network, Side};
use crate::oracle::Oracle;
use crate::port::{Arriving, Incoming, Outgoing, Port, Route};
use crate::random::Random;
use crate::schedule::{Event, Job, Schedule, Who};
use crate::trace::Trace;
use crate::transition::{Milestone, Plan};
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use xdfs_proto::base::{ChannelId, Duration, Error, ErrorKind, Extent, Instant, Level, OperationId};
use xdfs_proto::limits;
use xdfs_proto::session::{Bugs, Fault, Output, Payload, Role, Session, SessionEvent, SessionLimits, Verdict};
use xdfs_proto::wire::control::Control;
use xdfs_proto::wire::head::TAG_BYTES;
use xdfs_proto::wire::{Event as WireEvent, Flags, HEAD_BYTES, Head};

/// Bytes that a wake-up reads at most, so that no channel starves the others.
const READ_BUDGET: usize = 512 << 10;
/// Bytes that the direct route reads at a time.
const DIRECT_BYTES: u64 = 16 << 10;
/// Outputs that may follow one input: more mean that a queue grows. A session of 8 channels and a handful of operations
/// says at most a few things about each.
const OUTPUTS_MAX: usize = 200;

/// What all machines of a run share.
pub struct Around {
    /// What was decided.
    pub plan: Plan,
    /// The time.
    pub now: Instant,
    /// What happens later.
    pub schedule: Schedule,
    /// The wire.
    pub network: Network,
    /// Storage of both ends.
    pub disks: [Disk; 2],
    /// What must be true.
    pub oracle: Oracle,
    /// Small decisions.
    pub random: Random,
    /// What happened.
    pub trace: Trace,
    /// For the application above the machines.
    pub notices: VecDeque<(Who, Notice)>,
    /// The application makes no more connections.
    pub closing: bool,
    /// Place in the plan of every operation.
    pub ids: BTreeMap<OperationId, usize>,
}

/// What the application hears.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Notice {
    /// From the machine.
    Session(SessionEvent),
    /// An operation reached a moment that faults wait for.
    Milestone(OperationId, Milestone),
    /// A block arrived.
    Block,
}

/// See the module.
pub struct World {
    who: Who,
    /// The machine.
    pub session: Session,
    ports: BTreeMap<ChannelId, Port>,
    /// When the machine is to be called.
    timer: Option<Instant>,
    /// When the last message to another pipeline arrives: they stay in order.
    group_at: Instant,
    /// The machine had a channel.
    connected: bool,
}

impl Around {
    fn disk(&mut self, who: Who) -> &mut Disk {
        &mut self.disks[who.side.index()]
    }

    fn job(&mut self, who: Who, job: Job) {
        let delay = self.disk(who).delay();
        self.schedule.add(self.now.after(delay), Event::Disk(who, job));
    }

    fn soon(&mut self, event: Event) {
        let delay = Duration::from_nanos(self.random.below(20_000));
        self.schedule.add(self.now.after(delay), event);
    }

    fn notice(&mut self, who: Who, notice: Notice) {
        self.notices.push_back((who, notice));
    }
}

impl World {
    /// A machine without channels.
    pub fn new(who: Who, plan: &Plan, bugs: Bugs) -> Self {
        let role = if who.side == Side::Client { Role::Client } else { Role::Server };
        let limits = SessionLimits {
            control_level: Level::Integrity,
            floor: Level::Clear,
            block: plan.block,
            window: plan.window,
            stall: plan.stall,
            operations_max: plan.operations_max,
            pipelines: plan.pipelines,
            channels: plan.channels,
        };
        let session = Session::new(role, xdfs_proto::base::PipelineId(who.pipeline), limits, bugs);
        Self { who, session, ports: BTreeMap::new(), timer: None, group_at: Instant(0), connected: false }
    }

    fn role(&self) -> Role {
        if self.who.side == Side::Client { Role::Client } else { Role::Server }
    }

    /// A connection was made. Channel 1 is proved by the handshake, the others by JOIN; `early` sends records behind JOIN
    /// before it was answered.
    pub fn connect(&mut self, channel: ChannelId, secret: &[u8; 32], proved: bool, early: bool, around: &mut Around) {
        if self.session.is_over() {
            return around.network.close(around.now, channel, self.who.side, true);
        }
        let incoming = match (proved, self.who.side) {
            (true, _) => Incoming::Head(Vec::new()),
            (false, Side::Client) => Incoming::Answer(Vec::new()),
            (false, Side::Server) => Incoming::Join(Vec::new()),
        };
        let mut port = Port::new(channel, self.role(), secret, incoming, around.now);
        let joins = !proved && self.who.side == Side::Client;
        if joins {
            port.queue_join(channel);
        }
        self.ports.insert(channel, port);
        if joins {
            self.flush(channel, around);
        }
        if proved || (joins && early) {
            self.up(channel, around);
        }
    }

    fn up(&mut self, channel: ChannelId, around: &mut Around) {
        if let Some(port) = self.ports.get_mut(&channel).filter(|port| !port.up) {
            port.up = true;
            self.connected = true;
            self.session.on_channel(channel, around.now);
            self.pump(around);
        }
    }

    /// The wire has bytes or the end of the stream.
    pub fn on_readable(&mut self, channel: ChannelId, around: &mut Around) {
        let mut budget = READ_BUDGET;
        while let Some(port) = self.ports.get_mut(&channel) {
            let wanted = port.wanted().min(budget);
            if wanted == 0 {
                // Parked, or enough for now: what is left stays with the transport.
                if !matches!(port.incoming, Incoming::Parked(_)) {
                    let wake = crate::network::Wake::Readable(self.who.side, channel);
                    around.soon(Event::Wake(wake));
                }
                return;
            }
            let read = around.network.read(around.now, channel, self.who.side, wanted);
            let count: usize = read.pieces.iter().map(|(_, range)| range.len()).sum();
            if count == 0 {
                if read.end {
                    self.on_end_of_stream(channel, around);
                }
                return;
            }
            budget -= count;
            port.heard_at = around.now;
            let (heard_at, sent_at) = (port.heard_at, port.sent_at);
            self.session.on_progress(channel, heard_at, sent_at);
            for (bytes, range) in read.pieces {
                self.take(channel, &bytes[range], around);
            }
        }
    }

    fn on_end_of_stream(&mut self, channel: ChannelId, around: &mut Around) {
        // Behind EOFT the end is in order; the rest of the way out is still open.
        if self.ports.get(&channel).is_some_and(|port| !port.ended) {
            self.lose(channel, ErrorKind::ConnectionLost, "the connection ended without EOFT", around);
        }
    }

    /// The connection is reset.
    pub fn on_broken(&mut self, channel: ChannelId, around: &mut Around) {
        self.lose(channel, ErrorKind::ConnectionLost, "connection reset", around);
    }

    fn lose(&mut self, channel: ChannelId, kind: ErrorKind, why: &str, around: &mut Around) {
        let Some(port) = self.ports.get(&channel) else { return };
        around.trace.remark(around.now, || format!("{:?} loses channel {channel}: {why}", self.who));
        if !port.up {
            self.ports.remove(&channel);
            around.network.close(around.now, channel, self.who.side, true);
            if self.ports.is_empty() && self.who.side == Side::Client {
                // A pipeline without any channel would be waited for without end.
                self.session.end(Some(Error::new(kind, "no channel could be made")));
                self.pump(around);
            }
            return;
        }
        self.session.on_lost(channel, Error::new(kind, why));
        self.pump(around);
    }

    /// Bytes for the next step, never more than it wants.
    fn take(&mut self, channel: ChannelId, bytes: &[u8], around: &mut Around) {
        let Some(port) = self.ports.get_mut(&channel) else { return };
        match &mut port.incoming {
            Incoming::Join(have) | Incoming::Answer(have) | Incoming::Head(have) => have.extend_from_slice(bytes),
            Incoming::Payload(arriving) => {
                arriving.left -= bytes.len();
                match arriving.route {
                    Route::Direct(id, extent) if !arriving.failed => {
                        let offset = extent.end() - (arriving.left + bytes.len()) as u64;
                        if let Err(error) = around.disk(self.who).write(id, offset, bytes) {
                            arriving.failed = true;
                            self.session.on_written(id, extent, Err(error), around.now);
                            self.pump(around);
                        }
                    }
                    Route::Direct(..) => {}
                    Route::Skip if arriving.opened => {}
                    _ => arriving.headed.extend_from_slice(bytes),
                }
            }
            Incoming::Parked(_) | Incoming::Taken => unreachable!("nothing is read while a channel is parked"),
        }
        let Some(port) = self.ports.get_mut(&channel) else { return };
        if port.wanted() > 0 {
            return;
        }
        match std::mem::replace(&mut port.incoming, Incoming::Taken) {
            Incoming::Join(have) => self.on_join(channel, &have, around),
            Incoming::Answer(_) => {
                port.incoming = Incoming::Head(Vec::new());
                self.up(channel, around);
            }
            Incoming::Head(have) => self.on_head(channel, &have, around),
            Incoming::Payload(arriving) => self.on_payload(channel, arriving, around),
            Incoming::Parked(_) | Incoming::Taken => {}
        }
    }

    fn on_join(&mut self, channel: ChannelId, bytes: &[u8], around: &mut Around) {
        let Some(port) = self.ports.get_mut(&channel) else { return };
        if !port.answer_join(bytes) {
            return self.lose(channel, ErrorKind::SessionUnknown, "JOIN without proof", around);
        }
        port.incoming = Incoming::Head(Vec::new());
        self.flush(channel, around);
        self.up(channel, around);
    }

    /// Head and tag are complete.
    fn on_head(&mut self, channel: ChannelId, bytes: &[u8], around: &mut Around) {
        let Some(port) = self.ports.get_mut(&channel) else { return };
        let Some((head_bytes, tag)) = bytes.split_first_chunk::<HEAD_BYTES>() else { return };
        let mut tag_bytes = [0; TAG_BYTES];
        tag_bytes.copy_from_slice(tag);
        let Ok(head) = Head::decode(head_bytes) else {
            return self.lose(channel, ErrorKind::Protocol, "unreadable head", around);
        };
        let mut arriving = Box::new(Arriving {
            head,
            headed: head_bytes.to_vec(),
            tag: tag_bytes,
            route: Route::Control,
            left: head.length as usize,
            opened: false,
            failed: false,
        });
        if head.level == Level::Clear {
            if port.opener.open_clear(head_bytes, &tag_bytes).is_err() {
                return self.lose(channel, ErrorKind::Protocol, "wrong tag", around);
            }
            arriving.opened = true;
        } else if head.level == Level::Private || head.length > limits::BLOCK_BYTES_MAX {
            // What cannot be collected cannot be checked, so it cannot be blamed on the peer.
            return self.lose(channel, ErrorKind::Protocol, "unreadable head", around);
        }
        let block = WireEvent::from_code(head.event).is_some_and(WireEvent::carries_block);
        if block && !head.flags.has(Flags::REQUEST) {
            return self.judge_block(channel, arriving, around);
        }
        if head.length as usize > limits::CONTROL_BYTES_MAX {
            return self.lose(channel, ErrorKind::Protocol, "unreadable head", around);
        }
        self.expect(channel, arriving, around);
    }

    /// Waits for the payload, or goes on at once where there is none.
    fn expect(&mut self, channel: ChannelId, arriving: Box<Arriving>, around: &mut Around) {
        let Some(port) = self.ports.get_mut(&channel) else { return };
        if arriving.left == 0 {
            return self.on_payload(channel, arriving, around);
        }
        port.incoming = Incoming::Payload(arriving);
    }

    fn judge_block(&mut self, channel: ChannelId, mut arriving: Box<Arriving>, around: &mut Around) {
        let verdict = self.session.on_head(channel, &arriving.head, around.now);
        around.trace.note(around.now, self.who, &(channel, arriving.head, verdict));
        match verdict {
            Err(fault) if arriving.opened => return self.blame(channel, fault, around),
            Err(fault) => arriving.route = Route::Doubtful(fault),
            Ok(Verdict::Park) => {
                if let Some(port) = self.ports.get_mut(&channel) {
                    port.incoming = Incoming::Parked(arriving);
                }
                return;
            }
            Ok(Verdict::Skip | Verdict::Control) => arriving.route = Route::Skip,
            Ok(Verdict::Block { operation, offset, length }) => {
                let extent = Extent::new(offset, length.into()).expect("the machine has checked it");
                let direct = arriving.opened && !around.disk(self.who).is_in_order(operation);
                arriving.route =
                    if direct { Route::Direct(operation, extent) } else { Route::Buffered(operation, extent) };
            }
        }
        self.pump(around);
        self.expect(channel, arriving, around);
    }

    /// A parked head may be judged again.
    pub fn on_resume(&mut self, channel: ChannelId, around: &mut Around) {
        let Some(port) = self.ports.get_mut(&channel) else { return };
        match std::mem::replace(&mut port.incoming, Incoming::Taken) {
            Incoming::Parked(arriving) if arriving.route == Route::Control && arriving.left == 0 => {
                self.on_message(channel, arriving, around);
            }
            Incoming::Parked(arriving) => self.judge_block(channel, arriving, around),
            other => port.incoming = other,
        }
        self.on_readable(channel, around);
    }

    /// Head, tag and payload are complete.
    fn on_payload(&mut self, channel: ChannelId, mut arriving: Box<Arriving>, around: &mut Around) {
        let Some(port) = self.ports.get_mut(&channel) else { return };
        if !arriving.opened {
            let level = arriving.head.level;
            if port.opener.open(level, &mut arriving.headed, &arriving.tag).is_err() {
                return self.lose(channel, ErrorKind::Protocol, "wrong tag", around);
            }
            arriving.opened = true;
        }
        port.incoming = Incoming::Head(Vec::new());
        let result = match arriving.route {
            Route::Doubtful(fault) => Err(fault),
            Route::Control => return self.on_message(channel, arriving, around),
            Route::Skip => self.session.on_skipped(channel),
            Route::Buffered(..) | Route::Direct(..) => self.session.on_block(channel),
        };
        if let Err(fault) = result {
            return self.blame(channel, fault, around);
        }
        let block = matches!(arriving.route, Route::Buffered(..) | Route::Direct(..));
        around.oracle.processed(self.who.side, channel, block);
        if block {
            around.notice(self.who, Notice::Block);
        }
        self.pump(around);
        match arriving.route {
            Route::Direct(id, extent) if !arriving.failed => {
                self.session.on_written(id, extent, Ok(()), around.now);
                self.pump(around);
            }
            Route::Buffered(id, extent) => {
                let bytes = arriving.payload().to_vec();
                if around.plan.writer_thread {
                    around.job(self.who, Job::Write(id, extent, bytes));
                } else {
                    self.write(id, extent, bytes, around);
                }
            }
            _ => {}
        }
    }

    fn write(&mut self, id: OperationId, extent: Extent, bytes: Vec<u8>, around: &mut Around) {
        let disk = around.disk(self.who);
        let completed = if disk.is_in_order(id) {
            disk.write_in_order(id, extent, bytes)
        } else {
            vec![(extent, disk.write(id, extent.offset(), &bytes))]
        };
        let held = disk.held(id);
        let wish = around.ids.get(&id).map(|index| &around.plan.operations[*index]);
        let room = wish.and_then(|wish| wish.in_order.map(|blocks| blocks.max(wish.credit_blocks)));
        if room.is_some_and(|room| held as u64 > room) {
            around.oracle.violation(|| format!("{held} blocks are held for a target that holds {room:?}"));
        }
        for (extent, result) in completed {
            self.session.on_written(id, extent, result, around.now);
            self.pump(around);
        }
    }

    /// A control message is complete and checked.
    fn on_message(&mut self, channel: ChannelId, arriving: Box<Arriving>, around: &mut Around) {
        let verdict = self.session.on_head(channel, &arriving.head, around.now);
        around.trace.note(around.now, self.who, &(channel, arriving.head, verdict));
        let Some(port) = self.ports.get_mut(&channel) else { return };
        let result = match verdict {
            Ok(Verdict::Park) => {
                port.incoming = Incoming::Parked(arriving);
                return self.pump(around);
            }
            Ok(Verdict::Skip) => self.session.on_skipped(channel),
            Ok(_) => {
                port.ended |= arriving.head.event == WireEvent::EndOfTransfer as u8;
                self.session.on_control(channel, arriving.payload(), around.now)
            }
            Err(fault) => Err(fault),
        };
        port.incoming = Incoming::Head(Vec::new());
        if let Err(fault) = result {
            return self.blame(channel, fault, around);
        }
        around.oracle.processed(self.who.side, channel, false);
        self.pump(around);
    }

    /// The peer broke the protocol: both ends are real machines, so one of them is wrong.
    fn blame(&mut self, channel: ChannelId, fault: Fault, around: &mut Around) {
        around.oracle.violation(|| format!("{:?}, channel {channel}: {fault} ({fault:?})", self.who));
        self.session.on_fault(fault);
        self.pump(around);
    }

    /// The transport has taken a whole record.
    pub fn on_sent(&mut self, channel: ChannelId, around: &mut Around) {
        if self.ports.contains_key(&channel) {
            self.session.on_sent(channel, around.now);
            self.pump(around);
        }
    }

    /// There is room again.
    pub fn on_writable(&mut self, channel: ChannelId, around: &mut Around) {
        self.flush(channel, around);
        self.pump(around);
    }

    /// Writes what the transport takes.
    fn flush(&mut self, channel: ChannelId, around: &mut Around) {
        let mut trouble = None;
        while let Some(port) = self.ports.get_mut(&channel) {
            let Some(outgoing) = port.out.front_mut() else { break };
            if outgoing.at == outgoing.bytes.len() {
                let Some((id, rest)) = outgoing.rest.take() else {
                    if outgoing.record {
                        around.soon(Event::Sent(self.who, channel));
                    }
                    port.out.pop_front();
                    continue;
                };
                // The direct route: bytes are read when there is room for them.
                let count = rest.length().min(DIRECT_BYTES);
                let (now, later) = split(rest, count);
                let mut bytes = Vec::with_capacity(count as usize);
                if let Err(unreadable) = around.disks[self.who.side.index()].read(id, now, &mut bytes) {
                    trouble = Some((id, unreadable));
                }
                *outgoing =
                    Outgoing { bytes: Rc::new(bytes), at: 0, rest: later.map(|later| (id, later)), record: true };
            }
            if trouble.as_ref().is_some_and(|(_, unreadable)| unreadable.after_check) {
                break;
            }
            let count = around.network.write(around.now, channel, self.who.side, &outgoing.bytes, outgoing.at);
            if count == 0 {
                break;
            }
            outgoing.at += count;
            port.sent_at = around.now;
            let (heard_at, sent_at) = (port.heard_at, port.sent_at);
            if port.up {
                self.session.on_progress(channel, heard_at, sent_at);
            }
        }
        if let Some((id, unreadable)) = trouble {
            self.unreadable(channel, id, unreadable, around);
        }
    }

    /// A source did not give what was promised. Zeros went out in its place, and the receiver hears why; but once FINISH
    /// may be on its way zeros would count, so the record is not finished at all: its channel is given up.
    fn unreadable(&mut self, channel: ChannelId, id: OperationId, what: disk::Unreadable, around: &mut Around) {
        self.session.on_checked(id, Err(what.error));
        if what.after_check {
            around.oracle.wire_fault(channel, crate::transition::Fault::SourceChanged);
            self.lose(channel, ErrorKind::SourceChanged, "the source changed after its last check", around);
        }
    }

    /// The regular look at the clock.
    pub fn on_tick(&mut self, around: &mut Around) {
        self.session.on_time(around.now);
        self.pump(around);
        let late = |port: &Port| !port.up && around.now.since(port.heard_at) >= around.plan.stall;
        let late: Vec<_> = self.ports.iter().filter(|(_, port)| late(port)).map(|(channel, _)| *channel).collect();
        for channel in late {
            self.lose(channel, ErrorKind::TimedOut, "JOIN takes too long", around);
        }
        let unused = around.closing && !self.connected && self.ports.is_empty();
        if !self.session.is_over() && !unused {
            around.schedule.add(around.now.after(around.plan.stall / 8), Event::Tick(self.who));
        }
    }

    /// The machine asked for this moment.
    pub fn on_timer(&mut self, around: &mut Around) {
        if self.timer != Some(around.now) {
            return;
        }
        self.timer = None;
        self.session.on_time(around.now);
        self.pump(around);
        if self.session.deadline().is_some_and(|deadline| deadline <= around.now) {
            let deadline = self.session.deadline();
            around.oracle.violation(|| format!("{:?}: the deadline {deadline:?} does not move on", self.who));
        }
    }

    /// Another pipeline of this side says something.
    pub fn on_group(&mut self, from: u8, message: xdfs_proto::session::GroupMessage, around: &mut Around) {
        around.trace.note(around.now, self.who, &message);
        self.session.on_group(xdfs_proto::base::PipelineId(from), message);
        self.pump(around);
    }

    /// A storage call completes.
    pub fn on_job(&mut self, job: Job, around: &mut Around) {
        match job {
            Job::Open(id) => {
                let index = around.ids[&id];
                let wish = around.plan.operations[index].clone();
                let result = around.disk(self.who).open(id, index, &wish);
                self.session.on_opened(id, result);
            }
            Job::Stage(id) => {
                let index = around.ids[&id];
                let (wish, block) = (around.plan.operations[index].clone(), around.plan.block);
                let result = around.disk(self.who).stage(id, index, &wish, block);
                self.session.on_staged(id, result);
            }
            Job::Write(id, extent, bytes) => return self.write(id, extent, bytes, around),
            Job::Check(id) => {
                let result = around.disk(self.who).check(id);
                self.session.on_checked(id, result);
            }
            Job::Commit(id) => match around.disk(self.who).commit(id) {
                Some(result) => self.session.on_committed(id, result),
                None => around.oracle.violation(|| format!("commit of operation {id}, whose stage is gone")),
            },
        }
        self.pump(around);
    }

    /// One input was given: every output, then the time of the next look.
    pub fn pump(&mut self, around: &mut Around) {
        let mut count = 0;
        while let Some(output) = self.session.poll(around.now) {
            around.trace.note(around.now, self.who, &output);
            self.act(output, around);
            count += 1;
        }
        if count > OUTPUTS_MAX {
            around.oracle.violation(|| format!("{:?}: {count} outputs after one input", self.who));
        }
        let deadline = self.session.deadline();
        if let Some(at) = deadline.filter(|at| self.timer.is_none_or(|timer| *at < timer)) {
            let at = at.max(around.now);
            self.timer = Some(at);
            around.schedule.add(at, Event::Timer(self.who));
        }
    }

    fn act(&mut self, output: Output, around: &mut Around) {
        match output {
            Output::Send { channel, head, payload } => self.send(channel, &head, payload, around),
            Output::Open { operation, request } => match disk::index_of(&request.name, &around.plan) {
                Some(index) if around.ids.get(&operation) == Some(&index) => {
                    around.oracle.asked(index);
                    around.job(self.who, Job::Open(operation));
                }
                _ => around.oracle.violation(|| format!("request of an unknown operation: {request:?}")),
            },
            Output::Stage { operation, request, .. } => {
                if request.is_some() {
                    around.oracle.asked(around.ids[&operation]);
                }
                around.notice(self.who, Notice::Milestone(operation, Milestone::Stage));
                around.job(self.who, Job::Stage(operation));
            }
            Output::Check { operation } => {
                around.disk(self.who).begin_check(operation);
                around.notice(self.who, Notice::Milestone(operation, Milestone::Check));
                around.job(self.who, Job::Check(operation));
            }
            Output::Commit { operation, length } => {
                around.disk(self.who).begin_commit(operation, length);
                around.notice(self.who, Notice::Milestone(operation, Milestone::Commit));
                around.job(self.who, Job::Commit(operation));
            }
            Output::Abort { operation } => {
                around.disk(self.who).abort(operation);
                around.disk(self.who).close(operation);
            }
            Output::Close { channel, error } => {
                let port = self.ports.remove(&channel);
                if error.is_none() && port.is_some_and(|port| !port.out.is_empty()) {
                    around.oracle.violation(|| format!("channel {channel} is closed before its EOFT is out"));
                }
                around.oracle.closed(self.who, channel, error.as_ref());
                around.network.close(around.now, channel, self.who.side, error.is_some());
            }
            Output::Resume { channel } => around.soon(Event::Resume(self.who, channel)),
            Output::Group { to, message } => {
                let delay = Duration::from_nanos(around.random.magnitude(100, 200_000));
                self.group_at = self.group_at.max(around.now).after(delay);
                let to = Who { pipeline: to.0, ..self.who };
                around.schedule.add(self.group_at, Event::Group { to, from: self.who.pipeline, message });
            }
            Output::Event(event) => {
                around.oracle.event(self.who, &event);
                around.notice(self.who, Notice::Session(event));
            }
        }
    }

    fn send(&mut self, channel: ChannelId, head: &Head, payload: Payload, around: &mut Around) {
        let stream = self.is_stream(head.operation, around);
        let Some(port) = self.ports.get_mut(&channel).filter(|port| port.up) else {
            return around.oracle.violation(|| format!("{:?} uses channel {channel}, which is closed", self.who));
        };
        if port.is_busy() {
            around.oracle.violation(|| format!("{:?} sends on channel {channel} while it is busy", self.who));
        }
        let flip = around.network.flip_due(channel, self.who.side, head.length as usize + HEAD_BYTES + TAG_BYTES);
        let flip = flip.then(|| around.random.bits());
        let mut trouble = None;
        match payload {
            Payload::Control(bytes) => {
                port.queue_record(head, &bytes, None, flip);
                self.observe(head, &bytes, around);
            }
            // A source that is read in order is in memory, and may be forgotten while a repetition is under way.
            Payload::Block(extent) if head.level == Level::Clear && !stream => {
                port.queue_record(head, &[], Some((head.operation, extent)), flip);
                around.oracle.block(self.who, head);
            }
            Payload::Block(extent) => {
                let mut bytes = Vec::with_capacity(extent.length() as usize);
                trouble = around.disks[self.who.side.index()].read(head.operation, extent, &mut bytes).err();
                port.queue_record(head, &bytes, None, flip);
                around.oracle.block(self.who, head);
            }
        }
        match trouble {
            Some(unreadable) if unreadable.after_check => {
                self.unreadable(channel, head.operation, unreadable, around);
            }
            other => {
                self.flush(channel, around);
                if let Some(unreadable) = other {
                    self.unreadable(channel, head.operation, unreadable, around);
                }
            }
        }
    }

    fn is_stream(&self, id: OperationId, around: &Around) -> bool {
        let wish = around.ids.get(&id).map(|index| &around.plan.operations[*index]);
        wish.is_some_and(|wish| wish.task == crate::transition::Task::UploadStream)
    }

    /// A control message leaves: the oracle looks at it, and some are moments that faults wait for.
    fn observe(&mut self, head: &Head, bytes: &[u8], around: &mut Around) {
        if head.flags.has(Flags::REQUEST) {
            return;
        }
        let Some(event) = WireEvent::from_code(head.event) else { return };
        let Ok(Some(control)) = Control::decode(event, bytes) else {
            return around.oracle.violation(|| format!("{:?} sends {event:?} that cannot be read", self.who));
        };
        let ports = &self.ports;
        around.oracle.control(self.who, head, &control, |channel| ports.contains_key(&channel));
        if matches!(control, Control::Finish { .. }) {
            around.notice(self.who, Notice::Milestone(head.operation, Milestone::Finish));
        }
    }

    /// Whether the machine ended, or never had a channel to end.
    pub fn is_done(&self) -> bool {
        // The server's machine of such a pipeline is the session table's to drop.
        self.session.is_over() || !self.connected
    }

    /// Channels that are open at this end.
    pub fn channels(&self) -> impl Iterator<Item = ChannelId> {
        self.ports.keys().copied()
    }
}

/// The first `count` bytes of `extent`, and the rest.
fn split(extent: Extent, count: u64) -> (Extent, Option<Extent>) {
    let first = Extent::new(extent.offset(), count).expect("within the extent");
    let rest = Extent::new(extent.offset() + count, extent.length() - count).expect("within the extent");
    (first, (!rest.is_empty()).then_some(rest))
}
