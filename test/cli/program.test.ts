import { execFile, spawn } from "node:child_process";
import { writeFile, open } from "node:fs/promises";
import { join } from "node:path";
import { PassThrough } from "node:stream";
import { WriteStream } from "node:tty";
import { promisify } from "node:util";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { formatRecord, formatTable } from "../../cli/output/formatTable.ts";
import { copyDatabase, createEmptyDatabase, testWithDatabase } from "../support/database.ts";
import { createTestOrganization } from "../support/factories.ts";
import { makeTestFolder } from "../support/makeTestFolder.ts";
import { buildTestProgram, impactOf, listCommands, runImpact } from "./runImpact.ts";

const test = testWithDatabase();

const program = await buildTestProgram();

for (const { line } of listCommands(program)) {
  test(`impact ${line.join(" ")} --help needs no service`, async (t) => {
    const run = await runImpact([...line, "--help"]);
    t.like(run, { exitCode: 0, stderr: "" });
    t.true(run.stdout.startsWith(`Usage: impact ${line.join(" ")}`));
  });
}

test("a command line loads its own command only, and none for the help of the program", async (t) => {
  for (const [args, loaded] of [
    ...program.commands
      .filter((command) => command.name() !== "completion")
      .map((command) => [["--json", command.name(), "help"], [command.name()]]),
    [["org", "--help"], ["org"]],
    [["--help"], []],
    [["frob"], []],
  ] as const) {
    const { commands } = await buildTestProgram(args);
    t.is(commands.length, program.commands.length);
    t.deepEqual(
      commands
        .filter((each) => each.commands.length + each.options.length > 0)
        .map((each) => each.name()),
      loaded,
    );
  }
});

test("impact help shows the help of a command, and of all with the exit codes", async (t) => {
  const { stdout: ofOne } = await runImpact(["help", "org"]);
  t.regex(ofOne, /^Usage: impact org /u);
  t.regex((await runImpact(["help", "usage", "retry"])).stdout, /^Usage: impact usage retry /u);
  const { stdout: ofAll } = await runImpact(["help"]);
  t.regex(ofAll, /Exit codes:\n {2}0 {2}success/u);
  t.true(program.commands.every((command) => ofAll.includes(`\n  ${command.name()} `)));
});

test("the help of a command marks its required options", async (t) => {
  const { stdout } = await runImpact(["statement", "--help"]);
  t.regex(stdout, /--org <organization> [^-]*\(required\)/u);
  t.notRegex(stdout, /--csv .*required/u);
});

test("every command prints JSON with --json, except those that stream or print nothing else", (t) => {
  const others = listCommands(program).filter(
    ({ command: { commands, options } }) =>
      commands.length === 0 && options.every(({ long }) => long !== "--json"),
  );
  const lines = others.map(({ line }) => line.join(" "));
  t.deepEqual(lines, ["store export-customer", "export", "webhook listen", "completion"]);
});

const execute = promisify(execFile);

for (const [line, words] of [
  ["impact us", ["usage"]],
  ["impact usage re", ["reconcile", "resume", "retry"]],
  ["impact usage retry --all --dr", ["--dry-run"]],
  ["impact org show 1 --js", ["--json"]],
  ["impact frob fro", []],
] as const) {
  test(`a shell completes ${line}`, async (t) => {
    const { stdout: script } = await runImpact(["completion", "bash"]);
    const typed = line.split(" ");
    const completing = `${script}
      COMP_WORDS=(${line}) COMP_CWORD=${typed.length - 1}
      _impact impact ${typed.at(-1)}
      printf '%s\\n' "\${COMPREPLY[@]}"`;
    const { stdout } = await execute("bash", ["-c", completing]);
    t.deepEqual(stdout.match(/\S+/gu)?.toSorted() ?? [], words);
  });
}

const ID = "0198c5de-7c1f-7b52-a3a1-3f1f9a0c9e11";

/** Command lines, in which ID is an id and LONG a text that is too long. */
const USAGE_ERRORS: readonly (readonly [line: string, message: RegExp])[] = [
  ["frob", /unknown command 'frob'/u],
  ["help frob", /unknown command 'frob'/u],
  ["find ' '", /Must be 1 to 1000 characters\./u],
  ["charity search ''", /Must be 1 to 1000 characters\./u],
  ["help usage frob", /unknown command 'frob'/u],
  ["org", /Usage: impact org/u],
  ["org shw", /Did you mean show/u],
  ["org create", /required option '--name <name>'/u],
  ["org create --name '  '", /1 to 1000 characters/u],
  ["org create --name LONG", /1 to 1000 characters/u],
  ["org create --name x --billing-day 32", /day of the month/u],
  ["org create --name x --billing-day 1.5", /day of the month/u],
  ["org create --name x --stripe-customer x", /cus_/u],
  ["org update ID", /Nothing to change/u],
  ["org update ID --fractional yes", /on or off/u],
  ["key issue --org ID", /--mode/u],
  ["key issue --org ID --mode prod", /live or test/u],
  ["key issue --org ID --mode live --name ' '", /1 to 100/u],
  ["key issue --org ID --mode live --scope all", /read, write/u],
  ["key issue --org ID --mode live --expires soon", /90d|3660d/u],
  ["key issue --org ID --mode live --expires 0d", /3660d/u],
  ["key list", /required option '--org <account>'/u],
  ["usage list --state lost", /pending, delivered, failed/u],
  ["usage list --limit 0", /1 to 100000/u],
  ["usage retry", /Name what to retry/u],
  ["usage retry 1 --all", /Name what to retry/u],
  ["usage retry --all --absent", /need the events/u],
  ["usage retry D1 --absent", /need the events/u],
  ["usage retry E1 --absent --delivered", /cannot be used with/u],
  ["usage frob", /unknown command 'frob'/u],
  ["usage close E1 --never-bill", /required option '--reason/u],
  ["usage close E1 --reason x", /Say how the usage is billed/u],
  ["usage list --period 2026-13", /a month in UTC/u],
  ["usage list --period 2026-02-01/2026-01-01", /a month in UTC/u],
  ["audit list --since yesterday", /a date/u],
  ["audit list --action keys", /Must be one of org\.create/u],
  ["statement --org ID --period 2026-13", /a month in UTC/u],
  ["export trees", /required option '--org <account>'/u],
  ["export whales --org ID", /Allowed choices are trees/u],
  ...["0", "-1", "1.5", "many", "1e3", "9007199254740992"].map(
    (limit) =>
      [
        `org update ID --count-per-day=${limit}`,
        /Must be a whole number from 1 to 9007199254740991\./u,
      ] as const,
  ),
  ["webhook recover ID x", /id of an event/u],
  ["webhook recover ID", /either the id of an event or --since/u],
  ["workflow list --status asleep", /Allowed choices/u],
  ["key revoke ID --reason ' '", /Must be 1 to 500 characters/u],
  ["import history /nonexistent --org ID", /cannot be read/u],
  ["import history / --org ID", /is a folder/u],
  ["audit list --since 0000-12-31", /Must be a date/u],
  ["audit list --until 9999-12-31T23:59:59-00:01", /Must be a date/u],
  ["evidence withdraw 0 --reason wrong", /whole number/u],
  ["webhook listen --forward-to ftp://x", /http/u],
  [
    "export trees --org ID --since 2025-06-02 --until 2025-06-02",
    /--since must be before --until/u,
  ],
  ["audit list --since 2025-06-02 --until 2025-06-02", /--since must be before --until/u],
  ["org create --name --json", /--name <name>' argument missing: --json is an option/u],
  [
    "webhook create --org ID --mode live --url --description=x",
    /--url <url>' argument missing: --description=x is an option/u,
  ],
];

/** Splits a command line at its spaces, apart from those in quotes. */
const wordsOf = (line: string): readonly string[] =>
  Array.from(line.matchAll(/'([^']*)'|\S+/gu), ([word, quoted]) => quoted ?? word).map((word) =>
    word === "ID" ? ID : word === "LONG" ? "x".repeat(1001) : word,
  );

for (const [line, message] of USAGE_ERRORS) {
  test(`impact ${line} is a usage error`, async (t) => {
    const run = await runImpact(wordsOf(line));
    t.like(run, { exitCode: 2, stdout: "" });
    t.regex(run.stderr, message);
  });
}

test("a service that does not run or respond, and a malformed setting, are reported in one sentence", async (t) => {
  const DATABASE_URL = await copyDatabase(t);
  for (const [line, exitCode, message, env = {}] of [
    ["org list", 4, /npm start/u],
    ["workflow list", 4, /npm start/u],
    ["migrate", 4, /npm start/u],
    [
      "workflow list",
      4,
      /Temporal does not respond/u,
      { DATABASE_URL, TEMPORAL_ADDRESS: "127.0.0.1:1" },
    ],
    ["org list", 2, /PORT must be a port number/u, { PORT: "http" }],
  ] as const) {
    const run = await runImpact(line.split(" "), { env });
    t.like(run, { exitCode, stdout: "" });
    t.regex(run.stderr, message);
  }
});

test("an unusable database is reported with its setting in one sentence without its password", async (t) => {
  const url = "postgres://impact:hunter2@127.0.0.1:1/impact";
  const other = new URL(t.context.databaseUrl);
  other.pathname = "/absent";
  const refused = /127\.0\.0\.1:1\/impact cannot be used: .*ECONNREFUSED/u;
  const absent = /absent cannot be used: .* does not exist/u;
  for (const [args, setting, value, reason] of [
    [["org", "list"], "DATABASE_URL", url, refused],
    [["migrate"], "DATABASE_URL", url, refused],
    [["org", "list"], "DATABASE_URL", other.href, absent],
    [["migrate"], "DATABASE_OWNER_URL", other.href, absent],
  ] as const) {
    const env = { DATABASE_URL: url, [setting]: value };
    const { exitCode, stderr } = await runImpact([...args], { env });
    t.is(exitCode, 4);
    t.regex(stderr, reason);
    t.true(stderr.endsWith(`. Check ${setting}.\n`), stderr);
    t.false(stderr.includes("hunter2"));
    t.false(stderr.includes("    at "));
  }
});

test("links start with PUBLIC_BASE_URL, or with the address on which the API listens", async (t) => {
  const { id } = await createTestOrganization(t.context.db);
  for (const [env, url] of [
    [{}, "http://127.0.0.1:8080"],
    [{ HOST: "0.0.0.0" }, "http://localhost:8080"],
    [{ HOST: "::", PORT: "9000" }, "http://localhost:9000"],
    [{ HOST: "0.0.0.0.example" }, "http://0.0.0.0.example:8080"],
    [{ HOST: "0.0.0.0", PUBLIC_BASE_URL: "https://x.example.org" }, "https://x.example.org"],
  ] as const) {
    const { stdout } = await impactOf(t, { env }).ok("org", "show", id);
    t.true(stdout.includes(` ${url}/dashboard/`), stdout);
  }
});

test("an empty database is rejected until it is migrated; migrating again changes nothing", async (t) => {
  const env = { DATABASE_URL: await createEmptyDatabase(t) };
  const impact = impactOf(t, { env });
  t.regex(await impact.fails(1, "org", "list"), /impact -- migrate/u);
  t.regex((await impact.ok("migrate")).stdout, /^0001_accounts\n/u);
  t.deepEqual(await impact.json("migrate"), { applied: [] });
  await impact.ok("org", "list");
});

test("a table aligns wide characters and escapes control characters", (t) => {
  const rows = [
    ["森林", 1000],
    ["\u001B[2Jowned\n\u202E", 7],
    [null, 12],
  ];
  t.deepEqual(formatTable(["name", "units"], rows, new PassThrough()).split("\n"), [
    "NAME                        UNITS",
    "森林                        1,000",
    "\\u001B[2Jowned\\u000A\\u202E      7",
    "-                              12",
    "",
  ]);
});

for (const [title, env, failed, late] of [
  ["colors states", {}, "\u001B[31mfailed\u001B[39m", "\u001B[33mlate\u001B[39m"],
  ["has no color if NO_COLOR is set", { NO_COLOR: "1" }, "failed", "late"],
] as const) {
  test(`a table on a terminal ${title}, and its columns stay aligned`, (t) => {
    // The runner's own terminal.
    delete process.env["FORCE_COLOR"];
    const terminal = Object.assign(new PassThrough(), {
      isTTY: true,
      getColorDepth: () => WriteStream.prototype.getColorDepth({ TERM: "xterm", ...env }),
    });
    const rows = [
      ["failed", "late usage"],
      ["late", "failed"],
    ];
    const table = `STATE   NAME\n${failed}  late usage\n${late}    ${failed}\n`;
    t.is(formatTable(["state", "name"], rows, terminal), table);
    t.is(formatRecord({ state: "failed" }, terminal), `state  ${failed}\n`);
  });
}

test("a table has as many rows as a list may have", (t) => {
  const rows = Array.from({ length: 300_000 }, (_row, index) => [index]);
  t.true(formatTable(["n"], rows, new PassThrough()).endsWith("299,999\n"));
});

test("a message shows what a terminal would obey, whatever it quotes", async (t) => {
  const path = "/nonexistent/\u001B]0;owned\u0007\u202E\u009B31m";
  const shown = "/nonexistent/\\u001B]0;owned\\u0007\\u202E\\u009B31m";
  for (const args of [
    ["import", "history", path, "--org", ID],
    ["org", path],
    ["key", "revoke", path, "--json"],
  ]) {
    const { stderr } = await runImpact(args);
    t.true(stderr.toLowerCase().includes(shown.toLowerCase()), stderr);
    t.notRegex(stderr.replaceAll("\n", ""), /[\p{Cc}\p{Bidi_Control}]/u);
  }
});

test("with --json an error is one line of JSON with the exit code", async (t) => {
  const unknown = await runImpact(["org", "list", "--json", "--frob"]);
  t.like(unknown, { exitCode: 2, stdout: "" });
  t.deepEqual(JSON.parse(unknown.stderr), { error: "unknown option '--frob'", exit_code: 2 });

  const unreachable = await runImpact(["org", "list", "--json"]);
  t.like(unreachable, { exitCode: 4, stdout: "" });
  t.regex(unreachable.stderr, /^\{"error":"DATABASE_URL is not set[^\n]*","exit_code":4\}\n$/u);
});

test("a damaged or unreadable run.json is reported in one sentence with its path", async (t) => {
  const folder = await makeTestFolder(t);
  const path = join(folder, "run.json");
  for (const content of ["", "{", "null", '{"pid":"1"}', "\0\u001B[2J"]) {
    await writeFile(path, content);
    const stderr = `impact: ${path} is damaged. Restart \`npm start\`, which writes it again.\n`;
    const run = await runImpact(["org", "list"], { env: { DATA_DIR: folder } });
    t.like(run, { exitCode: 4, stderr });
  }
  const { exitCode, stderr } = await runImpact(["org", "list"], { env: { DATA_DIR: path } });
  t.is(exitCode, 4);
  t.regex(stderr, /^impact: \S+run\.json\/run\.json cannot be read: ENOTDIR[^\n]*\n$/u);
});

test("a terminal is asked for the API key, and a pipe is not", async (t) => {
  const listen = ["webhook", "listen", "--forward-to", "http://127.0.0.1:9/", "--url", "https://x"];
  const asked = /^Type the API key, then press Enter\.$/mu;
  t.regex((await runImpact(listen, { isTerminal: true })).stderr, asked);
  t.notRegex((await runImpact(listen)).stderr, asked);
});

test("a value that begins with dashes and is no option is accepted", async (t) => {
  const { stderr } = await runImpact(["org", "create", "--name", "-- the shop --"]);
  t.notRegex(stderr, /argument missing/u);
});

const LAUNCHER = fileURLToPath(new URL("../../cli/impact.js", import.meta.url));

test("the launcher runs the program and returns its exit code", async (t) => {
  const { stdout } = await execute(process.execPath, [LAUNCHER, "--version"]);
  t.regex(stdout, /^\d+\.\d+\.\d+(-rc\.\d+)?\n$/u);
  await t.throwsAsync(execute(process.execPath, [LAUNCHER, "frob"]), { code: 2 });
});

test("a closed output pipe is not an error", async (t) => {
  const child = execFile(process.execPath, [LAUNCHER, "--help"]);
  child.stdout?.destroy();
  const [errors, [exitCode]] = await Promise.all([
    child.stderr?.setEncoding("utf8").toArray(),
    once(child, "exit"),
  ]);
  t.deepEqual(errors, []);
  t.is(exitCode, 0);
});

test("output that cannot be written is reported in one sentence", async (t) => {
  const full = await open("/dev/full", "w");
  t.teardown(() => full.close());
  for (const [args, message] of [
    [["--help"], /^impact: The output cannot be written: ENOSPC[^\n]*\n$/u],
    [
      ["org", "list", "--help", "--json"],
      /^\{"error":"The output cannot be written: ENOSPC[^\n]*","exit_code":1\}\n$/u,
    ],
  ] as const) {
    const stdio = ["ignore", full.fd, "pipe"] as const;
    const child = spawn(process.execPath, [LAUNCHER, ...args], { stdio: [...stdio] });
    const [errors, [exitCode]] = await Promise.all([
      child.stderr?.setEncoding("utf8").toArray(),
      once(child, "exit"),
    ]);
    t.is(exitCode, 1);
    t.regex(errors?.join("") ?? "", message);
  }
});
