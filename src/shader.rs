//! WGSL sources and the facts about them that Rust relies on.

/// A WGSL module under `shaders/`.
#[derive(Clone, Copy, Debug)]
pub struct Shader {
    /// Path below `shaders/`, without the extension: also the path of the CPU twin below `src/`.
    pub path: &'static str,
    /// WGSL source.
    pub source: &'static str,
    /// Entry points, each named like its CPU twin.
    pub entry_points: &'static [&'static str],
    /// Invocations per workgroup, for every entry point.
    pub workgroup_size: u32,
    /// Size in bytes of the `Params` uniform.
    pub params_len: usize,
}

/// Embeds `shaders/<path>.wgsl`.
#[macro_export]
macro_rules! wgsl {
    ($path:literal) => {
        include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/shaders/", $path, ".wgsl"))
    };
}
