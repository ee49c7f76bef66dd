import { CommanderError } from "@commander-js/extra-typings";
import type { CommandUnknownOpts } from "@commander-js/extra-typings";
import { buildProgram } from "./buildProgram.ts";
import type { CliContext } from "./context.ts";
import { describeError, EXIT, exitCodeOf } from "./exitCodes.ts";
import { sayError } from "./io.ts";
import type { Streams } from "./io.ts";

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
  { io: streams, ...services }: Omit<CliContext, "io"> & { readonly io: Streams },
): Promise<number> => {
  const io = { ...streams, json: asksForJson(args) };
  try {
    const [first, ...others] = args;
    const isHelp = first === "help";
    const program = await buildProgram({ ...services, io }, isHelp ? others : args);
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
      if (io.json) {
        const message = error.message.replace(/^error: /u, "");
        sayError(io, { message, exitCode: EXIT.usage });
      }
      return EXIT.usage;
    }
    const exitCode = exitCodeOf(error);
    sayError(io, { message: describeError(error), exitCode });
    return exitCode;
  } finally {
    await services.connections.close();
  }
};
