//! What a user asks of the benchmarks, and the run that answers it.

use std::path::PathBuf;

use super::{
    Codec, Context, baseline, codec, device,
    input::{Input, files},
    method,
    report::Report,
    study_fields, study_lmc, study_pareto,
};
use crate::{
    dtype::Dtype,
    error::{Error, Result},
};

/// Which study is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Study {
    /// LMC and the field on a series of checkpoints.
    Lmc,
    /// Bit fields: the preregistered test and the claims about mantissas.
    Fields,
    /// All methods and baselines.
    Pareto,
}

impl Study {
    /// The study of this name.
    pub fn parse(name: &str) -> Option<Study> {
        match name {
            "lmc" => Some(Study::Lmc),
            "fields" => Some(Study::Fields),
            "pareto" => Some(Study::Pareto),
            _ => None,
        }
    }
}

/// What is asked for.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// Files and directories; synthetic data where there are none.
    pub paths: Vec<PathBuf>,
    /// Names of methods; the usual ones where not given.
    pub methods: Option<Vec<String>>,
    /// Names of baselines, `usual` for ten of them; none where not given, unless a study wants them.
    pub baselines: Option<Vec<String>>,
    /// A study, or plain measurements.
    pub study: Option<Study>,
    /// Whether the study of fields takes the sizes that were preregistered, a tenth otherwise.
    pub full: bool,
    /// Type of the elements of headerless files.
    pub dtype: Option<Dtype>,
}

/// Measured where no methods are named.
const USUAL: [&str; 8] = ["fast", "auto", "max", "rans", "cascade", "zstd", "lmc", "sem"];
/// Baselines where `usual` is asked for.
const FIELD: [&str; 10] = [
    "zstd-1",
    "zstd-3",
    "lz4",
    "gzip",
    "bzip2",
    "xz-6",
    "bg-zstd-3",
    "bg-lz4",
    "bg-gzip",
    "bg-bzip2",
];
const NONE: [&str; 0] = [];
/// Values of each synthetic tensor of a plain run and of a study of all methods.
const PLAIN_VALUES: usize = 4 << 20;
const PARETO_VALUES: usize = 1 << 20;

/// Runs what is asked for.
///
/// # Errors
/// `InvalidArgument` where a name is unknown or a study needs other data. What fails on some of
/// the data is listed in the report instead.
pub fn run(request: &Request, context: &mut Context<'_>) -> Result<Report> {
    let (seed, threads) = (context.seed, context.threads);
    match request.study {
        Some(Study::Lmc) => {
            let [dir] = &request.paths[..] else {
                let what = "the study of LMC takes one directory, which holds a directory a step";
                return Err(Error::InvalidArgument(what.into()));
            };
            let mut codecs = codecs(request, &study_lmc::METHODS, &NONE, threads)?;
            let mut report = Report::new("LMC on a series of checkpoints", seed, threads);
            study_lmc::run(dir, &mut codecs, context, &mut report)?;
            Ok(report)
        }
        Some(Study::Fields) => {
            let mut report = Report::new("Bit fields, coded and tested", seed, threads);
            let inputs = read(request, &mut report)?;
            let plan = match request.full {
                true => study_fields::Plan::full(),
                false => study_fields::Plan::default(),
            };
            study_fields::run(&plan, &inputs, context, &mut report);
            Ok(report)
        }
        Some(Study::Pareto) => {
            let (ours, field) = (method::names(), baseline::names());
            let mut codecs = codecs(request, &ours, &field, threads)?;
            let report = Report::new("Size against speed, all methods", seed, threads);
            plain(request, PARETO_VALUES, &mut codecs, context, report)
        }
        None => {
            let mut codecs = codecs(request, &USUAL, &NONE, threads)?;
            let report = Report::new("Benchmark", seed, threads);
            plain(request, PLAIN_VALUES, &mut codecs, context, report)
        }
    }
}

fn plain(
    request: &Request,
    values: usize,
    codecs: &mut [Box<dyn Codec>],
    context: &mut Context<'_>,
    mut report: Report,
) -> Result<Report> {
    let inputs = match request.paths.is_empty() {
        true => study_pareto::synthetic_inputs(values, context.seed),
        false => read(request, &mut report)?,
    };
    if let Some(device) = context.device.clone() {
        device::run(&device, &inputs, request.methods.as_deref(), context, &mut report);
    }
    study_pareto::run(&inputs, codecs, context, &mut report);
    Ok(report)
}

/// The codecs that are named, or the usual ones; baselines after methods.
fn codecs<A: AsRef<str>, B: AsRef<str>>(
    request: &Request,
    methods: &[A],
    baselines: &[B],
    threads: usize,
) -> Result<Vec<Box<dyn Codec>>> {
    let usual = methods.iter().map(|m| m.as_ref().to_string()).collect();
    let mut names: Vec<String> = request.methods.clone().unwrap_or(usual);
    match &request.baselines {
        Some(baselines) => {
            let usual = baselines.iter().any(|b| b == "usual");
            names.extend(baselines.iter().filter(|b| *b != "usual").cloned());
            names.extend(FIELD.iter().filter(|_| usual).map(|b| (*b).into()));
        }
        None if request.methods.is_none() => {
            names.extend(baselines.iter().map(|b| b.as_ref().to_string()));
        }
        None => {}
    }
    names.iter().map(|name| codec(name, threads)).collect()
}

/// Reads all files. Of directories only those that hold tensors are taken; a file that cannot be
/// read is reported, unless it is the only one.
fn read(request: &Request, report: &mut Report) -> Result<Vec<Input>> {
    let mut inputs = Vec::new();
    let paths = files(&request.paths)?;
    for path in &paths {
        let named = request.paths.contains(path);
        match Input::read(path, request.dtype) {
            Ok(input) if input.is_empty() => {}
            Ok(input) if named => inputs.push(input),
            // Files of several directories may have the same name.
            Ok(input) if input.dtype() != Dtype::BYTES => {
                inputs.push(Input { name: path.display().to_string(), ..input });
            }
            Ok(_) => {}
            Err(e) if paths.len() == 1 => return Err(e),
            Err(e) => report.failures.push(e.to_string()),
        }
    }
    if inputs.is_empty() && !request.paths.is_empty() {
        let what = "nothing to measure: no tensors in what was given (--dtype reads flat files)";
        return Err(Error::InvalidArgument(what.into()));
    }
    Ok(inputs)
}
