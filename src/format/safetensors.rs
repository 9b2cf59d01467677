//! safetensors
