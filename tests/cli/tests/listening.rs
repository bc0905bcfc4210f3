//! Where `xdfs serve` listens if nobody says so: at IPv6 and IPv4 alike, and at IPv4 where the kernel has nothing else. In
//! network namespaces, since the port is always the same.

use std::process::Command;

use xdfs_test_cli::{Outcome, Running, Scene, Server, exit, xdfs_binary};

/// A server without `--listen`, in a network of its own in which `script` did something before and begins the command.
fn serve(scene: &Scene, script: &str) -> Server {
    scene.write("server/file", b"content");
    let script = format!("ip link set lo up && {script} \"$@\"");
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "--net", "sh", "-c", &script, "sh"]);
    command.arg(xdfs_binary()).args(["serve", "--json", "--quiet"]).current_dir(scene.path(""));
    scene.dress("somebody", &mut command);
    Server::start(command, &["--export", "data=server", "--allow-anonymous", "rw"])
}

/// Reads the file by a URL with `host`, from the server's network.
fn read(scene: &Scene, server: &Server, host: &str) -> Outcome {
    let mut command = Command::new("nsenter");
    let process = server.process().as_raw_nonzero().to_string();
    command.args(["--preserve-credentials", "--user", "--net", "--target", &process, "--"]).arg(xdfs_binary());
    // Without a port: it is the usual one.
    command.arg("cat").arg(format!("xdfs://{host}/data/file#{}", server.host_key()));
    command.current_dir(scene.path(""));
    scene.dress("somebody", &mut command);
    Running::start(command).wait()
}

#[test]
fn a_server_listens_at_ipv6_and_ipv4_where_there_is_ipv6() {
    if !xdfs_test_needs::networks() {
        return;
    }
    let scene = Scene::new();
    let server = serve(&scene, "test \"$(cat /proc/sys/net/ipv6/conf/all/disable_ipv6)\" = 0 && exec");
    assert_eq!(server.address(), "[::]:2799");
    for host in ["[::1]", "127.0.0.1"] {
        assert_eq!(read(&scene, &server, host).ends_with(exit::DONE).output, b"content", "{host}");
    }
}

#[test]
fn where_ipv6_is_switched_off_the_same_socket_serves_ipv4() {
    if !xdfs_test_needs::networks() {
        return;
    }
    let scene = Scene::new();
    // It may be switched on again while the server runs.
    let server = serve(&scene, "echo 1 > /proc/sys/net/ipv6/conf/all/disable_ipv6 && exec");
    assert_eq!(server.address(), "[::]:2799");
    assert_eq!(read(&scene, &server, "127.0.0.1").ends_with(exit::DONE).output, b"content");
    read(&scene, &server, "[::1]").ends_with(exit::CONNECTION_LOST);
}

#[test]
fn a_server_listens_at_ipv4_where_the_kernel_has_no_ipv6() {
    if !xdfs_test_needs::networks() || !xdfs_test_needs::tracing() {
        return;
    }
    let scene = Scene::new();
    // The first socket is the one by which the server learns that.
    let without = "exec strace -D -qq -o /dev/null -e trace=socket -e inject=socket:error=EAFNOSUPPORT:when=1";
    let server = serve(&scene, without);
    assert_eq!(server.address(), "0.0.0.0:2799");
    assert_eq!(read(&scene, &server, "127.0.0.1").ends_with(exit::DONE).output, b"content");
    read(&scene, &server, "[::1]").ends_with(exit::CONNECTION_LOST);
}
