//! Files of every size, both ways, at both levels, with both ways of writing; several transfers at a time.

use super::support::relay::Relay;
use super::support::serving::{Serving, Setup};
use super::support::{BLOCK, Scratch, assert_same, download_to, finish, pattern, upload_of};
use std::process::Command;
use xdfs_client::{Address, ConnectOptions, DiskMode, GetOptions, Level, Payload, PutOptions, Session, Target};
use xdfs_server::Policy;

const SIZES: [usize; 6] = [0, 1, BLOCK - 1, BLOCK, BLOCK + 1, 9 * BLOCK + 17];

/// Every size up and down again.
fn round_trips(serving: &Serving, session: &Session) {
    let here = Scratch::new();
    for (index, size) in SIZES.into_iter().enumerate() {
        let bytes = pattern(size, index as u64);
        let name = format!("file-{index}");
        let source = here.write(&name, &bytes);
        let put = session.put(upload_of(&source), format!("data/{name}"), &PutOptions::default()).unwrap();
        let report = finish(&put).unwrap();
        assert_eq!(report.length, size as u64);
        assert_eq!(report.channel_bytes.values().sum::<u64>(), report.moved);
        assert_same(&serving.directory.read(&name), &bytes);

        let back = here.file("back");
        let get = session.get(format!("data/{name}"), download_to(&back), &GetOptions::default()).unwrap();
        assert_eq!(finish(&get).unwrap().length, size as u64);
        assert_same(&here.read("back"), &bytes);
    }
}

#[test]
fn files_of_every_size_arrive_whole_at_every_level_and_disk_mode() {
    for disk in [DiskMode::Inline, DiskMode::Beside] {
        let serving = Serving::with(Setup { disk, ..Setup::default() });
        for level in [Level::Clear, Level::Integrity] {
            for channels in [1, 5] {
                let options = ConnectOptions { level, disk, ..serving.options(channels) };
                let session = Session::connect(&options).unwrap();
                round_trips(&serving, &session);
                session.close().unwrap();
            }
        }
    }
}

#[test]
fn sixty_four_channels_carry_a_file_over_one_pipeline() {
    let serving = Serving::start();
    let here = Scratch::new();
    let bytes = pattern(300 * BLOCK + 5, 64);
    let source = here.write("source", &bytes);
    for level in [Level::Clear, Level::Integrity] {
        let session = Session::connect(&ConnectOptions { level, ..serving.options(64) }).unwrap();
        finish(&session.put(upload_of(&source), "data/up", &PutOptions::default()).unwrap()).unwrap();
        assert_same(&serving.directory.read("up"), &bytes);
        finish(&session.get("data/up", download_to(&here.file("down")), &GetOptions::default()).unwrap()).unwrap();
        assert_same(&here.read("down"), &bytes);
        session.close().unwrap();
    }
}

#[test]
fn a_unix_socket_serves_as_well() {
    let serving = Serving::with(Setup { unix: true, ..Setup::default() });
    let session = serving.connect(3);
    round_trips(&serving, &session);
    session.close().unwrap();
}

#[test]
fn several_pipelines_move_one_file_and_commit_it_once() {
    for disk in [DiskMode::Inline, DiskMode::Beside] {
        let serving = Serving::with(Setup { disk, ..Setup::default() });
        for (pipelines, level) in [(2, Level::Clear), (3, Level::Integrity)] {
            let options = ConnectOptions { pipelines, level, disk, ..serving.options(7) };
            let session = Session::connect(&options).unwrap();
            assert_eq!(session.facts().pipelines, pipelines);
            for _ in 0..5 {
                let here = Scratch::new();
                let bytes = pattern(40 * BLOCK + 3, u64::from(pipelines));
                let source = here.write("source", &bytes);
                finish(&session.put(upload_of(&source), "data/many", &PutOptions::default()).unwrap()).unwrap();
                assert_same(&serving.directory.read("many"), &bytes);
                let back = download_to(&here.file("back"));
                finish(&session.get("data/many", back, &GetOptions::default()).unwrap()).unwrap();
                assert_same(&here.read("back"), &bytes);
            }
            session.close().unwrap();
        }
        serving.directory.wait_for_names(&["many"]);
    }
}

#[test]
fn a_range_arrives_as_exactly_that_range() {
    let serving = Serving::start();
    let bytes = pattern(5 * BLOCK, 3);
    serving.directory.write("file", &bytes);
    let session = serving.connect(3);
    let whole = bytes.len() as u64;
    for (offset, length) in [(0, Some(0)), (777, None), (BLOCK as u64 + 1, Some(3 * BLOCK as u64)), (whole, None)] {
        let (target, content) = Target::memory();
        let options = GetOptions { offset, length, ..GetOptions::default() };
        finish(&session.get("data/file", target, &options).unwrap()).unwrap();
        let end = length.map_or(whole, |length| offset + length);
        assert_same(&content.take().unwrap(), &bytes[offset as usize..end as usize]);
    }
    for (offset, length) in [(whole + 1, None), (1, Some(whole)), (whole, Some(1))] {
        let options = GetOptions { offset, length, ..GetOptions::default() };
        let error = finish(&session.get("data/file", Target::null(), &options).unwrap()).unwrap_err();
        assert_eq!(error.kind, xdfs_client::ErrorKind::OutOfRange, "{error}");
    }
    session.close().unwrap();
}

#[test]
fn two_hundred_files_need_no_new_connection() {
    let serving = Serving::start();
    let relay = Relay::to(&serving.address);
    let options = ConnectOptions { address: relay.address.clone(), ..serving.options(4) };
    let session = Session::connect(&options).unwrap();
    for round in 0..4 {
        // As many at a time as one likes.
        let transfers: Vec<_> = (0..50)
            .map(|number| {
                let bytes = pattern(100 + number, (round * 50 + number) as u64);
                let payload = Payload::bytes(bytes).unwrap();
                session.put(payload, format!("data/{round}-{number}"), &PutOptions::default()).unwrap()
            })
            .collect();
        for transfer in transfers {
            finish(&transfer).unwrap();
        }
    }
    for (round, number) in (0..4).flat_map(|round| (0..50).map(move |number| (round, number))) {
        let expected = pattern(100 + number, (round * 50 + number) as u64);
        assert_same(&serving.directory.read(&format!("{round}-{number}")), &expected);
    }
    assert_eq!(serving.directory.names().len(), 200);
    session.close().unwrap();
    assert_eq!(relay.connections(), 4);
}

#[test]
fn an_upload_and_a_download_run_at_once_in_one_session() {
    for level in [Level::Clear, Level::Integrity] {
        let serving = Serving::start();
        let (up, down) = (pattern(120 * BLOCK, 1), pattern(130 * BLOCK + 9, 2));
        let here = Scratch::new();
        let source = here.write("up", &up);
        serving.directory.write("down", &down);
        let session = Session::connect(&ConnectOptions { level, ..serving.options(4) }).unwrap();
        let put = session.put(upload_of(&source), "data/up", &PutOptions::default()).unwrap();
        let back = download_to(&here.file("down"));
        let get = session.get("data/down", back, &GetOptions::default()).unwrap();
        finish(&get).unwrap();
        finish(&put).unwrap();
        assert_same(&serving.directory.read("up"), &up);
        assert_same(&here.read("down"), &down);
        session.close().unwrap();
    }
}

#[test]
fn two_servers_serve_one_program_at_once() {
    let servers = [Serving::start(), Serving::start()];
    let sessions: Vec<_> = servers.iter().map(|serving| serving.connect(4)).collect();
    let bytes: Vec<_> = (0..2).map(|seed| pattern(60 * BLOCK, seed)).collect();
    let transfers: Vec<_> = sessions
        .iter()
        .zip(&bytes)
        .map(|(session, bytes)| {
            session.put(Payload::bytes(bytes.clone()).unwrap(), "data/f", &PutOptions::default()).unwrap()
        })
        .collect();
    for transfer in transfers {
        finish(&transfer).unwrap();
    }
    for (serving, bytes) in servers.iter().zip(&bytes) {
        assert_same(&serving.directory.read("f"), bytes);
    }
    sessions.into_iter().for_each(|session| session.close().unwrap());
}

#[test]
fn two_clients_that_write_one_target_leave_one_content_whole() {
    let serving = Serving::start();
    let contents = [pattern(50 * BLOCK, 7), pattern(50 * BLOCK, 8)];
    let sessions = [serving.connect(3), serving.connect(3)];
    for _ in 0..5 {
        let transfers: Vec<_> = sessions
            .iter()
            .zip(&contents)
            .map(|(session, bytes)| {
                session.put(Payload::bytes(bytes.clone()).unwrap(), "data/one", &PutOptions::default()).unwrap()
            })
            .collect();
        for transfer in transfers {
            finish(&transfer).unwrap();
        }
        let left = serving.directory.read("one");
        assert!(contents.contains(&left), "a mix of both");
        serving.directory.wait_for_names(&["one"]);
    }
    sessions.into_iter().for_each(|session| session.close().unwrap());
}

#[test]
fn fewer_channels_than_asked_are_granted_and_told() {
    let policy = Policy { channels_max: 3, ..Policy::default() };
    let serving = Serving::with(Setup { policy, ..Setup::default() });
    let session = serving.connect(8);
    assert_eq!((session.facts().channels, session.facts().asked), (3, 8));
    round_trips(&serving, &session);
    assert!(session.joined() <= 3);
    session.close().unwrap();
}

#[test]
fn the_agreed_window_is_set_on_both_sides_of_every_channel() {
    if !xdfs_test_needs::program("ss", "iproute2") {
        return;
    }
    // More than the policy allows is cut to it.
    let policy = Policy { window_max: 48 * 1024, ..Policy::default() };
    let serving = Serving::with(Setup { policy, ..Setup::default() });
    let Address::Tcp(server) = serving.address else { panic!("not TCP") };
    let options = ConnectOptions { window: Some(96 * 1024), ..serving.options(2) };
    let session = Session::connect(&options).unwrap();
    assert_eq!(session.facts().window, 48 * 1024);
    round_trips(&serving, &session);
    // `ss` asks the kernel for what getsockopt tells of sockets that belong to others: rb and tb are SO_RCVBUF, SO_SNDBUF.
    let output = Command::new("ss").args(["-tmnH", "state", "established"]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let port = format!(":{}", server.port());
    let lines: Vec<&str> = text.lines().collect();
    let mut sockets = lines.windows(2).filter(|pair| pair[0].split_whitespace().any(|word| word.ends_with(&port)));
    let counts = sockets.try_fold((0, 0), |(server_side, client_side), pair| {
        let local = pair[0].split_whitespace().nth(2)?;
        let is_server = local.ends_with(&port);
        let memory = pair[1];
        // Channel 1 of the client was connected with what it wished; the kernel doubles every value.
        let set = [48, 96].into_iter().any(|kib| {
            memory.contains(&format!("rb{}", 2 * kib * 1024)) && memory.contains(&format!("tb{}", 2 * kib * 1024))
        });
        let cut = memory.contains(&format!("rb{}", 96 * 1024)) && memory.contains(&format!("tb{}", 96 * 1024));
        assert!(if is_server { cut } else { set }, "{local}: {memory}");
        Some(if is_server { (server_side + 1, client_side) } else { (server_side, client_side + 1) })
    });
    assert_eq!(counts, Some((2, 2)), "both sides of both channels: {text}");
    session.close().unwrap();
}
