//! What single files take in an archive.

use super::cost::Costs;
use crate::{
    Result,
    archive::access::{Archive, digest::file_ends},
    container::Entry,
};

/// What each entry of an archive's manifest takes in it; nothing is decoded.
///
/// # Errors
/// Where reading fails.
pub fn stored_bytes(archive: &Archive<'_>) -> Result<Vec<u64>> {
    let costs = Costs::of_archive(archive)?;
    let entries = &archive.manifest.entries;
    let ends = file_ends(entries.iter().map(|e| e.len));
    let of = |(e, end): (&Entry, u64)| costs.of(end - e.len, end).0.round() as u64;
    Ok(entries.iter().zip(ends).map(of).collect())
}
