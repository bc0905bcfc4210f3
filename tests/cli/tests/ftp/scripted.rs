//! An FTP server that says what a test wants, and remembers what it was told.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// What is answered to a command instead of the usual.
pub type Answer = fn(&str) -> Option<Say>;

/// An answer.
pub enum Say {
    /// This reply.
    Reply(&'static str),
    /// These bytes over a data channel.
    Send(Vec<u8>),
    /// The same, and this reply at its end.
    Ends(Vec<u8>, &'static str),
    /// These bytes over as many connections to where the client listens, all of which are closed then.
    Blocks(Vec<Vec<u8>>),
    /// Reads a data channel to its end.
    Take,
    /// These bytes over a data channel, which then is lost.
    Cut(Vec<u8>),
    /// Nothing, now and later.
    Nothing,
    /// These bytes over a data channel that stays open, and nothing more.
    Half(Vec<u8>),
}

/// A server; its connections end with their clients.
pub struct Scripted {
    pub port: u16,
    commands: Arc<Mutex<Vec<String>>>,
}

impl Scripted {
    pub fn start(answer: Answer) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("its address").port();
        let commands = Arc::new(Mutex::new(Vec::new()));
        let heard = Arc::clone(&commands);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let heard = Arc::clone(&heard);
                std::thread::spawn(move || serve(stream, answer, &heard));
            }
        });
        Self { port, commands }
    }

    /// The URL of a path on it.
    pub fn url(&self, path: &str) -> String {
        format!("ftp://127.0.0.1:{}{path}", self.port)
    }

    /// The commands of all connections so far that start so.
    pub fn heard(&self, start: &str) -> Vec<String> {
        let commands = self.commands.lock().expect("no panic");
        commands.iter().filter(|line| line.starts_with(start)).cloned().collect()
    }
}

fn usual(line: &str) -> Say {
    let reply = match line.split(' ').next().unwrap_or_default() {
        "USER" => "331 password",
        "PASS" => "230 in",
        "TYPE" | "MODE" => "200 ok",
        "FEAT" => "211-Features:\r\n MLST type*;size*;modify*;\r\n MDTM\r\n MFMT\r\n211 End",
        "PWD" => "257 \"/\"",
        "REST" | "RNFR" => "350 go on",
        "RNTO" | "DELE" | "MKD" | "RMD" | "CWD" => "250 done",
        "STOR" => return Say::Take,
        "QUIT" => "221 bye",
        _ => "500 what",
    };
    Say::Reply(reply)
}

fn serve(mut control: TcpStream, answer: Answer, heard: &Mutex<Vec<String>>) -> Option<()> {
    let passive = TcpListener::bind("127.0.0.1:0").ok()?;
    let port = passive.local_addr().ok()?.port();
    let mut lines = BufReader::new(control.try_clone().ok()?).split(b'\n');
    let (mut held, mut active) = (Vec::new(), None);
    control.write_all(b"220 hello\r\n").ok()?;
    while let Some(Ok(line)) = lines.next() {
        let line = String::from_utf8_lossy(&line).trim_end().to_owned();
        heard.lock().expect("no panic").push(line.clone());
        if line == "EPSV" {
            control.write_all(format!("229 (|||{port}|)\r\n").as_bytes()).ok()?;
            continue;
        }
        if let Some(numbers) = line.strip_prefix("PORT 127,0,0,1,") {
            let mut numbers = numbers.split(',').map(|number| number.parse::<u16>().expect("a number"));
            active = numbers.next().zip(numbers.next()).map(|(high, low)| high << 8 | low);
        }
        match answer(&line).unwrap_or_else(|| usual(&line)) {
            Say::Reply(reply) => control.write_all(format!("{reply}\r\n").as_bytes()).ok()?,
            Say::Send(bytes) => send(&mut control, &passive, &bytes, "226 done")?,
            Say::Ends(bytes, reply) => send(&mut control, &passive, &bytes, reply)?,
            Say::Blocks(connections) => {
                control.write_all(b"150 opening\r\n").ok()?;
                let port = active.expect("a port of the client");
                let open = |bytes| Some((TcpStream::connect(("127.0.0.1", port)).ok()?, bytes));
                // A client that has found the lie is gone.
                for (data, bytes) in connections.iter().map_while(open).collect::<Vec<_>>().iter_mut() {
                    let _ = data.write_all(bytes);
                }
                control.write_all(b"226 done\r\n").ok()?;
            }
            Say::Nothing => {}
            Say::Half(bytes) => {
                control.write_all(b"150 opening\r\n").ok()?;
                let mut data = passive.accept().ok()?.0;
                data.write_all(&bytes).ok()?;
                held.push(data);
            }
            Say::Cut(bytes) => {
                control.write_all(b"150 opening\r\n").ok()?;
                passive.accept().ok()?.0.write_all(&bytes).ok()?;
                control.write_all(b"426 lost\r\n").ok()?;
            }
            Say::Take => {
                control.write_all(b"150 opening\r\n").ok()?;
                passive.accept().ok()?.0.read_to_end(&mut Vec::new()).ok()?;
                control.write_all(b"226 done\r\n").ok()?;
            }
        }
    }
    Some(())
}

/// Sends bytes over a data channel, and what is said behind them.
fn send(control: &mut TcpStream, passive: &TcpListener, bytes: &[u8], reply: &str) -> Option<()> {
    control.write_all(b"150 opening\r\n").ok()?;
    // A client that has found the lie is gone.
    let _ = passive.accept().ok()?.0.write_all(bytes);
    control.write_all(format!("{reply}\r\n").as_bytes()).ok()
}
