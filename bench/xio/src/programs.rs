//! `xioperf` beside `globus-xioperf`: the same stack, block, number of streams and time, from memory to
//! memory. The figure is the receiver's, as the program prints it.

use crate::site::Site;
use crate::{System, Table, rounds};
use std::io::{self, BufRead, BufReader, Read};
use std::process::{Command, Stdio};

/// Drivers above `tcp`, blocks and numbers of connections. The other program has several with `mode_e` alone.
const CASES: [(&str, &str, &str); 9] = [
    ("", "8K", "1"),
    ("", "64K", "1"),
    ("", "256K", "1"),
    ("mode_e", "256K", "1"),
    ("mode_e", "256K", "4"),
    ("mode_e", "256K", "16"),
    ("mode_e", "256K", "64"),
    ("gsi", "64K", "1"),
    ("gsi", "256K", "1"),
];

/// Prints the time of a byte of `xioperf` over that of `globus-xioperf`; the goal is 1.2 times its rate.
pub(crate) fn run(count: usize, table: &mut Table) -> io::Result<()> {
    let ours = std::env::current_exe()?.with_file_name("xioperf");
    let ours = ours.to_string_lossy();
    // The other program has the system's congestion control; ours would choose another within one host.
    let control = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_congestion_control")?;
    let control = control.trim();
    let stack = format!("tcp:congestion={control}");
    let site = Site::make()?;
    for (above, block, streams) in CASES {
        let run = |program: &str, tcp: &str| measure(program, &site, [tcp, above], block, streams);
        let mut systems: [System<'_>; 2] = [
            ("globus-xioperf", Box::new(|| run("globus-xioperf", "tcp"))),
            ("xioperf", Box::new(|| run(&ours, &stack))),
        ];
        let taken = rounds(count, &mut systems)?;
        drop(systems);
        let rates = format!("{:.2} and {:.2} GB/s", 1e-9 / taken[1].best, 1e-9 / taken[0].best);
        let stack = match above {
            "" => "tcp".to_owned(),
            "mode_e" => format!("tcp,mode_e -P {streams}"),
            _ => format!("tcp,{above}"),
        };
        let what =
            format!("time of a byte, `xioperf` over `globus-xioperf`, {stack}, -bs {block}, {control} ({rates})");
        table.goal(&what, taken[1].best / taken[0].best, taken[1].median / taken[0].median, 1.0 / 1.2, "");
    }
    Ok(())
}

/// Seconds a byte.
fn measure(program: &str, site: &Site, stack: [&str; 2], block: &str, streams: &str) -> io::Result<f64> {
    let [tcp, above] = stack;
    let mut options = vec!["-D", tcp];
    if !above.is_empty() {
        options.extend(["-D", above]);
    }
    if above == "mode_e" {
        options.extend(["-P", streams]);
    }
    options.extend(["-bs", block]);
    let mut server = Command::new("timeout");
    server.args(["60", "stdbuf", "-oL", program, "-s"]).args(&options).envs(site.of_server());
    let mut server = server.stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
    let mut output = BufReader::new(server.stdout.take().ok_or_else(|| io::Error::other("no output"))?);
    let port = loop {
        let mut line = String::new();
        if output.read_line(&mut line)? == 0 {
            return Err(io::Error::other(format!("{program} did not start: is it installed, or built beside this?")));
        }
        if let Some((_, port)) = line.trim().rsplit_once(':').filter(|_| line.contains("listening")) {
            break port.to_owned();
        }
    };
    // The name that the host's certificate has.
    let contact = format!("localhost:{port}");
    let mut client = Command::new("timeout");
    client.args(["60", program, "-c", &contact, "-t", "1"]).args(&options).envs(site.of_client());
    client.stdout(Stdio::null()).stderr(Stdio::null()).status()?;
    let mut report = String::new();
    output.read_to_string(&mut report)?;
    server.wait()?;
    let rate = report
        .lines()
        .find_map(|line| line.trim().strip_prefix("Read BW:")?.trim().strip_suffix("m/s")?.trim().parse().ok());
    let rate: f64 = rate.ok_or_else(|| io::Error::other(format!("{program} reports no rate: {report}")))?;
    Ok(8.0 / (rate * f64::from(1 << 20)))
}
