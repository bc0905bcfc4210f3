//! Second names of files where the target cannot give a file another name: on another file system, as one over a mount is.

use std::os::unix::fs::MetadataExt;
use std::process::Command;

use xdfs_test_cli::{Outcome, Running, Scene, Server, xdfs_binary};

/// `words` run by xdfs where the directory `name` is a mount of its own: no name in it can be a hard link of one outside.
fn mounted(scene: &Scene, name: &str, words: &[&str]) -> Command {
    let script = "mount --bind \"$1\" \"$1\" && cd . && shift && exec \"$@\"";
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "--mount", "sh", "-c", script, "sh"]).arg(scene.path(name));
    command.arg(xdfs_binary()).args(words).current_dir(scene.path("."));
    scene.dress("somebody", &mut command);
    command
}

#[test]
fn where_hard_links_cannot_be_made_each_name_is_a_file_of_its_own_and_none_is_lost() {
    if !xdfs_test_needs::namespaces() {
        return;
    }
    for (down, length) in [(false, 5), (false, 300_000), (true, 5), (true, 300_000)] {
        let scene = Scene::new();
        let (top, copy) = if down { ("server/tree", "copy") } else { ("tree", "server/copy") };
        let content = vec![7; length];
        scene.write(format!("{top}/a"), &content);
        scene.write(format!("{top}/m/other"), b"other");
        scene.write(format!("{copy}/m/older"), b"of another length");
        scene.write(format!("{copy}/m/directory/in/it"), b"in its way");
        std::os::unix::fs::symlink("to", scene.path(format!("{copy}/m/link"))).expect("a link");
        let all = ["beside", "m/new", "m/older", "m/directory", "m/link"];
        for name in all {
            std::fs::hard_link(scene.path(format!("{top}/a")), scene.path(format!("{top}/{name}"))).expect("a name");
        }
        scene.directory("server");
        let mount = format!("{copy}/m");
        let words = ["serve", "--json", "--listen", "127.0.0.1:0", "--quiet", "--export", "data=server"];
        let more = ["--allow-anonymous", "rw"];
        let run = |server: &Server, words: &[&str]| -> Outcome {
            if down {
                return Running::start(mounted(&scene, &mount, &[words, &[&server.url("tree"), "copy"]].concat()))
                    .wait();
            }
            scene.run([words, &["tree", &server.url("copy")]].concat())
        };
        let server = match down {
            true => scene.serve(),
            false => {
                let server = Server::start(mounted(&scene, &mount, &words), &more);
                scene.run(["trust", "pin", server.address(), server.host_key()]).ends_with(0);
                server
            }
        };
        let outcome = run(&server, &["sync", "-a", "--delete"]);
        for name in all {
            let path = scene.path(format!("{copy}/{name}"));
            assert!(std::fs::read(&path).is_ok_and(|there| there == content), "{name} {down}: {}", outcome.messages);
        }
        outcome.ends_with(0);
        assert_eq!(outcome.messages.matches("hard link").count(), 1, "{}", outcome.messages);
        let number = |name: &str| std::fs::metadata(scene.path(format!("{copy}/{name}"))).expect("it is there").ino();
        assert_eq!(number("a"), number("beside"), "where it can be made it is made");
        let left = std::fs::read_dir(scene.path(&mount)).expect("it is there").count();
        assert_eq!(left, 5, "nothing else is left");
    }
}
