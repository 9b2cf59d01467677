//! A series of checkpoints: archives that are deltas to one another, and what happens to them.
//!
//! # Layout
//!
//! ```text
//! DIR/lmc-store.json           that this is a store, and its policy
//! DIR/lock                     empty; whoever writes to the store holds a lock on it
//! DIR/steps/0000000600.lmc     the archive of step 600
//! DIR/steps/0000000600.json    its record: without it the archive does not exist
//! ```
//!
//! `docs/STORE.md` says what every field is. The record names the archive that counts, and those
//! that it is a delta to: its base, the base's own base, and so on down to one stored in full.
//!
//! # Why a kill loses nothing
//!
//! A save writes the archive under a temporary name, syncs it, gives it its name and syncs the
//! directory; then the record in the same way. The record's new name is the instant at which the
//! step exists. No file that a record names is ever changed: replacing a step writes another
//! archive and then the record that names it. What a killed run left behind is removed by the
//! next save or `gc`, under the lock: temporary names, and archives that no record names.
//!
//! Removing goes the other way round, the record first; bases after the deltas that need them.
//! Readers take no lock and write nothing, so a store can be read where it cannot be written.

mod chain;
mod checkpointer;
mod choice;
#[cfg(feature = "gpu")]
mod device;
mod gc;
mod image;
mod lock;
mod policy;
mod rebase;
mod record;
mod repair;
mod restore;
mod save;
mod snapshot;
mod state;
mod stats;
mod ticket;
mod verify;

pub use checkpointer::{Checkpointer, CheckpointerOptions, LastSaved, Report};
#[cfg(feature = "gpu")]
pub use device::DeviceTensor;
pub use gc::{Collecting, GcOptions, Needed, Removed};
pub use lock::Locking;
pub use policy::Policy;
pub use rebase::{Onto, Rebased};
pub use record::{Link, StepRecord, StoredFile};
pub use save::{AfterSave, Existing, Form, SaveOptions, Saved};
pub use snapshot::{Bytes, Content, Snapshot, Tensor, safetensors};
pub use stats::{Stats, StepStats};
pub use ticket::Ticket;
pub use verify::{StepHealth, Verified};

use crate::{
    CompressOptions, Error, RestoreOptions, Result,
    archive::{AtomicFile, Options, Overwrite},
    remote,
};
use record::{read_guarded, write_guarded};
use serde_json::{Map, Value, json};
use std::{
    fs,
    io::{self, Write},
    path::{Path, PathBuf},
};

const STORE_FILE: &str = "lmc-store.json";
const STORE_FORMAT: &str = "lmc-store";
const LOCK_FILE: &str = "lock";
const STEPS: &str = "steps";

/// A directory of checkpoints.
///
/// ```
/// use lmc_gpu::{Overwrite, store::{Policy, SaveOptions, Store}};
/// let dir = tempfile::tempdir()?;
/// std::fs::write(dir.path().join("weights"), [1u8; 4096])?;
/// let store = Store::init(dir.path().join("run"), Policy::default())?;
/// store.save(dir.path().join("weights"), 100, &SaveOptions::default())?;
/// store.restore(100, dir.path().join("again"), Overwrite::Refuse)?;
/// assert_eq!(std::fs::read(dir.path().join("again"))?, [1u8; 4096]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Store {
    root: PathBuf,
    policy: Policy,
    /// For saving.
    options: Options,
    /// For reading.
    reading: Options,
}

/// The steps of a store.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Listing {
    /// Steps with a readable record, in ascending order.
    pub steps: Vec<StepRecord>,
    /// Records that cannot be read, by their path, and why.
    pub unreadable: Vec<(PathBuf, Error)>,
}

impl Store {
    /// Makes a directory into an empty store. It is created, with its parents, where it does not
    /// exist; nothing in it is touched.
    ///
    /// # Errors
    /// `InvalidArgument` where it is a store already or the policy makes no sense; `Io`.
    pub fn init(root: impl AsRef<Path>, policy: Policy) -> Result<Store> {
        let root = root.as_ref();
        remote::refuse(root, "stores lie on disk")?;
        policy.check()?;
        if root.join(STORE_FILE).exists() {
            return Err(Error::InvalidArgument(
                format!(
                    "{} is a store already: --force gives it another policy and keeps its steps",
                    root.display()
                )
                .into(),
            ));
        }
        let steps = root.join(STEPS);
        fs::create_dir_all(&steps).map_err(|e| Error::io("create", &steps, e))?;
        let store = Store::at(root, policy);
        store.write_policy(Overwrite::Refuse)?;
        Ok(store)
    }

    /// Opens an existing store. Nothing but its policy is read.
    ///
    /// # Errors
    /// `InvalidArgument` where there is none; `Corrupt`, `Unsupported`, `Io`.
    pub fn open(root: impl AsRef<Path>) -> Result<Store> {
        let root = root.as_ref();
        remote::refuse(root, "stores lie on disk")?;
        let path = root.join(STORE_FILE);
        let bytes = fs::read(&path).map_err(|e| {
            match e.kind() {
            io::ErrorKind::NotFound if repair::has_steps(root) => Error::InvalidArgument(format!(
                "{} has steps, but {STORE_FILE} is missing: lmc-gpu store repair {} writes it anew",
                root.display(),
                root.display()
            ).into()),
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => {
                Error::InvalidArgument(format!(
                    "{} is not a store: make one with lmc-gpu store init {}",
                    root.display(),
                    root.display()
                ).into())
            }
            _ => Error::io("read", &path, e),
        }
        })?;
        let policy = read_guarded(&bytes, STORE_FORMAT)
            .and_then(|object| Policy::from_json(object.get("policy")))
            .map_err(|e| match e {
                Error::Corrupt(why) => Error::Corrupt(
                    format!(
                        "{}: {why}: lmc-gpu store repair {} writes it anew and keeps every step",
                        path.display(),
                        root.display()
                    )
                    .into(),
                ),
                e => e.at(path.display()),
            })?;
        Ok(Store::at(root, policy))
    }

    fn at(root: &Path, policy: Policy) -> Store {
        let (options, reading) = (Options::default(), Options::default());
        Store { root: root.to_owned(), policy, options, reading }
    }

    /// The same store with options for saving: threads, method, device, links. Base and what is
    /// overwritten are set by the store itself.
    #[must_use]
    pub fn with_compress_options(mut self, options: CompressOptions) -> Store {
        self.options = options.0;
        self
    }

    /// The same store with options for restoring, verifying and opening steps: threads, limits.
    /// Bases are found by the store itself.
    #[must_use]
    pub fn with_restore_options(mut self, options: RestoreOptions) -> Store {
        self.reading = options.0;
        self
    }

    /// The same store with options for both.
    #[doc(hidden)]
    #[must_use]
    pub fn with_options(mut self, options: Options) -> Store {
        self.reading = options.clone();
        self.options = options;
        self
    }

    /// Gives the store another policy, which later saves and `gc` follow.
    ///
    /// # Errors
    /// `InvalidArgument` where the policy makes no sense; `Io`.
    pub fn set_policy(&mut self, policy: Policy) -> Result<()> {
        policy.check()?;
        let _lock = self.lock(Locking::Wait)?;
        self.policy = policy;
        self.write_policy(Overwrite::Files)
    }

    /// Its policy.
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// The directory.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Its steps, as their records describe them.
    ///
    /// # Errors
    /// `Io` where the directory cannot be read.
    pub fn list(&self) -> Result<Listing> {
        let mut listing = Listing::default();
        for name in self.names()? {
            let Some(stem) = name.strip_suffix(".json") else { continue };
            let Some(step) = record::parse_stem(stem) else { continue };
            match self.record(step) {
                Ok(Some(record)) => listing.steps.push(record),
                Ok(None) => {}
                Err(e) => listing.unreadable.push((self.step_path(&name), e)),
            }
        }
        listing.steps.sort_by_key(|r| r.step);
        Ok(listing)
    }

    /// The record of one step, `None` where there is none.
    ///
    /// # Errors
    /// `Corrupt`, `Unsupported` (written by a newer version), `Io`; each names the file.
    pub fn record(&self, step: u64) -> Result<Option<StepRecord>> {
        let path = self.record_path(step);
        let bytes = match fs::read(&path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            read => read.map_err(|e| Error::io("read", &path, e))?,
        };
        StepRecord::from_json(&bytes, step).map(Some).map_err(|e| e.at(path.display()))
    }

    fn existing(&self, step: u64) -> Result<StepRecord> {
        if let Some(record) = self.record(step)? {
            return Ok(record);
        }
        let steps = self.list()?.steps;
        let near = steps.iter().min_by_key(|r| r.step.abs_diff(step));
        let nearest = match near {
            Some(r) => format!("; the nearest one is {}", r.step),
            None => ": the store is empty".to_owned(),
        };
        Err(Error::InvalidArgument(format!("there is no step {step}{nearest}").into()))
    }

    /// Names of the files in `steps`, in byte order.
    fn names(&self) -> Result<Vec<String>> {
        let dir = self.root.join(STEPS);
        let failed = |e| Error::io("read", &dir, e);
        let mut names = Vec::new();
        for entry in fs::read_dir(&dir).map_err(failed)? {
            if let Ok(name) = entry.map_err(failed)?.file_name().into_string() {
                names.push(name);
            }
        }
        names.sort();
        Ok(names)
    }

    fn step_path(&self, name: &str) -> PathBuf {
        self.root.join(STEPS).join(name)
    }

    fn record_path(&self, step: u64) -> PathBuf {
        self.step_path(&format!("{}.json", record::stem(step)))
    }

    fn write_policy(&self, overwrite: Overwrite) -> Result<()> {
        let mut object = Map::new();
        object.insert("format".into(), STORE_FORMAT.into());
        object.insert("version".into(), json!(record::VERSION));
        object.insert("policy".into(), self.policy.to_json());
        self.write_json(&self.root.join(STORE_FILE), object, overwrite)
    }

    fn write_json(
        &self,
        path: &Path,
        object: Map<String, Value>,
        overwrite: Overwrite,
    ) -> Result<()> {
        let mut file = AtomicFile::create(path, overwrite)?;
        let bytes = write_guarded(object);
        file.write_all(&bytes).map_err(|e| Error::io("write", path, e))?;
        file.commit()
    }
}
