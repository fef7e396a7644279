//! The guest that pdk/conformance feeds: each part answers with the members of its request that
//! the contract names, written again as the kit has read them.

use agenthost::{
    arguments, host, json, plugin, Answer, Call, Code, Error, Json, Message, Next, Object, Observe, Outline, Plugin, Processor, Provide, Provided,
    Provider, Result, Route, Router, Scope, Tool, View,
};

fn scope(s: &Scope) -> Object {
    let o = Object::new().maybe("tenant", s.tenant.as_ref()).maybe("thread", s.thread.as_ref()).maybe("run", s.run.as_ref());
    o.maybe("network", s.network.as_ref()).maybe("agent", s.agent.as_ref())
}

fn outline(o: &Outline) -> Object {
    let roles = String::from_utf8_lossy(&o.roles).into_owned();
    let rows = o.tools.iter().map(|r| json!([r.message, r.part, if r.is_result { "result" } else { "call" }, r.id, r.name]));
    let out = Object::new().with("count", o.count).with("roles", roles).with("bytes", &o.bytes).with("chars", &o.chars);
    let out = out.maybe("tokens", o.tokens.as_ref()).maybe("encoding", o.encoding.as_ref()).with("parts", &o.parts);
    out.maybe("keep", o.keep.as_ref()).maybe("own_from", o.own_from).with("tools", rows.collect::<Vec<_>>())
}

fn vector(_: Json, c: &mut Call) -> Result<Object> {
    let answered = |list: &Vec<agenthost::Answered>| list.iter().map(|a| json!({"interrupt_id": a.interrupt_id, "answer": a.answer})).collect::<Vec<_>>();
    let o = Object::new().with("tool", &c.tool).maybe("arguments", c.arguments.as_ref()).maybe("call_id", c.call_id.as_ref());
    let o = o.maybe("idempotency_key", c.idempotency_key.as_ref()).maybe("attempt", c.attempt).maybe("provider", c.provider.as_ref());
    let o = o.with("scope", scope(&c.scope)).maybe("state", c.state.as_ref()).maybe("state_revision", c.state_revision);
    Ok(o.maybe("config", c.config.as_ref()).maybe("resumed", c.resumed.as_ref().map(answered)))
}

arguments! {
    struct Integer {
        argument: i64,
    }
}

fn integer(args: Integer, _: &mut Call) -> Result<Json> {
    Ok(json!({"argument": args.argument}))
}

arguments! {
    struct Asking {
        fails: Option<bool>,
    }
}

fn denied(tool: &str, arguments: &Json) -> bool {
    matches!(host::call_tool(tool, arguments), Err(e) if e.code == Code::PermissionDenied)
}

fn tools() -> Result<Json> {
    let (seven, eight) = (json!({"order": 7}), json!({"order": 8}));
    let answers = host::call_tools(&["look", "pay", "wait"].map(|name| host::ToolCall::new(name, &seven)))?;
    let one = host::call_tool("look", &eight)?;
    let denied = [denied("pay", &eight), denied("drop", &eight)];
    match &answers[..] {
        [Ok(found), Err(closed), Err(unknown)] => Ok(json!({
            "found": found.content, "media": found.media[0].get("media_type"), "one": one, "denied": denied,
            "failed": [closed.code.as_str(), &closed.message, unknown.code.as_str()],
        })),
        _ => Err(Error::from("other tools have failed")),
    }
}

fn ask_host(args: Asking, _: &mut Call) -> Result<Json> {
    let absent = host::kv::get("k")?.is_none();
    host::kv::put("k", "a\0é")?;
    let text = host::kv::text("k")?;
    let (n, _) = host::state("/n")?;
    let request = host::Request::new("POST", "https://example.com/x").secret_header("Authorization", "Bearer ", "KEY").body(r#"{"a":1}"#);
    let response = request.send()?;
    let ok = response.json()?.get("ok");
    host::step("s", || Json::parse(r#"{"x":1.0}"#))?;
    let step = host::step("s", || Err(Error::from("it is done twice")))?;
    host::progress("half")?;
    host::send("later", json!({"a": json!([1])}))?;
    let tools = tools()?;
    match host::call("artifact.read", json!({"name": "plan"})) {
        Err(e) if args.fails != Some(true) => {
            Ok(json!({"absent": absent, "text": text, "n": n, "status": i32::from(response.status), "ok": ok, "step": step, "tools": tools, "code": e.code.as_str()}))
        }
        other => other,
    }
}

fn pass_bytes(args: Asking, _: &mut Call) -> Result<Json> {
    host::kv::write_bytes("k", "a\0é".as_bytes(), Some(0), None)?;
    let item = host::kv::get_bytes("k")?.ok_or("there is no key k")?;
    let digest = host::artifacts::write_bytes("plan", "application/x-plan", &[0, 1, 2])?;
    let (plan, media_type) = host::artifacts::read_bytes("plan")?;
    let request = host::Request::new("POST", "https://example.com/x").secret_header("Authorization", "Bearer ", "KEY").body(r#"{"a":1}"#);
    let response = request.send_bytes()?;
    match host::call_bytes("kv.get", json!({"key": "none"}), &[], "value") {
        Err(e) if args.fails != Some(true) => Ok(json!({"text": String::from_utf8(item.value)?, "revision": item.revision, "digest": digest,
            "plan": String::from_utf8(plan)?, "type": media_type, "status": i32::from(response.status), "body": response.text(), "code": e.code.as_str()})),
        other => other.map(|(response, _)| response),
    }
}

arguments! {
    struct Carrying {
        size: usize,
        bytes: Option<bool>,
    }
}

fn carry(args: Carrying, _: &mut Call) -> Result<Json> {
    let data: Vec<u8> = (0..args.size).map(|i| i as u8).collect();
    let (file, _) = if args.bytes == Some(true) {
        host::artifacts::write_bytes("load", "", &data)?;
        host::artifacts::read_bytes("load")?
    } else {
        host::artifacts::write("load", "", &data)?;
        host::artifacts::read("load")?
    };
    let right = file.iter().enumerate().filter(|(i, b)| **b == *i as u8).count();
    Ok(json!({"right": right, "size": file.len()}))
}

fn log(_: Json, _: &mut Call) -> Result<()> {
    let who = Object::new().with("order", 1042).with("who", "Ann").with("note", "say \"hi\"").with("empty", "");
    host::log_with(host::Level::Warn, "late", who.with("eq", "a=b").with("path", "a\\b").with("paid", true).with("days", 2.5));
    Ok(())
}

fn answer(args: Json, _: &mut Call) -> Result<Answer> {
    if let Some(asked) = args.get("interrupt") {
        return Ok(Answer::ask(&asked.get("reason").and_then(|v| v.as_string()).unwrap_or_default(), asked.get("data")));
    }
    let list = |name| args.get(name).map_or_else(Vec::new, |v| v.items().collect::<Vec<_>>());
    let mut answer = Answer::new(args.get("content"));
    for operation in list("state") {
        answer = answer.patch(operation);
    }
    for part in list("media") {
        answer = answer.media(part);
    }
    for artifact in list("artifacts") {
        answer = answer.artifact(artifact);
    }
    for agent in list("schedule") {
        answer = answer.schedule(agent.as_string().unwrap_or_default());
    }
    Ok(answer)
}

arguments! {
    struct Failure {
        code: String,
        message: String,
        hint: Option<String>,
        retryable: Option<bool>,
    }
}

fn fail(args: Failure, _: &mut Call) -> Result<()> {
    let mut error = Error::new(Code::named(&args.code), args.message);
    error.hint = args.hint;
    error.retryable = args.retryable.unwrap_or(false);
    Err(error)
}

fn processed(view: &View) -> Object {
    let o = Object::new().with("processor", &view.processor).maybe("config", view.config.as_ref());
    o.with("scope", scope(&view.scope)).with("model", &view.model)
}

fn report(view: &mut View) -> Result<()> {
    let report = processed(view).with("messages", &view.messages).maybe("own_from", view.own_from);
    view.report(report);
    Ok(())
}

fn report_outline(view: &mut View, o: &Outline) -> Result<()> {
    let report = processed(view).with("outline", outline(o));
    view.report(report);
    Ok(())
}

fn again(view: &mut View) -> Result<()> {
    let messages: Vec<Message> = view.messages.clone();
    view.set_messages(messages);
    Ok(())
}

fn route(r: &Route) -> Result<Next> {
    let agents = r.agents.iter().map(|a| Object::new().with("name", &a.name).maybe("description", a.description.as_ref())).collect::<Vec<_>>();
    let last = r.last.as_ref().map(|l| {
        let o = Object::new().with("agent", &l.agent).maybe("messages", l.messages.as_ref());
        o.maybe("tool_results", l.tool_results.as_ref()).maybe("finish_reason", l.finish_reason.as_ref())
    });
    let o = Object::new().maybe("config", r.config.as_ref()).with("scope", scope(&r.scope)).maybe("input", r.input.as_ref());
    let o = o.with("call_count", r.call_count).with("stack", &r.stack).with("agents", agents).maybe("state", r.state.as_ref());
    let o = o.maybe("last", last).maybe("outline", r.outline.as_ref().map(outline));
    Ok(Next::end().because(o.json().text()))
}

fn provide(p: &Provide) -> Result<Provided> {
    let o = Object::new().maybe("config", p.config.as_ref()).with("scope", scope(&p.scope)).with("messages", &p.messages);
    Ok(Provided::instructions(o.json().text()))
}

fn observe(o: &Observe) -> Result<()> {
    host::log(host::Level::Info, &format!("{:?}", o.outcome));
    Ok(())
}

plugin! {
    Plugin::new("conformance", "1.0.0")
        .tool(Tool::new("vector", "Answers with its call.").parameters(json!({"type": "object"})), vector)
        .tool(Tool::new("integer", "Answers with its argument."), integer)
        .tool(Tool::new("host", "Asks the host for things."), ask_host)
        .tool(Tool::new("bytes", "Passes bytes to the host and gets them."), pass_bytes)
        .tool(Tool::new("carry", "Writes an artifact and reads it."), carry)
        .tool(Tool::new("log", "Writes to the log.").parameters(json!({"type": "object"})), log)
        .tool(Tool::new("answer", "Answers with its arguments, as a result.").parameters(json!({"type": "object"})), answer)
        .tool(Tool::new("fail", "Fails with its arguments."), fail)
        .processor(Processor::new("vector"), report)
        .outline_processor(Processor::new("outline"), report_outline)
        .processor(Processor::new("again"), again)
        .router(Router::new("vector"), route)
        .observing_provider(Provider::new("vector"), provide, observe)
}
