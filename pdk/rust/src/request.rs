use crate::part::{check_message, check_part, list, messages, name, of_kind, text, text_or_none, whole, wrong};
use crate::{json, Error, FromJson, Json, Kind, Object, Outline, Result, ToJson};

/// For whom a call is made. What does not apply is None.
#[derive(Clone, Debug, Default)]
pub struct Scope {
    pub tenant: Option<String>,
    pub thread: Option<String>,
    pub run: Option<String>,
    pub network: Option<String>,
    pub agent: Option<String>,
}

impl Scope {
    fn read(v: &Option<Json>) -> Result<Scope> {
        of_kind(v, Kind::Object, "scope", "object")?;
        let member = |of: &str| text_or_none(&v.as_ref().and_then(|v| v.get(of)), of);
        Ok(Scope { tenant: member("tenant")?, thread: member("thread")?, run: member("run")?, network: member("network")?, agent: member("agent")? })
    }
}

/// A message of a conversation. Fields and parts that a plugin does not know stay in it.
#[derive(Clone, Debug)]
pub struct Message(Json);

impl Message {
    /// A message with one text, whose role is user, assistant, system or tool.
    pub fn new(role: &str, text: &str) -> Message {
        Message(json!({"role": role, "parts": json!([json!({"type": "text", "text": text})])}))
    }

    /// The message that a value of JSON is. Code `invalid_argument` for what is none.
    pub fn checked(v: Json) -> Result<Message> {
        check_message(&v)?;
        Ok(Message(v))
    }

    pub fn json(&self) -> &Json {
        &self.0
    }

    pub fn role(&self) -> String {
        self.0.get("role").and_then(|v| v.as_string()).unwrap_or_default()
    }

    pub fn id(&self) -> Option<String> {
        self.0.get("id").and_then(|v| v.as_string())
    }

    pub fn parts(&self) -> Vec<Json> {
        self.0.get("parts").map_or_else(Vec::new, |v| v.items().collect())
    }

    /// The texts of the message's text parts, one after the other.
    pub fn text(&self) -> String {
        let is_text = |p: &Json| p.get("type").and_then(|v| v.as_string()).as_deref() == Some("text");
        self.parts().iter().filter(|p| is_text(p)).filter_map(|p| p.get("text")?.as_string()).collect()
    }

    /// The same message with all text in it as f returns it: in text, reasoning, arguments,
    /// content and values.
    pub fn map_text(&self, f: &mut dyn FnMut(&str) -> String) -> Message {
        let mut part = |p: &Json| {
            p.members().fold(Object::new(), |o, (name, v)| match name.as_str() {
                "text" | "arguments" | "content" | "value" => o.with(&name, v.map_strings(f)),
                _ => o.with(&name, v),
            })
        };
        let mut out = Object::new();
        for (name, v) in self.0.members() {
            out = match name.as_str() {
                "parts" => out.with(&name, v.items().map(|p| part(&p)).collect::<Vec<_>>()),
                _ => out.with(&name, v),
            };
        }
        Message(out.json())
    }
}

/// A call of a tool.
#[derive(Clone, Debug)]
pub struct Call {
    pub tool: String,
    pub arguments: Option<Json>,
    pub call_id: Option<String>,
    /// The same whenever this very call is made again.
    pub idempotency_key: Option<String>,
    /// From 1. Above 1 an earlier attempt may have taken effect.
    pub attempt: Option<u64>,
    /// The provider that contributed the tool, if one did.
    pub provider: Option<String>,
    pub scope: Scope,
    /// The network's state and its revision, with the permission state.
    pub state: Option<Json>,
    pub state_revision: Option<i64>,
    pub config: Option<Json>,
    /// A person's answers to this call's interrupts.
    pub resumed: Option<Vec<Answered>>,
}

/// A person's answer to an interrupt.
#[derive(Clone, Debug)]
pub struct Answered {
    pub interrupt_id: String,
    pub answer: Option<Json>,
}

impl Call {
    pub(crate) fn read(r: &Json) -> Result<Call> {
        let ([tool, arguments, call_id, key, attempt, provider, scope, state, revision, config, resumed], _) = r.pick([
            "tool", "arguments", "call_id", "idempotency_key", "attempt", "provider", "scope", "state", "state_revision", "config", "resumed",
        ]);
        of_kind(&state, Kind::Object, "state", "object")?;
        let answered = |v: Json| {
            if v.kind() != Kind::Object {
                return Err(wrong("an answer", "object"));
            }
            Ok(Answered { interrupt_id: name(&v.get("interrupt_id"), "interrupt_id")?, answer: v.get("answer") })
        };
        Ok(Call {
            tool: name(&tool, "tool")?,
            arguments,
            call_id: text_or_none(&call_id, "call_id")?,
            idempotency_key: text_or_none(&key, "idempotency_key")?,
            attempt: attempt.map(|v| whole(&Some(v), "attempt", 1).map(|n| n as u64)).transpose()?,
            provider: text_or_none(&provider, "provider")?,
            scope: Scope::read(&scope)?,
            state,
            state_revision: revision.map(|v| whole(&Some(v), "state_revision", 0)).transpose()?,
            config,
            resumed: resumed.map(|v| list(&Some(v), "resumed")?.into_iter().map(answered).collect()).transpose()?,
        })
    }

    /// The last answer of a person, if the call was interrupted.
    pub fn answer(&self) -> Option<&Json> {
        self.resumed.as_ref()?.last()?.answer.as_ref()
    }

    /// Reads the plugin's configuration; an absent one is an empty object.
    pub fn config<T: FromJson>(&self) -> Result<T> {
        config(&self.config)
    }
}

pub(crate) fn config<T: FromJson>(v: &Option<Json>) -> Result<T> {
    v.clone().unwrap_or_else(|| Object::new().json()).read()
}

/// The answer of a tool that has more than content, or asks a person.
#[derive(Clone, Debug)]
pub struct Answer {
    content: Json,
    state: Vec<Json>,
    media: Vec<Json>,
    artifacts: Vec<Json>,
    schedule: Vec<String>,
    interrupt: Option<Json>,
}

impl Answer {
    pub fn new(content: impl ToJson) -> Answer {
        Answer { content: content.to_json(), state: Vec::new(), media: Vec::new(), artifacts: Vec::new(), schedule: Vec::new(), interrupt: None }
    }

    /// Asks a person. The tool is called again with the answer as `call.answer()`.
    pub fn ask(reason: &str, data: Option<Json>) -> Answer {
        let interrupt = Object::new().with("reason", reason).maybe("data", data).json();
        Answer { interrupt: Some(interrupt), ..Answer::new(()) }
    }

    /// Adds an operation of RFC 6902 on the network's state, applied after the call.
    pub fn patch(mut self, operation: Json) -> Answer {
        self.state.push(operation);
        self
    }

    /// Adds a media part to the result, for models and clients that take it:
    /// `json!({"type": "media", "media_type": media_type, "data": base64})`.
    pub fn media(mut self, part: Json) -> Answer {
        self.media.push(part);
        self
    }

    /// Adds an artifact: `json!({"name": name, "parts": parts})`.
    pub fn artifact(mut self, artifact: Json) -> Answer {
        self.artifacts.push(artifact);
        self
    }

    /// Has an agent of the network run next.
    pub fn schedule(mut self, agent: impl Into<String>) -> Answer {
        self.schedule.push(agent.into());
        self
    }

    pub(crate) fn json(&self) -> Json {
        if let Some(interrupt) = &self.interrupt {
            return json!({ "interrupt": interrupt });
        }
        Object::new().with("content", &self.content).list("state", &self.state).list("media", &self.media).list("artifacts", &self.artifacts).list("schedule", &self.schedule).json()
    }
}

/// What the function of a tool may return: any value that is written as JSON, or an [`Answer`].
pub trait IntoAnswer {
    fn into_answer(self) -> Answer;
}

impl<T: ToJson> IntoAnswer for T {
    fn into_answer(self) -> Answer {
        Answer::new(self)
    }
}

impl IntoAnswer for Answer {
    fn into_answer(self) -> Answer {
        self
    }
}

/// What a processor is given, and the edits that it makes. All indices are those of the view
/// that it was given.
#[derive(Clone, Debug)]
pub struct View {
    pub processor: String,
    pub config: Option<Json>,
    pub scope: Scope,
    /// The model that the view is for.
    pub model: String,
    /// Empty for a processor that reads an outline.
    pub messages: Vec<Message>,
    /// Where the rounds begin that the agent about to be asked has made itself.
    pub own_from: Option<usize>,
    edits: Vec<Json>,
    replaced: Option<Vec<Message>>,
    report: Option<Json>,
}

impl View {
    pub(crate) fn read(r: &Json, outline: bool) -> Result<(View, Option<Outline>)> {
        let ([processor, config, scope, model, list, own_from, columns], _) =
            r.pick(["processor", "config", "scope", "model", "messages", "own_from", "outline"]);
        let mut view = View {
            processor: name(&processor, "processor")?,
            config,
            scope: Scope::read(&scope)?,
            model: text(&model, "model")?,
            messages: Vec::new(),
            own_from: None,
            edits: Vec::new(),
            replaced: None,
            report: None,
        };
        if list.is_some() == columns.is_some() {
            return Err(Error::invalid("exactly one of messages and outline is there"));
        }
        match columns {
            Some(columns) if outline => {
                let outline = Outline::read(&columns)?;
                view.own_from = outline.own_from;
                Ok((view, Some(outline)))
            }
            None if !outline => {
                view.messages = messages(&list, "messages")?;
                if own_from.is_some() {
                    let at = whole(&own_from, "own_from", 0)? as usize;
                    view.own_from = Some(at).filter(|at| *at <= view.messages.len());
                    view.own_from.ok_or_else(|| Error::invalid("own_from is beyond the messages"))?;
                }
                Ok((view, None))
            }
            _ => Err(Error::invalid(format!("processor {:?} reads {}", view.processor, if outline { "an outline" } else { "messages" }))),
        }
    }

    /// Reads the processor's configuration; an absent one is an empty object.
    pub fn config<T: FromJson>(&self) -> Result<T> {
        config(&self.config)
    }

    /// Drops the messages from `from` to before `to`.
    pub fn drop(&mut self, from: usize, to: usize) {
        self.edits.push(json!({"drop": json!([from, to])}));
    }

    pub fn drop_part(&mut self, message: usize, part: usize) {
        self.edits.push(json!({"drop_part": json!([message, part])}));
    }

    pub fn insert(&mut self, at: usize, message: &Message) {
        self.edits.push(json!({"insert": json!({"at": at, "message": message})}));
    }

    pub fn replace(&mut self, at: usize, message: &Message) {
        self.edits.push(json!({"replace": json!({"at": at, "message": message})}));
    }

    /// Replaces text by what f returns for it wherever it stands. A message in which nothing
    /// changes is left alone.
    pub fn map_text(&mut self, mut f: impl FnMut(&str) -> String) {
        for at in 0..self.messages.len() {
            let mut changed = false;
            let message = self.messages[at].map_text(&mut |was| {
                let is = f(was);
                changed |= is != was;
                is
            });
            if changed {
                self.replace(at, &message);
            }
        }
    }

    /// Makes messages the whole new view. It goes with no edits.
    pub fn set_messages(&mut self, messages: Vec<Message>) {
        self.replaced = Some(messages);
    }

    /// Says what is shown on the run.
    pub fn report(&mut self, report: impl ToJson) {
        self.report = Some(report.to_json());
    }

    pub(crate) fn json(&self) -> Result<Json> {
        if self.replaced.is_some() && !self.edits.is_empty() {
            return Err(Error::from("the processor makes a view and edits: do one of both"));
        }
        Ok(Object::new().maybe("messages", self.replaced.as_ref()).list("edits", &self.edits).maybe("report", self.report.as_ref()).json())
    }
}

#[derive(Clone, Debug)]
pub struct Agent {
    pub name: String,
    pub description: Option<String>,
}

/// What a router is asked.
#[derive(Clone, Debug)]
pub struct Route {
    pub router: String,
    pub config: Option<Json>,
    pub scope: Scope,
    /// What the user said in this turn.
    pub input: Option<Message>,
    /// Agent runs so far in this run.
    pub call_count: u64,
    /// Agents that wait to run.
    pub stack: Vec<String>,
    pub agents: Vec<Agent>,
    pub state: Option<Json>,
    /// What the last agent of this run did; None before the first.
    pub last: Option<Last>,
    /// With the permission messages.
    pub outline: Option<Outline>,
}

#[derive(Clone, Debug)]
pub struct Last {
    pub agent: String,
    pub messages: Option<Vec<Message>>,
    pub tool_results: Option<Vec<Json>>,
    pub finish_reason: Option<String>,
}

impl Route {
    pub(crate) fn read(r: &Json) -> Result<Route> {
        let ([router, config, scope, input, call_count, stack, agents, state, last, outline], _) =
            r.pick(["router", "config", "scope", "input", "call_count", "stack", "agents", "state", "last", "outline"]);
        of_kind(&state, Kind::Object, "state", "object")?;
        let agent = |v: Json| {
            if v.kind() != Kind::Object {
                return Err(wrong("an agent", "object"));
            }
            Ok(Agent { name: text(&v.get("name"), "the name of an agent")?, description: text_or_none(&v.get("description"), "a description")? })
        };
        Ok(Route {
            router: name(&router, "router")?,
            config,
            scope: Scope::read(&scope)?,
            input: input.map(Message::checked).transpose()?,
            call_count: whole(&call_count, "call_count", 0)? as u64,
            stack: list(&stack, "stack")?.into_iter().map(|v| text(&Some(v), "stack")).collect::<Result<_>>()?,
            agents: list(&agents, "agents")?.into_iter().map(agent).collect::<Result<_>>()?,
            state,
            last: last.as_ref().map(Last::read).transpose()?,
            outline: outline.as_ref().map(Outline::read).transpose()?,
        })
    }

    /// Reads the router's configuration; an absent one is an empty object.
    pub fn config<T: FromJson>(&self) -> Result<T> {
        config(&self.config)
    }
}

impl Last {
    fn read(v: &Json) -> Result<Last> {
        if v.kind() != Kind::Object {
            return Err(wrong("last", "object"));
        }
        let ([agent, said, results, finish_reason], _) = v.pick(["agent", "messages", "tool_results", "finish_reason"]);
        let results = results.map(|v| list(&Some(v), "last.tool_results")).transpose()?;
        results.iter().flatten().try_for_each(check_part)?;
        Ok(Last {
            agent: text(&agent, "last.agent")?,
            messages: said.map(|v| messages(&Some(v), "last.messages")).transpose()?,
            tool_results: results,
            finish_reason: text_or_none(&finish_reason, "last.finish_reason")?,
        })
    }
}

/// Who runs next. By default no agent does, and the run ends when none waits.
#[derive(Clone, Debug, Default)]
pub struct Next {
    next: Vec<String>,
    delegate: Option<String>,
    reason: Option<String>,
}

impl Next {
    pub fn end() -> Next {
        Next::default()
    }

    pub fn agent(name: impl Into<String>) -> Next {
        Next { next: vec![name.into()], ..Next::default() }
    }

    pub fn agents(names: impl IntoIterator<Item = impl Into<String>>) -> Next {
        Next { next: names.into_iter().map(Into::into).collect(), ..Next::default() }
    }

    /// Lets a model router decide; "default" is the network's own.
    pub fn delegate(router: impl Into<String>) -> Next {
        Next { delegate: Some(router.into()), ..Next::default() }
    }

    /// Says why, in a sentence that is shown on the run.
    pub fn because(mut self, reason: impl Into<String>) -> Next {
        self.reason = Some(reason.into());
        self
    }

    pub(crate) fn json(&self) -> Json {
        Object::new().list("next", &self.next).maybe("delegate", self.delegate.as_ref()).maybe("reason", self.reason.as_ref()).json()
    }
}

/// What a provider is asked.
#[derive(Clone, Debug)]
pub struct Provide {
    pub provider: String,
    pub config: Option<Json>,
    pub scope: Scope,
    pub messages: Vec<Message>,
}

impl Provide {
    pub(crate) fn read(r: &Json) -> Result<Provide> {
        let ([provider, config, scope, said], _) = r.pick(["provider", "config", "scope", "messages"]);
        Ok(Provide { provider: name(&provider, "provider")?, config, scope: Scope::read(&scope)?, messages: messages(&said, "messages")? })
    }

    /// Reads the provider's configuration; an absent one is an empty object.
    pub fn config<T: FromJson>(&self) -> Result<T> {
        config(&self.config)
    }
}

/// What a provider adds before an agent runs.
#[derive(Clone, Debug, Default)]
pub struct Provided {
    pub instructions: Option<String>,
    pub messages: Vec<Message>,
    /// The messages stay: they are stored with the answer.
    pub store: bool,
    /// Tools that the agent gets for this run.
    pub tools: Vec<String>,
}

impl Provided {
    pub fn instructions(text: impl Into<String>) -> Provided {
        Provided { instructions: Some(text.into()), ..Provided::default() }
    }

    pub(crate) fn json(&self) -> Json {
        let o = Object::new().maybe("instructions", self.instructions.as_ref()).list("messages", &self.messages);
        o.maybe("store", Some(true).filter(|_| self.store)).list("tools", &self.tools).json()
    }
}

/// What an observer hears: what the agent said, or the error with which its run failed.
#[derive(Clone, Debug)]
pub struct Observe {
    pub request: Provide,
    pub outcome: std::result::Result<Vec<Message>, Error>,
}

impl Observe {
    pub(crate) fn read(r: &Json) -> Result<Observe> {
        let request = Provide::read(r)?;
        let outcome = match (r.get("responses"), r.get("error")) {
            (Some(said), None) => Ok(messages(&Some(said), "responses")?),
            (None, Some(error)) => {
                if error.kind() != Kind::Object {
                    return Err(wrong("error", "object"));
                }
                name(&error.get("code"), "error.code").and(name(&error.get("message"), "error.message"))?;
                Err(Error::of_host(&error))
            }
            _ => return Err(Error::invalid("exactly one of responses and error is there")),
        };
        Ok(Observe { request, outcome })
    }
}
