import { CommanderError } from "@commander-js/extra-typings";
import type { CommandUnknownOpts } from "@commander-js/extra-typings";
import { buildProgram } from "./buildProgram.ts";
import { createCli } from "./command.ts";
import type { Services } from "./command.ts";
import { describeError, EXIT, exitCodeOf } from "./exitCodes.ts";
import type { Streams } from "./output/print.ts";

/** Returns whether a command line asks for JSON, also one that cannot be parsed. */
export const asksForJson = (args: readonly string[]): boolean => {
  const end = args.indexOf("--");
  return (end === -1 ? args : args.slice(0, end)).includes("--json");
};

/** Shows the help of a command, such as that of `usage retry`. Commander's own `help` reads the first word only. */
const showHelp = (program: CommandUnknownOpts, words: readonly string[]): never => {
  let command: CommandUnknownOpts = program;
  for (const word of words) {
    command =
      command.commands.find((each) => each.name() === word || each.aliases().includes(word)) ??
      command.error(`error: unknown command '${word}'`);
  }
  return command.help();
};

/** Runs a command line, and returns the exit code. Errors are reported on stderr, as JSON if it has `--json`. */
export const runCli = async (
  args: readonly string[],
  streams: Streams,
  services: Services,
): Promise<number> => {
  const json = asksForJson(args);
  const cli = createCli({ ...streams, json }, services);
  try {
    const [first, ...others] = args;
    const isHelp = first === "help";
    const program = await buildProgram(cli, isHelp ? others : args);
    if (isHelp) {
      showHelp(
        program,
        others.filter((word) => !word.startsWith("-")),
      );
    }
    await program.parseAsync(args, { from: "user" });
    return EXIT.ok;
  } catch (error) {
    if (error instanceof CommanderError) {
      // Help and version end this way too.
      if (error.exitCode === 0) {
        return EXIT.ok;
      }
      if (json) {
        cli.sayError(error.message.replace(/^error: /u, ""), EXIT.usage);
      }
      return EXIT.usage;
    }
    const exitCode = exitCodeOf(error);
    cli.sayError(describeError(error), exitCode);
    return exitCode;
  } finally {
    await services.connections.close();
  }
};
