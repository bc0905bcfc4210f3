//! The name under which programs look for the library, whatever the file is called.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libxdfs_xio.so.1");
}
