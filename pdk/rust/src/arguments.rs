use crate::{json, Json, Kind};
use std::collections::BTreeMap;

/// A type that arguments, configurations and other values are read as. [`arguments!`] makes a
/// struct one.
///
/// [`arguments!`]: crate::arguments!
pub trait FromJson: Sized {
    /// The value may be left out, or null.
    const OPTIONAL: bool = false;

    /// The JSON Schema of values that from_json reads.
    fn schema() -> Json;

    /// Reads a value; the error says what it is not, as in "is no string".
    fn from_json(v: &Json) -> Result<Self, String>;

    #[doc(hidden)]
    fn absent() -> Result<Self, String> {
        Err("is absent".to_owned())
    }
}

impl FromJson for Json {
    const OPTIONAL: bool = true;
    fn schema() -> Json {
        json!({})
    }
    fn from_json(v: &Json) -> Result<Json, String> {
        Ok(v.clone())
    }
    fn absent() -> Result<Json, String> {
        Ok(Json::null())
    }
}

impl FromJson for String {
    fn schema() -> Json {
        json!({"type": "string"})
    }
    fn from_json(v: &Json) -> Result<String, String> {
        v.as_string().ok_or_else(|| "is no string".to_owned())
    }
}

impl FromJson for bool {
    fn schema() -> Json {
        json!({"type": "boolean"})
    }
    fn from_json(v: &Json) -> Result<bool, String> {
        v.as_bool().ok_or_else(|| "is no boolean".to_owned())
    }
}

impl FromJson for f64 {
    fn schema() -> Json {
        json!({"type": "number"})
    }
    fn from_json(v: &Json) -> Result<f64, String> {
        v.as_f64().ok_or_else(|| "is no number that fits".to_owned())
    }
}

macro_rules! integers {
    ($($type:ty: $schema:expr),*) => {$(
        impl FromJson for $type {
            fn schema() -> Json {
                $schema
            }
            fn from_json(v: &Json) -> Result<$type, String> {
                v.as_i128().and_then(|n| <$type>::try_from(n).ok()).ok_or_else(|| format!("is no integer of {} bits", <$type>::BITS))
            }
        }
    )*};
}

integers!(
    i32: json!({"type": "integer", "minimum": i32::MIN, "maximum": i32::MAX}),
    i64: json!({"type": "integer"}),
    u32: json!({"type": "integer", "minimum": 0, "maximum": u32::MAX}),
    u64: json!({"type": "integer", "minimum": 0}),
    usize: json!({"type": "integer", "minimum": 0, "maximum": u32::MAX})
);

impl<T: FromJson> FromJson for Option<T> {
    const OPTIONAL: bool = true;
    fn schema() -> Json {
        T::schema()
    }
    fn from_json(v: &Json) -> Result<Option<T>, String> {
        if v.is_null() {
            Ok(None)
        } else {
            T::from_json(v).map(Some)
        }
    }
    fn absent() -> Result<Option<T>, String> {
        Ok(None)
    }
}

impl<T: FromJson> FromJson for Vec<T> {
    fn schema() -> Json {
        json!({"type": "array", "items": T::schema()})
    }
    fn from_json(v: &Json) -> Result<Vec<T>, String> {
        if v.kind() != Kind::Array {
            return Err("is no array".to_owned());
        }
        v.items().enumerate().map(|(n, item)| T::from_json(&item).map_err(|e| within(&format!("[{n}]"), &e))).collect()
    }
}

impl<T: FromJson> FromJson for BTreeMap<String, T> {
    fn schema() -> Json {
        json!({"type": "object", "additionalProperties": T::schema()})
    }
    fn from_json(v: &Json) -> Result<BTreeMap<String, T>, String> {
        if v.kind() != Kind::Object {
            return Err("is no object".to_owned());
        }
        v.members().map(|(name, value)| T::from_json(&value).map(|read| (name.clone(), read)).map_err(|e| within(&name, &e))).collect()
    }
}

#[doc(hidden)]
pub fn within(name: &str, error: &str) -> String {
    if error.starts_with("is ") {
        format!("{name} {error}")
    } else {
        format!("{name}.{error}").replace(".[", "[")
    }
}

#[doc(hidden)]
pub fn member<T: FromJson>(object: &Json, name: &str) -> Result<T, String> {
    match object.get(name) {
        None => T::absent(),
        Some(v) if v.is_null() && !T::OPTIONAL => T::absent(),
        Some(v) => T::from_json(&v),
    }
    .map_err(|e| within(name, &e))
}

#[doc(hidden)]
pub fn property<T: FromJson>(about: &str) -> Json {
    let (schema, about) = (T::schema(), about.trim());
    if about.is_empty() {
        return schema;
    }
    let mut o = crate::Object::new().with("description", about);
    for (name, v) in schema.members() {
        o = o.with(&name, v);
    }
    o.json()
}

/// Makes structs whose fields are arguments, or a configuration: their schema has the fields
/// with their comments, and requires those that are no `Option`.
///
/// ```
/// agenthost::arguments! {
///     pub struct Forecast {
///         /// The city's name.
///         city: String,
///         days: Option<u32>,
///     }
/// }
/// use agenthost::{FromJson, Json};
/// assert_eq!(Forecast::schema().get("required").unwrap().text(), r#"["city"]"#);
/// let asked: Forecast = Json::parse(r#"{"city": "Oslo", "days": 2.0}"#).unwrap().read().unwrap();
/// assert_eq!(asked.days, Some(2));
/// ```
#[macro_export]
macro_rules! arguments {
    ($($(#[$of:meta])* $vis:vis struct $name:ident {
        $($(#[doc = $about:expr])* $fvis:vis $field:ident : $type:ty),* $(,)?
    })*) => {$(
        $(#[$of])*
        $vis struct $name { $($(#[doc = $about])* $fvis $field: $type),* }

        impl $crate::FromJson for $name {
            fn schema() -> $crate::Json {
                let properties = $crate::macros::object(&[$((stringify!($field), $crate::macros::property::<$type>(concat!($($about),*)))),*]);
                let required: Vec<&str> = [$((stringify!($field), <$type as $crate::FromJson>::OPTIONAL)),*]
                    .iter().filter(|(_, optional): &&(&str, bool)| !optional).map(|(name, _)| *name).collect();
                $crate::json!({"type": "object", "properties": properties, "required": required})
            }
            fn from_json(v: &$crate::Json) -> ::std::result::Result<Self, String> {
                if v.kind() != $crate::Kind::Object {
                    return Err("is no object".to_owned());
                }
                Ok($name { $($field: $crate::macros::member(v, stringify!($field))?),* })
            }
        }
    )*};
}
