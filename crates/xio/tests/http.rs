//! The driver `http` with other programs at the other end: curl, Python's server and nginx.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the finding")]
#![allow(clippy::disallowed_methods, reason = "makes files that other programs serve")]

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;
use xdfs_secure::identity::{KeyPair, x509};
use xdfs_xio::{Answer, ErrorKind, Handle, Options, Server, Stack, Timeouts, WriteInfo};

const PATIENCE: Duration = Duration::from_secs(30);
const MUCH: usize = 3_000_000;

fn options() -> Options {
    let timeouts =
        Timeouts { open: Some(PATIENCE), read: Some(PATIENCE), write: Some(PATIENCE), close: Some(PATIENCE) };
    Options { timeouts }
}

fn pattern(length: usize) -> Vec<u8> {
    (0..length as u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8).collect()
}

fn read_all(handle: &Handle) -> xdfs_xio::Result<Vec<u8>> {
    let (mut all, mut buffer) = (Vec::new(), vec![0; 50_000]);
    loop {
        let read = handle.read(&mut buffer, 1)?;
        all.extend_from_slice(&buffer[..read.bytes]);
        if read.info.end {
            return Ok(all);
        }
    }
}

fn text(handle: &Handle, command: &str) -> Option<String> {
    match handle.control(Some("http"), command, None).unwrap() {
        Answer::Text(text) => Some(text),
        _ => None,
    }
}

/// Answers each request with its method, its target and what its body was; `/file` with a file.
fn answer(handle: &Handle, file: &[u8]) {
    loop {
        let Ok(body) = read_all(handle) else { return };
        let (Some(method), Some(target)) = (text(handle, "method"), text(handle, "target")) else { break };
        let last = WriteInfo { end_of_message: true, ..WriteInfo::default() };
        let good = body.is_empty() || body == file;
        let told = format!("{method} {target} {} {good}", body.len());
        let content = match target.as_str() {
            "/file" => file,
            "/missing" => {
                handle.control(None, "status", Some("404")).unwrap();
                b"nothing here"
            }
            _ => told.as_bytes(),
        };
        // A client that wanted less has left.
        if handle.writev(&mut [std::io::IoSlice::new(content)], &last).is_err() {
            return;
        }
        if handle.control(None, "next", None).is_err() {
            break;
        }
    }
    drop(handle.close());
}

/// A server of ours that runs until the test ends; its contact.
fn serve(stack: &Stack, file: &Arc<Vec<u8>>) -> (Arc<Server>, String) {
    let server = Arc::new(Server::listen(stack, "127.0.0.1:0").unwrap());
    let (accepting, file) = (server.clone(), file.clone());
    thread::spawn(move || {
        while let Ok(accepted) = accepting.accept(None) {
            let file = file.clone();
            thread::spawn(move || {
                if let Ok(handle) = accepted.open(&options()) {
                    answer(&handle, &file);
                }
            });
        }
    });
    let contact = server.contact().unwrap();
    (server, contact)
}

fn curl_output(arguments: &[&str]) -> Output {
    let output = Command::new("curl")
        .args(["--silent", "--show-error", "--max-time", "30", "--noproxy", "*"])
        .args(arguments)
        .output();
    output.expect("curl is installed: `cargo run -p xtask -- setup` does that")
}

/// What curl prints.
fn curl(arguments: &[&str]) -> Vec<u8> {
    let output = curl_output(arguments);
    assert!(output.status.success(), "curl {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

fn curl_text(arguments: &[&str]) -> String {
    String::from_utf8(curl(arguments)).unwrap()
}

fn with<'a>(more: &[&'a str], arguments: &[&'a str]) -> Vec<&'a str> {
    [more, arguments].concat()
}

/// Gets, puts and posts what a person would.
fn try_with_curl(url: &str, path: &Path, file: &[u8], more: &[&str]) {
    let (name, size) = (path.to_str().unwrap(), file.len());
    let data = format!("@{name}");
    assert!(curl(&with(more, &[&format!("{url}/file")])) == file);
    assert_eq!(curl_text(&with(more, &[&format!("{url}/a%20b?c=d")])), "GET /a%20b?c=d 0 true");
    assert_eq!(curl_text(&with(more, &["-T", name, &format!("{url}/put")])), format!("PUT /put {size} true"));
    assert_eq!(
        curl_text(&with(more, &["--data-binary", &data, &format!("{url}/post")])),
        format!("POST /post {size} true"),
        "curl waits for leave to send that much"
    );
    let chunks = format!("{url}/chunks");
    let chunked = with(more, &["-H", "Transfer-Encoding: chunked", "--data-binary", &data, &chunks]);
    if more.contains(&"--http1.0") {
        // It has no chunks, and curl sends them nevertheless: that is refused. Whether curl is still sending then, and fails,
        // is chance.
        assert_eq!(curl_output(&chunked).stdout, b"");
    } else {
        assert_eq!(curl_text(&chunked), format!("POST /chunks {size} true"));
    }
    let head = curl_text(&with(more, &["-I", &format!("{url}/file")]));
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
    let missing = format!("{url}/missing");
    assert_eq!(curl_text(&with(more, &["-w", " %{http_code}", &missing])), "nothing here 404");
}

#[test]
fn curl_gets_puts_and_posts() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    let file = Arc::new(pattern(MUCH));
    std::fs::write(&path, &*file).unwrap();
    for attributes in ["", "keep"] {
        let stack = Stack::new().push("tcp", "").unwrap().push("http", attributes).unwrap();
        let (server, contact) = serve(&stack, &file);
        let url = format!("http://{contact}");
        try_with_curl(&url, &path, &file, &[]);
        try_with_curl(&url, &path, &file, &["--http1.0"]);
        let both = [format!("{url}/1"), format!("{url}/2")];
        let connections = curl_text(&["-w", " %{num_connects},", &both[0], &both[1]]);
        let again = if attributes == "keep" { 0 } else { 1 };
        assert_eq!(connections, format!("GET /1 0 true 1,GET /2 0 true {again},"));
        server.close();
    }
}

#[test]
fn curl_gets_puts_and_posts_over_tls() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    let key = KeyPair::generate().unwrap();
    let certificate = x509::certificate_pem(&key, &["127.0.0.1".to_owned()]).unwrap();
    std::fs::write(at("pem"), certificate).unwrap();
    std::fs::write(at("key"), x509::private_pem(&key).as_bytes()).unwrap();
    let file = Arc::new(pattern(MUCH));
    std::fs::write(at("file"), &*file).unwrap();
    let own = format!("certificate={};key={};alpn=http/1.1", at("pem").display(), at("key").display());
    let stack = Stack::new().push("tcp", "").unwrap().push("tls", &own).unwrap().push("http", "keep").unwrap();
    let (server, contact) = serve(&stack, &file);
    let trusted = at("pem");
    try_with_curl(&format!("https://{contact}"), &at("file"), &file, &["--cacert", trusted.to_str().unwrap()]);
    let trust = format!("trust={};alpn=http/1.1", at("pem").display());
    let client = Stack::new().push("tcp", "").unwrap().push("tls", &trust).unwrap().push("http", "").unwrap();
    let ours = Handle::open(&client, &format!("https://{contact}/file"), &options()).unwrap();
    assert!(read_all(&ours).unwrap() == *file);
    server.close();
}

/// A program that serves; it is ended with the test.
struct Serving(Child);

impl Drop for Serving {
    fn drop(&mut self) {
        // It fails only where the program has ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn client(attributes: &str) -> Stack {
    Stack::new().push("tcp", "").unwrap().push("http", attributes).unwrap()
}

#[test]
fn a_client_reads_from_the_server_of_python() {
    let directory = tempfile::tempdir().unwrap();
    let file = pattern(MUCH);
    std::fs::write(directory.path().join("a file"), &file).unwrap();
    let mut python = Command::new("python3");
    python.args(["-u", "-m", "http.server", "0", "--bind", "127.0.0.1", "--directory"]).arg(directory.path());
    let started = python.stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
    let mut serving = Serving(started.expect("python3 is installed: `cargo run -p xtask -- setup` does that"));
    let mut line = String::new();
    BufReader::new(serving.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let port = line.split_whitespace().find_map(|word| word.parse::<u16>().ok()).unwrap();
    let url = |path: &str| format!("http://127.0.0.1:{port}{path}");
    let open = |path: &str, attributes: &str| Handle::open(&client(attributes), &url(path), &options()).unwrap();
    let got = open("/a%20file", "");
    assert!(read_all(&got).unwrap() == file);
    assert_eq!(got.control(None, "header", Some("content-length")).unwrap(), Answer::Text(MUCH.to_string()));
    assert!(read_all(&open("/a file", "")).unwrap() == file, "a blank is written as servers want it");
    let missing = read_all(&open("/missing", "")).unwrap_err();
    assert_eq!((missing.kind(), missing.driver()), (ErrorKind::NotFound, Some("http")), "{missing}");
    let posted = open("/", "POST;length=4");
    posted.write(b"data").unwrap();
    assert_eq!(read_all(&posted).unwrap_err().kind(), ErrorKind::Unsupported, "it takes none");
    let kept = open("/a%20file", "keep");
    read_all(&kept).unwrap();
    assert!(kept.control(None, "next", Some("/")).unwrap_err().to_string().contains("closes"), "HTTP/1.0");
}

/// nginx, with a directory of files and `/up/` as a proxy in front of `upstream`.
fn nginx(directory: &TempDir, upstream: &str) -> Serving {
    let at = |name: &str| directory.path().join(name).display().to_string();
    let config = format!(
        "daemon off; master_process off; pid {pid}; error_log stderr crit; worker_processes 1;
         events {{ worker_connections 64; }}
         http {{
             access_log off; client_max_body_size 100m; ssi on; ssi_types *;
             client_body_temp_path {t}/1; proxy_temp_path {t}/2; fastcgi_temp_path {t}/3;
             uwsgi_temp_path {t}/4; scgi_temp_path {t}/5;
             server {{
                 listen unix:{socket};
                 root {root};
                 location /plain/ {{ ssi off; }}
                 location /up/ {{
                     proxy_pass http://{upstream}/; proxy_http_version 1.1; proxy_request_buffering off;
                     proxy_buffering off; ssi off;
                 }}
                 location /old/ {{ proxy_pass http://{upstream}/; ssi off; }}
             }}
         }}",
        pid = at("pid"),
        t = directory.path().display(),
        socket = at("socket"),
        root = at("root"),
    );
    std::fs::write(at("conf"), config).unwrap();
    // Debian has it where a person's search path may not lead.
    let mut command = Command::new("/usr/sbin/nginx");
    let started = command.args(["-p", &at(""), "-c", &at("conf"), "-e", "stderr"]).stdout(Stdio::null()).spawn();
    Serving(started.expect("nginx is installed: `cargo run -p xtask -- setup` does that"))
}

#[test]
fn a_client_speaks_with_nginx_and_through_it_with_our_server() {
    let directory = tempfile::tempdir().unwrap();
    let file = Arc::new(pattern(MUCH));
    std::fs::create_dir_all(directory.path().join("root/plain")).unwrap();
    std::fs::write(directory.path().join("root/plain/file"), &*file).unwrap();
    std::fs::write(directory.path().join("root/chunks"), "chunked text").unwrap();
    let (server, upstream) = serve(&client("keep"), &file);
    let _serving = nginx(&directory, &upstream);
    let socket = directory.path().join("socket");
    let open = |target: &str, attributes: &str| {
        let attributes = format!("target={target};{attributes}");
        let stack = Stack::new().push("unix", "").unwrap().push("http", &attributes).unwrap();
        Handle::open(&stack, socket.to_str().unwrap(), &options())
    };
    let began = Instant::now();
    let first = loop {
        match open("/plain/file", "keep") {
            Ok(handle) => break handle,
            Err(error) => assert!(began.elapsed() < PATIENCE, "nginx does not listen: {error}"),
        }
        thread::yield_now();
    };
    assert!(read_all(&first).unwrap() == *file);
    first.control(None, "next", Some("/chunks")).unwrap();
    assert_eq!(read_all(&first).unwrap(), b"chunked text", "on the same connection");
    assert_eq!(first.control(None, "header", Some("Transfer-Encoding")).unwrap(), Answer::Text("chunked".to_owned()));
    assert_eq!(read_all(&open("/missing", "").unwrap()).unwrap_err().kind(), ErrorKind::NotFound);
    let last = WriteInfo { end_of_message: true, ..WriteInfo::default() };
    for through in ["/up", "/old"] {
        assert!(read_all(&open(&format!("{through}/file"), "").unwrap()).unwrap() == *file, "{through}");
        for (method, attributes) in
            [("PUT", "method=PUT"), ("POST", "method=POST"), ("POST", "method=POST;length=3000000")]
        {
            let handle = open(&format!("{through}/body"), attributes).unwrap();
            handle.writev(&mut [std::io::IoSlice::new(&file)], &last).unwrap();
            let answer = String::from_utf8(read_all(&handle).unwrap()).unwrap();
            assert_eq!(answer, format!("{method} /body {MUCH} true"), "{through} {attributes}");
        }
    }
    server.close();
}
