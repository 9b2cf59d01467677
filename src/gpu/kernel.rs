//! Shaders as pipelines, and the recording of several dispatches as one submission.
//!
//! ```text
//! Recorder   command encoder + the uniforms of its dispatches, 256 bytes apart in one buffer
//!   write    bytes of the host, in place before anything else runs
//!   copies, clears
//!   Pass     dispatches in order, each seeing what those before it wrote
//!   submit   writes the uniforms, then submits
//! ```

use super::{
    Buffer, Device,
    buffer::COPY,
    staging::{MOST_LEN, Outcome},
};
use crate::{
    error::{Error, Result},
    shader::{Entry, Params, Shader},
};
use std::borrow::Borrow;

/// Distance between uniforms: the largest alignment that a device may ask for.
const UNIFORM_STRIDE: usize = 256;

/// Dispatches that one recorder can hold.
const MAX_DISPATCHES: usize = 64;

/// Workgroups in one dimension that every device can run.
const MAX_GROUPS: u32 = 65_535;

/// An entry point as a pipeline, with the bindings it uses.
#[derive(Clone, Debug)]
pub(super) struct Kernel {
    pipeline: wgpu::ComputePipeline,
    layout: wgpu::BindGroupLayout,
    entry: &'static Entry,
}

impl Kernel {
    pub(super) fn new(
        device: &wgpu::Device,
        shader: &'static Shader,
        entry: &'static Entry,
    ) -> Kernel {
        let module = device.create_shader_module(wgpu::ShaderModuleDescriptor {
            label: Some(shader.path),
            source: wgpu::ShaderSource::Wgsl(shader.source.into()),
        });
        let layout = layout(device, shader, entry);
        let pipeline = device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
            label: Some(shader.path),
            layout: Some(&device.create_pipeline_layout(&wgpu::PipelineLayoutDescriptor {
                label: Some(shader.path),
                bind_group_layouts: &[Some(&layout)],
                immediate_size: 0,
            })),
            module: &module,
            entry_point: Some(entry.name),
            compilation_options: wgpu::PipelineCompilationOptions {
                // Every kernel sets its workgroup memory before it reads it.
                zero_initialize_workgroup_memory: false,
                ..Default::default()
            },
            cache: None,
        });
        Kernel { pipeline, layout, entry }
    }
}

/// The binding of each storage buffer that an entry uses, in order.
fn bindings(shader: &'static Shader, entry: &'static Entry) -> impl Iterator<Item = u32> {
    // Binding 0 is the uniform.
    let binding = |name| shader.bindings.iter().position(|b| b == name).map(|i| i as u32 + 1);
    entry.uses.iter().filter_map(binding)
}

/// The uniform and the storage buffers that an entry uses.
fn layout(
    device: &wgpu::Device,
    shader: &'static Shader,
    entry: &'static Entry,
) -> wgpu::BindGroupLayout {
    let buffer = |binding, ty| wgpu::BindGroupLayoutEntry {
        binding,
        visibility: wgpu::ShaderStages::COMPUTE,
        ty: wgpu::BindingType::Buffer { ty, has_dynamic_offset: false, min_binding_size: None },
        count: None,
    };
    let storage = wgpu::BufferBindingType::Storage { read_only: false };
    let entries: Vec<_> = std::iter::once(buffer(0, wgpu::BufferBindingType::Uniform))
        .chain(bindings(shader, entry).map(|binding| buffer(binding, storage)))
        .collect();
    device.create_bind_group_layout(&wgpu::BindGroupLayoutDescriptor {
        label: Some(shader.path),
        entries: &entries,
    })
}

/// Splits a number of workgroups into two dimensions that a device can run; their product may be
/// larger, so kernels check their index against the size of their data.
fn fold(groups: u32, most: u32) -> (u32, u32) {
    let y = groups.div_ceil(most).max(1);
    (groups.div_ceil(y), y)
}

/// Workgroups of `size` for this many invocations.
pub(super) fn groups(invocations: u64, size: u32) -> Result<u32> {
    u32::try_from(invocations.div_ceil(u64::from(size)))
        .map_err(|_| Error::Device("more invocations than a dispatch can hold".into()))
}

/// Records copies and dispatches, to be submitted as one.
#[derive(Debug)]
pub struct Recorder<'d> {
    device: &'d Device,
    uniforms: Option<&'d wgpu::Buffer>,
    encoder: wgpu::CommandEncoder,
    /// What goes before all that is in `encoder`, and the buffers that it copies from.
    writes: Option<wgpu::CommandEncoder>,
    uploads: Vec<Buffer>,
    bytes: Vec<u8>,
    max_groups: u32,
}

impl<'d> Recorder<'d> {
    /// A buffer for the uniforms of one recorder at a time.
    ///
    /// # Errors
    /// [`Error::Device`] where there is no memory for it.
    pub fn uniforms(device: &Device) -> Result<Buffer> {
        let usage = wgpu::BufferUsages::UNIFORM | wgpu::BufferUsages::COPY_DST;
        device.create_buffer("uniforms", (MAX_DISPATCHES * UNIFORM_STRIDE) as u64, usage)
    }

    /// Starts recording. What was submitted with `uniforms` before must be done.
    pub fn new(device: &'d Device, uniforms: &'d wgpu::Buffer) -> Self {
        Recorder { uniforms: Some(uniforms), ..Self::for_copies(device) }
    }

    /// Starts recording copies and clears alone, which need no memory of their own.
    pub fn for_copies(device: &'d Device) -> Self {
        Recorder {
            device,
            uniforms: None,
            encoder: device.wgpu().create_command_encoder(&Default::default()),
            writes: None,
            uploads: Vec::new(),
            bytes: Vec::new(),
            max_groups: MAX_GROUPS,
        }
    }

    /// Folds grids at this many workgroups rather than at what devices can run: 1 to 65,535.
    /// The results are the same.
    #[must_use]
    pub fn folded_at(mut self, max_groups: u32) -> Self {
        self.max_groups = max_groups.clamp(1, MAX_GROUPS);
        self
    }

    /// The command encoder, for copies and clears.
    pub fn encoder(&mut self) -> &mut wgpu::CommandEncoder {
        &mut self.encoder
    }

    /// Writes `bytes` to `buffer` from byte `at`, a multiple of four, on, before anything else
    /// that is recorded here. Up to three bytes after them are zeroed.
    ///
    /// # Errors
    /// [`Error::Device`] where there is no memory for them.
    pub fn write(&mut self, buffer: &wgpu::Buffer, at: u64, bytes: &[u8]) -> Result<()> {
        for (start, piece) in (at..).step_by(MOST_LEN).zip(bytes.chunks(MOST_LEN)) {
            let upload = self.device.upload(piece)?;
            let len = (piece.len() as u64).next_multiple_of(COPY);
            let make = || self.device.wgpu().create_command_encoder(&Default::default());
            let encoder = self.writes.get_or_insert_with(make);
            encoder.copy_buffer_to_buffer(&upload, 0, buffer, start, len);
            self.uploads.push(upload);
        }
        Ok(())
    }

    /// Starts a list of dispatches. Where `times` is given, the device's clock is written to its
    /// first two entries before and after them.
    pub fn pass(&mut self, times: Option<&wgpu::QuerySet>) -> Pass<'_> {
        let timestamp_writes = times.map(|query_set| wgpu::ComputePassTimestampWrites {
            query_set,
            beginning_of_pass_write_index: Some(0),
            end_of_pass_write_index: Some(1),
        });
        Pass {
            device: self.device,
            uniforms: self.uniforms,
            pass: self
                .encoder
                .begin_compute_pass(&wgpu::ComputePassDescriptor { label: None, timestamp_writes }),
            bytes: &mut self.bytes,
            max_groups: self.max_groups,
        }
    }

    /// Maps a buffer for reading once what was recorded is done; the receiver then holds the
    /// outcome.
    pub(super) fn map_on_submit(&mut self, buffer: &wgpu::Buffer, len: u64) -> Outcome {
        map_on_submit(&mut self.encoder, buffer, wgpu::MapMode::Read, len)
    }

    /// Submits what was recorded.
    ///
    /// # Errors
    /// [`Error::Device`] where a command was invalid or the device is lost.
    pub fn submit(mut self) -> Result<wgpu::SubmissionIndex> {
        if let Some(uniforms) = self.uniforms {
            let bytes = std::mem::take(&mut self.bytes);
            self.write(uniforms, 0, &bytes)?;
        }
        let Recorder { device, encoder, mut writes, uploads, .. } = self;
        let mut used = Vec::new();
        if let Some(writes) = &mut writes {
            used.extend(uploads.into_iter().map(|upload| {
                let outcome = map_on_submit(writes, &upload, wgpu::MapMode::Write, upload.size());
                (upload, outcome)
            }));
        }
        let submission = device.scoped(|| {
            let first = writes.map(|writes| writes.finish());
            Ok(device.queue().submit(first.into_iter().chain([encoder.finish()])))
        })?;
        device.return_uploads(used);
        Ok(submission)
    }
}

/// Maps the first `len` bytes of a buffer once what is recorded is done.
fn map_on_submit(
    encoder: &mut wgpu::CommandEncoder,
    buffer: &wgpu::Buffer,
    mode: wgpu::MapMode,
    len: u64,
) -> Outcome {
    let (sender, receiver) = std::sync::mpsc::channel();
    encoder.map_buffer_on_submit(buffer, mode, 0..len, move |outcome| {
        let _ = sender.send(outcome);
    });
    receiver
}

/// A list of dispatches that run in order.
#[derive(Debug)]
pub struct Pass<'r> {
    device: &'r Device,
    uniforms: Option<&'r wgpu::Buffer>,
    pass: wgpu::ComputePass<'r>,
    bytes: &'r mut Vec<u8>,
    max_groups: u32,
}

impl Pass<'_> {
    /// Adds a dispatch of `entry` over at least this many invocations, with the buffers that the
    /// entry uses in the order of its bindings.
    ///
    /// # Errors
    /// [`Error::Device`] where the pipeline cannot be made or the dispatch is too large.
    pub fn dispatch<P: Params, B: Borrow<wgpu::Buffer>>(
        &mut self,
        entry: &str,
        params: &P,
        invocations: u64,
        buffers: &[&B],
    ) -> Result<()> {
        let kernel = self.device.kernel(P::SHADER, entry)?;
        let groups = groups(invocations, P::SHADER.workgroup_size)?;
        if groups == 0 {
            return Ok(());
        }
        let fits = buffers.len() == kernel.entry.uses.len()
            && self.bytes.len() < MAX_DISPATCHES * UNIFORM_STRIDE;
        let Some(uniforms) = self.uniforms.filter(|_| fits) else {
            let path = P::SHADER.path;
            return Err(Error::Device(format!("{path} {entry} was dispatched wrongly").into()));
        };
        let at = self.bytes.len();
        self.bytes.extend(params.words().iter().flat_map(|w| w.to_le_bytes()));
        let params_len = (self.bytes.len() - at) as u64;
        self.bytes.resize(at + UNIFORM_STRIDE, 0);

        let uniform = wgpu::BindGroupEntry {
            binding: 0,
            resource: wgpu::BindingResource::Buffer(wgpu::BufferBinding {
                buffer: uniforms,
                offset: at as u64,
                size: params_len.try_into().ok(),
            }),
        };
        let storage = bindings(P::SHADER, kernel.entry).zip(buffers).map(|(binding, buffer)| {
            wgpu::BindGroupEntry { binding, resource: (*buffer).borrow().as_entire_binding() }
        });
        let entries: Vec<_> = std::iter::once(uniform).chain(storage).collect();
        let group = self.device.scoped(|| {
            Ok(self.device.wgpu().create_bind_group(&wgpu::BindGroupDescriptor {
                label: Some(P::SHADER.path),
                layout: &kernel.layout,
                entries: &entries,
            }))
        })?;
        self.pass.set_pipeline(&kernel.pipeline);
        self.pass.set_bind_group(0, &group, &[]);
        let (x, y) = fold(groups, self.max_groups);
        self.pass.dispatch_workgroups(x, y, 1);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folded_grid_holds_all_groups_in_dimensions_that_devices_can_run() {
        for groups in [0, 1, 65_535, 65_536, 65_537, 131_070, 131_071, 5_000_011] {
            let (x, y) = fold(groups, MAX_GROUPS);
            assert!(x <= MAX_GROUPS && y <= MAX_GROUPS && y > 0);
            let all = u64::from(x) * u64::from(y);
            assert!((u64::from(groups)..u64::from(groups) + u64::from(y)).contains(&all));
        }
    }
}
