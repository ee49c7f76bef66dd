import { Readable, Writable } from "node:stream";
import type { ExecutionContext } from "ava";
import type { CommandUnknownOpts } from "@commander-js/extra-typings";
import { parseConfig } from "../../runtime/config/config.ts";
import { buildProgram } from "../../cli/buildProgram.ts";
import { createCli } from "../../cli/command.ts";
import { createConnections } from "../../cli/connections.ts";
import { runCli } from "../../cli/runCli.ts";
import type { Clock } from "../../runtime/clock.ts";
import { systemClock } from "../../runtime/clock.ts";
import { TEMPORAL_ADDRESS } from "../support/programs.ts";

export type Run = {
  readonly exitCode: number;
  readonly stdout: string;
  readonly stderr: string;
};

const collect = (): { readonly stream: Writable; readonly text: () => string } => {
  const chunks: string[] = [];
  const stream = new Writable({
    write: (chunk: Buffer, _encoding, done) => {
      chunks.push(chunk.toString());
      done();
    },
  });
  return { stream, text: () => chunks.join("") };
};

/** Runs the program in this process, with the run's Temporal and a data folder in which no `npm start` runs. */
export const runImpact = async (
  args: readonly string[],
  {
    env = {},
    stdin = "",
    clock = systemClock,
    isTerminal = false,
  }: {
    readonly env?: Readonly<Record<string, string>>;
    readonly stdin?: string | Buffer;
    readonly clock?: Clock;
    readonly isTerminal?: boolean;
  } = {},
): Promise<Run> => {
  const stdout = collect();
  const stderr = collect();
  const streams = {
    stdin: Object.assign(Readable.from([Buffer.from(stdin)]), { isTTY: isTerminal }),
    stdout: Object.assign(stdout.stream, { isTTY: isTerminal }),
    stderr: Object.assign(stderr.stream, { isTTY: isTerminal }),
  };
  const connections = createConnections(() =>
    parseConfig({ DATA_DIR: "/nonexistent/impact-data", TEMPORAL_ADDRESS, ...env }),
  );
  const exitCode = await runCli(args, streams, { connections, clock });
  return { exitCode, stdout: stdout.text(), stderr: stderr.text() };
};

/** Builds the program, of which no command runs. */
export const buildTestProgram = (args?: readonly string[]) => {
  const { stdin, stdout, stderr } = process;
  const connections = createConnections(() => parseConfig({}));
  const io = { stdin, stdout, stderr, json: false };
  return buildProgram(createCli(io, { connections, clock: systemClock }), args);
};

/** Returns the commands of a program, including groups, with their words. */
export const listCommands = (
  { commands }: CommandUnknownOpts,
  before: readonly string[] = [],
): readonly { readonly command: CommandUnknownOpts; readonly line: readonly string[] }[] =>
  commands.flatMap((command) => {
    const line = [...before, command.name()];
    return [{ command, line }, ...listCommands(command, line)];
  });

export const readJson = ({ stdout }: Run): unknown => JSON.parse(stdout);

/** Returns what runs commands that begin with these words, with the test's database. */
export const impactOf = (
  t: ExecutionContext<{ readonly databaseUrl: string }>,
  { env, ...options }: Parameters<typeof runImpact>[1] = {},
  ...words: readonly string[]
) => {
  const settings = { ...options, env: { DATABASE_URL: t.context.databaseUrl, ...env } };
  const run = (...args: readonly string[]): Promise<Run> =>
    runImpact([...words, ...args], settings);
  const exits = async (exitCode: number, args: readonly string[]): Promise<Run> => {
    const done = await run(...args);
    t.is(done.exitCode, exitCode, `${[...words, ...args].join(" ")}: ${done.stderr}`);
    return done;
  };
  return Object.assign(run, {
    ok: (...args: readonly string[]): Promise<Run> => exits(0, args),
    json: async (...args: readonly string[]): Promise<unknown> =>
      readJson(await exits(0, [...args, "--json"])),
    /** Returns the message of a command that fails. */
    fails: async (exitCode: number, ...args: readonly string[]): Promise<string> =>
      (await exits(exitCode, args)).stderr,
  });
};
