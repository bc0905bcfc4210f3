//! iperf3 with its default block. It refuses more than 128 streams, and exits with success after some failures, so
//! its JSON is read with suspicion.

use std::path::Path;

use super::{Outcome, Server, System, Work, port_of, program, start_on_port};
use crate::args::PeerName;
use crate::bound::Direction;
use crate::error::{Error, Result};
use crate::process::Command;
use crate::world::World;

/// MAX_STREAMS of iperf3.
const CHANNELS_MAX: u32 = 128;

/// What the two sockets of a stream may hold when iperf3 stops: it ends when the sender has written enough.
const IN_FLIGHT_MAX: u64 = 36 << 20;

/// Both sides are iperf3.
#[derive(Debug)]
pub(super) struct Iperf3;

impl System for Iperf3 {
    fn name(&self) -> PeerName {
        PeerName::Iperf3
    }

    fn label(&self) -> String {
        "iperf3".to_owned()
    }

    fn programs(&self) -> &'static [(&'static str, &'static str)] {
        &[("iperf3", "iperf3")]
    }

    fn can(&self, work: &Work) -> bool {
        matches!(work, Work::Memory { channels, bytes, .. } if *channels <= CHANNELS_MAX && *bytes >= 1 << 20)
    }

    fn unreceived_max(&self, work: &Work) -> u64 {
        (u64::from(work.channels()) * IN_FLIGHT_MAX).min(work.bytes() / 4)
    }

    fn serve(&self, world: &World, _directory: Option<&Path>) -> Result<Option<Server>> {
        let port = world.free_port()?;
        let command = program("iperf3").args(["-s", "-B", "127.0.0.1", "-p", &port.to_string()]);
        start_on_port(world, "iperf3", &command, port)
    }

    fn command(&self, world: &World, server: Option<&Server>, work: &Work) -> Result<Command> {
        let command = program("iperf3")
            .args(["-c", "127.0.0.1", "-p", &port_of(server, "iperf3")?.to_string()])
            .args(["-n", &work.bytes().to_string(), "-P", &work.channels().to_string()])
            .args(["-C", &world.args.congestion, "-J"]);
        Ok(match work.direction() {
            Direction::Up => command,
            Direction::Down => command.arg("-R"),
        })
    }

    fn outcome(&self, output: &str) -> Result<Outcome> {
        let unreadable = |detail: &str| Error::Unreadable { program: "iperf3".to_owned(), detail: detail.to_owned() };
        let report: serde_json::Value = serde_json::from_str(output).map_err(|error| unreadable(&error.to_string()))?;
        if let Some(error) = report["error"].as_str() {
            return Err(unreadable(error));
        }
        let received = &report["end"]["sum_received"];
        let seconds = received["seconds"].as_f64().filter(|seconds| *seconds > 0.0);
        Ok(Outcome {
            bytes: Some(received["bytes"].as_u64().ok_or_else(|| unreadable("no received bytes"))?),
            seconds: Some(seconds.ok_or_else(|| unreadable("no seconds"))?),
            channels: report["end"]["streams"].as_array().and_then(|streams| u32::try_from(streams.len()).ok()),
            congestion: report["end"]["sender_tcp_congestion"].as_str().map(str::to_owned),
        })
    }
}
