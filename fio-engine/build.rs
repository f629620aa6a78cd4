//! Compiles the shim against fio's headers, where the feature `shim` asks for it.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    #[cfg(feature = "shim")]
    shim();
}

#[cfg(feature = "shim")]
#[expect(clippy::panic, reason = "a build that lacks what it needs ends with a text that says so")]
fn shim() {
    println!("cargo:rerun-if-env-changed=FIO_HEADERS");
    println!("cargo:rerun-if-changed=src/shim.c");
    // fio unloads the engine, but a thread for files may still run in it.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
    let Ok(headers) = std::env::var("FIO_HEADERS") else {
        panic!("FIO_HEADERS must name fio's configured source: conformance/fio/build fetches and sets it");
    };
    let version = std::fs::read_to_string(format!("{headers}/FIO-VERSION-FILE")).unwrap_or_default();
    let Some(version) = version.trim().strip_prefix("FIO_VERSION = ") else {
        panic!("{headers} has no FIO-VERSION-FILE: run fio's ./configure and ./FIO-VERSION-GEN there");
    };
    println!("cargo:rerun-if-changed={headers}/FIO-VERSION-FILE");
    cc::Build::new()
        .file("src/shim.c")
        .include(&headers)
        .flag("-include")
        .flag(format!("{headers}/config-host.h"))
        .define("_GNU_SOURCE", None)
        .define("ENGINE_FIO_VERSION", format!("\"{version}\"").as_str())
        .flag("-std=gnu99")
        .warnings(false)
        .compile("linerate_fio_shim");
}
