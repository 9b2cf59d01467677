//! Arguments that several verbs take.

use super::{absent::Absent, pipe, progress::Bar, signal};
#[cfg(feature = "gpu")]
use crate::gpu;
use crate::{
    Error, Result,
    archive::{Base, Changes, Checkpoint, OnDamage, Options, Overwrite, Symlinks},
    codec::{Accelerator, Method},
    container::Limits,
    dtype::Dtype,
    pipeline, remote,
    simd::Level,
    source::FileSource,
};
use std::{
    ffi::{OsStr, OsString},
    path::{Path, PathBuf},
    str::FromStr,
    sync::{Arc, OnceLock},
};

/// What every verb takes.
#[derive(clap::Args)]
pub struct Common {
    /// Worker threads (default: one a core). The output does not depend on it
    #[arg(short = 'T', long, value_name = "N")]
    pub threads: Option<usize>,
    /// Most memory for the chunks that are at work at the same time: bytes, or a number with k, M,
    /// G, KiB, MiB, GiB (default: 2GiB). Fewer are at work at once where they are large
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub memory: Option<u64>,
    /// Print nothing but errors
    #[arg(short, long)]
    pub quiet: bool,
}

/// What verbs take that compress.
#[derive(clap::Args)]
pub struct Transform {
    /// Where to transform what is compressed: auto, cpu, gpu, or the number or name of an adapter
    /// (see `lmc-gpu devices`). The output does not depend on it; auto leaves files to the CPU, and
    /// so does gpu, with a note, where there is none
    #[arg(long, value_name = "DEVICE", default_value = "auto")]
    pub device: Device,
    #[arg(skip)]
    opened: OnceLock<Option<Arc<dyn Accelerator>>>,
}

/// A value of `--device`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Device {
    /// The CPU: files are already where it works.
    Auto,
    /// The CPU.
    Cpu,
    /// `gpu`, a number, or a name.
    Adapter(String),
}

impl FromStr for Device {
    type Err = String;

    fn from_str(s: &str) -> std::result::Result<Device, String> {
        match s {
            "auto" => Ok(Device::Auto),
            "cpu" => Ok(Device::Cpu),
            "" => Err("use auto, cpu, gpu, or the number or name of an adapter".into()),
            adapter => Ok(Device::Adapter(adapter.into())),
        }
    }
}

impl Common {
    /// The options of the library, stopped by signals and watched by `bar`.
    pub fn options(&self, bar: &Bar) -> Options {
        let options = Options::default()
            .with_threads(self.threads.unwrap_or(0))
            .with_limits(self.limits())
            .with_cancel(signal::cancel())
            .with_progress(bar.callback());
        log::debug!("{} threads, {}", self.n_threads(), Level::best().name());
        options
    }

    /// Bounds on what an archive may ask for.
    pub fn limits(&self) -> Limits {
        let limits = Limits::default();
        Limits { memory: self.memory.unwrap_or(limits.memory), ..limits }
    }

    /// Threads that will work.
    pub fn n_threads(&self) -> usize {
        pipeline::worker_count(self.threads.unwrap_or(0))
    }
}

impl Transform {
    /// The choice of one device.
    pub fn on(device: Device) -> Transform {
        Transform { device, opened: OnceLock::new() }
    }

    /// Adds the device. Where there is none, the CPU takes its place.
    pub fn attach(&self, options: Options) -> Result<Options> {
        let device = match self.accelerator() {
            Err(Error::Device(why)) => {
                let absent: Arc<dyn Accelerator> = Arc::new(Absent::new(why.to_string()));
                self.opened.get_or_init(|| Some(absent)).clone()
            }
            opened => opened?,
        };
        Ok(options.with_device(device))
    }

    /// The device that `--device` means, unless that is the CPU.
    pub fn accelerator(&self) -> Result<Option<Arc<dyn Accelerator>>> {
        if let Some(opened) = self.opened.get() {
            return Ok(opened.clone());
        }
        let opened = match &self.device {
            Device::Auto | Device::Cpu => None,
            Device::Adapter(name) => Some(open(name)?),
        };
        Ok(self.opened.get_or_init(|| opened).clone())
    }
}

#[cfg(feature = "gpu")]
fn open(name: &str) -> Result<Arc<dyn Accelerator>> {
    let Ok(selector) = name.parse();
    let device = gpu::Device::request(&selector)?;
    log::debug!("transforms on {}", device.info().name);
    Ok(Arc::new(gpu::Transformer::new(device)))
}

#[cfg(not(feature = "gpu"))]
fn open(name: &str) -> Result<Arc<dyn Accelerator>> {
    Err(Error::InvalidArgument(format!(
        "--device {name}: this build has no GPU support; use --device auto or cpu, or build with \
         the feature gpu"
    ).into()))
}

/// What verbs take that read or make deltas.
#[derive(clap::Args)]
pub struct Bases {
    /// A checkpoint or archive that X is a delta to. Where that is a delta itself, its own base
    /// is looked for beside it, or given as another --base
    #[arg(long = "base", value_name = "BASE")]
    paths: Vec<PathBuf>,
}

impl Bases {
    /// Adds the base, opened with the same options.
    pub fn attach(&self, options: Options) -> Result<Options> {
        let Some((first, others)) = self.paths.split_first() else { return Ok(options) };
        let base = Base::open_with(first, others, &options)?;
        Ok(options.with_base(Some(base)))
    }

    /// Those that were given.
    pub fn paths(&self) -> &[PathBuf] {
        &self.paths
    }

    /// Whether none was given.
    pub fn is_empty(&self) -> bool {
        self.paths.is_empty()
    }
}

/// Parses `--method`.
pub fn method(name: &str) -> std::result::Result<Method, String> {
    Method::parse(name).ok_or_else(|| format!("use one of {}", methods()))
}

/// Parses `--dtype`.
pub fn dtype(name: &str) -> std::result::Result<Dtype, String> {
    let dtype = Dtype::parse(name).filter(|d| *d != Dtype::BYTES);
    dtype.ok_or_else(|| "use bf16, f16, f32, f64, f8_e4m3, f8_e5m2, u8, i32, …".into())
}

/// Parses `--memory`.
pub fn size(text: &str) -> std::result::Result<u64, String> {
    let at = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(at);
    let unit: u64 = match unit {
        "" | "B" => 1,
        "k" | "kB" => 1000,
        "M" | "MB" => 1_000_000,
        "G" | "GB" => 1_000_000_000,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        _ => return Err("use a number of bytes, or one with k, M, G, KiB, MiB or GiB".into()),
    };
    let bytes = number.parse().ok().and_then(|n: u64| n.checked_mul(unit));
    bytes.ok_or_else(|| "use a whole number that fits".into())
}

/// Names of all methods.
pub fn methods() -> String {
    Method::ALL.map(Method::name).join(", ")
}

/// An argument without what is secret in a URL, which is kept elsewhere: nothing that is printed
/// or stored shows it then.
pub fn without_secrets(arg: OsString) -> Result<OsString> {
    let Some(text) = arg.to_str().filter(|text| text.contains("://")) else { return Ok(arg) };
    // After the name of an option, if there is one.
    let at = match text.split_once('=') {
        Some((name, _)) if name.starts_with("--") => name.len() + 1,
        _ if text.starts_with('-') && !text.starts_with("--") => {
            text.char_indices().nth(2).map_or(0, |(at, _)| at)
        }
        _ => 0,
    };
    let (option, url) = text.split_at(at);
    let mut cleaned = OsString::from(option);
    cleaned.push(remote::clean(Path::new(url))?);
    Ok(cleaned)
}

/// Whether a path stands for standard input or output.
pub fn is_pipe(path: &Path) -> bool {
    path == Path::new("-")
}

/// A path for people: what `-` stands for is said.
pub fn shown(path: &Path, pipe: &'static str) -> String {
    if is_pipe(path) { pipe.into() } else { path.display().to_string() }
}

/// An output as it was named: names of standard output stand for it, so that what is behind it is
/// written to as it was opened.
pub fn output(path: &Path) -> PathBuf {
    let names = ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"];
    match cfg!(unix) && names.iter().any(|name| path == Path::new(name)) {
        true => PathBuf::from("-"),
        false => path.to_owned(),
    }
}

/// Where an input is: standard input may be a file too.
pub fn place(path: &Path) -> PathBuf {
    if is_pipe(path) { PathBuf::from("/dev/stdin") } else { path.to_owned() }
}

/// What `--force` and `--force-replace-dir` mean together.
pub fn overwrite(force: bool, replace_dir: bool) -> Overwrite {
    match (replace_dir, force) {
        (true, _) => Overwrite::Directory,
        (false, true) => Overwrite::Files,
        (false, false) => Overwrite::Refuse,
    }
}

/// What `--follow` means.
pub fn symlinks(follow: bool) -> Symlinks {
    if follow { Symlinks::Follow } else { Symlinks::Refuse }
}

/// What `--allow-changes` means.
pub fn changes(allow: bool) -> Changes {
    if allow { Changes::Store } else { Changes::Refuse }
}

/// What `--keep-going` means.
pub fn on_damage(keep_going: bool) -> OnDamage {
    if keep_going { OnDamage::Fill } else { OnDamage::Fail }
}

/// A file that can only be read forward: a named pipe, a device.
pub fn is_forward(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|m| !m.is_file() && !m.is_dir())
}

/// Whether a path says by its end that it is a directory.
pub fn ends_as_directory(path: &Path) -> bool {
    path.as_os_str().to_string_lossy().ends_with(std::path::MAIN_SEPARATOR)
}

/// A path beside another one, under another name; beside a URL is where the command runs.
pub fn beside(path: &Path, name: &OsStr) -> PathBuf {
    if remote::is_url(path) { PathBuf::from(name) } else { path.with_file_name(name) }
}

/// `OUT/NAME` where `OUT` is a directory, or says by its end that it is to become one, which it
/// then does.
pub fn inside(out: &Path, name: &OsStr) -> Result<PathBuf> {
    if remote::is_url(out) {
        return Ok(out.join(name));
    }
    if ends_as_directory(out) && !out.exists() {
        std::fs::create_dir_all(out).map_err(|e| Error::io("create", out, e))?;
    }
    Ok(if out.is_dir() { out.join(name) } else { out.to_owned() })
}

/// Opens a checkpoint or archive to look into; `-` is standard input.
pub fn checkpoint(path: &Path, options: &Options) -> Result<Checkpoint> {
    if !is_pipe(path) {
        return Checkpoint::open(path, options);
    }
    let source = FileSource::new(pipe::spool()?)
        .map_err(|e| Error::io("read", Path::new("standard input"), e))?;
    Checkpoint::of_source("stdin", Box::new(source), options)
}
