//! Names on servers completed in real shells: what TAB puts into a line must be what the command then finds.

use std::ffi::OsStr;
use std::net::TcpListener;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use xdfs_test_cli::{Running, Scene, Server, Terminal, exit, xdfs_binary};

/// Names on the server, each with a beginning of its own.
const NAMES: [&[u8]; 12] = [
    b"plain.bin",
    b"a b  c.txt",
    b"it's \"quoted\".txt",
    b"x:y=z@w.txt",
    b"$(false)`!!&;|<>.txt",
    b"100%25.bin",
    b"back\\slash\\ .txt",
    b"what?#*[1]{a,b}~.txt",
    "gr\u{fc}n \u{65e5}.txt".as_bytes(),
    b"esc\x1b[2J\x07.txt",
    b"raw\xff\xfe.txt",
    b"new\nline\ttab.txt",
];

const SHELLS: [&str; 3] = ["bash", "zsh", "fish"];

/// What a file of [`NAMES`] holds, in a form that nobody types.
fn content(number: usize) -> String {
    format!("({})", number + 7000)
}

struct Stage {
    scene: Scene,
    server: Server,
}

impl Stage {
    /// A server with the names, which the configuration file calls `lab`.
    fn new() -> Self {
        let scene = Scene::new();
        for (number, name) in NAMES.iter().enumerate() {
            let path = [&b"server/"[..], name].concat();
            scene.write(OsStr::from_bytes(&path), content(number).as_bytes());
        }
        scene.write("server/dir with/inner file", b"(inner)");
        scene.write("server/.hidden", b"(hidden)");
        scene.write("local file", b"(local)");
        let server = scene.serve();
        let config = format!("[hosts.lab]\naddress = \"{}\"\nexport = \"data\"\n", server.address());
        scene.write("home-somebody/.config/xdfs/config", config.as_bytes());
        scene.directory("home-somebody/bin");
        std::os::unix::fs::symlink(xdfs_binary(), scene.path("home-somebody/bin/xdfs")).expect("a new link");
        Self { scene, server }
    }

    /// An interactive shell with the completions of docs/completions and nothing of whoever runs the tests.
    fn shell(&self, shell: &str) -> Terminal {
        assert!(xdfs_test_needs::program(shell, shell));
        let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/completions");
        let scripts = scripts.display();
        let start = match shell {
            "bash" => {
                let text = format!("bind 'set enable-bracketed-paste off'; PS1='[ready]'; . {scripts}/xdfs.bash\n");
                format!("exec bash --noprofile --rcfile {} -i", self.scene.write("rc.bash", text.as_bytes()).display())
            }
            "zsh" => {
                let text = format!(
                    "PS1='[ready]'; unsetopt PROMPT_SP; unset zle_bracketed_paste; fpath=({scripts} $fpath)\n\
                     autoload -U compinit; compinit -u -D\n"
                );
                self.scene.write("zdot/.zshrc", text.as_bytes());
                format!("ZDOTDIR={} exec zsh -d -i", self.scene.path("zdot").display())
            }
            _ => format!(
                "exec fish --no-config -i -C 'function fish_prompt; echo [ready]; end; source {scripts}/xdfs.fish'"
            ),
        };
        let mut command = Command::new("sh");
        command.args(["-c", &format!("stty cols 400 rows 50; {start}")]).current_dir(self.scene.path(""));
        self.scene.dress("somebody", &mut command);
        let path = std::env::var("PATH").expect("it is set");
        command.env("PATH", format!("{}:{path}", self.scene.path("home-somebody/bin").display()));
        command.env("TERM", "xterm").env("LC_ALL", "C.UTF-8");
        let terminal = Terminal::start(&command);
        terminal.expect("[ready]");
        terminal
    }
}

/// The beginning of a name as it is typed.
fn beginning(name: &[u8]) -> String {
    let typed = char::from(name[0]);
    if typed == '$' { "\\$".to_owned() } else { typed.to_string() }
}

#[test]
fn each_name_is_completed_to_what_the_command_finds() {
    let stage = Stage::new();
    let top = format!("xdfs://{}/data/", stage.server.address());
    for shell in SHELLS {
        let mut terminal = stage.shell(shell);
        for (number, name) in NAMES.iter().enumerate() {
            // In a URL it is %24.
            let begun = beginning(name);
            terminal.type_line(&format!("xdfs cat {top}{begun}\t"));
            terminal.expect(&content(number));
            // Which fish cannot complete.
            if shell != "fish" || !name.contains(&b'\n') {
                terminal.type_line(&format!("xdfs cat lab:{begun}\t"));
                terminal.expect_times(&content(number), 2);
            }
        }
        terminal.type_line("exit");
        terminal.wait();
    }
}

#[test]
fn quotes_directories_exports_and_servers_are_completed_step_by_step() {
    let stage = Stage::new();
    let (host, port) = stage.server.address().split_once(':').expect("an address with a port");
    for shell in SHELLS {
        let mut terminal = stage.shell(shell);
        let lines = [
            ("xdfs cat 'lab:i\t".to_owned(), content(2)),
            ("xdfs cat \"lab:i\t".to_owned(), content(2)),
            ("xdfs cat \"lab:x\t".to_owned(), content(3)),
            ("xdfs cat lab:d\ti\t".to_owned(), "(inner)".to_owned()),
            ("xdfs cat lab:/\tpl\t".to_owned(), content(0)),
            (format!("xdfs cat xdfs://{}\tdata/d\ti\t", &host[..4]), "(inner)".to_owned()),
            (format!("xdfs cat xdfs://{host}:{port}/d\td\t\t"), "(inner)".to_owned()),
            ("xdfs cat la\tpl\t".to_owned(), content(0)),
            ("xdfs cat lab:.h\t".to_owned(), "(hidden)".to_owned()),
            ("xdfs cp loc\tlab:upload; xdfs cat lab:upload".to_owned(), "(local)".to_owned()),
        ];
        for (line, shown) in lines {
            terminal.type_line(&format!("clear; {line}"));
            terminal.expect(&shown);
            terminal.type_line("printf %s%s 77 done");
            terminal.expect("77done");
            terminal.forget();
        }
        terminal.type_line("exit");
        terminal.wait();
    }
}

#[test]
fn where_a_file_is_expected_bash_lists_files_and_no_options() {
    let stage = Stage::new();
    let mut terminal = stage.shell("bash");
    terminal.type_line("xdfs cp -r \t\t");
    terminal.expect("local file");
}

#[test]
fn the_commands_of_a_command_are_listed_and_no_files() {
    let stage = Stage::new();
    for shell in SHELLS {
        for (line, shown) in [("user", "restore"), ("key", "import"), ("trust", "forget")] {
            let mut terminal = stage.shell(shell);
            format!("xdfs {line} \t\t").bytes().for_each(|key| terminal.type_key(key));
            terminal.expect(shown);
            // Ctrl-U: the line is not run.
            terminal.type_key(0x15);
            terminal.type_line("exit");
            let (_, screen) = terminal.wait();
            assert!(!screen.contains("local file"), "{shell}, {line}: {screen}");
        }
    }
}

#[test]
fn nobody_is_asked_and_nothing_is_said() {
    let stage = Stage::new();
    let complete = |person: &str, word: &str| {
        let words = ["complete", "zsh", "--", "xdfs", "cp", word];
        let (code, screen) = stage.scene.terminal_as(person, words).wait();
        assert_eq!(code, Some(exit::DONE), "{screen}");
        screen
    };
    let url = format!("xdfs://{}/data/pl", stage.server.address());
    assert_eq!(complete("somebody", &url), format!("{url}ain.bin\0"));
    // Whose key is not known, a user who has only a password, a server that is not there, and what is no name.
    assert_eq!(complete("stranger", &url), "");
    let closed = stage.scene.serve_for("anna", "anna");
    for word in [
        &format!("xdfs://berta@{}/data/", closed.address()),
        "xdfs://127.0.0.1:1/data/",
        "xdfs://[::1/data/",
        "lab:plain.bin/",
        "lab:absent/",
        "other:x",
        "xdfs://127.0.0.1/data/*/",
        "",
    ] {
        let expected = if word.is_empty() { "lab:\0" } else { "" };
        assert_eq!(complete("somebody", word), expected, "{word}");
    }
    stage.scene.write("home-somebody/.config/xdfs/config", b"nonsense");
    assert_eq!(complete("somebody", "lab:"), "");
}

#[test]
fn a_server_that_does_not_answer_is_not_waited_for() {
    let stage = Stage::new();
    let silent = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = silent.local_addr().expect("its address");
    stage.scene.trust(&address.to_string(), &stage.server);
    let started = Instant::now();
    let url = format!("xdfs://{address}/data/");
    let outcome = stage.scene.run(["complete", "fish", "--", "xdfs", "ls", &url]);
    outcome.ends_with(exit::DONE).is_silent();
    assert!(outcome.output.is_empty());
    let waited = started.elapsed();
    assert!(waited >= Duration::from_secs(2) && waited < Duration::from_secs(6), "{waited:?}");
}

#[test]
fn the_line_says_how_to_log_in_and_the_server_logs_no_lost_session() {
    let stage = Stage::new();
    let server = stage.scene.serve_for("anna", "anna");
    let key = stage.scene.home("anna", "state/xdfs/id_ed25519");
    let log = stage.scene.path("log");
    let url = format!("xdfs://anna@{}/data/pl", server.address());
    let line = format!("xdfs cp --identity '{}' {url}", key.display());
    let (_, replaced) = url.rsplit_once('/').expect("a path");
    let outcome = stage.scene.run(["complete", "bash", "--", &line, replaced]);
    assert_eq!(outcome.ends_with(exit::DONE).text(), "plain.bin\n");
    let mut loud = stage.scene.command(["serve", "--json", "--listen", "127.0.0.1:0", "--export", "data=server"]);
    loud.args(["--allow-anonymous", "ro"]).stderr(std::fs::File::create(&log).expect("a new file"));
    let loud = Server::start(loud, &[]);
    stage.scene.trust(loud.address(), &loud);
    let url = format!("xdfs://{}/data/pl", loud.address());
    let listed = stage.scene.command(["complete", "zsh", "--", "xdfs", "cp", &url]);
    assert!(!Running::start(listed).wait().ends_with(exit::DONE).output.is_empty());
    assert_eq!(loud.stop(), Some(exit::DONE));
    let log = String::from_utf8(stage.scene.read("log")).expect("text");
    assert!(log.contains("session") && !log.contains(" warn "), "{log}");
}
