//! The methods of the studies by name. They are known to every build, so that one without the
//! feature `study` can say by name what it lacks.

/// A method of the studies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the table of the module says what each does")]
pub enum Method {
    Lmc,
    LmcPlain,
    Plmc,
    Sem,
    Xz,
    ByteplaneXz,
    BitplaneXz,
    ClassGroupXz,
    ExponentGroupXz,
}

impl Method {
    /// All of them.
    pub const ALL: [Method; 9] = [
        Method::Lmc,
        Method::LmcPlain,
        Method::Plmc,
        Method::Sem,
        Method::Xz,
        Method::ByteplaneXz,
        Method::BitplaneXz,
        Method::ClassGroupXz,
        Method::ExponentGroupXz,
    ];

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Method::Lmc => "lmc",
            Method::LmcPlain => "lmc-plain",
            Method::Plmc => "plmc",
            Method::Sem => "sem",
            Method::Xz => "xz",
            Method::ByteplaneXz => "byteplane-xz",
            Method::BitplaneXz => "bitplane-xz",
            Method::ClassGroupXz => "class-group-xz",
            Method::ExponentGroupXz => "exponent-group-xz",
        }
    }

    /// The method with this name.
    pub fn parse(name: &str) -> Option<Method> {
        Self::ALL.into_iter().find(|m| m.name() == name)
    }

    /// The form of its chunks. Those of LMC with runs of zeros alone, 16 to 18, are no longer read.
    pub fn form(self) -> u8 {
        match self {
            Method::Lmc => 25,
            Method::LmcPlain => 26,
            Method::Plmc => 27,
            Method::Sem => 19,
            Method::Xz => 20,
            Method::ByteplaneXz => 21,
            Method::BitplaneXz => 22,
            Method::ClassGroupXz => 23,
            Method::ExponentGroupXz => 24,
        }
    }

    /// The method with chunks of this form.
    pub fn of_form(form: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|m| m.form() == form)
    }

    /// Bytes of a chunk that the method asks for; `None` where the usual size does.
    pub fn chunk_len(self) -> Option<usize> {
        match self {
            Method::Plmc => Some(128 << 20),
            Method::Lmc | Method::LmcPlain | Method::Sem => None,
            // What LZMA can refer back to at this preset is 8 MiB.
            _ => Some(16 << 20),
        }
    }
}
