//! What `--device gpu` means where there is no GPU: the CPU does everything, and a note says why.

use crate::{
    codec::{Accelerator, Delta, Transforms, Usage},
    transform::split::{PlanesMut, Split},
};
use std::sync::{Mutex, PoisonError};

/// A device that is not there, and why, until that was said.
pub struct Absent(Mutex<Option<String>>);

impl Absent {
    pub fn new(why: String) -> Absent {
        Absent(Mutex::new(Some(why)))
    }
}

impl Accelerator for Absent {
    fn name(&self) -> String {
        "cpu".into()
    }

    fn transforms(&self) -> Box<dyn Transforms> {
        Box::new(Declined)
    }

    fn usage(&self) -> Usage {
        Usage::default()
    }

    fn take_fault(&self) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// Leaves every chunk to the CPU.
struct Declined;

impl Transforms for Declined {
    fn at_work(&mut self, _: bool) {}

    fn split(&mut self, _: &Split, _: &[u8], _: PlanesMut<'_>) -> Option<usize> {
        None
    }

    fn group(&mut self, _: &[u8], _: &mut [&mut [u8]]) -> bool {
        false
    }

    fn delta(&mut self, _: Delta, _: usize, _: &[u8], _: &[u8], _: &mut [u8]) -> bool {
        false
    }

    fn cascade_bf16(&mut self, _: &[u8], _: &mut [u8], _: &mut [u8]) -> Option<Option<usize>> {
        None
    }
}
