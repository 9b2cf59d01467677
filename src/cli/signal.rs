//! Ctrl-C and SIGTERM: the first stops the work, which removes its temporary files; the second
//! ends the process at once.

use crate::pipeline::Cancel;
use std::sync::{Arc, OnceLock};

static CANCEL: OnceLock<Arc<Cancel>> = OnceLock::new();

/// The flag that signals set. The first call installs the handler.
pub fn cancel() -> Arc<Cancel> {
    let install = || {
        let cancel = Arc::new(Cancel::new());
        let flag = cancel.clone();
        let installed = ctrlc::set_handler(move || {
            if flag.is_cancelled() {
                std::process::exit(130);
            }
            flag.cancel();
        });
        if let Err(e) = installed {
            log::warn!("Ctrl-C will not clean up: {e}");
        }
        cancel
    };
    CANCEL.get_or_init(install).clone()
}

/// Whether a signal has come.
pub fn stopped() -> bool {
    CANCEL.get().is_some_and(|c| c.is_cancelled())
}
