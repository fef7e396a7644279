use crate::{Json, Object};
use std::fmt;

pub type Result<T> = std::result::Result<T, Error>;

/// What a caller can do about an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    InvalidArgument,
    Unauthenticated,
    PermissionDenied,
    NotFound,
    AlreadyExists,
    Conflict,
    ResourceExhausted,
    FailedPrecondition,
    DeadlineExceeded,
    Canceled,
    Unavailable,
    Unimplemented,
    DataLoss,
    Internal,
}

const CODES: [(Code, &str); 14] = [
    (Code::InvalidArgument, "invalid_argument"),
    (Code::Unauthenticated, "unauthenticated"),
    (Code::PermissionDenied, "permission_denied"),
    (Code::NotFound, "not_found"),
    (Code::AlreadyExists, "already_exists"),
    (Code::Conflict, "conflict"),
    (Code::ResourceExhausted, "resource_exhausted"),
    (Code::FailedPrecondition, "failed_precondition"),
    (Code::DeadlineExceeded, "deadline_exceeded"),
    (Code::Canceled, "canceled"),
    (Code::Unavailable, "unavailable"),
    (Code::Unimplemented, "unimplemented"),
    (Code::DataLoss, "data_loss"),
    (Code::Internal, "internal"),
];

impl Code {
    pub fn as_str(self) -> &'static str {
        CODES[self as usize].1
    }

    /// The code of that name; one that is not known is internal.
    pub fn named(name: &str) -> Code {
        CODES.iter().find(|(_, n)| *n == name).map_or(Code::Internal, |(code, _)| *code)
    }
}

/// An error with a code. One that a tool returns is a failed result, whose message the model
/// reads. Errors of other types become code `internal`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    pub code: Code,
    pub message: String,
    /// What to do about it.
    pub hint: Option<String>,
    /// The same call may succeed later.
    pub retryable: bool,
}

impl Error {
    pub fn new(code: Code, message: impl Into<String>) -> Error {
        Error { code, message: message.into(), hint: None, retryable: false }
    }

    pub fn invalid(message: impl Into<String>) -> Error {
        Error::new(Code::InvalidArgument, message)
    }

    pub fn not_found(message: impl Into<String>) -> Error {
        Error::new(Code::NotFound, message)
    }

    pub fn with_hint(mut self, hint: impl Into<String>) -> Error {
        self.hint = Some(hint.into());
        self
    }

    pub fn retryable(mut self) -> Error {
        self.retryable = true;
        self
    }

    pub(crate) fn of_host(object: &Json) -> Error {
        let text = |name| object.get(name).and_then(|v| v.as_string());
        Error {
            code: Code::named(&text("code").unwrap_or_default()),
            message: text("message").unwrap_or_default(),
            hint: text("hint"),
            retryable: object.get("retryable").and_then(|v| v.as_bool()).unwrap_or(false),
        }
    }

    pub(crate) fn object(&self) -> Json {
        let message = if self.message.is_empty() { self.code.as_str() } else { &self.message };
        let mut o = Object::new().with("code", self.code.as_str()).with("message", message).maybe("hint", self.hint.as_deref());
        if self.retryable {
            o = o.with("retryable", true);
        }
        o.json()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{}: {}", self.code.as_str(), self.message)
    }
}

impl std::error::Error for Error {}

macro_rules! internal {
    ($($type:ty),*) => {$(
        impl From<$type> for Error {
            fn from(e: $type) -> Error {
                Error::new(Code::Internal, e.to_string())
            }
        }
    )*};
}

internal!(fmt::Error, std::num::ParseIntError, std::num::ParseFloatError, std::string::FromUtf8Error, std::str::Utf8Error, String, &str);
