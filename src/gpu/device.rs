//! Adapters, and the device that is made from one of them.
//!
//! A [`Device`] keeps to the limits and features that every WebGPU device has, whatever its
//! adapter could do, so that what works on one works on all; timestamps are used where present.
//!
//! Errors reach the caller through three doors, and all become [`Error::Device`]: what a call
//! does wrong is caught by the error scopes of [`Device::scoped`]; a lost device sets a flag that
//! is looked at after every wait, since a lost device accepts work in silence; and a wait that
//! takes longer than [`Device::TIMEOUT`] gives up.

use super::{kernel::Kernel, memory::Account, staging::Staging};
use crate::{
    error::{Error, Result},
    shader::Shader,
};
use std::{
    collections::HashMap,
    str::FromStr,
    sync::{Arc, Mutex, OnceLock, PoisonError},
    time::Duration,
};

/// Which adapter to use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selector {
    /// The best adapter that is real hardware; discrete before integrated ones. Where the
    /// environment variable `WGPU_ADAPTER_NAME` is set, only adapters with that in their name.
    Auto,
    /// As `Auto`, but an adapter that `WGPU_ADAPTER_NAME` names may be software.
    Gpu,
    /// The adapter at this place in the list that [`adapters`] returns, software or not.
    Index(usize),
    /// The first adapter with this in its name, in any case, software or not.
    Name(String),
}

impl FromStr for Selector {
    type Err = std::convert::Infallible;

    /// `auto`, `gpu`, a number, or part of a name.
    fn from_str(s: &str) -> std::result::Result<Self, Self::Err> {
        Ok(match (s, s.parse()) {
            ("auto", _) => Selector::Auto,
            ("gpu", _) => Selector::Gpu,
            (_, Ok(index)) => Selector::Index(index),
            _ => Selector::Name(s.into()),
        })
    }
}

/// What is known about an adapter before a device is made from it.
#[derive(Clone, Debug)]
pub struct Adapter {
    /// Place in the list, for [`Selector::Index`].
    pub index: usize,
    /// Name, driver, backend, and kind of device.
    pub info: wgpu::AdapterInfo,
    /// What it could do at most.
    pub limits: wgpu::Limits,
    /// What it can do beyond the common ground.
    pub features: wgpu::Features,
    /// Whether it is a program on the CPU rather than hardware.
    pub software: bool,
    /// Whether [`Selector::Auto`] takes it.
    pub chosen: bool,
}

/// The adapters of this machine on the backends that `WGPU_BACKEND` allows: by default Vulkan,
/// Metal and DirectX 12.
pub fn adapters() -> Vec<Adapter> {
    let found = found();
    let infos: Vec<_> = found.iter().map(|a| a.get_info()).collect();
    let chosen = choose(&Selector::Auto, &infos, wanted_name().as_deref()).ok();
    let with_info = found.iter().zip(infos).enumerate();
    with_info
        .map(|(index, (adapter, info))| Adapter {
            index,
            software: is_software(&info),
            info,
            limits: adapter.limits(),
            features: adapter.features(),
            chosen: chosen == Some(index),
        })
        .collect()
}

fn instance() -> &'static wgpu::Instance {
    static INSTANCE: OnceLock<wgpu::Instance> = OnceLock::new();
    INSTANCE.get_or_init(|| {
        let mut descriptor = wgpu::InstanceDescriptor::new_without_display_handle_from_env();
        if std::env::var_os("WGPU_BACKEND").is_none() {
            descriptor.backends = wgpu::Backends::PRIMARY;
        }
        wgpu::Instance::new(descriptor)
    })
}

fn found() -> Vec<wgpu::Adapter> {
    pollster::block_on(instance().enumerate_adapters(wgpu::Backends::all()))
}

fn wanted_name() -> Option<String> {
    std::env::var("WGPU_ADAPTER_NAME").ok().filter(|name| !name.is_empty())
}

fn is_software(info: &wgpu::AdapterInfo) -> bool {
    info.device_type == wgpu::DeviceType::Cpu
}

/// The place of the adapter that `selector` means.
fn choose(selector: &Selector, infos: &[wgpu::AdapterInfo], wanted: Option<&str>) -> Result<usize> {
    let named = |info: &wgpu::AdapterInfo, part: &str| {
        info.name.to_lowercase().contains(&part.to_lowercase())
    };
    let found = match selector {
        Selector::Index(index) => (*index < infos.len()).then_some(*index),
        Selector::Name(part) => infos.iter().position(|info| named(info, part)),
        Selector::Auto | Selector::Gpu => {
            let software_too = *selector == Selector::Gpu && wanted.is_some();
            let usable = |info: &wgpu::AdapterInfo| {
                (software_too || !is_software(info)) && wanted.is_none_or(|part| named(info, part))
            };
            let mut usable: Vec<usize> = (0..infos.len()).filter(|&i| usable(&infos[i])).collect();
            usable.sort_by_key(|&i| match infos[i].device_type {
                wgpu::DeviceType::DiscreteGpu => 0,
                wgpu::DeviceType::IntegratedGpu => 1,
                wgpu::DeviceType::VirtualGpu => 2,
                wgpu::DeviceType::Other => 3,
                wgpu::DeviceType::Cpu => 4,
            });
            usable.first().copied()
        }
    };
    found.ok_or_else(|| {
        let all: Vec<_> =
            infos.iter().enumerate().map(|(i, info)| format!("{i} {}", info.name)).collect();
        let all = if all.is_empty() { "none at all".into() } else { all.join(", ") };
        match (selector, wanted) {
            (Selector::Index(index), _) => {
                Error::InvalidArgument(format!("there is no adapter {index}; found: {all}").into())
            }
            (Selector::Name(part), _) => {
                Error::InvalidArgument(format!("no adapter is named {part}; found: {all}").into())
            }
            (_, Some(part)) => Error::Device(
                format!("WGPU_ADAPTER_NAME names no GPU ({part}); found: {all}").into(),
            ),
            _ => Error::Device(format!("no hardware adapter; found: {all}").into()),
        }
    })
}

/// A GPU ready to work. Clones share it.
#[derive(Clone, Debug)]
pub struct Device(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    device: wgpu::Device,
    queue: wgpu::Queue,
    info: wgpu::AdapterInfo,
    /// Why the device can no longer be used.
    lost: Arc<OnceLock<String>>,
    kernels: Mutex<HashMap<(&'static str, &'static str), Kernel>>,
    staging: Staging,
    account: Arc<Account>,
}

impl Device {
    /// How long any wait for the device may take.
    pub const TIMEOUT: Duration = Duration::from_secs(60);

    /// Opens the adapter that `selector` means.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] where there is no adapter of that number or name,
    /// [`Error::Device`] where there is no hardware or the adapter cannot be opened.
    pub fn request(selector: &Selector) -> Result<Device> {
        let mut found = found();
        let infos: Vec<_> = found.iter().map(|a| a.get_info()).collect();
        let adapter = found.swap_remove(choose(selector, &infos, wanted_name().as_deref())?);
        let wanted = wgpu::Features::TIMESTAMP_QUERY;
        let (device, queue) = pollster::block_on(adapter.request_device(&wgpu::DeviceDescriptor {
            label: Some("lmc-gpu"),
            required_features: adapter.features() & wanted,
            required_limits: wgpu::Limits::defaults().or_worse_values_from(&adapter.limits()),
            memory_hints: wgpu::MemoryHints::Performance,
            ..Default::default()
        }))
        .map_err(|e| {
            Error::Device(format!("cannot open {}: {e}", adapter.get_info().name).into())
        })?;
        let lost = Arc::new(OnceLock::new());
        let flag = lost.clone();
        device.set_device_lost_callback(move |reason, message| {
            let _ = flag.set(format!("the device is lost ({reason:?}): {message}"));
        });
        // Errors outside of any scope, such as from another thread's drop, must not panic.
        device.on_uncaptured_error(Arc::new(|error| log::error!("GPU: {error}")));
        Ok(Self::assemble(device, queue, lost))
    }

    /// Uses a device and queue that the caller already has, such as those of a training loop.
    /// Its handlers for errors and loss stay as they are. Limits must be at least
    /// `wgpu::Limits::defaults()`.
    ///
    /// # Errors
    /// [`Error::Device`] where the device's limits are lower.
    pub fn from_wgpu(device: wgpu::Device, queue: wgpu::Queue) -> Result<Device> {
        let mut too_low = None;
        wgpu::Limits::defaults().check_limits_with_fail_fn(
            &device.limits(),
            false,
            |name, need, have| too_low = Some((name, need, have)),
        );
        // Kernels bind storage buffers and uniforms only; limits on rendering do not matter.
        if let Some((name, need, have)) = too_low.filter(|(name, ..)| matters(name)) {
            return Err(Error::Device(format!("the device's {name} is {have}, not {need}").into()));
        }
        Ok(Self::assemble(device, queue, Arc::default()))
    }

    fn assemble(device: wgpu::Device, queue: wgpu::Queue, lost: Arc<OnceLock<String>>) -> Device {
        let info = device.adapter_info();
        let (kernels, staging, account) = (Mutex::default(), Staging::default(), Account::new());
        Device(Arc::new(Inner { device, queue, info, lost, kernels, staging, account }))
    }

    /// Whether both are clones of one.
    pub fn is_same(&self, other: &Device) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// The device itself.
    pub fn wgpu(&self) -> &wgpu::Device {
        &self.0.device
    }

    /// Its queue.
    pub fn queue(&self) -> &wgpu::Queue {
        &self.0.queue
    }

    pub(super) fn account(&self) -> &Arc<Account> {
        &self.0.account
    }

    pub(super) fn staging_pool(&self) -> &Staging {
        &self.0.staging
    }

    /// Name, driver, backend and kind of the adapter.
    pub fn info(&self) -> &wgpu::AdapterInfo {
        &self.0.info
    }

    /// Nanoseconds per tick of the device's clock; `None` where it has none.
    pub fn timestamp_period(&self) -> Option<f64> {
        let has = self.wgpu().features().contains(wgpu::Features::TIMESTAMP_QUERY);
        has.then(|| f64::from(self.queue().get_timestamp_period()))
    }

    /// Fails once the device is known to be lost.
    ///
    /// # Errors
    /// [`Error::Device`] with the reason.
    pub fn check(&self) -> Result<()> {
        match self.0.lost.get() {
            Some(reason) => Err(Error::Device(reason.clone().into())),
            None => Ok(()),
        }
    }

    /// Runs `f` and turns what it did wrong on the device, running out of memory included, into
    /// an error.
    ///
    /// # Errors
    /// [`Error::Device`]; those of `f` itself.
    pub fn scoped<T>(&self, f: impl FnOnce() -> Result<T>) -> Result<T> {
        let scopes = [
            self.wgpu().push_error_scope(wgpu::ErrorFilter::Internal),
            self.wgpu().push_error_scope(wgpu::ErrorFilter::OutOfMemory),
            self.wgpu().push_error_scope(wgpu::ErrorFilter::Validation),
        ];
        let result = f();
        let mut caught = None;
        for scope in scopes.into_iter().rev() {
            caught = pollster::block_on(scope.pop()).or(caught);
        }
        self.check()?;
        match caught {
            Some(error) => Err(Error::Device(error.to_string().into())),
            None => result,
        }
    }

    /// Waits until a submission is done and the callbacks of its mappings were called.
    ///
    /// # Errors
    /// [`Error::Device`] where the device is lost or takes too long.
    pub fn wait(&self, submission: wgpu::SubmissionIndex) -> Result<()> {
        let wait = wgpu::PollType::Wait {
            submission_index: Some(submission),
            timeout: Some(Self::TIMEOUT),
        };
        let done = self.wgpu().poll(wait);
        self.check()?;
        done.map(drop).map_err(|e| Error::Device(format!("{}: {e}", self.info().name).into()))
    }

    /// The pipeline of an entry point, made at its first use.
    pub(super) fn kernel(&self, shader: &'static Shader, entry: &str) -> Result<Kernel> {
        let entry =
            shader.entries.iter().find(|e| e.name == entry).ok_or_else(|| {
                Error::Device(format!("{} has no entry {entry}", shader.path).into())
            })?;
        let mut kernels = self.0.kernels.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(kernel) = kernels.get(&(shader.path, entry.name)) {
            return Ok(kernel.clone());
        }
        let kernel = self.scoped(|| Ok(Kernel::new(self.wgpu(), shader, entry)))?;
        kernels.insert((shader.path, entry.name), kernel.clone());
        Ok(kernel)
    }
}

/// Whether a limit of this name bears on compute shaders with storage buffers.
fn matters(name: &str) -> bool {
    ["compute", "storage_buffer", "uniform_buffer", "buffer_size", "bind_group"]
        .iter()
        .any(|part| name.contains(part))
}

#[cfg(test)]
mod tests {
    use super::*;
    use wgpu::DeviceType;

    fn infos() -> Vec<wgpu::AdapterInfo> {
        let kinds = [
            ("llvmpipe", DeviceType::Cpu),
            ("Intel", DeviceType::IntegratedGpu),
            ("NVIDIA H200", DeviceType::DiscreteGpu),
        ];
        let info = |(name, kind): (&str, DeviceType)| {
            let mut info = wgpu::AdapterInfo::new(kind, wgpu::Backend::Vulkan);
            info.name = name.into();
            info
        };
        kinds.map(info).to_vec()
    }

    #[test]
    fn auto_takes_the_best_hardware_and_never_software() {
        let infos = infos();
        let choose = |s, i: &[wgpu::AdapterInfo], w| choose(s, i, w).ok();
        assert_eq!(choose(&Selector::Auto, &infos, None), Some(2));
        assert_eq!(choose(&Selector::Auto, &infos[..2], None), Some(1));
        assert_eq!(choose(&Selector::Auto, &infos[..1], None), None);
        assert_eq!(choose(&Selector::Auto, &infos, Some("llvm")), None);
        assert_eq!(choose(&Selector::Auto, &infos, Some("intel")), Some(1));
        assert_eq!(choose(&Selector::Gpu, &infos[..1], None), None);
        assert_eq!(choose(&Selector::Gpu, &infos, Some("llvm")), Some(0));
    }

    #[test]
    fn a_name_or_number_may_mean_a_software_adapter() {
        let infos = infos();
        let parse = |s: &str| s.parse::<Selector>().unwrap();
        assert_eq!(choose(&parse("LLVM"), &infos, None).unwrap(), 0);
        assert_eq!(choose(&parse("0"), &infos, None).unwrap(), 0);
        assert!(choose(&parse("3"), &infos, None).is_err());
        let error = choose(&parse("radeon"), &infos, None).unwrap_err().to_string();
        assert!(error.contains("0 llvmpipe, 1 Intel, 2 NVIDIA H200"), "{error}");
    }
}
