//! Every WGSL file is registered, valid, and agrees with the Rust side. Needs no GPU.

use lmc_gpu::internals::shader::{SHADERS, Shader};
use naga::{
    AddressSpace, StorageAccess,
    valid::{Capabilities, ModuleInfo, ValidationFlags, Validator},
};
use std::{collections::BTreeSet, path::Path};

fn wgsl_files(dir: &Path, root: &Path, out: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            wgsl_files(&path, root, out);
        } else {
            let below = path.strip_prefix(root).unwrap().with_extension("");
            out.insert(below.to_str().unwrap().replace('\\', "/"));
        }
    }
}

fn validated(shader: &Shader) -> (naga::Module, ModuleInfo) {
    let module = naga::front::wgsl::parse_str(shader.source)
        .unwrap_or_else(|e| panic!("{}: {}", shader.path, e.emit_to_string(shader.source)));
    let info = Validator::new(ValidationFlags::all(), Capabilities::empty())
        .validate(&module)
        .unwrap_or_else(|e| panic!("{}: {}", shader.path, e.emit_to_string(shader.source)));
    (module, info)
}

#[test]
fn every_shader_is_registered_and_has_a_cpu_twin() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = BTreeSet::new();
    wgsl_files(&root.join("shaders"), &root.join("shaders"), &mut files);
    let registered: BTreeSet<_> = SHADERS.iter().map(|s| s.path.to_string()).collect();
    assert_eq!(files, registered);
    for Shader { path, .. } in SHADERS {
        let twin = root.join("src").join(path).with_extension("rs");
        assert!(twin.exists(), "no CPU twin for {path}");
    }
}

#[test]
fn entry_points_and_workgroup_sizes_are_those_of_the_rust_side() {
    for shader in SHADERS {
        let (module, _) = validated(shader);
        let names: Vec<_> = module.entry_points.iter().map(|e| e.name.as_str()).collect();
        let registered: Vec<_> = shader.entries.iter().map(|e| e.name).collect();
        assert_eq!(names, registered, "{}", shader.path);
        for entry in &module.entry_points {
            assert_eq!(entry.workgroup_size, [shader.workgroup_size, 1, 1], "{}", shader.path);
        }
    }
}

#[test]
fn uniforms_have_the_fields_of_the_rust_side() {
    for shader in SHADERS {
        let (module, _) = validated(shader);
        let (_, params) =
            module.types.iter().find(|(_, t)| t.name.as_deref() == Some("Params")).unwrap();
        let naga::TypeInner::Struct { members, span } = &params.inner else {
            panic!("{}: Params is not a struct", shader.path)
        };
        assert_eq!(*span as usize, 4 * shader.params.len(), "{}", shader.path);
        for (i, (member, name)) in members.iter().zip(shader.params).enumerate() {
            assert_eq!(member.name.as_deref(), Some(*name), "{}", shader.path);
            assert_eq!(member.offset as usize, 4 * i, "{} {name}", shader.path);
            let inner = &module.types[member.ty].inner;
            assert_eq!(*inner, naga::TypeInner::Scalar(naga::Scalar::U32), "{}", shader.path);
        }
    }
}

#[test]
fn bindings_and_their_use_are_those_of_the_rust_side() {
    for shader in SHADERS {
        let (module, info) = validated(shader);
        let bound: Vec<_> =
            module.global_variables.iter().filter(|(_, v)| v.binding.is_some()).collect();
        for (_, variable) in &bound {
            let (name, binding) = (variable.name.as_deref().unwrap(), variable.binding.unwrap());
            let expected = match binding.binding {
                0 => "params",
                n => shader.bindings[n as usize - 1],
            };
            assert_eq!((name, binding.group), (expected, 0), "{}", shader.path);
            let expected = match binding.binding {
                0 => AddressSpace::Uniform,
                _ => AddressSpace::Storage { access: StorageAccess::LOAD | StorageAccess::STORE },
            };
            assert_eq!(variable.space, expected, "{} {name}", shader.path);
        }
        assert_eq!(bound.len(), shader.bindings.len() + 1, "{}", shader.path);
        for (i, entry) in shader.entries.iter().enumerate() {
            let used: Vec<_> = bound
                .iter()
                .filter(|(handle, _)| !info.get_entry_point(i)[*handle].is_empty())
                .filter_map(|(_, variable)| variable.name.as_deref())
                .filter(|name| *name != "params")
                .collect();
            assert_eq!(used, entry.uses, "{} {}", shader.path, entry.name);
            assert!(used.len() <= 8, "{} {}: too many buffers", shader.path, entry.name);
        }
    }
}
