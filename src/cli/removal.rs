//! `--rm`: input that goes once its archive is sure to restore it.

use super::report;
use crate::{
    Error, Result,
    archive::{Archive, Input, OnDamage, Options},
    container::EntryKind,
};
use std::{fs, io::ErrorKind, path::Path};

/// Decodes the archive `output` of `input`, and removes the files at `root` where every checksum
/// matches and nobody has written to them meanwhile. Of a directory nothing goes that is not in
/// the archive.
pub fn of_input(root: &Path, input: &Input<'_>, output: &Path, options: &Options) -> Result<()> {
    let options = options.clone().with_damage(OnDamage::Fail).with_progress(None).restoring();
    let stays = |why: Error| why.at(format_args!("{} stays", root.display()));
    let archive = Archive::open(output, &options).map_err(stays)?;
    archive.verify(&options).map_err(stays)?;
    if let Some(&changed) = input.changed().first() {
        let entry = &input.manifest.entries[changed].path;
        return Err(Error::Io {
            context: format!("{} stays: {entry} changed", root.display()).into(),
            source: ErrorKind::ResourceBusy.into(),
        });
    }
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |e| Error::io("remove", &path, e)
    };
    for (_, _, source) in input.files() {
        if let Some(path) = source.path() {
            fs::remove_file(path).map_err(failed(path))?;
        }
    }
    if !input.manifest.is_directory {
        return Ok(());
    }
    let mut directories = vec![root.to_owned()];
    for entry in &input.manifest.entries {
        if entry.kind == EntryKind::Directory {
            directories.push(root.join(entry.path.to_path()?));
        }
    }
    for directory in directories.iter().rev() {
        match fs::remove_dir(directory) {
            Err(e) if e.kind() == ErrorKind::DirectoryNotEmpty => {
                let what = "holds something that is not in the archive, and stays";
                report::notes(false, &[format!("{} {what}", directory.display())]);
                break;
            }
            done => done.map_err(failed(directory))?,
        }
    }
    Ok(())
}
