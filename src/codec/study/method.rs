//! The methods of the studies by name. They are known to every build, so that one without the
//! feature `study` can say by name what it lacks.

use crate::codec::Form;

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

    /// The form of its chunks. Buffers of 128 MiB are chunks of `lmc`.
    pub fn form(self) -> Form {
        match self {
            Method::Lmc | Method::Plmc => Form::Lmc,
            Method::LmcPlain => Form::LmcPlain,
            Method::Sem => Form::Sem,
            Method::Xz => Form::Xz,
            Method::ByteplaneXz => Form::ByteplaneXz,
            Method::BitplaneXz => Form::BitplaneXz,
            Method::ClassGroupXz => Form::ClassGroupXz,
            Method::ExponentGroupXz => Form::ExponentGroupXz,
        }
    }

    /// The method with chunks of this form.
    pub fn of_form(form: Form) -> Option<Self> {
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
