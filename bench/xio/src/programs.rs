//! `xioperf` beside `globus-xioperf`: the same stack, block, number of streams and time, from memory to
//! memory. The figure is the receiver's, as the program prints it.

use crate::{System, Table, rounds};
use std::io::{self, BufRead, BufReader, Read};
use std::process::{Command, Stdio};

/// Drivers above `tcp`, blocks and numbers of connections. The other program has several with `mode_e` alone.
const CASES: [(&str, &str, &str); 7] = [
    ("", "8K", "1"),
    ("", "64K", "1"),
    ("", "256K", "1"),
    ("mode_e", "256K", "1"),
    ("mode_e", "256K", "4"),
    ("mode_e", "256K", "16"),
    ("mode_e", "256K", "64"),
];

/// Prints the time of a byte of `xioperf` over that of `globus-xioperf`; the goal is 1.2 times its rate.
pub(crate) fn run(count: usize, table: &mut Table) -> io::Result<()> {
    let ours = std::env::current_exe()?.with_file_name("xioperf");
    let ours = ours.to_string_lossy();
    // The other program has the system's congestion control; ours would choose another within one host.
    let control = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_congestion_control")?;
    let control = control.trim();
    let stack = format!("tcp:congestion={control}");
    for (above, block, streams) in CASES {
        let run = |program: &str, tcp: &str| measure(program, [tcp, above], block, streams);
        let mut systems: [System<'_>; 2] = [
            ("globus-xioperf", Box::new(|| run("globus-xioperf", "tcp"))),
            ("xioperf", Box::new(|| run(&ours, &stack))),
        ];
        let taken = rounds(count, &mut systems)?;
        drop(systems);
        let rates = format!("{:.2} and {:.2} GB/s", 1e-9 / taken[1].best, 1e-9 / taken[0].best);
        let stack = if above.is_empty() { "tcp".to_owned() } else { format!("tcp,{above} -P {streams}") };
        let what =
            format!("time of a byte, `xioperf` over `globus-xioperf`, {stack}, -bs {block}, {control} ({rates})");
        table.goal(&what, taken[1].best / taken[0].best, taken[1].median / taken[0].median, 1.0 / 1.2, "");
    }
    Ok(())
}

/// Seconds a byte.
fn measure(program: &str, stack: [&str; 2], block: &str, streams: &str) -> io::Result<f64> {
    let [tcp, above] = stack;
    let mut options = vec!["-D", tcp];
    if !above.is_empty() {
        options.extend(["-D", above, "-P", streams]);
    }
    options.extend(["-bs", block]);
    let mut server = Command::new("timeout");
    server.args(["60", "stdbuf", "-oL", program, "-s"]).args(&options);
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
    let contact = format!("127.0.0.1:{port}");
    let mut client = Command::new("timeout");
    client.args(["60", program, "-c", &contact, "-t", "1"]).args(&options);
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
