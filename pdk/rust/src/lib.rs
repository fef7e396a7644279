//! The kit for plugins in Rust. It has no dependencies. A plugin is a library of the type
//! `cdylib` for the target `wasm32-unknown-unknown`:
//!
//! ```
//! use agenthost::{arguments, plugin, Call, Plugin, Result, Tool};
//!
//! arguments! {
//!     struct Greet {
//!         /// The person who is greeted.
//!         name: String,
//!     }
//! }
//!
//! fn greet(args: Greet, _: &mut Call) -> Result<String> {
//!     Ok(format!("Hello, {}!", args.name))
//! }
//!
//! plugin! {
//!     Plugin::new("hello", "1.0.0").tool(Tool::new("greet", "Greets a person.").read_only(), greet)
//! }
//! # fn main() {}
//! ```
//!
//! The contract behind it is pdk/ABI.md of the repository that this crate is in. Values of JSON
//! are [`Json`]: their text as it was read, so that numbers keep their digits, and messages the
//! fields that a plugin does not know.

mod abi;
mod arguments;
mod error;
pub mod host;
mod json;
mod outline;
mod part;
mod request;
mod to_json;

#[doc(hidden)]
pub use abi::{initialize, serve, Export};
pub use abi::{Plugin, Processor, Provider, Router, Tool};
pub use arguments::FromJson;
pub use error::{Code, Error, Result};
pub use json::{Json, Kind};
pub use outline::{Outline, Row};
pub use request::{Agent, Answer, Answered, Call, IntoAnswer, Last, Message, Next, Observe, Provide, Provided, Route, Scope, View};
pub use to_json::{Object, ToJson};

#[doc(hidden)]
pub mod macros {
    pub use crate::arguments::{member, property};
    pub use crate::to_json::{array, object};
}
