//! One device for burn and for the codec, and the places of burn's tensors in its buffers.

use burn::tensor::{Device, Tensor, wgpu::WgpuBackend};
use burn_wgpu::{AutoCompiler, Wgpu};
use cubecl::wgpu::WgpuServer;
use lmc_gpu::gpu;
use std::error::Error;

/// burn's device, and the same one for the codec.
pub struct Shared {
    pub burn: Device,
    pub gpu: gpu::Device,
}

impl Shared {
    /// Opens the device that burn would, and takes its handles.
    pub fn new() -> Result<Shared, Box<dyn Error>> {
        let options = Device::wgpu_options().graphics_api(WgpuBackend::Auto);
        let (burn, setup) = options.init_with_setup()?;
        let gpu = gpu::Device::from_wgpu(setup.device, setup.queue)?;
        Ok(Shared { burn, gpu })
    }

    /// Where a tensor's elements lie. The tensor must be kept until it was saved or restored.
    pub fn place(&self, tensor: &Tensor<2>) -> Result<gpu::Resident, Box<dyn Error>> {
        let tensor = tensor.clone().try_into_primitive::<Wgpu>().map_err(|e| format!("{e:?}"))?;
        if !tensor.is_contiguous() {
            return Err("the tensor is not contiguous".into());
        }
        let len = 4 * tensor.meta.shape().num_elements() as u64;
        let found = tensor.client.get_resource::<WgpuServer<AutoCompiler>>(tensor.handle.clone());
        let found = found.map_err(|e| format!("{e:?}"))?;
        let resource = found.resource();
        Ok(gpu::Resident::new(&self.gpu, &resource.buffer, resource.offset, len)?)
    }

    /// Submits what burn has recorded so far, so that copies see it.
    pub fn flush(&self, tensor: &Tensor<2>) -> Result<(), Box<dyn Error>> {
        let tensor = tensor.clone().try_into_primitive::<Wgpu>().map_err(|e| format!("{e:?}"))?;
        tensor.client.flush().map_err(|e| format!("{e:?}").into())
    }
}
