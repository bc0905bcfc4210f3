//! Every way to make small files makes them all, whole.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

#[test]
fn every_way_makes_every_file_and_nothing_else() {
    let scratch = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("small-files-{}", std::process::id()));
    for way in ["store", "plain", "careful"] {
        let directory = scratch.join(way);
        fs::create_dir_all(&directory).expect("directory of the test");
        let output = Command::new(env!("CARGO_BIN_EXE_small-files"))
            .args([way, "--files", "130", "--size", "500", "--directory"])
            .arg(&directory)
            .output()
            .expect("start the program");
        assert!(output.status.success(), "{way}: {}", String::from_utf8_lossy(&output.stderr));
        let line: serde_json::Value = serde_json::from_slice(&output.stdout).expect("one line");
        assert!(line["files"] == 130 && line["seconds"].as_f64().expect("seconds") > 0.0);
        let names: Vec<_> = fs::read_dir(&directory).expect("directory").flatten().collect();
        assert_eq!(names.len(), 130, "{way}");
        for name in names {
            assert_eq!(fs::read(name.path()).expect("a file"), [0x5a; 500], "{way}");
        }
    }
    fs::remove_dir_all(scratch).expect("clean");
}
