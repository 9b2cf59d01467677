//! Single tensors out of an archive, into memory.

use super::extract::gather;
use crate::{
    Error, Result,
    archive::access::{Archive, TensorInfo, tensor::Tensors},
    container::EntryKind,
    format,
    pipeline::Cancel,
    source::Source,
};

impl Archive<'_> {
    /// The tensors of all files, in the order of files and headers. Headers are read and parsed
    /// once, when they are first asked for.
    ///
    /// # Errors
    /// Where a header cannot be decoded; `BaseMismatch` where that takes a base that is missing.
    pub fn tensors(&self) -> Result<&[TensorInfo]> {
        Ok(&self.table()?.list)
    }

    /// What a header says of a tensor, by its name or, where several files have it, `FILE:TENSOR`.
    ///
    /// # Errors
    /// `InvalidArgument` where there is none, naming the nearest ones, or several have that name;
    /// what [`Archive::tensors`] reports.
    pub fn tensor_info(&self, name: &str) -> Result<&TensorInfo> {
        let table = self.table()?;
        Ok(&table.list[table.find(name)?])
    }

    /// The elements of a tensor, contiguous and little-endian. Only the chunks that hold it are
    /// decoded, on as many threads as the archive was opened with.
    ///
    /// ```
    /// # use lmc_gpu::{Archive, CompressOptions, RestoreOptions, compress};
    /// # let header = br#"{"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}"#;
    /// # let mut file = (header.len() as u64).to_le_bytes().to_vec();
    /// # file.extend_from_slice(header);
    /// # file.extend_from_slice(&[0, 0, 128, 63, 0, 0, 0, 64]);
    /// # let bytes = compress(&file, &CompressOptions::default())?;
    /// let archive = Archive::from_bytes(&bytes, &RestoreOptions::default())?;
    /// let (info, elements) = archive.tensor("w")?;
    /// assert_eq!((info.shape(), &elements[..]), (&[2][..], &[0, 0, 128, 63, 0, 0, 0, 64][..]));
    /// # Ok::<(), lmc_gpu::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`Archive::tensor_info`]; `Corrupt` names file, tensor and chunk; `LimitExceeded`
    /// where it does not fit into memory.
    pub fn tensor(&self, name: &str) -> Result<(&TensorInfo, Vec<u8>)> {
        let info = self.tensor_info(name)?;
        let mut bytes = Vec::new();
        let place = |e: Error| e.in_tensor(info.name()).in_file(info.file());
        self.check_len(info).map_err(place)?;
        let room = usize::try_from(info.byte_len()).ok();
        let Some(len) = room.filter(|&len| bytes.try_reserve_exact(len).is_ok()) else {
            return Err(place(Error::LimitExceeded("it does not fit into memory".into())));
        };
        bytes.resize(len, 0);
        self.fill(info, &mut bytes)?;
        Ok((info, bytes))
    }

    /// As [`Archive::tensor`], into memory of the caller's, which has
    /// [`TensorInfo::byte_len`] bytes.
    ///
    /// # Errors
    /// As for [`Archive::tensor`]; `InvalidArgument` for another length.
    pub fn tensor_into(&self, name: &str, out: &mut [u8]) -> Result<&TensorInfo> {
        let info = self.tensor_info(name)?;
        if out.len() as u64 != info.byte_len() {
            let (given, wanted) = (out.len(), info.byte_len());
            let why = format!("the output has {given} bytes, the tensor {wanted}");
            return Err(Error::InvalidArgument(why.into()).in_tensor(info.name()));
        }
        self.fill(info, out)?;
        Ok(info)
    }

    /// Checks that a file can hold so much: a view may claim to repeat elements without end.
    fn check_len(&self, info: &TensorInfo) -> Result<()> {
        if info.byte_len() <= self.len_of(info.entry) {
            return Ok(());
        }
        let why = "the view repeats elements to more bytes than its file has";
        Err(Error::Unsupported(why.into()))
    }

    fn table(&self) -> Result<&Tensors> {
        if let Some(tensors) = self.tensors.get() {
            return Ok(tensors);
        }
        self.ready()?;
        let mut list = Vec::new();
        for (entry, e) in self.manifest.entries.iter().enumerate() {
            if e.kind == EntryKind::Directory || e.flat.is_some() {
                continue;
            }
            let parsed = format::parse(&self.bytes_of(entry)).map_err(|x| x.in_file(&e.path))?;
            let tensors = parsed.tensors.into_iter();
            list.extend(tensors.map(|tensor| TensorInfo { entry, file: e.path.clone(), tensor }));
        }
        Ok(self.tensors.get_or_init(|| Tensors::new(list)))
    }

    fn fill(&self, info: &TensorInfo, out: &mut [u8]) -> Result<()> {
        self.elements(info, out).map_err(|e| e.in_tensor(info.name()).in_file(info.file()))
    }

    fn elements(&self, info: &TensorInfo, out: &mut [u8]) -> Result<()> {
        let tensor = &info.tensor;
        if tensor.strides.is_some() {
            self.check_len(info)?;
            let extent = tensor.extent().unwrap_or(0);
            let bytes = self.bytes_of(info.entry).read_vec(tensor.offset, extent)?;
            let mut elements = Vec::with_capacity(out.len());
            gather(&bytes, tensor, &mut elements);
            if elements.len() != out.len() {
                return Err(Error::Unsupported("a view of elements that are no bytes".into()));
            }
            out.copy_from_slice(&elements);
        } else {
            self.read_range(info.entry, tensor.offset, out, &Cancel::new())?;
        }
        if tensor.big_endian {
            out.chunks_exact_mut(tensor.dtype.word_len()).for_each(<[u8]>::reverse);
        }
        Ok(())
    }
}
