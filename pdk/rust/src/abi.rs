//! Plugins, and how the host's calls reach them.

use crate::host::{self, imports};
use crate::request::{Call, IntoAnswer, Next, Observe, Provide, Provided, Route, View};
use crate::{Code, Error, FromJson, Json, Kind, Object, Outline, Result};

/// The description of a tool.
#[derive(Clone, Debug)]
pub struct Tool {
    name: String,
    description: String,
    parameters: Option<Json>,
    result: Option<Json>,
    annotations: Object,
}

impl Tool {
    pub fn new(name: &str, description: &str) -> Tool {
        Tool { name: name.into(), description: description.into(), parameters: None, result: None, annotations: Object::new() }
    }

    /// It changes nothing.
    pub fn read_only(mut self) -> Tool {
        self.annotations = self.annotations.with("read_only", true);
        self
    }

    /// It may change or remove what is there, and not only add to it.
    pub fn destructive(mut self) -> Tool {
        self.annotations = self.annotations.with("destructive", true);
        self
    }

    /// Two calls with one idempotency key are one.
    pub fn idempotent(mut self) -> Tool {
        self.annotations = self.annotations.with("idempotent", true);
        self
    }

    /// A person must agree to each call.
    pub fn needs_approval(mut self) -> Tool {
        self.annotations = self.annotations.with("needs_approval", true);
        self
    }

    /// The JSON Schema of the arguments, in the place of that of their type.
    pub fn parameters(mut self, schema: Json) -> Tool {
        self.parameters = Some(schema);
        self
    }

    /// The JSON Schema of the content.
    pub fn result(mut self, schema: Json) -> Tool {
        self.result = Some(schema);
        self
    }
}

macro_rules! described {
    ($(#[$of:meta])* $name:ident $($field:ident)*) => {
        $(#[$of])*
        #[derive(Clone, Debug)]
        pub struct $name {
            name: String,
            config: Option<Json>,
            $($field: Option<Json>,)*
        }

        impl $name {
            pub fn new(name: &str) -> $name {
                $name { name: name.into(), config: None, $($field: None,)* }
            }

            /// It has a configuration of type T.
            pub fn config<T: FromJson>(mut self) -> $name {
                self.config = Some(T::schema());
                self
            }
        }
    };
}

described!(
    /// The description of a processor.
    Processor tokens
);
described!(
    /// The description of a router.
    Router
);
described!(
    /// The description of a provider.
    Provider
);

impl Processor {
    /// Which exact counts an outline has: `json!({"model": true})`.
    pub fn tokens(mut self, which: Json) -> Processor {
        self.tokens = Some(which);
        self
    }
}

type Run = Box<dyn Fn(&Json) -> Result<Json>>;

struct Part {
    name: String,
    manifest: Json,
    run: Run,
}

/// What a plugin offers. The macro [`plugin!`] takes one.
///
/// [`plugin!`]: crate::plugin!
pub struct Plugin {
    about: Object,
    tools: Vec<Part>,
    processors: Vec<Part>,
    routers: Vec<Part>,
    providers: Vec<Part>,
    observers: Vec<Part>,
}

impl Plugin {
    pub fn new(name: &str, version: &str) -> Plugin {
        let about = Object::new().with("abi", 1).with("name", name).with("version", version);
        Plugin { about, tools: vec![], processors: vec![], routers: vec![], providers: vec![], observers: vec![] }
    }

    pub fn description(mut self, text: &str) -> Plugin {
        self.about = self.about.with("description", text);
        self
    }

    /// What it asks for: `json!({"kv": "write", "random": true})`.
    pub fn permissions(mut self, permissions: Json) -> Plugin {
        self.about = self.about.with("permissions", permissions);
        self
    }

    /// Host operations that it cannot do without.
    pub fn requires(mut self, operations: &[&str]) -> Plugin {
        self.about = self.about.with("requires", operations);
        self
    }

    /// Texts and files that clients of the host read, each with a text, or the tool that reads it:
    /// `json!([{"uri": "shop://terms", "name": "terms", "text": "..."}])`.
    pub fn resources(mut self, list: Json) -> Plugin {
        self.about = self.about.with("resources", list);
        self
    }

    /// Texts that people choose in a client of the host, each with a text, or the tool that writes
    /// it: `json!([{"name": "letter", "arguments": [{"name": "to"}], "text": "..."}])`.
    pub fn prompts(mut self, list: Json) -> Plugin {
        self.about = self.about.with("prompts", list);
        self
    }

    /// Calls that a new version must answer before it serves.
    pub fn health(mut self, calls: Json) -> Plugin {
        self.about = self.about.with("health", calls);
        self
    }

    /// Adds a tool. Its arguments are of a type that [`arguments!`] makes, or [`Json`].
    ///
    /// [`arguments!`]: crate::arguments!
    pub fn tool<A: FromJson + 'static, R: IntoAnswer + 'static>(mut self, tool: Tool, run: fn(A, &mut Call) -> Result<R>) -> Plugin {
        let manifest = Object::new()
            .with("name", &tool.name)
            .with("description", &tool.description)
            .with("parameters", tool.parameters.unwrap_or_else(A::schema))
            .maybe("result", tool.result)
            .with("annotations", tool.annotations)
            .json();
        let run = Box::new(move |request: &Json| {
            let mut call = Call::read(request)?;
            let arguments = call.arguments.clone().unwrap_or_else(|| Object::new().json()).read()?;
            Ok(run(arguments, &mut call)?.into_answer().json())
        });
        self.tools.push(Part { name: tool.name, manifest, run });
        self
    }

    /// Adds a processor that is given messages.
    pub fn processor(mut self, processor: Processor, run: fn(&mut View) -> Result<()>) -> Plugin {
        let manifest = Object::new().with("name", &processor.name).maybe("config", processor.config).json();
        let run = Box::new(move |request: &Json| {
            let (mut view, _) = View::read(request, false)?;
            run(&mut view)?;
            view.json()
        });
        self.processors.push(Part { name: processor.name, manifest, run });
        self
    }

    /// Adds a processor that is given an outline.
    pub fn outline_processor(mut self, processor: Processor, run: fn(&mut View, &Outline) -> Result<()>) -> Plugin {
        let manifest = Object::new().with("name", &processor.name).with("input", "outline").maybe("tokens", processor.tokens);
        let manifest = manifest.maybe("config", processor.config).json();
        let run = Box::new(move |request: &Json| {
            let (mut view, outline) = View::read(request, true)?;
            run(&mut view, &outline.ok_or_else(|| Error::invalid("outline is absent"))?)?;
            view.json()
        });
        self.processors.push(Part { name: processor.name, manifest, run });
        self
    }

    pub fn router(mut self, router: Router, run: fn(&Route) -> Result<Next>) -> Plugin {
        let manifest = Object::new().with("name", &router.name).maybe("config", router.config).json();
        let run = Box::new(move |request: &Json| Ok(run(&Route::read(request)?)?.json()));
        self.routers.push(Part { name: router.name, manifest, run });
        self
    }

    pub fn provider(self, provider: Provider, run: fn(&Provide) -> Result<Provided>) -> Plugin {
        self.provides(provider, run, None)
    }

    /// Adds a provider that hears what came of the agent's run.
    pub fn observing_provider(self, provider: Provider, run: fn(&Provide) -> Result<Provided>, observe: fn(&Observe) -> Result<()>) -> Plugin {
        self.provides(provider, run, Some(observe))
    }

    fn provides(mut self, provider: Provider, run: fn(&Provide) -> Result<Provided>, observe: Option<fn(&Observe) -> Result<()>>) -> Plugin {
        let manifest = Object::new().with("name", &provider.name).with("observe", observe.is_some()).maybe("config", provider.config).json();
        let observed = Box::new(move |request: &Json| {
            let request = Observe::read(request)?;
            observe.map_or(Ok(()), |f| f(&request))?;
            Ok(Object::new().json())
        });
        self.observers.push(Part { name: provider.name.clone(), manifest: Json::null(), run: observed });
        let run = Box::new(move |request: &Json| Ok(run(&Provide::read(request)?)?.json()));
        self.providers.push(Part { name: provider.name, manifest, run });
        self
    }

    /// The plugin's manifest.
    pub fn manifest(&self) -> Json {
        let list = |parts: &[Part]| parts.iter().map(|p| p.manifest.clone()).collect::<Vec<_>>();
        let about = self.about.clone().list("tools", &list(&self.tools)).list("processors", &list(&self.processors));
        about.list("routers", &list(&self.routers)).list("providers", &list(&self.providers)).json()
    }

    /// Answers a call of an export, as the host makes it.
    pub fn answer(&self, export: Export, input: &str) -> Result<Json> {
        let (parts, kind) = match export {
            Export::Tool => (&self.tools, "tool"),
            Export::Process => (&self.processors, "processor"),
            Export::Route => (&self.routers, "router"),
            Export::Provide => (&self.providers, "provider"),
            Export::Observe => (&self.observers, "provider"),
        };
        let request = Json::parse(input).map_err(|_| Error::invalid("the request is no JSON"))?;
        if request.kind() != Kind::Object {
            return Err(Error::invalid("the request is no object"));
        }
        let name = crate::part::name(&request.get(kind), kind)?;
        match parts.iter().find(|p| p.name == name) {
            Some(part) => (part.run)(&request),
            None => Err(Error::not_found(format!("the plugin has no {kind} {name:?}"))),
        }
    }
}

/// The exports that a host calls with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Export {
    Tool,
    Process,
    Route,
    Provide,
    Observe,
}

#[doc(hidden)]
pub fn initialize() {
    std::panic::set_hook(Box::new(|info| {
        let said = info.payload();
        let said = said.downcast_ref::<&str>().map(|s| s.to_string()).or_else(|| said.downcast_ref::<String>().cloned());
        let place = info.location().map(|l| format!(" ({}:{})", l.file(), l.line())).unwrap_or_default();
        imports::last_words(&format!("panic: {}{place}\n", said.unwrap_or_default()));
    }));
}

/// serve answers a call of an export, and returns what the export returns; None asks for the
/// manifest.
#[doc(hidden)]
pub fn serve(plugin: &Plugin, export: Option<Export>, len: u32) -> i32 {
    let answer = match export {
        None => Ok(plugin.manifest()),
        Some(export) => match String::from_utf8(host::imports::input(len)) {
            Ok(input) => plugin.answer(export, &input),
            Err(_) => Err(Error::invalid("the request is not UTF-8")),
        },
    };
    let (value, output) = match answer {
        Ok(output) => (0, output),
        Err(error) => {
            if error.code == Code::Internal {
                host::log(host::Level::Error, &error.message);
            }
            (1, error.object())
        }
    };
    imports::output(output.text());
    value
}

/// Makes the module's exports of a [`Plugin`].
///
/// [`Plugin`]: crate::Plugin
#[macro_export]
macro_rules! plugin {
    ($plugin:expr) => {
        thread_local! {
            static AGENTHOST_PLUGIN: $crate::Plugin = $plugin;
        }

        #[no_mangle]
        pub extern "C" fn _initialize() {
            $crate::initialize();
            AGENTHOST_PLUGIN.with(|_| ());
        }
        #[no_mangle]
        pub extern "C" fn agenthost_describe() -> i32 {
            AGENTHOST_PLUGIN.with(|p| $crate::serve(p, None, 0))
        }
        #[no_mangle]
        pub extern "C" fn agenthost_tool(len: u32) -> i32 {
            AGENTHOST_PLUGIN.with(|p| $crate::serve(p, Some($crate::Export::Tool), len))
        }
        #[no_mangle]
        pub extern "C" fn agenthost_process(len: u32) -> i32 {
            AGENTHOST_PLUGIN.with(|p| $crate::serve(p, Some($crate::Export::Process), len))
        }
        #[no_mangle]
        pub extern "C" fn agenthost_route(len: u32) -> i32 {
            AGENTHOST_PLUGIN.with(|p| $crate::serve(p, Some($crate::Export::Route), len))
        }
        #[no_mangle]
        pub extern "C" fn agenthost_provide(len: u32) -> i32 {
            AGENTHOST_PLUGIN.with(|p| $crate::serve(p, Some($crate::Export::Provide), len))
        }
        #[no_mangle]
        pub extern "C" fn agenthost_observe(len: u32) -> i32 {
            AGENTHOST_PLUGIN.with(|p| $crate::serve(p, Some($crate::Export::Observe), len))
        }

        /// The plugin, for tests: `plugin_under_test(|p| p.answer(Export::Tool, request))`.
        #[allow(dead_code)]
        pub fn plugin_under_test<T>(f: impl FnOnce(&$crate::Plugin) -> T) -> T {
            AGENTHOST_PLUGIN.with(f)
        }
    };
}
