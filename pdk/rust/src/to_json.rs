use crate::json::write_string;
use crate::{Json, Message};
use std::collections::BTreeMap;

/// A value that is written as JSON.
pub trait ToJson {
    fn write_json(&self, out: &mut String);

    fn to_json(&self) -> Json {
        let mut out = String::new();
        self.write_json(&mut out);
        Json::trusted(&out)
    }
}

macro_rules! written_as_text {
    ($($type:ty),*) => {$(
        impl ToJson for $type {
            fn write_json(&self, out: &mut String) {
                out.push_str(&self.to_string());
            }
        }
    )*};
}

written_as_text!(bool, i8, i16, i32, i64, i128, u8, u16, u32, u64, u128, isize, usize, Json);

impl ToJson for f64 {
    /// What is no number of JSON is null.
    fn write_json(&self, out: &mut String) {
        out.push_str(&if self.is_finite() { self.to_string() } else { "null".to_owned() });
    }
}

impl ToJson for str {
    fn write_json(&self, out: &mut String) {
        write_string(out, self);
    }
}

impl ToJson for String {
    fn write_json(&self, out: &mut String) {
        write_string(out, self);
    }
}

impl ToJson for () {
    fn write_json(&self, out: &mut String) {
        out.push_str("null");
    }
}

impl ToJson for Message {
    fn write_json(&self, out: &mut String) {
        self.json().write_json(out);
    }
}

impl<T: ToJson + ?Sized> ToJson for &T {
    fn write_json(&self, out: &mut String) {
        (**self).write_json(out);
    }
}

impl<T: ToJson> ToJson for Option<T> {
    fn write_json(&self, out: &mut String) {
        match self {
            Some(v) => v.write_json(out),
            None => out.push_str("null"),
        }
    }
}

impl<T: ToJson> ToJson for [T] {
    fn write_json(&self, out: &mut String) {
        out.push('[');
        for (n, v) in self.iter().enumerate() {
            if n > 0 {
                out.push(',');
            }
            v.write_json(out);
        }
        out.push(']');
    }
}

impl<T: ToJson> ToJson for Vec<T> {
    fn write_json(&self, out: &mut String) {
        self.as_slice().write_json(out);
    }
}

impl<T: ToJson, const N: usize> ToJson for [T; N] {
    fn write_json(&self, out: &mut String) {
        self.as_slice().write_json(out);
    }
}

impl<T: ToJson> ToJson for BTreeMap<String, T> {
    fn write_json(&self, out: &mut String) {
        self.iter().fold(Object::new(), |o, (name, v)| o.with(name, v)).json().write_json(out);
    }
}

/// An object in the making.
#[derive(Clone, Debug, Default)]
pub struct Object(String);

impl Object {
    pub fn new() -> Object {
        Object::default()
    }

    pub fn with(mut self, name: &str, value: impl ToJson) -> Object {
        self.0.push(if self.0.is_empty() { '{' } else { ',' });
        write_string(&mut self.0, name);
        self.0.push(':');
        value.write_json(&mut self.0);
        self
    }

    /// Adds a member if there is a value.
    pub fn maybe(self, name: &str, value: Option<impl ToJson>) -> Object {
        match value {
            Some(v) => self.with(name, v),
            None => self,
        }
    }

    pub(crate) fn list<T: ToJson>(self, name: &str, list: &[T]) -> Object {
        if list.is_empty() {
            self
        } else {
            self.with(name, list)
        }
    }

    pub fn json(mut self) -> Json {
        if self.0.is_empty() {
            self.0.push('{');
        }
        self.0.push('}');
        Json::trusted(&self.0)
    }
}

impl ToJson for Object {
    fn write_json(&self, out: &mut String) {
        self.clone().json().write_json(out);
    }
}

#[doc(hidden)]
pub fn object(members: &[(&str, Json)]) -> Json {
    members.iter().fold(Object::new(), |o, (name, v)| o.with(name, v)).json()
}

#[doc(hidden)]
pub fn array(items: &[Json]) -> Json {
    items.to_json()
}

/// Makes JSON. Values are expressions; objects and arrays in it are `json!` again:
///
/// ```
/// let city = "Oslo";
/// let v = agenthost::json!({"city": city, "days": agenthost::json!([1, 2.5, true])});
/// assert_eq!(v.text(), r#"{"city":"Oslo","days":[1,2.5,true]}"#);
/// ```
#[macro_export]
macro_rules! json {
    ({ $($name:literal : $value:expr),* $(,)? }) => {
        $crate::macros::object(&[$(($name, $crate::ToJson::to_json(&$value))),*])
    };
    ([ $($value:expr),* $(,)? ]) => {
        $crate::macros::array(&[$($crate::ToJson::to_json(&$value)),*])
    };
    ($value:expr) => { $crate::ToJson::to_json(&$value) };
}
