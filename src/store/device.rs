//! Tensors of a checkpoint that lie in device memory.

use super::{Checkpointer, Content, Snapshot, image::Described};
use crate::{Error, Result, dtype::Dtype, gpu::Resident, source::Source};
use std::sync::Arc;

/// Bytes of several tensors that are not halved any more to find what can be copied of them.
const LEAST_COPY_LEN: u64 = 1 << 20;

/// A tensor in a buffer of the device.
///
/// ```no_run
/// use lmc_gpu::{dtype::Dtype, gpu::{Device, Resident}, store::*};
/// # fn f(device: Device, checkpointer: Checkpointer) -> lmc_gpu::Result<()> {
/// // Or the device and the buffers of a training loop: `Device::from_wgpu`.
/// let buffer = device.storage("weights", 4096)?;
/// let place = Resident::new(&device, &buffer, 0, 4096)?;
/// let tensor = DeviceTensor::new("w", Dtype::F32, &[32, 32], place)?;
/// let model = Snapshot::new().with_device_tensors("model.safetensors", vec![tensor]);
/// let ticket = checkpointer.save(600, model.clone())?;
/// // … training overwrites the buffer …
/// println!("stalled for {:?} of {:.3} s", ticket.stalled(), ticket.wait()?.seconds);
/// checkpointer.restore_to(600, &model)?;
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct DeviceTensor {
    /// Its name, unique within its file.
    pub name: String,
    /// Type of its elements.
    pub dtype: Dtype,
    /// Its dimensions, outermost first; empty for a scalar.
    pub shape: Vec<u64>,
    place: Resident,
    /// Its bytes as they were when it was handed over.
    held: Option<Held>,
}

#[derive(Clone)]
struct Held(Arc<dyn Source>);

impl std::fmt::Debug for Held {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} bytes", self.0.len())
    }
}

impl DeviceTensor {
    /// A tensor of the bytes at `place`, which is contiguous and in row-major order.
    ///
    /// # Errors
    /// `InvalidArgument` where their number does not fit type and shape.
    pub fn new(
        name: impl Into<String>,
        dtype: Dtype,
        shape: &[u64],
        place: Resident,
    ) -> Result<DeviceTensor> {
        let name = name.into();
        if dtype.tensor_len(shape) != Some(place.len()) {
            return Err(Error::InvalidArgument(
                format!(
                    "tensor \"{name}\": {} bytes do not make a tensor of type {dtype} and shape \
                 {shape:?}",
                    place.len()
                )
                .into(),
            ));
        }
        Ok(DeviceTensor { name, dtype, shape: shape.to_vec(), place, held: None })
    }

    /// Number of bytes.
    pub fn len(&self) -> u64 {
        self.place.len()
    }

    /// Whether there are no bytes at all.
    pub fn is_empty(&self) -> bool {
        self.place.is_empty()
    }

    pub(super) fn described(&self) -> Described<'_> {
        let source = match &self.held {
            Some(held) => held.0.clone(),
            None => Arc::new(self.place.clone()),
        };
        Described { name: &self.name, dtype: self.dtype, shape: &self.shape, source }
    }
}

impl Snapshot {
    /// With a file more of tensors in device memory. Until the snapshot is handed to a
    /// [`Checkpointer`], which copies them, they must not change.
    #[must_use]
    pub fn with_device_tensors(
        mut self,
        path: impl Into<String>,
        tensors: Vec<DeviceTensor>,
    ) -> Snapshot {
        self.files.push((path.into(), Content::Device(tensors)));
        self
    }
}

/// Copies what lies on devices, or reads what there is no memory for copies of; says whether any
/// had to be read.
pub(super) fn hold(snapshot: &mut Snapshot) -> Result<bool> {
    let files = snapshot.files.iter_mut();
    let of_devices = files.filter_map(|(_, content)| match content {
        Content::Device(tensors) => Some(tensors),
        _ => None,
    });
    let mut left: Vec<&mut DeviceTensor> = of_devices.flatten().collect();
    let mut spilled = false;
    while let Some(first) = left.first() {
        let device = first.place.device().clone();
        let (here, others): (Vec<_>, Vec<_>) =
            left.into_iter().partition(|t| t.place.device().is_same(&device));
        let places: Vec<&Resident> = here.iter().map(|t| &t.place).collect();
        let mut held = Vec::new();
        spilled |= copy_or_read(&places, &mut held)?;
        for (tensor, held) in here.into_iter().zip(held) {
            tensor.held = Some(held);
        }
        left = others;
    }
    Ok(spilled)
}

/// Appends tensors of one device as they are now: copies of as many as there is memory for, found
/// by halving, and the bytes of the others. Says whether there are others.
fn copy_or_read(places: &[&Resident], held: &mut Vec<Held>) -> Result<bool> {
    let Some(first) = places.first() else { return Ok(false) };
    let e = match Resident::copies(places) {
        Ok(copies) => {
            held.extend(copies.into_iter().map(|copy| Held(Arc::new(copy))));
            return Ok(false);
        }
        Err(e) => e,
    };
    first.device().check()?;
    let len: u64 = places.iter().map(|p| p.len()).sum();
    if places.len() > 1 && len > LEAST_COPY_LEN {
        let (a, b) = places.split_at(places.len() / 2);
        return Ok(copy_or_read(a, held)? | copy_or_read(b, held)?);
    }
    log::debug!("{len} bytes are read at once, since they cannot be copied: {e}");
    for p in places {
        held.push(Held(Arc::new(p.read_vec(0, p.len())?)));
    }
    Ok(true)
}

impl Checkpointer {
    /// Reads a step back into the device tensors of `snapshot`, which have the names, types and
    /// shapes that were saved; other tensors of the step are left alone. Whatever is submitted
    /// to their queue later sees them. Returns the step as it is in host memory.
    ///
    /// # Errors
    /// As for [`Checkpointer::restore`]; `InvalidArgument` where the step has no such tensor, or
    /// a buffer cannot be written to. Some tensors may have been written then.
    pub fn restore_to(&self, step: u64, snapshot: &Snapshot) -> Result<Snapshot> {
        let restored = self.restore(step)?;
        let mut writes = Vec::new();
        for (path, content) in &snapshot.files {
            let Content::Device(tensors) = content else { continue };
            for t in tensors {
                let found = restored
                    .tensor(path, &t.name)
                    .filter(|found| found.dtype == t.dtype && found.shape == t.shape);
                let Some(found) = found else {
                    return Err(Error::InvalidArgument(
                        format!(
                            "step {step} has no tensor \"{}\" of type {} and shape {:?} in {path}",
                            t.name, t.dtype, t.shape
                        )
                        .into(),
                    ));
                };
                writes.push((t, found));
            }
        }
        for (t, found) in writes {
            t.place.write(&found.bytes).map_err(|e| e.in_tensor(&t.name))?;
        }
        Ok(restored)
    }
}
