use super::*;

fn parse(line: &str) -> Result<Command, ErrorKind> {
    let words = std::iter::once("cargo sim").chain(line.split_whitespace());
    Cli::try_parse_from(words).map(|cli| cli.command).map_err(|error| error.kind())
}

fn asked(line: &str) -> Request {
    let Ok(Command::Run(arguments)) = parse(line) else { panic!("{line} is not a run") };
    request(arguments).unwrap()
}

fn check_line(line: &str, reproduced: &str) {
    let request = asked(line);
    assert_eq!(request.command(request.extent), reproduced);
    let words = reproduced.strip_prefix("cargo sim ").unwrap();
    let again = asked(words);
    assert_eq!(again.command(again.extent), reproduced, "it reproduces itself");
}

fn check_flow(text: &str, words: &str) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("flow.json");
    std::fs::write(&path, text).unwrap();
    let error = load_flow(&path).unwrap_err();
    let reason = error.strip_prefix(&path.display().to_string()).unwrap();
    assert!(reason.starts_with(':') && reason.contains(words), "{error}");
}

#[test]
fn the_grammar_is_sound() {
    Cli::command().debug_assert();
}

#[test]
fn every_run_is_reproduced_by_its_line() {
    check_line("run", "cargo sim run --seeds 0..1000 --lane model --profile quick");
    check_line(
        "run --jobs 3 --seeds 5..9 --shard 2/3 --lane sqlite --profile swarm --twice",
        "cargo sim run --seeds 5..9 --lane sqlite --profile swarm --shard 2/3 --twice",
    );
    check_line(
        "run --budget 60s --engine published --mutant P05",
        "cargo sim run --budget 60s --lane model --profile quick --engine published \
         --mutant P05",
    );
}

#[test]
fn what_does_not_exist_is_refused() {
    for line in ["run --lane moon", "run --profile x", "run --engine x"] {
        assert_eq!(parse(line).unwrap_err(), ErrorKind::InvalidValue, "{line}");
    }
    assert_eq!(parse("run --mutant P99").unwrap_err(), ErrorKind::ValueValidation);
    assert_eq!(parse("run --moon").unwrap_err(), ErrorKind::UnknownArgument);
    assert_eq!(parse("walk").unwrap_err(), ErrorKind::InvalidSubcommand);
    assert_eq!(parse("run --seeds 9..1").unwrap_err(), ErrorKind::ValueValidation);
    assert_eq!(parse("run --seeds 0..1 --budget 1s").unwrap_err(), ErrorKind::ArgumentConflict);
}

#[test]
fn a_broken_flow_is_refused_with_its_line() {
    check_flow("{\n  \"executions\": [\n", ":3:1: EOF");
    check_flow("{\n  \"executions\": 7\n}", ":2:17: ");
    check_flow("", ":1:1: EOF");
    check_flow("null", ":1:1: a flow is a JSON object, in braces; this is null");
}

#[test]
fn an_invalid_flow_is_refused_with_the_offenders_by_name() {
    let flow = |executions: &str, rest: &str| {
        let executions = executions.split(' ').map(|name| format!("{{\"name\": \"{name}\"}}"));
        let executions = executions.collect::<Vec<_>>().join(", ");
        format!("{{\"executions\": [{executions}]{rest}}}")
    };
    let edges = |edges: &str| {
        let edges = edges.split(' ').map(|edge| {
            let (from, to) = edge.split_at(1);
            format!("{{\"from\": \"{from}\", \"to\": \"{to}\"}}")
        });
        format!(", \"edges\": [{}]", edges.collect::<Vec<_>>().join(", "))
    };
    check_flow(&flow("a b", &edges("ab ba")), "cycle a -> b -> a");
    check_flow(&flow("a", &edges("ax")), "`x`, which is not an execution");
    check_flow(&flow("a a", ""), "`a` is listed 2 times");
    let quorum = r#", "groups": {"b": {"join": "quorum", "k": 3}}"#;
    let out_of_range = format!("{}{quorum}", edges("ab"));
    check_flow(&flow("a b", &out_of_range), "`b` needs 3 of its inbound edges");
}

#[test]
fn a_flow_gets_a_key_and_short_delays_only_where_it_has_none() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("flow.json");
    let text = r#"{"executions": [{"name": "a"}, {"name": "b", "retry": {"max_attempts": 9}}]}"#;
    std::fs::write(&path, text).unwrap();
    let flow = load_flow(&path).unwrap();
    assert_eq!(flow.idempotency_key.as_deref(), Some(FLOW_KEY));
    assert_eq!(flow.executions[0].retry, short_retries(4));
    assert_eq!(flow.executions[1].retry.max_attempts, 9);
    assert_ne!(flow.executions[1].retry, short_retries(9));
}
