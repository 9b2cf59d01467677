//! Ctrl-C and SIGTERM: the first stops the work, which removes its temporary files; the second
//! ends the process at once.
//!
//! What does not stop by itself within [`GRACE`], because it waits for a pipe or is deep inside a
//! coder of somebody else, is ended from outside: temporary files are removed and the process
//! exits.

use super::report;
use crate::{archive::remove_temporaries, pipeline::Cancel};
use std::{
    process::exit,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

/// How long the work has to stop by itself.
const GRACE: Duration = Duration::from_millis(250);
/// Exit code of a process that was stopped.
pub const STOPPED: u8 = 130;

static CANCEL: OnceLock<Arc<Cancel>> = OnceLock::new();
static SAID: AtomicBool = AtomicBool::new(false);

/// The flag that signals set. The first call installs the handler.
pub fn cancel() -> Arc<Cancel> {
    let install = || {
        let cancel = Arc::new(Cancel::new());
        let flag = cancel.clone();
        let installed = ctrlc::set_handler(move || {
            if flag.is_cancelled() {
                exit(STOPPED.into());
            }
            flag.cancel();
            if thread::Builder::new().spawn(end_later).is_err() {
                end();
            }
        });
        if let Err(e) = installed {
            log::warn!("Ctrl-C will not clean up: {e}");
        }
        cancel
    };
    CANCEL.get_or_init(install).clone()
}

fn end_later() {
    thread::sleep(GRACE);
    end();
}

fn end() {
    remove_temporaries();
    say();
    exit(STOPPED.into());
}

/// Says that the run was stopped, once.
pub fn say() {
    if !SAID.swap(true, Ordering::Relaxed) {
        report::error("stopped; nothing was left behind");
    }
}

/// Whether a signal has come.
pub fn stopped() -> bool {
    CANCEL.get().is_some_and(|c| c.is_cancelled())
}
